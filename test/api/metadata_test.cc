#include "api/metadata.h"

#include <gtest/gtest.h>

namespace muster::api {
namespace {

LabelSelector Selector(StringMap labels, std::vector<LabelSelectorRequirement> expressions = {}) {
  return LabelSelector{.present = true,
                       .match_labels = std::move(labels),
                       .match_expressions = std::move(expressions)};
}

TEST(LabelSelector, NullMatchesNothingAndEmptyMatchesAll) {
  EXPECT_FALSE(Matches(LabelSelector{}, {}));
  EXPECT_FALSE(Matches(LabelSelector{}, {{"a", "b"}}));
  EXPECT_TRUE(Matches(Selector({}), {}));
  EXPECT_TRUE(Matches(Selector({}), {{"a", "b"}}));
}

TEST(LabelSelector, RequirementsAreAnded) {
  EXPECT_TRUE(Matches(Selector({{"a", "1"}}), {{"a", "1"}, {"b", "2"}}));
  EXPECT_FALSE(Matches(Selector({{"a", "1"}, {"b", "3"}}), {{"a", "1"}, {"b", "2"}}));
  EXPECT_FALSE(Matches(Selector({{"a", ""}}), {}));
}

TEST(LabelSelector, Operators) {
  struct Row {
    std::string op;
    std::vector<std::string> values;
    bool when_absent;
    bool when_x;
    bool when_y;
  };
  const Row rows[] = {
      {"In", {"x"}, false, true, false},
      {"In", {}, false, false, false},
      {"NotIn", {"x"}, true, false, true},
      {"Exists", {}, false, true, true},
      {"DoesNotExist", {}, true, false, false},
      {"Gt", {"1"}, false, false, false},
      {"", {}, false, false, false},
  };
  for (const Row& row : rows) {
    const LabelSelector selector = Selector({}, {{.key = "k", .op = row.op, .values = row.values}});
    EXPECT_EQ(Matches(selector, {}), row.when_absent) << row.op;
    EXPECT_EQ(Matches(selector, {{"k", "x"}}), row.when_x) << row.op;
    EXPECT_EQ(Matches(selector, {{"k", "y"}}), row.when_y) << row.op;
  }
}

TEST(ObjectMeta, FindsControllerLabelsAndFinalizers) {
  ObjectMeta meta;
  meta.owner_references = {{.name = "a"}, {.name = "b", .controller = true}};
  meta.labels = {{"l", "1"}};
  meta.finalizers = {"f"};
  ASSERT_NE(meta.controller(), nullptr);
  EXPECT_EQ(meta.controller()->name, "b");
  EXPECT_EQ(*meta.Label("l"), "1");
  EXPECT_EQ(meta.Label("m"), nullptr);
  EXPECT_EQ(meta.Annotation("l"), nullptr);
  EXPECT_TRUE(meta.HasFinalizer("f"));
  EXPECT_FALSE(meta.HasFinalizer("g"));
  EXPECT_EQ(ObjectMeta{}.controller(), nullptr);
}

}  // namespace
}  // namespace muster::api
