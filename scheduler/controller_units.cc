#include <algorithm>
#include <charconv>
#include <functional>
#include <iterator>
#include <set>

#include "jobs/batch_job.h"
#include "jobs/names.h"
#include "jobs/pod.h"
#include "k8sclient/requests.h"
#include "scheduler/controller_impl.h"

// Jobs, pods and groups: a Workload for each, started by its admission, stopped by its eviction.
// Order of steps: Kueue pkg/controller/jobframework/reconciler.go.
namespace muster::scheduler {
namespace {

using api::Json;
using api::Kind;
using api::ObjectKey;
using api::Ptr;

std::optional<std::int32_t> IndexOf(const api::Pod& pod) {
  const std::string* text = pod.meta.Label(jobs::kCompletionIndex);
  if (text == nullptr) {
    text = pod.meta.Annotation(jobs::kCompletionIndex);
  }
  if (text == nullptr) {
    text = pod.meta.Label(jobs::kPodIndexLabel);
  }
  if (text == nullptr) {
    return std::nullopt;
  }
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < 0) {
    return std::nullopt;
  }
  return value;
}

bool Released(const api::Pod& pod) {
  return !jobs::PodIsHeld(pod) && !jobs::PodHasPlacementGate(pod);
}

std::string EvictionReasonForPods(const api::Workload& workload) {
  const api::Condition* evicted = workload.FindCondition("Evicted");
  return evicted == nullptr ? std::string("NotAdmitted") : "WorkloadEvictedDueTo" + evicted->reason;
}

}  // namespace

// What differs between kinds.
struct Controller::Impl::Ops {
  std::function<void(const api::Workload&)> start;  // admitted: release what is held
  std::function<void(
      std::string_view reason, const std::string& message, const api::Workload* workload)>
      stop;
  std::function<void()> finalize;
  std::function<bool(const api::Workload&)> equivalent;
};

std::optional<UnitKey> Controller::Impl::UnitOf(const api::Workload& workload) const {
  const std::string& ns = workload.meta.ns;
  if (const std::string* root = workload.meta.Annotation(kNativeRoot)) {
    return UnitKey{UnitKind::kNative, {ns, *root}};
  }
  if (const std::string* group = workload.meta.Annotation(jobs::kIsGroupWorkload);
      group != nullptr && *group == "true") {
    return UnitKey{UnitKind::kPodGroup, {ns, workload.meta.name}};
  }
  const api::OwnerReference* owner = workload.meta.controller();
  if (owner == nullptr) {
    return std::nullopt;
  }
  if (owner->kind == "Job" && owner->api_version == "batch/v1") {
    return UnitKey{UnitKind::kJob, {ns, owner->name}};
  }
  if (owner->kind == "Pod" && owner->api_version == "v1") {
    return UnitKey{UnitKind::kPod, {ns, owner->name}};
  }
  return std::nullopt;
}

std::optional<UnitKey> Controller::Impl::UnitBehind(const KindKey& id) const {
  if (id.first == Kind::kJob) {
    return UnitKey{UnitKind::kJob, id.second};
  }
  if (id.first == Kind::kPod) {
    const auto it = unit_of_pod.find(id.second);
    return it == unit_of_pod.end() ? std::nullopt : std::optional(it->second);
  }
  if (id.first == Kind::kWorkload) {
    const Ptr<api::Workload> workload = Find<api::Workload>(id.second);
    return workload ? UnitOf(*workload) : std::nullopt;
  }
  return std::nullopt;
}

std::vector<Ptr<api::Pod>> Controller::Impl::PodsOf(const UnitKey& key) const {
  std::vector<Ptr<api::Pod>> pods;
  const auto add = [&](const std::set<ObjectKey>& keys) {
    for (const ObjectKey& pod_key : keys) {
      if (Ptr<api::Pod> pod = Find<api::Pod>(pod_key)) {
        pods.push_back(std::move(pod));
      }
    }
  };
  switch (key.kind) {
    case UnitKind::kJob:
      if (const Ptr<api::Job> job = Find<api::Job>(key.key)) {
        if (const auto it = pods_of_job.find(job->meta.uid); it != pods_of_job.end()) {
          add(it->second);
        }
      }
      break;
    case UnitKind::kPod:
      if (Ptr<api::Pod> pod = Find<api::Pod>(key.key)) {
        pods.push_back(std::move(pod));
      }
      break;
    case UnitKind::kPodGroup:
      if (const auto it = pods_of_group.find(key.key); it != pods_of_group.end()) {
        add(it->second);
      }
      break;
    case UnitKind::kNative:
      if (const auto groups = groups_of_root.find(key.key); groups != groups_of_root.end()) {
        for (const ObjectKey& group : groups->second) {
          if (const auto it = pods_of_native.find(group); it != pods_of_native.end()) {
            for (const ObjectKey& member : it->second) {
              if (!IsLate(member)) {
                add({member});
              }
            }
          }
        }
      }
      break;
  }
  return pods;
}

std::string Controller::Impl::PodSetOf(const api::Pod& pod,
                                       const api::Workload& workload,
                                       const UnitKey& unit) const {
  if (workload.pod_sets.size() == 1 && unit.kind != UnitKind::kPodGroup &&
      unit.kind != UnitKind::kNative) {
    return workload.pod_sets.front().name;
  }
  if (unit.kind == UnitKind::kNative) {
    if (const std::string* label = pod.meta.Label(jobs::kPodSetLabel)) {
      return *label;
    }
    const std::string role = jobs::RoleHash(pod);
    for (const bool several : {false, true}) {
      const std::string name = jobs::NativePodSetName(pod.spec.scheduling_group, role, several);
      if (std::ranges::any_of(workload.pod_sets,
                              [&](const api::PodSet& set) { return set.name == name; })) {
        return name;
      }
    }
    return {};
  }
  return jobs::PodSetOfMember(pod, workload);
}

bool Controller::Impl::Managed(const std::string& ns, const std::string& queue) const {
  api::StringMap labels;
  if (const Ptr<api::Namespace> object = Find<api::Namespace>({{}, ns})) {
    labels = object->meta.labels;
  }
  labels.emplace("kubernetes.io/metadata.name", ns);
  if (options.managed_jobs_namespace_selector.present &&
      !api::Matches(options.managed_jobs_namespace_selector, labels)) {
    return false;
  }
  return !queue.empty() || options.manage_jobs_without_queue_name;
}

std::optional<std::pair<Kind, api::ObjectMeta>> Controller::Impl::EventTarget(
    const UnitKey& key) const {
  if (key.kind == UnitKind::kJob) {
    if (const Ptr<api::Job> job = Find<api::Job>(key.key)) {
      return std::pair(Kind::kJob, job->meta);
    }
    return std::nullopt;
  }
  const auto pods = PodsOf(key);
  if (pods.empty()) {
    return std::nullopt;
  }
  return std::pair(Kind::kPod, pods.front()->meta);
}

void Controller::Impl::TellUnit(
    const UnitKey& key, bool warning, std::string reason, std::string note, bool once) {
  const auto target = EventTarget(key);
  if (!target) {
    return;
  }
  EventEffect event =
      Event(target->second, target->first, warning, std::move(reason), std::move(note));
  if (once) {
    TellOnce(Target(key), std::move(event));
  } else {
    Tell(std::move(event));
  }
}

std::optional<jobs::ResolvedPriority> Controller::Impl::ResolvePriority(const jobs::Unit& unit,
                                                                        const UnitKey& key) {
  if (!unit.priority_class.empty()) {
    const Ptr<api::WorkloadPriorityClass> cls =
        Find<api::WorkloadPriorityClass>({{}, unit.priority_class});
    if (!cls) {
      TellUnit(key,
               true,
               "WorkloadPriorityClassNotFound",
               "WorkloadPriorityClass \"" + unit.priority_class + "\" not found",
               true);
      return std::nullopt;
    }
    return jobs::ResolvedPriority{.group = "kueue.x-k8s.io",
                                  .kind = "WorkloadPriorityClass",
                                  .name = cls->meta.name,
                                  .value = cls->value};
  }
  const auto of_class = [](const api::PriorityClass& cls) {
    return jobs::ResolvedPriority{.group = "scheduling.k8s.io",
                                  .kind = "PriorityClass",
                                  .name = cls.meta.name,
                                  .value = cls.value};
  };
  if (!unit.pod_priority_class.empty()) {
    const Ptr<api::PriorityClass> cls = Find<api::PriorityClass>({{}, unit.pod_priority_class});
    if (!cls) {
      TellUnit(key,
               true,
               "PriorityClassNotFound",
               "PriorityClass \"" + unit.pod_priority_class + "\" not found",
               true);
      return std::nullopt;
    }
    return of_class(*cls);
  }
  Ptr<api::PriorityClass> best;
  for (const auto& [name, cls] : store<api::PriorityClass>()) {
    if (cls->global_default && (!best || cls->value < best->value)) {
      best = cls;
    }
  }
  return best ? of_class(*best) : jobs::ResolvedPriority{};
}

Result<std::vector<jobs::PodSetInfo>> Controller::Impl::InfosOf(
    const api::Workload& workload) const {
  std::vector<jobs::PodSetInfo> infos;
  if (!workload.admission || workload.admission->pod_sets.size() != workload.pod_sets.size()) {
    return std::unexpected(Error::Invalid(
        "invalid podset infos: expecting " + std::to_string(workload.pod_sets.size()) +
        " podset, got " +
        std::to_string(workload.admission ? workload.admission->pod_sets.size() : 0)));
  }
  for (std::size_t i = 0; i < workload.pod_sets.size(); ++i) {
    const api::PodSet& set = workload.pod_sets[i];
    const api::PodSetAssignment& assignment = workload.admission->pod_sets[i];
    jobs::PodSetInfo info;
    info.name = set.name;
    info.count = assignment.count.value_or(set.count);
    info.labels[std::string(jobs::kPodSetLabel)] = set.name;
    info.annotations[std::string(jobs::kWorkloadAnnotation)] = workload.meta.name;
    if (workload.queue_name.size() <= 63) {
      info.labels[std::string(jobs::kLocalQueueLabel)] = workload.queue_name;
    }
    if (workload.admission->cluster_queue.size() <= 63 &&
        workload.admission->cluster_queue.find('.') == std::string::npos) {
      info.labels[std::string(jobs::kClusterQueueLabel)] = workload.admission->cluster_queue;
    }
    std::set<std::string> flavors;
    for (const auto& [resource, flavor] : assignment.flavors) {
      flavors.insert(flavor);
    }
    for (const std::string& name : flavors) {
      const Ptr<api::ResourceFlavor> flavor = Find<api::ResourceFlavor>({{}, name});
      if (!flavor) {
        return std::unexpected(Error::Retry("ResourceFlavor \"" + name + "\" does not exist"));
      }
      jobs::PodSetInfo add;
      add.node_selector = flavor->node_labels;
      for (const api::Toleration& toleration : flavor->tolerations) {
        add.tolerations.push_back(jobs::ToJson(toleration));
      }
      MUSTER_RETURN_IF_ERROR(jobs::MergeInfo(info, add));
    }
    if (!PinsOf(assignment).empty()) {
      info.gates.emplace_back(set.topology ? jobs::kTopologyGate : jobs::kPlacementGate);
    }
    for (const api::AdmissionCheckState& check : workload.admission_checks) {
      for (const api::PodSetUpdate& update : check.pod_set_updates) {
        if (update.name != set.name) {
          continue;
        }
        jobs::PodSetInfo add;
        add.labels = update.labels;
        add.annotations = update.annotations;
        add.node_selector = update.node_selector;
        for (const api::Toleration& toleration : update.tolerations) {
          add.tolerations.push_back(jobs::ToJson(toleration));
        }
        if (const Status merged = jobs::MergeInfo(info, add); !merged) {
          return std::unexpected(
              Error::Invalid("invalid admission check PodSetUpdate: " + merged.error().message));
        }
      }
    }
    infos.push_back(std::move(info));
  }
  return infos;
}

void Controller::Impl::ReleasePods(const api::Workload& workload,
                                   const UnitKey& unit,
                                   const std::vector<Ptr<api::Pod>>& pods,
                                   bool placement_only) {
  std::map<std::string, std::vector<Ptr<api::Pod>>> held_of;
  for (const Ptr<api::Pod>& pod : pods) {
    if (!pod->terminated() && !pod->meta.deleting() && !Released(*pod)) {
      held_of[PodSetOf(*pod, workload, unit)].push_back(pod);
    }
  }
  if (held_of.empty()) {
    return;
  }
  const auto infos = InfosOf(workload);
  if (!infos) {
    if (infos.error().code == ErrorCode::kInvalid &&
        MayWrite(Kind::kWorkload, workload.meta.key(), unit)) {
      Finish(workload, "FailedToStart", infos.error().message, unit);
    }
    return;
  }
  for (std::size_t i = 0; i < workload.pod_sets.size(); ++i) {
    const std::string& name = workload.pod_sets[i].name;
    const auto held_it = held_of.find(name);
    if (held_it == held_of.end()) {
      continue;
    }
    std::vector<Ptr<api::Pod>>& held = held_it->second;
    const jobs::PodSetInfo& info = (*infos)[i];
    const auto pins = PinsOf(workload.admission->pod_sets[i]);
    std::map<std::string, std::int32_t> room;
    std::vector<std::string> by_rank;
    std::int64_t pinned = 0;
    for (const auto& [node, count] : pins) {
      room[node] += count;
      pinned += count;
      for (std::int32_t k = 0; k < count && by_rank.size() < 1'000'000; ++k) {
        by_rank.push_back(node);
      }
    }
    std::int64_t free = info.count;
    bool leaving = false;
    for (const Ptr<api::Pod>& pod : pods) {
      if (pod->terminated() || PodSetOf(*pod, workload, unit) != name) {
        continue;
      }
      std::string node;
      if (Released(*pod)) {
        node = jobs::NodeOfPod(*pod);
      } else if (const auto it = in_flight.find({Kind::kPod, pod->meta.key()});
                 it != in_flight.end()) {
        node = it->second.node;
      } else {
        continue;
      }
      --free;
      leaving = leaving || pod->meta.deleting();
      if (const auto it = room.find(node); it != room.end()) {
        --it->second;
      }
    }
    std::ranges::sort(held, [](const Ptr<api::Pod>& a, const Ptr<api::Pod>& b) {
      const auto rank = [](const api::Pod& pod) {
        const auto index = IndexOf(pod);
        return std::tuple(
            !index.has_value(), index.value_or(0), pod.meta.creation_timestamp, pod.meta.name);
      };
      return rank(*a) < rank(*b);
    });
    jobs::PodSetInfo grant = info;
    grant.gates.clear();
    if (placement_only) {
      // The job's template brought all but the node.
      grant = jobs::PodSetInfo{};
    }
    for (const Ptr<api::Pod>& pod : held) {
      const ObjectKey key = pod->meta.key();
      if (in_flight.contains({Kind::kPod, key})) {
        continue;
      }
      if (free <= 0) {
        // One held member keeps a whole native group from being scheduled, so what comes on top
        // queues by itself, unless it replaces a member that is just ending.
        if (unit.kind == UnitKind::kNative && !leaving) {
          late_pods.insert(key);
          unit_of_pod[key] = UnitKey{UnitKind::kPod, key};
          dirty_units.insert(UnitKey{UnitKind::kPod, key});
          continue;
        }
        break;
      }
      std::string node;
      if (!pins.empty()) {
        if (const auto index = IndexOf(*pod);
            index && static_cast<std::size_t>(*index) < by_rank.size()) {
          const std::string& wanted = by_rank[static_cast<std::size_t>(*index)];
          if (room[wanted] > 0) {
            node = wanted;
          }
        }
        for (const auto& [candidate, count] : pins) {
          if (!node.empty()) {
            break;
          }
          if (room[candidate] > 0) {
            node = candidate;
          }
        }
        if (node.empty() && pinned >= info.count) {
          continue;  // its predecessor still holds the place
        }
      }
      if (!MayWrite(Kind::kPod, key, unit)) {
        continue;
      }
      const Claims claims = AllocateClaims(workload, unit, *pod, name, node);
      if (claims == Claims::kLost) {
        lost_devices.insert(workload.meta.key());
        Mark(Kind::kWorkload, workload.meta.key());
        return;
      }
      if (claims == Claims::kPending) {
        --free;
        if (!node.empty()) {
          --room[node];
        }
        continue;
      }
      auto patch = jobs::PodReleasePatch(*pod, grant, node);
      if (!patch) {
        if (MayWrite(Kind::kWorkload, workload.meta.key(), unit)) {
          Finish(workload, "FailedToStart", patch.error().message, unit);
        }
        return;
      }
      --free;
      if (!node.empty()) {
        --room[node];
      }
      InFlight& flight =
          Issue(Kind::kPod,
                key,
                Urgency::kRelease,
                k8s::MergePatch(api::Path(Kind::kPod, key.ns, key.name), std::move(*patch)),
                unit);
      flight.purpose = Purpose::kStart;
      flight.node = node;
      if (!placement_only && unit.kind == UnitKind::kPod) {
        flight.on_success.emplace_back(
            Event(pod->meta,
                  Kind::kPod,
                  false,
                  "Started",
                  "Admitted by clusterQueue " + workload.admission->cluster_queue));
      }
    }
  }
}

void Controller::Impl::BindMembers(const api::Workload& workload,
                                   const UnitKey& unit,
                                   const std::vector<Ptr<api::Pod>>& pods) {
  const ObjectKey key = workload.meta.key();
  for (const Ptr<api::Pod>& pod : pods) {
    if (!pod->spec.node_name.empty()) {
      state.NotePod(key, pod->meta.key());
    }
  }
  const AdmissionDecision* decision = state.DecisionOf(key);
  if (decision != nullptr && (!decision->gang || !decision->placement)) {
    return;
  }
  Members& known = members[key];
  std::vector<Ptr<api::Pod>> fresh;
  std::ranges::copy_if(pods, std::back_inserter(fresh), [&](const Ptr<api::Pod>& pod) {
    return !pod->spec.node_name.empty() && !known.index_of_pod.contains(pod->meta.key());
  });
  if (fresh.empty()) {
    return;
  }
  // What was promised, by pod set. After a restart the plan is worked out again at the next
  // decision, for those members only that have no node: it must know first who has one.
  struct Promise {
    std::size_t pod_class = 0;
    std::int32_t index = 0;
    std::string node;
  };
  std::map<std::string, std::vector<Promise>> promises;
  if (decision != nullptr) {
    for (const placement::PodPlacement& pod : decision->placement->pods) {
      promises[decision->gang->classes[pod.pod_class].name].push_back(
          {.pod_class = pod.pod_class, .index = pod.index, .node = pod.node});
    }
  } else if (workload.admission) {
    for (std::size_t i = 0; i < workload.pod_sets.size(); ++i) {
      const api::PodSet& set = workload.pod_sets[i];
      std::vector<Promise>& list = promises[set.name];
      for (const api::PodSetAssignment& assignment : workload.admission->pod_sets) {
        if (assignment.name != set.name) {
          continue;
        }
        const std::int32_t count = assignment.count.value_or(set.count);
        for (const auto& [node, pinned] : PinsOf(assignment)) {
          for (std::int32_t k = 0; k < pinned && std::ssize(list) < count; ++k) {
            list.push_back(
                {.pod_class = i, .index = static_cast<std::int32_t>(list.size()), .node = node});
          }
        }
        // More pods than these cannot take a promise.
        const auto enough = std::min<std::int64_t>(count, std::ssize(list) + std::ssize(pods));
        while (std::ssize(list) < enough) {
          list.push_back(
              {.pod_class = i, .index = static_cast<std::int32_t>(list.size()), .node = {}});
        }
      }
    }
  }
  for (const Ptr<api::Pod>& pod : fresh) {
    const auto list = promises.find(PodSetOf(*pod, workload, unit));
    if (list == promises.end()) {
      continue;
    }
    const auto bind = [&](const std::pair<std::size_t, std::int32_t>& id) {
      known.used.insert(id);
      known.index_of_pod[pod->meta.key()] = id;
      state.BindMember(key, id.first, id.second);
    };
    if (const auto planned = known.planned.find(pod->meta.key());
        planned != known.planned.end() && !known.used.contains(planned->second)) {
      bind(planned->second);
      continue;
    }
    // The promise on the pod's own node, else one without a node, else any of its class that is
    // left.
    const Promise* best = nullptr;
    int best_rank = 3;
    for (const Promise& promise : list->second) {
      if (known.used.contains({promise.pod_class, promise.index})) {
        continue;
      }
      const int rank = promise.node == pod->spec.node_name ? 0 : promise.node.empty() ? 1 : 2;
      if (rank < best_rank) {
        best_rank = rank;
        best = &promise;
        if (rank == 0) {
          break;
        }
      }
    }
    if (best != nullptr) {
      bind({best->pod_class, best->index});
    }
  }
}

void Controller::Impl::FinalizePods(const UnitKey& unit, const std::vector<Ptr<api::Pod>>& pods) {
  for (const Ptr<api::Pod>& pod : pods) {
    const ObjectKey key = pod->meta.key();
    if (pod->meta.HasFinalizer(jobs::kManagedFinalizer) && MayWrite(Kind::kPod, key, unit)) {
      Issue(Kind::kPod,
            key,
            Urgency::kNormal,
            k8s::MergePatch(api::Path(Kind::kPod, key.ns, key.name), jobs::PodFinalizePatch(*pod)),
            unit);
    }
  }
}

void Controller::Impl::StopPods(const UnitKey& unit,
                                const std::vector<Ptr<api::Pod>>& pods,
                                std::string_view reason,
                                const std::string& message) {
  for (const Ptr<api::Pod>& pod : pods) {
    if (pod->terminated() || pod->meta.deleting() || jobs::PodIsHeld(*pod) ||
        delete_sent.contains(pod->meta.uid)) {
      continue;
    }
    const ObjectKey key = pod->meta.key();
    if (!MayWrite(Kind::kPod, key, unit)) {
      continue;
    }
    if (!api::ConditionTrue(pod->conditions, "TerminationTarget")) {
      Issue(Kind::kPod,
            key,
            Urgency::kNormal,
            k8s::StrategicPatch(api::Path(Kind::kPod, key.ns, key.name, "status"),
                                jobs::PodTerminationPatch(*pod, reason, message, now)),
            unit);
    } else {
      DeleteObject(Kind::kPod,
                   pod->meta,
                   "Default",
                   Event(pod->meta, Kind::kPod, false, "Stopped", message));
    }
  }
}

void Controller::Impl::FinalizeWorkloads(const UnitKey& key) {
  const auto it = workloads_of_unit.find(key);
  if (it == workloads_of_unit.end()) {
    return;
  }
  for (const ObjectKey& name : it->second) {
    const Ptr<api::Workload> workload = Find<api::Workload>(name);
    if (!workload || !MayWrite(Kind::kWorkload, name, key)) {
      continue;
    }
    if (!workload->finished()) {
      if (admissions.erase(name) > 0) {
        state.Forget(name, now);
      }
      Finish(*workload, "OwnerNotFound", "The workload's owner no longer exists", key);
    } else if (workload->meta.HasFinalizer(jobs::kResourceInUse)) {
      RemoveFinalizer(Kind::kWorkload, workload->meta, jobs::kResourceInUse);
    }
  }
}

void Controller::Impl::ReconcileUnit(const UnitKey& key) {
  if (key.kind == UnitKind::kJob) {
    ReconcileJob(key);
  } else {
    ReconcilePods(key);
  }
}

void Controller::Impl::ReconcileJob(const UnitKey& key) {
  const Ptr<api::Job> job = Find<api::Job>(key.key);
  if (!job || job->meta.deleting()) {
    FinalizeWorkloads(key);
    return;
  }
  if (std::ranges::find(options.frameworks, "batch/job") == options.frameworks.end()) {
    return;
  }
  jobs::Unit unit = jobs::ReadJob(*job, options.label_keys_to_copy);
  const bool has_workload = workloads_of_unit.contains(key);
  if (!Managed(key.key.ns, unit.queue_name) && !has_workload) {
    return;
  }
  // A Job that belongs to a queued Job follows it.
  if (const api::OwnerReference* owner = job->meta.controller();
      owner != nullptr && owner->kind == "Job") {
    if (const auto it = job_by_uid.find(owner->uid); it != job_by_uid.end()) {
      const Ptr<api::Job> parent = Find<api::Job>(it->second);
      if (parent && parent->meta.Label(jobs::kQueueLabel) != nullptr) {
        return;
      }
    }
  }
  Ops ops;
  ops.equivalent = [&](const api::Workload& workload) {
    if (workload.max_execution_seconds != unit.max_execution_seconds) {
      return false;
    }
    const bool reserved = workload.quota_reserved();
    return jobs::EquivalentPodSets(unit.pod_sets,
                                   workload.pod_sets,
                                   workload.admission,
                                   workload.admitted(),
                                   !reserved && job->suspend && unit.suspended);
  };
  ops.start = [&](const api::Workload& workload) {
    if (!unit.suspended) {
      ReleasePods(workload, key, PodsOf(key), true);
      return;
    }
    if (!MayWrite(Kind::kJob, key.key, key)) {
      return;
    }
    const auto infos = InfosOf(workload);
    Result<Json> patch =
        infos ? jobs::JobStartPatch(*job, infos->front()) : std::unexpected(infos.error());
    if (!patch) {
      if (patch.error().code == ErrorCode::kInvalid) {
        if (MayWrite(Kind::kWorkload, workload.meta.key(), key)) {
          Finish(workload, "FailedToStart", patch.error().message, key);
        }
      } else {
        TellUnit(key, true, "FailedToStart", patch.error().message, true);
      }
      return;
    }
    InFlight& flight =
        Issue(Kind::kJob,
              key.key,
              Urgency::kRelease,
              k8s::MergePatch(api::Path(Kind::kJob, key.key.ns, key.key.name), std::move(*patch)),
              key);
    flight.purpose = Purpose::kStart;
    flight.on_success.emplace_back(
        Event(job->meta,
              Kind::kJob,
              false,
              "Started",
              "Admitted by clusterQueue " + workload.admission->cluster_queue));
  };
  ops.stop =
      [&](std::string_view /*reason*/, const std::string& message, const api::Workload* workload) {
        if (!MayWrite(Kind::kJob, key.key, key)) {
          return;
        }
        const std::string path = api::Path(Kind::kJob, key.key.ns, key.key.name);
        if (!job->suspend) {
          InFlight& flight =
              Issue(Kind::kJob,
                    key.key,
                    Urgency::kNormal,
                    k8s::MergePatch(path, jobs::JobSuspendPatch(*job, workload != nullptr)),
                    key);
          flight.on_success.emplace_back(Event(job->meta, Kind::kJob, false, "Stopped", message));
          return;
        }
        if (unit.stopping && jobs::JobTemplateMutable(*job)) {
          static const Json kNone = Json::object();
          const Json& current = job->pod_template.raw ? *job->pod_template.raw : kNone;
          const bool known = workload != nullptr && !workload->pod_sets.empty() &&
                             workload->pod_sets.front().pod_template.raw;
          const Json patch = jobs::JobRestorePatch(
              *job,
              known ? *workload->pod_sets.front().pod_template.raw : current,
              known ? workload->pod_sets.front().count : job->parallelism.value_or(1));
          Issue(Kind::kJob, key.key, Urgency::kNormal, k8s::MergePatch(path, patch), key);
        }
      };
  ops.finalize = [] {};
  ReconcileGeneric(key, unit, ops);
}

void Controller::Impl::ReconcilePods(const UnitKey& key) {
  const std::vector<Ptr<api::Pod>> pods = PodsOf(key);
  if (std::ranges::find(options.frameworks, "pod") == options.frameworks.end()) {
    return;
  }
  if (pods.empty()) {
    FinalizeWorkloads(key);
    return;
  }
  jobs::Unit unit;
  Ptr<api::Workload> group_workload;
  if (key.kind == UnitKind::kPod) {
    unit = jobs::ReadPod(*pods.front());
  } else if (key.kind == UnitKind::kPodGroup) {
    unit = jobs::ReadPodGroup(key.key.ns, key.key.name, pods);
  } else {
    std::vector<jobs::NativeGroup> groups;
    if (const auto it = groups_of_root.find(key.key); it != groups_of_root.end()) {
      for (const ObjectKey& group : it->second) {
        jobs::NativeGroup entry;
        entry.name = group.name;
        entry.object = Find<api::PodGroup>(group);
        if (const auto members_it = pods_of_native.find(group);
            members_it != pods_of_native.end()) {
          for (const ObjectKey& pod : members_it->second) {
            if (Ptr<api::Pod> object = Find<api::Pod>(pod); object && !IsLate(pod)) {
              entry.pods.push_back(std::move(object));
            }
          }
        }
        groups.push_back(std::move(entry));
      }
    }
    const std::string& root = key.key.name;
    const std::string kind = root.starts_with("w/")   ? "Workload"
                             : root.starts_with("c/") ? "CompositePodGroup"
                                                      : "PodGroup";
    unit = jobs::ReadNativeGang(key.key.ns, kind, root.substr(2), groups);
    unit.workload_annotations[std::string(kNativeRoot)] = root;
  }
  if (!Managed(key.key.ns, unit.queue_name)) {
    return;
  }

  // Pods released and alive stand for "running"; held ones for "suspended".
  bool running = false;
  bool evicted_by_us = false;
  for (const Ptr<api::Pod>& pod : pods) {
    running = running || (!pod->terminated() && !jobs::PodIsHeld(*pod) && !pod->meta.deleting());
    evicted_by_us = evicted_by_us || api::ConditionTrue(pod->conditions, "TerminationTarget");
  }
  unit.suspended = !running;

  if (unit.deleting && (!evicted_by_us || key.kind == UnitKind::kPod)) {
    // The user deletes all of it: what no longer occupies a node may go at once.
    FinalizeWorkloads(key);
    std::vector<Ptr<api::Pod>> ended;
    for (const Ptr<api::Pod>& pod : pods) {
      if (!jobs::PodOccupiesNode(*pod)) {
        ended.push_back(pod);
      }
    }
    FinalizePods(key, ended);
    return;
  }

  if (key.kind != UnitKind::kPod) {
    group_workload = Find<api::Workload>({key.key.ns, unit.workload_name});
    if (group_workload && UnitOf(*group_workload) != key) {
      TellUnit(key,
               true,
               "WorkloadNameConflict",
               "Workload " + key.key.ns + "/" + unit.workload_name +
                   " exists and does not belong to this group; its pods stay held",
               true);
      std::vector<Ptr<api::Pod>> ended;
      for (const Ptr<api::Pod>& pod : pods) {
        if (pod->meta.deleting() && !jobs::PodOccupiesNode(*pod)) {
          ended.push_back(pod);
        }
      }
      FinalizePods(key, ended);
      return;
    }
  }

  Ops ops;
  ops.equivalent = [&](const api::Workload& workload) {
    if (key.kind == UnitKind::kPod) {
      return jobs::EquivalentPodSets(
          unit.pod_sets, workload.pod_sets, workload.admission, workload.admitted(), false);
    }
    if (key.kind == UnitKind::kPodGroup) {
      return jobs::CheckPodGroup(pods, workload).equivalent;
    }
    // A native gang that holds quota keeps its Workload; members that come later wait. One that
    // waits is described anew.
    if (workload.quota_reserved()) {
      return true;
    }
    return !unit.not_ready.empty() ||
           jobs::EquivalentPodSets(unit.pod_sets, workload.pod_sets, std::nullopt, false, false);
  };
  ops.start = [&](const api::Workload& workload) { ReleasePods(workload, key, pods, false); };
  ops.stop = [&](std::string_view reason,
                 const std::string& message,
                 const api::Workload* /*workload*/) { StopPods(key, pods, reason, message); };
  ops.finalize = [&] { FinalizePods(key, pods); };

  if (key.kind == UnitKind::kPodGroup && group_workload && !group_workload->finished() &&
      !unit.finished) {
    const jobs::GroupCleanup cleanup = jobs::CheckPodGroup(pods, *group_workload);
    if (cleanup.equivalent) {
      for (const Ptr<api::Pod>& pod : cleanup.excess) {
        if (!pod->meta.deleting()) {
          DeleteObject(
              Kind::kPod,
              pod->meta,
              "Default",
              Event(pod->meta, Kind::kPod, false, "ExcessPodDeleted", "Excess pod deleted"));
        }
      }
      std::vector<Ptr<api::Pod>> finalize = cleanup.replaced;
      for (const Ptr<api::Pod>& pod : cleanup.excess) {
        if (pod->meta.deleting() && !jobs::PodOccupiesNode(*pod)) {
          finalize.push_back(pod);
        }
      }
      FinalizePods(key, finalize);
      // Missing members keep a Workload without quota out of the queues.
      if (MayWrite(Kind::kWorkload, group_workload->meta.key(), key)) {
        StatusEdit edit(group_workload->meta, group_workload->status, now);
        if (cleanup.absent > 0) {
          if (!edit.IsTrue("WaitingForReplacementPods")) {
            const api::Condition* evicted = group_workload->FindCondition("Evicted");
            if (evicted != nullptr && evicted->is_true()) {
              edit.SetCondition(
                  "WaitingForReplacementPods", "True", evicted->reason, evicted->message);
            } else {
              edit.SetCondition("WaitingForReplacementPods",
                                "True",
                                "PodsFailed",
                                "Some Failed pods need replacement");
            }
          }
        } else if (edit.IsTrue("WaitingForReplacementPods")) {
          edit.SetCondition(
              "WaitingForReplacementPods", "False", "PodsReady", "No pods need replacement");
        }
        if (Send(*group_workload, edit, Urgency::kNormal, {}, key)) {
          return;
        }
      }
    }
  }
  ReconcileGeneric(key, unit, ops);
}

void Controller::Impl::ReconcileGeneric(const UnitKey& key, jobs::Unit& unit, Ops& ops) {
  // --- which Workload is it? ---
  Ptr<api::Workload> match;
  Ptr<api::Workload> finished;
  std::vector<Ptr<api::Workload>> others;
  if (const auto it = workloads_of_unit.find(key); it != workloads_of_unit.end()) {
    for (const ObjectKey& name : it->second) {
      const Ptr<api::Workload> workload = Find<api::Workload>(name);
      if (!workload) {
        continue;
      }
      // A Workload of an earlier object with the same name is the garbage collector's.
      if (!unit.job_uid.empty() && !std::ranges::any_of(workload->meta.owner_references,
                                                        [&](const api::OwnerReference& owner) {
                                                          return owner.uid == unit.job_uid;
                                                        })) {
        if (MayWrite(Kind::kWorkload, name, key)) {
          if (!workload->finished()) {
            Finish(*workload, "OwnerNotFound", "The workload's owner no longer exists", key);
          } else if (workload->meta.HasFinalizer(jobs::kResourceInUse)) {
            RemoveFinalizer(Kind::kWorkload, workload->meta, jobs::kResourceInUse);
          }
        }
        continue;
      }
      if (workload->finished()) {
        finished = workload;
      } else if (!match && (unit.finished || workload->meta.deleting() ||
                            (unit.stopping && workload->evicted()) || ops.equivalent(*workload))) {
        match = workload;
      } else {
        others.push_back(workload);
      }
    }
  }
  if (finished) {
    if (finished->meta.HasFinalizer(jobs::kResourceInUse) &&
        MayWrite(Kind::kWorkload, finished->meta.key(), key)) {
      RemoveFinalizer(Kind::kWorkload, finished->meta, jobs::kResourceInUse);
    }
    ops.finalize();
    return;
  }
  if (!match && unit.finished) {
    ops.finalize();
    return;
  }
  if (match && match->quota_reserved()) {
    BindMembers(*match, key, PodsOf(key));
  }
  const std::string elsewhere = key.key.ns + "/" + (match ? match->meta.name : unit.workload_name);
  if (match && match->meta.deleting()) {
    if (!unit.suspended) {
      ops.stop("WorkloadDeleted", "Workload is deleted", match.get());
    } else if (!unit.active && match->meta.HasFinalizer(jobs::kResourceInUse) &&
               MayWrite(Kind::kWorkload, match->meta.key(), key)) {
      RemoveFinalizer(Kind::kWorkload, match->meta, jobs::kResourceInUse);
    }
    return;
  }
  if (unit.finished) {
    if (MayWrite(Kind::kWorkload, match->meta.key(), key)) {
      if (admissions.erase(match->meta.key()) > 0) {
        state.Forget(match->meta.key(), now);
      }
      if (Finish(*match,
                 unit.finished->succeeded ? "Succeeded" : "Failed",
                 unit.finished->message,
                 key)) {
        if (const auto target = EventTarget(key)) {
          in_flight[{Kind::kWorkload, match->meta.key()}].on_success.emplace_back(
              Event(target->second,
                    target->first,
                    false,
                    "FinishedWorkload",
                    "Workload '" + elsewhere + "' is declared finished"));
        }
      }
    }
    return;
  }

  if (!match) {
    if (!others.empty()) {
      const Ptr<api::Workload>& first = others.front();
      if (!unit.suspended) {
        ops.stop("NoMatchingWorkload",
                 "No matching Workload; restoring pod templates according to existent Workload",
                 first.get());
        return;
      }
      if (!MayWrite(Kind::kWorkload, first->meta.key(), key) || unit.active) {
        return;
      }
      if (!first->quota_reserved() && !admissions.contains(first->meta.key()) &&
          unit.not_ready.empty()) {
        Json spec = {{"podSets", jobs::PodSetsJson(unit)}};
        spec["maximumExecutionTimeSeconds"] =
            unit.max_execution_seconds ? Json(*unit.max_execution_seconds) : Json(nullptr);
        InFlight& flight =
            Issue(Kind::kWorkload,
                  first->meta.key(),
                  Urgency::kNormal,
                  k8s::MergePatch(api::Path(Kind::kWorkload, key.key.ns, first->meta.name),
                                  {{"spec", std::move(spec)}},
                                  {.resource_version = first->meta.resource_version, .uid = {}}),
                  key);
        if (const auto target = EventTarget(key)) {
          flight.on_success.emplace_back(Event(
              target->second,
              target->first,
              false,
              "UpdatedWorkload",
              "Updated not matching Workload for suspended job: " + first->meta.key().ToString()));
        }
      } else if (const auto target = EventTarget(key)) {
        DeleteObject(Kind::kWorkload,
                     first->meta,
                     "Default",
                     Event(target->second,
                           target->first,
                           false,
                           "DeletedWorkload",
                           "Deleted not matching Workload: " + first->meta.key().ToString()));
      }
      return;
    }
    if (!unit.suspended) {
      ops.stop("NoMatchingWorkload", "Missing Workload; unable to restore pod templates", nullptr);
      return;
    }
    if (unit.active) {
      return;
    }
    if (!unit.not_ready.empty()) {
      if (unit.not_ready_is_error) {
        TellUnit(key, true, "ErrWorkloadCompose", unit.not_ready, true);
      }
      return;
    }
    const ObjectKey name{key.key.ns, unit.workload_name};
    if (Find<api::Workload>(name) || !MayWrite(Kind::kWorkload, name, key)) {
      return;
    }
    const auto priority = ResolvePriority(unit, key);
    if (!priority) {
      return;
    }
    InFlight& flight = Issue(
        Kind::kWorkload,
        name,
        Urgency::kNormal,
        k8s::Create(api::Path(Kind::kWorkload, name.ns, {}), jobs::BuildWorkload(unit, *priority)),
        key);
    flight.purpose = Purpose::kCreate;
    if (const auto target = EventTarget(key)) {
      flight.on_success.emplace_back(Event(target->second,
                                           target->first,
                                           false,
                                           "CreatedWorkload",
                                           "Created Workload: " + elsewhere));
    }
    return;
  }

  for (const Ptr<api::Workload>& surplus : others) {
    if (const auto target = EventTarget(key);
        target && MayWrite(Kind::kWorkload, surplus->meta.key(), key)) {
      DeleteObject(Kind::kWorkload,
                   surplus->meta,
                   "Default",
                   Event(target->second,
                         target->first,
                         false,
                         "DeletedWorkload",
                         "Deleted not matching Workload: " + surplus->meta.key().ToString()));
    }
  }

  // --- bring both in step ---
  const api::Workload& w = *match;
  const ObjectKey name = w.meta.key();
  const bool evicted = w.evicted();
  const bool reserved = w.quota_reserved();
  if (MayWrite(Kind::kWorkload, name, key)) {
    StatusEdit edit(w.meta, w.status, now);
    // Reclaimable pods: clamped to the pod sets; while quota is held they may only grow.
    if (!admissions.contains(name)) {
      std::map<std::string, std::int32_t, std::less<>> wanted;
      for (const api::PodSet& set : w.pod_sets) {
        std::int32_t count = 0;
        if (const auto it = unit.reclaimable.find(set.name); it != unit.reclaimable.end()) {
          count = std::clamp(it->second, 0, set.count);
        }
        if (reserved) {
          if (const auto it = w.reclaimable_pods.find(set.name); it != w.reclaimable_pods.end()) {
            count = std::max(count, std::min(it->second, set.count));
          }
        }
        if (count > 0) {
          wanted[set.name] = count;
        }
      }
      if (wanted != w.reclaimable_pods) {
        Json list = Json::array();
        for (const auto& [set, count] : wanted) {
          list.push_back({{"name", set}, {"count", count}});
        }
        if (list.empty()) {
          edit.status().erase("reclaimablePods");
        } else {
          edit.status()["reclaimablePods"] = std::move(list);
        }
      }
    }
    if (options.wait_for_pods_ready.enabled && w.admitted() && !evicted) {
      const api::Condition* ready = w.FindCondition("PodsReady");
      const bool was_ready = ready != nullptr && ready->is_true();
      if (unit.pods_ready && !was_ready) {
        const bool again = ready != nullptr && ready->reason == "WaitForRecovery";
        edit.SetCondition("PodsReady",
                          "True",
                          again ? "Recovered" : "Started",
                          "All pods reached readiness and the workload is running");
      } else if (!unit.pods_ready && was_ready) {
        edit.SetCondition("PodsReady",
                          "False",
                          "WaitForRecovery",
                          "At least one pod has failed, waiting for recovery");
      }
    }
    if (evicted && reserved && unit.suspended && !unit.active) {
      const api::Condition* eviction = w.FindCondition("Evicted");
      const bool pod_owned = key.kind == UnitKind::kPod;
      const bool again =
          !pod_owned && (eviction->reason == "Preempted" || eviction->reason == "NodeFailures" ||
                         eviction->reason == "DevicesTaken");
      edit.SetCondition("Requeued", again ? "True" : "False", eviction->reason, eviction->message);
      DropReservation(edit, "PendingEvaluation", eviction->message);
      if (edit.Condition("PodsReady") != nullptr) {
        edit.SetCondition(
            "PodsReady", "False", "WaitForStart", "Not all pods are ready or succeeded");
      }
    }
    std::vector<Effect> effects;
    if (edit.IsTrue("PodsReady") &&
        (w.FindCondition("PodsReady") == nullptr || !w.FindCondition("PodsReady")->is_true())) {
      const auto labels = QueueLabels(w);
      effects.emplace_back(MetricEffect{
          .type = MetricEffect::Type::kObserve,
          .name = "ready_wait_time_seconds",
          .labels = labels,
          .value = std::max(0.0, std::chrono::duration<double>(now - QueuedSince(w)).count())});
    }
    if (Send(w, edit, Urgency::kNormal, std::move(effects), key)) {
      // The job may be started or stopped all the same: another object.
    } else if (!admissions.contains(name)) {
      // Queue and class may change while it waits; the class of one that had a class, always.
      Json spec;
      if (!reserved && unit.queue_name != w.queue_name) {
        spec["queueName"] = unit.queue_name;
      }
      if (!unit.priority_class.empty() && (!reserved || w.priority_class) &&
          (!w.priority_class || w.priority_class->name != unit.priority_class)) {
        if (const auto priority = ResolvePriority(unit, key)) {
          spec["priority"] = priority->value;
          spec["priorityClassRef"] = {
              {"group", priority->group}, {"kind", priority->kind}, {"name", priority->name}};
        }
      }
      Json patch;
      if (!spec.is_null()) {
        patch["spec"] = std::move(spec);
      }
      const std::string* gated = w.meta.Annotation(jobs::kAdmissionGatedBy);
      if (!reserved && (gated == nullptr ? std::string() : *gated) != unit.gated_by) {
        patch["metadata"]["annotations"][std::string(jobs::kAdmissionGatedBy)] =
            unit.gated_by.empty() ? Json(nullptr) : Json(unit.gated_by);
      }
      if (!patch.is_null()) {
        Issue(Kind::kWorkload,
              name,
              Urgency::kNormal,
              k8s::MergePatch(api::Path(Kind::kWorkload, name.ns, name.name),
                              std::move(patch),
                              {.resource_version = w.meta.resource_version, .uid = {}}),
              key);
      }
    }
  }

  if (evicted) {
    ReleaseClaims(key, PodsOf(key));
    if (!unit.suspended) {
      const api::Condition* eviction = w.FindCondition("Evicted");
      ops.stop(EvictionReasonForPods(w), eviction->message, &w);
    } else if (options.retain_deactivated && !w.active &&
               w.FindCondition("Evicted")->reason.starts_with("DeactivatedDueTo")) {
      const TimePoint due = w.FindCondition("Evicted")->last_transition_time.value_or(now) +
                            *options.retain_deactivated;
      const auto target = EventTarget(key);
      if (due > now) {
        Wake(due, key);
      } else if (target) {
        DeleteObject(target->first,
                     target->second,
                     "Background",
                     Event(target->second,
                           target->first,
                           false,
                           "Deleted",
                           "Deleted job: deactivation retention period expired"));
      }
    }
    return;
  }
  if (w.admitted()) {
    ops.start(w);
  } else if (!unit.suspended) {
    ops.stop("NotAdmitted", "Not admitted by cluster queue", &w);
  }
}

}  // namespace muster::scheduler
