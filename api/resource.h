#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/core.h"
#include "api/metadata.h"
#include "api/quantity.h"

// resource.k8s.io/v1: Dynamic Resource Allocation.
namespace muster::api {

struct Version {
  std::string text;  // semver 2.0.0, as written
};
// A device attribute. Lists (alpha) are kept as such.
using AttributeValue = std::variant<bool,
                                    std::int64_t,
                                    std::string,
                                    Version,
                                    std::vector<bool>,
                                    std::vector<std::int64_t>,
                                    std::vector<std::string>,
                                    std::vector<Version>>;

struct RequestPolicy {
  std::optional<Quantity> default_value;
  std::vector<Quantity> valid_values;
  std::optional<Quantity> range_min;
  std::optional<Quantity> range_max;
  std::optional<Quantity> range_step;
};
struct DeviceCapacity {
  Quantity value;
  std::optional<RequestPolicy> policy;
};
struct CounterConsumption {
  std::string counter_set;
  std::map<std::string, Quantity, std::less<>> counters;
};
struct DeviceTaint {
  std::string key;
  std::string value;
  std::string effect;  // None, NoSchedule, NoExecute
};
struct Device {
  std::string name;
  std::map<std::string, AttributeValue, std::less<>>
      attributes;  // keys as written: "domain/name" or "name" (domain = driver)
  std::map<std::string, DeviceCapacity, std::less<>> capacity;  // likewise
  std::vector<CounterConsumption> consumes_counters;
  std::vector<DeviceTaint> taints;
  bool allow_multiple_allocations = false;
  bool binds_to_node = false;
  bool has_binding_conditions = false;
  std::string node_name;  // with perDeviceNodeSelection
  NodeSelector node_selector;
  bool all_nodes = false;
};
struct CounterSet {
  std::string name;
  std::map<std::string, Quantity, std::less<>> counters;
};
struct ResourceSlice {
  ObjectMeta meta;
  std::string driver;
  std::string pool;
  std::int64_t generation = 0;
  std::int64_t slice_count = 1;
  std::string node_name;
  NodeSelector node_selector;
  bool all_nodes = false;
  bool per_device_node_selection = false;
  std::vector<Device> devices;
  std::vector<CounterSet> shared_counters;
};

struct DeviceClass {
  ObjectMeta meta;
  std::vector<std::string> selectors;  // CEL
  std::string extended_resource_name;
  JsonPtr config;  // spec.config as written, may be null
};

struct DeviceToleration {
  std::string key;
  std::string op;  // Exists, Equal ("" = Equal)
  std::string value;
  std::string effect;
};
// `exactly`, or one entry of `firstAvailable`.
struct DeviceSubRequest {
  std::string name;  // empty for `exactly`
  std::string device_class;
  std::vector<std::string> selectors;  // CEL
  bool all = false;                    // allocationMode All
  std::int64_t count = 1;
  bool admin_access = false;
  std::vector<DeviceToleration> tolerations;
  std::map<std::string, Quantity, std::less<>> capacity_requests;
  bool has_derived_attributes = false;  // alpha, not supported
};
struct DeviceRequest {
  std::string name;
  std::optional<DeviceSubRequest> exactly;
  std::vector<DeviceSubRequest> first_available;
};
struct DeviceConstraint {
  std::vector<std::string> requests;  // empty = all
  std::string match_attribute;
  std::string distinct_attribute;
};
struct ClaimSpec {
  std::vector<DeviceRequest> requests;
  std::vector<DeviceConstraint> constraints;
  JsonPtr config;  // devices.config as written, may be null
};

struct AllocatedDevice {
  std::string request;
  std::string driver;
  std::string pool;
  std::string device;
  bool admin_access = false;
  std::string share_id;
  std::map<std::string, Quantity, std::less<>> consumed_capacity;
};
struct ClaimConsumer {
  std::string api_group;
  std::string resource;
  std::string name;
  std::string uid;
};
struct ResourceClaim {
  ObjectMeta meta;
  ClaimSpec spec;
  bool allocated = false;
  std::vector<AllocatedDevice> devices;
  NodeSelector allocation_node_selector;
  std::vector<ClaimConsumer> reserved_for;
};
struct ResourceClaimTemplate {
  ObjectMeta meta;
  ClaimSpec spec;
};

struct DeviceTaintRule {
  ObjectMeta meta;
  bool has_selector = false;  // absent matches no device, {} matches all
  std::string driver;
  std::string pool;
  std::string device;
  DeviceTaint taint;
};

}  // namespace muster::api
