#include <algorithm>
#include <chrono>

#include "scheduler/cache/shapes.h"
#include "scheduler/state_impl.h"

// Who could be preempted, and the room that is held for those who wait for their victims to go.
namespace muster::scheduler {
namespace {

// Room is held for a preemptor this long. A victim that has not gone by then may never go; what was
// free besides it is not kept from others any longer.
constexpr Duration kHoldFor = std::chrono::minutes(10);

}  // namespace

void State::Impl::TouchRunning(WorkloadEntry& entry) {
  entry.running.reset();
  running_dirty.insert(entry.queue);
  // Somebody who outranks it now may look again.
  const std::int64_t priority = EffectivePriority(*entry.object);
  const std::optional<std::int64_t> before = std::exchange(entry.ran_with, priority);
  if (before && priority < *before) {
    WakeTree(entry.queue);
  }
}

std::shared_ptr<const RunningWorkload> State::Impl::RunningOf(const WorkloadEntry& entry) {
  const api::Workload& workload = *entry.object;
  auto out = std::make_shared<RunningWorkload>();
  out->ref = WorkloadRef{.key = workload.meta.key(),
                         .uid = workload.meta.uid,
                         .resource_version = workload.meta.resource_version};
  out->priority = EffectivePriority(workload);
  if (const api::Condition* reserved = workload.FindCondition("QuotaReserved");
      reserved != nullptr && reserved->is_true()) {
    out->reserved_at = reserved->last_transition_time;
  }
  out->evicted = workload.evicted() || entry.preempting;
  out->local_queue = entry.local_queue.name;
  out->usage = entry.charge;
  out->pods.assign(entry.pods.begin(), entry.pods.end());
  return out;
}

void State::Impl::RefreshRunning() {
  for (const std::string& queue : running_dirty) {
    const auto keys = reserved.find(queue);
    if (keys == reserved.end() || keys->second.empty()) {
      running.erase(queue);
      continue;
    }
    auto list = std::make_shared<RunningWorkloads>();
    list->reserve(keys->second.size());
    for (const api::ObjectKey& key : keys->second) {
      WorkloadEntry& entry = workloads.at(key);
      if (entry.running == nullptr) {
        auto made = std::make_shared<RunningWorkload>(*RunningOf(entry));
        made->order_time = QueueOrderTime(*entry.object, options->wait_for_pods_ready.timestamp);
        entry.running = std::move(made);
      }
      list->push_back(entry.running);
    }
    running[queue] = std::move(list);
  }
  running_dirty.clear();
}

void State::Impl::DropClaim(const api::ObjectKey& preemptor) {
  const auto it = claims_held.find(preemptor);
  if (it == claims_held.end()) {
    return;
  }
  const std::shared_ptr<const Claim> claim = it->second.claim;
  claims_held.erase(it);
  if (!claim->holder.empty()) {
    inventory.Release(claim->holder);
  }
  WakeTree(claim->queue);
}

void State::Impl::ExpireClaims(TimePoint now) {
  std::vector<api::ObjectKey> due;
  for (const auto& [key, held] : claims_held) {
    if (held.until <= now) {
      due.push_back(key);
    }
  }
  for (const api::ObjectKey& key : due) {
    WorkloadEntry& entry = workloads.at(key);
    const std::set<api::ObjectKey>& victims = claims_held.at(key).claim->victims;
    entry.waited_for.insert(victims.begin(), victims.end());
    DropClaim(key);
    waiting_in_vain.insert(key);
  }
}

void State::Impl::AcceptPreemptions(Plan& plan, Plan& out, TimePoint now) {
  EnsureConfiguration(now);
  // Quota that came free while the decision was made may spare the victims: it is decided again.
  const auto moved = [&](const std::string& queue) {
    return ClockOf(queue).quota > plan.snapshot_generation ||
           ClockOf(queue).configuration > plan.snapshot_generation;
  };
  std::vector<ClaimDecision*> accepted;
  for (ClaimDecision& claim : plan.claims) {
    const auto it = workloads.find(claim.preemptor.key);
    if (it != workloads.end() && it->second.where == Where::kQueued &&
        it->second.object->meta.uid == claim.preemptor.uid &&
        it->second.item->ref.resource_version == claim.preemptor.resource_version &&
        it->second.queue == claim.cluster_queue && !moved(claim.cluster_queue)) {
      accepted.push_back(&claim);
    }
  }
  for (const api::ObjectKey& key : plan.dropped) {
    DropClaim(key);
    const auto it = workloads.find(key);
    if (it != workloads.end() && it->second.item != nullptr) {
      queues.at(it->second.queue).Wake(it->second.item->shape->digest);
    }
  }
  for (ClaimDecision* decision : accepted) {
    const api::ObjectKey& key = decision->preemptor.key;
    WorkloadEntry& entry = workloads.at(key);
    const auto standing = claims_held.find(key);
    const bool same = standing != claims_held.end() &&
                      standing->second.claim->queue == decision->cluster_queue &&
                      standing->second.claim->usage == decision->usage &&
                      standing->second.claim->victims == decision->victims;
    if (!same) {
      DropClaim(key);
    }
    for (PreemptionDecision& preemption : plan.preemptions) {
      if (preemption.preemptor.key != key) {
        continue;
      }
      const auto victim = workloads.find(preemption.victim.key);
      if (victim == workloads.end() || victim->second.where != Where::kReserved ||
          victim->second.object->meta.uid != preemption.victim.uid) {
        continue;
      }
      victim->second.preempting = true;
      TouchRunning(victim->second);
      out.preemptions.push_back(preemption);
    }
    const bool spent = std::includes(entry.waited_for.begin(),
                                     entry.waited_for.end(),
                                     decision->victims.begin(),
                                     decision->victims.end());
    if (spent || same) {
      continue;
    }
    auto claim = std::make_shared<Claim>();
    claim->preemptor = decision->preemptor;
    claim->queue = decision->cluster_queue;
    claim->priority = entry.item->priority;
    claim->order_time = entry.item->order_time;
    claim->usage = decision->usage;
    claim->victims = decision->victims;
    if (decision->gang && decision->placement) {
      claim->holder = "waits for its victims: " + key.ToString();
      inventory.Hold(claim->holder, *decision->gang, *decision->placement);
    }
    claims_held[key] = HeldClaim{.claim = std::move(claim), .until = now + kHoldFor};
  }
}

}  // namespace muster::scheduler
