#include <limits>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/object.h"

namespace muster::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

template <typename T>
Ptr<T> Must(const char* text) {
  Result<Json> json = ParseJson(text);
  EXPECT_TRUE(json) << json.error().message;
  Result<Ptr<T>> decoded = DecodeAs<T>(*json);
  EXPECT_TRUE(decoded) << decoded.error().message;
  return decoded ? *decoded : std::make_shared<const T>();
}

template <typename T>
std::string ErrorOf(const char* text) {
  const Result<Ptr<T>> decoded = DecodeAs<T>(Json::parse(text));
  return decoded ? "no error" : decoded.error().message;
}

TEST(Decode, ErrorsNameKindObjectAndPath) {
  EXPECT_EQ(
      ErrorOf<Job>(R"({"metadata":{"namespace":"team-a","name":"x"},"spec":{"parallelism":"3"}})"),
      "Job \"team-a/x\": spec.parallelism: expected an integer, got a string");
  EXPECT_EQ(ErrorOf<Job>(R"({"metadata":{"name":"x"},"spec":{"parallelism":2147483648}})"),
            "Job \"x\": spec.parallelism: out of range for a 32-bit integer: 2147483648");
  EXPECT_EQ(ErrorOf<Job>(R"({"metadata":{"name":"x"},"spec":{"parallelism":1.5}})"),
            "Job \"x\": spec.parallelism: expected an integer, got a number");
  EXPECT_EQ(ErrorOf<Job>(R"({"metadata":{"name":"x"},"spec":{"suspend":"true"}})"),
            "Job \"x\": spec.suspend: expected a boolean, got a string");
  EXPECT_EQ(ErrorOf<Job>(R"({"metadata":{"name":"x"},"spec":[]})"),
            "Job \"x\": spec: expected an object, got a list");
  EXPECT_EQ(ErrorOf<Job>(R"([])"), "Job \"\": expected an object, got a list");
  EXPECT_EQ(
      ErrorOf<Pod>(
          R"({"metadata":{"name":"x"},"spec":{"containers":[{},{"resources":{"requests":{"cpu":"1x"}}}]}})"),
      "Pod \"x\": spec.containers[1].resources.requests.cpu: \"1x\": quantities must match the "
      "regular expression "
      "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'");
  EXPECT_EQ(ErrorOf<Pod>(R"({"metadata":{"name":"x","labels":{"a.b/c":1}}})"),
            "Pod \"x\": metadata.labels[a.b/c]: expected a string, got an integer");
  EXPECT_EQ(ErrorOf<ClusterQueue>(R"({"metadata":{"name":"q"},"spec":{"stopPolicy":"Stop"}})"),
            "ClusterQueue \"q\": spec.stopPolicy: unsupported value \"Stop\", expected one of "
            "None, Hold, HoldAndDrain");
  EXPECT_EQ(
      ErrorOf<Workload>(R"({"metadata":{"name":"w","creationTimestamp":"yesterday"}})"),
      "Workload \"w\": metadata.creationTimestamp: expected a time in RFC 3339, got \"yesterday\"");
}

TEST(Decode, HostileNamesCannotBreakTheErrorLine) {
  const std::string message =
      ErrorOf<Job>(R"({"metadata":{"name":"a\nb","labels":{"x\u0000\ny":1}}})");
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_THAT(message, HasSubstr("metadata.labels[x??y]"));
}

TEST(Decode, NullEqualsAbsentAndUnknownFieldsAreIgnored) {
  const auto job = Must<Job>(
      R"({"metadata":{"name":"x","labels":null,"managedFields":7},"spec":{"parallelism":null,
      "suspend":null,"template":null,"later":{"a":[1]}},"status":null})");
  EXPECT_EQ(job->parallelism, std::nullopt);
  EXPECT_FALSE(job->suspend);
  ASSERT_NE(job->pod_template.raw, nullptr);
  EXPECT_EQ(*job->pod_template.raw, Json::object());
  EXPECT_TRUE(Must<Pod>(R"({"spec":{"containers":[null]}})")->spec.containers.size() == 1);
}

TEST(Decode, DeepTemplatesAreRefusedInsteadOfOverflowingTheStack) {
  Json deep = 1;
  for (int i = 0; i < 20'000; ++i) {
    Json next = Json::array();
    next.push_back(std::move(deep));
    deep = std::move(next);
  }
  Json job{{"metadata", {{"name", "x"}}}};
  job["spec"]["template"]["metadata"]["odd"] = std::move(deep);
  const auto decoded = DecodeAs<Job>(job);
  ASSERT_FALSE(decoded);
  EXPECT_THAT(decoded.error().message,
              HasSubstr("spec.template: nested more than 256 levels deep"));
}

TEST(Decode, Metadata) {
  const auto object =
      Must<Namespace>(R"({"metadata":{"name":"n","uid":"u","resourceVersion":"7","generation":3,
      "creationTimestamp":"2026-11-30T12:00:00Z","deletionTimestamp":"2026-11-30T12:00:01.5Z","labels":{"a":"b"},
      "annotations":{"c":"d"},"finalizers":["f"],
      "ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","name":"j","uid":"v","controller":true}]}})");
  EXPECT_EQ(object->meta.generation, 3);
  EXPECT_TRUE(object->meta.deleting());
  EXPECT_EQ(FormatTime(object->meta.creation_timestamp), "2026-11-30T12:00:00Z");
  ASSERT_NE(object->meta.controller(), nullptr);
  EXPECT_EQ(object->meta.controller()->uid, "v");
  EXPECT_THAT(object->meta.finalizers, ElementsAre("f"));
}

TEST(Decode, EveryKindDecodesFromNothingButMetadata) {
  for (const KindInfo& info : AllKinds()) {
    const Json json = Json::parse(R"({"metadata":{"name":"x","namespace":"n"}})");
    const Result<Object> decoded = Decode(info.kind, json);
    switch (info.kind) {
      case Kind::kProvisioningRequestConfig:
      case Kind::kMultiKueueConfig:
      case Kind::kMultiKueueCluster:
      case Kind::kLease:
      case Kind::kEvent:
        ASSERT_FALSE(decoded);
        EXPECT_THAT(decoded.error().message, HasSubstr("unsupported: "));
        break;
      default:
        ASSERT_TRUE(decoded) << info.name << ": " << decoded.error().message;
        EXPECT_EQ(KindOf(*decoded), info.kind);
        EXPECT_EQ(MetaOf(*decoded).name, "x");
    }
  }
}

TEST(DecodeMetaLeniently, TakesWhatItCan) {
  EXPECT_EQ(DecodeMetaLeniently(Json(3)).name, "");
  EXPECT_EQ(DecodeMetaLeniently(Json::parse(R"({"metadata":[]})")).name, "");
  const ObjectMeta meta = DecodeMetaLeniently(
      Json::parse(R"({"metadata":{"name":"x","uid":3,"labels":{"a":1,"b":"c"}}})"));
  EXPECT_EQ(meta.name, "x");
  EXPECT_EQ(meta.uid, "");
  EXPECT_THAT(meta.labels, ElementsAre(Pair("b", "c")));
}

TEST(Decode, Node) {
  const auto node = Must<Node>(R"({"metadata":{"name":"n"},"spec":{"unschedulable":true,
      "taints":[{"key":"k","effect":"NoSchedule"}]},
      "status":{"allocatable":{"cpu":"7910m","memory":"30Gi","nvidia.com/gpu":"8","pods":"110"},
                "conditions":[{"type":"Ready","status":"Unknown"}]}})");
  EXPECT_TRUE(node->unschedulable);
  EXPECT_FALSE(node->ready);
  EXPECT_EQ(node->allocatable.at("cpu").value(), 7910);
  EXPECT_EQ(node->allocatable.at("pods").value(), 110);
  EXPECT_EQ(node->taints.size(), 1U);
  EXPECT_TRUE(Must<Node>("{}")->ready);
}

TEST(Decode, PodSpecAndStatus) {
  const auto pod =
      Must<Pod>(R"({"metadata":{"name":"p","namespace":"a","managedFields":[{}]},"spec":{
      "schedulingGates":[{"name":"kueue.x-k8s.io/admission"}],"nodeName":"n","schedulerName":"s","priority":5,
      "schedulingGroup":{"podGroupName":"g"},"runtimeClassName":"r","priorityClassName":"pc",
      "initContainers":[{"name":"i","restartPolicy":"Always"}],
      "containers":[{"name":"c","ports":[{"hostPort":80,"protocol":"TCP"}],"resources":{"claims":[{"name":"gpu"}],"requests":{"cpu":1}}}],
      "affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
         {"matchExpressions":[{"key":"z","operator":"In","values":["a"]}],"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}]},
         "preferredDuringSchedulingIgnoredDuringExecution":[{"weight":7,"preference":{"matchExpressions":[]}}]},
         "podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"x"}]}},
      "topologySpreadConstraints":[{"maxSkew":1}],
      "tolerations":[{"key":"k","operator":"Exists","tolerationSeconds":30}],
      "resourceClaims":[{"name":"gpu","resourceClaimTemplateName":"t"}]},
      "status":{"phase":"Pending","resourceClaimStatuses":[{"name":"gpu","resourceClaimName":"p-gpu-x"}],
        "extendedResourceClaimStatus":{"resourceClaimName":"ext"},"conditions":[{"type":"Ready","status":"False"}]}})");
  const PodSpec& spec = pod->spec;
  EXPECT_TRUE(spec.HasGate("kueue.x-k8s.io/admission"));
  EXPECT_FALSE(spec.HasGate("other"));
  EXPECT_TRUE(spec.init_containers.at(0).restart_always);
  EXPECT_EQ(spec.containers.at(0).ports.at(0).host_port, 80);
  EXPECT_TRUE(spec.containers.at(0).has_requests);
  EXPECT_THAT(spec.containers.at(0).claims, ElementsAre("gpu"));
  ASSERT_TRUE(spec.required_affinity.present);
  EXPECT_EQ(spec.required_affinity.terms.at(0).match_fields.at(0).key, "metadata.name");
  EXPECT_EQ(spec.preferred_affinity.at(0).weight, 7);
  EXPECT_TRUE(spec.has_pod_affinity);
  EXPECT_TRUE(spec.has_spread_constraints);
  EXPECT_EQ(spec.scheduling_group, "g");
  EXPECT_EQ(spec.claims.at(0).template_name, "t");
  EXPECT_EQ(spec.tolerations.at(0).toleration_seconds, 30);
  EXPECT_EQ(spec.priority, 5);
  EXPECT_EQ(pod->claim_statuses.at(0).claim_name, "p-gpu-x");
  EXPECT_EQ(pod->extended_claim, "ext");
  ASSERT_NE(pod->raw, nullptr);
  EXPECT_FALSE(pod->raw->at("metadata").contains("managedFields"));
  EXPECT_EQ(pod->raw->at("spec").at("nodeName"), "n");
}

TEST(Decode, OnlyPodsThatMusterMayTouchKeepTheirText) {
  EXPECT_EQ(Must<Pod>(R"({"metadata":{"name":"p"},"spec":{}})")->raw, nullptr);
  EXPECT_NE(Must<Pod>(R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"q"}}})")->raw,
            nullptr);
  EXPECT_NE(Must<Pod>(R"({"metadata":{"labels":{"kueue.x-k8s.io/pod-group-name":"g"}}})")->raw,
            nullptr);
}

// BI-06.
TEST(Decode, JobWithCornerValues) {
  const auto job = Must<Job>(
      R"({"metadata":{"name":"j"},"spec":{"parallelism":2147483647,"completions":0,"backoffLimit":6,"suspend":true,
      "completionMode":"Indexed","managedBy":"x","template":{"metadata":{"labels":{"a":"b"}},"spec":{"later":1}}},
      "status":{"startTime":"2026-11-30T12:00:00Z","active":1,"ready":2,"terminating":3,"succeeded":4,"failed":5,
      "completedIndexes":"0-3,7","failedIndexes":"5","uncountedTerminatedPods":{"succeeded":["u","v"]},
      "conditions":[{"type":"Complete","status":"True","lastTransitionTime":"2026-11-30T12:00:00Z"}]}})");
  EXPECT_EQ(job->parallelism, 2147483647);
  EXPECT_EQ(job->completions, 0);
  EXPECT_TRUE(job->suspend && job->indexed && job->started);
  EXPECT_EQ(job->uncounted_succeeded, 2);
  EXPECT_EQ(job->terminating, 3);
  EXPECT_EQ(job->completed_indexes, "0-3,7");
  EXPECT_TRUE(ConditionTrue(job->conditions, "Complete"));
  EXPECT_EQ(job->pod_template.raw->at("spec").at("later"), 1);
  EXPECT_EQ(job->pod_template.labels.at("a"), "b");
}

TEST(Decode, ClusterQueue) {
  const auto queue = Must<ClusterQueue>(
      R"({"metadata":{"name":"q"},"spec":{"cohortName":"lab","queueingStrategy":"StrictFIFO",
      "namespaceSelector":{},"resourceGroups":[{"coveredResources":["cpu","gpu"],"flavors":[{"name":"f","resources":[
        {"name":"cpu","nominalQuota":"1E"},
        {"name":"gpu","nominalQuota":4,"borrowingLimit":"2","lendingLimit":0}]}]}],
      "flavorFungibility":{"whenCanBorrow":"TryNextFlavor","whenCanPreempt":"MayStopSearch","preference":"PreemptionOverBorrowing"},
      "preemption":{"reclaimWithinCohort":"Any","withinClusterQueue":"LowerOrNewerEqualPriority",
                    "borrowWithinCohort":{"policy":"LowerPriority","maxPriorityThreshold":100}},
      "admissionChecksStrategy":{"admissionChecks":[{"name":"c","onFlavors":["f"]}]},"stopPolicy":"HoldAndDrain",
      "fairSharing":{"weight":"1n"},"admissionScope":{"admissionMode":"UsageBasedAdmissionFairSharing"}},
      "status":{"pendingWorkloads":3}})");
  const ResourceQuota& cpu = queue->resource_groups.at(0).flavors.at(0).resources.at(0);
  EXPECT_TRUE(cpu.nominal.unlimited());
  EXPECT_EQ(cpu.nominal_quantity.ToString(), "1E");
  EXPECT_EQ(cpu.borrowing_limit, std::nullopt);
  const ResourceQuota& gpu = queue->resource_groups.at(0).flavors.at(0).resources.at(1);
  EXPECT_EQ(gpu.borrowing_limit, Amount(2));
  EXPECT_EQ(gpu.lending_limit, Amount(0));
  EXPECT_TRUE(queue->strict_fifo && queue->namespace_selector.present &&
              queue->usage_based_fair_sharing);
  EXPECT_TRUE(queue->fungibility.can_borrow_try_next);
  EXPECT_FALSE(queue->fungibility.can_preempt_try_next);
  EXPECT_TRUE(queue->fungibility.preemption_over_borrowing);
  EXPECT_EQ(queue->preemption.reclaim_within_cohort, PreemptionPolicy::kAny);
  EXPECT_EQ(queue->preemption.within_cluster_queue, PreemptionPolicy::kLowerOrNewerEqualPriority);
  EXPECT_EQ(queue->preemption.borrow_max_priority_threshold, 100);
  EXPECT_EQ(queue->stop_policy, StopPolicy::kHoldAndDrain);
  EXPECT_EQ(queue->fair_weight->ToString(), "1n");
  EXPECT_THAT(queue->admission_checks.at(0).on_flavors, ElementsAre("f"));
  EXPECT_EQ(queue->status->at("pendingWorkloads"), 3);

  const auto plain = Must<ClusterQueue>("{}");
  EXPECT_FALSE(plain->namespace_selector.present);
  EXPECT_FALSE(plain->fungibility.can_borrow_try_next);
  EXPECT_TRUE(plain->fungibility.can_preempt_try_next);
  EXPECT_EQ(plain->fair_weight, std::nullopt);
  EXPECT_EQ(plain->status, nullptr);
}

TEST(Decode, FairSharingWeightsKeepEveryDigit) {
  const std::string with = R"({"spec":{"fairSharing":{"weight":%}}})";
  for (const auto& [written, same] : {std::pair<std::string, std::string>{"0", "0"},
                                      {"2", "2"},
                                      {"\"1n\"", "1n"},
                                      {"\"2n\"", "2n"},
                                      {"\"750m\"", "750m"},
                                      {"-1", "-1"},
                                      {"\"1.000000001\"", "1000000001n"},
                                      {"1e18", "1e18"},
                                      {"\"1e18\"", "1e18"},
                                      {"1000000000000000000", "1E"}}) {
    std::string json = with;
    json.replace(json.find('%'), 1, written);
    const char* text = json.c_str();
    const Result<Quantity> wanted = Quantity::Parse(same);
    ASSERT_TRUE(wanted) << same;
    const auto queue = Must<ClusterQueue>(text);
    const auto cohort = Must<Cohort>(text);
    const auto local = Must<LocalQueue>(text);
    ASSERT_TRUE(queue->fair_weight && cohort->fair_weight && local->fair_weight) << json;
    EXPECT_EQ(*queue->fair_weight, *wanted) << json;
    EXPECT_EQ(*cohort->fair_weight, *wanted) << json;
    EXPECT_EQ(*local->fair_weight, *wanted) << json;
  }
  for (const char* text : {R"({})",
                           R"({"spec":{"fairSharing":{}}})",
                           R"({"spec":{"fairSharing":null}})",
                           R"({"spec":{"fairSharing":{"weight":null}}})"}) {
    EXPECT_EQ(Must<ClusterQueue>(text)->fair_weight, std::nullopt) << text;
    EXPECT_EQ(Must<Cohort>(text)->fair_weight, std::nullopt) << text;
    EXPECT_EQ(Must<LocalQueue>(text)->fair_weight, std::nullopt) << text;
  }
}

TEST(Decode, SmallQueueingKinds) {
  EXPECT_EQ(Must<Cohort>(R"({"spec":{"parentName":"p","fairSharing":{"weight":2}}})")->parent, "p");
  const auto queue = Must<LocalQueue>(R"({"spec":{"clusterQueue":"q","stopPolicy":"Hold"}})");
  EXPECT_EQ(queue->cluster_queue, "q");
  EXPECT_EQ(queue->stop_policy, StopPolicy::kHold);
  const auto flavor = Must<ResourceFlavor>(
      R"({"spec":{"nodeLabels":{"a":"b"},"nodeTaints":[{"key":"t","effect":"NoExecute"}],
      "tolerations":[{"operator":"Exists"}],"topologyName":"x"}})");
  EXPECT_EQ(flavor->topology_name, "x");
  EXPECT_EQ(flavor->node_taints.at(0).effect, "NoExecute");
  EXPECT_THAT(
      Must<Topology>(R"({"spec":{"levels":[{"nodeLabel":"rack"},{"nodeLabel":"host"}]}})")->levels,
      ElementsAre("rack", "host"));
  EXPECT_EQ(Must<WorkloadPriorityClass>(R"({"value":-3})")->value, -3);
  EXPECT_EQ(Must<AdmissionCheck>(R"({"spec":{"controllerName":"c"}})")->controller_name, "c");
}

TEST(Decode, Workload) {
  const auto w = Must<Workload>(
      R"({"metadata":{"name":"w","namespace":"a"},"spec":{"queueName":"q","priority":7,"active":false,
      "maximumExecutionTimeSeconds":60,"priorityClassRef":{"group":"kueue.x-k8s.io","kind":"WorkloadPriorityClass","name":"high"},
      "podSets":[{"template":{"spec":{"containers":[]}}},
                 {"name":"workers","count":0,"minCount":1,"template":{},"topologyRequest":{"required":"rack","podSetSliceSize":4,
                   "podSetSliceRequiredTopology":"host","podsetSliceRequiredTopologyConstraints":[{"topology":"t","size":2}]}}]},
      "status":{"conditions":[{"type":"QuotaReserved","status":"True"},{"type":"Finished","status":"False"}],
      "requeueState":{"count":2,"requeueAt":"2026-11-30T12:00:00Z"},"reclaimablePods":[{"name":"workers","count":3}],
      "accumulatedPastExecutionTimeSeconds":9,
      "admissionChecks":[{"name":"c","state":"Ready","message":"m","lastTransitionTime":"2026-11-30T12:00:00Z","retryCount":1,
         "podSetUpdates":[{"name":"main","nodeSelector":{"x":"y"},"tolerations":[{"key":"t","operator":"Exists"}]}]}],
      "admission":{"clusterQueue":"cq","podSetAssignments":[{"flavors":{"cpu":"f"},"resourceUsage":{"cpu":"1500m"},"count":3,
        "delayedTopologyRequest":"Pending"}]}}})");
  ASSERT_EQ(w->pod_sets.size(), 2U);
  EXPECT_EQ(w->pod_sets[0].name, "main");
  EXPECT_EQ(w->pod_sets[0].count, 1);
  EXPECT_EQ(w->pod_sets[1].count, 0);
  EXPECT_EQ(w->pod_sets[1].topology->slice_constraints.at(0).size, 2);
  EXPECT_FALSE(w->active);
  EXPECT_TRUE(w->quota_reserved());
  EXPECT_FALSE(w->finished() || w->admitted() || w->evicted());
  EXPECT_EQ(w->priority_class->name, "high");
  EXPECT_EQ(w->reclaimable_pods.at("workers"), 3);
  EXPECT_EQ(w->requeue_state->count, 2);
  EXPECT_EQ(w->accumulated_past_execution_seconds, 9);
  EXPECT_EQ(w->admission_checks.at(0).pod_set_updates.at(0).tolerations.at(0).key, "t");
  ASSERT_NE(w->admission_checks.at(0).pod_set_updates_raw, nullptr);
  const PodSetAssignment& assignment = w->admission->pod_sets.at(0);
  EXPECT_EQ(assignment.name, "main");
  EXPECT_EQ(assignment.resource_usage.at("cpu").MilliValue(), 1500);
  EXPECT_TRUE(assignment.delayed_topology_pending);
  ASSERT_NE(w->status, nullptr);
  EXPECT_TRUE(Must<Workload>("{}")->active);
}

std::string Assignment(const std::string& slices, const char* levels = R"(["rack","host"])") {
  return std::string(
             R"({"metadata":{"name":"w"},"status":{"admission":{"podSetAssignments":[{"topologyAssignment":{"levels":)") +
         levels + R"(,"slices":[)" + slices + "]}}]}}}";
}

TEST(Decode, TopologyAssignmentUnpacksItsSlices) {
  const auto w = Must<Workload>(
      Assignment(
          R"({"domainCount":2,"valuesPerLevel":[{"universal":"r1"},{"individual":{"prefix":"n-","suffix":".x","roots":["1","2"]}}],
                     "podCounts":{"individual":[3,4]}},
                    {"domainCount":1,"valuesPerLevel":[{"universal":"r2"},{"individual":{"roots":["m"]}}],"podCounts":{"universal":5}})")
          .c_str());
  const TopologyAssignment& topology = *w->admission->pod_sets.at(0).topology;
  ASSERT_EQ(topology.domains.size(), 3U);
  EXPECT_THAT(topology.domains[0].values, ElementsAre("r1", "n-1.x"));
  EXPECT_THAT(topology.domains[1].values, ElementsAre("r1", "n-2.x"));
  EXPECT_EQ(topology.domains[1].count, 4);
  EXPECT_THAT(topology.domains[2].values, ElementsAre("r2", "m"));
  EXPECT_EQ(topology.domains[2].count, 5);
}

TEST(Decode, TopologyAssignmentThatDoesNotAddUpIsRefused) {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"domainCount":2147483647,"valuesPerLevel":[{"universal":"a"},{"universal":"b"}],"podCounts":{"universal":1}})",
       "domainCount"},
      {R"({"domainCount":0,"valuesPerLevel":[{"universal":"a"},{"universal":"b"}],"podCounts":{"universal":1}})",
       "domainCount"},
      {R"({"valuesPerLevel":[{"universal":"a"},{"universal":"b"}],"podCounts":{"universal":1}})",
       "domainCount: required"},
      {R"({"domainCount":1,"valuesPerLevel":[{"universal":"a"}],"podCounts":{"universal":1}})",
       "one entry a level"},
      {R"({"domainCount":2,"valuesPerLevel":[{"universal":"a"},{"individual":{"roots":["x"]}}],"podCounts":{"universal":1}})",
       "valuesPerLevel[1].individual.roots"},
      {R"({"domainCount":1,"valuesPerLevel":[{"universal":"a"},{}],"podCounts":{"universal":1}})",
       "exactly one of universal"},
      {R"({"domainCount":1,"valuesPerLevel":[{"universal":"a"},{"universal":"b"}],"podCounts":{}})",
       "podCounts: exactly one"},
      {R"({"domainCount":1,"valuesPerLevel":[{"universal":"a"},{"universal":"b"}],"podCounts":{"individual":[1,2]}})",
       "podCounts.individual"},
      {R"({"domainCount":1,"valuesPerLevel":[{"universal":"a"},{"universal":"b"}],"podCounts":{"universal":-1}})",
       "greater than or equal"},
  };
  for (const auto& [slice, expected] : rows) {
    EXPECT_THAT(ErrorOf<Workload>(Assignment(slice).c_str()), HasSubstr(expected)) << slice;
  }
  const std::string big =
      R"({"domainCount":150000,"valuesPerLevel":[{"universal":"a"},{"universal":"b"}],"podCounts":{"universal":1}})";
  EXPECT_THAT(ErrorOf<Workload>(Assignment(big + "," + big).c_str()),
              HasSubstr("slices[1].domainCount"));
}

// BI-09: what the CRD would refuse must not crash the decoder.
TEST(Decode, WorkloadWithOddPodSets) {
  EXPECT_TRUE(Must<Workload>(R"({"spec":{"podSets":[]}})")->pod_sets.empty());
  EXPECT_EQ(Must<Workload>(R"({"spec":{"podSets":[{"name":"a"},{"name":"a"}]}})")->pod_sets.size(),
            2U);
  EXPECT_THAT(ErrorOf<Workload>(R"({"metadata":{"name":"w"},"spec":{"podSets":[{"count":-1}]}})"),
              HasSubstr("spec.podSets[0].count: must be greater than or equal to 0, got -1"));
  EXPECT_EQ(Must<Workload>(R"({"spec":{"podSets":[{"count":3,"minCount":5}]}})")
                ->pod_sets.at(0)
                .min_count,
            5);
}

TEST(Decode, ResourceSlice) {
  const auto slice = Must<ResourceSlice>(
      R"({"metadata":{"name":"s"},"spec":{"driver":"gpu.example.com","nodeName":"n",
      "pool":{"name":"p","generation":2,"resourceSliceCount":3},
      "devices":[{"name":"d","attributes":{"model":{"string":"A100"},"index":{"int":-1},"nvlink":{"bool":true},"driver":{"version":"1.2.3"},
         "list":{"strings":["a","b"]},"flags":{"bools":[true,false]}},
        "capacity":{"memory":{"value":"80Gi","requestPolicy":{"default":"1Gi","validRange":{"min":"1Gi","max":"80Gi","step":"1Gi"}}}},
        "consumesCounters":[{"counterSet":"c","counters":{"slices":{"value":"1"}}}],
        "taints":[{"key":"k","effect":"NoSchedule"}],"allowMultipleAllocations":true,"bindingConditions":["x"]}]}})");
  EXPECT_EQ(slice->generation, 2);
  EXPECT_EQ(slice->slice_count, 3);
  const Device& device = slice->devices.at(0);
  EXPECT_EQ(std::get<std::string>(device.attributes.at("model")), "A100");
  EXPECT_EQ(std::get<std::int64_t>(device.attributes.at("index")), -1);
  EXPECT_EQ(std::get<bool>(device.attributes.at("nvlink")), true);
  EXPECT_EQ(std::get<Version>(device.attributes.at("driver")).text, "1.2.3");
  EXPECT_THAT(std::get<std::vector<std::string>>(device.attributes.at("list")),
              ElementsAre("a", "b"));
  EXPECT_EQ(device.capacity.at("memory").policy->range_step->ToString(), "1Gi");
  EXPECT_EQ(device.consumes_counters.at(0).counters.at("slices").Value(), 1);
  EXPECT_TRUE(device.allow_multiple_allocations && device.has_binding_conditions);

  const auto counters = Must<ResourceSlice>(
      R"({"spec":{"sharedCounters":[{"name":"c","counters":{"m":{"value":"80Gi"}}}],"perDeviceNodeSelection":true}})");
  EXPECT_EQ(counters->shared_counters.at(0).counters.at("m").ToString(), "80Gi");
  EXPECT_TRUE(counters->per_device_node_selection);

  EXPECT_THAT(
      ErrorOf<ResourceSlice>(
          R"({"metadata":{"name":"n1-gpu"},"spec":{"devices":[{},{},{},{"capacity":{"m":{"value":[]}}}]}})"),
      HasSubstr("ResourceSlice \"n1-gpu\": spec.devices[3].capacity.m.value: expected a quantity, "
                "got a list"));
  EXPECT_THAT(ErrorOf<ResourceSlice>(R"({"spec":{"devices":[{"attributes":{"a":{}}}]}})"),
              HasSubstr("attributes.a: exactly one of"));
  EXPECT_THAT(ErrorOf<ResourceSlice>(
                  R"({"spec":{"devices":[{"attributes":{"a":{"int":1,"string":"x"}}}]}})"),
              HasSubstr("exactly one of"));
}

TEST(Decode, Claims) {
  const char* spec =
      R"({"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"gpu","count":2,
        "selectors":[{"cel":{"expression":"true"}}],"tolerations":[{"key":"k"}],"capacity":{"requests":{"memory":"10Gi"}}}},
      {"name":"f","firstAvailable":[{"name":"big","deviceClassName":"gpu","allocationMode":"All"},{"name":"small","deviceClassName":"mig"}]}],
      "constraints":[{"requests":["r"],"matchAttribute":"d/a"}],"config":[{"opaque":{}}]}})";
  const auto claim_template = Must<ResourceClaimTemplate>(
      (std::string(R"({"spec":{"metadata":{},"spec":)") + spec + "}}").c_str());
  const ClaimSpec& claim_spec = claim_template->spec;
  EXPECT_EQ(claim_spec.requests.at(0).exactly->count, 2);
  EXPECT_THAT(claim_spec.requests.at(0).exactly->selectors, ElementsAre("true"));
  EXPECT_EQ(claim_spec.requests.at(0).exactly->capacity_requests.at("memory").ToString(), "10Gi");
  EXPECT_TRUE(claim_spec.requests.at(1).first_available.at(0).all);
  EXPECT_EQ(claim_spec.requests.at(1).first_available.at(1).count, 1);
  EXPECT_EQ(claim_spec.constraints.at(0).match_attribute, "d/a");
  EXPECT_NE(claim_spec.config, nullptr);

  const auto claim = Must<ResourceClaim>(
      (std::string(R"({"metadata":{"name":"c","namespace":"a"},"spec":)") + spec +
       R"(,"status":{"allocation":{"devices":{"results":[{"request":"f/big","driver":"d","pool":"p","device":"x","shareID":"s",
         "consumedCapacity":{"memory":"1Gi"},"adminAccess":true}]},"nodeSelector":{"nodeSelectorTerms":[{}]}},
         "reservedFor":[{"resource":"pods","name":"p","uid":"u"}]}})")
          .c_str());
  EXPECT_TRUE(claim->allocated);
  EXPECT_EQ(claim->devices.at(0).consumed_capacity.at("memory").ToString(), "1Gi");
  EXPECT_TRUE(claim->devices.at(0).admin_access);
  EXPECT_TRUE(claim->allocation_node_selector.present);
  EXPECT_EQ(claim->reserved_for.at(0).uid, "u");
  EXPECT_FALSE(Must<ResourceClaim>(R"({"status":{}})")->allocated);

  EXPECT_THAT(ErrorOf<ResourceClaim>(R"({"spec":{"devices":{"requests":[{"name":"r"}]}}})"),
              HasSubstr("requests[0]: exactly one of"));
  EXPECT_THAT(ErrorOf<ResourceClaim>(
                  R"({"spec":{"devices":{"requests":[{"exactly":{"allocationMode":"Some"}}]}}})"),
              HasSubstr("unsupported value \"Some\""));
  EXPECT_THAT(
      ErrorOf<DeviceClass>(R"({"metadata":{"name":"c"},"spec":{"selectors":[{"later":{}}]}})"),
      HasSubstr("spec.selectors[0].cel.expression: required"));
}

TEST(Decode, DeviceTaintRuleKnowsAnAbsentSelectorFromAnEmptyOne) {
  EXPECT_FALSE(Must<DeviceTaintRule>(R"({"spec":{"taint":{"key":"k","effect":"NoExecute"}}})")
                   ->has_selector);
  EXPECT_TRUE(Must<DeviceTaintRule>(R"({"spec":{"deviceSelector":{}}})")->has_selector);
  EXPECT_EQ(Must<DeviceTaintRule>(R"({"spec":{"deviceSelector":{"pool":"p"}}})")->pool, "p");
}

TEST(Decode, NativeGangs) {
  const auto w =
      Must<NativeWorkload>(R"({"spec":{"controllerRef":{"apiGroup":"batch","kind":"Job","name":"j"},
      "podGroupTemplates":[{"name":"a"}],"compositePodGroupTemplates":[{"name":"c","podGroupTemplates":[{"name":"d"}]}]}})");
  EXPECT_EQ(w->controller_kind, "Job");
  EXPECT_THAT(w->template_names, ElementsAre("a", "c", "d"));
  const auto group = Must<PodGroup>(
      R"({"spec":{"workloadRef":{"workloadName":"w","templateName":"a"},"parentCompositePodGroupName":"p",
      "schedulingPolicy":{"gang":{"minCount":4}},"schedulingConstraints":{"topology":[{"key":"rack"}]},"priority":3,
      "resourceClaims":[{"name":"x","resourceClaimName":"y"}]},"status":{"resourceClaimStatuses":[{"name":"x","resourceClaimName":"z"}]}})");
  EXPECT_TRUE(group->gang);
  EXPECT_EQ(group->min_count, 4);
  EXPECT_EQ(group->topology_key, "rack");
  EXPECT_EQ(group->claim_statuses.at(0).claim_name, "z");
  EXPECT_FALSE(Must<PodGroup>(R"({"spec":{"schedulingPolicy":{"basic":{}}}})")->gang);
  EXPECT_EQ(Must<CompositePodGroup>(R"({"spec":{"schedulingPolicy":{"gang":{"minGroupCount":2}}}})")
                ->min_group_count,
            2);
}

// Every member of a full document replaced by every wrong type in turn: an error or a value, never
// a crash.
TEST(Decode, SurvivesWrongTypesEverywhere) {
  const Json documents[] = {
      Json::parse(
          R"({"metadata":{"name":"p","labels":{"kueue.x-k8s.io/queue-name":"q"},"ownerReferences":[{}]},"spec":{"containers":[{"resources":{"requests":{"cpu":1},
         "claims":[{}]},"ports":[{}]}],"initContainers":[{}],"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":
         {"nodeSelectorTerms":[{"matchExpressions":[{"values":["a"]}]}]}}},"tolerations":[{}],"schedulingGates":[{}]},"status":{"conditions":[{}]}})"),
      Json::parse(
          R"({"metadata":{},"spec":{"podSets":[{"count":1,"template":{"metadata":{},"spec":{}},"topologyRequest":{}}],"priorityClassRef":{}},
         "status":{"admission":{"podSetAssignments":[{"topologyAssignment":{"levels":["a"],"slices":[{"domainCount":1,"valuesPerLevel":
         [{"individual":{"roots":["x"]}}],"podCounts":{"individual":[1]}}]}}]},"admissionChecks":[{"podSetUpdates":[{}]}],"reclaimablePods":[{}]}})"),
      Json::parse(
          R"({"metadata":{},"spec":{"pool":{},"devices":[{"attributes":{"a":{"ints":[1]}},"capacity":{"c":{"value":1,"requestPolicy":{}}},
         "consumesCounters":[{"counters":{"x":{"value":1}}}],"taints":[{}]}],"sharedCounters":[{}],"resourceGroups":[{"flavors":[{"resources":[{}]}]}]}})"),
  };
  const Json wrong[] = {nullptr,
                        true,
                        3,
                        -1,
                        1.5,
                        "x",
                        Json::array(),
                        Json::array({1}),
                        Json::object(),
                        Json::parse(R"({"a":{"b":[]}})"),
                        std::numeric_limits<std::uint64_t>::max()};
  for (const Json& document : documents) {
    const Json flat = document.flatten();
    std::vector<std::string> pointers;
    for (auto it = flat.begin(); it != flat.end(); ++it) {
      for (std::string at = it.key(); !at.empty(); at.erase(at.rfind('/'))) {
        pointers.push_back(at);
      }
    }
    for (const std::string& pointer : pointers) {
      for (const Json& value : wrong) {
        Json changed = document;
        changed[Json::json_pointer(pointer)] = value;
        for (const KindInfo& info : AllKinds()) {
          const Result<Object> decoded = Decode(info.kind, changed);
          if (!decoded) {
            EXPECT_FALSE(decoded.error().message.empty());
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace muster::api
