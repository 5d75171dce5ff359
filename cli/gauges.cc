#include "cli/gauges.h"

#include <map>
#include <utility>
#include <vector>

namespace muster::cli {
namespace {

struct PendingCounts {
  std::int64_t active = 0;
  std::int64_t parked = 0;
};

const scheduler::FlavorUsage* Find(const std::vector<scheduler::FlavorUsage>& usage,
                                   const std::string& flavor,
                                   const std::string& resource) {
  for (const scheduler::FlavorUsage& entry : usage) {
    if (entry.flavor == flavor && entry.resource == resource) {
      return &entry;
    }
  }
  return nullptr;
}

}  // namespace

void Gauges::Refresh(const scheduler::ControllerDriver& driver) {
  const scheduler::State& state = driver.state();
  std::map<std::string, PendingCounts> pending_cluster;
  std::map<api::ObjectKey, PendingCounts> pending_local;
  for (const scheduler::PendingView& pending : state.Pending()) {
    const api::ObjectKey local{.ns = pending.workload.ns, .name = pending.local_queue};
    for (PendingCounts* counts : {&pending_cluster[pending.cluster_queue], &pending_local[local]}) {
      (pending.active ? counts->active : counts->parked) += 1;
    }
  }

  std::set<std::string> seen;
  for (const auto& queue : state.ClusterQueues()) {
    const std::string& name = queue->meta.name;
    seen.insert(name);
    const scheduler::QueueStatus status = state.ClusterQueueStatus(name);
    scheduler::ClusterQueueGauges gauges{
        .cohort = queue->cohort,
        .state = queue->meta.deleting()    ? scheduler::QueueState::kTerminating
                 : status.active.is_true() ? scheduler::QueueState::kActive
                                           : scheduler::QueueState::kPending,
        .pending_active = pending_cluster[name].active,
        .pending_inadmissible = pending_cluster[name].parked,
        .reserving = status.reserving,
        .admitted = status.admitted,
        .weighted_share = status.weighted_share,
        .resources = {}};
    for (const api::ResourceGroup& group : queue->resource_groups) {
      for (const api::FlavorQuotas& flavor : group.flavors) {
        for (const api::ResourceQuota& quota : flavor.resources) {
          scheduler::ResourceGauge gauge{.flavor = flavor.name,
                                         .resource = quota.name,
                                         .reserved = {},
                                         .used = {},
                                         .nominal = quota.nominal,
                                         .borrowing_limit = quota.borrowing_limit,
                                         .lending_limit = quota.lending_limit};
          if (const auto* entry = Find(status.reservation, flavor.name, quota.name)) {
            gauge.reserved = entry->total;
          }
          if (const auto* entry = Find(status.usage, flavor.name, quota.name)) {
            gauge.used = entry->total;
          }
          gauges.resources.push_back(std::move(gauge));
        }
      }
    }
    metrics_.SetClusterQueue(name, gauges);
  }
  for (const std::string& name : std::exchange(cluster_queues_, seen)) {
    if (!seen.contains(name)) {
      metrics_.RemoveClusterQueue(name);
    }
  }

  std::set<api::ObjectKey> seen_local;
  for (const auto& queue : state.LocalQueues()) {
    const api::ObjectKey key = queue->meta.key();
    seen_local.insert(key);
    const scheduler::QueueStatus status = state.LocalQueueStatus(key);
    metrics_.SetLocalQueue(key.ns,
                           key.name,
                           {.active = status.active.is_true() ? scheduler::ActiveState::kTrue
                                                              : scheduler::ActiveState::kFalse,
                            .pending_active = pending_local[key].active,
                            .pending_inadmissible = pending_local[key].parked,
                            .reserving = status.reserving,
                            .admitted = status.admitted,
                            .resources = {}});
  }
  for (const api::ObjectKey& key : std::exchange(local_queues_, seen_local)) {
    if (!seen_local.contains(key)) {
      metrics_.RemoveLocalQueue(key.ns, key.name);
    }
  }
}

}  // namespace muster::cli
