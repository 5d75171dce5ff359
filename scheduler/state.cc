#include "scheduler/state.h"

#include <algorithm>
#include <type_traits>

#include "scheduler/cycle/gang.h"
#include "scheduler/state_impl.h"

namespace muster::scheduler {
namespace {

constexpr std::string_view kGatedBy = "kueue.x-k8s.io/admission-gated-by";

Verdict Say(std::string reason, std::string message, std::string would_fit_if = {}) {
  return Verdict{.reason = std::move(reason),
                 .message = std::move(message),
                 .would_fit_if = std::move(would_fit_if)};
}

}  // namespace

State::Impl::Impl(const Options& given) : options(std::make_shared<const Options>(given)) {}

ShapeContext State::Impl::Context() const {
  return ShapeContext{.options = options.get(),
                      .limit_ranges = &limit_ranges,
                      .runtime_classes = &runtime_classes,
                      .device_classes = &device_classes,
                      .claim_templates = &claim_templates,
                      .claims = &claims};
}

const CompiledQueue* State::Impl::Queue(std::string_view name) const {
  if (configuration.queues == nullptr) {
    return nullptr;
  }
  const auto it = configuration.queues->find(name);
  return it == configuration.queues->end() ? nullptr : it->second.get();
}

void State::Impl::MarkDirty(const WorkloadEntry& entry) {
  if (!entry.queue.empty()) {
    dirty_cluster_queues.insert(entry.queue);
  }
  dirty_local_queues.insert(entry.local_queue);
}

// --- accounting ---

void State::Impl::Book(const std::string& queue, const Charge& charge, int sign) {
  if (configuration_dirty) {
    return;  // all charges are booked again when the configuration is compiled
  }
  const quota::QueuePlace* place = configuration.ledger.Find(queue);
  if (place == nullptr) {
    return;
  }
  quota::Tree& tree = configuration.ledger.tree(place->tree);
  for (const auto& [row, amount] : charge) {
    const auto found = tree.FindRow(row.flavor, row.resource);
    // A row that nobody has quota for, or sums that left int64, cannot be kept by adding and taking
    // away.
    if (!found || amount.unlimited()) {
      configuration_dirty = true;
      return;
    }
    if (sign > 0) {
      tree.Add(place->node, *found, amount);
    } else {
      tree.Remove(place->node, *found, amount);
    }
  }
}

void State::Impl::WakeTree(const std::string& queue) {
  Bump();
  const quota::QueuePlace* place = configuration.ledger.Find(queue);
  if (place != nullptr && place->tree < configuration.roots.size()) {
    trees[configuration.roots[place->tree]].quota = generation;
  }
}

void State::Impl::SetCharge(WorkloadEntry& entry, Charge charge, bool admitted) {
  if (entry.charge != charge) {
    // Given back: any row that got smaller.
    bool less = false;
    for (const auto& [row, amount] : entry.charge) {
      const auto it =
          std::find_if(charge.begin(), charge.end(), [&, &wanted = row](const auto& other) {
            return other.first == wanted;
          });
      less = less || it == charge.end() || it->second < amount;
    }
    Book(entry.queue, entry.charge, -1);
    entry.charge = std::move(charge);
    Book(entry.queue, entry.charge, +1);
    if (less) {
      WakeTree(entry.queue);
    }
  }
  entry.charged_as_admitted = admitted;
  MarkDirty(entry);
}

void State::Impl::SetClaims(WorkloadEntry& entry, std::vector<api::ObjectKey> keys) {
  if (entry.charged_claims == keys) {
    return;
  }
  for (const api::ObjectKey& key : entry.charged_claims) {
    if (const auto it = charged_claims.find(key); it != charged_claims.end() && --it->second == 0) {
      charged_claims.erase(it);
    }
  }
  for (const api::ObjectKey& key : keys) {
    if (++charged_claims[key] > 1) {
      continue;
    }
    // Whoever else uses the claim costs less from now on.
    if (const auto users = claim_users.find(key); users != claim_users.end()) {
      for (const api::ObjectKey& user : users->second) {
        const WorkloadEntry& other = workloads.at(user);
        if (other.item != nullptr) {
          queues.at(other.queue).Wake(other.item->shape->digest);
          Bump();
        }
      }
    }
  }
  entry.charged_claims = std::move(keys);
  claims_dirty = true;
}

void State::Impl::SetNotReady(WorkloadEntry& entry, bool value) {
  if (entry.not_ready == value) {
    return;
  }
  entry.not_ready = value;
  if (value) {
    ++not_ready;
  } else if (--not_ready == 0) {
    Bump();
    pods_ready_wake = generation;
  }
}

void State::Impl::Hold(WorkloadEntry& entry) {
  if (!entry.decision || !entry.decision->placement || !entry.decision->gang) {
    return;
  }
  const std::string holder = entry.object->meta.key().ToString();
  inventory.Hold(holder, *entry.decision->gang, *entry.decision->placement);
  entry.held = true;
  unbound_dirty = true;
  for (const placement::PodPlacement& pod : entry.decision->placement->pods) {
    if (entry.bound.contains({pod.pod_class, pod.index})) {
      inventory.ReleaseOne(holder, pod.pod_class, pod.index);
    } else if (!pod.node.empty()) {
      ++unbound_nodes[pod.node];
    }
  }
}

void State::Impl::DropHold(WorkloadEntry& entry) {
  if (!entry.held) {
    return;
  }
  inventory.Release(entry.object->meta.key().ToString());
  entry.held = false;
  unbound_dirty = true;
  for (const placement::PodPlacement& pod : entry.decision->placement->pods) {
    if (pod.node.empty() || entry.bound.contains({pod.pod_class, pod.index})) {
      continue;
    }
    if (const auto it = unbound_nodes.find(pod.node);
        it != unbound_nodes.end() && --it->second == 0) {
      unbound_nodes.erase(it);
    }
  }
}

void State::Impl::Release(WorkloadEntry& entry) {
  SetCharge(entry, {}, false);
  SetClaims(entry, {});
  SetNotReady(entry, false);
  DropHold(entry);
  entry.decision.reset();
  entry.bound.clear();
  entry.pods.clear();
  entry.preempting = false;
  entry.ran_with.reset();
  entry.assumed = false;
  running_dirty.insert(entry.queue);
  entry.running.reset();
  if (const auto it = reserved.find(entry.queue); it != reserved.end()) {
    it->second.erase(entry.object->meta.key());
  }
  unrecovered.erase(entry.object->meta.key());
}

Charge State::Impl::ChargeOf(const api::Workload& workload) {
  std::map<quota::FlavorResource, Amount> sum;
  for (const api::PodSetAssignment& assignment : workload.admission->pod_sets) {
    const auto spec = std::find_if(workload.pod_sets.begin(),
                                   workload.pod_sets.end(),
                                   [&](const api::PodSet& p) { return p.name == assignment.name; });
    const std::int64_t spec_count = spec == workload.pod_sets.end() ? 0 : spec->count;
    const std::int64_t admitted = assignment.count ? *assignment.count : spec_count;
    std::int64_t remaining = spec_count;
    if (const auto it = workload.reclaimable_pods.find(assignment.name);
        it != workload.reclaimable_pods.end()) {
      remaining -= std::clamp<std::int64_t>(it->second, 0, spec_count);
    }
    for (const auto& [resource, quantity] : assignment.resource_usage) {
      const auto flavor = assignment.flavors.find(resource);
      if (flavor == assignment.flavors.end()) {
        continue;
      }
      Amount amount = api::RequestAmount(resource, quantity);
      // Pods that the job has given back no longer count. More remaining than admitted means that
      // it was admitted in part.
      if (remaining < admitted && admitted > 0 && spec != workload.pod_sets.end()) {
        amount = Amount(amount.value() / admitted) * remaining;
      }
      sum[quota::FlavorResource{.flavor = flavor->second, .resource = resource}] += amount;
    }
  }
  return {sum.begin(), sum.end()};
}

std::vector<api::ObjectKey> State::Impl::NamedClaimsOf(const api::Workload& workload) {
  std::set<api::ObjectKey> out;
  for (const api::PodSet& pod_set : workload.pod_sets) {
    for (const api::PodResourceClaim& claim : pod_set.pod_template.spec.claims) {
      if (!claim.claim_name.empty()) {
        out.insert(api::ObjectKey{.ns = workload.meta.ns, .name = claim.claim_name});
      }
    }
  }
  return {out.begin(), out.end()};
}

void State::Impl::EnsureConfiguration(TimePoint now) {
  if (!configuration_dirty) {
    return;
  }
  configuration_dirty = false;
  Bump();
  std::vector<std::pair<std::string, quota::FlavorResource>> used;
  for (const auto& [queue, keys] : reserved) {
    for (const api::ObjectKey& key : keys) {
      for (const auto& [row, amount] : workloads.at(key).charge) {
        used.emplace_back(queue, row);
      }
    }
  }
  const std::shared_ptr<const CompiledQueues> before = configuration.queues;
  configuration = Compile(objects, std::move(used));
  for (const auto& [queue, keys] : reserved) {
    const quota::QueuePlace* place = configuration.ledger.Find(queue);
    if (place == nullptr) {
      continue;
    }
    quota::Tree& tree = configuration.ledger.tree(place->tree);
    for (const api::ObjectKey& key : keys) {
      for (const auto& [row, amount] : workloads.at(key).charge) {
        tree.Add(place->node, *tree.FindRow(row.flavor, row.resource), amount);
      }
    }
  }
  std::map<std::string, TreeWake, std::less<>> next;
  for (std::size_t t = 0; t < configuration.roots.size(); ++t) {
    TreeWake& wake = next[configuration.roots[t]];
    if (const auto it = trees.find(configuration.roots[t]); it != trees.end()) {
      wake = it->second;
    }
    if (wake.fingerprint != configuration.fingerprints[t]) {
      wake.fingerprint = configuration.fingerprints[t];
      wake.configuration = generation;
    }
  }
  trees = std::move(next);

  // Queues that opened, closed, came or went have news for those who wait in them.
  std::set<std::string> changed;
  const auto text_of = [](const CompiledQueues* compiled, const std::string& name) -> std::string {
    if (compiled != nullptr) {
      if (const auto it = compiled->find(name); it != compiled->end()) {
        return it->second->active.status + it->second->active.reason + it->second->active.message;
      }
    }
    return {};
  };
  for (const auto* side : {before.get(), configuration.queues.get()}) {
    if (side == nullptr) {
      continue;
    }
    for (const auto& [name, queue] : *side) {
      if (text_of(before.get(), name) != text_of(configuration.queues.get(), name)) {
        changed.insert(name);
      }
    }
  }
  for (const auto& [name, queue] : *configuration.queues) {
    dirty_cluster_queues.insert(name);
  }
  for (const std::string& name : changed) {
    dirty_cluster_queues.insert(name);
    for (const auto& [key, local_queue] : local_queues) {
      if (local_queue->cluster_queue == name) {
        dirty_local_queues.insert(key);
      }
    }
    if (const auto it = queues.find(name); it != queues.end()) {
      for (const auto& item : it->second.items()) {
        untold.insert(item->ref.key);
      }
    }
    if (const auto it = aside.find(name); it != aside.end()) {
      untold.insert(it->second.begin(), it->second.end());
    }
  }
  static_cast<void>(now);
}

// --- filing ---

std::optional<Verdict> State::Impl::BlockerOf(WorkloadEntry& entry,
                                              TimePoint now,
                                              bool& tell,
                                              bool& counts,
                                              std::optional<TimePoint>& until) {
  const api::Workload& workload = *entry.object;
  tell = true;
  counts = false;
  if (!workload.active) {
    return Say("Deactivated", "The workload is deactivated", "spec.active is set");
  }
  const api::Condition* reserved_condition = workload.FindCondition("QuotaReserved");
  if (reserved_condition != nullptr && !reserved_condition->is_true() &&
      reserved_condition->reason == "OnHold") {
    tell = false;
    return Say("OnHold", reserved_condition->message);
  }
  const auto local_queue = local_queues.find(entry.local_queue);
  if (local_queue == local_queues.end()) {
    return Say("Misconfigured",
               "LocalQueue " + workload.queue_name + " doesn't exist",
               "the LocalQueue is created");
  }
  if (local_queue->second->meta.deleting()) {
    return Say("Misconfigured", "LocalQueue " + workload.queue_name + " is terminating or missing");
  }
  if (local_queue->second->stop_policy != api::StopPolicy::kNone) {
    return Say("Suspended",
               "LocalQueue " + workload.queue_name + " is inactive",
               "the LocalQueue is started again");
  }
  const auto cluster_queue = objects.cluster_queues.find(entry.queue);
  if (const std::string* gates = workload.meta.Annotation(kGatedBy);
      gates != nullptr && !gates->empty()) {
    return Say("AdmissionGated", "Admission is gated by: " + *gates, "the gates are removed");
  }
  counts = true;
  const auto ns = namespaces.find(workload.meta.ns);
  if (ns == namespaces.end()) {
    return Say("Misconfigured", "workload namespace \"" + workload.meta.ns + "\" does not exist");
  }
  if (cluster_queue != objects.cluster_queues.end() &&
      !api::Matches(cluster_queue->second->namespace_selector, ns->second->meta.labels)) {
    return Say("Misconfigured", "workload namespace doesn't match ClusterQueue selector");
  }
  if (entry.problem) {
    return entry.problem;
  }
  for (const api::AdmissionCheckState& check : workload.admission_checks) {
    if (check.state == "Retry" || check.state == "Rejected") {
      return Say("PendingEvaluation", "The workload has failed admission checks");
    }
  }
  tell = false;
  const api::Condition* requeued = workload.FindCondition("Requeued");
  if (requeued != nullptr && requeued->status == "False") {
    return Say("PendingEvaluation", "not requeued yet: " + requeued->reason);
  }
  if (workload.ConditionIsTrue("WaitingForReplacementPods")) {
    return Say("PendingEvaluation", "waiting for replacement pods");
  }
  TimePoint earliest = entry.not_before;
  if (workload.requeue_state && workload.requeue_state->requeue_at) {
    earliest = std::max(earliest, *workload.requeue_state->requeue_at);
  }
  if (now < earliest) {
    until = earliest;
    return Say("PendingEvaluation", "backs off until " + FormatTime(earliest));
  }
  return std::nullopt;
}

void State::Impl::Unfile(WorkloadEntry& entry) {
  const api::ObjectKey key = entry.object->meta.key();
  DropClaim(key);
  entry.waited_for.clear();
  waiting_in_vain.erase(key);
  if (entry.item != nullptr) {
    if (const auto it = queues.find(entry.queue); it != queues.end()) {
      const std::size_t holding = it->second.holding();
      it->second.Remove(entry.item);
      Bump();
      if (it->second.holding() < holding) {
        WakeTree(entry.queue);
      }
      if (it->second.empty()) {
        queues.erase(it);
      }
    }
    for (const placement::ClaimDemand& claim : entry.item->shape->claims) {
      if (claim.existing) {
        if (const auto users = claim_users.find(*claim.existing); users != claim_users.end()) {
          users->second.erase(key);
          if (users->second.empty()) {
            claim_users.erase(users);
          }
        }
      }
    }
    entry.item.reset();
    MarkDirty(entry);
  }
  if (entry.counts_as_pending) {
    entry.counts_as_pending = false;
    aside[entry.queue].erase(key);
    MarkDirty(entry);
  }
  entry.standing.reset();
  untold.erase(key);
  if (entry.until) {
    waiting_until.erase({*entry.until, key});
    entry.until.reset();
  }
}

void State::Impl::Refile(WorkloadEntry& entry, bool reshape, TimePoint now) {
  const api::Workload& workload = *entry.object;
  const api::ObjectKey key = workload.meta.key();
  std::string queue;
  if (const auto it = local_queues.find(entry.local_queue); it != local_queues.end()) {
    queue = it->second->cluster_queue;
  }

  const bool ended =
      workload.finished() || (workload.meta.deleting() && !workload.quota_reserved());
  const bool holds =
      !workload.finished() && workload.quota_reserved() && workload.admission.has_value();
  if (ended || (workload.quota_reserved() && !holds)) {
    Unfile(entry);
    if (entry.where == Where::kReserved) {
      Release(entry);
    }
    entry.where = Where::kNowhere;
    return;
  }
  if (holds) {
    Unfile(entry);
    const std::string& admitted_by = workload.admission->cluster_queue;
    if (entry.where == Where::kReserved && entry.queue != admitted_by) {
      Release(entry);
      entry.where = Where::kNowhere;
    }
    const bool fresh = entry.where != Where::kReserved;
    entry.queue = admitted_by;
    entry.where = Where::kReserved;
    entry.assumed = false;
    entry.failures = 0;
    entry.not_before = {};
    reserved[entry.queue].insert(key);
    SetCharge(entry, ChargeOf(workload), workload.admitted());
    SetClaims(entry, NamedClaimsOf(workload));
    SetNotReady(entry, !workload.ConditionIsTrue("PodsReady"));
    TouchRunning(entry);
    if (fresh) {
      Bump();
      unrecovered.insert(key);
    }
    return;
  }
  if (entry.where == Where::kReserved) {
    if (entry.assumed && workload.active) {
      return;  // an older version of the object; the answer to our write decides
    }
    Release(entry);
    Bump();
  }

  if (reshape || entry.shape == nullptr) {
    ShapeResult result = BuildShape(workload, Context());
    if (entry.shape == nullptr || entry.shape->digest != result.shape->digest ||
        entry.problem != result.problem) {
      entry.shape = std::move(result.shape);
      entry.problem = std::move(result.problem);
    }
  }
  bool tell = false;
  bool counts = false;
  std::optional<TimePoint> until;
  const std::string old_queue = std::exchange(entry.queue, queue);
  std::optional<Verdict> blocker = BlockerOf(entry, now, tell, counts, until);
  if (!blocker) {
    auto item = std::make_shared<PendingItem>();
    item->ref = WorkloadRef{
        .key = key, .uid = workload.meta.uid, .resource_version = workload.meta.resource_version};
    item->workload = entry.object;
    item->shape = entry.shape;
    item->priority = EffectivePriority(workload);
    item->order_time = QueueOrderTime(workload, options->wait_for_pods_ready.timestamp);
    item->local_queue = entry.local_queue.name;
    if (entry.where == Where::kQueued && entry.item != nullptr && old_queue == queue &&
        !entry.item->Before(*item) && !item->Before(*entry.item) &&
        entry.item->shape->digest == item->shape->digest) {
      queues[queue].Replace(entry.item, item);
      entry.item = std::move(item);
      return;
    }
    entry.queue = old_queue;
    Unfile(entry);
    entry.queue = queue;
    entry.where = Where::kQueued;
    queues[queue].Add(item);
    for (const placement::ClaimDemand& claim : item->shape->claims) {
      if (claim.existing) {
        claim_users[*claim.existing].insert(key);
      }
    }
    entry.item = std::move(item);
    Bump();
    MarkDirty(entry);
    // An inactive or missing ClusterQueue is news for it.
    untold.insert(key);
    return;
  }
  entry.queue = old_queue;
  Unfile(entry);
  entry.queue = queue;
  entry.where = Where::kStanding;
  entry.standing = std::move(blocker);
  entry.standing_tell = tell;
  if (counts && !queue.empty()) {
    entry.counts_as_pending = true;
    aside[queue].insert(key);
  }
  if (until) {
    waiting_until.emplace(*until, key);
    entry.until = until;
  }
  untold.insert(key);
  Bump();
  MarkDirty(entry);
}

void State::Impl::UpsertWorkload(const std::shared_ptr<const api::Workload>& workload,
                                 TimePoint now) {
  const api::ObjectKey key = workload->meta.key();
  auto [it, inserted] = workloads.try_emplace(key);
  if (!inserted && it->second.object->meta.uid != workload->meta.uid) {
    // Deleted and created again between two looks.
    DeleteWorkload(key);
    std::tie(it, inserted) = workloads.try_emplace(key);
  }
  WorkloadEntry& entry = it->second;
  const api::ObjectKey local_queue{.ns = key.ns, .name = workload->queue_name};
  if (inserted || entry.local_queue != local_queue) {
    if (!inserted) {
      by_local_queue[entry.local_queue].erase(key);
      dirty_local_queues.insert(entry.local_queue);
    }
    by_local_queue[local_queue].insert(key);
  }
  const bool moved = !inserted && entry.local_queue != local_queue;
  if (moved && entry.where != Where::kReserved) {
    Unfile(entry);
    entry.where = Where::kNowhere;
  }
  entry.object = workload;
  entry.local_queue = local_queue;
  if (const api::Condition* condition = workload->FindCondition("QuotaReserved");
      condition != nullptr && condition->status == "False") {
    entry.told = Say(condition->reason, condition->message, entry.told.would_fit_if);
  } else if (workload->quota_reserved()) {
    entry.told = {};
  }
  Refile(entry, true, now);
}

void State::Impl::DeleteWorkload(const api::ObjectKey& key) {
  const auto it = workloads.find(key);
  if (it == workloads.end()) {
    return;
  }
  Unfile(it->second);
  if (it->second.where == Where::kReserved) {
    Release(it->second);
  }
  if (const auto lq = by_local_queue.find(it->second.local_queue); lq != by_local_queue.end()) {
    lq->second.erase(key);
    if (lq->second.empty()) {
      by_local_queue.erase(lq);
    }
  }
  workloads.erase(it);
  Bump();
}

void State::Impl::RefileNamespace(const std::string& ns, bool reshape, TimePoint now) {
  for (auto it = workloads.lower_bound(api::ObjectKey{.ns = ns, .name = ""});
       it != workloads.end() && it->first.ns == ns;
       ++it) {
    Refile(it->second, reshape, now);
  }
}

void State::Impl::RefileLocalQueue(const api::ObjectKey& key, TimePoint now) {
  const auto it = by_local_queue.find(key);
  if (it == by_local_queue.end()) {
    return;
  }
  for (const api::ObjectKey& workload : it->second) {
    Refile(workloads.at(workload), false, now);
  }
}

void State::Impl::RefileClusterQueue(const std::string& name, TimePoint now) {
  for (const auto& [key, local_queue] : local_queues) {
    if (local_queue->cluster_queue == name) {
      RefileLocalQueue(key, now);
    }
  }
}

State::State(const Options& options) : impl_(std::make_unique<Impl>(options)) {}
State::~State() = default;

void State::SetSynced() {
  impl_->synced = true;
  impl_->Bump();
}

void State::Upsert(const api::Object& object, TimePoint now) {
  Impl& s = *impl_;
  const auto named = [&](auto& map, const auto& pointer) { map[pointer->meta.name] = pointer; };
  std::visit(
      [&](const auto& pointer) {
        using T = std::remove_cv_t<typename std::decay_t<decltype(pointer)>::element_type>;
        if constexpr (std::is_same_v<T, api::Namespace>) {
          const auto it = s.namespaces.find(pointer->meta.name);
          const bool same =
              it != s.namespaces.end() && it->second->meta.labels == pointer->meta.labels;
          named(s.namespaces, pointer);
          if (!same) {
            s.RefileNamespace(pointer->meta.name, false, now);
          }
        } else if constexpr (std::is_same_v<T, api::Node>) {
          s.inventory.Upsert(pointer);
          auto& known = s.nodes[pointer->meta.name];
          if (known == nullptr || known->meta.labels != pointer->meta.labels) {
            s.ChangePools();
          }
          known = pointer;
        } else if constexpr (std::is_same_v<T, api::Pod> || std::is_same_v<T, api::ResourceSlice> ||
                             std::is_same_v<T, api::DeviceTaintRule>) {
          s.inventory.Upsert(pointer);
        } else if constexpr (std::is_same_v<T, api::DeviceClass>) {
          s.inventory.Upsert(pointer);
          named(s.device_classes, pointer);
          s.RefileIf(
              [](const WorkloadEntry& e) {
                return e.where == Where::kQueued || e.where == Where::kStanding;
              },
              true,
              now);
        } else if constexpr (std::is_same_v<T, api::ResourceClaim>) {
          s.inventory.Upsert(pointer);
          const bool known = s.claims.contains(pointer->meta.key());
          s.claims[pointer->meta.key()] = pointer;
          // The spec of a claim never changes; its allocation is the inventory's business.
          if (!known) {
            s.RefileNamespace(pointer->meta.ns, true, now);
          }
        } else if constexpr (std::is_same_v<T, api::ResourceClaimTemplate>) {
          s.claim_templates[pointer->meta.key()] = pointer;
          s.RefileNamespace(pointer->meta.ns, true, now);
        } else if constexpr (std::is_same_v<T, api::LimitRange>) {
          s.limit_ranges[pointer->meta.key()] = pointer;
          s.RefileNamespace(pointer->meta.ns, true, now);
        } else if constexpr (std::is_same_v<T, api::RuntimeClass>) {
          named(s.runtime_classes, pointer);
          s.RefileIf(
              [](const WorkloadEntry& e) {
                return e.where == Where::kQueued || e.where == Where::kStanding;
              },
              true,
              now);
        } else if constexpr (std::is_same_v<T, api::ResourceFlavor>) {
          named(s.objects.flavors, pointer);
          s.ChangeConfiguration();
        } else if constexpr (std::is_same_v<T, api::Topology>) {
          named(s.objects.topologies, pointer);
          s.ChangeConfiguration();
        } else if constexpr (std::is_same_v<T, api::AdmissionCheck>) {
          named(s.objects.checks, pointer);
          s.ChangeConfiguration();
        } else if constexpr (std::is_same_v<T, api::Cohort>) {
          const auto it = s.objects.cohorts.find(pointer->meta.name);
          // Status updates leave the generation alone.
          const bool same = it != s.objects.cohorts.end() &&
                            it->second->meta.uid == pointer->meta.uid &&
                            pointer->meta.generation != 0 &&
                            it->second->meta.generation == pointer->meta.generation;
          named(s.objects.cohorts, pointer);
          if (!same) {
            s.ChangeConfiguration();
          }
        } else if constexpr (std::is_same_v<T, api::ClusterQueue>) {
          const auto it = s.objects.cluster_queues.find(pointer->meta.name);
          const bool same = it != s.objects.cluster_queues.end() &&
                            it->second->meta.uid == pointer->meta.uid &&
                            pointer->meta.generation != 0 &&
                            it->second->meta.generation == pointer->meta.generation &&
                            it->second->meta.deleting() == pointer->meta.deleting();
          named(s.objects.cluster_queues, pointer);
          if (!same) {
            s.ChangeConfiguration();
            s.RefileClusterQueue(pointer->meta.name, now);
          }
        } else if constexpr (std::is_same_v<T, api::LocalQueue>) {
          const api::ObjectKey key = pointer->meta.key();
          const auto it = s.local_queues.find(key);
          const bool same = it != s.local_queues.end() &&
                            it->second->cluster_queue == pointer->cluster_queue &&
                            it->second->stop_policy == pointer->stop_policy &&
                            it->second->meta.deleting() == pointer->meta.deleting();
          s.local_queues[key] = pointer;
          s.dirty_local_queues.insert(key);
          if (!same) {
            s.RefileLocalQueue(key, now);
          }
        } else if constexpr (std::is_same_v<T, api::Workload>) {
          s.UpsertWorkload(pointer, now);
        }
      },
      object);
}

void State::Delete(api::Kind kind, const api::ObjectKey& key, TimePoint now) {
  Impl& s = *impl_;
  const auto pending = [](const WorkloadEntry& e) {
    return e.where == Where::kQueued || e.where == Where::kStanding;
  };
  switch (kind) {
    case api::Kind::kNamespace:
      s.namespaces.erase(key.name);
      s.RefileNamespace(key.name, false, now);
      break;
    case api::Kind::kNode:
      s.inventory.DeleteNode(key.name);
      if (s.nodes.erase(key.name) > 0) {
        s.ChangePools();
      }
      break;
    case api::Kind::kPod:
      s.inventory.DeletePod(key);
      break;
    case api::Kind::kResourceSlice:
      s.inventory.DeleteSlice(key.name);
      break;
    case api::Kind::kDeviceTaintRule:
      s.inventory.DeleteTaintRule(key.name);
      break;
    case api::Kind::kDeviceClass:
      s.inventory.DeleteDeviceClass(key.name);
      s.device_classes.erase(key.name);
      s.RefileIf(pending, true, now);
      break;
    case api::Kind::kResourceClaim:
      s.inventory.DeleteClaim(key);
      s.claims.erase(key);
      s.RefileNamespace(key.ns, true, now);
      break;
    case api::Kind::kResourceClaimTemplate:
      s.claim_templates.erase(key);
      s.RefileNamespace(key.ns, true, now);
      break;
    case api::Kind::kLimitRange:
      s.limit_ranges.erase(key);
      s.RefileNamespace(key.ns, true, now);
      break;
    case api::Kind::kRuntimeClass:
      s.runtime_classes.erase(key.name);
      s.RefileIf(pending, true, now);
      break;
    case api::Kind::kResourceFlavor:
      s.objects.flavors.erase(key.name);
      s.ChangeConfiguration();
      break;
    case api::Kind::kTopology:
      s.objects.topologies.erase(key.name);
      s.ChangeConfiguration();
      break;
    case api::Kind::kAdmissionCheck:
      s.objects.checks.erase(key.name);
      s.ChangeConfiguration();
      break;
    case api::Kind::kCohort:
      s.objects.cohorts.erase(key.name);
      s.ChangeConfiguration();
      break;
    case api::Kind::kClusterQueue:
      s.objects.cluster_queues.erase(key.name);
      s.ChangeConfiguration();
      s.RefileClusterQueue(key.name, now);
      break;
    case api::Kind::kLocalQueue:
      s.local_queues.erase(key);
      s.RefileLocalQueue(key, now);
      break;
    case api::Kind::kWorkload:
      s.DeleteWorkload(key);
      break;
    case api::Kind::kPriorityClass:
    case api::Kind::kWorkloadPriorityClass:
    case api::Kind::kProvisioningRequestConfig:
    case api::Kind::kMultiKueueConfig:
    case api::Kind::kMultiKueueCluster:
    case api::Kind::kNativeWorkload:
    case api::Kind::kPodGroup:
    case api::Kind::kCompositePodGroup:
    case api::Kind::kJob:
    case api::Kind::kLease:
    case api::Kind::kEvent:
      break;
  }
}

void State::NotePod(const api::ObjectKey& workload, const api::ObjectKey& pod) {
  Impl& s = *impl_;
  const auto it = s.workloads.find(workload);
  if (it != s.workloads.end() && it->second.where == Where::kReserved &&
      it->second.pods.insert(pod).second) {
    s.TouchRunning(it->second);
  }
}

void State::BindMember(const api::ObjectKey& workload, std::size_t pod_class, std::int32_t index) {
  Impl& s = *impl_;
  const auto it = s.workloads.find(workload);
  if (it == s.workloads.end() || it->second.where != Where::kReserved ||
      !it->second.bound.emplace(pod_class, index).second) {
    return;
  }
  WorkloadEntry& entry = it->second;
  if (!entry.held) {
    return;
  }
  s.inventory.ReleaseOne(workload.ToString(), pod_class, index);
  for (const placement::PodPlacement& pod : entry.decision->placement->pods) {
    if (pod.pod_class == pod_class && pod.index == index && !pod.node.empty()) {
      if (const auto node = s.unbound_nodes.find(pod.node);
          node != s.unbound_nodes.end() && --node->second == 0) {
        s.unbound_nodes.erase(node);
      }
      s.unbound_dirty = true;
      break;
    }
  }
}

}  // namespace muster::scheduler
