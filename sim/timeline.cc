#include "sim/timeline.h"

#include <utility>

#include "api/kind.h"

namespace muster::sim {
namespace {

const Json& At(const Json& object, std::string_view key) {
  static const Json kNothing;
  if (!object.is_object()) {
    return kNothing;
  }
  const auto it = object.find(key);
  return it != object.end() ? *it : kNothing;
}

std::string Text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::string KeyOf(const Json& object) {
  const Json& meta = At(object, "metadata");
  return Text(At(meta, "namespace")) + "/" + Text(At(meta, "name"));
}

const Json& ConditionOf(const Json& object, std::string_view type) {
  static const Json kNothing;
  for (const Json& condition : At(At(object, "status"), "conditions")) {
    if (Text(At(condition, "type")) == type) {
      return condition;
    }
  }
  return kNothing;
}

bool IsTrue(const Json& condition) {
  return Text(At(condition, "status")) == "True";
}

std::string OwnerText(const Json& owner, const std::string& ns) {
  return Text(At(owner, "apiVersion")) + " " + Text(At(owner, "kind")) + " " + ns + "/" +
         Text(At(owner, "name"));
}

std::int32_t Count(const Json& value) {
  return value.is_number_integer() ? value.get<std::int32_t>() : 0;
}

std::unique_ptr<WatchStream> WatchAll(ApiServer& server, api::Kind kind, TimePoint now) {
  const k8s::Request request{.target =
                                 api::Path(kind, "", "") +
                                 "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
                                 "&allowWatchBookmarks=true&timeoutSeconds=315360000"};
  k8s::Response refused;
  return server.OpenWatch(request, now, refused);
}

template <typename Fn>
void ForEachEvent(std::unique_ptr<WatchStream>& stream, const Fn& fn) {
  if (stream == nullptr) {
    return;
  }
  const std::string bytes = stream->Read();
  std::size_t start = 0;
  while (start < bytes.size()) {
    std::size_t end = bytes.find('\n', start);
    if (end == std::string::npos) {
      end = bytes.size();
    }
    const Json event = Json::parse(bytes.begin() + static_cast<std::ptrdiff_t>(start),
                                   bytes.begin() + static_cast<std::ptrdiff_t>(end),
                                   nullptr,
                                   false);
    const std::string type = Text(At(event, "type"));
    if (type == "ADDED" || type == "MODIFIED" || type == "DELETED") {
      fn(At(event, "object"), type == "DELETED");
    }
    start = end + 1;
  }
}

}  // namespace

struct Timeline::Gang {
  std::string key;
  std::string owner;
  std::string cluster_queue;
  std::set<std::string> owner_uids;
  FlavorsByPodSet flavors;
  std::map<std::string, std::int32_t> granted;  // pods per pod set
  bool queued = false;
  bool reserved = false;
  bool admitted = false;
  bool evicted = false;
  bool finished = false;
  bool active = true;
  bool requeued = true;
  bool started = false;
  std::set<std::string> pods;
};

struct Timeline::PodState {
  std::string gang;
  std::string pod_set;
  std::string node;
  bool running = false;  // runs or has succeeded, and is not on its way out
  bool succeeded = false;
};

Timeline::Timeline(ApiServer& server, TimePoint start)
    : start_(start),
      workloads_(WatchAll(server, api::Kind::kWorkload, start)),
      pods_(WatchAll(server, api::Kind::kPod, start)) {}

Timeline::~Timeline() = default;

void Timeline::SetPlacementSource(std::function<NodesByPodSet(const std::string&)> source) {
  placement_ = std::move(source);
}

void Timeline::Observe(TimePoint now) {
  ForEachEvent(workloads_,
               [&](const Json& object, bool deleted) { OnWorkload(object, deleted, now); });
  ForEachEvent(pods_, [&](const Json& object, bool deleted) { OnPod(object, deleted); });
  CheckStarted(now);
}

TimelineEvent Timeline::Make(std::string_view event, const Gang& gang, TimePoint now) const {
  return TimelineEvent{.at = now - start_,
                       .event = std::string(event),
                       .workload = gang.key,
                       .owner = gang.owner,
                       .cluster_queue = gang.cluster_queue};
}

void Timeline::Queued(Gang& gang, TimePoint now) {
  if (!gang.queued) {
    gang.queued = true;
    events_.push_back(Make("Queued", gang, now));
  }
}

void Timeline::NoteQueued(TimePoint now,
                          const std::string& workload,
                          const std::string& cluster_queue) {
  const auto it = gangs_.find(workload);
  if (it == gangs_.end()) {
    return;
  }
  it->second->cluster_queue = cluster_queue;
  Queued(*it->second, now);
}

void Timeline::OnWorkload(const Json& object, bool deleted, TimePoint now) {
  const std::string key = KeyOf(object);
  const Json& meta = At(object, "metadata");
  const std::string ns = Text(At(meta, "namespace"));
  auto& slot = gangs_[key];
  const bool created = slot == nullptr;
  if (created) {
    slot = std::make_unique<Gang>();
    slot->key = key;
  }
  Gang& gang = *slot;
  for (const Json& owner : At(meta, "ownerReferences")) {
    const std::string uid = Text(At(owner, "uid"));
    if (gang.owner.empty() || At(owner, "controller") == Json(true)) {
      gang.owner = OwnerText(owner, ns);
    }
    gang.owner_uids.insert(uid);
    gang_of_owner_[uid] = key;
  }
  if (created) {
    events_.push_back(Make("Created", gang, now));
  }
  if (deleted) {
    events_.push_back(Make("Deleted", gang, now));
    for (const std::string& uid : gang.owner_uids) {
      gang_of_owner_.erase(uid);
    }
    gangs_.erase(key);
    return;
  }

  const Json& spec_active = At(At(object, "spec"), "active");
  const bool active = !spec_active.is_boolean() || spec_active.get<bool>();
  const Json& reserved = ConditionOf(object, "QuotaReserved");
  const Json& admitted = ConditionOf(object, "Admitted");
  const Json& evicted = ConditionOf(object, "Evicted");
  const Json& requeued = ConditionOf(object, "Requeued");
  const Json& finished = ConditionOf(object, "Finished");
  const Json& admission = At(At(object, "status"), "admission");
  const auto emit = [&](std::string_view name, const Json& condition) -> TimelineEvent& {
    TimelineEvent event = Make(name, gang, now);
    event.reason = Text(At(condition, "reason"));
    event.message = Text(At(condition, "message"));
    return events_.emplace_back(std::move(event));
  };

  if (admission.is_object()) {
    gang.cluster_queue = Text(At(admission, "clusterQueue"));
    gang.flavors.clear();
    gang.granted.clear();
    for (const Json& pod_set : At(admission, "podSetAssignments")) {
      const std::string name = At(pod_set, "name").is_string() ? Text(At(pod_set, "name")) : "main";
      auto& flavors = gang.flavors[name];
      const Json& assigned = At(pod_set, "flavors");
      if (assigned.is_object()) {
        for (const auto& [resource, flavor] : assigned.items()) {
          flavors[resource] = Text(flavor);
        }
      }
      gang.granted[name] = Count(At(pod_set, "count"));
    }
  }
  // In the order in which a life runs, so that one write that does several things tells them in
  // sequence.
  if (IsTrue(reserved) && !gang.reserved) {
    Queued(gang, now);
    TimelineEvent& event = emit("QuotaReserved", reserved);
    event.flavors = gang.flavors;
  }
  if (IsTrue(admitted) && !gang.admitted) {
    TimelineEvent& event = emit("Admitted", admitted);
    event.flavors = gang.flavors;
    if (placement_) {
      event.nodes = placement_(key);
    }
    gang.started = false;
    maybe_started_.insert(key);
  }
  if (IsTrue(evicted) && !gang.evicted) {
    emit(Text(At(evicted, "reason")) == "Preempted" ? "Preempted" : "Evicted", evicted);
    gang.started = true;  // it no longer waits for its pods
  }
  if (!active && gang.active) {
    emit("Deactivated", Json());
  }
  const bool may_queue = !requeued.is_object() || IsTrue(requeued);
  if (gang.queued && active && !IsTrue(reserved) && !IsTrue(finished) && may_queue &&
      (gang.reserved || !gang.requeued)) {
    emit("Requeued", requeued);
  }
  if (IsTrue(finished) && !gang.finished) {
    emit("Finished", finished);
  }
  gang.reserved = IsTrue(reserved);
  gang.admitted = IsTrue(admitted);
  gang.evicted = IsTrue(evicted);
  gang.finished = IsTrue(finished);
  gang.requeued = may_queue;
  gang.active = active;
}

void Timeline::OnPod(const Json& object, bool deleted) {
  const std::string key = KeyOf(object);
  auto& slot = pod_states_[key];
  if (deleted) {
    if (slot != nullptr && !slot->gang.empty()) {
      if (const auto gang = gangs_.find(slot->gang); gang != gangs_.end()) {
        gang->second->pods.erase(key);
      }
    }
    pod_states_.erase(key);
    return;
  }
  if (slot == nullptr) {
    slot = std::make_unique<PodState>();
  }
  PodState& pod = *slot;
  const Json& meta = At(object, "metadata");
  if (pod.gang.empty()) {
    std::vector<std::string> candidates{Text(At(meta, "uid"))};
    for (const Json& owner : At(meta, "ownerReferences")) {
      candidates.push_back(Text(At(owner, "uid")));
    }
    for (const std::string& uid : candidates) {
      if (const auto it = gang_of_owner_.find(uid); it != gang_of_owner_.end()) {
        pod.gang = it->second;
        break;
      }
    }
    const Json& labels = At(meta, "labels");
    const Json& annotations = At(meta, "annotations");
    for (const std::string_view label : {"kueue.x-k8s.io/podset", "kueue.x-k8s.io/role-hash"}) {
      const std::string in_labels = Text(At(labels, label));
      pod.pod_set = in_labels.empty() ? Text(At(annotations, label)) : in_labels;
      if (!pod.pod_set.empty()) {
        break;
      }
    }
    if (pod.pod_set.empty()) {
      pod.pod_set = "main";
    }
  }
  const Json& status = At(object, "status");
  const std::string phase = Text(At(status, "phase"));
  pod.node = Text(At(At(object, "spec"), "nodeName"));
  pod.succeeded = phase == "Succeeded";
  pod.running = pod.succeeded || (phase == "Running" && At(meta, "deletionTimestamp").is_null());
  if (pod.gang.empty()) {
    return;
  }
  if (const auto gang = gangs_.find(pod.gang); gang != gangs_.end()) {
    gang->second->pods.insert(key);
    maybe_started_.insert(pod.gang);
  }
}

void Timeline::CheckStarted(TimePoint now) {
  for (const std::string& key : std::exchange(maybe_started_, {})) {
    const auto it = gangs_.find(key);
    if (it == gangs_.end() || !it->second->admitted || it->second->started) {
      continue;
    }
    Gang& gang = *it->second;
    std::int64_t wanted = 0;
    for (const auto& [name, count] : gang.granted) {
      wanted += count;
    }
    std::int64_t running = 0;
    NodesByPodSet nodes;
    for (const std::string& name : gang.pods) {
      const auto pod = pod_states_.find(name);
      if (pod == pod_states_.end() || !pod->second->running) {
        continue;
      }
      ++running;
      // A gang of one pod set has its name; more than one is told apart by label.
      const std::string& pod_set =
          gang.granted.size() == 1 ? gang.granted.begin()->first : pod->second->pod_set;
      if (!pod->second->node.empty()) {
        ++nodes[pod_set][pod->second->node];
      }
    }
    if (wanted > 0 && running >= wanted) {
      gang.started = true;
      TimelineEvent event = Make("Started", gang, now);
      event.flavors = gang.flavors;
      event.nodes = std::move(nodes);
      events_.push_back(std::move(event));
    }
  }
}

void Timeline::Rejected(TimePoint now, std::string object, std::string message) {
  events_.push_back(TimelineEvent{.at = now - start_,
                                  .event = "Rejected",
                                  .message = std::move(message),
                                  .object = std::move(object)});
}

std::map<std::string, NodesByPodSet> Timeline::Running() const {
  std::map<std::string, NodesByPodSet> out;
  for (const auto& [key, gang] : gangs_) {
    for (const std::string& name : gang->pods) {
      const auto pod = pod_states_.find(name);
      if (pod == pod_states_.end() || !pod->second->running || pod->second->succeeded) {
        continue;
      }
      const std::string& pod_set =
          gang->granted.size() == 1 ? gang->granted.begin()->first : pod->second->pod_set;
      ++out[key][pod_set][pod->second->node];
    }
  }
  return out;
}

}  // namespace muster::sim
