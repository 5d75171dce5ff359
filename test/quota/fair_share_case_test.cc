#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "api/quantity.h"
#include "quota/fair_share.h"
#include "test/support/case_file.h"

namespace muster::quota {
namespace {

using test::At;
using test::CaseFile;
using test::Text;

// Amounts are plain numbers or "unlimited", by flavor and resource; a weight is a quantity.
Amount Read(const api::Json& json) {
  return json.is_string() && json.get<std::string>() == "unlimited"
             ? Amount::Unlimited()
             : Amount(json.get<std::int64_t>());
}

std::optional<Amount> ReadOptional(const api::Json& json) {
  return json.is_null() ? std::nullopt : std::optional(Read(json));
}

template <typename Function>
void EachRow(const api::Json& by_flavor, const Function& function) {
  for (const auto& [flavor, by_resource] : by_flavor.items()) {
    for (const auto& [resource, value] : by_resource.items()) {
      function(FlavorResource{.flavor = flavor, .resource = resource}, value);
    }
  }
}

// "1/3 cpu", or "none".
std::string Fraction(const Share& share) {
  if (share.resource.empty()) {
    return share.borrowed.zero() && share.lendable.zero() ? "none" : "no resource";
  }
  return std::to_string(share.borrowed.value()) + "/" + std::to_string(share.lendable.value()) +
         " " + std::string(share.resource);
}

class ShareCase : public testing::TestWithParam<CaseFile> {};

TEST_P(ShareCase, Holds) {
  const CaseFile& file = GetParam();
  ASSERT_FALSE(file.body.is_null()) << file.why;
  SCOPED_TRACE(file.path + ": " + file.why);
  ForestConfig config;
  std::map<std::string, Weight> weight_of;
  for (const api::Json& node : At(At(file.body, "given"), "nodes")) {
    const bool queue = node.contains("queue");
    NodeConfig out;
    out.name = node[queue ? "queue" : "cohort"].get<std::string>();
    out.parent = node.value("parent", "");
    EachRow(At(node, "quota"), [&](const FlavorResource& row, const api::Json& quota) {
      out.quotas[row] = quota.is_object()
                            ? Limits{.nominal = Read(At(quota, "nominal")),
                                     .borrowing = ReadOptional(At(quota, "borrowing_limit")),
                                     .lending = ReadOptional(At(quota, "lending_limit"))}
                            : Limits{.nominal = Read(quota), .borrowing = {}, .lending = {}};
    });
    if (node.contains("weight")) {
      const auto weight = api::Quantity::Parse(Text(node["weight"]));
      ASSERT_TRUE(weight) << out.name;
      weight_of[out.name] = Weight::FromNano(weight->NanoValue());
    }
    (queue ? config.queues : config.cohorts).push_back(std::move(out));
  }
  Forest forest = Forest::Build(config);
  std::vector<FairShares> shares;
  std::vector<std::vector<Weight>> weights;
  for (std::size_t t = 0; t < forest.tree_count(); ++t) {
    weights.emplace_back();
    for (std::size_t n = 0; n < forest.tree(t).node_count(); ++n) {
      weights.back().push_back(
          weight_of[forest.tree(t).name(NodeIndex{static_cast<std::uint32_t>(n)})]);
    }
    shares.emplace_back(forest.tree(t), weights.back());
  }
  const auto find = [&](const std::string& name) {
    const QueuePlace* place =
        forest.Find(name) != nullptr ? forest.Find(name) : forest.FindCohort(name);
    EXPECT_NE(place, nullptr) << name;
    return place == nullptr ? QueuePlace{} : *place;
  };
  const auto share_of = [&](const std::string& name) {
    const QueuePlace place = find(name);
    const Share share = shares[place.tree].Of(forest.tree(place.tree), place.node);
    const Share once = ShareOf(forest.tree(place.tree), place.node, weights[place.tree]);
    EXPECT_EQ(Fraction(share), Fraction(once)) << name;
    EXPECT_EQ(share.borrowing, once.borrowing) << name;
    EXPECT_EQ(share.weight, once.weight) << name;
    return share;
  };
  const auto change = [&](const api::Json& by_name, auto method) {
    for (const auto& [name, by_flavor] : by_name.items()) {
      const QueuePlace place = find(name);
      Tree& tree = forest.tree(place.tree);
      EachRow(by_flavor, [&](const FlavorResource& row, const api::Json& amount) {
        const auto found = tree.FindRow(row.flavor, row.resource);
        ASSERT_TRUE(found.has_value()) << row.flavor << " " << row.resource;
        (tree.*method)(place.node, *found, Read(amount));
      });
    }
  };
  int number = 0;
  std::size_t checks = 0;
  for (const api::Json& step : At(file.body, "steps")) {
    SCOPED_TRACE("step " + std::to_string(++number));
    change(At(step, "use"), &Tree::Add);
    change(At(step, "release"), &Tree::Remove);
    for (const auto& [what, wanted] : At(step, "expect").items()) {
      ++checks;
      if (what == "order") {  // smallest share first; a list within stands for equal ones
        std::vector<std::pair<std::string, std::size_t>> ranked;
        for (std::size_t rank = 0; rank < wanted.size(); ++rank) {
          for (const api::Json& name :
               wanted[rank].is_array() ? wanted[rank] : api::Json::array({wanted[rank]})) {
            ranked.emplace_back(name.get<std::string>(), rank);
          }
        }
        for (const auto& [a, rank_a] : ranked) {
          for (const auto& [b, rank_b] : ranked) {
            const int order = rank_a == rank_b ? 0 : (rank_a < rank_b ? -1 : 1);
            EXPECT_EQ(Compare(share_of(a), share_of(b)), order) << a << " against " << b;
          }
        }
        continue;
      }
      for (const auto& [name, value] : wanted.items()) {
        const Share share = share_of(name);
        SCOPED_TRACE(what + " of " + name);
        if (what == "reported") {
          EXPECT_EQ(share.Reported(), value.get<std::int64_t>());
        } else if (what == "fraction") {
          EXPECT_EQ(Fraction(share), value.get<std::string>());
        } else if (what == "borrowing") {
          EXPECT_EQ(share.borrowing, value.get<bool>());
        } else if (what == "zero_weight") {
          EXPECT_EQ(share.zero_weight(), value.get<bool>());
        } else {
          ADD_FAILURE() << "unknown expectation";
        }
      }
    }
  }
  EXPECT_GT(checks, 0U) << "the case expects nothing";
}

INSTANTIATE_TEST_SUITE_P(Files,
                         ShareCase,
                         testing::ValuesIn(test::LoadCases("shares")),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace muster::quota
