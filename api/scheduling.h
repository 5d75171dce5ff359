#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/core.h"
#include "api/metadata.h"

// The native scheduling.k8s.io kinds (v1beta1 Workload and PodGroup, v1alpha3 CompositePodGroup).
// Always called native in this code base.
namespace muster::api {

struct NativeWorkload {
  ObjectMeta meta;
  std::string controller_group;
  std::string controller_kind;
  std::string controller_name;
  std::vector<std::string> template_names;
};

struct PodGroup {
  ObjectMeta meta;
  std::string workload_name;  // spec.workloadRef
  std::string template_name;
  std::string parent_composite;
  bool gang = false;
  std::int32_t min_count = 0;  // gang.minCount
  std::string topology_key;    // schedulingConstraints.topology[0].key
  std::vector<PodResourceClaim> claims;
  std::vector<ClaimStatus> claim_statuses;
  std::optional<std::int32_t> priority;
};

struct CompositePodGroup {
  ObjectMeta meta;
  std::string workload_name;
  std::string parent_composite;
  bool gang = false;
  std::int32_t min_group_count = 0;
};

}  // namespace muster::api
