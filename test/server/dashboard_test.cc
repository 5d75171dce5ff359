#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "server/pending_view.h"
#include "server/static_files.h"

namespace muster::server {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

DashboardData Data() {
  DashboardData data{.title = "demo", .version = "1"};
  data.queues = {{.name = "a",
                  .cohort = "lab",
                  .pending = 2,
                  .local_queues = {"foo/default", "bar/default"},
                  .quota = {{.flavor = "f",
                             .resource = "gpu",
                             .nominal = 8,
                             .reserved = 10,
                             .borrowed = 2,
                             .nominal_text = "8",
                             .reserved_text = "10",
                             .borrowed_text = "2"}}}};
  // MO-02: one name in two namespaces; each is first in its LocalQueue.
  data.pending = {{.ns = "foo",
                   .name = "x",
                   .cluster_queue = "a",
                   .local_queue = "default",
                   .position = 0,
                   .local_position = 0,
                   .reason = "NoQuota",
                   .message = "needs \"7\", at most 6"},
                  {.ns = "bar",
                   .name = "y",
                   .cluster_queue = "a",
                   .local_queue = "default",
                   .position = 1,
                   .local_position = 0},
                  {.ns = "bar", .name = "z", .cluster_queue = "b", .position = 0}};
  data.running = {{.ns = "foo",
                   .name = "r",
                   .cluster_queue = "b",
                   .since = TimePoint(std::chrono::seconds(60)),
                   .nodes = {{.node = "n", .pods = 2, .devices = {"gpu-0", "gpu-1"}}}}};
  data.nodes = {{.name = "n", .group = "rack1", .total = 8, .used = 2}};
  data.events = {{.kind = "Admitted", .workload = "foo/r", .message = "</script>\x01"}};
  return data;
}

TEST(DashboardJson, TellsEverything) {
  const json out = json::parse(DashboardJson(Data(), {}));
  EXPECT_EQ(out["title"], "demo");
  EXPECT_EQ(out["now"], "1970-01-01T00:00:00Z");
  EXPECT_EQ(out["queues"][0]["quota"][0]["borrowed"], 2);
  EXPECT_EQ(out["queues"][0]["localQueues"].size(), 2U);
  ASSERT_EQ(out["pending"].size(), 3U);
  EXPECT_EQ(out["pendingTotal"], 3);
  EXPECT_EQ(out["pending"][0]["message"], "needs \"7\", at most 6");
  EXPECT_EQ(out["pending"][0]["since"], nullptr);
  EXPECT_EQ(out["pending"][1]["position"], 1);
  EXPECT_EQ(out["pending"][1]["localPosition"], 0);
  EXPECT_EQ(out["running"][0]["since"], "1970-01-01T00:01:00Z");
  EXPECT_EQ(out["running"][0]["nodes"][0]["devices"][1], "gpu-1");
  EXPECT_EQ(out["nodes"][0]["used"], 2);
  EXPECT_EQ(out["events"][0]["message"], "</script>\x01");
  EXPECT_TRUE(json::parse(DashboardJson({}, {})).is_object());
}

TEST(DashboardJson, PagesAndFilters) {
  json out = json::parse(DashboardJson(Data(), {.offset = 1, .limit = 1}));
  ASSERT_EQ(out["pending"].size(), 1U);
  EXPECT_EQ(out["pending"][0]["name"], "y");
  EXPECT_EQ(out["pendingTotal"], 3);
  out = json::parse(DashboardJson(Data(), {.cluster_queue = "b"}));
  EXPECT_EQ(out["pending"].size(), 1U);
  EXPECT_EQ(out["pendingTotal"], 1);
  EXPECT_EQ(out["runningTotal"], 1);
  out = json::parse(DashboardJson(
      Data(), {.offset = std::numeric_limits<std::int64_t>::max(), .limit = Page::kMaxLimit}));
  EXPECT_TRUE(out["pending"].empty());
}

// BI-05.
TEST(ParsePage, RefusesOrCutsWhatWouldCostTooMuch) {
  for (const char* bad : {"limit=-1",
                          "limit=0",
                          "limit=abc",
                          "limit=",
                          "limit",
                          "limit=1e3",
                          "limit=10&offset=-5",
                          "offset=-99999999999999999999",
                          "limit=1%00",
                          "limit= 1"}) {
    const Result<Page> page = ParsePage(bad);
    ASSERT_FALSE(page) << bad;
    EXPECT_THAT(page.error().message, HasSubstr("expected an integer"));
  }
  EXPECT_EQ(ParsePage("limit=2147483648")->limit, Page::kMaxLimit);
  EXPECT_EQ(ParsePage("limit=99999999999999999999")->limit, Page::kMaxLimit);
  EXPECT_EQ(ParsePage("offset=99999999999999999999")->offset,
            std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(ParsePage("")->limit, 500);
  EXPECT_EQ(ParsePage("queue=a%2Fb&x=y&&=&limit=7")->cluster_queue, "a/b");
  EXPECT_EQ(ParsePage("queue=a%2Fb&x=y&&=&limit=7")->limit, 7);
}

TEST(StaticFiles, ServesThePageWithAStrictPolicy) {
  HttpRequest request{.method = "GET", .target = "/?x=1"};
  std::optional<HttpResponse> page = ServeFile(request);
  ASSERT_TRUE(page);
  EXPECT_THAT(page->body, HasSubstr("<title>Muster</title>"));
  std::string tag;
  std::string policy;
  for (const auto& [name, value] : page->headers) {
    tag = name == "etag" ? value : tag;
    policy = name == "content-security-policy" ? value : policy;
  }
  EXPECT_THAT(policy, HasSubstr("default-src 'none'"));
  EXPECT_THAT(policy, ::testing::Not(HasSubstr("unsafe")));
  request.headers = {{"if-none-match", tag}};
  EXPECT_EQ(ServeFile(request)->status, 304);
  for (const char* path : {"/app.js", "/style.css", "/icon.svg"}) {
    request = {.method = "GET", .target = path};
    EXPECT_TRUE(ServeFile(request)) << path;
  }
  for (const char* path : {"/../etc/passwd", "//", "", "*", "/nothing", "/app.js/"}) {
    request = {.method = "GET", .target = path};
    EXPECT_FALSE(ServeFile(request)) << path;
  }
}

// The policy allows nothing inline, so the page must not use it.
TEST(StaticFiles, ThePageNeedsNothingThatThePolicyForbids) {
  for (const EmbeddedFile& file : EmbeddedFiles()) {
    if (!file.name.ends_with(".html")) {
      continue;
    }
    for (const char* inline_code :
         {"style=\"", "onclick", "onload", "javascript:", "<style", "http://", "https://"}) {
      EXPECT_EQ(file.bytes.find(inline_code), std::string_view::npos)
          << file.name << ": " << inline_code;
    }
  }
}

}  // namespace
}  // namespace muster::server
