#include "jobs/batch_job.h"

#include <limits>

#include <gtest/gtest.h>

#include "api/object.h"

namespace muster::jobs {
namespace {

using api::Json;

api::Ptr<api::Job> Read(const char* spec,
                        const char* status = "{}",
                        const char* annotations = "{}") {
  Json json = Json::parse(
      R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j","namespace":"a","uid":"u","resourceVersion":"7"}})");
  json["spec"] = Json::parse(spec);
  if (!json["spec"].contains("template")) {
    json["spec"]["template"] = Json::parse(R"({"spec":{"containers":[{"name":"c","image":"i"}]}})");
  }
  json["status"] = Json::parse(status);
  json["metadata"]["annotations"] = Json::parse(annotations);
  json["metadata"]["labels"] = {{"kueue.x-k8s.io/queue-name", "lq"}};
  auto job = api::DecodeAs<api::Job>(json);
  EXPECT_TRUE(job) << (job ? "" : job.error().message);
  return *job;
}

// BI-06
TEST(JobPodCount, CornerValues) {
  EXPECT_EQ(JobPodCount(*Read(R"({"parallelism":0})")), 0);
  EXPECT_EQ(JobPodCount(*Read(R"({"parallelism":3})")), 3);
  EXPECT_EQ(JobPodCount(*Read(R"({"parallelism":5,"completions":3})")), 3);
  EXPECT_EQ(JobPodCount(*Read(R"({"parallelism":5,"completions":0})")), 0);
  EXPECT_EQ(JobPodCount(*Read(R"({"parallelism":2147483647})")),
            std::numeric_limits<std::int32_t>::max());
}

TEST(CountIndexes, UnitesRangesBelowTheLimit) {
  EXPECT_EQ(CountIndexes("0-3,7", "", 10), 5);
  EXPECT_EQ(CountIndexes("0-3", "2-5", 10), 6);
  EXPECT_EQ(CountIndexes("0-3", "4", 3), 3);
  EXPECT_EQ(CountIndexes("x,-1,3-1,,5", "", 10), 1);
  EXPECT_EQ(CountIndexes("0-2147483647", "", 2147483647), 2147483647);
}

// JL-01, JL-04, JL-05
TEST(ReadJob, ReclaimsWhatWillNotRunAgain) {
  const auto reclaimable = [](const char* spec, const char* status) {
    return ReadJob(*Read(spec, status), {}).reclaimable;
  };
  EXPECT_TRUE(
      reclaimable(R"({"parallelism":5,"completions":5,"completionMode":"Indexed"})", "{}").empty());
  EXPECT_EQ(reclaimable(R"({"parallelism":5,"completions":5,"completionMode":"Indexed"})",
                        R"({"failedIndexes":"4"})")
                .at("main"),
            1);
  EXPECT_TRUE(reclaimable(R"({"parallelism":3,"completions":3,"completionMode":"Indexed"})",
                          R"({"failedIndexes":"4"})")
                  .empty());
  EXPECT_EQ(reclaimable(R"({"parallelism":3,"completions":3,"completionMode":"Indexed"})",
                        R"({"completedIndexes":"0-3","succeeded":4})")
                .at("main"),
            3);
  EXPECT_TRUE(reclaimable(R"({"parallelism":2,"completions":4})", R"({"succeeded":2})").empty());
  EXPECT_EQ(reclaimable(R"({"parallelism":2,"completions":4})", R"({"succeeded":3})").at("main"),
            1);
}

TEST(JobPatches, StartAndStopRestoreTheTemplateExactly) {
  const char* spec = R"({"suspend":true,"parallelism":4,"completions":4,
    "template":{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"c"}],"tolerations":[{"key":"t","operator":"Exists"}]}}})";
  const char* annotations = R"({"kueue.x-k8s.io/job-min-parallelism":"2"})";
  const auto job = Read(spec, "{}", annotations);
  EXPECT_EQ(ReadJob(*job, {}).pod_sets.front().min_count, 2);
  PodSetInfo info;
  info.count = 3;
  info.labels = {{"kueue.x-k8s.io/podset", "main"}};
  info.node_selector = {{"pool", "p"}};
  info.tolerations = {Json{{"key", "q"}, {"operator", "Exists"}}};
  const auto start = JobStartPatch(*job, info);
  ASSERT_TRUE(start);
  EXPECT_EQ((*start)["metadata"]["resourceVersion"], "7");
  EXPECT_EQ((*start)["spec"]["suspend"], false);
  EXPECT_EQ((*start)["spec"]["parallelism"], 3);

  Json stored = Json::parse(spec);
  stored.merge_patch((*start)["spec"]);
  EXPECT_EQ(stored["template"]["spec"]["tolerations"].size(), 2U);
  stored["suspend"] = true;
  const auto stopped =
      Read(stored.dump().c_str(),
           R"({"conditions":[{"type":"Suspended","status":"True"}]})",
           R"({"kueue.x-k8s.io/job-min-parallelism":"2","kueue.x-k8s.io/stopping":"true"})");
  EXPECT_FALSE(ReadJob(*stopped, {}).suspended);
  EXPECT_TRUE(JobTemplateMutable(*stopped));
  const Json restore = JobRestorePatch(*stopped, *job->pod_template.raw, 4);
  stored.merge_patch(restore["spec"]);
  EXPECT_EQ(stored["template"]["spec"], Json::parse(spec)["template"]["spec"]);
  EXPECT_EQ(stored["template"]["metadata"]["labels"],
            Json::parse(spec)["template"]["metadata"]["labels"]);
  EXPECT_EQ(stored["parallelism"], 4);
}

TEST(JobTemplateMutable, WaitsForTheLastPod) {
  EXPECT_FALSE(JobTemplateMutable(
      *Read(R"({"suspend":true})", R"({"active":1,"startTime":"2026-01-01T00:00:00Z"})")));
  EXPECT_FALSE(
      JobTemplateMutable(*Read(R"({"suspend":true})", R"({"startTime":"2026-01-01T00:00:00Z"})")));
  EXPECT_TRUE(JobTemplateMutable(*Read(R"({"suspend":true})")));
}

}  // namespace
}  // namespace muster::jobs
