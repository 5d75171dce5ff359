#include "quota/flavors.h"

#include <gtest/gtest.h>

namespace muster::quota {
namespace {

TEST(IsPreferred, PutsAFitFirstAndAFlavorWithoutCandidatesLast) {
  for (const bool over_borrowing : {false, true}) {
    const Fungibility rule{.preemption_over_borrowing = over_borrowing};
    EXPECT_FALSE(IsPreferred({Mode::kNoFit, 0}, {Mode::kNoCandidates, 3}, rule));
    EXPECT_TRUE(IsPreferred({Mode::kNoCandidates, 3}, {Mode::kNoFit, 0}, rule));
    EXPECT_TRUE(IsPreferred({Mode::kPreempt, 2}, {Mode::kNoCandidates, 0}, rule));
    EXPECT_FALSE(IsPreferred({Mode::kNoCandidates, 0}, {Mode::kFit, 2}, rule));
    EXPECT_FALSE(IsPreferred({Mode::kFit, 1}, {Mode::kFit, 1}, rule));
  }
}

TEST(IsPreferred, WeighsBorrowingAgainstPreemptionAsTheQueueSays) {
  const Fungibility borrowing;
  const Fungibility preemption{.preemption_over_borrowing = true};
  EXPECT_TRUE(IsPreferred({Mode::kFit, 2}, {Mode::kPreempt, 0}, borrowing));
  EXPECT_FALSE(IsPreferred({Mode::kFit, 2}, {Mode::kPreempt, 0}, preemption));
  EXPECT_TRUE(IsPreferred({Mode::kPreempt, 0}, {Mode::kFit, 2}, preemption));
  EXPECT_TRUE(IsPreferred({Mode::kReclaim, 1}, {Mode::kPreempt, 1}, preemption));
  EXPECT_TRUE(IsPreferred({Mode::kFit, 0}, {Mode::kFit, 1}, borrowing));
}

TEST(TryNext, StopsAsFungibilitySays) {
  const Fungibility defaults;
  EXPECT_TRUE(TryNext({Mode::kNoFit, 0}, defaults));
  EXPECT_TRUE(TryNext({Mode::kNoCandidates, 0}, defaults));
  EXPECT_TRUE(TryNext({Mode::kPreempt, 0}, defaults));
  EXPECT_FALSE(TryNext({Mode::kFit, 1}, defaults));
  EXPECT_FALSE(TryNext({Mode::kReclaim, 0}, Fungibility{.can_preempt_try_next = false}));
  EXPECT_TRUE(TryNext({Mode::kFit, 1}, Fungibility{.can_borrow_try_next = true}));
  EXPECT_FALSE(TryNext({Mode::kFit, 0}, Fungibility{.can_borrow_try_next = true}));
}

Tree OneQueue(Amount nominal) {
  const FlavorResource row{.flavor = "f", .resource = "cpu"};
  Forest forest = Forest::Build(
      {.cohorts = {},
       .queues = {{.name = "a",
                   .parent = "",
                   .quotas = {{row, {.nominal = nominal, .borrowing = {}, .lending = {}}}}}},
       .used = {}});
  return forest.tree(0);
}

TEST(FitsQuota, AdmitsExactlyTheLimitAndNamesWhatIsMissingBeyond) {
  Tree tree = OneQueue(Amount(110));
  tree.Add(Tree::root(), Row{0}, Amount(100));
  EXPECT_EQ(FitsQuota(tree, Tree::root(), Row{0}, Amount(), Amount(10), false).fit.mode,
            Mode::kFit);
  tree.Add(Tree::root(), Row{0}, Amount(10));
  const RowFit none = FitsQuota(tree, Tree::root(), Row{0}, Amount(), Amount(1), false);
  EXPECT_EQ(none.fit.mode, Mode::kNoFit);
  EXPECT_EQ(none.shortage, RowFit::Shortage::kWaiting);
  EXPECT_EQ(none.missing, Amount(1));
  EXPECT_TRUE(none.needs_oracle);
  const RowFit never = FitsQuota(tree, Tree::root(), Row{0}, Amount(100), Amount(11), false);
  EXPECT_EQ(never.shortage, RowFit::Shortage::kExceedsMax);
  EXPECT_EQ(never.potential, Amount(110));
}

TEST(FitsQuota, SaturatesInsteadOfWrapping) {
  const Tree tree = OneQueue(Amount(10));
  const RowFit never = FitsQuota(tree, Tree::root(), Row{0}, Amount(5), Amount::Unlimited(), false);
  EXPECT_EQ(never.shortage, RowFit::Shortage::kExceedsMax);
  const Tree endless = OneQueue(Amount::Unlimited());
  EXPECT_EQ(FitsQuota(endless, Tree::root(), Row{0}, Amount(5), Amount(1'000'000), false).fit.mode,
            Mode::kFit);
}

}  // namespace
}  // namespace muster::quota
