#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/core.h"
#include "api/json.h"
#include "api/object.h"
#include "api/queueing.h"
#include "api/scheduling.h"
#include "base/result.h"
#include "jobs/unit.h"

// Pods that queue by themselves: single pods, pod groups of the reference, and native groups
// (scheduling.k8s.io). Source: Kueue pkg/controller/jobs/pod, pkg/util/pod; Kubernetes
// pkg/apis/core/validation for what a gated pod lets change.
namespace muster::jobs {

// Held or marked for queueing: the admission gate is there, or the managed label.
[[nodiscard]] bool PodIsManaged(const api::Pod& pod);
[[nodiscard]] bool PodIsHeld(const api::Pod& pod);  // the admission gate is there
[[nodiscard]] bool PodHasPlacementGate(const api::Pod& pod);
// Group name by label or annotation; empty: a single pod.
[[nodiscard]] std::string PodGroupName(const api::Pod& pod);
// Still counts for its group: not failed, and not deleted before it had a node.
[[nodiscard]] bool PodRunnableOrSucceeded(const api::Pod& pod);
// Holds a machine: bound and neither succeeded nor failed.
[[nodiscard]] bool PodOccupiesNode(const api::Pod& pod);
[[nodiscard]] bool PodReady(const api::Pod& pod);

// First 8 hex digits of SHA-256 over the shape of the spec, as Go marshals it; annotation role-hash
// wins.
[[nodiscard]] std::string RoleHash(const api::Pod& pod);

[[nodiscard]] Unit ReadPod(const api::Pod& pod);

// A pod group of the reference. `pods`: all its members, ordered by name. Pod sets by role hash,
// sorted; with fast admission one pod set of the first runnable pod's shape times the total.
// `not_ready` while fewer runnable pods exist than the total says.
[[nodiscard]] Unit ReadPodGroup(const std::string& ns,
                                const std::string& group,
                                const std::vector<api::Ptr<api::Pod>>& pods);

// What is to be done with a group's pods, given its Workload.
struct GroupCleanup {
  bool equivalent = true;  // false: the Workload does not describe these pods any more
  std::vector<api::Ptr<api::Pod>> excess;  // active pods beyond the count of their role: delete
  std::vector<api::Ptr<api::Pod>>
      replaced;             // inactive pods that have replacements: remove their finalizer
  std::int32_t absent = 0;  // replacements that have not come yet
};
[[nodiscard]] GroupCleanup CheckPodGroup(const std::vector<api::Ptr<api::Pod>>& pods,
                                         const api::Workload& workload);
// The pod set of a group's Workload that a member belongs to; empty if none.
[[nodiscard]] std::string PodSetOfMember(const api::Pod& pod, const api::Workload& workload);

// A native gang: all pod groups of one native Workload, or of one composite tree, or a pod group
// alone.
//
// A group counts as complete when its known pods that have not terminated are at least minCount (at
// least one for a basic group), so pods that come later than that are placed as members of their
// own later Workload. The gang is complete when each of its groups is. The whole gang is one
// Workload and all its members are released together: one gated member would keep its group, and so
// all others, unscheduled.
struct NativeGroup {
  std::string name;
  api::Ptr<api::PodGroup> object;        // null: not seen yet
  std::vector<api::Ptr<api::Pod>> pods;  // ordered by name
};
[[nodiscard]] Unit ReadNativeGang(const std::string& ns,
                                  const std::string& root_kind,
                                  const std::string& root_name,
                                  const std::vector<NativeGroup>& groups);
// Name of the pod set of a native member: its group's name, with the role hash where the group has
// several shapes.
[[nodiscard]] std::string NativePodSetName(const std::string& group,
                                           const std::string& role,
                                           bool several_roles);

// Opens the admission, topology and placement gates and adds what admission grants; `node` (may be
// empty) is pinned by appending to every term of the required node affinity. One JSON merge patch
// with resourceVersion. Errors   kInvalid: conflicting keys, or a pod whose text was not kept.
[[nodiscard]] Result<api::Json> PodReleasePatch(const api::Pod& pod,
                                                const PodSetInfo& info,
                                                const std::string& node);
// The node that a pod is pinned to by PodReleasePatch, or bound to; empty otherwise.
[[nodiscard]] std::string NodeOfPod(const api::Pod& pod);
// Without the finalizer kueue.x-k8s.io/managed.
[[nodiscard]] api::Json PodFinalizePatch(const api::Pod& pod);
// Status with the condition TerminationTarget added (written before the pod is deleted).
[[nodiscard]] api::Json PodTerminationPatch(const api::Pod& pod,
                                            std::string_view reason,
                                            std::string_view message,
                                            TimePoint now);

}  // namespace muster::jobs
