#include "sim/generate.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

namespace muster::sim {
namespace {

using api::Json;
using std::chrono::seconds;

constexpr const char* kQueueing = "kueue.x-k8s.io/v1beta2";

void Add(Scenario& scenario, Duration at, Json object) {
  Action action{.kind = Action::Kind::kCreate,
                .at = at,
                .api_version = object.at("apiVersion").get<std::string>(),
                .object_kind = object.at("kind").get<std::string>(),
                .ns = object.at("metadata").value("namespace", ""),
                .name = object.at("metadata").at("name").get<std::string>(),
                .where = "generated"};
  action.body = std::move(object);
  scenario.actions.push_back(std::move(action));
}

void Patch(Scenario& scenario,
           Duration at,
           const std::string& api_version,
           const std::string& kind,
           const std::string& ns,
           const std::string& name,
           Json merge) {
  Action action{.kind = Action::Kind::kPatch,
                .at = at,
                .api_version = api_version,
                .object_kind = kind,
                .ns = ns,
                .name = name,
                .where = "generated"};
  action.body = std::move(merge);
  scenario.actions.push_back(std::move(action));
}

Json Object(const std::string& api_version,
            const std::string& kind,
            const std::string& ns,
            const std::string& name) {
  Json meta{{"name", name}};
  if (!ns.empty()) {
    meta["namespace"] = ns;
  }
  return Json{{"apiVersion", api_version}, {"kind", kind}, {"metadata", meta}};
}

int Between(Prng& prng, int low, int high) {
  return low + static_cast<int>(prng.Below(static_cast<std::uint64_t>(high - low + 1)));
}

Duration Within(Prng& prng, int low, int high) {
  return seconds(Between(prng, low, high));
}

void AddNodes(Scenario& scenario, Prng& prng, const GenerateOptions& options) {
  const int count = Between(prng, 1, 3 + 3 * options.scale);
  for (int i = 0; i < count; ++i) {
    Json node = Object("v1", "Node", "", "n" + std::to_string(i));
    Json allocatable{{"cpu", std::to_string(Between(prng, 2, 12))},
                     {"memory", "64Gi"},
                     {"pods", std::to_string(Between(prng, 3, 30))}};
    if (prng.Chance(2)) {
      allocatable["nvidia.com/gpu"] = std::to_string(Between(prng, 1, 8));
    }
    node["metadata"]["labels"] = {{"pool", prng.Chance(3) ? "b" : "a"}};
    node["status"] = {{"allocatable", allocatable},
                      {"conditions", Json::array({{{"type", "Ready"}, {"status", "True"}}})}};
    const Duration at = prng.Chance(4) ? Within(prng, 10, 200) : Duration::zero();
    Add(scenario, at, std::move(node));
    if (options.changes && prng.Chance(5)) {
      const Duration cordon = at + Within(prng, 5, 60);
      Patch(scenario,
            cordon,
            "v1",
            "Node",
            "",
            "n" + std::to_string(i),
            Json{{"spec", {{"unschedulable", true}}}});
      Patch(scenario,
            cordon + Within(prng, 5, 120),
            "v1",
            "Node",
            "",
            "n" + std::to_string(i),
            Json{{"spec", {{"unschedulable", nullptr}}}});
    }
  }
}

Json Quota(Prng& prng, const char* resource, int low, int high, bool cohort) {
  Json quota{{"name", resource}, {"nominalQuota", std::to_string(Between(prng, low, high))}};
  if (cohort && prng.Chance(3)) {
    quota["borrowingLimit"] = std::to_string(Between(prng, 0, 6));
  }
  if (cohort && prng.Chance(3)) {
    quota["lendingLimit"] = std::to_string(Between(prng, 0, low));
  }
  return quota;
}

Json Preemption(Prng& prng, bool cohort) {
  static constexpr std::array<const char*, 3> kWithin{
      "Never", "LowerPriority", "LowerOrNewerEqualPriority"};
  static constexpr std::array<const char*, 3> kReclaim{"Never", "LowerPriority", "Any"};
  Json out{{"withinClusterQueue", kWithin[prng.Below(kWithin.size())]}};
  if (cohort) {
    const char* reclaim = kReclaim[prng.Below(kReclaim.size())];
    out["reclaimWithinCohort"] = reclaim;
    if (reclaim != kReclaim[0] && prng.Chance(3)) {
      out["borrowWithinCohort"] = {{"policy", "LowerPriority"}};
      if (prng.Chance(2)) {
        out["borrowWithinCohort"]["maxPriorityThreshold"] = Between(prng, 0, 2) * 100;
      }
    }
  }
  return out;
}

std::vector<std::string> AddQueues(Scenario& scenario, Prng& prng, const GenerateOptions& options) {
  const int flavors = Between(prng, 1, 2);
  for (int i = 0; i < flavors; ++i) {
    Json flavor = Object(kQueueing, "ResourceFlavor", "", "f" + std::to_string(i));
    if (options.nodes && (flavors == 2 || prng.Chance(2))) {
      flavor["spec"]["nodeLabels"] = {{"pool", i == 0 ? "a" : "b"}};
      flavor["metadata"]["annotations"] = {
          {"muster.dev/capacity", prng.Chance(4) ? "Elastic" : "Fixed"}};
    }
    Add(scenario, {}, std::move(flavor));
  }
  std::vector<std::string> names;
  const int queues = Between(prng, 1, 2 + 2 * options.scale);
  if (options.preemption && prng.Chance(2)) {
    // Both cohorts hang under one, with some quota of its own.
    for (const char* cohort : {"east", "west"}) {
      Json child = Object(kQueueing, "Cohort", "", cohort);
      child["spec"] = {{"parentName", "all"}};
      Add(scenario, {}, std::move(child));
    }
    Json top = Object(kQueueing, "Cohort", "", "all");
    top["spec"]["resourceGroups"] = Json::array(
        {{{"coveredResources", {"cpu", "nvidia.com/gpu"}},
          {"flavors",
           Json::array({{{"name", "f0"},
                         {"resources",
                          Json::array({Quota(prng, "cpu", 0, 6, false),
                                       Quota(prng, "nvidia.com/gpu", 0, 4, false)})}}})}}});
    Add(scenario, {}, std::move(top));
  }
  for (int i = 0; i < queues; ++i) {
    const std::string name = "cq" + std::to_string(i);
    const bool cohort = !prng.Chance(3);
    Json queue = Object(kQueueing, "ClusterQueue", "", name);
    Json& spec = queue["spec"];
    spec["namespaceSelector"] = Json::object();
    if (cohort) {
      spec["cohortName"] = prng.Chance(3) ? "east" : "west";
    }
    if (prng.Chance(3)) {
      spec["queueingStrategy"] = "StrictFIFO";
    }
    if (options.preemption && prng.Chance(2)) {
      spec["preemption"] = Preemption(prng, cohort);
    }
    if (options.preemption && prng.Chance(4)) {
      spec["fairSharing"] = {{"weight", std::to_string(Between(prng, 0, 3))}};
    }
    Json list = Json::array();
    for (int f = 0; f < flavors; ++f) {
      list.push_back({{"name", "f" + std::to_string(f)},
                      {"resources",
                       Json::array({Quota(prng, "cpu", 2, 12, cohort),
                                    Quota(prng, "nvidia.com/gpu", 0, 8, cohort)})}});
    }
    spec["resourceGroups"] =
        Json::array({{{"coveredResources", {"cpu", "nvidia.com/gpu"}}, {"flavors", list}}});
    Add(scenario, {}, std::move(queue));
    Json local = Object(kQueueing, "LocalQueue", "team", name);
    local["spec"] = {{"clusterQueue", name}};
    Add(scenario, prng.Chance(6) ? Within(prng, 1, 100) : Duration::zero(), std::move(local));
    names.push_back(name);
    if (options.changes && prng.Chance(4)) {
      const Duration at = Within(prng, 5, 150);
      const char* policy = prng.Chance(2) ? "Hold" : "HoldAndDrain";
      Patch(scenario,
            at,
            kQueueing,
            "ClusterQueue",
            "",
            name,
            Json{{"spec", {{"stopPolicy", policy}}}});
      Patch(scenario,
            at + Within(prng, 5, 100),
            kQueueing,
            "ClusterQueue",
            "",
            name,
            Json{{"spec", {{"stopPolicy", "None"}}}});
    }
  }
  for (int i = 1; i <= 2; ++i) {
    Json priority = Object(kQueueing, "WorkloadPriorityClass", "", "p" + std::to_string(i));
    priority["value"] = i * 100;
    Add(scenario, {}, std::move(priority));
  }
  return names;
}

Json PodTemplate(Prng& prng) {
  Json requests{{"cpu", std::to_string(Between(prng, 1, 3))}};
  Json limits = Json::object();
  if (prng.Chance(3)) {
    const std::string gpus = std::to_string(Between(prng, 1, 2));
    requests["nvidia.com/gpu"] = gpus;
    limits["nvidia.com/gpu"] = gpus;
  }
  return Json{
      {"metadata",
       {{"annotations", {{"sim.muster.dev/run", std::to_string(Between(prng, 1, 60)) + "s"}}}}},
      {"spec",
       {{"restartPolicy", "Never"},
        {"containers",
         Json::array({{{"name", "c"},
                       {"image", "i"},
                       {"resources", {{"requests", requests}, {"limits", limits}}}}})}}}};
}

void AddJobs(Scenario& scenario,
             Prng& prng,
             const GenerateOptions& options,
             const std::vector<std::string>& queues) {
  const int count = Between(prng, 1, 12 * options.scale);
  for (int i = 0; i < count; ++i) {
    const std::string name = "j" + std::to_string(i);
    const std::string& queue = queues[prng.Below(queues.size())];
    const Duration at = prng.Chance(3) ? Duration::zero() : Within(prng, 0, 150);
    if (prng.Chance(6)) {
      // A pod group, whose members come one after the other.
      const int size = Between(prng, 1, 4);
      Json pod = Object("v1", "Pod", "team", "");
      Json base = PodTemplate(prng);
      for (int k = 0; k < size; ++k) {
        Json member = Object("v1", "Pod", "team", name + "-" + std::to_string(k));
        member["metadata"]["labels"] = {{"kueue.x-k8s.io/queue-name", queue},
                                        {"kueue.x-k8s.io/pod-group-name", name}};
        member["metadata"]["annotations"] = base["metadata"]["annotations"];
        member["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] =
            std::to_string(size);
        member["spec"] = base["spec"];
        Add(scenario,
            at + (prng.Chance(3) ? Within(prng, 0, 20) : Duration::zero()),
            std::move(member));
      }
      continue;
    }
    Json job = Object("batch/v1", "Job", "team", name);
    job["metadata"]["labels"] = {{"kueue.x-k8s.io/queue-name", queue}};
    if (prng.Chance(3)) {
      job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = prng.Chance(2) ? "p1" : "p2";
    }
    const int parallelism = Between(prng, 1, 5);
    job["spec"] = {
        {"parallelism", parallelism},
        {"completions", prng.Chance(4) ? parallelism + Between(prng, 1, 4) : parallelism},
        {"template", PodTemplate(prng)}};
    Add(scenario, at, std::move(job));
    if (options.changes && prng.Chance(8)) {
      Action removal = scenario.actions.back();
      removal.kind = Action::Kind::kDelete;
      removal.at = at + Within(prng, 1, 60);
      scenario.actions.push_back(std::move(removal));
    }
  }
}

}  // namespace

Scenario GenerateScenario(Prng& prng, const GenerateOptions& options) {
  Scenario scenario;
  if (options.nodes) {
    AddNodes(scenario, prng, options);
  }
  const std::vector<std::string> queues = AddQueues(scenario, prng, options);
  AddJobs(scenario, prng, options, queues);
  std::stable_sort(scenario.actions.begin(),
                   scenario.actions.end(),
                   [](const Action& a, const Action& b) { return a.at < b.at; });
  return scenario;
}

std::function<Fault(const k8s::Request&)> GenerateFaults(std::uint64_t seed,
                                                         std::function<TimePoint()> now,
                                                         TimePoint until) {
  auto prng = std::make_shared<Prng>(seed);
  return [prng, now = std::move(now), until](const k8s::Request& request) -> Fault {
    if (now() >= until || !prng->Chance(12)) {
      return {};
    }
    const bool read = request.method == k8s::Method::kGet;
    switch (prng->Below(6)) {
      case 0:
        return Fault{.kind = Fault::Kind::kRefuse, .status = prng->Chance(2) ? 500 : 503};
      case 1:
        return Fault{.kind = Fault::Kind::kRefuse, .status = 429};
      case 2:
        return Fault{.kind = Fault::Kind::kRefuse, .status = read ? 410 : 409};
      case 3:
        return Fault{.kind = Fault::Kind::kLoseRequest};
      case 4:
        return Fault{.kind = read ? Fault::Kind::kCutStream : Fault::Kind::kLoseResponse,
                     .bytes = prng->Below(400)};
      default:
        return Fault{.kind = Fault::Kind::kDelay,
                     .delay = std::chrono::milliseconds(1 + prng->Below(3000))};
    }
  };
}

}  // namespace muster::sim
