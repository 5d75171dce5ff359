#include "k8sclient/watch_machine.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::k8s {
namespace {

using namespace watch_input;  // NOLINT(google-build-using-namespace): a table of rows reads better
namespace act = watch_action;

constexpr TimePoint kStart{std::chrono::seconds(1'800'000'000)};

// An action as one word with what matters of it; random numbers are left out.
std::string Word(const WatchAction& action) {
  struct Visitor {
    std::string operator()(const act::SendList& a) const {
      return "list(" + std::to_string(a.limit) +
             (a.continue_token.empty() ? "" : "," + a.continue_token) + ")";
    }
    std::string operator()(const act::OpenWatch& a) const {
      return a.initial_events ? "stream-list" : "watch(" + a.resource_version + ")";
    }
    std::string operator()(const act::CloseStream&) const { return "close"; }
    std::string operator()(const act::StartTimer&) const { return "timer"; }
    std::string operator()(const act::BeginSnapshot&) const { return "begin"; }
    std::string operator()(const act::AddPageToSnapshot&) const { return "page"; }
    std::string operator()(const act::AddEventToSnapshot&) const { return "collect"; }
    std::string operator()(const act::CommitSnapshot&) const { return "commit"; }
    std::string operator()(const act::ApplyEvent&) const { return "apply"; }
    std::string operator()(const act::ReportTrouble& a) const {
      return "trouble:" + std::string(ToString(a.error.code));
    }
  };
  return std::visit(Visitor{}, action);
}

std::string Words(const std::vector<WatchAction>& actions) {
  std::string out;
  for (const WatchAction& action : actions) {
    out += (out.empty() ? "" : " ") + Word(action);
  }
  return out;
}

ApiError Http(int status, std::string reason = {}) {
  ApiError out;
  out.http_status = status;
  out.code = CodeForHttpStatus(status);
  out.reason = std::move(reason);
  return out;
}
ApiError NoAnswer() {
  return ErrorFromTransport(Error::Retry("connection lost"));
}
StreamEvent Event(WatchEventType type, std::string version) {
  return {.type = type, .resource_version = std::move(version)};
}
StreamEvent Added(std::string version) {
  return Event(WatchEventType::kAdded, std::move(version));
}
StreamEvent Bookmark(std::string version) {
  return Event(WatchEventType::kBookmark, std::move(version));
}
StreamEvent InitialEnd(std::string version) {
  StreamEvent out = Bookmark(std::move(version));
  out.initial_events_end = true;
  return out;
}
StreamEvent ErrorEvent(ApiError error) {
  return {.type = WatchEventType::kError,
          .resource_version = {},
          .initial_events_end = false,
          .error = std::move(error)};
}
StreamEnded Cut() {
  return {.error = Error::Retry("reset")};
}

struct Step {
  WatchInput input;
  std::string expect;
  Duration after = Duration::zero();  // time that passes before the input
};

void Walk(const WatchMachineOptions& options, const std::vector<Step>& steps) {
  WatchMachine machine(options, 7);
  TimePoint now = kStart;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    now += steps[i].after;
    EXPECT_EQ(Words(machine.On(steps[i].input, now)), steps[i].expect) << "step " << i;
  }
}

WatchMachineOptions Plain() {
  return {.page_size = 2, .stream_lists = false};
}
WatchMachineOptions Streaming() {
  return {.page_size = 2, .stream_lists = true};
}

const std::string kPlainStart = "begin list(2)";
const std::string kStreamStart = "begin stream-list";

TEST(WatchMachine, ListsPageByPageThenWatchesFromTheListsVersion) {
  Walk(Plain(),
       {{Start{}, kPlainStart},
        {ListPage{"10", "c1"}, "page list(2,c1)"},
        {ListPage{"10", "c2"}, "page list(2,c2)"},
        {ListPage{"10", ""}, "page commit watch(10)"},
        {Added("11"), "apply"},
        {Event(WatchEventType::kModified, "12"), "apply"},
        {Event(WatchEventType::kDeleted, "13"), "apply"},
        {StreamEnded{}, "watch(13)"}});
}

TEST(WatchMachine, ResumesFromTheFirstPagesVersionShouldPagesDiffer) {
  Walk(Plain(),
       {{Start{}, kPlainStart},
        {ListPage{"10", "c"}, "page list(2,c)"},
        {ListPage{"15", ""}, "page commit watch(10)"}});
}

TEST(WatchMachine, StreamsTheListAndSwapsAtItsBookmark) {
  Walk(Streaming(),
       {{Start{}, kStreamStart},
        {Added("3"), "collect"},
        {Bookmark("5"), ""},
        {Event(WatchEventType::kDeleted, "6"), "collect"},
        {InitialEnd("9"), "commit"},
        {Added("10"), "apply"},
        {StreamEnded{}, "watch(10)"}});
}

TEST(WatchMachine, FallsBackToPagesWhereStreamingListsAreRefused) {
  for (const int status : {400, 422}) {
    Walk(Streaming(),
         {{Start{}, kStreamStart},
          {StreamRefused{Http(status)}, kPlainStart},
          {ListPage{"4", ""}, "page commit watch(4)"},
          // And remembers it.
          {ErrorEvent(Http(410, "Expired")), "close " + kPlainStart}});
  }
}

TEST(WatchMachine, TriesPagesAfterAStreamingListBrokeOffAndStreamsAgainLater) {
  Walk(Streaming(),
       {{Start{}, kStreamStart},
        {Added("3"), "collect"},
        {Cut(), "trouble:Retry timer"},
        {TimerFired{}, kPlainStart},
        {ListPage{"4", ""}, "page commit watch(4)"},
        {Added("5"), "apply"},
        {ErrorEvent(Http(410)), "close " + kStreamStart}});
}

TEST(WatchMachine, GivesUpStreamingListsAfterThreeSilences) {
  std::vector<Step> steps{{Start{}, kStreamStart}};
  for (int i = 0; i < 3; ++i) {
    steps.push_back({Cut(), "trouble:Retry timer"});
    steps.push_back({TimerFired{}, kPlainStart});
    steps.push_back({ListPage{"4", ""}, "page commit watch(4)"});
    steps.push_back({Added("5"), "apply"});
    steps.push_back(
        {ErrorEvent(Http(410)), i < 2 ? "close " + kStreamStart : "close " + kPlainStart});
  }
  Walk(Streaming(), steps);
}

TEST(WatchMachine, DoesNotBlameStreamingForABusyServer) {
  Walk(Streaming(),
       {{Start{}, kStreamStart},
        {StreamRefused{Http(429)}, "trouble:Retry timer"},
        {TimerFired{}, kStreamStart}});
}

TEST(WatchMachine, RelistsAfterGone) {
  // As an event, as the status of the watch; the first time at once, then with a pause.
  for (const bool as_event : {true, false}) {
    const WatchInput gone = as_event ? WatchInput(ErrorEvent(Http(410, "Expired")))
                                     : WatchInput(StreamRefused{Http(410, "Gone")});
    const std::string close = as_event ? "close " : "";
    Walk(Plain(),
         {{Start{}, kPlainStart},
          {ListPage{"10", ""}, "page commit watch(10)"},
          {gone, close + kPlainStart},
          {ListPage{"20", ""}, "page commit watch(20)"},
          {gone, close + "timer"},
          {TimerFired{}, kPlainStart}});
  }
}

TEST(WatchMachine, ListsWithoutPagesWhenAContinueTokenExpired) {
  Walk(Plain(),
       {{Start{}, kPlainStart},
        {ListPage{"10", "c1"}, "page list(2,c1)"},
        {ListFailed{Http(410, "Expired")}, "begin list(0)"},
        {ListPage{"12", ""}, "page commit watch(12)"},
        // Later lists have pages again.
        {ErrorEvent(Http(410)), "close " + kPlainStart}});
}

TEST(WatchMachine, WaitsAfterAFailedListAndStartsFromTheFirstPage) {
  for (const ApiError& error : {Http(500), Http(429), Http(403), Http(404), NoAnswer()}) {
    Walk(Plain(),
         {{Start{}, kPlainStart},
          {ListPage{"10", "c1"}, "page list(2,c1)"},
          {ListFailed{error}, "trouble:" + std::string(ToString(error.code)) + " timer"},
          {TimerFired{}, kPlainStart},
          {ListPage{"11", ""}, "page commit watch(11)"}});
  }
}

TEST(WatchMachine, ResumesAHealthyWatchAtOnceAndASickOneWithAPause) {
  Walk(Plain(),
       {{Start{}, kPlainStart},
        {ListPage{"10", ""}, "page commit watch(10)"},
        {StreamEnded{}, "timer"},  // ended as soon as it began
        {TimerFired{}, "watch(10)"},
        {StreamEnded{}, "watch(10)", std::chrono::seconds(6)},  // lasted
        {Bookmark("12"), ""},
        {StreamEnded{}, "watch(12)"},  // brought something
        {Cut(), "timer"},
        {TimerFired{}, "watch(12)"},
        {Cut(), "trouble:Retry timer"}});  // twice in a row is worth a word
}

TEST(WatchMachine, ResumesFromTheLastBookmarkAfterSilenceWithoutListing) {  // KW-01
  std::vector<Step> steps{{Start{}, kPlainStart}, {ListPage{"10", ""}, "page commit watch(10)"}};
  for (int i = 0; i < 10; ++i) {
    const std::string version = std::to_string(11 + i);
    steps.push_back({Bookmark(version), "", std::chrono::seconds(60)});
    steps.push_back({Cut(), "timer", std::chrono::seconds(100)});
    steps.push_back({TimerFired{}, "watch(" + version + ")"});
  }
  steps.push_back({Added("30"), "apply"});
  Walk(Plain(), steps);
}

TEST(WatchMachine, ListsAgainWhereTheServerDoesNotKnowTheVersion) {
  ApiError too_large = Http(504, "Timeout");
  too_large.causes.push_back({.reason = "ResourceVersionTooLarge", .message = {}, .field = {}});
  for (const ApiError& error : {Http(404), Http(400), too_large}) {
    Walk(Plain(),
         {{Start{}, kPlainStart},
          {ListPage{"10", ""}, "page commit watch(10)"},
          {StreamRefused{error}, "trouble:" + std::string(ToString(error.code)) + " timer"},
          {TimerFired{}, kPlainStart}});
  }
  for (const ApiError& error : {Http(500), Http(429), Http(401), Http(403), NoAnswer()}) {
    Walk(Plain(),
         {{Start{}, kPlainStart},
          {ListPage{"10", ""}, "page commit watch(10)"},
          {StreamRefused{error}, "trouble:" + std::string(ToString(error.code)) + " timer"},
          {TimerFired{}, "watch(10)"}});
  }
}

TEST(WatchMachine, ListsAgainAfterServerErrorsInARow) {
  std::vector<Step> steps{{Start{}, kPlainStart}, {ListPage{"10", ""}, "page commit watch(10)"}};
  for (int i = 0; i < 4; ++i) {
    steps.push_back({ErrorEvent(Http(500)), "close trouble:Retry timer"});
    steps.push_back({TimerFired{}, i < 3 ? "watch(10)" : kPlainStart});
  }
  Walk(Plain(), steps);
}

TEST(WatchMachine, ListsAgainAfterBytesThatAreNoEvent) {
  Walk(Plain(),
       {{Start{}, kPlainStart},
        {ListPage{"10", ""}, "page commit watch(10)"},
        {StreamGarbled{Error::Invalid("x")}, "close trouble:Invalid timer"},
        {TimerFired{}, kPlainStart}});
}

TEST(WatchMachine, HonoursRetryAfter) {
  WatchMachine machine(Plain(), 7);
  static_cast<void>(machine.On(Start{}, kStart));
  ApiError busy = Http(429);
  busy.retry_after_seconds = 17;
  const std::vector<WatchAction> actions = machine.On(ListFailed{busy}, kStart);
  ASSERT_EQ(actions.size(), 2U);
  EXPECT_EQ(std::get<act::StartTimer>(actions[1]).delay, std::chrono::seconds(17));
}

TEST(WatchMachine, RefusesAListWithoutAVersion) {
  Walk(Plain(), {{Start{}, kPlainStart}, {ListPage{"", ""}, "trouble:Invalid timer"}});
}

TEST(WatchMachine, IgnoresWhatComesTooLate) {
  Walk(Plain(),
       {{ListPage{"1", ""}, ""},
        {TimerFired{}, ""},
        {Start{}, kPlainStart},
        {Start{}, ""},
        {Added("1"), ""},
        {StreamEnded{}, ""},
        {StreamGarbled{Error::Invalid("x")}, ""},
        {TimerFired{}, ""},
        {ListPage{"10", ""}, "page commit watch(10)"},
        {ListPage{"11", ""}, ""},
        {ListFailed{Http(500)}, ""},
        {TimerFired{}, ""},
        {Stop{}, "close"},
        {Added("12"), ""},
        {Cut(), ""},
        {Start{}, kPlainStart}});
}

TEST(WatchMachine, WaitsLongerAndLongerButNotForEver) {
  WatchMachine machine(Plain(), 7);
  static_cast<void>(machine.On(Start{}, kStart));
  Duration last{};
  for (int i = 0; i < 40; ++i) {
    const std::vector<WatchAction> failed = machine.On(ListFailed{NoAnswer()}, kStart);
    last = std::get<act::StartTimer>(failed.back()).delay;
    EXPECT_LE(last, std::chrono::seconds(30));
    static_cast<void>(machine.On(TimerFired{}, kStart));
  }
  EXPECT_GE(last, std::chrono::seconds(15));
}

}  // namespace
}  // namespace muster::k8s
