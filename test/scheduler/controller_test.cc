#include "scheduler/controller.h"

#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness.h"

namespace muster::scheduler {
namespace {

using api::Json;
using std::chrono::minutes;
using std::chrono::seconds;

const std::string kJobs = "/apis/batch/v1/namespaces/a/jobs/";

void InstallQueue(Harness& world, const std::string& cpu = "4") {
  world.Create(Flavor("default"));
  world.Create(ClusterQueue("cq", cpu));
  world.Create(LocalQueue("a", "lq", "cq"));
}

// What the Job controller does to the status.
void RunJob(Harness& world, const std::string& name, int active) {
  world.Merge(kJobs + name + "/status",
              {{"status",
                {{"active", active},
                 {"ready", active},
                 {"startTime", FormatTime(world.now)},
                 {"conditions", nullptr}}}});
}
void StopJob(Harness& world, const std::string& name) {
  world.Merge(kJobs + name + "/status",
              {{"status",
                {{"active", nullptr},
                 {"ready", nullptr},
                 {"startTime", nullptr},
                 {"conditions",
                  Json::array({{{"type", "Suspended"},
                                {"status", "True"},
                                {"reason", "JobSuspended"},
                                {"lastTransitionTime", FormatTime(world.now)}}})}}}});
}
void CompleteJob(Harness& world, const std::string& name, int succeeded) {
  const std::string time = FormatTime(world.now);
  world.Merge(kJobs + name + "/status",
              {{"status",
                {{"active", nullptr},
                 {"ready", nullptr},
                 {"succeeded", succeeded},
                 {"startTime", time},
                 {"completionTime", time},
                 {"conditions",
                  Json::array({{{"type", "SuccessCriteriaMet"},
                                {"status", "True"},
                                {"reason", "CompletionsReached"},
                                {"lastTransitionTime", time}},
                               {{"type", "Complete"},
                                {"status", "True"},
                                {"reason", "CompletionsReached"},
                                {"message", "Reached expected number of succeeded pods"},
                                {"lastTransitionTime", time}}})}}}});
}

TEST(Controller, TakesAJobFromCreationToTheEnd) {
  Harness world;
  InstallQueue(world);
  world.Create(Job("a", "j", "lq", 2, "1"));
  ASSERT_TRUE(world.Settle());
  Json workload = world.OnlyWorkload("a");
  ASSERT_FALSE(workload.is_null());
  EXPECT_THAT(workload["metadata"]["name"].get<std::string>(),
              testing::MatchesRegex("job-j-[0-9a-f]{5}"));
  EXPECT_EQ(world.Condition(workload, "Admitted"), "True");
  EXPECT_EQ(workload["status"]["admission"]["clusterQueue"], "cq");
  EXPECT_EQ(workload["status"]["admission"]["podSetAssignments"][0]["resourceUsage"]["cpu"], "2");
  Json job = world.Get(kJobs + "j");
  EXPECT_EQ(job["spec"]["suspend"], false);
  EXPECT_EQ(job["spec"]["template"]["metadata"]["labels"]["kueue.x-k8s.io/podset"], "main");
  RunJob(world, "j", 2);
  ASSERT_TRUE(world.Settle());
  EXPECT_EQ(world.Condition(world.OnlyWorkload("a"), "PodsReady"), "True");
  CompleteJob(world, "j", 2);
  ASSERT_TRUE(world.Settle());
  workload = world.OnlyWorkload("a");
  EXPECT_EQ(world.Condition(workload, "Finished", "reason"), "Succeeded");
  EXPECT_EQ(world.Condition(workload, "Finished", "message"),
            "Reached expected number of succeeded pods");
  EXPECT_TRUE(workload["metadata"].value("finalizers", Json::array()).empty());
  world.Advance(seconds(5));
  const Json queue = world.Get("/apis/kueue.x-k8s.io/v1beta2/clusterqueues/cq");
  EXPECT_EQ(queue["status"]["admittedWorkloads"], 0);
  EXPECT_EQ(world.Condition(queue, "Active", "reason"), "Ready");
}

TEST(Controller, WritesTwiceForAnAdmissionAndNeverForAnUnchangedRefusal) {
  Harness world;
  InstallQueue(world, "2");
  world.Settle();
  world.Create(Job("a", "big", "lq", 2, "1"));
  world.Settle();
  world.Advance(seconds(10));
  world.writes.clear();
  world.Create(Job("a", "waits", "lq", 2, "1"));
  world.Settle();
  world.Advance(minutes(20));
  int about = 0;
  for (const auto& write : world.writes) {
    about += write.target.find("/workloads") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(about, 2) << "creation, and one refusal";
  const std::size_t before = world.writes.size();
  world.Advance(minutes(5));
  EXPECT_EQ(world.writes.size(), before);
  EXPECT_TRUE(world.controller().Idle(world.now));
}

// JL-14, RL-02: after a cut at any write the next controller brings it to the same end.
TEST(Controller, ComesToTheSameEndAfterACutAtAnyWrite) {
  bool all_done = false;
  for (int cut = 0; cut < 60 && !all_done; ++cut) {
    Harness world;
    InstallQueue(world);
    world.cut_after = cut;
    world.Create(Job("a", "j", "lq", 2, "1"));
    world.Create(Job("a", "k", "lq", 3, "1"));
    ASSERT_TRUE(world.Settle());
    all_done = !world.cut;
    // Never does a job run whose admission is not stored.
    std::int64_t running = 0;
    for (const std::string name : {"j", "k"}) {
      if (world.Get(kJobs + name)["spec"]["suspend"] == false) {
        running += name == "j" ? 2 : 3;
        bool admitted = false;
        for (const Json* workload : world.server().List("kueue.x-k8s.io/workloads")) {
          admitted = admitted || (workload->at("metadata")["ownerReferences"][0]["name"] == name &&
                                  world.Condition(*workload, "Admitted") == "True");
        }
        EXPECT_TRUE(admitted) << name << " cut " << cut;
      }
    }
    EXPECT_LE(running, 4);
    world.cut_after = -1;
    world.Restart();
    ASSERT_TRUE(world.Settle()) << "cut " << cut;
    EXPECT_EQ(world.server().List("kueue.x-k8s.io/workloads").size(), 2U) << "cut " << cut;
    std::int64_t admitted = 0;
    for (const Json* workload : world.server().List("kueue.x-k8s.io/workloads")) {
      admitted += world.Condition(*workload, "Admitted") == "True" ? 1 : 0;
    }
    EXPECT_EQ(admitted, 1) << "cut " << cut;
    EXPECT_NE(world.Get(kJobs + "j")["spec"]["suspend"], world.Get(kJobs + "k")["spec"]["suspend"])
        << "cut " << cut;
  }
  EXPECT_TRUE(all_done);
}

// KW-08: conflicts are re-read and tried again, with one event in the end.
TEST(Controller, SurvivesConflicts) {
  Harness world;
  InstallQueue(world);
  int conflicts = 6;
  world.intercept = [&](const k8s::Request& request) -> std::optional<k8s::Response> {
    if (request.method == k8s::Method::kPatch && conflicts > 0) {
      --conflicts;
      return k8s::Response{
          .status = 409,
          .headers = {},
          .body = R"({"kind":"Status","status":"Failure","reason":"Conflict","code":409})"};
    }
    return std::nullopt;
  };
  world.Create(Job("a", "j", "lq", 2, "1"));
  ASSERT_TRUE(world.Settle());
  world.Advance(minutes(1));
  EXPECT_EQ(conflicts, 0);
  EXPECT_EQ(world.Condition(world.OnlyWorkload("a"), "Admitted"), "True");
  EXPECT_EQ(world.Get(kJobs + "j")["spec"]["suspend"], false);
  const auto admitted = std::ranges::count_if(
      world.events, [](const EventEffect& event) { return event.reason == "Admitted"; });
  EXPECT_EQ(admitted, 1);
}

// KW-05: a condition of somebody else survives our admission.
TEST(Controller, KeepsForeignConditions) {
  Harness world;
  InstallQueue(world);
  bool done = false;
  world.intercept = [&](const k8s::Request& request) -> std::optional<k8s::Response> {
    if (!done && request.method == k8s::Method::kPatch && request.target.ends_with("/status") &&
        request.target.contains("/workloads/")) {
      done = true;
      const std::string path = request.target;
      world.Merge(path,
                  {{"status",
                    {{"conditions",
                      Json::array({{{"type", "Z"},
                                    {"status", "True"},
                                    {"reason", "R"},
                                    {"message", ""},
                                    {"lastTransitionTime", FormatTime(world.now)}}})}}}});
    }
    return std::nullopt;
  };
  world.Create(Job("a", "j", "lq", 2, "1"));
  ASSERT_TRUE(world.Settle());
  world.Advance(seconds(30));
  EXPECT_TRUE(done);
  EXPECT_EQ(world.Condition(world.OnlyWorkload("a"), "Z"), "True");
  EXPECT_EQ(world.Condition(world.OnlyWorkload("a"), "Admitted"), "True");
}

// KW-09: a job whose start is always refused backs off, says so, and gives its quota to others.
TEST(Controller, BacksOffFromAStartThatIsAlwaysRefused) {
  Harness world;
  InstallQueue(world, "2");
  world.intercept = [&](const k8s::Request& request) -> std::optional<k8s::Response> {
    if (request.method == k8s::Method::kPatch && request.target == kJobs + "refused") {
      return k8s::Response{
          .status = 403,
          .headers = {},
          .body =
              R"({"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"policy says no"})"};
    }
    return std::nullopt;
  };
  world.Create(Job("a", "refused", "lq", 2, "1"));
  ASSERT_TRUE(world.Settle());
  world.Create(Job("a", "good", "lq", 2, "1"));
  ASSERT_TRUE(world.Settle());
  world.Advance(minutes(1));
  EXPECT_EQ(world.Get(kJobs + "good")["spec"]["suspend"], false);
  EXPECT_EQ(world.Get(kJobs + "refused")["spec"]["suspend"], true);
  int told = 0;
  for (const EventEffect& event : world.events) {
    told += event.reason == "WriteRefused" && event.note.contains("policy says no") ? 1 : 0;
    EXPECT_FALSE(event.reason == "Started" && event.regarding.name == "refused");
  }
  EXPECT_EQ(told, 1);
}

// MO-08, JL-09: preempted by deactivation and back three times; the text does not pile up and the
// template is restored.
TEST(Controller, DeactivatesReactivatesAndRestoresTheTemplate) {
  Harness world;
  Json flavor = Flavor("default");
  flavor["spec"]["nodeLabels"] = {{"pool", "p"}};
  world.Create(flavor);
  world.Create(ClusterQueue("cq", "4"));
  world.Create(LocalQueue("a", "lq", "cq"));
  world.Create(Job("a", "j", "lq", 2, "1"));
  ASSERT_TRUE(world.Settle());
  const std::string path = "/apis/kueue.x-k8s.io/v1beta2/namespaces/a/workloads/" +
                           world.OnlyWorkload("a")["metadata"]["name"].get<std::string>();
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(world.Get(kJobs + "j")["spec"]["suspend"], false) << round;
    EXPECT_EQ(world.Get(kJobs + "j")["spec"]["template"]["spec"]["nodeSelector"]["pool"], "p");
    RunJob(world, "j", 2);
    ASSERT_TRUE(world.Settle());
    world.Merge(path, {{"spec", {{"active", false}}}});
    ASSERT_TRUE(world.Settle());
    EXPECT_EQ(world.Get(kJobs + "j")["spec"]["suspend"], true);
    // Pods still run: the quota is not given back.
    EXPECT_EQ(world.Condition(world.Get(path), "QuotaReserved"), "True");
    EXPECT_EQ(world.Condition(world.Get(path), "Evicted", "reason"), "Deactivated");
    StopJob(world, "j");
    ASSERT_TRUE(world.Settle());
    EXPECT_EQ(world.Condition(world.Get(path), "QuotaReserved"), "False");
    EXPECT_FALSE(world.Get(path)["status"].contains("admission"));
    const Json job = world.Get(kJobs + "j");
    EXPECT_FALSE(job["spec"]["template"]["spec"].contains("nodeSelector"))
        << job["spec"]["template"].dump();
    EXPECT_FALSE(
        job["metadata"].value("annotations", Json::object()).contains("kueue.x-k8s.io/stopping"));
    world.Advance(minutes(1));
    EXPECT_EQ(world.Get(kJobs + "j")["spec"]["suspend"], true) << "JL-07";
    world.Merge(path, {{"spec", {{"active", true}}}});
    ASSERT_TRUE(world.Settle());
    world.Advance(seconds(2));
  }
  const std::string message = world.Condition(world.Get(path), "Evicted", "message");
  EXPECT_EQ(message, "Previously: The workload is deactivated");
}

TEST(Controller, LetsASinglePodGo) {
  Harness world;
  InstallQueue(world);
  world.Create(HeldPod("a", "p", "lq", "1"));
  ASSERT_TRUE(world.Settle());
  const Json pod = world.Get("/api/v1/namespaces/a/pods/p");
  EXPECT_TRUE(pod["spec"].value("schedulingGates", Json::array()).empty()) << pod.dump();
  EXPECT_EQ(world.Condition(world.OnlyWorkload("a"), "Admitted"), "True");
  world.Merge("/api/v1/namespaces/a/pods/p/status", {{"status", {{"phase", "Succeeded"}}}});
  ASSERT_TRUE(world.Settle());
  EXPECT_EQ(world.Condition(world.OnlyWorkload("a"), "Finished"), "True");
  EXPECT_TRUE(world.Get("/api/v1/namespaces/a/pods/p")["metadata"]
                  .value("finalizers", Json::array())
                  .empty());
}

Json Member(const std::string& name, const std::string& group, int total, const std::string& cpu) {
  Json pod = HeldPod("a", name, "lq", cpu);
  pod["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] = group;
  pod["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] = std::to_string(total);
  return pod;
}

int Open(Harness& world, const std::vector<std::string>& names) {
  int open = 0;
  for (const std::string& name : names) {
    const Json pod = world.Get("/api/v1/namespaces/a/pods/" + name);
    open += pod.is_object() && pod["spec"].value("schedulingGates", Json::array()).empty() ? 1 : 0;
  }
  return open;
}

TEST(Controller, HoldsAPodGroupUntilAllOfItIsThereAndFits) {
  Harness world;
  InstallQueue(world, "3");
  world.Create(Member("p1", "g", 3, "1"));
  world.Create(Member("p2", "g", 3, "1"));
  ASSERT_TRUE(world.Settle());
  EXPECT_TRUE(world.OnlyWorkload("a").is_null());
  world.Create(Member("p3", "g", 3, "1"));
  ASSERT_TRUE(world.Settle());
  EXPECT_EQ(world.OnlyWorkload("a")["metadata"]["name"], "g");
  EXPECT_EQ(Open(world, {"p1", "p2", "p3"}), 3);
  world.Create(Member("q1", "h", 2, "1"));
  world.Create(Member("q2", "h", 2, "1"));
  ASSERT_TRUE(world.Settle());
  EXPECT_EQ(Open(world, {"q1", "q2"}), 0);
  for (const std::string name : {"p1", "p2", "p3"}) {
    world.Merge("/api/v1/namespaces/a/pods/" + name + "/status",
                {{"status", {{"phase", "Succeeded"}}}});
  }
  ASSERT_TRUE(world.Settle());
  EXPECT_EQ(Open(world, {"q1", "q2"}), 2);
}

// PG-01: a group may not take over somebody else's Workload.
TEST(Controller, KeepsAGroupAwayFromAForeignWorkload) {
  Harness world;
  InstallQueue(world);
  world.Create(Job("a", "j", "lq", 2, "1"));
  ASSERT_TRUE(world.Settle());
  const std::string name = world.OnlyWorkload("a")["metadata"]["name"];
  world.Create(Member("evil", name, 1, "50"));
  ASSERT_TRUE(world.Settle());
  EXPECT_EQ(Open(world, {"evil"}), 0);
  EXPECT_EQ(world.OnlyWorkload("a")["metadata"]["ownerReferences"].size(), 1U);
  EXPECT_TRUE(std::ranges::any_of(world.events, [](const EventEffect& event) {
    return event.reason == "WorkloadNameConflict";
  }));
}

void AddNativeGroup(Harness& world, const std::string& name, int least) {
  Json group = Json::parse(
      R"({"apiVersion":"scheduling.k8s.io/v1beta1","kind":"PodGroup","metadata":{"namespace":"a"},
    "spec":{"schedulingPolicy":{"gang":{}}}})");
  group["metadata"]["name"] = name;
  group["spec"]["schedulingPolicy"]["gang"]["minCount"] = least;
  world.Create(group);
}

void AddNativeMember(Harness& world, const std::string& name, const std::string& group) {
  Json pod = HeldPod("a", name, "lq", "1");
  pod["spec"]["schedulingGroup"] = {{"podGroupName", group}};
  world.Create(pod);
}

TEST(Controller, ReleasesANativeGangTogether) {
  Harness world;
  InstallQueue(world, "3");
  AddNativeGroup(world, "g", 2);
  AddNativeMember(world, "m1", "g");
  world.Advance(seconds(5));
  EXPECT_EQ(Open(world, {"m1"}), 0);
  AddNativeMember(world, "m2", "g");
  AddNativeMember(world, "m3", "g");
  ASSERT_TRUE(world.Settle());
  EXPECT_EQ(Open(world, {"m1", "m2", "m3"}), 3);
  EXPECT_EQ(world.OnlyWorkload("a")["spec"]["podSets"][0]["count"], 3);
}

// A member that comes after the admission queues by itself, also after a restart.
TEST(Controller, LetsALateNativeMemberQueueByItself) {
  Harness world;
  InstallQueue(world, "3");
  AddNativeGroup(world, "g", 2);
  AddNativeMember(world, "m1", "g");
  AddNativeMember(world, "m2", "g");
  world.Advance(seconds(2));
  EXPECT_EQ(Open(world, {"m1", "m2"}), 2);
  AddNativeMember(world, "m3", "g");
  AddNativeMember(world, "m4", "g");
  world.Advance(seconds(2));
  EXPECT_EQ(Open(world, {"m3"}) + Open(world, {"m4"}), 1) << "3 of 4 fit";
  world.Restart();
  world.Advance(seconds(2));
  EXPECT_EQ(Open(world, {"m1", "m2", "m3", "m4"}), 3);
  EXPECT_EQ(world.server().List("kueue.x-k8s.io/workloads").size(), 3U);
  world.Merge("/api/v1/namespaces/a/pods/m1/status", {{"status", {{"phase", "Succeeded"}}}});
  world.Merge("/api/v1/namespaces/a/pods/m2/status", {{"status", {{"phase", "Succeeded"}}}});
  world.Advance(seconds(2));
  EXPECT_EQ(Open(world, {"m1", "m2", "m3", "m4"}), 4);
}

// Members that have a node when the controller starts are in the inventory as pods; their promises
// must not be held on top.
TEST(Controller, CountsARunningGangOnceAfterARestart) {
  Harness world;
  InstallQueue(world, "8");
  for (const std::string node : {"n1", "n2"}) {
    Json object = Json::parse(R"({"apiVersion":"v1","kind":"Node","metadata":{},
      "status":{"allocatable":{"cpu":"4","pods":"10"},"conditions":[{"type":"Ready","status":"True"}]}})");
    object["metadata"]["name"] = node;
    world.Create(object);
  }
  world.Create(Job("a", "j", "lq", 4, "1"));
  ASSERT_TRUE(world.Settle());
  const Json job = world.Get(kJobs + "j");
  ASSERT_EQ(job["spec"]["suspend"], false);
  for (int i = 0; i < 4; ++i) {
    Json pod = Json::parse(R"({"apiVersion":"v1","kind":"Pod",
      "metadata":{"namespace":"a","ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","name":"j","controller":true}]},
      "spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"1"}}}]}})");
    pod["metadata"]["name"] = "j-" + std::to_string(i);
    pod["metadata"]["ownerReferences"][0]["uid"] = job["metadata"]["uid"];
    pod["spec"]["nodeName"] = i < 2 ? "n1" : "n2";
    world.Create(pod);
  }
  RunJob(world, "j", 4);
  ASSERT_TRUE(world.Settle());
  world.Restart();
  world.Create(Job("a", "k", "lq", 4, "1"));
  ASSERT_TRUE(world.Settle());
  world.Advance(seconds(5));
  EXPECT_EQ(world.Get(kJobs + "k")["spec"]["suspend"], false);
}

TEST(Controller, IgnoresAJobWithAnUnknownQueueButSaysWhy) {
  Harness world;
  InstallQueue(world);
  world.Create(Job("a", "j", "nowhere", 1, "1"));
  ASSERT_TRUE(world.Settle());
  world.Advance(seconds(5));
  EXPECT_EQ(world.Condition(world.OnlyWorkload("a"), "QuotaReserved", "reason"), "Misconfigured");
  EXPECT_EQ(world.Condition(world.OnlyWorkload("a"), "QuotaReserved", "message"),
            "LocalQueue nowhere doesn't exist");
  world.Create(LocalQueue("a", "nowhere", "cq"));
  ASSERT_TRUE(world.Settle());
  EXPECT_EQ(world.Condition(world.OnlyWorkload("a"), "Admitted"), "True");
}

TEST(Controller, TimesOutWhenPodsDoNotGetReady) {
  Options options;
  options.wait_for_pods_ready.timeout = minutes(5);
  options.wait_for_pods_ready.backoff_limit_count = 1;
  Harness world(options);
  InstallQueue(world);
  world.Create(Job("a", "j", "lq", 2, "1"));
  ASSERT_TRUE(world.Settle());
  // No pod ever comes, so that the quota is free at once; the next try is a minute later.
  world.Advance(minutes(5) + seconds(10));
  EXPECT_EQ(world.Condition(world.OnlyWorkload("a"), "Evicted", "reason"), "PodsReadyTimeout");
  EXPECT_EQ(world.Condition(world.OnlyWorkload("a"), "QuotaReserved"), "False");
  EXPECT_EQ(world.OnlyWorkload("a")["status"]["requeueState"]["count"], 1);
  EXPECT_EQ(world.Get(kJobs + "j")["spec"]["suspend"], true);
  world.Advance(minutes(1));
  EXPECT_EQ(world.Condition(world.OnlyWorkload("a"), "Requeued", "reason"), "BackoffFinished");
  EXPECT_EQ(world.Condition(world.OnlyWorkload("a"), "Admitted"), "True");
  world.Advance(minutes(5));
  EXPECT_EQ(world.OnlyWorkload("a")["spec"]["active"], false);
  EXPECT_EQ(world.Condition(world.OnlyWorkload("a"), "Evicted", "reason"),
            "DeactivatedDueToRequeuingLimitExceeded");
}

// Two members, two devices, of which one fits both: kube-scheduler would give it to the wrong one.
struct Devices {
  Devices() : world(IgnoreClasses()) {
    InstallQueue(world);
    world.Create(Json::parse(R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"},
      "status":{"allocatable":{"cpu":"8","memory":"8Gi","pods":"10"},"conditions":[{"type":"Ready","status":"True"}]}})"));
    world.Create(Json::parse(
        R"({"apiVersion":"resource.k8s.io/v1","kind":"DeviceClass","metadata":{"name":"gpu"},
      "spec":{"config":[{"opaque":{"driver":"d","parameters":{"mode":"x"}}}]}})"));
    world.Create(Json::parse(
        R"({"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","metadata":{"name":"s"},
      "spec":{"driver":"d","nodeName":"n1","pool":{"name":"n1","generation":1,"resourceSliceCount":1},
      "devices":[{"name":"big","attributes":{"big":{"bool":true}}},{"name":"small","attributes":{"big":{"bool":false}}}]}})"));
  }
  static Options IgnoreClasses() {
    Options options;
    options.unmapped_device_classes = UnmappedDeviceClasses::kIgnore;
    return options;
  }
  void AddMember(const std::string& name, const std::string& selector) {
    Json spec = Json::parse(
        R"({"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"gpu","allocationMode":"ExactCount","count":1}}]}})");
    if (!selector.empty()) {
      spec["devices"]["requests"][0]["exactly"]["selectors"] =
          Json::array({Json{{"cel", {{"expression", selector}}}}});
    }
    world.Create({{"apiVersion", "resource.k8s.io/v1"},
                  {"kind", "ResourceClaimTemplate"},
                  {"metadata", {{"namespace", "a"}, {"name", name}}},
                  {"spec", {{"spec", spec}}}});
    Json pod = Member(name, "g", 2, "1");
    pod["spec"]["resourceClaims"] =
        Json::array({Json{{"name", "c"}, {"resourceClaimTemplateName", name}}});
    pod["spec"]["containers"][0]["resources"]["claims"] = Json::array({Json{{"name", "c"}}});
    world.Create(pod);
    const std::string uid = world.Get("/api/v1/namespaces/a/pods/" + name)["metadata"]["uid"];
    world.Create({{"apiVersion", "resource.k8s.io/v1"},
                  {"kind", "ResourceClaim"},
                  {"metadata",
                   {{"namespace", "a"},
                    {"name", name + "-c"},
                    {"annotations", {{"resource.kubernetes.io/pod-claim-name", "c"}}},
                    {"ownerReferences",
                     Json::array({Json{{"apiVersion", "v1"},
                                       {"kind", "Pod"},
                                       {"name", name},
                                       {"uid", uid},
                                       {"controller", true}}})}}},
                  {"spec", spec}});
    world.Merge("/api/v1/namespaces/a/pods/" + name + "/status",
                {{"status",
                  {{"resourceClaimStatuses",
                    Json::array({Json{{"name", "c"}, {"resourceClaimName", name + "-c"}}})}}}});
  }
  std::string DeviceOf(const std::string& name) {
    const Json claim =
        world.Get("/apis/resource.k8s.io/v1/namespaces/a/resourceclaims/" + name + "-c");
    if (!claim.contains("status") || !claim["status"].contains("allocation")) {
      return {};
    }
    return claim["status"]["allocation"]["devices"]["results"][0]["device"];
  }
  Harness world;
};

TEST(Controller, AllocatesClaimsWhereTheFirstChoiceWouldSpoilThePlan) {
  Devices devices;
  devices.AddMember("p1-any", "");
  devices.AddMember("p2-big", "device.attributes[\"d\"].big");
  ASSERT_TRUE(devices.world.Settle());
  EXPECT_EQ(devices.DeviceOf("p1-any"), "small");
  EXPECT_EQ(devices.DeviceOf("p2-big"), "big");
  EXPECT_EQ(Open(devices.world, {"p1-any", "p2-big"}), 2);
  const Json claim =
      devices.world.Get("/apis/resource.k8s.io/v1/namespaces/a/resourceclaims/p1-any-c");
  EXPECT_THAT(claim["metadata"]["finalizers"].dump(),
              testing::HasSubstr("resource.kubernetes.io/delete-protection"));
  const Json& allocation = claim["status"]["allocation"];
  EXPECT_TRUE(allocation.contains("allocationTimestamp"));
  EXPECT_EQ(allocation["devices"]["config"][0]["source"], "FromClass");
  EXPECT_EQ(allocation["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["values"][0],
            "n1");
}

// A claim that may not be allocated is a start that is refused: the quota goes to others meanwhile.
TEST(Controller, BacksOffWhereTheAllocationOfClaimsIsRefused) {
  Devices devices;
  Harness& world = devices.world;
  bool refuse = true;
  world.intercept = [&](const k8s::Request& request) -> std::optional<k8s::Response> {
    if (refuse && request.target.contains("/resourceclaims/") &&
        request.target.ends_with("/status")) {
      return k8s::Response{
          .status = 422,
          .headers = {},
          .body =
              R"({"kind":"Status","status":"Failure","reason":"Invalid","code":422,"message":"requires resourceclaims/binding"})"};
    }
    return std::nullopt;
  };
  devices.AddMember("p1-any", "");
  devices.AddMember("p2-big", "device.attributes[\"d\"].big");
  ASSERT_TRUE(world.Settle());
  EXPECT_EQ(world.Condition(world.OnlyWorkload("a"), "QuotaReserved"), "True");
  EXPECT_EQ(Open(world, {"p1-any", "p2-big"}), 0);
  world.Create(Job("a", "waits", "lq", 3, "1"));
  world.Advance(minutes(1));
  EXPECT_EQ(world.Get(kJobs + "waits")["spec"]["suspend"], false);
  EXPECT_TRUE(std::ranges::any_of(world.events, [](const EventEffect& event) {
    return event.reason == "WriteRefused" && event.note.contains("resourceclaims/binding");
  }));
  refuse = false;
  RunJob(world, "waits", 3);
  CompleteJob(world, "waits", 3);
  world.Advance(minutes(30));
  EXPECT_EQ(Open(world, {"p1-any", "p2-big"}), 2);
  EXPECT_EQ(devices.DeviceOf("p1-any"), "small");
}

// The gate of no member opens before its claim is stored, wherever the controller is cut.
TEST(Controller, FinishesClaimsAfterACutAtAnyWrite) {
  bool all_done = false;
  for (int cut = 0; cut < 60 && !all_done; ++cut) {
    Devices devices;
    devices.AddMember("p1-any", "");
    devices.AddMember("p2-big", "device.attributes[\"d\"].big");
    devices.world.cut_after = cut;
    ASSERT_TRUE(devices.world.Settle());
    all_done = !devices.world.cut;
    for (const std::string name : {"p1-any", "p2-big"}) {
      EXPECT_TRUE(Open(devices.world, {name}) == 0 || !devices.DeviceOf(name).empty()) << cut;
    }
    devices.world.cut_after = -1;
    devices.world.Restart();
    ASSERT_TRUE(devices.world.Settle()) << cut;
    devices.world.Advance(minutes(1));
    EXPECT_EQ(Open(devices.world, {"p1-any", "p2-big"}), 2) << cut;
    EXPECT_NE(devices.DeviceOf("p1-any"), "big") << cut;
  }
  EXPECT_TRUE(all_done);
}

// A job, a pod and a group: started, evicted by a stopped queue, and the job taken up again to its
// end. Returns what is left of it all, without times and versions.
Json Life(Harness& world) {
  InstallQueue(world);
  const std::string queue = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/cq";
  world.Create(Job("a", "j", "lq", 1, "1"));
  world.Create(HeldPod("a", "p", "lq", "1"));
  world.Create(Member("g1", "g", 2, "1"));
  world.Create(Member("g2", "g", 2, "1"));
  world.Advance(minutes(5));
  EXPECT_EQ(Open(world, {"p", "g1", "g2"}), 3);
  RunJob(world, "j", 1);
  world.Merge(queue, {{"spec", {{"stopPolicy", "HoldAndDrain"}}}});
  world.Advance(minutes(5));
  StopJob(world, "j");
  world.Advance(minutes(5));
  world.Merge(queue, {{"spec", {{"stopPolicy", "None"}}}});
  world.Advance(minutes(5));
  EXPECT_EQ(world.Get(kJobs + "j")["spec"]["suspend"], false);
  RunJob(world, "j", 1);
  world.Advance(minutes(1));
  CompleteJob(world, "j", 1);
  world.Advance(minutes(5));
  EXPECT_TRUE(world.controller().Idle(world.now));
  Json left;
  for (const Json* object : world.server().All()) {
    const Json& meta = object->at("metadata");
    Json& out = left[object->at("kind").get<std::string>() + " " + meta.value("name", "")];
    out["finalizers"] = meta.value("finalizers", Json::array());
    out["deleting"] = meta.contains("deletionTimestamp");
    out["gates"] = object->value("/spec/schedulingGates"_json_pointer, Json::array());
    out["suspend"] = object->value("/spec/suspend"_json_pointer, Json());
    out["template"] = object->value("/spec/template"_json_pointer, Json());
    for (const char* field : {"admission", "pendingWorkloads", "admittedWorkloads"}) {
      out[field] = object->value(Json::json_pointer("/status") / field, Json());
    }
    for (const Json& condition : object->value("/status/conditions"_json_pointer, Json::array())) {
      out[condition["type"].get<std::string>()] = {condition["status"], condition["reason"]};
    }
  }
  return left;
}

// Nothing waits for a write that was refused once, or whose answer was lost after it was done.
TEST(Controller, ComesToTheSameEndWhenAnyWriteFailsOnce) {
  enum class Trouble : std::uint8_t { kRefused, kConflict, kAnswerLost, kNeverArrived };
  Harness undisturbed;
  const Json wanted = Life(undisturbed);
  const int writes = static_cast<int>(undisturbed.writes.size());
  EXPECT_GT(writes, 20);
  for (const Trouble trouble :
       {Trouble::kRefused, Trouble::kConflict, Trouble::kAnswerLost, Trouble::kNeverArrived}) {
    for (int fails = 0; fails < writes; ++fails) {
      Harness world;
      int seen = 0;
      std::string which;
      world.intercept = [&](const k8s::Request& request) -> std::optional<k8s::Response> {
        if (request.method == k8s::Method::kGet || seen++ != fails) {
          return std::nullopt;
        }
        which =
            std::string(k8s::ToString(request.method)) + " " + request.target + " " + request.body;
        switch (trouble) {
          case Trouble::kRefused:
            return k8s::Response{
                .status = 500,
                .headers = {},
                .body =
                    R"({"kind":"Status","status":"Failure","reason":"InternalError","code":500})"};
          case Trouble::kConflict:
            return k8s::Response{
                .status = 409,
                .headers = {},
                .body = R"({"kind":"Status","status":"Failure","reason":"Conflict","code":409})"};
          case Trouble::kAnswerLost:
            static_cast<void>(world.server().Handle(request, world.now));
            return k8s::Response{};
          case Trouble::kNeverArrived:
            return k8s::Response{};
        }
        return std::nullopt;
      };
      EXPECT_EQ(Life(world), wanted)
          << "trouble " << static_cast<int>(trouble) << " with write " << fails << ": " << which;
    }
  }
}

TEST(Controller, DrainsAStoppedQueueAndTakesUpAgain) {
  Harness world;
  InstallQueue(world);
  world.Create(Job("a", "j", "lq", 2, "1"));
  ASSERT_TRUE(world.Settle());
  const std::string path = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/cq";
  world.Merge(path, {{"spec", {{"stopPolicy", "HoldAndDrain"}}}});
  ASSERT_TRUE(world.Settle());
  StopJob(world, "j");
  world.Advance(seconds(3));
  EXPECT_EQ(world.Condition(world.OnlyWorkload("a"), "Requeued", "reason"), "ClusterQueueStopped");
  EXPECT_EQ(world.Condition(world.OnlyWorkload("a"), "Requeued"), "False");
  EXPECT_EQ(world.Condition(world.OnlyWorkload("a"), "QuotaReserved"), "False");
  world.Merge(path, {{"spec", {{"stopPolicy", "None"}}}});
  world.Advance(seconds(3));
  EXPECT_EQ(world.Condition(world.OnlyWorkload("a"), "Requeued", "reason"),
            "ClusterQueueRestarted");
  EXPECT_EQ(world.Condition(world.OnlyWorkload("a"), "Admitted"), "True");
}

TEST(Controller, FinishesTheWorkloadOfADeletedJob) {
  Harness world;
  InstallQueue(world);
  world.Create(Job("a", "j", "lq", 2, "1"));
  ASSERT_TRUE(world.Settle());
  world.Delete(kJobs + "j");
  ASSERT_TRUE(world.Settle());
  const Json workload = world.OnlyWorkload("a");
  if (!workload.is_null()) {
    EXPECT_EQ(world.Condition(workload, "Finished", "reason"), "OwnerNotFound");
    EXPECT_TRUE(workload["metadata"].value("finalizers", Json::array()).empty());
  }
}

}  // namespace
}  // namespace muster::scheduler
