#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/json.h"
#include "api/metadata.h"
#include "api/queueing.h"
#include "base/result.h"

// What queueing needs to know of a job, whatever its kind: the common form into which each adapter
// reads its objects.
namespace muster::jobs {

struct UnitPodSet {
  std::string name = "main";
  std::int32_t count = 1;
  std::optional<std::int32_t> min_count;
  api::JsonPtr pod_template;  // {metadata, spec}; env duplicates removed, last wins
  api::Json topology;         // topologyRequest, or null
};

struct Finished {
  bool succeeded = false;
  std::string message;
};

struct Owner {
  std::string api_version;
  std::string kind;
  std::string name;
  std::string uid;
};

// One job: a batch Job, a single pod, a pod group or a native group.
struct Unit {
  std::string framework;  // "batch/job", "pod"
  std::string ns;
  std::vector<Owner> owners;     // of the Workload; events go to the first
  bool controller_owner = true;  // false: plain references (groups)
  std::string job_uid;           // label job-uid; empty for groups
  std::string workload_name;
  api::StringMap workload_labels;
  api::StringMap workload_annotations;

  std::string queue_name;          // empty: none
  std::string priority_class;      // WorkloadPriorityClass by label
  std::string pod_priority_class;  // of the first pod set that names one
  std::string gated_by;            // annotation admission-gated-by
  std::optional<std::int32_t> max_execution_seconds;

  std::vector<UnitPodSet> pod_sets;
  // Why no Workload can be built now; a group that is not complete yet says so here.
  std::string not_ready;
  bool not_ready_is_error = false;  // worth an event, not just waiting

  bool suspended = false;
  bool stopping = false;  // suspended, but the template is not restored yet
  bool active = false;    // pods of it still run: its quota is not free
  bool deleting = false;
  std::optional<Finished> finished;
  bool pods_ready = false;
  bool pods_failed = false;  // a pod failed after all were ready (recovery)
  std::map<std::string, std::int32_t, std::less<>> reclaimable;
};

// What admission adds to the pods of one pod set.
struct PodSetInfo {
  std::string name;
  std::int32_t count = 0;
  api::StringMap labels;
  api::StringMap annotations;
  api::StringMap node_selector;
  std::vector<api::Json> tolerations;
  std::vector<std::string> gates;
};

// Adds `b` to `a`.
// Errors   kInvalid where both set one key to different values: "conflict for nodeSelector:
// key=zone, value1=a, value2=b".
[[nodiscard]] Status MergeInfo(PodSetInfo& a, const PodSetInfo& b);

// JSON merge patch that turns `from` into `to` (RFC 7396): members differ or vanish, lists are
// replaced whole. Empty object: nothing to do.
[[nodiscard]] api::Json MergeDiff(const api::Json& from, const api::Json& to);

// The template with what `info` says: labels, annotations, node selectors, tolerations, gates.
// Errors   kInvalid where the template already has a key with another value.
[[nodiscard]] Result<api::Json> MergeTemplate(const api::Json& pod_template,
                                              const PodSetInfo& info);

// A toleration as the API writes it.
[[nodiscard]] api::Json ToJson(const api::Toleration& toleration);

// topologyRequest out of the template's annotations; null without any. `index_label` names the
// pods' rank label, may be empty.
[[nodiscard]] api::Json TopologyRequestOf(const api::StringMap& annotations,
                                          std::string_view index_label);

// Removes all but the last of the env entries with one name in each container. Returns the argument
// when there is nothing to remove.
[[nodiscard]] api::JsonPtr DropDuplicateEnv(const api::JsonPtr& pod_template);

// Same job? Counts, minCount, containers and init containers (quantities compared by value),
// tolerations unless `admitted`; while the Workload holds no quota also node selector, affinity,
// claims, runtime class and priority class, so that an edit of a held job is seen.
[[nodiscard]] bool EquivalentPodSets(const std::vector<UnitPodSet>& job,
                                     const std::vector<api::PodSet>& workload,
                                     const std::optional<api::Admission>& admission,
                                     bool admitted,
                                     bool compare_placement);

// lower(kind)-name cut to 247, then "-" and 5 hex digits of SHA-1 over kind, group, name, uid.
[[nodiscard]] std::string WorkloadName(std::string_view kind,
                                       std::string_view group,
                                       std::string_view name,
                                       std::string_view uid);

// Priority of a new Workload.
struct ResolvedPriority {
  std::string group;  // empty: no reference
  std::string kind;
  std::string name;
  std::int32_t value = 0;
};
// The complete Workload object to create.
[[nodiscard]] api::Json BuildWorkload(const Unit& unit, const ResolvedPriority& priority);
// spec.podSets of the Workload.
[[nodiscard]] api::Json PodSetsJson(const Unit& unit);

}  // namespace muster::jobs
