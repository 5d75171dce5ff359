#include "api/kind.h"

#include "base/check.h"
#include "base/strings.h"

namespace muster::api {
namespace {

constexpr std::string_view kQueueing = "kueue.x-k8s.io";
constexpr std::string_view kDra = "resource.k8s.io";
constexpr std::string_view kNative = "scheduling.k8s.io";

// One row a kind, in the order of the enumeration.
constexpr std::array<KindInfo, kKindCount> kTable = {{
    {Kind::kNamespace, "", "v1", "Namespace", "namespaces", false},
    {Kind::kNode, "", "v1", "Node", "nodes", false},
    {Kind::kPriorityClass, kNative, "v1", "PriorityClass", "priorityclasses", false},
    {Kind::kLimitRange, "", "v1", "LimitRange", "limitranges", true},
    {Kind::kRuntimeClass, "node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", false},
    {Kind::kDeviceClass, kDra, "v1", "DeviceClass", "deviceclasses", false},
    {Kind::kResourceSlice, kDra, "v1", "ResourceSlice", "resourceslices", false},
    {Kind::kDeviceTaintRule, kDra, "v1", "DeviceTaintRule", "devicetaintrules", false},
    {Kind::kResourceClaimTemplate,
     kDra,
     "v1",
     "ResourceClaimTemplate",
     "resourceclaimtemplates",
     true},
    {Kind::kResourceClaim, kDra, "v1", "ResourceClaim", "resourceclaims", true},
    {Kind::kResourceFlavor, kQueueing, "v1beta2", "ResourceFlavor", "resourceflavors", false},
    {Kind::kTopology, kQueueing, "v1beta2", "Topology", "topologies", false},
    {Kind::kAdmissionCheck, kQueueing, "v1beta2", "AdmissionCheck", "admissionchecks", false},
    {Kind::kWorkloadPriorityClass,
     kQueueing,
     "v1beta2",
     "WorkloadPriorityClass",
     "workloadpriorityclasses",
     false},
    {Kind::kProvisioningRequestConfig,
     kQueueing,
     "v1beta2",
     "ProvisioningRequestConfig",
     "provisioningrequestconfigs",
     false},
    {Kind::kMultiKueueConfig, kQueueing, "v1beta2", "MultiKueueConfig", "multikueueconfigs", false},
    {Kind::kMultiKueueCluster,
     kQueueing,
     "v1beta2",
     "MultiKueueCluster",
     "multikueueclusters",
     false},
    {Kind::kCohort, kQueueing, "v1beta2", "Cohort", "cohorts", false},
    {Kind::kClusterQueue, kQueueing, "v1beta2", "ClusterQueue", "clusterqueues", false},
    {Kind::kLocalQueue, kQueueing, "v1beta2", "LocalQueue", "localqueues", true},
    {Kind::kWorkload, kQueueing, "v1beta2", "Workload", "workloads", true},
    {Kind::kNativeWorkload, kNative, "v1beta1", "Workload", "workloads", true},
    {Kind::kPodGroup, kNative, "v1beta1", "PodGroup", "podgroups", true},
    {Kind::kCompositePodGroup,
     kNative,
     "v1alpha3",
     "CompositePodGroup",
     "compositepodgroups",
     true},
    {Kind::kJob, "batch", "v1", "Job", "jobs", true},
    {Kind::kPod, "", "v1", "Pod", "pods", true},
    {Kind::kLease, "coordination.k8s.io", "v1", "Lease", "leases", true},
    {Kind::kEvent, "events.k8s.io", "v1", "Event", "events", true},
}};

constexpr bool TableInOrder() {
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (static_cast<std::size_t>(kTable[i].kind) != i) {
      return false;
    }
  }
  return true;
}
static_assert(TableInOrder());

}  // namespace

std::string KindInfo::ApiVersion() const {
  return group.empty() ? std::string(version) : std::string(group) + "/" + std::string(version);
}

const KindInfo& Info(Kind kind) {
  const auto index = static_cast<std::size_t>(kind);
  MUSTER_CHECK(index < kTable.size());
  return kTable[index];
}

std::span<const KindInfo> AllKinds() {
  return kTable;
}

std::optional<Kind> FindKind(std::string_view group, std::string_view kind_name) {
  for (const KindInfo& info : kTable) {
    if (info.group == group && info.name == kind_name) {
      return info.kind;
    }
  }
  return std::nullopt;
}

std::string Path(Kind kind,
                 std::string_view ns,
                 std::string_view name,
                 std::string_view subresource) {
  const KindInfo& info = Info(kind);
  std::string out = info.group.empty() ? "/api/" : "/apis/" + std::string(info.group) + "/";
  out += info.version;
  if (info.namespaced && !ns.empty()) {
    out += "/namespaces/" + PercentEncode(ns);
  }
  out += "/";
  out += info.plural;
  if (!name.empty()) {
    out += "/" + PercentEncode(name);
    if (!subresource.empty()) {
      out += "/";
      out += subresource;
    }
  }
  return out;
}

}  // namespace muster::api
