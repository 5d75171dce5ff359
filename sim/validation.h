#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/json.h"
#include "base/time.h"
#include "sim/failure.h"
#include "sim/registry.h"

// What the real server demands of builtin kinds beyond their shape. The texts are part of the API:
// people and programs read them.
namespace muster::sim {

// Problems of one name or value; empty when there are none.
[[nodiscard]] std::vector<std::string> CheckDnsLabel(std::string_view text);
[[nodiscard]] std::vector<std::string> CheckDnsSubdomain(std::string_view text);
[[nodiscard]] std::vector<std::string> CheckQualifiedName(std::string_view text);
[[nodiscard]] std::vector<std::string> CheckLabelValue(std::string_view text);

void RequireEach(FieldErrors& errors,
                 const std::string& path,
                 const Json& value,
                 const std::vector<std::string>& problems);
// "field is immutable" when the two differ.
void RequireSame(FieldErrors& errors,
                 const std::string& path,
                 const Json& object,
                 const Json& old,
                 std::string_view key);
void CheckNonNegative(FieldErrors& errors, const std::string& path, const Json* value);

void CheckLabels(FieldErrors& errors, const Json& labels, const std::string& path);
void CheckAnnotations(FieldErrors& errors, const Json& annotations, const std::string& path);
void CheckLabelSelector(FieldErrors& errors, const Json& selector, const std::string& path);
void CheckObjectMeta(FieldErrors& errors, const ResourceInfo& resource, const Json& meta);
void CheckObjectMetaUpdate(FieldErrors& errors, const Json& meta, const Json& old_meta);

void CheckPodSpec(FieldErrors& errors, const Json& spec, const std::string& path, bool is_template);
void CheckPodTemplate(FieldErrors& errors, const Json& pod_template, const std::string& path);
void CheckPodCreate(FieldErrors& errors, const Json& pod);
void CheckPodUpdate(FieldErrors& errors, const Json& pod, const Json& old);
void CheckJobCreate(FieldErrors& errors, const Json& job);
void CheckJobUpdate(FieldErrors& errors, const Json& job, const Json& old);
void CheckJobStatus(FieldErrors& errors, const Json& job, const Json& old);
void CheckResourceKind(FieldErrors& errors,
                       const ResourceInfo& resource,
                       const Json& object,
                       const Json* old);
void CheckClaimStatus(FieldErrors& errors, const Json& claim, const Json& old);
void CheckSchedulingKind(FieldErrors& errors,
                         const ResourceInfo& resource,
                         const Json& object,
                         const Json* old);
void CheckMiscKind(FieldErrors& errors,
                   const ResourceInfo& resource,
                   const Json& object,
                   const Json* old);

// All of it. `old` is null for a creation; `subresource` as in the path.
[[nodiscard]] FieldErrors ValidateBuiltin(const ResourceInfo& resource,
                                          const std::string& subresource,
                                          const Json& object,
                                          const Json* old);

}  // namespace muster::sim
