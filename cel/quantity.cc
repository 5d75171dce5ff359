#include "cel/quantity.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace muster::cel {
namespace {

using Wide = __int128;

constexpr Wide kNanoPerUnit = 1'000'000'000;
// Far inside 128 bits, so that sums of two saturated values still fit.
constexpr Wide kWideMax = (Wide{1} << 126) - 1;

Error FormatError() {
  return Error::Invalid(
      "quantities must match the regular expression "
      "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'");
}

Wide SaturatingTimes(Wide value, Wide factor) {
  Wide out = 0;
  if (__builtin_mul_overflow(value, factor, &out) || out > kWideMax) {
    return kWideMax;
  }
  return out;
}

struct Suffix {
  std::string_view text;
  int base;
  int exponent;
};
constexpr Suffix kSuffixes[] = {
    {"n", 10, -9},
    {"u", 10, -6},
    {"m", 10, -3},
    {"", 10, 0},
    {"k", 10, 3},
    {"M", 10, 6},
    {"G", 10, 9},
    {"T", 10, 12},
    {"P", 10, 15},
    {"E", 10, 18},
    {"Ki", 2, 10},
    {"Mi", 2, 20},
    {"Gi", 2, 30},
    {"Ti", 2, 40},
    {"Pi", 2, 50},
    {"Ei", 2, 60},
};

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

Result<Quantity> Quantity::Parse(std::string_view text) {
  std::string_view rest = text;
  bool negative = false;
  if (!rest.empty() && (rest[0] == '+' || rest[0] == '-')) {
    negative = rest[0] == '-';
    rest.remove_prefix(1);
  }
  std::size_t integer_digits = 0;
  while (integer_digits < rest.size() && IsDigit(rest[integer_digits])) {
    ++integer_digits;
  }
  std::string_view integer = rest.substr(0, integer_digits);
  rest.remove_prefix(integer_digits);
  std::string_view fraction;
  if (!rest.empty() && rest[0] == '.') {
    rest.remove_prefix(1);
    std::size_t fraction_digits = 0;
    while (fraction_digits < rest.size() && IsDigit(rest[fraction_digits])) {
      ++fraction_digits;
    }
    fraction = rest.substr(0, fraction_digits);
    rest.remove_prefix(fraction_digits);
  }
  // Digits may be missing altogether: upstream reads "." and "Ki" as zero.
  if (text.empty()) {
    return std::unexpected(FormatError());
  }
  int base = 10;
  std::int64_t exponent = 0;
  bool known = false;
  for (const Suffix& suffix : kSuffixes) {
    if (rest == suffix.text) {
      base = suffix.base;
      exponent = suffix.exponent;
      known = true;
    }
  }
  if (!known && rest.size() >= 2 && (rest[0] == 'e' || rest[0] == 'E')) {
    std::string_view digits = rest.substr(1);
    bool minus = false;
    if (digits[0] == '+' || digits[0] == '-') {
      minus = digits[0] == '-';
      digits.remove_prefix(1);
    }
    known = !digits.empty() && digits.size() <= 18;
    for (const char c : digits) {
      known = known && IsDigit(c);
      if (known) {
        exponent = exponent * 10 + (c - '0');
      }
    }
    if (minus) {
      exponent = -exponent;
    }
  }
  if (!known) {
    return std::unexpected(FormatError());
  }
  while (!integer.empty() && integer[0] == '0') {
    integer.remove_prefix(1);
  }
  const std::size_t written_digits = std::max<std::size_t>(integer.size(), 1) + fraction.size();

  // value = digits * 10^ten * 2^two nano units. Digits beyond what 128 bits hold only matter for
  // rounding up.
  Wide digits = 0;
  std::int64_t ten = 9 - static_cast<std::int64_t>(fraction.size()) + (base == 10 ? exponent : 0);
  bool remainder = false;
  const auto append = [&](std::string_view part) {
    for (const char c : part) {
      if (digits > kWideMax / 16) {
        remainder = remainder || c != '0';
        ++ten;
      } else {
        digits = digits * 10 + (c - '0');
      }
    }
  };
  append(integer);
  append(fraction);
  if (base == 2) {
    digits = SaturatingTimes(digits, Wide{1} << exponent);
  }
  while (ten > 0 && digits != 0 && digits < kWideMax) {
    digits = SaturatingTimes(digits, 10);
    --ten;
  }
  while (ten < 0 && digits != 0) {
    remainder = remainder || digits % 10 != 0;
    digits /= 10;
    ++ten;
  }
  if (remainder && digits < kWideMax) {
    ++digits;
  }
  Quantity out;
  // Binary quantities are capped at the largest int64, and so are decimal ones that mean something.
  if (base == 2) {
    digits = std::min<Wide>(digits, Wide{std::numeric_limits<std::int64_t>::max()} * kNanoPerUnit);
  }
  out.nano_ = negative ? -digits : digits;

  // Which form upstream picks decides isInteger(): the fast form serves up to 18 significant
  // digits, and binary suffixes only without a fraction.
  const std::int64_t scale =
      (base == 10 ? exponent : 0) - static_cast<std::int64_t>(fraction.size());
  bool fast = true;
  if (base == 10) {
    fast = written_digits <= 18;
  } else {
    const int precision = 15 - static_cast<int>(std::clamp<std::size_t>(integer.size(), 1, 1000)) -
                          static_cast<int>(static_cast<float>(exponent) * 3 / 10) - 1;
    fast = fraction.empty() && precision >= 0;
  }
  fast = fast && scale >= -9 && scale <= 1000;
  out.wide_ = !fast;
  out.scale_ = fast ? static_cast<std::int32_t>(scale) : 0;
  if (text == "0") {
    out.scale_ = 0;
  }
  return out;
}

Quantity Quantity::FromInt(std::int64_t units) {
  Quantity out;
  out.nano_ = Wide{units} * kNanoPerUnit;
  return out;
}

int Quantity::Compare(const Quantity& other) const {
  return nano_ < other.nano_ ? -1 : (nano_ > other.nano_ ? 1 : 0);
}

int Quantity::Sign() const {
  return nano_ < 0 ? -1 : (nano_ > 0 ? 1 : 0);
}

Quantity Quantity::Plus(const Quantity& other) const {
  Quantity out;
  out.nano_ = std::clamp<Wide>(nano_ + other.nano_, -kWideMax, kWideMax);
  out.wide_ = wide_ || other.wide_;
  if (other.nano_ == 0) {
    out.scale_ = scale_;
  } else if (nano_ == 0) {
    out.scale_ = other.scale_;
  } else {
    out.scale_ = std::min(scale_, other.scale_);
  }
  return out;
}

Quantity Quantity::Minus(const Quantity& other) const {
  Quantity negated = other;
  negated.nano_ = -negated.nano_;
  return Plus(negated);
}

bool Quantity::IsInteger() const {
  if (wide_ || scale_ < 0 || nano_ % kNanoPerUnit != 0) {
    return false;
  }
  const Wide units = nano_ / kNanoPerUnit;
  return units >= std::numeric_limits<std::int64_t>::min() &&
         units <= std::numeric_limits<std::int64_t>::max();
}

std::int64_t Quantity::AsInteger() const {
  return static_cast<std::int64_t>(nano_ / kNanoPerUnit);
}

double Quantity::AsApproximateFloat() const {
  // Whole and fractional part apart, so that whole numbers stay exact.
  const Wide units = nano_ / kNanoPerUnit;
  const Wide rest = nano_ % kNanoPerUnit;
  if (rest == 0) {
    return static_cast<double>(units);
  }
  return static_cast<double>(nano_) / 1e9;
}

std::string Quantity::ToString() const {
  const bool negative = nano_ < 0;
  Wide rest = negative ? -nano_ : nano_;
  std::string digits;
  do {
    digits.push_back(static_cast<char>('0' + static_cast<int>(rest % 10)));
    rest /= 10;
  } while (rest != 0);
  while (digits.size() < 10) {
    digits.push_back('0');
  }
  std::ranges::reverse(digits);
  std::string fraction = digits.substr(digits.size() - 9);
  digits.resize(digits.size() - 9);
  while (!fraction.empty() && fraction.back() == '0') {
    fraction.pop_back();
  }
  std::string out = negative ? "-" : "";
  out += digits;
  if (!fraction.empty()) {
    out += "." + fraction;
  }
  return out;
}

}  // namespace muster::cel
