#include "scheduler/placement/solver.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "base/check.h"
#include "base/strings.h"

namespace muster::placement {
namespace {

constexpr std::int64_t kMany = std::numeric_limits<std::int64_t>::max();
// Beyond this many nodes the search over mixed gangs stays greedy: its recursion is one level per
// node and class.
constexpr std::size_t kExactNodes = 512;

void AppendField(std::string& out, std::string_view text) {
  out += std::to_string(text.size());
  out += ':';
  out += text;
}
void AppendRequirements(std::string& out,
                        const std::vector<api::NodeSelectorRequirement>& requirements) {
  out += '[';
  for (const auto& requirement : requirements) {
    AppendField(out, requirement.key);
    AppendField(out, requirement.op);
    for (const auto& value : requirement.values) {
      AppendField(out, value);
    }
    out += ';';
  }
  out += ']';
}
void AppendTerm(std::string& out, const api::NodeSelectorTerm& term) {
  AppendRequirements(out, term.match_expressions);
  AppendRequirements(out, term.match_fields);
}

std::string FilterText(const PodClass& pod_class) {
  std::string out;
  for (const auto& [key, value] : pod_class.node_selector) {
    AppendField(out, key);
    AppendField(out, value);
  }
  out += pod_class.required_affinity.present ? '|' : '-';
  for (const auto& term : pod_class.required_affinity.terms) {
    AppendTerm(out, term);
  }
  out += '|';
  for (const auto& toleration : pod_class.tolerations) {
    AppendField(out, toleration.key);
    AppendField(out, toleration.op);
    AppendField(out, toleration.value);
    AppendField(out, toleration.effect);
    out += ';';
  }
  return out;
}

std::string PreferenceText(const PodClass& pod_class) {
  std::string out;
  for (const auto& term : pod_class.preferred_affinity) {
    out += std::to_string(term.weight);
    AppendTerm(out, term.term);
  }
  return out;
}

// Hardware that pods without a need for it should leave alone.
bool IsExtended(const std::string& resource) {
  return resource.find('/') != std::string::npos && !resource.starts_with("hugepages-");
}

std::string Plural(std::int64_t count, std::string_view noun) {
  std::string out = std::to_string(count) + " " + std::string(noun);
  return count == 1 ? out : out + "s";
}

// Members that need the same: merged, so that the search does not tell them apart.
struct Group {
  std::vector<std::size_t> classes;  // into GangRequest::classes, ascending
  const PodClass* first = nullptr;
  std::int64_t count = 0;
  std::vector<ResourceUse> requests;
  std::vector<HostPort> ports;
  std::shared_ptr<const NodeFilter> filter;
  std::vector<std::int32_t> preference;  // by node; empty: none
  bool binds = true;
  std::vector<std::string> missing;  // requested resources that no node has ever offered
};

struct Put {
  std::size_t group = 0;
  NodeIndex node = 0;
  std::int64_t count = 0;
};

class Solver {
 public:
  Solver(TrialState& state, FilterCache& filters, const GangRequest& gang, std::int64_t budget)
      : state_(state), filters_(filters), gang_(gang), budget_(budget) {}

  Answer Run();

 private:
  enum class Found : std::uint8_t { kYes, kNo, kBudget };

  [[nodiscard]] bool Spend(std::int64_t steps) {
    spent_ += steps;
    return spent_ <= budget_;
  }

  void Prepare();
  [[nodiscard]] bool Mergeable(const Group& group, const PodClass& pod_class) const;
  // How many of `group` fit on `node` now, at most `limit`.
  [[nodiscard]] std::int64_t Capacity(const Group& group, NodeIndex node, std::int64_t limit) const;
  [[nodiscard]] bool PortsFree(const Group& group, NodeIndex node) const;
  // Takes `count` members of a group on a node; Capacity allows it.
  [[nodiscard]] bool Take(std::size_t group, NodeIndex node, std::int64_t count);
  void Undo(TrialState::Mark mark, std::size_t puts);

  struct Candidate {
    NodeIndex node = 0;
    std::int64_t capacity = 0;
    std::int64_t preference = 0;
    bool foreign = false;  // has hardware that the group does not ask for
    std::int64_t rest = 0;
  };
  // Nodes with room, the best first; `total` saturates.
  [[nodiscard]] std::vector<Candidate> Candidates(const Group& group,
                                                  std::int64_t wanted,
                                                  std::int64_t& total);
  // As many members as fit, best nodes first. Returns how many.
  [[nodiscard]] std::int64_t Fill(std::size_t group, std::int64_t wanted);
  [[nodiscard]] Found Search(std::size_t position);
  [[nodiscard]] Found Distribute(std::size_t position,
                                 const std::vector<Candidate>& candidates,
                                 const std::vector<std::int64_t>& room_after,
                                 std::size_t at,
                                 std::int64_t wanted,
                                 std::int64_t previous);
  [[nodiscard]] bool SameState(NodeIndex a, NodeIndex b) const;

  [[nodiscard]] std::optional<Reason> Refusal(const Group& group) const;
  [[nodiscard]] Reason JointRefusal() const;
  [[nodiscard]] std::string Name(const Group& group) const;
  [[nodiscard]] static std::string Excluded(const NodeFilter& filter);
  [[nodiscard]] Placement Result();

  TrialState& state_;
  FilterCache& filters_;
  const GangRequest& gang_;
  std::int64_t budget_;
  std::int64_t spent_ = 0;
  std::vector<Group> groups_;
  std::vector<std::size_t> order_;  // binding groups, the most constrained first
  std::vector<Put> puts_;
};

void Solver::Prepare() {
  const ResourceTable& table = *state_.view().resources;
  for (std::size_t i = 0; i < gang_.classes.size(); ++i) {
    const PodClass& pod_class = gang_.classes[i];
    if (pod_class.count <= 0) {
      continue;
    }
    const auto twin = std::find_if(groups_.begin(), groups_.end(), [&](const Group& group) {
      return Mergeable(group, pod_class);
    });
    if (twin != groups_.end()) {
      twin->classes.push_back(i);
      twin->count += pod_class.count;
      continue;
    }
    Group group;
    group.classes.push_back(i);
    group.first = &pod_class;
    group.count = pod_class.count;
    group.requests.push_back(ResourceUse{.id = kPods, .amount = 1});
    for (const auto& [name, amount] : pod_class.requests) {
      if (amount.value() <= 0 || name == "pods") {
        continue;
      }
      const auto id = table.ids.find(name);
      if (id == table.ids.end()) {
        group.missing.push_back(name);
      } else {
        group.requests.push_back(ResourceUse{.id = id->second, .amount = amount.value()});
      }
    }
    group.ports = HostPortsOf(pod_class.host_ports);
    group.filter = filters_.Get(state_, pod_class);
    group.binds = pod_class.nodes_bind;
    if (!pod_class.preferred_affinity.empty()) {
      group.preference.assign(state_.node_count(), 0);
      for (NodeIndex node = 0; node < state_.node_count(); ++node) {
        const auto& meta = state_.record(node).node->meta;
        for (const auto& term : pod_class.preferred_affinity) {
          if (MatchesTerm(term.term, meta.labels, meta.name)) {
            group.preference[node] += term.weight;
          }
        }
      }
    }
    groups_.push_back(std::move(group));
  }
}

bool Solver::Mergeable(const Group& group, const PodClass& pod_class) const {
  const PodClass& other = *group.first;
  return other.nodes_bind == pod_class.nodes_bind && other.devices_bind == pod_class.devices_bind &&
         other.requests == pod_class.requests && other.claims == pod_class.claims &&
         FilterText(other) == FilterText(pod_class) &&
         PreferenceText(other) == PreferenceText(pod_class) &&
         HostPortsOf(other.host_ports) == HostPortsOf(pod_class.host_ports);
}

bool Solver::PortsFree(const Group& group, NodeIndex node) const {
  const auto& taken = state_.ports(node);
  return std::none_of(group.ports.begin(), group.ports.end(), [&](const HostPort& port) {
    return std::any_of(
        taken.begin(), taken.end(), [&](const HostPort& other) { return Conflicts(port, other); });
  });
}

std::int64_t Solver::Capacity(const Group& group, NodeIndex node, std::int64_t limit) const {
  if (group.filter->exclusion[node] != Exclusion::kNone || !group.missing.empty()) {
    return 0;
  }
  std::int64_t capacity = limit;
  for (const auto& use : group.requests) {
    const std::int64_t free = state_.free(node, use.id);
    if (free < use.amount) {
      return 0;
    }
    if (use.amount == 1) {
      capacity = std::min(capacity, free);
    } else if (capacity > 1 || use.amount > free) {
      capacity = std::min(capacity, free / use.amount);
    }
  }
  if (!group.ports.empty()) {
    capacity = PortsFree(group, node) ? std::min<std::int64_t>(capacity, 1) : 0;
  }
  return capacity;
}

bool Solver::Take(std::size_t index, NodeIndex node, std::int64_t count) {
  const Group& group = groups_[index];
  for (const auto& use : group.requests) {
    state_.AddFree(node, use.id, use.amount, -count);
  }
  if (!group.ports.empty()) {
    auto ports = state_.ports(node);
    ports.insert(ports.end(), group.ports.begin(), group.ports.end());
    state_.SetPorts(node, std::move(ports));
  }
  puts_.push_back(Put{.group = index, .node = node, .count = count});
  return true;
}

void Solver::Undo(TrialState::Mark mark, std::size_t puts) {
  state_.Rollback(mark);
  puts_.resize(puts);
}

std::vector<Solver::Candidate> Solver::Candidates(const Group& group,
                                                  std::int64_t wanted,
                                                  std::int64_t& total) {
  // The resource whose remainders decide: a node that is nearly full of it comes first, so that
  // whole nodes stay whole for others.
  const auto& names = state_.view().resources->names;
  ResourceUse primary{.id = kPods, .amount = 0};
  bool primary_extended = false;
  for (const auto& use : group.requests) {
    const bool extended = IsExtended(names[use.id]);
    const bool better = extended ? !primary_extended || use.amount > primary.amount
                                 : !primary_extended && names[use.id] == "cpu";
    if (better) {
      primary = use;
      primary_extended = extended;
    }
  }
  std::vector<bool> foreign(names.size());
  for (ResourceId id = 0; id < names.size(); ++id) {
    foreign[id] = IsExtended(names[id]);
  }
  for (const auto& use : group.requests) {
    foreign[use.id] = false;
  }
  std::vector<ResourceId> foreign_ids;
  for (ResourceId id = 0; id < names.size(); ++id) {
    if (foreign[id]) {
      foreign_ids.push_back(id);
    }
  }
  std::vector<Candidate> out;
  total = 0;
  for (NodeIndex node = 0; node < state_.node_count(); ++node) {
    const std::int64_t capacity = Capacity(group, node, wanted);
    if (capacity <= 0) {
      continue;
    }
    total = capacity > kMany - total ? kMany : total + capacity;
    const NodeRecord& record = state_.record(node);
    Candidate candidate{.node = node, .capacity = capacity};
    candidate.preference = group.preference.empty() ? 0 : group.preference[node];
    candidate.foreign =
        !record.pools.empty() || std::any_of(foreign_ids.begin(), foreign_ids.end(), [&](auto id) {
          return id < record.offered.size() && record.offered[id];
        });
    candidate.rest = state_.free(node, primary.id);
    out.push_back(candidate);
  }
  std::sort(out.begin(), out.end(), [](const Candidate& a, const Candidate& b) {
    if (a.preference != b.preference) {
      return a.preference > b.preference;
    }
    if (a.foreign != b.foreign) {
      return !a.foreign;
    }
    return a.rest != b.rest ? a.rest < b.rest : a.node < b.node;
  });
  return out;
}

std::int64_t Solver::Fill(std::size_t index, std::int64_t wanted) {
  std::int64_t total = 0;
  std::int64_t placed = 0;
  for (const Candidate& candidate : Candidates(groups_[index], wanted, total)) {
    if (placed == wanted) {
      break;
    }
    const std::int64_t count = std::min(candidate.capacity, wanted - placed);
    if (Take(index, candidate.node, count)) {
      placed += count;
    }
  }
  return placed;
}

bool Solver::SameState(NodeIndex a, NodeIndex b) const {
  for (ResourceId id = 0; id < state_.resource_count(); ++id) {
    if (state_.free(a, id) != state_.free(b, id)) {
      return false;
    }
  }
  for (const auto& group : groups_) {
    if (group.filter->exclusion[a] != group.filter->exclusion[b]) {
      return false;
    }
  }
  return state_.ports(a) == state_.ports(b) && state_.record(a).pools.empty() &&
         state_.record(b).pools.empty();
}

Solver::Found Solver::Search(std::size_t position) {
  if (position == order_.size()) {
    return Found::kYes;
  }
  // Every later group must still fit by itself.
  for (std::size_t later = position + 1; later < order_.size(); ++later) {
    const Group& group = groups_[order_[later]];
    std::int64_t room = 0;
    for (NodeIndex node = 0; node < state_.node_count() && room < group.count; ++node) {
      room += Capacity(group, node, group.count);
    }
    if (!Spend(static_cast<std::int64_t>(state_.node_count()))) {
      return Found::kBudget;
    }
    if (room < group.count) {
      return Found::kNo;
    }
  }
  const Group& group = groups_[order_[position]];
  std::int64_t total = 0;
  const std::vector<Candidate> candidates = Candidates(group, group.count, total);
  if (total < group.count) {
    return Found::kNo;
  }
  std::vector<std::int64_t> room_after(candidates.size() + 1, 0);
  for (std::size_t i = candidates.size(); i-- > 0;) {
    room_after[i] = std::min(group.count, room_after[i + 1] + candidates[i].capacity);
  }
  return Distribute(position, candidates, room_after, 0, group.count, kMany);
}

Solver::Found Solver::Distribute(std::size_t position,
                                 const std::vector<Candidate>& candidates,
                                 const std::vector<std::int64_t>& room_after,
                                 std::size_t at,
                                 std::int64_t wanted,
                                 std::int64_t previous) {
  if (wanted == 0) {
    return Search(position + 1);
  }
  if (room_after[at] < wanted) {
    return Found::kNo;
  }
  const Candidate& candidate = candidates[at];
  // Of nodes in the same state, an earlier one never takes fewer: the other orders are the same
  // placement with names exchanged. `previous` is what the node before took, kMany when it differs.
  const std::int64_t most = std::min({candidate.capacity, wanted, previous});
  const std::int64_t least = std::max<std::int64_t>(0, wanted - room_after[at + 1]);
  const bool twin_follows =
      at + 1 < candidates.size() && SameState(candidate.node, candidates[at + 1].node);
  for (std::int64_t count = most; count >= least; --count) {
    if (!Spend(1)) {
      return Found::kBudget;
    }
    const auto mark = state_.Checkpoint();
    const std::size_t puts = puts_.size();
    if (count == 0 || Take(order_[position], candidate.node, count)) {
      const Found found = Distribute(
          position, candidates, room_after, at + 1, wanted - count, twin_follows ? count : kMany);
      if (found != Found::kNo) {
        return found;
      }
    }
    Undo(mark, puts);
  }
  return Found::kNo;
}

std::string Solver::Name(const Group& group) const {
  std::vector<std::string> names;
  for (const std::size_t i : group.classes) {
    names.push_back(gang_.classes[i].name);
  }
  return (names.size() == 1 ? "pod set " : "pod sets ") + Join(names, ", ");
}

std::string Solver::Excluded(const NodeFilter& filter) {
  std::vector<std::string> parts;
  const auto add = [&](Exclusion exclusion, std::string_view name) {
    const auto at = filter.excluded.find(exclusion);
    if (at != filter.excluded.end() && at->second > 0) {
      parts.push_back(std::string(name) + " " + std::to_string(at->second));
    }
  };
  add(Exclusion::kTaint, "taint");
  add(Exclusion::kNodeSelector, "nodeSelector");
  add(Exclusion::kAffinity, "affinity");
  add(Exclusion::kUnschedulable, "unschedulable");
  return parts.empty() ? "" : "; excluded: " + Join(parts, ", ");
}

std::optional<Reason> Solver::Refusal(const Group& group) const {
  std::int64_t fit = 0;
  for (NodeIndex node = 0; node < state_.node_count() && fit < group.count; ++node) {
    fit += Capacity(group, node, group.count - fit);
  }
  if (fit >= group.count) {
    return std::nullopt;
  }
  Reason reason;
  reason.pod_class = group.first->name;
  reason.asked = group.count;
  reason.free = fit;
  const std::string head =
      Name(group) + ": " + Plural(group.count, "pod") + " asked, " + std::to_string(fit) + " fit";
  if (state_.node_count() == 0) {
    reason.message = head + ": there are no nodes";
    return reason;
  }
  if (group.filter->matching == 0) {
    reason.message = head + ": no node matches" + Excluded(*group.filter);
    return reason;
  }
  if (!group.missing.empty()) {
    const std::string& name = group.missing.front();
    const Amount asked = group.first->requests.at(name) * group.count;
    reason.code = Reason::Code::kResource;
    reason.resource = name;
    reason.asked = asked.value();
    reason.free = 0;
    reason.message = head + ": " + name + " " + api::FormatAmount(name, asked) +
                     " asked and no node offers it" + Excluded(*group.filter);
    return reason;
  }
  // The resource that alone leaves room for the fewest members.
  const auto& names = state_.view().resources->names;
  std::int64_t fewest = kMany;
  ResourceUse shortest;
  Amount free_of_it;
  std::int64_t most_on_one = 0;
  for (const auto& use : group.requests) {
    std::int64_t room = 0;
    Amount free;
    std::int64_t largest = 0;
    for (NodeIndex node = 0; node < state_.node_count(); ++node) {
      if (group.filter->exclusion[node] == Exclusion::kNone) {
        const std::int64_t here = std::max<std::int64_t>(0, state_.free(node, use.id));
        room = (Amount(room) + Amount(here / use.amount)).value();
        free += Amount(here);
        largest = std::max(largest, here);
      }
    }
    if (room < fewest || (room == fewest && names[use.id] < names[shortest.id])) {
      fewest = room;
      shortest = use;
      free_of_it = free;
      most_on_one = largest;
    }
  }
  const std::string on = " on " + Plural(group.filter->matching, "matching node");
  if (fewest < group.count) {
    const std::string& name = names[shortest.id];
    const Amount asked = Amount(shortest.amount) * group.count;
    reason.code = Reason::Code::kResource;
    reason.resource = name;
    reason.asked = asked.value();
    reason.free = free_of_it.value();
    reason.message = head + ": " + name + " " + api::FormatAmount(name, asked) + " asked and " +
                     api::FormatAmount(name, free_of_it) + " free" + on;
    if (free_of_it >= asked) {
      reason.message += ", at most " + api::FormatAmount(name, Amount(most_on_one)) +
                        " on one node where a pod needs " +
                        api::FormatAmount(name, Amount(shortest.amount));
    }
  } else if (!group.ports.empty()) {
    reason.message = head + ": host ports are free on too few nodes" + on;
  } else {
    std::vector<std::string> asked;
    for (const auto& use : group.requests) {
      if (use.id != kPods) {
        asked.push_back(names[use.id] + " " + api::FormatAmount(names[use.id], Amount(use.amount)));
      }
    }
    reason.message =
        head + ": too few nodes have room for " + Join(asked, " and ") + " at once" + on;
  }
  reason.message += Excluded(*group.filter);
  return reason;
}

Reason Solver::JointRefusal() const {
  Reason reason;
  std::vector<std::string> names;
  std::map<ResourceId, Amount> asked;
  for (const std::size_t index : order_) {
    const Group& group = groups_[index];
    for (const std::size_t i : group.classes) {
      names.push_back(gang_.classes[i].name);
    }
    reason.asked += group.count;
    for (const auto& use : group.requests) {
      asked[use.id] += Amount(use.amount) * group.count;
    }
  }
  std::int64_t matching = 0;
  std::map<ResourceId, Amount> free;
  for (NodeIndex node = 0; node < state_.node_count(); ++node) {
    if (std::any_of(order_.begin(), order_.end(), [&](std::size_t index) {
          return groups_[index].filter->exclusion[node] == Exclusion::kNone;
        })) {
      ++matching;
      for (const auto& [id, amount] : asked) {
        free[id] += Amount(std::max<std::int64_t>(0, state_.free(node, id)));
      }
    }
  }
  const auto& table = state_.view().resources->names;
  std::vector<std::string> parts;
  for (const auto& [id, amount] : asked) {
    if (id == kPods && amount <= free[id]) {
      continue;
    }
    if (amount > free[id]) {
      reason.code = Reason::Code::kResource;
      reason.resource = table[id];
      reason.asked = amount.value();
      reason.free = free[id].value();
    }
    parts.push_back(table[id] + " " + api::FormatAmount(table[id], amount) + " asked and " +
                    api::FormatAmount(table[id], free[id]) + " free");
  }
  reason.message = "pod sets " + Join(names, ", ") +
                   ": each fits alone, but not together: " + Join(parts, ", ") + " on " +
                   Plural(matching, "matching node");
  return reason;
}

Placement Solver::Result() {
  Placement placement;
  // By group, then in the order of the search: ranks fill the best nodes first.
  std::vector<std::vector<Put>> by_group(groups_.size());
  for (const Put& put : puts_) {
    by_group[put.group].push_back(put);
  }
  // Members of merged classes take the places in class order.
  std::vector<std::vector<PodPlacement>> by_class(gang_.classes.size());
  for (std::size_t index = 0; index < groups_.size(); ++index) {
    std::size_t put = 0;
    std::int64_t used = 0;
    for (const std::size_t i : groups_[index].classes) {
      by_class[i].reserve(static_cast<std::size_t>(gang_.classes[i].count));
      for (std::int32_t rank = 0; rank < gang_.classes[i].count; ++rank) {
        if (put < by_group[index].size() && used == by_group[index][put].count) {
          ++put;
          used = 0;
        }
        PodPlacement pod{.pod_class = i, .index = rank};
        if (put < by_group[index].size()) {
          pod.node = state_.name(by_group[index][put].node);
          ++used;
        } else {
          ++placement.unplaced;
        }
        by_class[i].push_back(std::move(pod));
      }
    }
  }
  for (auto& pods : by_class) {
    placement.pods.insert(placement.pods.end(),
                          std::make_move_iterator(pods.begin()),
                          std::make_move_iterator(pods.end()));
  }
  return placement;
}

Answer Solver::Run() {
  std::int64_t members = 0;
  for (const auto& pod_class : gang_.classes) {
    members += std::max(0, pod_class.count);
  }
  if (members == 0) {
    return Placement{};
  }
  if (std::any_of(gang_.classes.begin(), gang_.classes.end(), [](const PodClass& pod_class) {
        return pod_class.count > 0 && !pod_class.claims.empty();
      })) {
    Reason reason{.code = Reason::Code::kUnsupported};
    reason.message = "unsupported: resource claims";
    return Unplaceable{.reasons = {reason}};
  }
  Prepare();
  std::vector<Reason> reasons;
  for (std::size_t index = 0; index < groups_.size(); ++index) {
    if (groups_[index].binds) {
      order_.push_back(index);
      if (auto reason = Refusal(groups_[index])) {
        reasons.push_back(std::move(*reason));
      }
    }
  }
  if (!reasons.empty()) {
    return Unplaceable{.reasons = std::move(reasons)};
  }
  if (members > kMaxMembers) {
    Reason reason{.code = Reason::Code::kUnsupported, .asked = members, .free = kMaxMembers};
    reason.message = "unsupported: a gang of " + std::to_string(members) + " pods; at most " +
                     std::to_string(kMaxMembers) + " are placed together";
    return Unplaceable{.reasons = {reason}};
  }
  // The most constrained first: the least room compared with what is wanted.
  std::vector<std::int64_t> slack(groups_.size());
  for (const std::size_t index : order_) {
    const Group& group = groups_[index];
    std::int64_t room = 0;
    if (order_.size() > 1) {
      for (NodeIndex node = 0; node < state_.node_count(); ++node) {
        room = (Amount(room) + Amount(Capacity(group, node, kMany))).value();
      }
    }
    slack[index] = room / group.count;
  }
  std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
    return slack[a] != slack[b] ? slack[a] < slack[b] : a < b;
  });

  const auto start = state_.Checkpoint();
  bool placed = true;
  for (const std::size_t index : order_) {
    if (Fill(index, groups_[index].count) < groups_[index].count) {
      placed = false;
      break;
    }
  }
  if (!placed) {
    Undo(start, 0);
    const Reason joint = JointRefusal();
    if (joint.code == Reason::Code::kResource) {
      return Unplaceable{.reasons = {joint}};
    }
    if (state_.node_count() > kExactNodes) {
      return Undecided{.steps = spent_};
    }
    switch (Search(0)) {
      case Found::kYes:
        break;
      case Found::kNo:
        Undo(start, 0);
        return Unplaceable{.reasons = {joint}};
      case Found::kBudget:
        Undo(start, 0);
        return Undecided{.steps = spent_};
    }
  }
  for (std::size_t index = 0; index < groups_.size(); ++index) {
    if (!groups_[index].binds) {
      std::ignore = Fill(index, groups_[index].count);
    }
  }
  return Result();
}

}  // namespace

std::shared_ptr<const NodeFilter> FilterCache::Get(const TrialState& state,
                                                   const PodClass& pod_class) {
  auto& entry = by_text_[FilterText(pod_class)];
  if (!entry) {
    auto filter = std::make_shared<NodeFilter>();
    filter->exclusion.reserve(state.node_count());
    for (NodeIndex node = 0; node < state.node_count(); ++node) {
      const Exclusion exclusion = Exclude(*state.record(node).node,
                                          pod_class.node_selector,
                                          pod_class.required_affinity,
                                          pod_class.tolerations);
      filter->exclusion.push_back(exclusion);
      if (exclusion == Exclusion::kNone) {
        ++filter->matching;
      } else {
        ++filter->excluded[exclusion];
      }
    }
    entry = std::move(filter);
  }
  return entry;
}

Answer PlaceGang(TrialState& state,
                 FilterCache& filters,
                 const GangRequest& gang,
                 std::int64_t budget_steps) {
  return Solver(state, filters, gang, budget_steps).Run();
}

}  // namespace muster::placement
