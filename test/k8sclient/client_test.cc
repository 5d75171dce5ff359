#include "k8sclient/client.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "k8sclient/api_error.h"
#include "k8sclient/managed_fields.h"
#include "k8sclient/rate_limiter.h"
#include "k8sclient/requests.h"
#include "k8sclient/store.h"
#include "k8sclient/watch_decoder.h"
#include "test/k8sclient/fakes.h"

namespace muster::k8s {
namespace {

using api::Json;
using fake::Answer;
using fake::FakeTimers;
using fake::FakeTransport;

Request OfKind(const std::string& what) {
  if (what == "get") {
    return Get("/api/v1/pods");
  }
  if (what == "create") {
    return Create("/api/v1/namespaces/a/pods", Json::object());
  }
  if (what == "update+rv") {
    return Update("/x", {{"metadata", {{"resourceVersion", "3"}}}});
  }
  if (what == "update") {
    return Update("/x", Json::object());
  }
  if (what == "patch+rv") {
    return MergePatch("/x", Json::object(), {.resource_version = "3"});
  }
  if (what == "patch+uid") {
    return MergePatch("/x", Json::object(), {.uid = "u"});
  }
  if (what == "jsonpatch+rv") {
    return JsonPatch("/x", Json::array(), {.resource_version = "3"});
  }
  if (what == "apply") {
    return Apply("/x", Json::object(), "m", Force::kYes);
  }
  if (what == "delete+uid") {
    return Delete("/x", {.preconditions = {.uid = "u"}});
  }
  return Delete("/x");
}

struct RetryRow {
  const char* request;
  int status;  // 0: no answer
  std::int64_t retry_after;
  bool again;
};

TEST(Retry, HappensOnlyWhereASecondExecutionDoesNoHarm) {
  const std::vector<RetryRow> rows{
      {"get", 0, 0, true},
      {"update+rv", 0, 0, true},
      {"patch+rv", 0, 0, true},
      {"apply", 0, 0, true},
      {"delete+uid", 0, 0, true},
      {"create", 0, 0, false},
      {"update", 0, 0, false},
      {"patch+uid", 0, 0, false},
      {"delete", 0, 0, false},
      {"jsonpatch+rv", 0, 0, false},
      // 429: refused before anything was done.
      {"create", 429, 0, true},
      {"create", 429, 1, true},
      {"delete", 429, 0, true},
      {"get", 429, 34, true},
      {"get", 429, 3000, false},
      {"create", 503, 1, true},
      {"create", 503, 0, false},
      {"get", 503, 0, true},
      {"get", 500, 0, true},
      {"create", 500, 0, false},
      {"create", 504, 0, false},
      {"get", 408, 0, true},
      // Final answers.
      {"get", 404, 0, false},
      {"get", 409, 1, false},
      {"get", 410, 0, false},
      {"get", 422, 0, false},
      {"get", 401, 0, false},
      {"get", 403, 5, false},
  };
  for (const RetryRow& row : rows) {
    ApiError error;
    error.http_status = row.status;
    error.code = row.status == 0 ? ErrorCode::kRetry : CodeForHttpStatus(row.status);
    error.retry_after_seconds = row.retry_after;
    Prng prng(1);
    const RetryDecision decision = DecideRetry(OfKind(row.request), error, 1, {}, prng);
    EXPECT_EQ(decision.again, row.again)
        << row.request << " " << row.status << " " << row.retry_after;
    if (decision.again) {
      EXPECT_GE(decision.delay, std::chrono::seconds(row.retry_after));
      EXPECT_GT(decision.delay, Duration::zero());
    }
    EXPECT_FALSE(DecideRetry(OfKind(row.request), error, 5, {}, prng).again)
        << "never a sixth time";
  }
}

TEST(Client, WalksThroughFailuresUntilSuccess) {
  // The n-th attempt succeeds; the caller sees one answer.
  for (int failures = 0; failures < 7; ++failures) {
    FakeTimers timers;
    FakeTransport transport(timers);
    Client client(transport, timers);
    int left = failures;
    transport.respond = [&](const Request&) -> std::optional<Result<Response>> {
      if (left-- > 0) {
        return left % 2 == 0 ? Result<Response>(std::unexpected(Error::Retry("reset")))
                             : Result<Response>(Answer(429, "", {{"retry-after", "1"}}));
      }
      return Answer(200, R"({"kind":"Pod"})");
    };
    int answers = 0;
    bool good = false;
    client.Send(Get("/api/v1/pods"), [&](Client::Reply reply) {
      ++answers;
      good = reply.has_value() && (*reply)["kind"] == "Pod";
    });
    EXPECT_EQ(answers, 0) << "not from inside";
    timers.Advance(std::chrono::minutes(5));
    EXPECT_EQ(answers, 1);
    EXPECT_EQ(good, failures < 5) << failures;
    EXPECT_EQ(transport.requests.size(), static_cast<std::size_t>(std::min(failures + 1, 5)));
    EXPECT_EQ(client.in_flight(), 0U);
  }
}

TEST(Client, KeepsQuietAfterItsEnd) {
  FakeTimers timers;
  FakeTransport transport(timers);
  auto client = std::make_unique<Client>(transport, timers);
  client->Send(Get("/x"), [](Client::Reply) { FAIL() << "answered after the end"; });
  client.reset();
  timers.Advance(std::chrono::minutes(1));
}

TEST(Client, RefusesAnAnswerThatIsNoJson) {
  FakeTimers timers;
  FakeTransport transport(timers);
  Client client(transport, timers);
  transport.respond = [](const Request&) { return Answer(200, "<html>"); };
  std::optional<ApiError> error;
  client.Send(Get("/x"), [&](Client::Reply reply) {
    ASSERT_FALSE(reply);
    error = reply.error();
  });
  timers.Settle();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, ErrorCode::kInvalid);
  EXPECT_EQ(error->http_status, 200);
}

TEST(ApiErrors, KeepWhatTheServerSaid) {
  const ApiError conflict = ErrorFromResponse(Answer(
      409,
      R"({"kind":"Status","status":"Failure","message":"Apply failed with 1 conflict","reason":"Conflict",
          "details":{"causes":[{"reason":"FieldManagerConflict","message":"conflict with \"x\"","field":".spec.a"}]},"code":409})"));
  EXPECT_EQ(conflict.code, ErrorCode::kConflict);
  EXPECT_EQ(conflict.reason, "Conflict");
  EXPECT_FALSE(conflict.already_exists());
  EXPECT_TRUE(conflict.HasCause("FieldManagerConflict"));
  EXPECT_EQ(conflict.causes[0].field, ".spec.a");

  const ApiError exists = ErrorFromResponse(Answer(
      409, R"({"kind":"Status","reason":"AlreadyExists","message":"pods \"p\" already exists"})"));
  EXPECT_EQ(exists.code, ErrorCode::kConflict);
  EXPECT_TRUE(exists.already_exists());

  const ApiError busy = ErrorFromResponse(Answer(
      429, R"({"kind":"Status","details":{"retryAfterSeconds":2}})", {{"retry-after", "5"}}));
  EXPECT_EQ(busy.retry_after_seconds, 5);
  EXPECT_EQ(ErrorFromResponse(Answer(502, "<html>bad gateway")).message,
            "HTTP 502: <html>bad gateway");
  // Foreign bytes of any shape.
  for (const char* body : {"",
                           "[]",
                           "null",
                           R"({"kind":"Status","details":[],"message":5})",
                           R"({"kind":"Status","details":{"causes":[1,null]}})"}) {
    EXPECT_EQ(ErrorFromResponse(Answer(404, body)).code, ErrorCode::kNotFound) << body;
  }
  EXPECT_EQ(RetryAfterSeconds({{"retry-after", "Wed, 21 Oct 2015 07:28:00 GMT"}}), 0);
  EXPECT_EQ(RetryAfterSeconds({{"retry-after", "-4"}}), 0);
  EXPECT_EQ(RetryAfterSeconds({{"retry-after", "99999999999999999999"}}), 0);
  EXPECT_EQ(ErrorFromStatus(Json::parse(R"({"code":410,"reason":"Expired"})")).code,
            ErrorCode::kGone);
  EXPECT_EQ(ErrorFromStatus(Json::array()).code, ErrorCode::kRetry);
}

TEST(Requests, SayWhatIsMeant) {
  EXPECT_EQ(
      List("/api/v1/pods", {.label_selector = "a=b,c in (d)", .limit = 5, .continue_token = "x/+"})
          .target,
      "/api/v1/pods?labelSelector=a%3Db%2Cc%20in%20%28d%29&limit=5&continue=x%2F%2B");
  EXPECT_EQ(Watch("/api/v1/pods",
                  {.resource_version = "7", .timeout_seconds = 300},
                  std::chrono::seconds(9))
                .target,
            "/api/v1/pods?watch=1&allowWatchBookmarks=true&resourceVersion=7&timeoutSeconds=300");
  EXPECT_EQ(Watch("/p", {.send_initial_events = true}, {}).target,
            "/p?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch="
            "NotOlderThan");
  const Request merge =
      MergePatch("/p", {{"spec", {{"suspend", false}}}}, {.resource_version = "3", .uid = "u"});
  EXPECT_EQ(
      Json::parse(merge.body),
      Json::parse(R"({"metadata":{"resourceVersion":"3","uid":"u"},"spec":{"suspend":false}})"));
  EXPECT_EQ(merge.content_type, "application/merge-patch+json");
  const Request patch = JsonPatch(
      "/p", Json::parse(R"([{"op":"remove","path":"/a"}])"), {.resource_version = "3", .uid = "u"});
  EXPECT_EQ(
      Json::parse(patch.body),
      Json::parse(
          R"([{"op":"test","path":"/metadata/uid","value":"u"},{"op":"test","path":"/metadata/resourceVersion","value":"3"},{"op":"remove","path":"/a"}])"));
  const Request apply = Apply(
      "/p", Json::parse(R"({"metadata":{"managedFields":[]}})"), "kueue admission", Force::kYes);
  EXPECT_EQ(apply.target, "/p?fieldManager=kueue%20admission&force=true");
  EXPECT_EQ(Json::parse(apply.body), Json::parse(R"({"metadata":{}})"));
  const Request gone = Delete("/p",
                              {.preconditions = {.resource_version = "3", .uid = "u"},
                               .propagation = Propagation::kForeground,
                               .grace_period_seconds = 0});
  EXPECT_EQ(
      Json::parse(gone.body),
      Json::parse(
          R"({"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":0,"propagationPolicy":"Foreground","preconditions":{"uid":"u","resourceVersion":"3"}})"));
}

TEST(RateLimiter, HoldsOneLimitForAllKinds) {  // KW-03
  FakeTimers timers;
  FakeTransport inner(timers);
  LimitedTransport limited(inner, timers, {.per_second = 5, .burst = 5});
  const TimePoint start = timers.Now();
  std::size_t answered = 0;
  std::vector<std::unique_ptr<Transport::Stream>> streams;
  for (int i = 0; i < 1000; ++i) {
    if (i % 5 == 4) {
      streams.push_back(limited.OpenStream(Get("/apis/k" + std::to_string(i % 5)), {}));
    } else {
      limited.Send(Get("/apis/k" + std::to_string(i % 5)), [&](Result<Response>) { ++answered; });
    }
  }
  timers.Advance(std::chrono::seconds(60));
  EXPECT_EQ(inner.sent_at.size(), 5U * 60 + 5);
  for (const TimePoint from : inner.sent_at) {
    // No window of a second holds more than rate and burst.
    const auto in_window = std::ranges::count_if(inner.sent_at, [&](TimePoint t) {
      return t >= from && t < from + std::chrono::seconds(1);
    });
    EXPECT_LE(in_window, 10);
  }
  EXPECT_EQ(inner.sent_at.front(), start);
  EXPECT_EQ(answered, 5U * 60 + 5 - inner.streams.size());
}

TEST(RateLimiter, IsOffForNegativeValues) {
  FakeTimers timers;
  FakeTransport inner(timers);
  LimitedTransport limited(inner, timers, {.per_second = -1, .burst = 0});
  for (int i = 0; i < 1000; ++i) {
    limited.Send(Get("/x"), [](Result<Response>) {});
  }
  EXPECT_EQ(inner.sent_at.size(), 1000U);
}

TEST(RateLimiter, ForgetsACancelledStreamAndAnswersWhatWaitsAtItsEnd) {
  FakeTimers timers;
  FakeTransport inner(timers);
  int answered = 0;
  {
    LimitedTransport limited(inner, timers, {.per_second = 1, .burst = 1});
    limited.Send(Get("/a"), [&](Result<Response>) { ++answered; });
    auto stream = limited.OpenStream(Get("/b"), {});
    stream.reset();
    limited.Send(Get("/c"), [&](Result<Response> r) { answered += r ? 0 : 10; });
  }
  timers.Advance(std::chrono::minutes(1));
  EXPECT_EQ(answered, 11);
  EXPECT_TRUE(inner.streams.empty());
}

TEST(ManagedFields, AreLeftOutAndNothingElse) {
  struct Row {
    std::string text;
    std::string expect;
  };
  const std::vector<Row> rows{
      {R"({"a":1})", R"({"a":1})"},
      {R"({"metadata":{"managedFields":[{"f":{"x]":"}\"]\\"}}],"name":"n"}})",
       R"({"metadata":{"managedFields":null,"name":"n"}})"},
      {R"({"items":[{"m":0,"managedFields":[]},{"managedFields":[[],[1]]}]})",
       R"({"items":[{"m":0,"managedFields":null},{"managedFields":null}]})"},
      // Not a list, not the whole key, inside a string.
      {R"({"managedFields":"[","x":[]})", R"({"managedFields":"[","x":[]})"},
      {R"({"x\"managedFields":[1]})", R"({"x\"managedFields":[1]})"},
      {R"({"note":"{\"managedFields\":[1]}"})", R"({"note":"{\"managedFields\":[1]}"})"},
      // No JSON stays none.
      {R"({"managedFields":[)", R"({"managedFields":[)"},
      {R"({"managedFields":["\)", R"({"managedFields":["\)"},
      {R"({"managedFields":)", R"({"managedFields":)"},
      {R"("managedFields":[])", R"("managedFields":[])"},
  };
  for (const Row& row : rows) {
    std::string scratch = "old";
    EXPECT_EQ(WithoutManagedFields(row.text, scratch), row.expect);
  }
}

TEST(WatchDecoder, GivesTheSameEventsHoweverBytesAreCut) {
  const std::string text =
      "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\\n\",\"resourceVersion\":\"1\"}}}"
      "\n\r\n\n"
      "{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"resourceVersion\":\"2\"}}}\r\n"
      "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"3\",\"annotations\":{"
      "\"k8s.io/initial-events-end\":\"true\"}}}}\n"
      "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\"}}\n";
  for (std::size_t cut = 1; cut <= text.size(); ++cut) {
    WatchDecoder decoder;
    std::string seen;
    for (std::size_t at = 0; at < text.size(); at += cut) {
      decoder.Feed(std::string_view(text).substr(at, cut));
      while (true) {
        Result<std::optional<WatchEvent>> next = decoder.Next();
        ASSERT_TRUE(next);
        if (!*next) {
          break;
        }
        seen += std::to_string(static_cast<int>((*next)->type)) + (*next)->resource_version +
                ((*next)->initial_events_end ? "!" : "") +
                ((*next)->error ? std::string(ToString((*next)->error->code)) : "") + ";";
      }
    }
    EXPECT_EQ(seen, "01;22;33!;4Gone;") << cut;
    EXPECT_FALSE(decoder.has_partial_line());
  }
}

TEST(WatchDecoder, StopsAtTheFirstLineItCannotRead) {
  for (const std::string line : {"nonsense\n",
                                 "[]\n",
                                 "{}\n",
                                 "{\"type\":\"ADDED\"}\n",
                                 "{\"type\":\"ADDED\",\"object\":7}\n",
                                 "{\"type\":\"MAYBE\",\"object\":{}}\n",
                                 "\xff\n"}) {
    WatchDecoder decoder;
    decoder.Feed(line + "{\"type\":\"ADDED\",\"object\":{}}\n");
    EXPECT_FALSE(decoder.Next()) << line;
    EXPECT_FALSE(decoder.Next()) << line;
  }
  WatchDecoder bounded(16);
  bounded.Feed(std::string(17, ' '));
  EXPECT_FALSE(bounded.Next());
  WatchDecoder deep;
  deep.Feed("{\"type\":\"ADDED\",\"object\":" + std::string(100'000, '[') + "\n");
  EXPECT_FALSE(deep.Next());
}

StoreItem Bad(const std::string& name, const std::string& uid, const std::string& version) {
  api::ObjectMeta meta;
  meta.name = name;
  meta.uid = uid;
  meta.resource_version = version;
  return {.meta = meta, .content = Error::Invalid("bad")};
}
StoreItem Good(const std::string& name, const std::string& uid, const std::string& version) {
  auto node = std::make_shared<api::Node>();
  node->meta.name = name;
  node->meta.uid = uid;
  node->meta.resource_version = version;
  return {.meta = node->meta, .content = api::Object(api::Ptr<api::Node>(node))};
}
std::string Words(const Store::Changes& changes) {
  std::string out;
  for (const StoreChange& change : changes) {
    if (const auto* up = std::get_if<StoreChange::Upserted>(&change.what)) {
      out += "+" + api::MetaOf(up->object).name + api::MetaOf(up->object).resource_version + " ";
    } else if (const auto* gone = std::get_if<StoreChange::Deleted>(&change.what)) {
      out += "-" + gone->key.name + " ";
    } else {
      out += "?" + std::get<StoreChange::Bad>(change.what).meta.name + " ";
    }
  }
  return out;
}

TEST(Store, HandsOnEachVersionOnce) {
  Store store;
  EXPECT_EQ(Words(store.Upsert(Good("a", "u", "1"))), "+a1 ");
  EXPECT_EQ(Words(store.Upsert(Good("a", "u", "1"))), "");
  EXPECT_EQ(Words(store.Upsert(Good("a", "u", "2"))), "+a2 ");
  EXPECT_EQ(Words(store.Upsert(Good("a", "v", "3"))), "-a +a3 ")
      << "deleted and made anew while nobody looked";
  EXPECT_EQ(Words(store.Delete(Good("a", "u", "4").meta)), "") << "an old incarnation";
  EXPECT_EQ(Words(store.Delete(Good("a", "v", "5").meta)), "-a ");
  EXPECT_EQ(Words(store.Delete(Good("a", "v", "5").meta)), "");
}

TEST(Store, KeepsTheLastGoodVersionOfABadObjectInForce) {
  Store store;
  EXPECT_EQ(Words(store.Upsert(Good("a", "u", "1"))), "+a1 ");
  EXPECT_EQ(Words(store.Upsert(Bad("a", "u", "2"))), "?a ");
  EXPECT_EQ(Words(store.Upsert(Bad("a", "u", "2"))), "");
  EXPECT_EQ(Words(store.Delete(Bad("a", "u", "3").meta)), "-a ");
  EXPECT_EQ(Words(store.Upsert(Bad("b", "u", "1"))), "?b ");
  EXPECT_EQ(Words(store.Delete(Bad("b", "u", "2").meta)), "") << "never was handed on";
  EXPECT_EQ(Words(store.Upsert(Good("c", "u", "1"))), "+c1 ");
  EXPECT_EQ(Words(store.Upsert(Bad("c", "w", "2"))), "-c ?c ")
      << "another object under the same name";
}

TEST(Store, SwapsAtomicallyAndDeletesWhatIsMissing) {
  Store store;
  for (const char* name : {"a", "b", "c"}) {
    static_cast<void>(store.Upsert(Good(name, "u", "1")));
  }
  store.BeginSnapshot();
  store.AddToSnapshot({.meta = Good("b", "u", "1").meta, .content = StoreItem::Unchanged{}});
  store.AddToSnapshot(Good("c", "u", "2"));
  store.AddToSnapshot(Good("d", "u", "1"));
  store.AddToSnapshot(Good("e", "u", "1"));
  store.RemoveFromSnapshot(Good("e", "u", "2").meta);
  EXPECT_EQ(store.size(), 3U) << "nothing shows before the swap";
  EXPECT_EQ(Words(store.CommitSnapshot()), "-a +c2 +d1 ");
  store.BeginSnapshot();
  store.AddToSnapshot(Good("x", "u", "1"));
  store.BeginSnapshot();
  store.AddToSnapshot(Good("d", "u", "1"));
  EXPECT_EQ(Words(store.CommitSnapshot()), "-b -c ")
      << "an abandoned snapshot leaves nothing behind";
  EXPECT_EQ(Words(store.Clear()), "-d ");
}

}  // namespace
}  // namespace muster::k8s
