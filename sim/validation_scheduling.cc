#include <algorithm>
#include <set>
#include <string>

#include "sim/access.h"
#include "sim/schema.h"
#include "sim/validation.h"

namespace muster::sim {
namespace {

constexpr std::int64_t kHighestUserPriority = 1'000'000'000;
constexpr int kMaxTemplateDepth = 4;

// schedulingPolicy: exactly one of basic and gang. `count` is the gang's field: minCount or
// minGroupCount.
void CheckPolicy(FieldErrors& errors,
                 const Json& holder,
                 const std::string& path,
                 const char* count,
                 const Json* old) {
  const Json* policy = Member(holder, "schedulingPolicy");
  const std::string at = path + ".schedulingPolicy";
  const Json& chosen = policy == nullptr ? ObjectAt(holder, "schedulingPolicy") : *policy;
  const bool basic = chosen.contains("basic");
  const bool gang = chosen.contains("gang");
  if (basic == gang) {
    errors.push_back(Invalid(at,
                             basic ? "{basic, gang}" : "",
                             basic ? "must specify exactly one of: `basic`, `gang`"
                                   : "must specify one of: `basic`, `gang`"));
  }
  if (gang) {
    const auto least = IntAt(chosen["gang"], count);
    if (!least || *least == 0) {
      errors.push_back(Required(at + ".gang." + count, ""));
    } else if (*least < 1) {
      errors.push_back(
          Invalid(at + ".gang." + count, *least, "must be greater than or equal to 1"));
    }
  }
  if (old != nullptr) {
    const Json& before = ObjectAt(*old, "schedulingPolicy");
    if (std::string_view(count) == "minGroupCount") {
      RequireSame(errors, at, holder, *old, "schedulingPolicy");
    } else if (before.contains("gang") != gang || before.contains("basic") != basic) {
      errors.push_back(Invalid(at, chosen, "field is immutable"));
    }
  }
}

void CheckCommon(FieldErrors& errors, const Json& group, const std::string& path) {
  const Json& topology = ListAt(ObjectAt(group, "schedulingConstraints"), "topology");
  if (topology.size() > 1) {
    errors.push_back(TooMany(path + ".schedulingConstraints.topology", topology.size(), 1));
  }
  for (std::size_t i = 0; i < topology.size(); ++i) {
    const std::string at = AtIndex(path + ".schedulingConstraints.topology", i) + ".key";
    const std::string key = TextAt(topology[i], "key");
    if (key.empty()) {
      errors.push_back(Required(at, ""));
    } else {
      RequireEach(errors, at, key, CheckQualifiedName(key));
    }
  }
  const Json& claims = ListAt(group, "resourceClaims");
  if (claims.size() > 4) {
    errors.push_back(TooMany(path + ".resourceClaims", claims.size(), 4));
  }
  std::set<std::string> names;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const std::string at = AtIndex(path + ".resourceClaims", i);
    const std::string name = TextAt(claims[i], "name");
    RequireEach(errors, at + ".name", name, CheckDnsLabel(name));
    if (!names.insert(name).second) {
      errors.push_back(Duplicate(at, Json{{"name", name}}));
    }
    if (HasText(claims[i], "resourceClaimName") ==
        HasText(claims[i], "resourceClaimTemplateName")) {
      errors.push_back(Invalid(
          at, "", "must specify exactly one of: `resourceClaimName`, `resourceClaimTemplateName`"));
    }
  }
  if (const Json* mode = Member(group, "disruptionMode");
      mode != nullptr && mode->contains("single") == mode->contains("all")) {
    errors.push_back(
        Invalid(path + ".disruptionMode", "", "must specify exactly one of: `single`, `all`"));
  }
  if (const std::string name = TextAt(group, "priorityClassName"); !name.empty()) {
    RequireEach(errors, path + ".priorityClassName", name, CheckDnsSubdomain(name));
  }
  if (const std::string policy = TextAt(group, "preemptionPolicy");
      !policy.empty() && policy != "Never" && policy != "PreemptLowerPriority") {
    errors.push_back(
        NotSupported(path + ".preemptionPolicy", policy, {"Never", "PreemptLowerPriority"}));
  }
}

void RequireSameFields(FieldErrors& errors,
                       const Json& now,
                       const Json& old,
                       const std::string& path,
                       std::initializer_list<const char*> fields) {
  for (const char* field : fields) {
    RequireSame(errors, path + "." + field, now, old, field);
  }
}

const Json* ByName(const Json& list, const std::string& name) {
  for (const Json& item : list) {
    if (TextAt(item, "name") == name) {
      return &item;
    }
  }
  return nullptr;
}

struct Tree {
  std::set<std::string> names;
  std::set<std::string> priorities;
};

void CheckTemplates(FieldErrors& errors,
                    const Json& holder,
                    const Json* old,
                    const std::string& path,
                    int depth,
                    Tree& tree) {
  const auto note = [&](const Json& item, const std::string& at) {
    const std::string name = TextAt(item, "name");
    if (name.empty()) {
      errors.push_back(Required(at + ".name", ""));
    } else {
      RequireEach(errors, at + ".name", name, CheckDnsLabel(name));
      if (!tree.names.insert(name).second) {
        errors.push_back(Duplicate(at + ".name", name));
      }
    }
    if (const auto priority = IntAt(item, "priority");
        priority && *priority > kHighestUserPriority) {
      errors.push_back(
          Invalid(at + ".priority", *priority, "must be less than or equal to 1000000000"));
    }
    tree.priorities.insert(
        TextAt(item, "priorityClassName") + "/" +
        (IntAt(item, "priority") ? std::to_string(*IntAt(item, "priority")) : ""));
  };
  const auto compare_lists = [&](const char* key) {
    const Json& now = ListAt(holder, key);
    if (now.size() > 8) {
      errors.push_back(TooMany(path + "." + key, now.size(), 8));
    }
    if (old == nullptr) {
      return;
    }
    const Json& before = ListAt(*old, key);
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (ByName(before, TextAt(now[i], "name")) == nullptr) {
        errors.push_back(Forbidden(AtIndex(path + "." + key, i), "item may not be added"));
      }
    }
    for (const Json& item : before) {
      if (ByName(now, TextAt(item, "name")) == nullptr) {
        errors.push_back(Forbidden(path + "." + key, "item may not be removed"));
      }
    }
  };
  compare_lists("podGroupTemplates");
  compare_lists("compositePodGroupTemplates");
  const Json& groups = ListAt(holder, "podGroupTemplates");
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::string at = AtIndex(path + ".podGroupTemplates", i);
    const Json* before = old == nullptr
                             ? nullptr
                             : ByName(ListAt(*old, "podGroupTemplates"), TextAt(groups[i], "name"));
    note(groups[i], at);
    CheckPolicy(errors, groups[i], at, "minCount", before);
    CheckCommon(errors, groups[i], at);
    if (before != nullptr) {
      RequireSameFields(errors,
                        groups[i],
                        *before,
                        at,
                        {"schedulingConstraints",
                         "resourceClaims",
                         "disruptionMode",
                         "priorityClassName",
                         "priority",
                         "preemptionPolicy"});
    }
  }
  const Json& composites = ListAt(holder, "compositePodGroupTemplates");
  for (std::size_t i = 0; i < composites.size(); ++i) {
    const std::string at = AtIndex(path + ".compositePodGroupTemplates", i);
    if (depth >= kMaxTemplateDepth) {
      errors.push_back(Invalid(at, composites[i], "maximum template hierarchy depth is 4"));
      continue;
    }
    const Json* before = old == nullptr ? nullptr
                                        : ByName(ListAt(*old, "compositePodGroupTemplates"),
                                                 TextAt(composites[i], "name"));
    note(composites[i], at);
    CheckPolicy(errors, composites[i], at, "minGroupCount", before);
    CheckCommon(errors, composites[i], at);
    if (ListAt(composites[i], "podGroupTemplates").empty() &&
        ListAt(composites[i], "compositePodGroupTemplates").empty()) {
      errors.push_back(
          Invalid(at,
                  TextAt(composites[i], "name"),
                  "must have at least one child PodGroupTemplate or CompositePodGroupTemplate"));
    }
    if (before != nullptr) {
      RequireSameFields(errors,
                        composites[i],
                        *before,
                        at,
                        {"schedulingConstraints",
                         "disruptionMode",
                         "priorityClassName",
                         "priority",
                         "preemptionPolicy"});
    }
    CheckTemplates(errors, composites[i], before, at, depth + 1, tree);
  }
}

void CheckReference(FieldErrors& errors, const Json& reference, const std::string& path) {
  for (const char* field : {"workloadName", "templateName"}) {
    if (!HasText(reference, field)) {
      errors.push_back(Required(path + "." + field, ""));
    }
  }
}

}  // namespace

void CheckSchedulingKind(FieldErrors& errors,
                         const ResourceInfo& resource,
                         const Json& object,
                         const Json* old) {
  const Json& spec = ObjectAt(object, "spec");
  const Json* before = old == nullptr ? nullptr : &ObjectAt(*old, "spec");
  if (resource.kind == "PriorityClass") {
    const std::string name = TextAt(ObjectAt(object, "metadata"), "name");
    const auto value = IntAt(object, "value").value_or(0);
    const bool known_system = name == "system-cluster-critical" || name == "system-node-critical";
    if (name.starts_with("system-") && !known_system) {
      errors.push_back(Forbidden(
          "metadata.name",
          "priority class names with 'system-' prefix are reserved for system use only. error: " +
              name + " is not a known system priority class"));
    } else if (!known_system && value > kHighestUserPriority) {
      errors.push_back(
          Forbidden("value", "maximum allowed value of a user defined priority is 1000000000"));
    }
    if (old != nullptr && !SameMember(object, *old, "value")) {
      errors.push_back(Forbidden("value", "may not be changed in an update."));
    }
    if (old != nullptr) {
      RequireSame(errors, "preemptionPolicy", object, *old, "preemptionPolicy");
    }
    if (const std::string policy = TextAt(object, "preemptionPolicy");
        !policy.empty() && policy != "Never" && policy != "PreemptLowerPriority") {
      errors.push_back(NotSupported("preemptionPolicy", policy, {"PreemptLowerPriority", "Never"}));
    }
  } else if (resource.kind == "Workload") {
    const bool plain = !ListAt(spec, "podGroupTemplates").empty();
    const bool composite = !ListAt(spec, "compositePodGroupTemplates").empty();
    if (plain == composite) {
      errors.push_back(Invalid(
          "spec",
          "",
          plain ? "must specify exactly one of: `podGroupTemplates`, `compositePodGroupTemplates`"
                : "must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`"));
    }
    if (const Json* reference = Member(spec, "controllerRef")) {
      for (const char* field : {"kind", "name"}) {
        if (!HasText(*reference, field)) {
          errors.push_back(Required(std::string("spec.controllerRef.") + field, ""));
        }
      }
    }
    if (before != nullptr) {
      RequireSame(errors, "spec.controllerRef", spec, *before, "controllerRef");
    }
    Tree tree;
    CheckTemplates(errors, spec, before, "spec", 1, tree);
    if (tree.priorities.size() > 1) {
      errors.push_back(Invalid(
          "spec",
          nullptr,
          "all priority and priorityClassName values must be identical, detected multiple values"));
    }
  } else if (resource.kind == "PodGroup" || resource.kind == "CompositePodGroup") {
    const bool composite = resource.kind == "CompositePodGroup";
    CheckPolicy(errors, spec, "spec", composite ? "minGroupCount" : "minCount", before);
    CheckCommon(errors, spec, "spec");
    const Json* reference = Member(spec, "workloadRef");
    if (reference != nullptr) {
      CheckReference(errors, *reference, "spec.workloadRef");
    } else if (composite) {
      errors.push_back(Required("spec.workloadRef", ""));
    } else if (HasText(spec, "parentCompositePodGroupName")) {
      errors.push_back(
          Required("spec.workloadRef", "must be set when parentCompositePodGroupName is set"));
    }
    if (before != nullptr) {
      RequireSameFields(errors,
                        spec,
                        *before,
                        "spec",
                        {"parentCompositePodGroupName",
                         "workloadRef",
                         "schedulingConstraints",
                         "resourceClaims",
                         "disruptionMode",
                         "priorityClassName",
                         "priority",
                         "preemptionPolicy"});
    }
  }
}

}  // namespace muster::sim
