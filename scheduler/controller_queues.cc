#include <algorithm>
#include <map>

#include "api/quantity.h"
#include "jobs/names.h"
#include "k8sclient/requests.h"
#include "scheduler/controller_impl.h"

// Status of ClusterQueues and LocalQueues, and the finalizers that keep configuration in place
// while it is used.
namespace muster::scheduler {
namespace {

using api::Json;
using api::Kind;
using api::ObjectKey;
using api::Ptr;

enum class Borrowed : std::uint8_t { kShown, kLeftOut };

Json FlavorList(const std::vector<FlavorUsage>& usage, Borrowed borrowed) {
  Json list = Json::array();
  std::map<std::string, std::size_t> position;
  for (const FlavorUsage& entry : usage) {
    const auto [it, inserted] = position.try_emplace(entry.flavor, list.size());
    if (inserted) {
      list.push_back({{"name", entry.flavor}, {"resources", Json::array()}});
    }
    Json resource = {{"name", entry.resource},
                     {"total", api::FormatAmount(entry.resource, entry.total)}};
    if (borrowed == Borrowed::kShown) {
      resource["borrowed"] = api::FormatAmount(entry.resource, entry.borrowed);
    }
    list[it->second]["resources"].push_back(std::move(resource));
  }
  return list;
}

void FillStatus(StatusEdit& edit, const QueueStatus& status, Borrowed borrowed) {
  edit.SetCondition(status.active.type.empty() ? "Active" : status.active.type,
                    status.active.status,
                    status.active.reason,
                    status.active.message);
  Json& json = edit.status();
  json["pendingWorkloads"] = status.pending;
  json["reservingWorkloads"] = status.reserving;
  json["admittedWorkloads"] = status.admitted;
  json["flavorsReservation"] = FlavorList(status.reservation, borrowed);
  json["flavorsUsage"] = FlavorList(status.usage, borrowed);
  if (status.weighted_share) {
    json["fairSharing"]["weightedShare"] = *status.weighted_share;
  }
}

}  // namespace

bool Controller::Impl::KeepFinalizer(Kind kind, const api::ObjectMeta& meta, bool in_use) {
  const bool has = meta.HasFinalizer(jobs::kResourceInUse);
  if (!meta.deleting() && !has) {
    if (!MayWrite(kind, meta.key())) {
      return true;
    }
    Json list = Json::array();
    for (const std::string& name : meta.finalizers) {
      list.push_back(name);
    }
    list.push_back(std::string(jobs::kResourceInUse));
    Issue(kind,
          meta.key(),
          Urgency::kNormal,
          k8s::MergePatch(api::Path(kind, meta.ns, meta.name),
                          {{"metadata", {{"finalizers", std::move(list)}}}},
                          {.resource_version = meta.resource_version, .uid = {}}));
    return true;
  }
  if (meta.deleting() && has && !in_use) {
    if (MayWrite(kind, meta.key())) {
      RemoveFinalizer(kind, meta, jobs::kResourceInUse);
    }
    return true;
  }
  return false;
}

void Controller::Impl::ReconcileQueueObject(Kind kind, const ObjectKey& key) {
  if (kind == Kind::kClusterQueue) {
    if (const auto queue = Find<api::ClusterQueue>(key)) {
      ReconcileClusterQueue(*queue);
    }
  } else if (kind == Kind::kLocalQueue) {
    if (const auto queue = Find<api::LocalQueue>(key)) {
      ReconcileLocalQueue(*queue);
    }
  } else if (kind == Kind::kCohort) {
    if (const auto cohort = Find<api::Cohort>(key)) {
      ReconcileCohort(*cohort);
    }
  } else if (kind == Kind::kResourceFlavor) {
    if (const auto flavor = Find<api::ResourceFlavor>(key)) {
      bool in_use = false;
      if (flavor->meta.deleting()) {
        for (const auto& [name, queue] : store<api::ClusterQueue>()) {
          for (const api::ResourceGroup& group : queue->resource_groups) {
            in_use =
                in_use || std::ranges::any_of(group.flavors, [&](const api::FlavorQuotas& quotas) {
                  return quotas.name == key.name;
                });
          }
        }
      }
      KeepFinalizer(kind, flavor->meta, in_use);
    }
  } else if (kind == Kind::kTopology) {
    if (const auto topology = Find<api::Topology>(key)) {
      const bool in_use = std::ranges::any_of(store<api::ResourceFlavor>(), [&](const auto& entry) {
        return entry.second->topology_name == key.name;
      });
      KeepFinalizer(kind, topology->meta, in_use);
    }
  } else if (kind == Kind::kAdmissionCheck) {
    if (const auto check = Find<api::AdmissionCheck>(key)) {
      const bool in_use = std::ranges::any_of(store<api::ClusterQueue>(), [&](const auto& entry) {
        return std::ranges::any_of(
            entry.second->admission_checks,
            [&](const api::AdmissionCheckRule& rule) { return rule.name == key.name; });
      });
      KeepFinalizer(kind, check->meta, in_use);
    }
  }
}

void Controller::Impl::ReconcileClusterQueue(const api::ClusterQueue& queue) {
  const KindKey id{Kind::kClusterQueue, queue.meta.key()};
  const QueueStatus status = state.ClusterQueueStatus(queue.meta.name);
  const bool active = status.active.is_true();
  const auto [seen, first] = active_seen.try_emplace(queue.meta.name, active);
  if (first || seen->second != active) {
    seen->second = active;
    MarkWorkloadsOf(queue.meta.name);
  }
  if (KeepFinalizer(id.first, queue.meta, status.reserving > 0)) {
    return;
  }
  StatusEdit edit(queue.meta, queue.status, now);
  FillStatus(edit, status, Borrowed::kShown);
  Json patch = edit.Patch();
  if (patch.is_null() || !MayWrite(id.first, id.second)) {
    return;
  }
  const auto last = status_written.find(id);
  if (last != status_written.end() && last->second + options.status_period > now) {
    Wake(last->second + options.status_period, id);
    return;
  }
  status_written[id] = now;
  Issue(id.first,
        id.second,
        Urgency::kStatus,
        k8s::MergePatch(api::Path(id.first, {}, queue.meta.name, "status"), std::move(patch)));
}

// Shares of the cohorts above a queue follow its usage.
void Controller::Impl::MarkCohortsOf(const std::string& cluster_queue) {
  if (!options.fair_sharing) {
    return;
  }
  const auto queue = Find<api::ClusterQueue>({{}, cluster_queue});
  std::string name = queue ? queue->cohort : std::string();
  for (int depth = 0; !name.empty() && depth < 64; ++depth) {
    Mark(Kind::kCohort, {{}, name});
    const auto cohort = Find<api::Cohort>({{}, name});
    name = cohort ? cohort->parent : std::string();
  }
}

void Controller::Impl::ReconcileCohort(const api::Cohort& cohort) {
  const std::optional<std::int64_t> share = state.CohortShare(cohort.meta.name);
  if (!share) {
    return;
  }
  const KindKey id{Kind::kCohort, cohort.meta.key()};
  StatusEdit edit(cohort.meta, cohort.status, now);
  edit.status()["fairSharing"]["weightedShare"] = *share;
  Json patch = edit.Patch();
  if (patch.is_null() || !MayWrite(id.first, id.second)) {
    return;
  }
  const auto last = status_written.find(id);
  if (last != status_written.end() && last->second + options.status_period > now) {
    Wake(last->second + options.status_period, id);
    return;
  }
  status_written[id] = now;
  Issue(id.first,
        id.second,
        Urgency::kStatus,
        k8s::MergePatch(api::Path(id.first, {}, cohort.meta.name, "status"), std::move(patch)));
}

void Controller::Impl::ReconcileLocalQueue(const api::LocalQueue& queue) {
  const KindKey id{Kind::kLocalQueue, queue.meta.key()};
  StatusEdit edit(queue.meta, queue.status, now);
  FillStatus(edit, state.LocalQueueStatus(id.second), Borrowed::kLeftOut);
  Json patch = edit.Patch();
  if (patch.is_null() || !MayWrite(id.first, id.second)) {
    return;
  }
  const auto last = status_written.find(id);
  if (last != status_written.end() && last->second + options.status_period > now) {
    Wake(last->second + options.status_period, id);
    return;
  }
  status_written[id] = now;
  Issue(id.first,
        id.second,
        Urgency::kStatus,
        k8s::MergePatch(api::Path(id.first, queue.meta.ns, queue.meta.name, "status"),
                        std::move(patch)));
}

}  // namespace muster::scheduler
