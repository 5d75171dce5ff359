#include "jobs/unit.h"

#include <gtest/gtest.h>

#include "api/object.h"
#include "base/digest.h"

namespace muster::jobs {
namespace {

using api::Json;

TEST(MergeDiff, MakesOnlyWhatDiffers) {
  const Json from = {{"a", 1}, {"b", {{"c", 2}, {"d", 3}}}, {"list", {1, 2}}, {"gone", "x"}};
  const Json to = {{"a", 1}, {"b", {{"c", 2}, {"d", 4}}}, {"list", {1, 2, 3}}, {"new", true}};
  const Json diff = MergeDiff(from, to);
  EXPECT_EQ(diff, (Json{{"b", {{"d", 4}}}, {"list", {1, 2, 3}}, {"gone", nullptr}, {"new", true}}));
  Json patched = from;
  patched.merge_patch(diff);
  EXPECT_EQ(patched, to);
  EXPECT_TRUE(MergeDiff(from, from).empty());
}

TEST(MergeTemplate, AddsAndNamesTheConflict) {
  PodSetInfo info;
  info.node_selector = {{"zone", "a"}};
  info.labels = {{"l", "v"}};
  info.gates = {"g"};
  info.tolerations = {Json{{"key", "k"}}};
  const Json pod_template = {{"spec", {{"nodeSelector", {{"disk", "ssd"}}}, {"x-new-field", 7}}}};
  const auto merged = MergeTemplate(pod_template, info);
  ASSERT_TRUE(merged);
  EXPECT_EQ((*merged)["spec"]["nodeSelector"], (Json{{"disk", "ssd"}, {"zone", "a"}}));
  EXPECT_EQ((*merged)["spec"]["x-new-field"], 7);  // WV-11
  EXPECT_EQ((*merged)["spec"]["schedulingGates"], Json::array({Json{{"name", "g"}}}));
  EXPECT_EQ((*merged)["metadata"]["labels"]["l"], "v");
  const auto twice = MergeTemplate(*merged, info);
  ASSERT_TRUE(twice);
  EXPECT_EQ(*twice, *merged);
  const auto conflict = MergeTemplate({{"spec", {{"nodeSelector", {{"zone", "b"}}}}}}, info);
  ASSERT_FALSE(conflict);
  EXPECT_EQ(conflict.error().message, "conflict for nodeSelector: key=zone, value1=b, value2=a");
}

// WV-07: long names are cut and told apart by the hash.
TEST(WorkloadName, FollowsTheReference) {
  EXPECT_EQ(WorkloadName("Job", "batch", "x", "u"),
            "job-x-" + Sha1Hex("Job\nbatch\nx\nu").substr(0, 5));
  const std::string long_name(253, 'a');
  const std::string name = WorkloadName("Job", "batch", long_name, "u");
  EXPECT_EQ(name.size(), 253U);
  EXPECT_NE(name, WorkloadName("Job", "batch", long_name.substr(0, 252) + "b", "u"));
}

UnitPodSet Set(const Json& spec, std::int32_t count) {
  UnitPodSet set;
  set.count = count;
  set.pod_template = std::make_shared<const Json>(Json{{"spec", spec}});
  return set;
}
api::PodSet Stored(const Json& spec, std::int32_t count) {
  api::PodSet set;
  set.count = count;
  set.pod_template.raw = std::make_shared<const Json>(Json{{"spec", spec}});
  return set;
}

// JL-09: the same quantity spelled differently is the same.
TEST(EquivalentPodSets, ComparesQuantitiesByValue) {
  const Json half =
      Json::parse(R"({"containers":[{"name":"c","resources":{"requests":{"memory":"0.5G"}}}]})");
  const Json same = Json::parse(
      R"({"containers":[{"name":"c","env":[],"resources":{"requests":{"memory":"500M"}}}],"initContainers":null})");
  const Json other =
      Json::parse(R"({"containers":[{"name":"c","resources":{"requests":{"memory":"501M"}}}]})");
  EXPECT_TRUE(EquivalentPodSets({Set(half, 1)}, {Stored(same, 1)}, std::nullopt, false, true));
  EXPECT_FALSE(EquivalentPodSets({Set(half, 1)}, {Stored(other, 1)}, std::nullopt, false, true));
  EXPECT_FALSE(EquivalentPodSets({Set(half, 2)}, {Stored(same, 1)}, std::nullopt, false, true));
}

TEST(EquivalentPodSets, SeesPlacementEditsOnlyWhileHeld) {
  const Json a = Json::parse(R"({"containers":[{"name":"c"}],"nodeSelector":{"zone":"a"}})");
  const Json b = Json::parse(R"({"containers":[{"name":"c"}],"nodeSelector":{"zone":"b"}})");
  EXPECT_FALSE(EquivalentPodSets({Set(a, 1)}, {Stored(b, 1)}, std::nullopt, false, true));
  EXPECT_TRUE(EquivalentPodSets({Set(a, 1)}, {Stored(b, 1)}, std::nullopt, true, false));
}

TEST(DropDuplicateEnv, KeepsTheLast) {
  const auto raw = std::make_shared<const Json>(Json::parse(
      R"({"spec":{"containers":[{"env":[{"name":"A","value":"1"},{"name":"B"},{"name":"A","value":"2"}]}]}})"));
  EXPECT_EQ((*DropDuplicateEnv(raw))["spec"]["containers"][0]["env"],
            Json::parse(R"([{"name":"B"},{"name":"A","value":"2"}])"));
  const auto clean = std::make_shared<const Json>(
      Json::parse(R"({"spec":{"containers":[{"env":[{"name":"A"}]}]}})"));
  EXPECT_EQ(DropDuplicateEnv(clean), clean);
}

TEST(TopologyRequestOf, ReadsTheAnnotations) {
  EXPECT_TRUE(TopologyRequestOf({{"other", "x"}}, {}).is_null());
  EXPECT_EQ(TopologyRequestOf({{"kueue.x-k8s.io/podset-required-topology", "rack"}}, "i"),
            (Json{{"required", "rack"}, {"podIndexLabel", "i"}}));
  EXPECT_EQ(TopologyRequestOf({{"kueue.x-k8s.io/podset-slice-required-topology", "rack"},
                               {"kueue.x-k8s.io/podset-slice-size", "99999999999999"}},
                              {}),
            (Json{{"podSetSliceRequiredTopology", "rack"}}));
}

}  // namespace
}  // namespace muster::jobs
