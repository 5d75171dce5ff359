#include "scheduler/config.h"

#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::scheduler {
namespace {

using api::Json;

Json Document(const char* text) {
  Json json = Json::parse(text);
  json["apiVersion"] = "config.kueue.x-k8s.io/v1beta2";
  json["kind"] = "Configuration";
  return json;
}

std::string ErrorOf(const char* text) {
  const auto loaded = ReadConfiguration(Document(text));
  return loaded ? std::string() : loaded.error().message;
}

TEST(ReadConfiguration, TakesTheDefaults) {
  const auto loaded = ReadConfiguration(Document("{}"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_TRUE(loaded->not_implemented.empty());
  EXPECT_TRUE(loaded->options.wait_for_pods_ready.enabled);
  EXPECT_EQ(loaded->options.wait_for_pods_ready.timeout, std::chrono::minutes(30));
  EXPECT_EQ(loaded->options.lease_name, "c1f6bfd2.kueue.x-k8s.io");
}

TEST(ReadConfiguration, ReadsWhatIsImplementedAndListsTheRest) {
  const auto loaded = ReadConfiguration(Document(R"({
    "namespace":"kueue-system",
    "webhook":{"port":9443},
    "internalCertManagement":{"enable":true},
    "controller":{"groupKindConcurrency":{"Job.batch":5}},
    "clientConnection":{"qps":50,"burst":100},
    "integrations":{"frameworks":["batch/job","pod","jobset.x-k8s.io/jobset"],"labelKeysToCopy":["team"]},
    "waitForPodsReady":{"timeout":"5m","recoveryTimeout":"0s",
      "requeuingStrategy":{"timestamp":"Creation","backoffLimitCount":3,"backoffBaseSeconds":10}},
    "resources":{"excludeResourcePrefixes":["x.example.com"],
      "transformations":[{"input":"a","strategy":"Replace","outputs":{"b":"2"}}],
      "deviceClassMappings":[{"name":"gpus","deviceClassNames":["gpu"]}]},
    "objectRetentionPolicies":{"workloads":{"afterFinished":"1h"}},
    "muster":{"unmappedDeviceClasses":"Ignore"}})"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  const Options& options = loaded->options;
  EXPECT_EQ(options.namespace_name, "kueue-system");
  EXPECT_EQ(options.frameworks, (std::vector<std::string>{"batch/job", "pod"}));
  EXPECT_EQ(options.client_burst, 100);
  EXPECT_EQ(options.wait_for_pods_ready.recovery_timeout, Duration::zero());
  EXPECT_EQ(options.wait_for_pods_ready.backoff_limit_count, 3);
  EXPECT_EQ(options.wait_for_pods_ready.timestamp, RequeuingTimestamp::kCreation);
  EXPECT_EQ(options.retain_finished, std::chrono::hours(1));
  ASSERT_EQ(options.transformations.size(), 1U);
  EXPECT_EQ(options.transformations.front().strategy, TransformStrategy::kReplace);
  EXPECT_EQ(options.unmapped_device_classes, UnmappedDeviceClasses::kIgnore);
  EXPECT_THAT(loaded->not_implemented,
              testing::ElementsAre("controller",
                                   "integrations.frameworks[2] (jobset.x-k8s.io/jobset)",
                                   "internalCertManagement",
                                   "webhook"));
}

TEST(ReadConfiguration, NamesThePathOfWhatItRefuses) {
  EXPECT_EQ(ErrorOf(R"({"unknownKey":1})"), "Configuration: unknownKey: unknown field");
  EXPECT_EQ(ErrorOf(R"({"waitForPodsReady":{"requeuingStrategy":{"timestmp":"Creation"}}})"),
            "Configuration: waitForPodsReady.requeuingStrategy.timestmp: unknown field");
  EXPECT_EQ(ErrorOf(R"({"integrations":{"frameworks":["batch/jobs"]}})"),
            "Configuration: integrations.frameworks[0]: Unsupported value: \"batch/jobs\"");
  EXPECT_EQ(ErrorOf(R"({"waitForPodsReady":{"timeout":"-1s"}})"),
            "Configuration: waitForPodsReady.timeout: must be greater than or equal to 0");
  EXPECT_EQ(ErrorOf(R"({"waitForPodsReady":[]})"),
            "Configuration: waitForPodsReady: must be an object");
  EXPECT_EQ(ErrorOf(R"({"managedJobsNamespaceSelector":{}})"),
            "Configuration: managedJobsNamespaceSelector: should not match the \"kube-system\" "
            "namespace");
  EXPECT_EQ(ErrorOf(R"({"leaderElection":{"leaseDuration":"5s"}})"),
            "Configuration: leaderElection.leaseDuration: must be greater than renewDeadline");
  EXPECT_EQ(ErrorOf(R"({"fairSharing":{}})"), "") << "both strategies are the default";
  EXPECT_EQ(ErrorOf(R"({"fairSharing":{"preemptionStrategies":["LessThanInitialShare",
                                                               "LessThanOrEqualToFinalShare"]}})"),
            "Configuration: fairSharing.preemptionStrategies: must be "
            "[LessThanOrEqualToFinalShare], [LessThanInitialShare], or both in that order");
  EXPECT_FALSE(ReadConfiguration(Json::array()));
  EXPECT_FALSE(ReadConfiguration(
      {{"apiVersion", "config.kueue.x-k8s.io/v1beta1"}, {"kind", "Configuration"}}));
}

// Whatever is put anywhere, it is an answer and not a crash.
TEST(ReadConfiguration, TakesAnyTypeAnywhere) {
  const Json whole =
      Document(R"({"leaderElection":{"leaseDuration":"15s"},"metrics":{"bindAddress":":1"},
    "clientConnection":{"qps":1},"managedJobsNamespaceSelector":{"matchExpressions":[{"key":"k","operator":"Exists"}]},
    "integrations":{"frameworks":["pod"]},"waitForPodsReady":{"requeuingStrategy":{}},
    "resources":{"transformations":[{"input":"a","outputs":{"b":1}}],"deviceClassMappings":[{"name":"n","deviceClassNames":["c"]}]},
    "objectRetentionPolicies":{"workloads":{"afterFinished":"1h"}},"muster":{}})");
  const std::vector<Json> strange = {nullptr, true, -1, 1e300, "x", Json::array({1}), {{"x", 1}}};
  const Json flat = whole.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    for (Json::json_pointer at(pointer); !at.empty(); at = at.parent_pointer()) {
      for (const Json& replacement : strange) {
        Json changed = whole;
        changed[at] = replacement;
        const auto loaded = ReadConfiguration(changed);
        EXPECT_TRUE(loaded || !loaded.error().message.empty());
      }
    }
  }
}

}  // namespace
}  // namespace muster::scheduler
