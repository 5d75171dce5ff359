// The parts of the API server that have an answer of their own: patches, apply, selectors, tables,
// protobuf, access.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/access.h"
#include "sim/protobuf.h"
#include "sim/schema.h"
#include "sim/selectors.h"
#include "sim/tables.h"
#include "test/sim/api_client.h"

namespace muster::sim::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Schema* PodShape() {
  static const auto kShape = BuiltinTypes::Get().Find("", "v1", "Pod");
  return kShape.get();
}

Json Job(const std::string& name) {
  return {{"apiVersion", "batch/v1"},
          {"kind", "Job"},
          {"metadata", {{"name", name}}},
          {"spec",
           {{"parallelism", 2},
            {"template",
             {{"spec",
               {{"restartPolicy", "Never"},
                {"containers",
                 Json::array({{{"name", "main"}, {"image", "x"}},
                              {{"name", "side"}, {"image", "y"}}})}}}}}}}};
}
constexpr const char* kJobs = "/apis/batch/v1/namespaces/default/jobs";

TEST(StrategicPatch, MergesListsByTheirKeys) {
  Json pod = {{"spec",
               {{"containers",
                 Json::array({{{"name", "a"}, {"image", "1"}}, {{"name", "b"}, {"image", "2"}}})},
                {"schedulingGates", Json::array({{{"name", "g"}}, {{"name", "h"}}})},
                {"tolerations", Json::array({{{"key", "t"}}})}}}};
  const Json patch = {
      {"spec",
       {{"containers",
         Json::array({{{"name", "b"}, {"image", "3"}}, {{"name", "c"}, {"image", "4"}}})},
        {"$setElementOrder/containers",
         Json::array({{{"name", "c"}}, {{"name", "a"}}, {{"name", "b"}}})},
        {"schedulingGates", Json::array({{{"name", "g"}, {"$patch", "delete"}}})},
        {"tolerations", Json::array({{{"key", "u"}}})}}}};
  ASSERT_TRUE(ApplyStrategicPatch(pod, patch, PodShape()));
  EXPECT_EQ(pod["spec"]["containers"],
            Json::array({{{"name", "c"}, {"image", "4"}},
                         {{"name", "a"}, {"image", "1"}},
                         {{"name", "b"}, {"image", "3"}}}));
  EXPECT_EQ(pod["spec"]["schedulingGates"], Json::array({{{"name", "h"}}}));
  // Tolerations are replaced as a whole.
  EXPECT_EQ(pod["spec"]["tolerations"], Json::array({{{"key", "u"}}}));
}

TEST(StrategicPatch, KnowsItsDirectives) {
  Json pod = {{"metadata", {{"finalizers", {"a/x", "b/y"}}, {"labels", {{"k", "v"}, {"l", "w"}}}}},
              {"spec", {{"nodeSelector", {{"a", "b"}}}}}};
  const Json patch = {{"metadata",
                       {{"$deleteFromPrimitiveList/finalizers", {"a/x"}},
                        {"labels", {{"$patch", "replace"}, {"m", "n"}}}}},
                      {"spec", {{"nodeSelector", {{"$patch", "delete"}}}}}};
  ASSERT_TRUE(ApplyStrategicPatch(pod, patch, PodShape()));
  EXPECT_EQ(pod["metadata"]["finalizers"], Json::array({"b/y"}));
  EXPECT_EQ(pod["metadata"]["labels"], Json({{"m", "n"}}));
  EXPECT_FALSE(pod["spec"].contains("nodeSelector"));
}

TEST(JsonPatch, AppliesAllOrSaysWhich) {
  Json object = {{"a", {{"b", Json::array({1, 2, 3})}}}};
  ASSERT_TRUE(ApplyJsonPatch(object,
                             Json::array({{{"op", "test"}, {"path", "/a/b/0"}, {"value", 1}},
                                          {{"op", "remove"}, {"path", "/a/b/0"}},
                                          {{"op", "add"}, {"path", "/a/b/-"}, {"value", 4}},
                                          {{"op", "add"}, {"path", "/a/x~1y"}, {"value", "z"}},
                                          {{"op", "move"}, {"from", "/a/x~1y"}, {"path", "/c"}}})));
  EXPECT_EQ(object, Json({{"a", {{"b", {2, 3, 4}}}}, {"c", "z"}}));
  EXPECT_EQ(ApplyJsonPatch(object, Json::array({{{"op", "test"}, {"path", "/c"}, {"value", "q"}}}))
                .error(),
            "testing value /c failed: test failed");
  EXPECT_FALSE(ApplyJsonPatch(
      object, Json::array({{{"op", "replace"}, {"path", "/none/x"}, {"value", 1}}})));
  EXPECT_FALSE(
      ApplyJsonPatch(object, Json::array({{{"op", "add"}, {"path", "/a/b/9"}, {"value", 1}}})));
  EXPECT_FALSE(ApplyJsonPatch(object, Json("no list")));
}

TEST(Apply, OwnsWhatItMentionsAndRemovesWhatItNoLongerMentions) {
  Client client;
  Json config = {{"apiVersion", "v1"},
                 {"kind", "ConfigMap"},
                 {"metadata", {{"name", "x"}, {"labels", {{"a", "1"}, {"b", "2"}}}}},
                 {"data", {{"k", "v"}}}};
  const std::string path = "/api/v1/namespaces/default/configmaps/x";
  const Reply created = client.Apply(path + "?fieldManager=one", config);
  ASSERT_EQ(created.status, 201) << created.body.dump();
  EXPECT_EQ(created.body["metadata"]["managedFields"][0]["fieldsV1"]["f:data"]["f:k"],
            Json::object());
  // Somebody else adds a field; it stays when the first applier leaves out one of its own.
  ASSERT_EQ(client
                .Apply(path + "?fieldManager=two",
                       {{"apiVersion", "v1"},
                        {"kind", "ConfigMap"},
                        {"metadata", {{"name", "x"}}},
                        {"data", {{"other", "w"}}}})
                .status,
            200);
  config["metadata"]["labels"].erase("b");
  const Reply again = client.Apply(path + "?fieldManager=one", config);
  ASSERT_EQ(again.status, 200) << again.body.dump();
  EXPECT_EQ(again.body["metadata"]["labels"], Json({{"a", "1"}}));
  EXPECT_EQ(again.body["data"], Json({{"k", "v"}, {"other", "w"}}));
  // The same once more changes nothing, not even the version.
  EXPECT_EQ(client.Apply(path + "?fieldManager=one", config).body["metadata"]["resourceVersion"],
            again.body["metadata"]["resourceVersion"]);
}

TEST(Apply, ConflictsNameTheOtherManager) {
  Client client;
  ASSERT_EQ(client.Post(std::string(kJobs) + "?fieldManager=maker", Job("j")).status, 201);
  Json config = {{"apiVersion", "batch/v1"},
                 {"kind", "Job"},
                 {"metadata", {{"name", "j"}}},
                 {"spec", {{"parallelism", 5}}}};
  const Reply conflict = client.Apply(std::string(kJobs) + "/j?fieldManager=me", config);
  ASSERT_EQ(conflict.status, 409) << conflict.body.dump();
  EXPECT_EQ(conflict.message(),
            "Apply failed with 1 conflict: conflict with \"maker\" using batch/v1 at "
            "2027-01-15T08:00:00Z: .spec.parallelism");
  EXPECT_EQ(conflict.body["details"]["causes"][0]["reason"], "FieldManagerConflict");
  EXPECT_EQ(client.Apply(std::string(kJobs) + "/j?fieldManager=me&force=true", config)
                .body["spec"]["parallelism"],
            5);
}

TEST(Apply, StatusIsAppliedThroughItsOwnPath) {
  Client client({.install_crds = true, .install_policies = false});
  ASSERT_EQ(client
                .Post("/apis/kueue.x-k8s.io/v1beta2/resourceflavors",
                      {{"apiVersion", "kueue.x-k8s.io/v1beta2"},
                       {"kind", "ResourceFlavor"},
                       {"metadata", {{"name", "f"}}}})
                .status,
            201);
  const std::string queues = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/localqueues";
  ASSERT_EQ(client
                .Post(queues,
                      {{"apiVersion", "kueue.x-k8s.io/v1beta2"},
                       {"kind", "LocalQueue"},
                       {"metadata", {{"name", "q"}}},
                       {"spec", {{"clusterQueue", "c"}}}})
                .status,
            201);
  const Reply applied = client.Apply(queues + "/q/status?fieldManager=m&force=true",
                                     {{"apiVersion", "kueue.x-k8s.io/v1beta2"},
                                      {"kind", "LocalQueue"},
                                      {"metadata", {{"name", "q"}}},
                                      {"spec", {{"clusterQueue", "other"}}},
                                      {"status", {{"pendingWorkloads", 3}}}});
  ASSERT_EQ(applied.status, 200) << applied.body.dump();
  EXPECT_EQ(applied.body["status"]["pendingWorkloads"], 3);
  EXPECT_EQ(applied.body["spec"]["clusterQueue"], "c");
  EXPECT_EQ(applied.body["metadata"]["generation"], 1);
}

TEST(Selectors, ReadTheGrammarOfLists) {
  const Json object = {{"metadata", {{"labels", {{"a", "1"}, {"b", "x"}}}}}};
  const auto matches = [&](const char* text) {
    const auto matcher = LabelMatcher::Parse(text);
    return matcher && matcher->Matches(object);
  };
  for (const char* text :
       {"", "a=1", "a==1,b!=y", "a in (1,2)", "b notin (z)", "!c", "a", "a>0", "a<2"}) {
    EXPECT_TRUE(matches(text)) << text;
  }
  for (const char* text : {"a=2", "a!=1", "a notin (1,2)", "c", "!a", "b>0", "a in (2)"}) {
    EXPECT_FALSE(matches(text)) << text;
  }
  for (const char* text : {"a in 1", "=x", "a in (1", "a=$", ",", "a within (1)"}) {
    EXPECT_FALSE(LabelMatcher::Parse(text).has_value()) << text;
  }
}

TEST(Selectors, OfFieldsAreThoseTheKindSupports) {
  Client client;
  ASSERT_EQ(client.Post(kJobs, Job("a")).status, 201);
  ASSERT_EQ(client.Post(kJobs, Job("b")).status, 201);
  EXPECT_EQ(
      client.Get(std::string(kJobs) + "?fieldSelector=metadata.name%3Db").body["items"].size(), 1U);
  const Reply refused = client.Get(std::string(kJobs) + "?fieldSelector=spec.parallelism%3D2");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.message(), "field label not supported: spec.parallelism");
}

TEST(Tables, PrintWhatKubectlPrints) {
  EXPECT_EQ(HumanDuration(std::chrono::seconds(119)), "119s");
  EXPECT_EQ(HumanDuration(std::chrono::seconds(120)), "2m");
  EXPECT_EQ(HumanDuration(std::chrono::seconds(125)), "2m5s");
  EXPECT_EQ(HumanDuration(std::chrono::minutes(75)), "75m");
  EXPECT_EQ(HumanDuration(std::chrono::hours(5) + std::chrono::minutes(3)), "5h3m");
  EXPECT_EQ(HumanDuration(std::chrono::hours(77)), "3d5h");
  const Json object = {
      {"status", {{"conditions", Json::array({{{"type", "Admitted"}, {"status", "True"}}})}}}};
  const auto found = SelectPath(object, ".status.conditions[?(@.type=='Admitted')].status");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(*found[0], "True");
  EXPECT_TRUE(SelectPath(object, ".status.conditions[?(@.type=='X')].status").empty());
}

TEST(Protobuf, IsReadAsTypedClientsSendIt) {
  // Namespace "team": TypeMeta {v1, Namespace}, raw = ObjectMeta{name: team, labels: {a: b}}.
  const std::string entry = std::string("\x0a\x01") + "a" + "\x12\x01" + "b";
  const std::string meta =
      std::string("\x0a\x04") + "team" + "\x5a" + static_cast<char>(entry.size()) + entry;
  const std::string raw = std::string("\x0a") + static_cast<char>(meta.size()) + meta;
  const std::string type = std::string("\x0a\x02") + "v1" + "\x12\x09" + "Namespace";
  const std::string body = std::string("k8s\0", 4) + "\x0a" + static_cast<char>(type.size()) +
                           type + "\x12" + static_cast<char>(raw.size()) + raw;
  const auto decoded = DecodeProtobuf(body);
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  EXPECT_EQ(*decoded,
            Json({{"apiVersion", "v1"},
                  {"kind", "Namespace"},
                  {"metadata", {{"name", "team"}, {"labels", {{"a", "b"}}}}}}));
  // Whatever is cut off is an error, never a crash.
  for (std::size_t size = 0; size < body.size(); ++size) {
    const auto cut = DecodeProtobuf(std::string_view(body).substr(0, size));
    if (cut) {
      EXPECT_EQ((*cut)["kind"], "Namespace");
    }
  }
  EXPECT_FALSE(DecodeProtobuf("{}").has_value());
}

TEST(Pods, AreBoundOnceAndEvictedWithinTheirBudget) {
  Client client;
  const Json pod = {{"apiVersion", "v1"},
                    {"kind", "Pod"},
                    {"metadata", {{"name", "p"}, {"labels", {{"app", "a"}}}}},
                    {"spec",
                     {{"schedulingGates", Json::array({{{"name", "example.com/g"}}})},
                      {"containers", Json::array({{{"name", "c"}, {"image", "x"}}})}}}};
  const std::string pods = "/api/v1/namespaces/default/pods";
  ASSERT_EQ(client.Post(pods, pod).status, 201);
  const Json binding = {{"target", {{"kind", "Node"}, {"name", "n1"}}}};
  const Reply gated = client.Post(pods + "/p/binding", binding);
  EXPECT_EQ(gated.status, 409);
  EXPECT_THAT(gated.message(), HasSubstr("pod p has non-empty .spec.schedulingGates"));
  ASSERT_EQ(client.Merge(pods + "/p", {{"spec", {{"schedulingGates", nullptr}}}}).status, 200);
  ASSERT_EQ(client.Post(pods + "/p/binding", binding).status, 201);
  EXPECT_THAT(client.Post(pods + "/p/binding", binding).message(),
              HasSubstr("already assigned to node \"n1\""));
  EXPECT_EQ(client.Get(pods + "?fieldSelector=spec.nodeName%3Dn1").body["items"].size(), 1U);

  ASSERT_EQ(client.Merge(pods + "/p/status", {{"status", {{"phase", "Running"}}}}).status, 200);
  ASSERT_EQ(
      client
          .Post("/apis/policy/v1/namespaces/default/poddisruptionbudgets",
                {{"apiVersion", "policy/v1"},
                 {"kind", "PodDisruptionBudget"},
                 {"metadata", {{"name", "b"}}},
                 {"spec", {{"minAvailable", 1}, {"selector", {{"matchLabels", {{"app", "a"}}}}}}}})
          .status,
      201);
  EXPECT_EQ(client.Post(pods + "/p/eviction", Json::object()).status, 429);
  client.Delete("/apis/policy/v1/namespaces/default/poddisruptionbudgets/b");
  ASSERT_EQ(client.Post(pods + "/p/eviction", Json::object()).status, 201);
  const Reply evicted = client.Get(pods + "/p");
  EXPECT_EQ(evicted.body["metadata"]["deletionGracePeriodSeconds"], 30);
  EXPECT_EQ(evicted.body["status"]["conditions"].back()["reason"], "EvictionByEvictionAPI");
  // A kubelet ends it.
  ASSERT_EQ(client.Delete(pods + "/p", {{"gracePeriodSeconds", 0}}).status, 200);
  EXPECT_EQ(client.Get(pods + "/p").status, 404);
}

TEST(Jobs, AreOrphaningByDefaultAndFollowThePolicyAsked) {
  Client client;
  client.Post(kJobs, Job("a"));
  client.Post(kJobs, Job("b"));
  client.Post(kJobs, Job("c"));
  client.Delete(std::string(kJobs) + "/a");
  EXPECT_EQ(client.Get(std::string(kJobs) + "/a").body["metadata"]["finalizers"],
            Json::array({"orphan"}));
  client.Delete(std::string(kJobs) + "/b", {{"propagationPolicy", "Foreground"}});
  EXPECT_EQ(client.Get(std::string(kJobs) + "/b").body["metadata"]["finalizers"],
            Json::array({"foregroundDeletion"}));
  client.Delete(std::string(kJobs) + "/c", {{"propagationPolicy", "Background"}});
  EXPECT_EQ(client.Get(std::string(kJobs) + "/c").status, 404);
}

TEST(Writes, MayBeDryAndStrict) {
  Client client;
  EXPECT_EQ(client.Post(std::string(kJobs) + "?dryRun=All", Job("dry")).status, 201);
  EXPECT_EQ(client.Get(std::string(kJobs) + "/dry").status, 404);
  Json odd = Job("odd");
  odd["spec"]["paralelism"] = 1;
  const Reply warned = client.Post(kJobs, odd);
  EXPECT_EQ(warned.status, 201);
  EXPECT_THAT(warned.warnings, ElementsAre("299 - \"unknown field \\\"spec.paralelism\\\"\""));
  odd["metadata"]["name"] = "strict";
  EXPECT_EQ(client.Post(std::string(kJobs) + "?fieldValidation=Strict", odd).status, 400);
}

TEST(Bodies, FromOutsideAreBounded) {
  Client client;
  std::string deep(100'000, '[');
  EXPECT_EQ(client.Send(k8s::Method::kPost, kJobs, deep).status, 400);
  EXPECT_EQ(client.Send(k8s::Method::kPost, kJobs, "{\"metadata\": 3}").status, 400);
  EXPECT_EQ(client.Send(k8s::Method::kPatch, std::string(kJobs) + "/x", "{}", "text/plain").status,
            415);
  EXPECT_EQ(client.Send(k8s::Method::kGet, "/apis/batch/v1/%zz", "").status, 404);
  EXPECT_EQ(client.Get("/apis/nowhere/v1/things").status, 404);
}

TEST(Access, FollowsTheStoredRoles) {
  Client client;
  const std::string rbac = "/apis/rbac.authorization.k8s.io/v1";
  ASSERT_EQ(client
                .Post(rbac + "/clusterroles",
                      {{"apiVersion", "rbac.authorization.k8s.io/v1"},
                       {"kind", "ClusterRole"},
                       {"metadata", {{"name", "reader"}}},
                       {"rules",
                        Json::array({{{"apiGroups", {"batch"}},
                                      {"resources", {"jobs"}},
                                      {"verbs", {"get", "list"}}}})}})
                .status,
            201);
  ASSERT_EQ(client
                .Post(rbac + "/namespaces/default/rolebindings",
                      {{"apiVersion", "rbac.authorization.k8s.io/v1"},
                       {"kind", "RoleBinding"},
                       {"metadata", {{"name", "alice"}}},
                       {"roleRef", {{"kind", "ClusterRole"}, {"name", "reader"}}},
                       {"subjects", Json::array({{{"kind", "User"}, {"name", "alice"}}})}})
                .status,
            201);
  const auto may = [&](const std::string& user, const std::string& ns, const std::string& verb) {
    const Reply reply = client.Post(
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        {{"apiVersion", "authorization.k8s.io/v1"},
         {"kind", "SubjectAccessReview"},
         {"spec",
          {{"user", user},
           {"resourceAttributes",
            {{"group", "batch"}, {"resource", "jobs"}, {"namespace", ns}, {"verb", verb}}}}}});
    return TrueAt(ObjectAt(reply.body, "status"), "allowed");
  };
  EXPECT_TRUE(may("alice", "default", "get"));
  EXPECT_FALSE(may("alice", "default", "delete"));
  EXPECT_FALSE(may("alice", "kube-system", "get"));
  EXPECT_FALSE(may("bob", "default", "get"));
}

}  // namespace
}  // namespace muster::sim::test
