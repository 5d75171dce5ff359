#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/object.h"
#include "quota/tree.h"
#include "scheduler/cache/queues.h"
#include "scheduler/cache/shapes.h"
#include "scheduler/cycle/snapshot.h"
#include "scheduler/placement/placement.h"
#include "scheduler/queue/pending.h"
#include "scheduler/state.h"

// Inside of State; included by scheduler/state*.cc only.
namespace muster::scheduler {

using Charge = std::vector<std::pair<quota::FlavorResource, Amount>>;

enum class Where : std::uint8_t {
  kNowhere,   // finished, being deleted, half-written
  kStanding,  // cannot be decided on as it is: the reason is in `standing`
  kQueued,
  kReserved,  // holds quota: by its status, or assumed while the write is under way
};

struct WorkloadEntry {
  std::shared_ptr<const api::Workload> object;
  Where where = Where::kNowhere;
  std::string queue;  // ClusterQueue, when known
  api::ObjectKey local_queue;
  std::shared_ptr<const Shape> shape;
  std::optional<Verdict> problem;  // of the shape

  std::shared_ptr<const PendingItem> item;  // kQueued
  std::optional<Verdict> standing;          // kStanding
  bool standing_tell = false;               // the verdict is news for the user
  bool counts_as_pending = false;
  Verdict told;  // what QuotaReserved=False says, or what was handed out to be written
  std::int32_t failures = 0;
  TimePoint not_before{};          // after failed writes
  std::optional<TimePoint> until;  // stands in Impl::waiting_until

  bool assumed = false;
  Charge charge;
  bool charged_as_admitted = false;
  bool not_ready = false;
  std::vector<api::ObjectKey> charged_claims;
  std::optional<AdmissionDecision> decision;
  std::shared_ptr<const RunningWorkload> running;  // as decisions see it; null: to be made
  std::optional<std::int64_t> ran_with;            // priority when last looked at while running
  std::set<api::ObjectKey> pods;                   // bound ones
  bool preempting = false;                         // its eviction has been decided
  // Of a queued one: victims that did not go while their room was held for it.
  std::set<api::ObjectKey> waited_for;
  bool held = false;  // promises of its unbound pods are in the inventory
  std::set<std::pair<std::size_t, std::int32_t>> bound;
};

struct HeldClaim {
  std::shared_ptr<const Claim> claim;
  TimePoint until{};
};

struct TreeWake {
  std::string fingerprint;
  std::uint64_t quota = 0;
  std::uint64_t configuration = 0;
};

struct State::Impl {
  explicit Impl(const Options& given);

  // --- objects ---
  std::shared_ptr<const Options> options;
  ByName<api::Namespace> namespaces;
  ByKey<api::LimitRange> limit_ranges;
  ByName<api::RuntimeClass> runtime_classes;
  ByName<api::DeviceClass> device_classes;
  ByKey<api::ResourceClaimTemplate> claim_templates;
  ByKey<api::ResourceClaim> claims;
  QueueObjects objects;
  ByKey<api::LocalQueue> local_queues;
  std::map<api::ObjectKey, WorkloadEntry> workloads;
  std::map<api::ObjectKey, std::set<api::ObjectKey>> by_local_queue;
  std::map<std::string, std::shared_ptr<const api::Node>, std::less<>> nodes;
  std::shared_ptr<const NodePools> pools = std::make_shared<NodePools>();
  bool pools_dirty = false;
  placement::Inventory inventory;

  // --- derived ---
  Configuration configuration;
  bool configuration_dirty = true;
  std::map<std::string, TreeWake, std::less<>> trees;  // by root
  std::map<std::string, PendingQueue, std::less<>> queues;
  std::map<std::string, std::set<api::ObjectKey>, std::less<>>
      aside;  // standing Workloads that count as pending, by ClusterQueue
  std::map<std::string, std::set<api::ObjectKey>, std::less<>> reserved;  // by ClusterQueue
  std::map<std::string, std::shared_ptr<const RunningWorkloads>, std::less<>> running;
  std::set<std::string, std::less<>> running_dirty;  // queues
  std::map<api::ObjectKey, HeldClaim> claims_held;   // by preemptor
  std::set<api::ObjectKey> waiting_in_vain;          // with `waited_for`
  std::set<std::pair<TimePoint, api::ObjectKey>> waiting_until;
  std::set<api::ObjectKey> untold;  // standing verdicts to be handed out
  std::set<api::ObjectKey> unrecovered;
  std::map<api::ObjectKey, std::int32_t> charged_claims;
  std::map<api::ObjectKey, std::set<api::ObjectKey>>
      claim_users;  // named claim -> queued Workloads
  std::map<std::string, std::int32_t, std::less<>> unbound_nodes;
  std::shared_ptr<const std::set<api::ObjectKey>> charged_claims_view =
      std::make_shared<std::set<api::ObjectKey>>();
  std::shared_ptr<const std::set<std::string, std::less<>>> unbound_nodes_view =
      std::make_shared<std::set<std::string, std::less<>>>();
  bool claims_dirty = false;
  bool unbound_dirty = false;
  std::size_t not_ready = 0;

  std::uint64_t generation = 1;  // grows with every event that could change a verdict
  std::uint64_t capacity_wake = 0;
  std::uint64_t pods_ready_wake = 0;
  std::uint64_t growth_seen = 0;
  bool synced = false;

  std::set<std::string> dirty_cluster_queues;
  std::set<api::ObjectKey> dirty_local_queues;

  // NeedsCycle's last answer, good until the generation moves or time reaches `active_until`.
  std::uint64_t active_generation = 0;
  bool active = false;
  std::optional<TimePoint> active_until;

  // state.cc: filing
  [[nodiscard]] ShapeContext Context() const;
  void Bump() { ++generation; }
  void UpsertWorkload(const std::shared_ptr<const api::Workload>& workload, TimePoint now);
  void DeleteWorkload(const api::ObjectKey& key);
  void Refile(WorkloadEntry& entry, bool reshape, TimePoint now);
  void Unfile(WorkloadEntry& entry);
  template <typename Predicate>
  void RefileIf(const Predicate& predicate, bool reshape, TimePoint now) {
    for (auto& [key, entry] : workloads) {
      if (predicate(entry)) {
        Refile(entry, reshape, now);
      }
    }
  }
  void RefileNamespace(const std::string& ns, bool reshape, TimePoint now);
  void RefileLocalQueue(const api::ObjectKey& key, TimePoint now);
  void RefileClusterQueue(const std::string& name, TimePoint now);
  [[nodiscard]] std::optional<Verdict> BlockerOf(WorkloadEntry& entry,
                                                 TimePoint now,
                                                 bool& tell,
                                                 bool& counts,
                                                 std::optional<TimePoint>& until);
  void MarkDirty(const WorkloadEntry& entry);

  // state.cc: accounting
  void ChangeConfiguration() {
    configuration_dirty = true;
    Bump();
  }
  // Which nodes there are, or their labels: it may make a pool one that can grow.
  void ChangePools() {
    pools_dirty = true;
    Bump();
    capacity_wake = generation;
  }
  void EnsureConfiguration(TimePoint now);
  [[nodiscard]] const CompiledQueue* Queue(std::string_view name) const;
  [[nodiscard]] std::int64_t ShareOf(const quota::QueuePlace& place) const;
  void SetCharge(WorkloadEntry& entry, Charge charge, bool admitted);
  void Book(const std::string& queue, const Charge& charge, int sign);
  void WakeTree(const std::string& queue);
  void Release(WorkloadEntry& entry);
  // Something that others see of it when they look for victims has changed.
  void TouchRunning(WorkloadEntry& entry);
  void RefreshRunning();
  [[nodiscard]] static std::shared_ptr<const RunningWorkload> RunningOf(const WorkloadEntry& entry);
  void DropClaim(const api::ObjectKey& preemptor);
  void ExpireClaims(TimePoint now);
  void AcceptPreemptions(Plan& plan, Plan& out, TimePoint now);
  void SetClaims(WorkloadEntry& entry, std::vector<api::ObjectKey> keys);
  void SetNotReady(WorkloadEntry& entry, bool value);
  void Hold(WorkloadEntry& entry);
  void DropHold(WorkloadEntry& entry);
  [[nodiscard]] static Charge ChargeOf(const api::Workload& workload);
  [[nodiscard]] static std::vector<api::ObjectKey> NamedClaimsOf(const api::Workload& workload);

  // state_cycle.cc
  [[nodiscard]] WakeClock ClockOf(const std::string& queue) const;
  void NoticeGrowth();
  void PromoteDue(TimePoint now);
  [[nodiscard]] bool HasActive(TimePoint now);
  void RecoverPlacements();
  void Recover(WorkloadEntry& entry, placement::Trial& trial);
  [[nodiscard]] std::optional<Verdict> QueueVerdict(const std::string& name) const;
  [[nodiscard]] Verdict VerdictOf(const WorkloadEntry& entry) const;
  [[nodiscard]] bool AcceptAdmission(AdmissionDecision& decision, TimePoint now);
};

}  // namespace muster::scheduler
