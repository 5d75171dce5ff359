#include "cli/demo_stream.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/prng.h"

namespace muster::cli {
namespace {

using api::Json;

void Add(sim::Scenario& scenario, Duration at, Json object) {
  sim::Action action{.kind = sim::Action::Kind::kCreate,
                     .at = at,
                     .api_version = object.at("apiVersion").get<std::string>(),
                     .object_kind = object.at("kind").get<std::string>(),
                     .ns = object.at("metadata").value("namespace", ""),
                     .name = object.at("metadata").at("name").get<std::string>(),
                     .where = "demo"};
  action.body = std::move(object);
  scenario.actions.push_back(std::move(action));
}

Json Node(const std::string& name, const std::string& gpu, int plugin_gpus) {
  Json allocatable{{"cpu", "96"}, {"memory", "1Ti"}, {"pods", "110"}};
  if (plugin_gpus > 0) {
    allocatable["nvidia.com/gpu"] = std::to_string(plugin_gpus);
  }
  return Json{
      {"apiVersion", "v1"},
      {"kind", "Node"},
      {"metadata", {{"name", name}, {"labels", {{"gpu", gpu}, {"kubernetes.io/hostname", name}}}}},
      {"status",
       {{"allocatable", allocatable},
        {"capacity", allocatable},
        {"conditions",
         Json::array({{{"type", "Ready"}, {"status", "True"}, {"reason", "KubeletReady"}}})}}}};
}

Json Slice(const std::string& node, int devices) {
  Json list = Json::array();
  for (int i = 0; i < devices; ++i) {
    // One device in four is too small for the jobs of the demo, so that the selectors matter.
    list.push_back({{"name", "gpu-" + std::to_string(i)},
                    {"attributes",
                     {{"model", {{"string", i == 0 ? "L40" : "H200"}}}, {"index", {{"int", i}}}}},
                    {"capacity", {{"memory", {{"value", i == 0 ? "48Gi" : "141Gi"}}}}}});
  }
  return Json{{"apiVersion", "resource.k8s.io/v1"},
              {"kind", "ResourceSlice"},
              {"metadata", {{"name", node + "-gpus"}}},
              {"spec",
               {{"driver", "gpu.nvidia.com"},
                {"nodeName", node},
                {"pool", {{"name", node}, {"generation", 1}, {"resourceSliceCount", 1}}},
                {"devices", list}}}};
}

}  // namespace

void AddDemoCluster(sim::Scenario& scenario) {
  for (int i = 1; i <= 6; ++i) {
    Add(scenario, {}, Node("h100-" + std::to_string(i), "h100", 8));
  }
  for (int i = 1; i <= 2; ++i) {
    const std::string name = "h200-" + std::to_string(i);
    Add(scenario, {}, Node(name, "h200", 0));
    Add(scenario, {}, Slice(name, 4));
  }
}

void AddDemoJobs(sim::Scenario& scenario, int jobs, std::uint64_t seed) {
  Prng prng(seed);
  struct Shape {
    const char* name;
    int workers;
    int gpus;
    bool claims;
  };
  constexpr std::array<Shape, 6> kShapes{{{"pretrain", 4, 8, false},
                                          {"finetune", 8, 2, false},
                                          {"sweep", 6, 1, false},
                                          {"eval", 2, 4, false},
                                          {"distill", 3, 1, true},
                                          {"align", 2, 8, false}}};
  Duration at = std::chrono::seconds(1);
  for (int i = 1; i <= jobs; ++i) {
    const Shape& shape = kShapes[prng.Below(kShapes.size())];
    const bool vision = prng.Below(5) < 2;  // one team asks for more than the other
    const std::string ns = vision ? "team-vision" : "team-language";
    Json container{{"name", "worker"},
                   {"image", "registry.example/train:1"},
                   {"resources", {{"requests", {{"cpu", "4"}}}}}};
    Json spec{{"restartPolicy", "Never"}};
    if (shape.claims) {
      spec["resourceClaims"] =
          Json::array({{{"name", "gpu"}, {"resourceClaimTemplateName", "big-gpu"}}});
      container["resources"] = {{"claims", Json::array({{{"name", "gpu"}}})}};
    } else {
      container["resources"]["requests"]["nvidia.com/gpu"] = std::to_string(shape.gpus);
      container["resources"]["limits"] = {{"nvidia.com/gpu", std::to_string(shape.gpus)}};
    }
    spec["containers"] = Json::array({container});
    const std::string run = std::to_string(12 + prng.Below(30)) + "s";
    Add(scenario,
        at,
        Json{{"apiVersion", "batch/v1"},
             {"kind", "Job"},
             {"metadata",
              {{"namespace", ns},
               {"name", std::string(shape.name) + "-" + std::to_string(i)},
               {"labels", {{"kueue.x-k8s.io/queue-name", "train"}}}}},
             {"spec",
              {{"parallelism", shape.workers},
               {"completions", shape.workers},
               {"template",
                {{"metadata", {{"annotations", {{"sim.muster.dev/run", run}}}}},
                 {"spec", spec}}}}}});
    at += std::chrono::seconds(2 + prng.Below(5));
  }
  std::stable_sort(scenario.actions.begin(),
                   scenario.actions.end(),
                   [](const auto& a, const auto& b) { return a.at < b.at; });
}

}  // namespace muster::cli
