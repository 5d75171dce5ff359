#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/placement/placement.h"
#include "test/placement/world.h"

namespace muster::placement {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr std::int64_t kBudget = 2'000'000;

GangRequest OneClass(std::int32_t count, const api::ClaimSpec& spec) {
  GangRequest gang;
  gang.name = "team/w";
  gang.ns = "team";
  gang.classes = {Pods("main", count, {})};
  gang.claims = {ClaimDemand{.name = "gpu", .spec = spec, .shared = false, .existing = {}}};
  gang.classes[0].claims = {0};
  return gang;
}

std::string Message(const Answer& answer) {
  if (const auto* no = std::get_if<Unplaceable>(&answer)) {
    std::string out;
    for (const auto& reason : no->reasons) {
      out += (out.empty() ? "" : " | ") + reason.message;
    }
    return out;
  }
  return std::holds_alternative<Undecided>(answer) ? "undecided" : "placed";
}

TEST(Devices, AClaimTakesTheFirstDevicesThatFitAndNobodyElseGetsThem) {
  DeviceWorld world;
  world.AddNode("n1", {{"cpu", 8000}});
  world.AddPool("n1", "n1", {Gpu("d0"), Gpu("d1"), Gpu("d2")});
  Trial trial = world.trial();
  const GangRequest gang = OneClass(1, Exactly("gpu.test", 2));
  const auto placed = std::get<Placement>(trial.Place(gang, kBudget));
  EXPECT_THAT(DevicesOf(placed.pods[0]), ElementsAre("d0", "d1"));
  EXPECT_TRUE(placed.agrees_with_first_fit);
  EXPECT_EQ(placed.pods[0].devices[0].request, "r");
  EXPECT_EQ(Message(trial.Place(gang, kBudget)),
            "pod set main: 1 pod asked, 0 fit: gpu.test: 2 devices asked, 1 matches and is free on "
            "1 matching node");
}

TEST(Devices, AllocatedClaimsAndPromisesTakeDevicesUntilTheyEnd) {
  DeviceWorld world;
  world.AddNode("n1", {{"cpu", 8000}});
  world.AddPool("n1", "n1", {Gpu("d0"), Gpu("d1")});
  api::ResourceClaim claim;
  claim.meta.ns = "team";
  claim.meta.name = "other";
  claim.allocated = true;
  claim.devices = {
      api::AllocatedDevice{.request = "r", .driver = "gpu.test", .pool = "n1", .device = "d0"}};
  world.inventory.Upsert(std::make_shared<const api::ResourceClaim>(claim));
  const GangRequest gang = OneClass(1, Exactly("gpu.test", 1));
  const auto placed = std::get<Placement>(world.trial().Place(gang, kBudget));
  EXPECT_THAT(DevicesOf(placed.pods[0]), ElementsAre("d1"));
  world.inventory.Hold("team/w", gang, placed);
  EXPECT_EQ(Message(world.trial().Place(gang, kBudget)).substr(0, 31),
            "pod set main: 1 pod asked, 0 fi");
  {
    Trial trial = world.trial();
    trial.Remove("team/w", {});
    EXPECT_EQ(Message(trial.Place(gang, kBudget)), "placed");
  }
  const auto before = world.inventory.growth_generation();
  world.inventory.Release("team/w");
  EXPECT_GT(world.inventory.growth_generation(), before);
  EXPECT_EQ(Message(world.trial().Place(gang, kBudget)), "placed");
  world.inventory.DeleteClaim({.ns = "team", .name = "other"});
  EXPECT_THAT(DevicesOf(std::get<Placement>(world.trial().Place(gang, kBudget)).pods[0]),
              ElementsAre("d0"));
}

// DR-01
TEST(Devices, CountsThatWouldWrapAreRefused) {
  DeviceWorld world;
  world.AddNode("n1", {{"cpu", 8000}});
  world.AddPool("n1", "n1", {Gpu("d0")});
  api::ClaimSpec spec = Exactly("gpu.test", 9223372036854775807LL);
  spec.requests.push_back(spec.requests[0]);
  spec.requests[1].name = "s";
  EXPECT_THAT(Message(world.trial().Place(OneClass(1, spec), kBudget)),
              HasSubstr("9223372036854775807 devices asked, a claim holds at most 32"));
}

// DR-05
TEST(Devices, APoolInTheMiddleOfAnUpdateOffersNothing) {
  DeviceWorld world;
  world.AddNode("n1", {{"cpu", 8000}});
  world.AddPool("n1", "n1", {Gpu("d0")}, {.slice = "a", .generation = 1});
  world.AddPool("n1", "n1", {Gpu("d0")}, {.slice = "b", .generation = 2, .slices = 2});
  const GangRequest gang = OneClass(1, Exactly("gpu.test", 2, "device.driver == 'gpu.test'"));
  EXPECT_THAT(Message(world.trial().Place(gang, kBudget)),
              HasSubstr("gpu.test: 2 devices asked, 0 match and are free on 1 matching node"));
  EXPECT_THAT(Message(world.trial().Place(OneClass(1, Exactly("gpu.test", 1)), kBudget)),
              HasSubstr("pool gpu.test/n1 shows 1 of 2 slices"));
  const auto before = world.inventory.growth_generation();
  world.AddPool("n1", "n1", {Gpu("d1")}, {.slice = "c", .generation = 2, .slices = 2});
  EXPECT_GT(world.inventory.growth_generation(), before);
  EXPECT_THAT(DevicesOf(std::get<Placement>(world.trial().Place(gang, kBudget)).pods[0]),
              ElementsAre("d0", "d1"));
}

// DR-07
TEST(Devices, AllOfNothingIsNoMatch) {
  DeviceWorld world;
  world.AddNode("node-1", {{"cpu", 8000}});
  const GangRequest gang = OneClass(1, All("gpu.test"));
  EXPECT_THAT(Message(world.trial().Place(gang, kBudget)), HasSubstr("0 fit"));
  world.AddNode("node-2", {{"cpu", 8000}});
  world.AddPool("node-2", "node-2", {Gpu("d0"), Gpu("d1")});
  const auto placed = std::get<Placement>(world.trial().Place(gang, kBudget));
  EXPECT_THAT(NodesOf(placed), ElementsAre("node-2"));
  EXPECT_THAT(DevicesOf(placed.pods[0]), ElementsAre("d0", "d1"));
}

// DR-09
TEST(Devices, AllTakesPartsThatShareCounters) {
  DeviceWorld world;
  world.AddNode("n1", {{"cpu", 8000}});
  world.AddCounters("n1", "n1", "memory", "80Gi");
  world.AddPool("n1",
                "n1",
                {Partition("part-0", "memory", "40Gi"), Partition("part-1", "memory", "40Gi")},
                {.slice = "z", .slices = 2});
  Trial trial = world.trial();
  const auto placed = std::get<Placement>(trial.Place(OneClass(1, All("gpu.test")), kBudget));
  EXPECT_THAT(DevicesOf(placed.pods[0]), ElementsAre("part-0", "part-1"));
}

// DR-11
TEST(Devices, DistinctAttributeComparesWithEveryEarlierDevice) {
  DeviceWorld world;
  world.AddNode("n1", {{"cpu", 8000}});
  world.AddPool("n1", "n1", {Numa("d1", 1), Numa("d2", 2), Numa("d3", 1), Numa("d4", 3)});
  api::ClaimSpec spec = Exactly("gpu.test", 3);
  spec.constraints = {
      {.requests = {}, .match_attribute = "", .distinct_attribute = "gpu.test/numa"}};
  const auto placed = std::get<Placement>(world.trial().Place(OneClass(1, spec), kBudget));
  EXPECT_THAT(DevicesOf(placed.pods[0]), ElementsAre("d1", "d2", "d4"));
}

// DR-13
TEST(Devices, AGangSharesOneClaimAndOneDevice) {
  DeviceWorld world;
  world.AddNode("n0", {{"cpu", 8000}});
  world.AddNode("n1", {{"cpu", 8000}});
  world.AddPool("n1", "n1", {Gpu("d0")});
  GangRequest gang = OneClass(2, Exactly("gpu.test", 1));
  gang.claims[0].shared = true;
  Trial trial = world.trial();
  const auto placed = std::get<Placement>(trial.Place(gang, kBudget));
  EXPECT_THAT(NodesOf(placed), ElementsAre("n1", "n1"));
  ASSERT_EQ(placed.shared_devices.size(), 1U);
  EXPECT_EQ(placed.shared_devices[0].device, "d0");
  EXPECT_THAT(placed.pods[0].devices, IsEmpty());
  EXPECT_TRUE(placed.agrees_with_first_fit);
  EXPECT_THAT(Message(trial.Place(gang, kBudget)), HasSubstr("shared claim gpu (gpu.test)"));
}

TEST(Devices, AnAllocatedNamedClaimBindsItsPodsAndAMissingOneIsNamed) {
  DeviceWorld world;
  world.AddNode("n0", {{"cpu", 8000}});
  world.AddNode("n1", {{"cpu", 8000}});
  world.AddPool("n1", "n1", {Gpu("d0")});
  GangRequest gang = OneClass(2, Exactly("gpu.test", 1));
  gang.claims[0].shared = true;
  gang.claims[0].existing = api::ObjectKey{.ns = "team", .name = "c"};
  const auto missing = std::get<Unplaceable>(world.trial().Place(gang, kBudget));
  EXPECT_EQ(missing.reasons[0].code, Reason::Code::kClaimMissing);
  EXPECT_EQ(missing.reasons[0].message, "pod set main: ResourceClaim team/c does not exist");
  api::ResourceClaim claim;
  claim.meta.ns = "team";
  claim.meta.name = "c";
  claim.spec = gang.claims[0].spec;
  world.inventory.Upsert(std::make_shared<const api::ResourceClaim>(claim));
  {
    // A second gang with the claim joins the first one's node, in the trial and while it is only
    // promised.
    Trial trial = world.trial();
    const auto first = std::get<Placement>(trial.Place(gang, kBudget));
    EXPECT_EQ(first.shared_devices.size(), 1U);
    const auto second = std::get<Placement>(trial.Place(gang, kBudget));
    EXPECT_THAT(NodesOf(second), ElementsAre("n1", "n1"));
    EXPECT_THAT(second.shared_devices, IsEmpty());
    world.inventory.Hold("team/w", gang, first);
    EXPECT_THAT(NodesOf(std::get<Placement>(world.trial().Place(gang, kBudget))),
                ElementsAre("n1", "n1"));
    world.inventory.Release("team/w");
  }
  claim.allocated = true;
  claim.devices = {
      api::AllocatedDevice{.request = "r", .driver = "gpu.test", .pool = "n1", .device = "d0"}};
  claim.allocation_node_selector.present = true;
  api::NodeSelectorTerm term;
  term.match_fields = {{.key = "metadata.name", .op = "In", .values = {"n1"}}};
  claim.allocation_node_selector.terms = {term};
  world.inventory.Upsert(std::make_shared<const api::ResourceClaim>(claim));
  EXPECT_THAT(NodesOf(std::get<Placement>(world.trial().Place(gang, kBudget))),
              ElementsAre("n1", "n1"));
}

// DR-15
TEST(Devices, AnEarlierMemberTakesTheSmallerChoiceForALaterOne) {
  DeviceWorld world;
  world.AddNode("n1", {{"cpu", 8000}});
  world.AddCounters("n1", "n1", "slices", "2");
  world.AddPool("n1",
                "n1",
                {Partition("whole", "slices", "2", "whole"),
                 Partition("half-0", "slices", "1", "half"),
                 Partition("half-1", "slices", "1", "half")},
                {.slice = "z", .slices = 2});
  api::ClaimSpec spec;
  api::DeviceRequest request;
  request.name = "r";
  for (const char* kind : {"whole", "half"}) {
    request.first_available.push_back(
        {.name = kind,
         .device_class = "gpu.test",
         .selectors = {std::string("device.attributes['gpu.test'].kind == '") + kind + "'"}});
  }
  spec.requests = {request};
  const auto placed = std::get<Placement>(world.trial().Place(OneClass(2, spec), kBudget));
  EXPECT_THAT(DevicesOf(placed.pods[0]), ElementsAre("half-0"));
  EXPECT_THAT(DevicesOf(placed.pods[1]), ElementsAre("half-1"));
  EXPECT_EQ(placed.pods[0].devices[0].request, "r/half");
  EXPECT_FALSE(placed.agrees_with_first_fit);
}

// DR-17
TEST(Devices, ASelectorErrorSkipsTheNodeAndIsTold) {
  DeviceWorld world;
  world.AddNode("node-1", {{"cpu", 8000}});
  world.AddPool("node-1", "node-1", {Gpu("plain")});
  const GangRequest gang =
      OneClass(1, Exactly("gpu.test", 1, "device.attributes['gpu.test'].numa >= 1"));
  EXPECT_THAT(Message(world.trial().Place(gang, kBudget)),
              HasSubstr("selector error on device gpu.test/node-1/plain: no such key: numa"));
  world.AddNode("node-2", {{"cpu", 8000}});
  world.AddPool("node-2", "node-2", {Numa("good", 1)});
  const auto placed = std::get<Placement>(world.trial().Place(gang, kBudget));
  EXPECT_THAT(NodesOf(placed), ElementsAre("node-2"));
}

// DR-21
TEST(Devices, ASearchWithoutAnAnswerEndsSoon) {
  for (const int values : {128, 5, 4}) {
    DeviceWorld world;
    world.AddNode("n1", {{"cpu", 8000}});
    std::vector<api::Device> devices;
    for (int i = 0; i < 128; ++i) {
      // Every device differs, so that none stands for another.
      api::Device device = Numa("d" + std::to_string(i), i % values);
      device.attributes["serial"] = std::int64_t{i};
      devices.push_back(device);
    }
    world.AddPool("n1", "n1", devices);
    api::ClaimSpec spec;
    for (int r = 0; r < 8; ++r) {
      api::DeviceRequest request = Exactly("gpu.test", 4).requests[0];
      request.name = "r" + std::to_string(r);
      spec.requests.push_back(request);
    }
    spec.constraints = {
        {.requests = {}, .match_attribute = "gpu.test/numa", .distinct_attribute = ""}};
    const auto start = std::chrono::steady_clock::now();
    const Answer answer = world.trial().Place(OneClass(1, spec), kBudget);
    if (values == 4) {
      EXPECT_EQ(Message(answer), "placed");
    } else {
      EXPECT_THAT(Message(answer), HasSubstr("0 fit"));
    }
    // A generous bound for sanitizer builds on busy machines; an exponential search misses it by
    // ages.
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  }
}

// DR-24
TEST(Devices, AThousandFailedAttemptsLeaveEverythingFree) {
  DeviceWorld world;
  world.AddClass("nic.test");
  world.AddClass("channel.test");
  for (int i = 0; i < 18; ++i) {
    const std::string node = "rack-" + std::to_string(i);
    world.AddNode(node, {{"cpu", 8000}}, {{"clique", "a"}});
    world.AddPool(node, node, {Gpu("g0"), Gpu("g1"), Gpu("g2"), Gpu("g3")});
    world.AddPool(node,
                  node,
                  {Gpu("n0"), Gpu("n1"), Gpu("n2"), Gpu("n3")},
                  {.driver = "nic.test", .slice = node + "-nic"});
    world.AddPool(node, node, {Gpu("c0")}, {.driver = "channel.test", .slice = node + "-ch"});
  }
  GangRequest gang = OneClass(16, Exactly("gpu.test", 4));
  gang.claims.push_back(
      {.name = "nic", .spec = Exactly("nic.test", 4), .shared = false, .existing = {}});
  gang.claims.push_back(
      {.name = "channel", .spec = Exactly("channel.test", 1), .shared = false, .existing = {}});
  gang.classes[0].claims = {0, 1, 2};
  gang.classes[0].node_selector = {{"clique", "a"}};
  GangRequest large = gang;
  large.classes[0].count = 19;
  Trial trial = world.trial();
  const auto fresh = std::get<Placement>(world.trial().Place(gang, kBudget));
  for (int i = 0; i < 1000; ++i) {
    const auto mark = trial.Checkpoint();
    if (i % 2 == 0) {
      ASSERT_TRUE(std::holds_alternative<Unplaceable>(trial.Place(large, kBudget)));
    } else {
      ASSERT_TRUE(std::holds_alternative<Placement>(trial.Place(gang, kBudget)));
    }
    trial.Rollback(mark);
  }
  const auto placed = std::get<Placement>(trial.Place(gang, kBudget));
  ASSERT_EQ(placed.pods.size(), 16U);
  for (std::size_t i = 0; i < placed.pods.size(); ++i) {
    EXPECT_EQ(placed.pods[i].node, fresh.pods[i].node);
    EXPECT_EQ(DevicesOf(placed.pods[i]), DevicesOf(fresh.pods[i]));
  }
}

TEST(Devices, TaintsKeepDevicesBackUnlessTolerated) {
  DeviceWorld world;
  world.AddNode("n1", {{"cpu", 8000}});
  world.AddPool("n1", "n1", {Gpu("d0")});
  api::DeviceTaintRule rule;
  rule.meta.name = "broken";
  rule.taint = {.key = "sick", .value = "", .effect = "NoSchedule"};
  world.inventory.Upsert(std::make_shared<const api::DeviceTaintRule>(rule));
  GangRequest gang = OneClass(1, Exactly("gpu.test", 1));
  EXPECT_EQ(Message(world.trial().Place(gang, kBudget)),
            "placed");  // without a selector it matches nothing
  rule.has_selector = true;
  rule.device = "d0";
  world.inventory.Upsert(std::make_shared<const api::DeviceTaintRule>(rule));
  EXPECT_THAT(Message(world.trial().Place(gang, kBudget)), HasSubstr("0 match and are free"));
  gang.claims[0].spec.requests[0].exactly->tolerations = {
      {.key = "sick", .op = "Exists", .value = "", .effect = ""}};
  EXPECT_EQ(Message(world.trial().Place(gang, kBudget)), "placed");
  world.inventory.DeleteTaintRule("broken");
  EXPECT_EQ(Message(world.trial().Place(OneClass(1, Exactly("gpu.test", 1)), kBudget)), "placed");
}

TEST(Devices, AdminAccessWatchesDevicesInUseAndTakesNone) {
  DeviceWorld world;
  world.AddNode("n1", {{"cpu", 8000}});
  world.AddPool("n1", "n1", {Gpu("d0")});
  Trial trial = world.trial();
  EXPECT_EQ(Message(trial.Place(OneClass(1, Exactly("gpu.test", 1)), kBudget)), "placed");
  GangRequest gang = OneClass(3, Exactly("gpu.test", 1));
  gang.claims[0].spec.requests[0].exactly->admin_access = true;
  const auto placed = std::get<Placement>(trial.Place(gang, kBudget));
  EXPECT_TRUE(placed.pods[2].devices[0].admin_access);
}

TEST(Devices, AnExtendedResourceIsServedByItsClassWhereNoPluginOffersIt) {
  DeviceWorld world;
  world.AddClass("big.test", {}, "test.com/gpu", "gpu.test");
  world.AddNode("n1", {{"cpu", 8000}});
  world.AddPool("n1", "n1", {Gpu("d0"), Gpu("d1")});
  world.AddNode("n2", {{"cpu", 8000}, {"test.com/gpu", 1}});
  GangRequest gang;
  gang.classes = {Pods("main", 2, {{"test.com/gpu", 1}})};
  gang.classes[0].node_selector = {};
  Trial trial = world.trial();
  const auto placed = std::get<Placement>(trial.Place(gang, kBudget));
  EXPECT_THAT(NodesOf(placed), UnorderedElementsAre("n1", "n2"));
  for (const auto& pod : placed.pods) {
    EXPECT_EQ(pod.devices.size(), pod.node == "n1" ? 1U : 0U);
    if (!pod.devices.empty()) {
      EXPECT_EQ(pod.devices[0].claim, kExtendedResourceClaim);
    }
  }
}

TEST(Devices, HardwareThatIsOfferedTwiceIsNotCountedTwice) {
  DeviceWorld world;
  world.AddNode("n1", {{"cpu", 8000}, {"test/gpu", 2}});
  world.AddPool("n1", "n1", {Gpu("d0"), Gpu("d1")});
  const auto twice = world.inventory.DoubleOfferedNodes();
  ASSERT_EQ(twice.size(), 1U);
  EXPECT_EQ(twice[0].node, "n1");
  EXPECT_EQ(twice[0].resource, "test/gpu");
  EXPECT_EQ(twice[0].driver, "gpu.test");
  GangRequest gang;
  gang.classes = {Pods("main", 1, {{"test/gpu", 1}})};
  EXPECT_THAT(Message(world.trial().Place(gang, kBudget)),
              HasSubstr("test/gpu 1 asked and 0 free"));
  EXPECT_EQ(Message(world.trial().Place(OneClass(2, Exactly("gpu.test", 1)), kBudget)), "placed");
}

TEST(Devices, AMemberThatNeedsTheBigDeviceGetsItWhateverItsOrder) {
  DeviceWorld world;
  world.AddNode("n1", {{"cpu", 8000}});
  world.AddPool("n1", "n1", {Numa("big", 80), Numa("small", 20)});
  GangRequest gang = OneClass(1, Exactly("gpu.test", 1));
  gang.claims.push_back({.name = "big",
                         .spec = Exactly("gpu.test", 1, "device.attributes['gpu.test'].numa >= 80"),
                         .shared = false,
                         .existing = {}});
  gang.classes.push_back(Pods("leader", 1, {}));
  gang.classes[1].claims = {1};
  const auto placed = std::get<Placement>(world.trial().Place(gang, kBudget));
  EXPECT_THAT(DevicesOf(placed.pods[0]), ElementsAre("small"));
  EXPECT_THAT(DevicesOf(placed.pods[1]), ElementsAre("big"));
  EXPECT_FALSE(placed.agrees_with_first_fit);
}

TEST(Devices, NetworkDevicesAreSharedOutBetweenNodes) {
  DeviceWorld world;
  world.AddNode("n1", {{"cpu", 1000}});
  world.AddNode("n2", {{"cpu", 1000}});
  world.AddPool("", "net", {Gpu("d0"), Gpu("d1")});
  GangRequest gang = OneClass(2, Exactly("gpu.test", 1));
  gang.classes[0].requests = Resources({{"cpu", 1000}});
  Trial trial = world.trial();
  const auto placed = std::get<Placement>(trial.Place(gang, kBudget));
  EXPECT_THAT(NodesOf(placed), ElementsAre("n1", "n2"));
  EXPECT_THAT(DevicesOf(placed.pods[1]), ElementsAre("d1"));
  EXPECT_TRUE(placed.agrees_with_first_fit);
}

TEST(Devices, SharesOfADeviceAreBoundedByItsCapacity) {
  DeviceWorld world;
  world.AddNode("n1", {{"cpu", 8000}});
  api::Device device = Gpu("d0");
  device.allow_multiple_allocations = true;
  device.capacity["memory"] = {.value = *api::Quantity::Parse("10Gi"), .policy = {}};
  world.AddPool("n1", "n1", {device});
  GangRequest gang = OneClass(2, Exactly("gpu.test", 1));
  gang.claims[0].spec.requests[0].exactly->capacity_requests["memory"] =
      *api::Quantity::Parse("4Gi");
  Trial trial = world.trial();
  const auto placed = std::get<Placement>(trial.Place(gang, kBudget));
  EXPECT_TRUE(placed.pods[0].devices[0].share);
  EXPECT_EQ(placed.pods[0].devices[0].consumed_capacity.at("memory").ToString(), "4Gi");
  gang.classes[0].count = 1;
  EXPECT_THAT(Message(trial.Place(gang, kBudget)), HasSubstr("0 fit"));
  gang.classes[0].count = 3;
  EXPECT_THAT(Message(world.trial().Place(gang, kBudget)), HasSubstr("2 fit"));
  gang.classes[0].count = 2;
  world.inventory.Hold("team/w", gang, placed);
  EXPECT_THAT(Message(world.trial().Place(gang, kBudget)), HasSubstr("0 fit"));
  Trial evicted = world.trial();
  evicted.Remove("team/w", {});
  EXPECT_EQ(Message(evicted.Place(gang, kBudget)), "placed");
  world.inventory.ReleaseOne("team/w", 0, 1);
  world.inventory.Release("team/w");
  EXPECT_EQ(Message(world.trial().Place(gang, kBudget)), "placed");
}

TEST(Devices, TooFewNetworkDevicesAreANoAndNotADoubt) {
  DeviceWorld world;
  for (int i = 0; i < 20; ++i) {
    world.AddNode("n" + std::to_string(i), {{"cpu", 1000}});
  }
  std::vector<api::Device> devices;
  for (int i = 0; i < 60; ++i) {
    devices.push_back(Gpu("d" + std::to_string(i)));
  }
  world.AddPool("", "net", devices);
  GangRequest gang = OneClass(61, Exactly("gpu.test", 1));
  EXPECT_EQ(
      Message(world.trial().Place(gang, kBudget)),
      "pod set main: 61 pods asked, 60 fit: gpu.test: 61 devices asked, 60 match and are free on "
      "20 matching nodes");
}

TEST(Devices, WhatIsMissingOrNotBuiltYetIsNamed) {
  DeviceWorld world;
  world.AddNode("n1", {{"cpu", 8000}});
  world.AddPool("n1", "n1", {Gpu("d0")});
  EXPECT_EQ(Message(world.trial().Place(OneClass(1, Exactly("none.test", 1)), kBudget)),
            "pod set main: claim gpu: request r: device class none.test does not exist");
  GangRequest gang = OneClass(1, Exactly("gpu.test", 1));
  gang.claims[0].spec.requests[0].exactly->has_derived_attributes = true;
  EXPECT_EQ(std::get<Unplaceable>(world.trial().Place(gang, kBudget)).reasons[0].code,
            Reason::Code::kUnsupported);
  EXPECT_THAT(Message(world.trial().Place(OneClass(1, Exactly("gpu.test", 1, "1 +")), kBudget)),
              HasSubstr("does not compile"));
}

TEST(Devices, AnExplicitElasticLeavesPodsWithoutDevicesToNewNodes) {
  DeviceWorld world;
  world.AddNode("n1", {{"cpu", 8000}});
  world.AddPool("n1", "n1", {Gpu("d0")});
  GangRequest gang = OneClass(2, Exactly("gpu.test", 1));
  gang.classes[0].nodes_bind = false;
  EXPECT_THAT(Message(world.trial().Place(gang, kBudget)), HasSubstr("1 fit"));
  gang.classes[0].devices_bind = false;
  const auto placed = std::get<Placement>(world.trial().Place(gang, kBudget));
  EXPECT_EQ(placed.unplaced, 1);
  EXPECT_THAT(DevicesOf(placed.pods[0]), ElementsAre("d0"));
}

}  // namespace
}  // namespace muster::placement
