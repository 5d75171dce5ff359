#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/batch.h"
#include "api/json.h"
#include "base/result.h"
#include "jobs/unit.h"

// batch/v1 Job. Source: Kueue pkg/controller/jobs/job; Kubernetes
// pkg/registry/batch/job/strategy.go for what may change when.
namespace muster::jobs {

// min(parallelism, completions); parallelism defaults to 1. Never negative.
[[nodiscard]] std::int32_t JobPodCount(const api::Job& job);
[[nodiscard]] Unit ReadJob(const api::Job& job, const std::vector<std::string>& label_keys_to_copy);

// Patches are JSON merge patches with the object's resourceVersion as precondition.
// Start: template as admitted, granted count, suspend=false, in one request.
[[nodiscard]] Result<api::Json> JobStartPatch(const api::Job& job, const PodSetInfo& info);
// Stop, first step: suspend and remember that the template has still to be restored.
[[nodiscard]] api::Json JobSuspendPatch(const api::Job& job, bool restore_later);
// True once the API server accepts changes to the template of the suspended job.
[[nodiscard]] bool JobTemplateMutable(const api::Job& job);
// Stop, second step: labels, annotations, node selector, tolerations and gates of `original`, the
// count it asked for, and no stopping mark.
[[nodiscard]] api::Json JobRestorePatch(const api::Job& job,
                                        const api::Json& original,
                                        std::int32_t count);

// Number of indexes below `limit` in "0-3,7". Malformed parts count as nothing. Cost O(text).
[[nodiscard]] std::int64_t CountIndexes(const std::string& completed,
                                        const std::string& failed,
                                        std::int64_t limit);

}  // namespace muster::jobs
