#include "sim/builtin.h"

#include <string>
#include <string_view>
#include <utility>

#include "api/quantity.h"
#include "base/digest.h"
#include "sim/access.h"
#include "sim/crds.h"

namespace muster::sim {
namespace {

void Default(Json& object, const char* field, Json value) {
  const auto it = object.find(field);
  if (it == object.end() || it->is_null() ||
      (it->is_string() && it->get_ref<const std::string&>().empty())) {
    object[field] = std::move(value);
  }
}

void DefaultProbe(Json& container, const char* field) {
  if (!container.contains(field) || !container[field].is_object()) {
    return;
  }
  Json& probe = container[field];
  const auto number = [&](const char* name, int value) {
    if (IntAt(probe, name).value_or(0) == 0) {
      probe[name] = value;
    }
  };
  number("timeoutSeconds", 1);
  number("periodSeconds", 10);
  number("successThreshold", 1);
  number("failureThreshold", 3);
}

void DefaultContainer(Json& container) {
  if (!container.is_object()) {
    return;
  }
  const std::string image = TextAt(container, "image");
  const std::size_t slash = image.rfind('/');
  const std::string_view last =
      std::string_view(image).substr(slash == std::string::npos ? 0 : slash + 1);
  const std::size_t colon = last.find(':');
  const bool digest = last.contains('@');
  const bool latest =
      !digest && (colon == std::string_view::npos || last.substr(colon + 1) == "latest");
  Default(container, "imagePullPolicy", latest ? "Always" : "IfNotPresent");
  Default(container, "terminationMessagePath", "/dev/termination-log");
  Default(container, "terminationMessagePolicy", "File");
  if (!container.contains("resources")) {
    container["resources"] = Json::object();
  }
  for (const char* probe : {"livenessProbe", "readinessProbe", "startupProbe"}) {
    DefaultProbe(container, probe);
  }
  if (container.contains("env") && container["env"].is_array()) {
    for (Json& variable : container["env"]) {
      if (Member(ObjectAt(variable, "valueFrom"), "fieldRef") != nullptr) {
        Default(variable["valueFrom"]["fieldRef"], "apiVersion", "v1");
      }
    }
  }
}

void DefaultPodSpec(Json& spec) {
  if (!spec.is_object()) {
    return;
  }
  Default(spec, "dnsPolicy", "ClusterFirst");
  Default(spec, "restartPolicy", "Always");
  Default(spec, "schedulerName", "default-scheduler");
  if (!spec.contains("securityContext")) {
    spec["securityContext"] = Json::object();
  }
  if (!spec.contains("terminationGracePeriodSeconds")) {
    spec["terminationGracePeriodSeconds"] = 30;
  }
  for (const char* list : {"containers", "initContainers"}) {
    if (spec.contains(list) && spec[list].is_array()) {
      for (Json& container : spec[list]) {
        DefaultContainer(container);
      }
    }
  }
  // The old name of the service account goes on being written.
  if (HasText(spec, "serviceAccountName")) {
    spec["serviceAccount"] = spec["serviceAccountName"];
  } else if (HasText(spec, "serviceAccount")) {
    spec["serviceAccountName"] = spec["serviceAccount"];
  }
  if (spec.contains("volumes") && spec["volumes"].is_array()) {
    for (Json& volume : spec["volumes"]) {
      if (!volume.is_object()) {
        continue;
      }
      bool any = false;
      for (const auto& [key, value] : volume.items()) {
        any = any || key != "name";
      }
      if (!any) {
        volume["emptyDir"] = Json::object();
      }
      for (const char* kind : {"configMap", "secret", "downwardAPI", "projected"}) {
        if (volume.contains(kind) && volume[kind].is_object() &&
            !volume[kind].contains("defaultMode")) {
          volume[kind]["defaultMode"] = 420;
        }
      }
    }
  }
}

void DefaultPodTemplate(Json& holder) {
  if (holder.contains("template") && holder["template"].is_object()) {
    DefaultPodSpec(holder["template"]["spec"].is_null()
                       ? (holder["template"]["spec"] = Json::object())
                       : holder["template"]["spec"]);
  }
}

void RequestsFromLimits(Json& holder) {
  if (!holder.contains("resources") || !holder["resources"].is_object()) {
    return;
  }
  Json& resources = holder["resources"];
  const Json limits = ObjectAt(resources, "limits");
  for (const auto& [name, value] : limits.items()) {
    if (Member(ObjectAt(resources, "requests"), name) == nullptr) {
      resources["requests"][name] = value;
    }
  }
}

void DefaultDeviceRequest(Json& request) {
  if (!request.is_object()) {
    return;
  }
  Default(request, "allocationMode", "ExactCount");
  if (TextAt(request, "allocationMode") == "ExactCount" &&
      IntAt(request, "count").value_or(0) == 0) {
    request["count"] = 1;
  }
  if (request.contains("tolerations") && request["tolerations"].is_array()) {
    for (Json& toleration : request["tolerations"]) {
      if (toleration.is_object()) {
        Default(toleration, "operator", "Equal");
      }
    }
  }
}

void DefaultClaimSpec(Json& spec) {
  if (!spec.is_object() || !spec.contains("devices") || !spec["devices"].is_object() ||
      !spec["devices"].contains("requests") || !spec["devices"]["requests"].is_array()) {
    return;
  }
  for (Json& request : spec["devices"]["requests"]) {
    if (!request.is_object()) {
      continue;
    }
    if (request.contains("exactly")) {
      DefaultDeviceRequest(request["exactly"]);
    }
    if (request.contains("firstAvailable") && request["firstAvailable"].is_array()) {
      for (Json& sub : request["firstAvailable"]) {
        DefaultDeviceRequest(sub);
      }
    }
  }
}

void DefaultTaintTime(Json& taint, TimePoint now) {
  if (taint.is_object()) {
    Default(taint, "timeAdded", FormatTime(now));
  }
}

void DefaultMatch(Json& match) {
  if (!match.is_object()) {
    return;
  }
  Default(match, "matchPolicy", "Equivalent");
  for (const char* selector : {"namespaceSelector", "objectSelector"}) {
    if (!match.contains(selector)) {
      match[selector] = Json::object();
    }
  }
  for (const char* list : {"resourceRules", "excludeResourceRules"}) {
    if (match.contains(list) && match[list].is_array()) {
      for (Json& rule : match[list]) {
        if (rule.is_object()) {
          Default(rule, "scope", "*");
        }
      }
    }
  }
}

void DefaultLimitRange(Json& spec) {
  if (!spec.is_object() || !spec.contains("limits") || !spec["limits"].is_array()) {
    return;
  }
  for (Json& item : spec["limits"]) {
    if (TextAt(item, "type") != "Container") {
      continue;
    }
    const auto fill = [&](const char* to, const char* from) {
      for (const auto& [name, value] : Json(ObjectAt(item, from)).items()) {
        if (Member(ObjectAt(item, to), name) == nullptr) {
          item[to][name] = value;
        }
      }
    };
    fill("default", "max");
    fill("defaultRequest", "default");
    fill("defaultRequest", "min");
  }
}

void DefaultJob(Json& job) {
  Json& spec = job["spec"];
  if (!spec.is_object()) {
    return;
  }
  if (!spec.contains("completions") && !spec.contains("parallelism")) {
    spec["completions"] = 1;
  }
  if (!spec.contains("parallelism")) {
    spec["parallelism"] = 1;
  }
  if (!spec.contains("backoffLimit")) {
    spec["backoffLimit"] = spec.contains("backoffLimitPerIndex") ? INT32_MAX : 6;
  }
  Default(spec, "completionMode", "NonIndexed");
  Default(spec,
          "podReplacementPolicy",
          spec.contains("podFailurePolicy") ? "Failed" : "TerminatingOrFailed");
  if (!spec.contains("suspend")) {
    spec["suspend"] = false;
  }
  if (!spec.contains("manualSelector")) {
    spec["manualSelector"] = false;
  }
  const Json& labels = ObjectAt(ObjectAt(ObjectAt(spec, "template"), "metadata"), "labels");
  if (!labels.empty() && ObjectAt(ObjectAt(job, "metadata"), "labels").empty()) {
    job["metadata"]["labels"] = labels;
  }
}

std::string QosClass(const Json& spec) {
  bool any = false;
  bool guaranteed = true;
  for (const char* list : {"containers", "initContainers"}) {
    for (const Json& container : ListAt(spec, list)) {
      const Json& resources = ObjectAt(container, "resources");
      for (const char* name : {"cpu", "memory"}) {
        const auto amount = [&](const char* side) {
          const Json* value = Member(ObjectAt(resources, side), name);
          const auto quantity = api::Quantity::Parse(
              value != nullptr && value->is_string() ? value->get<std::string>() : "0");
          return quantity ? *quantity : api::Quantity();
        };
        const api::Quantity zero;
        const api::Quantity request = amount("requests");
        const api::Quantity limit = amount("limits");
        any = any || request.Compare(zero) > 0 || limit.Compare(zero) > 0;
        guaranteed = guaranteed && limit.Compare(zero) > 0 && request.Compare(limit) == 0;
      }
    }
  }
  return !any ? "BestEffort" : guaranteed ? "Guaranteed" : "Burstable";
}

}  // namespace

void DefaultBuiltin(const ResourceInfo& resource, Json& object, TimePoint now) {
  const std::string key = resource.key();
  Json empty = Json::object();
  Json& spec = object.contains("spec") && object["spec"].is_object() ? object["spec"] : empty;
  if (key == "/pods") {
    if (!object.contains("spec")) {
      return;
    }
    for (const char* list : {"containers", "initContainers"}) {
      if (spec.contains(list) && spec[list].is_array()) {
        for (Json& container : spec[list]) {
          if (container.is_object()) {
            RequestsFromLimits(container);
          }
        }
      }
    }
    RequestsFromLimits(spec);
    DefaultPodSpec(spec);
    if (!spec.contains("enableServiceLinks")) {
      spec["enableServiceLinks"] = true;
    }
  } else if (key == "batch/jobs") {
    DefaultPodTemplate(spec);
    if (object.contains("spec")) {
      DefaultJob(object);
    }
  } else if (key == "batch/cronjobs") {
    Default(spec, "concurrencyPolicy", "Allow");
    if (!spec.contains("suspend")) {
      spec["suspend"] = false;
    }
    if (!spec.contains("successfulJobsHistoryLimit")) {
      spec["successfulJobsHistoryLimit"] = 3;
    }
    if (!spec.contains("failedJobsHistoryLimit")) {
      spec["failedJobsHistoryLimit"] = 1;
    }
    if (spec.contains("jobTemplate") && spec["jobTemplate"].is_object() &&
        spec["jobTemplate"].contains("spec")) {
      DefaultPodTemplate(spec["jobTemplate"]["spec"]);
    }
  } else if (resource.group == "apps" && key != "apps/controllerrevisions") {
    DefaultPodTemplate(spec);
    if (key != "apps/daemonsets" && !spec.contains("replicas")) {
      spec["replicas"] = 1;
    }
    if (key != "apps/replicasets" && !spec.contains("revisionHistoryLimit")) {
      spec["revisionHistoryLimit"] = 10;
    }
    if (key == "apps/deployments") {
      if (!spec.contains("progressDeadlineSeconds")) {
        spec["progressDeadlineSeconds"] = 600;
      }
      Json& strategy =
          spec["strategy"].is_null() ? (spec["strategy"] = Json::object()) : spec["strategy"];
      Default(strategy, "type", "RollingUpdate");
      if (strategy["type"] == "RollingUpdate") {
        Json& rolling = strategy["rollingUpdate"].is_null()
                            ? (strategy["rollingUpdate"] = Json::object())
                            : strategy["rollingUpdate"];
        Default(rolling, "maxUnavailable", "25%");
        Default(rolling, "maxSurge", "25%");
      }
    } else if (key == "apps/statefulsets") {
      Default(spec, "podManagementPolicy", "OrderedReady");
      Json& strategy = spec["updateStrategy"].is_null() ? (spec["updateStrategy"] = Json::object())
                                                        : spec["updateStrategy"];
      Default(strategy, "type", "RollingUpdate");
      if (strategy["type"] == "RollingUpdate" && !strategy.contains("rollingUpdate")) {
        strategy["rollingUpdate"] = {{"partition", 0}};
      }
    }
  } else if (key == "/podtemplates") {
    DefaultPodTemplate(object);
  } else if (key == "/nodes") {
    if (object.contains("status") && object["status"].is_object() &&
        object["status"].contains("capacity") && !object["status"].contains("allocatable")) {
      object["status"]["allocatable"] = object["status"]["capacity"];
    }
  } else if (key == "/limitranges") {
    DefaultLimitRange(spec);
  } else if (key == "/secrets") {
    Default(object, "type", "Opaque");
    // stringData is a way to write, not to read.
    if (const Json strings = ObjectAt(object, "stringData"); !strings.empty()) {
      for (const auto& [name, value] : strings.items()) {
        if (value.is_string()) {
          object["data"][name] = Base64Encode(value.get_ref<const std::string&>());
        }
      }
    }
    object.erase("stringData");
  } else if (key == "scheduling.k8s.io/priorityclasses") {
    Default(object, "preemptionPolicy", "PreemptLowerPriority");
  } else if (key == "scheduling.k8s.io/podgroups" ||
             key == "scheduling.k8s.io/compositepodgroups") {
    if (object.contains("spec") && !spec.contains("disruptionMode")) {
      spec["disruptionMode"] = {{"single", Json::object()}};
    }
  } else if (key == "resource.k8s.io/resourceclaims") {
    DefaultClaimSpec(spec);
  } else if (key == "resource.k8s.io/resourceclaimtemplates") {
    if (spec.contains("spec")) {
      DefaultClaimSpec(spec["spec"]);
    }
  } else if (key == "resource.k8s.io/resourceslices") {
    if (spec.contains("devices") && spec["devices"].is_array()) {
      for (Json& device : spec["devices"]) {
        if (device.is_object() && device.contains("taints") && device["taints"].is_array()) {
          for (Json& taint : device["taints"]) {
            DefaultTaintTime(taint, now);
          }
        }
      }
    }
  } else if (key == "resource.k8s.io/devicetaintrules") {
    if (spec.contains("taint")) {
      DefaultTaintTime(spec["taint"], now);
    }
  } else if (resource.group == "admissionregistration.k8s.io") {
    if (resource.kind.ends_with("AdmissionPolicy")) {
      Default(spec, "failurePolicy", "Fail");
      if (spec.contains("matchConstraints")) {
        DefaultMatch(spec["matchConstraints"]);
      }
    } else if (resource.kind.ends_with("AdmissionPolicyBinding")) {
      if (spec.contains("matchResources")) {
        DefaultMatch(spec["matchResources"]);
      }
    }
  } else if (resource.group == "rbac.authorization.k8s.io" && resource.kind.ends_with("Binding")) {
    if (object.contains("roleRef") && object["roleRef"].is_object()) {
      Default(object["roleRef"], "apiGroup", "rbac.authorization.k8s.io");
    }
    if (object.contains("subjects") && object["subjects"].is_array()) {
      for (Json& subject : object["subjects"]) {
        if (TextAt(subject, "kind") == "User" || TextAt(subject, "kind") == "Group") {
          Default(subject, "apiGroup", "rbac.authorization.k8s.io");
        } else if (TextAt(subject, "kind") == "ServiceAccount" && subject.is_object()) {
          subject.erase("apiGroup");
        }
      }
    }
  } else if (key == "storage.k8s.io/storageclasses") {
    Default(object, "reclaimPolicy", "Delete");
    Default(object, "volumeBindingMode", "Immediate");
  } else if (key == "/services") {
    Default(spec, "type", "ClusterIP");
    Default(spec, "sessionAffinity", "None");
  }
}

void PrepareCreate(const ResourceInfo& resource, Json& object, TimePoint now) {
  const std::string key = resource.key();
  if (key == "/pods") {
    const Json& spec = ObjectAt(object, "spec");
    Json status = {{"phase", "Pending"}, {"qosClass", QosClass(spec)}};
    if (!ListAt(spec, "schedulingGates").empty()) {
      status["conditions"] =
          Json::array({{{"type", "PodScheduled"},
                        {"status", "False"},
                        {"lastProbeTime", nullptr},
                        {"lastTransitionTime", FormatTime(now)},
                        {"reason", "SchedulingGated"},
                        {"message", "Scheduling is blocked due to non-empty scheduling gates"}}});
    }
    object["status"] = std::move(status);
  } else if (key == "batch/jobs") {
    object["status"] = Json::object();
    Json& spec = object["spec"];
    if (!spec.is_object() || TrueAt(spec, "manualSelector")) {
      return;
    }
    const std::string name = TextAt(object["metadata"], "name");
    const std::string uid = TextAt(object["metadata"], "uid");
    Json& labels = spec["template"]["metadata"]["labels"];
    for (const auto& [label, value] : {std::pair<const char*, const std::string&>("job-name", name),
                                       {"batch.kubernetes.io/job-name", name},
                                       {"controller-uid", uid},
                                       {"batch.kubernetes.io/controller-uid", uid}}) {
      if (!labels.contains(label)) {
        labels[label] = value;
      }
    }
    Json& selector = spec["selector"]["matchLabels"];
    if (!selector.contains("batch.kubernetes.io/controller-uid")) {
      selector["batch.kubernetes.io/controller-uid"] = uid;
    }
  } else if (key == "/namespaces") {
    object["metadata"]["labels"]["kubernetes.io/metadata.name"] = object["metadata"]["name"];
    object["spec"]["finalizers"] = Json::array({"kubernetes"});
    object["status"] = {{"phase", "Active"}};
  } else if (key == "apiextensions.k8s.io/customresourcedefinitions") {
    object.erase("status");
    Establish(object, now);
  } else if (resource.group == "apps" && resource.Storage().status) {
    object["status"] = key == "apps/replicasets" || key == "apps/statefulsets"
                           ? Json{{"replicas", 0}}
                           : Json::object();
  }
}

void PrepareUpdate(const ResourceInfo& resource,
                   const std::string& subresource,
                   Json& object,
                   const Json& old,
                   TimePoint now) {
  const std::string key = resource.key();
  if (key == "apiextensions.k8s.io/customresourcedefinitions" && subresource.empty()) {
    Establish(object, now);
  } else if (key == "/namespaces") {
    object["metadata"]["labels"]["kubernetes.io/metadata.name"] = object["metadata"]["name"];
    if (subresource.empty()) {
      object["spec"]["finalizers"] = ListAt(ObjectAt(old, "spec"), "finalizers");
    }
  } else if (key == "/pods" && subresource == "status") {
    const Json& before = ObjectAt(old, "status");
    if (before.contains("qosClass") && object.contains("status") && object["status"].is_object()) {
      object["status"]["qosClass"] = before["qosClass"];
    }
  }
}

}  // namespace muster::sim
