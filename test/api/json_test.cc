#include "api/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::api {
namespace {

using ::testing::HasSubstr;

TEST(ParseJson, ReadsOneDocument) {
  EXPECT_EQ(ParseJson(R"({"a": [1, "x", null]})")->at("a").size(), 3U);
  EXPECT_EQ(ParseJson(R"({"a": 1, "a": 2})")->at("a"), 2);
  EXPECT_EQ(ParseJson(" 7 ").value(), 7);
}

TEST(ParseJson, RefusesWhatIsNotJson) {
  for (const char* text : {"",
                           "{",
                           "{\"a\":1,}",
                           "[1 2]",
                           "nul",
                           "\"\xff\"",
                           "\"\\ud800\"",
                           "1 2",
                           "{} {}",
                           "NaN",
                           "01",
                           "1e400",
                           "\x01"}) {
    const Result<Json> parsed = ParseJson(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_THAT(parsed.error().message, HasSubstr("not valid JSON")) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalid);
  }
}

TEST(ParseJson, RefusesDeepNesting) {
  EXPECT_TRUE(ParseJson(std::string(kMaxJsonDepth, '[') + std::string(kMaxJsonDepth, ']')));
  EXPECT_FALSE(
      ParseJson(std::string(kMaxJsonDepth + 1, '[') + std::string(kMaxJsonDepth + 1, ']')));
  EXPECT_FALSE(ParseJson(std::string(1'000'000, '[')));
  // Brackets inside strings do not nest.
  EXPECT_TRUE(
      ParseJson("\"" + std::string(10'000, '[') + "\\\"" + std::string(10'000, '{') + "\""));
}

TEST(DepthAtMost, CountsLevels) {
  EXPECT_TRUE(DepthAtMost(Json(1), 0));
  EXPECT_FALSE(DepthAtMost(Json::array(), 0));
  EXPECT_TRUE(DepthAtMost(Json::parse("[[1]]"), 2));
  EXPECT_FALSE(DepthAtMost(Json::parse("[[1]]"), 1));
  EXPECT_FALSE(DepthAtMost(Json::parse(R"([1, {"a": [2]}])"), 2));
}

TEST(Dump, NeverThrows) {
  EXPECT_THAT(Dump(Json("a\xff")), HasSubstr("a"));
}

}  // namespace
}  // namespace muster::api
