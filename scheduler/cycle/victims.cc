#include "scheduler/cycle/victims.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

namespace muster::scheduler {
namespace {

using api::PreemptionPolicy;
using quota::NodeIndex;
using quota::Row;
using quota::Tree;
using Request = std::vector<std::pair<Row, Amount>>;

constexpr std::string_view kInClusterQueue = "InClusterQueue";
constexpr std::string_view kReclamation = "InCohortReclamation";
constexpr std::string_view kFairSharing = "InCohortFairSharing";
constexpr std::string_view kWhileBorrowing = "InCohortReclaimWhileBorrowing";

class Searcher {
 public:
  explicit Searcher(const VictimSearch& search)
      : in_(search), tree_(*search.tree), own_(search.queue) {}

  std::vector<Victim> Run() { return in_.fair != nullptr ? Fair() : Classical(); }

 private:
  // One way in which a candidate can be asked to go.
  struct Option {
    Candidate* candidate = nullptr;
    std::string_view reason;
    NodeIndex lca{0};                 // of both queues
    bool keeps_quota_honest = false;  // only if the preemptor does not borrow afterwards
  };

  // --- what both searches need ---

  [[nodiscard]] bool Allowed(PreemptionPolicy policy, const Candidate& candidate) const {
    switch (policy) {
      case PreemptionPolicy::kNever:
        return false;
      case PreemptionPolicy::kAny:
        return true;
      case PreemptionPolicy::kLowerPriority:
        return in_.priority > candidate.priority;
      case PreemptionPolicy::kLowerOrNewerEqualPriority:
        return in_.priority > candidate.priority ||
               (in_.priority == candidate.priority && in_.order_time < candidate.order_time);
    }
    return false;
  }

  [[nodiscard]] bool UsesShortRow(const Candidate& candidate) const {
    return std::any_of(candidate.usage.begin(), candidate.usage.end(), [&](const auto& use) {
      return use.second > Amount(0) &&
             std::find(in_.short_rows.begin(), in_.short_rows.end(), use.first) !=
                 in_.short_rows.end();
    });
  }

  // The one that goes first. The last tie-break is a name.
  [[nodiscard]] bool Cheaper(const Candidate& a, const Candidate& b) const {
    if (a.evicted != b.evicted) {
      return a.evicted;
    }
    const bool a_own = a.queue == own_;
    if (a_own != (b.queue == own_)) {
      return !a_own;
    }
    if (a.priority != b.priority) {
      return a.priority < b.priority;
    }
    const TimePoint a_since = a.reserved_at.value_or(TimePoint::max());
    const TimePoint b_since = b.reserved_at.value_or(TimePoint::max());
    if (a_since != b_since) {
      return a_since > b_since;
    }
    if (a.ref.uid != b.ref.uid) {
      return a.ref.uid < b.ref.uid;
    }
    return a.ref.key < b.ref.key;
  }

  void Apply(const Candidate& candidate, int sign) {
    for (const auto& [row, amount] : candidate.usage) {
      if (sign > 0) {
        tree_.Add(candidate.queue, row, amount);
      } else {
        tree_.Remove(candidate.queue, row, amount);
      }
    }
  }
  void Take(const Option& option) {
    Apply(*option.candidate, -1);
    gone_.push_back(option);
  }
  void RestoreAll() {
    for (auto it = gone_.rbegin(); it != gone_.rend(); ++it) {
      Apply(*it->candidate, +1);
    }
    gone_.clear();
  }

  [[nodiscard]] bool WithinNominal(NodeIndex node) const {
    return std::all_of(in_.short_rows.begin(), in_.short_rows.end(), [&](Row row) {
      return tree_.usage(node, row) <= tree_.subtree(node, row);
    });
  }

  [[nodiscard]] bool QuotaFits(bool may_borrow) const {
    return std::all_of(in_.request.begin(), in_.request.end(), [&](const auto& asked) {
      const auto& [row, amount] = asked;
      if (!may_borrow && tree_.BorrowingWith(own_, row, amount)) {
        return false;
      }
      return amount <= tree_.available(own_, row).AtLeastZero();
    });
  }
  [[nodiscard]] bool Fits(bool may_borrow) const {
    if (!QuotaFits(may_borrow)) {
      return false;
    }
    if (!in_.places) {
      return true;
    }
    std::vector<const Candidate*> gone;
    gone.reserve(gone_.size());
    for (const Option& option : gone_) {
      gone.push_back(option.candidate);
    }
    return in_.places(gone);
  }

  // Gives back everyone who is not needed after all, the last ones taken first.
  template <typename Enough>
  std::vector<Victim> GiveBack(const Enough& enough) {
    for (std::size_t i = gone_.size() - 1; i-- > 0;) {
      const Option option = gone_[i];
      Apply(*option.candidate, +1);
      gone_.erase(gone_.begin() + static_cast<std::ptrdiff_t>(i));
      if (!enough()) {
        Apply(*option.candidate, -1);
        gone_.insert(gone_.begin() + static_cast<std::ptrdiff_t>(i), option);
      }
    }
    std::vector<Victim> out;
    out.reserve(gone_.size());
    for (const Option& option : gone_) {
      out.push_back(Victim{.candidate = option.candidate, .reason = option.reason});
    }
    RestoreAll();
    return out;
  }

  template <typename Visit>
  void EachIn(NodeIndex queue, PreemptionPolicy policy, const Visit& visit) {
    for (Candidate& candidate : (*in_.candidates)[static_cast<std::size_t>(queue)]) {
      if (in_.in_vain != nullptr && in_.in_vain->contains(candidate.ref.key)) {
        continue;
      }
      if (!candidate.taken && Allowed(policy, candidate) && UsesShortRow(candidate)) {
        visit(candidate);
      }
    }
  }

  // --- classical ---

  // Whether the rest of the request fits the node's own quota; what it keeps for itself goes off.
  [[nodiscard]] bool Absorb(NodeIndex node, Request& rest) const {
    bool fits = true;
    for (auto& [row, amount] : rest) {
      fits = fits && tree_.usage(node, row) + amount <= tree_.subtree(node, row);
      amount = (amount - tree_.local_available(node, row)).AtLeastZero();
    }
    return fits;
  }

  void Walk(NodeIndex node, NodeIndex skip, const std::function<void(NodeIndex)>& queue) const {
    for (const NodeIndex child : tree_.children(node)) {
      if (child == skip || child == own_ || WithinNominal(child)) {
        continue;
      }
      if (tree_.is_queue(child)) {
        queue(child);
      } else {
        Walk(child, skip, queue);
      }
    }
  }

  std::vector<Victim> Classical() {
    const api::ClusterQueuePreemption& policy = *in_.policy;
    const bool forbidden = policy.borrow_within_cohort == PreemptionPolicy::kNever;
    std::vector<Option> same;
    std::vector<Option> owed;  // the tree owes the preemptor the quota that these borrow
    std::vector<Option> dear;  // only their priority speaks against these
    EachIn(own_, policy.within_cluster_queue, [&](Candidate& candidate) {
      same.push_back({.candidate = &candidate, .reason = kInClusterQueue, .lca = own_});
    });
    if (tree_.has_parent(own_) && policy.reclaim_within_cohort != PreemptionPolicy::kNever) {
      Request rest = in_.request;
      bool entitled = Absorb(own_, rest);
      NodeIndex below = own_;
      for (std::optional<NodeIndex> at = tree_.parent(own_); at; at = tree_.parent(*at)) {
        Walk(*at, below, [&](NodeIndex queue) {
          EachIn(queue, policy.reclaim_within_cohort, [&](Candidate& candidate) {
            Option option{.candidate = &candidate, .reason = kReclamation, .lca = *at};
            if (entitled) {
              owed.push_back(option);
              return;
            }
            const bool protects = forbidden || candidate.priority >= in_.priority ||
                                  (policy.borrow_max_priority_threshold &&
                                   candidate.priority > *policy.borrow_max_priority_threshold);
            option.keeps_quota_honest = protects;
            if (!protects) {
              option.reason = kWhileBorrowing;
            }
            dear.push_back(option);
          });
        });
        entitled = Absorb(*at, rest) || entitled;
        below = *at;
      }
    }
    const auto by_cost = [&](const Option& a, const Option& b) {
      return Cheaper(*a.candidate, *b.candidate);
    };
    std::vector<Option> order;
    for (const bool evicted : {true, false}) {
      for (std::vector<Option>* list : {&owed, &dear, &same}) {
        if (evicted) {
          std::sort(list->begin(), list->end(), by_cost);
        }
        for (const Option& option : *list) {
          if (option.candidate->evicted == evicted) {
            order.push_back(option);
          }
        }
      }
    }
    if (order.empty()) {
      return {};
    }
    const bool under_nominal =
        std::all_of(in_.short_rows.begin(), in_.short_rows.end(), [&](Row row) {
          return tree_.usage(own_, row) < tree_.limits(own_, row).nominal;
        });
    std::vector<bool> attempts{true, false};
    if ((owed.empty() && dear.empty()) || (forbidden && !under_nominal)) {
      attempts = {true};
    } else if (forbidden && owed.empty()) {
      attempts = {false, true};
    }
    for (const bool may_borrow : attempts) {
      for (const Option& option : order) {
        if (option.candidate->queue != own_ &&
            ((may_borrow && option.keeps_quota_honest) || ProtectedNow(option))) {
          continue;
        }
        Take(option);
        if (Fits(may_borrow)) {
          return GiveBack([&] { return Fits(may_borrow); });
        }
      }
      RestoreAll();
    }
    return {};
  }

  // What the candidate's side uses by now is its own.
  [[nodiscard]] bool ProtectedNow(const Option& option) const {
    for (NodeIndex node = option.candidate->queue; node != option.lca; node = *tree_.parent(node)) {
      if (WithinNominal(node)) {
        return true;
      }
    }
    return false;
  }

  // --- fair sharing ---

  struct Lists {
    // By queue: candidates, the cheapest first, and how many are done with.
    std::map<NodeIndex, std::pair<std::vector<Candidate*>, std::size_t>> of;
    std::set<NodeIndex> dropped;
    [[nodiscard]] Candidate* First(NodeIndex queue) const {
      const auto it = of.find(queue);
      return it == of.end() || it->second.second == it->second.first.size()
                 ? nullptr
                 : it->second.first[it->second.second];
    }
    void Pop(NodeIndex queue) { ++of.at(queue).second; }
  };

  [[nodiscard]] Lists Sorted(std::vector<Candidate*> all) const {
    std::sort(all.begin(), all.end(), [&](const Candidate* a, const Candidate* b) {
      return Cheaper(*a, *b);
    });
    Lists out;
    for (Candidate* candidate : all) {
      out.of[candidate->queue].first.push_back(candidate);
    }
    return out;
  }

  [[nodiscard]] quota::Share ShareOf(NodeIndex node) const {
    return in_.fair->shares->Of(tree_, node);
  }

  [[nodiscard]] std::optional<NodeIndex> Pick(NodeIndex node, Lists& lists) const {
    std::optional<NodeIndex> queue;
    quota::Share queue_share;
    std::optional<NodeIndex> cohort;
    quota::Share cohort_share;
    for (const NodeIndex child : tree_.children(node)) {
      if (lists.dropped.contains(child)) {
        continue;
      }
      const quota::Share share = ShareOf(child);
      if (tree_.is_queue(child)) {
        if (lists.First(child) == nullptr || (!share.borrowing && child != own_)) {
          lists.dropped.insert(child);
          continue;
        }
        const int order = queue ? Compare(share, queue_share) : 1;
        if (order > 0 || (order == 0 && Cheaper(*lists.First(child), *lists.First(*queue)))) {
          queue = child;
          queue_share = share;
        }
      } else {
        if (!share.borrowing && !above_own_.contains(child)) {
          lists.dropped.insert(child);
          continue;
        }
        if (!cohort || Compare(share, cohort_share) > 0) {
          cohort = child;
          cohort_share = share;
        }
      }
    }
    if (!queue && !cohort) {
      lists.dropped.insert(node);
      return std::nullopt;
    }
    if (cohort && (!queue || Compare(cohort_share, queue_share) >= 0)) {
      return Pick(*cohort, lists);
    }
    return queue;
  }

  // The queue that should give next.
  [[nodiscard]] std::optional<NodeIndex> NextQueue(Lists& lists) const {
    if (!tree_.has_parent(own_)) {
      return lists.First(own_) == nullptr ? std::nullopt : std::optional(own_);
    }
    while (!lists.dropped.contains(Tree::root())) {
      if (const std::optional<NodeIndex> queue = Pick(Tree::root(), lists)) {
        return queue;
      }
    }
    return std::nullopt;
  }

  // The nodes on both sides just below the lowest cohort that has both queues.
  [[nodiscard]] std::pair<NodeIndex, NodeIndex> Below(NodeIndex other) const {
    NodeIndex theirs = other;
    while (true) {
      const NodeIndex parent = *tree_.parent(theirs);
      if (above_own_.contains(parent)) {
        NodeIndex ours = own_;
        while (*tree_.parent(ours) != parent) {
          ours = *tree_.parent(ours);
        }
        return {ours, theirs};
      }
      theirs = parent;
    }
  }

  // The request is booked during the search: what is free must be asked without it.
  [[nodiscard]] bool FitsIncoming() {
    Incoming(-1);
    const bool fits = Fits(true);
    Incoming(+1);
    return fits;
  }
  void Incoming(int sign) {
    for (const auto& [row, amount] : in_.request) {
      if (sign > 0) {
        tree_.Add(own_, row, amount);
      } else {
        tree_.Remove(own_, row, amount);
      }
    }
  }

  std::vector<Victim> Fair() {
    const api::ClusterQueuePreemption& policy = *in_.policy;
    for (std::optional<NodeIndex> at = tree_.parent(own_); at; at = tree_.parent(*at)) {
      above_own_.insert(*at);
    }
    std::vector<Candidate*> all;
    EachIn(own_, policy.within_cluster_queue, [&](Candidate& c) { all.push_back(&c); });
    if (tree_.has_parent(own_) && policy.reclaim_within_cohort != PreemptionPolicy::kNever) {
      for (std::size_t i = 0; i < tree_.node_count(); ++i) {
        const auto node = static_cast<NodeIndex>(i);
        if (tree_.is_queue(node) && node != own_ && !WithinNominal(node)) {
          EachIn(node, policy.reclaim_within_cohort, [&](Candidate& c) { all.push_back(&c); });
        }
      }
    }
    if (all.empty()) {
      return {};
    }
    Incoming(+1);
    std::vector<Candidate*> retry;
    bool done = FirstPass(Sorted(std::move(all)), retry);
    if (!done && in_.fair->initial_share_second) {
      done = SecondPass(Sorted(std::move(retry)));
    }
    std::vector<Victim> out;
    if (done) {
      out = GiveBack([&] { return FitsIncoming(); });
    } else {
      RestoreAll();
    }
    Incoming(-1);
    return out;
  }

  bool FirstPass(Lists lists, std::vector<Candidate*>& retry) {
    while (const std::optional<NodeIndex> queue = NextQueue(lists)) {
      Candidate* candidate = lists.First(*queue);
      if (*queue == own_) {
        lists.Pop(own_);
        Take({.candidate = candidate, .reason = kInClusterQueue, .lca = own_});
        if (FitsIncoming()) {
          return true;
        }
        continue;
      }
      // Its own quota is owed to it, whatever the shares.
      if (WithinNominal(own_)) {
        lists.Pop(*queue);
        Take({.candidate = candidate, .reason = kReclamation, .lca = own_});
        if (FitsIncoming()) {
          return true;
        }
        continue;
      }
      const auto [ours, theirs] = Below(*queue);
      const quota::Share mine = ShareOf(ours);
      const quota::Share before = ShareOf(theirs);
      if (mine.zero_weight() && !before.zero_weight()) {
        while (Candidate* left = lists.First(*queue)) {
          retry.push_back(left);
          lists.Pop(*queue);
        }
        continue;
      }
      while (Candidate* next = lists.First(*queue)) {
        lists.Pop(*queue);
        bool passes = false;
        if (in_.fair->final_share_first) {
          Apply(*next, -1);
          passes = Compare(mine, ShareOf(theirs)) <= 0;
          Apply(*next, +1);
        } else {
          passes = Compare(mine, before) < 0;
        }
        if (!passes) {
          retry.push_back(next);
          continue;
        }
        Take({.candidate = next, .reason = kFairSharing, .lca = own_});
        if (FitsIncoming()) {
          return true;
        }
        break;
      }
    }
    return false;
  }

  bool SecondPass(Lists lists) {
    while (const std::optional<NodeIndex> queue = NextQueue(lists)) {
      Candidate* candidate = lists.First(*queue);
      lists.dropped.insert(*queue);
      if (*queue == own_) {
        continue;
      }
      const auto [ours, theirs] = Below(*queue);
      if (Compare(ShareOf(ours), ShareOf(theirs)) < 0) {
        Take({.candidate = candidate, .reason = kFairSharing, .lca = own_});
        if (FitsIncoming()) {
          return true;
        }
      }
    }
    return false;
  }

  const VictimSearch& in_;
  Tree& tree_;
  NodeIndex own_;
  std::set<NodeIndex> above_own_;
  std::vector<Option> gone_;  // taken out of the tree, in this order
};

}  // namespace

std::vector<Victim> FindVictims(const VictimSearch& search) {
  return Searcher(search).Run();
}

}  // namespace muster::scheduler
