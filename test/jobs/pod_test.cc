#include "jobs/pod.h"

#include <gtest/gtest.h>

#include "api/object.h"
#include "base/digest.h"

namespace muster::jobs {
namespace {

using api::Json;
using api::Ptr;

Ptr<api::Pod> Read(const std::string& name, const char* patch = "{}") {
  Json json = Json::parse(
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"a","uid":"u","resourceVersion":"7",
    "labels":{"kueue.x-k8s.io/queue-name":"lq","kueue.x-k8s.io/managed":"true","kueue.x-k8s.io/pod-group-name":"g"},
    "annotations":{"kueue.x-k8s.io/pod-group-total-count":"2"}},
    "spec":{"schedulingGates":[{"name":"kueue.x-k8s.io/admission"},{"name":"other"}],
    "containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"1"}}}]},"status":{"phase":"Pending"}})");
  json["metadata"]["name"] = name;
  json["metadata"]["uid"] = "uid-" + name;
  json.merge_patch(Json::parse(patch));
  auto pod = api::DecodeAs<api::Pod>(json);
  EXPECT_TRUE(pod) << (pod ? "" : pod.error().message);
  return *pod;
}

TEST(RoleHash, IsGosJsonOfTheShape) {
  const std::string shape =
      R"({"spec":{"affinity":null,"containers":[{"ports":null,"resources":{"requests":{"cpu":"1"}}}],"initContainers":null,"nodeSelector":null,"overhead":null,"priority":null,"resourceClaims":null,"runtimeClassName":null,"tolerations":null,"topologySpreadConstraints":null}})";
  EXPECT_EQ(RoleHash(*Read("p")), Sha256Hex(shape).substr(0, 8));
  EXPECT_EQ(
      RoleHash(*Read("p", R"({"metadata":{"annotations":{"kueue.x-k8s.io/role-hash":"x"}}})")),
      "x");
  const std::string tolerating =
      R"({"spec":{"affinity":null,"containers":[{"ports":[{"name":"\u003cp","containerPort":80,"protocol":"TCP"}],"resources":{"requests":{"cpu":"1"}}}],"initContainers":null,"nodeSelector":null,"overhead":null,"priority":0,"resourceClaims":null,"runtimeClassName":null,"tolerations":[{"key":"k","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],"topologySpreadConstraints":null}})";
  const auto pod = Read(
      "p",
      R"({"spec":{"priority":0,"containers":[{"name":"c","image":"i","ports":[{"containerPort":80,"protocol":"TCP","name":"<p"}],
      "resources":{"requests":{"cpu":"1"}}}],"tolerations":[{"effect":"NoExecute","key":"k","operator":"Exists","tolerationSeconds":300}]}})");
  EXPECT_EQ(RoleHash(*pod), Sha256Hex(tolerating).substr(0, 8));
}

TEST(PodReleasePatch, PinsEveryTermAndKeepsForeignGates) {
  const auto pod = Read(
      "p",
      R"({"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
    {"matchExpressions":[{"key":"a","operator":"Exists"}]},{"matchExpressions":[{"key":"b","operator":"Exists"}]}]}}}}})");
  PodSetInfo info;
  info.node_selector = {{"pool", "p"}};
  const auto patch = PodReleasePatch(*pod, info, "n1");
  ASSERT_TRUE(patch) << patch.error().message;
  EXPECT_EQ((*patch)["metadata"]["resourceVersion"], "7");
  EXPECT_EQ((*patch)["spec"]["schedulingGates"], Json::array({Json{{"name", "other"}}}));
  const Json& terms =
      (*patch)["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
              ["nodeSelectorTerms"];
  ASSERT_EQ(terms.size(), 2U);
  for (const Json& term : terms) {
    EXPECT_EQ(term["matchFields"],
              Json::parse(R"([{"key":"metadata.name","operator":"In","values":["n1"]}])"));
    EXPECT_EQ(term["matchExpressions"].size(), 1U);
  }
  Json pinned = *pod->raw;
  pinned.merge_patch(*patch);
  pinned["apiVersion"] = "v1";
  pinned["kind"] = "Pod";
  EXPECT_EQ(NodeOfPod(**api::DecodeAs<api::Pod>(pinned)), "n1");
}

TEST(ReadPodGroup, WaitsForAllAndSortsByRole) {
  const auto a = Read("p1");
  const auto b = Read(
      "p2",
      R"({"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"2"}}}]}})");
  const Unit partial = ReadPodGroup("a", "g", {a});
  EXPECT_EQ(partial.not_ready, "'g' group has fewer runnable pods than expected");
  const Unit whole = ReadPodGroup("a", "g", {a, b});
  EXPECT_TRUE(whole.not_ready.empty());
  ASSERT_EQ(whole.pod_sets.size(), 2U);
  EXPECT_LT(whole.pod_sets[0].name, whole.pod_sets[1].name);
  EXPECT_EQ(whole.owners.size(), 2U);
  const auto other = Read("p3", R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"x"}}})");
  EXPECT_TRUE(ReadPodGroup("a", "g", {a, other}).not_ready_is_error);
  const auto failed = Read("p4", R"({"status":{"phase":"Failed"}})");
  EXPECT_FALSE(ReadPodGroup("a", "g", {a, failed}).not_ready.empty());
}

api::Workload Stored(const Unit& unit) {
  api::Workload workload;
  for (const UnitPodSet& set : unit.pod_sets) {
    api::PodSet stored;
    stored.name = set.name;
    stored.count = set.count;
    workload.pod_sets.push_back(stored);
  }
  return workload;
}

// PG-02: a pod deleted before it was scheduled is not active; its replacement stays.
TEST(CheckPodGroup, ReplacesWhatWasDeletedUnscheduled) {
  const auto a = Read("p1");
  const auto b = Read("p2");
  const api::Workload workload = Stored(ReadPodGroup("a", "g", {a, b}));
  EXPECT_EQ(CheckPodGroup({a, b}, workload).absent, 0);
  const auto gone = Read(
      "p1",
      R"({"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["kueue.x-k8s.io/managed"]}})");
  EXPECT_EQ(CheckPodGroup({gone, b}, workload).absent, 1);
  const auto again = Read("p1b");
  const GroupCleanup cleanup = CheckPodGroup({gone, again, b}, workload);
  EXPECT_EQ(cleanup.absent, 0);
  EXPECT_TRUE(cleanup.excess.empty());
  ASSERT_EQ(cleanup.replaced.size(), 1U);
  EXPECT_EQ(cleanup.replaced.front()->meta.name, "p1");
  const auto surplus = Read("p9", R"({"metadata":{"creationTimestamp":"2027-01-01T00:00:00Z"}})");
  const GroupCleanup over = CheckPodGroup({again, b, surplus}, workload);
  ASSERT_EQ(over.excess.size(), 1U);
  EXPECT_EQ(over.excess.front()->meta.name, "p9");
  const auto stranger = Read("s", R"({"spec":{"nodeSelector":{"x":"y"}}})");
  EXPECT_FALSE(CheckPodGroup({again, stranger}, workload).equivalent);
}

TEST(ReadNativeGang, IsCompleteWhenEachGroupIs) {
  api::PodGroup object;
  object.gang = true;
  object.min_count = 2;
  const auto shared = std::make_shared<const api::PodGroup>(object);
  const auto a = Read("p1");
  const auto b = Read("p2");
  EXPECT_EQ(ReadNativeGang("a", "PodGroup", "x", {{.name = "x", .object = shared, .pods = {a}}})
                .not_ready,
            "PodGroup \"x\" has 1 of at least 2 pods");
  const Unit whole =
      ReadNativeGang("a", "PodGroup", "x", {{.name = "x", .object = shared, .pods = {a, b}}});
  EXPECT_TRUE(whole.not_ready.empty());
  ASSERT_EQ(whole.pod_sets.size(), 1U);
  EXPECT_EQ(whole.pod_sets.front().count, 2);
  EXPECT_EQ(whole.pod_sets.front().name, "x");
  EXPECT_FALSE(
      ReadNativeGang("a", "PodGroup", "x", {{.name = "x", .object = nullptr, .pods = {a, b}}})
          .not_ready.empty());
  EXPECT_EQ(NativePodSetName(std::string(200, 'a'), "12345678", true).size(), 63U);
}

}  // namespace
}  // namespace muster::jobs
