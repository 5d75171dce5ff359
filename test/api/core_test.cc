#include "api/core.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/object.h"

namespace muster::api {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

ResourceVector Requests(const char* spec) {
  const Result<Ptr<Pod>> pod =
      DecodeAs<Pod>(Json{{"metadata", {{"name", "p"}}}, {"spec", Json::parse(spec)}});
  EXPECT_TRUE(pod) << pod.error().message;
  return pod ? PodRequests((*pod)->spec) : ResourceVector{};
}

std::int64_t Cpu(const char* spec) {
  const ResourceVector requests = Requests(spec);
  const auto it = requests.find("cpu");
  return it == requests.end() ? -1 : it->second.value();
}

TEST(PodRequests, SumsContainersAndAddsOverhead) {
  EXPECT_THAT(
      Requests(R"({"containers": [{"resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}}},
                                          {"resources": {"requests": {"cpu": 1}}}],
                           "overhead": {"cpu": "250m"}})"),
      ElementsAre(Pair("cpu", Amount(2750)), Pair("memory", Amount(std::int64_t{1} << 30))));
  EXPECT_TRUE(Requests("{}").empty());
  EXPECT_TRUE(Requests(R"({"containers": [{}]})").empty());
}

TEST(PodRequests, InitStepsCountTheirPeak) {
  EXPECT_EQ(
      Cpu(R"({"initContainers": [{"resources": {"requests": {"cpu": 5}}}, {"resources": {"requests": {"cpu": 3}}}],
                    "containers": [{"resources": {"requests": {"cpu": 2}}}]})"),
      5000);
}

TEST(PodRequests, SidecarsRunBesideLaterInitStepsAndTheContainers) {
  // Steps: sidecar 1; then 4 beside it = 5; then sidecar 2 (3 in all); containers 1 + 3 = 4.
  EXPECT_EQ(
      Cpu(R"({"initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"cpu": 1}}},
                                       {"resources": {"requests": {"cpu": 4}}},
                                       {"restartPolicy": "Always", "resources": {"requests": {"cpu": 2}}}],
                    "containers": [{"resources": {"requests": {"cpu": 1}}}]})"),
      5000);
  // A step before the sidecar does not count it.
  EXPECT_EQ(Cpu(R"({"initContainers": [{"resources": {"requests": {"cpu": 4}}},
                                       {"restartPolicy": "Always", "resources": {"requests": {"cpu": 1}}}],
                    "containers": [{"resources": {"requests": {"cpu": 2}}}]})"),
            4000);
}

TEST(PodRequests, MissingRequestsComeFromLimitsResourceByResource) {
  EXPECT_THAT(
      Requests(
          R"({"containers": [{"resources": {"requests": {"cpu": 1}, "limits": {"cpu": 2, "nvidia.com/gpu": 8}}}]})"),
      ElementsAre(Pair("cpu", Amount(1000)), Pair("nvidia.com/gpu", Amount(8))));
}

TEST(PodRequests, PodLevelRequestsReplaceTheSum) {
  EXPECT_THAT(
      Requests(R"({"resources": {"requests": {"cpu": 1, "nvidia.com/gpu": 1}},
                           "containers": [{"resources": {"requests": {"cpu": 3, "memory": "1", "nvidia.com/gpu": 4}}}],
                           "overhead": {"cpu": "100m"}})"),
      ElementsAre(
          Pair("cpu", Amount(1100)), Pair("memory", Amount(1)), Pair("nvidia.com/gpu", Amount(4))));
}

TEST(PodRequests, PodLevelLimitsFillOnlyWhatNobodyRequests) {
  EXPECT_THAT(
      Requests(R"({"resources": {"limits": {"cpu": 8, "memory": "4", "hugepages-2Mi": "4Mi"}},
                           "containers": [{"resources": {"requests": {"cpu": 3, "hugepages-2Mi": "2Mi"}}}]})"),
      ElementsAre(Pair("cpu", Amount(3000)),
                  Pair("hugepages-2Mi", Amount(4 << 20)),
                  Pair("memory", Amount(4))));
}

TEST(PodRequests, NegativeAmountsAreNoCreditAndHugeOnesSaturate) {
  EXPECT_EQ(
      Cpu(R"({"containers": [{"resources": {"requests": {"cpu": -5}}}, {"resources": {"requests": {"cpu": 2}}}]})"),
      2000);
  EXPECT_EQ(Cpu(R"({"containers": [{"resources": {"requests": {"cpu": 9223372036854776}}},
                                   {"resources": {"requests": {"cpu": 2}}}]})"),
            std::numeric_limits<std::int64_t>::max());
}

TEST(Tolerates, FollowsTheScheduler) {
  const Taint taint{.key = "k", .value = "v", .effect = "NoSchedule"};
  const Taint number{.key = "k", .value = "10", .effect = "NoSchedule"};
  struct Row {
    Toleration toleration;
    Taint taint;
    bool expected;
  };
  const Row rows[] = {
      {{.key = "k", .value = "v"}, taint, true},
      {{.key = "k", .op = "Equal", .value = "v", .effect = "NoSchedule"}, taint, true},
      {{.key = "k", .op = "Equal", .value = "w"}, taint, false},
      {{.key = "k", .op = "Exists"}, taint, true},
      {{.op = "Exists"}, taint, true},
      {{.key = "j", .op = "Exists"}, taint, false},
      {{.op = "Exists", .effect = "NoExecute"}, taint, false},
      {{.key = "k", .op = "Nonsense", .value = "v"}, taint, false},
      {{.key = "k", .op = "Lt", .value = "11"}, number, true},
      {{.key = "k", .op = "Lt", .value = "10"}, number, false},
      {{.key = "k", .op = "Gt", .value = "9"}, number, true},
      {{.key = "k", .op = "Gt", .value = "09"}, number, false},
      {{.key = "k", .op = "Gt", .value = "9"}, taint, false},
      {{.key = "k", .op = "Gt", .value = "99999999999999999999"}, number, false},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(Tolerates(row.toleration, row.taint), row.expected)
        << row.toleration.key << " " << row.toleration.op << " " << row.toleration.value;
  }
}

}  // namespace
}  // namespace muster::api
