#include "scheduler/cycle/victims.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.h"

// Victims of random worlds, compared with what can be said without knowing how they are found.
namespace muster::scheduler {
namespace {

using api::PreemptionPolicy;
using quota::NodeIndex;
using quota::Row;

struct World {
  quota::Forest forest;
  std::size_t tree = 0;
  std::vector<NodeIndex> queues;
  Candidates candidates;
  std::vector<quota::Weight> weights;
};

std::int64_t Between(Prng& prng, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(prng.Below(static_cast<std::uint64_t>(high - low + 1)));
}

World Make(Prng& prng) {
  quota::ForestConfig config;
  config.cohorts.push_back({.name = "root", .parent = {}, .quotas = {}});
  const bool deep = prng.Chance(2);
  if (deep) {
    config.cohorts.push_back({.name = "left", .parent = "root", .quotas = {}});
    config.cohorts.push_back({.name = "right", .parent = "root", .quotas = {}});
  }
  const std::int64_t count = Between(prng, 2, 5);
  for (std::int64_t i = 0; i < count; ++i) {
    quota::NodeConfig queue{.name = "q" + std::to_string(i), .parent = "root", .quotas = {}};
    if (deep) {
      queue.parent = prng.Chance(2) ? "left" : "right";
    }
    for (const char* resource : {"cpu", "gpu"}) {
      quota::Limits limits{.nominal = Amount(Between(prng, 0, 8)), .borrowing = {}, .lending = {}};
      if (prng.Chance(4)) {
        limits.borrowing = Amount(Between(prng, 0, 6));
      }
      if (prng.Chance(4)) {
        limits.lending = Amount(Between(prng, 0, 6));
      }
      queue.quotas[{.flavor = "f", .resource = resource}] = limits;
    }
    config.queues.push_back(std::move(queue));
  }
  World world;
  world.forest = quota::Forest::Build(config);
  world.tree = world.forest.Find("q0")->tree;
  quota::Tree& tree = world.forest.tree(world.tree);
  world.candidates.resize(tree.node_count());
  for (std::int64_t i = 0; i < count; ++i) {
    world.queues.push_back(world.forest.Find("q" + std::to_string(i))->node);
  }
  for (std::size_t i = 0; i < tree.node_count(); ++i) {
    world.weights.push_back(
        quota::Weight::FromNano(static_cast<__int128>(Between(prng, 0, 3)) * 1'000'000'000));
  }
  for (int i = 0; i < 14; ++i) {
    const NodeIndex queue = world.queues[prng.Below(world.queues.size())];
    Candidate candidate{.ref = {.key = {.ns = "t", .name = "w" + std::to_string(i)},
                                .uid = std::to_string(100 + i),
                                .resource_version = "1"},
                        .queue = queue,
                        .priority = Between(prng, 0, 3),
                        .order_time = TimePoint{} + std::chrono::seconds(Between(prng, 0, 5)),
                        .reserved_at = TimePoint{} + std::chrono::seconds(Between(prng, 0, 9)),
                        .evicted = prng.Chance(8),
                        .usage = {},
                        .running = nullptr,
                        .taken = prng.Chance(10)};
    bool fits = true;
    for (const char* resource : {"cpu", "gpu"}) {
      const std::int64_t amount = Between(prng, 0, 4);
      const Row row = *tree.FindRow("f", resource);
      if (amount > 0) {
        candidate.usage.emplace_back(row, Amount(amount));
        fits = fits && Amount(amount) <= tree.available(queue, row);
      }
    }
    if (fits && !candidate.usage.empty()) {
      for (const auto& [row, amount] : candidate.usage) {
        tree.Add(queue, row, amount);
      }
      world.candidates[static_cast<std::size_t>(queue)].push_back(std::move(candidate));
    }
  }
  return world;
}

std::vector<std::int64_t> UsageOf(const quota::Tree& tree) {
  std::vector<std::int64_t> out;
  for (std::size_t n = 0; n < tree.node_count(); ++n) {
    for (std::size_t r = 0; r < tree.row_count(); ++r) {
      out.push_back(tree.usage(static_cast<NodeIndex>(n), static_cast<Row>(r)).value());
    }
  }
  return out;
}

void Move(quota::Tree& tree, const Candidate& candidate, bool back) {
  for (const auto& [row, amount] : candidate.usage) {
    if (back) {
      tree.Add(candidate.queue, row, amount);
    } else {
      tree.Remove(candidate.queue, row, amount);
    }
  }
}

bool Fits(const quota::Tree& tree,
          NodeIndex queue,
          const std::vector<std::pair<Row, Amount>>& request,
          bool may_borrow) {
  return std::all_of(request.begin(), request.end(), [&](const auto& asked) {
    return asked.second <= tree.available(queue, asked.first).AtLeastZero() &&
           (may_borrow || !tree.BorrowingWith(queue, asked.first, asked.second));
  });
}

bool Allowed(PreemptionPolicy policy, const VictimSearch& search, const Candidate& candidate) {
  switch (policy) {
    case PreemptionPolicy::kAny:
      return true;
    case PreemptionPolicy::kLowerPriority:
      return candidate.priority < search.priority;
    case PreemptionPolicy::kLowerOrNewerEqualPriority:
      return candidate.priority < search.priority ||
             (candidate.priority == search.priority && search.order_time < candidate.order_time);
    case PreemptionPolicy::kNever:
      break;
  }
  return false;
}

TEST(Victims, MakeRoomAreAllowedAndNeeded) {
  constexpr std::array<PreemptionPolicy, 3> kWithin{PreemptionPolicy::kNever,
                                                    PreemptionPolicy::kLowerPriority,
                                                    PreemptionPolicy::kLowerOrNewerEqualPriority};
  constexpr std::array<PreemptionPolicy, 3> kReclaim{
      PreemptionPolicy::kNever, PreemptionPolicy::kLowerPriority, PreemptionPolicy::kAny};
  int found = 0;
  for (std::uint64_t seed = 1; seed <= 20'000; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    World world = Make(prng);
    quota::Tree& tree = world.forest.tree(world.tree);
    const quota::FairShares shares(tree, world.weights);
    const FairSearch fair{.shares = &shares,
                          .final_share_first = prng.Chance(2),
                          .initial_share_second = prng.Chance(2)};
    api::ClusterQueuePreemption policy;
    policy.within_cluster_queue = kWithin[prng.Below(kWithin.size())];
    policy.reclaim_within_cohort = kReclaim[prng.Below(kReclaim.size())];
    if (policy.reclaim_within_cohort != PreemptionPolicy::kNever && prng.Chance(2)) {
      policy.borrow_within_cohort = PreemptionPolicy::kLowerPriority;
    }
    VictimSearch search{.tree = &tree,
                        .queue = world.queues[prng.Below(world.queues.size())],
                        .policy = &policy,
                        .priority = Between(prng, 0, 4),
                        .order_time = TimePoint{} + std::chrono::seconds(Between(prng, 0, 5)),
                        .request = {},
                        .short_rows = {},
                        .candidates = &world.candidates,
                        .in_vain = nullptr,
                        .fair = prng.Chance(2) ? &fair : nullptr,
                        .places = {}};
    for (const char* resource : {"cpu", "gpu"}) {
      const Row row = *tree.FindRow("f", resource);
      const Amount asked(Between(prng, 0, 8));
      search.request.emplace_back(row, asked);
      if (asked > tree.available(search.queue, row).AtLeastZero()) {
        search.short_rows.push_back(row);
      }
    }
    if (search.short_rows.empty()) {
      continue;
    }
    const std::vector<std::int64_t> before = UsageOf(tree);
    const std::vector<Victim> victims = FindVictims(search);
    ASSERT_EQ(UsageOf(tree), before) << "the search leaves the ledger as it was";
    std::set<const Candidate*> distinct;
    for (const Victim& victim : victims) {
      const Candidate& candidate = *victim.candidate;
      EXPECT_TRUE(distinct.insert(&candidate).second);
      EXPECT_FALSE(candidate.taken);
      const bool own = candidate.queue == search.queue;
      EXPECT_TRUE(Allowed(
          own ? policy.within_cluster_queue : policy.reclaim_within_cohort, search, candidate));
      if (!own) {
        // Only those who borrow are asked.
        EXPECT_TRUE(std::any_of(search.short_rows.begin(), search.short_rows.end(), [&](Row row) {
          return tree.usage(candidate.queue, row) > tree.limits(candidate.queue, row).nominal;
        }));
      }
    }
    if (victims.empty()) {
      continue;
    }
    ++found;
    for (const Victim& victim : victims) {
      Move(tree, *victim.candidate, false);
    }
    EXPECT_TRUE(Fits(tree, search.queue, search.request, true));
    const bool without_borrowing = Fits(tree, search.queue, search.request, false);
    for (const Victim& victim : victims) {
      Move(tree, *victim.candidate, true);
      // An attempt that may not borrow can need a victim that one which may would spare.
      EXPECT_FALSE(Fits(tree, search.queue, search.request, !without_borrowing))
          << victim.candidate->ref.key.ToString() << " could have stayed";
      Move(tree, *victim.candidate, false);
    }
  }
  EXPECT_GT(found, 2'000);
}

}  // namespace
}  // namespace muster::scheduler
