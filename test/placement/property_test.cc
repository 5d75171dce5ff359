#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "scheduler/placement/placement.h"
#include "test/placement/world.h"

namespace muster::placement {
namespace {

// A world small enough to try everything.
struct SmallNode {
  std::int64_t cpu = 0;
  std::int64_t memory = 0;
  std::string zone;
  std::vector<std::int64_t> numas;  // of its devices
};
struct SmallClass {
  int count = 0;
  std::int64_t cpu = 0;
  std::int64_t memory = 0;
  std::string zone;  // empty: any
  int devices = 0;
  std::int64_t least_numa = 0;
  bool match = false;
  bool distinct = false;
};
struct SmallWorld {
  std::vector<SmallNode> nodes;
  std::vector<SmallClass> classes;
};

SmallWorld Generate(Prng& prng, bool devices) {
  const auto below = [&](std::uint64_t bound) {
    return static_cast<std::int64_t>(prng.Below(bound));
  };
  SmallWorld world;
  world.nodes.resize(1 + prng.Below(3));
  for (auto& node : world.nodes) {
    node.cpu = below(7);
    node.memory = below(7);
    node.zone = prng.Chance(2) ? "a" : "b";
    for (std::int64_t i = devices ? below(5) : 0; i > 0; --i) {
      node.numas.push_back(below(3));
    }
  }
  world.classes.resize(1 + prng.Below(3));
  for (auto& one : world.classes) {
    one.count = static_cast<int>(prng.Below(devices ? 3 : 4));
    one.cpu = below(4);
    one.memory = below(4);
    one.zone = prng.Chance(4) ? "a" : "";
    one.devices = devices ? static_cast<int>(prng.Below(3)) : 0;
    one.least_numa = prng.Chance(2) ? below(3) : 0;
    one.match = prng.Chance(3);
    one.distinct = !one.match && prng.Chance(3);
  }
  return world;
}

struct Exhaustive {
  explicit Exhaustive(const SmallWorld& w) : world(w) {
    for (std::size_t c = 0; c < world.classes.size(); ++c) {
      for (int i = 0; i < world.classes[c].count; ++i) {
        pods.push_back(c);
      }
    }
    for (const auto& node : world.nodes) {
      taken.emplace_back(node.numas.size(), false);
    }
  }

  bool Fits(std::size_t pod) {
    if (pod == pods.size()) {
      return true;
    }
    const SmallClass& one = world.classes[pods[pod]];
    for (std::size_t n = 0; n < world.nodes.size(); ++n) {
      SmallNode& node = world.nodes[n];
      if (node.cpu < one.cpu || node.memory < one.memory ||
          (!one.zone.empty() && one.zone != node.zone)) {
        continue;
      }
      node.cpu -= one.cpu;
      node.memory -= one.memory;
      std::vector<std::int64_t> seen;
      if (Devices(pod, n, one, 0, 0, seen)) {
        return true;
      }
      node.cpu += one.cpu;
      node.memory += one.memory;
    }
    return false;
  }

  bool Devices(std::size_t pod,
               std::size_t n,
               const SmallClass& one,
               int k,
               std::size_t start,
               std::vector<std::int64_t>& seen) {
    if (k == one.devices) {
      return Fits(pod + 1);
    }
    const auto& numas = world.nodes[n].numas;
    for (std::size_t d = start; d < numas.size(); ++d) {
      const bool repeats = std::find(seen.begin(), seen.end(), numas[d]) != seen.end();
      if (taken[n][d] || numas[d] < one.least_numa ||
          (one.match && !seen.empty() && seen[0] != numas[d]) || (one.distinct && repeats)) {
        continue;
      }
      taken[n][d] = true;
      seen.push_back(numas[d]);
      if (Devices(pod, n, one, k + 1, d + 1, seen)) {
        return true;
      }
      seen.pop_back();
      taken[n][d] = false;
    }
    return false;
  }

  SmallWorld world;
  std::vector<std::size_t> pods;
  std::vector<std::vector<bool>> taken;
};

GangRequest Build(const SmallWorld& small, DeviceWorld& world) {
  for (std::size_t n = 0; n < small.nodes.size(); ++n) {
    const std::string name = "n" + std::to_string(n);
    world.AddNode(name,
                  {{"cpu", small.nodes[n].cpu}, {"memory", small.nodes[n].memory}},
                  {{"zone", small.nodes[n].zone}});
    std::vector<api::Device> devices;
    for (std::size_t d = 0; d < small.nodes[n].numas.size(); ++d) {
      devices.push_back(Numa("d" + std::to_string(d), small.nodes[n].numas[d]));
    }
    if (!devices.empty()) {
      world.AddPool(name, name, devices);
    }
  }
  GangRequest gang;
  for (std::size_t c = 0; c < small.classes.size(); ++c) {
    const SmallClass& one = small.classes[c];
    PodClass pods =
        Pods("c" + std::to_string(c), one.count, {{"cpu", one.cpu}, {"memory", one.memory}});
    if (!one.zone.empty()) {
      pods.node_selector = {{"zone", one.zone}};
    }
    if (one.devices > 0) {
      api::ClaimSpec spec =
          Exactly("gpu.test",
                  one.devices,
                  "device.attributes['gpu.test'].numa >= " + std::to_string(one.least_numa));
      if (one.match || one.distinct) {
        spec.constraints = {{.requests = {},
                             .match_attribute = one.match ? "gpu.test/numa" : "",
                             .distinct_attribute = one.distinct ? "gpu.test/numa" : ""}};
      }
      pods.claims = {gang.claims.size()};
      gang.claims.push_back(
          {.name = "c" + std::to_string(c), .spec = spec, .shared = false, .existing = {}});
    }
    gang.classes.push_back(pods);
  }
  return gang;
}

// Over no capacity, no device twice, constraints kept.
void ExpectSound(const SmallWorld& small, const Placement& placement) {
  std::vector<SmallNode> nodes = small.nodes;
  std::set<std::string> taken;
  std::size_t members = 0;
  for (const auto& one : small.classes) {
    members += static_cast<std::size_t>(one.count);
  }
  ASSERT_EQ(placement.pods.size(), members);
  for (const auto& pod : placement.pods) {
    const SmallClass& one = small.classes[pod.pod_class];
    ASSERT_FALSE(pod.node.empty());
    SmallNode& node = nodes[static_cast<std::size_t>(std::stoi(pod.node.substr(1)))];
    node.cpu -= one.cpu;
    node.memory -= one.memory;
    EXPECT_GE(node.cpu, 0);
    EXPECT_GE(node.memory, 0);
    EXPECT_TRUE(one.zone.empty() || one.zone == node.zone);
    ASSERT_EQ(pod.devices.size(), static_cast<std::size_t>(one.devices));
    std::multiset<std::int64_t> numas;
    for (const auto& device : pod.devices) {
      EXPECT_EQ(device.pool, pod.node);
      EXPECT_TRUE(taken.insert(device.pool + "/" + device.device).second);
      const auto numa = node.numas[static_cast<std::size_t>(std::stoi(device.device.substr(1)))];
      EXPECT_GE(numa, one.least_numa);
      numas.insert(numa);
    }
    const std::set<std::int64_t> different(numas.begin(), numas.end());
    EXPECT_TRUE(!one.match || different.size() <= 1);
    EXPECT_TRUE(!one.distinct || different.size() == numas.size());
  }
}

void Compare(std::uint64_t seed, bool devices, int& yes, int& no) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Prng prng(seed);
  const SmallWorld small = Generate(prng, devices);
  DeviceWorld world;
  const GangRequest gang = Build(small, world);
  const bool expected = Exhaustive(small).Fits(0);
  Trial trial = world.trial();
  const auto mark = trial.Checkpoint();
  const Answer answer = trial.Place(gang, 5'000'000);
  ASSERT_FALSE(std::holds_alternative<Undecided>(answer));
  const auto* refused = std::get_if<Unplaceable>(&answer);
  ASSERT_EQ(refused == nullptr, expected)
      << (refused == nullptr ? "" : refused->reasons[0].message);
  (expected ? yes : no) += 1;
  if (refused != nullptr) {
    EXPECT_FALSE(refused->reasons[0].message.empty());
    EXPECT_EQ(trial.Checkpoint(), mark);
    return;
  }
  ExpectSound(small, std::get<Placement>(answer));
  // Taken back, the same gang finds the same places.
  trial.Rollback(mark);
  const Answer again = trial.Place(gang, 5'000'000);
  ASSERT_TRUE(std::holds_alternative<Placement>(again));
  const auto& first = std::get<Placement>(answer).pods;
  const auto& second = std::get<Placement>(again).pods;
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].node, second[i].node);
    EXPECT_EQ(DevicesOf(first[i]), DevicesOf(second[i]));
  }
  // Promised, it leaves what the trial had left: a second one fits in both or in neither.
  world.inventory.Hold("holder", gang, std::get<Placement>(again));
  const Answer in_trial = trial.Probe(gang, 5'000'000);
  const Answer in_fresh = world.trial().Probe(gang, 5'000'000);
  EXPECT_EQ(in_trial.index(), in_fresh.index());
  world.inventory.Release("holder");
  EXPECT_TRUE(std::holds_alternative<Placement>(world.trial().Probe(gang, 5'000'000)));
}

TEST(Property, GangsOfPlainPodsFitWhenTryingEverythingSaysSo) {
  int yes = 0;
  int no = 0;
  for (std::uint64_t seed = 1; seed <= 3000 && !HasFatalFailure(); ++seed) {
    Compare(seed, false, yes, no);
  }
  EXPECT_GT(yes, 300);
  EXPECT_GT(no, 300);
}

TEST(Property, GangsWithDevicesFitWhenTryingEverythingSaysSo) {
  int yes = 0;
  int no = 0;
  for (std::uint64_t seed = 1; seed <= 2000 && !HasFatalFailure(); ++seed) {
    Compare(seed, true, yes, no);
  }
  EXPECT_GT(yes, 200);
  EXPECT_GT(no, 200);
}

}  // namespace
}  // namespace muster::placement
