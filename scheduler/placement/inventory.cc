#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "scheduler/placement/records.h"

namespace muster::placement {
namespace {

// Sums of pods' requests are exact however large the single requests are, so that what was added
// can be taken away again.
using Wide = __int128;

std::int64_t Clamp(Wide value) {
  constexpr Wide kMax = std::numeric_limits<std::int64_t>::max();
  constexpr Wide kMin = std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(std::clamp(value, kMin, kMax));
}

struct NodeWork {
  std::uint32_t slot = 0;
  std::shared_ptr<const api::Node> node;  // null: only its pods or slices are known
  std::vector<Wide> used;                 // by resource id
  std::map<HostPort, std::uint32_t> ports;
  std::map<api::ObjectKey, std::uint32_t> pools;  // {driver, pool} -> slot
  std::uint32_t pods = 0;                         // pods and promises that name it
  bool dirty = false;

  [[nodiscard]] bool idle() const { return !node && pods == 0 && pools.empty(); }
};

struct PoolWork {
  std::uint32_t slot = 0;
  std::map<std::string, std::shared_ptr<const api::ResourceSlice>>
      slices;  // by name, every generation
  std::set<std::string> nodes;
  bool network = false;
  std::shared_ptr<const PoolRecord> record;
  bool stale = true;  // the record must be built again
  bool dirty = false;
};

// Members are released one by one as their pods are bound; what views see of it is made when a view
// is taken.
struct HoldWork {
  std::shared_ptr<const HoldRecord> record;  // as it was promised
  std::vector<bool> released;                // by member
};

api::ObjectKey PoolKey(const api::ResourceSlice& slice) {
  return api::ObjectKey{.ns = slice.driver, .name = slice.pool};
}

bool Selects(const api::DeviceTaintRule& rule, const PoolRecord& pool, const api::Device& device) {
  return rule.has_selector && (rule.driver.empty() || rule.driver == pool.driver) &&
         (rule.pool.empty() || rule.pool == pool.pool) &&
         (rule.device.empty() || rule.device == device.name);
}

}  // namespace

void SharedUse::Add(const Consumption& share) {
  shares.push_back(share);
  for (const auto& [name, amount] : share) {
    consumed[name] = consumed[name].Plus(amount);
  }
}

bool SharedUse::Remove(const Consumption& share) {
  const auto at = std::find(shares.begin(), shares.end(), share);
  if (at == shares.end()) {
    return false;
  }
  shares.erase(at);
  std::vector<Consumption> left = std::exchange(shares, {});
  consumed.clear();
  std::for_each(left.begin(), left.end(), [&](const auto& other) { Add(other); });
  return true;
}

std::vector<DeviceUse> UsesOf(const api::ResourceClaim& claim) {
  std::vector<DeviceUse> uses;
  if (claim.allocated) {
    for (const auto& device : claim.devices) {
      if (!device.admin_access) {
        uses.push_back(DeviceUse{
            .key = {.driver = device.driver, .pool = device.pool, .device = device.device},
            .share = !device.share_id.empty(),
            .consumed = device.consumed_capacity});
      }
    }
  }
  return uses;
}

std::vector<DeviceUse> UsesOf(const std::vector<DeviceChoice>& choices) {
  std::vector<DeviceUse> uses;
  for (const auto& choice : choices) {
    if (!choice.admin_access) {
      uses.push_back(
          DeviceUse{.key = {.driver = choice.driver, .pool = choice.pool, .device = choice.device},
                    .share = choice.share,
                    .consumed = choice.consumed_capacity});
    }
  }
  return uses;
}

api::NodeSelector UsableAt(const std::vector<const PoolDevice*>& devices, const std::string& node) {
  api::NodeSelector out;
  api::NodeSelectorTerm merged;
  const auto add = [](std::vector<api::NodeSelectorRequirement>& to,
                      const std::vector<api::NodeSelectorRequirement>& from) {
    for (const auto& requirement : from) {
      if (std::none_of(to.begin(), to.end(), [&](const auto& other) {
            return other.key == requirement.key && other.op == requirement.op &&
                   other.values == requirement.values;
          })) {
        to.push_back(requirement);
      }
    }
  };
  for (const PoolDevice* device : devices) {
    const bool per_device = device->slice->per_device_node_selection;
    const std::string& bound = per_device ? device->device->node_name : device->slice->node_name;
    if (!bound.empty() || device->device->binds_to_node) {
      out.present = true;
      api::NodeSelectorTerm here;
      here.match_fields = {{.key = "metadata.name", .op = "In", .values = {node}}};
      out.terms = {here};
      return out;
    }
    const api::NodeSelector& selector =
        per_device ? device->device->node_selector : device->slice->node_selector;
    if (selector.present && !selector.terms.empty()) {
      add(merged.match_expressions, selector.terms.front().match_expressions);
      add(merged.match_fields, selector.terms.front().match_fields);
    }
  }
  if (!merged.match_expressions.empty() || !merged.match_fields.empty()) {
    out.present = true;
    out.terms = {merged};
  }
  return out;
}

struct Inventory::Impl {
  // Names and nodes.
  ResourceTable resources;
  std::shared_ptr<const ResourceTable> resources_view;
  std::map<std::string, NodeWork> nodes;
  std::vector<std::uint32_t> free_node_slots;
  std::uint32_t next_node_slot = 0;
  std::vector<std::string> dirty_nodes;
  bool order_stale = true;
  std::shared_ptr<const std::vector<std::uint32_t>> order;
  std::size_t known_nodes = 0;
  CowTable<NodeRecord> node_table;

  // Pods and promises.
  CowMap<api::ObjectKey, PodRecord> pods;
  std::map<std::string, HoldWork> holding;
  std::set<std::string> dirty_holds;
  CowMap<std::string, HoldRecord> holds;
  CowMap<api::ObjectKey, PromisedClaim> promised;

  // Devices.
  std::map<std::string, std::shared_ptr<const api::ResourceSlice>> slices;
  std::map<api::ObjectKey, PoolWork> pools;
  std::vector<std::uint32_t> free_pool_slots;
  std::uint32_t next_pool_slot = 0;
  std::set<api::ObjectKey> dirty_pools;
  bool pools_stale = true;  // the set of pools, or which of them are on the network
  std::shared_ptr<const std::vector<std::uint32_t>> network_pools;
  std::shared_ptr<const std::map<api::ObjectKey, std::uint32_t>> pool_slots;
  CowTable<PoolState> pool_table;
  std::map<std::string, std::shared_ptr<const api::DeviceClass>> classes;
  bool classes_stale = true;
  std::shared_ptr<const std::map<std::string, std::shared_ptr<const api::DeviceClass>>>
      classes_view;
  std::shared_ptr<const std::map<std::string, std::string>> extended;
  std::map<std::string, std::shared_ptr<const api::DeviceTaintRule>> rules;
  CowMap<api::ObjectKey, api::ResourceClaim> claims;
  // Users of devices, whether or not a slice shows the device now. Shares are kept one by one.
  std::map<DeviceKey, std::uint32_t> exclusive;
  std::map<DeviceKey, std::vector<Consumption>> shares;
  std::shared_ptr<SelectorTable> selectors = std::make_shared<SelectorTable>();

  std::uint64_t growth = 0;

  Impl() { Intern("pods"); }

  void Grow() { ++growth; }

  ResourceId Intern(const std::string& name) {
    const auto [at, added] =
        resources.ids.try_emplace(name, static_cast<ResourceId>(resources.names.size()));
    if (added) {
      resources.names.push_back(name);
      resources_view.reset();
    }
    return at->second;
  }

  std::vector<ResourceUse> Dense(const ResourceVector& requests) {
    std::vector<ResourceUse> out{{.id = kPods, .amount = 1}};
    for (const auto& [name, amount] : requests) {
      if (amount.value() > 0 && name != "pods") {
        out.push_back(ResourceUse{.id = Intern(name), .amount = amount.value()});
      }
    }
    return out;
  }

  NodeWork& Work(const std::string& name) {
    const auto [at, added] = nodes.try_emplace(name);
    if (added) {
      if (free_node_slots.empty()) {
        at->second.slot = next_node_slot++;
      } else {
        at->second.slot = free_node_slots.back();
        free_node_slots.pop_back();
      }
    }
    return at->second;
  }
  void MarkDirty(const std::string& name, NodeWork& work) {
    if (!work.dirty) {
      work.dirty = true;
      dirty_nodes.push_back(name);
    }
  }
  void Tidy(const std::string& name) {
    const auto at = nodes.find(name);
    if (at != nodes.end() && at->second.idle()) {
      node_table.Set(at->second.slot, nullptr);
      free_node_slots.push_back(at->second.slot);
      nodes.erase(at);
    }
  }

  void Charge(const std::string& node,
              const std::vector<ResourceUse>& requests,
              const std::vector<HostPort>& ports) {
    NodeWork& work = Work(node);
    ++work.pods;
    for (const auto& use : requests) {
      if (work.used.size() <= use.id) {
        work.used.resize(use.id + 1);
      }
      work.used[use.id] += use.amount;
    }
    for (const auto& port : ports) {
      ++work.ports[port];
    }
    MarkDirty(node, work);
  }
  void Refund(const std::string& node,
              const std::vector<ResourceUse>& requests,
              const std::vector<HostPort>& ports) {
    NodeWork& work = Work(node);
    MUSTER_CHECK(work.pods > 0);
    --work.pods;
    for (const auto& use : requests) {
      work.used[use.id] -= use.amount;
    }
    for (const auto& port : ports) {
      if (--work.ports[port] == 0) {
        work.ports.erase(port);
      }
    }
    MarkDirty(node, work);
    Tidy(node);
    Grow();
  }

  void MarkPool(const DeviceKey& key) {
    const api::ObjectKey pool{.ns = key.driver, .name = key.pool};
    if (pools.contains(pool)) {
      dirty_pools.insert(pool);
    }
  }
  void Take(const std::vector<DeviceUse>& uses) {
    for (const auto& use : uses) {
      if (use.share) {
        shares[use.key].push_back(use.consumed);
      } else {
        ++exclusive[use.key];
      }
      MarkPool(use.key);
    }
  }
  void GiveBack(const std::vector<DeviceUse>& uses) {
    for (const auto& use : uses) {
      if (use.share) {
        auto& list = shares[use.key];
        const auto at = std::find(list.begin(), list.end(), use.consumed);
        MUSTER_CHECK(at != list.end());
        list.erase(at);
        if (list.empty()) {
          shares.erase(use.key);
        }
      } else {
        const auto at = exclusive.find(use.key);
        MUSTER_CHECK(at != exclusive.end() && at->second > 0);
        if (--at->second == 0) {
          exclusive.erase(at);
        }
      }
      MarkPool(use.key);
    }
    if (!uses.empty()) {
      Grow();
    }
  }

  void RemoveSlice(const std::shared_ptr<const api::ResourceSlice>& slice) {
    const api::ObjectKey key = PoolKey(*slice);
    PoolWork& pool = pools.at(key);
    pool.slices.erase(slice->meta.name);
    pool.stale = true;
    dirty_pools.insert(key);
    pools_stale = true;
  }

  // Which nodes a pool has slices of may have changed: node records list their pools.
  void Retarget(const api::ObjectKey& key, PoolWork& pool) {
    std::set<std::string> now;
    bool network = false;
    for (const auto& [name, slice] : pool.slices) {
      if (slice->node_name.empty()) {
        network = true;
      } else {
        now.insert(slice->node_name);
      }
    }
    pool.network = network;
    for (const auto& node : pool.nodes) {
      if (!now.contains(node)) {
        NodeWork& work = Work(node);
        work.pools.erase(key);
        MarkDirty(node, work);
        Tidy(node);
      }
    }
    for (const auto& node : now) {
      NodeWork& work = Work(node);
      work.pools[key] = pool.slot;
      MarkDirty(node, work);
    }
    pool.nodes = std::move(now);
  }

  std::shared_ptr<const PoolRecord> Build(const api::ObjectKey& key, const PoolWork& work) const {
    auto record = std::make_shared<PoolRecord>();
    record->driver = key.ns;
    record->pool = key.name;
    record->generation = std::numeric_limits<std::int64_t>::min();
    for (const auto& [name, slice] : work.slices) {
      record->generation = std::max(record->generation, slice->generation);
    }
    for (const auto& [name, slice] : work.slices) {
      if (slice->generation == record->generation) {
        record->slices.push_back(slice);
      }
    }
    record->announced = record->slices.front()->slice_count;
    record->complete = record->announced == static_cast<std::int64_t>(record->slices.size());

    std::map<std::pair<std::string, std::string>, std::uint32_t> counter_index;
    std::set<std::string> sets;
    std::vector<const api::Quantity*> totals;
    for (const auto& slice : record->slices) {
      for (const auto& set : slice->shared_counters) {
        if (!sets.insert(set.name).second) {
          record->invalid = "counter set " + set.name + " is declared twice";
        }
        for (const auto& [name, total] : set.counters) {
          if (counter_index
                  .try_emplace({set.name, name},
                               static_cast<std::uint32_t>(record->counters.size()))
                  .second) {
            record->counters.push_back(Counter{.set = set.name, .name = name});
            totals.push_back(&total);
          }
        }
      }
    }
    const auto index_of = [&](const std::string& set, const std::string& name) {
      const auto at = counter_index.find({set, name});
      return at == counter_index.end() ? std::optional<std::uint32_t>() : at->second;
    };
    // The unit of a counter: thousandths are exact for everything that drivers publish; whole units
    // where those overflow.
    for (std::size_t i = 0; i < totals.size(); ++i) {
      record->counters[i].milli = !totals[i]->MilliValueOverflows();
    }
    for (const auto& slice : record->slices) {
      for (const auto& device : slice->devices) {
        for (const auto& consumption : device.consumes_counters) {
          for (const auto& [name, amount] : consumption.counters) {
            const auto index = index_of(consumption.counter_set, name);
            if (!index) {
              record->invalid = "device " + device.name + " uses counter " +
                                consumption.counter_set + "/" + name + " which the pool lacks";
            } else if (amount.MilliValueOverflows()) {
              record->counters[*index].milli = false;
            }
          }
        }
      }
    }
    for (std::size_t i = 0; i < totals.size(); ++i) {
      record->counters[i].total =
          record->counters[i].milli ? totals[i]->MilliValue() : totals[i]->Value();
    }
    for (const auto& slice : record->slices) {
      for (const auto& device : slice->devices) {
        PoolDevice entry{.device = &device, .slice = slice.get()};
        const auto add_taint = [&](const api::DeviceTaint& taint) {
          if (taint.effect == "NoSchedule" || taint.effect == "NoExecute") {
            entry.taints.push_back(taint);
          }
        };
        std::for_each(device.taints.begin(), device.taints.end(), add_taint);
        for (const auto& [name, rule] : rules) {
          if (Selects(*rule, *record, device)) {
            add_taint(rule->taint);
          }
        }
        for (const auto& consumption : device.consumes_counters) {
          for (const auto& [name, amount] : consumption.counters) {
            if (const auto index = index_of(consumption.counter_set, name)) {
              const bool milli = record->counters[*index].milli;
              entry.consumes.emplace_back(*index, milli ? amount.MilliValue() : amount.Value());
            }
          }
        }
        record->binding = record->binding || device.has_binding_conditions;
        if (!record->device_index
                 .try_emplace(device.name, static_cast<std::uint32_t>(record->devices.size()))
                 .second) {
          record->duplicates = true;
        }
        record->devices.push_back(std::move(entry));
      }
    }
    return record;
  }

  void RefreshPools() {
    for (const auto& key : dirty_pools) {
      const auto at = pools.find(key);
      if (at == pools.end()) {
        continue;
      }
      PoolWork& work = at->second;
      if (work.stale) {
        Retarget(key, work);
        if (work.slices.empty()) {
          pool_table.Set(work.slot, nullptr);
          free_pool_slots.push_back(work.slot);
          pools.erase(at);
          continue;
        }
        work.record = Build(key, work);
        work.stale = false;
      }
      auto state = std::make_shared<PoolState>();
      state->record = work.record;
      state->users.resize(work.record->devices.size());
      const DeviceKey first{.driver = key.ns, .pool = key.name, .device = ""};
      const auto same_pool = [&](const DeviceKey& device) {
        return device.driver == key.ns && device.pool == key.name;
      };
      for (auto use = exclusive.lower_bound(first); use != exclusive.end() && same_pool(use->first);
           ++use) {
        for (std::size_t i = 0; i < state->users.size(); ++i) {
          if (work.record->devices[i].device->name == use->first.device) {
            state->users[i] = use->second;
          }
        }
      }
      for (auto use = shares.lower_bound(first); use != shares.end() && same_pool(use->first);
           ++use) {
        for (std::size_t i = 0; i < state->users.size(); ++i) {
          if (work.record->devices[i].device->name == use->first.device) {
            SharedUse& shared = state->shared[static_cast<std::uint32_t>(i)];
            for (const auto& share : use->second) {
              shared.Add(share);
            }
          }
        }
      }
      pool_table.Set(work.slot, std::move(state));
    }
    dirty_pools.clear();
    if (pools_stale) {
      std::vector<std::uint32_t> network;
      std::map<api::ObjectKey, std::uint32_t> slots;
      for (const auto& [key, work] : pools) {
        slots.emplace_hint(slots.end(), key, work.slot);
        if (work.network) {
          network.push_back(work.slot);
        }
      }
      network_pools = std::make_shared<const std::vector<std::uint32_t>>(std::move(network));
      pool_slots =
          std::make_shared<const std::map<api::ObjectKey, std::uint32_t>>(std::move(slots));
      pools_stale = false;
    }
  }

  void RefreshClasses() {
    if (!classes_stale) {
      return;
    }
    std::map<std::string, std::string> served;
    for (const auto& [name, device_class] : classes) {
      served["deviceclass.resource.kubernetes.io/" + name] = name;
      if (device_class->extended_resource_name.empty()) {
        continue;
      }
      // The newest class wins, on a tie the lower name.
      const auto [at, added] = served.try_emplace(device_class->extended_resource_name, name);
      if (!added) {
        const auto rival = classes.find(at->second);
        if (rival == classes.end() ||
            rival->second->meta.creation_timestamp < device_class->meta.creation_timestamp) {
          at->second = name;
        }
      }
    }
    classes_view =
        std::make_shared<const std::map<std::string, std::shared_ptr<const api::DeviceClass>>>(
            classes);
    extended = std::make_shared<const std::map<std::string, std::string>>(std::move(served));
    classes_stale = false;
    // Which plugin counts are believed hangs on the classes.
    for (auto& [name, work] : nodes) {
      MarkDirty(name, work);
    }
  }

  // The driver that publishes what the plugin resource `resource` counts on this node, or empty: a
  // driver of that very name (gpu.nvidia.com for nvidia.com/gpu), or one with a device that the
  // class of this extended resource selects.
  std::string DriverBehind(const NodeWork& work, const std::string& resource) const {
    const std::size_t slash = resource.find('/');
    if (slash == std::string::npos || work.pools.empty()) {
      return {};
    }
    const std::string twin = resource.substr(slash + 1) + "." + resource.substr(0, slash);
    for (const auto& [key, slot] : work.pools) {
      if (key.ns == twin) {
        return twin;
      }
    }
    const auto served = extended->find(resource);
    if (served == extended->end()) {
      return {};
    }
    const api::DeviceClass& device_class = *classes.at(served->second);
    const std::lock_guard lock(selectors->mutex);
    for (const auto& [key, slot] : work.pools) {
      const PoolState* state = pool_table.Get(slot);
      if (state == nullptr) {
        continue;
      }
      std::vector<bool> selected(state->record->devices.size(), true);
      for (const auto& text : device_class.selectors) {
        const auto& results = Results(Compile(*selectors, text), *state->record);
        for (std::size_t i = 0; i < selected.size(); ++i) {
          selected[i] = selected[i] && results[i] == Match::kYes;
        }
      }
      if (std::find(selected.begin(), selected.end(), true) != selected.end()) {
        return key.ns;
      }
    }
    return {};
  }

  void RefreshNodes() {
    for (const auto& name : dirty_nodes) {
      const auto at = nodes.find(name);
      if (at == nodes.end()) {
        continue;
      }
      NodeWork& work = at->second;
      work.dirty = false;
      if (!work.node) {
        node_table.Set(work.slot, nullptr);
        continue;
      }
      auto record = std::make_shared<NodeRecord>();
      record->node = work.node;
      const auto& allocatable = work.node->allocatable;
      std::vector<Wide> free(resources.names.size());
      record->offered.resize(resources.names.size());
      for (const auto& [resource, amount] : allocatable) {
        const ResourceId id = resources.ids.at(resource);
        record->offered[id] = amount.value() > 0;
        if (amount.value() > 0 && DriverBehind(work, resource).empty()) {
          free[id] = amount.value();
        }
      }
      // A node whose status names resources but no pod count is one written by hand: the count does
      // not bind. A node without any status has room for nothing, as for kube-scheduler.
      if (!allocatable.empty() && !allocatable.contains("pods")) {
        free[kPods] = std::numeric_limits<std::int64_t>::max();
      }
      for (std::size_t id = 0; id < work.used.size(); ++id) {
        free[id] -= work.used[id];
      }
      record->free.reserve(free.size());
      for (const Wide amount : free) {
        record->free.push_back(Clamp(amount));
      }
      for (const auto& [port, count] : work.ports) {
        record->ports.push_back(port);
      }
      for (const auto& [key, slot] : work.pools) {
        record->pools.push_back(slot);
      }
      node_table.Set(work.slot, std::move(record));
    }
    dirty_nodes.clear();
    if (order_stale) {
      std::vector<std::uint32_t> slots;
      slots.reserve(known_nodes);
      for (const auto& [name, work] : nodes) {
        if (work.node) {
          slots.push_back(work.slot);
        }
      }
      order = std::make_shared<const std::vector<std::uint32_t>>(std::move(slots));
      order_stale = false;
    }
  }

  void RefreshHolds() {
    for (const auto& holder : dirty_holds) {
      const auto at = holding.find(holder);
      if (at == holding.end()) {
        holds.Set(holder, nullptr);
        continue;
      }
      const HoldWork& work = at->second;
      if (std::find(work.released.begin(), work.released.end(), true) == work.released.end()) {
        holds.Set(holder, work.record);
        continue;
      }
      auto left = std::make_shared<HoldRecord>();
      left->classes = work.record->classes;
      left->shared = work.record->shared;
      left->promised = work.record->promised;
      for (std::size_t i = 0; i < work.released.size(); ++i) {
        if (!work.released[i]) {
          left->members.push_back(work.record->members[i]);
        }
      }
      holds.Set(holder, std::move(left));
    }
    dirty_holds.clear();
  }

  void Refresh() {
    RefreshHolds();
    RefreshPools();
    RefreshClasses();
    RefreshNodes();
  }

  void ReleaseMember(const HoldRecord& hold, const HoldMember& member) {
    if (!member.node.empty()) {
      const ClassUse& use = hold.classes[member.pod_class];
      Refund(member.node, use.requests, use.ports);
    }
    GiveBack(member.devices);
  }
};

Inventory::Inventory() : impl_(std::make_unique<Impl>()) {}
Inventory::~Inventory() = default;

void Inventory::Upsert(const std::shared_ptr<const api::Node>& node) {
  const std::string& name = node->meta.name;
  for (const auto& [resource, amount] : node->allocatable) {
    impl_->Intern(resource);
  }
  NodeWork& work = impl_->Work(name);
  const std::shared_ptr<const api::Node> old = std::exchange(work.node, node);
  const auto same_taints = [](const std::vector<api::Taint>& a, const std::vector<api::Taint>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
      return x.key == y.key && x.value == y.value && x.effect == y.effect;
    });
  };
  // Status heartbeats change nothing that placement reads.
  if (old && old->allocatable == node->allocatable && old->meta.labels == node->meta.labels &&
      old->unschedulable == node->unschedulable && same_taints(old->taints, node->taints)) {
    work.node = old;
    return;
  }
  if (!old) {
    impl_->order_stale = true;
    ++impl_->known_nodes;
  }
  impl_->MarkDirty(name, work);
  impl_->Grow();
}

void Inventory::Upsert(const std::shared_ptr<const api::Pod>& pod) {
  const api::ObjectKey key = pod->meta.key();
  if (pod->spec.node_name.empty() || pod->terminated()) {
    DeletePod(key);
    return;
  }
  auto record = std::make_shared<PodRecord>();
  record->key = key;
  record->node = pod->spec.node_name;
  record->requests = impl_->Dense(api::PodRequests(pod->spec));
  for (const auto& container : pod->spec.containers) {
    const auto ports = HostPortsOf(container.ports);
    record->ports.insert(record->ports.end(), ports.begin(), ports.end());
  }
  for (const auto& claim : pod->spec.claims) {
    if (!claim.claim_name.empty()) {
      record->claims.push_back(claim.claim_name);
    }
  }
  for (const auto& claim : pod->claim_statuses) {
    if (!claim.claim_name.empty()) {
      record->claims.push_back(claim.claim_name);
    }
  }
  if (!pod->extended_claim.empty()) {
    record->claims.push_back(pod->extended_claim);
  }
  record->group = pod->spec.scheduling_group;
  if (const PodRecord* old = impl_->pods.Find(key)) {
    const auto same_requests = [](const ResourceUse& a, const ResourceUse& b) {
      return a.id == b.id && a.amount == b.amount;
    };
    if (old->node == record->node && old->ports == record->ports && old->claims == record->claims &&
        old->group == record->group &&
        std::equal(old->requests.begin(),
                   old->requests.end(),
                   record->requests.begin(),
                   record->requests.end(),
                   same_requests)) {
      return;
    }
    impl_->Refund(old->node, old->requests, old->ports);
  }
  impl_->Charge(record->node, record->requests, record->ports);
  impl_->pods.Set(key, std::move(record));
}

void Inventory::Upsert(const std::shared_ptr<const api::ResourceSlice>& slice) {
  auto& entry = impl_->slices[slice->meta.name];
  if (entry) {
    impl_->RemoveSlice(entry);
  }
  entry = slice;
  const api::ObjectKey key = PoolKey(*slice);
  const auto [at, added] = impl_->pools.try_emplace(key);
  if (added) {
    if (impl_->free_pool_slots.empty()) {
      at->second.slot = impl_->next_pool_slot++;
    } else {
      at->second.slot = impl_->free_pool_slots.back();
      impl_->free_pool_slots.pop_back();
    }
  }
  at->second.slices[slice->meta.name] = slice;
  at->second.stale = true;
  // A node whose hardware is offered twice shows it in its own record.
  if (!slice->node_name.empty()) {
    impl_->MarkDirty(slice->node_name, impl_->Work(slice->node_name));
  }
  impl_->dirty_pools.insert(key);
  impl_->pools_stale = true;
  impl_->Grow();
}

void Inventory::Upsert(const std::shared_ptr<const api::DeviceClass>& device_class) {
  impl_->classes[device_class->meta.name] = device_class;
  impl_->classes_stale = true;
  impl_->Grow();
}

void Inventory::Upsert(const std::shared_ptr<const api::ResourceClaim>& claim) {
  const api::ObjectKey key = claim->meta.key();
  const api::ResourceClaim* old = impl_->claims.Find(key);
  // The claim may be what a Workload has been waiting for, or come free for others.
  if (old == nullptr || old->reserved_for.size() > claim->reserved_for.size()) {
    impl_->Grow();
  }
  const std::vector<DeviceUse> before = old == nullptr ? std::vector<DeviceUse>() : UsesOf(*old);
  const std::vector<DeviceUse> after = UsesOf(*claim);
  const auto same = [](const DeviceUse& a, const DeviceUse& b) {
    return a.key == b.key && a.share == b.share && a.consumed == b.consumed;
  };
  if (!std::equal(before.begin(), before.end(), after.begin(), after.end(), same)) {
    impl_->GiveBack(before);
    impl_->Take(after);
  }
  impl_->claims.Set(key, claim);
}

void Inventory::Upsert(const std::shared_ptr<const api::DeviceTaintRule>& rule) {
  impl_->rules[rule->meta.name] = rule;
  for (auto& [key, pool] : impl_->pools) {
    pool.stale = true;
    impl_->dirty_pools.insert(key);
  }
  impl_->Grow();
}

void Inventory::DeleteNode(const std::string& name) {
  const auto at = impl_->nodes.find(name);
  if (at == impl_->nodes.end() || !at->second.node) {
    return;
  }
  at->second.node.reset();
  --impl_->known_nodes;
  impl_->order_stale = true;
  impl_->MarkDirty(name, at->second);
  impl_->Tidy(name);
}

void Inventory::DeletePod(const api::ObjectKey& key) {
  if (const PodRecord* old = impl_->pods.Find(key)) {
    impl_->Refund(old->node, old->requests, old->ports);
    impl_->pods.Set(key, nullptr);
  }
}

void Inventory::DeleteSlice(const std::string& name) {
  const auto at = impl_->slices.find(name);
  if (at != impl_->slices.end()) {
    impl_->RemoveSlice(at->second);
    if (!at->second->node_name.empty()) {
      impl_->MarkDirty(at->second->node_name, impl_->Work(at->second->node_name));
    }
    impl_->slices.erase(at);
    // Its going may complete the generation that is left.
    impl_->Grow();
  }
}

void Inventory::DeleteDeviceClass(const std::string& name) {
  if (impl_->classes.erase(name) > 0) {
    impl_->classes_stale = true;
  }
}

void Inventory::DeleteClaim(const api::ObjectKey& key) {
  if (const api::ResourceClaim* old = impl_->claims.Find(key)) {
    impl_->GiveBack(UsesOf(*old));
    impl_->claims.Set(key, nullptr);
  }
}

void Inventory::DeleteTaintRule(const std::string& name) {
  if (impl_->rules.erase(name) > 0) {
    for (auto& [key, pool] : impl_->pools) {
      pool.stale = true;
      impl_->dirty_pools.insert(key);
    }
    impl_->Grow();
  }
}

void Inventory::Hold(const std::string& holder,
                     const GangRequest& gang,
                     const Placement& placement) {
  Release(holder);
  auto hold = std::make_shared<HoldRecord>();
  for (const auto& pod_class : gang.classes) {
    hold->classes.push_back(ClassUse{.requests = impl_->Dense(pod_class.requests),
                                     .ports = HostPortsOf(pod_class.host_ports)});
  }
  hold->members.reserve(placement.pods.size());
  for (const auto& pod : placement.pods) {
    if (pod.pod_class >= hold->classes.size()) {
      continue;
    }
    hold->members.push_back(HoldMember{.pod_class = pod.pod_class,
                                       .index = pod.index,
                                       .node = pod.node,
                                       .devices = UsesOf(pod.devices)});
  }
  // The caller's order is by class and index; a plan read back from an annotation may not be.
  std::sort(hold->members.begin(), hold->members.end(), [](const auto& a, const auto& b) {
    return std::tie(a.pod_class, a.index) < std::tie(b.pod_class, b.index);
  });
  hold->shared = UsesOf(placement.shared_devices);
  for (std::size_t i = 0; i < gang.claims.size(); ++i) {
    const auto& claim = gang.claims[i];
    const api::ResourceClaim* known =
        claim.existing ? impl_->claims.Find(*claim.existing) : nullptr;
    if (!claim.shared || !claim.existing || (known != nullptr && known->allocated)) {
      continue;
    }
    std::vector<const PoolDevice*> devices;
    for (const auto& choice : placement.shared_devices) {
      const auto pool = impl_->pools.find(api::ObjectKey{.ns = choice.driver, .name = choice.pool});
      if (choice.claim != i || pool == impl_->pools.end() || !pool->second.record) {
        continue;
      }
      const auto device = pool->second.record->device_index.find(choice.device);
      if (device != pool->second.record->device_index.end()) {
        devices.push_back(&pool->second.record->devices[device->second]);
      }
    }
    PromisedClaim promise;
    for (const auto& pod : placement.pods) {
      const auto& used = gang.classes[pod.pod_class].claims;
      if (std::find(used.begin(), used.end(), i) != used.end() && !pod.node.empty()) {
        promise.selector = UsableAt(devices, pod.node);
        break;
      }
    }
    hold->promised.emplace_back(*claim.existing, promise);
  }
  for (const auto& member : hold->members) {
    if (!member.node.empty()) {
      const ClassUse& use = hold->classes[member.pod_class];
      impl_->Charge(member.node, use.requests, use.ports);
    }
    impl_->Take(member.devices);
  }
  impl_->Take(hold->shared);
  for (const auto& [key, promise] : hold->promised) {
    impl_->promised.Set(key, std::make_shared<const PromisedClaim>(promise));
  }
  const std::size_t members = hold->members.size();
  impl_->holding[holder] =
      HoldWork{.record = std::move(hold), .released = std::vector<bool>(members, false)};
  impl_->dirty_holds.insert(holder);
}

void Inventory::ReleaseOne(const std::string& holder, std::size_t pod_class, std::int32_t index) {
  const auto held = impl_->holding.find(holder);
  if (held == impl_->holding.end()) {
    return;
  }
  HoldWork& work = held->second;
  const auto& members = work.record->members;
  const auto wanted = std::make_pair(pod_class, index);
  const auto at = std::lower_bound(
      members.begin(), members.end(), wanted, [](const HoldMember& member, const auto& key) {
        return std::make_pair(member.pod_class, member.index) < key;
      });
  if (at == members.end() || at->pod_class != pod_class || at->index != index) {
    return;
  }
  const auto position = static_cast<std::size_t>(at - members.begin());
  if (work.released[position]) {
    return;
  }
  work.released[position] = true;
  impl_->ReleaseMember(*work.record, *at);
  impl_->dirty_holds.insert(holder);
}

void Inventory::Release(const std::string& holder) {
  const auto held = impl_->holding.find(holder);
  if (held == impl_->holding.end()) {
    return;
  }
  const HoldWork work = std::move(held->second);
  impl_->holding.erase(held);
  for (std::size_t i = 0; i < work.released.size(); ++i) {
    if (!work.released[i]) {
      impl_->ReleaseMember(*work.record, work.record->members[i]);
    }
  }
  impl_->GiveBack(work.record->shared);
  for (const auto& [key, promise] : work.record->promised) {
    impl_->promised.Set(key, nullptr);
  }
  impl_->dirty_holds.insert(holder);
}

std::shared_ptr<const InventoryView> Inventory::View() const {
  Impl& impl = *impl_;
  impl.Refresh();
  if (!impl.resources_view) {
    impl.resources_view = std::make_shared<const ResourceTable>(impl.resources);
  }
  auto view = std::make_shared<InventoryView>();
  view->nodes = impl.node_table.Freeze();
  view->order = impl.order;
  view->resources = impl.resources_view;
  view->pods = impl.pods.Freeze();
  view->pools = impl.pool_table.Freeze();
  view->network_pools = impl.network_pools;
  view->pool_slots = impl.pool_slots;
  view->classes = impl.classes_view;
  view->extended = impl.extended;
  view->claims = impl.claims.Freeze();
  view->promised = impl.promised.Freeze();
  view->holds = impl.holds.Freeze();
  view->selectors = impl.selectors;
  return view;
}

std::uint64_t Inventory::growth_generation() const {
  return impl_->growth;
}
bool Inventory::has_nodes() const {
  return impl_->known_nodes > 0;
}

std::vector<Inventory::DoubleOffer> Inventory::DoubleOfferedNodes() const {
  impl_->Refresh();
  std::vector<DoubleOffer> out;
  for (const auto& [name, work] : impl_->nodes) {
    if (!work.node) {
      continue;
    }
    for (const auto& [resource, amount] : work.node->allocatable) {
      if (amount.value() > 0) {
        std::string driver = impl_->DriverBehind(work, resource);
        if (!driver.empty()) {
          out.push_back(
              DoubleOffer{.node = name, .resource = resource, .driver = std::move(driver)});
        }
      }
    }
  }
  return out;
}

}  // namespace muster::placement
