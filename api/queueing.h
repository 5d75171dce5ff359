#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/core.h"
#include "api/metadata.h"
#include "api/quantity.h"

// kueue.x-k8s.io/v1beta2.
namespace muster::api {

enum class StopPolicy : std::uint8_t { kNone, kHold, kHoldAndDrain };

struct ResourceFlavor {
  ObjectMeta meta;
  StringMap node_labels;
  std::vector<Taint> node_taints;
  std::vector<Toleration> tolerations;
  std::string topology_name;
};

struct ResourceQuota {
  std::string name;
  Amount nominal;
  std::optional<Amount> borrowing_limit;
  std::optional<Amount> lending_limit;
  // As written, for status and messages.
  Quantity nominal_quantity;
};
struct FlavorQuotas {
  std::string name;
  std::vector<ResourceQuota> resources;
};
struct ResourceGroup {
  std::vector<std::string> covered_resources;
  std::vector<FlavorQuotas> flavors;  // in order of preference
};

enum class PreemptionPolicy : std::uint8_t {
  kNever,
  kLowerPriority,
  kLowerOrNewerEqualPriority,
  kAny
};
struct ClusterQueuePreemption {
  PreemptionPolicy reclaim_within_cohort = PreemptionPolicy::kNever;
  PreemptionPolicy within_cluster_queue = PreemptionPolicy::kNever;
  PreemptionPolicy borrow_within_cohort = PreemptionPolicy::kNever;  // kNever or kLowerPriority
  std::optional<std::int32_t> borrow_max_priority_threshold;
};
struct FlavorFungibility {
  bool can_borrow_try_next = false;  // whenCanBorrow: TryNextFlavor
  bool can_preempt_try_next = true;  // whenCanPreempt: TryNextFlavor
  bool preemption_over_borrowing = false;
};
struct AdmissionCheckRule {
  std::string name;
  std::vector<std::string> on_flavors;
};

struct ClusterQueue {
  ObjectMeta meta;
  std::string cohort;
  std::vector<ResourceGroup> resource_groups;
  bool strict_fifo = false;
  LabelSelector namespace_selector;
  FlavorFungibility fungibility;
  ClusterQueuePreemption preemption;
  std::vector<AdmissionCheckRule> admission_checks;
  StopPolicy stop_policy = StopPolicy::kNone;
  std::optional<Quantity> fair_weight;
  bool usage_based_fair_sharing = false;
  JsonPtr status;  // as stored, to write only differences; null when absent
};

struct LocalQueue {
  ObjectMeta meta;
  std::string cluster_queue;
  StopPolicy stop_policy = StopPolicy::kNone;
  std::optional<Quantity> fair_weight;
  JsonPtr status;
};

struct Cohort {
  ObjectMeta meta;
  std::string parent;
  std::vector<ResourceGroup> resource_groups;
  std::optional<Quantity> fair_weight;
  JsonPtr status;
};

struct SliceConstraint {
  std::string topology;
  std::int32_t size = 1;
};
struct TopologyRequest {
  std::string required;
  std::string preferred;
  bool unconstrained = false;
  std::string pod_index_label;
  std::string sub_group_index_label;
  std::optional<std::int32_t> sub_group_count;
  std::string group_name;
  std::string slice_required;
  std::optional<std::int32_t> slice_size;
  std::vector<SliceConstraint>
      slice_constraints;  // podsetSliceRequiredTopologyConstraints, widest first
};
struct PodSet {
  std::string name = "main";
  PodTemplate pod_template;
  std::int32_t count = 1;
  std::optional<std::int32_t> min_count;
  std::optional<TopologyRequest> topology;
};
struct PriorityClassRef {
  std::string group;
  std::string kind;
  std::string name;
};

struct TopologyDomainAssignment {
  std::vector<std::string> values;  // one per level
  std::int32_t count = 0;
};
struct TopologyAssignment {
  std::vector<std::string> levels;
  std::vector<TopologyDomainAssignment> domains;  // decoded from the slices
};
struct PodSetAssignment {
  std::string name = "main";
  StringMap flavors;                                            // resource -> flavor
  std::map<std::string, Quantity, std::less<>> resource_usage;  // totals of the pod set
  std::optional<std::int32_t> count;
  std::optional<TopologyAssignment> topology;
  bool delayed_topology_pending = false;
};
struct Admission {
  std::string cluster_queue;
  std::vector<PodSetAssignment> pod_sets;
};

struct PodSetUpdate {
  std::string name;
  StringMap labels;
  StringMap annotations;
  StringMap node_selector;
  std::vector<Toleration> tolerations;
  JsonPtr tolerations_raw;
};
struct AdmissionCheckState {
  std::string name;
  std::string state;  // Pending, Ready, Retry, Rejected
  std::string message;
  std::optional<TimePoint> last_transition_time;
  std::optional<std::int32_t> requeue_after_seconds;
  std::optional<std::int32_t> retry_count;
  std::vector<PodSetUpdate> pod_set_updates;
  JsonPtr pod_set_updates_raw;
};
struct RequeueState {
  std::optional<std::int32_t> count;
  std::optional<TimePoint> requeue_at;
};

struct Workload {
  ObjectMeta meta;
  // spec
  std::vector<PodSet> pod_sets;
  std::string queue_name;
  std::optional<PriorityClassRef> priority_class;
  std::optional<std::int32_t> priority;
  bool active = true;
  std::optional<std::int32_t> max_execution_seconds;
  // status
  std::vector<Condition> conditions;
  std::optional<Admission> admission;
  std::optional<RequeueState> requeue_state;
  std::map<std::string, std::int32_t, std::less<>> reclaimable_pods;
  std::vector<AdmissionCheckState> admission_checks;
  std::int32_t accumulated_past_execution_seconds = 0;
  JsonPtr status;  // as stored; null when absent

  [[nodiscard]] bool ConditionIsTrue(std::string_view type) const;
  [[nodiscard]] const Condition* FindCondition(std::string_view type) const;
  [[nodiscard]] bool finished() const { return ConditionIsTrue("Finished"); }
  [[nodiscard]] bool quota_reserved() const { return ConditionIsTrue("QuotaReserved"); }
  [[nodiscard]] bool admitted() const { return ConditionIsTrue("Admitted"); }
  [[nodiscard]] bool evicted() const { return ConditionIsTrue("Evicted"); }
};

struct WorkloadPriorityClass {
  ObjectMeta meta;
  std::int32_t value = 0;
};

struct Topology {
  ObjectMeta meta;
  std::vector<std::string> levels;  // node label per level, widest first
};

struct AdmissionCheck {
  ObjectMeta meta;
  std::string controller_name;
  std::vector<Condition> conditions;
};

}  // namespace muster::api
