#include "jobs/pod.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <utility>

#include "base/digest.h"
#include "base/strings.h"
#include "jobs/names.h"

namespace muster::jobs {
namespace {

using api::Json;
using api::Ptr;

const Json& Member(const Json& object, std::string_view name) {
  static const Json kNull;
  if (!object.is_object()) {
    return kNull;
  }
  const auto it = object.find(name);
  return it == object.end() ? kNull : *it;
}

const std::string* LabelOrAnnotation(const api::ObjectMeta& meta, std::string_view key) {
  if (const std::string* value = meta.Label(key)) {
    return value;
  }
  return meta.Annotation(key);
}

std::int32_t PositiveNumber(const std::string* text) {
  if (text == nullptr || text->empty() || text->size() > 9 ||
      !std::ranges::all_of(*text, [](char c) { return c >= '0' && c <= '9'; })) {
    return 0;
  }
  return static_cast<std::int32_t>(std::stol(*text));
}

// --- Go's JSON of a pod's shape
// -------------------------------------------------------------------

// Go marshals struct fields in order of declaration, maps in order of keys. The structs below a
// shape need only these orders; what is not listed keeps alphabetical order, which is what the
// remaining structs declare.
constexpr std::array<std::string_view, 36> kFieldOrder = {
    "weight",
    "preference",
    "podAffinityTerm",  // preferred terms
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
    "maxSkew",
    "matchLabels",
    "matchExpressions",
    "matchFields",  // selectors
    "name",
    "hostPort",
    "containerPort",
    "protocol",
    "hostIP",  // ports
    "resourceClaimName",
    "resourceClaimTemplateName",  // claims
    "key",
    "operator",
    "value",
    "values",
    "effect",
    "tolerationSeconds",  // taints, selectors
    "topologyKeyOfSpread",
    "whenUnsatisfiable",
    "labelSelector",
    "namespaces",
    "topologyKey",
    "namespaceSelector",
    "minDomains",
    "nodeAffinityPolicy",
    "nodeTaintsPolicy",
    "matchLabelKeys",
    "mismatchLabelKeys",
    "limits",
    "requests",
    "claims"};

std::size_t Rank(std::string_view key, bool spread) {
  if (spread && key == "topologyKey") {
    key = "topologyKeyOfSpread";
  }
  const auto it = std::ranges::find(kFieldOrder, key);
  return static_cast<std::size_t>(it - kFieldOrder.begin());
}

void AppendGoString(std::string& out, const std::string& text) {
  std::string quoted;
  AppendJsonString(quoted, text);
  for (const char c : quoted) {  // Go's encoder makes JSON safe for HTML
    switch (c) {
      case '<':
        out += "\\u003c";
        break;
      case '>':
        out += "\\u003e";
        break;
      case '&':
        out += "\\u0026";
        break;
      default:
        out += c;
    }
  }
}

bool IsMapField(std::string_view name) {
  return name == "nodeSelector" || name == "matchLabels" || name == "requests" ||
         name == "limits" || name == "overhead";
}

void AppendGoJson(std::string& out, const Json& value, bool is_map, int depth) {
  if (depth > 48) {
    out += "null";
    return;
  }
  if (value.is_object()) {
    std::vector<std::string> keys;
    for (const auto& [key, member] : value.items()) {
      keys.push_back(key);
    }
    if (!is_map) {
      const bool spread = value.contains("maxSkew");
      std::ranges::sort(keys, [&](const std::string& a, const std::string& b) {
        const std::size_t left = Rank(a, spread);
        const std::size_t right = Rank(b, spread);
        return left != right ? left < right : a < b;
      });
    }
    out += '{';
    bool first = true;
    for (const std::string& key : keys) {
      if (!first) {
        out += ',';
      }
      first = false;
      AppendGoString(out, key);
      out += ':';
      AppendGoJson(out, value.at(key), IsMapField(key), depth + 1);
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (i > 0) {
        out += ',';
      }
      AppendGoJson(out, value[i], false, depth + 1);
    }
    out += ']';
  } else if (value.is_string()) {
    AppendGoString(out, value.get_ref<const std::string&>());
  } else {
    out += value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

std::string GoShape(const Json& spec) {
  std::string out = "{\"spec\":{";
  const auto plain = [&](std::string_view key, const char* comma) {
    out += comma;
    AppendGoString(out, std::string(key));
    out += ':';
    AppendGoJson(out, Member(spec, key), IsMapField(key), 0);
  };
  const auto containers = [&](std::string_view key) {
    out += ',';
    AppendGoString(out, std::string(key));
    out += ':';
    const Json& list = Member(spec, key);
    if (!list.is_array() || list.empty()) {
      out += "null";
      return;
    }
    out += '[';
    bool first = true;
    for (const Json& container : list) {
      out += first ? "{\"ports\":" : ",{\"ports\":";
      first = false;
      AppendGoJson(out, Member(container, "ports"), false, 0);
      out += ",\"resources\":{\"requests\":";
      AppendGoJson(out, Member(Member(container, "resources"), "requests"), true, 0);
      out += "}}";
    }
    out += ']';
  };
  plain("affinity", "");
  containers("containers");
  containers("initContainers");
  plain("nodeSelector", ",");
  plain("overhead", ",");
  plain("priority", ",");
  plain("resourceClaims", ",");
  if (!Member(spec, "resources").is_null()) {
    plain("resources", ",");
  }
  plain("runtimeClassName", ",");
  plain("tolerations", ",");
  plain("topologySpreadConstraints", ",");
  out += "}}";
  return out;
}

// --- templates -----------------------------------------------------------------------------------

api::JsonPtr TemplateOfPod(const api::Pod& pod) {
  Json out = Json::object();
  Json metadata = Json::object();
  if (!pod.meta.labels.empty()) {
    metadata["labels"] = pod.meta.labels;
  }
  if (!pod.meta.annotations.empty()) {
    metadata["annotations"] = pod.meta.annotations;
  }
  out["metadata"] = std::move(metadata);
  out["spec"] = pod.raw ? Member(*pod.raw, "spec") : Json();
  if (!out["spec"].is_object()) {
    out["spec"] = Json::object();
  }
  out["spec"].erase("nodeName");
  return DropDuplicateEnv(std::make_shared<const Json>(std::move(out)));
}

void ReadCommonOfPod(const api::Pod& pod, Unit& unit) {
  unit.framework = "pod";
  unit.ns = pod.meta.ns;
  if (const std::string* queue = pod.meta.Label(kQueueLabel)) {
    unit.queue_name = *queue;
  }
  if (const std::string* value = pod.meta.Label(kPriorityClassLabel)) {
    unit.priority_class = *value;
  }
  unit.pod_priority_class = pod.spec.priority_class;
  if (const std::string* value = pod.meta.Label(kMaxExecLabel)) {
    if (const std::int32_t seconds = PositiveNumber(value); seconds > 0) {
      unit.max_execution_seconds = seconds;
    }
  }
  if (const std::string* value = pod.meta.Annotation(kAdmissionGatedBy)) {
    unit.gated_by = *value;
    unit.workload_annotations[std::string(kAdmissionGatedBy)] = *value;
  }
}

bool IsTrue(const std::string* value) {
  return value != nullptr && *value == "true";
}

}  // namespace

bool PodIsHeld(const api::Pod& pod) {
  return pod.spec.HasGate(kAdmissionGate);
}

bool PodIsManaged(const api::Pod& pod) {
  return PodIsHeld(pod) || IsTrue(pod.meta.Label(kManagedLabel));
}

bool PodHasPlacementGate(const api::Pod& pod) {
  return pod.spec.HasGate(kPlacementGate) || pod.spec.HasGate(kTopologyGate);
}

std::string PodGroupName(const api::Pod& pod) {
  const std::string* name = LabelOrAnnotation(pod.meta, kPodGroupName);
  return name == nullptr ? std::string() : *name;
}

bool PodRunnableOrSucceeded(const api::Pod& pod) {
  if (pod.meta.deleting() && pod.spec.node_name.empty()) {
    return false;
  }
  return pod.phase != "Failed";
}

bool PodOccupiesNode(const api::Pod& pod) {
  return (!pod.spec.node_name.empty() || pod.phase == "Running") && !pod.terminated();
}

bool PodReady(const api::Pod& pod) {
  return pod.phase == "Succeeded" ||
         (pod.phase == "Running" && api::ConditionTrue(pod.conditions, "Ready"));
}

std::string RoleHash(const api::Pod& pod) {
  if (const std::string* value = pod.meta.Annotation(kRoleHash)) {
    return *value;
  }
  static const Json kNone = Json::object();
  return Sha256Hex(GoShape(pod.raw ? Member(*pod.raw, "spec") : kNone)).substr(0, 8);
}

Unit ReadPod(const api::Pod& pod) {
  Unit unit;
  ReadCommonOfPod(pod, unit);
  unit.owners.push_back(
      {.api_version = "v1", .kind = "Pod", .name = pod.meta.name, .uid = pod.meta.uid});
  unit.job_uid = pod.meta.uid;
  unit.workload_name = WorkloadName("Pod", "", pod.meta.name, pod.meta.uid);
  UnitPodSet set;
  set.pod_template = TemplateOfPod(pod);
  set.topology = TopologyRequestOf(pod.meta.annotations, {});
  unit.pod_sets.push_back(std::move(set));
  unit.suspended = PodIsHeld(pod) || pod.terminated();
  unit.active = PodOccupiesNode(pod);
  unit.deleting = pod.meta.deleting();
  if (pod.terminated()) {
    unit.finished = Finished{.succeeded = pod.phase == "Succeeded", .message = {}};
  }
  unit.pods_ready = PodReady(pod);
  return unit;
}

Unit ReadPodGroup(const std::string& ns,
                  const std::string& group,
                  const std::vector<Ptr<api::Pod>>& pods) {
  Unit unit;
  unit.framework = "pod";
  unit.ns = ns;
  unit.workload_name = group;
  unit.controller_owner = false;
  unit.workload_annotations[std::string(kIsGroupWorkload)] = "true";
  if (pods.empty()) {
    unit.deleting = true;
    return unit;
  }
  ReadCommonOfPod(*pods.front(), unit);
  unit.workload_annotations[std::string(kIsGroupWorkload)] = "true";
  const std::int32_t total = PositiveNumber(pods.front()->meta.Annotation(kPodGroupTotal));
  bool fast = false;
  bool serving = false;
  bool unretriable = false;
  bool any_active = false;
  std::int32_t succeeded = 0;
  std::int32_t ready = 0;
  std::int32_t runnable = 0;
  struct Role {
    Ptr<api::Pod> first;
    std::int32_t count = 0;
    std::int32_t succeeded = 0;
  };
  std::map<std::string, Role> roles;
  bool all_deleting = true;
  std::string trouble;
  for (const Ptr<api::Pod>& pod : pods) {
    unit.owners.push_back(
        {.api_version = "v1", .kind = "Pod", .name = pod->meta.name, .uid = pod->meta.uid});
    fast = fast || IsTrue(pod->meta.Annotation(kFastAdmission));
    serving = serving || IsTrue(pod->meta.Annotation(kServing));
    const std::string* retriable = pod->meta.Annotation(kRetriable);
    unretriable = unretriable || (retriable != nullptr && *retriable == "false");
    all_deleting = all_deleting && pod->meta.deleting();
    succeeded += pod->phase == "Succeeded" ? 1 : 0;
    ready += PodReady(*pod) ? 1 : 0;
    any_active = any_active || !pod->terminated();
    unit.active = unit.active || PodOccupiesNode(*pod);
    unit.suspended = unit.suspended || PodIsHeld(*pod) || pod->terminated();
    if (pod->meta.Label(kQueueLabel) == nullptr ||
        *pod->meta.Label(kQueueLabel) != unit.queue_name) {
      trouble = "pods in group '" + group + "' have different queue names";
    }
    if (PositiveNumber(pod->meta.Annotation(kPodGroupTotal)) != total) {
      trouble = "pods in group '" + group + "' have different values of annotation " +
                std::string(kPodGroupTotal);
    }
    if (!PodRunnableOrSucceeded(*pod)) {
      continue;
    }
    ++runnable;
    Role& role = roles[RoleHash(*pod)];
    if (!role.first) {
      role.first = pod;
    }
    ++role.count;
    role.succeeded += pod->phase == "Succeeded" ? 1 : 0;
  }
  if (total <= 0) {
    trouble = "pods in group '" + group + "' lack a positive number in annotation " +
              std::string(kPodGroupTotal);
  }
  if (!trouble.empty()) {
    unit.not_ready = trouble;
    unit.not_ready_is_error = true;
  } else if (roles.empty()) {
    unit.not_ready = "'" + group + "' group has no runnable pods";
  } else if (fast) {
    const auto& [hash, role] = *roles.begin();
    UnitPodSet set;
    set.name = hash;
    set.count = total;
    set.pod_template = TemplateOfPod(*role.first);
    set.topology = TopologyRequestOf(role.first->meta.annotations, kPodIndexLabel);
    unit.pod_sets.push_back(std::move(set));
  } else {
    if (runnable < total) {
      unit.not_ready = "'" + group + "' group has fewer runnable pods than expected";
      unit.not_ready_is_error = true;
    }
    // Surplus pods are taken off from the role with the most, so that the group never asks for more
    // than its total.
    std::int32_t surplus = std::max(0, runnable - total);
    while (surplus > 0) {
      auto most =
          std::ranges::max_element(roles, {}, [](const auto& entry) { return entry.second.count; });
      --most->second.count;
      --surplus;
    }
    if (roles.size() > 18) {
      unit.not_ready = "'" + group + "' group has " + std::to_string(roles.size()) +
                       " shapes of pods, at most 18 are possible";
      unit.not_ready_is_error = true;
    }
    for (const auto& [hash, role] : roles) {
      if (role.count == 0) {
        continue;
      }
      UnitPodSet set;
      set.name = hash;
      set.count = role.count;
      set.pod_template = TemplateOfPod(*role.first);
      set.topology = TopologyRequestOf(role.first->meta.annotations, kPodIndexLabel);
      unit.pod_sets.push_back(std::move(set));
    }
  }
  unit.deleting = all_deleting;
  if (!serving) {
    for (const auto& [hash, role] : roles) {
      if (role.succeeded > 0) {
        unit.reclaimable[hash] = role.succeeded;
      }
    }
    if ((total > 0 && succeeded >= total) || (unretriable && !any_active)) {
      unit.finished = Finished{.succeeded = true,
                               .message = "Pods succeeded: " + std::to_string(succeeded) + "/" +
                                          std::to_string(total) + "."};
    }
  }
  unit.pods_ready = total > 0 && ready >= total;
  return unit;
}

std::string PodSetOfMember(const api::Pod& pod, const api::Workload& workload) {
  if (const std::string* label = pod.meta.Label(kPodSetLabel); label != nullptr) {
    for (const api::PodSet& set : workload.pod_sets) {
      if (set.name == *label) {
        return set.name;
      }
    }
  }
  const std::string hash = RoleHash(pod);
  for (const api::PodSet& set : workload.pod_sets) {
    if (set.name == hash) {
      return set.name;
    }
  }
  if (workload.pod_sets.size() == 1 && IsTrue(pod.meta.Annotation(kFastAdmission))) {
    return workload.pod_sets.front().name;
  }
  return {};
}

GroupCleanup CheckPodGroup(const std::vector<Ptr<api::Pod>>& pods, const api::Workload& workload) {
  GroupCleanup out;
  struct Role {
    std::vector<Ptr<api::Pod>> active;
    std::vector<Ptr<api::Pod>> inactive;
  };
  std::map<std::string, Role> roles;
  for (const Ptr<api::Pod>& pod : pods) {
    const std::string name = PodSetOfMember(*pod, workload);
    if (name.empty()) {
      if (PodRunnableOrSucceeded(*pod)) {
        out.equivalent = false;
      }
      continue;
    }
    Role& role = roles[name];
    (PodRunnableOrSucceeded(*pod) ? role.active : role.inactive).push_back(pod);
  }
  if (pods.empty()) {
    out.equivalent = false;
  }
  for (const api::PodSet& set : workload.pod_sets) {
    Role& role = roles[set.name];
    const auto count = static_cast<std::size_t>(std::max(0, set.count));
    if (role.active.size() > count) {
      // Kept first: with finalizer, not gated, older.
      std::ranges::sort(role.active, [](const Ptr<api::Pod>& a, const Ptr<api::Pod>& b) {
        const auto key = [](const api::Pod& pod) {
          return std::tuple(!pod.meta.HasFinalizer(kManagedFinalizer),
                            PodIsHeld(pod),
                            pod.meta.creation_timestamp,
                            pod.meta.name);
        };
        return key(*a) < key(*b);
      });
      out.excess.insert(out.excess.end(),
                        role.active.begin() + static_cast<std::ptrdiff_t>(count),
                        role.active.end());
      role.active.resize(count);
    }
    const std::size_t absent = count - role.active.size();
    // The newest inactive pods stand in for the members that are missing; the others have been
    // replaced.
    std::ranges::sort(role.inactive, [](const Ptr<api::Pod>& a, const Ptr<api::Pod>& b) {
      const auto key = [](const api::Pod& pod) {
        return std::tuple(!pod.meta.HasFinalizer(kManagedFinalizer),
                          -pod.meta.creation_timestamp.time_since_epoch().count(),
                          pod.meta.name);
      };
      return key(*a) < key(*b);
    });
    for (std::size_t i = absent; i < role.inactive.size(); ++i) {
      out.replaced.push_back(role.inactive[i]);
    }
    out.absent += static_cast<std::int32_t>(std::min<std::size_t>(absent, 1'000'000));
  }
  return out;
}

std::string NativePodSetName(const std::string& group,
                             const std::string& role,
                             bool several_roles) {
  std::string name = group;
  std::ranges::replace(name, '.', '-');
  const std::size_t limit = several_roles ? 54 : 63;
  if (name.size() > limit) {
    name = name.substr(0, limit - 6) + "-" + Sha1Hex(group).substr(0, 5);
  }
  return several_roles ? name + "-" + role : name;
}

Unit ReadNativeGang(const std::string& ns,
                    const std::string& root_kind,
                    const std::string& root_name,
                    const std::vector<NativeGroup>& groups) {
  Unit unit;
  unit.framework = "pod";
  unit.ns = ns;
  unit.workload_name = WorkloadName(root_kind, "scheduling.k8s.io", root_name, ns);
  unit.controller_owner = false;
  bool first = true;
  bool all_deleting = true;
  std::int32_t expected = 0;
  std::int32_t ready = 0;
  std::int32_t succeeded = 0;
  std::int32_t total = 0;
  bool any_live = false;
  bool any_failed = false;
  for (const NativeGroup& group : groups) {
    std::map<std::string, std::vector<Ptr<api::Pod>>> roles;
    std::int32_t known = 0;
    for (const Ptr<api::Pod>& pod : group.pods) {
      if (first) {
        ReadCommonOfPod(*pod, unit);
        first = false;
      }
      if (unit.queue_name.empty() && pod->meta.Label(kQueueLabel) != nullptr) {
        unit.queue_name = *pod->meta.Label(kQueueLabel);
      }
      unit.owners.push_back(
          {.api_version = "v1", .kind = "Pod", .name = pod->meta.name, .uid = pod->meta.uid});
      all_deleting = all_deleting && pod->meta.deleting();
      unit.active = unit.active || PodOccupiesNode(*pod);
      unit.suspended = unit.suspended || PodIsHeld(*pod);
      any_live = any_live || !pod->terminated();
      any_failed = any_failed || pod->phase == "Failed";
      succeeded += pod->phase == "Succeeded" ? 1 : 0;
      ready += PodReady(*pod) ? 1 : 0;
      ++total;
      if (!PodRunnableOrSucceeded(*pod)) {
        continue;
      }
      ++known;
      roles[RoleHash(*pod)].push_back(pod);
    }
    expected += known;
    const std::int32_t needed =
        group.object && group.object->gang ? std::max(1, group.object->min_count) : 1;
    if (!group.object) {
      unit.not_ready = "PodGroup \"" + group.name + "\" does not exist yet";
    } else if (known < needed && unit.not_ready.empty()) {
      unit.not_ready = "PodGroup \"" + group.name + "\" has " + std::to_string(known) +
                       " of at least " + std::to_string(needed) + " pods";
    }
    if (group.object && unit.queue_name.empty()) {
      if (const std::string* queue = group.object->meta.Label(kQueueLabel)) {
        unit.queue_name = *queue;
      }
    }
    for (const auto& [hash, pods] : roles) {
      UnitPodSet set;
      set.name = NativePodSetName(group.name, hash, roles.size() > 1);
      set.count = static_cast<std::int32_t>(std::min<std::size_t>(pods.size(), 1'000'000));
      set.pod_template = TemplateOfPod(*pods.front());
      set.topology = TopologyRequestOf(pods.front()->meta.annotations, kPodIndexLabel);
      if (set.topology.is_null() && group.object && !group.object->topology_key.empty()) {
        set.topology = {{"required", group.object->topology_key}};
      }
      const auto done = std::ranges::count_if(
          pods, [](const Ptr<api::Pod>& pod) { return pod->phase == "Succeeded"; });
      if (done > 0) {
        unit.reclaimable[set.name] = static_cast<std::int32_t>(done);
      }
      unit.pod_sets.push_back(std::move(set));
    }
  }
  if (total == 0) {
    unit.deleting = true;
    return unit;
  }
  unit.deleting = all_deleting;
  if (unit.pod_sets.size() > 18) {
    unit.not_ready = "the gang has " + std::to_string(unit.pod_sets.size()) +
                     " shapes of pods, at most 18 are possible";
    unit.not_ready_is_error = true;
  }
  if (!any_live) {
    unit.finished = Finished{.succeeded = !any_failed,
                             .message = "Pods succeeded: " + std::to_string(succeeded) + "/" +
                                        std::to_string(total) + "."};
  }
  unit.pods_ready = expected > 0 && ready >= expected;
  return unit;
}

Result<api::Json> PodReleasePatch(const api::Pod& pod,
                                  const PodSetInfo& info,
                                  const std::string& node) {
  if (!pod.raw) {
    return std::unexpected(
        Error::Invalid("Pod \"" + pod.meta.key().ToString() + "\": its text was not kept"));
  }
  MUSTER_ASSIGN_OR_RETURN(Json merged, MergeTemplate(*pod.raw, info));
  Json& spec = merged["spec"];
  if (spec.contains("schedulingGates") && spec["schedulingGates"].is_array()) {
    Json kept = Json::array();
    for (const Json& gate : spec["schedulingGates"]) {
      const Json& name = Member(gate, "name");
      if (name != kAdmissionGate && name != kTopologyGate && name != kPlacementGate) {
        kept.push_back(gate);
      }
    }
    spec["schedulingGates"] = std::move(kept);
  }
  if (!node.empty()) {
    const Json pin = {
        {"key", "metadata.name"}, {"operator", "In"}, {"values", Json::array({node})}};
    Json& affinity = spec["affinity"];
    if (!affinity.is_object()) {
      affinity = Json::object();
    }
    Json& node_affinity = affinity["nodeAffinity"];
    if (!node_affinity.is_object()) {
      node_affinity = Json::object();
    }
    Json& required = node_affinity["requiredDuringSchedulingIgnoredDuringExecution"];
    if (!required.is_object()) {
      required = Json::object();
    }
    Json& terms = required["nodeSelectorTerms"];
    if (!terms.is_array() || terms.empty()) {
      terms = Json::array({Json{{"matchFields", Json::array({pin})}}});
    } else {
      for (Json& term : terms) {
        if (!term.is_object() || term.empty()) {
          continue;  // matches nothing, and the API server wants it to stay so
        }
        Json& fields = term["matchFields"];
        if (!fields.is_array()) {
          fields = Json::array();
        }
        fields.push_back(pin);
      }
    }
  }
  Json patch = MergeDiff(*pod.raw, merged);
  patch["metadata"]["resourceVersion"] = pod.meta.resource_version;
  return patch;
}

std::string NodeOfPod(const api::Pod& pod) {
  if (!pod.spec.node_name.empty()) {
    return pod.spec.node_name;
  }
  if (!pod.spec.required_affinity.present || pod.spec.required_affinity.terms.empty()) {
    return {};
  }
  for (const api::NodeSelectorRequirement& field :
       pod.spec.required_affinity.terms.front().match_fields) {
    if (field.key == "metadata.name" && field.op == "In" && field.values.size() == 1) {
      return field.values.front();
    }
  }
  return {};
}

api::Json PodFinalizePatch(const api::Pod& pod) {
  Json kept = Json::array();
  for (const std::string& finalizer : pod.meta.finalizers) {
    if (finalizer != kManagedFinalizer) {
      kept.push_back(finalizer);
    }
  }
  return {{"metadata",
           {{"resourceVersion", pod.meta.resource_version}, {"finalizers", std::move(kept)}}}};
}

api::Json PodTerminationPatch(const api::Pod& pod,
                              std::string_view reason,
                              std::string_view message,
                              TimePoint now) {
  // A strategic merge patch: conditions merge by type, so the other writers' conditions stay.
  const Json condition = {{"type", "TerminationTarget"},
                          {"status", "True"},
                          {"reason", std::string(reason)},
                          {"message", std::string(message)},
                          {"lastTransitionTime", FormatTime(now)}};
  return {{"metadata", {{"uid", pod.meta.uid}}},
          {"status", {{"conditions", Json::array({condition})}}}};
}

}  // namespace muster::jobs
