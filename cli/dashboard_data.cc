#include "cli/dashboard_data.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "api/object.h"
#include "cli/version.h"

namespace muster::cli {
namespace {

constexpr std::size_t kEventsShown = 50;

template <typename T>
std::vector<api::Ptr<T>> All(sim::LiveWorld& world, const char* resource) {
  std::vector<api::Ptr<T>> out;
  for (const api::Json* object : world.server().List(resource)) {
    if (auto decoded = api::DecodeAs<T>(*object)) {
      out.push_back(std::move(*decoded));
    }
  }
  return out;
}

// "batch/v1 Job team-a/x" as "Job/x".
std::string ShortOwner(const std::string& owner) {
  const std::size_t first = owner.find(' ');
  const std::size_t slash = owner.rfind('/');
  const std::size_t second = owner.find(' ', first == std::string::npos ? 0 : first + 1);
  if (first == std::string::npos || second == std::string::npos || slash == std::string::npos) {
    return {};
  }
  return owner.substr(first + 1, second - first - 1) + "/" + owner.substr(slash + 1);
}

// "8 pods of 1 nvidia.com/gpu, 4 cpu".
std::string RequestsText(const api::Workload& workload, std::int64_t& pods) {
  std::string out;
  for (const api::PodSet& pod_set : workload.pod_sets) {
    pods += pod_set.count;
    out += (out.empty() ? "" : "; ") + std::to_string(pod_set.count) + " pods";
    std::string each;
    for (const auto& [resource, amount] : api::PodRequests(pod_set.pod_template.spec)) {
      each += (each.empty() ? "" : ", ") + api::FormatAmount(resource, amount) + " " + resource;
    }
    if (const std::size_t claims = pod_set.pod_template.spec.claims.size(); claims > 0) {
      each += (each.empty() ? "" : ", ") + std::to_string(claims) +
              (claims == 1 ? " claim" : " claims");
    }
    if (!each.empty()) {
      out += " of " + each;
    }
  }
  return out;
}

server::QueueRow MakeQueue(sim::LiveWorld& world, const api::ClusterQueue& queue) {
  const scheduler::QueueStatus status =
      world.controller().state().ClusterQueueStatus(queue.meta.name);
  server::QueueRow row{.name = queue.meta.name,
                       .cohort = queue.cohort,
                       .strict_fifo = queue.strict_fifo,
                       .active = status.active.is_true(),
                       .message = status.active.is_true() ? std::string() : status.active.message,
                       .pending = status.pending,
                       .reserving = status.reserving,
                       .admitted = status.admitted,
                       .local_queues = {},
                       .quota = {}};
  for (const api::ResourceGroup& group : queue.resource_groups) {
    for (const api::FlavorQuotas& flavor : group.flavors) {
      for (const api::ResourceQuota& quota : flavor.resources) {
        Amount reserved;
        Amount borrowed;
        for (const scheduler::FlavorUsage& usage : status.reservation) {
          if (usage.flavor == flavor.name && usage.resource == quota.name) {
            reserved = usage.total;
            borrowed = usage.borrowed;
          }
        }
        row.quota.push_back({.flavor = flavor.name,
                             .resource = quota.name,
                             .nominal = quota.nominal.value(),
                             .reserved = reserved.value(),
                             .borrowed = borrowed.value(),
                             .nominal_text = api::FormatAmount(quota.name, quota.nominal),
                             .reserved_text = api::FormatAmount(quota.name, reserved),
                             .borrowed_text = api::FormatAmount(quota.name, borrowed)});
      }
    }
  }
  return row;
}

void AddNodes(sim::LiveWorld& world, server::DashboardData& data) {
  std::map<std::string, std::int64_t> pods;
  std::map<std::string, std::int64_t> plugin_used;
  constexpr const char* kGpu = "nvidia.com/gpu";
  for (const auto& pod : All<api::Pod>(world, "/pods")) {
    if (pod->spec.node_name.empty() || pod->terminated()) {
      continue;
    }
    ++pods[pod->spec.node_name];
    const ResourceVector requests = api::PodRequests(pod->spec);
    if (const auto it = requests.find(kGpu); it != requests.end()) {
      plugin_used[pod->spec.node_name] += it->second.value();
    }
  }
  std::map<std::string, std::int64_t> devices;
  std::map<std::string, std::string> node_of_pool;
  for (const auto& slice : All<api::ResourceSlice>(world, "resource.k8s.io/resourceslices")) {
    devices[slice->node_name] += static_cast<std::int64_t>(slice->devices.size());
    node_of_pool[slice->driver + "/" + slice->pool] = slice->node_name;
  }
  std::map<std::string, std::int64_t> devices_used;
  for (const auto& claim : All<api::ResourceClaim>(world, "resource.k8s.io/resourceclaims")) {
    for (const api::AllocatedDevice& device : claim->devices) {
      ++devices_used[node_of_pool[device.driver + "/" + device.pool]];
    }
  }
  for (const auto& node : All<api::Node>(world, "/nodes")) {
    const std::string& name = node->meta.name;
    const std::string* group = node->meta.Label("gpu");
    server::NodeRow row{.name = name,
                        .ready = node->ready,
                        .schedulable = !node->unschedulable,
                        .group = group != nullptr ? *group : std::string(),
                        .accelerator = {},
                        .pods = pods[name]};
    if (const auto it = node->allocatable.find(kGpu); it != node->allocatable.end()) {
      row.accelerator = kGpu;
      row.total = it->second.value();
      row.used = plugin_used[name];
    } else if (devices[name] > 0) {
      row.accelerator = "DRA devices";
      row.total = devices[name];
      row.used = devices_used[name];
    }
    data.nodes.push_back(std::move(row));
  }
  std::stable_sort(data.nodes.begin(), data.nodes.end(), [](const auto& a, const auto& b) {
    return a.group < b.group;
  });
}

}  // namespace

server::DashboardData MakeDashboardData(sim::LiveWorld& world, TimePoint now) {
  server::DashboardData data{
      .title = "demo", .version = kVersion, .now = now, .leader = world.controller().leading()};
  for (const auto& queue : All<api::ClusterQueue>(world, "kueue.x-k8s.io/clusterqueues")) {
    data.queues.push_back(MakeQueue(world, *queue));
  }
  for (const auto& local : All<api::LocalQueue>(world, "kueue.x-k8s.io/localqueues")) {
    for (server::QueueRow& queue : data.queues) {
      if (queue.name == local->cluster_queue) {
        queue.local_queues.push_back(local->meta.key().ToString());
      }
    }
  }
  std::map<api::ObjectKey, api::Ptr<api::Workload>> workloads;
  for (const auto& workload : All<api::Workload>(world, "kueue.x-k8s.io/workloads")) {
    workloads.emplace(workload->meta.key(), workload);
  }
  for (const scheduler::PendingView& pending : world.controller().state().Pending()) {
    server::PendingRow row{.ns = pending.workload.ns,
                           .name = pending.workload.name,
                           .job = {},
                           .cluster_queue = pending.cluster_queue,
                           .local_queue = pending.local_queue,
                           .position = pending.position,
                           .local_position = pending.local_position,
                           .priority = pending.priority,
                           .parked = !pending.active,
                           .reason = pending.verdict.reason,
                           .message = pending.verdict.message,
                           .would_fit = pending.verdict.would_fit_if};
    if (const auto it = workloads.find(pending.workload); it != workloads.end()) {
      row.requests = RequestsText(*it->second, row.pods);
      row.since = it->second->meta.creation_timestamp;
      if (const api::OwnerReference* owner = it->second->meta.controller()) {
        row.job = owner->kind + "/" + owner->name;
      }
    }
    data.pending.push_back(std::move(row));
  }
  for (const scheduler::RunningGang& gang : world.controller().Running()) {
    server::RunningRow row{.ns = gang.workload.ns,
                           .name = gang.workload.name,
                           .job = ShortOwner(gang.owner),
                           .cluster_queue = gang.cluster_queue,
                           .priority = gang.priority,
                           .since = gang.admitted_at};
    if (const auto it = workloads.find(gang.workload); it != workloads.end()) {
      std::int64_t pods = 0;
      row.requests = RequestsText(*it->second, pods);
    }
    row.pods = static_cast<std::int64_t>(gang.members.size());
    std::map<std::string, std::int64_t> nodes;
    for (const scheduler::RunningMember& member : gang.members) {
      row.pods_bound += member.bound ? 1 : 0;
      if (!member.node.empty()) {
        ++nodes[member.node];
      }
    }
    for (const auto& [node, count] : nodes) {
      row.nodes.push_back({.node = node, .pods = count, .devices = {}});
    }
    data.running.push_back(std::move(row));
  }
  AddNodes(world, data);
  const std::vector<sim::TimelineEvent>& events = world.timeline().events();
  const TimePoint start = now - world.elapsed();
  for (auto it = events.rbegin(); it != events.rend() && data.events.size() < kEventsShown; ++it) {
    data.events.push_back({.at = start + it->at,
                           .kind = it->event,
                           .workload = it->workload.empty() ? it->object : it->workload,
                           .message = it->message});
  }
  return data;
}

}  // namespace muster::cli
