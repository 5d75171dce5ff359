#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/metadata.h"
#include "api/queueing.h"
#include "base/resource_vector.h"
#include "base/result.h"
#include "base/time.h"
#include "quota/tree.h"
#include "scheduler/placement/placement.h"

// What one decision cycle answers. Values only; the controller turns them into writes.
namespace muster::scheduler {

// Names the version of a Workload that a decision was made on. If the object has moved, the
// decision is dropped and the Workload requeued.
struct WorkloadRef {
  api::ObjectKey key;
  std::string uid;
  std::string resource_version;
};

struct PodSetDecision {
  std::string name;
  api::StringMap flavors;  // resource -> flavor
  ResourceVector usage;    // total of the pod set, charged against quota
  std::int32_t count = 0;  // granted pods
};

struct AdmissionDecision {
  WorkloadRef workload;
  std::string cluster_queue;
  std::vector<PodSetDecision> pod_sets;
  std::optional<placement::GangRequest>
      gang;  // what was placed; absent when no capacity was checked
  std::optional<placement::Placement> placement;
  bool admitted =
      false;  // no admission check is pending: Admitted is written together with QuotaReserved
  bool pin_nodes =
      false;  // kube-scheduler could spoil the placement: pods are gated and pinned to their node
};

// Why a Workload waits. One verdict feeds the condition, the event, the metric and `explain`.
struct Verdict {
  std::string reason;  // reference reason of QuotaReserved=False: WaitingForQuota, ExceedsMaxQuota,
                       // NoMatchingFlavor, TopologyPlacementFailed, Misconfigured, Suspended,
                       // PendingEvaluation, ...; capacity refusals use TopologyPlacementFailed or
                       // InsufficientCapacity
  std::string message;       // a sentence with numbers
  std::string would_fit_if;  // what would make it fit; may be empty
  friend bool operator==(const Verdict&, const Verdict&) = default;
};
// What must move before the same Workload could get another answer. Configuration (queues, flavors,
// cohorts, namespaces) always counts.
struct WakeOn {
  bool quota = false;       // somebody in the cohort tree gives quota back
  bool capacity = false;    // nodes, pods or devices
  bool pods_ready = false;  // an admitted Workload becomes ready (blockAdmission)
  // The answer was not found within the step budget: try again after this long, whatever happens.
  std::optional<Duration> retry_after;
};
struct Refusal {
  WorkloadRef workload;
  Verdict verdict;
  std::string digest;  // of the shape that was refused: the verdict holds for all that are alike
  WakeOn wake;
  // Quota within the nominal quota of its own queue that is held against borrowers while this
  // Workload waits.
  std::vector<std::pair<quota::FlavorResource, Amount>> held;
  // Not evaluated by this cycle: a queue that does not exist or is inactive, an invalid Workload,
  // ...
  bool standing = false;
};

struct PreemptionDecision {
  WorkloadRef victim;
  WorkloadRef preemptor;
  std::string preemptor_queue;
  std::string reason;  // InClusterQueue, InCohortReclamation, InCohortFairSharing,
                       // InCohortReclaimWhileBorrowing
};

// The preemptor's plan is held until its victims have gone and it is looked at again.
struct ClaimDecision {
  WorkloadRef preemptor;
  std::string cluster_queue;
  std::vector<std::pair<quota::FlavorResource, Amount>> usage;
  std::set<api::ObjectKey> victims;
  std::optional<placement::GangRequest> gang;
  std::optional<placement::Placement> placement;
};

struct Plan {
  std::uint64_t snapshot_generation = 0;
  std::vector<AdmissionDecision> admissions;
  std::vector<Refusal> refusals;  // only those evaluated in this cycle
  std::vector<PreemptionDecision> preemptions;
  std::vector<ClaimDecision> claims;  // new ones, and those that stand in their place
  std::set<api::ObjectKey> dropped;   // preemptors whose claim ends
  std::int64_t steps = 0;
};

// Node plan of an admission as it travels in annotation muster.dev/placement on the Workload, so
// that a restart finds promises again:
// {"main":[["node-1",4],["node-2",4]]}, runs of pods in order of rank. Pods without a node
// (Elastic) have an empty name.
using NodeRuns = std::vector<std::pair<std::string, std::int32_t>>;
inline constexpr std::string_view kPlacementAnnotation = "muster.dev/placement";
[[nodiscard]] std::string EncodePlacement(const placement::GangRequest& gang,
                                          const placement::Placement& placement);
// Errors   kInvalid: not such an object, more than 1,000,000 pods in a set, a negative count.
[[nodiscard]] Result<std::map<std::string, NodeRuns, std::less<>>> DecodePlacement(
    std::string_view text);

}  // namespace muster::scheduler
