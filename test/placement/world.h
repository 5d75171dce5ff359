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

// One driver, gpu.test, with a class of its name unless told otherwise.
struct PoolOptions {
  std::string driver = "gpu.test";
  std::string slice;  // empty: driver and pool
  std::int64_t generation = 1;
  std::int64_t slices = 1;
};
struct DeviceWorld : World {
  DeviceWorld() { AddClass("gpu.test"); }

  void AddClass(const std::string& name,
                const std::vector<std::string>& selectors = {},
                const std::string& extended = {},
                const std::string& driver = {}) {
    api::DeviceClass device_class;
    device_class.meta.name = name;
    device_class.selectors = selectors;
    device_class.selectors.push_back("device.driver == '" + (driver.empty() ? name : driver) + "'");
    device_class.extended_resource_name = extended;
    inventory.Upsert(std::make_shared<const api::DeviceClass>(device_class));
  }
  // An empty node: the pool can be used from everywhere.
  void AddPool(const std::string& node,
               const std::string& pool,
               const std::vector<api::Device>& devices,
               const PoolOptions& options = {}) {
    api::ResourceSlice slice;
    slice.meta.name = options.slice.empty() ? options.driver + "-" + pool : options.slice;
    slice.driver = options.driver;
    slice.pool = pool;
    slice.generation = options.generation;
    slice.slice_count = options.slices;
    slice.node_name = node;
    slice.all_nodes = node.empty();
    slice.devices = devices;
    inventory.Upsert(std::make_shared<const api::ResourceSlice>(slice));
  }
  void AddCounters(const std::string& node,
                   const std::string& pool,
                   const std::string& counter,
                   const std::string& total) {
    api::ResourceSlice slice;
    slice.meta.name = "counters-" + pool;
    slice.driver = "gpu.test";
    slice.pool = pool;
    slice.generation = 1;
    slice.slice_count = 2;
    slice.node_name = node;
    api::CounterSet set;
    set.name = "set";
    set.counters[counter] = *api::Quantity::Parse(total);
    slice.shared_counters = {set};
    inventory.Upsert(std::make_shared<const api::ResourceSlice>(slice));
  }
};

inline api::Device Gpu(const std::string& name) {
  api::Device device;
  device.name = name;
  return device;
}
inline api::Device Numa(const std::string& name, std::int64_t numa) {
  api::Device device = Gpu(name);
  device.attributes["numa"] = numa;
  return device;
}
inline api::Device Partition(const std::string& name,
                             const std::string& counter,
                             const std::string& amount,
                             const std::string& kind = {}) {
  api::Device device = Gpu(name);
  if (!kind.empty()) {
    device.attributes["kind"] = kind;
  }
  api::CounterConsumption consumption;
  consumption.counter_set = "set";
  consumption.counters[counter] = *api::Quantity::Parse(amount);
  device.consumes_counters = {consumption};
  return device;
}
inline api::ClaimSpec Exactly(const std::string& device_class,
                              std::int64_t count,
                              const std::string& selector = {}) {
  api::DeviceSubRequest exactly;
  exactly.device_class = device_class;
  exactly.count = count;
  if (!selector.empty()) {
    exactly.selectors = {selector};
  }
  api::DeviceRequest request;
  request.name = "r";
  request.exactly = exactly;
  api::ClaimSpec spec;
  spec.requests = {request};
  return spec;
}
inline api::ClaimSpec All(const std::string& device_class) {
  api::ClaimSpec spec = Exactly(device_class, 1);
  spec.requests[0].exactly->all = true;
  return spec;
}
inline std::vector<std::string> DevicesOf(const PodPlacement& pod) {
  std::vector<std::string> out;
  for (const auto& device : pod.devices) {
    out.push_back(device.device);
  }
  return out;
}

inline std::vector<std::string> NodesOf(const Placement& placement) {
  std::vector<std::string> out;
  for (const auto& pod : placement.pods) {
    out.push_back(pod.node);
  }
  return out;
}

}  // namespace muster::placement
