#include "scheduler/placement/solver.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "scheduler/placement/devices.h"

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
  // Claims of one pod, in its order: made from templates, so each pod has its own.
  std::vector<const ClaimPlan*> plans;
  // Extended resources that a DeviceClass serves on nodes whose allocatable does not name them.
  struct Served {
    std::optional<ResourceId> id;
    const ClaimPlan* plan = nullptr;
    std::int64_t amount = 0;
  };
  std::vector<Served> served;
  bool devices = false;
  // With devices, once counted: how many members each node could hold when the gang came.
  std::vector<std::int64_t> node_caps;
  std::vector<std::string> missing;  // requested resources that no node has ever offered
};

// The devices of one member, or of one shared claim.
struct Alloc {
  std::size_t group = 0;  // kSharedClaim: of a shared claim
  NodeIndex node = 0;
  bool movable = true;  // may be chosen anew when others need its devices
  std::vector<const ClaimPlan*> plans;
  std::vector<std::vector<Chosen>> chosen;  // by plan
};
constexpr std::size_t kSharedClaim = static_cast<std::size_t>(-1);
// A claim's reservedFor has room for this many consumers.
constexpr std::size_t kMaxConsumers = 256;

struct Put {
  std::size_t group = 0;
  NodeIndex node = 0;
  std::int64_t count = 0;
};

class Solver {
 public:
  Solver(TrialState& state, FilterCache& filters, const GangRequest& gang, std::int64_t budget)
      : state_(state),
        filters_(filters),
        gang_(gang),
        problem_(state, gang),
        budget_(budget),
        left_(budget) {}

  Answer Run();

 private:
  [[nodiscard]] bool Spend(std::int64_t steps) {
    left_ -= steps;
    return left_ >= 0;
  }

  // What Undo goes back to.
  struct Point {
    TrialState::Mark mark = 0;
    std::size_t puts = 0;
    std::size_t allocs = 0;
    std::size_t moved = 0;
  };
  [[nodiscard]] Point Now() const {
    return Point{.mark = state_.Checkpoint(),
                 .puts = puts_.size(),
                 .allocs = allocs_.size(),
                 .moved = moved_.size()};
  }

  void Prepare(std::vector<Reason>& reasons);
  void PrepareClaims(Group& group, std::vector<Reason>& reasons);
  // Leaves the group only the nodes of an allocation.
  void Restrict(Group& group, const api::NodeSelector& selector);
  [[nodiscard]] bool Mergeable(const Group& group, const PodClass& pod_class) const;
  // How many of `group` fit on `node` now, at most `limit`.
  [[nodiscard]] std::int64_t Capacity(const Group& group, NodeIndex node, std::int64_t limit) const;
  [[nodiscard]] bool PortsFree(const Group& group, NodeIndex node) const;
  // Takes `count` members of a group on a node; Capacity allows it.
  [[nodiscard]] bool Take(std::size_t group, NodeIndex node, std::int64_t count) {
    const Point before = Now();
    if (TakeUpTo(group, node, count) == count) {
      return true;
    }
    Undo(before);
    return false;
  }
  // Takes as many as have devices, at most `limit`. Returns how many.
  [[nodiscard]] std::int64_t TakeUpTo(std::size_t group, NodeIndex node, std::int64_t limit);
  void Undo(const Point& point);
  [[nodiscard]] std::vector<const ClaimPlan*> PlansOn(const Group& group, NodeIndex node) const;
  [[nodiscard]] bool Offers(NodeIndex node, ResourceId id) const {
    const auto& offered = state_.record(node).offered;
    return id < offered.size() && offered[id];
  }
  // Members whose devices could be there at the most, by counting alone.
  [[nodiscard]] std::int64_t DeviceBound(const Group& group, NodeIndex node);
  [[nodiscard]] bool AddAlloc(Alloc alloc);
  // Chooses the devices of this node's members anew, one more among them.
  [[nodiscard]] bool Rearrange(Alloc alloc);
  void CountNodeCaps(Group& group, std::size_t index);
  [[nodiscard]] Found PlaceShared(std::size_t position);
  [[nodiscard]] Found PlaceGroups();
  [[nodiscard]] Reason SharedRefusal() const;
  // What is short for the group, in numbers. `pods` is how many members there are devices for,
  // counted over all nodes, where that number alone refuses the gang.
  [[nodiscard]] std::string DeviceRefusal(const Group& group,
                                          const std::string& on,
                                          Reason& reason,
                                          std::optional<std::int64_t>& pods);
  [[nodiscard]] bool AgreesWithFirstFit(const Placement& placement);
  void FillIn(Placement& placement) const;

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

  [[nodiscard]] std::optional<Reason> Refusal(const Group& group);
  // Refuses when there are too few devices in all, wherever the members go.
  [[nodiscard]] std::optional<Reason> DeviceShortage(const Group& group);
  [[nodiscard]] Reason JointRefusal() const;
  [[nodiscard]] std::string Name(const Group& group) const;
  [[nodiscard]] static std::string Excluded(const NodeFilter& filter);
  [[nodiscard]] Placement Result();

  TrialState& state_;
  FilterCache& filters_;
  const GangRequest& gang_;
  DeviceProblem problem_;
  std::int64_t budget_;
  std::int64_t left_;
  // A device search ended early, or could not try everything: what failed since is not known to be
  // impossible.
  bool unsure_ = false;
  std::vector<Group> groups_;
  std::vector<std::size_t> order_;  // binding groups, the most constrained first
  std::vector<Put> puts_;
  std::vector<Alloc> allocs_;
  std::map<NodeIndex, std::vector<std::size_t>> allocs_on_;
  std::vector<std::pair<std::size_t, std::vector<std::vector<Chosen>>>>
      moved_;  // what Rearrange replaced
  bool rearranged_ = false;
  struct SharedDemand {
    std::size_t claim = 0;
    const ClaimPlan* plan = nullptr;
    std::vector<std::size_t> users;  // groups
  };
  std::vector<SharedDemand> shared_;
  std::vector<std::pair<api::ObjectKey, PromisedClaim>> promises_;
  std::vector<Reason> refusals_;  // of the last attempt
  TrialState::Mark start_ = 0;
  std::vector<std::size_t> left_out_;  // groups that kube-scheduler is left with
};

void Solver::Prepare(std::vector<Reason>& reasons) {
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
      const auto served = state_.view().extended->find(name);
      if (served != state_.view().extended->end()) {
        Group::Served entry;
        if (id != table.ids.end()) {
          entry.id = id->second;
        }
        entry.amount = amount.value();
        entry.plan = &problem_.at(problem_.AddExtended(name, served->second, amount.value()));
        group.served.push_back(entry);
        group.devices = true;
      } else if (id == table.ids.end()) {
        group.missing.push_back(name);
      } else {
        group.requests.push_back(ResourceUse{.id = id->second, .amount = amount.value()});
      }
    }
    group.ports = HostPortsOf(pod_class.host_ports);
    group.filter = filters_.Get(state_, pod_class);
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
  for (Group& group : groups_) {
    PrepareClaims(group, reasons);
    group.binds = group.first->nodes_bind || (group.devices && group.first->devices_bind);
  }
  // A shared claim of a group that does not bind is left to kube-scheduler with all its users.
  for (const SharedDemand& demand : shared_) {
    for (const std::size_t user : demand.users) {
      if (!groups_[user].binds) {
        left_out_.push_back(user);
      }
    }
  }
  std::erase_if(shared_, [&](SharedDemand& demand) {
    std::erase_if(demand.users, [&](std::size_t user) { return !groups_[user].binds; });
    return demand.users.empty();
  });
}

void Solver::Restrict(Group& group, const api::NodeSelector& selector) {
  if (!selector.present) {
    return;
  }
  auto filter = std::make_shared<NodeFilter>(*group.filter);
  for (NodeIndex node = 0; node < state_.node_count(); ++node) {
    const auto& meta = state_.record(node).node->meta;
    if (filter->exclusion[node] == Exclusion::kNone &&
        !MatchesSelector(selector, meta.labels, meta.name)) {
      filter->exclusion[node] = Exclusion::kClaim;
      --filter->matching;
      ++filter->excluded[Exclusion::kClaim];
    }
  }
  group.filter = std::move(filter);
}

void Solver::PrepareClaims(Group& group, std::vector<Reason>& reasons) {
  const auto index = static_cast<std::size_t>(&group - groups_.data());
  const auto refuse = [&](Reason reason) {
    reason.pod_class = group.first->name;
    reason.message = Name(group) + ": " + reason.message;
    reasons.push_back(std::move(reason));
  };
  for (const std::size_t claim : group.first->claims) {
    if (claim >= gang_.claims.size()) {
      continue;
    }
    const ClaimDemand& demand = gang_.claims[claim];
    const api::ResourceClaim* known =
        demand.existing ? state_.view().claims.Find(*demand.existing) : nullptr;
    if (demand.existing && known == nullptr && demand.shared) {
      Reason reason;
      reason.code = Reason::Code::kClaimMissing;
      reason.message = "ResourceClaim " + demand.existing->ToString() + " does not exist";
      refuse(std::move(reason));
      continue;
    }
    if (known != nullptr && known->allocated && !state_.vacated(*demand.existing)) {
      if (known->reserved_for.size() + static_cast<std::size_t>(group.count) > kMaxConsumers &&
          std::none_of(known->reserved_for.begin(), known->reserved_for.end(), [](const auto& by) {
            return by.resource == "podgroups";
          })) {
        Reason reason;
        reason.code = Reason::Code::kDevices;
        reason.asked = group.count;
        reason.free = static_cast<std::int64_t>(
            kMaxConsumers - std::min(kMaxConsumers, known->reserved_for.size()));
        reason.message = "ResourceClaim " + demand.existing->ToString() + " is reserved for " +
                         std::to_string(known->reserved_for.size()) + " of at most " +
                         std::to_string(kMaxConsumers) + " consumers";
        refuse(std::move(reason));
        continue;
      }
      Restrict(group, known->allocation_node_selector);
      continue;
    }
    if (const PromisedClaim* promise =
            demand.existing ? state_.promised(*demand.existing) : nullptr) {
      Restrict(group, promise->selector);
      continue;
    }
    group.devices = true;
    if (auto reason = problem_.Add(claim, known != nullptr ? known->spec : demand.spec)) {
      refuse(*std::move(reason));
      continue;
    }
    const ClaimPlan* plan = problem_.plan(claim);
    if (!demand.shared) {
      group.plans.push_back(plan);
      continue;
    }
    const auto at = std::find_if(shared_.begin(), shared_.end(), [&](const SharedDemand& other) {
      return other.claim == claim;
    });
    if (at == shared_.end()) {
      shared_.push_back(SharedDemand{.claim = claim, .plan = plan, .users = {index}});
    } else {
      at->users.push_back(index);
    }
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
  for (const auto& served : group.served) {
    if (served.id && Offers(node, *served.id)) {
      capacity = std::min(capacity, state_.free(node, *served.id) / served.amount);
    }
  }
  if (!group.ports.empty()) {
    capacity = PortsFree(group, node) ? std::min<std::int64_t>(capacity, 1) : 0;
  }
  if (group.devices) {
    if (!group.node_caps.empty()) {
      capacity = std::min(capacity, group.node_caps[node]);
    } else if (!group.plans.empty() && state_.record(node).pools.empty() &&
               state_.view().network_pools->empty()) {
      return 0;
    }
  }
  return std::max<std::int64_t>(capacity, 0);
}

std::vector<const ClaimPlan*> Solver::PlansOn(const Group& group, NodeIndex node) const {
  std::vector<const ClaimPlan*> plans = group.plans;
  for (const auto& served : group.served) {
    if (!served.id || !Offers(node, *served.id)) {
      plans.push_back(served.plan);
    }
  }
  return plans;
}

std::int64_t Solver::DeviceBound(const Group& group, NodeIndex node) {
  const std::vector<const ClaimPlan*> plans = PlansOn(group, node);
  if (plans.empty()) {
    return kMany;
  }
  const NodeDevices& devices = problem_.On(node);
  std::int64_t bound = kMany;
  for (const ClaimPlan* plan : plans) {
    for (const RequestPlan& request : plan->requests) {
      std::int64_t ways = 0;
      for (const DeviceOption& option : request.options) {
        const std::int64_t usable = devices.usable[option.id];
        if (option.all) {
          ways = option.admin || devices.shares ? kMany : (Amount(ways) + Amount(1)).value();
        } else if (option.count <= 0) {
          ways = kMany;
        } else if (option.admin || devices.shares) {
          ways = usable >= option.count ? kMany : ways;
        } else {
          ways = (Amount(ways) + Amount(usable / option.count)).value();
        }
      }
      bound = std::min(bound, ways);
    }
  }
  return bound;
}

bool Solver::AddAlloc(Alloc alloc) {
  const NodeDevices& devices = problem_.On(alloc.node);
  std::vector<SearchItem> items;
  for (const ClaimPlan* plan : alloc.plans) {
    items.push_back(SearchItem{.plan = plan, .node = &devices, .pod = 0});
  }
  const Found found = SearchDevices(state_, problem_, items, SearchMode::kAny, left_, alloc.chosen);
  if (found == Found::kYes) {
    allocs_on_[alloc.node].push_back(allocs_.size());
    allocs_.push_back(std::move(alloc));
    return true;
  }
  unsure_ = unsure_ || found == Found::kBudget;
  return found == Found::kNo && Rearrange(std::move(alloc));
}

bool Solver::Rearrange(Alloc alloc) {
  const NodeDevices& devices = problem_.On(alloc.node);
  // Devices that several nodes can use tie all members together.
  std::vector<std::size_t> others;
  if (devices.network) {
    for (std::size_t i = 0; i < allocs_.size(); ++i) {
      others.push_back(i);
    }
  } else if (const auto here = allocs_on_.find(alloc.node); here != allocs_on_.end()) {
    others = here->second;
  }
  if (others.empty()) {
    return false;
  }
  if (std::any_of(
          others.begin(), others.end(), [&](std::size_t i) { return !allocs_[i].movable; })) {
    unsure_ = true;
    return false;
  }
  const auto mark = state_.Checkpoint();
  std::vector<SearchItem> items;
  for (const std::size_t i : others) {
    for (std::size_t p = 0; p < allocs_[i].plans.size(); ++p) {
      items.push_back(
          SearchItem{.plan = allocs_[i].plans[p], .node = &problem_.On(allocs_[i].node), .pod = i});
      ReturnChosen(state_, allocs_[i].chosen[p]);
    }
  }
  for (const ClaimPlan* plan : alloc.plans) {
    items.push_back(SearchItem{.plan = plan, .node = &devices, .pod = allocs_.size()});
  }
  std::vector<std::vector<Chosen>> chosen;
  const Found found = SearchDevices(state_, problem_, items, SearchMode::kAny, left_, chosen);
  if (found != Found::kYes) {
    unsure_ = unsure_ || found == Found::kBudget;
    state_.Rollback(mark);
    return false;
  }
  rearranged_ = true;
  auto next = chosen.begin();
  const auto take = [&](std::size_t count) {
    std::vector<std::vector<Chosen>> out(
        std::make_move_iterator(next),
        std::make_move_iterator(next + static_cast<std::ptrdiff_t>(count)));
    next += static_cast<std::ptrdiff_t>(count);
    return out;
  };
  for (const std::size_t i : others) {
    moved_.emplace_back(i, std::exchange(allocs_[i].chosen, take(allocs_[i].plans.size())));
  }
  alloc.chosen = take(alloc.plans.size());
  allocs_on_[alloc.node].push_back(allocs_.size());
  allocs_.push_back(std::move(alloc));
  return true;
}

std::int64_t Solver::TakeUpTo(std::size_t index, NodeIndex node, std::int64_t limit) {
  const Group& group = groups_[index];
  std::int64_t count = limit;
  if (group.devices) {
    const std::vector<const ClaimPlan*> plans = PlansOn(group, node);
    if (!plans.empty()) {
      count = 0;
      const std::int64_t bound = std::min(limit, DeviceBound(group, node));
      while (count < bound && AddAlloc(Alloc{.group = index, .node = node, .plans = plans})) {
        ++count;
      }
    }
  }
  if (count == 0) {
    return 0;
  }
  for (const auto& use : group.requests) {
    state_.AddFree(node, use.id, use.amount, -count);
  }
  for (const auto& served : group.served) {
    if (served.id && Offers(node, *served.id)) {
      state_.AddFree(node, *served.id, served.amount, -count);
    }
  }
  if (!group.ports.empty()) {
    auto ports = state_.ports(node);
    ports.insert(ports.end(), group.ports.begin(), group.ports.end());
    state_.SetPorts(node, std::move(ports));
  }
  puts_.push_back(Put{.group = index, .node = node, .count = count});
  return count;
}

void Solver::Undo(const Point& point) {
  state_.Rollback(point.mark);
  puts_.resize(point.puts);
  while (moved_.size() > point.moved) {
    allocs_[moved_.back().first].chosen = std::move(moved_.back().second);
    moved_.pop_back();
  }
  while (allocs_.size() > point.allocs) {
    const auto on = allocs_on_.find(allocs_.back().node);
    on->second.pop_back();
    if (on->second.empty()) {
      allocs_on_.erase(on);
    }
    allocs_.pop_back();
  }
}

void Solver::CountNodeCaps(Group& group, std::size_t index) {
  group.node_caps.clear();
  std::vector<std::int64_t> caps(state_.node_count(), 0);
  for (NodeIndex node = 0; node < state_.node_count(); ++node) {
    const std::int64_t room = Capacity(group, node, group.count);
    if (room > 0) {
      const Point before = Now();
      caps[node] = TakeUpTo(index, node, room);
      Undo(before);
    }
  }
  group.node_caps = std::move(caps);
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
    if (group.devices) {
      // Free devices of the node itself; a node with some of them in use is filled up first.
      candidate.foreign = false;
      candidate.rest = 0;
      for (const std::uint32_t slot : record.pools) {
        const auto& users = state_.pool(slot).users;
        candidate.rest += std::count(users.begin(), users.end(), 0U);
      }
    }
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
    placed += TakeUpTo(index, candidate.node, std::min(candidate.capacity, wanted - placed));
    if (left_ < 0) {
      break;
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

Found Solver::Search(std::size_t position) {
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

Found Solver::Distribute(std::size_t position,
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
    const Point before = Now();
    if (count == 0 || Take(order_[position], candidate.node, count)) {
      const Found found = Distribute(
          position, candidates, room_after, at + 1, wanted - count, twin_follows ? count : kMany);
      if (found != Found::kNo) {
        return found;
      }
    }
    Undo(before);
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
  add(Exclusion::kClaim, "allocated claim");
  return parts.empty() ? "" : "; excluded: " + Join(parts, ", ");
}

std::optional<Reason> Solver::Refusal(const Group& group) {
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
  } else if (group.devices) {
    reason.code = Reason::Code::kDevices;
    std::optional<std::int64_t> pods;
    reason.message = head + ": " + DeviceRefusal(group, on, reason, pods);
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

std::string Solver::DeviceRefusal(const Group& group,
                                  const std::string& on,
                                  Reason& reason,
                                  std::optional<std::int64_t>& pods) {
  // Of the requests with one alternative, the one that is furthest from being met.
  std::vector<const ClaimPlan*> plans = group.plans;
  for (const auto& served : group.served) {
    plans.push_back(served.plan);
  }
  for (const SharedDemand& demand : shared_) {
    if (std::any_of(demand.users.begin(), demand.users.end(), [&](std::size_t user) {
          return &groups_[user] == &group;
        })) {
      plans.push_back(demand.plan);
    }
  }
  std::string broken;
  std::string error;
  bool shares = false;
  std::map<std::uint32_t, std::set<std::pair<std::uint32_t, std::uint32_t>>> free;
  for (NodeIndex node = 0; node < state_.node_count(); ++node) {
    if (group.filter->exclusion[node] != Exclusion::kNone) {
      continue;
    }
    const NodeDevices& devices = problem_.On(node);
    broken = broken.empty() ? devices.broken : broken;
    error = error.empty() ? devices.error : error;
    shares = shares || devices.shares;
    for (std::size_t i = 0; i < devices.devices.size(); ++i) {
      const NodeDevice& device = devices.devices[i];
      for (const ClaimPlan* plan : plans) {
        for (const RequestPlan& request : plan->requests) {
          for (const DeviceOption& option : request.options) {
            if (devices.fits[i * problem_.option_count() + option.id] == Fit::kYes &&
                (option.admin || state_.pool(device.pool).users[device.device] == 0)) {
              free[option.id].emplace(device.pool, device.device);
            }
          }
        }
      }
    }
  }
  const DeviceOption* worst = nullptr;
  std::int64_t worst_asked = 0;
  std::int64_t worst_free = 0;
  for (const ClaimPlan* plan : plans) {
    const bool shared = plan->claim != kExtendedResourceClaim && gang_.claims[plan->claim].shared;
    for (const RequestPlan& request : plan->requests) {
      const DeviceOption& option = request.options.front();
      const Amount asked = Amount(option.all ? 1 : option.count) * (shared ? 1 : group.count);
      const auto have = static_cast<std::int64_t>(free[option.id].size());
      if (worst == nullptr || asked.value() - have > worst_asked - worst_free) {
        worst = &option;
        worst_asked = asked.value();
        worst_free = have;
        pods.reset();
        if (request.options.size() == 1 && !option.all && !option.admin && !shares && !shared &&
            option.count > 0 && have < asked.value()) {
          pods = have / option.count;
        }
      }
    }
  }
  std::string text;
  if (worst != nullptr) {
    reason.resource = worst->device_class;
    reason.asked = worst_asked;
    reason.free = worst_free;
    text = worst->device_class + ": " + Plural(worst_asked, "device") + " asked, " +
           std::to_string(worst_free) +
           (worst_free == 1 ? " matches and is free" : " match and are free") + on;
    if (worst_free >= worst_asked) {
      text += ", but not as each pod needs them on one node";
    }
  }
  if (!broken.empty()) {
    text += "; " + broken;
  }
  if (!error.empty()) {
    reason.code = Reason::Code::kSelector;
    text += "; selector error on " + error;
  }
  return text;
}

std::optional<Reason> Solver::DeviceShortage(const Group& group) {
  Reason reason;
  reason.code = Reason::Code::kDevices;
  reason.pod_class = group.first->name;
  std::optional<std::int64_t> pods;
  const std::string text =
      DeviceRefusal(group, " on " + Plural(group.filter->matching, "matching node"), reason, pods);
  if (!pods) {
    return std::nullopt;
  }
  reason.message = Name(group) + ": " + Plural(group.count, "pod") + " asked, " +
                   std::to_string(*pods) + " fit: " + text + Excluded(*group.filter);
  return reason;
}

Reason Solver::SharedRefusal() const {
  Reason reason;
  reason.code = Reason::Code::kDevices;
  std::vector<std::string> claims;
  for (const SharedDemand& demand : shared_) {
    claims.push_back(gang_.claims[demand.claim].name);
    for (const std::size_t user : demand.users) {
      reason.asked += groups_[user].count;
    }
  }
  reason.resource = shared_.front().plan->requests.empty()
                        ? std::string()
                        : shared_.front().plan->requests.front().options.front().device_class;
  reason.message = "shared claim " + Join(claims, ", ") + " (" + reason.resource +
                   "): no node has its devices free and reaches room for all " +
                   Plural(reason.asked, "pod") + " that use it";
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
  if (!allocs_.empty()) {
    FillIn(placement);
    placement.agrees_with_first_fit = AgreesWithFirstFit(placement);
  }
  return placement;
}

void Solver::FillIn(Placement& placement) const {
  // Allocations of one group on one node belong to its members there in order.
  std::map<std::pair<std::size_t, std::string>, std::vector<std::size_t>> waiting;
  for (std::size_t i = allocs_.size(); i-- > 0;) {
    waiting[{allocs_[i].group, state_.name(allocs_[i].node)}].push_back(i);
  }
  const auto list = [&](const Alloc& alloc, std::vector<DeviceChoice>& out) {
    for (std::size_t p = 0; p < alloc.plans.size(); ++p) {
      for (const Chosen& one : alloc.chosen[p]) {
        const PoolRecord& pool = *state_.view().pools.Get(one.pool)->record;
        out.push_back(DeviceChoice{.claim = alloc.plans[p]->claim,
                                   .request = problem_.option(one.option).label,
                                   .driver = pool.driver,
                                   .pool = pool.pool,
                                   .device = pool.devices[one.device].device->name,
                                   .admin_access = one.admin,
                                   .share = one.share,
                                   .consumed_capacity = one.consumed});
      }
    }
  };
  std::vector<std::size_t> group_of(gang_.classes.size());
  for (std::size_t index = 0; index < groups_.size(); ++index) {
    for (const std::size_t i : groups_[index].classes) {
      group_of[i] = index;
    }
  }
  for (PodPlacement& pod : placement.pods) {
    const auto at = waiting.find({group_of[pod.pod_class], pod.node});
    if (at != waiting.end() && !at->second.empty()) {
      list(allocs_[at->second.back()], pod.devices);
      at->second.pop_back();
    }
  }
  for (const Alloc& alloc : allocs_) {
    if (alloc.group == kSharedClaim) {
      list(alloc, placement.shared_devices);
    }
  }
}

bool Solver::AgreesWithFirstFit(const Placement& placement) {
  // Members were given devices one by one, each the first fit. That is what kube-scheduler does in
  // any order of nodes, as long as no device is reached from two of them and each node has members
  // of one group.
  bool plain = !rearranged_ && shared_.empty();
  for (std::uint32_t id = 0; id < problem_.option_count(); ++id) {
    plain = plain && !problem_.option(id).all;
  }
  for (const auto& [node, indexes] : allocs_on_) {
    const NodeDevices& devices = problem_.On(node);
    plain = plain && !devices.network && devices.error.empty() && devices.broken.empty() &&
            std::all_of(indexes.begin(), indexes.end(), [&](std::size_t i) {
              return allocs_[i].group == allocs_[indexes.front()].group;
            });
    if (!plain) {
      break;
    }
  }
  if (plain) {
    return true;
  }
  // Bind them in order in the state before the gang, then put everything back.
  const std::vector<Put> puts = puts_;
  const std::vector<Alloc> allocs = allocs_;
  const auto moved = moved_;
  state_.Rollback(start_);
  bool agrees = true;
  std::set<std::size_t> done;
  std::vector<DeviceChoice> shared;
  std::vector<std::size_t> group_of(gang_.classes.size());
  for (std::size_t index = 0; index < groups_.size(); ++index) {
    for (const std::size_t i : groups_[index].classes) {
      group_of[i] = index;
    }
  }
  const auto same = [](const DeviceChoice& a, const DeviceChoice& b) {
    return a.claim == b.claim && a.request == b.request && a.driver == b.driver &&
           a.pool == b.pool && a.device == b.device;
  };
  for (const PodPlacement& pod : placement.pods) {
    if (pod.node.empty()) {
      continue;
    }
    const auto node = static_cast<NodeIndex>(state_.Find(pod.node));
    const Group& group = groups_[group_of[pod.pod_class]];
    std::vector<const ClaimPlan*> plans;
    for (const std::size_t claim : group.first->claims) {
      const bool waits = std::any_of(shared_.begin(), shared_.end(), [&](const auto& demand) {
        return demand.claim == claim;
      });
      if (claim < gang_.claims.size() && problem_.plan(claim) != nullptr &&
          (!gang_.claims[claim].shared || (waits && done.insert(claim).second))) {
        plans.push_back(problem_.plan(claim));
      }
    }
    for (const ClaimPlan* plan : PlansOn(group, node)) {
      if (plan->claim == kExtendedResourceClaim) {
        plans.push_back(plan);
      }
    }
    std::vector<SearchItem> items;
    for (const ClaimPlan* plan : plans) {
      items.push_back(SearchItem{.plan = plan, .node = &problem_.On(node), .pod = 0});
    }
    std::vector<std::vector<Chosen>> chosen;
    std::int64_t steps = std::max<std::int64_t>(budget_, 1);
    if (SearchDevices(state_, problem_, items, SearchMode::kFirstFit, steps, chosen) !=
        Found::kYes) {
      agrees = false;
      break;
    }
    std::vector<DeviceChoice> own;
    for (std::size_t p = 0; p < plans.size(); ++p) {
      const bool is_shared =
          plans[p]->claim != kExtendedResourceClaim && gang_.claims[plans[p]->claim].shared;
      for (const Chosen& one : chosen[p]) {
        const PoolRecord& pool = *state_.view().pools.Get(one.pool)->record;
        (is_shared ? shared : own)
            .push_back(DeviceChoice{.claim = plans[p]->claim,
                                    .request = problem_.option(one.option).label,
                                    .driver = pool.driver,
                                    .pool = pool.pool,
                                    .device = pool.devices[one.device].device->name});
      }
    }
    if (!std::equal(own.begin(), own.end(), pod.devices.begin(), pod.devices.end(), same)) {
      agrees = false;
      break;
    }
  }
  const auto by_claim = [](const DeviceChoice& a, const DeviceChoice& b) {
    return std::tie(a.claim, a.request, a.driver, a.pool, a.device) <
           std::tie(b.claim, b.request, b.driver, b.pool, b.device);
  };
  auto planned = placement.shared_devices;
  std::sort(planned.begin(), planned.end(), by_claim);
  std::sort(shared.begin(), shared.end(), by_claim);
  agrees = agrees && std::equal(shared.begin(), shared.end(), planned.begin(), planned.end(), same);

  state_.Rollback(start_);
  for (const Put& put : puts) {
    const Group& group = groups_[put.group];
    for (const auto& use : group.requests) {
      state_.AddFree(put.node, use.id, use.amount, -put.count);
    }
    for (const auto& served : group.served) {
      if (served.id && Offers(put.node, *served.id)) {
        state_.AddFree(put.node, *served.id, served.amount, -put.count);
      }
    }
    if (!group.ports.empty()) {
      auto ports = state_.ports(put.node);
      ports.insert(ports.end(), group.ports.begin(), group.ports.end());
      state_.SetPorts(put.node, std::move(ports));
    }
  }
  for (const Alloc& alloc : allocs) {
    for (const auto& chosen : alloc.chosen) {
      TakeChosen(state_, chosen);
    }
  }
  return agrees;
}

Found Solver::PlaceShared(std::size_t position) {
  if (position == shared_.size()) {
    return PlaceGroups();
  }
  const SharedDemand& demand = shared_[position];
  bool unsure = false;
  std::set<std::vector<std::pair<std::uint32_t, std::uint32_t>>> tried;
  for (NodeIndex node = 0; node < state_.node_count(); ++node) {
    const bool open = std::all_of(demand.users.begin(), demand.users.end(), [&](std::size_t user) {
      return groups_[user].filter->exclusion[node] == Exclusion::kNone;
    });
    if (!open || (state_.record(node).pools.empty() && state_.view().network_pools->empty())) {
      continue;
    }
    if (!Spend(1)) {
      return Found::kBudget;
    }
    const Point before = Now();
    if (!AddAlloc(Alloc{.group = kSharedClaim, .node = node, .plans = {demand.plan}})) {
      unsure = unsure || unsure_;
      continue;
    }
    std::vector<const PoolDevice*> devices;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> key;
    for (const Chosen& one : allocs_.back().chosen.front()) {
      devices.push_back(&state_.view().pools.Get(one.pool)->record->devices[one.device]);
      key.emplace_back(one.pool, one.device);
    }
    const api::NodeSelector where = UsableAt(devices, state_.name(node));
    const bool here = where.present && where.terms.size() == 1 &&
                      where.terms[0].match_fields.size() == 1 &&
                      where.terms[0].match_expressions.empty() &&
                      where.terms[0].match_fields[0].values == std::vector{state_.name(node)};
    allocs_.back().movable = here;
    unsure = unsure || !here;
    std::vector<Group> saved = groups_;
    bool room = here || tried.insert(key).second;
    for (const std::size_t user : demand.users) {
      Restrict(groups_[user], where);
      groups_[user].node_caps.clear();
      room = room &&
             (!here || Capacity(groups_[user], node, groups_[user].count) == groups_[user].count);
    }
    Found found = Found::kNo;
    if (room) {
      found = PlaceShared(position + 1);
    }
    if (found == Found::kYes) {
      const auto& existing = gang_.claims[demand.claim].existing;
      if (existing) {
        promises_.emplace_back(*existing, PromisedClaim{.selector = where});
      }
      return found;
    }
    groups_ = std::move(saved);
    Undo(before);
    unsure = unsure || found == Found::kBudget;
  }
  return unsure || unsure_ ? Found::kBudget : Found::kNo;
}

Found Solver::PlaceGroups() {
  const Point before = Now();
  bool placed = true;
  for (const std::size_t index : order_) {
    if (Fill(index, groups_[index].count) < groups_[index].count) {
      placed = false;
      break;
    }
  }
  if (placed) {
    return Found::kYes;
  }
  Undo(before);
  refusals_.clear();
  unsure_ = false;
  for (const std::size_t index : order_) {
    if (groups_[index].devices) {
      if (auto reason = DeviceShortage(groups_[index])) {
        refusals_.push_back(std::move(*reason));
      }
    }
  }
  if (!refusals_.empty()) {
    return Found::kNo;
  }
  for (const std::size_t index : order_) {
    if (groups_[index].devices) {
      CountNodeCaps(groups_[index], index);
      if (left_ < 0) {
        return Found::kBudget;
      }
    }
    if (auto reason = Refusal(groups_[index])) {
      refusals_.push_back(std::move(*reason));
    }
  }
  if (!refusals_.empty()) {
    return unsure_ ? Found::kBudget : Found::kNo;
  }
  refusals_.push_back(JointRefusal());
  if (refusals_.front().code == Reason::Code::kResource) {
    return Found::kNo;
  }
  if (state_.node_count() > kExactNodes) {
    return Found::kBudget;
  }
  const Found found = Search(0);
  if (found == Found::kYes) {
    return found;
  }
  Undo(before);
  return found == Found::kNo && unsure_ ? Found::kBudget : found;
}

Answer Solver::Run() {
  std::int64_t members = 0;
  for (const auto& pod_class : gang_.classes) {
    members += std::max(0, pod_class.count);
  }
  if (members == 0) {
    return Placement{};
  }
  std::vector<Reason> reasons;
  Prepare(reasons);
  if (!reasons.empty()) {
    return Unplaceable{.reasons = std::move(reasons)};
  }
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
    Reason reason;
    reason.code = Reason::Code::kUnsupported;
    reason.asked = members;
    reason.free = kMaxMembers;
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

  start_ = state_.Checkpoint();
  switch (PlaceShared(0)) {
    case Found::kYes:
      break;
    case Found::kNo:
    case Found::kError:
      state_.Rollback(start_);
      if (!shared_.empty() || refusals_.empty()) {
        refusals_ = {SharedRefusal()};
      }
      return Unplaceable{.reasons = std::move(refusals_)};
    case Found::kBudget:
      state_.Rollback(start_);
      return Undecided{.steps = budget_ - left_};
  }
  for (std::size_t index = 0; index < groups_.size(); ++index) {
    if (!groups_[index].binds &&
        std::find(left_out_.begin(), left_out_.end(), index) == left_out_.end()) {
      std::ignore = Fill(index, groups_[index].count);
    }
  }
  Placement placement = Result();
  for (const auto& [key, promise] : promises_) {
    state_.Promise(key, promise);
  }
  return placement;
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
