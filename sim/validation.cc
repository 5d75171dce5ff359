#include "sim/validation.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "sim/access.h"
#include "sim/schema.h"

namespace muster::sim {
namespace {

constexpr std::size_t kMaxAnnotationBytes = 256 * 1024;

bool Alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}
bool LowerAlnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool IsLabel(std::string_view text) {
  return !text.empty() && LowerAlnum(text.front()) && LowerAlnum(text.back()) &&
         std::ranges::all_of(text, [](char c) { return LowerAlnum(c) || c == '-'; });
}
bool IsSubdomain(std::string_view text) {
  return std::ranges::all_of(Split(text, '.'),
                             [](const std::string& part) { return IsLabel(part); });
}
bool IsNamePart(std::string_view text) {
  return !text.empty() && Alnum(text.front()) && Alnum(text.back()) &&
         std::ranges::all_of(text,
                             [](char c) { return Alnum(c) || c == '-' || c == '_' || c == '.'; });
}
std::string AtMost(std::size_t length) {
  return "must be no more than " + std::to_string(length) + " characters";
}

constexpr std::string_view kSubdomainRule =
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
constexpr std::string_view kLabelRule =
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an "
    "alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

}  // namespace

std::vector<std::string> CheckDnsLabel(std::string_view text) {
  std::vector<std::string> out;
  if (text.size() > 63) {
    out.push_back(AtMost(63));
  }
  if (!IsLabel(text)) {
    out.emplace_back(kLabelRule);
  }
  return out;
}

std::vector<std::string> CheckDnsSubdomain(std::string_view text) {
  std::vector<std::string> out;
  if (text.size() > 253) {
    out.push_back(AtMost(253));
  }
  if (!IsSubdomain(text)) {
    out.emplace_back(kSubdomainRule);
  }
  return out;
}

std::vector<std::string> CheckQualifiedName(std::string_view text) {
  std::vector<std::string> out;
  const std::vector<std::string> parts = Split(text, '/');
  if (parts.size() > 2) {
    out.emplace_back(
        "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start "
        "and end with an "
        "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
        "validation is "
        "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' "
        "(e.g. "
        "'example.com/MyName')");
    return out;
  }
  if (parts.size() == 2) {
    if (parts[0].empty()) {
      out.emplace_back("prefix part must be non-empty");
    } else {
      for (const std::string& problem : CheckDnsSubdomain(parts[0])) {
        out.push_back("prefix part " + problem);
      }
    }
  }
  const std::string& name = parts.back();
  if (name.empty()) {
    out.emplace_back("name part must be non-empty");
  } else if (name.size() > 63) {
    out.push_back("name part " + AtMost(63));
  }
  if (!IsNamePart(name)) {
    out.emplace_back(
        "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and "
        "end with an alphanumeric "
        "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
        "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')");
  }
  return out;
}

std::vector<std::string> CheckLabelValue(std::string_view text) {
  std::vector<std::string> out;
  if (text.size() > 63) {
    out.push_back(AtMost(63));
  }
  if (!text.empty() && !IsNamePart(text)) {
    out.emplace_back(
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
        "'.', and must start and "
        "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex "
        "used for validation is "
        "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')");
  }
  return out;
}

void RequireEach(FieldErrors& errors,
                 const std::string& path,
                 const Json& value,
                 const std::vector<std::string>& problems) {
  for (const std::string& problem : problems) {
    errors.push_back(Invalid(path, value, problem));
  }
}

void RequireSame(FieldErrors& errors,
                 const std::string& path,
                 const Json& object,
                 const Json& old,
                 std::string_view key) {
  if (!SameMember(object, old, key)) {
    const Json* value = Member(object, key);
    errors.push_back(Invalid(path, value == nullptr ? Json() : *value, "field is immutable"));
  }
}

void CheckNonNegative(FieldErrors& errors, const std::string& path, const Json* value) {
  if (value != nullptr && value->is_number_integer() && value->get<std::int64_t>() < 0) {
    errors.push_back(Invalid(path, *value, "must be greater than or equal to 0"));
  }
}

void CheckLabels(FieldErrors& errors, const Json& labels, const std::string& path) {
  if (!labels.is_object()) {
    return;
  }
  for (const auto& [key, value] : labels.items()) {
    RequireEach(errors, path, key, CheckQualifiedName(key));
    if (value.is_string()) {
      RequireEach(errors, path, value, CheckLabelValue(value.get_ref<const std::string&>()));
    }
  }
}

void CheckAnnotations(FieldErrors& errors, const Json& annotations, const std::string& path) {
  if (!annotations.is_object()) {
    return;
  }
  std::size_t total = 0;
  for (const auto& [key, value] : annotations.items()) {
    RequireEach(errors, path, key, CheckQualifiedName(ToLower(key)));
    total += key.size() + (value.is_string() ? value.get_ref<const std::string&>().size() : 0);
  }
  if (total > kMaxAnnotationBytes) {
    errors.push_back(TooLong(path, kMaxAnnotationBytes));
  }
}

void CheckLabelSelector(FieldErrors& errors, const Json& selector, const std::string& path) {
  if (!selector.is_object()) {
    return;
  }
  CheckLabels(errors, ObjectAt(selector, "matchLabels"), path + ".matchLabels");
  const Json& list = ListAt(selector, "matchExpressions");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string at = AtIndex(path + ".matchExpressions", i);
    const std::string op = TextAt(list[i], "operator");
    const std::size_t values = ListAt(list[i], "values").size();
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
    } else {
      errors.push_back(Invalid(at + ".operator", op, "not a valid selector operator"));
    }
    RequireEach(
        errors, at + ".key", TextAt(list[i], "key"), CheckQualifiedName(TextAt(list[i], "key")));
  }
}

void CheckObjectMeta(FieldErrors& errors, const ResourceInfo& resource, const Json& meta) {
  const std::string name = TextAt(meta, "name");
  const std::string key = resource.key();
  if (resource.group == "rbac.authorization.k8s.io") {
    if (name == "." || name == ".." || name.contains('/') || name.contains('%')) {
      errors.push_back(
          Invalid("metadata.name", name, "may not contain '/' or '%', and may not be '.' or '..'"));
    }
  } else if (key == "/namespaces" || key == "/services") {
    RequireEach(errors, "metadata.name", name, CheckDnsLabel(name));
  } else {
    RequireEach(errors, "metadata.name", name, CheckDnsSubdomain(name));
  }
  CheckLabels(errors, ObjectAt(meta, "labels"), "metadata.labels");
  CheckAnnotations(errors, ObjectAt(meta, "annotations"), "metadata.annotations");
  const Json& owners = ListAt(meta, "ownerReferences");
  std::string controller;
  for (std::size_t i = 0; i < owners.size(); ++i) {
    const std::string at = AtIndex("metadata.ownerReferences", i);
    for (const char* field : {"apiVersion", "kind", "name", "uid"}) {
      if (!HasText(owners[i], field)) {
        errors.push_back(Invalid(at + "." + field, "", "must not be empty"));
      }
    }
    if (TrueAt(owners[i], "controller")) {
      if (!controller.empty()) {
        errors.push_back(Invalid("metadata.ownerReferences",
                                 owners,
                                 "Only one reference can have Controller set to true. Found "
                                 "\"true\" in references for " +
                                     controller + " and " + TextAt(owners[i], "kind") + "/" +
                                     TextAt(owners[i], "name")));
      } else {
        controller = TextAt(owners[i], "kind") + "/" + TextAt(owners[i], "name");
      }
    }
  }
  const std::vector<std::string> finalizers = TextsAt(meta, "finalizers");
  for (std::size_t i = 0; i < finalizers.size(); ++i) {
    const std::string& finalizer = finalizers[i];
    const std::string at = AtIndex("metadata.finalizers", i);
    RequireEach(errors, at, finalizer, CheckQualifiedName(finalizer));
    if (!finalizer.contains('/') && finalizer != "kubernetes" && finalizer != "orphan" &&
        finalizer != "foregroundDeletion") {
      errors.push_back(Invalid(
          at, finalizer, "name is neither a standard finalizer name nor is it fully qualified"));
    }
  }
}

void CheckObjectMetaUpdate(FieldErrors& errors, const Json& meta, const Json& old_meta) {
  // Only removals of finalizers make sense once the object is going away.
  if (meta.contains("deletionTimestamp")) {
    const std::vector<std::string> before = TextsAt(old_meta, "finalizers");
    std::string added;
    for (const std::string& finalizer : TextsAt(meta, "finalizers")) {
      if (std::ranges::find(before, finalizer) == before.end()) {
        added += (added.empty() ? "" : ", ");
        AppendJsonString(added, finalizer);
      }
    }
    if (!added.empty()) {
      errors.push_back(Forbidden(
          "metadata.finalizers",
          "no new finalizers can be added if the object is being deleted, found new finalizers "
          "[]string{" +
              added + "}"));
    }
  }
}

FieldErrors ValidateBuiltin(const ResourceInfo& resource,
                            const std::string& subresource,
                            const Json& object,
                            const Json* old) {
  FieldErrors errors;
  const Json& meta = ObjectAt(object, "metadata");
  CheckObjectMeta(errors, resource, meta);
  if (old != nullptr) {
    CheckObjectMetaUpdate(errors, meta, ObjectAt(*old, "metadata"));
  }
  const std::string key = resource.key();
  const bool status = subresource == "status";
  if (key == "/pods") {
    if (old == nullptr) {
      CheckPodCreate(errors, object);
    } else if (!status && subresource != "resize") {
      CheckPodUpdate(errors, object, *old);
    }
  } else if (key == "batch/jobs") {
    if (old == nullptr) {
      CheckJobCreate(errors, object);
    } else if (status) {
      CheckJobStatus(errors, object, *old);
    } else {
      CheckJobUpdate(errors, object, *old);
    }
  } else if (resource.group == "resource.k8s.io") {
    if (status && key == "resource.k8s.io/resourceclaims") {
      CheckClaimStatus(errors, object, *old);
    } else if (!status) {
      CheckResourceKind(errors, resource, object, old);
    }
  } else if (resource.group == "scheduling.k8s.io") {
    if (!status) {
      CheckSchedulingKind(errors, resource, object, old);
    }
  } else if (!status) {
    CheckMiscKind(errors, resource, object, old);
  }
  return errors;
}

}  // namespace muster::sim
