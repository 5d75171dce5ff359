#include "sim/registry.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "sim/schema.h"

namespace muster::sim {
namespace {

// Letters of `flags`: N namespaced, S status, G generation, M status writes leave metadata alone, V
// a PUT must carry resourceVersion, R review (POST only), C scale, A category "all".
struct Row {
  const char* group;
  const char* version;
  const char* kind;
  const char* plural;
  const char* short_names;
  const char* flags;
  const char* subresources;
};

constexpr Row kRows[] = {
    {"", "v1", "Namespace", "namespaces", "ns", "S", "finalize"},
    {"", "v1", "Node", "nodes", "no", "S", ""},
    {"", "v1", "Pod", "pods", "po", "NSGA", "binding,eviction,resize,ephemeralcontainers"},
    {"", "v1", "Binding", "bindings", "", "NR", ""},
    {"", "v1", "Service", "services", "svc", "NSA", ""},
    {"", "v1", "Endpoints", "endpoints", "ep", "N", ""},
    {"", "v1", "ConfigMap", "configmaps", "cm", "N", ""},
    {"", "v1", "Secret", "secrets", "", "N", ""},
    {"", "v1", "ServiceAccount", "serviceaccounts", "sa", "N", ""},
    {"", "v1", "LimitRange", "limitranges", "limits", "N", ""},
    {"", "v1", "ResourceQuota", "resourcequotas", "quota", "NS", ""},
    {"", "v1", "PodTemplate", "podtemplates", "", "NG", ""},
    {"", "v1", "PersistentVolume", "persistentvolumes", "pv", "S", ""},
    {"", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc", "NS", ""},
    {"", "v1", "Event", "events", "ev", "N", ""},
    {"events.k8s.io", "v1", "Event", "events", "ev", "N", ""},
    {"apps", "v1", "Deployment", "deployments", "deploy", "NSGCA", ""},
    {"apps", "v1", "ReplicaSet", "replicasets", "rs", "NSGCA", ""},
    {"apps", "v1", "StatefulSet", "statefulsets", "sts", "NSGCA", ""},
    {"apps", "v1", "DaemonSet", "daemonsets", "ds", "NSGA", ""},
    {"apps", "v1", "ControllerRevision", "controllerrevisions", "", "N", ""},
    {"batch", "v1", "Job", "jobs", "", "NSGA", ""},
    {"batch", "v1", "CronJob", "cronjobs", "cj", "NSGA", ""},
    {"coordination.k8s.io", "v1", "Lease", "leases", "", "N", ""},
    {"scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", "pc", "G", ""},
    {"scheduling.k8s.io", "v1beta1", "Workload", "workloads", "", "NV", ""},
    {"scheduling.k8s.io", "v1beta1", "PodGroup", "podgroups", "", "NSMV", ""},
    {"scheduling.k8s.io", "v1alpha3", "CompositePodGroup", "compositepodgroups", "", "NSMV", ""},
    {"node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", "", "", ""},
    {"policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", "pdb", "NSG", ""},
    {"resource.k8s.io", "v1", "DeviceClass", "deviceclasses", "", "GV", ""},
    {"resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", "", "NSMV", ""},
    {"resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates", "", "NV", ""},
    {"resource.k8s.io", "v1", "ResourceSlice", "resourceslices", "", "GV", ""},
    {"resource.k8s.io", "v1", "DeviceTaintRule", "devicetaintrules", "", "SGMV", ""},
    {"storage.k8s.io", "v1", "StorageClass", "storageclasses", "sc", "", ""},
    {"admissionregistration.k8s.io",
     "v1",
     "ValidatingAdmissionPolicy",
     "validatingadmissionpolicies",
     "",
     "SGM",
     ""},
    {"admissionregistration.k8s.io",
     "v1",
     "ValidatingAdmissionPolicyBinding",
     "validatingadmissionpolicybindings",
     "",
     "G",
     ""},
    {"admissionregistration.k8s.io",
     "v1",
     "MutatingAdmissionPolicy",
     "mutatingadmissionpolicies",
     "",
     "G",
     ""},
    {"admissionregistration.k8s.io",
     "v1",
     "MutatingAdmissionPolicyBinding",
     "mutatingadmissionpolicybindings",
     "",
     "G",
     ""},
    {"admissionregistration.k8s.io",
     "v1",
     "ValidatingWebhookConfiguration",
     "validatingwebhookconfigurations",
     "",
     "G",
     ""},
    {"admissionregistration.k8s.io",
     "v1",
     "MutatingWebhookConfiguration",
     "mutatingwebhookconfigurations",
     "",
     "G",
     ""},
    {"apiextensions.k8s.io",
     "v1",
     "CustomResourceDefinition",
     "customresourcedefinitions",
     "crd,crds",
     "SGM",
     ""},
    {"rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", "", "", ""},
    {"rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", "", "", ""},
    {"rbac.authorization.k8s.io", "v1", "Role", "roles", "", "N", ""},
    {"rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", "", "N", ""},
    {"authorization.k8s.io",
     "v1",
     "SelfSubjectAccessReview",
     "selfsubjectaccessreviews",
     "",
     "R",
     ""},
    {"authorization.k8s.io",
     "v1",
     "SelfSubjectRulesReview",
     "selfsubjectrulesreviews",
     "",
     "R",
     ""},
    {"authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", "", "R", ""},
    {"authorization.k8s.io",
     "v1",
     "LocalSubjectAccessReview",
     "localsubjectaccessreviews",
     "",
     "NR",
     ""},
    {"authentication.k8s.io", "v1", "TokenReview", "tokenreviews", "", "R", ""},
    {"authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", "", "R", ""},
};

}  // namespace

std::tuple<int, int, int> VersionRank(const std::string& version) {
  int major = 0;
  int minor = 0;
  std::size_t at = 1;
  if (version.empty() || version[0] != 'v') {
    return {-1, 0, 0};
  }
  while (at < version.size() && version[at] >= '0' && version[at] <= '9' && major < 100'000) {
    major = major * 10 + (version[at++] - '0');
  }
  const std::string_view rest = std::string_view(version).substr(at);
  const int stage = rest.empty()                ? 2
                    : rest.starts_with("beta")  ? 1
                    : rest.starts_with("alpha") ? 0
                                                : -1;
  for (std::size_t i = stage == 1 ? 4 : 5; stage < 2 && i < rest.size() && minor < 100'000; ++i) {
    minor = minor * 10 + (rest[i] >= '0' && rest[i] <= '9' ? rest[i] - '0' : 0);
  }
  return {stage, major, minor};
}

const ResourceVersionInfo* ResourceInfo::Version(std::string_view name) const {
  const auto it = std::ranges::find(versions, name, &ResourceVersionInfo::name);
  return it == versions.end() ? nullptr : &*it;
}

const ResourceVersionInfo& ResourceInfo::Storage() const {
  const auto it = std::ranges::find_if(versions, &ResourceVersionInfo::storage);
  MUSTER_CHECK(it != versions.end());
  return *it;
}

std::string ResourceInfo::ApiVersion(std::string_view version) const {
  return group.empty() ? std::string(version) : group + "/" + std::string(version);
}

Registry::Registry() {
  for (const Row& row : kRows) {
    const std::string_view flags = row.flags;
    ResourceInfo info;
    info.group = row.group;
    info.plural = row.plural;
    info.kind = row.kind;
    info.singular = ToLower(row.kind);
    info.list_kind = std::string(row.kind) + "List";
    if (*row.short_names != '\0') {
      info.short_names = Split(row.short_names, ',');
    }
    if (flags.contains('A')) {
      info.categories = {"all"};
    }
    info.namespaced = flags.contains('N');
    info.create_only = flags.contains('R');
    info.generation = flags.contains('G');
    info.status_keeps_metadata = flags.contains('M');
    info.requires_version_on_put = flags.contains('V');
    if (*row.subresources != '\0') {
      info.subresources = Split(row.subresources, ',');
    }
    ResourceVersionInfo version;
    version.name = row.version;
    version.status = flags.contains('S');
    version.scale = flags.contains('C');
    version.schema = BuiltinTypes::Get().Find(row.group, row.version, row.kind);
    info.versions.push_back(std::move(version));
    Put(std::move(info));
  }
}

const ResourceInfo* Registry::Find(std::string_view group, std::string_view plural) const {
  std::string key(group);
  key += '/';
  key += plural;
  const auto it = resources_.find(key);
  return it == resources_.end() ? nullptr : &it->second;
}

const ResourceInfo* Registry::FindKind(std::string_view group, std::string_view kind) const {
  for (auto it = resources_.lower_bound(std::string(group) + "/"); it != resources_.end(); ++it) {
    if (it->second.group != group) {
      break;
    }
    if (it->second.kind == kind) {
      return &it->second;
    }
  }
  return nullptr;
}

void Registry::Put(ResourceInfo info) {
  ++revision_;
  std::string key = info.key();
  resources_.insert_or_assign(std::move(key), std::move(info));
}

void Registry::Remove(std::string_view key) {
  const auto it = resources_.find(key);
  if (it != resources_.end()) {
    ++revision_;
    resources_.erase(it);
  }
}

}  // namespace muster::sim
