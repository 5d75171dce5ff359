#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/object.h"
#include "base/time.h"
#include "scheduler/cycle/plan.h"
#include "scheduler/options.h"

// Everything that decisions are made of: caches of configuration, quota in use, pending queues and
// the inventory. The controller feeds it with decoded objects, asks for a snapshot, and hands back
// the plan.
namespace muster::scheduler {

struct Snapshot;  // scheduler/cycle/snapshot.h

// Status of a ClusterQueue as the API shows it.
struct FlavorUsage {
  std::string flavor;
  std::string resource;
  Amount total;
  Amount borrowed;
};
struct QueueStatus {
  std::int32_t pending = 0;
  std::int32_t reserving = 0;
  std::int32_t admitted = 0;
  std::vector<FlavorUsage> reservation;  // QuotaReserved Workloads
  std::vector<FlavorUsage> usage;        // Admitted Workloads
  api::Condition active;  // type Active, with reason and message; last_transition_time unset
  std::optional<std::int64_t> weighted_share;
};
struct PendingView {
  api::ObjectKey workload;
  std::string cluster_queue;
  std::string local_queue;
  std::int32_t position = 0;        // in the ClusterQueue, from 0
  std::int32_t local_position = 0;  // in the LocalQueue
  std::int64_t priority = 0;
  Verdict verdict;
  bool active = true;  // false: parked until something that it waits for changes
};

// Threads  The I/O thread only. Snapshots are immutable and may go to the solver thread.
// Cost     Upserts O(log n); TakeSnapshot shares unchanged parts; Apply O(plan).
class State {
 public:
  explicit State(const Options& options);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // Feeds any object; kinds that do not matter here are ignored. Workloads sort themselves into
  // pending, reserving or finished by their status.
  void Upsert(const api::Object& object, TimePoint now);
  void Delete(api::Kind kind, const api::ObjectKey& key, TimePoint now);
  // All kinds have been listed once; before that nothing is decided.
  void SetSynced();

  // Pods of a gang by Workload, so that promises turn into bound pods: called by the controller
  // when it learns which pod is which member.
  void BindMember(const api::ObjectKey& workload, std::size_t pod_class, std::int32_t index);

  // A bound pod of a Workload with quota: what its eviction would free.
  void NotePod(const api::ObjectKey& workload, const api::ObjectKey& pod);

  // Something changed that could alter a verdict, and the backoff of nobody forbids looking.
  [[nodiscard]] bool NeedsCycle(TimePoint now) const;
  // When time alone will make a cycle necessary (backoff ends).
  [[nodiscard]] std::optional<TimePoint> NextWake() const;
  [[nodiscard]] std::shared_ptr<const Snapshot> TakeSnapshot(TimePoint now);

  // Takes the plan: decisions whose Workload moved meanwhile are dropped and requeued; accepted
  // admissions become assumed (they count in the next snapshot). Returns what the controller must
  // carry out, refusals only where the verdict differs from the last one told.
  [[nodiscard]] Plan Apply(Plan plan, TimePoint now);
  // The admission's write failed: the Workload goes back to its queue.
  void Forget(const api::ObjectKey& workload, TimePoint now);

  // Views.
  [[nodiscard]] QueueStatus ClusterQueueStatus(const std::string& name) const;
  // Absent: fair sharing is off, or the cohort is on a cycle or unknown.
  [[nodiscard]] std::optional<std::int64_t> CohortShare(const std::string& name) const;
  [[nodiscard]] QueueStatus LocalQueueStatus(const api::ObjectKey& key) const;
  [[nodiscard]] std::vector<PendingView> Pending() const;  // by ClusterQueue, then position
  [[nodiscard]] std::optional<PendingView> PendingOf(const api::ObjectKey& workload) const;
  // All queues, by name: for metrics and dashboards.
  [[nodiscard]] std::vector<api::Ptr<api::ClusterQueue>> ClusterQueues() const;
  [[nodiscard]] std::vector<api::Ptr<api::LocalQueue>> LocalQueues() const;
  // The ClusterQueue that a LocalQueue leads to; empty if there is none.
  [[nodiscard]] std::string ClusterQueueOf(const api::ObjectKey& local_queue) const;
  [[nodiscard]] const api::ResourceFlavor* Flavor(const std::string& name) const;
  // Queues whose status may differ from what was last reported; clears the marks.
  [[nodiscard]] std::vector<std::string> TakeDirtyClusterQueues();
  [[nodiscard]] std::vector<api::ObjectKey> TakeDirtyLocalQueues();
  // The remembered placement of an admitted Workload (assumed or recovered), or null.
  [[nodiscard]] const AdmissionDecision* DecisionOf(const api::ObjectKey& workload) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct Budget {
  std::int64_t placement_steps_per_gang = 2'000'000;
  std::int64_t total_steps = 200'000'000;
};

// The decision: a pure function. The same snapshot gives the same plan on any machine and compiler.
[[nodiscard]] Plan Decide(const Snapshot& snapshot, TimePoint now, const Budget& budget);

}  // namespace muster::scheduler
