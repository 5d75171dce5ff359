#include <algorithm>

#include "scheduler/state_impl.h"

namespace muster::scheduler {
namespace {

using Sums = std::map<quota::FlavorResource, Amount>;

void Sum(const Charge& charge, Sums& into) {
  for (const auto& [row, amount] : charge) {
    into[row] += amount;
  }
}

}  // namespace

std::int64_t State::Impl::ShareOf(const quota::QueuePlace& place) const {
  return configuration.shares[place.tree]
      ->Of(configuration.ledger.tree(place.tree), place.node)
      .Reported();
}

std::optional<std::int64_t> State::CohortShare(const std::string& name) const {
  Impl& s = *impl_;
  s.EnsureConfiguration({});
  const quota::QueuePlace* place = s.configuration.ledger.FindCohort(name);
  return s.options->fair_sharing && place != nullptr ? std::optional(s.ShareOf(*place))
                                                     : std::nullopt;
}

QueueStatus State::ClusterQueueStatus(const std::string& name) const {
  Impl& s = *impl_;
  s.EnsureConfiguration({});
  QueueStatus out;
  const CompiledQueue* queue = s.Queue(name);
  if (queue == nullptr) {
    out.active = api::Condition{.type = "Active",
                                .status = "False",
                                .reason = "NotFound",
                                .message = "ClusterQueue not found",
                                .last_transition_time = {},
                                .observed_generation = 0};
  } else {
    out.active = queue->active;
  }
  if (const auto it = s.queues.find(name); it != s.queues.end()) {
    out.pending += static_cast<std::int32_t>(it->second.items().size());
  }
  if (const auto it = s.aside.find(name); it != s.aside.end()) {
    out.pending += static_cast<std::int32_t>(it->second.size());
  }
  Sums reserved;
  Sums used;
  if (const auto it = s.reserved.find(name); it != s.reserved.end()) {
    for (const api::ObjectKey& key : it->second) {
      const WorkloadEntry& entry = s.workloads.at(key);
      ++out.reserving;
      Sum(entry.charge, reserved);
      if (entry.charged_as_admitted) {
        ++out.admitted;
        Sum(entry.charge, used);
      }
    }
  }
  if (queue == nullptr) {
    return out;
  }
  if (s.options->fair_sharing && queue->place) {
    out.weighted_share = s.ShareOf(*queue->place);
  }
  for (const api::ResourceGroup& group : queue->spec->resource_groups) {
    for (const api::FlavorQuotas& flavor : group.flavors) {
      for (const api::ResourceQuota& quota : flavor.resources) {
        const quota::FlavorResource row{.flavor = flavor.name, .resource = quota.name};
        const auto show = [&](const Sums& sums) {
          const auto it = sums.find(row);
          const Amount total = it == sums.end() ? Amount() : it->second;
          const Amount borrowed =
              queue->spec->cohort.empty() ? Amount() : (total - quota.nominal).AtLeastZero();
          return FlavorUsage{
              .flavor = flavor.name, .resource = quota.name, .total = total, .borrowed = borrowed};
        };
        out.reservation.push_back(show(reserved));
        out.usage.push_back(show(used));
      }
    }
  }
  return out;
}

QueueStatus State::LocalQueueStatus(const api::ObjectKey& key) const {
  Impl& s = *impl_;
  s.EnsureConfiguration({});
  QueueStatus out;
  const auto local_queue = s.local_queues.find(key);
  const auto say = [&](std::string status, std::string reason, std::string message) {
    out.active = api::Condition{.type = "Active",
                                .status = std::move(status),
                                .reason = std::move(reason),
                                .message = std::move(message),
                                .last_transition_time = {},
                                .observed_generation = local_queue == s.local_queues.end()
                                                           ? 0
                                                           : local_queue->second->meta.generation};
  };
  const CompiledQueue* queue =
      local_queue == s.local_queues.end() ? nullptr : s.Queue(local_queue->second->cluster_queue);
  if (local_queue != s.local_queues.end() &&
      local_queue->second->stop_policy != api::StopPolicy::kNone) {
    say("False", "Stopped", "LocalQueue is stopped");
  } else if (queue == nullptr) {
    say("False", "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue");
  } else if (!queue->active.is_true()) {
    say("False", "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue");
  } else {
    say("True", "Ready", "Can submit new workloads to localQueue");
  }
  Sums reserved;
  Sums used;
  if (const auto it = s.by_local_queue.find(key); it != s.by_local_queue.end()) {
    for (const api::ObjectKey& workload : it->second) {
      const WorkloadEntry& entry = s.workloads.at(workload);
      if (entry.where == Where::kQueued ||
          (entry.where == Where::kStanding && entry.counts_as_pending)) {
        ++out.pending;
      } else if (entry.where == Where::kReserved) {
        ++out.reserving;
        Sum(entry.charge, reserved);
        if (entry.charged_as_admitted) {
          ++out.admitted;
          Sum(entry.charge, used);
        }
      }
    }
  }
  if (queue == nullptr) {
    return out;
  }
  for (const api::ResourceGroup& group : queue->spec->resource_groups) {
    for (const api::FlavorQuotas& flavor : group.flavors) {
      for (const api::ResourceQuota& quota : flavor.resources) {
        const quota::FlavorResource row{.flavor = flavor.name, .resource = quota.name};
        const auto show = [&](const Sums& sums) {
          const auto it = sums.find(row);
          return FlavorUsage{.flavor = flavor.name,
                             .resource = quota.name,
                             .total = it == sums.end() ? Amount() : it->second,
                             .borrowed = Amount()};
        };
        out.reservation.push_back(show(reserved));
        out.usage.push_back(show(used));
      }
    }
  }
  return out;
}

std::vector<PendingView> State::Pending() const {
  Impl& s = *impl_;
  s.EnsureConfiguration({});
  std::set<std::string> names;
  for (const auto& [name, queue] : s.queues) {
    names.insert(name);
  }
  for (const auto& [name, keys] : s.aside) {
    if (!keys.empty()) {
      names.insert(name);
    }
  }
  std::vector<PendingView> out;
  for (const std::string& name : names) {
    // Queued and standing Workloads together, in the order of the queue.
    std::vector<const WorkloadEntry*> list;
    if (const auto it = s.queues.find(name); it != s.queues.end()) {
      for (const auto& item : it->second.items()) {
        list.push_back(&s.workloads.at(item->ref.key));
      }
    }
    if (const auto it = s.aside.find(name); it != s.aside.end() && !it->second.empty()) {
      for (const api::ObjectKey& key : it->second) {
        list.push_back(&s.workloads.at(key));
      }
      const auto order = [&](const WorkloadEntry* e) {
        return std::tuple(-EffectivePriority(*e->object),
                          QueueOrderTime(*e->object, s.options->wait_for_pods_ready.timestamp),
                          std::cref(e->object->meta.uid),
                          e->object->meta.key());
      };
      std::sort(list.begin(), list.end(), [&](const WorkloadEntry* a, const WorkloadEntry* b) {
        const auto x = order(a);
        const auto y = order(b);
        if (std::get<0>(x) != std::get<0>(y)) {
          return std::get<0>(x) < std::get<0>(y);
        }
        if (std::get<1>(x) != std::get<1>(y)) {
          return std::get<1>(x) < std::get<1>(y);
        }
        if (std::get<2>(x).get() != std::get<2>(y).get()) {
          return std::get<2>(x).get() < std::get<2>(y).get();
        }
        return std::get<3>(x) < std::get<3>(y);
      });
    }
    std::int32_t position = 0;
    std::map<api::ObjectKey, std::int32_t> local;
    for (const WorkloadEntry* entry : list) {
      PendingView view;
      view.workload = entry->object->meta.key();
      view.cluster_queue = name;
      view.local_queue = entry->local_queue.name;
      view.position = position++;
      view.local_position = local[entry->local_queue]++;
      view.priority = EffectivePriority(*entry->object);
      view.verdict = s.VerdictOf(*entry);
      view.active = entry->where == Where::kQueued && view.verdict.reason == "PendingEvaluation";
      out.push_back(std::move(view));
    }
  }
  return out;
}

std::optional<PendingView> State::PendingOf(const api::ObjectKey& workload) const {
  Impl& s = *impl_;
  const auto it = s.workloads.find(workload);
  if (it == s.workloads.end() ||
      (it->second.where != Where::kQueued && it->second.where != Where::kStanding)) {
    return std::nullopt;
  }
  s.EnsureConfiguration({});
  const WorkloadEntry& entry = it->second;
  PendingView view;
  view.workload = workload;
  view.cluster_queue = entry.queue;
  view.local_queue = entry.local_queue.name;
  view.priority = EffectivePriority(*entry.object);
  view.verdict = s.VerdictOf(entry);
  view.active = entry.where == Where::kQueued && view.verdict.reason == "PendingEvaluation";
  if (const auto queue = s.queues.find(entry.queue);
      queue != s.queues.end() && entry.item != nullptr) {
    for (const auto& item : queue->second.items()) {
      if (item == entry.item) {
        break;
      }
      ++view.position;
      const WorkloadEntry& other = s.workloads.at(item->ref.key);
      view.local_position += other.local_queue == entry.local_queue ? 1 : 0;
    }
  }
  return view;
}

std::string State::ClusterQueueOf(const api::ObjectKey& local_queue) const {
  const auto it = impl_->local_queues.find(local_queue);
  return it == impl_->local_queues.end() ? std::string() : it->second->cluster_queue;
}

const api::ResourceFlavor* State::Flavor(const std::string& name) const {
  const auto it = impl_->objects.flavors.find(name);
  return it == impl_->objects.flavors.end() ? nullptr : it->second.get();
}

std::vector<std::string> State::TakeDirtyClusterQueues() {
  Impl& s = *impl_;
  s.EnsureConfiguration({});
  std::vector<std::string> out;
  for (const std::string& name : std::exchange(s.dirty_cluster_queues, {})) {
    if (s.objects.cluster_queues.contains(name)) {
      out.push_back(name);
    }
  }
  return out;
}

std::vector<api::ObjectKey> State::TakeDirtyLocalQueues() {
  Impl& s = *impl_;
  s.EnsureConfiguration({});
  std::vector<api::ObjectKey> out;
  for (const api::ObjectKey& key : std::exchange(s.dirty_local_queues, {})) {
    if (s.local_queues.contains(key)) {
      out.push_back(key);
    }
  }
  return out;
}

std::vector<api::Ptr<api::ClusterQueue>> State::ClusterQueues() const {
  std::vector<api::Ptr<api::ClusterQueue>> out;
  for (const auto& [name, queue] : impl_->objects.cluster_queues) {
    out.push_back(queue);
  }
  return out;
}

std::vector<api::Ptr<api::LocalQueue>> State::LocalQueues() const {
  std::vector<api::Ptr<api::LocalQueue>> out;
  for (const auto& [key, queue] : impl_->local_queues) {
    out.push_back(queue);
  }
  return out;
}

const AdmissionDecision* State::DecisionOf(const api::ObjectKey& workload) const {
  const auto it = impl_->workloads.find(workload);
  return it == impl_->workloads.end() || !it->second.decision ? nullptr : &*it->second.decision;
}

}  // namespace muster::scheduler
