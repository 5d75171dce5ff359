#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "scheduler/placement/placement.h"

// Small worlds for placement tests.
namespace muster::placement {

inline ResourceVector Resources(const std::map<std::string, std::int64_t>& amounts) {
  ResourceVector out;
  for (const auto& [name, amount] : amounts) {
    out[name] = Amount(amount);
  }
  return out;
}

inline api::Node MakeNode(const std::string& name,
                          const std::map<std::string, std::int64_t>& allocatable,
                          const api::StringMap& labels = {}) {
  api::Node node;
  node.meta.name = name;
  node.meta.labels = labels;
  node.allocatable = Resources(allocatable);
  return node;
}

inline PodClass Pods(const std::string& name,
                     std::int32_t count,
                     const std::map<std::string, std::int64_t>& requests) {
  PodClass out;
  out.name = name;
  out.count = count;
  out.requests = Resources(requests);
  return out;
}

struct World {
  Inventory inventory;

  [[nodiscard]] Trial trial() const { return Trial(inventory.View()); }

  void Add(const api::Node& node) { inventory.Upsert(std::make_shared<const api::Node>(node)); }
  void AddNode(const std::string& name,
               const std::map<std::string, std::int64_t>& allocatable,
               const api::StringMap& labels = {}) {
    Add(MakeNode(name, allocatable, labels));
  }
  void AddPod(const std::string& name,
              const std::string& node,
              const std::map<std::string, std::int64_t>& requests) {
    api::Pod pod;
    pod.meta.ns = "default";
    pod.meta.name = name;
    pod.spec.node_name = node;
    api::Container container;
    container.name = "main";
    container.requests = Resources(requests);
    container.has_requests = true;
    pod.spec.containers = {container};
    pod.phase = "Running";
    inventory.Upsert(std::make_shared<const api::Pod>(pod));
  }
};

inline std::vector<std::string> NodesOf(const Placement& placement) {
  std::vector<std::string> out;
  for (const auto& pod : placement.pods) {
    out.push_back(pod.node);
  }
  return out;
}

}  // namespace muster::placement
