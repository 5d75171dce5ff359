#include "sim/checkers.h"

#include <map>
#include <set>
#include <utility>

#include "api/object.h"
#include "scheduler/cycle/snapshot.h"
#include "scheduler/state.h"

namespace muster::sim {
namespace {

using FlavorResource = std::pair<std::string, std::string>;

template <typename T>
std::vector<api::Ptr<T>> All(World& world, const char* resource) {
  std::vector<api::Ptr<T>> out;
  for (const Json* object : world.server().List(resource)) {
    if (auto decoded = api::DecodeAs<T>(*object)) {
      out.push_back(std::move(*decoded));
    }
  }
  return out;
}

// Usage of each queue as the Workloads' own status tells it, reclaimed pods left out.
std::map<std::string, std::map<FlavorResource, Amount>> UsageOfQueues(World& world) {
  std::map<std::string, std::map<FlavorResource, Amount>> usage;
  for (const auto& workload : All<api::Workload>(world, "kueue.x-k8s.io/workloads")) {
    if (!workload->quota_reserved() || workload->finished() || !workload->admission) {
      continue;
    }
    for (const api::PodSetAssignment& pod_set : workload->admission->pod_sets) {
      for (const auto& [resource, flavor] : pod_set.flavors) {
        const auto amount = pod_set.resource_usage.find(resource);
        if (amount == pod_set.resource_usage.end()) {
          continue;
        }
        Amount charged = api::RequestAmount(resource, amount->second);
        const auto reclaimed = workload->reclaimable_pods.find(pod_set.name);
        if (reclaimed != workload->reclaimable_pods.end() && pod_set.count.value_or(0) > 0) {
          for (const api::PodSet& spec : workload->pod_sets) {
            if (spec.name == pod_set.name) {
              const std::int64_t left = std::max(0, spec.count - reclaimed->second);
              if (left < *pod_set.count) {
                charged = Amount(charged.value() / *pod_set.count) * left;
              }
            }
          }
        }
        usage[workload->admission->cluster_queue][{flavor, resource}] += charged;
      }
    }
  }
  return usage;
}

void CheckQuota(World& world, std::vector<std::string>& problems) {
  const auto usage = UsageOfQueues(world);
  std::map<std::pair<std::string, FlavorResource>, Amount> cohort_nominal;
  std::map<std::pair<std::string, FlavorResource>, Amount> cohort_usage;
  // Whole trees of cohorts, under the name of their root.
  std::map<std::string, std::string> parents;
  const auto cohorts = All<api::Cohort>(world, "kueue.x-k8s.io/cohorts");
  for (const auto& cohort : cohorts) {
    parents[cohort->meta.name] = cohort->parent;
  }
  const auto root = [&](std::string name) {
    for (std::size_t i = 0; i <= cohorts.size(); ++i) {
      const auto parent = parents.find(name);
      if (parent == parents.end() || parent->second.empty()) {
        break;
      }
      name = parent->second;
    }
    return name;
  };
  for (const auto& cohort : cohorts) {
    for (const api::ResourceGroup& group : cohort->resource_groups) {
      for (const api::FlavorQuotas& flavor : group.flavors) {
        for (const api::ResourceQuota& quota : flavor.resources) {
          cohort_nominal[{root(cohort->meta.name), {flavor.name, quota.name}}] += quota.nominal;
        }
      }
    }
  }
  for (const auto& queue : All<api::ClusterQueue>(world, "kueue.x-k8s.io/clusterqueues")) {
    const auto mine = usage.find(queue->meta.name);
    for (const api::ResourceGroup& group : queue->resource_groups) {
      for (const api::FlavorQuotas& flavor : group.flavors) {
        for (const api::ResourceQuota& quota : flavor.resources) {
          const FlavorResource key{flavor.name, quota.name};
          Amount used;
          if (mine != usage.end() && mine->second.contains(key)) {
            used = mine->second.at(key);
          }
          std::optional<Amount> limit;
          if (queue->cohort.empty()) {
            limit = quota.nominal;
          } else if (quota.borrowing_limit) {
            limit = quota.nominal + *quota.borrowing_limit;
          }
          if (limit && used > *limit) {
            problems.push_back("ClusterQueue " + queue->meta.name + " uses " +
                               std::to_string(used.value()) + " of " + quota.name + " in " +
                               flavor.name + ", its limit is " + std::to_string(limit->value()));
          }
          if (!queue->cohort.empty()) {
            cohort_nominal[{root(queue->cohort), key}] += quota.nominal;
            cohort_usage[{root(queue->cohort), key}] += used;
          }
        }
      }
    }
  }
  for (const auto& [key, used] : cohort_usage) {
    if (used > cohort_nominal[key]) {
      problems.push_back("cohort " + key.first + " uses " + std::to_string(used.value()) + " of " +
                         key.second.second + " in " + key.second.first + ", it has " +
                         std::to_string(cohort_nominal[key].value()));
    }
  }
}

void CheckNodes(World& world, std::vector<std::string>& problems) {
  std::map<std::string, ResourceVector> used;
  for (const auto& pod : All<api::Pod>(world, "/pods")) {
    if (!pod->spec.node_name.empty() && !pod->terminated()) {
      Add(used[pod->spec.node_name], api::PodRequests(pod->spec));
      used[pod->spec.node_name]["pods"] += Amount(1);
    }
  }
  for (const auto& node : All<api::Node>(world, "/nodes")) {
    for (const auto& [resource, amount] : used[node->meta.name]) {
      const auto have = node->allocatable.find(resource);
      if (have == node->allocatable.end() || amount > have->second) {
        problems.push_back("node " + node->meta.name + " is overbooked in " + resource);
      }
    }
  }
}

// No pod of a job without an admitted Workload may be free to run.
void CheckReleases(World& world, std::vector<std::string>& problems) {
  std::map<std::string, api::Ptr<api::Workload>> by_owner;
  for (const auto& workload : All<api::Workload>(world, "kueue.x-k8s.io/workloads")) {
    for (const api::OwnerReference& owner : workload->meta.owner_references) {
      auto& slot = by_owner[owner.uid];
      if (slot == nullptr || slot->finished()) {
        slot = workload;
      }
    }
  }
  for (const auto& job : All<api::Job>(world, "batch/jobs")) {
    if (job->meta.Label("kueue.x-k8s.io/queue-name") == nullptr || job->suspend ||
        job->meta.deleting() || api::ConditionTrue(job->conditions, "Complete") ||
        api::ConditionTrue(job->conditions, "Failed")) {
      continue;
    }
    const auto it = by_owner.find(job->meta.uid);
    if (it == by_owner.end() ||
        !(it->second->admitted() || it->second->evicted() || it->second->finished())) {
      problems.push_back("Job " + job->meta.key().ToString() + " is released without an admission");
    }
  }
  for (const auto& pod : All<api::Pod>(world, "/pods")) {
    if (pod->meta.Label("kueue.x-k8s.io/pod-group-name") == nullptr ||
        pod->spec.HasGate("kueue.x-k8s.io/admission") || pod->terminated() ||
        pod->meta.deleting()) {
      continue;
    }
    const auto it = by_owner.find(pod->meta.uid);
    if (it == by_owner.end() ||
        !(it->second->admitted() || it->second->evicted() || it->second->finished())) {
      problems.push_back("Pod " + pod->meta.key().ToString() + " is released without an admission");
    }
  }
}

}  // namespace

std::vector<std::string> CheckSafety(World& world) {
  std::vector<std::string> problems;
  CheckQuota(world, problems);
  CheckNodes(world, problems);
  CheckReleases(world, problems);
  return problems;
}

std::vector<std::string> CheckAtRest(World& world, const scheduler::Options& options) {
  std::vector<std::string> problems = CheckSafety(world);
  // A scheduler that knows nothing but the objects must agree that nobody who waits would fit.
  scheduler::State state(options);
  const TimePoint now = world.clock();
  for (const Json* object : world.server().All()) {
    const std::string api_version = object->value("apiVersion", "");
    const std::size_t slash = api_version.find('/');
    const auto kind = api::FindKind(slash == std::string::npos ? "" : api_version.substr(0, slash),
                                    object->value("kind", ""));
    if (!kind) {
      continue;
    }
    if (auto decoded = api::Decode(*kind, *object)) {
      state.Upsert(*decoded, now);
    }
  }
  state.SetSynced();
  const scheduler::Plan plan =
      scheduler::Decide(*state.TakeSnapshot(now), now, scheduler::Budget{});
  for (const scheduler::AdmissionDecision& admission : plan.admissions) {
    problems.push_back("Workload " + admission.workload.key.ToString() + " waits although it fits");
  }
  for (const auto& job : All<api::Job>(world, "batch/jobs")) {
    const bool over = api::ConditionTrue(job->conditions, "Complete") ||
                      api::ConditionTrue(job->conditions, "Failed");
    for (const auto& workload : All<api::Workload>(world, "kueue.x-k8s.io/workloads")) {
      const api::OwnerReference* owner = workload->meta.controller();
      if (owner == nullptr || owner->uid != job->meta.uid) {
        continue;
      }
      if (workload->admitted() && !workload->evicted() && !workload->finished() && job->suspend) {
        problems.push_back("Job " + job->meta.key().ToString() +
                           " is admitted and still suspended");
      }
      if (over && !workload->finished()) {
        problems.push_back("Job " + job->meta.key().ToString() +
                           " is over and its Workload is not finished");
      }
    }
  }
  return problems;
}

}  // namespace muster::sim
