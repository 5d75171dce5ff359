#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/amount.h"
#include "quota/tree.h"

// How well a request fits on one flavor, and which flavor to prefer.
namespace muster::quota {

// From worst to best. kNoCandidates: preemption would be allowed but nobody can be preempted.
// kReclaim: only quota that others borrowed has to be taken back.
enum class Mode : std::uint8_t { kNoFit, kNoCandidates, kPreempt, kReclaim, kFit };

struct Fungibility {
  bool can_borrow_try_next = false;
  bool can_preempt_try_next = true;
  bool preemption_over_borrowing = false;
  friend bool operator==(const Fungibility&, const Fungibility&) = default;
};

struct Fit {
  Mode mode = Mode::kFit;
  std::int32_t level = 0;
};

// True when `a` is strictly better than `b`.
[[nodiscard]] bool IsPreferred(const Fit& a, const Fit& b, const Fungibility& fungibility);
// True when the search should go on to the next flavor after `fit`.
[[nodiscard]] bool TryNext(const Fit& fit, const Fungibility& fungibility);

// The plain answer of the ledger for one row; the caller asks for preemption victims where
// `needs_oracle` says that they could help.
struct RowFit {
  enum class Shortage : std::uint8_t { kNone, kExceedsMax, kWaiting };
  Fit fit;
  Shortage shortage = Shortage::kNone;
  bool needs_oracle = false;
  Amount missing;    // kWaiting: how much more would have to be free
  Amount potential;  // kExceedsMax: the most that the queue could ever have
};
// `used`: what earlier pod sets of the same Workload already take of this row.
[[nodiscard]] RowFit FitsQuota(const Tree& tree,
                               NodeIndex queue,
                               Row row,
                               Amount used,
                               Amount request,
                               bool preempt_while_borrowing);

}  // namespace muster::quota
