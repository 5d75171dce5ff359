#include "quota/tree.h"

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "base/prng.h"

namespace muster::quota {
namespace {

const FlavorResource kCpu{.flavor = "default", .resource = "cpu"};

Limits Nominal(std::int64_t value) {
  return {.nominal = Amount(value), .borrowing = {}, .lending = {}};
}

TEST(Forest, LeavesQueuesUnderACycleWithoutAPlaceAndOthersAlone) {
  const Forest forest =
      Forest::Build({.cohorts = {{.name = "a", .parent = "b", .quotas = {}},
                                 {.name = "b", .parent = "a", .quotas = {}},
                                 {.name = "below", .parent = "a", .quotas = {}}},
                     .queues = {{.name = "q", .parent = "below", .quotas = {{kCpu, Nominal(4)}}},
                                {.name = "r", .parent = "lab", .quotas = {{kCpu, Nominal(4)}}},
                                {.name = "s", .parent = "", .quotas = {{kCpu, Nominal(4)}}}},
                     .used = {}});
  EXPECT_EQ(forest.Find("q"), nullptr);
  EXPECT_EQ(forest.cyclic_queues(), std::vector<std::string>{"q"});
  ASSERT_NE(forest.Find("r"), nullptr);
  ASSERT_NE(forest.Find("s"), nullptr);
  EXPECT_NE(forest.FindCohort("lab"), nullptr);  // implicit
  EXPECT_EQ(forest.tree_count(), 2U);
}

TEST(Forest, ACohortThatIsItsOwnParentIsACycle) {
  const Forest forest = Forest::Build({.cohorts = {{.name = "a", .parent = "a", .quotas = {}}},
                                       .queues = {{.name = "q", .parent = "a", .quotas = {}}},
                                       .used = {}});
  EXPECT_EQ(forest.Find("q"), nullptr);
}

TEST(Forest, KeepsARowThatOnlyRunningWorkUses) {
  Forest forest = Forest::Build({.cohorts = {},
                                 .queues = {{.name = "q", .parent = "", .quotas = {}}},
                                 .used = {{"q", kCpu}}});
  Tree& tree = forest.tree(0);
  const auto row = tree.FindRow("default", "cpu");
  ASSERT_TRUE(row.has_value());
  tree.Add(Tree::root(), *row, Amount(3));
  EXPECT_EQ(tree.available(Tree::root(), *row), Amount(-3));
  EXPECT_FALSE(tree.FindRow("default", "memory").has_value());
}

TEST(Forest, ADeepChainCostsNoStack) {
  ForestConfig config;
  constexpr int kDepth = 20'000;
  for (int i = 0; i < kDepth; ++i) {
    config.cohorts.push_back({.name = "c" + std::to_string(i),
                              .parent = i == 0 ? "" : "c" + std::to_string(i - 1),
                              .quotas = {}});
  }
  config.queues.push_back(
      {.name = "q", .parent = "c" + std::to_string(kDepth - 1), .quotas = {{kCpu, Nominal(1)}}});
  const Forest forest = Forest::Build(config);
  ASSERT_NE(forest.Find("q"), nullptr);
  const Tree& tree = forest.tree(0);
  EXPECT_EQ(tree.potential(forest.Find("q")->node, Row{0}), Amount(1));
  EXPECT_EQ(tree.available(forest.Find("q")->node, Row{0}), Amount(1));
}

// A random tree of cohorts with limits, and queues at any height.
ForestConfig RandomConfig(Prng& prng) {
  ForestConfig config;
  const auto limits = [&] {
    Limits out = Nominal(static_cast<std::int64_t>(prng.Below(12)));
    if (prng.Chance(2)) {
      out.borrowing = Amount(static_cast<std::int64_t>(prng.Below(8)));
    }
    if (prng.Chance(2)) {
      out.lending = Amount(static_cast<std::int64_t>(prng.Below(8)));
    }
    return out;
  };
  const std::uint64_t cohorts = 1 + prng.Below(5);
  for (std::uint64_t i = 0; i < cohorts; ++i) {
    NodeConfig node{.name = "c" + std::to_string(i),
                    .parent = i == 0 ? "" : "c" + std::to_string(prng.Below(i)),
                    .quotas = {{kCpu, limits()}}};
    config.cohorts.push_back(std::move(node));
  }
  const std::uint64_t queues = 1 + prng.Below(6);
  for (std::uint64_t i = 0; i < queues; ++i) {
    config.queues.push_back({.name = "q" + std::to_string(i),
                             .parent = "c" + std::to_string(prng.Below(cohorts)),
                             .quotas = {{kCpu, limits()}}});
  }
  return config;
}

TEST(Tree, IncrementalUsageEqualsRecomputedUsageAndNoLimitIsEverPassed) {
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    const ForestConfig config = RandomConfig(prng);
    Forest forest = Forest::Build(config);
    std::vector<std::pair<std::string, Amount>> running;
    for (int step = 0; step < 60; ++step) {
      if (!running.empty() && prng.Chance(3)) {
        const std::size_t at = prng.Below(running.size());
        const QueuePlace place = *forest.Find(running[at].first);
        forest.tree(place.tree).Remove(place.node, Row{0}, running[at].second);
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(at));
      } else {
        const std::string& name = config.queues[prng.Below(config.queues.size())].name;
        const QueuePlace place = *forest.Find(name);
        Tree& tree = forest.tree(place.tree);
        const Amount amount(1 + static_cast<std::int64_t>(prng.Below(6)));
        if (amount <= tree.available(place.node, Row{0})) {
          tree.Add(place.node, Row{0}, amount);
          running.emplace_back(name, amount);
        }
      }
      Forest again = Forest::Build(config);
      for (const auto& [name, amount] : running) {
        const QueuePlace place = *again.Find(name);
        again.tree(place.tree).Add(place.node, Row{0}, amount);
      }
      for (std::size_t t = 0; t < forest.tree_count(); ++t) {
        const Tree& tree = forest.tree(t);
        ASSERT_TRUE(tree.Consistent());
        for (std::size_t n = 0; n < tree.node_count(); ++n) {
          const NodeIndex node{static_cast<std::uint32_t>(n)};
          ASSERT_EQ(tree.usage(node, Row{0}), again.tree(t).usage(node, Row{0})) << tree.name(node);
          ASSERT_GE(tree.available(node, Row{0}), Amount(0)) << tree.name(node);
          ASSERT_LE(tree.available(node, Row{0}) + tree.usage(node, Row{0}),
                    tree.potential(node, Row{0}) + tree.usage(node, Row{0}));
          if (tree.has_parent(node)) {
            if (const auto& limit = tree.limits(node, Row{0}).borrowing) {
              ASSERT_LE(tree.usage(node, Row{0}), tree.subtree(node, Row{0}) + *limit)
                  << tree.name(node);
            }
          } else {
            ASSERT_LE(tree.usage(node, Row{0}), tree.subtree(node, Row{0}));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace muster::quota
