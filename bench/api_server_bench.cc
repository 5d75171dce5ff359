// What one write costs the API server in memory, all stages included: the simulator's pace hangs on
// it.
#include <memory>
#include <string>

#include <benchmark/benchmark.h>

#include "sim/api_server.h"
#include "sim/patching.h"

namespace muster::sim {
namespace {

constexpr TimePoint kNow{std::chrono::seconds(1'800'000'000)};

const Json kJob =
    ParseJson(R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j","labels":{
  "kueue.x-k8s.io/queue-name":"q"}},"spec":{"parallelism":4,"completions":4,"template":{"spec":{"restartPolicy":"Never",
  "containers":[{"name":"main","image":"x:1","resources":{"requests":{"cpu":"2","memory":"4Gi"}}}]}}}})");

const Json kWorkload =
    ParseJson(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload","metadata":{"name":"w",
  "finalizers":["kueue.x-k8s.io/resource-in-use"]},"spec":{"queueName":"q","priority":0,"podSets":[{"name":"main","count":4,
  "template":{"metadata":{},"spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"x:1","resources":{"requests":{
  "cpu":"2","memory":"4Gi"}}}]}}}]}})");

const Json kAdmission = ParseJson(
    R"({"status":{"admission":{"clusterQueue":"c","podSetAssignments":[{"name":"main","count":4,
  "flavors":{"cpu":"default","memory":"default"},"resourceUsage":{"cpu":"8","memory":"16Gi"}}]},"conditions":[
  {"type":"QuotaReserved","status":"True","reason":"QuotaReserved","message":"m","lastTransitionTime":"2027-01-15T08:00:00Z"},
  {"type":"Admitted","status":"True","reason":"Admitted","message":"m","lastTransitionTime":"2027-01-15T08:00:00Z"}]}})");

k8s::Response Send(ApiServer& server,
                   k8s::Method method,
                   std::string target,
                   const Json& body,
                   std::string_view type = k8s::kJson) {
  k8s::Request request;
  request.method = method;
  request.target = std::move(target);
  request.body = body.dump();
  request.content_type = type;
  return server.Handle(request, kNow);
}

void Start(benchmark::State& state) {
  for (auto _ : state) {
    const ApiServer server{ApiServerOptions{.managed_fields = state.range(0) != 0}};
    benchmark::DoNotOptimize(server.resource_version());
  }
}
BENCHMARK(Start)->Arg(0)->ArgName("managed_fields")->Unit(benchmark::kMillisecond);

// One round: `objects` of one kind are created (and, for Workloads, admitted), with a watch that
// reads them.
void Create(benchmark::State& state, const std::string& path, const Json& object, bool admit) {
  std::int64_t objects = 0;
  for (auto _ : state) {
    state.PauseTiming();
    auto server =
        std::make_unique<ApiServer>(ApiServerOptions{.managed_fields = state.range(1) != 0});
    k8s::Request watch;
    watch.target = path + "?watch=1&resourceVersion=" + std::to_string(server->resource_version());
    k8s::Response error;
    const auto stream = server->OpenWatch(watch, kNow, error);
    Json one = object;
    state.ResumeTiming();
    for (std::int64_t i = 0; i < state.range(0); ++i) {
      const std::string name = "o" + std::to_string(i);
      one["metadata"]["name"] = name;
      k8s::Response response = Send(*server, k8s::Method::kPost, path, one);
      if (response.status == 201 && admit) {
        response = Send(*server,
                        k8s::Method::kPatch,
                        path + "/" + name + "/status",
                        kAdmission,
                        k8s::kMergePatch);
      }
      if (response.status >= 300) {
        state.SkipWithError(response.body.c_str());
        return;
      }
      benchmark::DoNotOptimize(stream->Read());
    }
    objects += state.range(0);
    state.PauseTiming();
    server.reset();
    state.ResumeTiming();
  }
  state.SetItemsProcessed(objects);
}
void CreateJobs(benchmark::State& state) {
  Create(state, "/apis/batch/v1/namespaces/default/jobs", kJob, false);
}
void CreateAndAdmitWorkloads(benchmark::State& state) {
  Create(state, "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads", kWorkload, true);
}
BENCHMARK(CreateJobs)
    ->Args({10'000, 0})
    ->Args({10'000, 1})
    ->ArgNames({"objects", "managed_fields"})
    ->Unit(benchmark::kMillisecond);
BENCHMARK(CreateAndAdmitWorkloads)
    ->Args({10'000, 0})
    ->Args({10'000, 1})
    ->ArgNames({"objects", "managed_fields"})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace muster::sim
