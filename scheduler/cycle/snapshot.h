#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/core.h"
#include "api/queueing.h"
#include "base/time.h"
#include "quota/fair_share.h"
#include "quota/flavors.h"
#include "quota/tree.h"
#include "scheduler/cycle/plan.h"
#include "scheduler/cycle/shape.h"
#include "scheduler/options.h"
#include "scheduler/placement/placement.h"

// Everything that one decision sees. Immutable; built on the I/O thread by State::TakeSnapshot,
// read on the solver thread by Decide.
namespace muster::scheduler {

// Whether a flavor's pool of nodes can grow (annotation muster.dev/capacity).
enum class Capacity : std::uint8_t { kAuto, kFixed, kElastic };

struct CompiledFlavor {
  std::string name;
  std::shared_ptr<const api::ResourceFlavor> flavor;  // null: not found
  Capacity capacity = Capacity::kAuto;                // as the annotation says
  std::vector<quota::Row> rows;                       // one per covered resource of the group
};
struct CompiledGroup {
  std::vector<std::string> covered;
  std::vector<CompiledFlavor> flavors;
};

// A ClusterQueue with everything looked up that does not change from one decision to the next.
struct CompiledQueue {
  std::string name;
  std::shared_ptr<const api::ClusterQueue> spec;
  // Absent under a cohort cycle.
  std::optional<quota::QueuePlace> place;
  std::vector<CompiledGroup> groups;
  std::map<std::string, std::pair<std::size_t, std::size_t>, std::less<>>
      resources;  // name -> group, index in covered
  quota::Fungibility fungibility;
  bool provisioning_check = false;  // has a ProvisioningRequest admission check
  api::Condition active;            // type Active
};
using CompiledQueues = std::map<std::string, std::shared_ptr<const CompiledQueue>, std::less<>>;

// Labels of the nodes and which of them an autoscaler made, for Auto capacity.
struct NodePools {
  struct Pool {
    std::shared_ptr<const api::Node> node;
    bool autoscaled = false;
  };
  std::vector<Pool> nodes;  // by name
};

// A Workload that holds quota, as others may take its place.
struct RunningWorkload {
  WorkloadRef ref;
  std::int64_t priority = 0;
  TimePoint order_time{};                // as PendingItem's: what "newer" means
  std::optional<TimePoint> reserved_at;  // absent: its admission is being written
  bool evicted = false;                  // it is on its way out, by whomever
  std::string local_queue;
  std::vector<std::pair<quota::FlavorResource, Amount>> usage;
  std::vector<api::ObjectKey> pods;  // bound ones
};
using RunningWorkloads =
    std::vector<std::shared_ptr<const RunningWorkload>>;  // by namespace and name

// A Workload for which others were evicted and that waits for them to go. Its plan is booked as if
// they had gone.
struct Claim {
  WorkloadRef preemptor;
  std::string queue;
  std::int64_t priority = 0;
  TimePoint order_time{};
  std::vector<std::pair<quota::FlavorResource, Amount>> usage;
  std::set<api::ObjectKey> victims;
  // Promises of its plan stand in the inventory under this name; empty: it has none.
  std::string holder;
};

struct PendingItem {
  WorkloadRef ref;
  std::shared_ptr<const api::Workload> workload;
  std::shared_ptr<const Shape> shape;
  std::int64_t priority = 0;
  TimePoint order_time{};
  std::string local_queue;

  // Order within a queue: higher priority, earlier time, smaller UID, then the name.
  [[nodiscard]] bool Before(const PendingItem& other) const {
    if (priority != other.priority) {
      return priority > other.priority;
    }
    if (order_time != other.order_time) {
      return order_time < other.order_time;
    }
    if (ref.uid != other.ref.uid) {
      return ref.uid < other.ref.uid;
    }
    return ref.key < other.ref.key;
  }
};

// Interchangeable pending Workloads of one queue, in order.
struct PendingClass {
  std::vector<std::shared_ptr<const PendingItem>> items;
  // How often the step budget did not suffice so far; the next attempt gets more.
  std::int32_t undecided = 0;
};
struct PendingQueueView {
  std::shared_ptr<const CompiledQueue> queue;
  std::vector<PendingClass> classes;
  // Held against borrowers by a Workload that waits for its queue's own nominal quota (and is not
  // among `classes`).
  std::vector<std::pair<quota::FlavorResource, Amount>> held;
  std::string held_for;  // namespace/name
};

struct Snapshot {
  std::uint64_t generation = 0;
  std::shared_ptr<const Options> options;
  std::shared_ptr<const CompiledQueues> queues;
  quota::Forest ledger;
  std::vector<std::shared_ptr<const quota::FairShares>> shares;  // by tree
  std::vector<PendingQueueView> pending;  // by queue name; queues that can admit only
  std::vector<Refusal> standing;          // verdicts that need no decision
  // By queue name; queues with none are absent.
  std::map<std::string, std::shared_ptr<const RunningWorkloads>, std::less<>> running;
  std::vector<std::shared_ptr<const Claim>> claims;  // by preemptor
  // Victims that did not go while their room was held for a preemptor: it is not held again.
  std::map<api::ObjectKey, std::set<api::ObjectKey>> waited_for;
  std::shared_ptr<const placement::InventoryView> inventory;
  std::shared_ptr<const NodePools> pools;
  // ResourceClaims that a Workload with quota uses already: they are charged.
  std::shared_ptr<const std::set<api::ObjectKey>> charged_claims;
  // Nodes promised to pods that are not bound yet.
  std::shared_ptr<const std::set<std::string, std::less<>>> unbound_nodes;
  // blockAdmission: some admitted Workload is not ready.
  bool blocked_by_pods_ready = false;
};

}  // namespace muster::scheduler
