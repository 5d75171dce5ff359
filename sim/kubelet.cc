#include "sim/kubelet.h"

#include <map>
#include <set>
#include <string>
#include <utility>

#include "api/kind.h"
#include "sim/access.h"
#include "sim/follower.h"

namespace muster::sim {
namespace {

class Kubelet final : public StandIn {
 public:
  Kubelet(ApiServer& server, const StandInOptions& options)
      : writer_(server),
        no_nodes_(options.no_nodes),
        pods_(server, "/api/v1/pods"),
        groups_(server, "/apis/scheduling.k8s.io/v1beta1/podgroups") {}

  bool Step(TimePoint now) override {
    pods_.Drain(now, [&](const api::ObjectKey& key, const Json* before, const Json* after) {
      OnPod(key, before, after, now);
    });
    if (no_nodes_) {
      groups_.Drain(now,
                    [&](const api::ObjectKey& key, const Json*, const Json*) { TouchGroup(key); });
    }
    bool changed = false;
    while (!alarms_.empty() && alarms_.begin()->first <= now) {
      dirty_.insert(alarms_.begin()->second);
      alarms_.erase(alarms_.begin());
    }
    for (const api::ObjectKey& key : std::exchange(dirty_, {})) {
      changed = Act(key, now) || changed;
    }
    return changed;
  }

  [[nodiscard]] std::optional<TimePoint> NextWake() const override {
    return alarms_.empty() ? std::nullopt : std::optional(alarms_.begin()->first);
  }

 private:
  // Times of one pod: set once, so that a later change of the object does not move them.
  struct Times {
    std::optional<TimePoint> end;   // of its container
    std::optional<TimePoint> gone;  // of its grace
  };

  void OnPod(const api::ObjectKey& key, const Json* before, const Json* after, TimePoint now) {
    if (after == nullptr) {
      // Alarms are as many as pods that run, so only those of this pod are touched.
      if (const auto times = times_.find(key); times != times_.end()) {
        for (const std::optional<TimePoint>& at : {times->second.end, times->second.gone}) {
          if (at) {
            auto [it, last] = alarms_.equal_range(*at);
            while (it != last) {
              it = it->second == key ? alarms_.erase(it) : std::next(it);
            }
          }
        }
        times_.erase(times);
      }
    } else {
      dirty_.insert(key);
    }
    (void)now;
    // A member that is released or goes may complete or break its group.
    for (const Json* object : {before, after}) {
      if (no_nodes_ && object != nullptr) {
        const std::string group =
            TextAt(ObjectAt(ObjectAt(*object, "spec"), "schedulingGroup"), "podGroupName");
        if (!group.empty()) {
          members_[{.ns = key.ns, .name = group}].insert(key);
          if (object == after) {
            TouchGroup({.ns = key.ns, .name = group});
          }
        }
      }
    }
  }

  void TouchGroup(const api::ObjectKey& group) {
    const auto it = members_.find(group);
    if (it != members_.end()) {
      dirty_.insert(it->second.begin(), it->second.end());
    }
  }

  // Whether kube-scheduler would let this pod go, where there are no nodes to choose from.
  [[nodiscard]] bool Released(const api::ObjectKey& key, const Json& pod) const {
    const Json& spec = ObjectAt(pod, "spec");
    if (!ListAt(spec, "schedulingGates").empty()) {
      return false;
    }
    const std::string name = TextAt(ObjectAt(spec, "schedulingGroup"), "podGroupName");
    if (name.empty()) {
      return true;
    }
    const api::ObjectKey group{.ns = key.ns, .name = name};
    const Json* object = groups_.Find(group);
    if (object == nullptr) {
      return false;
    }
    std::int64_t ready = 0;
    for (const api::ObjectKey& member : members_.at(group)) {
      const Json* other = pods_.Find(member);
      if (other == nullptr) {
        continue;
      }
      // One gated member keeps the whole group out.
      if (!ListAt(ObjectAt(*other, "spec"), "schedulingGates").empty()) {
        return false;
      }
      ++ready;
    }
    const Json& gang = ObjectAt(ObjectAt(ObjectAt(*object, "spec"), "schedulingPolicy"), "gang");
    return ready >= IntAt(gang, "minCount").value_or(1);
  }

  [[nodiscard]] static std::optional<Duration> Annotated(const Json& pod, std::string_view key) {
    const std::string text = TextAt(ObjectAt(ObjectAt(pod, "metadata"), "annotations"), key);
    if (text.empty()) {
      return std::nullopt;
    }
    const auto duration = ParseDuration(text);
    return duration ? std::optional(std::max(*duration, Duration::zero())) : std::nullopt;
  }

  bool Act(const api::ObjectKey& key, TimePoint now) {
    const Json* pod = pods_.Find(key);
    if (pod == nullptr) {
      return false;
    }
    const Json& meta = ObjectAt(*pod, "metadata");
    const std::string phase = TextAt(ObjectAt(*pod, "status"), "phase");
    const bool over = phase == "Succeeded" || phase == "Failed";
    const bool bound = HasText(ObjectAt(*pod, "spec"), "nodeName");
    if (HasText(meta, "deletionTimestamp")) {
      return End(key, *pod, phase, over, now);
    }
    if (over) {
      return false;
    }
    if (phase == "Running") {
      Times& times = times_[key];
      if (!times.end) {
        SetEnd(key, *pod, now);
      }
      return times.end && *times.end <= now && Finish(key, *pod, now);
    }
    if (bound || (no_nodes_ && Released(key, *pod))) {
      return Start(key, *pod, now);
    }
    return false;
  }

  void SetEnd(const api::ObjectKey& key, const Json& pod, TimePoint now) {
    const auto run = Annotated(pod, "sim.muster.dev/run");
    if (!run) {
      return;  // for ever
    }
    // A pod that ran before this kubelet came counts from its start.
    const auto started = ParseTime(TextAt(ObjectAt(pod, "status"), "startTime"));
    const TimePoint end = (started ? *started : now) + *run;
    times_[key].end = end;
    alarms_.emplace(end, key);
  }

  [[nodiscard]] static Json ContainerStatuses(const Json& pod, const Json& state, bool ready) {
    Json out = Json::array();
    for (const Json& container : ListAt(ObjectAt(pod, "spec"), "containers")) {
      out.push_back({{"name", TextAt(container, "name")},
                     {"image", TextAt(container, "image")},
                     {"imageID", ""},
                     {"ready", ready},
                     {"started", ready},
                     {"restartCount", 0},
                     {"state", state}});
    }
    return out;
  }

  bool Start(const api::ObjectKey& key, const Json& pod, TimePoint now) {
    Json conditions = ListAt(ObjectAt(pod, "status"), "conditions");
    SetCondition(conditions, "PodScheduled", "True", "", "", now);
    for (const char* type : {"Initialized", "ContainersReady", "Ready"}) {
      SetCondition(conditions, type, "True", "", "", now);
    }
    const bool done = Patch(
        key,
        Json{{"phase", "Running"},
             {"startTime", FormatTime(now)},
             {"conditions", conditions},
             {"containerStatuses",
              ContainerStatuses(pod, Json{{"running", {{"startedAt", FormatTime(now)}}}}, true)}},
        now);
    const auto run = Annotated(pod, "sim.muster.dev/run");
    if (done && run) {
      times_[key].end = now + *run;
      alarms_.emplace(now + *run, key);
    }
    return done;
  }

  bool Finish(const api::ObjectKey& key, const Json& pod, TimePoint now) {
    const bool fails =
        TextAt(ObjectAt(ObjectAt(pod, "metadata"), "annotations"), "sim.muster.dev/fail") == "true";
    return Terminate(key, pod, fails ? "Failed" : "Succeeded", fails ? 1 : 0, now);
  }

  bool Terminate(const api::ObjectKey& key,
                 const Json& pod,
                 std::string_view phase,
                 int exit_code,
                 TimePoint now) {
    Json conditions = ListAt(ObjectAt(pod, "status"), "conditions");
    const std::string_view reason = exit_code == 0 ? "PodCompleted" : "PodFailed";
    SetCondition(conditions, "ContainersReady", "False", reason, "", now);
    SetCondition(conditions, "Ready", "False", reason, "", now);
    const Json state{{"terminated",
                      {{"exitCode", exit_code},
                       {"reason", exit_code == 0 ? "Completed" : "Error"},
                       {"startedAt", TextAt(ObjectAt(pod, "status"), "startTime")},
                       {"finishedAt", FormatTime(now)}}}};
    Json status{{"phase", phase}, {"conditions", conditions}};
    if (HasText(ObjectAt(pod, "status"), "startTime")) {
      status["containerStatuses"] = ContainerStatuses(pod, state, false);
    }
    return Patch(key, std::move(status), now);
  }

  // A pod on its way out: a running one takes its grace; then it is gone, or ends as Failed where a
  // finalizer holds the object.
  bool End(const api::ObjectKey& key,
           const Json& pod,
           const std::string& phase,
           bool over,
           TimePoint now) {
    const bool running = phase == "Running";
    if (running) {
      Times& times = times_[key];
      if (!times.gone) {
        times.gone = now + Annotated(pod, "sim.muster.dev/grace").value_or(std::chrono::seconds(1));
        alarms_.emplace(*times.gone, key);
      }
      if (*times.gone > now) {
        // A container that ends by itself within the grace ends as it would have.
        return times.end && *times.end <= now && Finish(key, pod, now);
      }
    }
    bool changed = false;
    if (!over) {
      changed = Terminate(key, pod, "Failed", 137, now);
    }
    // The kubelet's own deletion; what a finalizer holds stays, with a grace of 0.
    if (IntAt(ObjectAt(pod, "metadata"), "deletionGracePeriodSeconds").value_or(0) > 0 ||
        ListAt(ObjectAt(pod, "metadata"), "finalizers").empty()) {
      changed = writer_.Delete(
                    api::Path(api::Kind::kPod, key.ns, key.name), "?gracePeriodSeconds=0", now) ||
                changed;
    }
    return changed;
  }

  bool Patch(const api::ObjectKey& key, Json status, TimePoint now) {
    return writer_
        .Patch(api::Path(api::Kind::kPod, key.ns, key.name, "status"),
               Json{{"status", std::move(status)}},
               now)
        .has_value();
  }

  Writer writer_;
  bool no_nodes_;
  Follower pods_;
  Follower groups_;
  std::set<api::ObjectKey> dirty_;
  std::map<api::ObjectKey, Times> times_;
  std::multimap<TimePoint, api::ObjectKey> alarms_;
  std::map<api::ObjectKey, std::set<api::ObjectKey>>
      members_;  // native group -> pods, with no nodes only
};

}  // namespace

std::unique_ptr<StandIn> MakeKubelet(ApiServer& server, const StandInOptions& options) {
  return std::make_unique<Kubelet>(server, options);
}

}  // namespace muster::sim
