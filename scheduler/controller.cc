#include "scheduler/controller.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <type_traits>

#include "base/log.h"
#include "jobs/batch_job.h"
#include "jobs/names.h"
#include "jobs/pod.h"
#include "k8sclient/requests.h"
#include "scheduler/controller_impl.h"

namespace muster::scheduler {
namespace {

using api::Kind;
using api::ObjectKey;
using api::Ptr;
using std::chrono::milliseconds;
using std::chrono::seconds;

// resourceVersions of one collection are comparable as numbers; 0 when it is not a number.
std::uint64_t VersionNumber(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : 0;
}

template <typename K>
void Erase(std::map<K, std::set<ObjectKey>>& index, const K& key, const ObjectKey& value) {
  const auto it = index.find(key);
  if (it != index.end()) {
    it->second.erase(value);
    if (it->second.empty()) {
      index.erase(it);
    }
  }
}

// After `fails` failures in a row. A conflict is over as soon as the newer version has arrived, so
// it waits little; a refusal waits up to five minutes, because only a person or a policy will
// change the answer.
Duration BackoffFor(std::int32_t fails, ErrorCode code) {
  const std::int32_t shift = std::min(fails - 1, 16);
  if (code == ErrorCode::kConflict) {
    return std::min<Duration>(milliseconds(50) * (1 << std::min(shift, 7)), seconds(5));
  }
  if (code == ErrorCode::kRetry) {
    return std::min<Duration>(milliseconds(250) * (1 << std::min(shift, 9)), seconds(30));
  }
  return std::min<Duration>(seconds(1) * (1 << std::min(shift, 9)), std::chrono::minutes(5));
}

}  // namespace

Controller::Controller(State& state, const Options& options)
    : impl_(std::make_unique<Impl>(state, options)) {}
Controller::~Controller() = default;

void Controller::On(Input input, TimePoint now) {
  Impl& self = *impl_;
  self.now = now;
  if (auto* changed = std::get_if<ObjectChanged>(&input)) {
    self.OnObject(changed->object);
  } else if (auto* deleted = std::get_if<ObjectDeleted>(&input)) {
    self.OnDeleted(deleted->kind, deleted->key);
  } else if (std::holds_alternative<Synced>(input)) {
    if (!self.synced) {
      self.synced = true;
      self.state.SetSynced();
      self.MarkAll();
    }
  } else if (auto* leadership = std::get_if<LeadershipChanged>(&input)) {
    if (leadership->leading && !self.leading) {
      self.MarkAll();
    }
    if (!leadership->leading && self.leading) {
      // What has not been written never will be by this replica.
      for (const auto& [key, decision] : self.admissions) {
        self.state.Forget(key, now);
      }
      self.admissions.clear();
      self.preemptions.clear();
      self.verdicts.clear();
    }
    self.leading = leadership->leading;
  } else if (auto* done = std::get_if<WriteDone>(&input)) {
    self.OnWriteDone(std::move(*done));
  } else if (auto* plan = std::get_if<PlanReady>(&input)) {
    self.OnPlan(std::move(plan->plan));
  } else if (auto* bad = std::get_if<BadObject>(&input)) {
    const KindKey key{bad->kind, bad->meta.key()};
    if (self.bad_objects[key] != bad->error) {
      self.bad_objects[key] = bad->error;
      log::Warning("an object cannot be read and is left out",
                   {{"kind", api::Info(bad->kind).name},
                    {"object", key.second.ToString()},
                    {"error", bad->error}});
      self.Tell(self.Event(bad->meta, bad->kind, true, "Unreadable", bad->error));
      self.Count("unreadable_objects_total", {{"kind", std::string(api::Info(bad->kind).name)}});
    }
  }
}

std::vector<Effect> Controller::Run(TimePoint now) {
  return impl_->Run(now);
}

std::vector<Effect> Controller::Step(Input input, TimePoint now) {
  On(std::move(input), now);
  return Run(now);
}

bool Controller::Idle(TimePoint now) const {
  const Impl& self = *impl_;
  if (!self.in_flight.empty() || self.solving) {
    return false;
  }
  if (!self.synced || !self.leading) {
    return true;
  }
  return self.dirty.empty() && self.dirty_units.empty() && self.out.empty() &&
         !self.state.NeedsCycle(now) && (self.wakes.empty() || self.wakes.begin()->first > now);
}

std::optional<TimePoint> Controller::NextWake() const {
  const Impl& self = *impl_;
  if (!self.synced || !self.leading) {
    return std::nullopt;
  }
  std::optional<TimePoint> next = self.state.NextWake();
  if (!self.wakes.empty() && (!next || self.wakes.begin()->first < *next)) {
    next = self.wakes.begin()->first;
  }
  return next;
}

std::vector<std::string> Controller::BadObjects() const {
  std::vector<std::string> list;
  for (const auto& [key, error] : impl_->bad_objects) {
    list.push_back(std::string(api::Info(key.first).name) + " " + key.second.ToString() + ": " +
                   error);
  }
  return list;
}

std::vector<RunningGang> Controller::Running() const {
  const Controller::Impl& self = *impl_;
  std::vector<RunningGang> list;
  for (const auto& [key, workload] : self.store<api::Workload>()) {
    if (!workload->admitted() || workload->finished() || !workload->admission) {
      continue;
    }
    RunningGang gang;
    gang.workload = key;
    gang.cluster_queue = workload->admission->cluster_queue;
    gang.local_queue = workload->queue_name;
    gang.priority = workload->priority.value_or(0);
    gang.evicting = workload->evicted();
    if (const api::Condition* admitted = workload->FindCondition("Admitted")) {
      gang.admitted_at = admitted->last_transition_time;
    }
    const std::optional<UnitKey> unit = self.UnitOf(*workload);
    if (!workload->meta.owner_references.empty()) {
      const api::OwnerReference& owner = workload->meta.owner_references.front();
      gang.owner = owner.api_version + " " + owner.kind + " " + key.ns + "/" + owner.name;
    }
    if (unit) {
      for (const Ptr<api::Pod>& pod : self.PodsOf(*unit)) {
        if (pod->terminated()) {
          continue;
        }
        const bool held = jobs::PodIsHeld(*pod) || jobs::PodHasPlacementGate(*pod);
        gang.members.push_back({.pod = pod->meta.key(),
                                .pod_set = self.PodSetOf(*pod, *workload, *unit),
                                .node = jobs::NodeOfPod(*pod),
                                .phase = held ? "" : pod->phase,
                                .bound = !pod->spec.node_name.empty()});
      }
    }
    list.push_back(std::move(gang));
  }
  return list;
}

// --- objects ---

void Controller::Impl::OnObject(const api::Object& object) {
  const Kind kind = api::KindOf(object);
  const api::ObjectMeta& meta = api::MetaOf(object);
  const KindKey id{kind, meta.key()};
  if (const auto it = adopted.find(id); it != adopted.end()) {
    const std::uint64_t version = VersionNumber(meta.resource_version);
    if (version != 0 && version < it->second) {
      return;  // older than the answer to our own write
    }
    const bool known = version != 0 && version == it->second;
    adopted.erase(it);
    if (known) {
      return;  // that answer itself
    }
  }
  if (const auto it = trouble.find(id); it != trouble.end() && it->second.conflict) {
    trouble.erase(it);
  }
  bad_objects.erase(id);
  std::visit(
      [&](const auto& ptr) {
        using T = std::remove_const_t<typename std::remove_cvref_t<decltype(ptr)>::element_type>;
        if constexpr (requires(Impl& self) { self.Changed(ptr, ptr); }) {
          Ptr<T>& slot = store<T>()[id.second];
          const Ptr<T> old = slot;
          slot = ptr;
          Changed(old, ptr);
        }
      },
      object);
  state.Upsert(object, now);
}

void Controller::Impl::OnDeleted(Kind kind, const ObjectKey& key) {
  const KindKey id{kind, key};
  if (const auto it = in_flight.find(id); it != in_flight.end()) {
    it->second.gone = true;
  }
  adopted.erase(id);
  trouble.erase(id);
  bad_objects.erase(id);
  status_written.erase(id);
  told.erase(Target(id));
  const auto drop = [&]<typename T>(std::type_identity<T>) {
    Map<T>& map = store<T>();
    const auto it = map.find(key);
    if (it == map.end()) {
      return;
    }
    const Ptr<T> old = it->second;
    delete_sent.erase(old->meta.uid);
    map.erase(it);
    Changed(old, Ptr<T>());
  };
  switch (kind) {
    case Kind::kNamespace:
      drop(std::type_identity<api::Namespace>());
      break;
    case Kind::kPriorityClass:
      drop(std::type_identity<api::PriorityClass>());
      break;
    case Kind::kResourceFlavor:
      drop(std::type_identity<api::ResourceFlavor>());
      break;
    case Kind::kTopology:
      drop(std::type_identity<api::Topology>());
      break;
    case Kind::kAdmissionCheck:
      drop(std::type_identity<api::AdmissionCheck>());
      break;
    case Kind::kWorkloadPriorityClass:
      drop(std::type_identity<api::WorkloadPriorityClass>());
      break;
    case Kind::kCohort:
      drop(std::type_identity<api::Cohort>());
      break;
    case Kind::kClusterQueue:
      drop(std::type_identity<api::ClusterQueue>());
      break;
    case Kind::kLocalQueue:
      drop(std::type_identity<api::LocalQueue>());
      break;
    case Kind::kWorkload:
      drop(std::type_identity<api::Workload>());
      break;
    case Kind::kPodGroup:
      drop(std::type_identity<api::PodGroup>());
      break;
    case Kind::kCompositePodGroup:
      drop(std::type_identity<api::CompositePodGroup>());
      break;
    case Kind::kJob:
      drop(std::type_identity<api::Job>());
      break;
    case Kind::kPod:
      drop(std::type_identity<api::Pod>());
      break;
    case Kind::kResourceClaim:
      drop(std::type_identity<api::ResourceClaim>());
      break;
    case Kind::kDeviceClass:
      drop(std::type_identity<api::DeviceClass>());
      break;
    case Kind::kNode:
    case Kind::kLimitRange:
    case Kind::kRuntimeClass:
    case Kind::kResourceSlice:
    case Kind::kDeviceTaintRule:
    case Kind::kResourceClaimTemplate:
    case Kind::kProvisioningRequestConfig:
    case Kind::kMultiKueueConfig:
    case Kind::kMultiKueueCluster:
    case Kind::kNativeWorkload:
    case Kind::kLease:
    case Kind::kEvent:
      break;
  }
  state.Delete(kind, key, now);
}

void Controller::Impl::Changed(const Ptr<api::Job>& old, const Ptr<api::Job>& job) {
  const ObjectKey key = (job ? job : old)->meta.key();
  if (old && (!job || old->meta.uid != job->meta.uid)) {
    job_by_uid.erase(old->meta.uid);
  }
  if (job) {
    job_by_uid[job->meta.uid] = key;
  }
  dirty_units.insert({UnitKind::kJob, key});
}

void Controller::Impl::Changed(const Ptr<api::Pod>& old, const Ptr<api::Pod>& pod) {
  const ObjectKey key = (pod ? pod : old)->meta.key();
  if (const auto it = unit_of_pod.find(key); it != unit_of_pod.end()) {
    dirty_units.insert(it->second);
    unit_of_pod.erase(it);
  }
  if (old) {
    if (const api::OwnerReference* owner = old->meta.controller();
        owner != nullptr && owner->kind == "Job") {
      Erase(pods_of_job, owner->uid, key);
    }
    if (const std::string group = jobs::PodGroupName(*old); !group.empty()) {
      Erase(pods_of_group, ObjectKey{key.ns, group}, key);
    }
    if (!old->spec.scheduling_group.empty()) {
      Erase(pods_of_native, ObjectKey{key.ns, old->spec.scheduling_group}, key);
    }
  }
  if (!pod) {
    late_pods.erase(key);
    return;
  }
  const api::OwnerReference* owner = pod->meta.controller();
  const bool of_job = owner != nullptr && owner->kind == "Job" && owner->api_version == "batch/v1";
  std::optional<UnitKey> unit;
  if (of_job && !jobs::PodIsHeld(*pod)) {
    pods_of_job[owner->uid].insert(key);
    unit = UnitKey{UnitKind::kJob, ObjectKey{key.ns, owner->name}};
  } else if (jobs::PodIsManaged(*pod)) {
    if (const std::string group = jobs::PodGroupName(*pod); !group.empty()) {
      pods_of_group[ObjectKey{key.ns, group}].insert(key);
      unit = UnitKey{UnitKind::kPodGroup, ObjectKey{key.ns, group}};
    } else if (!pod->spec.scheduling_group.empty()) {
      const ObjectKey native{key.ns, pod->spec.scheduling_group};
      pods_of_native[native].insert(key);
      RerootGroup(native);
      unit = IsLate(key) ? UnitKey{UnitKind::kPod, key}
                         : UnitKey{UnitKind::kNative, root_of_group[native]};
    } else {
      unit = UnitKey{UnitKind::kPod, key};
    }
  }
  if (!unit) {
    // Nobody's business but the inventory's: not kept.
    store<api::Pod>().erase(key);
    return;
  }
  unit_of_pod[key] = *unit;
  // A running Job is not looked at for each status of each pod: only gates and bindings matter
  // there.
  const bool matters = unit->kind != UnitKind::kJob || !old || jobs::PodHasPlacementGate(*pod) ||
                       old->spec.node_name != pod->spec.node_name ||
                       old->terminated() != pod->terminated();
  if (matters) {
    dirty_units.insert(*unit);
  }
}

void Controller::Impl::Changed(const Ptr<api::Workload>& old, const Ptr<api::Workload>& workload) {
  const ObjectKey key = (workload ? workload : old)->meta.key();
  if (old) {
    if (const auto unit = UnitOf(*old)) {
      Erase(workloads_of_unit, *unit, key);
      dirty_units.insert(*unit);
    }
    Erase(workloads_of_queue, ObjectKey{key.ns, old->queue_name}, key);
    if (old->priority_class) {
      Erase(workloads_of_class, old->priority_class->name, key);
    }
  }
  if (workload) {
    if (const auto unit = UnitOf(*workload)) {
      workloads_of_unit[*unit].insert(key);
      dirty_units.insert(*unit);
      if (unit->kind == UnitKind::kPod) {
        if (const auto it = unit_of_pod.find(unit->key); it != unit_of_pod.end()) {
          it->second = *unit;  // a late native member, seen again after a restart
        }
      }
    }
    workloads_of_queue[ObjectKey{key.ns, workload->queue_name}].insert(key);
    if (workload->priority_class && workload->priority_class->kind == "WorkloadPriorityClass") {
      workloads_of_class[workload->priority_class->name].insert(key);
    }
    if (!workload->quota_reserved()) {
      members.erase(key);
    }
  } else {
    members.erase(key);
    admissions.erase(key);
    preemptions.erase(key);
    verdicts.erase(key);
    verdict_written.erase(key);
    reread.erase(key);
    refused_starts.erase(key);
    lost_devices.erase(key);
  }
  Mark(Kind::kWorkload, key);
}

void Controller::Impl::RerootGroup(const ObjectKey& group) {
  // Up to the root: a native Workload if there is one, else the composite at the top, else the
  // group itself. Depth is bounded by the API; the bound here only stops cycles.
  std::string root = "g/" + group.name;
  if (const Ptr<api::PodGroup> object = Find<api::PodGroup>(group)) {
    if (!object->workload_name.empty()) {
      root = "w/" + object->workload_name;
    } else if (!object->parent_composite.empty()) {
      std::string top = object->parent_composite;
      std::string workload;
      for (int depth = 0; depth < 8; ++depth) {
        const Ptr<api::CompositePodGroup> composite = Find<api::CompositePodGroup>({group.ns, top});
        if (!composite) {
          break;
        }
        if (!composite->workload_name.empty()) {
          workload = composite->workload_name;
        }
        if (composite->parent_composite.empty()) {
          break;
        }
        top = composite->parent_composite;
      }
      root = workload.empty() ? "c/" + top : "w/" + workload;
    }
  }
  const ObjectKey key{group.ns, root};
  ObjectKey& slot = root_of_group[group];
  if (slot != key) {
    if (!slot.name.empty()) {
      Erase(groups_of_root, slot, group);
      dirty_units.insert({UnitKind::kNative, slot});
    }
    slot = key;
  }
  groups_of_root[key].insert(group);
  dirty_units.insert({UnitKind::kNative, key});
  if (const auto pods = pods_of_native.find(group); pods != pods_of_native.end()) {
    for (const ObjectKey& pod : pods->second) {
      if (const auto it = unit_of_pod.find(pod);
          it != unit_of_pod.end() && it->second.kind == UnitKind::kNative) {
        it->second.key = key;
      }
    }
  }
}

void Controller::Impl::Changed(const Ptr<api::PodGroup>& old, const Ptr<api::PodGroup>& group) {
  const ObjectKey key = (group ? group : old)->meta.key();
  RerootGroup(key);
  if (!group && !pods_of_native.contains(key)) {
    const ObjectKey root = root_of_group[key];
    Erase(groups_of_root, root, key);
    root_of_group.erase(key);
  }
}

void Controller::Impl::Changed(const Ptr<api::CompositePodGroup>& old,
                               const Ptr<api::CompositePodGroup>& group) {
  const std::string ns = (group ? group : old)->meta.ns;
  std::vector<ObjectKey> groups;
  for (const auto& [key, root] : root_of_group) {
    if (key.ns == ns) {
      groups.push_back(key);
    }
  }
  for (const ObjectKey& key : groups) {
    RerootGroup(key);
  }
}

void Controller::Impl::MarkWorkloadsOf(const std::string& cluster_queue) {
  const auto queues = queues_of_cluster_queue.find(cluster_queue);
  if (queues == queues_of_cluster_queue.end()) {
    return;
  }
  for (const ObjectKey& queue : queues->second) {
    if (const auto it = workloads_of_queue.find(queue); it != workloads_of_queue.end()) {
      for (const ObjectKey& workload : it->second) {
        Mark(Kind::kWorkload, workload);
      }
    }
  }
}

void Controller::Impl::Changed(const Ptr<api::ClusterQueue>& old,
                               const Ptr<api::ClusterQueue>& queue) {
  const std::string& name = (queue ? queue : old)->meta.name;
  Mark(Kind::kClusterQueue, {{}, name});
  const bool status_only = old && queue && old->meta.generation == queue->meta.generation &&
                           queue->meta.generation != 0 &&
                           old->meta.deleting() == queue->meta.deleting();
  if (!status_only) {
    MarkWorkloadsOf(name);
    if (const auto it = queues_of_cluster_queue.find(name); it != queues_of_cluster_queue.end()) {
      for (const ObjectKey& local : it->second) {
        Mark(Kind::kLocalQueue, local);
      }
    }
    for (const Ptr<api::ClusterQueue>& version : {old, queue}) {
      if (!version) {
        continue;
      }
      for (const api::ResourceGroup& group : version->resource_groups) {
        for (const api::FlavorQuotas& flavor : group.flavors) {
          Mark(Kind::kResourceFlavor, {{}, flavor.name});
        }
      }
      for (const api::AdmissionCheckRule& check : version->admission_checks) {
        Mark(Kind::kAdmissionCheck, {{}, check.name});
      }
    }
  }
  if (!queue) {
    active_seen.erase(name);
  }
}

void Controller::Impl::Changed(const Ptr<api::LocalQueue>& old, const Ptr<api::LocalQueue>& queue) {
  const ObjectKey key = (queue ? queue : old)->meta.key();
  if (old) {
    Erase(queues_of_cluster_queue, old->cluster_queue, key);
  }
  if (queue) {
    queues_of_cluster_queue[queue->cluster_queue].insert(key);
  }
  Mark(Kind::kLocalQueue, key);
  const bool status_only = old && queue && old->meta.generation == queue->meta.generation &&
                           queue->meta.generation != 0 &&
                           old->meta.deleting() == queue->meta.deleting();
  if (!status_only) {
    if (const auto it = workloads_of_queue.find(key); it != workloads_of_queue.end()) {
      for (const ObjectKey& workload : it->second) {
        Mark(Kind::kWorkload, workload);
      }
    }
  }
}

void Controller::Impl::Changed(const Ptr<api::Namespace>& old, const Ptr<api::Namespace>& ns) {
  if (!old || !ns || old->meta.labels != ns->meta.labels) {
    const std::string& name = (ns ? ns : old)->meta.name;
    const auto& all_jobs = store<api::Job>();
    for (auto it = all_jobs.lower_bound({name, {}}); it != all_jobs.end() && it->first.ns == name;
         ++it) {
      dirty_units.insert({UnitKind::kJob, it->first});
    }
    for (auto it = unit_of_pod.lower_bound({name, {}});
         it != unit_of_pod.end() && it->first.ns == name;
         ++it) {
      dirty_units.insert(it->second);
    }
  }
}

void Controller::Impl::Changed(const Ptr<api::WorkloadPriorityClass>& old,
                               const Ptr<api::WorkloadPriorityClass>& cls) {
  const std::string& name = (cls ? cls : old)->meta.name;
  if (!old || !cls || old->value != cls->value) {
    if (const auto it = workloads_of_class.find(name); it != workloads_of_class.end()) {
      for (const ObjectKey& workload : it->second) {
        Mark(Kind::kWorkload, workload);
      }
    }
  }
  if (!old) {  // jobs may wait for the class
    for (const auto& [key, job] : store<api::Job>()) {
      if (const std::string* label = job->meta.Label(jobs::kPriorityClassLabel);
          label != nullptr && *label == name) {
        dirty_units.insert({UnitKind::kJob, key});
      }
    }
  }
}

void Controller::Impl::Changed(const Ptr<api::PriorityClass>& old,
                               const Ptr<api::PriorityClass>& cls) {
  if (!old && cls && synced) {
    for (const auto& [key, job] : store<api::Job>()) {
      if (job->pod_template.spec.priority_class == cls->meta.name) {
        dirty_units.insert({UnitKind::kJob, key});
      }
    }
  }
}

void Controller::Impl::Changed(const Ptr<api::ResourceFlavor>& old,
                               const Ptr<api::ResourceFlavor>& flavor) {
  Mark(Kind::kResourceFlavor, (flavor ? flavor : old)->meta.key());
  for (const Ptr<api::ResourceFlavor>& version : {old, flavor}) {
    if (version && !version->topology_name.empty()) {
      Mark(Kind::kTopology, {{}, version->topology_name});
    }
  }
}

void Controller::Impl::Changed(const Ptr<api::Topology>& old, const Ptr<api::Topology>& topology) {
  Mark(Kind::kTopology, (topology ? topology : old)->meta.key());
}

void Controller::Impl::Changed(const Ptr<api::AdmissionCheck>& old,
                               const Ptr<api::AdmissionCheck>& check) {
  Mark(Kind::kAdmissionCheck, (check ? check : old)->meta.key());
}

void Controller::Impl::Changed(const Ptr<api::Cohort>& old, const Ptr<api::Cohort>& cohort) {
  Mark(Kind::kCohort, (cohort ? cohort : old)->meta.key());
}

void Controller::Impl::MarkAll() {
  const auto mark = [&]<typename T>(const Map<T>& map, Kind kind) {
    for (const auto& [key, object] : map) {
      Mark(kind, key);
    }
  };
  mark(store<api::ResourceFlavor>(), Kind::kResourceFlavor);
  mark(store<api::Topology>(), Kind::kTopology);
  mark(store<api::AdmissionCheck>(), Kind::kAdmissionCheck);
  mark(store<api::ClusterQueue>(), Kind::kClusterQueue);
  mark(store<api::LocalQueue>(), Kind::kLocalQueue);
  mark(store<api::Workload>(), Kind::kWorkload);
  for (const auto& [key, job] : store<api::Job>()) {
    dirty_units.insert({UnitKind::kJob, key});
  }
  for (const auto& [pod, unit] : unit_of_pod) {
    dirty_units.insert(unit);
  }
  for (const auto& [unit, workloads] : workloads_of_unit) {
    dirty_units.insert(unit);
  }
}

// --- writes ---

bool Controller::Impl::MayWrite(Kind kind,
                                const ObjectKey& key,
                                const std::optional<UnitKey>& unit) {
  const KindKey id{kind, key};
  if (const auto it = in_flight.find(id); it != in_flight.end()) {
    if (unit) {
      it->second.unit = unit;
    }
    return false;
  }
  const auto it = trouble.find(id);
  if (it != trouble.end() && it->second.until > now) {
    Wake(it->second.until, unit ? Target(*unit) : Target(id));
    return false;
  }
  return true;
}

Controller::Impl::InFlight& Controller::Impl::Issue(Kind kind,
                                                    const ObjectKey& key,
                                                    Urgency urgency,
                                                    k8s::Request request,
                                                    std::optional<UnitKey> unit) {
  const KindKey id{kind, key};
  InFlight& entry = in_flight[id];
  entry = InFlight{.id = next_id++, .unit = std::move(unit)};
  by_id[entry.id] = id;
  out.emplace_back(WriteEffect{
      .id = entry.id, .urgency = urgency, .kind = kind, .key = key, .request = std::move(request)});
  return entry;
}

EventEffect Controller::Impl::Event(const api::ObjectMeta& meta,
                                    Kind kind,
                                    bool warning,
                                    std::string reason,
                                    std::string note) const {
  std::string controller = "kueue-workload-controller";
  if (kind == Kind::kJob) {
    controller = "batch/job-kueue-controller";
  } else if (kind == Kind::kPod) {
    controller = "pod-kueue-controller";
  }
  return {.kind = kind,
          .regarding = meta.key(),
          .uid = meta.uid,
          .resource_version = meta.resource_version,
          .warning = warning,
          .reason = std::move(reason),
          .action = {},
          .note = std::move(note),
          .controller = std::move(controller)};
}

void Controller::Impl::TellOnce(Target about, EventEffect event) {
  std::string text = event.reason + "\n" + event.note;
  std::string& last = told[std::move(about)];
  if (last != text) {
    last = std::move(text);
    Tell(std::move(event));
  }
}

void Controller::Impl::Count(std::string name,
                             std::vector<std::pair<std::string, std::string>> labels) {
  out.emplace_back(MetricEffect{.type = MetricEffect::Type::kCount,
                                .name = std::move(name),
                                .labels = std::move(labels),
                                .value = 1});
}

void Controller::Impl::Observe(std::string name,
                               std::vector<std::pair<std::string, std::string>> labels,
                               Duration value) {
  // A clock that runs ahead of ours must not make a negative wait.
  const double length = std::max(0.0, std::chrono::duration<double>(value).count());
  out.emplace_back(MetricEffect{.type = MetricEffect::Type::kObserve,
                                .name = std::move(name),
                                .labels = std::move(labels),
                                .value = length});
}

void Controller::Impl::OnWriteDone(WriteDone done) {
  const auto known = by_id.find(done.id);
  if (known == by_id.end()) {
    return;
  }
  const KindKey id = known->second;
  by_id.erase(known);
  const auto entry = in_flight.find(id);
  if (entry == in_flight.end() || entry->second.id != done.id) {
    return;
  }
  InFlight flight = std::move(entry->second);
  in_flight.erase(entry);

  if (done.response) {
    trouble.erase(id);
    if (!flight.gone) {
      const api::Json body = api::Json::parse(done.response->body, nullptr, false);
      const std::string_view kind_name = api::Info(id.first).name;
      if (body.is_object() && body.contains("kind") && body["kind"] == kind_name) {
        auto object = api::Decode(id.first, body);
        if (object && api::MetaOf(*object).key() == id.second) {
          const std::uint64_t version = VersionNumber(api::MetaOf(*object).resource_version);
          OnObject(*object);
          if (version != 0) {
            adopted[id] = version;
          }
        }
      }
    }
    if (flight.purpose == Purpose::kAdmit || flight.purpose == Purpose::kReread) {
      const Ptr<api::Workload> workload = Find<api::Workload>(id.second);
      if (flight.purpose == Purpose::kReread && (!workload || !workload->quota_reserved())) {
        state.Forget(id.second, now);
      }
      admissions.erase(id.second);
      reread.erase(id.second);
    }
    if (flight.purpose == Purpose::kStart && flight.unit) {
      if (const auto it = workloads_of_unit.find(*flight.unit); it != workloads_of_unit.end()) {
        for (const ObjectKey& key : it->second) {
          refused_starts.erase(key);
        }
      }
    }
    for (Effect& effect : flight.on_success) {
      out.push_back(std::move(effect));
    }
  } else {
    const k8s::ApiError& error = done.response.error();
    delete_sent.erase(flight.deletes);
    Trouble& state_of = trouble[id];
    ++state_of.fails;
    state_of.conflict = error.code == ErrorCode::kConflict;
    state_of.until = now + std::max<Duration>(BackoffFor(state_of.fails, error.code),
                                              seconds(error.retry_after_seconds));
    if (flight.purpose == Purpose::kAdmit || flight.purpose == Purpose::kReread) {
      if (error.unknown_outcome() || error.code == ErrorCode::kRetry) {
        // The server may have stored it. The quota stays taken until the object has been read
        // again.
        reread[id.second] = state_of.until;
      } else {
        admissions.erase(id.second);
        reread.erase(id.second);
        state.Forget(id.second, now);
      }
    }
    const bool refused = error.code == ErrorCode::kDenied || error.code == ErrorCode::kInvalid;
    if (refused && state_of.told != error.message) {
      state_of.told = error.message;
      log::Warning("the API server refuses a write",
                   {{"kind", api::Info(id.first).name},
                    {"object", id.second.ToString()},
                    {"error", error.message}});
    }
    if (refused && flight.unit) {
      if (const auto it = workloads_of_unit.find(*flight.unit); it != workloads_of_unit.end()) {
        for (const ObjectKey& key : it->second) {
          const Ptr<api::Workload> workload = Find<api::Workload>(key);
          if (!workload || workload->finished()) {
            continue;
          }
          if (flight.purpose == Purpose::kStart) {
            ++refused_starts[key];
            Mark(Kind::kWorkload, key);
          }
          TellOnce(Target(KindKey{Kind::kWorkload, key}),
                   Event(workload->meta,
                         Kind::kWorkload,
                         true,
                         "WriteRefused",
                         std::string(api::Info(id.first).name) + " " + id.second.ToString() + ": " +
                             error.message));
        }
      }
    }
    // Whoever asked for the write looks again when it may be sent again.
    if (!flight.unit) {
      flight.unit = UnitBehind(id);
    }
    Wake(state_of.until, flight.unit ? Target(*flight.unit) : Target(id));
  }
  if (flight.unit) {
    dirty_units.insert(*flight.unit);
  }
  Mark(id.first, id.second);
}

void Controller::Impl::OnPlan(Plan plan) {
  solving = false;
  if (!leading) {
    return;
  }
  Plan accepted = state.Apply(std::move(plan), now);
  for (AdmissionDecision& decision : accepted.admissions) {
    const ObjectKey key = decision.workload.key;
    verdicts.erase(key);
    admissions.insert_or_assign(key, std::move(decision));
    Mark(Kind::kWorkload, key);
  }
  for (Refusal& refusal : accepted.refusals) {
    const ObjectKey& key = refusal.workload.key;
    const Ptr<api::Workload> workload = Find<api::Workload>(key);
    if (!workload || workload->quota_reserved()) {
      continue;
    }
    const api::Condition* current = workload->FindCondition("QuotaReserved");
    if (current != nullptr && current->reason == refusal.verdict.reason &&
        current->message == refusal.verdict.message) {
      verdicts.erase(key);
      continue;
    }
    // Work that is admitted within the second costs no write for having waited; numbers that only
    // move are told every half minute.
    TimePoint due = now + seconds(1);
    if (current != nullptr && current->reason == refusal.verdict.reason) {
      const auto last = verdict_written.find(key);
      due = last == verdict_written.end() ? due : std::max(due, last->second + seconds(30));
    }
    const auto [it, inserted] =
        verdicts.try_emplace(key, Waiting{.verdict = refusal.verdict, .due = due});
    if (!inserted) {
      it->second.verdict = std::move(refusal.verdict);
      it->second.due = std::min(it->second.due, due);
    }
    Wake(it->second.due, KindKey{Kind::kWorkload, key});
  }
  for (PreemptionDecision& decision : accepted.preemptions) {
    const ObjectKey key = decision.victim.key;
    preemptions.insert_or_assign(key, std::move(decision));
    Mark(Kind::kWorkload, key);
  }
}

std::vector<Effect> Controller::Impl::Run(TimePoint at) {
  now = at;
  if (!synced || !leading) {
    // A standby counts, but tells nobody: the leader sees the same.
    std::erase_if(out,
                  [](const Effect& effect) { return std::holds_alternative<EventEffect>(effect); });
    std::vector<Effect> counted;
    counted.swap(out);
    return counted;
  }
  while (!wakes.empty() && wakes.begin()->first <= now) {
    const auto [when, target] = *wakes.begin();
    wakes.erase(wakes.begin());
    if (const auto it = wakes_of.find(target); it != wakes_of.end()) {
      it->second.erase(when);
      if (it->second.empty()) {
        wakes_of.erase(it);
      }
    }
    if (const auto* unit = std::get_if<UnitKey>(&target)) {
      dirty_units.insert(*unit);
    } else {
      dirty.insert(std::get<KindKey>(target));
    }
  }
  // Units may mark Workloads and the other way round; each object is looked at only as often as
  // something about it changed.
  for (;;) {
    for (const std::string& name : state.TakeDirtyClusterQueues()) {
      Mark(Kind::kClusterQueue, {{}, name});
      MarkCohortsOf(name);
    }
    for (const ObjectKey& key : state.TakeDirtyLocalQueues()) {
      Mark(Kind::kLocalQueue, key);
    }
    if (dirty_units.empty() && dirty.empty()) {
      break;
    }
    std::set<UnitKey> units;
    units.swap(dirty_units);
    for (const UnitKey& unit : units) {
      ReconcileUnit(unit);
    }
    std::set<KindKey> objects;
    objects.swap(dirty);
    for (const KindKey& id : objects) {
      if (id.first == Kind::kWorkload) {
        ReconcileWorkload(id.second);
      } else {
        ReconcileQueueObject(id.first, id.second);
      }
    }
  }
  if (!solving && state.NeedsCycle(now)) {
    solving = true;
    out.emplace_back(SolveEffect{.snapshot = state.TakeSnapshot(now)});
  }
  std::vector<Effect> effects;
  effects.swap(out);
  return effects;
}

}  // namespace muster::scheduler
