#include <string_view>

#include "api/decode_kinds.h"
#include "api/decode_parts.h"

namespace muster::api {
namespace {

constexpr std::string_view kQueueLabel = "kueue.x-k8s.io/queue-name";
constexpr std::string_view kPodGroupLabel = "kueue.x-k8s.io/pod-group-name";

void ReadPodMetaAndSpec(const Field& root, JsonPtr& out) {
  JsonPtr metadata;
  JsonPtr spec;
  root["metadata"].ReadRaw(metadata);
  root["spec"].ReadRaw(spec);
  Json raw = Json::object();
  raw["metadata"] = metadata ? *metadata : Json::object();
  raw["spec"] = spec ? *spec : Json::object();
  // Server-side bookkeeping, often larger than the rest and of no use to a template.
  raw["metadata"].erase("managedFields");
  out = std::make_shared<const Json>(std::move(raw));
}

}  // namespace

void ReadObject(const Field& /*root*/, Namespace& /*out*/) {}

void ReadObject(const Field& root, Node& out) {
  const Field spec = root["spec"];
  spec["unschedulable"].Read(out.unschedulable);
  ReadTaints(spec["taints"], out.taints);
  const Field status = root["status"];
  status["allocatable"].ReadRequests(out.allocatable);
  status["conditions"].Each([&](const Field& condition) {
    std::string type;
    std::string value;
    condition["type"].Read(type);
    condition["status"].Read(value);
    if (type == "Ready") {
      out.ready = value == "True";
    }
  });
}

void ReadObject(const Field& root, PriorityClass& out) {
  root["value"].Read(out.value);
  root["globalDefault"].Read(out.global_default);
}

void ReadObject(const Field& root, LimitRange& out) {
  root["spec"]["limits"].ReadList(out.limits, [](const Field& item, LimitRangeItem& limit) {
    item["type"].Read(limit.type);
    item["max"].ReadRequests(limit.max);
    item["min"].ReadRequests(limit.min);
    item["default"].ReadRequests(limit.default_limit);
    item["defaultRequest"].ReadRequests(limit.default_request);
  });
}

void ReadObject(const Field& root, RuntimeClass& out) {
  root["overhead"]["podFixed"].ReadRequests(out.overhead);
  const Field scheduling = root["scheduling"];
  scheduling["nodeSelector"].Read(out.node_selector);
  ReadTolerations(scheduling["tolerations"], out.tolerations);
}

void ReadObject(const Field& root, Job& out) {
  const Field spec = root["spec"];
  spec["parallelism"].Read(out.parallelism);
  spec["completions"].Read(out.completions);
  spec["backoffLimit"].Read(out.backoff_limit);
  spec["suspend"].Read(out.suspend);
  std::string mode;
  spec["completionMode"].Read(mode);
  out.indexed = mode == "Indexed";
  spec["managedBy"].Read(out.managed_by);
  ReadPodTemplate(spec["template"], out.pod_template);

  const Field status = root["status"];
  ReadConditions(status["conditions"], out.conditions);
  out.started = status["startTime"].present();
  status["active"].Read(out.active);
  status["ready"].Read(out.ready);
  status["terminating"].Read(out.terminating);
  status["succeeded"].Read(out.succeeded);
  status["failed"].Read(out.failed);
  status["completedIndexes"].Read(out.completed_indexes);
  status["failedIndexes"].Read(out.failed_indexes);
  status["uncountedTerminatedPods"]["succeeded"].Each(
      [&](const Field& /*uid*/) { ++out.uncounted_succeeded; });
}

void ReadObject(const Field& root, Pod& out) {
  ReadPodSpec(root["spec"], out.spec);
  const Field status = root["status"];
  status["phase"].Read(out.phase);
  ReadConditions(status["conditions"], out.conditions);
  ReadClaimStatuses(status["resourceClaimStatuses"], out.claim_statuses);
  status["extendedResourceClaimStatus"]["resourceClaimName"].Read(out.extended_claim);
  if (out.meta.labels.contains(kQueueLabel) || out.meta.labels.contains(kPodGroupLabel) ||
      !out.spec.scheduling_gates.empty()) {
    ReadPodMetaAndSpec(root, out.raw);
  }
}

void ReadObject(const Field& root, NativeWorkload& out) {
  const Field spec = root["spec"];
  const Field controller = spec["controllerRef"];
  controller["apiGroup"].Read(out.controller_group);
  controller["kind"].Read(out.controller_kind);
  controller["name"].Read(out.controller_name);
  // Composite templates nest; the API server allows four levels, and deeper ones are not looked at.
  const auto collect = [&out](const Field& parent, int levels, const auto& self) -> void {
    const auto name_of = [&out](const Field& item) {
      std::string name;
      item["name"].Read(name);
      out.template_names.push_back(std::move(name));
    };
    parent["podGroupTemplates"].Each(name_of);
    parent["compositePodGroupTemplates"].Each([&](const Field& item) {
      name_of(item);
      if (levels > 1) {
        self(item, levels - 1, self);
      }
    });
  };
  collect(spec, 4, collect);
}

void ReadObject(const Field& root, PodGroup& out) {
  const Field spec = root["spec"];
  const Field workload = spec["workloadRef"];
  workload["workloadName"].Read(out.workload_name);
  workload["templateName"].Read(out.template_name);
  spec["parentCompositePodGroupName"].Read(out.parent_composite);
  const Field gang = spec["schedulingPolicy"]["gang"];
  out.gang = gang.present();
  gang["minCount"].Read(out.min_count);
  bool first = true;
  spec["schedulingConstraints"]["topology"].Each([&](const Field& item) {
    if (first) {
      item["key"].Read(out.topology_key);
    }
    first = false;
  });
  ReadPodClaims(spec["resourceClaims"], out.claims);
  spec["priority"].Read(out.priority);
  ReadClaimStatuses(root["status"]["resourceClaimStatuses"], out.claim_statuses);
}

void ReadObject(const Field& root, CompositePodGroup& out) {
  const Field spec = root["spec"];
  spec["workloadRef"]["workloadName"].Read(out.workload_name);
  spec["parentCompositePodGroupName"].Read(out.parent_composite);
  const Field gang = spec["schedulingPolicy"]["gang"];
  out.gang = gang.present();
  gang["minGroupCount"].Read(out.min_group_count);
}

}  // namespace muster::api
