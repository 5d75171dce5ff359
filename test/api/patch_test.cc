#include "api/patch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::api {
namespace {

using ::testing::HasSubstr;

// The examples of RFC 7386, appendix A.
TEST(MergePatch, DoesWhatTheRfcShows) {
  const char* rows[][3] = {
      {R"({"a":"b"})", R"({"a":"c"})", R"({"a":"c"})"},
      {R"({"a":"b"})", R"({"b":"c"})", R"({"a":"b","b":"c"})"},
      {R"({"a":"b"})", R"({"a":null})", R"({})"},
      {R"({"a":"b","b":"c"})", R"({"a":null})", R"({"b":"c"})"},
      {R"({"a":["b"]})", R"({"a":"c"})", R"({"a":"c"})"},
      {R"({"a":"c"})", R"({"a":["b"]})", R"({"a":["b"]})"},
      {R"({"a":{"b":"c"}})", R"({"a":{"b":"d","c":null}})", R"({"a":{"b":"d"}})"},
      {R"({"a":[{"b":"c"}]})", R"({"a":[1]})", R"({"a":[1]})"},
      {R"(["a","b"])", R"(["c","d"])", R"(["c","d"])"},
      {R"({"a":"b"})", R"(["c"])", R"(["c"])"},
      {R"({"a":"foo"})", R"(null)", R"(null)"},
      {R"({"a":"foo"})", R"("bar")", R"("bar")"},
      {R"({"e":null})", R"({"a":1})", R"({"e":null,"a":1})"},
      {R"([1,2])", R"({"a":"b","c":null})", R"({"a":"b"})"},
      {R"({})", R"({"a":{"bb":{"ccc":null}}})", R"({"a":{"bb":{}}})"},
  };
  for (const auto& [target, patch, expected] : rows) {
    Json value = Json::parse(target);
    ApplyMergePatch(value, Json::parse(patch));
    EXPECT_EQ(value, Json::parse(expected)) << target << " + " << patch;
  }
}

TEST(MergePatch, DiffTurnsOneIntoTheOther) {
  const char* values[] = {R"({})",
                          R"({"a":1})",
                          R"({"a":{"b":1,"c":[1,2]},"d":"x"})",
                          R"({"a":{"b":2,"c":[1]},"e":{}})",
                          R"({"a":[{"b":1}]})",
                          R"({"a":{"b":{"c":{"d":1}}}})",
                          R"({"a":{"b":{"c":{}}}})",
                          R"([1,2])",
                          R"("x")"};
  for (const char* from : values) {
    for (const char* to : values) {
      Json value = Json::parse(from);
      const Json wanted = Json::parse(to);
      const Json patch = DiffMerge(value, wanted);
      if (value == wanted) {
        EXPECT_EQ(patch, Json::object());
        continue;
      }
      ApplyMergePatch(value, patch);
      EXPECT_EQ(value, wanted) << from << " -> " << to << " by " << patch;
    }
  }
}

struct PatchRow {
  const char* target;
  const char* patch;
  const char* expected;  // JSON, or part of the error
};

TEST(JsonPatch, DoesWhatTheRfcShows) {
  const PatchRow rows[] = {
      {R"({"foo":"bar"})",
       R"([{"op":"add","path":"/baz","value":"qux"}])",
       R"({"baz":"qux","foo":"bar"})"},
      {R"({"foo":["bar","baz"]})",
       R"([{"op":"add","path":"/foo/1","value":"qux"}])",
       R"({"foo":["bar","qux","baz"]})"},
      {R"({"foo":["bar"]})",
       R"([{"op":"add","path":"/foo/-","value":["x"]}])",
       R"({"foo":["bar",["x"]]})"},
      {R"({"foo":["bar"]})", R"([{"op":"add","path":"/foo/1","value":2}])", R"({"foo":["bar",2]})"},
      {R"({"baz":1,"foo":2})", R"([{"op":"remove","path":"/baz"}])", R"({"foo":2})"},
      {R"({"foo":[1,2,3]})", R"([{"op":"remove","path":"/foo/1"}])", R"({"foo":[1,3]})"},
      {R"({"foo":1})", R"([{"op":"replace","path":"/foo","value":null}])", R"({"foo":null})"},
      {R"({"a":{"b":1},"c":{}})",
       R"([{"op":"move","from":"/a/b","path":"/c/d"}])",
       R"({"a":{},"c":{"d":1}})"},
      {R"({"foo":[1,2,3]})",
       R"([{"op":"move","from":"/foo/0","path":"/foo/2"}])",
       R"({"foo":[2,3,1]})"},
      {R"({"a":1})", R"([{"op":"copy","from":"/a","path":"/b"}])", R"({"a":1,"b":1})"},
      {R"({"a/b":1,"m~n":2})",
       R"([{"op":"test","path":"/a~1b","value":1},{"op":"remove","path":"/m~0n"}])",
       R"({"a/b":1})"},
      {R"({"":{"":1}})", R"([{"op":"replace","path":"//","value":2}])", R"({"":{"":2}})"},
      {R"({"a":1})", R"([{"op":"add","path":"","value":[2]}])", R"([2])"},
      {R"({"a":1})", R"([])", R"({"a":1})"},
      {R"({"a":1})", R"([{"op":"move","from":"/a","path":"/a"}])", R"({"a":1})"},
  };
  for (const PatchRow& row : rows) {
    Json value = Json::parse(row.target);
    const Status status = ApplyJsonPatch(value, Json::parse(row.patch));
    ASSERT_TRUE(status) << row.patch << ": " << status.error().message;
    EXPECT_EQ(value, Json::parse(row.expected)) << row.patch;
  }
}

TEST(JsonPatch, ErrorsNameTheOperationAndLeaveTheTarget) {
  const PatchRow rows[] = {
      {R"({"a":1})", R"({"op":"add"})", "must be a list"},
      {R"({"a":1})", R"([1])", "patch[0]: expected an object"},
      {R"({"a":1})",
       R"([{"op":"add","path":"/b","value":1},{"op":"remove","path":"/c"}])",
       "patch[1] (remove /c): no such member"},
      {R"({"a":1})", R"([{"op":"add","path":"/b/c","value":1}])", "the parent does not exist"},
      {R"({"a":1})", R"([{"op":"add","path":"/a/c","value":1}])", "the parent is an integer"},
      {R"({"a":[]})", R"([{"op":"add","path":"/a/1","value":1}])", "no such index"},
      {R"({"a":[1]})", R"([{"op":"add","path":"/a/00","value":1}])", "no such index"},
      {R"({"a":[1]})", R"([{"op":"remove","path":"/a/-"}])", "no such member"},
      {R"({"a":[1]})", R"([{"op":"remove","path":"/a/-1"}])", "no such member"},
      {R"({"a":[1]})", R"([{"op":"remove","path":"/a/99999999999999999999"}])", "no such member"},
      {R"({"a":1})", R"([{"op":"replace","path":"/b","value":1}])", "no such member"},
      {R"({"a":1})", R"([{"op":"replace","path":"/a"}])", "value is required"},
      {R"({"a":1})", R"([{"op":"add","path":"a","value":1}])", "not a JSON pointer"},
      {R"({"a":1})", R"([{"op":"add","path":"/~2","value":1}])", "not a JSON pointer"},
      {R"({"a":{"b":1}})", R"([{"op":"move","from":"/a","path":"/a/b/c"}])", "into itself"},
      {R"({"a":1})", R"([{"op":"copy","path":"/b"}])", "from is required"},
      {R"({"a":1})", R"([{"op":"copy","from":"/x","path":"/b"}])", "from does not exist"},
      {R"({"a":1})", R"([{"op":"spin","path":"/b"}])", "unknown operation"},
      {R"({"a":1})", R"([{"op":1,"path":"/b"}])", "op and path are required"},
  };
  for (const PatchRow& row : rows) {
    const Json before = Json::parse(row.target);
    Json value = before;
    const Status status = ApplyJsonPatch(value, Json::parse(row.patch));
    ASSERT_FALSE(status) << row.patch;
    EXPECT_THAT(status.error().message, HasSubstr(row.expected)) << row.patch;
    EXPECT_EQ(value, before) << row.patch;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalid);
  }
}

TEST(JsonPatch, AFailedTestIsAConflict) {
  Json value = Json::parse(R"({"a":[1,2]})");
  const Json before = value;
  for (const char* patch :
       {R"([{"op":"remove","path":"/a/0"},{"op":"test","path":"/a/0","value":1}])",
        R"([{"op":"test","path":"/b","value":1}])"}) {
    const Status status = ApplyJsonPatch(value, Json::parse(patch));
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kConflict);
    EXPECT_EQ(value, before);
  }
}

TEST(JsonPatch, DoublingStopsBeforeMemoryDoes) {
  Json value = Json::parse(R"({"a":[1,2,3,4,5,6,7,8]})");
  Json patch = Json::array();
  for (int i = 0; i < 60; ++i) {
    patch.push_back({{"op", "copy"}, {"from", "/a"}, {"path", "/a/-"}});
  }
  const Status status = ApplyJsonPatch(value, patch);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("too large"));
}

// JL-09.
TEST(EqualSemantically, ComparesQuantitiesByValue) {
  const auto pod = [](const char* memory) {
    return Json{
        {"spec",
         {{"containers", {{{"name", "c"}, {"resources", {{"requests", {{"memory", memory}}}}}}}}}}};
  };
  EXPECT_TRUE(EqualSemantically(pod("0.5G"), pod("500M")));
  EXPECT_FALSE(EqualSemantically(pod("0.5G"), pod("501M")));
  EXPECT_FALSE(EqualSemantically(pod("0.5G"), pod("oops")));
  EXPECT_TRUE(EqualSemantically(Json::parse(R"({"limits":{"cpu":1}})"),
                                Json::parse(R"({"limits":{"cpu":"1000m"}})")));
  EXPECT_FALSE(EqualSemantically(Json::parse(R"({"limits":{"cpu":1}})"),
                                 Json::parse(R"({"limits":{"cpu":1,"x":1}})")));
  // Only where quantities live.
  EXPECT_FALSE(EqualSemantically(Json::parse(R"({"labels":{"a":"1"}})"),
                                 Json::parse(R"({"labels":{"a":"1000m"}})")));
}

TEST(EqualSemantically, NullEqualsAbsent) {
  EXPECT_TRUE(EqualSemantically(Json::parse(R"({"a":null,"b":1})"), Json::parse(R"({"b":1})")));
  EXPECT_TRUE(EqualSemantically(Json::parse(R"({"b":1})"), Json::parse(R"({"a":null,"b":1})")));
  EXPECT_FALSE(EqualSemantically(Json::parse(R"({"b":1})"), Json::parse(R"({"a":0,"b":1})")));
  EXPECT_FALSE(EqualSemantically(Json::parse(R"([1])"), Json::parse(R"([1,2])")));
}

}  // namespace
}  // namespace muster::api
