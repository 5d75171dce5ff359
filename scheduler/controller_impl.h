#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "api/json.h"
#include "api/object.h"
#include "jobs/unit.h"
#include "scheduler/controller.h"
#include "scheduler/controller_driver.h"
#include "scheduler/controller_edit.h"
#include "scheduler/effects.h"

// The insides of Controller, shared by controller.cc, controller_units.cc, controller_workload.cc
// and controller_queues.cc.
namespace muster::scheduler {

enum class UnitKind : std::uint8_t { kJob, kPod, kPodGroup, kNative };

// A job in the wide sense. For kNative the name is "<kind letter>/<name>" of the gang's root: w
// (native Workload), c (CompositePodGroup), g (PodGroup).
struct UnitKey {
  UnitKind kind = UnitKind::kJob;
  api::ObjectKey key;
  friend auto operator<=>(const UnitKey&, const UnitKey&) = default;
};

using KindKey = std::pair<api::Kind, api::ObjectKey>;
using Target = std::variant<UnitKey, KindKey>;

inline constexpr std::string_view kNativeRoot =
    "muster.dev/native-root";  // annotation on the Workload of a native gang

struct Controller::Impl {
  Impl(State& s, const Options& o) : state(s), options(o) {}

  State& state;
  const Options& options;
  bool synced = false;
  bool leading = false;
  bool solving = false;
  std::uint64_t next_id = 1;
  TimePoint now{};
  std::vector<Effect> out;

  // --- stores ---
  template <typename T>
  using Map = std::map<api::ObjectKey, api::Ptr<T>>;
  std::tuple<Map<api::Namespace>,
             Map<api::PriorityClass>,
             Map<api::ResourceFlavor>,
             Map<api::Topology>,
             Map<api::AdmissionCheck>,
             Map<api::WorkloadPriorityClass>,
             Map<api::Cohort>,
             Map<api::ClusterQueue>,
             Map<api::LocalQueue>,
             Map<api::Workload>,
             Map<api::PodGroup>,
             Map<api::CompositePodGroup>,
             Map<api::Job>,
             Map<api::ResourceClaim>,
             Map<api::DeviceClass>,
             Map<api::Pod>>
      stores;
  template <typename T>
  Map<T>& store() {
    return std::get<Map<T>>(stores);
  }
  template <typename T>
  const Map<T>& store() const {
    return std::get<Map<T>>(stores);
  }
  template <typename T>
  api::Ptr<T> Find(const api::ObjectKey& key) const {
    const Map<T>& map = store<T>();
    const auto it = map.find(key);
    return it == map.end() ? nullptr : it->second;
  }

  // --- indexes ---
  std::map<UnitKey, std::set<api::ObjectKey>> workloads_of_unit;
  std::map<api::ObjectKey, std::set<api::ObjectKey>> workloads_of_queue;  // LocalQueue -> Workloads
  std::map<std::string, std::set<api::ObjectKey>> queues_of_cluster_queue;
  std::map<std::string, std::set<api::ObjectKey>> workloads_of_class;  // WorkloadPriorityClass
  std::map<std::string, api::ObjectKey> job_by_uid;
  std::map<std::string, std::set<api::ObjectKey>> pods_of_job;        // by the Job's uid
  std::map<api::ObjectKey, std::set<api::ObjectKey>> pods_of_group;   // ns/pod-group-name
  std::map<api::ObjectKey, std::set<api::ObjectKey>> pods_of_native;  // ns/PodGroup
  std::map<api::ObjectKey, std::set<api::ObjectKey>> groups_of_root;  // kNative key -> PodGroups
  std::map<api::ObjectKey, api::ObjectKey> root_of_group;             // PodGroup -> kNative key
  std::map<api::ObjectKey, UnitKey> unit_of_pod;
  // Native members that came when their gang had all it was granted: each queues by itself.
  std::set<api::ObjectKey> late_pods;

  // --- what is to be looked at ---
  std::set<UnitKey> dirty_units;
  std::set<KindKey> dirty;
  std::set<std::pair<TimePoint, Target>> wakes;
  std::map<Target, std::set<TimePoint>> wakes_of;  // the same, by target

  // --- writes ---
  enum class Purpose : std::uint8_t { kOther, kAdmit, kStart, kCreate, kReread };
  struct InFlight {
    std::uint64_t id = 0;
    Purpose purpose = Purpose::kOther;
    bool gone = false;    // deleted meanwhile: the answer must not bring it back
    std::string node;     // pods: the node that the write pins
    std::string deletes;  // uid of what the write deletes
    std::vector<Effect> on_success;
    std::optional<UnitKey> unit;  // to be looked at when the write has ended
  };
  std::map<KindKey, InFlight> in_flight;
  std::map<std::uint64_t, KindKey> by_id;
  struct Trouble {
    std::int32_t fails = 0;
    TimePoint until{};
    bool conflict = false;
    std::string told;  // last error shown
  };
  std::map<KindKey, Trouble> trouble;
  std::map<KindKey, std::uint64_t>
      adopted;  // resourceVersion of the newest answer, until the watch has caught up
  std::set<std::string> delete_sent;  // uids

  // --- decisions on their way ---
  std::map<api::ObjectKey, AdmissionDecision> admissions;  // to be written or in flight
  std::map<api::ObjectKey, PreemptionDecision> preemptions;
  struct Waiting {
    Verdict verdict;
    TimePoint due{};
  };
  std::map<api::ObjectKey, Waiting> verdicts;
  std::map<api::ObjectKey, TimePoint> verdict_written;
  std::map<api::ObjectKey, TimePoint> reread;  // admissions whose outcome is unknown
  std::map<api::ObjectKey, std::int32_t> refused_starts;

  // Members of admitted gangs that have a node.
  struct Members {
    std::map<api::ObjectKey, std::pair<std::size_t, std::int32_t>> index_of_pod;
    std::set<std::pair<std::size_t, std::int32_t>> used;
    // Pods whose claims are being allocated as planned, before they have a node.
    std::map<api::ObjectKey, std::pair<std::size_t, std::int32_t>> planned;
  };
  std::map<api::ObjectKey, Members> members;

  std::map<KindKey, TimePoint> status_written;
  std::map<std::string, bool> active_seen;  // ClusterQueue -> Active, as last computed
  std::map<KindKey, std::string> bad_objects;
  std::map<Target, std::string> told;  // last event of a kind that is told once

  // --- controller.cc ---
  void OnObject(const api::Object& object);
  void OnDeleted(api::Kind kind, const api::ObjectKey& key);
  void OnWriteDone(WriteDone done);
  void OnPlan(Plan plan);
  void Changed(const api::Ptr<api::Job>& old, const api::Ptr<api::Job>& job);
  void Changed(const api::Ptr<api::Pod>& old, const api::Ptr<api::Pod>& pod);
  void Changed(const api::Ptr<api::Workload>& old, const api::Ptr<api::Workload>& workload);
  void Changed(const api::Ptr<api::PodGroup>& old, const api::Ptr<api::PodGroup>& group);
  void Changed(const api::Ptr<api::CompositePodGroup>& old,
               const api::Ptr<api::CompositePodGroup>& group);
  void Changed(const api::Ptr<api::ClusterQueue>& old, const api::Ptr<api::ClusterQueue>& queue);
  void Changed(const api::Ptr<api::LocalQueue>& old, const api::Ptr<api::LocalQueue>& queue);
  void Changed(const api::Ptr<api::Namespace>& old, const api::Ptr<api::Namespace>& ns);
  void Changed(const api::Ptr<api::WorkloadPriorityClass>& old,
               const api::Ptr<api::WorkloadPriorityClass>& cls);
  void Changed(const api::Ptr<api::PriorityClass>& old, const api::Ptr<api::PriorityClass>& cls);
  void Changed(const api::Ptr<api::ResourceFlavor>& old,
               const api::Ptr<api::ResourceFlavor>& flavor);
  void Changed(const api::Ptr<api::Topology>& old, const api::Ptr<api::Topology>& topology);
  void Changed(const api::Ptr<api::AdmissionCheck>& old,
               const api::Ptr<api::AdmissionCheck>& check);
  void Changed(const api::Ptr<api::Cohort>& old, const api::Ptr<api::Cohort>& cohort);
  void RerootGroup(const api::ObjectKey& group);
  void MarkWorkloadsOf(const std::string& cluster_queue);
  void MarkAll();
  std::vector<Effect> Run(TimePoint at);
  void Wake(TimePoint when, const Target& target) {
    wakes.emplace(when, target);
    wakes_of[target].insert(when);
  }
  // Forgets what a target that is over was waiting for.
  void Unwake(const Target& target) {
    if (const auto it = wakes_of.find(target); it != wakes_of.end()) {
      for (const TimePoint when : it->second) {
        wakes.erase({when, target});
      }
      wakes_of.erase(it);
    }
  }
  void Mark(api::Kind kind, const api::ObjectKey& key) { dirty.emplace(kind, key); }

  // True when the object may be written now; otherwise it is looked at again when it may.
  bool MayWrite(api::Kind kind, const api::ObjectKey& key, const std::optional<UnitKey>& unit = {});
  InFlight& Issue(api::Kind kind,
                  const api::ObjectKey& key,
                  Urgency urgency,
                  k8s::Request request,
                  std::optional<UnitKey> unit = {});
  EventEffect Event(const api::ObjectMeta& meta,
                    api::Kind kind,
                    bool warning,
                    std::string reason,
                    std::string note) const;
  void Tell(EventEffect event) { out.emplace_back(std::move(event)); }
  // Tells once until the text changes.
  void TellOnce(Target about, EventEffect event);
  void Count(std::string name, std::vector<std::pair<std::string, std::string>> labels);
  void Observe(std::string name,
               std::vector<std::pair<std::string, std::string>> labels,
               Duration value);

  // --- controller_units.cc ---
  // The unit that a Workload stands for, from its owners and annotations.
  std::optional<UnitKey> UnitOf(const api::Workload& workload) const;
  // The unit in whose name an object is written, if any.
  std::optional<UnitKey> UnitBehind(const KindKey& id) const;
  std::vector<api::Ptr<api::Pod>> PodsOf(const UnitKey& key) const;
  // A native member with a Workload of its own, or about to get one.
  bool IsLate(const api::ObjectKey& pod) const {
    return late_pods.contains(pod) || workloads_of_unit.contains(UnitKey{UnitKind::kPod, pod});
  }
  struct Ops;
  void ReconcileUnit(const UnitKey& key);
  void ReconcileJob(const UnitKey& key);
  void ReconcilePods(const UnitKey& key);
  void ReconcileGeneric(const UnitKey& key, jobs::Unit& unit, Ops& ops);
  void FinalizeWorkloads(const UnitKey& key);
  bool Managed(const std::string& ns, const std::string& queue) const;
  std::optional<jobs::ResolvedPriority> ResolvePriority(const jobs::Unit& unit, const UnitKey& key);
  Result<std::vector<jobs::PodSetInfo>> InfosOf(const api::Workload& workload) const;
  // Opens the gates of `pods` (members of `workload`) that are held, as many as were granted.
  void ReleasePods(const api::Workload& workload,
                   const UnitKey& unit,
                   const std::vector<api::Ptr<api::Pod>>& pods,
                   bool placement_only);
  void BindMembers(const api::Workload& workload,
                   const UnitKey& unit,
                   const std::vector<api::Ptr<api::Pod>>& pods);
  std::string PodSetOf(const api::Pod& pod,
                       const api::Workload& workload,
                       const UnitKey& unit) const;
  void StopPods(const UnitKey& unit,
                const std::vector<api::Ptr<api::Pod>>& pods,
                std::string_view reason,
                const std::string& message);
  void FinalizePods(const UnitKey& unit, const std::vector<api::Ptr<api::Pod>>& pods);
  std::optional<std::pair<api::Kind, api::ObjectMeta>> EventTarget(const UnitKey& key) const;
  void TellUnit(const UnitKey& key, bool warning, std::string reason, std::string note, bool once);

  void Changed(const api::Ptr<api::ResourceClaim>& old, const api::Ptr<api::ResourceClaim>& claim);
  void Changed(const api::Ptr<api::DeviceClass>& old, const api::Ptr<api::DeviceClass>& cls);

  // --- controller_claims.cc ---
  // What the plan's devices need before the gate of `pod` may open on `node`.
  //   kReady    nothing, or it is done
  //   kPending  a write is under way, or the claim does not exist yet
  //   kLost     a planned device has gone to somebody else
  enum class Claims : std::uint8_t { kReady, kPending, kLost };
  Claims AllocateClaims(const api::Workload& workload,
                        const UnitKey& unit,
                        const api::Pod& pod,
                        const std::string& pod_set,
                        const std::string& node);
  // Takes back what was allocated for pods that are still held.
  void ReleaseClaims(const UnitKey& unit, const std::vector<api::Ptr<api::Pod>>& pods);
  bool AllocatesClaims(const AdmissionDecision& decision) const;
  std::map<std::string, std::set<api::ObjectKey>> claims_of_device;  // driver/pool/device
  std::set<api::ObjectKey> lost_devices;                             // Workloads

  // --- controller_workload.cc ---
  void ReconcileWorkload(const api::ObjectKey& key);
  // Sends the patch of `edit` if it holds one. Returns true when a write was issued.
  bool Send(const api::Workload& workload,
            StatusEdit& edit,
            Urgency urgency,
            std::vector<Effect> on_success,
            std::optional<UnitKey> unit = {});
  bool Finish(const api::Workload& workload,
              std::string_view reason,
              std::string_view message,
              std::optional<UnitKey> unit = {});
  void RemoveFinalizer(api::Kind kind, const api::ObjectMeta& meta, std::string_view finalizer);
  void DeleteObject(api::Kind kind,
                    const api::ObjectMeta& meta,
                    std::string_view propagation,
                    Effect on_success);
  bool WriteAdmission(const api::Workload& workload, const AdmissionDecision& decision);
  void Evict(const api::Workload& workload,
             StatusEdit& edit,
             std::vector<Effect>& effects,
             std::string reason,
             std::string cause,
             std::string message);
  void SyncChecks(const api::Workload& workload, StatusEdit& edit);
  std::string CohortPath(const std::string& cluster_queue) const;
  std::vector<std::pair<std::string, std::string>> QueueLabels(const api::Workload& workload) const;
  TimePoint QueuedSince(const api::Workload& workload) const;
  Effect AdmittedEvent(const api::Workload& workload,
                       const std::string& cluster_queue,
                       TimePoint reserved_at) const;

  // --- controller_queues.cc ---
  void ReconcileQueueObject(api::Kind kind, const api::ObjectKey& key);
  void ReconcileClusterQueue(const api::ClusterQueue& queue);
  void ReconcileCohort(const api::Cohort& cohort);
  void MarkCohortsOf(const std::string& cluster_queue);
  void ReconcileLocalQueue(const api::LocalQueue& queue);
  // Adds the finalizer resource-in-use, or drops it once the object is being deleted and nothing
  // uses it. True: a write was issued.
  bool KeepFinalizer(api::Kind kind, const api::ObjectMeta& meta, bool in_use);
};

// Granted pods per node of one pod set, in rank order, as stored in the admission.
std::vector<std::pair<std::string, std::int32_t>> PinsOf(const api::PodSetAssignment& assignment);

}  // namespace muster::scheduler
