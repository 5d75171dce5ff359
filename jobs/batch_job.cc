#include "jobs/batch_job.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "jobs/names.h"

namespace muster::jobs {
namespace {

using api::Json;

std::optional<std::int32_t> ParseInt32(std::string_view text) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

void AddRanges(const std::string& text,
               std::int64_t limit,
               std::vector<std::pair<std::int64_t, std::int64_t>>& out) {
  for (const std::string& part : Split(text, ',')) {
    const auto dash = part.find('-');
    const auto first = ParseInt32(std::string_view(part).substr(0, dash));
    const auto last =
        dash == std::string::npos ? first : ParseInt32(std::string_view(part).substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *first >= limit) {
      continue;
    }
    out.emplace_back(*first, std::min<std::int64_t>(*last, limit - 1));
  }
}

Json Preconditioned(const api::Job& job) {
  return {{"metadata", {{"resourceVersion", job.meta.resource_version}}}};
}

}  // namespace

std::int64_t CountIndexes(const std::string& completed,
                          const std::string& failed,
                          std::int64_t limit) {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  AddRanges(completed, limit, ranges);
  AddRanges(failed, limit, ranges);
  std::ranges::sort(ranges);
  std::int64_t count = 0;
  std::int64_t next = 0;  // everything below is counted
  for (const auto& [first, last] : ranges) {
    const std::int64_t from = std::max(first, next);
    if (last >= from) {
      count += last - from + 1;
      next = last + 1;
    }
  }
  return count;
}

std::int32_t JobPodCount(const api::Job& job) {
  std::int32_t count = job.parallelism.value_or(1);
  if (job.completions) {
    count = std::min(count, *job.completions);
  }
  return std::max(count, 0);
}

Unit ReadJob(const api::Job& job, const std::vector<std::string>& label_keys_to_copy) {
  Unit unit;
  unit.framework = "batch/job";
  unit.ns = job.meta.ns;
  unit.owners.push_back(
      {.api_version = "batch/v1", .kind = "Job", .name = job.meta.name, .uid = job.meta.uid});
  unit.job_uid = job.meta.uid;
  unit.workload_name = WorkloadName("Job", "batch", job.meta.name, job.meta.uid);
  for (const std::string& key : label_keys_to_copy) {
    if (const std::string* value = job.meta.Label(key)) {
      unit.workload_labels[key] = *value;
    }
  }
  if (const std::string* queue = job.meta.Label(kQueueLabel)) {
    unit.queue_name = *queue;
  } else if (const std::string* deprecated = job.meta.Annotation(kQueueLabel)) {
    unit.queue_name = *deprecated;
  }
  if (const std::string* value = job.meta.Label(kPriorityClassLabel)) {
    unit.priority_class = *value;
  }
  unit.pod_priority_class = job.pod_template.spec.priority_class;
  if (const std::string* value = job.meta.Annotation(kAdmissionGatedBy)) {
    unit.gated_by = *value;
    unit.workload_annotations[std::string(kAdmissionGatedBy)] = *value;
  }
  if (const std::string* value = job.meta.Label(kMaxExecLabel)) {
    if (const auto seconds = ParseInt32(*value); seconds && *seconds > 0) {
      unit.max_execution_seconds = seconds;
    }
  }

  UnitPodSet set;
  set.count = JobPodCount(job);
  set.pod_template = DropDuplicateEnv(job.pod_template.raw);
  set.topology = TopologyRequestOf(job.pod_template.annotations,
                                   job.indexed ? kCompletionIndex : std::string_view());
  if (const std::string* value = job.meta.Annotation(kMinParallelism)) {
    if (const auto minimum = ParseInt32(*value); minimum && *minimum > 0 && *minimum < set.count) {
      set.min_count = minimum;
    }
  }

  const bool failed = api::ConditionTrue(job.conditions, "Failed");
  const bool complete = api::ConditionTrue(job.conditions, "Complete");
  if (failed || complete) {
    const api::Condition* condition =
        api::FindCondition(job.conditions, complete ? "Complete" : "Failed");
    unit.finished = Finished{.succeeded = complete, .message = condition->message};
    if (unit.finished->message.empty()) {
      unit.finished->message = complete ? "Job finished successfully" : "Job failed";
    }
  }
  unit.stopping = job.meta.Annotation(kStopping) != nullptr;
  unit.suspended = job.suspend && !unit.stopping;
  // A Job that has been started counts as active until its controller has said that it is
  // suspended: it may be creating pods at this moment.
  // Pods of a suspended one that are still ending keep their nodes, and so its quota.
  unit.active = job.active != 0 || (job.suspend && job.terminating > 0) ||
                (job.suspend && job.started && !api::ConditionTrue(job.conditions, "Suspended"));
  unit.deleting = job.meta.deleting();
  const std::int64_t ready = std::int64_t{job.succeeded} + job.ready + job.uncounted_succeeded;
  unit.pods_ready = ready >= set.count;

  // reclaimable = parallelism - (completions - terminal), where terminal pods will not be replaced.
  const std::int32_t parallelism = job.parallelism.value_or(1);
  const std::int32_t completions = job.completions.value_or(parallelism);
  if (parallelism > 1 &&
      (job.succeeded > 0 || !job.completed_indexes.empty() || !job.failed_indexes.empty())) {
    const std::int64_t terminal =
        job.indexed ? CountIndexes(job.completed_indexes, job.failed_indexes, completions)
                    : job.succeeded;
    const std::int64_t remaining = std::max<std::int64_t>(0, completions - terminal);
    const std::int64_t reclaimable =
        std::min<std::int64_t>(set.count, std::int64_t{set.count} - remaining);
    if (reclaimable > 0) {
      unit.reclaimable[set.name] = static_cast<std::int32_t>(reclaimable);
    }
  }
  unit.pod_sets.push_back(std::move(set));
  return unit;
}

Result<api::Json> JobStartPatch(const api::Job& job, const PodSetInfo& info) {
  static const Json kNone = Json::object();
  const Json& current = job.pod_template.raw ? *job.pod_template.raw : kNone;
  MUSTER_ASSIGN_OR_RETURN(const Json merged, MergeTemplate(current, info));
  Json patch = Preconditioned(job);
  Json& spec = patch["spec"];
  spec["suspend"] = false;
  Json change = MergeDiff(current, merged);
  if (!change.empty()) {
    spec["template"] = std::move(change);
  }
  if (job.meta.Annotation(kMinParallelism) != nullptr &&
      info.count != job.parallelism.value_or(1)) {
    spec["parallelism"] = info.count;
    const std::string* equal = job.meta.Annotation(kCompletionsEqualParallelism);
    if (equal != nullptr && *equal == "true") {
      spec["completions"] = info.count;
    }
  }
  if (job.meta.Annotation(kStopping) != nullptr) {
    patch["metadata"]["annotations"][std::string(kStopping)] = nullptr;
  }
  return patch;
}

api::Json JobSuspendPatch(const api::Job& job, bool restore_later) {
  Json patch = Preconditioned(job);
  patch["spec"]["suspend"] = true;
  if (restore_later) {
    patch["metadata"]["annotations"][std::string(kStopping)] = "true";
  }
  return patch;
}

bool JobTemplateMutable(const api::Job& job) {
  return job.suspend && job.active == 0 &&
         (!job.started || api::ConditionTrue(job.conditions, "Suspended"));
}

api::Json JobRestorePatch(const api::Job& job, const api::Json& original, std::int32_t count) {
  static const Json kNone = Json::object();
  const Json& current = job.pod_template.raw ? *job.pod_template.raw : kNone;
  Json restored = current;
  const auto restore = [&](const char* part, const char* field) {
    Json value;
    if (original.is_object() && original.contains(part) && original[part].is_object() &&
        original[part].contains(field)) {
      value = original[part][field];
    }
    if (!restored[part].is_object()) {
      restored[part] = Json::object();
    }
    if (value.is_null()) {
      restored[part].erase(field);
    } else {
      restored[part][field] = value;
    }
  };
  restore("metadata", "labels");
  restore("metadata", "annotations");
  restore("spec", "nodeSelector");
  restore("spec", "tolerations");
  restore("spec", "schedulingGates");
  Json patch = Preconditioned(job);
  patch["metadata"]["annotations"][std::string(kStopping)] = nullptr;
  Json change = MergeDiff(current, restored);
  if (!change.empty()) {
    patch["spec"]["template"] = std::move(change);
  }
  if (job.meta.Annotation(kMinParallelism) != nullptr && count != job.parallelism.value_or(1)) {
    patch["spec"]["parallelism"] = count;
    const std::string* equal = job.meta.Annotation(kCompletionsEqualParallelism);
    if (equal != nullptr && *equal == "true") {
      patch["spec"]["completions"] = count;
    }
  }
  return patch;
}

}  // namespace muster::jobs
