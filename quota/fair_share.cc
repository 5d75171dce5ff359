#include "quota/fair_share.h"

#include <algorithm>
#include <compare>
#include <limits>
#include <utility>

#include "base/check.h"

namespace muster::quota {
namespace {

using Wide = unsigned __int128;

// High and low half, in this order, so that the default comparison is that of the whole.
struct Wide256 {
  Wide high = 0;
  Wide low = 0;
  friend auto operator<=>(const Wide256&, const Wide256&) = default;
};

// Schoolbook product in halves of 64 bits. No sum overflows: (2^64-1)^2 + 2 * (2^64-1) = 2^128-1.
Wide256 Product(Wide a, Wide b) {
  constexpr Wide kLow = std::numeric_limits<std::uint64_t>::max();
  const Wide low = (a & kLow) * (b & kLow);
  const Wide middle = (a >> 64) * (b & kLow) + (low >> 64);
  const Wide other = (a & kLow) * (b >> 64) + (middle & kLow);
  return {.high = (a >> 64) * (b >> 64) + (middle >> 64) + (other >> 64),
          .low = (other << 64) | (low & kLow)};
}

int Sign(std::strong_ordering order) {
  return order < 0 ? -1 : static_cast<int>(order > 0);
}

// A fraction of positive amounts, or 0/1.
struct Ratio {
  Wide borrowed = 0;  // below 2^63, like lendable
  Wide lendable = 1;
};

Ratio RatioOf(Amount borrowed, Amount lendable) {
  if (borrowed <= Amount(0) || lendable <= Amount(0)) {
    return {};
  }
  return {.borrowed = static_cast<Wide>(borrowed.value()),
          .lendable = static_cast<Wide>(lendable.value())};
}

// a/b ? c/d = a*d ? c*b; products are below 2^126.
int Compare(const Ratio& a, const Ratio& b) {
  return Sign(a.borrowed * b.lendable <=> b.borrowed * a.lendable);
}

// All rows, those of one resource next to each other, resources in order of their names.
std::vector<Row> RowsByResource(const Tree& tree) {
  std::vector<Row> rows;
  rows.reserve(tree.row_count());
  for (std::size_t r = 0; r < tree.row_count(); ++r) {
    rows.push_back(Row{static_cast<std::uint32_t>(r)});
  }
  std::stable_sort(rows.begin(), rows.end(), [&](Row a, Row b) {
    return tree.row(a).resource < tree.row(b).resource;
  });
  return rows;
}

// Where in `rows` each resource ends.
std::vector<std::size_t> Ends(const Tree& tree, std::span<const Row> rows) {
  std::vector<std::size_t> ends;
  for (std::size_t i = 1; i <= rows.size(); ++i) {
    if (i == rows.size() || tree.row(rows[i]).resource != tree.row(rows[i - 1]).resource) {
      ends.push_back(i);
    }
  }
  return ends;
}

Amount Lendable(const Tree& tree, NodeIndex cohort, std::span<const Row> rows) {
  Amount out;
  for (const Row row : rows) {
    out += tree.potential(cohort, row);
  }
  return out;
}

Amount Borrowed(const Tree& tree, NodeIndex node, std::span<const Row> rows) {
  Amount out;
  for (const Row row : rows) {
    out += (tree.usage(node, row) - tree.subtree(node, row)).AtLeastZero();
  }
  return out;
}

// `rows` and `ends` as above; `lendable_of(r, rows)` is what the parent could lend of resource r.
template <typename LendableOf>
Share Dominant(const Tree& tree,
               NodeIndex node,
               Weight weight,
               std::span<const Row> rows,
               std::span<const std::size_t> ends,
               const LendableOf& lendable_of) {
  Share share{.weight = weight};
  if (!tree.has_parent(node)) {
    return share;
  }
  std::size_t begin = 0;
  for (std::size_t r = 0; r < ends.size(); ++r) {
    const std::span<const Row> same = rows.subspan(begin, ends[r] - begin);
    begin = ends[r];
    const Amount borrowed = Borrowed(tree, node, same);
    if (borrowed <= Amount(0)) {
      continue;
    }
    share.borrowing = true;
    const Amount lendable = lendable_of(r, same);
    // Only a larger ratio replaces the one before, whose name is smaller.
    if (Compare(RatioOf(borrowed, lendable), RatioOf(share.borrowed, share.lendable)) > 0) {
      share.borrowed = borrowed;
      share.lendable = lendable;
      share.resource = tree.row(same.front()).resource;
    }
  }
  return share;
}

}  // namespace

std::int64_t Share::Reported() const {
  constexpr std::int64_t kInfinite = std::numeric_limits<std::int64_t>::max();
  if (zero_weight()) {
    return kInfinite;
  }
  const Ratio ratio = RatioOf(borrowed, lendable);
  if (ratio.borrowed == 0 || weight.zero()) {
    return 0;
  }
  // share = (1000 * borrowed / lendable) / (nano / 10^9); the numerator is below 2^63 * 2^40.
  const Wide numerator = ratio.borrowed * 1'000'000'000'000;
  Wide denominator = 0;
  if (__builtin_mul_overflow(ratio.lendable, weight.nano(), &denominator)) {
    return 1;  // more than nothing, and the denominator is larger
  }
  const Wide rounded_up = numerator / denominator + (numerator % denominator != 0 ? 1 : 0);
  return static_cast<std::int64_t>(std::min<Wide>(rounded_up, kInfinite - 1));
}

int Compare(const Share& a, const Share& b) {
  const Ratio left = RatioOf(a.borrowed, a.lendable);
  const Ratio right = RatioOf(b.borrowed, b.lendable);
  if (a.zero_weight() || b.zero_weight()) {
    return a.zero_weight() == b.zero_weight() ? Compare(left, right) : (a.zero_weight() ? 1 : -1);
  }
  // left / weight(a) ? right / weight(b), multiplied by both weights and both denominators. What is
  // multiplied first is below 2^126 and the weights are below 2^127, so 256 bits hold the products
  // of any inputs. Where nothing is borrowed the weight may be 0 and must not spoil the other side.
  const Wide left_weight = a.weight.zero() ? 1 : a.weight.nano();
  const Wide right_weight = b.weight.zero() ? 1 : b.weight.nano();
  return Sign(Product(left.borrowed * right.lendable, right_weight) <=>
              Product(right.borrowed * left.lendable, left_weight));
}

FairShares::FairShares(const Tree& tree, std::vector<Weight> weights)
    : weights_(std::move(weights)), rows_(RowsByResource(tree)), ends_(Ends(tree, rows_)) {
  MUSTER_CHECK(weights_.size() == tree.node_count());
  lendable_.assign(tree.node_count() * ends_.size(), Amount());
  for (std::size_t n = 0; n < tree.node_count(); ++n) {
    const NodeIndex node{static_cast<std::uint32_t>(n)};
    if (tree.is_queue(node)) {
      continue;  // lends to nobody
    }
    std::size_t begin = 0;
    for (std::size_t r = 0; r < ends_.size(); ++r) {
      const std::span<const Row> same = std::span(rows_).subspan(begin, ends_[r] - begin);
      begin = ends_[r];
      lendable_[(n * ends_.size()) + r] = Lendable(tree, node, same);
    }
  }
}

Share FairShares::Of(const Tree& tree, NodeIndex node) const {
  MUSTER_CHECK(tree.node_count() == weights_.size() && tree.row_count() == rows_.size());
  return Dominant(
      tree, node, weight(node), rows_, ends_, [&](std::size_t r, std::span<const Row> /*same*/) {
        return lendable_[(static_cast<std::size_t>(*tree.parent(node)) * ends_.size()) + r];
      });
}

Share ShareOf(const Tree& tree, NodeIndex node, std::span<const Weight> weights) {
  MUSTER_CHECK(weights.size() == tree.node_count());
  const std::vector<Row> rows = RowsByResource(tree);
  return Dominant(tree,
                  node,
                  weights[static_cast<std::size_t>(node)],
                  rows,
                  Ends(tree, rows),
                  [&](std::size_t /*r*/, std::span<const Row> same) {
                    return Lendable(tree, *tree.parent(node), same);
                  });
}

}  // namespace muster::quota
