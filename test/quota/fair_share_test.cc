#include "quota/fair_share.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include <boost/multiprecision/cpp_int.hpp>
#include <gtest/gtest.h>

#include "base/prng.h"

namespace muster::quota {
namespace {

using Big = boost::multiprecision::cpp_int;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr __int128 kNano = 1'000'000'000;
constexpr __int128 kMaxWeight = (((__int128{1} << 126) - 1) << 1) + 1;

Share Of(std::int64_t borrowed, std::int64_t lendable, __int128 weight_nano = kNano) {
  return {.borrowing = borrowed > 0,
          .borrowed = Amount(borrowed),
          .lendable = Amount(lendable),
          .weight = Weight::FromNano(weight_nano),
          .resource = "cpu"};
}

// The definition with numbers that have no end: slow, and easy to believe.
struct Model {
  bool borrowing = false;
  bool infinite = false;
  Big borrowed = 0;  // ratio = 1000 * borrowed / lendable
  Big lendable = 1;
  Big weight = 1;  // in billionths; 1 where it does not matter
  std::string resource;
};

int ModelCompare(const Model& a, const Model& b) {
  if (a.infinite != b.infinite) {
    return a.infinite ? 1 : -1;
  }
  const Big left = a.borrowed * b.lendable * (a.infinite ? Big(1) : b.weight);
  const Big right = b.borrowed * a.lendable * (a.infinite ? Big(1) : a.weight);
  return left.compare(right);
}

Big ModelReported(const Model& a) {
  if (a.infinite) {
    return kMax;
  }
  const Big numerator = a.borrowed * 1000 * 1'000'000'000;
  const Big denominator = a.lendable * a.weight;
  return std::min(Big((numerator + denominator - 1) / denominator), Big(kMax - 1));
}

Model ModelOf(const Share& share) {
  Model out{.borrowing = share.borrowing};
  if (share.borrowed > Amount(0) && share.lendable > Amount(0)) {
    out.borrowed = share.borrowed.value();
    out.lendable = share.lendable.value();
  }
  out.infinite = share.borrowing && share.weight.zero();
  out.weight = share.weight.zero() ? Big(1) : Big(share.weight.nano());
  return out;
}

Model ModelOf(const Tree& tree, NodeIndex node, Weight weight) {
  Model out;
  out.weight = weight.zero() ? Big(1) : Big(weight.nano());
  if (!tree.has_parent(node)) {
    return out;
  }
  // Sums are those of the ledger: what reaches Unlimited stays there.
  const auto clamp = [](const Big& value) { return std::clamp(value, Big(kMin), Big(kMax)); };
  std::map<std::string, Big> borrowed;
  std::map<std::string, Big> lendable;
  for (std::size_t r = 0; r < tree.row_count(); ++r) {
    const Row row{static_cast<std::uint32_t>(r)};
    const std::string& resource = tree.row(row).resource;
    const Amount used = tree.usage(node, row);
    const Amount own = tree.subtree(node, row);
    if (used > own) {
      out.borrowing = true;
      borrowed[resource] +=
          used.unlimited() ? Big(kMax) : clamp(Big(used.value()) - Big(own.value()));
    }
    const Amount most = tree.potential(*tree.parent(node), row);
    Big& sum = lendable[resource];
    sum = sum == kMax || most.unlimited() ? Big(kMax) : clamp(sum + most.value());
  }
  for (const auto& [resource, amount] : borrowed) {
    const Big part = clamp(amount);
    const Big& whole = lendable[resource];
    if (whole > 0 && part * out.lendable > out.borrowed * whole) {
      out.borrowed = part;
      out.lendable = whole;
      out.resource = resource;
    }
  }
  out.infinite = out.borrowing && weight.zero();
  return out;
}

// Small numbers more often than not, so that ties happen; and numbers at both ends.
std::int64_t RandomAmount(Prng& prng) {
  switch (prng.Below(10)) {
    case 0:
      return static_cast<std::int64_t>(prng.Next() >> (1 + prng.Below(63)));
    case 1:
      return kMax - static_cast<std::int64_t>(prng.Below(4));
    case 2:
      return (std::int64_t{1} << prng.Below(63)) + static_cast<std::int64_t>(prng.Below(3)) - 1;
    case 3:
      return 0;
    default:
      return static_cast<std::int64_t>(prng.Below(12));
  }
}

Weight RandomWeight(Prng& prng) {
  switch (prng.Below(8)) {
    case 0:
      return Weight::FromNano(0);
    case 1:
      return Weight::FromNano(static_cast<__int128>(prng.Below(4)));
    case 2:
      return Weight::FromNano(kMaxWeight - static_cast<__int128>(prng.Below(3)));
    case 3:
      return Weight::FromNano(static_cast<__int128>(prng.Next()) << prng.Below(63));
    case 4:
      return Weight();
    default:
      return Weight::FromNano(static_cast<__int128>(1 + prng.Below(6)) * (kNano / 2));
  }
}

Share RandomShare(Prng& prng) {
  Share share = Of(RandomAmount(prng), RandomAmount(prng));
  share.weight = RandomWeight(prng);
  share.borrowing = share.borrowing || prng.Chance(4);
  switch (prng.Below(12)) {
    case 0:
      return Share{};
    case 1:
      share.borrowed = Amount(kMin + static_cast<std::int64_t>(prng.Below(3)));
      break;
    case 2:
      share.lendable = Amount(kMin + static_cast<std::int64_t>(prng.Below(3)));
      break;
    default:
      break;
  }
  return share;
}

struct Printed {
  const Share& share;
  friend std::ostream& operator<<(std::ostream& out, const Printed& printed) {
    return out << printed.share.borrowed.value() << "/" << printed.share.lendable.value() << " "
               << printed.share.resource << " weight " << Big(printed.share.weight.nano()) << "n"
               << (printed.share.borrowing ? " borrowing" : "");
  }
};

TEST(Share, IsNothingByDefault) {
  const Share none;
  EXPECT_EQ(none.Reported(), 0);
  EXPECT_FALSE(none.zero_weight());
  EXPECT_EQ(Compare(none, none), 0);
  EXPECT_EQ(Compare(none, Of(1, kMax, kMaxWeight)), -1);
  EXPECT_EQ(Compare(none, Of(0, 5, 0)), 0);  // weight 0, nothing borrowed
  EXPECT_EQ(Compare(Of(0, 5, 0), Of(1, 5)), -1);
  EXPECT_EQ(Compare(Of(1, 5), Of(0, 5, 0)), 1);
}

TEST(Share, IsReportedRoundedUpAndOnlyInfiniteAsTheLargestNumber) {
  EXPECT_EQ(Of(4, 20).Reported(), 200);
  EXPECT_EQ(Of(4, 20, 2 * kNano).Reported(), 100);
  EXPECT_EQ(Of(4, 13).Reported(), 308);
  EXPECT_EQ(Of(1, 1500).Reported(), 1);
  EXPECT_EQ(Of(1, kMax, kMaxWeight).Reported(), 1);
  EXPECT_EQ(Of(kMax, kMax).Reported(), 1000);
  EXPECT_EQ(Of(kMax, kMax - 1).Reported(), 1001);
  EXPECT_EQ(Of(kMax - 1, kMax).Reported(), 1000);
  EXPECT_EQ(Of(kMax, 1000).Reported(), kMax - 1);
  EXPECT_EQ(Of(kMax - 1, 1000).Reported(), kMax - 1);
  EXPECT_EQ(Of(kMax - 2, 1000).Reported(), kMax - 2);
  EXPECT_EQ(Of(kMax, 1, 1).Reported(), kMax - 1);
  EXPECT_EQ(Of(1, 1, 0).Reported(), kMax);
}

TEST(Compare, TellsSharesApartThatADoubleCannot) {
  EXPECT_EQ(Compare(Of(kMax - 1, kMax), Of(kMax, kMax)), -1);
  EXPECT_EQ(Compare(Of(kMax - 2, kMax - 1), Of(kMax - 1, kMax)), -1);
  EXPECT_EQ(Compare(Of(1, 3), Of(333'333'333'333'333'333, 1'000'000'000'000'000'000)), 1);
  EXPECT_EQ(Compare(Of(1, 3), Of(333'333'333'333'333'333, 999'999'999'999'999'999)), 0);
  EXPECT_EQ(Compare(Of(kMax, kMax, kMaxWeight), Of(kMax, kMax, kMaxWeight - 1)), -1);
  EXPECT_EQ(Compare(Of(kMax, 1, kMaxWeight), Of(kMax - 1, 1, kMaxWeight)), 1);
  EXPECT_EQ(Compare(Of(300, 1500, 300 * kNano), Of(1, 1500)), 0);
  EXPECT_EQ(Compare(Of(301, 1500, 300 * kNano), Of(1, 1500)), 1);
}

TEST(Compare, PutsInfiniteSharesLastAndOrdersThemByTheirRatio) {
  EXPECT_EQ(Compare(Of(1, kMax, 0), Of(kMax, 1, 1)), 1);
  EXPECT_EQ(Compare(Of(kMax, 1, 1), Of(1, kMax, 0)), -1);
  EXPECT_EQ(Compare(Of(4, 8, 0), Of(8, 8, 0)), -1);
  EXPECT_EQ(Compare(Of(4, 8, 0), Of(1, 2, 0)), 0);
}

TEST(Compare, EqualsArithmeticWithoutEnd) {
  for (std::uint64_t seed = 1; seed <= 100'000; ++seed) {
    Prng prng(seed);
    const Share a = RandomShare(prng);
    Share b = RandomShare(prng);
    if (prng.Chance(3)) {
      // As near as can be: the same fraction in other numbers, or one step away from it.
      b = a;
      const auto times = static_cast<std::int64_t>(1 + prng.Below(9));
      b.borrowed = b.borrowed * times;
      b.lendable = b.lendable * times;
      (prng.Chance(2) ? b.borrowed : b.lendable) +=
          Amount(static_cast<std::int64_t>(prng.Below(3)) - 1);
    }
    ASSERT_EQ(Compare(a, b), ModelCompare(ModelOf(a), ModelOf(b)))
        << "seed " << seed << ": " << Printed{a} << " against " << Printed{b};
    ASSERT_EQ(Big(a.Reported()), ModelReported(ModelOf(a)))
        << "seed " << seed << ": " << Printed{a};
  }
}

TEST(Compare, IsAStrictWeakOrder) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    std::vector<Share> all;
    for (int i = 0; i < 40; ++i) {
      all.push_back(RandomShare(prng));
    }
    for (const Share& a : all) {
      ASSERT_EQ(Compare(a, a), 0) << Printed{a};
      for (const Share& b : all) {
        const int order = Compare(a, b);
        ASSERT_EQ(order, -Compare(b, a)) << Printed{a} << ", " << Printed{b};
        if (order > 0) {
          continue;
        }
        for (const Share& c : all) {
          const int next = Compare(b, c);
          if (next > 0) {
            continue;
          }
          // a <= b <= c gives a <= c, and a < c when one of the steps is strict.
          ASSERT_EQ(Compare(a, c), order == 0 && next == 0 ? 0 : -1)
              << Printed{a} << ", " << Printed{b} << ", " << Printed{c};
        }
      }
    }
  }
}

// Cohorts, queues, flavors and resources as they come; a queue may use what nobody has quota for.
ForestConfig RandomConfig(Prng& prng) {
  constexpr std::array<const char*, 3> kFlavors{"f1", "f2", "f3"};
  constexpr std::array<const char*, 3> kResources{"cpu", "gpu", "memory"};
  const auto row = [&] {
    return FlavorResource{.flavor = kFlavors[prng.Below(kFlavors.size())],
                          .resource = kResources[prng.Below(kResources.size())]};
  };
  const auto node = [&](std::string name, std::string parent) {
    NodeConfig out{.name = std::move(name), .parent = std::move(parent), .quotas = {}};
    for (std::uint64_t i = prng.Below(5); i > 0; --i) {
      Limits limits{.nominal = Amount(RandomAmount(prng)), .borrowing = {}, .lending = {}};
      if (prng.Chance(12)) {
        limits.nominal = Amount(-static_cast<std::int64_t>(prng.Below(5)));
      }
      if (prng.Chance(3)) {
        limits.borrowing = Amount(RandomAmount(prng));
      }
      if (prng.Chance(3)) {
        limits.lending = Amount(RandomAmount(prng));
      }
      out.quotas.insert_or_assign(row(), limits);
    }
    return out;
  };
  ForestConfig config;
  const std::uint64_t cohorts = 1 + prng.Below(3);
  for (std::uint64_t i = 0; i < cohorts; ++i) {
    config.cohorts.push_back(
        node("c" + std::to_string(i), i == 0 ? "" : "c" + std::to_string(prng.Below(i))));
  }
  const std::uint64_t queues = 1 + prng.Below(4);
  for (std::uint64_t i = 0; i < queues; ++i) {
    config.queues.push_back(node("q" + std::to_string(i),
                                 prng.Chance(20) ? "" : "c" + std::to_string(prng.Below(cohorts))));
  }
  config.used.emplace_back("q0", row());
  return config;
}

TEST(FairShares, EqualTheDefinitionInAnyTree) {
  std::size_t states = 0;
  std::size_t borrowers = 0;
  std::size_t fractions = 0;
  std::size_t infinite = 0;
  std::size_t ties = 0;
  for (std::uint64_t seed = 1; states < 100'000; ++seed) {
    Prng prng(seed);
    Forest forest = Forest::Build(RandomConfig(prng));
    for (std::size_t t = 0; t < forest.tree_count(); ++t) {
      Tree tree = forest.tree(t);  // a copy has the same shape
      std::vector<Weight> weights;
      for (std::size_t n = 0; n < tree.node_count(); ++n) {
        weights.push_back(RandomWeight(prng));
      }
      const FairShares shares(forest.tree(t), weights);
      if (tree.row_count() == 0) {
        continue;
      }
      for (int step = 0; step < 8; ++step, ++states) {
        for (std::uint64_t uses = 1 + prng.Below(3); uses > 0; --uses) {
          const NodeIndex node{static_cast<std::uint32_t>(prng.Below(tree.node_count()))};
          if (tree.is_queue(node)) {
            const Row row{static_cast<std::uint32_t>(prng.Below(tree.row_count()))};
            tree.Add(node, row, Amount(RandomAmount(prng)));
          }
        }
        std::vector<Share> found;
        std::vector<Model> wanted;
        for (std::size_t n = 0; n < tree.node_count(); ++n) {
          const NodeIndex node{static_cast<std::uint32_t>(n)};
          found.push_back(shares.Of(tree, node));
          wanted.push_back(ModelOf(tree, node, weights[n]));
          const Share& share = found.back();
          const Model& model = wanted.back();
          ASSERT_TRUE(share.borrowing == model.borrowing && share.weight == weights[n] &&
                      share.resource == model.resource && share.zero_weight() == model.infinite &&
                      Big(share.borrowed.value()) == model.borrowed &&
                      share.Reported() == ModelReported(model) &&
                      (share.lendable.zero() ? model.borrowed == 0
                                             : Big(share.lendable.value()) == model.lendable))
              << "seed " << seed << ", " << tree.name(node) << ": " << Printed{share} << ", not "
              << model.borrowed << "/" << model.lendable << " " << model.resource;
          borrowers += share.borrowing ? 1 : 0;
          fractions += share.resource.empty() ? 0 : 1;
          infinite += share.zero_weight() ? 1 : 0;
          if (step == 7) {
            const Share once = ShareOf(tree, node, weights);
            ASSERT_TRUE(once.borrowing == share.borrowing && once.borrowed == share.borrowed &&
                        once.lendable == share.lendable && once.weight == share.weight &&
                        once.resource == share.resource)
                << "seed " << seed << ", " << tree.name(node);
          }
        }
        for (std::size_t a = 0; a < found.size(); ++a) {
          for (std::size_t b = a + 1; b < found.size(); ++b) {
            const int order = Compare(found[a], found[b]);
            ASSERT_EQ(order, ModelCompare(wanted[a], wanted[b]))
                << "seed " << seed << ": " << Printed{found[a]} << " against " << Printed{found[b]};
            ties += order == 0 && !found[a].resource.empty() ? 1 : 0;
          }
        }
      }
    }
  }
  // The inputs reach what they are meant to reach.
  EXPECT_GT(borrowers, 100'000U);
  EXPECT_GT(fractions, 50'000U);
  EXPECT_GT(infinite, 10'000U);
  EXPECT_GT(ties, 1'000U);
  EXPECT_GT(borrowers, fractions);
}

}  // namespace
}  // namespace muster::quota
