#pragma once

#include <string_view>

// Labels, annotations, gates and finalizers that jobs and pods carry (kueue.x-k8s.io is the
// reference's vocabulary, muster.dev our own).
namespace muster::jobs {

inline constexpr std::string_view kQueueLabel = "kueue.x-k8s.io/queue-name";
inline constexpr std::string_view kPriorityClassLabel = "kueue.x-k8s.io/priority-class";
inline constexpr std::string_view kPrebuiltWorkload =
    "kueue.x-k8s.io/prebuilt-workload-name";  // label or annotation
inline constexpr std::string_view kMaxExecLabel = "kueue.x-k8s.io/max-exec-time-seconds";
inline constexpr std::string_view kJobUidLabel = "kueue.x-k8s.io/job-uid";
inline constexpr std::string_view kManagedLabel = "kueue.x-k8s.io/managed";
inline constexpr std::string_view kPodSetLabel = "kueue.x-k8s.io/podset";
inline constexpr std::string_view kLocalQueueLabel = "kueue.x-k8s.io/local-queue-name";
inline constexpr std::string_view kClusterQueueLabel = "kueue.x-k8s.io/cluster-queue-name";
inline constexpr std::string_view kPodIndexLabel = "kueue.x-k8s.io/pod-group-pod-index";

inline constexpr std::string_view kWorkloadAnnotation = "kueue.x-k8s.io/workload";
inline constexpr std::string_view kAdmissionGatedBy = "kueue.x-k8s.io/admission-gated-by";
inline constexpr std::string_view kMinParallelism = "kueue.x-k8s.io/job-min-parallelism";
inline constexpr std::string_view kCompletionsEqualParallelism =
    "kueue.x-k8s.io/job-completions-equal-parallelism";
inline constexpr std::string_view kStopping = "kueue.x-k8s.io/stopping";
inline constexpr std::string_view kElasticJob = "kueue.x-k8s.io/elastic-job";
inline constexpr std::string_view kPodGroupName =
    "kueue.x-k8s.io/pod-group-name";  // label or annotation
inline constexpr std::string_view kPodGroupTotal = "kueue.x-k8s.io/pod-group-total-count";
inline constexpr std::string_view kFastAdmission = "kueue.x-k8s.io/pod-group-fast-admission";
inline constexpr std::string_view kServing = "kueue.x-k8s.io/pod-group-serving";
inline constexpr std::string_view kRoleHash = "kueue.x-k8s.io/role-hash";
inline constexpr std::string_view kRetriable = "kueue.x-k8s.io/retriable-in-group";
inline constexpr std::string_view kIsGroupWorkload = "kueue.x-k8s.io/is-group-workload";

inline constexpr std::string_view kRequiredTopology = "kueue.x-k8s.io/podset-required-topology";
inline constexpr std::string_view kPreferredTopology = "kueue.x-k8s.io/podset-preferred-topology";
inline constexpr std::string_view kUnconstrainedTopology =
    "kueue.x-k8s.io/podset-unconstrained-topology";
inline constexpr std::string_view kSliceRequiredTopology =
    "kueue.x-k8s.io/podset-slice-required-topology";
inline constexpr std::string_view kSliceSize = "kueue.x-k8s.io/podset-slice-size";
inline constexpr std::string_view kSliceConstraints =
    "kueue.x-k8s.io/podset-slice-required-topology-constraints";
inline constexpr std::string_view kPodSetGroup = "kueue.x-k8s.io/podset-group-name";

inline constexpr std::string_view kAdmissionGate = "kueue.x-k8s.io/admission";
inline constexpr std::string_view kTopologyGate = "kueue.x-k8s.io/topology";
inline constexpr std::string_view kPlacementGate = "muster.dev/placement";
inline constexpr std::string_view kResourceInUse = "kueue.x-k8s.io/resource-in-use";  // finalizer
inline constexpr std::string_view kManagedFinalizer =
    "kueue.x-k8s.io/managed";  // finalizer of pods

inline constexpr std::string_view kCompletionIndex = "batch.kubernetes.io/job-completion-index";

}  // namespace muster::jobs
