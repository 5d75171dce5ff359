#include "scheduler/cycle/gang.h"

#include <algorithm>

namespace muster::scheduler {

bool Autoscaled(const api::Node& node) {
  static constexpr std::string_view kLabels[] = {"karpenter.sh/nodepool",
                                                 "karpenter.sh/provisioner-name",
                                                 "k8s.io/cluster-autoscaler/enabled",
                                                 "k8s.io/cluster-autoscaler-enabled"};
  return std::any_of(std::begin(kLabels), std::end(kLabels), [&](std::string_view label) {
    return node.meta.Label(label) != nullptr;
  });
}

CapacityRule RuleOf(const std::vector<const CompiledFlavor*>& flavors,
                    bool provisioning_check,
                    const NodePools& pools) {
  const auto says = [&](Capacity capacity) {
    return std::find_if(flavors.begin(), flavors.end(), [&](const CompiledFlavor* f) {
      return f->capacity == capacity;
    });
  };
  if (const auto it = says(Capacity::kElastic); it != flavors.end()) {
    return {.nodes_bind = false,
            .devices_bind = false,
            .why = "flavor " + (*it)->name + " says Elastic"};
  }
  if (const auto it = says(Capacity::kFixed); it != flavors.end()) {
    return {
        .nodes_bind = true, .devices_bind = true, .why = "flavor " + (*it)->name + " says Fixed"};
  }
  if (provisioning_check) {
    return {.nodes_bind = false,
            .devices_bind = true,
            .why = "the queue asks for nodes with a ProvisioningRequest"};
  }
  bool any = false;
  for (const NodePools::Pool& pool : pools.nodes) {
    const api::StringMap& labels = pool.node->meta.labels;
    const bool matches =
        std::all_of(flavors.begin(), flavors.end(), [&](const CompiledFlavor* flavor) {
          return flavor->flavor == nullptr ||
                 std::all_of(flavor->flavor->node_labels.begin(),
                             flavor->flavor->node_labels.end(),
                             [&](const auto& entry) {
                               const auto it = labels.find(entry.first);
                               return it != labels.end() && it->second == entry.second;
                             });
        });
    if (matches && pool.autoscaled) {
      return {.nodes_bind = false,
              .devices_bind = true,
              .why = "node " + pool.node->meta.name + " belongs to an autoscaler"};
    }
    any = any || matches;
  }
  if (!any) {
    return {.nodes_bind = false, .devices_bind = true, .why = "no node has the flavor's labels"};
  }
  return {.nodes_bind = true,
          .devices_bind = true,
          .why = "nodes with the flavor's labels are known and no autoscaler made them"};
}

placement::GangRequest MakeGang(const api::ObjectKey& workload,
                                const Shape& shape,
                                const std::vector<std::int32_t>& counts,
                                const std::vector<std::vector<const CompiledFlavor*>>& flavors,
                                const std::vector<CapacityRule>& rules) {
  placement::GangRequest gang;
  gang.name = workload.ToString();
  gang.ns = workload.ns;
  gang.claims = shape.claims;
  for (std::size_t i = 0; i < shape.pod_sets.size(); ++i) {
    const PodSetShape& pod_set = shape.pod_sets[i];
    placement::PodClass out;
    out.name = pod_set.name;
    out.count = counts[i];
    out.requests = pod_set.node_requests;
    out.node_selector = pod_set.spec->node_selector;
    out.required_affinity = pod_set.spec->required_affinity;
    out.preferred_affinity = pod_set.spec->preferred_affinity;
    out.tolerations = pod_set.spec->tolerations;
    out.claims = pod_set.claims;
    for (const auto* list : {&pod_set.spec->containers, &pod_set.spec->init_containers}) {
      for (const api::Container& container : *list) {
        std::copy_if(container.ports.begin(),
                     container.ports.end(),
                     std::back_inserter(out.host_ports),
                     [](const api::ContainerPort& port) { return port.host_port != 0; });
      }
    }
    for (const CompiledFlavor* flavor : flavors[i]) {
      if (flavor->flavor != nullptr) {
        for (const auto& [key, value] : flavor->flavor->node_labels) {
          out.node_selector[key] = value;
        }
        out.tolerations.insert(out.tolerations.end(),
                               flavor->flavor->tolerations.begin(),
                               flavor->flavor->tolerations.end());
      }
    }
    out.nodes_bind = rules[i].nodes_bind;
    out.devices_bind = rules[i].devices_bind;
    gang.classes.push_back(std::move(out));
  }
  return gang;
}

}  // namespace muster::scheduler
