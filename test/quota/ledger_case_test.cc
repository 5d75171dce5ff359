#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "quota/tree.h"
#include "test/support/case_file.h"

namespace muster::quota {
namespace {

using test::At;
using test::CaseFile;

// Ledger cases have one flavor and one resource; amounts are plain numbers or "unlimited".
Amount Read(const api::Json& json) {
  return json.is_string() && json.get<std::string>() == "unlimited"
             ? Amount::Unlimited()
             : Amount(json.get<std::int64_t>());
}

std::optional<Amount> ReadOptional(const api::Json& json) {
  return json.is_null() ? std::nullopt : std::optional(Read(json));
}

class LedgerCase : public testing::TestWithParam<CaseFile> {};

TEST_P(LedgerCase, Holds) {
  const CaseFile& file = GetParam();
  ASSERT_FALSE(file.body.is_null()) << file.why;
  SCOPED_TRACE(file.path + ": " + file.why);
  const FlavorResource row_name{.flavor = "default", .resource = "cpu"};
  ForestConfig config;
  for (const api::Json& node : At(At(file.body, "given"), "nodes")) {
    const bool queue = node.contains("queue");
    NodeConfig out;
    out.name = node[queue ? "queue" : "cohort"].get<std::string>();
    out.parent = node.value("parent", "");
    out.quotas[row_name] = Limits{.nominal = Read(At(node, "nominal")),
                                  .borrowing = ReadOptional(At(node, "borrowing_limit")),
                                  .lending = ReadOptional(At(node, "lending_limit"))};
    (queue ? config.queues : config.cohorts).push_back(std::move(out));
  }
  Forest forest = Forest::Build(config);
  const auto find = [&](const std::string& name) {
    const QueuePlace* place =
        forest.Find(name) != nullptr ? forest.Find(name) : forest.FindCohort(name);
    EXPECT_NE(place, nullptr) << name;
    return *place;
  };
  int number = 0;
  std::size_t checks = 0;
  for (const api::Json& step : At(file.body, "steps")) {
    SCOPED_TRACE("step " + std::to_string(++number));
    for (const auto& [name, amount] : At(step, "use").items()) {
      const QueuePlace place = find(name);
      Tree& tree = forest.tree(place.tree);
      tree.Add(place.node, *tree.FindRow("default", "cpu"), Read(amount));
    }
    for (const auto& [name, amount] : At(step, "release").items()) {
      const QueuePlace place = find(name);
      Tree& tree = forest.tree(place.tree);
      tree.Remove(place.node, *tree.FindRow("default", "cpu"), Read(amount));
    }
    for (const auto& [what, wanted] : At(step, "expect").items()) {
      for (const auto& [name, value] : wanted.items()) {
        const QueuePlace place = find(name);
        const Tree& tree = forest.tree(place.tree);
        const Row row = *tree.FindRow("default", "cpu");
        SCOPED_TRACE(what + " of " + name);
        ++checks;
        if (what == "available") {
          EXPECT_EQ(tree.available(place.node, row).value(), Read(value).value());
        } else if (what == "potential") {
          EXPECT_EQ(tree.potential(place.node, row).value(), Read(value).value());
        } else if (what == "usage") {
          EXPECT_EQ(tree.usage(place.node, row).value(), Read(value).value());
        } else if (what == "subtree") {
          EXPECT_EQ(tree.subtree(place.node, row).value(), Read(value).value());
        } else if (what == "local") {
          EXPECT_EQ(tree.local(place.node, row).value(), Read(value).value());
        } else if (what == "level") {  // {a: [amount, level, may_reclaim]}
          const Level level = tree.LevelOf(place.node, row, Amount(value[0].get<std::int64_t>()));
          EXPECT_EQ(level.level, value[1].get<int>());
          EXPECT_EQ(level.may_reclaim, value[2].get<bool>());
        } else {
          ADD_FAILURE() << "unknown expectation";
        }
      }
    }
    for (std::size_t t = 0; t < forest.tree_count(); ++t) {
      EXPECT_TRUE(forest.tree(t).Consistent());
    }
  }
  EXPECT_GT(checks, 0U) << "the case expects nothing";
}

INSTANTIATE_TEST_SUITE_P(Files,
                         LedgerCase,
                         testing::ValuesIn(test::LoadCases("ledger")),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace muster::quota
