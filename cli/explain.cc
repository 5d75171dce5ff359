#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "api/object.h"
#include "base/log.h"
#include "base/strings.h"
#include "cli/cluster.h"
#include "cli/commands.h"
#include "cli/config_file.h"
#include "scheduler/controller.h"
#include "scheduler/cycle/snapshot.h"
#include "scheduler/effects.h"
#include "scheduler/state.h"

// Why a job waits, what would make it fit, or where it runs. The answer is not read off the
// condition alone: the same decision that the controller makes is made here again on what the API
// server holds now, without writing anything.
namespace muster::cli {
namespace {

struct Target {
  std::string kind;  // lower case: job, pod, podgroup, workload
  std::string name;
};

Result<Target> ParseTarget(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == text.size()) {
    return std::unexpected(
        Error::Invalid("expected KIND/NAME, such as job/train, got \"" + text + "\""));
  }
  std::string kind = ToLower(text.substr(0, slash));
  // As kubectl takes them: with group, plural, short.
  kind = kind.substr(0, kind.find('.'));
  static const std::map<std::string, std::string> kNames{{"job", "job"},
                                                         {"jobs", "job"},
                                                         {"pod", "pod"},
                                                         {"pods", "pod"},
                                                         {"po", "pod"},
                                                         {"podgroup", "podgroup"},
                                                         {"podgroups", "podgroup"},
                                                         {"workload", "workload"},
                                                         {"workloads", "workload"},
                                                         {"kwl", "workload"}};
  const auto it = kNames.find(kind);
  if (it == kNames.end()) {
    return std::unexpected(Error::Invalid("cannot explain kind \"" + kind +
                                          "\"; job, pod, podgroup and workload can be explained"));
  }
  return Target{.kind = it->second, .name = text.substr(slash + 1)};
}

template <typename T>
std::vector<api::Ptr<T>> All(const Inventory& inventory) {
  std::vector<api::Ptr<T>> out;
  for (const api::Object& object : inventory.objects) {
    if (const auto* typed = std::get_if<api::Ptr<T>>(&object)) {
      out.push_back(*typed);
    }
  }
  return out;
}

template <typename T>
api::Ptr<T> FindObject(const Inventory& inventory, const std::string& ns, const std::string& name) {
  for (const api::Ptr<T>& object : All<T>(inventory)) {
    if (object->meta.ns == ns && object->meta.name == name) {
      return object;
    }
  }
  return nullptr;
}

struct Subject {
  bool exists = false;
  std::string queue_name;
  api::Ptr<api::Workload> workload;
};

Subject Resolve(const Inventory& inventory, const Target& target, const std::string& ns) {
  Subject out;
  std::set<std::string> uids;
  std::string group;
  const auto take = [&](const api::ObjectMeta& meta) {
    out.exists = true;
    uids.insert(meta.uid);
    if (const std::string* queue = meta.Label("kueue.x-k8s.io/queue-name")) {
      out.queue_name = *queue;
    }
    if (const std::string* name = meta.Label("kueue.x-k8s.io/pod-group-name")) {
      group = *name;
    }
  };
  if (target.kind == "workload") {
    out.workload = FindObject<api::Workload>(inventory, ns, target.name);
    out.exists = out.workload != nullptr;
    if (out.workload) {
      out.queue_name = out.workload->queue_name;
    }
    return out;
  }
  if (target.kind == "job") {
    if (const auto job = FindObject<api::Job>(inventory, ns, target.name)) {
      take(job->meta);
    }
  } else if (target.kind == "podgroup") {
    if (const auto pod_group = FindObject<api::PodGroup>(inventory, ns, target.name)) {
      take(pod_group->meta);
      for (const auto& pod : All<api::Pod>(inventory)) {
        if (pod->meta.ns == ns && pod->spec.scheduling_group == target.name) {
          take(pod->meta);
        }
      }
    }
  } else if (const auto pod = FindObject<api::Pod>(inventory, ns, target.name)) {
    take(pod->meta);
    for (const api::OwnerReference& owner : pod->meta.owner_references) {
      uids.insert(owner.uid);
    }
    if (!pod->spec.scheduling_group.empty()) {
      if (const auto pod_group =
              FindObject<api::PodGroup>(inventory, ns, pod->spec.scheduling_group)) {
        uids.insert(pod_group->meta.uid);
      }
    }
  }
  // The newest unfinished Workload of these owners; a finished one if there is no other.
  for (const auto& workload : All<api::Workload>(inventory)) {
    if (workload->meta.ns != ns) {
      continue;
    }
    const bool owned =
        workload->meta.name == group ||
        std::any_of(workload->meta.owner_references.begin(),
                    workload->meta.owner_references.end(),
                    [&](const api::OwnerReference& owner) { return uids.contains(owner.uid); });
    if (!owned) {
      continue;
    }
    const bool better = out.workload == nullptr ||
                        (out.workload->finished() && !workload->finished()) ||
                        (out.workload->finished() == workload->finished() &&
                         workload->meta.creation_timestamp > out.workload->meta.creation_timestamp);
    if (better) {
      out.workload = workload;
    }
  }
  return out;
}

// Pods by node of a Workload's owners.
std::map<std::string, std::int64_t> PodsByNode(const Inventory& inventory,
                                               const api::Workload& workload) {
  std::set<std::string> owners;
  for (const api::OwnerReference& owner : workload.meta.owner_references) {
    owners.insert(owner.uid);
  }
  std::map<std::string, std::int64_t> out;
  for (const auto& pod : All<api::Pod>(inventory)) {
    const bool ours =
        owners.contains(pod->meta.uid) ||
        std::any_of(pod->meta.owner_references.begin(),
                    pod->meta.owner_references.end(),
                    [&](const api::OwnerReference& o) { return owners.contains(o.uid); });
    if (ours && !pod->terminated()) {
      ++out[pod->spec.node_name];
    }
  }
  return out;
}

api::Json Answer(const Inventory& inventory,
                 const Subject& subject,
                 const scheduler::Options& options) {
  using api::Json;
  Json out{{"queueName", subject.queue_name}};
  if (subject.workload == nullptr) {
    out["state"] = "unmanaged";
    out["reason"] = "NoWorkload";
    out["message"] = subject.queue_name.empty()
                         ? "it has no label kueue.x-k8s.io/queue-name, so Muster leaves it alone"
                         : "no Workload exists for it yet: is the controller running, and is its "
                           "namespace managed?";
    return out;
  }
  const api::Workload& workload = *subject.workload;
  out["workload"] = workload.meta.key().ToString();
  if (workload.finished()) {
    const api::Condition& finished = *workload.FindCondition("Finished");
    out["state"] = "finished";
    out["reason"] = finished.reason;
    out["message"] = finished.message;
    return out;
  }
  if (workload.quota_reserved() && workload.admission) {
    out["state"] = workload.admitted() ? "admitted" : "quotaReserved";
    out["clusterQueue"] = workload.admission->cluster_queue;
    const api::Condition* condition = workload.FindCondition(
        workload.evicted() ? "Evicted" : (workload.admitted() ? "Admitted" : "QuotaReserved"));
    out["reason"] = condition->reason;
    out["message"] = condition->message;
    out["nodes"] = Json::object();
    for (const auto& [node, count] : PodsByNode(inventory, workload)) {
      out["nodes"][node.empty() ? "(not bound yet)" : node] = count;
    }
    return out;
  }

  // It waits: decide once more on what is known now. The controller itself is asked, as if it had
  // just started, so that pods of admitted gangs count as it counts them; what it would write is
  // dropped. The clock enters here, as in the controller's driver.
  const TimePoint now = std::chrono::system_clock::now();
  scheduler::State state(options);
  scheduler::Controller controller(state, options);
  for (const api::Object& object : inventory.objects) {
    controller.On(scheduler::ObjectChanged{.object = object}, now);
  }
  controller.On(scheduler::Synced{}, now);
  controller.On(scheduler::LeadershipChanged{.leading = true}, now);
  scheduler::Plan plan;
  for (const scheduler::Effect& effect : controller.Run(now)) {
    if (const auto* solve = std::get_if<scheduler::SolveEffect>(&effect)) {
      plan = scheduler::Decide(*solve->snapshot, now, scheduler::Budget{});
    }
  }
  const bool would_be_admitted =
      std::any_of(plan.admissions.begin(), plan.admissions.end(), [&](const auto& admission) {
        return admission.workload.key == workload.meta.key();
      });
  out["state"] = "pending";
  const auto waiting_before = state.PendingOf(workload.meta.key());
  (void)state.Apply(std::move(plan), now);
  const auto waiting = state.PendingOf(workload.meta.key());
  out["clusterQueue"] =
      waiting_before ? waiting_before->cluster_queue
                     : state.ClusterQueueOf({.ns = workload.meta.ns, .name = workload.queue_name});
  if (would_be_admitted) {
    out["reason"] = "PendingEvaluation";
    out["message"] =
        "it fits now and is about to be admitted; if it is not, the controller is not running or "
        "another replica leads";
    return out;
  }
  if (waiting && !waiting->verdict.message.empty()) {
    out["position"] = waiting->position;
    out["positionInLocalQueue"] = waiting->local_position;
    out["reason"] = waiting->verdict.reason;
    out["message"] = waiting->verdict.message;
    if (!waiting->verdict.would_fit_if.empty()) {
      out["wouldFitIf"] = waiting->verdict.would_fit_if;
    }
    return out;
  }
  // Not in a queue at all: the condition names the blocker.
  const api::Condition* reserved = workload.FindCondition("QuotaReserved");
  out["reason"] = reserved != nullptr ? reserved->reason : "PendingEvaluation";
  out["message"] = reserved != nullptr ? reserved->message : "it has not been looked at yet";
  return out;
}

std::string TextOf(const api::Json& answer) {
  const auto text = [&](const char* key) { return answer.value(key, ""); };
  std::string out = answer.value("object", "") + ": " + text("state");
  if (!text("reason").empty()) {
    out += " (" + text("reason") + ")";
  }
  out += "\n  " + text("message") + "\n";
  if (answer.contains("wouldFitIf")) {
    out += "  would fit if: " + text("wouldFitIf") + "\n";
  }
  if (answer.contains("workload")) {
    out += "  Workload: " + text("workload") + "\n";
  }
  if (!text("clusterQueue").empty()) {
    out += "  queue: " + text("queueName") + " -> ClusterQueue " + text("clusterQueue");
    if (answer.contains("position")) {
      out += ", position " + std::to_string(answer["position"].get<std::int64_t>());
    }
    out += "\n";
  }
  if (answer.contains("nodes")) {
    for (const auto& [node, count] : answer["nodes"].items()) {
      out += "  " + node + ": " + std::to_string(count.get<std::int64_t>()) + " pods\n";
    }
  }
  return out;
}

}  // namespace

int Explain(const ExplainArgs& args) {
  log::SetLevel(log::Level::kError);
  const auto target = ParseTarget(args.object);
  if (!target) {
    Complain(target.error().message);
    return kUsage;
  }
  auto cluster = Cluster::Connect(args.kubeconfig);
  if (!cluster) {
    Complain(cluster.error().message);
    return kUsage;
  }
  const std::string ns = args.ns.empty() ? (*cluster)->ns() : args.ns;
  auto inventory = ReadAll(**cluster);
  if (!inventory) {
    Complain(inventory.error().message);
    return ExitCodeOf(inventory.error());
  }
  const Subject subject = Resolve(*inventory, *target, ns);
  if (!subject.exists) {
    Complain(target->kind + " \"" + target->name + "\" not found in namespace " + ns);
    return kNo;
  }
  auto options = LoadOptions("", ReadConfiguration(**cluster));
  if (!options) {
    Complain(options.error().message);
    return kUsage;
  }
  api::Json answer = Answer(*inventory, subject, *options);
  answer["object"] = target->kind + "/" + target->name;
  const std::string text =
      args.output == "json" ? answer.dump(2, ' ', false, api::Json::error_handler_t::replace) + "\n"
                            : TextOf(answer);
  (void)std::fwrite(text.data(), 1, text.size(), stdout);
  return kDone;
}

}  // namespace muster::cli
