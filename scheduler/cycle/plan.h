#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/metadata.h"
#include "api/queueing.h"
#include "base/resource_vector.h"
#include "base/time.h"
#include "scheduler/placement/placement.h"

// What one decision cycle answers. Values only; the controller turns them into writes.
namespace muster::scheduler {

// Names the version of a Workload that a decision was made on. If the object has moved, the decision is dropped and the Workload requeued.
struct WorkloadRef {
  api::ObjectKey key;
  std::string uid;
  std::string resource_version;
};

struct PodSetDecision {
  std::string name;
  api::StringMap flavors;      // resource -> flavor
  ResourceVector usage;        // total of the pod set, charged against quota
  std::int32_t count = 0;      // granted pods
};

struct AdmissionDecision {
  WorkloadRef workload;
  std::string cluster_queue;
  std::vector<PodSetDecision> pod_sets;
  std::optional<placement::GangRequest> gang;    // what was placed; absent when no capacity was checked
  std::optional<placement::Placement> placement;
  bool admitted = false;  // no admission check is pending: Admitted is written together with QuotaReserved
  bool pin_nodes = false;  // kube-scheduler could spoil the placement: pods are gated and pinned to their node
};

// Why a Workload waits. One verdict feeds the condition, the event, the metric and `explain`.
struct Verdict {
  std::string reason;   // reference reason of QuotaReserved=False: WaitingForQuota, ExceedsMaxQuota, NoMatchingFlavor, TopologyPlacementFailed,
                        // Misconfigured, Suspended, PendingEvaluation, ...; capacity refusals use TopologyPlacementFailed or
                        // InsufficientCapacity
  std::string message;  // a sentence with numbers
  std::string would_fit_if;  // what would make it fit; may be empty
  friend bool operator==(const Verdict&, const Verdict&) = default;
};
struct Refusal {
  WorkloadRef workload;
  Verdict verdict;
};

struct PreemptionDecision {
  WorkloadRef victim;
  WorkloadRef preemptor;
  std::string preemptor_queue;
  std::string reason;  // InClusterQueue, InCohortReclamation, InCohortFairSharing, InCohortReclaimWhileBorrowing
};

struct Plan {
  std::uint64_t snapshot_generation = 0;
  std::vector<AdmissionDecision> admissions;
  std::vector<Refusal> refusals;  // only those evaluated in this cycle
  std::vector<PreemptionDecision> preemptions;
  std::int64_t steps = 0;
};

}  // namespace muster::scheduler
