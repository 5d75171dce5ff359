#include <memory>
#include <string>

#include <benchmark/benchmark.h>

#include "quota/flavors.h"
#include "quota/tree.h"
#include "scheduler/state.h"

namespace muster {
namespace {

const quota::FlavorResource kCpu{.flavor = "default", .resource = "cpu"};

// A chain of cohorts of the given depth with ten queues at the end.
quota::Forest Chain(std::int64_t depth) {
  quota::ForestConfig config;
  const quota::Limits limits{
      .nominal = Amount(1'000'000), .borrowing = Amount(500'000), .lending = Amount(900'000)};
  for (std::int64_t i = 0; i < depth; ++i) {
    config.cohorts.push_back({.name = "c" + std::to_string(i),
                              .parent = i == 0 ? "" : "c" + std::to_string(i - 1),
                              .quotas = {{kCpu, limits}}});
  }
  for (int i = 0; i < 10; ++i) {
    config.queues.push_back({.name = "q" + std::to_string(i),
                             .parent = depth == 0 ? "" : "c" + std::to_string(depth - 1),
                             .quotas = {{kCpu, limits}}});
  }
  return quota::Forest::Build(config);
}

void FitsQuota(benchmark::State& bench) {
  quota::Forest forest = Chain(bench.range(0));
  const quota::QueuePlace place = *forest.Find("q0");
  quota::Tree& tree = forest.tree(place.tree);
  const quota::Row row = *tree.FindRow("default", "cpu");
  tree.Add(place.node, row, Amount(900'000));
  for (auto unused : bench) {
    benchmark::DoNotOptimize(
        quota::FitsQuota(tree, place.node, row, Amount(), Amount(200'000), false));
  }
}
BENCHMARK(FitsQuota)->ArgName("depth")->Arg(0)->Arg(1)->Arg(4)->Arg(16);

void AddAndRemove(benchmark::State& bench) {
  quota::Forest forest = Chain(bench.range(0));
  const quota::QueuePlace place = *forest.Find("q0");
  quota::Tree& tree = forest.tree(place.tree);
  const quota::Row row = *tree.FindRow("default", "cpu");
  for (auto unused : bench) {
    tree.Add(place.node, row, Amount(200'000));
    tree.Remove(place.node, row, Amount(200'000));
  }
}
BENCHMARK(AddAndRemove)->ArgName("depth")->Arg(0)->Arg(4);

// --- decisions over a state with much pending work ---

TimePoint Now() {
  return TimePoint(std::chrono::seconds(1'800'000'000));
}

template <typename T>
void Feed(scheduler::State& state, T object) {
  state.Upsert(api::Object(std::make_shared<const T>(std::move(object))), Now());
}

api::Workload MakeWorkload(std::int64_t number, std::int64_t queue, std::int64_t kind) {
  api::Workload out;
  out.meta.ns = "ns";
  out.meta.name = "w" + std::to_string(number);
  out.meta.uid = "uid-" + std::to_string(10'000'000 + number);
  out.meta.resource_version = "1";
  out.meta.creation_timestamp = Now() - std::chrono::seconds(1'000'000 - number);
  out.queue_name = "q" + std::to_string(queue);
  api::PodSet pod_set;
  api::Container container;
  container.requests["cpu"] = Amount(1000 + kind);
  container.has_requests = true;
  pod_set.pod_template.spec.containers.push_back(std::move(container));
  out.pod_sets.push_back(std::move(pod_set));
  return out;
}

// `queues` ClusterQueues in cohorts of ten, all full, with `pending` Workloads of `kinds` different
// shapes waiting.
std::unique_ptr<scheduler::State> Full(std::int64_t queues,
                                       std::int64_t pending,
                                       std::int64_t kinds) {
  auto state = std::make_unique<scheduler::State>(scheduler::Options{});
  api::Namespace ns;
  ns.meta.name = "ns";
  Feed(*state, ns);
  api::ResourceFlavor flavor;
  flavor.meta.name = "default";
  Feed(*state, flavor);
  for (std::int64_t i = 0; i < queues; ++i) {
    api::ClusterQueue queue;
    queue.meta.name = "q" + std::to_string(i);
    queue.cohort = "cohort" + std::to_string(i / 10);
    queue.namespace_selector.present = true;
    api::ResourceQuota quota;
    quota.name = "cpu";
    quota.nominal = Amount(2000);
    queue.resource_groups.push_back(
        {.covered_resources = {"cpu"}, .flavors = {{.name = "default", .resources = {quota}}}});
    Feed(*state, queue);
    api::LocalQueue local_queue;
    local_queue.meta.ns = "ns";
    local_queue.meta.name = queue.meta.name;
    local_queue.cluster_queue = queue.meta.name;
    Feed(*state, local_queue);
  }
  for (std::int64_t i = 0; i < queues * 2 + pending; ++i) {
    Feed(*state, MakeWorkload(i, i % queues, i < queues * 2 ? 0 : (i / queues) % kinds));
  }
  state->SetSynced();
  while (state->NeedsCycle(Now())) {
    static_cast<void>(state->Apply(
        scheduler::Decide(*state->TakeSnapshot(Now()), Now(), scheduler::Budget{}), Now()));
  }
  return state;
}

// One running Workload ends; its cohort is decided again, the next in line starts and takes its
// place.
void OneEnds(benchmark::State& bench) {
  const std::int64_t queues = 100;
  auto state = Full(queues, bench.range(0), bench.range(1));
  std::int64_t admitted = 0;
  std::vector<api::ObjectKey> running;
  for (std::int64_t i = 0; i < queues * 2; ++i) {
    running.push_back({.ns = "ns", .name = "w" + std::to_string(i)});
  }
  std::size_t next = 0;
  for (auto unused : bench) {
    state->Delete(api::Kind::kWorkload, running[next++ % running.size()], Now());
    while (state->NeedsCycle(Now())) {
      for (const scheduler::AdmissionDecision& decision :
           state
               ->Apply(scheduler::Decide(*state->TakeSnapshot(Now()), Now(), scheduler::Budget{}),
                       Now())
               .admissions) {
        running[(next - 1) % running.size()] = decision.workload.key;
        ++admitted;
      }
    }
  }
  bench.counters["admitted"] =
      benchmark::Counter(static_cast<double>(admitted), benchmark::Counter::kAvgIterations);
}
BENCHMARK(OneEnds)
    ->ArgNames({"pending", "kinds"})
    ->Args({1'000, 1})
    ->Args({100'000, 1})
    ->Args({100'000, 1000})
    ->Unit(benchmark::kMicrosecond);

// From nothing: everything is read, and everything that fits is admitted.
void FromScratch(benchmark::State& bench) {
  for (auto unused : bench) {
    benchmark::DoNotOptimize(Full(100, bench.range(0), bench.range(1)));
  }
  bench.SetItemsProcessed(static_cast<std::int64_t>(bench.iterations()) * bench.range(0));
}
BENCHMARK(FromScratch)
    ->ArgNames({"pending", "kinds"})
    ->Args({10'000, 10})
    ->Args({100'000, 1000})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

// Everything fits: how many admissions a second one Decide makes.
void AdmitAll(benchmark::State& bench) {
  const std::int64_t count = bench.range(0);
  scheduler::State state{scheduler::Options{}};
  api::Namespace ns;
  ns.meta.name = "ns";
  Feed(state, ns);
  for (const char* name : {"f0", "f1", "f2"}) {
    api::ResourceFlavor flavor;
    flavor.meta.name = name;
    Feed(state, flavor);
  }
  for (std::int64_t i = 0; i < 10; ++i) {
    api::ClusterQueue queue;
    queue.meta.name = "q" + std::to_string(i);
    queue.cohort = "lab";
    queue.namespace_selector.present = true;
    api::ResourceGroup group{.covered_resources = {"cpu"}, .flavors = {}};
    for (const char* name : {"f0", "f1", "f2"}) {
      api::ResourceQuota quota;
      quota.name = "cpu";
      quota.nominal = Amount(std::string_view(name) == "f2" ? 1'000'000'000 : 10'000);
      group.flavors.push_back({.name = name, .resources = {quota}});
    }
    queue.resource_groups.push_back(std::move(group));
    Feed(state, queue);
    api::LocalQueue local_queue;
    local_queue.meta.ns = "ns";
    local_queue.meta.name = queue.meta.name;
    local_queue.cluster_queue = queue.meta.name;
    Feed(state, local_queue);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    Feed(state, MakeWorkload(i, i % 10, i % 7));
  }
  state.SetSynced();
  const auto snapshot = state.TakeSnapshot(Now());
  std::size_t admitted = 0;
  for (auto unused : bench) {
    admitted += scheduler::Decide(*snapshot, Now(), scheduler::Budget{}).admissions.size();
  }
  bench.SetItemsProcessed(static_cast<std::int64_t>(admitted));
}
BENCHMARK(AdmitAll)->ArgName("workloads")->Arg(5'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace muster
