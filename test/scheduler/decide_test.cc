#include <gtest/gtest.h>

#include "scheduler/cycle/snapshot.h"
#include "test/support/decision_world.h"

namespace muster::test {
namespace {

using api::Json;

// One flavor without nodes and one queue.
void Prepare(DecisionWorld& world, const std::string& nominal = "10") {
  world.AddFlavor({{"name", "default"}});
  world.AddQueue({{"name", "a"}, {"nominal", {{"cpu", nominal}}}});
}

Json Work(const std::string& name, int cpu, int at = 0) {
  return {{"name", name}, {"each", {{"cpu", cpu}}}, {"at", at}};
}

TEST(Decide, AdmitsEverythingThatFitsInOneCycle) {
  DecisionWorld world;
  Prepare(world, "500");
  for (int i = 0; i < 500; ++i) {
    world.AddWorkload(Work("w" + std::to_string(i), 1, i));
  }
  EXPECT_EQ(world.Cycle().admissions.size(), 500U);
  EXPECT_FALSE(world.state().NeedsCycle(world.now()));
}

TEST(Decide, TenThousandIdenticalWorkloadsCostOneEvaluation) {
  DecisionWorld world;
  Prepare(world);
  for (int i = 0; i < 2'000; ++i) {
    world.AddWorkload(Work("w" + std::to_string(i), 11, i));
  }
  const auto snapshot = world.state().TakeSnapshot(world.now());
  const scheduler::Plan plan = scheduler::Decide(*snapshot, world.now(), scheduler::Budget{});
  EXPECT_EQ(plan.refusals.size(), 1U);
  EXPECT_LE(plan.steps, 3);
  // Each of them is told once why it waits.
  EXPECT_EQ(world.state().Apply(plan, world.now()).refusals.size(), 2'000U);
  EXPECT_FALSE(world.state().NeedsCycle(world.now()));
}

TEST(Decide, NothingIsEvaluatedOrWrittenAgainWhileNothingChanges) {
  DecisionWorld world;
  Prepare(world);
  world.AddWorkload(Work("big", 11));
  world.AddWorkload(Work("runs", 10));
  world.AddWorkload(Work("waits", 1, 5));
  world.Settle();
  const std::int64_t writes = world.writes();
  // The status writes of the refusals came back as events by now, and did not wake anything.
  EXPECT_EQ(world.Settle(), 0);
  world.EditWorkload("waits", [](Json& w) { w["metadata"]["labels"]["x"] = "y"; });
  EXPECT_EQ(world.Settle(), 0);
  EXPECT_EQ(world.writes(), writes);
}

TEST(Decide, FreedQuotaWakesItsOwnTreeOnly) {
  DecisionWorld world;
  Prepare(world);
  world.AddQueue({{"name", "b"}, {"nominal", {{"cpu", "10"}}}});
  world.AddWorkload(Work("runs", 10));
  world.AddWorkload(Work("waits", 10, 1));
  world.AddWorkload({{"name", "b1"}, {"queue", "b"}, {"each", {{"cpu", 10}}}});
  world.AddWorkload({{"name", "b2"}, {"queue", "b"}, {"each", {{"cpu", 10}}}, {"at", 1}});
  world.Settle();
  world.Finish("runs");
  ASSERT_TRUE(world.state().NeedsCycle(world.now()));
  const auto snapshot = world.state().TakeSnapshot(world.now());
  ASSERT_EQ(snapshot->pending.size(), 2U);
  EXPECT_EQ(snapshot->pending[0].classes.size(), 1U);
  EXPECT_TRUE(snapshot->pending[1].classes.empty()) << "b only holds its quota for b2";
  world.Settle();
  EXPECT_TRUE(world.IsAdmitted("waits"));
}

TEST(Decide, AnUnrelatedQueueThatChangesWakesNobody) {
  DecisionWorld world;
  Prepare(world);
  world.AddWorkload(Work("runs", 10));
  world.AddWorkload(Work("waits", 1, 1));
  world.Settle();
  world.AddQueue({{"name", "other"}, {"nominal", {{"cpu", "1"}}}});
  EXPECT_EQ(world.Settle(), 0);
  world.AddQueue({{"name", "a"}, {"nominal", {{"cpu", "11"}}}});
  world.Settle();
  EXPECT_TRUE(world.IsAdmitted("waits"));
}

TEST(Apply, DropsWhatMovedWhileTheDecisionWasMade) {
  DecisionWorld world;
  Prepare(world);
  world.AddWorkload(Work("w", 6));
  auto snapshot = world.state().TakeSnapshot(world.now());
  scheduler::Plan plan = scheduler::Decide(*snapshot, world.now(), scheduler::Budget{});
  ASSERT_EQ(plan.admissions.size(), 1U);
  world.EditWorkload("w", [](Json& w) { w["metadata"]["labels"]["x"] = "y"; });
  EXPECT_TRUE(world.state().Apply(plan, world.now()).admissions.empty());
  ASSERT_TRUE(world.state().NeedsCycle(world.now()));

  // The quota moved: the same plan would pass the limit.
  snapshot = world.state().TakeSnapshot(world.now());
  plan = scheduler::Decide(*snapshot, world.now(), scheduler::Budget{});
  ASSERT_EQ(plan.admissions.size(), 1U);
  world.AddQueue({{"name", "a"}, {"nominal", {{"cpu", "5"}}}});
  EXPECT_TRUE(world.state().Apply(plan, world.now()).admissions.empty());
  world.Settle();
  EXPECT_EQ(world.VerdictOf("w").reason, "ExceedsMaxQuota");
}

TEST(Apply, AWakeUpDuringTheDecisionIsNotLost) {
  DecisionWorld world;
  Prepare(world);
  world.AddWorkload(Work("runs", 10));
  world.Settle();
  world.AddWorkload(Work("waits", 10, 1));
  const auto snapshot = world.state().TakeSnapshot(world.now());
  scheduler::Plan plan = scheduler::Decide(*snapshot, world.now(), scheduler::Budget{});
  ASSERT_EQ(plan.refusals.size(), 1U);
  world.Finish("runs");  // after the snapshot, before the plan
  static_cast<void>(world.state().Apply(plan, world.now()));
  world.Settle();
  EXPECT_TRUE(world.IsAdmitted("waits"));
}

TEST(Apply, AssumedAdmissionsCountAndForgottenOnesComeBack) {
  DecisionWorld world;
  Prepare(world);
  world.AddWorkload(Work("w", 10));
  world.AddWorkload(Work("v", 10, 1));
  const auto snapshot = world.state().TakeSnapshot(world.now());
  const scheduler::Plan plan = world.state().Apply(
      scheduler::Decide(*snapshot, world.now(), scheduler::Budget{}), world.now());
  ASSERT_EQ(plan.admissions.size(), 1U);
  EXPECT_EQ(plan.admissions[0].workload.key.name, "w");
  EXPECT_EQ(world.state().ClusterQueueStatus("a").reserving, 1);
  // The write fails; the second failure in a row makes it wait and the other passes.
  world.state().Forget({.ns = "ns", .name = "w"}, world.now());
  const scheduler::Plan again = world.state().Apply(
      scheduler::Decide(*world.state().TakeSnapshot(world.now()), world.now(), scheduler::Budget{}),
      world.now());
  ASSERT_EQ(again.admissions.size(), 1U);
  EXPECT_EQ(again.admissions[0].workload.key.name, "w");
  world.state().Forget({.ns = "ns", .name = "w"}, world.now());
  world.Settle();
  EXPECT_TRUE(world.IsAdmitted("v"));
  ASSERT_TRUE(world.state().NextWake().has_value());
  EXPECT_EQ(*world.state().NextWake(), world.now() + std::chrono::seconds(1));
}

TEST(State, FinishedWorkIsNeverAdmittedAgainAfterARestart) {
  DecisionWorld world;
  Prepare(world, "2");
  world.AddWorkload(Work("one", 1));
  world.AddWorkload(Work("two", 1));
  world.Settle();
  world.Finish("one");
  world.Finish("two");
  const auto again = world.Restarted();
  again->AddWorkload(Work("new", 2, 9));
  again->Settle();
  EXPECT_TRUE(again->IsAdmitted("new"));
  EXPECT_EQ(again->state().ClusterQueueStatus("a").reserving, 1);
}

TEST(State, AFreshProcessCountsWhatRunsBeforeItDecides) {
  DecisionWorld world;
  Prepare(world, "4");
  for (int i = 0; i < 40; ++i) {
    world.AddWorkload(Work("w" + std::to_string(i), 1, i));
  }
  world.Settle();
  const auto again = world.Restarted();
  again->Settle();
  EXPECT_EQ(again->state().ClusterQueueStatus("a").reserving, 4);
  EXPECT_EQ(again->state().ClusterQueueStatus("a").pending, 36);
  EXPECT_EQ(again->writes(), 0) << "everybody was told already";
}

TEST(State, PromisesOfAdmittedGangsSurviveARestart) {
  DecisionWorld world;
  world.AddFlavor({{"name", "default"}, {"labels", {{"pool", "x"}}}});
  world.AddQueue({{"name", "a"}, {"nominal", {{"cpu", "100"}}}});
  for (const char* name : {"n1", "n2"}) {
    world.AddNode({{"name", name}, {"labels", {{"pool", "x"}}}, {"allocatable", {{"cpu", 4}}}});
  }
  world.AddWorkload({{"name", "w"}, {"pods", 4}, {"each", {{"cpu", 2}}}});
  world.Settle();
  ASSERT_TRUE(world.IsAdmitted("w"));
  const auto again = world.Restarted();
  again->AddWorkload({{"name", "v"}, {"each", {{"cpu", 1}}}});
  again->Settle();
  EXPECT_FALSE(again->Holds("v"));
  EXPECT_EQ(again->VerdictOf("v").reason, "InsufficientCapacity") << again->VerdictOf("v").message;
  const scheduler::AdmissionDecision* decision =
      again->state().DecisionOf({.ns = "ns", .name = "w"});
  ASSERT_NE(decision, nullptr);
  ASSERT_TRUE(decision->placement.has_value());
  EXPECT_EQ(scheduler::EncodePlacement(*decision->gang, *decision->placement),
            scheduler::EncodePlacement(*world.Decision("w").gang, *world.Decision("w").placement));
  again->Finish("w");
  again->Settle();
  EXPECT_TRUE(again->IsAdmitted("v"));
}

TEST(Decide, ABorrowerStartsWhenTheOneItWaitedForIsGone) {
  DecisionWorld world;
  world.AddFlavor({{"name", "default"}});
  world.AddQueue({{"name", "a"}, {"cohort", "c"}, {"nominal", {{"cpu", 2}}}});
  world.AddQueue({{"name", "b"}, {"cohort", "c"}, {"nominal", {{"cpu", 0}}}});
  world.AddWorkload(Work("a1", 1));
  world.Settle();
  world.AddWorkload(Work("a2", 2, 1));
  world.AddWorkload({{"name", "b1"}, {"queue", "b"}, {"each", {{"cpu", 1}}}, {"at", 2}});
  world.Settle();
  ASSERT_FALSE(world.Holds("b1"));
  world.Remove(api::Kind::kWorkload, "ns", "a2");
  world.Settle();
  EXPECT_TRUE(world.IsAdmitted("b1"));
}

TEST(Decide, ANewcomerOfAParkedClassIsToldWithoutAnEvaluation) {
  DecisionWorld world;
  Prepare(world);
  world.AddWorkload(Work("first", 11));
  world.Settle();
  world.AddWorkload(Work("second", 11, 1));
  const auto snapshot = world.state().TakeSnapshot(world.now());
  EXPECT_TRUE(snapshot->pending.empty());
  const scheduler::Plan plan = world.state().Apply(
      scheduler::Decide(*snapshot, world.now(), scheduler::Budget{}), world.now());
  ASSERT_EQ(plan.refusals.size(), 1U);
  EXPECT_EQ(plan.refusals[0].workload.key.name, "second");
  EXPECT_EQ(plan.refusals[0].verdict.reason, "ExceedsMaxQuota");
}

TEST(State, BlockAdmissionWaitsUntilEverybodyIsReady) {
  scheduler::Options options;
  options.wait_for_pods_ready.block_admission = true;
  DecisionWorld world(options);
  Prepare(world);
  world.AddWorkload(Work("w", 1));
  world.AddWorkload(Work("v", 1, 1));
  world.Settle();
  EXPECT_TRUE(world.IsAdmitted("w"));
  EXPECT_EQ(world.VerdictOf("v").reason, "WaitingForPodsReady");
  world.EditWorkload("w", [](Json& w) {
    w["status"]["conditions"].push_back({{"type", "PodsReady"},
                                         {"status", "True"},
                                         {"reason", "Started"},
                                         {"message", ""},
                                         {"lastTransitionTime", "2026-01-01T00:00:00Z"}});
  });
  world.Settle();
  EXPECT_TRUE(world.IsAdmitted("v"));
}

}  // namespace
}  // namespace muster::test
