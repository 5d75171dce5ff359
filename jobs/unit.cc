#include "jobs/unit.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "api/quantity.h"
#include "base/digest.h"
#include "base/strings.h"
#include "jobs/names.h"

namespace muster::jobs {
namespace {

using api::Json;

Status MergeMap(api::StringMap& a, const api::StringMap& b, std::string_view field) {
  for (const auto& [key, value] : b) {
    const auto [it, inserted] = a.try_emplace(key, value);
    if (!inserted && it->second != value) {
      return std::unexpected(Error::Invalid("conflict for " + std::string(field) + ": key=" + key +
                                            ", value1=" + it->second + ", value2=" + value));
    }
  }
  return {};
}

Status MergeJsonMap(Json& object,
                    const char* member,
                    const api::StringMap& add,
                    std::string_view field) {
  if (add.empty()) {
    return {};
  }
  Json& target = object[member];
  if (!target.is_object()) {
    target = Json::object();
  }
  for (const auto& [key, value] : add) {
    const auto it = target.find(key);
    if (it == target.end()) {
      target[key] = value;
    } else if (!it->is_string() || it->get_ref<const std::string&>() != value) {
      const std::string old = it->is_string() ? it->get<std::string>() : it->dump();
      return std::unexpected(Error::Invalid("conflict for " + std::string(field) + ": key=" + key +
                                            ", value1=" + old + ", value2=" + value));
    }
  }
  return {};
}

// null, {} and [] mean the same as absence to the API.
bool Empty(const Json& value) {
  return value.is_null() || ((value.is_object() || value.is_array()) && value.empty());
}

bool SameQuantity(const Json& a, const Json& b) {
  if (a == b) {
    return true;
  }
  const auto text = [](const Json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  const auto qa = api::Quantity::Parse(text(a));
  const auto qb = api::Quantity::Parse(text(b));
  return qa && qb && *qa == *qb;
}

// Equal up to absence spelled differently and, below requests and limits, quantities spelled
// differently.
bool SemanticallyEqual(const Json& a, const Json& b, bool quantities, int depth) {
  if (depth > 64) {
    return a == b;
  }
  if (Empty(a) && Empty(b)) {
    return true;
  }
  if (a.is_object() && b.is_object()) {
    for (const auto& [key, value] : a.items()) {
      const auto it = b.find(key);
      if (it == b.end()) {
        if (!Empty(value)) {
          return false;
        }
        continue;
      }
      const bool inner = quantities || key == "requests" || key == "limits";
      if (!SemanticallyEqual(value, *it, inner, depth + 1)) {
        return false;
      }
    }
    for (const auto& [key, value] : b.items()) {
      if (!a.contains(key) && !Empty(value)) {
        return false;
      }
    }
    return true;
  }
  if (a.is_array() && b.is_array()) {
    if (a.size() != b.size()) {
      return false;
    }
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!SemanticallyEqual(a[i], b[i], false, depth + 1)) {
        return false;
      }
    }
    return true;
  }
  return quantities ? SameQuantity(a, b) : a == b;
}

const Json& Member(const Json& object, const char* name) {
  static const Json kNull;
  if (!object.is_object()) {
    return kNull;
  }
  const auto it = object.find(name);
  return it == object.end() ? kNull : *it;
}

bool SameMember(const Json& a, const Json& b, const char* name) {
  return SemanticallyEqual(Member(a, name), Member(b, name), false, 0);
}

}  // namespace

Status MergeInfo(PodSetInfo& a, const PodSetInfo& b) {
  MUSTER_RETURN_IF_ERROR(MergeMap(a.annotations, b.annotations, "annotations"));
  MUSTER_RETURN_IF_ERROR(MergeMap(a.labels, b.labels, "labels"));
  MUSTER_RETURN_IF_ERROR(MergeMap(a.node_selector, b.node_selector, "nodeSelector"));
  for (const Json& toleration : b.tolerations) {
    if (std::ranges::find(a.tolerations, toleration) == a.tolerations.end()) {
      a.tolerations.push_back(toleration);
    }
  }
  for (const std::string& gate : b.gates) {
    if (std::ranges::find(a.gates, gate) == a.gates.end()) {
      a.gates.push_back(gate);
    }
  }
  return {};
}

api::Json MergeDiff(const api::Json& from, const api::Json& to) {
  if (!to.is_object()) {
    return to;
  }
  Json out = Json::object();
  static const Json kNone = Json::object();
  const Json& base = from.is_object() ? from : kNone;
  for (const auto& [key, value] : to.items()) {
    const auto it = base.find(key);
    if (it == base.end()) {
      if (!value.is_null()) {
        out[key] = value;
      }
    } else if (*it != value) {
      if (value.is_object() && it->is_object()) {
        Json inner = MergeDiff(*it, value);
        if (!inner.empty()) {
          out[key] = std::move(inner);
        }
      } else {
        out[key] = value;
      }
    }
  }
  for (const auto& [key, value] : base.items()) {
    if (!to.contains(key) && !value.is_null()) {
      out[key] = nullptr;
    }
  }
  return out;
}

Result<api::Json> MergeTemplate(const api::Json& pod_template, const PodSetInfo& info) {
  Json out = pod_template.is_object() ? pod_template : Json::object();
  for (const char* part : {"metadata", "spec"}) {
    if (!out.contains(part) || !out[part].is_object()) {
      out[part] = Json::object();
    }
  }
  Json& metadata = out["metadata"];
  Json& spec = out["spec"];
  MUSTER_RETURN_IF_ERROR(MergeJsonMap(metadata, "labels", info.labels, "labels"));
  MUSTER_RETURN_IF_ERROR(MergeJsonMap(metadata, "annotations", info.annotations, "annotations"));
  MUSTER_RETURN_IF_ERROR(MergeJsonMap(spec, "nodeSelector", info.node_selector, "nodeSelector"));
  if (!info.tolerations.empty()) {
    Json& list = spec["tolerations"];
    if (!list.is_array()) {
      list = Json::array();
    }
    for (const Json& toleration : info.tolerations) {
      if (std::ranges::find(list, toleration) == list.end()) {
        list.push_back(toleration);
      }
    }
  }
  if (!info.gates.empty()) {
    Json& list = spec["schedulingGates"];
    if (!list.is_array()) {
      list = Json::array();
    }
    for (const std::string& gate : info.gates) {
      const Json entry = {{"name", gate}};
      if (std::ranges::find(list, entry) == list.end()) {
        list.push_back(entry);
      }
    }
  }
  return out;
}

api::Json ToJson(const api::Toleration& toleration) {
  Json out = Json::object();
  const auto put = [&out](const char* key, const std::string& value) {
    if (!value.empty()) {
      out[key] = value;
    }
  };
  put("key", toleration.key);
  put("operator", toleration.op);
  put("value", toleration.value);
  put("effect", toleration.effect);
  if (toleration.toleration_seconds) {
    out["tolerationSeconds"] = *toleration.toleration_seconds;
  }
  return out;
}

api::Json TopologyRequestOf(const api::StringMap& annotations, std::string_view index_label) {
  Json out = Json::object();
  const auto copy = [&](std::string_view annotation, const char* field) {
    if (const auto it = annotations.find(annotation); it != annotations.end()) {
      out[field] = it->second;
      return true;
    }
    return false;
  };
  const auto number = [](const std::string& text) -> std::optional<std::int32_t> {
    if (text.empty() || text.size() > 9 ||
        !std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; })) {
      return std::nullopt;
    }
    return static_cast<std::int32_t>(std::stol(text));
  };
  bool any = copy(kRequiredTopology, "required");
  any = copy(kPreferredTopology, "preferred") || any;
  if (const auto it = annotations.find(kUnconstrainedTopology);
      it != annotations.end() && it->second == "true") {
    out["unconstrained"] = true;
    any = true;
  }
  if (copy(kSliceRequiredTopology, "podSetSliceRequiredTopology")) {
    any = true;
    if (const auto it = annotations.find(kSliceSize); it != annotations.end()) {
      if (const auto size = number(it->second)) {
        out["podSetSliceSize"] = *size;
      }
    }
  }
  if (const auto it = annotations.find(kSliceConstraints);
      it != annotations.end() && it->second.size() <= 4096) {
    Json list = Json::parse(it->second, nullptr, false);
    if (list.is_array() && !list.empty()) {
      out["podsetSliceRequiredTopologyConstraints"] = std::move(list);
      any = true;
    }
  }
  if (!any) {
    return nullptr;
  }
  copy(kPodSetGroup, "podSetGroupName");
  if (!index_label.empty()) {
    out["podIndexLabel"] = std::string(index_label);
  }
  return out;
}

api::JsonPtr DropDuplicateEnv(const api::JsonPtr& pod_template) {
  if (!pod_template) {
    return std::make_shared<const Json>(Json::object());
  }
  const auto duplicates = [](const Json& container) {
    std::set<std::string_view> seen;
    for (const Json& env : Member(container, "env")) {
      const Json& name = Member(env, "name");
      if (name.is_string() && !seen.insert(name.get_ref<const std::string&>()).second) {
        return true;
      }
    }
    return false;
  };
  bool dirty = false;
  for (const char* list : {"containers", "initContainers"}) {
    for (const Json& container : Member(Member(*pod_template, "spec"), list)) {
      dirty = dirty || duplicates(container);
    }
  }
  if (!dirty) {
    return pod_template;
  }
  Json copy = *pod_template;
  for (const char* list : {"containers", "initContainers"}) {
    if (!copy["spec"].contains(list)) {
      continue;
    }
    for (Json& container : copy["spec"][list]) {
      if (!container.is_object() || !duplicates(container)) {
        continue;
      }
      Json& env = container["env"];
      std::set<std::string> seen;
      Json kept = Json::array();
      for (std::size_t i = env.size(); i > 0; --i) {
        Json& entry = env[i - 1];
        const Json& name = Member(entry, "name");
        if (!name.is_string() || seen.insert(name.get<std::string>()).second) {
          kept.push_back(std::move(entry));
        }
      }
      std::reverse(kept.begin(), kept.end());
      env = std::move(kept);
    }
  }
  return std::make_shared<const Json>(std::move(copy));
}

bool EquivalentPodSets(const std::vector<UnitPodSet>& job,
                       const std::vector<api::PodSet>& workload,
                       const std::optional<api::Admission>& admission,
                       bool admitted,
                       bool compare_placement) {
  if (job.size() != workload.size()) {
    return false;
  }
  for (std::size_t i = 0; i < job.size(); ++i) {
    const UnitPodSet& a = job[i];
    const api::PodSet& b = workload[i];
    std::int32_t count = b.count;
    if (admission && i < admission->pod_sets.size() && admission->pod_sets[i].count) {
      count = *admission->pod_sets[i].count;
    }
    // A held job asks for its full count; a started one, partially admitted, has the granted count.
    if (a.count != count && a.count != b.count) {
      return false;
    }
    if (a.min_count != b.min_count && a.count == b.count) {
      return false;
    }
    static const Json kNone = Json::object();
    const Json& left = Member(a.pod_template ? *a.pod_template : kNone, "spec");
    const Json& right = Member(b.pod_template.raw ? *b.pod_template.raw : kNone, "spec");
    if (!SameMember(left, right, "containers") || !SameMember(left, right, "initContainers")) {
      return false;
    }
    if (!admitted && !SameMember(left, right, "tolerations")) {
      return false;
    }
    if (compare_placement) {
      for (const char* field : {"nodeSelector",
                                "affinity",
                                "resourceClaims",
                                "runtimeClassName",
                                "priorityClassName",
                                "resources"}) {
        if (!SameMember(left, right, field)) {
          return false;
        }
      }
    }
  }
  return true;
}

std::string WorkloadName(std::string_view kind,
                         std::string_view group,
                         std::string_view name,
                         std::string_view uid) {
  std::string prefix = ToLower(kind) + "-" + std::string(name);
  if (prefix.size() > 247) {
    prefix.resize(247);
  }
  const std::string material = std::string(kind) + "\n" + std::string(group) + "\n" +
                               std::string(name) + "\n" + std::string(uid);
  return prefix + "-" + Sha1Hex(material).substr(0, 5);
}

api::Json PodSetsJson(const Unit& unit) {
  Json list = Json::array();
  for (const UnitPodSet& set : unit.pod_sets) {
    Json entry = {{"name", set.name}, {"count", set.count}};
    entry["template"] = set.pod_template ? *set.pod_template : Json::object();
    if (set.min_count) {
      entry["minCount"] = *set.min_count;
    }
    if (!set.topology.is_null()) {
      entry["topologyRequest"] = set.topology;
    }
    list.push_back(std::move(entry));
  }
  return list;
}

api::Json BuildWorkload(const Unit& unit, const ResolvedPriority& priority) {
  Json metadata = {{"name", unit.workload_name}, {"namespace", unit.ns}};
  metadata["finalizers"] = Json::array({std::string(kResourceInUse)});
  Json labels = Json::object();
  for (const auto& [key, value] : unit.workload_labels) {
    labels[key] = value;
  }
  if (!unit.job_uid.empty()) {
    labels[std::string(kJobUidLabel)] = unit.job_uid;
  }
  if (!labels.empty()) {
    metadata["labels"] = std::move(labels);
  }
  if (!unit.workload_annotations.empty()) {
    metadata["annotations"] = unit.workload_annotations;
  }
  Json owners = Json::array();
  for (const Owner& owner : unit.owners) {
    Json reference = {{"apiVersion", owner.api_version},
                      {"kind", owner.kind},
                      {"name", owner.name},
                      {"uid", owner.uid}};
    if (unit.controller_owner) {
      reference["controller"] = true;
      reference["blockOwnerDeletion"] = true;
    }
    owners.push_back(std::move(reference));
  }
  metadata["ownerReferences"] = std::move(owners);

  Json spec = {{"podSets", PodSetsJson(unit)}, {"active", true}};
  if (!unit.queue_name.empty()) {
    spec["queueName"] = unit.queue_name;
  }
  spec["priority"] = priority.value;
  if (!priority.name.empty()) {
    spec["priorityClassRef"] = {
        {"group", priority.group}, {"kind", priority.kind}, {"name", priority.name}};
  }
  if (unit.max_execution_seconds) {
    spec["maximumExecutionTimeSeconds"] = *unit.max_execution_seconds;
  }
  return {{"apiVersion", "kueue.x-k8s.io/v1beta2"},
          {"kind", "Workload"},
          {"metadata", metadata},
          {"spec", spec}};
}

}  // namespace muster::jobs
