#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/core.h"
#include "api/resource.h"
#include "cel/program.h"
#include "scheduler/placement/cow.h"
#include "scheduler/placement/feasible.h"
#include "scheduler/placement/placement.h"

// What a view of the inventory is made of: immutable records, shared between views. Only
// scheduler/placement includes this.
namespace muster::placement {

using ResourceId = std::uint32_t;
inline constexpr ResourceId kPods = 0;

// Resource names in the order in which they were first seen; an id never changes its meaning.
struct ResourceTable {
  std::vector<std::string> names;
  std::map<std::string, ResourceId, std::less<>> ids;
};

struct ResourceUse {
  ResourceId id = 0;
  std::int64_t amount = 0;  // > 0
};

struct DeviceKey {
  std::string driver;
  std::string pool;
  std::string device;

  friend auto operator<=>(const DeviceKey&, const DeviceKey&) = default;
  [[nodiscard]] std::string ToString() const { return driver + "/" + pool + "/" + device; }
};

struct PodRecord {
  api::ObjectKey key;
  std::string node;
  std::vector<ResourceUse> requests;  // with one of kPods
  std::vector<HostPort> ports;
  std::vector<std::string> claims;  // names of the ResourceClaims in use
  std::string group;                // schedulingGroup
};

struct NodeRecord {
  std::shared_ptr<const api::Node> node;  // never null
  // Allocatable minus used by resource id; ids beyond the end are 0. May be negative.
  std::vector<std::int64_t> free;
  // Allocatable names the resource with a count above 0; served by a device plugin then, never by a
  // DeviceClass.
  std::vector<bool> offered;
  std::vector<HostPort> ports;
  std::vector<std::uint32_t>
      pools;  // slots of pools with a slice of this node, by driver and pool name
};

// Compiled selectors, each once. The lock covers `by_text` and the results kept in pools; it is
// held for one placement's preparation.
struct Selector {
  std::uint32_t id = 0;
  std::string text;
  std::optional<cel::Program> program;
  std::string error;  // when it does not compile
};
struct SelectorTable {
  std::mutex mutex;  // tidy: allowed, views on two threads share what has been compiled
  std::map<std::string, std::unique_ptr<Selector>, std::less<>> by_text;
};

enum class Match : std::uint8_t { kUnknown, kNo, kYes, kError };

struct Counter {
  std::string set;
  std::string name;
  std::int64_t total = 0;
  bool milli = true;  // thousandths, unless one of the amounts leaves int64 then
};
struct PoolDevice {
  const api::Device* device = nullptr;  // inside one of PoolRecord::slices
  const api::ResourceSlice* slice = nullptr;
  std::vector<api::DeviceTaint>
      taints;  // the slice's and those of rules; only effects that keep pods away
  std::vector<std::pair<std::uint32_t, std::int64_t>> consumes;  // index into counters, amount
};
// The newest generation of one pool.
struct PoolRecord {
  std::string driver;
  std::string pool;
  std::int64_t generation = 0;
  std::int64_t announced = 0;  // slices that the driver said there are
  bool complete = false;
  std::string invalid;      // why nothing of it can be used; empty if it can
  bool duplicates = false;  // two devices of one name somewhere in the pool
  bool binding = false;     // has devices with binding conditions
  std::vector<std::shared_ptr<const api::ResourceSlice>> slices;  // by name
  std::vector<PoolDevice> devices;                                // by slice name, then index
  std::vector<Counter> counters;
  std::map<std::string, std::uint32_t, std::less<>> device_index;  // the first of each name

  // Results of selectors by selector id, one Match a device, and what went wrong. Guarded by
  // SelectorTable::mutex.
  mutable std::map<std::uint32_t, std::vector<Match>> results;
  mutable std::map<std::uint32_t, std::string> first_error;
};

using Consumption = std::map<std::string, api::Quantity, std::less<>>;

// Shares of a device that allows several allocations. They are kept one by one, because quantities
// have no exact difference: what is left after one of them has gone is summed anew.
struct SharedUse {
  std::vector<Consumption> shares;
  Consumption consumed;  // their sum

  void Add(const Consumption& share);
  // False when there is no such share.
  bool Remove(const Consumption& share);
};
struct PoolState {
  std::shared_ptr<const PoolRecord> record;   // never null
  std::vector<std::uint32_t> users;           // claims and promises per device
  std::map<std::uint32_t, SharedUse> shared;  // by device
};

struct ClassUse {
  std::vector<ResourceUse> requests;
  std::vector<HostPort> ports;
};
struct DeviceUse {
  DeviceKey key;
  bool share = false;
  Consumption consumed;
};
struct HoldMember {
  std::size_t pod_class = 0;
  std::int32_t index = 0;
  std::string node;  // empty: holds nothing on a node
  std::vector<DeviceUse> devices;
};
// A named claim whose allocation is planned but not yet seen in the claim.
struct PromisedClaim {
  api::NodeSelector selector;  // where its devices can be used
};
struct HoldRecord {
  std::vector<ClassUse> classes;
  std::vector<HoldMember> members;  // by class, then index
  std::vector<DeviceUse> shared;
  std::vector<std::pair<api::ObjectKey, PromisedClaim>> promised;
};

class InventoryView {
 public:
  CowTable<NodeRecord>::View nodes;
  std::shared_ptr<const std::vector<std::uint32_t>> order;  // node slots by node name
  std::shared_ptr<const ResourceTable> resources;
  CowMap<api::ObjectKey, PodRecord>::View pods;
  CowTable<PoolState>::View pools;
  std::shared_ptr<const std::vector<std::uint32_t>>
      network_pools;  // slots of pools with slices that name no node
  std::shared_ptr<const std::map<api::ObjectKey, std::uint32_t>> pool_slots;  // {driver, pool}
  std::shared_ptr<const std::map<std::string, std::shared_ptr<const api::DeviceClass>>> classes;
  std::shared_ptr<const std::map<std::string, std::string>> extended;  // resource -> class
  CowMap<api::ObjectKey, api::ResourceClaim>::View claims;
  CowMap<api::ObjectKey, PromisedClaim>::View promised;
  CowMap<std::string, HoldRecord>::View holds;
  std::shared_ptr<SelectorTable> selectors;
};

// The devices that an allocation uses up: admin access takes nothing.
[[nodiscard]] std::vector<DeviceUse> UsesOf(const api::ResourceClaim& claim);
[[nodiscard]] std::vector<DeviceUse> UsesOf(const std::vector<DeviceChoice>& choices);

// Where an allocation of these devices, made for `node`, can be used: upstream's
// allocation.nodeSelector.
[[nodiscard]] api::NodeSelector UsableAt(const std::vector<const PoolDevice*>& devices,
                                         const std::string& node);

// The compiled selector, from the table. The caller holds the lock.
[[nodiscard]] const Selector& Compile(SelectorTable& table, const std::string& text);
// What `selector` says of each device of `pool`. The caller holds the lock.
[[nodiscard]] const std::vector<Match>& Results(const Selector& selector, const PoolRecord& pool);

}  // namespace muster::placement
