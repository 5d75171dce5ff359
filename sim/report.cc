#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "api/quantity.h"
#include "base/strings.h"
#include "sim/world.h"

// What a run tells at its end: JSON as scenario.md fixes it, and tables for people.
namespace muster::sim {
namespace {

std::map<std::string, scheduler::QueueStatus> Queues(World& world) {
  std::map<std::string, scheduler::QueueStatus> out;
  for (const Json* queue : world.server().List("kueue.x-k8s.io/clusterqueues")) {
    const std::string name = queue->at("metadata").at("name").get<std::string>();
    out.emplace(name, world.controller().state().ClusterQueueStatus(name));
  }
  return out;
}

// "batch/v1 Job team-a/x" of a Workload object, or empty.
std::string OwnerOf(World& world, const api::ObjectKey& workload) {
  const Json* object = world.server().Find("kueue.x-k8s.io/workloads", workload.ns, workload.name);
  if (object == nullptr) {
    return {};
  }
  const Json& owners = object->value("/metadata/ownerReferences"_json_pointer, Json::array());
  for (const bool controllers_only : {true, false}) {
    for (const Json& owner : owners) {
      if (!controllers_only || owner.value("controller", false)) {
        return owner.value("apiVersion", "") + " " + owner.value("kind", "") + " " + workload.ns +
               "/" + owner.value("name", "");
      }
    }
  }
  return {};
}

Json TimelineJson(const TimelineEvent& event) {
  Json out{{"at", FormatDuration(event.at)},
           {"event", event.event},
           {"reason", event.reason},
           {"message", event.message}};
  const auto set = [&](const char* key, const std::string& value) {
    if (!value.empty()) {
      out[key] = value;
    }
  };
  set("workload", event.workload);
  set("owner", event.owner);
  set("clusterQueue", event.cluster_queue);
  set("object", event.object);
  if (!event.flavors.empty()) {
    out["flavors"] = event.flavors;
  }
  if (!event.nodes.empty()) {
    out["nodes"] = event.nodes;
  }
  return out;
}

// Columns padded to their widest cell, two spaces between them.
std::string Columns(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string out;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      out += row[i];
      if (i + 1 < row.size()) {
        out.append(widths[i] - row[i].size() + 2, ' ');
      }
    }
    while (out.ends_with(' ')) {
      out.pop_back();
    }
    out += '\n';
  }
  return out;
}

std::string NodesText(const NodesByPodSet& nodes) {
  std::vector<std::string> parts;
  for (const auto& [pod_set, by_node] : nodes) {
    for (const auto& [node, count] : by_node) {
      parts.push_back((node.empty() ? "(no node)" : node) + " x" + std::to_string(count));
    }
  }
  return Join(parts, ", ");
}

}  // namespace

Json ReportJson(World& world) {
  Json out{{"now", FormatDuration(world.now())}};
  Json& objects = out["objects"] = Json::array();
  for (const Json* object : world.server().All()) {
    objects.push_back(*object);
  }
  Json& timeline = out["timeline"] = Json::array();
  for (const TimelineEvent& event : world.timeline().events()) {
    timeline.push_back(TimelineJson(event));
  }
  Json& queues = out["queues"] = Json::object();
  for (const auto& [name, status] : Queues(world)) {
    Json usage = Json::object();
    for (const scheduler::FlavorUsage& entry : status.reservation) {
      usage[entry.flavor][entry.resource] = api::FormatAmount(entry.resource, entry.total);
    }
    queues[name] = Json{{"pending", status.pending},
                        {"reserving", status.reserving},
                        {"admitted", status.admitted},
                        {"usage", std::move(usage)}};
  }
  Json& waiting = out["waiting"] = Json::array();
  for (const scheduler::PendingView& pending : world.controller().state().Pending()) {
    Json entry{{"workload", pending.workload.ToString()},
               {"clusterQueue", pending.cluster_queue},
               {"position", pending.position},
               {"reason", pending.verdict.reason},
               {"message", pending.verdict.message}};
    if (std::string owner = OwnerOf(world, pending.workload); !owner.empty()) {
      entry["owner"] = std::move(owner);
    }
    if (!pending.verdict.would_fit_if.empty()) {
      entry["wouldFitIf"] = pending.verdict.would_fit_if;
    }
    waiting.push_back(std::move(entry));
  }
  return out;
}

std::string ReportTable(World& world) {
  std::string out = "TIMELINE\n";
  std::vector<std::vector<std::string>> rows{{"AT", "EVENT", "WORKLOAD", "QUEUE", "DETAIL"}};
  for (const TimelineEvent& event : world.timeline().events()) {
    std::string detail = NodesText(event.nodes);
    if (event.event != "QuotaReserved" && event.event != "Admitted" && !event.message.empty()) {
      detail += (detail.empty() ? "" : "; ") + event.message;
    }
    rows.push_back({FormatDuration(event.at),
                    event.event,
                    event.workload.empty() ? event.object : event.workload,
                    event.cluster_queue,
                    detail});
  }
  out += Columns(rows);

  out += "\nRUNNING\n";
  rows = {{"WORKLOAD", "PODS ON NODES"}};
  for (const auto& [workload, nodes] : world.timeline().Running()) {
    rows.push_back({workload, NodesText(nodes)});
  }
  out += rows.size() > 1 ? Columns(rows) : "nothing runs\n";

  out += "\nWAITING\n";
  rows = {{"QUEUE", "POSITION", "WORKLOAD", "REASON", "WHY"}};
  for (const scheduler::PendingView& pending : world.controller().state().Pending()) {
    rows.push_back({pending.cluster_queue,
                    std::to_string(pending.position),
                    pending.workload.ToString(),
                    pending.verdict.reason,
                    pending.verdict.message});
  }
  out += rows.size() > 1 ? Columns(rows) : "nothing waits\n";

  out += "\nQUOTA\n";
  rows = {{"QUEUE", "PENDING", "RESERVING", "ADMITTED", "FLAVOR", "RESOURCE", "USED", "BORROWED"}};
  for (const auto& [name, status] : Queues(world)) {
    const std::vector<std::string> counts{name,
                                          std::to_string(status.pending),
                                          std::to_string(status.reserving),
                                          std::to_string(status.admitted)};
    bool first = true;
    for (const scheduler::FlavorUsage& entry : status.reservation) {
      std::vector<std::string> row = first ? counts : std::vector<std::string>{"", "", "", ""};
      row.insert(row.end(),
                 {entry.flavor,
                  entry.resource,
                  api::FormatAmount(entry.resource, entry.total),
                  api::FormatAmount(entry.resource, entry.borrowed)});
      rows.push_back(std::move(row));
      first = false;
    }
    if (first) {
      rows.push_back(counts);
    }
  }
  out += Columns(rows);
  return out;
}

}  // namespace muster::sim
