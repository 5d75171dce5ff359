#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace muster::cel {

// The exact decimal behind quantity(): what the expressions of Kubernetes compute with.
//
// Range    Nano units in 128 bits: +-1.7e29 whole units. Larger input saturates there, finer than
// nano is rounded away from zero. Source   k8s.io/apimachinery pkg/api/resource (grammar,
// rounding).
class Quantity {
 public:
  Quantity() = default;  // zero
  [[nodiscard]] static Result<Quantity> Parse(std::string_view text);
  [[nodiscard]] static Quantity FromInt(std::int64_t units);

  [[nodiscard]] int Compare(const Quantity& other) const;  // -1, 0, 1
  [[nodiscard]] int Sign() const;
  [[nodiscard]] Quantity Plus(const Quantity& other) const;
  [[nodiscard]] Quantity Minus(const Quantity& other) const;
  // True when upstream's representation is an int64 of non-negative scale: "2k" and "1Gi" are,
  // "1.0" and "2000m" are not.
  [[nodiscard]] bool IsInteger() const;
  [[nodiscard]] std::int64_t AsInteger() const;  // only when IsInteger()
  [[nodiscard]] double AsApproximateFloat() const;
  // Plain decimal without a suffix ("1.5", "2147483648"), which every reader of quantities accepts.
  [[nodiscard]] std::string ToString() const;

 private:
  __int128 nano_ = 0;
  // Decimal places that upstream's int64 form would carry; `wide_` when upstream has left that form
  // for a big decimal.
  std::int32_t scale_ = 0;
  bool wide_ = false;
};

}  // namespace muster::cel
