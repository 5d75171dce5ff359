#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "api/quantity.h"
#include "sim/access.h"
#include "sim/schema.h"
#include "sim/validation.h"

namespace muster::sim {
namespace {

// Resources that the kubelet or a plugin hands out whole and that cannot be overcommitted.
bool Extended(const std::string& name) {
  return name.contains('/') && !name.starts_with("kubernetes.io/") &&
         !name.starts_with("requests.");
}

void CheckResources(FieldErrors& errors, const Json& resources, const std::string& path) {
  const Json& limits = ObjectAt(resources, "limits");
  const Json& requests = ObjectAt(resources, "requests");
  const auto each = [&](const Json& list, const std::string& at) {
    for (const auto& [name, value] : list.items()) {
      RequireEach(errors, at, name, CheckQualifiedName(name));
      const bool plain = !name.contains('/');
      if (plain && name != "cpu" && name != "memory" && name != "ephemeral-storage" &&
          name != "storage" && !name.starts_with("hugepages-")) {
        errors.push_back(Invalid(
            at + "[" + name + "]", name, "must be a standard resource type or fully qualified"));
        errors.push_back(
            Invalid(at + "[" + name + "]", name, "must be a standard resource for containers"));
      }
      const auto quantity = api::Quantity::Parse(value.is_string() ? value.get<std::string>() : "");
      if (!quantity) {
        continue;
      }
      if (quantity->negative()) {
        errors.push_back(
            Invalid(at + "[" + name + "]", value, "must be greater than or equal to 0"));
      }
      const std::int64_t milli = quantity->MilliValue();
      if (Extended(name) && !quantity->MilliValueOverflows() && milli % 1000 != 0) {
        errors.push_back(Invalid(at + "[" + name + "]", value, "must be an integer"));
      }
    }
  };
  each(limits, path + ".limits");
  each(requests, path + ".requests");
  for (const auto& [name, value] : requests.items()) {
    const Json* limit = Member(limits, name);
    const auto request = api::Quantity::Parse(value.is_string() ? value.get<std::string>() : "");
    if (limit == nullptr || !limit->is_string() || !request) {
      continue;
    }
    const auto most = api::Quantity::Parse(limit->get<std::string>());
    if (!most) {
      continue;
    }
    if (Extended(name) && request->Compare(*most) != 0) {
      errors.push_back(Invalid(
          path + ".requests", value, "must be equal to " + name + " limit of " + most->ToString()));
    } else if (request->Compare(*most) > 0) {
      errors.push_back(
          Invalid(path + ".requests",
                  value,
                  "must be less than or equal to " + name + " limit of " + most->ToString()));
    }
  }
  // An extended resource that is requested must be limited, to the same amount.
  for (const auto& [name, value] : requests.items()) {
    if (Extended(name) && Member(limits, name) == nullptr) {
      errors.push_back(
          Required(path + ".limits", "Limit must be set for non overcommitable resources"));
    }
  }
}

void CheckContainers(FieldErrors& errors,
                     const Json& list,
                     const std::string& path,
                     const Json& claims,
                     std::set<std::string>& names) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string at = AtIndex(path, i);
    const std::string name = TextAt(list[i], "name");
    if (name.empty()) {
      errors.push_back(Required(at + ".name", ""));
    } else {
      RequireEach(errors, at + ".name", name, CheckDnsLabel(name));
      if (!names.insert(name).second) {
        errors.push_back(Duplicate(at + ".name", name));
      }
    }
    const std::string image = TextAt(list[i], "image");
    if (image.empty()) {
      errors.push_back(Required(at + ".image", ""));
    } else if (image.front() == ' ' || image.back() == ' ') {
      errors.push_back(
          Invalid(at + ".image", image, "must not have leading or trailing whitespace"));
    }
    const Json& resources = ObjectAt(list[i], "resources");
    CheckResources(errors, resources, at + ".resources");
    const Json& used = ListAt(resources, "claims");
    for (std::size_t c = 0; c < used.size(); ++c) {
      const std::string claim = TextAt(used[c], "name");
      if (std::ranges::none_of(claims,
                               [&](const Json& known) { return TextAt(known, "name") == claim; })) {
        FieldError error = Invalid(AtIndex(at + ".resources.claims", c), claim, "");
        error.type = FieldError::Type::kNotFound;
        errors.push_back(std::move(error));
      }
    }
  }
}

void CheckTolerations(FieldErrors& errors, const Json& list, const std::string& path) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string at = AtIndex(path, i);
    const std::string key = TextAt(list[i], "key");
    const std::string op = TextAt(list[i], "operator");
    const std::string effect = TextAt(list[i], "effect");
    if (!key.empty()) {
      RequireEach(errors, at + ".key", key, CheckQualifiedName(key));
    }
    if (key.empty() && op != "Exists") {
      errors.push_back(Invalid(at + ".operator",
                               op,
                               "operator must be Exists when `key` is empty, which means \"match "
                               "all values and all keys\""));
    }
    if (list[i].contains("tolerationSeconds") && effect != "NoExecute") {
      errors.push_back(Invalid(
          at + ".effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"));
    }
    if (op == "Exists") {
      if (HasText(list[i], "value")) {
        errors.push_back(
            Invalid(at + ".operator", list[i], "value must be empty when `operator` is 'Exists'"));
      }
    } else if (!op.empty() && op != "Equal" && op != "Lt" && op != "Gt") {
      errors.push_back(NotSupported(at + ".operator", op, {"Equal", "Exists"}));
    } else {
      RequireEach(errors,
                  at + ".value",
                  TextAt(list[i], "value"),
                  CheckLabelValue(TextAt(list[i], "value")));
    }
    if (!effect.empty() && effect != "NoSchedule" && effect != "PreferNoSchedule" &&
        effect != "NoExecute") {
      errors.push_back(
          NotSupported(at + ".effect", effect, {"NoSchedule", "PreferNoSchedule", "NoExecute"}));
    }
  }
}

void CheckNodeTerm(FieldErrors& errors, const Json& term, const std::string& path) {
  const Json& expressions = ListAt(term, "matchExpressions");
  for (std::size_t i = 0; i < expressions.size(); ++i) {
    const std::string at = AtIndex(path + ".matchExpressions", i);
    const std::string op = TextAt(expressions[i], "operator");
    const std::size_t values = ListAt(expressions[i], "values").size();
    if (op == "In" || op == "NotIn") {
      if (values == 0) {
        errors.push_back(
            Required(at + ".values", "must be specified when `operator` is 'In' or 'NotIn'"));
      }
    } else if (op == "Exists" || op == "DoesNotExist") {
      if (values > 0) {
        errors.push_back(Forbidden(
            at + ".values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
      }
    } else if (op == "Gt" || op == "Lt") {
      if (values != 1) {
        errors.push_back(Required(
            at + ".values", "must be specified single value when `operator` is 'Lt' or 'Gt'"));
      }
    } else {
      errors.push_back(Invalid(at + ".operator", op, "not a valid selector operator"));
    }
    RequireEach(errors,
                at + ".key",
                TextAt(expressions[i], "key"),
                CheckQualifiedName(TextAt(expressions[i], "key")));
  }
  const Json& fields = ListAt(term, "matchFields");
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::string at = AtIndex(path + ".matchFields", i);
    const std::string op = TextAt(fields[i], "operator");
    if (op != "In" && op != "NotIn") {
      errors.push_back(Invalid(at + ".operator", op, "not a valid selector operator"));
    } else if (ListAt(fields[i], "values").size() != 1) {
      errors.push_back(Required(
          at + ".values",
          "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"));
    }
    if (TextAt(fields[i], "key") != "metadata.name") {
      errors.push_back(
          Invalid(at + ".key", TextAt(fields[i], "key"), "not a valid field selector key"));
    }
  }
}

void CheckAffinity(FieldErrors& errors, const Json& affinity, const std::string& path) {
  const Json& node = ObjectAt(affinity, "nodeAffinity");
  if (const Json* required = Member(node, "requiredDuringSchedulingIgnoredDuringExecution")) {
    const std::string at =
        path + ".nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    const Json& terms = ListAt(*required, "nodeSelectorTerms");
    if (terms.empty()) {
      errors.push_back(Required(at, "must have at least one node selector term"));
    }
    for (std::size_t i = 0; i < terms.size(); ++i) {
      CheckNodeTerm(errors, terms[i], AtIndex(at, i));
    }
  }
  const Json& preferred = ListAt(node, "preferredDuringSchedulingIgnoredDuringExecution");
  for (std::size_t i = 0; i < preferred.size(); ++i) {
    const std::string at =
        AtIndex(path + ".nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution", i);
    const auto weight = IntAt(preferred[i], "weight").value_or(0);
    if (weight < 1 || weight > 100) {
      errors.push_back(Invalid(at + ".weight", weight, "must be in the range 1-100"));
    }
    CheckNodeTerm(errors, ObjectAt(preferred[i], "preference"), at + ".preference");
  }
}

void OnlyAddedTolerations(FieldErrors& errors,
                          const Json& now,
                          const Json& old,
                          const std::string& path) {
  const auto without_seconds = [](Json toleration) {
    toleration.erase("tolerationSeconds");
    return toleration;
  };
  for (const Json& before : old) {
    if (std::ranges::none_of(now, [&](const Json& after) {
          return without_seconds(after) == without_seconds(before);
        })) {
      errors.push_back(
          Forbidden(path, "existing toleration can not be modified except its tolerationSeconds"));
      return;
    }
  }
  CheckTolerations(errors, now, path);
}

void OnlyRemovedGates(FieldErrors& errors,
                      const Json& now,
                      const Json& old,
                      const std::string& path) {
  for (std::size_t i = 0; i < now.size(); ++i) {
    const std::string name = TextAt(now[i], "name");
    if (std::ranges::none_of(old, [&](const Json& gate) { return TextAt(gate, "name") == name; })) {
      errors.push_back(
          Forbidden(AtIndex(path, i),
                    "only deletion is allowed, but found new scheduling gate '" + name + "'"));
    }
  }
}

// Requirements may only be appended to a term.
bool Extends(const Json& now, const Json& old, std::string_view key) {
  const Json& a = ListAt(now, key);
  const Json& b = ListAt(old, key);
  return a.size() >= b.size() && std::equal(b.begin(), b.end(), a.begin());
}

void CheckNodeAffinityChange(FieldErrors& errors,
                             const Json& now,
                             const Json& old,
                             const std::string& path) {
  const std::string at = path + ".requiredDuringSchedulingIgnoredDuringExecution";
  const Json& before =
      ListAt(ObjectAt(old, "requiredDuringSchedulingIgnoredDuringExecution"), "nodeSelectorTerms");
  if (before.empty()) {
    return;
  }
  const Json& after =
      ListAt(ObjectAt(now, "requiredDuringSchedulingIgnoredDuringExecution"), "nodeSelectorTerms");
  if (after.size() != before.size()) {
    errors.push_back(
        Invalid(at + ".nodeSelectorTerms",
                after,
                "no additions/deletions to non-empty NodeSelectorTerms list are allowed"));
    return;
  }
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool was_empty =
        ListAt(before[i], "matchExpressions").empty() && ListAt(before[i], "matchFields").empty();
    const bool is_empty =
        ListAt(after[i], "matchExpressions").empty() && ListAt(after[i], "matchFields").empty();
    if (was_empty != is_empty || !Extends(after[i], before[i], "matchExpressions") ||
        !Extends(after[i], before[i], "matchFields")) {
      errors.push_back(Invalid(AtIndex(at + ".nodeSelectorTerms", i),
                               after[i],
                               was_empty != is_empty
                                   ? "field is immutable"
                                   : "only additions are allowed (no mutations or deletions)"));
    }
  }
}

// spec.affinity with another node affinity; an affinity that says nothing is none.
Json AffinityWith(const Json& spec, const Json* node_affinity) {
  Json affinity = ObjectAt(spec, "affinity");
  affinity.erase("nodeAffinity");
  if (node_affinity != nullptr) {
    affinity["nodeAffinity"] = *node_affinity;
  }
  return affinity;
}

}  // namespace

void CheckPodSpec(FieldErrors& errors,
                  const Json& spec,
                  const std::string& path,
                  bool is_template) {
  const Json& containers = ListAt(spec, "containers");
  const Json& claims = ListAt(spec, "resourceClaims");
  std::set<std::string> names;
  if (containers.empty()) {
    errors.push_back(Required(path + ".containers", ""));
  }
  CheckContainers(errors, containers, path + ".containers", claims, names);
  CheckContainers(errors, ListAt(spec, "initContainers"), path + ".initContainers", claims, names);
  CheckResources(errors, ObjectAt(spec, "resources"), path + ".resources");
  const std::string restart = TextAt(spec, "restartPolicy");
  if (restart != "Always" && restart != "OnFailure" && restart != "Never") {
    errors.push_back(
        NotSupported(path + ".restartPolicy", restart, {"Always", "OnFailure", "Never"}));
  }
  if (const auto seconds = IntAt(spec, "activeDeadlineSeconds");
      seconds && (*seconds < 1 || *seconds > INT32_MAX)) {
    errors.push_back(Invalid(
        path + ".activeDeadlineSeconds", *seconds, "must be between 1 and 2147483647, inclusive"));
  }
  CheckLabels(errors, ObjectAt(spec, "nodeSelector"), path + ".nodeSelector");
  CheckTolerations(errors, ListAt(spec, "tolerations"), path + ".tolerations");
  CheckAffinity(errors, ObjectAt(spec, "affinity"), path + ".affinity");
  std::set<std::string> claim_names;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const std::string at = AtIndex(path + ".resourceClaims", i);
    const std::string name = TextAt(claims[i], "name");
    RequireEach(errors, at + ".name", name, CheckDnsLabel(name));
    if (!claim_names.insert(name).second) {
      errors.push_back(Duplicate(at + ".name", name));
    }
    const bool named = HasText(claims[i], "resourceClaimName");
    const bool generated = HasText(claims[i], "resourceClaimTemplateName");
    if (named && generated) {
      errors.push_back(Invalid(
          at,
          claims[i],
          "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"));
    } else if (!named && !generated) {
      errors.push_back(Invalid(
          at, claims[i], "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"));
    }
  }
  const Json& gates = ListAt(spec, "schedulingGates");
  std::set<std::string> gate_names;
  for (std::size_t i = 0; i < gates.size(); ++i) {
    const std::string at = AtIndex(path + ".schedulingGates", i);
    const std::string name = TextAt(gates[i], "name");
    RequireEach(errors, at, name, CheckQualifiedName(name));
    if (!gate_names.insert(name).second) {
      errors.push_back(Duplicate(at, name));
    }
  }
  if (const std::string name = TextAt(spec, "nodeName"); !name.empty()) {
    RequireEach(errors, path + ".nodeName", name, CheckDnsSubdomain(name));
    if (!is_template && !gates.empty()) {
      errors.push_back(Forbidden(path + ".nodeName",
                                 "cannot be set until all schedulingGates have been cleared"));
    }
  }
  if (const std::string name = TextAt(spec, "priorityClassName"); !name.empty()) {
    RequireEach(errors, path + ".priorityClassName", name, CheckDnsSubdomain(name));
  }
  if (const std::string name = TextAt(spec, "runtimeClassName"); !name.empty()) {
    RequireEach(errors, path + ".runtimeClassName", name, CheckDnsSubdomain(name));
  }
  if (const Json* group = Member(spec, "schedulingGroup")) {
    const std::string name = TextAt(*group, "podGroupName");
    if (name.empty()) {
      errors.push_back(Required(path + ".schedulingGroup.podGroupName", ""));
    } else {
      RequireEach(errors, path + ".schedulingGroup.podGroupName", name, CheckDnsSubdomain(name));
    }
  }
}

void CheckPodTemplate(FieldErrors& errors, const Json& pod_template, const std::string& path) {
  const Json& meta = ObjectAt(pod_template, "metadata");
  CheckLabels(errors, ObjectAt(meta, "labels"), path + ".metadata.labels");
  CheckAnnotations(errors, ObjectAt(meta, "annotations"), path + ".metadata.annotations");
  CheckPodSpec(errors, ObjectAt(pod_template, "spec"), path + ".spec", true);
}

void CheckPodCreate(FieldErrors& errors, const Json& pod) {
  CheckPodSpec(errors, ObjectAt(pod, "spec"), "spec", false);
}

void CheckPodUpdate(FieldErrors& errors, const Json& pod, const Json& old) {
  const Json& before = ObjectAt(old, "spec");
  Json spec = ObjectAt(pod, "spec");
  for (const char* list : {"containers", "initContainers"}) {
    const Json& now = ListAt(spec, list);
    if (now.size() != ListAt(before, list).size()) {
      errors.push_back(
          Forbidden(std::string("spec.") + list, "pod updates may not add or remove containers"));
      return;
    }
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (!HasText(now[i], "image")) {
        errors.push_back(Required(AtIndex(std::string("spec.") + list, i) + ".image", ""));
      }
      if (const Json* image = Member(ListAt(before, list)[i], "image")) {
        spec[list][i]["image"] = *image;
      }
    }
  }
  const auto deadline = IntAt(spec, "activeDeadlineSeconds");
  const auto old_deadline = IntAt(before, "activeDeadlineSeconds");
  if (deadline && (*deadline < 0 || *deadline > INT32_MAX)) {
    errors.push_back(Invalid(
        "spec.activeDeadlineSeconds", *deadline, "must be between 0 and 2147483647, inclusive"));
    return;
  }
  if (deadline && old_deadline && *old_deadline < *deadline) {
    errors.push_back(Invalid(
        "spec.activeDeadlineSeconds", *deadline, "must be less than or equal to previous value"));
    return;
  }
  if (!deadline && old_deadline) {
    errors.push_back(Invalid("spec.activeDeadlineSeconds",
                             nullptr,
                             "must not update from a positive integer to nil value"));
  }
  OnlyAddedTolerations(
      errors, ListAt(spec, "tolerations"), ListAt(before, "tolerations"), "spec.tolerations");
  OnlyRemovedGates(errors,
                   ListAt(spec, "schedulingGates"),
                   ListAt(before, "schedulingGates"),
                   "spec.schedulingGates");
  const auto put_back = [&](const char* field) {
    if (const Json* value = Member(before, field)) {
      spec[field] = *value;
    } else {
      spec.erase(field);
    }
  };
  put_back("activeDeadlineSeconds");
  put_back("tolerations");
  if (!ListAt(spec, "schedulingGates").empty() || !ListAt(before, "schedulingGates").empty()) {
    put_back("schedulingGates");
  }
  if (IntAt(before, "terminationGracePeriodSeconds").value_or(0) < 0 &&
      IntAt(spec, "terminationGracePeriodSeconds") == 1) {
    put_back("terminationGracePeriodSeconds");
  }
  if (!ListAt(before, "schedulingGates").empty()) {
    const Json& selector = ObjectAt(spec, "nodeSelector");
    for (const auto& [key, value] : ObjectAt(before, "nodeSelector").items()) {
      const Json* now = Member(selector, key);
      if (now == nullptr || *now != value) {
        errors.push_back(
            Invalid("spec.nodeSelector",
                    selector,
                    "only additions to spec.nodeSelector are allowed (no mutations or deletions)"));
        break;
      }
    }
    CheckLabels(errors, selector, "spec.nodeSelector");
    put_back("nodeSelector");
    const Json& affinity = ObjectAt(ObjectAt(spec, "affinity"), "nodeAffinity");
    const Json& old_affinity = ObjectAt(ObjectAt(before, "affinity"), "nodeAffinity");
    if (affinity != old_affinity) {
      CheckNodeAffinityChange(errors, affinity, old_affinity, "spec.affinity.nodeAffinity");
      CheckAffinity(errors, ObjectAt(spec, "affinity"), "spec.affinity");
    }
    const Json restored = AffinityWith(spec, Member(ObjectAt(before, "affinity"), "nodeAffinity"));
    if (restored == ObjectAt(before, "affinity")) {
      put_back("affinity");
    }
  }
  if (spec != before) {
    std::string fields;
    for (const auto& [key, value] : spec.items()) {
      if (!SameMember(spec, before, key)) {
        fields += (fields.empty() ? "" : ", ") + key;
      }
    }
    for (const auto& [key, value] : before.items()) {
      if (!spec.contains(key)) {
        fields += (fields.empty() ? "" : ", ") + key;
      }
    }
    errors.push_back(
        Forbidden("spec",
                  "pod updates may not change fields other than "
                  "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec."
                  "activeDeadlineSeconds`,`spec.tolerations` (only "
                  "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow "
                  "it to be set to 1 if it was "
                  "previously negative)\nchanged: " +
                      fields));
  }
}

}  // namespace muster::sim
