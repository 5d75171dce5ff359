#include "server/metrics.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.h"

namespace muster::server {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

scheduler::QueueRef Queue() {
  return {.cluster_queue = "cq", .local_queue = "lq", .ns = "team", .priority_class = "high"};
}

TEST(Metrics, CountsUnderTheNamesOfTheReference) {
  Metrics metrics({.leader_election = false});
  metrics.QuotaReserved(Queue(), seconds(3));
  metrics.Admitted(Queue(), seconds(4), seconds(1));
  metrics.Admitted(Queue(), seconds(4), std::nullopt);
  metrics.Evicted(Queue(), "Preempted", "", true);
  metrics.Evicted(Queue(), "Preempted", "", false);
  metrics.AdmissionAttempt(true, std::chrono::milliseconds(2));
  metrics.Preempted("cq", "InClusterQueue");
  const std::string text = metrics.Text();
  const char* role = R"(replica_role="standalone")";
  EXPECT_THAT(text, HasSubstr("# TYPE kueue_admitted_workloads_total counter"));
  EXPECT_THAT(text,
              HasSubstr(std::string("kueue_admitted_workloads_total{") + role +
                        R"(,cluster_queue="cq",priority_class="high"} 2)"));
  EXPECT_THAT(text,
              HasSubstr(std::string("kueue_quota_reserved_workloads_total{") + role +
                        R"(,cluster_queue="cq",priority_class="high"} 1)"));
  EXPECT_THAT(
      text,
      HasSubstr(
          std::string("kueue_evicted_workloads_total{") + role +
          R"(,cluster_queue="cq",priority_class="high",reason="Preempted",underlying_cause=""} 2)"));
  EXPECT_THAT(text, HasSubstr(R"(kueue_evicted_workloads_once_total{)"));
  EXPECT_THAT(
      text,
      HasSubstr(std::string("kueue_admission_attempts_total{") + role + R"(,result="success"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(kueue_admission_checks_wait_time_seconds_count{)"));
  EXPECT_THAT(text, HasSubstr(R"(kueue_build_info{build_date="")"));
  EXPECT_THAT(text, Not(HasSubstr("kueue_local_queue")));
}

TEST(Metrics, BucketsAreThoseOfTheReference) {
  Metrics metrics({.leader_election = false});
  metrics.Admitted(Queue(), seconds(3), std::nullopt);
  const std::string text = metrics.Text();
  // E(16): 1, 2.5, 5, 10, ... 2.5 * 2^14 = 40960.
  for (const char* bound : {"\"1\"", "\"2.5\"", "\"5\"", "\"40960\"", "\"+Inf\""}) {
    EXPECT_THAT(
        text,
        HasSubstr(
            std::string(
                R"(kueue_admission_wait_time_seconds_bucket{replica_role="standalone",cluster_queue="cq",priority_class="high",le=)") +
            bound + "}"));
  }
  EXPECT_THAT(text, Not(HasSubstr("\"81920\"")));
  EXPECT_THAT(text, HasSubstr(R"(le="2.5"} 0)"));
  EXPECT_THAT(text, HasSubstr(R"(le="5"} 1)"));
}

// MO-07.
TEST(Metrics, ClocksThatDifferNeverGiveNegativeObservations) {
  Metrics metrics({.leader_election = false});
  metrics.Admitted(Queue(), seconds(-3), seconds(-5));
  EXPECT_THAT(
      metrics.Text(),
      HasSubstr(
          R"(kueue_admission_wait_time_seconds_sum{replica_role="standalone",cluster_queue="cq",priority_class="high"} 0)"));
  metrics.Admitted(Queue(), seconds(3), std::nullopt);
  EXPECT_THAT(
      metrics.Text(),
      HasSubstr(
          R"(kueue_admission_wait_time_seconds_sum{replica_role="standalone",cluster_queue="cq",priority_class="high"} 3)"));
}

scheduler::ClusterQueueGauges Gauges() {
  scheduler::ClusterQueueGauges gauges{.cohort = "lab",
                                       .state = scheduler::QueueState::kActive,
                                       .pending_active = 1,
                                       .pending_inadmissible = 2};
  gauges.resources = {{.flavor = "f",
                       .resource = "cpu",
                       .reserved = Amount(1500),
                       .used = Amount(500),
                       .nominal = Amount(10'000)},
                      {.flavor = "f",
                       .resource = "gpu",
                       .nominal = Amount::Unlimited(),
                       .borrowing_limit = Amount(0),
                       .lending_limit = Amount(4)}};
  return gauges;
}

// MO-01, MO-04.
TEST(Metrics, GaugesOfAClusterQueue) {
  Metrics metrics({.leader_election = false, .cluster_queue_resources = true});
  metrics.SetClusterQueue("cq", Gauges());
  const std::string text = metrics.Text();
  const auto row = [](const char* name, const char* resource, const char* value) {
    return std::string(name) +
           R"({replica_role="standalone",cluster_queue="cq",cohort="lab",flavor="f",resource=")" +
           resource + "\"} " + value;
  };
  EXPECT_THAT(
      text,
      HasSubstr(
          R"(kueue_pending_workloads{replica_role="standalone",cluster_queue="cq",status="active"} 1)"));
  EXPECT_THAT(
      text,
      HasSubstr(
          R"(kueue_pending_workloads{replica_role="standalone",cluster_queue="cq",status="inadmissible"} 2)"));
  EXPECT_THAT(
      text,
      HasSubstr(
          R"(kueue_cluster_queue_status{replica_role="standalone",cluster_queue="cq",status="active"} 1)"));
  EXPECT_THAT(
      text,
      HasSubstr(
          R"(kueue_cluster_queue_status{replica_role="standalone",cluster_queue="cq",status="pending"} 0)"));
  EXPECT_THAT(text, HasSubstr(row("kueue_cluster_queue_resource_reservation", "cpu", "1.5")));
  EXPECT_THAT(text, HasSubstr(row("kueue_cluster_queue_nominal_quota", "cpu", "10")));
  EXPECT_THAT(text, HasSubstr(row("kueue_cluster_queue_nominal_quota", "gpu", "+Inf")));
  EXPECT_THAT(text, HasSubstr(row("kueue_cluster_queue_borrowing_limit", "cpu", "+Inf")));
  EXPECT_THAT(text, HasSubstr(row("kueue_cluster_queue_lending_limit", "cpu", "+Inf")));
  EXPECT_THAT(text, HasSubstr(row("kueue_cluster_queue_borrowing_limit", "gpu", "0")));
  EXPECT_THAT(text, HasSubstr(row("kueue_cluster_queue_lending_limit", "gpu", "4")));
}

TEST(Metrics, ANewReportReplacesTheOldSeries) {
  Metrics metrics({.leader_election = false, .cluster_queue_resources = true});
  metrics.SetClusterQueue("cq", Gauges());
  scheduler::ClusterQueueGauges moved = Gauges();
  moved.cohort = "other";
  moved.resources.pop_back();
  metrics.SetClusterQueue("cq", moved);
  const std::string text = metrics.Text();
  EXPECT_THAT(text, Not(HasSubstr("\"lab\"")));
  EXPECT_THAT(text, Not(HasSubstr("\"gpu\"")));
  EXPECT_THAT(text, HasSubstr("\"other\""));
}

TEST(Metrics, TheSeriesOfAQueueGoWithTheQueue) {
  Metrics metrics(
      {.leader_election = false, .local_queues = true, .cluster_queue_resources = true});
  metrics.SetClusterQueue("cq", Gauges());
  metrics.SetClusterQueue("stays", Gauges());
  metrics.SetLocalQueue("team", "lq", {});
  metrics.SetCohortShare("lab2", 3);
  metrics.SetFlavorCapacity("fl", scheduler::FlavorCapacity::kFixed, "nodes match");
  metrics.Admitted(Queue(), seconds(1), seconds(1));
  metrics.Finished(Queue(), seconds(1));
  metrics.Evicted(Queue(), "a", "b", true);
  metrics.GateRemoved("g", "cq", false, seconds(1));
  metrics.EvictionDone("cq", "a", seconds(1));
  EXPECT_THAT(metrics.Text(), HasSubstr("\"cq\""));
  EXPECT_THAT(metrics.Text(), HasSubstr("\"lq\""));
  metrics.RemoveClusterQueue("cq");
  metrics.RemoveLocalQueue("team", "lq");
  metrics.RemoveCohort("lab2");
  metrics.RemoveFlavor("fl");
  metrics.RemoveClusterQueue("never-was");
  const std::string text = metrics.Text();
  EXPECT_THAT(text, Not(HasSubstr("\"cq\"")));
  EXPECT_THAT(text, Not(HasSubstr("\"lq\"")));
  EXPECT_THAT(text, Not(HasSubstr("\"lab2\"")));
  EXPECT_THAT(text, Not(HasSubstr("\"fl\"")));
  EXPECT_THAT(text, HasSubstr("\"stays\""));
  // And come back.
  metrics.Admitted(Queue(), seconds(1), std::nullopt);
  EXPECT_THAT(
      metrics.Text(),
      HasSubstr(
          R"(kueue_admitted_workloads_total{replica_role="standalone",cluster_queue="cq",priority_class="high"} 1)"));
}

TEST(Metrics, InfiniteSharesAreNotANumber) {
  Metrics metrics({.leader_election = false});
  scheduler::ClusterQueueGauges gauges = Gauges();
  gauges.weighted_share = std::numeric_limits<std::int64_t>::max();
  metrics.SetClusterQueue("cq", gauges);
  EXPECT_THAT(
      metrics.Text(),
      HasSubstr(
          R"(kueue_cluster_queue_weighted_share{replica_role="standalone",cluster_queue="cq",cohort="lab"} Nan)"));
}

TEST(Metrics, LocalQueueSeriesWhereSwitchedOn) {
  Metrics metrics({.leader_election = false, .local_queues = true});
  metrics.Admitted(Queue(), seconds(1), std::nullopt);
  metrics.SetLocalQueue(
      "team", "lq", {.active = scheduler::ActiveState::kTrue, .pending_active = 4});
  EXPECT_THAT(
      metrics.Text(),
      HasSubstr(
          R"(kueue_local_queue_admitted_workloads_total{replica_role="standalone",name="lq",namespace="team",priority_class="high"} 1)"));
  EXPECT_THAT(
      metrics.Text(),
      HasSubstr(
          R"(kueue_local_queue_pending_workloads{replica_role="standalone",name="lq",namespace="team",status="active"} 4)"));
  EXPECT_THAT(
      metrics.Text(),
      HasSubstr(
          R"(kueue_local_queue_status{replica_role="standalone",active="True",name="lq",namespace="team"} 1)"));
}

TEST(Metrics, TheRoleFollowsTheLease) {
  Metrics metrics({.leader_election = true});
  metrics.AdmissionAttempt(false, seconds(0));
  EXPECT_THAT(metrics.Text(), HasSubstr(R"(replica_role="follower",result="inadmissible")"));
  metrics.SetLeader(true);
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("follower")));
  metrics.AdmissionAttempt(false, seconds(0));
  EXPECT_THAT(metrics.Text(), HasSubstr(R"(replica_role="leader",result="inadmissible")"));
}

TEST(Metrics, SamplesByNameAsTheControllerSendsThem) {
  std::string lines;
  log::SetSink([&lines](std::string_view line) { lines += line; });
  Metrics metrics({.leader_election = false, .local_queues = true});
  metrics.RecordCount("evicted_workloads_total",
                      {{"cluster_queue", "cq"},
                       {"reason", "Preempted"},
                       {"local_queue", "lq"},
                       {"namespace", "team"},
                       {"odd", "x"}});
  metrics.RecordSeconds("admission_wait_time_seconds", {{"cluster_queue", "cq"}}, -3);
  metrics.RecordSeconds("admission_wait_time_seconds", {{"cluster_queue", "cq"}}, 1e300);
  metrics.RecordCount("admission_wait_time_seconds", {{"cluster_queue", "cq"}});  // not a counter
  metrics.RecordCount("nonsense", {});
  metrics.RecordCount("nonsense", {});
  log::SetSink(nullptr);
  const std::string text = metrics.Text();
  EXPECT_THAT(
      text,
      HasSubstr(
          R"(kueue_evicted_workloads_total{replica_role="standalone",cluster_queue="cq",priority_class="",reason="Preempted",underlying_cause=""} 1)"));
  EXPECT_THAT(
      text,
      HasSubstr(
          R"(kueue_local_queue_evicted_workloads_total{replica_role="standalone",name="lq",namespace="team",priority_class="",reason="Preempted",underlying_cause=""} 1)"));
  EXPECT_THAT(
      text,
      HasSubstr(
          R"(kueue_admission_wait_time_seconds_count{replica_role="standalone",cluster_queue="cq",priority_class=""} 2)"));
  EXPECT_THAT(text, Not(HasSubstr("nonsense")));
  EXPECT_EQ(lines.find("nonsense"), lines.rfind("nonsense"));
  metrics.RemoveClusterQueue("cq");
  metrics.RemoveLocalQueue("team", "lq");
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("\"cq\"")));
}

TEST(Metrics, LabelValuesCannotBreakTheFormat) {
  Metrics metrics({.leader_election = false});
  metrics.ObjectRejected("a\"b\\c\nd");
  EXPECT_THAT(metrics.Text(), HasSubstr(R"(kind="a\"b\\c\nd")"));
}

}  // namespace
}  // namespace muster::server
