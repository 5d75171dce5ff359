#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace muster::api {

// Every kind that Muster reads or writes. The order is the order in which kinds are synced at
// start: what others refer to comes first.
enum class Kind : std::uint8_t {
  kNamespace,
  kNode,
  kPriorityClass,
  kLimitRange,
  kRuntimeClass,
  kDeviceClass,
  kResourceSlice,
  kDeviceTaintRule,
  kResourceClaimTemplate,
  kResourceClaim,
  kResourceFlavor,
  kTopology,
  kAdmissionCheck,
  kWorkloadPriorityClass,
  kProvisioningRequestConfig,
  kMultiKueueConfig,
  kMultiKueueCluster,
  kCohort,
  kClusterQueue,
  kLocalQueue,
  kWorkload,
  kNativeWorkload,
  kPodGroup,
  kCompositePodGroup,
  kJob,
  kPod,
  kLease,
  kEvent,
};
inline constexpr std::size_t kKindCount = 28;

struct KindInfo {
  Kind kind;
  std::string_view group;    // "" for core
  std::string_view version;  // the version that Muster speaks
  std::string_view name;     // "Workload"
  std::string_view plural;   // "workloads"
  bool namespaced;

  [[nodiscard]] std::string ApiVersion() const;  // "kueue.x-k8s.io/v1beta2", "v1"
};

[[nodiscard]] const KindInfo& Info(Kind kind);
[[nodiscard]] std::span<const KindInfo> AllKinds();
[[nodiscard]] std::optional<Kind> FindKind(std::string_view group, std::string_view kind_name);

// Path of a collection or of one object: "/apis/batch/v1/namespaces/a/jobs/x". `ns` is ignored for
// cluster-scoped kinds; an empty `ns` means all namespaces, an empty `name` the collection.
// `subresource` may be empty.
[[nodiscard]] std::string Path(Kind kind,
                               std::string_view ns,
                               std::string_view name,
                               std::string_view subresource = {});

}  // namespace muster::api
