#include <algorithm>

#include "scheduler/cycle/gang.h"
#include "scheduler/state_impl.h"

// From state to snapshot and from plan back to state.
namespace muster::scheduler {
namespace {

// A decision sees at most this many interchangeable Workloads of a queue; more come in the next
// one. It bounds the snapshot and the plan (and so the time that the I/O thread spends on them)
// without holding anybody up.
constexpr std::size_t kMostPerClass = 1024;
// Back-off after refused writes of one Workload's admission: none, then 1 s doubling up to 64 s.
constexpr std::int32_t kMostBackoffDoublings = 6;

}  // namespace

WakeClock State::Impl::ClockOf(const std::string& queue) const {
  WakeClock out{
      .quota = 0, .configuration = 0, .capacity = capacity_wake, .pods_ready = pods_ready_wake};
  if (const quota::QueuePlace* place = configuration.ledger.Find(queue)) {
    if (const auto it = trees.find(configuration.roots[place->tree]); it != trees.end()) {
      out.quota = it->second.quota;
      out.configuration = it->second.configuration;
    }
  }
  return out;
}

void State::Impl::NoticeGrowth() {
  if (const std::uint64_t growth = inventory.growth_generation(); growth != growth_seen) {
    growth_seen = growth;
    Bump();
    capacity_wake = generation;
  }
}

void State::Impl::PromoteDue(TimePoint now) {
  while (!waiting_until.empty() && waiting_until.begin()->first <= now) {
    const api::ObjectKey key = waiting_until.begin()->second;
    waiting_until.erase(waiting_until.begin());
    if (const auto it = workloads.find(key); it != workloads.end()) {
      it->second.until.reset();
      Refile(it->second, false, now);
    }
  }
}

std::optional<Verdict> State::Impl::QueueVerdict(const std::string& name) const {
  const CompiledQueue* queue = Queue(name);
  if (queue == nullptr) {
    return Verdict{.reason = "Misconfigured",
                   .message = "ClusterQueue " + name + " doesn't exist",
                   .would_fit_if = "the ClusterQueue is created"};
  }
  if (!queue->active.is_true()) {
    return Verdict{.reason = "Suspended",
                   .message = "ClusterQueue " + name + " is inactive",
                   .would_fit_if = queue->active.message};
  }
  return std::nullopt;
}

Verdict State::Impl::VerdictOf(const WorkloadEntry& entry) const {
  if (entry.where == Where::kStanding && (!entry.counts_as_pending || entry.standing_tell)) {
    return *entry.standing;
  }
  if (entry.where == Where::kStanding || entry.where == Where::kQueued) {
    if (std::optional<Verdict> verdict = QueueVerdict(entry.queue)) {
      return *verdict;
    }
  }
  if (entry.where == Where::kStanding) {
    return *entry.standing;
  }
  if (entry.where == Where::kQueued) {
    const auto it = queues.find(entry.queue);
    if (it != queues.end()) {
      if (const Verdict* verdict = it->second.VerdictOf(entry.item->shape->digest)) {
        return *verdict;
      }
      Verdict out{.reason = "PendingEvaluation",
                  .message = "Workload is pending evaluation in the scheduling queue",
                  .would_fit_if = {}};
      const CompiledQueue* queue = Queue(entry.queue);
      const auto& first = *it->second.items().begin();
      if (queue != nullptr && queue->spec->strict_fifo && first != entry.item) {
        out.would_fit_if = "workload " + first->ref.key.ToString() +
                           ", which stands first in this StrictFIFO queue, starts or goes";
      }
      return out;
    }
  }
  return {};
}

bool State::Impl::HasActive(TimePoint now) {
  if (active_generation == generation && (!active_until || now < *active_until)) {
    return active;
  }
  active = false;
  active_until.reset();
  for (const auto& [name, queue] : queues) {
    const CompiledQueue* compiled = Queue(name);
    if (compiled == nullptr || !compiled->active.is_true()) {
      continue;
    }
    if (queue.HasActive(ClockOf(name), compiled->spec->strict_fifo, now)) {
      active = true;
      break;
    }
    if (const auto retry = queue.NextRetry(); retry && (!active_until || *retry < *active_until)) {
      active_until = retry;
    }
  }
  active_generation = generation;
  return active;
}

bool State::NeedsCycle(TimePoint now) const {
  Impl& s = *impl_;
  if (!s.synced) {
    return false;
  }
  s.EnsureConfiguration(now);
  s.NoticeGrowth();
  s.PromoteDue(now);
  s.ExpireClaims(now);
  return !s.untold.empty() || s.HasActive(now);
}

std::optional<TimePoint> State::NextWake() const {
  const Impl& s = *impl_;
  std::optional<TimePoint> out;
  if (!s.waiting_until.empty()) {
    out = s.waiting_until.begin()->first;
  }
  for (const auto& [name, queue] : s.queues) {
    if (const auto retry = queue.NextRetry(); retry && (!out || *retry < *out)) {
      out = retry;
    }
  }
  for (const auto& [key, held] : s.claims_held) {
    if (!out || held.until < *out) {
      out = held.until;
    }
  }
  return out;
}

std::shared_ptr<const Snapshot> State::TakeSnapshot(TimePoint now) {
  Impl& s = *impl_;
  s.EnsureConfiguration(now);
  s.PromoteDue(now);
  s.ExpireClaims(now);
  s.RefreshRunning();
  if (s.pools_dirty) {
    auto pools = std::make_shared<NodePools>();
    for (const auto& [name, node] : s.nodes) {
      pools->nodes.push_back({.node = node, .autoscaled = Autoscaled(*node)});
    }
    s.pools = std::move(pools);
    s.pools_dirty = false;
  }
  s.RecoverPlacements();
  s.NoticeGrowth();
  if (s.claims_dirty) {
    auto view = std::make_shared<std::set<api::ObjectKey>>();
    for (const auto& [key, count] : s.charged_claims) {
      view->insert(key);
    }
    s.charged_claims_view = std::move(view);
    s.claims_dirty = false;
  }
  if (s.unbound_dirty) {
    auto view = std::make_shared<std::set<std::string, std::less<>>>();
    for (const auto& [node, count] : s.unbound_nodes) {
      view->insert(node);
    }
    s.unbound_nodes_view = std::move(view);
    s.unbound_dirty = false;
  }

  auto out = std::make_shared<Snapshot>();
  out->generation = s.generation;
  out->options = s.options;
  out->queues = s.configuration.queues;
  out->ledger = s.configuration.ledger;
  out->shares = s.configuration.shares;
  out->running = s.running;
  for (const auto& [key, held] : s.claims_held) {
    out->claims.push_back(held.claim);
  }
  for (const api::ObjectKey& key : s.waiting_in_vain) {
    out->waited_for.emplace(key, s.workloads.at(key).waited_for);
  }
  out->pools = s.pools;
  out->charged_claims = s.charged_claims_view;
  out->unbound_nodes = s.unbound_nodes_view;
  out->blocked_by_pods_ready = s.not_ready > 0;
  for (const auto& [name, queue] : s.queues) {
    const auto compiled = s.configuration.queues->find(name);
    if (compiled == s.configuration.queues->end() || !compiled->second->active.is_true()) {
      continue;
    }
    PendingQueueView view{.queue = compiled->second, .classes = {}, .held = {}, .held_for = {}};
    queue.FillView(s.ClockOf(name), compiled->second->spec->strict_fifo, now, kMostPerClass, view);
    if (!view.classes.empty() || !view.held.empty()) {
      out->pending.push_back(std::move(view));
    }
  }
  for (const api::ObjectKey& key : s.untold) {
    const auto it = s.workloads.find(key);
    if (it == s.workloads.end()) {
      continue;
    }
    const WorkloadEntry& entry = it->second;
    const bool standing = entry.where == Where::kStanding && entry.standing_tell;
    const bool closed = (entry.where == Where::kStanding || entry.where == Where::kQueued) &&
                        !entry.queue.empty() && s.QueueVerdict(entry.queue).has_value();
    // One that joined a class which is parked already waits for the same reason as the others.
    const bool joined = !closed && entry.where == Where::kQueued &&
                        s.queues.at(entry.queue).VerdictOf(entry.item->shape->digest) != nullptr;
    if (!standing && !closed && !joined) {
      continue;
    }
    Refusal refusal;
    refusal.workload = WorkloadRef{.key = key,
                                   .uid = entry.object->meta.uid,
                                   .resource_version = entry.object->meta.resource_version};
    refusal.verdict = s.VerdictOf(entry);
    refusal.standing = true;
    out->standing.push_back(std::move(refusal));
  }
  s.untold.clear();
  out->inventory = s.inventory.View();
  return out;
}

bool State::Impl::AcceptAdmission(AdmissionDecision& decision, TimePoint now) {
  const auto it = workloads.find(decision.workload.key);
  if (it == workloads.end() || it->second.where != Where::kQueued ||
      it->second.object->meta.uid != decision.workload.uid ||
      it->second.object->meta.resource_version != decision.workload.resource_version ||
      it->second.queue != decision.cluster_queue) {
    return false;
  }
  WorkloadEntry& entry = it->second;
  EnsureConfiguration(now);
  const CompiledQueue* queue = Queue(decision.cluster_queue);
  if (queue == nullptr || !queue->active.is_true() || !queue->place) {
    return false;
  }
  std::map<quota::FlavorResource, Amount> sum;
  for (const PodSetDecision& pod_set : decision.pod_sets) {
    for (const auto& [resource, amount] : pod_set.usage) {
      const auto flavor = pod_set.flavors.find(resource);
      if (flavor == pod_set.flavors.end()) {
        return false;
      }
      sum[quota::FlavorResource{.flavor = flavor->second, .resource = resource}] += amount;
    }
  }
  // The world may have moved while the decision was being made: what no longer fits is decided
  // again.
  const quota::Tree& tree = configuration.ledger.tree(queue->place->tree);
  for (const auto& [row, amount] : sum) {
    const auto found = tree.FindRow(row.flavor, row.resource);
    if (!found || amount > tree.available(queue->place->node, *found).AtLeastZero()) {
      return false;
    }
  }
  Unfile(entry);
  entry.where = Where::kReserved;
  entry.assumed = true;
  entry.told = {};
  reserved[entry.queue].insert(decision.workload.key);
  SetCharge(entry, Charge(sum.begin(), sum.end()), decision.admitted);
  SetClaims(entry, NamedClaimsOf(*entry.object));
  SetNotReady(entry, true);
  TouchRunning(entry);
  entry.decision = decision;
  Hold(entry);
  return true;
}

Plan State::Apply(Plan plan, TimePoint now) {
  Impl& s = *impl_;
  Plan out;
  out.snapshot_generation = plan.snapshot_generation;
  out.steps = plan.steps;
  s.AcceptPreemptions(plan, out, now);
  for (AdmissionDecision& decision : plan.admissions) {
    if (s.AcceptAdmission(decision, now)) {
      out.admissions.push_back(std::move(decision));
    } else {
      s.Bump();  // still queued and active: looked at again
    }
  }
  const auto tell = [&](WorkloadEntry& entry, const Refusal& refusal, bool message_counts) {
    const bool news = entry.told.reason != refusal.verdict.reason ||
                      (message_counts && entry.told.message != refusal.verdict.message);
    if (!news) {
      return;
    }
    entry.told = refusal.verdict;
    Refusal copy = refusal;
    copy.workload = WorkloadRef{.key = entry.object->meta.key(),
                                .uid = entry.object->meta.uid,
                                .resource_version = entry.object->meta.resource_version};
    out.refusals.push_back(std::move(copy));
  };
  for (const Refusal& refusal : plan.refusals) {
    const auto it = s.workloads.find(refusal.workload.key);
    if (it == s.workloads.end() || it->second.object->meta.uid != refusal.workload.uid) {
      continue;
    }
    WorkloadEntry& entry = it->second;
    if (refusal.standing) {
      if (entry.where == Where::kStanding || entry.where == Where::kQueued) {
        if (s.VerdictOf(entry) == refusal.verdict) {
          tell(entry, refusal, true);
        }
      }
      continue;
    }
    if (entry.where != Where::kQueued) {
      continue;
    }
    const auto queue = s.queues.find(entry.queue);
    if (queue == s.queues.end()) {
      continue;
    }
    // The refusal was worked out for the Workload as it was then. If it asks for something else
    // now, it is looked at again.
    if (entry.item->shape->digest != refusal.digest) {
      continue;
    }
    const std::size_t holding = queue->second.holding();
    queue->second.Park(entry.item->shape->digest, refusal, plan.snapshot_generation, now);
    if (queue->second.holding() < holding) {
      s.WakeTree(entry.queue);
    }
    s.MarkDirty(entry);
    const CompiledQueue* compiled = s.Queue(entry.queue);
    tell(entry, refusal, true);
    // The others of its class wait for the same reason. A new reason is told to each; new numbers
    // only to the one that was looked at, so that a long queue does not cause a write per Workload
    // each time that a number changes.
    if (compiled != nullptr && !compiled->spec->strict_fifo) {
      for (const auto& item : *queue->second.ClassItems(entry.item->shape->digest)) {
        tell(s.workloads.at(item->ref.key), refusal, false);
      }
    }
  }
  s.Bump();
  return out;
}

void State::Forget(const api::ObjectKey& workload, TimePoint now) {
  Impl& s = *impl_;
  const auto it = s.workloads.find(workload);
  if (it == s.workloads.end() || it->second.where != Where::kReserved || !it->second.assumed) {
    return;
  }
  WorkloadEntry& entry = it->second;
  s.Release(entry);
  entry.where = Where::kNowhere;
  // The first failure is mostly a conflict and worth another try at once; a write that is refused
  // again and again must not stand in the way.
  if (entry.failures > 0) {
    entry.not_before = now + std::chrono::seconds(std::int64_t{1} << std::min(
                                                      entry.failures - 1, kMostBackoffDoublings));
  }
  ++entry.failures;
  s.Refile(entry, true, now);
}

// --- recovery ---

void State::Impl::RecoverPlacements() {
  if (unrecovered.empty()) {
    return;
  }
  const std::set<api::ObjectKey> keys = std::exchange(unrecovered, {});
  placement::Trial trial(inventory.View());
  for (const api::ObjectKey& key : keys) {
    if (const auto it = workloads.find(key);
        it != workloads.end() && it->second.where == Where::kReserved && !it->second.decision) {
      Recover(it->second, trial);
    }
  }
}

void State::Impl::Recover(WorkloadEntry& entry, placement::Trial& trial) {
  constexpr std::int64_t kSteps = 2'000'000;
  const api::Workload& workload = *entry.object;
  if (!workload.admission) {
    return;
  }
  AdmissionDecision decision;
  decision.workload = WorkloadRef{.key = workload.meta.key(),
                                  .uid = workload.meta.uid,
                                  .resource_version = workload.meta.resource_version};
  decision.cluster_queue = workload.admission->cluster_queue;
  decision.admitted = workload.admitted();
  if (entry.shape == nullptr) {
    entry.shape = BuildShape(workload, Context()).shape;
  }
  const Shape& shape = *entry.shape;
  const CompiledQueue* queue = Queue(decision.cluster_queue);
  std::map<std::string, CompiledFlavor, std::less<>> known;
  std::vector<std::int32_t> counts;
  std::vector<std::vector<const CompiledFlavor*>> flavors;
  std::vector<CapacityRule> rules;
  bool binds = false;
  for (const PodSetShape& pod_set : shape.pod_sets) {
    PodSetDecision out{.name = pod_set.name, .flavors = {}, .usage = {}, .count = 0};
    std::vector<const CompiledFlavor*>& list = flavors.emplace_back();
    for (const api::PodSetAssignment& assignment : workload.admission->pod_sets) {
      if (assignment.name != pod_set.name) {
        continue;
      }
      out.count = assignment.count.value_or(pod_set.count);
      out.flavors = assignment.flavors;
      for (const auto& [resource, quantity] : assignment.resource_usage) {
        out.usage[resource] = api::RequestAmount(resource, quantity);
      }
      std::set<std::string> names;
      for (const auto& [resource, flavor] : assignment.flavors) {
        names.insert(flavor);
      }
      for (const std::string& name : names) {
        const auto object = objects.flavors.find(name);
        if (object == objects.flavors.end()) {
          continue;
        }
        const auto [at, inserted] =
            known.try_emplace(name,
                              CompiledFlavor{.name = name,
                                             .flavor = object->second,
                                             .capacity = CapacityOf(*object->second),
                                             .rows = {}});
        list.push_back(&at->second);
      }
    }
    rules.push_back(RuleOf(list, queue != nullptr && queue->provisioning_check, *pools));
    binds = binds || rules.back().nodes_bind || !pod_set.claims.empty();
    counts.push_back(std::max(0, out.count));
    decision.pod_sets.push_back(std::move(out));
  }
  if (!binds && pools->nodes.empty()) {
    entry.decision = std::move(decision);
    return;
  }
  placement::GangRequest gang = MakeGang(workload.meta.key(), shape, counts, flavors, rules);

  // The members that are not bound yet, on the nodes that the plan gave them if it is known and
  // they are still there, else anywhere.
  std::map<std::string, NodeRuns, std::less<>> runs;
  if (const std::string* text = workload.meta.Annotation(kPlacementAnnotation)) {
    if (auto decoded = DecodePlacement(*text)) {
      runs = std::move(*decoded);
    }
  }
  // The admission itself stores the plan as a topology assignment by hostname: one write for both.
  for (const api::PodSetAssignment& assignment : workload.admission->pod_sets) {
    if (!assignment.topology || assignment.topology->levels.empty() ||
        assignment.topology->levels.back() != "kubernetes.io/hostname") {
      continue;
    }
    NodeRuns& planned = runs[assignment.name];
    planned.clear();
    for (const api::TopologyDomainAssignment& domain : assignment.topology->domains) {
      if (!domain.values.empty() && domain.count > 0) {
        planned.emplace_back(domain.values.back(), domain.count);
      }
    }
  }
  struct Part {
    std::size_t pod_class;
    std::vector<std::int32_t> indexes;
  };
  std::optional<placement::Placement> placed;
  for (const bool pinned : {true, false}) {
    if (pinned && runs.empty()) {
      continue;
    }
    placement::GangRequest rest = gang;
    rest.classes.clear();
    std::vector<Part> parts;
    for (std::size_t c = 0; c < gang.classes.size(); ++c) {
      std::map<std::string, std::vector<std::int32_t>> by_node;
      std::vector<std::string> node_of(static_cast<std::size_t>(gang.classes[c].count));
      if (pinned) {
        std::size_t rank = 0;
        for (const auto& [node, count] : runs[gang.classes[c].name]) {
          for (std::int32_t i = 0; i < count && rank < node_of.size(); ++i) {
            node_of[rank++] = node;
          }
        }
      }
      for (std::int32_t i = 0; i < gang.classes[c].count; ++i) {
        if (!entry.bound.contains({c, i})) {
          by_node[node_of[static_cast<std::size_t>(i)]].push_back(i);
        }
      }
      for (auto& [node, indexes] : by_node) {
        placement::PodClass part = gang.classes[c];
        part.count = static_cast<std::int32_t>(indexes.size());
        if (!node.empty()) {
          const api::NodeSelectorRequirement name{
              .key = "metadata.name", .op = "In", .values = {node}};
          if (!part.required_affinity.present || part.required_affinity.terms.empty()) {
            part.required_affinity = api::NodeSelector{
                .present = true,
                .terms = {api::NodeSelectorTerm{.match_expressions = {}, .match_fields = {name}}}};
          } else {
            for (api::NodeSelectorTerm& term : part.required_affinity.terms) {
              term.match_fields.push_back(name);
            }
          }
        }
        rest.classes.push_back(std::move(part));
        parts.push_back(Part{.pod_class = c, .indexes = std::move(indexes)});
      }
    }
    placement::Answer answer = trial.Place(rest, kSteps);
    if (auto* found = std::get_if<placement::Placement>(&answer)) {
      for (placement::PodPlacement& pod : found->pods) {
        const Part& part = parts[pod.pod_class];
        pod.index = part.indexes[static_cast<std::size_t>(pod.index)];
        pod.pod_class = part.pod_class;
      }
      std::sort(found->pods.begin(),
                found->pods.end(),
                [](const placement::PodPlacement& a, const placement::PodPlacement& b) {
                  return std::pair(a.pod_class, a.index) < std::pair(b.pod_class, b.index);
                });
      placed = std::move(*found);
      break;
    }
  }
  decision.gang = std::move(gang);
  decision.placement = std::move(placed);
  const bool accelerated = std::any_of(shape.pod_sets.begin(),
                                       shape.pod_sets.end(),
                                       [](const PodSetShape& p) { return p.accelerators; });
  decision.pin_nodes =
      decision.placement && !decision.placement->pods.empty() && (accelerated || !runs.empty());
  entry.decision = std::move(decision);
  Hold(entry);
}

}  // namespace muster::scheduler
