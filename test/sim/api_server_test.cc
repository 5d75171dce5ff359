#include "sim/api_server.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/sim/api_client.h"

namespace muster::sim::test {
namespace {

Json ConfigMap(const std::string& name) {
  return {{"apiVersion", "v1"},
          {"kind", "ConfigMap"},
          {"metadata", {{"name", name}}},
          {"data", {{"a", "1"}}}};
}
constexpr const char* kConfigMaps = "/api/v1/namespaces/default/configmaps";

TEST(ApiServer, CreatesReadsListsAndDeletes) {
  Client client;
  const Reply created = client.Post(kConfigMaps, ConfigMap("x"));
  ASSERT_EQ(created.status, 201) << created.body.dump();
  EXPECT_EQ(created.body["metadata"]["namespace"], "default");
  EXPECT_EQ(created.body["metadata"]["creationTimestamp"], "2027-01-15T08:00:00Z");
  EXPECT_EQ(client.Post(kConfigMaps, ConfigMap("x")).reason(), "AlreadyExists");
  EXPECT_EQ(client.Get(std::string(kConfigMaps) + "/x").body, created.body);
  const Reply listed = client.Get("/api/v1/configmaps");
  ASSERT_EQ(listed.body["items"].size(), 1U);
  EXPECT_FALSE(listed.body["items"][0].contains("kind"));
  EXPECT_EQ(client.Delete(std::string(kConfigMaps) + "/x").body["status"], "Success");
  const Reply gone = client.Get(std::string(kConfigMaps) + "/x");
  EXPECT_EQ(gone.status, 404);
  EXPECT_EQ(gone.message(), "configmaps \"x\" not found");
}

TEST(ApiServer, UidsAscendInOrderOfCreation) {
  Client client;
  const Reply b = client.Post(kConfigMaps, ConfigMap("b"));
  const Reply a = client.Post(kConfigMaps, ConfigMap("a"));
  EXPECT_LT(b.body["metadata"]["uid"].get<std::string>(),
            a.body["metadata"]["uid"].get<std::string>());
}

TEST(ApiServer, PagesAreOfOneMoment) {
  Client client;
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    client.Post(kConfigMaps, ConfigMap(name));
  }
  const Reply first = client.Get(std::string(kConfigMaps) + "?limit=2");
  ASSERT_EQ(first.body["items"].size(), 2U);
  EXPECT_EQ(first.body["metadata"]["remainingItemCount"], 3);
  client.Delete(std::string(kConfigMaps) + "/d");
  client.Post(kConfigMaps, ConfigMap("f"));
  const Reply second = client.Get(std::string(kConfigMaps) + "?continue=" +
                                  first.body["metadata"]["continue"].get<std::string>());
  std::vector<std::string> names;
  for (const Json& item : second.body["items"]) {
    names.push_back(item["metadata"]["name"]);
  }
  EXPECT_THAT(names, testing::ElementsAre("c", "d", "e"));
  EXPECT_EQ(second.body["metadata"]["resourceVersion"], first.body["metadata"]["resourceVersion"]);
}

TEST(ApiServer, StaleWritesConflictAndEqualOnesChangeNothing) {
  Client client;
  Json object = client.Post(kConfigMaps, ConfigMap("x")).body;
  const std::string path = std::string(kConfigMaps) + "/x";
  EXPECT_EQ(client.Put(path, object).body["metadata"]["resourceVersion"],
            object["metadata"]["resourceVersion"]);
  ASSERT_EQ(client.Merge(path, {{"data", {{"a", "2"}}}}).status, 200);
  const Reply stale = client.Put(path, object);
  EXPECT_EQ(stale.status, 409);
  EXPECT_EQ(stale.message(),
            "Operation cannot be fulfilled on configmaps \"x\": the object has been modified; "
            "please apply your changes "
            "to the latest version and try again");
  EXPECT_EQ(
      client.Merge(path, {{"metadata", {{"resourceVersion", "1"}}}, {"data", {{"a", "3"}}}}).status,
      409);
  EXPECT_FALSE(client.Merge(path, {{"data", {{"a", nullptr}}}}).body.contains("data"));
}

TEST(ApiServer, WatchSeesEachChangeOnceAndOldOnesExpire) {
  Client client({.install_crds = false, .install_policies = false, .watch_window = 3});
  const std::string start = client.Get(kConfigMaps).body["metadata"]["resourceVersion"];
  client.Post(kConfigMaps, ConfigMap("x"));
  auto watch = client.Watch(std::string(kConfigMaps) + "?watch=1&resourceVersion=" + start);
  ASSERT_NE(watch, nullptr);
  client.Merge(std::string(kConfigMaps) + "/x", {{"data", {{"a", "2"}}}});
  client.Delete(std::string(kConfigMaps) + "/x");
  std::vector<std::string> types;
  for (const Json& event : Client::Events(*watch)) {
    types.push_back(event["type"]);
  }
  EXPECT_THAT(types, testing::ElementsAre("ADDED", "MODIFIED", "DELETED"));
  EXPECT_EQ(watch->Read(), "");
  client.Post(kConfigMaps, ConfigMap("y"));
  auto late = client.Watch(std::string(kConfigMaps) + "?watch=1&resourceVersion=" + start);
  const auto events = Client::Events(*late);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0]["type"], "ERROR");
  EXPECT_EQ(events[0]["object"]["code"], 410);
  EXPECT_TRUE(late->closed());
}

TEST(ApiServer, WatchListSendsWhatThereIsThenABookmark) {
  Client client;
  client.Post(kConfigMaps, ConfigMap("x"));
  auto watch = client.Watch(
      std::string(kConfigMaps) +
      "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true");
  const auto events = Client::Events(*watch);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0]["type"], "ADDED");
  EXPECT_EQ(events[1]["type"], "BOOKMARK");
  EXPECT_EQ(events[1]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
  client.server().Tick(client.now + std::chrono::seconds(61));
  EXPECT_EQ(Client::Events(*watch)[0]["type"], "BOOKMARK");
}

TEST(ApiServer, WatchWithASelectorTurnsChangesIntoArrivalsAndDepartures) {
  Client client;
  client.Post(kConfigMaps, ConfigMap("x"));
  const std::string version = client.Get(kConfigMaps).body["metadata"]["resourceVersion"];
  auto watch = client.Watch(std::string(kConfigMaps) +
                            "?watch=1&labelSelector=a%3Db&resourceVersion=" + version);
  client.Merge(std::string(kConfigMaps) + "/x", {{"metadata", {{"labels", {{"a", "b"}}}}}});
  client.Merge(std::string(kConfigMaps) + "/x", {{"metadata", {{"labels", {{"a", "c"}}}}}});
  std::vector<std::string> types;
  for (const Json& event : Client::Events(*watch)) {
    types.push_back(event["type"]);
  }
  EXPECT_THAT(types, testing::ElementsAre("ADDED", "DELETED"));
}

TEST(ApiServer, FinalizersHoldADeletedObject) {
  Client client;
  Json object = ConfigMap("x");
  object["metadata"]["finalizers"] = {"example.com/hold"};
  client.Post(kConfigMaps, object);
  const std::string path = std::string(kConfigMaps) + "/x";
  const Reply deleted = client.Delete(path);
  EXPECT_EQ(deleted.status, 200);
  EXPECT_TRUE(deleted.body["metadata"].contains("deletionTimestamp"));
  EXPECT_EQ(client.Get(path).status, 200);
  client.Merge(path, {{"metadata", {{"finalizers", nullptr}}}});
  EXPECT_EQ(client.Get(path).status, 404);
}

TEST(ApiServer, DeletionsMayNameWhatTheyMean) {
  Client client;
  client.Post(kConfigMaps, ConfigMap("x"));
  const Reply wrong =
      client.Delete(std::string(kConfigMaps) + "/x", {{"preconditions", {{"uid", "other"}}}});
  EXPECT_EQ(wrong.status, 409);
  EXPECT_EQ(client.Get(std::string(kConfigMaps) + "/x").status, 200);
}

TEST(ApiServer, EventsOfBothGroupsAreOneStorage) {
  Client client;
  const Reply made =
      client.Post("/apis/events.k8s.io/v1/namespaces/default/events",
                  {{"apiVersion", "events.k8s.io/v1"},
                   {"kind", "Event"},
                   {"metadata", {{"name", "e"}}},
                   {"eventTime", "2027-01-15T08:00:00.000000Z"},
                   {"reportingController", "c"},
                   {"reportingInstance", "c-0"},
                   {"action", "Act"},
                   {"reason", "Because"},
                   {"type", "Normal"},
                   {"note", "hello"},
                   {"regarding", {{"kind", "Pod"}, {"name", "p"}, {"namespace", "default"}}}});
  ASSERT_EQ(made.status, 201) << made.body.dump();
  const Reply core =
      client.Get("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dp");
  ASSERT_EQ(core.body["items"].size(), 1U);
  EXPECT_EQ(core.body["items"][0]["message"], "hello");
}

}  // namespace
}  // namespace muster::sim::test
