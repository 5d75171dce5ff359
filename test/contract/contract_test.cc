#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/json.h"
#include "api/kind.h"
#include "k8sclient/client.h"
#include "k8sclient/discovery.h"
#include "k8sclient/event_recorder.h"
#include "k8sclient/informer.h"
#include "k8sclient/leader.h"
#include "k8sclient/requests.h"
#include "test/contract/target.h"

// One suite, two servers: what Muster relies on must hold of the API server in memory and of the
// real one alike.
namespace muster::contract {
namespace {

using api::Json;
using api::Kind;
using k8s::ApiError;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Reply = k8s::Client::Reply;

class Contract : public ::testing::TestWithParam<TargetKind> {
 protected:
  void SetUp() override {
    std::string why;
    target_ = GetParam().make(why);
    if (!target_) {
      // Only an absent server may be skipped; one that is named and cannot be used is a failure.
      if (std::getenv("MUSTER_TEST_KUBECONFIG") != nullptr) {
        FAIL() << why;
      }
      GTEST_SKIP() << why;
    }
    client_ = std::make_unique<k8s::Client>(target_->transport(), target_->timers());
    static int count = 0;
    run_ = "ct-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
    // On a server that others use too, nothing of an earlier run is in the way.
    ns_ = run_;
    const Reply created =
        Send(k8s::Create(api::Path(Kind::kNamespace, "", ""), Object("v1", "Namespace", "", ns_)));
    ASSERT_TRUE(created) << created.error().message;
  }
  void TearDown() override {
    if (!target_) {
      return;
    }
    for (const std::string& node : nodes_) {
      static_cast<void>(Send(k8s::Delete(api::Path(Kind::kNode, "", node))));
    }
    static_cast<void>(Send(k8s::Delete(api::Path(Kind::kNamespace, "", ns_))));
    client_.reset();
  }

  Reply Send(k8s::Request request) {
    std::optional<Reply> out;
    client_->Send(std::move(request), [&](Reply reply) { out = std::move(reply); });
    if (!target_->Until([&] { return out.has_value(); }, seconds(60))) {
      ApiError error;
      error.message = "no answer";
      return std::unexpected(error);
    }
    return std::move(*out);
  }
  bool Until(const std::function<bool()>& done, Duration limit = seconds(30)) {
    return target_->Until(done, limit);
  }

  static Json Object(const std::string& version,
                     const std::string& kind,
                     const std::string& ns,
                     const std::string& name) {
    Json out = {{"apiVersion", version}, {"kind", kind}, {"metadata", {{"name", name}}}};
    if (!ns.empty()) {
      out["metadata"]["namespace"] = ns;
    }
    return out;
  }
  Json NodeNamed(const std::string& suffix) {
    Json node = Object("v1", "Node", "", run_ + "-" + suffix);
    node["metadata"]["labels"] = {{"run", run_}};
    return node;
  }
  std::string NodePath(const std::string& suffix, const std::string& subresource = {}) {
    return api::Path(Kind::kNode, "", run_ + "-" + suffix, subresource);
  }
  Json MakeNode(const std::string& suffix) {
    nodes_.push_back(run_ + "-" + suffix);
    Reply reply = Send(k8s::Create(api::Path(Kind::kNode, "", ""), NodeNamed(suffix)));
    EXPECT_TRUE(reply) << reply.error().message;
    return reply.value_or(Json::object());
  }
  Json JobNamed(const std::string& name) {
    Json job = Object("batch/v1", "Job", ns_, name);
    job["spec"] = {
        {"suspend", true},
        {"template",
         {{"spec",
           {{"restartPolicy", "Never"}, {"containers", {{{"name", "c"}, {"image", "none"}}}}}}}}};
    return job;
  }
  std::string JobPath(const std::string& name, const std::string& subresource = {}) {
    return api::Path(Kind::kJob, ns_, name, subresource);
  }
  Json MakeJob(const std::string& name) {
    Reply reply = Send(k8s::Create(api::Path(Kind::kJob, ns_, ""), JobNamed(name)));
    EXPECT_TRUE(reply) << reply.error().message;
    return reply.value_or(Json::object());
  }
  static std::string Version(const Json& object) {
    return object["metadata"]["resourceVersion"].get<std::string>();
  }
  static std::string Uid(const Json& object) {
    return object["metadata"]["uid"].get<std::string>();
  }

  static void ExpectError(const Reply& reply, int status, const std::string& reason) {
    ASSERT_FALSE(reply) << reply->dump().substr(0, 300);
    EXPECT_EQ(reply.error().http_status, status) << reply.error().message;
    EXPECT_EQ(reply.error().reason, reason) << reply.error().message;
    EXPECT_FALSE(reply.error().message.empty());
  }

  std::unique_ptr<Target> target_;
  std::unique_ptr<k8s::Client> client_;
  std::string run_;
  std::string ns_;
  std::vector<std::string> nodes_;
};

std::vector<TargetKind> Targets() {
  std::vector<TargetKind> out{RealTarget()};
#ifdef MUSTER_CONTRACT_SIM
  out.push_back(SimTarget());
#endif
  return out;
}
INSTANTIATE_TEST_SUITE_P(On, Contract, ::testing::ValuesIn(Targets()), [](const auto& p) {
  return p.param.name;
});

TEST_P(Contract, CreatesReadsAndRefusesTwice) {
  const Json made = MakeNode("a");
  EXPECT_FALSE(Uid(made).empty());
  EXPECT_FALSE(Version(made).empty());
  EXPECT_TRUE(made["metadata"].contains("creationTimestamp"));
  const Reply read = Send(k8s::Get(NodePath("a")));
  ASSERT_TRUE(read);
  EXPECT_EQ(Uid(*read), Uid(made));
  EXPECT_EQ((*read)["kind"], "Node");
  EXPECT_EQ((*read)["apiVersion"], "v1");
  const Reply again = Send(k8s::Create(api::Path(Kind::kNode, "", ""), NodeNamed("a")));
  ExpectError(again, 409, "AlreadyExists");
  EXPECT_TRUE(again.error().already_exists());
  ExpectError(Send(k8s::Get(NodePath("b"))), 404, "NotFound");
  // A group that does not exist is answered by another layer, in plain text.
  EXPECT_EQ(Send(k8s::Get("/apis/no.such.group/v1/things")).error().code, ErrorCode::kNotFound);
}

TEST_P(Contract, RefusesBadObjectsNamingTheField) {
  Json bad = JobNamed("bad");
  bad["spec"]["parallelism"] = -1;
  const Reply refused = Send(k8s::Create(api::Path(Kind::kJob, ns_, ""), bad));
  ExpectError(refused, 422, "Invalid");
  ASSERT_FALSE(refused.error().causes.empty());
  EXPECT_EQ(refused.error().causes[0].field, "spec.parallelism");
  Json wrong_type = JobNamed("bad");
  wrong_type["spec"]["parallelism"] = "many";
  EXPECT_EQ(Send(k8s::Create(api::Path(Kind::kJob, ns_, ""), wrong_type)).error().http_status, 400);
  Json no_ns = JobNamed("bad");
  no_ns["metadata"]["namespace"] = run_ + "-none";
  ExpectError(Send(k8s::Create(api::Path(Kind::kJob, run_ + "-none", ""), no_ns)), 404, "NotFound");
}

TEST_P(Contract, HonoursPreconditionsOfUpdatesAndPatches) {
  const Json made = MakeNode("a");
  const std::string old = Version(made);
  Json changed = made;
  changed["metadata"]["labels"]["x"] = "1";
  const Reply updated = Send(k8s::Update(NodePath("a"), changed));
  ASSERT_TRUE(updated) << updated.error().message;
  EXPECT_NE(Version(*updated), old);
  ExpectError(Send(k8s::Update(NodePath("a"), changed)), 409, "Conflict");

  const Json label = {{"metadata", {{"labels", {{"x", "2"}}}}}};
  ExpectError(
      Send(k8s::MergePatch(NodePath("a"), label, {.resource_version = old})), 409, "Conflict");
  const Reply successor =
      Send(k8s::MergePatch(NodePath("a"), label, {.uid = "00000000-0000-0000-0000-000000000000"}));
  ExpectError(successor, 422, "Invalid");
  EXPECT_EQ(successor.error().code, ErrorCode::kConflict);
  const Reply patched = Send(k8s::MergePatch(
      NodePath("a"), label, {.resource_version = Version(*updated), .uid = Uid(made)}));
  ASSERT_TRUE(patched) << patched.error().message;
  EXPECT_EQ((*patched)["metadata"]["labels"]["x"], "2");
  // Null removes; a patch that changes nothing writes nothing.
  const Reply removed =
      Send(k8s::MergePatch(NodePath("a"), {{"metadata", {{"labels", {{"x", nullptr}}}}}}));
  ASSERT_TRUE(removed);
  EXPECT_FALSE((*removed)["metadata"]["labels"].contains("x"));
  const Reply same =
      Send(k8s::MergePatch(NodePath("a"), {{"metadata", {{"labels", {{"x", nullptr}}}}}}));
  ASSERT_TRUE(same);
  EXPECT_EQ(Version(*same), Version(*removed));
}

TEST_P(Contract, AppliesJsonPatchesWholeOrNotAtAll) {
  const Json made = MakeNode("a");
  const Json add = Json::parse(R"([{"op":"add","path":"/metadata/labels/x","value":"1"}])");
  const Reply good = Send(
      k8s::JsonPatch(NodePath("a"), add, {.resource_version = Version(made), .uid = Uid(made)}));
  ASSERT_TRUE(good) << good.error().message;
  EXPECT_EQ((*good)["metadata"]["labels"]["x"], "1");
  const Reply failed_test =
      Send(k8s::JsonPatch(NodePath("a"), add, {.resource_version = Version(made)}));
  ASSERT_FALSE(failed_test);
  EXPECT_EQ(failed_test.error().http_status, 422) << failed_test.error().message;
  const Reply missing = Send(k8s::JsonPatch(
      NodePath("a"),
      Json::parse(
          R"([{"op":"add","path":"/metadata/labels/y","value":"1"},{"op":"remove","path":"/metadata/labels/z"}])")));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().http_status, 422) << missing.error().message;
  EXPECT_FALSE((*Send(k8s::Get(NodePath("a"))))["metadata"]["labels"].contains("y"));
}

TEST_P(Contract, AppliesServerSideWithOwners) {
  nodes_.push_back(run_ + "-a");
  Json mine = NodeNamed("a");
  mine["metadata"]["labels"]["mine"] = "1";
  const Reply created = Send(k8s::Apply(NodePath("a"), mine, "first", k8s::Force::kNo));
  ASSERT_TRUE(created) << created.error().message;
  Json theirs = NodeNamed("a");
  theirs["metadata"]["labels"] = {{"mine", "2"}};
  const Reply conflict = Send(k8s::Apply(NodePath("a"), theirs, "second", k8s::Force::kNo));
  ExpectError(conflict, 409, "Conflict");
  EXPECT_TRUE(conflict.error().HasCause("FieldManagerConflict"));
  const Reply forced = Send(k8s::Apply(NodePath("a"), theirs, "second", k8s::Force::kYes));
  ASSERT_TRUE(forced) << forced.error().message;
  EXPECT_EQ((*forced)["metadata"]["labels"]["mine"], "2");
  EXPECT_EQ((*forced)["metadata"]["labels"]["run"], run_) << "what another owns stays";
  // Leaving a field out gives it up.
  const Reply less = Send(
      k8s::Apply(NodePath("a"), Object("v1", "Node", "", run_ + "-a"), "second", k8s::Force::kYes));
  ASSERT_TRUE(less);
  EXPECT_FALSE((*less)["metadata"]["labels"].contains("mine"));
}

TEST_P(Contract, KeepsStatusAndSpecApart) {
  const Json made = MakeJob("j");
  const Reply status = Send(k8s::MergePatch(
      JobPath("j", "status"),
      {{"spec", {{"parallelism", 7}}}, {"status", {{"ready", 0}, {"terminating", 0}}}}));
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ((*status)["spec"]["parallelism"], made["spec"]["parallelism"]);
  EXPECT_EQ((*status)["metadata"]["generation"], made["metadata"]["generation"]);
  EXPECT_EQ((*status)["status"]["terminating"], 0);
  const Reply spec = Send(k8s::MergePatch(
      JobPath("j"), {{"spec", {{"parallelism", 7}}}, {"status", {{"terminating", 5}}}}));
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ((*spec)["spec"]["parallelism"], 7);
  EXPECT_EQ((*spec)["status"]["terminating"], 0);
  EXPECT_EQ((*spec)["metadata"]["generation"].get<int>(),
            made["metadata"]["generation"].get<int>() + 1);
}

TEST_P(Contract, DeletesWithPreconditionsAndFinalizers) {
  Json job = JobNamed("j");
  job["metadata"]["finalizers"] = {"muster.dev/test"};
  const Reply made = Send(k8s::Create(api::Path(Kind::kJob, ns_, ""), job));
  ASSERT_TRUE(made) << made.error().message;
  ExpectError(Send(k8s::Delete(JobPath("j"),
                               {.preconditions = {.uid = "00000000-0000-0000-0000-000000000000"}})),
              409,
              "Conflict");
  const Reply deleted = Send(k8s::Delete(
      JobPath("j"),
      {.preconditions = {.uid = Uid(*made)}, .propagation = k8s::Propagation::kBackground}));
  ASSERT_TRUE(deleted) << deleted.error().message;
  const Reply held = Send(k8s::Get(JobPath("j")));
  ASSERT_TRUE(held);
  EXPECT_TRUE((*held)["metadata"].contains("deletionTimestamp"));
  ASSERT_TRUE(Send(k8s::MergePatch(JobPath("j"), {{"metadata", {{"finalizers", nullptr}}}})));
  ExpectError(Send(k8s::Get(JobPath("j"))), 404, "NotFound");
  ExpectError(Send(k8s::Delete(JobPath("j"))), 404, "NotFound");
}

TEST_P(Contract, DryRunChangesNothing) {
  ASSERT_TRUE(
      Send(k8s::Create(api::Path(Kind::kNode, "", ""), NodeNamed("dry"), k8s::DryRun::kAll)));
  ExpectError(Send(k8s::Get(NodePath("dry"))), 404, "NotFound");
}

TEST_P(Contract, ListsInPagesAndBySelector) {
  for (const char* suffix : {"a", "b", "c", "d", "e", "f", "g"}) {
    MakeNode(suffix);
  }
  k8s::ListQuery query{.label_selector = "run=" + run_, .limit = 3};
  std::vector<std::string> names;
  std::vector<std::size_t> sizes;
  std::string version;
  do {
    const Reply page = Send(k8s::List(api::Path(Kind::kNode, "", ""), query));
    ASSERT_TRUE(page) << page.error().message;
    sizes.push_back((*page)["items"].size());
    for (const Json& item : (*page)["items"]) {
      names.push_back(item["metadata"]["name"]);
    }
    EXPECT_TRUE(version.empty() || version == Version(*page)) << "all pages show one state";
    version = Version(*page);
    query.continue_token = (*page)["metadata"].value("continue", "");
  } while (!query.continue_token.empty());
  EXPECT_THAT(sizes, ElementsAre(3, 3, 1));
  EXPECT_EQ(names.size(), 7U);
  EXPECT_TRUE(std::ranges::is_sorted(names));
  const Reply one = Send(k8s::List(api::Path(Kind::kNode, "", ""),
                                   {.field_selector = "metadata.name=" + run_ + "-c"}));
  ASSERT_TRUE(one);
  EXPECT_EQ((*one)["items"].size(), 1U);
  const Reply none =
      Send(k8s::List(api::Path(Kind::kNode, "", ""), {.label_selector = "run=" + run_ + ",!run"}));
  ASSERT_TRUE(none);
  EXPECT_EQ((*none)["items"].size(), 0U);
  ExpectError(Send(k8s::List(api::Path(Kind::kNode, "", ""), {.label_selector = "a in ("})),
              400,
              "BadRequest");
}

TEST_P(Contract, InformersFollowByPagesAndByStream) {
  for (const char* suffix : {"a", "b", "c"}) {
    MakeNode(suffix);
  }
  struct Seen {
    std::map<std::string, std::string> objects;
    int synced = 0;
    int troubles = 0;
    std::unique_ptr<k8s::Informer> informer;
  };
  std::vector<std::unique_ptr<Seen>> all;
  for (const bool stream : {false, true}) {
    auto seen = std::make_unique<Seen>();
    k8s::InformerOptions options;
    options.kind = Kind::kNode;
    options.label_selector = "run=" + run_;
    options.machine.page_size = 2;
    options.machine.stream_lists = stream;
    seen->informer = std::make_unique<k8s::Informer>(
        target_->transport(),
        target_->timers(),
        options,
        k8s::InformerHandlers{
            .on_upsert =
                [s = seen.get()](const api::Object& o) {
                  s->objects[api::MetaOf(o).name] = api::MetaOf(o).resource_version;
                },
            .on_delete = [s = seen.get()](
                             Kind, const api::ObjectKey& key) { s->objects.erase(key.name); },
            .on_synced = [s = seen.get()](Kind) { ++s->synced; },
            .on_bad_object =
                [](Kind, const api::ObjectMeta& meta, const Error& e) {
                  ADD_FAILURE() << meta.name << ": " << e.message;
                },
            .on_trouble =
                [s = seen.get()](Kind, const Error& e) {
                  ++s->troubles;
                  ADD_FAILURE() << e.message;
                }});
    seen->informer->Start();
    all.push_back(std::move(seen));
  }
  const auto everybody = [&](auto&& what) {
    return std::ranges::all_of(all, [&](const auto& s) { return what(*s); });
  };
  ASSERT_TRUE(Until([&] { return everybody([](const Seen& s) { return s.synced == 1; }); }));
  EXPECT_TRUE(everybody([](const Seen& s) { return s.objects.size() == 3; }));
  const Reply changed =
      Send(k8s::MergePatch(NodePath("b"), {{"metadata", {{"labels", {{"x", "1"}}}}}}));
  ASSERT_TRUE(changed);
  ASSERT_TRUE(Send(k8s::Delete(NodePath("a"))));
  const Json added = MakeNode("d");
  const bool followed = Until([&] {
    return everybody([&](const Seen& s) {
      return s.objects.size() == 3 && s.objects.contains(run_ + "-d") &&
             s.objects.contains(run_ + "-b") && s.objects.at(run_ + "-b") == Version(*changed);
    });
  });
  for (const auto& s : all) {
    std::string text = std::to_string(s->informer->stats().events) + " events, " +
                       std::to_string(s->informer->stats().watches) + " watches:";
    for (const auto& [name, version] : s->objects) {
      text += " " + name + "@" + version;
    }
    EXPECT_TRUE(followed) << text << "; b should be at " << Version(*changed);
  }
  ASSERT_TRUE(followed);
  // An object that no longer matches the selector is gone for this watcher.
  ASSERT_TRUE(
      Send(k8s::MergePatch(NodePath("c"), {{"metadata", {{"labels", {{"run", "other"}}}}}})));
  ASSERT_TRUE(
      Until([&] { return everybody([&](const Seen& s) { return s.objects.size() == 2; }); }));
  EXPECT_TRUE(everybody([](const Seen& s) { return s.informer->stats().lists == 1; }));
}

TEST_P(Contract, InformersOfAbsentKindsWaitUntilTheirDefinitionComes) {
  const std::string crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
  const api::KindInfo& info = api::Info(Kind::kTopology);
  const std::string crd_name = std::string(info.plural) + "." + std::string(info.group);
  if (Send(k8s::Get(crds + "/" + crd_name))) {
    if (GetParam().name != "SimApiServer") {
      GTEST_SKIP() << "this server has " << crd_name << ", which may be in use";
    }
    ASSERT_TRUE(Send(k8s::Delete(crds + "/" + crd_name)));
  }
  int not_found = 0;
  int synced = 0;
  std::set<std::string> seen;
  k8s::InformerOptions options;
  options.kind = Kind::kTopology;
  options.machine.backoff.max = seconds(1);
  k8s::Informer informer(
      target_->transport(),
      target_->timers(),
      options,
      {.on_upsert = [&](const api::Object& o) { seen.insert(api::MetaOf(o).name); },
       .on_delete = [&](Kind, const api::ObjectKey& key) { seen.erase(key.name); },
       .on_synced = [&](Kind) { ++synced; },
       .on_bad_object = [](Kind,
                           const api::ObjectMeta& m,
                           const Error& e) { ADD_FAILURE() << m.name << ": " << e.message; },
       .on_trouble = [&](Kind,
                         const Error& e) { not_found += e.code == ErrorCode::kNotFound ? 1 : 0; }});
  informer.Start();
  ASSERT_TRUE(Until([&] { return not_found >= 2; }));
  EXPECT_EQ(synced, 0);

  Json crd = Object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", crd_name);
  crd["metadata"]["annotations"] = {{"api-approved.kubernetes.io", "unapproved, for a test"}};
  crd["spec"] = {{"group", info.group},
                 {"scope", "Cluster"},
                 {"names",
                  {{"plural", info.plural},
                   {"singular", "topology"},
                   {"kind", info.name},
                   {"listKind", "TopologyList"}}},
                 {"versions",
                  {{{"name", info.version},
                    {"served", true},
                    {"storage", true},
                    {"schema",
                     {{"openAPIV3Schema",
                       {{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}}}}}}}}};
  const Reply defined = Send(k8s::Create(crds, crd));
  ASSERT_TRUE(defined) << defined.error().message;
  ASSERT_TRUE(Until([&] { return synced == 1; }));
  Json topology = Object(info.ApiVersion(), std::string(info.name), "", run_);
  topology["spec"] = {{"levels", {{{"nodeLabel", "kubernetes.io/hostname"}}}}};
  const Reply made = Send(k8s::Create(api::Path(Kind::kTopology, "", ""), topology));
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_TRUE(Until([&] { return seen.contains(run_); }));
  // With the definition its objects go, and each is told.
  ASSERT_TRUE(Send(k8s::Delete(crds + "/" + crd_name)));
  EXPECT_TRUE(Until([&] { return seen.empty(); }));
  const int before = not_found;
  EXPECT_TRUE(Until([&] { return not_found > before; }));
}

TEST_P(Contract, WatchesResumeFromAVersionAndRefuseOldOnes) {
  const Json made = MakeNode("a");
  ASSERT_TRUE(Send(k8s::MergePatch(NodePath("a"), {{"metadata", {{"labels", {{"x", "1"}}}}}})));
  ASSERT_TRUE(Send(k8s::Delete(NodePath("a"))));
  k8s::WatchDecoder decoder;
  std::vector<k8s::WatchEventType> types;
  int status = 0;
  bool ended = false;
  const auto stream = target_->transport().OpenStream(
      k8s::Watch(api::Path(Kind::kNode, "", ""),
                 {.field_selector = "metadata.name=" + run_ + "-a",
                  .resource_version = Version(made),
                  .timeout_seconds = 3},
                 seconds(30)),
      {.on_response = [&](int s, const k8s::Headers&) { status = s; },
       .on_data =
           [&](std::string_view bytes) {
             decoder.Feed(bytes);
             while (true) {
               auto next = decoder.Next();
               ASSERT_TRUE(next) << next.error().message;
               if (!*next) {
                 return;
               }
               types.push_back((*next)->type);
             }
           },
       .on_end = [&](Status s) { ended = s.has_value(); }});
  ASSERT_TRUE(Until([&] { return ended; })) << "the server ends a watch after timeoutSeconds";
  EXPECT_EQ(status, 200);
  std::erase(types, k8s::WatchEventType::kBookmark);
  EXPECT_THAT(types, ElementsAre(k8s::WatchEventType::kModified, k8s::WatchEventType::kDeleted));
}

TEST_P(Contract, DiscoversKindsAndNoticesANewOne) {
  std::vector<Kind> appeared;
  k8s::Discovery discovery(*client_,
                           target_->timers(),
                           {.period = seconds(1)},
                           {.on_change =
                                [&](const std::vector<Kind>& a, const std::vector<Kind>&) {
                                  appeared.insert(appeared.end(), a.begin(), a.end());
                                },
                            .on_trouble = [](const Error& e) { ADD_FAILURE() << e.message; }});
  discovery.Start();
  ASSERT_TRUE(Until([&] { return discovery.known(); }));
  for (const Kind kind : {Kind::kNamespace,
                          Kind::kNode,
                          Kind::kPod,
                          Kind::kJob,
                          Kind::kPriorityClass,
                          Kind::kLease,
                          Kind::kEvent,
                          Kind::kResourceSlice,
                          Kind::kDeviceClass,
                          Kind::kResourceClaim}) {
    EXPECT_TRUE(discovery.served().Has(kind)) << api::Info(kind).name;
  }
  EXPECT_TRUE(discovery.served().Find("batch", "v1", "jobs")->has_status);
  EXPECT_TRUE(discovery.served().Find("batch", "v1", "jobs")->namespaced);
  EXPECT_FALSE(discovery.served().Find("", "v1", "nodes")->namespaced);
  const std::string group = run_ + ".muster.dev";
  Json crd = Object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "things." + group);
  crd["spec"] = {
      {"group", group},
      {"scope", "Namespaced"},
      {"names",
       {{"plural", "things"}, {"singular", "thing"}, {"kind", "Thing"}, {"listKind", "ThingList"}}},
      {"versions",
       {{{"name", "v1"},
         {"served", true},
         {"storage", true},
         {"subresources", {{"status", Json::object()}}},
         {"schema",
          {{"openAPIV3Schema",
            {{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}}}}}}}}};
  const std::string crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
  const Reply created = Send(k8s::Create(crds, crd));
  ASSERT_TRUE(created) << created.error().message;
  EXPECT_TRUE(Until([&] { return discovery.served().Find(group, "v1", "things") != nullptr; }));
  if (const auto* things = discovery.served().Find(group, "v1", "things")) {
    EXPECT_EQ(things->kind, "Thing");
    EXPECT_TRUE(things->watchable && things->has_status);
  }
  ASSERT_TRUE(Send(k8s::Delete(crds + "/things." + group)));
  EXPECT_TRUE(Until([&] { return discovery.served().Find(group, "v1", "things") == nullptr; }));
}

TEST_P(Contract, RecordsEventsAndCountsRepeats) {
  const Json job = MakeJob("j");
  k8s::EventRecorder recorder(
      *client_, target_->timers(), {.reporting_instance = "muster-0", .first_pause = seconds(1)});
  const k8s::EventNote note{.regarding = {.api_version = "batch/v1",
                                          .kind = "Job",
                                          .ns = ns_,
                                          .name = "j",
                                          .uid = Uid(job),
                                          .resource_version = Version(job)},
                            .related = std::nullopt,
                            .type = k8s::EventType::kWarning,
                            .reason = "Pending",
                            .action = "",
                            .note = std::string(2000, 'n'),
                            .reporting_controller = "batch/job-kueue-controller"};
  for (int i = 0; i < 3; ++i) {
    recorder.Record(note);
  }
  Json events;
  ASSERT_TRUE(Until([&] {
    const Reply list = Send(k8s::List(api::Path(Kind::kEvent, ns_, ""), {}));
    events = Json::array();
    // The Job controller of a real cluster tells something about the Job, too.
    for (const Json& event : list ? (*list)["items"] : Json::array()) {
      if (event["reportingController"] == "batch/job-kueue-controller") {
        events.push_back(event);
      }
    }
    return events.size() == 1 && events[0].contains("series") && events[0]["series"]["count"] == 3;
  })) << events.dump();
  EXPECT_EQ(events[0]["reportingController"], "batch/job-kueue-controller");
  EXPECT_EQ(events[0]["regarding"]["name"], "j");
  EXPECT_EQ(events[0]["note"].get<std::string>().size(), 1024U);
  EXPECT_EQ(recorder.dropped(), 0U);
}

TEST_P(Contract, ElectsOneLeaderAndHandsOver) {
  struct Candidate {
    bool acting = false;
    std::unique_ptr<k8s::LeaderElector> elector;
  };
  std::array<Candidate, 2> c;
  for (std::size_t i = 0; i < c.size(); ++i) {
    c[i].elector = std::make_unique<k8s::LeaderElector>(
        target_->transport(),
        target_->timers(),
        k8s::LeaderOptions{.ns = ns_,
                           .name = "muster",
                           .lease = {.identity = "c" + std::to_string(i),
                                     .lease_duration = seconds(4),
                                     .renew_deadline = seconds(2),
                                     .retry_period = std::chrono::milliseconds(500)},
                           .seed = i},
        k8s::LeaderHandlers{.on_started = [&c, i] { c[i].acting = true; },
                            .on_stopped = [&c, i] { c[i].acting = false; },
                            .on_holder = {},
                            .on_trouble = [](const Error& e) { ADD_FAILURE() << e.message; }});
    c[i].elector->Start();
  }
  ASSERT_TRUE(Until([&] { return c[0].acting || c[1].acting; }));
  Candidate& first = c[0].acting ? c[0] : c[1];
  Candidate& second = c[0].acting ? c[1] : c[0];
  const TimePoint start = target_->timers().Now();
  static_cast<void>(Until([&] { return target_->timers().Now() > start + seconds(3); }));
  EXPECT_TRUE(first.acting && !second.acting);
  bool released = false;
  first.elector->Release([&] { released = true; });
  EXPECT_FALSE(first.acting);
  ASSERT_TRUE(Until([&] { return second.acting; }, seconds(3)));
  EXPECT_TRUE(released);
  const Reply lease = Send(k8s::Get(api::Path(Kind::kLease, ns_, "muster")));
  ASSERT_TRUE(lease);
  EXPECT_EQ((*lease)["spec"]["leaseTransitions"], 1);
}

TEST_P(Contract, AnswersManyRequestsAtOnce) {
  std::size_t answered = 0;
  std::size_t good = 0;
  for (int i = 0; i < 200; ++i) {
    client_->Send(k8s::Create(api::Path(Kind::kJob, ns_, ""), JobNamed("j" + std::to_string(i))),
                  [&](const Reply& reply) {
                    ++answered;
                    good += reply.has_value() ? 1 : 0;
                  });
  }
  ASSERT_TRUE(Until([&] { return answered == 200; }, seconds(120)));
  EXPECT_EQ(good, 200U);
  const Reply list = Send(k8s::List(api::Path(Kind::kJob, ns_, ""), {}));
  ASSERT_TRUE(list);
  EXPECT_EQ((*list)["items"].size(), 200U) << "an answer of this size comes packed";
}

}  // namespace
}  // namespace muster::contract
