#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/amount.h"
#include "base/result.h"

namespace muster::api {

// resource.Quantity: an exact decimal with the suffix family it was written in.
//
// Range    Everything that k8s.io/apimachinery reads, beyond int64 included (held as a wide
// decimal). Compared exactly. Source   k8s.io/apimachinery pkg/api/resource: canonical form,
// rounding up to nano, Value() and MilliValue() round up.
class Quantity {
 public:
  Quantity() = default;  // zero
  // Errors   kInvalid: what Go refuses ("quantities must match the regular expression ..."), and a
  // suffix without any digit, which the
  //          API's schemas refuse and Go takes for zero in some spellings.
  [[nodiscard]] static Result<Quantity> Parse(std::string_view text);

  // Canonical form, as Go prints it: "1500m", "1k", "100Gi", "0".
  [[nodiscard]] std::string ToString() const;
  [[nodiscard]] int Compare(const Quantity& other) const;  // <0, 0, >0
  [[nodiscard]] bool negative() const;
  // Whole units rounded up (away from zero as Go does), clamped to int64; MilliValue likewise in
  // thousandths.
  [[nodiscard]] std::int64_t Value() const;
  [[nodiscard]] std::int64_t MilliValue() const;
  // All of it, in billionths: nothing is rounded.
  [[nodiscard]] __int128 NanoValue() const { return nano_; }
  // True when whole units (or thousandths) do not fit int64.
  [[nodiscard]] bool ValueOverflows() const;
  [[nodiscard]] bool MilliValueOverflows() const;
  // `amount` of `resource` in internal units as a quantity: cpu from millicores, memory, storage
  // and huge pages in the binary family.
  [[nodiscard]] static Quantity FromAmount(std::string_view resource, Amount amount);
  // Exact sum and product with saturation far beyond int64; used by transformations.
  [[nodiscard]] Quantity Plus(const Quantity& other) const;
  [[nodiscard]] Quantity TimesQuantity(const Quantity& factor) const;

  friend bool operator==(const Quantity& a, const Quantity& b) { return a.Compare(b) == 0; }

 private:
  enum class Format : std::uint8_t { kDecimalSi, kBinarySi, kDecimalExponent };
  Quantity(__int128 nano, Format format) : nano_(nano), format_(format) {}
  // value = digits * 10^-9 (nano units); 128 bits hold +-1.7e29 units, far more than any quantity
  // that means something; larger input saturates here and so reads as Unlimited.
  __int128 nano_ = 0;
  Format format_ = Format::kDecimalSi;
};

// The internal unit of `resource`: milli for cpu, whole for the rest, rounded up.
// Quota side: what leaves int64 is Unlimited. Request side: clamped, never negative.
[[nodiscard]] Amount QuotaAmount(std::string_view resource, const Quantity& quantity);
[[nodiscard]] Amount RequestAmount(std::string_view resource, const Quantity& quantity);
// Canonical quantity text of an amount in internal units: cpu 1500 -> "1500m", 2000 -> "2"; memory
// in the binary family as Go prints sums of binary quantities ("1Gi"); other resources decimal.
// Unlimited prints as its int64 value.
[[nodiscard]] std::string FormatAmount(std::string_view resource, Amount amount);

}  // namespace muster::api
