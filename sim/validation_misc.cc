#include <string>

#include "api/quantity.h"
#include "sim/access.h"
#include "sim/programs.h"
#include "sim/selectors.h"
#include "sim/validation.h"

namespace muster::sim {
namespace {

void CheckWorkloadController(FieldErrors& errors, const Json& object, const Json* old) {
  const Json& spec = ObjectAt(object, "spec");
  CheckNonNegative(errors, "spec.replicas", Member(spec, "replicas"));
  const Json* selector = Member(spec, "selector");
  if (selector == nullptr) {
    errors.push_back(Required("spec.selector", ""));
    return;
  }
  CheckLabelSelector(errors, *selector, "spec.selector");
  const Json& labels = ObjectAt(ObjectAt(ObjectAt(spec, "template"), "metadata"), "labels");
  if (!LabelMatcher::FromObject(*selector).MatchesLabels(&labels)) {
    errors.push_back(Invalid(
        "spec.template.metadata.labels", labels, "`selector` does not match template `labels`"));
  }
  CheckPodTemplate(errors, ObjectAt(spec, "template"), "spec.template");
  const std::string restart = TextAt(ObjectAt(ObjectAt(spec, "template"), "spec"), "restartPolicy");
  if (restart != "Always") {
    errors.push_back(NotSupported("spec.template.spec.restartPolicy", restart, {"Always"}));
  }
  if (old != nullptr) {
    RequireSame(errors, "spec.selector", spec, ObjectAt(*old, "spec"), "selector");
  }
}

void CheckNode(FieldErrors& errors, const Json& object, const Json* old) {
  const Json& spec = ObjectAt(object, "spec");
  const Json& taints = ListAt(spec, "taints");
  for (std::size_t i = 0; i < taints.size(); ++i) {
    const std::string at = AtIndex("spec.taints", i);
    RequireEach(errors,
                at + ".key",
                TextAt(taints[i], "key"),
                CheckQualifiedName(TextAt(taints[i], "key")));
    RequireEach(errors,
                at + ".value",
                TextAt(taints[i], "value"),
                CheckLabelValue(TextAt(taints[i], "value")));
    const std::string effect = TextAt(taints[i], "effect");
    if (effect.empty()) {
      errors.push_back(Required(at + ".effect", ""));
    } else if (effect != "NoSchedule" && effect != "PreferNoSchedule" && effect != "NoExecute") {
      errors.push_back(
          NotSupported(at + ".effect", effect, {"NoSchedule", "PreferNoSchedule", "NoExecute"}));
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (TextAt(taints[j], "key") == TextAt(taints[i], "key") &&
          TextAt(taints[j], "effect") == effect) {
        errors.push_back(Duplicate(at, taints[i]));
        errors.back().detail = "taints must be unique by key and effect pair";
      }
    }
  }
  if (old != nullptr && HasText(ObjectAt(*old, "spec"), "podCIDR")) {
    RequireSame(errors, "spec.podCIDR", spec, ObjectAt(*old, "spec"), "podCIDR");
  }
}

// Every expression of an admission policy must compile.
void CheckPolicyKind(FieldErrors& errors, const ResourceInfo& resource, const Json& object) {
  const Json& spec = ObjectAt(object, "spec");
  if (resource.kind.ends_with("Binding")) {
    if (!HasText(spec, "policyName")) {
      errors.push_back(Required("spec.policyName", ""));
    }
    if (resource.kind == "ValidatingAdmissionPolicyBinding" &&
        ListAt(spec, "validationActions").empty()) {
      errors.push_back(Required("spec.validationActions", ""));
    }
    return;
  }
  const Json* match = Member(spec, "matchConstraints");
  if (match == nullptr) {
    errors.push_back(Required("spec.matchConstraints", ""));
  } else if (ListAt(*match, "resourceRules").empty()) {
    errors.push_back(Required("spec.matchConstraints.resourceRules", ""));
  }
  const auto compile = [&](const std::string& path, const std::string& text, ProgramKind kind) {
    if (text.empty()) {
      errors.push_back(Required(path, ""));
    } else if (const auto& program = CompileOnce(kind, text); !program) {
      errors.push_back(Invalid(path, text, "compilation failed: " + program.error().message));
    }
  };
  const Json& conditions = ListAt(spec, "matchConditions");
  for (std::size_t i = 0; i < conditions.size(); ++i) {
    compile(AtIndex("spec.matchConditions", i) + ".expression",
            TextAt(conditions[i], "expression"),
            ProgramKind::kAdmissionBool);
  }
  const Json& variables = ListAt(spec, "variables");
  for (std::size_t i = 0; i < variables.size(); ++i) {
    compile(AtIndex("spec.variables", i) + ".expression",
            TextAt(variables[i], "expression"),
            ProgramKind::kAdmissionAny);
  }
  const Json& validations = ListAt(spec, "validations");
  for (std::size_t i = 0; i < validations.size(); ++i) {
    compile(AtIndex("spec.validations", i) + ".expression",
            TextAt(validations[i], "expression"),
            ProgramKind::kAdmissionBool);
    if (HasText(validations[i], "messageExpression")) {
      compile(AtIndex("spec.validations", i) + ".messageExpression",
              TextAt(validations[i], "messageExpression"),
              ProgramKind::kAdmissionMessage);
    }
  }
  const Json& mutations = ListAt(spec, "mutations");
  if (resource.kind == "MutatingAdmissionPolicy") {
    if (mutations.empty()) {
      errors.push_back(Required("spec.mutations", "mutations must contain at least one item"));
    }
    if (!HasText(spec, "reinvocationPolicy")) {
      errors.push_back(Required("spec.reinvocationPolicy", ""));
    }
  } else if (resource.kind == "ValidatingAdmissionPolicy" && validations.empty() &&
             ListAt(spec, "auditAnnotations").empty()) {
    errors.push_back(Required("spec.validations",
                              "validations or auditAnnotations must contain at least one item"));
  }
  for (std::size_t i = 0; i < mutations.size(); ++i) {
    const std::string type = TextAt(mutations[i], "patchType");
    const char* field = type == "JSONPatch" ? "jsonPatch" : "applyConfiguration";
    if (type != "JSONPatch" && type != "ApplyConfiguration") {
      errors.push_back(NotSupported(
          AtIndex("spec.mutations", i) + ".patchType", type, {"ApplyConfiguration", "JSONPatch"}));
      continue;
    }
    compile(AtIndex("spec.mutations", i) + "." + field + ".expression",
            TextAt(ObjectAt(mutations[i], field), "expression"),
            ProgramKind::kMutation);
  }
}

void CheckLimitRange(FieldErrors& errors, const Json& object) {
  const Json& limits = ListAt(ObjectAt(object, "spec"), "limits");
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const std::string at = AtIndex("spec.limits", i);
    const auto compare = [&](const char* low, const char* high) {
      for (const auto& [name, value] : ObjectAt(limits[i], low).items()) {
        const Json* other = Member(ObjectAt(limits[i], high), name);
        if (other == nullptr || !other->is_string() || !value.is_string()) {
          continue;
        }
        const auto a = api::Quantity::Parse(value.get<std::string>());
        const auto b = api::Quantity::Parse(other->get<std::string>());
        if (a && b && a->Compare(*b) > 0) {
          errors.push_back(Invalid(at + "." + low + "[" + name + "]",
                                   value,
                                   std::string(low) + " value " + a->ToString() +
                                       " is greater than " + high + " value " + b->ToString()));
        }
      }
    };
    compare("min", "max");
    compare("min", "default");
    compare("default", "max");
    compare("defaultRequest", "max");
    compare("defaultRequest", "default");
  }
}

}  // namespace

void CheckMiscKind(FieldErrors& errors,
                   const ResourceInfo& resource,
                   const Json& object,
                   const Json* old) {
  const std::string key = resource.key();
  if (key == "apps/deployments" || key == "apps/replicasets" || key == "apps/statefulsets" ||
      key == "apps/daemonsets") {
    CheckWorkloadController(errors, object, old);
  } else if (key == "/nodes") {
    CheckNode(errors, object, old);
  } else if (key == "/limitranges") {
    CheckLimitRange(errors, object);
  } else if (resource.group == "admissionregistration.k8s.io" &&
             resource.kind.contains("AdmissionPolicy")) {
    CheckPolicyKind(errors, resource, object);
    if (old != nullptr && resource.kind.ends_with("Binding")) {
      RequireSame(errors,
                  "spec.policyName",
                  ObjectAt(object, "spec"),
                  ObjectAt(*old, "spec"),
                  "policyName");
    }
  } else if (key == "coordination.k8s.io/leases") {
    const Json& spec = ObjectAt(object, "spec");
    if (const auto seconds = IntAt(spec, "leaseDurationSeconds"); seconds && *seconds <= 0) {
      errors.push_back(Invalid("spec.leaseDurationSeconds", *seconds, "must be greater than 0"));
    }
    CheckNonNegative(errors, "spec.leaseTransitions", Member(spec, "leaseTransitions"));
  } else if (key == "node.k8s.io/runtimeclasses") {
    if (!HasText(object, "handler")) {
      errors.push_back(Required("handler", ""));
    }
    if (old != nullptr) {
      RequireSame(errors, "handler", object, *old, "handler");
    }
  } else if (key == "batch/cronjobs") {
    const Json& spec = ObjectAt(object, "spec");
    if (!HasText(spec, "schedule")) {
      errors.push_back(Required("spec.schedule", ""));
    }
    CheckPodTemplate(errors,
                     ObjectAt(ObjectAt(ObjectAt(spec, "jobTemplate"), "spec"), "template"),
                     "spec.jobTemplate.spec.template");
  } else if (key == "/configmaps" || key == "/secrets") {
    if (old != nullptr && TrueAt(*old, "immutable")) {
      if (!TrueAt(object, "immutable")) {
        errors.push_back(Forbidden("immutable", "field is immutable when `immutable` is set"));
      }
      for (const char* field : {"data", "binaryData"}) {
        if (!SameMember(object, *old, field)) {
          errors.push_back(Forbidden(field, "field is immutable when `immutable` is set"));
        }
      }
    }
  } else if (key == "events.k8s.io/events") {
    // Both groups store here; the new one asks for more.
    if (old == nullptr) {
      const Json& regarding = ObjectAt(object, "regarding");
      const std::string involved = TextAt(regarding, "namespace");
      const std::string ns = TextAt(ObjectAt(object, "metadata"), "namespace");
      if (involved.empty() ? ns != "default" && ns != "kube-system" : involved != ns) {
        errors.push_back(
            Invalid("involvedObject.namespace", involved, "does not match event.namespace"));
      }
      if (object.contains("eventTime")) {
        for (const char* field :
             {"reportingController", "reportingInstance", "action", "reason", "type"}) {
          if (!HasText(object, field)) {
            errors.push_back(Required(field, ""));
          }
        }
        if (TextAt(object, "note").size() > 1024) {
          errors.push_back(
              Invalid("note", TextAt(object, "note").size(), "can have at most 1024 characters"));
        }
      }
    }
  }
}

}  // namespace muster::sim
