#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "scheduler/placement/placement.h"

// Placing gangs on large clusters. Arguments: nodes, members.
namespace muster::placement {
namespace {

constexpr std::int64_t kBudget = 200'000'000;

std::string NodeName(int i) {
  return "node-" + std::to_string(100'000 + i);
}

void AddNodes(Inventory& inventory, int nodes, int running) {
  for (int i = 0; i < nodes; ++i) {
    auto node = std::make_shared<api::Node>();
    node->meta.name = NodeName(i);
    node->meta.labels = {{"kubernetes.io/hostname", NodeName(i)},
                         {"kubernetes.io/os", "linux"},
                         {"topology.kubernetes.io/zone", "z" + std::to_string(i % 3)},
                         {"rack", "r" + std::to_string(i / 18)},
                         {"pool", i % 10 == 0 ? "cpu" : "gpu"}};
    node->allocatable = {{"cpu", Amount(64'000)},
                         {"memory", Amount(512LL << 30)},
                         {"pods", Amount(110)},
                         {"nvidia.com/gpu", Amount(i % 10 == 0 ? 0 : 8)}};
    inventory.Upsert(std::shared_ptr<const api::Node>(std::move(node)));
  }
  for (int i = 0; i < running; ++i) {
    auto pod = std::make_shared<api::Pod>();
    pod->meta.ns = "team";
    pod->meta.name = "pod-" + std::to_string(i);
    pod->spec.node_name = NodeName(i % nodes);
    api::Container container;
    container.has_requests = true;
    container.requests = {{"cpu", Amount(500)}, {"memory", Amount(1LL << 30)}};
    pod->spec.containers = {container};
    pod->phase = "Running";
    inventory.Upsert(std::shared_ptr<const api::Pod>(std::move(pod)));
  }
}

void AddDevices(Inventory& inventory, int nodes) {
  auto device_class = std::make_shared<api::DeviceClass>();
  device_class->meta.name = "gpu.example.com";
  device_class->selectors = {"device.driver == 'gpu.example.com'"};
  inventory.Upsert(std::shared_ptr<const api::DeviceClass>(std::move(device_class)));
  for (int i = 0; i < nodes; ++i) {
    auto slice = std::make_shared<api::ResourceSlice>();
    slice->meta.name = NodeName(i) + "-gpu";
    slice->driver = "gpu.example.com";
    slice->pool = NodeName(i);
    slice->generation = 1;
    slice->node_name = NodeName(i);
    for (int d = 0; d < 8; ++d) {
      api::Device device;
      device.name = "gpu-" + std::to_string(d);
      device.attributes["uuid"] = NodeName(i) + std::to_string(d);
      device.attributes["numa"] = std::int64_t{d / 4};
      device.capacity["memory"] = {.value = *api::Quantity::Parse("80Gi"), .policy = {}};
      slice->devices.push_back(std::move(device));
    }
    inventory.Upsert(std::shared_ptr<const api::ResourceSlice>(std::move(slice)));
  }
}

GangRequest PlainGang(int members) {
  GangRequest gang;
  PodClass pods;
  pods.name = "main";
  pods.count = members;
  pods.requests = {
      {"cpu", Amount(8'000)}, {"memory", Amount(32LL << 30)}, {"nvidia.com/gpu", Amount(8)}};
  pods.node_selector = {{"pool", "gpu"}};
  gang.classes = {pods};
  return gang;
}

GangRequest DeviceGang(int members) {
  GangRequest gang;
  PodClass pods;
  pods.name = "main";
  pods.count = members;
  pods.requests = {{"cpu", Amount(8'000)}};
  pods.claims = {0};
  api::DeviceSubRequest exactly;
  exactly.device_class = "gpu.example.com";
  exactly.count = 8;
  exactly.selectors = {
      "device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) >= 0"};
  api::DeviceRequest request;
  request.name = "gpu";
  request.exactly = exactly;
  ClaimDemand claim;
  claim.name = "gpu";
  claim.spec.requests = {request};
  gang.classes = {pods};
  gang.claims = {claim};
  return gang;
}

void Report(benchmark::State& state, std::vector<double>& micros) {
  if (micros.empty()) {
    return;
  }
  std::sort(micros.begin(), micros.end());
  state.counters["p50_us"] = micros[micros.size() / 2];
  state.counters["p99_us"] = micros[micros.size() * 99 / 100];
}

void Plain(benchmark::State& state) {
  Inventory inventory;
  AddNodes(inventory, static_cast<int>(state.range(0)), 20'000);
  Trial trial(inventory.View());
  const GangRequest gang = PlainGang(static_cast<int>(state.range(1)));
  std::vector<double> micros;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    const auto mark = trial.Checkpoint();
    const Answer answer = trial.Place(gang, kBudget);
    if (!std::holds_alternative<Placement>(answer)) {
      state.SkipWithError("the gang does not fit");
      return;
    }
    trial.Rollback(mark);
    micros.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
            .count());
  }
  Report(state, micros);
}
BENCHMARK(Plain)->Args({5000, 64})->Args({5000, 4000})->Unit(benchmark::kMicrosecond);

// A view after one pod has changed, and a trial over it: what each decision pays before it starts.
void ViewAfterOneChange(benchmark::State& state) {
  Inventory inventory;
  const int nodes = static_cast<int>(state.range(0));
  AddNodes(inventory, nodes, static_cast<int>(state.range(1)));
  auto view = inventory.View();
  int i = 0;
  std::vector<double> micros;
  for (auto _ : state) {
    inventory.DeletePod(
        {.ns = "team", .name = "pod-" + std::to_string(i++ % static_cast<int>(state.range(1)))});
    const auto start = std::chrono::steady_clock::now();
    view = inventory.View();
    const Trial trial(view);
    benchmark::DoNotOptimize(trial.CountNodes({{"pool", "nowhere"}}));
    micros.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
            .count());
  }
  Report(state, micros);
}
BENCHMARK(ViewAfterOneChange)->Args({5000, 100000})->Unit(benchmark::kMicrosecond);

// `first`: selectors have not been evaluated yet.
void Devices(benchmark::State& state) {
  const int nodes = static_cast<int>(state.range(0));
  const GangRequest gang = DeviceGang(static_cast<int>(state.range(1)));
  const bool first = state.range(2) != 0;
  std::unique_ptr<Inventory> inventory;
  const auto build = [&] {
    inventory = std::make_unique<Inventory>();
    AddNodes(*inventory, nodes, 0);
    AddDevices(*inventory, nodes);
  };
  build();
  for (auto _ : state) {
    if (first) {
      state.PauseTiming();
      build();
      state.ResumeTiming();
    }
    Trial trial(inventory->View());
    const Answer answer = trial.Place(gang, kBudget);
    if (!std::holds_alternative<Placement>(answer)) {
      state.SkipWithError("the gang does not fit");
      return;
    }
  }
}
BENCHMARK(Devices)
    ->Args({5000, 5000, 1})
    ->Args({5000, 5000, 0})
    ->Args({5000, 8, 0})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace muster::placement
