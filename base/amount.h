#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <limits>

namespace muster {

// An amount of one resource: quota, usage or request.
//
// Units    int64: millicores for cpu, whole units (bytes, devices, pods) for all else.
// Range    Saturates at both ends. The largest value means Unlimited: it is what a quota quantity
// that leaves int64 decodes to.
//          Unlimited +- x = Unlimited; x - Unlimited = the smallest value; Unlimited - Unlimited =
//          0.
class Amount {
 public:
  constexpr Amount() = default;
  constexpr explicit Amount(std::int64_t value) : value_(value) {}
  [[nodiscard]] static constexpr Amount Unlimited() { return Amount(kMax); }
  [[nodiscard]] static constexpr Amount Lowest() { return Amount(kMin); }

  [[nodiscard]] constexpr std::int64_t value() const { return value_; }
  [[nodiscard]] constexpr bool unlimited() const { return value_ == kMax; }
  [[nodiscard]] constexpr bool zero() const { return value_ == 0; }

  friend constexpr auto operator<=>(const Amount&, const Amount&) = default;

  friend constexpr Amount operator+(Amount a, Amount b) {
    if (a.unlimited() || b.unlimited()) {
      return Unlimited();
    }
    std::int64_t out = 0;
    if (__builtin_add_overflow(a.value_, b.value_, &out)) {
      return a.value_ > 0 ? Unlimited() : Lowest();
    }
    return Amount(out);
  }
  friend constexpr Amount operator-(Amount a, Amount b) {
    if (a.unlimited()) {
      return b.unlimited() ? Amount(0) : Unlimited();
    }
    if (b.unlimited()) {
      return Lowest();
    }
    std::int64_t out = 0;
    if (__builtin_sub_overflow(a.value_, b.value_, &out)) {
      return a.value_ >= 0 ? Unlimited() : Lowest();
    }
    return Amount(out);
  }
  // Saturating product with a count of pods; `times` is never negative.
  friend constexpr Amount operator*(Amount a, std::int64_t times) {
    std::int64_t out = 0;
    if (__builtin_mul_overflow(a.value_, times, &out)) {
      return (a.value_ > 0) == (times > 0) ? Unlimited() : Lowest();
    }
    return Amount(out);
  }
  constexpr Amount& operator+=(Amount b) { return *this = *this + b; }
  constexpr Amount& operator-=(Amount b) { return *this = *this - b; }

  [[nodiscard]] constexpr Amount AtLeastZero() const {
    return Amount(std::max<std::int64_t>(0, value_));
  }

 private:
  static constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  static constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  std::int64_t value_ = 0;
};

}  // namespace muster
