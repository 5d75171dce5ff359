#include "quota/flavors.h"

namespace muster::quota {

bool IsPreferred(const Fit& a, const Fit& b, const Fungibility& fungibility) {
  if (a.mode == Mode::kNoFit) {
    return false;
  }
  if (b.mode == Mode::kNoFit) {
    return true;
  }
  if ((a.mode == Mode::kNoCandidates) != (b.mode == Mode::kNoCandidates)) {
    return b.mode == Mode::kNoCandidates;
  }
  if (fungibility.preemption_over_borrowing) {
    return a.level != b.level ? a.level < b.level : a.mode > b.mode;
  }
  return a.mode != b.mode ? a.mode > b.mode : a.level < b.level;
}

bool TryNext(const Fit& fit, const Fungibility& fungibility) {
  switch (fit.mode) {
    case Mode::kNoFit:
    case Mode::kNoCandidates:
      return true;
    case Mode::kPreempt:
    case Mode::kReclaim:
      if (fungibility.can_preempt_try_next) {
        return true;
      }
      break;
    case Mode::kFit:
      break;
  }
  return fit.level > 0 && fungibility.can_borrow_try_next;
}

RowFit FitsQuota(const Tree& tree,
                 NodeIndex queue,
                 Row row,
                 Amount used,
                 Amount request,
                 bool preempt_while_borrowing) {
  const Amount total = used + request;
  RowFit out;
  out.potential = tree.potential(queue, row);
  if (total > out.potential) {
    out.fit = Fit{.mode = Mode::kNoFit, .level = 0};
    out.shortage = RowFit::Shortage::kExceedsMax;
    return out;
  }
  const Level level = tree.LevelOf(queue, row, total);
  const Amount available = tree.available(queue, row).AtLeastZero();
  out.fit = Fit{.mode = Mode::kFit, .level = level.level};
  if (total <= available) {
    return out;
  }
  out.shortage = RowFit::Shortage::kWaiting;
  out.missing = total - available;
  out.fit.mode = Mode::kNoFit;
  out.needs_oracle =
      tree.limits(queue, row).nominal >= total || level.may_reclaim || preempt_while_borrowing;
  return out;
}

}  // namespace muster::quota
