#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "k8sclient/client.h"
#include "k8sclient/discovery.h"
#include "k8sclient/event_recorder.h"
#include "test/k8sclient/fakes.h"

namespace muster::k8s {
namespace {

using api::Json;
using api::Kind;
using fake::Answer;
using fake::FakeTimers;
using fake::FakeTransport;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

Json Resource(const std::string& plural, const std::string& kind) {
  return {{"resource", plural},
          {"responseKind", {{"kind", kind}}},
          {"scope", "Namespaced"},
          {"verbs", {"get", "list", "watch"}},
          {"subresources", {{{"subresource", "status"}}}}};
}
Json Group(const std::string& name,
           const std::string& version,
           const Json::array_t& resources,
           const std::string& freshness = "Current") {
  return {
      {"metadata", {{"name", name}}},
      {"versions", {{{"version", version}, {"freshness", freshness}, {"resources", resources}}}}};
}
Json Aggregated(const Json::array_t& groups) {
  return {{"kind", "APIGroupDiscoveryList"}, {"items", groups}};
}

struct DiscoveryWorld {
  DiscoveryWorld() {
    transport.respond = [this](const Request& request) -> std::optional<Result<Response>> {
      ++asked[request.target];
      if (down) {
        return Result<Response>(std::unexpected(Error::Retry("refused")));
      }
      const auto it = documents.find(request.target);
      if (it == documents.end()) {
        return Answer(503, "");
      }
      const std::string body = it->second.dump();
      const std::string etag = "\"" + std::to_string(std::hash<std::string>{}(body)) + "\"";
      for (const auto& [name, value] : request.headers) {
        if (name == "if-none-match" && value == etag) {
          ++unchanged;
          return Answer(304, "");
        }
      }
      return Answer(200, body, {{"etag", etag}});
    };
    documents["/api"] = Aggregated({Group("", "v1", {Resource("pods", "Pod")})});
    documents["/apis"] = Aggregated({Group("batch", "v1", {Resource("jobs", "Job")})});
    discovery = std::make_unique<Discovery>(
        client,
        timers,
        DiscoveryOptions{},
        DiscoveryHandlers{.on_change =
                              [this](const std::vector<Kind>& a, const std::vector<Kind>& v) {
                                ++changes;
                                appeared = a;
                                vanished = v;
                              },
                          .on_trouble = {}});
  }
  FakeTimers timers;
  FakeTransport transport{timers};
  Client client{transport, timers, {.max_attempts = 1}};
  std::map<std::string, Json> documents;
  std::map<std::string, int> asked;
  std::unique_ptr<Discovery> discovery;
  bool down = false;
  int unchanged = 0;
  int changes = 0;
  std::vector<Kind> appeared;
  std::vector<Kind> vanished;
};

TEST(Discovery, PicksUpKindsThatAppearLaterAndDropsThoseThatGo) {
  DiscoveryWorld w;
  w.down = true;
  w.discovery->Start();
  w.timers.Advance(seconds(5));
  EXPECT_FALSE(w.discovery->known());
  w.down = false;
  w.timers.Advance(seconds(5));
  EXPECT_EQ(w.changes, 1);
  EXPECT_THAT(w.appeared, ElementsAre(Kind::kJob, Kind::kPod));
  w.timers.Advance(minutes(5));
  EXPECT_EQ(w.changes, 1);
  EXPECT_GT(w.unchanged, 10) << "what has not changed costs a 304";
  const std::string kueue(api::Info(Kind::kWorkload).version);
  w.documents["/apis"]["items"].emplace_back(
      Group("kueue.x-k8s.io", kueue, {Resource("workloads", "Workload")}));
  w.discovery->Refresh();
  w.timers.Settle();
  EXPECT_THAT(w.appeared, ElementsAre(Kind::kWorkload));
  EXPECT_TRUE(w.discovery->served().Has(Kind::kWorkload));
  EXPECT_TRUE(w.discovery->served().Find("kueue.x-k8s.io", kueue, "workloads")->has_status);
  w.documents["/apis"]["items"].erase(0);
  w.timers.Advance(seconds(31));
  EXPECT_THAT(w.appeared, IsEmpty());
  EXPECT_THAT(w.vanished, ElementsAre(Kind::kJob));
  // An API server that is away serves nothing, but takes nothing away.
  w.down = true;
  w.timers.Advance(minutes(3));
  EXPECT_EQ(w.changes, 3);
  EXPECT_TRUE(w.discovery->served().Has(Kind::kPod));
}

TEST(Discovery, OnlyAKindInOurVersionThatCanBeWatchedIsServed) {
  DiscoveryWorld w;
  Json no_watch = Resource("pods", "Pod");
  no_watch["verbs"] = {"get", "list"};
  w.documents["/api"] = Aggregated({Group("", "v1", {no_watch})});
  w.documents["/apis"] = Aggregated({Group("batch", "v1beta1", {Resource("jobs", "Job")})});
  w.discovery->Start();
  w.timers.Settle();
  EXPECT_EQ(w.changes, 1);
  EXPECT_THAT(w.appeared, IsEmpty());
  EXPECT_THAT(w.discovery->served().Versions("batch", "jobs"), ElementsAre("v1beta1"));
}

TEST(Discovery, KeepsWhatASilentAggregatedServerServedBefore) {
  DiscoveryWorld w;
  w.discovery->Start();
  w.timers.Settle();
  w.documents["/apis"] = Aggregated({Group("batch", "v1", {}, "Stale")});
  w.timers.Advance(seconds(31));
  EXPECT_EQ(w.changes, 1);
  EXPECT_TRUE(w.discovery->served().Has(Kind::kJob));
}

TEST(Discovery, AsksOneByOneWhereThereIsNoAggregatedDocument) {
  DiscoveryWorld w;
  const auto list =
      [](const std::string& gv, const std::string& name, const std::string& kind) -> Json {
    return {
        {"kind", "APIResourceList"},
        {"groupVersion", gv},
        {"resources",
         {{{"name", name}, {"kind", kind}, {"namespaced", true}, {"verbs", {"list", "watch"}}},
          {{"name", name + "/status"}, {"kind", kind}, {"namespaced", true}, {"verbs", {"get"}}}}}};
  };
  w.documents["/api"] = {{"kind", "APIVersions"}, {"versions", {"v1"}}};
  w.documents["/apis"] = {
      {"kind", "APIGroupList"},
      {"groups", {{{"name", "batch"}, {"versions", {{{"groupVersion", "batch/v1"}}}}}}}};
  w.documents["/api/v1"] = list("v1", "pods", "Pod");
  w.documents["/apis/batch/v1"] = list("batch/v1", "jobs", "Job");
  w.discovery->Start();
  w.timers.Settle();
  EXPECT_THAT(w.appeared, ElementsAre(Kind::kJob, Kind::kPod));
  EXPECT_TRUE(w.discovery->served().Find("", "v1", "pods")->has_status);
  w.documents.erase("/apis/batch/v1");
  w.timers.Advance(seconds(31));
  EXPECT_EQ(w.changes, 1) << "one group that fails is no group that went";
}

TEST(Discovery, ReadsForeignDocumentsWithoutFear) {
  for (
      const char* text :
      {R"({})",
       R"([])",
       R"({"kind":"APIGroupDiscoveryList","items":7})",
       R"({"kind":"APIGroupDiscoveryList","items":[null,{"metadata":[],"versions":[{"version":"v1","resources":[{"resource":""},5]}]}]})",
       R"({"kind":"APIResourceList","groupVersion":"a/b","resources":[{"name":5}]})"}) {
    Served served;
    std::set<std::string> stale;
    const Json json = Json::parse(text);
    static_cast<void>(AddAggregated(json, served, stale));
    static_cast<void>(AddResourceList(json, served));
    static_cast<void>(GroupVersionPaths(json));
    EXPECT_TRUE(served.resources().empty()) << text;
  }
}

EventNote NoteOf(const std::string& name, const std::string& note) {
  return {.regarding = {.api_version = "kueue.x-k8s.io/v1beta2",
                        .kind = "Workload",
                        .ns = "a",
                        .name = name,
                        .uid = "u" + name,
                        .resource_version = "1"},
          .related = std::nullopt,
          .type = EventType::kWarning,
          .reason = "Pending",
          .action = "",
          .note = note,
          .reporting_controller = "kueue-admission"};
}

struct EventWorld {
  EventWorld() : EventWorld(EventRecorderOptions{.reporting_instance = "muster-0"}) {}
  explicit EventWorld(EventRecorderOptions options) {
    transport.respond = [this](const Request& request) -> std::optional<Result<Response>> {
      if (fail) {
        return Answer(fail, "");
      }
      const Json body = Json::parse(request.body);
      if (request.method == Method::kPost) {
        events[body["metadata"]["name"]] = body;
        return Answer(201, body.dump());
      }
      const auto it = events.find(request.target.substr(request.target.rfind('/') + 1));
      if (it == events.end()) {
        return Answer(404, "");
      }
      it->second.merge_patch(body);
      ++patches;
      return Answer(200, it->second.dump());
    };
    recorder = std::make_unique<EventRecorder>(client, timers, options);
  }
  FakeTimers timers;
  FakeTransport transport{timers};
  Client client{transport, timers};
  std::map<std::string, Json> events;
  int patches = 0;
  int fail = 0;
  std::unique_ptr<EventRecorder> recorder;
};

TEST(Events, CarryWhatTheApiWants) {
  EventWorld w;
  w.recorder->Record(NoteOf("w", std::string(2000, 'x')));
  w.timers.Settle();
  ASSERT_EQ(w.events.size(), 1U);
  const Json& event = w.events.begin()->second;
  EXPECT_EQ(event["apiVersion"], "events.k8s.io/v1");
  EXPECT_EQ(event["metadata"]["namespace"], "a");
  EXPECT_TRUE(event["metadata"]["name"].get<std::string>().starts_with("w."));
  EXPECT_EQ(event["action"], "Pending");
  EXPECT_EQ(event["type"], "Warning");
  EXPECT_EQ(event["reportingController"], "kueue-admission");
  EXPECT_EQ(event["reportingInstance"], "muster-0");
  EXPECT_EQ(event["regarding"]["uid"], "uw");
  EXPECT_EQ(event["note"].get<std::string>().size(), 1024U);
  EXPECT_TRUE(event["note"].get<std::string>().ends_with("x ..."));
  EXPECT_FALSE(event.contains("series"));
  EXPECT_EQ(w.transport.requests[0].target, "/apis/events.k8s.io/v1/namespaces/a/events");
}

TEST(Events, RepeatsBecomeASeriesWithFewWrites) {
  EventWorld w;
  for (int i = 0; i < 1000; ++i) {
    w.recorder->Record(NoteOf("w", "no room"));
    w.timers.Advance(seconds(1));
  }
  w.timers.Advance(minutes(10));
  ASSERT_EQ(w.events.size(), 1U);
  EXPECT_EQ(w.events.begin()->second["series"]["count"], 1000);
  EXPECT_LE(w.patches, 10);
  w.recorder->Record(NoteOf("w", "no room"));
  w.timers.Settle();
  EXPECT_EQ(w.events.size(), 2U) << "the series had ended";
}

TEST(Events, DifferentNotesAreDifferentEventsButOneObjectCannotDrownTheRest) {
  EventWorld w;
  for (int i = 0; i < 500; ++i) {
    w.recorder->Record(NoteOf("w", "note " + std::to_string(i)));
  }
  w.recorder->Record(NoteOf("v", "note"));
  w.timers.Settle();
  EXPECT_EQ(w.events.size(), 26U);
  EXPECT_EQ(w.recorder->dropped(), 475U);
}

TEST(Events, AreBoundedInRateAndNumber) {
  EventWorld w(
      {.reporting_instance = "i", .rate = {.per_second = 10, .burst = 10}, .max_waiting = 50});
  for (int i = 0; i < 500; ++i) {
    w.recorder->Record(NoteOf("w" + std::to_string(i), "n"));
  }
  w.timers.Settle();
  EXPECT_EQ(w.events.size(), 10U);
  w.timers.Advance(minutes(1));
  EXPECT_EQ(w.events.size(), 60U);
  EXPECT_EQ(w.recorder->dropped(), 440U);
}

TEST(Events, StartAnewWhenTheEventIsGone) {
  EventWorld w;
  w.recorder->Record(NoteOf("w", "n"));
  w.timers.Settle();
  w.events.clear();
  w.recorder->Record(NoteOf("w", "n"));
  w.timers.Settle();
  w.recorder->Record(NoteOf("w", "n"));
  w.timers.Settle();
  EXPECT_EQ(w.events.size(), 1U);
}

TEST(Events, AreDroppedWhereTheServerRefusesThem) {
  EventWorld w;
  w.fail = 403;
  w.recorder->Record(NoteOf("w", "n"));
  w.timers.Advance(minutes(1));
  EXPECT_EQ(w.transport.requests.size(), 1U);
  EXPECT_EQ(w.recorder->dropped(), 1U);
}

TEST(Events, NotesAreCutBetweenCharacters) {
  EXPECT_EQ(CutNote("short", 1024), "short");
  EXPECT_EQ(CutNote("0123456789", 8), "0123 ...");
  EXPECT_EQ(CutNote("012\xc3\xa4\xc3\xa4\xc3\xa4", 8), "012 ...");
  EXPECT_EQ(CutNote("0123456789", 3), " ..");
}

TEST(Events, ForgetSeriesThatEnded) {
  EventSeries series({.reporting_instance = "i"});
  TimePoint now{seconds(1'800'000'000)};
  for (int i = 0; i < 10'000; ++i) {
    series.Note(NoteOf("w" + std::to_string(i), "n"), now);
    now += seconds(1);
    while (auto write = series.Next(now)) {
      series.Done(std::visit([](const auto& x) { return x.id; }, *write),
                  EventSeries::Outcome::kStored,
                  now);
    }
  }
  EXPECT_LE(series.series(), 500U);
}

}  // namespace
}  // namespace muster::k8s
