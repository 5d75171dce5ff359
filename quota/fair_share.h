#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/amount.h"
#include "quota/tree.h"

// Fair sharing: how much of what its neighbours could lend a node of a cohort tree has borrowed.
//
// Source   Kueue KEP-1714. For a node n with parent p, and each resource r summed over its flavors:
//          borrowed(n, r) = sum over rows of r of max(0, usage(n) - subtree(n))
//          lendable(p, r) = sum over rows of r of potential(p)
//          ratio(n) = largest 1000 * borrowed / lendable of the resources with lendable > 0, else 0
//          share(n) = ratio / weight; infinite when the weight is 0 and anything is borrowed
//          Kueue computes in float64, where near shares are equal and tiny weights give nonsense;
//          here a share stays a fraction and is compared exactly. Rows that left the configuration
//          of a node while it still uses them count as borrowed; Kueue overlooks them.
namespace muster::quota {

// spec.fairSharing.weight: what is borrowed counts one weight-th.
//
// Units    Billionths, the finest step of an API quantity; nothing is rounded.
class Weight {
 public:
  constexpr Weight() = default;  // 1: what an absent weight means
  // Below zero, which the API refuses, is zero: borrowing is infinitely dear.
  [[nodiscard]] static constexpr Weight FromNano(__int128 nano) {
    Weight out;
    out.nano_ = nano > 0 ? static_cast<unsigned __int128>(nano) : 0;
    return out;
  }
  [[nodiscard]] constexpr unsigned __int128 nano() const { return nano_; }
  [[nodiscard]] constexpr bool zero() const { return nano_ == 0; }
  friend constexpr bool operator==(const Weight&, const Weight&) = default;

 private:
  unsigned __int128 nano_ = 1'000'000'000;  // below 2^127
};

// Dominant resource share of a node, as an exact fraction.
struct Share {
  // Some row is over its subtree quota; true also when the ratio is 0 because nothing is lendable.
  bool borrowing = false;
  // Of the dominant resource: ratio = 1000 * borrowed / lendable. Both 0 when the ratio is 0.
  // Unlimited counts as the number that stands for it: a share of unlimited quota is next to
  // nothing, but more than nothing, and still in proportion to the weight.
  Amount borrowed;
  Amount lendable;
  Weight weight;
  // The resource with the largest ratio, the alphabetically first of several; empty when the ratio
  // is 0. Points into the tree, and stays valid as long as one of its copies lives.
  std::string_view resource;

  // Infinitely dear.
  [[nodiscard]] bool zero_weight() const { return weight.zero() && borrowing; }
  // The share rounded up, as status and metrics show it: 0 means a ratio of 0, and the largest
  // int64 means infinite. A finite share beyond int64 shows as one less than that.
  [[nodiscard]] std::int64_t Reported() const;
};

// <0, 0 or >0: the smaller share comes first when quota is given, the larger when it is taken back.
// Infinite shares are above all others and are ordered by their ratio, so that of two queues with
// weight 0 the one that borrows less comes first.
[[nodiscard]] int Compare(const Share& a, const Share& b);

// Weights of the nodes of one tree, with what is needed to find shares quickly.
//
// Threads  Does not change; holds no reference to the tree.
// Cost     Build O(nodes + cohorts * rows). Of: O(rows), without allocation.
class FairShares {
 public:
  // `weights`: one for each node, by index. Those of roots do not matter.
  FairShares(const Tree& tree, std::vector<Weight> weights);

  // Share of `node` with the present usage of `tree`: the tree given to the constructor, or a copy
  // of it. A node without parent cannot borrow: its share is 0.
  [[nodiscard]] Share Of(const Tree& tree, NodeIndex node) const;
  [[nodiscard]] Weight weight(NodeIndex node) const {
    return weights_[static_cast<std::size_t>(node)];
  }

 private:
  std::vector<Weight> weights_;
  // The rows of one resource next to each other, resources in order of their names.
  std::vector<Row> rows_;
  std::vector<std::size_t> ends_;  // in rows_, one for each resource
  // For cohort n and resource r at n * ends_.size() + r. Does not depend on usage.
  std::vector<Amount> lendable_;
};

// The same for one node only; sorts the rows each time.
[[nodiscard]] Share ShareOf(const Tree& tree, NodeIndex node, std::span<const Weight> weights);

}  // namespace muster::quota
