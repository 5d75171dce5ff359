#include <algorithm>
#include <string>
#include <utility>

#include "base/strings.h"
#include "sim/access.h"
#include "sim/schema.h"
#include "sim/selectors.h"
#include "sim/validation.h"

namespace muster::sim {
namespace {

constexpr std::int64_t kMaxIndexedParallelism = 100'000;
constexpr std::size_t kMaxManagedBy = 63;

bool ConditionTrue(const Json& job, std::string_view type) {
  const Json& conditions = ListAt(ObjectAt(job, "status"), "conditions");
  return std::ranges::any_of(conditions, [&](const Json& c) {
    return TextAt(c, "type") == type && TextAt(c, "status") == "True";
  });
}

void CheckSelector(FieldErrors& errors, const Json& job) {
  const Json& spec = ObjectAt(job, "spec");
  const Json& labels = ObjectAt(ObjectAt(ObjectAt(spec, "template"), "metadata"), "labels");
  const Json& meta = ObjectAt(job, "metadata");
  if (TrueAt(spec, "manualSelector")) {
    return;
  }
  const Json* selector = Member(spec, "selector");
  if (selector == nullptr) {
    return;
  }
  const auto has = [&](const char* key, const std::string& wanted) {
    const Json* value = Member(labels, key);
    const std::string path = "spec.template.metadata.labels";
    if (value == nullptr) {
      errors.push_back(Required(path, std::string("must be '") + wanted + "'"));
    } else if (*value != wanted) {
      errors.push_back(Invalid(path, labels, "must be '" + wanted + "'"));
    }
  };
  has("controller-uid", TextAt(meta, "uid"));
  has("job-name", TextAt(meta, "name"));
  has("batch.kubernetes.io/controller-uid", TextAt(meta, "uid"));
  has("batch.kubernetes.io/job-name", TextAt(meta, "name"));
  const Json expected = {{"controller-uid", TextAt(meta, "uid")},
                         {"job-name", TextAt(meta, "name")},
                         {"batch.kubernetes.io/controller-uid", TextAt(meta, "uid")},
                         {"batch.kubernetes.io/job-name", TextAt(meta, "name")}};
  if (!LabelMatcher::FromObject(*selector).MatchesLabels(&expected)) {
    errors.push_back(Invalid("spec.selector", *selector, "`selector` not auto-generated"));
  }
}

void CheckSpec(FieldErrors& errors, const Json& spec) {
  for (const char* field : {"parallelism",
                            "completions",
                            "activeDeadlineSeconds",
                            "backoffLimit",
                            "ttlSecondsAfterFinished",
                            "backoffLimitPerIndex",
                            "maxFailedIndexes"}) {
    CheckNonNegative(errors, std::string("spec.") + field, Member(spec, field));
  }
  if (spec.contains("maxFailedIndexes") && !spec.contains("backoffLimitPerIndex")) {
    errors.push_back(Required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified"));
  }
  if (const Json* managed_by = Member(spec, "managedBy");
      managed_by != nullptr && managed_by->is_string()) {
    const std::string text = managed_by->get<std::string>();
    const std::size_t slash = text.find('/');
    if (text.empty()) {
      errors.push_back(Required("spec.managedBy", ""));
    } else if (slash == std::string::npos || slash == 0 || slash + 1 == text.size()) {
      errors.push_back(Invalid(
          "spec.managedBy", text, "must be a domain-prefixed path (such as \"acme.io/foo\")"));
    } else {
      RequireEach(errors,
                  "spec.managedBy",
                  text.substr(0, slash),
                  CheckDnsSubdomain(text.substr(0, slash)));
    }
    if (text.size() > kMaxManagedBy) {
      errors.push_back(TooLong("spec.managedBy", kMaxManagedBy));
    }
  }
  const std::string mode = TextAt(spec, "completionMode");
  const auto parallelism = IntAt(spec, "parallelism");
  const auto completions = IntAt(spec, "completions");
  if (mode != "NonIndexed" && mode != "Indexed") {
    errors.push_back(NotSupported("spec.completionMode", mode, {"NonIndexed", "Indexed"}));
  }
  if (mode == "Indexed") {
    if (!completions) {
      errors.push_back(Required("spec.completions", "when completion mode is Indexed"));
    }
    if (parallelism && *parallelism > kMaxIndexedParallelism) {
      errors.push_back(
          Invalid("spec.parallelism",
                  *parallelism,
                  "must be less than or equal to 100000 when completion mode is Indexed"));
    }
    if (const auto failed = IntAt(spec, "maxFailedIndexes");
        failed && completions && *failed > *completions) {
      errors.push_back(
          Invalid("spec.maxFailedIndexes", *failed, "must be less than or equal to completions"));
    }
  } else {
    for (const char* field : {"backoffLimitPerIndex", "maxFailedIndexes"}) {
      if (const Json* value = Member(spec, field)) {
        errors.push_back(
            Invalid(std::string("spec.") + field, *value, "requires indexed completion mode"));
      }
    }
    if (const Json* policy = Member(spec, "successPolicy")) {
      errors.push_back(Invalid("spec.successPolicy", *policy, "requires indexed completion mode"));
    }
  }
  const Json& gang = ObjectAt(ObjectAt(ObjectAt(spec, "scheduling"), "schedulingPolicy"), "gang");
  if (const auto least = IntAt(gang, "minCount"); least && *least > parallelism.value_or(1)) {
    errors.push_back(Invalid(
        "spec.scheduling.schedulingPolicy.gang.minCount",
        *least,
        "must not be greater than parallelism (" + std::to_string(parallelism.value_or(1)) + ")"));
  }
  CheckPodTemplate(errors, ObjectAt(spec, "template"), "spec.template");
  const std::string restart = TextAt(ObjectAt(ObjectAt(spec, "template"), "spec"), "restartPolicy");
  if (restart.empty() || restart == "Always") {
    errors.push_back(
        Required("spec.template.spec.restartPolicy", "valid values: \"OnFailure\", \"Never\""));
  } else if (restart == "OnFailure" && spec.contains("podFailurePolicy")) {
    errors.push_back(Invalid("spec.template.spec.restartPolicy",
                             restart,
                             "only \"Never\" is supported when podFailurePolicy is specified"));
  }
  const Json* selector = Member(spec, "selector");
  if (selector == nullptr) {
    errors.push_back(Required("spec.selector", ""));
  } else {
    CheckLabelSelector(errors, *selector, "spec.selector");
    const Json& labels = ObjectAt(ObjectAt(ObjectAt(spec, "template"), "metadata"), "labels");
    if (!LabelMatcher::FromObject(*selector).MatchesLabels(&labels)) {
      errors.push_back(Invalid(
          "spec.template.metadata.labels", labels, "`selector` does not match template `labels`"));
    }
  }
}

void CheckNameAllowsCompletions(FieldErrors& errors, const Json& job) {
  const Json& spec = ObjectAt(job, "spec");
  const auto completions = IntAt(spec, "completions");
  if (TextAt(spec, "completionMode") != "Indexed" || !completions || *completions <= 0) {
    return;
  }
  const std::string name = TextAt(ObjectAt(job, "metadata"), "name");
  const std::string hostname = name + "-" + std::to_string(*completions - 1);
  if (!CheckDnsLabel(hostname).empty()) {
    errors.push_back(Invalid(
        "metadata.name", name, "will not able to create pod with invalid DNS label: " + hostname));
  }
}

void CheckTemplateUpdate(FieldErrors& errors, const Json& job, const Json& old) {
  const Json& spec = ObjectAt(job, "spec");
  const Json& old_spec = ObjectAt(old, "spec");
  const Json& status = ObjectAt(old, "status");
  const Json& now = ObjectAt(spec, "template");
  Json before = ObjectAt(old_spec, "template");
  const bool suspended = TrueAt(old_spec, "suspend");
  const bool may_change = suspended &&
                          (!status.contains("startTime") || ConditionTrue(old, "Suspended")) &&
                          IntAt(status, "active").value_or(0) == 0;
  if (may_change) {
    const auto take = [](Json& to, const Json& from, const char* field) {
      if (const Json* value = Member(from, field)) {
        to[field] = *value;
      } else {
        to.erase(field);
      }
    };
    Json& to = before["spec"];
    const Json& from = ObjectAt(now, "spec");
    // Of the affinity only its node part may change.
    Json affinity = ObjectAt(to, "affinity");
    affinity.erase("nodeAffinity");
    if (const Json* node = Member(ObjectAt(from, "affinity"), "nodeAffinity")) {
      affinity["nodeAffinity"] = *node;
    }
    if (affinity.empty() && !from.contains("affinity")) {
      to.erase("affinity");
    } else {
      to["affinity"] = std::move(affinity);
    }
    for (const char* field : {"nodeSelector", "tolerations", "schedulingGates"}) {
      take(to, from, field);
    }
    for (const char* list : {"containers", "initContainers"}) {
      const Json& containers = ListAt(from, list);
      if (to.contains(list) && to[list].size() == containers.size()) {
        for (std::size_t i = 0; i < containers.size(); ++i) {
          if (TextAt(to[list][i], "name") == TextAt(containers[i], "name")) {
            take(to[list][i], containers[i], "resources");
          }
        }
      }
    }
    if (!before.contains("metadata")) {
      before["metadata"] = Json::object();
    }
    take(before["metadata"], ObjectAt(now, "metadata"), "labels");
    take(before["metadata"], ObjectAt(now, "metadata"), "annotations");
  }
  const auto tidy = [](Json value) {
    if (const Json* meta = Member(value, "metadata"); meta != nullptr && meta->empty()) {
      value.erase("metadata");
    }
    if (const Json* spec_part = Member(value, "spec");
        spec_part != nullptr && spec_part->is_object()) {
      Json& pod = value["spec"];
      if (const Json* affinity = Member(pod, "affinity");
          affinity != nullptr && affinity->empty()) {
        pod.erase("affinity");
      }
    }
    return value;
  };
  if (tidy(now) != tidy(before)) {
    // A suspended Job is told about its pod spec alone, as the rest of the template may change.
    const std::string path = suspended ? "spec.template.spec" : "spec.template";
    FieldError error = Invalid(may_change ? path : "spec.template",
                               may_change && suspended ? ObjectAt(now, "spec") : now,
                               "field is immutable");
    errors.push_back(std::move(error));
  }
}

}  // namespace

void CheckJobCreate(FieldErrors& errors, const Json& job) {
  CheckSelector(errors, job);
  CheckSpec(errors, ObjectAt(job, "spec"));
  CheckNameAllowsCompletions(errors, job);
}

void CheckJobUpdate(FieldErrors& errors, const Json& job, const Json& old) {
  const Json& spec = ObjectAt(job, "spec");
  const Json& before = ObjectAt(old, "spec");
  CheckSpec(errors, spec);
  if (!SameMember(spec, before, "completions")) {
    // Elastic indexed jobs: both numbers move together.
    const auto completions = IntAt(spec, "completions");
    const auto parallelism = IntAt(spec, "parallelism");
    const Json* shown = Member(spec, "completions");
    const Json value = shown == nullptr ? Json() : *shown;
    if (TextAt(spec, "completionMode") != "Indexed") {
      errors.push_back(Invalid("spec.completions", value, "field is immutable"));
    } else if (!completions || !IntAt(before, "completions")) {
      errors.push_back(Invalid("spec.completions", value, "field is immutable"));
    } else if (completions != parallelism) {
      errors.push_back(
          Invalid("spec.completions", value, "can only be modified in tandem with parallelism"));
    }
  }
  RequireSame(errors, "spec.selector", spec, before, "selector");
  CheckTemplateUpdate(errors, job, old);
  for (const char* field : {"completionMode",
                            "podFailurePolicy",
                            "backoffLimitPerIndex",
                            "managedBy",
                            "successPolicy"}) {
    RequireSame(errors, std::string("spec.") + field, spec, before, field);
  }
  CheckNameAllowsCompletions(errors, job);
}

void CheckJobStatus(FieldErrors& errors, const Json& job, const Json& old) {
  const Json& status = ObjectAt(job, "status");
  const Json& before = ObjectAt(old, "status");
  for (const char* field : {"active", "succeeded", "failed", "ready", "terminating"}) {
    CheckNonNegative(errors, std::string("status.") + field, Member(status, field));
  }
  for (const char* type : {"Failed", "Complete", "FailureTarget"}) {
    if (ConditionTrue(old, type) && !ConditionTrue(job, type)) {
      FieldError error =
          Invalid("status.conditions",
                  "",
                  std::string("cannot disable the terminal ") + type + "=True condition");
      error.value.clear();
      errors.push_back(std::move(error));
    }
  }
  if (ConditionTrue(job, "Failed") && ConditionTrue(job, "Complete")) {
    FieldError error =
        Invalid("status.conditions", "", "cannot set Complete=True and Failed=true conditions");
    error.value.clear();
    errors.push_back(std::move(error));
  }
  if (IntAt(status, "failed").value_or(0) < IntAt(before, "failed").value_or(0)) {
    errors.push_back(Invalid("status.failed",
                             IntAt(status, "failed").value_or(0),
                             "cannot decrease the failed counter"));
  }
  if (status.contains("completionTime") && !ConditionTrue(job, "Complete")) {
    errors.push_back(Invalid("status.completionTime",
                             status["completionTime"],
                             "completionTime can only be set for Complete jobs"));
  }
  if (ConditionTrue(job, "Complete") && !status.contains("completionTime")) {
    errors.push_back(
        Required("status.completionTime", "completionTime is required for Complete jobs"));
  }
}

}  // namespace muster::sim
