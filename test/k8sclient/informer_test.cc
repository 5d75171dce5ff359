#include "k8sclient/informer.h"

#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/json.h"
#include "base/strings.h"
#include "test/k8sclient/fakes.h"

namespace muster::k8s {
namespace {

using api::Json;
using fake::Answer;
using fake::FakeTimers;
using fake::FakeTransport;

Json Namespace(const std::string& name, const std::string& version, const std::string& uid = "u") {
  return {{"metadata", {{"name", name}, {"uid", uid + name}, {"resourceVersion", version}}}};
}
std::string EventLine(const std::string& type, const Json& object) {
  return Json({{"type", type}, {"object", object}}).dump() + "\n";
}

// A server with one collection, as much of one as list and watch need. Every answer can be made to
// fail.
class World {
 public:
  explicit World(bool streaming) {
    transport.respond = [this](const Request& request) { return List(request); };
    transport.on_stream = [this](FakeTransport::OpenedStream& stream) { Open(stream); };
    InformerOptions options;
    options.kind = api::Kind::kNamespace;
    options.machine.page_size = 2;
    options.machine.stream_lists = streaming;
    informer = std::make_unique<Informer>(
        transport,
        timers,
        options,
        InformerHandlers{.on_upsert =
                             [this](const api::Object& object) {
                               seen[api::MetaOf(object).name] =
                                   api::MetaOf(object).resource_version;
                               ++effects;
                             },
                         .on_delete =
                             [this](api::Kind, const api::ObjectKey& key) {
                               ++effects;
                               EXPECT_EQ(seen.erase(key.name), 1U);
                             },
                         .on_synced = [this](api::Kind) { ++synced; },
                         .on_bad_object =
                             [this](api::Kind, const api::ObjectMeta& meta, const Error&) {
                               bad.push_back(meta.name + meta.resource_version);
                             },
                         .on_trouble = [this](api::Kind, const Error&) { ++troubles; }});
  }

  void Put(const std::string& name, const std::string& uid = "u") {
    const bool is_new = !objects.contains(name);
    objects[name] = Namespace(name, std::to_string(++version), uid);
    Tell(EventLine(is_new ? "ADDED" : "MODIFIED", objects[name]));
  }
  void Remove(const std::string& name) {
    Json last = objects[name];
    last["metadata"]["resourceVersion"] = std::to_string(++version);
    objects.erase(name);
    Tell(EventLine("DELETED", last));
  }
  void Tell(const std::string& line) {
    log.emplace_back(version, line);
    if (!transport.streams.empty() && !transport.last().cancelled && open) {
      transport.last().handlers.on_data(line);
    }
  }
  void Cut() {
    open = false;
    if (!transport.streams.empty() && !transport.last().cancelled) {
      transport.last().handlers.on_end(std::unexpected(Error::Retry("reset")));
    }
  }
  [[nodiscard]] std::map<std::string, std::string> Truth() const {
    std::map<std::string, std::string> out;
    for (const auto& [name, object] : objects) {
      out[name] = object["metadata"]["resourceVersion"];
    }
    return out;
  }

  FakeTimers timers;
  FakeTransport transport{timers};
  std::unique_ptr<Informer> informer;
  std::map<std::string, Json> objects;
  std::vector<std::pair<std::int64_t, std::string>> log;
  std::int64_t version = 100;
  std::int64_t compacted = 0;  // older resume points are gone
  bool open = false;
  bool refuse_streaming = false;
  int fail_requests = 0;

  std::map<std::string, std::string> seen;
  std::vector<std::string> bad;
  int effects = 0;
  int synced = 0;
  int troubles = 0;

 private:
  std::optional<Result<Response>> List(const Request& request) {
    if (fail_requests > 0) {
      --fail_requests;
      return Result<Response>(std::unexpected(Error::Retry("refused")));
    }
    std::size_t from = 0;
    if (const std::size_t at = request.target.find("continue="); at != std::string::npos) {
      from = std::stoul(request.target.substr(at + 9));
    }
    Json items = Json::array();
    std::size_t i = 0;
    for (const auto& [name, object] : objects) {
      if (i >= from && items.size() < 2) {
        items.push_back(object);
      }
      ++i;
    }
    Json metadata = {{"resourceVersion", std::to_string(version)}};
    if (from + 2 < objects.size()) {
      metadata["continue"] = std::to_string(from + 2);
    }
    return Answer(200, Json({{"metadata", metadata}, {"items", items}}).dump());
  }
  void Open(FakeTransport::OpenedStream& stream) {
    open = false;
    if (fail_requests > 0) {
      --fail_requests;
      stream.handlers.on_end(std::unexpected(Error::Retry("refused")));
      return;
    }
    const bool initial = stream.request.target.contains("sendInitialEvents");
    if (initial && refuse_streaming) {
      stream.handlers.on_response(422, {});
      stream.handlers.on_data(R"({"kind":"Status","reason":"Invalid","code":422})");
      stream.handlers.on_end({});
      return;
    }
    stream.handlers.on_response(200, {});
    open = true;
    if (initial) {
      for (const auto& [name, object] : objects) {
        stream.handlers.on_data(EventLine("ADDED", object));
      }
      stream.handlers.on_data(
          EventLine("BOOKMARK",
                    {{"metadata",
                      {{"resourceVersion", std::to_string(version)},
                       {"annotations", {{"k8s.io/initial-events-end", "true"}}}}}}));
      return;
    }
    const std::size_t at = stream.request.target.find("resourceVersion=");
    const std::int64_t since = std::stoll(stream.request.target.substr(at + 16));
    if (since < compacted) {
      stream.handlers.on_data(
          EventLine("ERROR", {{"kind", "Status"}, {"code", 410}, {"reason", "Expired"}}));
      stream.handlers.on_end({});
      return;
    }
    std::string missed;
    for (const auto& [v, line] : log) {
      if (v > since) {
        missed += line;
      }
    }
    if (!missed.empty()) {
      stream.handlers.on_data(missed);
    }
  }
};

class InformerTest : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(ListsBy, InformerTest, ::testing::Bool(), [](const auto& p) {
  return p.param ? "Stream" : "Pages";
});

TEST_P(InformerTest, FollowsTheCollectionOverCutsAndGapsWithoutRepeatingAnEffect) {
  World w(GetParam());
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    w.Put(name);
  }
  w.informer->Start();
  w.timers.Settle();
  EXPECT_EQ(w.seen, w.Truth());
  EXPECT_EQ(w.synced, 1);
  EXPECT_EQ(w.effects, 5);
  w.Put("a");
  w.Remove("b");
  EXPECT_EQ(w.seen, w.Truth());
  EXPECT_EQ(w.effects, 7);
  // A cut, and changes meanwhile.
  w.Cut();
  w.Put("f");
  w.Remove("c");
  w.timers.Advance(std::chrono::seconds(2));
  EXPECT_EQ(w.seen, w.Truth());
  EXPECT_EQ(w.effects, 9);
  EXPECT_EQ(w.informer->stats().lists, 1U) << "a cut is no reason to list";
  // A gap that the server has forgotten.
  w.Cut();
  w.Remove("a");
  w.Put("d", "other");
  w.Put("g");
  w.compacted = w.version;
  w.timers.Advance(std::chrono::minutes(1));
  EXPECT_EQ(w.seen, w.Truth());
  EXPECT_EQ(w.effects, 9 + 1 + 2 + 1) << "a gone; d gone and new; g new; nothing else said twice";
  EXPECT_EQ(w.informer->stats().lists, 2U);
  EXPECT_EQ(w.synced, 1);
}

TEST_P(InformerTest, WalksThroughFailuresAtEachStep) {
  for (int failures = 0; failures < 12; ++failures) {
    World w(GetParam());
    for (const char* name : {"a", "b", "c"}) {
      w.Put(name);
    }
    w.fail_requests = failures;
    w.informer->Start();
    w.timers.Advance(std::chrono::minutes(10));
    EXPECT_EQ(w.seen, w.Truth()) << failures;
    EXPECT_EQ(w.synced, 1);
    EXPECT_EQ(w.effects, 3);
  }
}

TEST_P(InformerTest, IsolatesAnObjectThatDoesNotDecode) {
  World w(GetParam());
  w.Put("a");
  w.informer->Start();
  w.timers.Settle();
  Json broken = Namespace("a", "1000");
  broken["metadata"]["labels"] = "none";
  w.version = 1000;
  w.objects["a"] = broken;
  w.Tell(EventLine("MODIFIED", broken));
  EXPECT_THAT(w.bad, ::testing::ElementsAre("a1000"));
  EXPECT_EQ(w.seen.size(), 1U) << "the last good version stays";
  w.Put("b");
  EXPECT_TRUE(w.seen.contains("b"));
  // Listing again does not say it again.
  w.Cut();
  w.compacted = w.version + 1;
  w.timers.Advance(std::chrono::seconds(5));
  w.compacted = 0;
  w.timers.Advance(std::chrono::minutes(2));
  EXPECT_EQ(w.bad.size(), 1U);
  EXPECT_GE(w.informer->stats().lists, 2U);
  w.Remove("a");
  EXPECT_FALSE(w.seen.contains("a"));
}

TEST_P(InformerTest, WithdrawsEverythingAndComesBack) {
  World w(GetParam());
  w.Put("a");
  w.Put("b");
  w.informer->Start();
  w.timers.Settle();
  w.informer->Withdraw();
  EXPECT_TRUE(w.seen.empty());
  EXPECT_FALSE(w.informer->synced());
  w.timers.Advance(std::chrono::minutes(30));
  EXPECT_TRUE(w.seen.empty());
  w.informer->Start();
  w.timers.Settle();
  EXPECT_EQ(w.seen, w.Truth());
  EXPECT_EQ(w.synced, 2);
}

TEST(Informer, FallsBackToPagesWhereTheServerRefusesStreams) {
  World w(true);
  w.refuse_streaming = true;
  w.Put("a");
  w.informer->Start();
  w.timers.Settle();
  EXPECT_EQ(w.seen, w.Truth());
  EXPECT_EQ(w.troubles, 0);
}

TEST(Informer, StopsQuietly) {
  World w(true);
  w.Put("a");
  w.informer->Start();
  w.informer.reset();
  w.timers.Advance(std::chrono::hours(1));
  EXPECT_TRUE(w.seen.empty());
}

}  // namespace
}  // namespace muster::k8s
