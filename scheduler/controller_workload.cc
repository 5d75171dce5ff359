#include <algorithm>
#include <chrono>
#include <limits>
#include <set>

#include "api/quantity.h"
#include "base/strings.h"
#include "jobs/names.h"
#include "k8sclient/requests.h"
#include "scheduler/controller_impl.h"

// The life of one Workload. Order of steps: Kueue pkg/controller/core/workload_controller.go; here
// all of them that apply make one write.
namespace muster::scheduler {
namespace {

using api::Json;
using api::Kind;
using api::ObjectKey;
using api::Ptr;
using std::chrono::seconds;

constexpr std::string_view kHostname = "kubernetes.io/hostname";

std::string Seconds(Duration duration) {
  const auto count =
      std::max<std::int64_t>(0, std::chrono::duration_cast<seconds>(duration).count());
  return std::to_string(count) + "s";
}

std::string JobUid(const api::Workload& workload) {
  const std::string* uid = workload.meta.Label(jobs::kJobUidLabel);
  return uid == nullptr || uid->empty() ? "UNKNOWN" : *uid;
}

std::string PreemptionPhrase(const std::string& reason) {
  if (reason == "InClusterQueue") {
    return "prioritization in the ClusterQueue";
  }
  if (reason == "InCohortReclamation") {
    return "reclamation within the cohort";
  }
  if (reason == "InCohortFairSharing") {
    return "Fair Sharing within the cohort";
  }
  if (reason == "InCohortReclaimWhileBorrowing") {
    return "reclamation within the cohort while borrowing";
  }
  return reason;
}

// base * 2^(n-1), at most max.
Duration RequeueDelay(const WaitForPodsReady& config, std::int32_t n) {
  std::int64_t delay = std::max(0, config.backoff_base_seconds);
  const std::int64_t limit = std::max(0, config.backoff_max_seconds);
  for (std::int32_t i = 1; i < n && delay < limit; ++i) {
    delay *= 2;
  }
  return seconds(std::min(delay, limit));
}

// One topology assignment slice for a run of nodes whose names are at most 63 long; longer names
// are split over prefix, root and suffix.
Json SliceOf(const std::vector<std::pair<std::string, std::int32_t>>& domains) {
  Json roots = Json::array();
  Json counts = Json::array();
  bool uniform = true;
  for (const auto& [node, count] : domains) {
    roots.push_back(node);
    counts.push_back(count);
    uniform = uniform && count == domains.front().second;
  }
  Json values = {{"individual", {{"roots", std::move(roots)}}}};
  if (domains.size() == 1) {
    const std::string& node = domains.front().first;
    if (node.size() <= 63) {
      values = {{"universal", node}};
    } else {
      Json individual = {{"prefix", node.substr(0, 63)},
                         {"roots", Json::array({node.substr(63, 63)})}};
      if (node.size() > 126) {
        individual["suffix"] = node.substr(126);
      }
      values = {{"individual", std::move(individual)}};
    }
  }
  Json pods = uniform ? Json{{"universal", domains.front().second}}
                      : Json{{"individual", std::move(counts)}};
  return {{"domainCount", domains.size()},
          {"valuesPerLevel", Json::array({std::move(values)})},
          {"podCounts", std::move(pods)}};
}

// The nodes of one pod class in rank order as a topology assignment with the hostname as its only
// level: the reference's own encoding, so that the plan is stored by the very write that admits.
// Null when there is nothing to store.
Json TopologyAssignmentOf(const placement::Placement& plan, std::size_t pod_class) {
  std::vector<std::pair<std::string, std::int32_t>> runs;
  for (const placement::PodPlacement& pod : plan.pods) {
    if (pod.pod_class != pod_class || pod.node.empty() || pod.node.size() > 189) {
      continue;
    }
    if (!runs.empty() && runs.back().first == pod.node) {
      ++runs.back().second;
    } else {
      runs.emplace_back(pod.node, 1);
    }
  }
  if (runs.empty()) {
    return nullptr;
  }
  Json slices = Json::array();
  std::vector<std::pair<std::string, std::int32_t>> open;
  const auto flush = [&] {
    if (!open.empty()) {
      slices.push_back(SliceOf(open));
      open.clear();
    }
  };
  for (auto& run : runs) {
    if (run.first.size() > 63) {
      flush();
      open.push_back(std::move(run));
      flush();
      continue;
    }
    if (open.size() >= 100'000) {
      flush();
    }
    open.push_back(std::move(run));
  }
  flush();
  return {{"levels", Json::array({std::string(kHostname)})}, {"slices", std::move(slices)}};
}

}  // namespace

std::vector<std::pair<std::string, std::int32_t>> PinsOf(const api::PodSetAssignment& assignment) {
  std::vector<std::pair<std::string, std::int32_t>> pins;
  if (!assignment.topology || assignment.topology->levels.empty() ||
      assignment.topology->levels.back() != kHostname) {
    return pins;
  }
  for (const api::TopologyDomainAssignment& domain : assignment.topology->domains) {
    if (!domain.values.empty() && domain.count > 0) {
      pins.emplace_back(domain.values.back(), domain.count);
    }
  }
  return pins;
}

std::vector<std::pair<std::string, std::string>> Controller::Impl::QueueLabels(
    const api::Workload& workload) const {
  std::string queue = workload.admission
                          ? workload.admission->cluster_queue
                          : state.ClusterQueueOf({workload.meta.ns, workload.queue_name});
  return {
      {"cluster_queue", std::move(queue)},
      {"priority_class", workload.priority_class ? workload.priority_class->name : std::string()}};
}

TimePoint Controller::Impl::QueuedSince(const api::Workload& workload) const {
  const api::Condition* requeued = workload.FindCondition("Requeued");
  if (requeued != nullptr && requeued->is_true() && requeued->last_transition_time) {
    return *requeued->last_transition_time;
  }
  return workload.meta.creation_timestamp;
}

Effect Controller::Impl::AdmittedEvent(const api::Workload& workload,
                                       const std::string& cluster_queue,
                                       TimePoint reserved_at) const {
  return Event(workload.meta,
               Kind::kWorkload,
               false,
               "Admitted",
               "Admitted by ClusterQueue " + cluster_queue + ", wait time since reservation was " +
                   Seconds(now - reserved_at));
}

std::string Controller::Impl::CohortPath(const std::string& cluster_queue) const {
  std::string path = "/" + cluster_queue;
  const Ptr<api::ClusterQueue> queue = Find<api::ClusterQueue>({{}, cluster_queue});
  std::string cohort = queue ? queue->cohort : std::string();
  for (int depth = 0; !cohort.empty() && depth < 32; ++depth) {
    path = "/" + cohort + path;
    const Ptr<api::Cohort> object = Find<api::Cohort>({{}, cohort});
    cohort = object ? object->parent : std::string();
  }
  return path;
}

bool Controller::Impl::Send(const api::Workload& workload,
                            StatusEdit& edit,
                            Urgency urgency,
                            std::vector<Effect> on_success,
                            std::optional<UnitKey> unit) {
  Json patch = edit.Patch();
  if (patch.is_null()) {
    return false;
  }
  const ObjectKey key = workload.meta.key();
  InFlight& flight = Issue(
      Kind::kWorkload,
      key,
      urgency,
      k8s::MergePatch(api::Path(Kind::kWorkload, key.ns, key.name, "status"), std::move(patch)),
      std::move(unit));
  flight.on_success = std::move(on_success);
  return true;
}

bool Controller::Impl::Finish(const api::Workload& workload,
                              std::string_view reason,
                              std::string_view message,
                              std::optional<UnitKey> unit) {
  StatusEdit edit(workload.meta, workload.status, now);
  FinishWorkload(edit, reason, message);
  auto labels = QueueLabels(workload);
  std::vector<Effect> effects;
  effects.emplace_back(MetricEffect{.name = "finished_workloads_total", .labels = labels});
  if (const api::Condition* admitted = workload.FindCondition("Admitted");
      admitted != nullptr && admitted->is_true() && admitted->last_transition_time) {
    const Duration run = now - *admitted->last_transition_time +
                         seconds(workload.accumulated_past_execution_seconds);
    effects.emplace_back(
        MetricEffect{.type = MetricEffect::Type::kObserve,
                     .name = "execution_time_seconds",
                     .labels = labels,
                     .value = std::max(0.0, std::chrono::duration<double>(run).count())});
  }
  return Send(workload, edit, Urgency::kAdmission, std::move(effects), std::move(unit));
}

void Controller::Impl::RemoveFinalizer(Kind kind,
                                       const api::ObjectMeta& meta,
                                       std::string_view finalizer) {
  Json kept = Json::array();
  for (const std::string& name : meta.finalizers) {
    if (name != finalizer) {
      kept.push_back(name);
    }
  }
  Json patch = {{"metadata", {{"finalizers", kept.empty() ? Json(nullptr) : std::move(kept)}}}};
  Issue(kind,
        meta.key(),
        Urgency::kNormal,
        k8s::MergePatch(api::Path(kind, meta.ns, meta.name),
                        std::move(patch),
                        {.resource_version = meta.resource_version, .uid = {}}));
}

void Controller::Impl::DeleteObject(Kind kind,
                                    const api::ObjectMeta& meta,
                                    std::string_view propagation,
                                    Effect on_success) {
  if (meta.deleting() || delete_sent.contains(meta.uid) || !MayWrite(kind, meta.key())) {
    return;
  }
  delete_sent.insert(meta.uid);
  k8s::DeleteQuery query;
  query.preconditions.uid = meta.uid;
  query.propagation =
      propagation == "Background" ? k8s::Propagation::kBackground : k8s::Propagation::kDefault;
  InFlight& flight = Issue(
      kind, meta.key(), Urgency::kNormal, k8s::Delete(api::Path(kind, meta.ns, meta.name), query));
  flight.deletes = meta.uid;
  flight.on_success.push_back(std::move(on_success));
}

void Controller::Impl::Evict(const api::Workload& workload,
                             StatusEdit& edit,
                             std::vector<Effect>& effects,
                             std::string reason,
                             std::string cause,
                             std::string message) {
  EvictWorkload(edit,
                cause.empty() || reason != "Deactivated" ? reason : "DeactivatedDueTo" + cause,
                cause,
                message);
  auto labels = QueueLabels(workload);
  labels.insert(labels.begin() + 1, {"reason", reason});
  labels.insert(labels.begin() + 2, {"underlying_cause", cause});
  effects.emplace_back(
      MetricEffect{.name = "evicted_workloads_total", .labels = std::move(labels)});
  effects.emplace_back(Event(workload.meta,
                             Kind::kWorkload,
                             false,
                             "EvictedDueTo" + reason + (cause.empty() ? "" : "DueTo" + cause),
                             std::move(message)));
}

void Controller::Impl::SyncChecks(const api::Workload& workload, StatusEdit& edit) {
  const std::string name = workload.admission
                               ? workload.admission->cluster_queue
                               : state.ClusterQueueOf({workload.meta.ns, workload.queue_name});
  const Ptr<api::ClusterQueue> queue = Find<api::ClusterQueue>({{}, name});
  if (!queue) {
    return;
  }
  if (queue->admission_checks.empty() && workload.admission_checks.empty()) {
    return;
  }
  std::set<std::string> flavors;
  if (workload.admission) {
    for (const api::PodSetAssignment& set : workload.admission->pod_sets) {
      for (const auto& [resource, flavor] : set.flavors) {
        flavors.insert(flavor);
      }
    }
  }
  std::set<std::string> wanted;
  for (const api::AdmissionCheckRule& rule : queue->admission_checks) {
    const bool applies = rule.on_flavors.empty() ||
                         std::ranges::any_of(rule.on_flavors, [&](const std::string& flavor) {
                           return flavors.contains(flavor);
                         });
    if (applies) {
      wanted.insert(rule.name);
    }
  }
  std::set<std::string> have;
  for (const api::AdmissionCheckState& check : workload.admission_checks) {
    have.insert(check.name);
  }
  if (have == wanted) {
    return;
  }
  std::map<std::string, Json> list;
  const Json& view = edit.view();
  if (view.contains("admissionChecks") && view["admissionChecks"].is_array()) {
    for (const Json& check : view["admissionChecks"]) {
      if (check.is_object() && check.contains("name") && check["name"].is_string() &&
          wanted.contains(check["name"].get<std::string>())) {
        list[check["name"].get<std::string>()] = check;
      }
    }
  }
  for (const std::string& check : wanted) {
    if (!list.contains(check)) {
      list[check] = {{"name", check},
                     {"state", "Pending"},
                     {"message", ""},
                     {"lastTransitionTime", FormatTime(now)}};
    }
  }
  Json out_list = Json::array();
  for (auto& [check, json] : list) {
    out_list.push_back(std::move(json));
  }
  if (out_list.empty()) {
    edit.status().erase("admissionChecks");
  } else {
    edit.status()["admissionChecks"] = std::move(out_list);
  }
}

bool Controller::Impl::WriteAdmission(const api::Workload& workload,
                                      const AdmissionDecision& decision) {
  StatusEdit edit(workload.meta, workload.status, now);
  Json sets = Json::array();
  std::set<std::string> flavors;
  for (const PodSetDecision& set : decision.pod_sets) {
    Json usage = Json::object();
    for (const auto& [resource, amount] : set.usage) {
      usage[resource] = api::FormatAmount(resource, amount);
    }
    Json entry = {{"name", set.name},
                  {"flavors", set.flavors},
                  {"resourceUsage", std::move(usage)},
                  {"count", set.count}};
    for (const auto& [resource, flavor] : set.flavors) {
      flavors.insert(flavor);
    }
    if (decision.pin_nodes && decision.gang && decision.placement) {
      for (std::size_t i = 0; i < decision.gang->classes.size(); ++i) {
        if (decision.gang->classes[i].name == set.name) {
          Json topology = TopologyAssignmentOf(*decision.placement, i);
          if (!topology.is_null()) {
            entry["topologyAssignment"] = std::move(topology);
          }
        }
      }
    }
    sets.push_back(std::move(entry));
  }
  edit.status()["admission"] = {{"clusterQueue", decision.cluster_queue},
                                {"podSetAssignments", std::move(sets)}};
  edit.SetCondition("QuotaReserved",
                    "True",
                    "QuotaReserved",
                    "Quota reserved in ClusterQueue " + decision.cluster_queue);
  ClearEviction(edit);

  // The checks of the flavors now known; those that applied before keep their state.
  const Ptr<api::ClusterQueue> queue = Find<api::ClusterQueue>({{}, decision.cluster_queue});
  if (queue) {
    api::Workload admitted = workload;
    admitted.admission.emplace();
    admitted.admission->cluster_queue = decision.cluster_queue;
    for (const PodSetDecision& set : decision.pod_sets) {
      api::PodSetAssignment assignment;
      assignment.name = set.name;
      assignment.flavors = set.flavors;
      admitted.admission->pod_sets.push_back(std::move(assignment));
    }
    SyncChecks(admitted, edit);
  }
  const bool admitted_now = SyncAdmitted(edit);
  if (admitted_now && options.wait_for_pods_ready.enabled && UnitOf(workload)) {
    // With the admission, so that it costs no write of its own.
    edit.SetCondition("PodsReady", "False", "WaitForStart", "Not all pods are ready or succeeded");
  }
  std::vector<Effect> effects;
  std::vector<std::pair<std::string, std::string>> labels = {
      {"cluster_queue", decision.cluster_queue},
      {"priority_class", workload.priority_class ? workload.priority_class->name : std::string()}};
  const Duration waited = now - QueuedSince(workload);
  const double waited_seconds = std::max(0.0, std::chrono::duration<double>(waited).count());
  effects.emplace_back(Event(workload.meta,
                             Kind::kWorkload,
                             false,
                             "QuotaReserved",
                             "Quota reserved in ClusterQueue " + decision.cluster_queue +
                                 ", wait time since queued was " + Seconds(waited)));
  effects.emplace_back(MetricEffect{.name = "quota_reserved_workloads_total", .labels = labels});
  effects.emplace_back(MetricEffect{.type = MetricEffect::Type::kObserve,
                                    .name = "quota_reserved_wait_time_seconds",
                                    .labels = labels,
                                    .value = waited_seconds});
  if (admitted_now) {
    effects.push_back(AdmittedEvent(workload, decision.cluster_queue, now));
    effects.emplace_back(MetricEffect{.name = "admitted_workloads_total", .labels = labels});
    effects.emplace_back(MetricEffect{.type = MetricEffect::Type::kObserve,
                                      .name = "admission_wait_time_seconds",
                                      .labels = labels,
                                      .value = waited_seconds});
  }
  if (decision.placement && !decision.placement->agrees_with_first_fit &&
      !AllocatesClaims(decision)) {
    effects.emplace_back(Event(workload.meta,
                               Kind::kWorkload,
                               true,
                               "DevicesNotPinned",
                               "kube-scheduler's first choice of devices differs from the plan; "
                               "pods of this gang may have to wait for devices"));
  }
  if (!Send(workload, edit, Urgency::kAdmission, std::move(effects))) {
    return false;
  }
  in_flight[{Kind::kWorkload, workload.meta.key()}].purpose = Purpose::kAdmit;
  return true;
}

void Controller::Impl::ReconcileWorkload(const ObjectKey& key) {
  const Ptr<api::Workload> found = Find<api::Workload>(key);
  if (!found) {
    Unwake(KindKey{Kind::kWorkload, key});
    return;
  }
  const api::Workload& w = *found;
  if (!MayWrite(Kind::kWorkload, key)) {
    return;
  }
  if (const auto it = reread.find(key); it != reread.end()) {
    InFlight& flight = Issue(Kind::kWorkload,
                             key,
                             Urgency::kAdmission,
                             k8s::Get(api::Path(Kind::kWorkload, key.ns, key.name)));
    flight.purpose = Purpose::kReread;
    return;
  }
  const std::optional<UnitKey> unit = UnitOf(w);

  // Nobody owns it any more.
  const bool orphan = w.meta.owner_references.empty() &&
                      (w.meta.deleting() || w.meta.Label(jobs::kJobUidLabel) != nullptr);
  if (orphan) {
    if (!w.finished()) {
      Finish(w, "OwnerNotFound", "The workload's owner no longer exists");
    } else if (w.meta.HasFinalizer(jobs::kResourceInUse)) {
      RemoveFinalizer(Kind::kWorkload, w.meta, jobs::kResourceInUse);
    }
    return;
  }

  const auto decided = admissions.find(key);
  if (w.finished() || w.meta.deleting()) {
    if (decided != admissions.end()) {
      admissions.erase(decided);
      state.Forget(key, now);
    }
    preemptions.erase(key);
    verdicts.erase(key);
    Unwake(KindKey{Kind::kWorkload, key});
    const api::Condition* finished = w.FindCondition("Finished");
    if (w.finished() && options.retain_finished && !w.meta.deleting() &&
        finished->last_transition_time) {
      const TimePoint due = *finished->last_transition_time + *options.retain_finished;
      if (due <= now) {
        DeleteObject(Kind::kWorkload,
                     w.meta,
                     "Background",
                     Event(w.meta,
                           Kind::kWorkload,
                           false,
                           "Deleted",
                           "Deleted finished workload due to elapsed retention"));
      } else {
        Wake(due, KindKey{Kind::kWorkload, key});
      }
    }
    return;
  }

  if (decided != admissions.end()) {
    const AdmissionDecision& decision = decided->second;
    const bool valid = w.meta.uid == decision.workload.uid && w.active && !w.quota_reserved();
    if (!valid) {
      admissions.erase(decided);
      state.Forget(key, now);
    } else {
      verdicts.erase(key);
      if (!WriteAdmission(w, decision)) {
        admissions.erase(decided);
        state.Forget(key, now);
      }
      return;
    }
  }

  StatusEdit edit(w.meta, w.status, now);
  std::vector<Effect> effects;
  Json spec;  // merge patch of the spec; goes out only when the status needs nothing
  const bool reserved = w.quota_reserved();

  // requeueAt: the latest time that a Retry check asks for.
  std::optional<TimePoint> requeue_at =
      w.requeue_state ? w.requeue_state->requeue_at : std::nullopt;
  for (const api::AdmissionCheckState& check : w.admission_checks) {
    if (check.state == "Retry" && check.requeue_after_seconds && *check.requeue_after_seconds > 0 &&
        check.last_transition_time) {
      const TimePoint due = *check.last_transition_time + seconds(*check.requeue_after_seconds);
      if (due > now && (!requeue_at || due > *requeue_at)) {
        requeue_at = due;
        edit.status()["requeueState"]["requeueAt"] = FormatTime(due);
      }
    }
  }

  const std::string requeued_reason = edit.Field("Requeued", "status") == "False"
                                          ? edit.Field("Requeued", "reason")
                                          : std::string();
  if (w.active) {
    if (edit.IsTrue("DeactivationTarget")) {
      spec["active"] = false;
    } else if (requeue_at && *requeue_at > now) {
      Wake(*requeue_at, KindKey{Kind::kWorkload, key});
    } else {
      if (requeue_at && !reserved) {
        edit.status()["requeueState"].erase("requeueAt");
      }
      if (!reserved && (requeued_reason == "PodsReadyTimeout" ||
                        requeued_reason == "AdmissionCheck" || requeued_reason == "StartRefused")) {
        edit.SetCondition(
            "Requeued", "True", "BackoffFinished", "The workload backoff was finished");
      }
    }
    if (!reserved && requeued_reason.starts_with("Deactivated")) {
      edit.SetCondition("Requeued", "True", "Reactivated", "The workload was reactivated");
    }
  } else {
    const bool already =
        w.evicted() && w.FindCondition("Evicted")->reason.starts_with("Deactivated");
    if (!already) {
      std::string cause;
      std::string message = "The workload is deactivated";
      if (edit.IsTrue("DeactivationTarget")) {
        cause = edit.Field("DeactivationTarget", "reason");
        message += " due to " + edit.Field("DeactivationTarget", "message");
      }
      Evict(w, edit, effects, "Deactivated", cause, message);
      if (cause == "MaximumExecutionTimeExceeded") {
        edit.status()["accumulatedPastExecutionTimeSeconds"] = 0;
      }
    }
    edit.RemoveCondition("DeactivationTarget");
    if (edit.view().contains("requeueState")) {
      edit.status().erase("requeueState");
    }
  }

  const Ptr<api::LocalQueue> local = Find<api::LocalQueue>({key.ns, w.queue_name});
  const std::string queue_name = w.admission ? w.admission->cluster_queue
                                 : local     ? local->cluster_queue
                                             : std::string();
  const Ptr<api::ClusterQueue> queue = Find<api::ClusterQueue>({{}, queue_name});
  const bool local_runs =
      local && !local->meta.deleting() && local->stop_policy == api::StopPolicy::kNone;
  const bool queue_runs =
      queue && !queue->meta.deleting() && queue->stop_policy == api::StopPolicy::kNone;
  if (!reserved && local_runs && requeued_reason == "LocalQueueStopped") {
    edit.SetCondition("Requeued",
                      "True",
                      "LocalQueueRestarted",
                      "The LocalQueue was restarted after being stopped");
  }
  if (!reserved && queue_runs && requeued_reason == "ClusterQueueStopped") {
    edit.SetCondition("Requeued",
                      "True",
                      "ClusterQueueRestarted",
                      "The ClusterQueue was restarted after being stopped");
  }

  if (w.active) {
    SyncChecks(w, edit);
  }

  if (!reserved) {
    // Why it waits: what blocks it here, else what the last cycle said.
    std::string reason;
    std::string message;
    const std::string* gated = w.meta.Annotation(jobs::kAdmissionGatedBy);
    const std::string old_reason = edit.Field("QuotaReserved", "reason");
    if (!w.active) {
      reason = "Deactivated";
      message = "The workload is deactivated";
    } else if (old_reason == "OnHold") {
      reason.clear();
    } else if (!local) {
      reason = "Misconfigured";
      message = "LocalQueue " + w.queue_name + " doesn't exist";
    } else if (!local_runs) {
      reason = "Suspended";
      message = "LocalQueue " + w.queue_name + " is inactive";
    } else if (!queue) {
      reason = "Misconfigured";
      message = "ClusterQueue " + queue_name + " doesn't exist";
    } else if (const auto it = active_seen.find(queue_name);
               !queue_runs || (it != active_seen.end() && !it->second)) {
      reason = "Suspended";
      message = "ClusterQueue " + queue_name + " is inactive";
    } else if (gated != nullptr && !gated->empty()) {
      reason = "AdmissionGated";
      message = "Admission is gated by: " + *gated;
    }
    if (!reason.empty()) {
      verdicts.erase(key);
      edit.SetCondition("QuotaReserved", "False", reason, message);
    } else if (const auto it = verdicts.find(key); it != verdicts.end()) {
      if (it->second.due <= now) {
        const Verdict& verdict = it->second.verdict;
        edit.SetCondition("QuotaReserved", "False", verdict.reason, verdict.message);
        effects.emplace_back(Event(w.meta, Kind::kWorkload, true, verdict.reason, verdict.message));
        verdict_written[key] = now;
        verdicts.erase(it);
      } else {
        Wake(it->second.due, KindKey{Kind::kWorkload, key});
      }
    } else if (old_reason == "AdmissionGated") {
      edit.SetCondition("QuotaReserved",
                        "False",
                        "PendingEvaluation",
                        "AdmissionGatedBy cleared, waiting for quota reservation");
    } else if (old_reason == "Misconfigured" || old_reason == "Suspended" ||
               old_reason == "Deactivated") {
      const std::optional<PendingView> view = state.PendingOf(key);
      if (!view || view->verdict.reason != old_reason) {
        edit.SetCondition("QuotaReserved",
                          "False",
                          "PendingEvaluation",
                          "Workload is pending evaluation in the scheduling queue");
      }
    }
    preemptions.erase(key);
  } else {
    // With a reservation.
    std::string retry;
    std::string rejected;
    for (const api::AdmissionCheckState& check : w.admission_checks) {
      const std::string text = "\"" + check.name + "\" (" + check.message + ")";
      if (check.state == "Retry") {
        retry += (retry.empty() ? "" : "; ") + text;
      } else if (check.state == "Rejected") {
        rejected += (rejected.empty() ? "" : "; ") + text;
      }
    }
    const bool evicted = edit.IsTrue("Evicted");
    if (!rejected.empty() && w.active && !edit.IsTrue("DeactivationTarget")) {
      const std::string message = "AdmissionCheck(s) in Rejected state: " + rejected;
      edit.SetCondition("DeactivationTarget", "True", "AdmissionCheck", message);
      effects.emplace_back(Event(w.meta,
                                 Kind::kWorkload,
                                 true,
                                 "AdmissionCheckRejected",
                                 "Deactivated due to " + message));
    } else if (!retry.empty() && !evicted) {
      Evict(w,
            edit,
            effects,
            "AdmissionCheck",
            "",
            "Evicted due to AdmissionCheck(s) in Retry state: " + retry);
    } else if (!evicted) {
      const auto preempted = preemptions.find(key);
      if (preempted != preemptions.end()) {
        const PreemptionDecision& decision = preempted->second;
        if (decision.victim.uid == w.meta.uid) {
          const Ptr<api::Workload> preemptor = Find<api::Workload>(decision.preemptor.key);
          const std::string message =
              "Preempted to accommodate a workload (UID: " +
              (decision.preemptor.uid.empty() ? std::string("UNKNOWN") : decision.preemptor.uid) +
              ", JobUID: " + (preemptor ? JobUid(*preemptor) : std::string("UNKNOWN")) +
              ") due to " + PreemptionPhrase(decision.reason) +
              "; preemptor path: " + CohortPath(decision.preemptor_queue) +
              "; preemptee path: " + CohortPath(queue_name);
          Evict(w, edit, effects, "Preempted", "", message);
          edit.SetCondition("Preempted", "True", decision.reason, message);
          const std::string priorities =
              "; preemptor effective priority: " +
              std::to_string(preemptor ? preemptor->priority.value_or(0) : 0) +
              " (base: " + std::to_string(preemptor ? preemptor->priority.value_or(0) : 0) +
              ", boost: 0); preemptee effective priority: " +
              std::to_string(w.priority.value_or(0)) +
              " (base: " + std::to_string(w.priority.value_or(0)) + ", boost: 0)";
          effects.emplace_back(
              Event(w.meta, Kind::kWorkload, false, "Preempted", message + priorities));
          effects.emplace_back(
              MetricEffect{.name = "preempted_workloads_total",
                           .labels = {{"preempting_cluster_queue", decision.preemptor_queue},
                                      {"reason", decision.reason}}});
          if (preemptor) {
            effects.emplace_back(Event(preemptor->meta,
                                       Kind::kWorkload,
                                       false,
                                       "PreemptedWorkload",
                                       "Preempted workload " + key.ToString() +
                                           " (UID: " + w.meta.uid + ") in ClusterQueue " +
                                           queue_name + priorities));
          }
        } else {
          preemptions.erase(preempted);
        }
      } else if (lost_devices.erase(key) > 0) {
        Evict(w,
              edit,
              effects,
              "DevicesTaken",
              "",
              "A device that was planned for this workload has been allocated to another claim");
      } else if (const auto refused = refused_starts.find(key);
                 refused != refused_starts.end() && refused->second >= 3) {
        // The API server keeps refusing the job's start: the quota goes to others while this one
        // backs off.
        const std::int32_t count =
            std::min(w.requeue_state && w.requeue_state->count ? *w.requeue_state->count : 0,
                     1'000'000) +
            1;
        edit.status()["requeueState"]["count"] = count;
        edit.status()["requeueState"]["requeueAt"] =
            FormatTime(now + RequeueDelay(options.wait_for_pods_ready, count));
        Evict(w,
              edit,
              effects,
              "StartRefused",
              "",
              "The API server refuses to start the job of workload " + key.ToString());
        refused_starts.erase(refused);
      } else if (w.admitted() && local && local->stop_policy == api::StopPolicy::kHoldAndDrain) {
        Evict(w, edit, effects, "LocalQueueStopped", "", "The LocalQueue is stopped");
      } else if (w.admitted() && queue && queue->stop_policy == api::StopPolicy::kHoldAndDrain) {
        Evict(w, edit, effects, "ClusterQueueStopped", "", "The ClusterQueue is stopped");
      } else if (!w.admitted() && (!local || local->meta.deleting())) {
        DropReservation(
            edit, "Misconfigured", "LocalQueue " + w.queue_name + " is terminating or missing");
      } else if (!w.admitted() && local->stop_policy != api::StopPolicy::kNone) {
        DropReservation(edit, "Suspended", "LocalQueue " + w.queue_name + " is stopped");
      } else if (!w.admitted() && (!queue || queue->meta.deleting())) {
        DropReservation(
            edit, "Misconfigured", "ClusterQueue " + queue_name + " is terminating or missing");
      } else if (!w.admitted() && queue->stop_policy != api::StopPolicy::kNone) {
        DropReservation(edit, "Suspended", "ClusterQueue " + queue_name + " is stopped");
      } else if (SyncAdmitted(edit)) {
        const TimePoint reserved_at = edit.TransitionOf("QuotaReserved").value_or(now);
        effects.push_back(AdmittedEvent(w, queue_name, reserved_at));
        const auto labels = QueueLabels(w);
        effects.emplace_back(MetricEffect{.name = "admitted_workloads_total", .labels = labels});
        effects.emplace_back(MetricEffect{
            .type = MetricEffect::Type::kObserve,
            .name = "admission_checks_wait_time_seconds",
            .labels = labels,
            .value = std::max(0.0, std::chrono::duration<double>(now - reserved_at).count())});
      } else if (w.admitted()) {
        const TimePoint admitted_at =
            w.FindCondition("Admitted")->last_transition_time.value_or(now);
        const WaitForPodsReady& wait = options.wait_for_pods_ready;
        const api::Condition* ready = w.FindCondition("PodsReady");
        std::optional<TimePoint> due;
        if (wait.enabled && unit && (ready == nullptr || !ready->is_true())) {
          if (ready == nullptr || ready->reason != "WaitForRecovery") {
            due = admitted_at + wait.timeout;
          } else if (const Duration recovery = wait.recovery_timeout.value_or(wait.timeout);
                     recovery > Duration::zero()) {
            due = ready->last_transition_time.value_or(now) + recovery;
          }
        }
        if (due && *due <= now) {
          const std::int32_t count =
              std::min(w.requeue_state && w.requeue_state->count ? *w.requeue_state->count : 0,
                       1'000'000) +
              1;
          if (wait.backoff_limit_count && count > *wait.backoff_limit_count) {
            edit.SetCondition("DeactivationTarget",
                              "True",
                              "RequeuingLimitExceeded",
                              "exceeding the maximum number of re-queuing retries");
          } else {
            edit.status()["requeueState"]["count"] = count;
            edit.status()["requeueState"]["requeueAt"] =
                FormatTime(now + RequeueDelay(wait, count));
            Evict(w,
                  edit,
                  effects,
                  "PodsReadyTimeout",
                  "",
                  "Exceeded the PodsReady timeout " + key.ToString());
          }
        } else if (due) {
          Wake(*due, KindKey{Kind::kWorkload, key});
        }
        if (w.max_execution_seconds && w.active && !edit.IsTrue("DeactivationTarget")) {
          const TimePoint end = admitted_at + seconds(*w.max_execution_seconds) -
                                seconds(w.accumulated_past_execution_seconds);
          if (end <= now) {
            edit.SetCondition("DeactivationTarget",
                              "True",
                              "MaximumExecutionTimeExceeded",
                              "exceeding the maximum execution time");
            effects.emplace_back(Event(w.meta,
                                       Kind::kWorkload,
                                       true,
                                       "MaximumExecutionTimeExceeded",
                                       "The maximum execution time (" +
                                           std::to_string(*w.max_execution_seconds) +
                                           "s) exceeded"));
          } else {
            Wake(end, KindKey{Kind::kWorkload, key});
          }
        }
      }
    } else {
      preemptions.erase(key);
    }
  }

  if (Send(w, edit, Urgency::kNormal, std::move(effects))) {
    return;
  }

  // The value of a priority class has changed.
  if (w.priority_class && w.priority_class->kind == "WorkloadPriorityClass") {
    if (const Ptr<api::WorkloadPriorityClass> cls =
            Find<api::WorkloadPriorityClass>({{}, w.priority_class->name});
        cls && w.priority.value_or(0) != cls->value) {
      spec["priority"] = cls->value;
    }
  }
  if (!spec.is_null()) {
    Issue(Kind::kWorkload,
          key,
          Urgency::kNormal,
          k8s::MergePatch(api::Path(Kind::kWorkload, key.ns, key.name),
                          {{"spec", std::move(spec)}},
                          {.resource_version = w.meta.resource_version, .uid = {}}));
  }
}

}  // namespace muster::scheduler
