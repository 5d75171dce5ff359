#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "api/object.h"
#include "base/log.h"
#include "base/strings.h"
#include "cli/cluster.h"
#include "cli/commands.h"
#include "cli/config_file.h"
#include "k8sclient/requests.h"
#include "scheduler/placement/placement.h"
#include "scheduler/state.h"

// What is wrong or risky in this cluster, before and after install: one line a finding.
namespace muster::cli {
namespace {

class Findings {
 public:
  void Ok(const std::string& text) { Line("ok    ", text); }
  void Risk(const std::string& text) { Line("risk  ", text); }
  void Wrong(const std::string& text) {
    ++wrong_;
    Line("WRONG ", text);
  }
  [[nodiscard]] int wrong() const { return wrong_; }

 private:
  static void Line(const char* mark, const std::string& text) {
    (void)std::printf("%s %s\n", mark, text.c_str());
  }
  int wrong_ = 0;
};

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

// The names of a few, and how many more there are.
std::string Few(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 5;
  std::vector<std::string> shown(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, names.size())));
  std::string out = Join(shown, ", ");
  if (names.size() > kShown) {
    out += " and " + std::to_string(names.size() - kShown) + " more";
  }
  return out;
}

void CheckVersion(Cluster& cluster, Findings& findings) {
  const auto version = cluster.Get("/version");
  if (!version) {
    findings.Risk("the API server does not tell its version: " + version.error().message);
    return;
  }
  const std::string text = version->value("gitVersion", "unknown");
  const std::string minor = version->value("minor", "0");
  const int number = std::atoi(minor.c_str());  // "37+" reads as 37
  if (version->value("major", "1") == "1" && number < 36) {
    findings.Wrong(
        "API server " + text +
        ": mutating admission policies are on from 1.36, so queue-named jobs would start unheld");
  } else {
    findings.Ok("API server " + text);
  }
}

void CheckKinds(const Inventory& inventory, Findings& findings) {
  std::vector<std::string> missing;
  std::vector<std::string> optional;
  for (const api::Kind kind : inventory.absent) {
    const api::KindInfo& info = api::Info(kind);
    (info.group == "kueue.x-k8s.io" ? missing : optional)
        .push_back(std::string(info.name) + " (" + std::string(info.group) + ")");
  }
  if (missing.empty()) {
    findings.Ok("all kinds of kueue.x-k8s.io are served");
  } else {
    findings.Wrong("not served: " + Join(missing, ", ") + "; install the chart, or apply its CRDs");
  }
  if (!optional.empty()) {
    findings.Ok("not served, so not watched until they appear: " + Join(optional, ", "));
  }
}

void CheckPolicies(Cluster& cluster, Findings& findings) {
  const std::string base = "/apis/admissionregistration.k8s.io/v1/";
  const auto policies = cluster.List(base + "mutatingadmissionpolicies");
  const auto bindings = cluster.List(base + "mutatingadmissionpolicybindings");
  if (!policies || !bindings) {
    findings.Wrong("mutating admission policies cannot be read: " +
                   (policies ? bindings : policies).error().message);
    return;
  }
  std::set<std::string> bound;
  for (const api::Json& binding : *bindings) {
    bound.insert(binding.value("/spec/policyName"_json_pointer, ""));
  }
  std::set<std::string> covered;
  for (const api::Json& policy : *policies) {
    if (!bound.contains(policy.value("/metadata/name"_json_pointer, ""))) {
      continue;
    }
    for (const api::Json& rule :
         policy.value("/spec/matchConstraints/resourceRules"_json_pointer, api::Json::array())) {
      for (const api::Json& resource : rule.value("resources", api::Json::array())) {
        if (resource.is_string()) {
          covered.insert(resource.get<std::string>());
        }
      }
    }
  }
  for (const char* resource : {"jobs", "pods"}) {
    if (covered.contains(resource)) {
      findings.Ok(std::string("a bound admission policy holds queue-named ") + resource +
                  " on create");
    } else {
      findings.Wrong(std::string("no bound admission policy holds queue-named ") + resource +
                     " on create: they start before Muster sees them; apply the chart's policies");
    }
  }
}

void CheckLease(Cluster& cluster, Findings& findings) {
  const auto leases = cluster.List("/apis/coordination.k8s.io/v1/leases");
  if (!leases) {
    findings.Risk("leases cannot be read: " + leases.error().message);
    return;
  }
  std::vector<std::string> holders;
  bool fresh = false;
  for (const api::Json& lease : *leases) {
    if (lease.value("/metadata/name"_json_pointer, "") != "c1f6bfd2.kueue.x-k8s.io") {
      continue;
    }
    const std::string ns = lease.value("/metadata/namespace"_json_pointer, "");
    const std::string holder = lease.value("/spec/holderIdentity"_json_pointer, "");
    if (!holder.empty()) {
      holders.push_back(ns + ": " + holder);
    }
    const auto renewed = ParseTime(lease.value("/spec/renewTime"_json_pointer, ""));
    const auto seconds = lease.value("/spec/leaseDurationSeconds"_json_pointer, std::int64_t{15});
    fresh = fresh || (!holder.empty() && renewed &&
                      *renewed + std::chrono::seconds(seconds) > std::chrono::system_clock::now());
  }
  if (holders.size() > 1) {
    findings.Wrong("two controllers hold a lease of this API, and both would write: " +
                   Join(holders, "; ") + "; stop one of them");
  } else if (!fresh) {
    findings.Risk("no controller leads: nothing is admitted until one runs");
  } else {
    findings.Ok("the leader is " + holders.front());
  }
}

void CheckPermissions(Cluster& cluster, Findings& findings) {
  struct Need {
    const char* group;
    const char* resource;
    const char* subresource;
    const char* verb;
  };
  constexpr Need kNeeds[] = {{"kueue.x-k8s.io", "workloads", "", "create"},
                             {"kueue.x-k8s.io", "workloads", "status", "patch"},
                             {"kueue.x-k8s.io", "clusterqueues", "status", "patch"},
                             {"batch", "jobs", "", "patch"},
                             {"", "pods", "", "patch"},
                             {"", "nodes", "", "list"},
                             {"resource.k8s.io", "resourceslices", "", "list"},
                             {"coordination.k8s.io", "leases", "", "update"}};
  std::vector<std::string> refused;
  for (const Need& need : kNeeds) {
    const api::Json review{{"apiVersion", "authorization.k8s.io/v1"},
                           {"kind", "SelfSubjectAccessReview"},
                           {"spec",
                            {{"resourceAttributes",
                              {{"group", need.group},
                               {"resource", need.resource},
                               {"subresource", need.subresource},
                               {"verb", need.verb}}}}}};
    const auto answer =
        cluster.Send(k8s::Create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review));
    if (!answer) {
      findings.Risk("own permissions cannot be asked for: " + answer.error().message);
      return;
    }
    if (!answer->value("/status/allowed"_json_pointer, false)) {
      refused.push_back(std::string(need.verb) + " " + need.resource +
                        (need.subresource[0] == '\0' ? "" : std::string("/") + need.subresource));
    }
  }
  if (refused.empty()) {
    findings.Ok("this user may do what the controller does");
  } else {
    findings.Risk("this user may not " + Join(refused, ", ") +
                  "; the controller's own account must");
  }
}

void CheckQueues(const Inventory& inventory, const scheduler::State& state, Findings& findings) {
  std::set<std::string> queues;
  for (const auto& queue : All<api::ClusterQueue>(inventory)) {
    queues.insert(queue->meta.name);
    const api::Condition active = state.ClusterQueueStatus(queue->meta.name).active;
    if (!active.is_true() && queue->stop_policy == api::StopPolicy::kNone) {
      findings.Wrong("ClusterQueue " + queue->meta.name + ": " + active.reason + ": " +
                     active.message);
    }
  }
  for (const auto& queue : All<api::LocalQueue>(inventory)) {
    if (!queues.contains(queue->cluster_queue)) {
      findings.Wrong("LocalQueue " + queue->meta.key().ToString() + " points to ClusterQueue " +
                     queue->cluster_queue + ", which does not exist");
    }
  }
  if (queues.empty()) {
    findings.Risk("there is no ClusterQueue yet");
  } else {
    findings.Ok(std::to_string(queues.size()) + " ClusterQueues, " +
                std::to_string(All<api::LocalQueue>(inventory).size()) + " LocalQueues looked at");
  }
}

void CheckFlavors(const Inventory& inventory, Findings& findings) {
  placement::Inventory capacity;
  for (const auto& node : All<api::Node>(inventory)) {
    capacity.Upsert(node);
  }
  for (const auto& slice : All<api::ResourceSlice>(inventory)) {
    capacity.Upsert(slice);
  }
  for (const auto& device_class : All<api::DeviceClass>(inventory)) {
    capacity.Upsert(device_class);
  }
  const placement::Trial trial(capacity.View());
  for (const auto& flavor : All<api::ResourceFlavor>(inventory)) {
    const std::string* mode = flavor->meta.Annotation("muster.dev/capacity");
    const std::int64_t nodes = trial.CountNodes(flavor->node_labels);
    if (mode != nullptr && *mode != "Fixed" && *mode != "Elastic" && *mode != "Auto") {
      findings.Wrong("ResourceFlavor " + flavor->meta.name +
                     ": annotation muster.dev/capacity is \"" + *mode +
                     "\"; it must be Fixed, Elastic or Auto");
    } else if (nodes == 0 && mode != nullptr && *mode == "Fixed") {
      findings.Wrong("ResourceFlavor " + flavor->meta.name +
                     " is Fixed and no node has its labels: nothing can start on it");
    } else if (nodes == 0 && mode == nullptr) {
      findings.Risk("ResourceFlavor " + flavor->meta.name +
                    ": no node has its labels, so it counts as Elastic and quota alone decides");
    }
  }
  for (const auto& offer : capacity.DoubleOfferedNodes()) {
    findings.Wrong("node " + offer.node +
                   " offers the same hardware through a device plugin and a DRA driver: one device "
                   "could be handed out "
                   "twice; its plugin count is not used");
  }
}

void CheckJobs(const Inventory& inventory, Findings& findings) {
  std::set<std::string> owners;
  for (const auto& workload : All<api::Workload>(inventory)) {
    for (const api::OwnerReference& owner : workload->meta.owner_references) {
      owners.insert(owner.uid);
    }
  }
  std::vector<std::string> unheld;
  for (const auto& job : All<api::Job>(inventory)) {
    const bool over = api::ConditionTrue(job->conditions, "Complete") ||
                      api::ConditionTrue(job->conditions, "Failed");
    if (job->meta.Label("kueue.x-k8s.io/queue-name") != nullptr && !job->suspend && !over &&
        !owners.contains(job->meta.uid) && job->meta.controller() == nullptr) {
      unheld.push_back(job->meta.key().ToString());
    }
  }
  if (!unheld.empty()) {
    findings.Risk("jobs that name a queue run without a Workload, so outside of all quota: " +
                  Few(unheld));
  }
}

}  // namespace

int Check(const CheckArgs& args) {
  log::SetLevel(log::Level::kError);
  auto connected = Cluster::Connect(args.kubeconfig);
  if (!connected) {
    Complain(connected.error().message);
    return kUsage;
  }
  Cluster& cluster = **connected;
  auto inventory = ReadAll(cluster);
  if (!inventory) {
    Complain(inventory.error().message);
    return ExitCodeOf(inventory.error());
  }
  Findings findings;
  CheckVersion(cluster, findings);
  CheckKinds(*inventory, findings);
  CheckPolicies(cluster, findings);
  CheckPermissions(cluster, findings);
  CheckLease(cluster, findings);
  for (const std::string& error : inventory->undecodable) {
    findings.Wrong("an object cannot be read and is left out: " + error);
  }
  auto options = LoadOptions("", ReadConfiguration(cluster));
  if (!options) {
    findings.Wrong("the controller's Configuration: " + options.error().message);
    options = scheduler::Options{};
  }
  scheduler::State state(*options);
  const TimePoint now = std::chrono::system_clock::now();
  for (const api::Object& object : inventory->objects) {
    state.Upsert(object, now);
  }
  state.SetSynced();
  CheckQueues(*inventory, state, findings);
  CheckFlavors(*inventory, findings);
  CheckJobs(*inventory, findings);
  if (findings.wrong() == 0) {
    std::puts("nothing wrong found");
    return kDone;
  }
  (void)std::printf("%d wrong\n", findings.wrong());
  return kNo;
}

}  // namespace muster::cli
