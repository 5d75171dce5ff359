#include <algorithm>
#include <set>

#include "scheduler/placement/placement.h"
#include "scheduler/placement/solver.h"

namespace muster::placement {

struct Trial::Impl {
  explicit Impl(std::shared_ptr<const InventoryView> view) : state(std::move(view)) {}
  TrialState state;
  FilterCache filters;

  void Take(const std::vector<DeviceUse>& uses) {
    for (const auto& use : uses) {
      const auto slot =
          state.view().pool_slots->find(api::ObjectKey{.ns = use.key.driver, .name = use.key.pool});
      if (slot == state.view().pool_slots->end()) {
        continue;
      }
      const TrialPool& pool = state.pool(slot->second);
      const auto device = pool.base->record->device_index.find(use.key.device);
      if (device == pool.base->record->device_index.end()) {
        continue;
      }
      if (use.share) {
        const auto shared = pool.shared.find(device->second);
        SharedUse more = shared == pool.shared.end() ? SharedUse{} : shared->second;
        more.Add(use.consumed);
        state.SetShared(slot->second, device->second, std::move(more));
      } else {
        state.TakeDevice(slot->second, device->second);
      }
    }
  }

  void Refund(const std::string& node, const ClassUse& use) {
    const std::size_t index = state.Find(node);
    if (index == state.node_count()) {
      return;
    }
    const auto at = static_cast<NodeIndex>(index);
    for (const auto& request : use.requests) {
      // A resource that came up after this view was taken is not offered by any of its nodes.
      if (request.id < state.resource_count()) {
        state.AddFree(at, request.id, request.amount, 1);
      }
    }
    if (!use.ports.empty()) {
      auto ports = state.ports(at);
      for (const auto& port : use.ports) {
        const auto found = std::find(ports.begin(), ports.end(), port);
        if (found != ports.end()) {
          ports.erase(found);
        }
      }
      state.SetPorts(at, std::move(ports));
    }
  }

  void Return(const std::vector<DeviceUse>& uses) {
    for (const auto& use : uses) {
      const auto slot =
          state.view().pool_slots->find(api::ObjectKey{.ns = use.key.driver, .name = use.key.pool});
      if (slot == state.view().pool_slots->end()) {
        continue;
      }
      const TrialPool& pool = state.pool(slot->second);
      const auto device = pool.base->record->device_index.find(use.key.device);
      if (device == pool.base->record->device_index.end()) {
        continue;
      }
      if (use.share) {
        const auto shared = pool.shared.find(device->second);
        if (shared != pool.shared.end()) {
          SharedUse left = shared->second;
          if (left.Remove(use.consumed)) {
            state.SetShared(slot->second, device->second, std::move(left));
          }
        }
      } else if (pool.users[device->second] > 0) {
        state.ReturnDevice(slot->second, device->second);
      }
    }
  }
};

Trial::Trial(std::shared_ptr<const InventoryView> view)
    : impl_(std::make_unique<Impl>(std::move(view))) {}
Trial::~Trial() = default;
Trial::Trial(Trial&&) noexcept = default;
Trial& Trial::operator=(Trial&&) noexcept = default;

Answer Trial::Place(const GangRequest& gang, std::int64_t budget_steps) {
  return PlaceGang(impl_->state, impl_->filters, gang, budget_steps);
}

Answer Trial::Probe(const GangRequest& gang, std::int64_t budget_steps) {
  const auto mark = impl_->state.Checkpoint();
  Answer answer = PlaceGang(impl_->state, impl_->filters, gang, budget_steps);
  impl_->state.Rollback(mark);
  return answer;
}

Trial::Mark Trial::Checkpoint() const {
  return impl_->state.Checkpoint();
}
void Trial::Rollback(Mark mark) {
  impl_->state.Rollback(mark);
}

void Trial::Occupy(const GangRequest& gang, const Placement& placement) {
  TrialState& state = impl_->state;
  const ResourceTable& resources = *state.view().resources;
  for (const auto& pod : placement.pods) {
    impl_->Take(UsesOf(pod.devices));
    const std::size_t index = pod.node.empty() ? state.node_count() : state.Find(pod.node);
    if (index == state.node_count() || pod.pod_class >= gang.classes.size()) {
      continue;
    }
    const auto at = static_cast<NodeIndex>(index);
    const PodClass& pod_class = gang.classes[pod.pod_class];
    state.AddFree(at, kPods, 1, -1);
    for (const auto& [resource, amount] : pod_class.requests) {
      // What no node offers is no node's to give.
      if (const auto id = resources.ids.find(resource); resource != "pods" && amount.value() > 0 &&
                                                        id != resources.ids.end() &&
                                                        id->second < state.resource_count()) {
        state.AddFree(at, id->second, amount.value(), -1);
      }
    }
    if (!pod_class.host_ports.empty()) {
      auto ports = state.ports(at);
      for (const auto& port : HostPortsOf(pod_class.host_ports)) {
        ports.push_back(port);
      }
      state.SetPorts(at, std::move(ports));
    }
  }
  impl_->Take(UsesOf(placement.shared_devices));
}

void Trial::Remove(const std::string& holder, const std::vector<api::ObjectKey>& pods) {
  const InventoryView& view = impl_->state.view();
  std::set<api::ObjectKey> gone(pods.begin(), pods.end());
  std::set<api::ObjectKey> claims;
  std::set<api::ObjectKey> groups;
  for (const auto& key : gone) {
    const PodRecord* pod = view.pods.Find(key);
    if (pod == nullptr) {
      continue;
    }
    impl_->Refund(pod->node, ClassUse{.requests = pod->requests, .ports = pod->ports});
    for (const auto& claim : pod->claims) {
      claims.insert(api::ObjectKey{.ns = key.ns, .name = claim});
    }
    if (!pod->group.empty()) {
      groups.insert(api::ObjectKey{.ns = key.ns, .name = pod->group});
    }
  }
  for (const auto& key : claims) {
    const api::ResourceClaim* claim = view.claims.Find(key);
    if (claim == nullptr || !claim->allocated || impl_->state.vacated(key)) {
      continue;
    }
    // A claim comes free when nobody else has it reserved.
    const bool all_gone = std::all_of(
        claim->reserved_for.begin(), claim->reserved_for.end(), [&](const auto& consumer) {
          const api::ObjectKey by{.ns = key.ns, .name = consumer.name};
          return consumer.resource == "podgroups" ? groups.contains(by) : gone.contains(by);
        });
    if (all_gone) {
      impl_->Return(UsesOf(*claim));
      impl_->state.Vacate(key);
    }
  }
  if (const HoldRecord* hold = view.holds.Find(holder)) {
    for (const auto& member : hold->members) {
      if (!member.node.empty()) {
        impl_->Refund(member.node, hold->classes[member.pod_class]);
      }
      impl_->Return(member.devices);
    }
    impl_->Return(hold->shared);
    for (const auto& [key, promise] : hold->promised) {
      impl_->state.Vacate(key);
    }
  }
}

std::int64_t Trial::CountNodes(const api::StringMap& labels) const {
  std::int64_t count = 0;
  for (NodeIndex node = 0; node < impl_->state.node_count(); ++node) {
    count += MatchesLabels(labels, impl_->state.record(node).node->meta.labels) ? 1 : 0;
  }
  return count;
}

}  // namespace muster::placement
