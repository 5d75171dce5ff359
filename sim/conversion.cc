#include "sim/conversion.h"

#include <array>
#include <string_view>
#include <utility>

#include "sim/server.h"

namespace muster::sim {
namespace {

struct Rename {
  const char* core;
  const char* events;
};
constexpr std::array<Rename, 8> kRenames = {{{"involvedObject", "regarding"},
                                             {"message", "note"},
                                             {"source", "deprecatedSource"},
                                             {"firstTimestamp", "deprecatedFirstTimestamp"},
                                             {"lastTimestamp", "deprecatedLastTimestamp"},
                                             {"count", "deprecatedCount"},
                                             {"reportingComponent", "reportingController"},
                                             {"reportingInstance", "reportingInstance"}}};

void Move(Json& object, const char* from, const char* to) {
  const auto it = object.find(from);
  if (it != object.end()) {
    Json value = std::move(*it);
    object.erase(it);
    object[to] = std::move(value);
  }
}

}  // namespace

Json EventToCore(const Json& event) {
  Json out = event;
  for (const Rename& rename : kRenames) {
    Move(out, rename.events, rename.core);
  }
  out["apiVersion"] = "v1";
  return out;
}

Json EventFromCore(const Json& event) {
  Json out = event;
  for (const Rename& rename : kRenames) {
    Move(out, rename.core, rename.events);
  }
  out["apiVersion"] = "events.k8s.io/v1";
  return out;
}

std::vector<std::string> SelectableFields(const ResourceInfo& resource,
                                          const ResourceVersionInfo& version) {
  if (resource.custom) {
    std::vector<std::string> out;
    for (const std::string& path : version.selectable_fields) {
      out.push_back(path.starts_with('.') ? path.substr(1) : path);
    }
    return out;
  }
  const std::string key = resource.key();
  if (key == "/pods") {
    return {"spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName"};
  }
  if (key == "/nodes") {
    return {"spec.unschedulable"};
  }
  if (key == "/namespaces") {
    return {"status.phase"};
  }
  if (key == "/secrets") {
    return {"type"};
  }
  if (key == "batch/jobs") {
    return {"status.successful"};
  }
  if (key == "resource.k8s.io/resourceslices") {
    return {"spec.nodeName", "spec.driver", "spec.pool.name"};
  }
  if (key == "/events") {
    return {"involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type"};
  }
  if (key == "events.k8s.io/events") {
    return {"regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type"};
  }
  return {};
}

Json Server::ToVersion(const Call& call, const Json& stored) const {
  if (call.resource->plural == "events" && call.resource->group.empty()) {
    return EventToCore(stored);
  }
  if (call.version->storage) {
    return stored;
  }
  Json out = stored;
  out["apiVersion"] = call.api_version();
  return out;
}

Json Server::ToStorage(const Call& call, Json object) const {
  if (call.resource->plural == "events" && call.resource->group.empty()) {
    return EventFromCore(object);
  }
  if (!call.version->storage) {
    object["apiVersion"] = call.resource->ApiVersion(call.resource->Storage().name);
  }
  return object;
}

}  // namespace muster::sim
