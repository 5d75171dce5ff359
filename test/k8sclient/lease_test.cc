#include "k8sclient/lease.h"

#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "k8sclient/leader.h"
#include "test/k8sclient/fakes.h"

namespace muster::k8s {
namespace {

using api::Json;
using fake::Answer;
using fake::FakeTimers;
using fake::FakeTransport;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A Lease on a server, for several candidates with transports of their own.
struct LeaseServer {
  std::optional<Json> lease;
  std::int64_t version = 1;
  int writes = 0;

  Response Handle(const Request& request) {
    if (request.method == Method::kGet) {
      return lease ? Answer(200, lease->dump())
                   : Answer(404, R"({"kind":"Status","code":404,"reason":"NotFound"})");
    }
    Json body = Json::parse(request.body);
    if (request.method == Method::kPost) {
      if (lease) {
        return Answer(409, R"({"kind":"Status","code":409,"reason":"AlreadyExists"})");
      }
    } else if (!lease ||
               (*lease)["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]) {
      return Answer(409, R"({"kind":"Status","code":409,"reason":"Conflict"})");
    }
    body["metadata"]["resourceVersion"] = std::to_string(++version);
    lease = body;
    ++writes;
    return Answer(200, body.dump());
  }
};

struct Candidate {
  enum class Link { kUp, kCut, kSwallowAnswers };

  Candidate(FakeTimers& t, LeaseServer& server, const std::string& id) : timers(t), transport(t) {
    transport.respond = [this, &server](const Request& request) -> std::optional<Result<Response>> {
      switch (link) {
        case Link::kUp:
          return server.Handle(request);
        case Link::kCut:
          return std::nullopt;
        case Link::kSwallowAnswers:
          static_cast<void>(server.Handle(request));
          return std::nullopt;
      }
      return std::nullopt;
    };
    elector =
        std::make_unique<LeaderElector>(transport,
                                        timers,
                                        LeaderOptions{.ns = "ns",
                                                      .name = "muster",
                                                      .lease = {.identity = id},
                                                      .seed = std::hash<std::string>{}(id)},
                                        LeaderHandlers{.on_started =
                                                           [this] {
                                                             acting = true;
                                                             ++terms;
                                                           },
                                                       .on_stopped = [this] { acting = false; },
                                                       .on_holder = {},
                                                       .on_trouble = {}});
    elector->Start();
  }
  FakeTimers& timers;
  FakeTransport transport;
  Link link = Link::kUp;
  std::unique_ptr<LeaderElector> elector;
  bool acting = false;
  int terms = 0;
};

TEST(Leader, IsOneOfManyAndRenews) {
  FakeTimers timers;
  LeaseServer server;
  Candidate a(timers, server, "a");
  Candidate b(timers, server, "b");
  Candidate c(timers, server, "c");
  for (int i = 0; i < 600; ++i) {
    timers.Advance(milliseconds(500));
    EXPECT_EQ(int(a.acting) + int(b.acting) + int(c.acting), 1) << i;
    EXPECT_EQ(a.acting, a.elector->Leads());
  }
  EXPECT_EQ(a.terms + b.terms + c.terms, 1);
  EXPECT_EQ((*server.lease)["spec"]["leaseTransitions"], 0);
  EXPECT_EQ(b.elector->holder(), (*server.lease)["spec"]["holderIdentity"].get<std::string>());
}

TEST(Leader, HandsOverAtOnceOnACleanStop) {  // RL-07
  FakeTimers timers;
  LeaseServer server;
  Candidate a(timers, server, "a");
  timers.Advance(seconds(1));
  ASSERT_TRUE(a.acting);
  Candidate b(timers, server, "b");
  timers.Advance(seconds(20));
  bool released = false;
  a.elector->Release([&] {
    released = true;
    EXPECT_FALSE(a.acting);
  });
  EXPECT_FALSE(a.acting) << "stops before it lets go";
  timers.Advance(milliseconds(10));
  EXPECT_TRUE(released);
  EXPECT_EQ((*server.lease)["spec"]["holderIdentity"], "");
  timers.Advance(seconds(5));  // the retry period with its jitter
  EXPECT_TRUE(b.acting);
  EXPECT_EQ((*server.lease)["spec"]["leaseTransitions"], 1);
  timers.Advance(seconds(60));
  EXPECT_FALSE(a.acting);
}

TEST(Leader, IsReplacedWithinTheLeaseDurationAfterItsDeath) {  // RL-07
  FakeTimers timers;
  LeaseServer server;
  auto a = std::make_unique<Candidate>(timers, server, "a");
  timers.Advance(seconds(1));
  Candidate b(timers, server, "b");
  timers.Advance(seconds(20));
  ASSERT_TRUE(a->acting);
  a->elector.reset();  // kill -9
  const TimePoint died = timers.Now();
  while (!b.acting && timers.Now() < died + seconds(60)) {
    timers.Advance(milliseconds(100));
  }
  // b may have seen the last renewal up to one jittered retry period after it was made.
  EXPECT_LE(timers.Now() - died, seconds(15) + milliseconds(4400));
  EXPECT_GE(timers.Now() - died, seconds(12)) << "not before the lease ran out";
}

TEST(Leader, StopsBeforeItsLeaseCanBeTakenWhenCutOff) {  // RL-07
  for (const auto link : {Candidate::Link::kCut, Candidate::Link::kSwallowAnswers}) {
    for (int offset = 0; offset < 40; ++offset) {
      FakeTimers timers;
      LeaseServer server;
      Candidate a(timers, server, "a");
      timers.Advance(seconds(1));
      Candidate b(timers, server, "b");
      timers.Advance(seconds(10) + milliseconds(100 * offset));
      ASSERT_TRUE(a.acting);
      a.link = link;
      bool gap = false;
      for (int i = 0; i < 1000 && !b.acting; ++i) {
        timers.Advance(milliseconds(100));
        gap = gap || (!a.acting && !b.acting);
        ASSERT_FALSE(a.acting && b.acting);
        ASSERT_FALSE(a.elector->Leads() && b.elector->Leads());
      }
      EXPECT_TRUE(b.acting || link == Candidate::Link::kSwallowAnswers);
      EXPECT_TRUE(gap);
      // Back again: a is a candidate like any other.
      a.link = Candidate::Link::kUp;
      for (int i = 0; i < 600; ++i) {
        timers.Advance(milliseconds(100));
        ASSERT_FALSE(a.acting && b.acting);
      }
      EXPECT_TRUE(a.acting || b.acting);
    }
  }
}

TEST(Leader, DoesNotLeadAfterTheProcessSleptThroughItsLease) {
  FakeTimers timers;
  LeaseServer server;
  Candidate a(timers, server, "a");
  timers.Advance(seconds(5));
  ASSERT_TRUE(a.elector->Leads());
  timers.Freeze(seconds(11));
  EXPECT_FALSE(a.elector->Leads()) << "no alarm has fired yet";
  timers.Settle();
  timers.Advance(seconds(1));
  EXPECT_TRUE(a.elector->Leads()) << "nobody took it";
  EXPECT_EQ(a.terms, 2) << "it was told to stop and to start again";
}

TEST(Leader, StepsDownWhenSomebodyOverwritesTheLease) {
  FakeTimers timers;
  LeaseServer server;
  Candidate a(timers, server, "a");
  timers.Advance(seconds(5));
  ASSERT_TRUE(a.acting);
  (*server.lease)["spec"]["holderIdentity"] = "thief";
  (*server.lease)["metadata"]["resourceVersion"] = std::to_string(++server.version);
  timers.Advance(seconds(3));
  EXPECT_FALSE(a.acting);
  timers.Advance(seconds(20));
  EXPECT_TRUE(a.acting) << "the thief does not renew";
}

TEST(Leader, LivesWithALeaseWrittenByAnybody) {
  for (
      const char* spec :
      {R"({})",
       R"({"spec":[]})",
       R"({"spec":{"holderIdentity":7,"leaseDurationSeconds":"x"}})",
       R"({"spec":{"holderIdentity":"z","leaseDurationSeconds":9223372036854775807,"leaseTransitions":9223372036854775807}})",
       R"({"spec":{"holderIdentity":"z","leaseDurationSeconds":-5}})"}) {
    FakeTimers timers;
    LeaseServer server;
    server.lease = Json::parse(spec);
    (*server.lease)["metadata"] = {{"resourceVersion", "1"}, {"labels", {{"keep", "me"}}}};
    Candidate a(timers, server, "a");
    timers.Advance(seconds(60));
    if (!a.acting) {
      timers.Freeze(std::chrono::hours(24));
      timers.Advance(seconds(60));
    }
    EXPECT_TRUE(a.acting) << spec;
    EXPECT_EQ((*server.lease)["metadata"]["labels"]["keep"], "me");
  }
}

TEST(Leader, DoesNotHammerAServerThatRefusesEveryWrite) {
  FakeTimers timers;
  LeaseServer server;
  server.lease = Json::parse(R"({"metadata":{"resourceVersion":"1"}})");
  Candidate a(timers, server, "a");
  a.transport.respond = [&](const Request& request) -> std::optional<Result<Response>> {
    return request.method == Method::kGet ? server.Handle(request)
                                          : Answer(409, R"({"kind":"Status","code":409})");
  };
  timers.Advance(seconds(60));
  EXPECT_FALSE(a.acting);
  EXPECT_LE(a.transport.requests.size(), 6U * 31);
  EXPECT_GE(a.transport.requests.size(), 30U);
}

TEST(Leader, GivesUpReleasingInTime) {
  FakeTimers timers;
  LeaseServer server;
  Candidate a(timers, server, "a");
  timers.Advance(seconds(5));
  a.link = Candidate::Link::kCut;
  bool released = false;
  a.elector->Release([&] { released = true; });
  EXPECT_FALSE(a.acting);
  timers.Advance(seconds(2));
  EXPECT_TRUE(released);
}

TEST(Lease, OptionsMustLeaveRoom) {
  const auto with = [](Duration lease, Duration renew, Duration retry, const char* id = "x") {
    return Validate({.identity = id,
                     .lease_duration = lease,
                     .renew_deadline = renew,
                     .retry_period = retry})
        .has_value();
  };
  EXPECT_TRUE(with(seconds(15), seconds(10), seconds(2)));
  EXPECT_FALSE(with(seconds(15), seconds(10), seconds(2), ""));
  EXPECT_FALSE(with(seconds(10), seconds(10), seconds(2)));
  EXPECT_FALSE(with(seconds(15), milliseconds(2400), seconds(2)));
  EXPECT_FALSE(with(seconds(15), seconds(10), seconds(0)));
  EXPECT_FALSE(with(milliseconds(15500), seconds(10), seconds(2)));
}

}  // namespace
}  // namespace muster::k8s
