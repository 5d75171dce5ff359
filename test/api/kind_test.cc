#include "api/kind.h"

#include <set>

#include <gtest/gtest.h>

namespace muster::api {
namespace {

TEST(Kind, PathsFollowTheApiMachinery) {
  EXPECT_EQ(Path(Kind::kPod, "", ""), "/api/v1/pods");
  EXPECT_EQ(Path(Kind::kPod, "a", ""), "/api/v1/namespaces/a/pods");
  EXPECT_EQ(Path(Kind::kPod, "a", "x", "status"), "/api/v1/namespaces/a/pods/x/status");
  EXPECT_EQ(Path(Kind::kJob, "a", "x"), "/apis/batch/v1/namespaces/a/jobs/x");
  EXPECT_EQ(Path(Kind::kWorkload, "a", "x", "status"),
            "/apis/kueue.x-k8s.io/v1beta2/namespaces/a/workloads/x/status");
  EXPECT_EQ(Path(Kind::kNativeWorkload, "a", "x"),
            "/apis/scheduling.k8s.io/v1beta1/namespaces/a/workloads/x");
  EXPECT_EQ(Path(Kind::kClusterQueue, "ignored", "q"),
            "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/q");
  EXPECT_EQ(Path(Kind::kNode, "", "n/..?x"), "/api/v1/nodes/n%2F..%3Fx");
  EXPECT_EQ(Path(Kind::kEvent, "a", ""), "/apis/events.k8s.io/v1/namespaces/a/events");
}

TEST(Kind, EveryKindIsFoundByGroupAndName) {
  std::set<std::pair<std::string_view, std::string_view>> seen;
  EXPECT_EQ(AllKinds().size(), kKindCount);
  for (const KindInfo& info : AllKinds()) {
    EXPECT_TRUE(seen.emplace(info.group, info.name).second) << info.name;
    EXPECT_EQ(FindKind(info.group, info.name), info.kind);
    EXPECT_EQ(&Info(info.kind), &info);
  }
  EXPECT_EQ(FindKind("", "Workload"), std::nullopt);
  EXPECT_EQ(Info(Kind::kWorkload).ApiVersion(), "kueue.x-k8s.io/v1beta2");
  EXPECT_EQ(Info(Kind::kPod).ApiVersion(), "v1");
}

}  // namespace
}  // namespace muster::api
