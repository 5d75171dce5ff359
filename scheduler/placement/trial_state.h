#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/placement/records.h"

// The changeable state of a trial: what is free on nodes and devices, with an undo journal.
namespace muster::placement {

using NodeIndex = std::uint32_t;  // nodes by name, dense

// One pool as the trial sees it: made when first touched.
struct TrialPool {
  const PoolState* base = nullptr;
  std::vector<std::uint32_t> users;     // per device
  std::vector<__int128> counters_free;  // per counter; may be negative, never wraps
  std::map<std::uint32_t, SharedUse> shared;
  // Counters with a negative rest: while there are any, no device that uses counters can be taken.
  std::uint32_t overdrawn = 0;
};

class TrialState {
 public:
  explicit TrialState(std::shared_ptr<const InventoryView> view);

  using Mark = std::size_t;
  [[nodiscard]] Mark Checkpoint() const { return journal_.size(); }
  void Rollback(Mark mark);

  [[nodiscard]] const InventoryView& view() const { return *view_; }
  [[nodiscard]] std::size_t node_count() const { return records_.size(); }
  [[nodiscard]] std::size_t resource_count() const { return resources_; }
  [[nodiscard]] const NodeRecord& record(NodeIndex node) const { return *records_[node]; }
  [[nodiscard]] const std::string& name(NodeIndex node) const {
    return records_[node]->node->meta.name;
  }
  [[nodiscard]] std::int64_t free(NodeIndex node, ResourceId id) const {
    return free_[node * resources_ + id];
  }
  // The node of this name, or node_count().
  [[nodiscard]] std::size_t Find(const std::string& name) const;

  // Adds (or with a negative `delta` takes) an amount, saturating.
  void AddFree(NodeIndex node, ResourceId id, std::int64_t amount, std::int64_t times);
  [[nodiscard]] const std::vector<HostPort>& ports(NodeIndex node) const;
  void SetPorts(NodeIndex node, std::vector<HostPort> ports);

  [[nodiscard]] TrialPool& pool(std::uint32_t slot);
  [[nodiscard]] bool has_pool(std::uint32_t slot) const {
    return view_->pools.Get(slot) != nullptr;
  }
  // Changes a device's number of users and, when it comes into use or out of it, its counters.
  void TakeDevice(std::uint32_t slot, std::uint32_t device);
  void ReturnDevice(std::uint32_t slot, std::uint32_t device);
  void SetShared(std::uint32_t slot, std::uint32_t device, SharedUse use);

  // Claims allocated by gangs of this trial: where their devices are.
  [[nodiscard]] const PromisedClaim* promised(const api::ObjectKey& key) const;
  void Promise(const api::ObjectKey& key, PromisedClaim claim);
  // Claims that lost their last user in this trial count as not allocated.
  [[nodiscard]] bool vacated(const api::ObjectKey& key) const;
  void Vacate(const api::ObjectKey& key);

 private:
  enum class What : std::uint8_t { kFree, kPorts, kTake, kReturn, kShared, kPromise, kVacate };
  struct Undo {
    What what = What::kFree;
    std::size_t at = 0;    // index into free_, a node, or a pool slot
    std::int64_t old = 0;  // amount, or the device
  };
  void Use(TrialPool& pool, std::uint32_t device, std::int64_t sign);

  std::shared_ptr<const InventoryView> view_;
  std::size_t resources_ = 0;
  std::vector<const NodeRecord*> records_;
  std::vector<std::int64_t> free_;
  std::map<NodeIndex, std::vector<HostPort>> ports_;  // of nodes where they changed
  std::vector<std::unique_ptr<TrialPool>> pools_;
  std::map<api::ObjectKey, PromisedClaim> promised_;
  std::map<api::ObjectKey, std::uint32_t> vacated_;

  std::vector<Undo> journal_;
  // Old values that do not fit an Undo, in journal order.
  std::vector<std::pair<bool, std::vector<HostPort>>> old_ports_;
  std::vector<std::pair<bool, SharedUse>> old_shared_;
  std::vector<std::pair<api::ObjectKey, std::optional<PromisedClaim>>> old_promised_;
  std::vector<api::ObjectKey> old_vacated_;
};

}  // namespace muster::placement
