// The stand-ins on the API server in memory: what jobs, pods, claims and nodes rely on.
#include "sim/stand_ins.h"

#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/access.h"
#include "test/sim/api_client.h"

namespace muster::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kPods = "/api/v1/namespaces/default/pods";
constexpr const char* kJobs = "/apis/batch/v1/namespaces/default/jobs";
constexpr const char* kClaims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";

Json Container(const char* cpu) {
  return Json{{"name", "main"}, {"image", "i"}, {"resources", {{"requests", {{"cpu", cpu}}}}}};
}

class StandIns : public ::testing::Test {
 protected:
  // Opens the world: with `nodes` of 4 cpu each, or with none at all.
  void Open(int nodes) {
    stand_ins_ = MakeStandIns(client_.server(), StandInOptions{.no_nodes = nodes == 0});
    for (int i = 1; i <= nodes; ++i) {
      AddNode("n" + std::to_string(i), "4");
    }
    Settle();
  }

  void AddNode(const std::string& name,
               const char* cpu,
               Json spec = Json::object(),
               const char* pods = "110") {
    Json node{{"apiVersion", "v1"},
              {"kind", "Node"},
              {"metadata", {{"name", name}, {"labels", {{"kubernetes.io/hostname", name}}}}},
              {"spec", std::move(spec)},
              {"status",
               {{"capacity", {{"cpu", cpu}, {"memory", "8Gi"}, {"pods", pods}}},
                {"allocatable", {{"cpu", cpu}, {"memory", "8Gi"}, {"pods", pods}}},
                {"conditions", Json::array({{{"type", "Ready"}, {"status", "True"}}})}}}};
    ASSERT_EQ(client_.Post("/api/v1/nodes", node).status, 201);
    (void)client_.Merge("/api/v1/nodes/" + name + "/status", Json{{"status", node["status"]}});
  }

  // Steps until nothing changes any more. The bound is far beyond what any of these worlds needs.
  void Settle() {
    for (int round = 0; round < 200; ++round) {
      bool changed = false;
      for (const auto& stand_in : stand_ins_) {
        changed = stand_in->Step(client_.now) || changed;
      }
      if (!changed) {
        return;
      }
    }
    FAIL() << "the stand-ins do not come to rest";
  }

  // Lets virtual time pass, stopping wherever a stand-in wants to wake.
  void Pass(Duration duration) {
    const TimePoint end = client_.now + duration;
    Settle();
    while (true) {
      std::optional<TimePoint> next;
      for (const auto& stand_in : stand_ins_) {
        const auto wake = stand_in->NextWake();
        if (wake && *wake > client_.now && (!next || *wake < *next)) {
          next = wake;
        }
      }
      if (!next || *next > end) {
        break;
      }
      client_.now = *next;
      Settle();
    }
    client_.now = end;
    Settle();
  }

  Json Job(const std::string& name,
           Json spec,
           Json pod_annotations = Json::object(),
           const char* cpu = "1") {
    spec["template"] = {
        {"metadata", {{"annotations", std::move(pod_annotations)}}},
        {"spec", {{"restartPolicy", "Never"}, {"containers", Json::array({Container(cpu)})}}}};
    return Json{{"apiVersion", "batch/v1"},
                {"kind", "Job"},
                {"metadata", {{"name", name}}},
                {"spec", std::move(spec)}};
  }
  Json Pod(const std::string& name,
           const char* cpu,
           Json spec = Json::object(),
           Json annotations = Json::object()) {
    spec["containers"] = Json::array({Container(cpu)});
    spec["restartPolicy"] = "Never";
    return Json{{"apiVersion", "v1"},
                {"kind", "Pod"},
                {"metadata", {{"name", name}, {"annotations", std::move(annotations)}}},
                {"spec", std::move(spec)}};
  }
  void Create(const char* collection, const Json& object) {
    const auto reply = client_.Post(collection, object);
    ASSERT_EQ(reply.status, 201) << reply.message();
    Settle();
  }

  Json Get(const std::string& path) { return client_.Get(path).body; }
  Json JobStatus(const std::string& name) {
    return ObjectAt(Get(std::string(kJobs) + "/" + name), "status");
  }
  std::vector<Json> Pods() {
    std::vector<Json> out;
    const Json list = Get(kPods);
    for (const Json& pod : ListAt(list, "items")) {
      out.push_back(pod);
    }
    return out;
  }
  std::vector<Json> Pods(std::string_view phase) {
    std::vector<Json> out;
    for (const Json& pod : Pods()) {
      if (TextAt(ObjectAt(pod, "status"), "phase") == phase) {
        out.push_back(pod);
      }
    }
    return out;
  }
  std::string NodeOf(const std::string& pod) {
    return TextAt(ObjectAt(Get(std::string(kPods) + "/" + pod), "spec"), "nodeName");
  }
  // "Status reason" of a condition, or "" if there is none.
  static std::string Condition(const Json& status, std::string_view type) {
    for (const Json& condition : ListAt(status, "conditions")) {
      if (TextAt(condition, "type") == type) {
        return TextAt(condition, "status") + " " + TextAt(condition, "reason");
      }
    }
    return "";
  }

  test::Client client_;
  std::vector<std::unique_ptr<StandIn>> stand_ins_;
};

// ---- jobs ----

TEST_F(StandIns, AJobRunsItsPodsAndCompletes) {
  Open(1);
  Create(kJobs,
         Job("a", {{"completions", 3}, {"parallelism", 2}}, {{"sim.muster.dev/run", "10s"}}));
  EXPECT_THAT(Pods("Running"), SizeIs(2));
  Json status = JobStatus("a");
  EXPECT_EQ(IntAt(status, "active"), 2);
  EXPECT_EQ(IntAt(status, "ready"), 2);
  EXPECT_TRUE(HasText(status, "startTime"));
  Pass(seconds(10));
  EXPECT_EQ(IntAt(JobStatus("a"), "succeeded"), 2);
  EXPECT_THAT(Pods("Running"), SizeIs(1));
  Pass(seconds(10));
  status = JobStatus("a");
  EXPECT_EQ(IntAt(status, "succeeded"), 3);
  EXPECT_EQ(Condition(status, "SuccessCriteriaMet"), "True CompletionsReached");
  EXPECT_EQ(Condition(status, "Complete"), "True CompletionsReached");
  EXPECT_TRUE(HasText(status, "completionTime"));
  EXPECT_EQ(IntAt(status, "active").value_or(0), 0);
  for (const Json& pod : Pods()) {
    EXPECT_THAT(TextsAt(ObjectAt(pod, "metadata"), "finalizers"), IsEmpty());
    const Json& labels = ObjectAt(ObjectAt(pod, "metadata"), "labels");
    EXPECT_EQ(TextAt(labels, "batch.kubernetes.io/job-name"), "a");
    EXPECT_EQ(TextAt(labels, "batch.kubernetes.io/controller-uid"),
              TextAt(ObjectAt(Get(std::string(kJobs) + "/a"), "metadata"), "uid"));
  }
}

TEST_F(StandIns, SuspendingTakesThePodsAwayWithoutCountingThem) {
  Open(1);
  Create(kJobs, Job("a", {{"completions", 2}, {"parallelism", 2}, {"suspend", true}}));
  EXPECT_THAT(Pods(), IsEmpty());
  EXPECT_EQ(Condition(JobStatus("a"), "Suspended"), "True JobSuspended");
  EXPECT_FALSE(HasText(JobStatus("a"), "startTime"));
  (void)client_.Merge(std::string(kJobs) + "/a", {{"spec", {{"suspend", false}}}});
  Pass(seconds(5));
  EXPECT_THAT(Pods("Running"), SizeIs(2));
  EXPECT_EQ(Condition(JobStatus("a"), "Suspended"), "False JobResumed");
  EXPECT_TRUE(HasText(JobStatus("a"), "startTime"));
  (void)client_.Merge(std::string(kJobs) + "/a", {{"spec", {{"suspend", true}}}});
  Settle();
  EXPECT_EQ(IntAt(JobStatus("a"), "active").value_or(0), 0);
  EXPECT_EQ(IntAt(JobStatus("a"), "terminating"), 2) << "running pods take their grace";
  Pass(seconds(2));
  const Json status = JobStatus("a");
  EXPECT_THAT(Pods(), IsEmpty());
  EXPECT_EQ(IntAt(status, "failed").value_or(0), 0);
  EXPECT_EQ(IntAt(status, "terminating").value_or(0), 0);
  EXPECT_FALSE(HasText(status, "startTime"));
  EXPECT_EQ(Condition(status, "Suspended"), "True JobSuspended");
}

TEST_F(StandIns, AJobOfAnotherControllerIsLeftAlone) {
  Open(1);
  Create(kJobs, Job("a", {{"managedBy", "kueue.x-k8s.io/multikueue"}}));
  EXPECT_THAT(Pods(), IsEmpty());
  EXPECT_EQ(Condition(JobStatus("a"), "Suspended"), "");
}

TEST_F(StandIns, AnIndexedJobKeepsItsBook) {
  Open(2);
  Create(kJobs,
         Job("a",
             {{"completions", 5}, {"parallelism", 3}, {"completionMode", "Indexed"}},
             {{"sim.muster.dev/run", "10s"}}));
  std::set<std::string> indexes;
  for (const Json& pod : Pods("Running")) {
    indexes.insert(TextAt(ObjectAt(ObjectAt(pod, "metadata"), "annotations"),
                          "batch.kubernetes.io/job-completion-index"));
    EXPECT_EQ(TextAt(ObjectAt(ObjectAt(pod, "metadata"), "labels"),
                     "batch.kubernetes.io/job-completion-index"),
              TextAt(ObjectAt(ObjectAt(pod, "metadata"), "annotations"),
                     "batch.kubernetes.io/job-completion-index"));
  }
  EXPECT_THAT(indexes, ElementsAre("0", "1", "2"));
  Pass(seconds(10));
  EXPECT_EQ(TextAt(JobStatus("a"), "completedIndexes"), "0-2");
  Pass(seconds(10));
  EXPECT_EQ(TextAt(JobStatus("a"), "completedIndexes"), "0-4");
  EXPECT_EQ(Condition(JobStatus("a"), "Complete"), "True CompletionsReached");
}

TEST_F(StandIns, FailuresAreRetriedWithBackoffUntilTheLimit) {
  Open(1);
  Create(kJobs,
         Job("a",
             {{"backoffLimit", 2}},
             {{"sim.muster.dev/run", "1s"}, {"sim.muster.dev/fail", "true"}}));
  Pass(seconds(1));
  EXPECT_EQ(IntAt(JobStatus("a"), "failed"), 1);
  EXPECT_THAT(Pods("Running"), IsEmpty()) << "the replacement waits 10 s";
  Pass(seconds(9));
  EXPECT_THAT(Pods("Running"), IsEmpty());
  Pass(seconds(1));
  EXPECT_THAT(Pods("Running"), SizeIs(1));
  Pass(seconds(1 + 20 + 1));
  const Json status = JobStatus("a");
  EXPECT_EQ(IntAt(status, "failed"), 3);
  EXPECT_EQ(Condition(status, "FailureTarget"), "True BackoffLimitExceeded");
  EXPECT_EQ(Condition(status, "Failed"), "True BackoffLimitExceeded");
  Pass(seconds(600));
  EXPECT_THAT(Pods("Failed"), SizeIs(3));
}

TEST_F(StandIns, AnIndexMayFailAlone) {
  Open(1);
  Create(kJobs,
         Job("a",
             {{"completions", 2},
              {"parallelism", 2},
              {"completionMode", "Indexed"},
              {"backoffLimitPerIndex", 0}},
             {{"sim.muster.dev/run", "5s"}}));
  // The pod of index 0 alone is made to fail.
  for (const Json& pod : Pods("Running")) {
    const Json& meta = ObjectAt(pod, "metadata");
    if (TextAt(ObjectAt(meta, "annotations"), "batch.kubernetes.io/job-completion-index") == "0") {
      (void)client_.Merge(std::string(kPods) + "/" + TextAt(meta, "name"),
                          {{"metadata", {{"annotations", {{"sim.muster.dev/fail", "true"}}}}}});
    }
  }
  Pass(seconds(5));
  const Json status = JobStatus("a");
  EXPECT_EQ(TextAt(status, "failedIndexes"), "0");
  EXPECT_EQ(TextAt(status, "completedIndexes"), "1");
  EXPECT_EQ(Condition(status, "Failed"), "True FailedIndexes");
}

TEST_F(StandIns, ADeletedRunningPodEndsAsFailedAndIsReplaced) {
  Open(1);
  Create(kJobs, Job("a", Json::object(), {{"sim.muster.dev/grace", "30s"}}));
  const std::string first = TextAt(ObjectAt(Pods()[0], "metadata"), "name");
  (void)client_.Delete(std::string(kPods) + "/" + first);
  Settle();
  EXPECT_EQ(IntAt(JobStatus("a"), "terminating"), 1);
  EXPECT_THAT(Pods("Running"), SizeIs(2)) << "the replacement does not wait for the grace";
  Pass(seconds(29));
  EXPECT_EQ(IntAt(JobStatus("a"), "failed").value_or(0), 0);
  Pass(seconds(1));
  EXPECT_EQ(IntAt(JobStatus("a"), "failed"), 1);
  EXPECT_THAT(Pods(), SizeIs(1)) << "once counted, the deleted pod is gone";
}

TEST_F(StandIns, APodMayBeReplacedOnlyOnceItHasEnded) {
  Open(1);
  Create(kJobs, Job("a", {{"podReplacementPolicy", "Failed"}}, {{"sim.muster.dev/grace", "30s"}}));
  (void)client_.Delete(std::string(kPods) + "/" + TextAt(ObjectAt(Pods()[0], "metadata"), "name"));
  Pass(seconds(29));
  EXPECT_THAT(Pods(), SizeIs(1)) << "no replacement beside the pod that ends";
  Pass(seconds(20));
  EXPECT_THAT(Pods("Running"), SizeIs(1));
  EXPECT_EQ(IntAt(JobStatus("a"), "failed"), 1);
}

TEST_F(StandIns, AJobIsCompleteOnlyWhenItsLastPodHasEnded) {
  Open(1);
  Create(kJobs,
         Job("a", {{"completions", 2}, {"parallelism", 2}}, {{"sim.muster.dev/run", "10s"}}));
  Create(kJobs,
         Job("b",
             {{"parallelism", 1}, {"activeDeadlineSeconds", 5}},
             {{"sim.muster.dev/grace", "20s"}}));
  Pass(seconds(5));
  EXPECT_EQ(Condition(JobStatus("b"), "FailureTarget"), "True DeadlineExceeded");
  EXPECT_EQ(Condition(JobStatus("b"), "Failed"), "") << "a pod still ends";
  Pass(seconds(20));
  EXPECT_EQ(Condition(JobStatus("b"), "Failed"), "True DeadlineExceeded");
  EXPECT_EQ(Condition(JobStatus("a"), "Complete"), "True CompletionsReached");
}

TEST_F(StandIns, LessParallelismTakesPodsAway) {
  Open(2);
  Create(kJobs, Job("a", {{"parallelism", 4}, {"completions", 8}}));
  EXPECT_THAT(Pods("Running"), SizeIs(4));
  (void)client_.Merge(std::string(kJobs) + "/a", {{"spec", {{"parallelism", 1}}}});
  Pass(seconds(2));
  EXPECT_THAT(Pods(), SizeIs(1));
  EXPECT_EQ(IntAt(JobStatus("a"), "failed").value_or(0), 0);
}

// ---- garbage ----

TEST_F(StandIns, PodsGoWithTheirJobAsTheDeletionAsks) {
  Open(1);
  for (const char* policy : {"Background", "Foreground"}) {
    Create(kJobs, Job("a", Json::object()));
    ASSERT_THAT(Pods(), SizeIs(1));
    (void)client_.Delete(std::string(kJobs) + "/a?propagationPolicy=" + policy);
    Settle();
    EXPECT_EQ(client_.Get(std::string(kJobs) + "/a").status == 404,
              std::string(policy) == "Background")
        << policy;
    Pass(seconds(2));
    EXPECT_THAT(Pods(), IsEmpty()) << policy;
    EXPECT_EQ(client_.Get(std::string(kJobs) + "/a").status, 404) << policy;
  }
  Create(kJobs, Job("a", Json::object()));
  (void)client_.Delete(std::string(kJobs) + "/a?propagationPolicy=Orphan");
  Pass(seconds(2));
  EXPECT_EQ(client_.Get(std::string(kJobs) + "/a").status, 404);
  ASSERT_THAT(Pods("Running"), SizeIs(1));
  EXPECT_THAT(ListAt(ObjectAt(Pods()[0], "metadata"), "ownerReferences"), IsEmpty());
}

TEST_F(StandIns, PodsOfADeletedNodeAreDropped) {
  Open(2);
  Create(kJobs, Job("a", Json::object(), Json::object(), "3"));
  EXPECT_EQ(NodeOf(TextAt(ObjectAt(Pods()[0], "metadata"), "name")), "n1");
  (void)client_.Delete("/api/v1/nodes/n1");
  Pass(seconds(15));
  ASSERT_THAT(Pods("Running"), SizeIs(1));
  EXPECT_EQ(NodeOf(TextAt(ObjectAt(Pods("Running")[0], "metadata"), "name")), "n2");
  EXPECT_EQ(IntAt(JobStatus("a"), "failed"), 1);
}

TEST_F(StandIns, ANamespaceTakesWhatIsInIt) {
  Open(1);
  ASSERT_EQ(
      client_
          .Post("/api/v1/namespaces",
                {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", "team"}}}})
          .status,
      201);
  ASSERT_EQ(client_.Post("/apis/batch/v1/namespaces/team/jobs", Job("a", Json::object())).status,
            201);
  Settle();
  (void)client_.Delete("/api/v1/namespaces/team");
  Pass(seconds(3));
  EXPECT_EQ(client_.Get("/api/v1/namespaces/team").status, 404);
  EXPECT_THAT(client_.server().List("/pods"), IsEmpty());
  EXPECT_THAT(client_.server().List("batch/jobs"), IsEmpty());
}

// ---- scheduling ----

TEST_F(StandIns, PodsGoToTheLeastAllocatedNodeThenByName) {
  Open(2);
  Create(kPods, Pod("a", "1"));
  Create(kPods, Pod("b", "1"));
  Create(kPods, Pod("c", "2"));
  EXPECT_EQ(NodeOf("a"), "n1");
  EXPECT_EQ(NodeOf("b"), "n2");
  EXPECT_EQ(NodeOf("c"), "n1");
  Create(kPods, Pod("d", "1"));
  EXPECT_EQ(NodeOf("d"), "n2");
}

TEST_F(StandIns, APodThatFitsNowhereSaysSoAndGoesWhenRoomIsFreed) {
  Open(1);
  Create(kPods, Pod("a", "3"));
  Create(kPods, Pod("b", "3"));
  EXPECT_EQ(NodeOf("b"), "");
  const Json status = ObjectAt(Get(std::string(kPods) + "/b"), "status");
  EXPECT_EQ(Condition(status, "PodScheduled"), "False Unschedulable");
  EXPECT_THAT(status.dump(), HasSubstr("0/1 nodes are available"));
  (void)client_.Delete(std::string(kPods) + "/a");
  Pass(seconds(1));
  EXPECT_EQ(NodeOf("b"), "n1");
}

TEST_F(StandIns, FiltersAreThoseOfKubeScheduler) {
  Open(1);
  AddNode("tainted",
          "4",
          {{"taints", Json::array({{{"key", "k"}, {"value", "v"}, {"effect", "NoSchedule"}}})}});
  AddNode("off", "4", {{"unschedulable", true}});
  AddNode("small", "4", Json::object(), "1");
  Settle();
  Create(kPods,
         Pod("tolerates",
             "1",
             {{"tolerations", Json::array({{{"key", "k"}, {"operator", "Exists"}}})},
              {"nodeSelector", {{"kubernetes.io/hostname", "tainted"}}}}));
  EXPECT_EQ(NodeOf("tolerates"), "tainted");
  Create(kPods,
         Pod("intolerant", "1", {{"nodeSelector", {{"kubernetes.io/hostname", "tainted"}}}}));
  EXPECT_EQ(NodeOf("intolerant"), "");
  Create(kPods, Pod("cordoned", "1", {{"nodeSelector", {{"kubernetes.io/hostname", "off"}}}}));
  EXPECT_EQ(NodeOf("cordoned"), "");
  const Json only_small{{"nodeAffinity",
                         {{"requiredDuringSchedulingIgnoredDuringExecution",
                           {{"nodeSelectorTerms",
                             Json::array({{{"matchFields",
                                            Json::array({{{"key", "metadata.name"},
                                                          {"operator", "In"},
                                                          {"values", {"small"}}}})}}})}}}}}};
  Create(kPods, Pod("first", "1", {{"affinity", only_small}}));
  Create(kPods, Pod("second", "1", {{"affinity", only_small}}));
  EXPECT_EQ(NodeOf("first"), "small");
  EXPECT_EQ(NodeOf("second"), "") << "the node takes one pod only";
  Create(kPods, Pod("gated", "1", {{"schedulingGates", Json::array({{{"name", "g"}}})}}));
  EXPECT_EQ(NodeOf("gated"), "");
  (void)client_.Merge(std::string(kPods) + "/gated", {{"spec", {{"schedulingGates", nullptr}}}});
  Settle();
  EXPECT_EQ(NodeOf("gated"), "n1");
}

TEST_F(StandIns, HostPortsAreTakenOncePerNode) {
  Open(1);
  for (const char* name : {"a", "b"}) {
    Json pod = Pod(name, "1");
    pod["spec"]["containers"][0]["ports"] =
        Json::array({{{"containerPort", 80}, {"hostPort", 8080}}});
    Create(kPods, pod);
  }
  EXPECT_EQ(NodeOf("a"), "n1");
  EXPECT_EQ(NodeOf("b"), "");
}

TEST_F(StandIns, WithoutAnyNodeEveryReleasedPodRuns) {
  Open(0);
  Create(kPods, Pod("a", "1000"));
  Create(kPods, Pod("gated", "1", {{"schedulingGates", Json::array({{{"name", "g"}}})}}));
  EXPECT_THAT(Pods("Running"), SizeIs(1));
  EXPECT_EQ(NodeOf("a"), "");
  (void)client_.Merge(std::string(kPods) + "/gated", {{"spec", {{"schedulingGates", nullptr}}}});
  Settle();
  EXPECT_THAT(Pods("Running"), SizeIs(2));
}

TEST_F(StandIns, AGangGoesWholeAndNotBeforeItsLastGate) {
  Open(1);
  ASSERT_EQ(client_
                .Post("/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups",
                      {{"apiVersion", "scheduling.k8s.io/v1beta1"},
                       {"kind", "PodGroup"},
                       {"metadata", {{"name", "g"}}},
                       {"spec", {{"schedulingPolicy", {{"gang", {{"minCount", 2}}}}}}}})
                .status,
            201);
  const Json group{{"podGroupName", "g"}};
  const Json gates = Json::array({{{"name", "x"}}});
  Create(kPods, Pod("a", "2", {{"schedulingGroup", group}}));
  EXPECT_EQ(NodeOf("a"), "") << "one of two";
  Create(kPods, Pod("b", "2", {{"schedulingGroup", group}, {"schedulingGates", gates}}));
  EXPECT_EQ(NodeOf("a"), "") << "one gated member keeps all out";
  Create(kPods, Pod("big", "1"));
  (void)client_.Merge(std::string(kPods) + "/b", {{"spec", {{"schedulingGates", nullptr}}}});
  Settle();
  EXPECT_EQ(NodeOf("a"), "") << "together they do not fit beside the other pod";
  EXPECT_EQ(NodeOf("b"), "");
  (void)client_.Delete(std::string(kPods) + "/big");
  Pass(seconds(1));
  EXPECT_EQ(NodeOf("a"), "n1");
  EXPECT_EQ(NodeOf("b"), "n1");
}

// ---- claims ----

class Claims : public StandIns {
 protected:
  void OpenWithDevices() {
    Open(2);
    ASSERT_EQ(client_
                  .Post("/apis/resource.k8s.io/v1/deviceclasses",
                        {{"apiVersion", "resource.k8s.io/v1"},
                         {"kind", "DeviceClass"},
                         {"metadata", {{"name", "gpu"}}},
                         {"spec", Json::object()}})
                  .status,
              201);
    const auto device = [](const char* name, int memory) {
      return Json{{"name", name},
                  {"attributes", {{"index", {{"int", memory}}}}},
                  {"capacity", {{"memory", {{"value", std::to_string(memory) + "Gi"}}}}}};
    };
    AddSlice("n1", Json::array({device("d0", 40)}));
    AddSlice("n2", Json::array({device("d0", 40), device("d1", 80)}));
    for (const auto& [name, memory] :
         std::vector<std::pair<std::string, int>>{{"any", 0}, {"big", 50}}) {
      const std::string selector =
          "device.capacity['drv.example.com'].memory.compareTo(quantity('" +
          std::to_string(memory) + "Gi')) >= 0";
      const Json request{{"name", "r"},
                         {"exactly",
                          {{"deviceClassName", "gpu"},
                           {"selectors", Json::array({{{"cel", {{"expression", selector}}}}})}}}};
      const auto reply = client_.Post(
          "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates",
          {{"apiVersion", "resource.k8s.io/v1"},
           {"kind", "ResourceClaimTemplate"},
           {"metadata", {{"name", name}}},
           {"spec", {{"spec", {{"devices", {{"requests", Json::array({request})}}}}}}}});
      ASSERT_EQ(reply.status, 201) << reply.message();
    }
    Settle();
  }
  void AddSlice(const char* node, Json devices) {
    const auto reply =
        client_.Post("/apis/resource.k8s.io/v1/resourceslices",
                     {{"apiVersion", "resource.k8s.io/v1"},
                      {"kind", "ResourceSlice"},
                      {"metadata", {{"name", std::string(node) + "-slice"}}},
                      {"spec",
                       {{"driver", "drv.example.com"},
                        {"nodeName", node},
                        {"pool", {{"name", node}, {"generation", 1}, {"resourceSliceCount", 1}}},
                        {"devices", std::move(devices)}}}});
    ASSERT_EQ(reply.status, 201) << reply.message();
  }
  Json WithClaim(const char* name,
                 const char* claim_template,
                 Json spec = Json::object(),
                 Json annotations = Json::object()) {
    spec["resourceClaims"] =
        Json::array({{{"name", "c"}, {"resourceClaimTemplateName", claim_template}}});
    return Pod(name, "100m", std::move(spec), std::move(annotations));
  }
  Json ClaimOf(const std::string& pod) {
    const Json object = Get(std::string(kPods) + "/" + pod);
    const Json& statuses = ListAt(ObjectAt(object, "status"), "resourceClaimStatuses");
    return statuses.empty()
               ? Json()
               : Get(std::string(kClaims) + "/" + TextAt(statuses[0], "resourceClaimName"));
  }
  std::string DeviceOf(const std::string& pod) {
    const Json claim = ClaimOf(pod);
    const Json& results =
        ListAt(ObjectAt(ObjectAt(ObjectAt(claim, "status"), "allocation"), "devices"), "results");
    return results.empty() ? "" : TextAt(results[0], "pool") + "/" + TextAt(results[0], "device");
  }
};

TEST_F(Claims, AreMadeForGatedPodsAndAllocatedWhenTheyGo) {
  OpenWithDevices();
  Create(kPods, WithClaim("a", "big", {{"schedulingGates", Json::array({{{"name", "g"}}})}}));
  Json claim = ClaimOf("a");
  ASSERT_TRUE(claim.is_object()) << "made while the pod is gated";
  EXPECT_TRUE(ObjectAt(ObjectAt(claim, "status"), "allocation").empty());
  (void)client_.Merge(std::string(kPods) + "/a", {{"spec", {{"schedulingGates", nullptr}}}});
  Settle();
  EXPECT_EQ(NodeOf("a"), "n2");
  EXPECT_EQ(DeviceOf("a"), "n2/d1");
  claim = ClaimOf("a");
  EXPECT_THAT(TextsAt(ObjectAt(claim, "metadata"), "finalizers"),
              ElementsAre("resource.kubernetes.io/delete-protection"));
  EXPECT_TRUE(HasText(ObjectAt(ObjectAt(claim, "status"), "allocation"), "allocationTimestamp"));
  EXPECT_EQ(TextAt(ListAt(ObjectAt(claim, "status"), "reservedFor").at(0), "name"), "a");
}

TEST_F(Claims, AreGivenBackWhenTheirPodIsOver) {
  OpenWithDevices();
  Create(kPods, WithClaim("a", "big", Json::object(), {{"sim.muster.dev/run", "10s"}}));
  Create(kPods, WithClaim("b", "big"));
  EXPECT_EQ(DeviceOf("a"), "n2/d1");
  EXPECT_EQ(NodeOf("b"), "") << "the only big device is taken";
  Pass(seconds(10));
  EXPECT_EQ(DeviceOf("b"), "n2/d1");
  EXPECT_EQ(NodeOf("b"), "n2");
  // And with the pod, its claim goes.
  (void)client_.Delete(std::string(kPods) + "/b");
  Pass(seconds(2));
  EXPECT_THAT(ListAt(Get(kClaims), "items"), IsEmpty());
}

TEST_F(Claims, TakeTheFirstDeviceThatFits) {
  OpenWithDevices();
  Create(kPods, WithClaim("a", "any", {{"nodeSelector", {{"kubernetes.io/hostname", "n2"}}}}));
  EXPECT_EQ(DeviceOf("a"), "n2/d0") << "in slice order, whatever others may need";
  Create(kPods, WithClaim("b", "big"));
  EXPECT_EQ(DeviceOf("b"), "n2/d1");
}

TEST_F(Claims, AnAllocationMadeBeforeIsHonoured) {
  OpenWithDevices();
  Create(kPods, WithClaim("a", "any", {{"schedulingGates", Json::array({{{"name", "g"}}})}}));
  const std::string name = TextAt(ObjectAt(ClaimOf("a"), "metadata"), "name");
  const std::string path = std::string(kClaims) + "/" + name;
  (void)client_.Merge(
      path, {{"metadata", {{"finalizers", {"resource.kubernetes.io/delete-protection"}}}}});
  const Json allocation{
      {"allocationTimestamp", "2027-01-15T08:00:00Z"},
      {"devices",
       {{"results",
         Json::array({{{"request", "r"},
                       {"driver", "drv.example.com"},
                       {"pool", "n2"},
                       {"device", "d1"}}})}}},
      {"nodeSelector",
       {{"nodeSelectorTerms",
         Json::array(
             {{{"matchFields",
                Json::array(
                    {{{"key", "metadata.name"}, {"operator", "In"}, {"values", {"n2"}}}})}}})}}}};
  const auto reply = client_.Merge(path + "/status", {{"status", {{"allocation", allocation}}}});
  ASSERT_EQ(reply.status, 200) << reply.message();
  Settle();
  (void)client_.Merge(std::string(kPods) + "/a", {{"spec", {{"schedulingGates", nullptr}}}});
  Settle();
  EXPECT_EQ(NodeOf("a"), "n2");
  EXPECT_EQ(DeviceOf("a"), "n2/d1");
  EXPECT_THAT(ListAt(ObjectAt(ClaimOf("a"), "status"), "reservedFor"), SizeIs(1));
}

// ---- cost ----

TEST_F(StandIns, AnIdleWorldCostsNothing) {
  Open(1);
  for (int i = 0; i < 20; ++i) {
    Create(kJobs, Job("j" + std::to_string(i), {{"suspend", true}}));
  }
  const std::int64_t before = client_.server().resource_version();
  for (int round = 0; round < 10; ++round) {
    for (const auto& stand_in : stand_ins_) {
      EXPECT_FALSE(stand_in->Step(client_.now));
    }
  }
  EXPECT_EQ(client_.server().resource_version(), before);
}

}  // namespace
}  // namespace muster::sim
