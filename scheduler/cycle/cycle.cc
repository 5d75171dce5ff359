#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/strings.h"
#include "scheduler/cache/queues.h"
#include "scheduler/cycle/assign.h"
#include "scheduler/cycle/explain.h"
#include "scheduler/cycle/gang.h"
#include "scheduler/cycle/snapshot.h"
#include "scheduler/cycle/victims.h"
#include "scheduler/state.h"

// One decision: the reference's cycle (one head per queue, nominated together, processed in order
// under the ledger) repeated until nothing more fits. Refusals stay refused within a decision,
// because usage only grows in it.
namespace muster::scheduler {
namespace {

using quota::Mode;
using Usage = std::vector<std::pair<quota::Row, Amount>>;

// What is known of one cohort tree while a decision is made.
struct TreeRun {
  bool listed = false;  // `candidates` has been filled
  Candidates candidates;
};

// A claim of the snapshot, booked in the ledger as if its victims had gone.
struct ClaimRun {
  const Claim* claim = nullptr;
  std::size_t tree = 0;
  quota::NodeIndex node{0};
  Usage usage;
  std::vector<std::pair<quota::NodeIndex, Usage>> victims;  // those that are still there
  bool standing = true;
  bool fresh = false;  // made by this decision
};

struct QueueRun {
  const PendingQueueView* view = nullptr;
  const CompiledQueue* queue = nullptr;
  quota::Tree* tree = nullptr;
  quota::NodeIndex node{0};
  std::vector<std::size_t> cursor;  // per class
  std::vector<std::size_t> heap;    // classes that have an item to offer, the first in order on top
  std::vector<std::int32_t> undecided;
  // Wanted by a Workload of this queue out of its nominal quota, and how much of that is booked in
  // the ledger against borrowers.
  Usage wanted;
  // Held for the rest of this inner cycle only; it does not touch what `wanted` is entitled to.
  Usage passing;
  Usage booked;
  std::string held_for;

  [[nodiscard]] const std::shared_ptr<const PendingItem>& Item(std::size_t index) const {
    return view->classes[index].items[cursor[index]];
  }
  [[nodiscard]] auto Later() const {
    return [this](std::size_t a, std::size_t b) { return Item(b)->Before(*Item(a)); };
  }
  void Offer(std::size_t index) {
    if (cursor[index] < view->classes[index].items.size()) {
      heap.push_back(index);
      std::push_heap(heap.begin(), heap.end(), Later());
    }
  }
  std::size_t Take() {
    std::pop_heap(heap.begin(), heap.end(), Later());
    const std::size_t index = heap.back();
    heap.pop_back();
    return index;
  }
};

struct Entry {
  std::size_t run = 0;
  std::size_t index = 0;  // class in the queue
  std::shared_ptr<const PendingItem> item;
  std::vector<std::int32_t> counts;
  Assignment assignment;
  bool overrules = false;  // claims that borrow give way to it
};

enum class Outcome : std::uint8_t {
  kAdmitted,
  kRefused,
  kSkipped,
  kPreempting,  // refused until its victims have gone
};

class Cycle {
 public:
  Cycle(const Snapshot& snapshot, const Budget& budget)
      : s_(snapshot),
        budget_(budget),
        ledger_(snapshot.ledger),
        trees_(snapshot.ledger.tree_count()) {
    fair_.final_share_first = s_.options->fair_final_share_first;
    fair_.initial_share_second = s_.options->fair_initial_share_second;
    BookClaims();
    plan_.snapshot_generation = s_.generation;
    plan_.refusals = s_.standing;
    if (s_.inventory != nullptr) {
      trial_.emplace(s_.inventory);
    }
    for (const PendingQueueView& view : s_.pending) {
      if (!view.queue->place) {
        continue;
      }
      QueueRun run;
      run.view = &view;
      run.queue = view.queue.get();
      run.tree = &ledger_.tree(view.queue->place->tree);
      run.node = view.queue->place->node;
      run.cursor.assign(view.classes.size(), 0);
      for (const auto& [row, amount] : view.held) {
        if (const auto found = run.tree->FindRow(row.flavor, row.resource)) {
          run.wanted.emplace_back(*found, amount);
        }
      }
      run.held_for = view.held_for;
      runs_.push_back(std::move(run));
    }
    for (QueueRun& run : runs_) {
      for (std::size_t i = 0; i < run.view->classes.size(); ++i) {
        run.Offer(i);
      }
      Book(run);
    }
  }

  Plan Run() {
    while (true) {
      std::vector<Entry> heads;
      for (std::size_t r = 0; r < runs_.size(); ++r) {
        if (!runs_[r].heap.empty()) {
          const std::size_t index = runs_[r].Take();
          heads.push_back(Entry{.run = r,
                                .index = index,
                                .item = runs_[r].Item(index),
                                .counts = {},
                                .assignment = {},
                                .overrules = false});
        }
      }
      if (heads.empty() || plan_.steps > budget_.total_steps) {
        break;
      }
      for (Entry& head : heads) {
        Nominate(head);
      }
      if (s_.options->fair_sharing) {
        ProcessFairly(heads);
      } else {
        std::sort(heads.begin(), heads.end(), [](const Entry& a, const Entry& b) {
          return a.assignment.level != b.assignment.level ? a.assignment.level < b.assignment.level
                                                          : a.item->Before(*b.item);
        });
        for (Entry& head : heads) {
          Process(head);
        }
      }
      for (const std::size_t run : passing_) {
        Charge(runs_[run], std::exchange(runs_[run].passing, {}), -1);
      }
      passing_.clear();
    }
    PinNodes();
    return std::move(plan_);
  }

 private:
  static void Charge(QueueRun& run, const Usage& usage, int sign) {
    for (const auto& [row, amount] : usage) {
      if (sign > 0) {
        run.tree->Add(run.node, row, amount);
      } else {
        run.tree->Remove(run.node, row, amount);
      }
    }
  }

  // held = max(0, min(wanted, nominal - usage)), row by row: the entitlement, never more.
  static void Book(QueueRun& run) {
    for (const auto& [row, amount] : run.wanted) {
      Amount entitled = run.tree->limits(run.node, row).nominal - run.tree->usage(run.node, row);
      for (const auto& [passing_row, passing] : run.passing) {
        if (passing_row == row) {
          entitled += passing;
        }
      }
      const Amount held = std::min(amount, entitled).AtLeastZero();
      if (held > Amount(0)) {
        run.booked.emplace_back(row, held);
      }
    }
    Charge(run, run.booked, +1);
  }
  static void Unbook(QueueRun& run) {
    Charge(run, run.booked, -1);
    run.booked.clear();
  }

  [[nodiscard]] Assignment AssignTo(const QueueRun& run,
                                    const PendingItem& item,
                                    const std::vector<std::int32_t>& counts,
                                    const Exclusions* excluded) {
    ++plan_.steps;
    const AssignInput input{
        .queue = run.queue,
        .tree = run.tree,
        .shape = item.shape.get(),
        .counts = counts,
        .totals = Totals(*item.shape, counts, *s_.charged_claims, charged_claims_),
        .excluded = excluded,
        .ignore_undeclared = s_.options->ignore_undeclared_resources,
        .fair_sharing = s_.options->fair_sharing,
        .oracle = nullptr};
    const api::ClusterQueuePreemption& policy = run.queue->spec->preemption;
    if (policy.within_cluster_queue == api::PreemptionPolicy::kNever &&
        policy.reclaim_within_cohort == api::PreemptionPolicy::kNever) {
      return Assign(input);
    }
    const Oracle oracle = [&](const Usage& request, const std::vector<quota::Row>& short_rows) {
      return Foresee(run, item, request, short_rows);
    };
    AssignInput asked = input;
    asked.oracle = &oracle;
    return Assign(asked);
  }

  // --- preemption ---

  [[nodiscard]] Usage RowsOf(const quota::Tree& tree,
                             const std::vector<std::pair<quota::FlavorResource, Amount>>& usage) {
    Usage out;
    for (const auto& [name, amount] : usage) {
      if (const auto row = tree.FindRow(name.flavor, name.resource)) {
        out.emplace_back(*row, amount);
      }
    }
    return out;
  }

  void BookClaims() {
    if (s_.claims.empty()) {
      return;
    }
    std::map<api::ObjectKey, std::pair<const RunningWorkload*, const std::string*>> running;
    for (const auto& [queue, list] : s_.running) {
      for (const auto& workload : *list) {
        running.emplace(workload->ref.key, std::pair(workload.get(), &queue));
      }
    }
    for (const auto& claim : s_.claims) {
      const quota::QueuePlace* place = ledger_.Find(claim->queue);
      if (place == nullptr) {
        continue;
      }
      quota::Tree& tree = ledger_.tree(place->tree);
      ClaimRun run{.claim = claim.get(),
                   .tree = place->tree,
                   .node = place->node,
                   .usage = RowsOf(tree, claim->usage),
                   .victims = {},
                   .standing = true,
                   .fresh = false};
      for (const api::ObjectKey& key : claim->victims) {
        const auto victim = running.find(key);
        if (victim == running.end() || !expected_to_go_.insert(key).second) {
          continue;
        }
        const quota::QueuePlace* theirs = ledger_.Find(*victim->second.second);
        if (theirs != nullptr && theirs->tree == place->tree) {
          run.victims.emplace_back(theirs->node, RowsOf(tree, victim->second.first->usage));
        }
      }
      claims_.push_back(std::move(run));
      Settle(claims_.back(), +1);
    }
    diverged_ = true;
  }
  // Books (+1) a claim and the departure of its victims, or takes both back (-1).
  void Settle(ClaimRun& run, int sign) {
    quota::Tree& tree = ledger_.tree(run.tree);
    const auto add = [&](quota::NodeIndex node, const Usage& usage, bool more) {
      for (const auto& [row, amount] : usage) {
        if (more) {
          tree.Add(node, row, amount);
        } else {
          tree.Remove(node, row, amount);
        }
      }
    };
    if (sign < 0) {
      add(run.node, run.usage, false);
    }
    for (const auto& [node, usage] : run.victims) {
      add(node, usage, sign < 0);
    }
    if (sign > 0) {
      add(run.node, run.usage, true);
    }
  }

  // Claims of a queue give way to the Workload itself and to those that stand before it in the
  // queue.
  std::vector<ClaimRun*> Suspend(const QueueRun& run, const PendingItem& item) {
    std::vector<ClaimRun*> out;
    for (ClaimRun& claim : claims_) {
      if (!claim.standing || claim.fresh || claim.tree != run.queue->place->tree ||
          claim.node != run.node) {
        continue;
      }
      const PendingItem holder{.ref = claim.claim->preemptor,
                               .workload = nullptr,
                               .shape = nullptr,
                               .priority = claim.claim->priority,
                               .order_time = claim.claim->order_time,
                               .local_queue = {}};
      if (claim.claim->preemptor.key == item.ref.key || item.Before(holder)) {
        Settle(claim, -1);
        Expect(claim, false);
        out.push_back(&claim);
      }
    }
    return out;
  }
  // Claims of other queues in the tree that borrow: what they borrow is owed to whoever asks for no
  // more than its own.
  void SuspendBorrowers(const QueueRun& run, std::vector<ClaimRun*>& out) {
    for (ClaimRun& claim : claims_) {
      if (!claim.standing || claim.fresh || claim.tree != run.queue->place->tree ||
          claim.node == run.node || std::find(out.begin(), out.end(), &claim) != out.end()) {
        continue;
      }
      const bool borrows =
          std::any_of(claim.usage.begin(), claim.usage.end(), [&](const auto& use) {
            return run.tree->BorrowingWith(claim.node, use.first, Amount(0));
          });
      if (borrows) {
        Settle(claim, -1);
        Expect(claim, false);
        out.push_back(&claim);
      }
    }
  }
  void Resume(const std::vector<ClaimRun*>& claims) {
    for (auto it = claims.rbegin(); it != claims.rend(); ++it) {
      Settle(**it, +1);
      Expect(**it, true);
    }
  }
  // Victims of a claim are nobody else's, and a claim that gives way is no candidate itself.
  void Expect(const ClaimRun& run, bool standing) {
    TreeRun& tree = trees_[run.tree];
    if (!tree.listed) {
      for (const api::ObjectKey& key : run.claim->victims) {
        if (standing) {
          expected_to_go_.insert(key);
        } else {
          expected_to_go_.erase(key);
        }
      }
      suspended_[&run] = !standing;
      return;
    }
    suspended_[&run] = !standing;
    for (std::vector<Candidate>& list : tree.candidates) {
      for (Candidate& candidate : list) {
        if (candidate.running == nullptr ? candidate.ref.key == run.claim->preemptor.key
                                         : run.claim->victims.contains(candidate.ref.key)) {
          candidate.taken = candidate.running == nullptr ? !standing : standing;
        }
      }
    }
  }

  Candidates& CandidatesOf(std::size_t index) {
    TreeRun& run = trees_[index];
    if (run.listed) {
      return run.candidates;
    }
    run.listed = true;
    const quota::Tree& tree = ledger_.tree(index);
    run.candidates.resize(tree.node_count());
    for (std::size_t i = 0; i < tree.node_count(); ++i) {
      const auto node = static_cast<quota::NodeIndex>(i);
      const auto list = tree.is_queue(node) ? s_.running.find(tree.name(node)) : s_.running.end();
      if (list == s_.running.end()) {
        continue;
      }
      for (const auto& workload : *list->second) {
        run.candidates[i].push_back(
            Candidate{.ref = workload->ref,
                      .queue = node,
                      .priority = workload->priority,
                      .order_time = workload->order_time,
                      .reserved_at = workload->reserved_at,
                      .evicted = workload->evicted,
                      .usage = RowsOf(tree, workload->usage),
                      .running = workload.get(),
                      .taken = expected_to_go_.contains(workload->ref.key)});
      }
    }
    for (const ClaimRun& claim : claims_) {
      if (claim.tree == index && claim.standing && !claim.fresh) {
        const auto suspended = suspended_.find(&claim);
        run.candidates[static_cast<std::size_t>(claim.node)].push_back(
            Candidate{.ref = claim.claim->preemptor,
                      .queue = claim.node,
                      .priority = claim.claim->priority,
                      .order_time = claim.claim->order_time,
                      .reserved_at = {},
                      .evicted = true,
                      .usage = claim.usage,
                      .running = nullptr,
                      .taken = suspended != suspended_.end() && suspended->second});
      }
    }
    return run.candidates;
  }

  VictimSearch Search(const QueueRun& run,
                      const PendingItem& item,
                      Usage request,
                      std::vector<quota::Row> short_rows) {
    const std::size_t tree = run.queue->place->tree;
    fair_.shares = tree < s_.shares.size() ? s_.shares[tree].get() : nullptr;
    plan_.steps += 1;
    const auto in_vain = s_.waited_for.find(item.ref.key);
    return VictimSearch{
        .tree = run.tree,
        .queue = run.node,
        .policy = &run.queue->spec->preemption,
        .priority = item.priority,
        .order_time = item.order_time,
        .request = std::move(request),
        .short_rows = std::move(short_rows),
        .candidates = &CandidatesOf(tree),
        .in_vain = in_vain == s_.waited_for.end() ? nullptr : &in_vain->second,
        .fair = s_.options->fair_sharing && fair_.shares != nullptr ? &fair_ : nullptr,
        .places = {}};
  }

  // What the flavor assigner asks: is there anybody, and at which level would it borrow then?
  std::vector<quota::Fit> Foresee(const QueueRun& run,
                                  const PendingItem& item,
                                  const Usage& request,
                                  const std::vector<quota::Row>& short_rows) {
    const std::vector<Victim> victims = FindVictims(Search(run, item, request, short_rows));
    const bool own = std::any_of(victims.begin(), victims.end(), [&](const Victim& victim) {
      return victim.candidate->queue == run.node;
    });
    Mode mode = Mode::kNoCandidates;
    if (!victims.empty()) {
      mode = own ? Mode::kPreempt : Mode::kReclaim;
    }
    for (const Victim& victim : victims) {
      Move(*run.tree, *victim.candidate, -1);
    }
    std::vector<quota::Fit> out;
    for (const quota::Row row : short_rows) {
      const auto asked = std::find_if(
          request.begin(), request.end(), [&](const auto& entry) { return entry.first == row; });
      out.push_back(
          quota::Fit{.mode = mode, .level = run.tree->LevelOf(run.node, row, asked->second).level});
    }
    for (const Victim& victim : victims) {
      Move(*run.tree, *victim.candidate, +1);
    }
    return out;
  }
  static void Move(quota::Tree& tree, const Candidate& candidate, int sign) {
    for (const auto& [row, amount] : candidate.usage) {
      if (sign > 0) {
        tree.Add(candidate.queue, row, amount);
      } else {
        tree.Remove(candidate.queue, row, amount);
      }
    }
  }

  // Rows of which the assignment takes more than there is.
  static std::vector<quota::Row> ShortRows(const QueueRun& run, const Assignment& assignment) {
    std::set<quota::Row> out;
    for (const PodSetAssignment& pod_set : assignment.pod_sets) {
      for (const auto& [resource, choice] : pod_set.choices) {
        if (choice.fit.mode == Mode::kFit) {
          continue;
        }
        const CompiledGroup& group = run.queue->groups[choice.group];
        const auto covered = static_cast<std::size_t>(
            std::find(group.covered.begin(), group.covered.end(), resource) -
            group.covered.begin());
        out.insert(group.flavors[choice.flavor].rows[covered]);
      }
    }
    return {out.begin(), out.end()};
  }

  [[nodiscard]] static bool MayPreempt(const Assignment& assignment) {
    return assignment.mode == Mode::kPreempt || assignment.mode == Mode::kReclaim;
  }
  [[nodiscard]] bool HasVictims(const QueueRun& run,
                                const PendingItem& item,
                                const Assignment& assignment) {
    return MayPreempt(assignment) &&
           !FindVictims(Search(run, item, assignment.usage, ShortRows(run, assignment))).empty();
  }

  static std::vector<std::int32_t> FullCounts(const Shape& shape) {
    std::vector<std::int32_t> out;
    for (const PodSetShape& pod_set : shape.pod_sets) {
      out.push_back(pod_set.count);
    }
    return out;
  }

  // Partial admission. With delta_j = count_j - min_j and T their sum, step i in [0, T] asks for
  // count_j - floor(delta_j * i / T). The smallest step that `fits` is found by bisection; the
  // answer is used only if it was itself seen to fit.
  template <typename Try>
  static bool SearchCounts(const Shape& shape, std::vector<std::int32_t>& counts, const Try& fits) {
    std::vector<std::int64_t> delta;
    std::int64_t total = 0;
    for (const PodSetShape& pod_set : shape.pod_sets) {
      delta.push_back(pod_set.min_count ? pod_set.count - *pod_set.min_count : 0);
      total += delta.back();
    }
    if (total == 0) {
      return false;
    }
    const auto at = [&](std::int64_t step) {
      std::vector<std::int32_t> out;
      for (std::size_t j = 0; j < delta.size(); ++j) {
        const auto less = static_cast<std::int64_t>(static_cast<__int128>(delta[j]) * step / total);
        out.push_back(shape.pod_sets[j].count - static_cast<std::int32_t>(less));
      }
      return out;
    };
    std::int64_t low = 0;
    std::int64_t high = total + 1;
    std::int64_t seen = -1;
    while (low < high) {
      const std::int64_t middle = low + ((high - low) / 2);
      if (fits(at(middle))) {
        seen = middle;
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    if (seen < 0 || seen != low) {
      return false;
    }
    counts = at(seen);
    return true;
  }

  void Nominate(Entry& entry) {
    QueueRun& run = runs_[entry.run];
    Unbook(run);
    std::vector<ClaimRun*> suspended = Suspend(run, *entry.item);
    entry.counts = FullCounts(*entry.item->shape);
    entry.assignment = AssignTo(run, *entry.item, entry.counts, nullptr);
    if (entry.assignment.mode != Mode::kFit && !claims_.empty()) {
      std::vector<ClaimRun*> more = suspended;
      SuspendBorrowers(run, more);
      Assignment owed = AssignTo(run, *entry.item, entry.counts, nullptr);
      if (owed.mode == Mode::kFit && owed.level == 0) {
        entry.assignment = std::move(owed);
        entry.overrules = true;
      }
      Resume({more.begin() + std::ssize(suspended), more.end()});
    }
    if (entry.assignment.mode != Mode::kFit && !HasVictims(run, *entry.item, entry.assignment)) {
      std::vector<std::int32_t> counts;
      Assignment reduced;
      const bool found =
          SearchCounts(*entry.item->shape, counts, [&](const std::vector<std::int32_t>& attempt) {
            Assignment assignment = AssignTo(run, *entry.item, attempt, nullptr);
            if (assignment.mode != Mode::kFit && !HasVictims(run, *entry.item, assignment)) {
              return false;
            }
            reduced = std::move(assignment);
            return true;
          });
      if (found) {
        entry.counts = std::move(counts);
        entry.assignment = std::move(reduced);
      }
    }
    Resume(suspended);
    Book(run);
  }

  // Fair sharing: whoever would have the smallest share goes first, cohort by cohort from the top;
  // asked anew after each that was served.
  void ProcessFairly(std::vector<Entry>& heads) {
    std::vector<Entry*> left;
    left.reserve(heads.size());
    for (Entry& head : heads) {
      left.push_back(&head);
    }
    while (!left.empty()) {
      Entry* next = left.front();
      const QueueRun& run = runs_[next->run];
      if (run.tree->has_parent(run.node)) {
        next = Fairest(*run.tree, run.queue->place->tree, left);
      }
      left.erase(std::find(left.begin(), left.end(), next));
      Process(*next);
    }
  }

  struct Runner {
    Entry* entry = nullptr;
    bool borrows = false;  // at this level, on a row that it asks for
    quota::Share share;
  };
  Entry* Fairest(quota::Tree& tree, std::size_t index, const std::vector<Entry*>& left) {
    const quota::FairShares& shares = *s_.shares[index];
    // By the cohort where it competes: what each would have with its request booked.
    std::map<quota::NodeIndex, std::map<quota::NodeIndex, Runner>> rounds;  // cohort -> child
    std::map<Entry*, std::map<quota::NodeIndex, Runner>> steps;             // entry -> child
    for (Entry* entry : left) {
      QueueRun& run = runs_[entry->run];
      if (run.tree != &tree) {
        continue;
      }
      Charge(run, entry->assignment.usage, +1);
      for (quota::NodeIndex node = run.node; tree.has_parent(node); node = *tree.parent(node)) {
        Runner runner{.entry = entry, .borrows = false, .share = shares.Of(tree, node)};
        for (const auto& [row, amount] : entry->assignment.usage) {
          runner.borrows = runner.borrows || tree.BorrowingWith(node, row, Amount(0));
        }
        steps[entry].emplace(node, runner);
      }
      Charge(run, entry->assignment.usage, -1);
      rounds[*tree.parent(run.node)].emplace(run.node, steps[entry].at(run.node));
    }
    // Cohorts from the bottom up: nodes are ordered parents first.
    for (std::size_t i = tree.node_count(); i-- > 0;) {
      const auto cohort = static_cast<quota::NodeIndex>(i);
      const auto round = rounds.find(cohort);
      if (round == rounds.end()) {
        continue;
      }
      const Runner* best = nullptr;
      for (const auto& [child, runner] : round->second) {
        if (best == nullptr || GoesBefore(runner, *best)) {
          best = &runner;
        }
      }
      Entry* winner = best->entry;
      if (!tree.has_parent(cohort)) {
        return winner;
      }
      rounds[*tree.parent(cohort)].insert_or_assign(cohort, steps[winner].at(cohort));
    }
    return left.front();
  }
  static bool GoesBefore(const Runner& a, const Runner& b) {
    if (a.borrows != b.borrows) {
      return !a.borrows;
    }
    if (const int order = Compare(a.share, b.share); order != 0) {
      return order < 0;
    }
    return a.entry->item->Before(*b.entry->item);
  }

  void Process(Entry& entry) {
    QueueRun& run = runs_[entry.run];
    Unbook(run);
    std::vector<ClaimRun*> suspended = Suspend(run, *entry.item);
    if (entry.overrules) {
      SuspendBorrowers(run, suspended);
    }
    const auto mark = trial_ ? trial_->Checkpoint() : placement::Trial::Mark{};
    if (trial_) {
      for (const ClaimRun* claim : suspended) {
        if (!claim->claim->holder.empty()) {
          trial_->Remove(claim->claim->holder, {});
        }
      }
    }
    const Outcome outcome = Decide(entry, run);
    if (outcome == Outcome::kAdmitted || outcome == Outcome::kPreempting) {
      for (ClaimRun* claim : suspended) {
        End(*claim);
      }
      // A claim that is made anew takes the place of the old one.
      if (outcome == Outcome::kPreempting) {
        plan_.dropped.erase(entry.item->ref.key);
      }
    } else {
      if (trial_) {
        trial_->Rollback(mark);
      }
      Resume(suspended);
      for (ClaimRun* claim : suspended) {
        if (outcome == Outcome::kRefused && claim->claim->preemptor.key == entry.item->ref.key) {
          Settle(*claim, -1);
          Expect(*claim, false);
          if (trial_ && !claim->claim->holder.empty()) {
            trial_->Remove(claim->claim->holder, {});
          }
          End(*claim);
        }
      }
    }
    Book(run);
    switch (outcome) {
      case Outcome::kPreempting:
        if (run.queue->spec->strict_fifo) {
          run.heap.clear();
          break;
        }
        [[fallthrough]];
      case Outcome::kAdmitted:
        ++run.cursor[entry.index];
        run.Offer(entry.index);
        break;
      case Outcome::kSkipped:
        run.Offer(entry.index);
        break;
      case Outcome::kRefused:
        if (run.queue->spec->strict_fifo) {
          run.heap.clear();
        }
        break;
    }
  }

  // Its booking has been taken back for good.
  void End(ClaimRun& claim) {
    claim.standing = false;
    plan_.dropped.insert(claim.claim->preemptor.key);
  }

  Outcome Refuse(const Entry& entry, Verdict verdict, WakeOn wake) {
    plan_.refusals.push_back(Refusal{.workload = entry.item->ref,
                                     .verdict = std::move(verdict),
                                     .digest = entry.item->shape->digest,
                                     .wake = wake,
                                     .held = {},
                                     .standing = false});
    return Outcome::kRefused;
  }

  Outcome Decide(Entry& entry, QueueRun& run) {
    const Shape& shape = *entry.item->shape;
    for (const PodSetShape& pod_set : shape.pod_sets) {
      if (pod_set.wants_topology) {
        return Refuse(entry,
                      Verdict{.reason = "TopologyPlacementFailed",
                              .message = "couldn't assign flavors to pod set " + pod_set.name +
                                         ": unsupported: the pod set requests a topology, and "
                                         "topology placement is not supported yet",
                              .would_fit_if = "the topology request is removed"},
                      WakeOn{});
      }
    }
    if (MayPreempt(entry.assignment)) {
      return PreemptOrRefuse(entry, run);
    }
    if (entry.assignment.mode != Mode::kFit) {
      return RefuseQuota(entry, run);
    }
    if (!Fits(*run.tree, run.node, entry.assignment.usage)) {
      return Outcome::kSkipped;  // somebody before it in this cycle took the quota: it is nominated
                                 // again
    }
    if (diverged_ && !FitsNow(run, entry.assignment.usage)) {
      return RefuseUntilGone(entry, run);
    }
    if (s_.options->wait_for_pods_ready.block_admission &&
        (s_.blocked_by_pods_ready || !plan_.admissions.empty())) {
      return Refuse(
          entry,
          Verdict{.reason = "WaitingForPodsReady",
                  .message = "waiting for all admitted workloads to be in PodsReady condition",
                  .would_fit_if = "every admitted Workload is ready"},
          WakeOn{.quota = true, .capacity = false, .pods_ready = true, .retry_after = {}});
    }
    return PlaceAndAdmit(entry, run);
  }

  // The ledger counts victims as gone; what is free before they are is another matter.
  [[nodiscard]] bool FitsNow(const QueueRun& run, const Usage& usage) const {
    const quota::Tree& tree = s_.ledger.tree(run.queue->place->tree);
    quota::Tree now = tree;
    for (const auto& [taker, taken] : taken_) {
      if (taker->tree == run.tree) {
        for (const auto& [row, amount] : taken) {
          now.Add(taker->node, row, amount);
        }
      }
    }
    return Fits(now, run.node, usage);
  }
  Outcome RefuseUntilGone(const Entry& entry, const QueueRun& run) {
    return Refuse(entry,
                  Verdict{.reason = "WaitingForQuota",
                          .message = "quota is there in ClusterQueue " + run.queue->name +
                                     " once the workloads that are being preempted have ended",
                          .would_fit_if = "the preempted workloads have ended"},
                  WakeOn{.quota = true, .capacity = false, .pods_ready = false, .retry_after = {}});
  }

  // Flavor by flavor: one on which the gang has no place, whoever goes, is given up.
  Outcome PreemptOrRefuse(Entry& entry, QueueRun& run) {
    Exclusions excluded;
    Assignment assignment = entry.assignment;
    std::optional<Verdict> first;
    while (true) {
      std::optional<placement::Unplaceable> unplaceable;
      if (Preempt(entry, run, assignment, ShortRows(run, assignment), {}, unplaceable)) {
        return Outcome::kPreempting;
      }
      if (!unplaceable) {
        break;
      }
      if (!first) {
        first = CapacityVerdict(unplaceable->reasons, {});
      }
      if (!Exclude(run, assignment, *unplaceable, excluded)) {
        break;
      }
      Assignment next = AssignTo(run, *entry.item, entry.counts, &excluded);
      if (!MayPreempt(next)) {
        break;
      }
      assignment = std::move(next);
    }
    return RefuseQuota(entry, run, first ? &*first : nullptr);
  }

  // Looks for victims without whom the gang fits, quota and places both, and books their leaving.
  // False: there are none; `unplaceable` then says why, if quota alone could have been had.
  // `refused`: why there is no place for it, when quota is not what is missing.
  bool Preempt(Entry& entry,
               QueueRun& run,
               const Assignment& assignment,
               std::vector<quota::Row> short_rows,
               const std::optional<Verdict>& refused,
               std::optional<placement::Unplaceable>& unplaceable) {
    VictimSearch search = Search(run, *entry.item, assignment.usage, std::move(short_rows));
    const auto without = [&](const auto& gone) {
      for (const Candidate* candidate : gone) {
        if (candidate->running != nullptr) {
          trial_->Remove(candidate->ref.key.ToString(), candidate->running->pods);
        } else {
          for (const ClaimRun& claim : claims_) {
            if (claim.standing && claim.claim->preemptor.key == candidate->ref.key &&
                !claim.claim->holder.empty()) {
              trial_->Remove(claim.claim->holder, {});
            }
          }
        }
      }
      return TryPlace(entry, run, entry.counts, assignment);
    };
    if (trial_) {
      search.places = [&](const std::vector<const Candidate*>& gone) {
        const auto mark = trial_->Checkpoint();
        const Placed placed = without(gone);
        trial_->Rollback(mark);
        if (const auto* why = std::get_if<placement::Unplaceable>(&placed.answer);
            placed.checked && why != nullptr) {
          unplaceable = *why;
        }
        return !placed.checked || std::holds_alternative<placement::Placement>(placed.answer);
      };
      if (refused && !AnyoneHelps(search)) {
        return false;
      }
    }
    const std::vector<Victim> victims = FindVictims(search);
    if (victims.empty()) {
      return false;
    }
    std::vector<const Candidate*> gone;
    for (const Victim& victim : victims) {
      gone.push_back(victim.candidate);
    }
    ClaimDecision claim{.preemptor = entry.item->ref,
                        .cluster_queue = run.queue->name,
                        .usage = {},
                        .victims = {},
                        .gang = {},
                        .placement = {}};
    if (trial_) {
      const auto mark = trial_->Checkpoint();
      Placed placed = without(gone);
      trial_->Rollback(mark);
      if (placed.checked) {
        claim.gang = std::move(placed.gang);
        claim.placement = std::move(std::get<placement::Placement>(placed.answer));
      }
    }
    std::size_t leaving = 0;
    for (const Victim& victim : victims) {
      Candidate& candidate = *victim.candidate;
      candidate.taken = true;
      Move(*run.tree, candidate, -1);
      if (candidate.running == nullptr) {
        for (ClaimRun& other : claims_) {
          if (other.standing && other.claim->preemptor.key == candidate.ref.key) {
            // Only the booking of the claim has been taken back: its victims stay gone.
            if (trial_ && !other.claim->holder.empty()) {
              trial_->Remove(other.claim->holder, {});
            }
            End(other);
          }
        }
        continue;
      }
      ++leaving;
      claim.victims.insert(candidate.ref.key);
      if (!candidate.evicted) {
        plan_.preemptions.push_back(PreemptionDecision{.victim = candidate.ref,
                                                       .preemptor = entry.item->ref,
                                                       .preemptor_queue = run.queue->name,
                                                       .reason = std::string(victim.reason)});
      }
    }
    Charge(run, assignment.usage, +1);
    for (const auto& [row, amount] : assignment.usage) {
      claim.usage.emplace_back(run.tree->row(row), amount);
    }
    if (trial_ && claim.placement) {
      trial_->Occupy(*claim.gang, *claim.placement);
    }
    diverged_ = true;
    ClaimRun made{.claim = &made_.emplace_back(Claim{.preemptor = entry.item->ref,
                                                     .queue = run.queue->name,
                                                     .priority = entry.item->priority,
                                                     .order_time = entry.item->order_time,
                                                     .usage = {},
                                                     .victims = {},
                                                     .holder = {}}),
                  .tree = run.queue->place->tree,
                  .node = run.node,
                  .usage = assignment.usage,
                  .victims = {},
                  .standing = true,
                  .fresh = true};
    for (const Victim& victim : victims) {
      if (victim.candidate->running != nullptr) {
        made.victims.emplace_back(victim.candidate->queue, victim.candidate->usage);
      }
    }
    claims_.push_back(std::move(made));
    plan_.claims.push_back(std::move(claim));
    RefusePending(entry, assignment, refused, leaving);
    return true;
  }

  void RefusePending(const Entry& entry,
                     const Assignment& assignment,
                     const std::optional<Verdict>& refused,
                     std::size_t leaving) {
    Verdict verdict{.reason = std::string(ReasonOf(assignment.blocker)),
                    .message = assignment.Message(),
                    .would_fit_if = "the preempted workloads have ended"};
    if (refused) {
      verdict.reason = refused->reason;
      verdict.message = refused->message;
    }
    verdict.message +=
        (verdict.message.empty() ? "Pending the preemption of " : ". Pending the preemption of ") +
        std::to_string(leaving) + " workload(s)";
    Refuse(entry,
           std::move(verdict),
           WakeOn{.quota = true, .capacity = true, .pods_ready = false, .retry_after = {}});
  }

  // Would there be a place if everyone went who may be asked to? Spares a search that must fail.
  bool AnyoneHelps(const VictimSearch& search) const {
    std::vector<const Candidate*> all;
    const api::ClusterQueuePreemption& policy = *search.policy;
    for (const std::vector<Candidate>& list : *search.candidates) {
      for (const Candidate& candidate : list) {
        const bool own = candidate.queue == search.queue;
        if (!candidate.taken &&
            (search.in_vain == nullptr || !search.in_vain->contains(candidate.ref.key)) &&
            (own ? policy.within_cluster_queue : policy.reclaim_within_cohort) !=
                api::PreemptionPolicy::kNever) {
          all.push_back(&candidate);
        }
      }
    }
    return !all.empty() && search.places(all);
  }

  Outcome RefuseQuota(const Entry& entry, QueueRun& run, const Verdict* unplaceable = nullptr) {
    const Assignment& assignment = entry.assignment;
    Verdict verdict{.reason = std::string(ReasonOf(assignment.blocker)),
                    .message = assignment.Message(),
                    .would_fit_if = {}};
    if (unplaceable != nullptr) {
      verdict.message +=
          "; quota could be taken back from others, but then: " + unplaceable->message;
    }
    // Would it fit if nobody's entitlement were held?
    std::vector<QueueRun*> holding;
    for (QueueRun& other : runs_) {
      if (other.tree == run.tree && !other.booked.empty()) {
        holding.push_back(&other);
        Unbook(other);
      }
    }
    std::vector<std::string> waiting_for_room;
    for (ClaimRun& claim : claims_) {
      if (claim.standing && &ledger_.tree(claim.tree) == run.tree) {
        Settle(claim, -1);
        if (claim.claim->preemptor.key != entry.item->ref.key &&
            AssignTo(run, *entry.item, entry.counts, nullptr).mode == Mode::kFit) {
          waiting_for_room.push_back("workload " + claim.claim->preemptor.key.ToString());
        }
        Settle(claim, +1);
      }
    }
    if (!waiting_for_room.empty()) {
      verdict.message += "; the free quota is held for " + Join(waiting_for_room, ", ") +
                         " until those that make room for it have ended";
    }
    const bool only_held =
        !holding.empty() && AssignTo(run, *entry.item, entry.counts, nullptr).mode == Mode::kFit;
    verdict.would_fit_if = explain_.Shortfalls(*run.queue, *run.tree, assignment);
    for (QueueRun* other : holding) {
      Book(*other);
    }
    if (only_held) {
      std::vector<std::string> holders;
      for (const QueueRun* other : holding) {
        holders.push_back("workload " + other->held_for + " of ClusterQueue " + other->queue->name);
      }
      verdict.message += "; the free quota is held for " + Join(holders, ", ") +
                         ", which waits for its own nominal quota";
      verdict.would_fit_if +=
          (verdict.would_fit_if.empty() ? "" : "; or ") + Join(holders, ", ") + " starts or goes";
    }
    const bool waiting = assignment.mode != Mode::kNoFit;
    Refuse(entry,
           std::move(verdict),
           WakeOn{.quota = true,
                  .capacity = unplaceable != nullptr,
                  .pods_ready = false,
                  .retry_after = {}});
    if (!waiting ||
        run.queue->spec->preemption.reclaim_within_cohort == api::PreemptionPolicy::kAny) {
      return Outcome::kRefused;
    }
    const auto nominal = [&](quota::Row row) { return run.tree->limits(run.node, row).nominal; };
    // A request that its queue's own quota could hold is owed that quota: it is held against
    // borrowers for as long as the Workload waits. The first in order has the claim.
    const bool owed =
        std::all_of(assignment.usage.begin(), assignment.usage.end(), [&](const auto& entry) {
          return entry.second <= nominal(entry.first);
        });
    if (owed && run.wanted.empty()) {
      run.wanted = assignment.usage;
      run.held_for = entry.item->ref.key.ToString();
      for (const auto& [row, amount] : assignment.usage) {
        plan_.refusals.back().held.emplace_back(run.tree->row(row), amount);
      }
    }
    if (assignment.level == 0) {
      return Outcome::kRefused;
    }
    // What it would borrow beyond that is held for this cycle only, as the reference does.
    Usage held;
    for (const auto& [row, amount] : assignment.usage) {
      Amount most = amount;
      const Amount used = run.tree->usage(run.node, row);
      if (const auto& limit = run.tree->limits(run.node, row).borrowing) {
        most = std::min(most, nominal(row) + *limit - used);
      }
      if (owed) {
        most -= std::min(amount, (nominal(row) - used).AtLeastZero());
      }
      if (most > Amount(0)) {
        held.emplace_back(row, most);
      }
    }
    Charge(run, held, +1);
    run.passing = std::move(held);
    passing_.push_back(entry.run);
    return Outcome::kRefused;
  }

  // Flavors of each pod set, each once.
  static std::vector<std::vector<const CompiledFlavor*>> FlavorsOf(const QueueRun& run,
                                                                   const Assignment& assignment) {
    std::vector<std::vector<const CompiledFlavor*>> out;
    for (const PodSetAssignment& pod_set : assignment.pod_sets) {
      std::set<std::pair<std::size_t, std::size_t>> seen;
      std::vector<const CompiledFlavor*>& list = out.emplace_back();
      for (const auto& [resource, choice] : pod_set.choices) {
        if (seen.emplace(choice.group, choice.flavor).second) {
          list.push_back(&run.queue->groups[choice.group].flavors[choice.flavor]);
        }
      }
    }
    return out;
  }

  const CapacityRule& Rule(const QueueRun& run, const std::vector<const CompiledFlavor*>& flavors) {
    if (flavors.empty()) {
      // Nothing that it asks for is charged, so no flavor was chosen. If all that the queue has may
      // grow, so may what this pod set needs.
      const CompiledFlavor* elastic = nullptr;
      for (const CompiledGroup& group : run.queue->groups) {
        for (const CompiledFlavor& flavor : group.flavors) {
          if (flavor.capacity != Capacity::kElastic) {
            return RuleFor(run, flavors);
          }
          elastic = &flavor;
        }
      }
      if (elastic != nullptr) {
        return RuleFor(run, {elastic});
      }
    }
    return RuleFor(run, flavors);
  }

  const CapacityRule& RuleFor(const QueueRun& run,
                              const std::vector<const CompiledFlavor*>& flavors) {
    const auto key = std::pair(run.queue, flavors);
    const auto it = rules_.find(key);
    if (it != rules_.end()) {
      return it->second;
    }
    return rules_.emplace(key, RuleOf(flavors, run.queue->provisioning_check, *s_.pools))
        .first->second;
  }

  struct Placed {
    placement::GangRequest gang;
    placement::Answer answer;
    bool checked = false;
    bool fixed = false;  // some pod set's nodes bind
  };

  Placed TryPlace(const Entry& entry,
                  const QueueRun& run,
                  const std::vector<std::int32_t>& counts,
                  const Assignment& assignment) {
    const auto flavors = FlavorsOf(run, assignment);
    std::vector<CapacityRule> rules;
    Placed out;
    bool binds = false;
    for (std::size_t i = 0; i < flavors.size(); ++i) {
      rules.push_back(Rule(run, flavors[i]));
      out.fixed = out.fixed || rules.back().nodes_bind;
      binds = binds || rules.back().nodes_bind ||
              (rules.back().devices_bind && !entry.item->shape->pod_sets[i].claims.empty());
    }
    if (!trial_ || (!binds && s_.pools->nodes.empty())) {
      return out;
    }
    out.gang = MakeGang(entry.item->ref.key, *entry.item->shape, counts, flavors, rules);
    out.checked = true;
    const std::int32_t before = run.view->classes[entry.index].undecided;
    const std::int64_t steps =
        budget_.placement_steps_per_gang * (std::int64_t{1} << std::min(before, 6));
    out.answer = trial_->Place(out.gang, steps);
    // Placement does not say what it spent; what counts against the whole decision is an estimate
    // by size, and the budget if it ran out.
    if (const auto* undecided = std::get_if<placement::Undecided>(&out.answer)) {
      plan_.steps += undecided->steps;
    } else {
      for (const placement::PodClass& pod_class : out.gang.classes) {
        plan_.steps += 1 + pod_class.count;
      }
    }
    return out;
  }

  // Takes the flavor of one resource group of a pod set that found no machines out of the search.
  // False when there is nothing else to try.
  static bool Exclude(const QueueRun& run,
                      const Assignment& assignment,
                      const placement::Unplaceable& why,
                      Exclusions& excluded) {
    bool any = false;
    for (std::size_t i = 0; i < assignment.pod_sets.size(); ++i) {
      const PodSetAssignment& pod_set = assignment.pod_sets[i];
      const bool named =
          std::any_of(why.reasons.begin(), why.reasons.end(), [&](const placement::Reason& r) {
            return r.pod_class == pod_set.name || r.pod_class.empty();
          });
      if (!named && !why.reasons.empty()) {
        continue;
      }
      // The flavor that selects nodes is the one to give up; one without labels only counts.
      std::optional<std::tuple<std::size_t, std::size_t, std::size_t>> pick;
      for (const auto& [resource, choice] : pod_set.choices) {
        const CompiledGroup& group = run.queue->groups[choice.group];
        if (group.flavors.size() < 2) {
          continue;
        }
        const bool selects = !group.flavors[choice.flavor].flavor->node_labels.empty();
        if (!pick || selects) {
          pick.emplace(i, choice.group, choice.flavor);
          if (selects) {
            break;
          }
        }
      }
      any = (pick && excluded.insert(*pick).second) || any;
    }
    return any;
  }

  Outcome PlaceAndAdmit(Entry& entry, QueueRun& run) {
    Exclusions excluded;
    std::vector<placement::Reason> refused;
    Assignment assignment = entry.assignment;
    std::vector<std::int32_t> counts = entry.counts;
    std::string quota_message;
    std::optional<Assignment> other;  // on other flavors, where others would have to go
    while (true) {
      const auto mark = trial_ ? trial_->Checkpoint() : placement::Trial::Mark{};
      Placed placed = TryPlace(entry, run, counts, assignment);
      if (!placed.checked || std::holds_alternative<placement::Placement>(placed.answer)) {
        const std::optional<Verdict> dearer =
            ChargeWhatThePlanTakes(*entry.item, run, counts, assignment, placed);
        if (!dearer) {
          Admit(entry, run, counts, assignment, std::move(placed));
          return Outcome::kAdmitted;
        }
        trial_->Rollback(mark);
        return Refuse(
            entry,
            *dearer,
            WakeOn{.quota = true, .capacity = true, .pods_ready = false, .retry_after = {}});
      }
      if (const auto* undecided = std::get_if<placement::Undecided>(&placed.answer)) {
        const std::int32_t before = run.view->classes[entry.index].undecided;
        return Refuse(
            entry,
            Verdict{.reason = "PendingEvaluation",
                    .message = "whether the pods find nodes was not decided within " +
                               std::to_string(undecided->steps) + " steps; it is tried again",
                    .would_fit_if = {}},
            WakeOn{.quota = false,
                   .capacity = true,
                   .pods_ready = false,
                   .retry_after = std::chrono::seconds(std::int64_t{1} << std::min(before, 6))});
      }
      const auto& why = std::get<placement::Unplaceable>(placed.answer);
      refused.insert(refused.end(), why.reasons.begin(), why.reasons.end());
      if (!Exclude(run, assignment, why, excluded)) {
        break;
      }
      Assignment next = AssignTo(run, *entry.item, counts, &excluded);
      if (next.mode != Mode::kFit) {
        quota_message = next.Message();
        if (MayPreempt(next)) {
          other = std::move(next);
        }
        break;
      }
      assignment = std::move(next);
    }
    // A smaller gang may still find room.
    Assignment reduced;
    const bool found =
        trial_ &&
        SearchCounts(*entry.item->shape, counts, [&](const std::vector<std::int32_t>& attempt) {
          Assignment smaller = AssignTo(run, *entry.item, attempt, nullptr);
          if (smaller.mode != Mode::kFit) {
            return false;
          }
          const auto mark = trial_->Checkpoint();
          const Placed placed = TryPlace(entry, run, attempt, smaller);
          const bool fits =
              !placed.checked || std::holds_alternative<placement::Placement>(placed.answer);
          trial_->Rollback(mark);
          if (fits) {
            reduced = std::move(smaller);
          }
          return fits;
        });
    if (found) {
      Placed placed = TryPlace(entry, run, counts, reduced);
      const bool fits =
          !placed.checked || std::holds_alternative<placement::Placement>(placed.answer);
      if (fits && !ChargeWhatThePlanTakes(*entry.item, run, counts, reduced, placed)) {
        Admit(entry, run, counts, reduced, std::move(placed));
        return Outcome::kAdmitted;
      }
    }
    Verdict verdict = CapacityVerdict(refused, quota_message);
    const api::ClusterQueuePreemption& policy = run.queue->spec->preemption;
    if (trial_ && (policy.within_cluster_queue != api::PreemptionPolicy::kNever ||
                   policy.reclaim_within_cohort != api::PreemptionPolicy::kNever)) {
      std::optional<placement::Unplaceable> unplaceable;
      std::vector<quota::Row> rows;
      for (const auto& [row, amount] : entry.assignment.usage) {
        rows.push_back(row);
      }
      if ((other && Preempt(entry, run, *other, ShortRows(run, *other), {}, unplaceable)) ||
          Preempt(entry, run, entry.assignment, std::move(rows), verdict, unplaceable)) {
        return Outcome::kPreempting;
      }
    }
    return Refuse(entry,
                  std::move(verdict),
                  WakeOn{.quota = !quota_message.empty(),
                         .capacity = true,
                         .pods_ready = false,
                         .retry_after = {}});
  }

  static Verdict CapacityVerdict(const std::vector<placement::Reason>& reasons,
                                 const std::string& quota_message) {
    std::vector<std::string> messages;
    std::vector<std::string> needs;
    for (const placement::Reason& reason : reasons) {
      const auto add = [](std::vector<std::string>& list, std::string text) {
        if (std::find(list.begin(), list.end(), text) == list.end()) {
          list.push_back(std::move(text));
        }
      };
      add(messages, reason.message);
      if (!reason.resource.empty() && reason.asked > reason.free) {
        add(needs,
            api::FormatAmount(reason.resource, Amount(reason.asked - reason.free)) + " more " +
                reason.resource + " free for pod set " + reason.pod_class);
      }
    }
    if (!quota_message.empty()) {
      messages.push_back(quota_message);
    }
    return Verdict{.reason = "InsufficientCapacity",
                   .message = Join(messages, "; "),
                   .would_fit_if = Join(needs, ", ")};
  }

  // Claims whose cost hangs on the plan (All, firstAvailable) are charged what the plan takes.
  // Answers with a verdict when that is more than there is; `assignment` then stays as it was.
  std::optional<Verdict> ChargeWhatThePlanTakes(const PendingItem& item,
                                                const QueueRun& run,
                                                const std::vector<std::int32_t>& counts,
                                                Assignment& assignment,
                                                const Placed& placed) {
    const Shape& shape = *item.shape;
    const bool dynamic = std::any_of(
        shape.charges.begin(), shape.charges.end(), [](const ClaimCharge& c) { return c.dynamic; });
    const auto* plan = placed.checked ? std::get_if<placement::Placement>(&placed.answer) : nullptr;
    if (!dynamic || plan == nullptr) {
      return std::nullopt;
    }
    const std::vector<ResourceVector> before =
        Totals(shape, counts, *s_.charged_claims, charged_claims_);
    std::vector<ResourceVector> totals = before;
    // What each claim object really took; absent: the estimate stands.
    std::vector<ResourceVector> shared_taken(shape.claims.size());
    std::vector<bool> shared_known(shape.claims.size(), false);
    const auto count_device = [&](const placement::DeviceChoice& device, ResourceVector& into) {
      if (device.claim >= shape.charges.size() || device.admin_access) {
        return;
      }
      const auto& map = shape.charges[device.claim].resource_of;
      if (const auto it = map.find(device.request); it != map.end()) {
        into[it->second] += Amount(1);
      }
    };
    for (const placement::PodPlacement& pod : plan->pods) {
      std::map<std::size_t, ResourceVector> taken;
      for (const placement::DeviceChoice& device : pod.devices) {
        count_device(device, taken[device.claim]);
      }
      for (const auto& [claim, amounts] : taken) {
        if (claim < shape.charges.size() && shape.charges[claim].dynamic &&
            pod.pod_class < totals.size()) {
          Subtract(totals[pod.pod_class], shape.charges[claim].estimate);
          Add(totals[pod.pod_class], amounts);
        }
      }
    }
    for (const placement::DeviceChoice& device : plan->shared_devices) {
      if (device.claim < shared_taken.size()) {
        shared_known[device.claim] = true;
        count_device(device, shared_taken[device.claim]);
      }
    }
    std::set<std::size_t> seen;
    for (std::size_t i = 0; i < shape.pod_sets.size(); ++i) {
      for (const std::size_t claim : shape.pod_sets[i].claims) {
        const placement::ClaimDemand& demand = shape.claims[claim];
        if (!demand.shared || counts[i] == 0 || !seen.insert(claim).second ||
            !shared_known[claim] || !shape.charges[claim].dynamic ||
            (demand.existing && (s_.charged_claims->contains(*demand.existing) ||
                                 charged_claims_.contains(*demand.existing)))) {
          continue;
        }
        Subtract(totals[i], shape.charges[claim].estimate);
        Add(totals[i], shared_taken[claim]);
      }
    }

    Assignment charged = assignment;
    std::map<quota::Row, Amount> rows;
    for (std::size_t i = 0; i < charged.pod_sets.size(); ++i) {
      PodSetAssignment& pod_set = charged.pod_sets[i];
      for (auto& [resource, amount] : pod_set.usage) {
        if (resource != "pods") {
          const auto it = totals[i].find(resource);
          amount = it == totals[i].end() ? Amount() : it->second;
        }
        const FlavorChoice& choice = pod_set.choices.at(resource);
        const CompiledGroup& group = run.queue->groups[choice.group];
        const auto covered = static_cast<std::size_t>(
            std::find(group.covered.begin(), group.covered.end(), resource) -
            group.covered.begin());
        rows[group.flavors[choice.flavor].rows[covered]] += amount;
      }
    }
    charged.usage.assign(rows.begin(), rows.end());
    for (const auto& [row, amount] : charged.usage) {
      const Amount available = run.tree->available(run.node, row).AtLeastZero();
      if (amount > available) {
        const quota::FlavorResource& name = run.tree->row(row);
        return Verdict{
            .reason = "WaitingForQuota",
            .message = "the plan takes " + api::FormatAmount(name.resource, amount) + " " +
                       name.resource + " in flavor " + name.flavor +
                       ": insufficient unused quota for " + name.resource + " in flavor " +
                       name.flavor + ", " + api::FormatAmount(name.resource, amount - available) +
                       " more needed",
            .would_fit_if = api::FormatAmount(name.resource, amount - available) + " more " +
                            name.resource + " unused in flavor " + name.flavor};
      }
    }
    assignment = std::move(charged);
    return std::nullopt;
  }

  void Admit(const Entry& entry,
             QueueRun& run,
             const std::vector<std::int32_t>& counts,
             const Assignment& assignment,
             Placed placed) {
    const PendingItem& item = *entry.item;
    Charge(run, assignment.usage, +1);
    taken_.emplace_back(&run, assignment.usage);
    for (std::size_t i = 0; i < item.shape->pod_sets.size(); ++i) {
      for (const std::size_t claim : item.shape->pod_sets[i].claims) {
        if (counts[i] > 0 && item.shape->claims[claim].existing) {
          charged_claims_.insert(*item.shape->claims[claim].existing);
        }
      }
    }
    AdmissionDecision decision;
    decision.workload = item.ref;
    decision.cluster_queue = run.queue->name;
    std::vector<std::string> flavors;
    for (std::size_t i = 0; i < assignment.pod_sets.size(); ++i) {
      const PodSetAssignment& pod_set = assignment.pod_sets[i];
      PodSetDecision out;
      out.name = pod_set.name;
      out.count = counts[i];
      out.usage = pod_set.usage;
      for (const auto& [resource, choice] : pod_set.choices) {
        const std::string& flavor = run.queue->groups[choice.group].flavors[choice.flavor].name;
        out.flavors[resource] = flavor;
        flavors.push_back(flavor);
      }
      decision.pod_sets.push_back(std::move(out));
    }
    const std::vector<std::string> checks = RequiredChecks(*run.queue->spec, flavors);
    decision.admitted = std::all_of(checks.begin(), checks.end(), [&](const std::string& name) {
      return std::any_of(item.workload->admission_checks.begin(),
                         item.workload->admission_checks.end(),
                         [&](const api::AdmissionCheckState& state) {
                           return state.name == name && state.state == "Ready";
                         });
    });
    if (placed.checked) {
      decision.gang = std::move(placed.gang);
      decision.placement = std::move(std::get<placement::Placement>(placed.answer));
    }
    fixed_.push_back(placed.fixed);
    accelerated_.push_back(std::any_of(
        item.shape->pod_sets.begin(), item.shape->pod_sets.end(), [](const PodSetShape& pod_set) {
          return pod_set.accelerators && pod_set.count > 0;
        }));
    plan_.admissions.push_back(std::move(decision));
  }

  // kube-scheduler could spoil a plan with accelerators always; on fixed nodes unless the pods are
  // all alike and nobody else is still unbound on the nodes of the plan, because then any order of
  // binding works.
  void PinNodes() {
    std::map<std::string_view, std::size_t> gangs_on;
    for (const AdmissionDecision& decision : plan_.admissions) {
      if (decision.placement) {
        std::set<std::string_view> nodes;
        for (const placement::PodPlacement& pod : decision.placement->pods) {
          nodes.insert(pod.node);
        }
        for (const std::string_view node : nodes) {
          ++gangs_on[node];
        }
      }
    }
    for (std::size_t i = 0; i < plan_.admissions.size(); ++i) {
      AdmissionDecision& decision = plan_.admissions[i];
      if (!decision.placement) {
        continue;
      }
      bool placed = false;
      bool crowded = false;
      for (const placement::PodPlacement& pod : decision.placement->pods) {
        placed = placed || !pod.node.empty();
        crowded = crowded || (!pod.node.empty() &&
                              (gangs_on[pod.node] > 1 || s_.unbound_nodes->contains(pod.node)));
      }
      const auto alive = std::count_if(decision.gang->classes.begin(),
                                       decision.gang->classes.end(),
                                       [](const placement::PodClass& c) { return c.count > 0; });
      decision.pin_nodes = placed && (accelerated_[i] || (fixed_[i] && (alive > 1 || crowded)));
    }
  }

  const Snapshot& s_;
  const Budget& budget_;
  // As if the victims of all claims, old and new, had gone and the claims were met.
  quota::Forest ledger_;
  bool diverged_ = false;  // ledger_ shows more than what is used now
  std::vector<std::pair<const QueueRun*, Usage>> taken_;  // by admissions of this decision
  std::vector<TreeRun> trees_;
  std::deque<ClaimRun> claims_;  // addresses are kept
  std::deque<Claim> made_;
  std::set<api::ObjectKey> expected_to_go_;
  std::map<const ClaimRun*, bool> suspended_;
  FairSearch fair_;
  std::optional<placement::Trial> trial_;
  std::vector<QueueRun> runs_;
  std::vector<std::size_t> passing_;  // runs whose `passing` is charged until the inner cycle ends
  std::set<api::ObjectKey> charged_claims_;
  std::map<std::pair<const CompiledQueue*, std::vector<const CompiledFlavor*>>, CapacityRule>
      rules_;
  std::vector<bool> fixed_;        // per admission
  std::vector<bool> accelerated_;  // per admission
  QuotaExplainer explain_;
  Plan plan_;
};

}  // namespace

Plan Decide(const Snapshot& snapshot, TimePoint /*now*/, const Budget& budget) {
  return Cycle(snapshot, budget).Run();
}

}  // namespace muster::scheduler
