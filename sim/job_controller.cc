#include "sim/job_controller.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/kind.h"
#include "base/digest.h"
#include "sim/access.h"
#include "sim/follower.h"

namespace muster::sim {
namespace {

using api::Kind;
using api::ObjectKey;
using std::chrono::seconds;

constexpr std::string_view kTracking = "batch.kubernetes.io/job-tracking";
constexpr std::string_view kIndex = "batch.kubernetes.io/job-completion-index";
// The real controller waits 10 s after a failure, twice as long after each further one, ten minutes
// at the most.
constexpr Duration kBackoffBase = seconds(10);
constexpr Duration kBackoffMax = seconds(600);

const Json& Meta(const Json& object) {
  return ObjectAt(object, "metadata");
}
bool Deleting(const Json& object) {
  return HasText(Meta(object), "deletionTimestamp");
}

bool IsTrue(const Json& object, std::string_view type) {
  for (const Json& condition : ListAt(ObjectAt(object, "status"), "conditions")) {
    if (TextAt(condition, "type") == type) {
      return TextAt(condition, "status") == "True";
    }
  }
  return false;
}

// "0-3,7" as a set, and back.
std::set<std::int64_t> ParseIndexes(const std::string& text) {
  std::set<std::int64_t> out;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    const std::string part = text.substr(start, end - start);
    const std::size_t dash = part.find('-');
    const std::int64_t first = std::atoll(part.c_str());
    const std::int64_t last =
        dash == std::string::npos ? first : std::atoll(part.c_str() + dash + 1);
    for (std::int64_t i = first; i <= last; ++i) {
      out.insert(i);
    }
    start = end + 1;
  }
  return out;
}

std::string FormatIndexes(const std::set<std::int64_t>& indexes) {
  std::string out;
  for (auto it = indexes.begin(); it != indexes.end();) {
    const std::int64_t first = *it;
    std::int64_t last = first;
    for (++it; it != indexes.end() && *it == last + 1; ++it) {
      last = *it;
    }
    out += (out.empty() ? "" : ",") + std::to_string(first);
    if (last > first) {
      out += (last == first + 1 ? "," : "-") + std::to_string(last);
    }
  }
  return out;
}

class JobController final : public StandIn {
 public:
  explicit JobController(ApiServer& server)
      : writer_(server),
        jobs_(server, api::Path(Kind::kJob, "", "")),
        pods_(server, api::Path(Kind::kPod, "", "")) {}

  bool Step(TimePoint now) override {
    jobs_.Drain(now, [&](const ObjectKey& key, const Json* before, const Json* after) {
      if (after == nullptr) {
        jobs_by_uid_.erase(TextAt(Meta(*before), "uid"));
        memory_.erase(key);
        std::erase_if(alarms_, [&](const auto& alarm) { return alarm.second == key; });
        const auto it = pods_of_.find(TextAt(Meta(*before), "uid"));
        if (it != pods_of_.end()) {
          orphans_.insert(it->second.begin(), it->second.end());
        }
      } else {
        jobs_by_uid_[TextAt(Meta(*after), "uid")] = key;
        dirty_.insert(key);
      }
    });
    pods_.Drain(now, [&](const ObjectKey& key, const Json* before, const Json* after) {
      OnPod(key, before, after);
    });
    while (!alarms_.empty() && alarms_.begin()->first <= now) {
      dirty_.insert(alarms_.begin()->second);
      alarms_.erase(alarms_.begin());
    }
    bool changed = false;
    for (const ObjectKey& key : std::exchange(orphans_, {})) {
      changed = Release(key, now) || changed;
    }
    for (const ObjectKey& key : std::exchange(dirty_, {})) {
      changed = Sync(key, now) || changed;
    }
    return changed;
  }

  [[nodiscard]] std::optional<TimePoint> NextWake() const override {
    return alarms_.empty() ? std::nullopt : std::optional(alarms_.begin()->first);
  }

 private:
  // What no object holds: how long failed pods hold back their replacement.
  struct Memory {
    int failures_in_a_row = 0;
    std::optional<TimePoint> next_try;
    std::int64_t created = 0;  // for names
  };

  // One look at the pods of a job.
  struct Count {
    std::vector<ObjectKey> active;    // neither over nor on their way out
    std::vector<ObjectKey> finished;  // over and not counted yet
    std::set<std::int64_t> active_indexes;
    std::set<std::int64_t> terminating_indexes;
    std::int64_t ready = 0;
    std::int64_t terminating = 0;
  };

  static std::string OwnerUid(const Json& pod) {
    for (const Json& owner : ListAt(Meta(pod), "ownerReferences")) {
      if (TextAt(owner, "kind") == "Job" && TrueAt(owner, "controller")) {
        return TextAt(owner, "uid");
      }
    }
    return {};
  }

  void OnPod(const ObjectKey& key, const Json* before, const Json* after) {
    const std::string uid = OwnerUid(after != nullptr ? *after : *before);
    if (uid.empty()) {
      return;
    }
    if (after == nullptr) {
      pods_of_[uid].erase(key);
    } else {
      pods_of_[uid].insert(key);
    }
    const auto job = jobs_by_uid_.find(uid);
    if (job != jobs_by_uid_.end()) {
      dirty_.insert(job->second);
    } else if (after != nullptr) {
      orphans_.insert(key);
    }
  }

  [[nodiscard]] static bool Tracked(const Json& pod) {
    const std::vector<std::string> finalizers = TextsAt(Meta(pod), "finalizers");
    return std::find(finalizers.begin(), finalizers.end(), kTracking) != finalizers.end();
  }

  // Takes the tracking finalizer off, so that the pod may go.
  bool Release(const ObjectKey& key, TimePoint now) {
    const Json* pod = pods_.Find(key);
    if (pod == nullptr || !Tracked(*pod)) {
      return false;
    }
    Json left = Json::array();
    for (const std::string& finalizer : TextsAt(Meta(*pod), "finalizers")) {
      if (finalizer != kTracking) {
        left.push_back(finalizer);
      }
    }
    return writer_
        .Patch(api::Path(Kind::kPod, key.ns, key.name),
               Json{{"metadata", {{"finalizers", left}}}},
               now)
        .has_value();
  }

  // Deletes a pod that the controller itself does not want any more: it does not count as failed.
  void Drop(const ObjectKey& key, TimePoint now) {
    (void)Release(key, now);
    (void)writer_.Delete(
        api::Path(Kind::kPod, key.ns, key.name), "?propagationPolicy=Background", now);
  }

  static std::int64_t IndexOf(const Json& pod) {
    const std::string text = TextAt(ObjectAt(Meta(pod), "annotations"), kIndex);
    return text.empty() ? -1 : std::atoll(text.c_str());
  }

  [[nodiscard]] Count Look(const std::string& uid) const {
    Count out;
    const auto it = pods_of_.find(uid);
    if (it == pods_of_.end()) {
      return out;
    }
    for (const ObjectKey& key : it->second) {
      const Json* pod = pods_.Find(key);
      if (pod == nullptr) {
        continue;
      }
      const std::string phase = TextAt(ObjectAt(*pod, "status"), "phase");
      if (phase == "Succeeded" || phase == "Failed") {
        if (Tracked(*pod)) {
          out.finished.push_back(key);
        }
      } else if (Deleting(*pod)) {
        ++out.terminating;
        out.terminating_indexes.insert(IndexOf(*pod));
      } else {
        out.active.push_back(key);
        out.active_indexes.insert(IndexOf(*pod));
        out.ready += IsTrue(*pod, "Ready") ? 1 : 0;
      }
    }
    return out;
  }

  bool Sync(const ObjectKey& key, TimePoint now) {
    const Json* found = jobs_.Find(key);
    if (found == nullptr) {
      return false;
    }
    const Json job = *found;
    const Json& spec = ObjectAt(job, "spec");
    const std::string managed_by = TextAt(spec, "managedBy");
    if (!managed_by.empty() && managed_by != "kubernetes.io/job-controller") {
      return false;
    }
    const std::string uid = TextAt(Meta(job), "uid");
    Count count = Look(uid);
    Json status = ObjectAt(job, "status");
    const Json status_before = status;
    bool changed = false;

    if (Deleting(job)) {
      // Nothing is started any more, but pods must be able to go, or a deletion in the foreground
      // never ends.
      for (const ObjectKey& pod : count.finished) {
        changed = Release(pod, now) || changed;
      }
      return changed;
    }
    if (IsTrue(job, "Complete") || IsTrue(job, "Failed")) {
      std::erase_if(alarms_, [&](const auto& alarm) { return alarm.second == key; });
      for (const ObjectKey& pod : count.finished) {
        changed = Release(pod, now) || changed;
      }
      status["terminating"] = count.terminating;
      return WriteStatus(key, status, status_before, now) || changed;
    }

    const bool indexed = TextAt(spec, "completionMode") == "Indexed";
    std::set<std::int64_t> done = ParseIndexes(TextAt(status, "completedIndexes"));
    std::set<std::int64_t> lost = ParseIndexes(TextAt(status, "failedIndexes"));
    std::int64_t succeeded = IntAt(status, "succeeded").value_or(0);
    std::int64_t failed = IntAt(status, "failed").value_or(0);
    Memory& memory = memory_[key];

    // Results first, so that a crash of this stand-in could not lose one; then the finalizers.
    for (const ObjectKey& pod_key : count.finished) {
      const Json& pod = *pods_.Find(pod_key);
      const std::int64_t index = IndexOf(pod);
      if (TextAt(ObjectAt(pod, "status"), "phase") == "Succeeded") {
        succeeded += indexed && !done.insert(index).second ? 0 : 1;
        memory.failures_in_a_row = 0;
      } else {
        ++failed;
        ++memory.failures_in_a_row;
        Duration wait = kBackoffBase;
        for (int i = 1; i < memory.failures_in_a_row && wait < kBackoffMax; ++i) {
          wait *= 2;
        }
        memory.next_try = now + std::min(wait, kBackoffMax);
        const auto per_index = IntAt(spec, "backoffLimitPerIndex");
        if (indexed && per_index) {
          const std::string text = TextAt(ObjectAt(Meta(pod), "annotations"),
                                          "batch.kubernetes.io/job-index-failure-count");
          if ((text.empty() ? 0 : std::atoll(text.c_str())) >= *per_index) {
            lost.insert(index);
          }
        }
      }
    }
    status["succeeded"] = succeeded;
    status["failed"] = failed;
    if (indexed) {
      status["completedIndexes"] = FormatIndexes(done);
      if (!lost.empty()) {
        status["failedIndexes"] = FormatIndexes(lost);
      }
    }
    Json& conditions = status["conditions"];
    const bool suspended = TrueAt(spec, "suspend");

    const auto completions = IntAt(spec, "completions");
    const std::int64_t parallelism = IntAt(spec, "parallelism").value_or(1);
    std::string failure;
    std::string failure_message;
    const std::int64_t limit =
        IntAt(spec, "backoffLimit")
            .value_or(IntAt(spec, "backoffLimitPerIndex") ? std::numeric_limits<std::int32_t>::max()
                                                          : 6);
    if (failed > limit) {
      failure = "BackoffLimitExceeded";
      failure_message = "Job has reached the specified backoff limit";
    } else if (indexed && !lost.empty() &&
               static_cast<std::int64_t>(lost.size() + done.size()) >= completions.value_or(0)) {
      failure = "FailedIndexes";
      failure_message = "Job has failed indexes";
    } else if (const auto deadline = Deadline(spec, status);
               deadline && *deadline <= now && !suspended) {
      failure = "DeadlineExceeded";
      failure_message = "Job was active longer than specified deadline";
    }
    const bool complete =
        !suspended && failure.empty() &&
        (completions ? succeeded >= *completions : succeeded > 0 && count.active.empty());

    const bool criteria_met = IsTrue(job, "SuccessCriteriaMet");
    const bool target = IsTrue(job, "FailureTarget");
    if (!failure.empty() || complete || criteria_met || target) {
      for (const ObjectKey& pod : count.active) {
        Drop(pod, now);
      }
      count.terminating += static_cast<std::int64_t>(count.active.size());
      count.active.clear();
      count.ready = 0;
      // The verdict stands at once; the job is over only when its last pod has ended.
      const bool ended = count.terminating == 0;
      if (criteria_met || (complete && !target)) {
        SetCondition(conditions,
                     "SuccessCriteriaMet",
                     "True",
                     "CompletionsReached",
                     "Reached expected number of succeeded pods",
                     now);
        if (!HasText(status, "startTime")) {
          status["startTime"] = FormatTime(now);
        }
        if (ended) {
          SetCondition(conditions,
                       "Complete",
                       "True",
                       "CompletionsReached",
                       "Reached expected number of succeeded pods",
                       now);
          status["completionTime"] = FormatTime(now);
        }
      } else {
        for (const Json& condition : ListAt(ObjectAt(job, "status"), "conditions")) {
          if (target && TextAt(condition, "type") == "FailureTarget") {
            failure = TextAt(condition, "reason");
            failure_message = TextAt(condition, "message");
          }
        }
        SetCondition(conditions, "FailureTarget", "True", failure, failure_message, now);
        if (ended) {
          SetCondition(conditions, "Failed", "True", failure, failure_message, now);
        }
      }
    } else if (suspended) {
      for (const ObjectKey& pod : count.active) {
        Drop(pod, now);
      }
      count = Look(uid);
      // Deleted pods show as terminating once the watch has told; they are not active from now on.
      count.terminating += static_cast<std::int64_t>(count.active.size());
      count.active.clear();
      count.ready = 0;
      status["startTime"] = nullptr;
      SetCondition(conditions, "Suspended", "True", "JobSuspended", "Job suspended", now);
      memory.next_try.reset();
      memory.failures_in_a_row = 0;
    } else {
      if (!HasText(status, "startTime")) {
        status["startTime"] = FormatTime(now);
        if (const auto deadline = Deadline(spec, status)) {
          alarms_.emplace(*deadline, key);
        }
      }
      if (IsTrue(job, "Suspended")) {
        SetCondition(conditions, "Suspended", "False", "JobResumed", "Job resumed", now);
      }
      changed = Adjust(key,
                       job,
                       count,
                       Wanted(spec, completions, parallelism, succeeded, lost, count),
                       done,
                       lost,
                       now) ||
                changed;
    }
    status["active"] = static_cast<std::int64_t>(count.active.size());
    status["ready"] = count.ready;
    status["terminating"] = count.terminating;
    changed = WriteStatus(key, status, status_before, now) || changed;
    for (const ObjectKey& pod : count.finished) {
      changed = Release(pod, now) || changed;
    }
    return changed;
  }

  static std::optional<TimePoint> Deadline(const Json& spec, const Json& status) {
    const auto limit = IntAt(spec, "activeDeadlineSeconds");
    const auto started = ParseTime(TextAt(status, "startTime"));
    return limit && started ? std::optional(*started + seconds(*limit)) : std::nullopt;
  }

  static std::int64_t Wanted(const Json& spec,
                             std::optional<std::int64_t> completions,
                             std::int64_t parallelism,
                             std::int64_t succeeded,
                             const std::set<std::int64_t>& lost,
                             const Count& count) {
    (void)spec;
    if (!completions) {
      // A work queue: once one pod has succeeded, the others end by themselves.
      return succeeded > 0 ? static_cast<std::int64_t>(count.active.size()) : parallelism;
    }
    const std::int64_t left = std::max<std::int64_t>(
        0, *completions - succeeded - static_cast<std::int64_t>(lost.size()));
    return std::min(parallelism, left);
  }

  // Brings the number of active pods to `wanted`.
  bool Adjust(const ObjectKey& key,
              const Json& job,
              Count& count,
              std::int64_t wanted,
              const std::set<std::int64_t>& done,
              const std::set<std::int64_t>& lost,
              TimePoint now) {
    bool changed = false;
    const Json& spec = ObjectAt(job, "spec");
    const bool indexed = TextAt(spec, "completionMode") == "Indexed";
    const std::int64_t indexes = indexed ? IntAt(spec, "completions").value_or(0) : 0;
    // A job that shrinks has no use for its highest indexes.
    for (std::size_t i = count.active.size(); indexed && i > 0; --i) {
      const ObjectKey victim = count.active[i - 1];
      const Json* pod = pods_.Find(victim);
      if (pod != nullptr && IndexOf(*pod) >= indexes) {
        Drop(victim, now);
        ++count.terminating;
        count.active.erase(count.active.begin() + static_cast<std::ptrdiff_t>(i - 1));
        changed = true;
      }
    }
    while (static_cast<std::int64_t>(count.active.size()) > wanted) {
      // Those that do not run yet first, then the youngest; names end in their order of creation.
      auto victim = std::max_element(
          count.active.begin(), count.active.end(), [&](const ObjectKey& a, const ObjectKey& b) {
            const auto rank = [&](const ObjectKey& pod_key) {
              const Json& pod = *pods_.Find(pod_key);
              return std::pair(!IsTrue(pod, "Ready"), TextAt(Meta(pod), "uid"));
            };
            return rank(a) < rank(b);
          });
      Drop(*victim, now);
      ++count.terminating;
      count.active.erase(victim);
      changed = true;
    }
    // With podReplacementPolicy Failed a pod that ends keeps its place until it has ended.
    const bool patient = TextAt(spec, "podReplacementPolicy") == "Failed";
    const std::int64_t held = patient ? count.terminating : 0;
    if (static_cast<std::int64_t>(count.active.size()) + held >= wanted) {
      return changed;
    }
    Memory& memory = memory_[key];
    if (memory.next_try && *memory.next_try > now) {
      alarms_.emplace(*memory.next_try, key);
      return changed;
    }
    std::int64_t next_index = 0;
    while (static_cast<std::int64_t>(count.active.size()) + held < wanted) {
      std::int64_t index = -1;
      if (indexed) {
        while (done.contains(next_index) || lost.contains(next_index) ||
               count.active_indexes.contains(next_index) ||
               (patient && count.terminating_indexes.contains(next_index))) {
          ++next_index;
        }
        if (next_index >= indexes) {
          return changed;  // every index that is left is at work
        }
        index = next_index++;
      }
      const auto pod = writer_.Create(
          api::Path(Kind::kPod, key.ns, ""), MakePod(key, job, index, ++memory.created), now);
      if (!pod) {
        // Refused, by a quota of the namespace or a policy: tried again when something changes, and
        // after a while.
        alarms_.emplace(now + kBackoffBase, key);
        return changed;
      }
      count.active.push_back({.ns = key.ns, .name = TextAt(Meta(*pod), "name")});
      changed = true;
    }
    return changed;
  }

  [[nodiscard]] Json MakePod(const ObjectKey& key,
                             const Json& job,
                             std::int64_t index,
                             std::int64_t number) const {
    const std::string uid = TextAt(Meta(job), "uid");
    const Json& pod_template = ObjectAt(ObjectAt(job, "spec"), "template");
    Json meta{{"namespace", key.ns}};
    meta["labels"] = ObjectAt(Meta(pod_template), "labels");
    meta["annotations"] = ObjectAt(Meta(pod_template), "annotations");
    Json& labels = meta["labels"];
    for (const char* prefix : {"", "batch.kubernetes.io/"}) {
      labels[std::string(prefix) + "job-name"] = key.name.substr(0, 63);
      labels[std::string(prefix) + "controller-uid"] = uid;
    }
    std::string name = key.name.substr(0, index < 0 ? 57 : 50);
    if (index >= 0) {
      const std::string text = std::to_string(index);
      name += "-" + text;
      labels[std::string(kIndex)] = text;
      meta["annotations"][std::string(kIndex)] = text;
      if (IntAt(ObjectAt(job, "spec"), "backoffLimitPerIndex")) {
        meta["annotations"]["batch.kubernetes.io/job-index-failure-count"] =
            std::to_string(FailuresOf(uid, index));
      }
    }
    // The real one draws five letters; a digest does the same without chance.
    meta["name"] = name + "-" + Sha1Hex(uid + "/" + std::to_string(number)).substr(0, 5);
    meta["finalizers"] = Json::array({kTracking});
    meta["ownerReferences"] = Json::array({{{"apiVersion", "batch/v1"},
                                            {"kind", "Job"},
                                            {"name", key.name},
                                            {"uid", uid},
                                            {"controller", true},
                                            {"blockOwnerDeletion", true}}});
    return Json{{"apiVersion", "v1"},
                {"kind", "Pod"},
                {"metadata", meta},
                {"spec", ObjectAt(pod_template, "spec")}};
  }

  // Failed pods of an index that are still there.
  [[nodiscard]] std::int64_t FailuresOf(const std::string& uid, std::int64_t index) const {
    std::int64_t out = 0;
    if (const auto it = pods_of_.find(uid); it != pods_of_.end()) {
      for (const ObjectKey& key : it->second) {
        const Json* pod = pods_.Find(key);
        out += pod != nullptr && IndexOf(*pod) == index &&
                       TextAt(ObjectAt(*pod, "status"), "phase") == "Failed"
                   ? 1
                   : 0;
      }
    }
    return out;
  }

  bool WriteStatus(const ObjectKey& key, const Json& status, const Json& before, TimePoint now) {
    Json patch = Json::object();
    for (const auto& [name, value] : status.items()) {
      const Json* old = Member(before, name);
      const bool same = old != nullptr ? *old == value
                                       : value.is_null() || (value.is_number() && value == 0) ||
                                             (value.is_array() && value.empty());
      if (!same) {
        patch[name] = value;
      }
    }
    return !patch.empty() &&
           writer_
               .Patch(
                   api::Path(Kind::kJob, key.ns, key.name, "status"), Json{{"status", patch}}, now)
               .has_value();
  }

  Writer writer_;
  Follower jobs_;
  Follower pods_;
  std::set<ObjectKey> dirty_;
  std::set<ObjectKey> orphans_;  // pods whose job is gone
  std::map<std::string, ObjectKey> jobs_by_uid_;
  std::map<std::string, std::set<ObjectKey>> pods_of_;  // job UID -> pods
  std::map<ObjectKey, Memory> memory_;
  std::multimap<TimePoint, ObjectKey> alarms_;
};

}  // namespace

std::unique_ptr<StandIn> MakeJobController(ApiServer& server) {
  return std::make_unique<JobController>(server);
}

}  // namespace muster::sim
