#pragma once

#include <string>
#include <vector>

#include "scheduler/cycle/shape.h"
#include "scheduler/cycle/snapshot.h"
#include "scheduler/placement/placement.h"

// From an admission's flavors to what is placed on nodes.
namespace muster::scheduler {

struct CapacityRule {
  bool nodes_bind = true;
  bool devices_bind = true;
  std::string why;  // for `explain`
};

// Whether nodes and devices bind a pod set with these flavors.
//
// Source   design.md 4: an explicit Elastic of any flavor wins, then an explicit Fixed; else
// Elastic if the labels of all flavors together match
//          no node, if a matching node belongs to Karpenter or to a node group that an autoscaler
//          may grow, or if the queue has a ProvisioningRequest check; else Fixed. Devices bind in
//          every mode but an explicit Elastic.
[[nodiscard]] CapacityRule RuleOf(const std::vector<const CompiledFlavor*>& flavors,
                                  bool provisioning_check,
                                  const NodePools& pools);

// True if an autoscaler made this node.
[[nodiscard]] bool Autoscaled(const api::Node& node);

// The members of a Workload, as placement sees them. Per pod set: the flavors that it was given
// (each once) and what they say about capacity.
[[nodiscard]] placement::GangRequest MakeGang(
    const api::ObjectKey& workload,
    const Shape& shape,
    const std::vector<std::int32_t>& counts,
    const std::vector<std::vector<const CompiledFlavor*>>& flavors,
    const std::vector<CapacityRule>& rules);

}  // namespace muster::scheduler
