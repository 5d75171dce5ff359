#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/json.h"
#include "api/metadata.h"
#include "base/resource_vector.h"

// The fields of core/v1, node.k8s.io and scheduling.k8s.io/v1 PriorityClass that Muster reads.
namespace muster::api {

struct Namespace {
  ObjectMeta meta;
};

struct Taint {
  std::string key;
  std::string value;
  std::string effect;  // NoSchedule, PreferNoSchedule, NoExecute
};

struct Toleration {
  std::string key;
  std::string op;  // Exists, Equal ("" means Equal), Lt, Gt
  std::string value;
  std::string effect;  // "" matches all
  std::optional<std::int64_t> toleration_seconds;
};
[[nodiscard]] bool Tolerates(const Toleration& toleration, const Taint& taint);

struct NodeSelectorRequirement {
  std::string key;
  std::string op;  // In, NotIn, Exists, DoesNotExist, Gt, Lt
  std::vector<std::string> values;
};
// Requirements are AND-ed. A term without any requirement matches nothing.
struct NodeSelectorTerm {
  std::vector<NodeSelectorRequirement> match_expressions;
  std::vector<NodeSelectorRequirement> match_fields;  // only metadata.name
};
// Terms are OR-ed. `present` false: no restriction.
struct NodeSelector {
  bool present = false;
  std::vector<NodeSelectorTerm> terms;
};
struct PreferredTerm {
  std::int32_t weight = 0;
  NodeSelectorTerm term;
};

struct Node {
  ObjectMeta meta;
  bool unschedulable = false;
  bool ready = true;  // condition Ready; absent counts as ready
  std::vector<Taint> taints;
  ResourceVector allocatable;  // cpu in milli; includes "pods"
};

struct ContainerPort {
  std::int32_t host_port = 0;
  std::string protocol;
  std::string host_ip;
};
struct Container {
  std::string name;
  ResourceVector requests;
  ResourceVector limits;
  bool has_requests = false;
  bool restart_always = false;  // a sidecar among the init containers
  std::vector<ContainerPort> ports;
  std::vector<std::string> claims;  // resources.claims[].name
};

struct PodResourceClaim {
  std::string name;
  std::string claim_name;     // resourceClaimName, or empty
  std::string template_name;  // resourceClaimTemplateName, or empty
};

struct PodSpec {
  std::vector<Container> containers;
  std::vector<Container> init_containers;
  ResourceVector overhead;
  bool has_pod_resources = false;  // spec.resources (pod level)
  ResourceVector pod_requests;
  ResourceVector pod_limits;
  StringMap node_selector;
  NodeSelector required_affinity;
  std::vector<PreferredTerm> preferred_affinity;
  bool has_pod_affinity = false;  // podAffinity or podAntiAffinity, required terms
  bool has_spread_constraints = false;
  std::vector<Toleration> tolerations;
  std::string runtime_class;
  std::string priority_class;
  std::optional<std::int32_t> priority;
  std::string scheduler_name;
  std::string node_name;
  std::string scheduling_group;  // schedulingGroup.podGroupName
  std::vector<std::string> scheduling_gates;
  std::vector<PodResourceClaim> claims;

  [[nodiscard]] bool HasGate(std::string_view gate) const;
};

// A pod template as the job carries it. `raw` is the whole template ({metadata, spec}) for building
// Workloads and for exact restoration.
struct PodTemplate {
  StringMap labels;
  StringMap annotations;
  PodSpec spec;
  JsonPtr raw;
};

struct ClaimStatus {
  std::string name;        // pod.spec.resourceClaims[].name
  std::string claim_name;  // empty: no claim needed
};

struct Pod {
  ObjectMeta meta;
  PodSpec spec;
  std::string phase;  // Pending, Running, Succeeded, Failed
  std::vector<Condition> conditions;
  std::vector<ClaimStatus> claim_statuses;
  std::string extended_claim;  // status.extendedResourceClaimStatus.resourceClaimName
  // {metadata, spec} of the pod as received; only kept where `meta` names a queue, a pod group, or
  // the pod carries a gate (others: null).
  JsonPtr raw;

  [[nodiscard]] bool terminated() const { return phase == "Succeeded" || phase == "Failed"; }
};

// What the scheduler charges for one pod: containers and sidecars, max with init steps, pod-level
// requests override, plus overhead. Missing requests are taken from limits. Negative amounts count
// as 0. Does not contain "pods".
[[nodiscard]] ResourceVector PodRequests(const PodSpec& spec);

struct PriorityClass {
  ObjectMeta meta;
  std::int32_t value = 0;
  bool global_default = false;
};

struct RuntimeClass {
  ObjectMeta meta;
  ResourceVector overhead;
  StringMap node_selector;
  std::vector<Toleration> tolerations;
};

struct LimitRangeItem {
  std::string type;  // Container, Pod, PersistentVolumeClaim
  ResourceVector max;
  ResourceVector min;
  ResourceVector default_limit;
  ResourceVector default_request;
};
struct LimitRange {
  ObjectMeta meta;
  std::vector<LimitRangeItem> limits;
};

}  // namespace muster::api
