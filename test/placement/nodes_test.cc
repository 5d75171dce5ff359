#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/placement/placement.h"
#include "test/placement/world.h"

namespace muster::placement {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kBudget = 1'000'000;

TEST(Nodes, AnEmptyGangIsPlacedAtOnceWithNothing) {
  World world;
  Trial trial = world.trial();
  EXPECT_TRUE(std::get<Placement>(trial.Place(GangRequest{}, kBudget)).pods.empty());
  GangRequest gang;
  gang.classes = {Pods("main", 0, {{"cpu", 1000}})};
  EXPECT_TRUE(std::get<Placement>(trial.Place(gang, kBudget)).pods.empty());
}

TEST(Nodes, PacksTheFullestNodeThatFitsFirstAndBreaksTiesByName) {
  World world;
  world.AddNode("c", {{"cpu", 64000}, {"nvidia.com/gpu", 8}});
  world.AddNode("b", {{"cpu", 64000}, {"nvidia.com/gpu", 8}});
  world.AddNode("a", {{"cpu", 64000}, {"nvidia.com/gpu", 8}});
  world.AddPod("other", "b", {{"nvidia.com/gpu", 4}});
  Trial trial = world.trial();
  GangRequest gang;
  gang.classes = {Pods("main", 3, {{"nvidia.com/gpu", 4}})};
  const auto placed = std::get<Placement>(trial.Place(gang, kBudget));
  EXPECT_THAT(NodesOf(placed), ElementsAre("b", "a", "a"));
  // The trial has taken it: two more fit, three do not.
  EXPECT_TRUE(std::holds_alternative<Unplaceable>(trial.Probe(gang, kBudget)));
  gang.classes[0].count = 2;
  EXPECT_TRUE(std::holds_alternative<Placement>(trial.Probe(gang, kBudget)));
}

TEST(Nodes, ARefusalSaysWhatIsShortAndWhyNodesAreOut) {
  World world;
  world.AddNode("n1", {{"cpu", 64000}, {"nvidia.com/gpu", 2}}, {{"pool", "gpu"}});
  world.AddNode("n2", {{"cpu", 64000}, {"nvidia.com/gpu", 2}}, {{"pool", "gpu"}});
  world.AddNode("n3", {{"cpu", 64000}, {"nvidia.com/gpu", 2}}, {{"pool", "gpu"}});
  world.AddNode("n4", {{"cpu", 64000}, {"nvidia.com/gpu", 8}});
  api::Node tainted = MakeNode("n5", {{"nvidia.com/gpu", 8}}, {{"pool", "gpu"}});
  tainted.taints = {{.key = "down", .value = "", .effect = "NoExecute"}};
  world.Add(tainted);
  tainted.meta.name = "n6";
  world.Add(tainted);
  api::Node cordoned = MakeNode("n7", {{"nvidia.com/gpu", 8}}, {{"pool", "gpu"}});
  cordoned.unschedulable = true;
  world.Add(cordoned);
  GangRequest gang;
  gang.classes = {Pods("main", 8, {{"nvidia.com/gpu", 1}})};
  gang.classes[0].node_selector = {{"pool", "gpu"}};
  const auto no = std::get<Unplaceable>(world.trial().Place(gang, kBudget));
  ASSERT_EQ(no.reasons.size(), 1U);
  EXPECT_EQ(no.reasons[0].message,
            "pod set main: 8 pods asked, 6 fit: nvidia.com/gpu 8 asked and 6 free on 3 matching "
            "nodes; excluded: taint 2, nodeSelector 1, unschedulable 1");
  EXPECT_EQ(no.reasons[0].code, Reason::Code::kResource);
}

// TA-05
TEST(Nodes, ARatioBeyondInt32IsNotLost) {
  World world;
  world.AddNode("n", {{"memory", 2LL << 30}});
  GangRequest gang;
  gang.classes = {Pods("main", 1, {{"memory", 1}})};
  EXPECT_THAT(NodesOf(std::get<Placement>(world.trial().Place(gang, kBudget))), ElementsAre("n"));
}

// TA-06
TEST(Nodes, OneNodeIsNotPromisedTwice) {
  World world;
  world.AddNode("x", {{"nvidia.com/gpu", 8}});
  GangRequest gang;
  gang.classes = {Pods("main", 1, {{"nvidia.com/gpu", 8}})};
  Trial trial = world.trial();
  EXPECT_TRUE(std::holds_alternative<Placement>(trial.Place(gang, kBudget)));
  const auto no = std::get<Unplaceable>(trial.Place(gang, kBudget));
  EXPECT_THAT(no.reasons[0].message, HasSubstr("nvidia.com/gpu 8 asked and 0 free"));
}

// TA-08
TEST(Nodes, UseIsCountedOnceHoweverManyResourcesAPodNames) {
  World world;
  world.AddNode("n", {{"cpu", 1000}, {"memory", 1 << 30}});
  world.AddPod("bar", "n", {{"cpu", 500}, {"memory", 1 << 29}});
  GangRequest gang;
  gang.classes = {Pods("main", 1, {{"cpu", 500}, {"memory", 1 << 29}})};
  Trial trial = world.trial();
  EXPECT_TRUE(std::holds_alternative<Placement>(trial.Place(gang, kBudget)));
  EXPECT_TRUE(std::holds_alternative<Unplaceable>(trial.Place(gang, kBudget)));
}

// FA-05
TEST(Nodes, AFlavorWithoutMachinesIsNamed) {
  World world;
  world.AddNode("a1", {{"cpu", 1000}}, {{"flavor", "a"}});
  GangRequest gang;
  gang.classes = {Pods("main", 1, {{"cpu", 1000}})};
  gang.classes[0].node_selector = {{"flavor", "b"}};
  Trial trial = world.trial();
  const auto no = std::get<Unplaceable>(trial.Place(gang, kBudget));
  EXPECT_EQ(no.reasons[0].message,
            "pod set main: 1 pod asked, 0 fit: no node matches; excluded: nodeSelector 1");
  EXPECT_EQ(trial.CountNodes({{"flavor", "b"}}), 0);
  EXPECT_EQ(trial.CountNodes({{"flavor", "a"}}), 1);
  EXPECT_EQ(trial.CountNodes({}), 1);
}

// BI-06
TEST(Nodes, TwoBillionPodsAreRefusedWithoutCountingThem) {
  World world;
  world.AddNode("n", {{"cpu", 64000}, {"pods", 110}});
  GangRequest gang;
  gang.classes = {Pods("main", 2147483647, {{"cpu", 1}})};
  const auto no = std::get<Unplaceable>(world.trial().Place(gang, kBudget));
  EXPECT_THAT(no.reasons[0].message, HasSubstr("2147483647 pods asked, 110 fit: pods"));
  gang.classes[0].nodes_bind = false;
  EXPECT_EQ(std::get<Unplaceable>(world.trial().Place(gang, kBudget)).reasons[0].code,
            Reason::Code::kUnsupported);
}

TEST(Nodes, ANodeWithoutAnyStatusHasRoomForNothing) {
  World world;
  world.AddNode("n", {});
  GangRequest gang;
  gang.classes = {Pods("main", 1, {})};
  EXPECT_TRUE(std::holds_alternative<Unplaceable>(world.trial().Place(gang, kBudget)));
}

TEST(Nodes, TwoClassesThatFitOnlyTogetherAreFoundBySearch) {
  World world;
  world.AddNode("n1", {{"cpu", 4000}, {"memory", 2}});
  world.AddNode("n2", {{"cpu", 3000}, {"memory", 4}});
  GangRequest gang;
  gang.classes = {Pods("a", 2, {{"cpu", 2000}, {"memory", 1}}),
                  Pods("b", 1, {{"cpu", 3000}, {"memory", 1}})};
  const auto placed = std::get<Placement>(world.trial().Place(gang, kBudget));
  EXPECT_THAT(NodesOf(placed), ElementsAre("n1", "n1", "n2"));
}

TEST(Nodes, ClassesThatFitOnlyAloneAreRefusedWithBothNames) {
  World world;
  world.AddNode("n1", {{"cpu", 4000}});
  GangRequest gang;
  gang.classes = {Pods("a", 1, {{"cpu", 3000}}), Pods("b", 1, {{"cpu", 2000}})};
  const auto no = std::get<Unplaceable>(world.trial().Place(gang, kBudget));
  EXPECT_EQ(no.reasons[0].message,
            "pod sets a, b: each fits alone, but not together: cpu 5 asked and 4 free on 1 "
            "matching node");
}

TEST(Nodes, HostPortsAreTakenOncePerNode) {
  World world;
  world.AddNode("n1", {{"cpu", 4000}});
  world.AddNode("n2", {{"cpu", 4000}});
  GangRequest gang;
  gang.classes = {Pods("a", 2, {{"cpu", 1}})};
  gang.classes[0].host_ports = {{.host_port = 80, .protocol = "TCP", .host_ip = ""}};
  Trial trial = world.trial();
  EXPECT_THAT(NodesOf(std::get<Placement>(trial.Place(gang, kBudget))), ElementsAre("n1", "n2"));
  gang.classes[0].count = 1;
  EXPECT_TRUE(std::holds_alternative<Unplaceable>(trial.Place(gang, kBudget)));
  gang.classes[0].host_ports[0].protocol = "UDP";
  EXPECT_TRUE(std::holds_alternative<Placement>(trial.Place(gang, kBudget)));
}

TEST(Nodes, ElasticLeavesWhatFindsNoNode) {
  World world;
  world.AddNode("n1", {{"cpu", 2000}});
  GangRequest gang;
  gang.classes = {Pods("a", 5, {{"cpu", 1000}})};
  gang.classes[0].nodes_bind = false;
  const auto placed = std::get<Placement>(world.trial().Place(gang, kBudget));
  EXPECT_EQ(placed.unplaced, 3);
  EXPECT_THAT(NodesOf(placed), ElementsAre("n1", "n1", "", "", ""));
}

TEST(Inventory, PromisesHoldCapacityUntilReleased) {
  World world;
  world.AddNode("n1", {{"cpu", 2000}});
  GangRequest gang;
  gang.classes = {Pods("a", 2, {{"cpu", 1000}})};
  const auto placed = std::get<Placement>(world.trial().Place(gang, kBudget));
  const auto before = world.inventory.growth_generation();
  world.inventory.Hold("team/w", gang, placed);
  EXPECT_EQ(world.inventory.growth_generation(), before);
  EXPECT_TRUE(std::holds_alternative<Unplaceable>(world.trial().Place(gang, kBudget)));
  // What its eviction would free.
  Trial trial = world.trial();
  const auto mark = trial.Checkpoint();
  trial.Remove("team/w", {});
  EXPECT_TRUE(std::holds_alternative<Placement>(trial.Probe(gang, kBudget)));
  trial.Rollback(mark);
  EXPECT_TRUE(std::holds_alternative<Unplaceable>(trial.Probe(gang, kBudget)));
  // One member is bound: its promise becomes a pod, which counts instead.
  world.inventory.ReleaseOne("team/w", 0, 0);
  world.AddPod("w-0", "n1", {{"cpu", 1000}});
  EXPECT_TRUE(std::holds_alternative<Unplaceable>(world.trial().Place(gang, kBudget)));
  world.inventory.Release("team/w");
  world.inventory.DeletePod({.ns = "default", .name = "w-0"});
  EXPECT_GT(world.inventory.growth_generation(), before);
  EXPECT_TRUE(std::holds_alternative<Placement>(world.trial().Place(gang, kBudget)));
}

TEST(Inventory, AViewDoesNotSeeLaterChanges) {
  World world;
  world.AddNode("n1", {{"cpu", 2000}});
  const auto view = world.inventory.View();
  world.AddPod("p", "n1", {{"cpu", 2000}});
  world.AddNode("n2", {{"cpu", 2000}});
  GangRequest gang;
  gang.classes = {Pods("a", 2, {{"cpu", 1000}})};
  EXPECT_THAT(NodesOf(std::get<Placement>(Trial(view).Place(gang, kBudget))),
              ElementsAre("n1", "n1"));
  EXPECT_THAT(NodesOf(std::get<Placement>(world.trial().Place(gang, kBudget))),
              ElementsAre("n2", "n2"));
}

TEST(Inventory, HeartbeatsDoNotGrow) {
  World world;
  world.AddNode("n1", {{"cpu", 2000}});
  const auto before = world.inventory.growth_generation();
  world.AddNode("n1", {{"cpu", 2000}});
  EXPECT_EQ(world.inventory.growth_generation(), before);
  world.AddNode("n1", {{"cpu", 3000}});
  EXPECT_GT(world.inventory.growth_generation(), before);
}

}  // namespace
}  // namespace muster::placement
