#include "scheduler/placement/trial_state.h"

#include <algorithm>

#include "base/amount.h"
#include "base/check.h"

namespace muster::placement {

TrialState::TrialState(std::shared_ptr<const InventoryView> view) : view_(std::move(view)) {
  const auto& order = *view_->order;
  resources_ = view_->resources->names.size();
  records_.reserve(order.size());
  free_.assign(order.size() * resources_, 0);
  for (const std::uint32_t slot : order) {
    const NodeRecord* record = view_->nodes.Get(slot);
    MUSTER_CHECK(record != nullptr);
    std::copy(record->free.begin(),
              record->free.end(),
              free_.begin() + static_cast<std::ptrdiff_t>(records_.size() * resources_));
    records_.push_back(record);
  }
}

std::size_t TrialState::Find(const std::string& name) const {
  const auto at = std::lower_bound(
      records_.begin(), records_.end(), name, [](const NodeRecord* record, const std::string& key) {
        return record->node->meta.name < key;
      });
  return at != records_.end() && (*at)->node->meta.name == name
             ? static_cast<std::size_t>(at - records_.begin())
             : records_.size();
}

void TrialState::AddFree(NodeIndex node, ResourceId id, std::int64_t amount, std::int64_t times) {
  const std::size_t at = node * resources_ + id;
  journal_.push_back(Undo{.what = What::kFree, .at = at, .old = free_[at]});
  free_[at] = (Amount(free_[at]) + Amount(amount) * times).value();
}

const std::vector<HostPort>& TrialState::ports(NodeIndex node) const {
  const auto at = ports_.find(node);
  return at == ports_.end() ? records_[node]->ports : at->second;
}

void TrialState::SetPorts(NodeIndex node, std::vector<HostPort> ports) {
  const auto at = ports_.find(node);
  journal_.push_back(Undo{.what = What::kPorts, .at = node});
  if (at == ports_.end()) {
    old_ports_.emplace_back(false, std::vector<HostPort>());
    ports_.emplace(node, std::move(ports));
  } else {
    old_ports_.emplace_back(true, std::exchange(at->second, std::move(ports)));
  }
}

TrialPool& TrialState::pool(std::uint32_t slot) {
  if (pools_.size() <= slot) {
    pools_.resize(std::max<std::size_t>(slot + 1, view_->pools.size()));
  }
  auto& pool = pools_[slot];
  if (!pool) {
    const PoolState* base = view_->pools.Get(slot);
    MUSTER_CHECK(base != nullptr);
    pool = std::make_unique<TrialPool>();
    pool->base = base;
    pool->users = base->users;
    pool->shared = base->shared;
    for (const Counter& counter : base->record->counters) {
      pool->counters_free.push_back(counter.total);
      pool->overdrawn += counter.total < 0 ? 1 : 0;
    }
    for (std::uint32_t device = 0; device < pool->users.size(); ++device) {
      const auto shared = pool->shared.find(device);
      if (pool->users[device] > 0 ||
          (shared != pool->shared.end() && !shared->second.shares.empty())) {
        Use(*pool, device, -1);
      }
    }
  }
  return *pool;
}

void TrialState::Use(TrialPool& pool, std::uint32_t device, std::int64_t sign) {
  for (const auto& [counter, amount] : pool.base->record->devices[device].consumes) {
    __int128& rest = pool.counters_free[counter];
    const bool before = rest < 0;
    rest += static_cast<__int128>(amount) * sign;
    const bool after = rest < 0;
    if (before != after) {
      pool.overdrawn += after ? 1U : -1U;
    }
  }
}

void TrialState::TakeDevice(std::uint32_t slot, std::uint32_t device) {
  TrialPool& taken = pool(slot);
  if (taken.users[device]++ == 0) {
    Use(taken, device, -1);
  }
  journal_.push_back(Undo{.what = What::kTake, .at = slot, .old = device});
}

void TrialState::ReturnDevice(std::uint32_t slot, std::uint32_t device) {
  TrialPool& returned = pool(slot);
  MUSTER_CHECK(returned.users[device] > 0);
  if (--returned.users[device] == 0) {
    Use(returned, device, 1);
  }
  journal_.push_back(Undo{.what = What::kReturn, .at = slot, .old = device});
}

void TrialState::SetShared(std::uint32_t slot, std::uint32_t device, SharedUse use) {
  TrialPool& changed = pool(slot);
  const auto at = changed.shared.find(device);
  const bool was_used = at != changed.shared.end() && !at->second.shares.empty();
  const bool is_used = !use.shares.empty();
  if (was_used != is_used) {
    Use(changed, device, is_used ? -1 : 1);
  }
  journal_.push_back(Undo{.what = What::kShared, .at = slot, .old = device});
  if (at == changed.shared.end()) {
    old_shared_.emplace_back(false, SharedUse());
    changed.shared.emplace(device, std::move(use));
  } else {
    old_shared_.emplace_back(true, std::exchange(at->second, std::move(use)));
  }
}

const PromisedClaim* TrialState::promised(const api::ObjectKey& key) const {
  const auto at = promised_.find(key);
  if (at != promised_.end()) {
    return &at->second;
  }
  return vacated(key) ? nullptr : view_->promised.Find(key);
}

void TrialState::Promise(const api::ObjectKey& key, PromisedClaim claim) {
  journal_.push_back(Undo{.what = What::kPromise});
  const auto at = promised_.find(key);
  old_promised_.emplace_back(
      key, at == promised_.end() ? std::nullopt : std::optional<PromisedClaim>(at->second));
  promised_[key] = std::move(claim);
}

bool TrialState::vacated(const api::ObjectKey& key) const {
  return vacated_.contains(key);
}

void TrialState::Vacate(const api::ObjectKey& key) {
  journal_.push_back(Undo{.what = What::kVacate});
  old_vacated_.push_back(key);
  ++vacated_[key];
}

void TrialState::Rollback(Mark mark) {
  MUSTER_CHECK(mark <= journal_.size());
  while (journal_.size() > mark) {
    const Undo undo = journal_.back();
    journal_.pop_back();
    const auto slot = static_cast<std::uint32_t>(undo.at);
    const auto device = static_cast<std::uint32_t>(undo.old);
    switch (undo.what) {
      case What::kFree:
        free_[undo.at] = undo.old;
        break;
      case What::kPorts: {
        auto& [existed, ports] = old_ports_.back();
        if (existed) {
          ports_[slot] = std::move(ports);
        } else {
          ports_.erase(slot);
        }
        old_ports_.pop_back();
        break;
      }
      case What::kTake:
        if (--pools_[slot]->users[device] == 0) {
          Use(*pools_[slot], device, 1);
        }
        break;
      case What::kReturn:
        if (pools_[slot]->users[device]++ == 0) {
          Use(*pools_[slot], device, -1);
        }
        break;
      case What::kShared: {
        TrialPool& changed = *pools_[slot];
        auto& [existed, old] = old_shared_.back();
        SharedUse& now = changed.shared[device];
        const bool is_used = !now.shares.empty();
        const bool was_used = existed && !old.shares.empty();
        if (was_used != is_used) {
          Use(changed, device, was_used ? -1 : 1);
        }
        if (existed) {
          now = std::move(old);
        } else {
          changed.shared.erase(device);
        }
        old_shared_.pop_back();
        break;
      }
      case What::kPromise: {
        auto& [key, old] = old_promised_.back();
        if (old) {
          promised_[key] = *old;
        } else {
          promised_.erase(key);
        }
        old_promised_.pop_back();
        break;
      }
      case What::kVacate: {
        const auto at = vacated_.find(old_vacated_.back());
        if (--at->second == 0) {
          vacated_.erase(at);
        }
        old_vacated_.pop_back();
        break;
      }
    }
  }
}

}  // namespace muster::placement
