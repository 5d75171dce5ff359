#include "api/quantity.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

namespace muster::api {
namespace {

using Wide = unsigned __int128;

// Magnitudes beyond this saturate: the largest positive __int128.
constexpr Wide kMaxMagnitude = (Wide{1} << 127) - 1;
constexpr Wide kNanoPerUnit = 1'000'000'000;
constexpr Wide kNanoPerMilli = 1'000'000;
constexpr Wide kMaxInt64 = static_cast<Wide>(std::numeric_limits<std::int64_t>::max());

Wide SaturatingMultiply(Wide a, Wide b) {
  if (a != 0 && b > kMaxMagnitude / a) {
    return kMaxMagnitude;
  }
  return a * b;
}

Wide SaturatingAdd(Wide a, Wide b) {
  return a > kMaxMagnitude - b ? kMaxMagnitude : a + b;
}

Wide Magnitude(__int128 value) {
  return value < 0 ? Wide{0} - static_cast<Wide>(value) : static_cast<Wide>(value);
}

__int128 Signed(Wide magnitude, bool negative) {
  const auto value = static_cast<__int128>(std::min(magnitude, kMaxMagnitude));
  return negative ? -value : value;
}

std::string Decimal(Wide value) {
  std::string out;
  do {
    out.insert(out.begin(), static_cast<char>('0' + static_cast<int>(value % 10)));
    value /= 10;
  } while (value != 0);
  return out;
}

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

enum class Family : std::uint8_t { kDecimalSi, kBinarySi, kDecimalExponent };
struct Suffix {
  Family family = Family::kDecimalSi;
  std::int64_t exponent = 0;  // of 10, or of 2 for kBinarySi
};

constexpr std::string_view kDecimalLetters = "numkMGTPE";

std::optional<Suffix> InterpretSuffix(std::string_view text) {
  if (text.empty()) {
    return Suffix{};
  }
  if (text.size() == 1) {
    switch (text[0]) {
      case 'n':
        return Suffix{.exponent = -9};
      case 'u':
        return Suffix{.exponent = -6};
      case 'm':
        return Suffix{.exponent = -3};
      case 'k':
        return Suffix{.exponent = 3};
      case 'M':
        return Suffix{.exponent = 6};
      case 'G':
        return Suffix{.exponent = 9};
      case 'T':
        return Suffix{.exponent = 12};
      case 'P':
        return Suffix{.exponent = 15};
      case 'E':
        return Suffix{.exponent = 18};
      default:
        return std::nullopt;
    }
  }
  if (text.size() == 2 && text[1] == 'i') {
    constexpr std::string_view kBinaryLetters = "KMGTPE";
    const auto index = kBinaryLetters.find(text[0]);
    if (index == std::string_view::npos) {
      return std::nullopt;
    }
    return Suffix{.family = Family::kBinarySi,
                  .exponent = 10 * (static_cast<std::int64_t>(index) + 1)};
  }
  if (text[0] == 'e' || text[0] == 'E') {
    std::string_view number = text.substr(1);
    if (number.starts_with('+')) {
      number.remove_prefix(1);
      if (number.empty() || !IsDigit(number.front())) {
        return std::nullopt;
      }
    }
    std::int64_t exponent = 0;
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), exponent);
    if (error != std::errc{} || end != number.data() + number.size()) {
      return std::nullopt;
    }
    return Suffix{.family = Family::kDecimalExponent, .exponent = exponent};
  }
  return std::nullopt;
}

// whole.fraction * 10^exponent in nano units, rounded up.
Wide ScaleDecimal(std::string_view whole, std::string_view fraction, std::int64_t exponent) {
  const auto digit_count = static_cast<std::int64_t>(whole.size() + fraction.size());
  // Beyond these bounds the result is 0 < x <= 1n, or saturated, whatever the digits.
  constexpr std::int64_t kFar = 1'000'000'000'000;
  exponent = std::clamp(exponent, -kFar, kFar);
  const std::int64_t shift = exponent - static_cast<std::int64_t>(fraction.size()) + 9;
  const std::int64_t kept =
      shift >= 0 ? digit_count : std::max<std::int64_t>(0, digit_count + shift);
  Wide value = 0;
  bool lost = false;
  for (std::int64_t i = 0; i < digit_count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const char c = at < whole.size() ? whole[at] : fraction[at - whole.size()];
    if (i < kept) {
      value = SaturatingAdd(SaturatingMultiply(value, 10), static_cast<Wide>(c - '0'));
    } else {
      lost = lost || c != '0';
    }
  }
  if (value != 0) {
    for (std::int64_t i = 0; i < shift && value < kMaxMagnitude; ++i) {
      value = SaturatingMultiply(value, 10);
    }
  }
  return lost ? SaturatingAdd(value, 1) : value;
}

// whole.fraction * 2^exponent in nano units, rounded up and capped at the largest int64 in units.
Wide ScaleBinary(std::string_view whole, std::string_view fraction, std::int64_t exponent) {
  const Wide cap = kMaxInt64 * kNanoPerUnit;
  const Wide unit = (Wide{1} << exponent) * kNanoPerUnit;  // below 2^91
  Wide units = 0;
  for (const char c : whole) {
    units = SaturatingAdd(SaturatingMultiply(units, 10), static_cast<Wide>(c - '0'));
  }
  // Horner from the last digit: floor(floor(x) / 10) = floor(x / 10), and a remainder anywhere
  // means the result is not whole.
  Wide part = 0;
  bool lost = false;
  for (auto it = fraction.rbegin(); it != fraction.rend(); ++it) {
    const Wide step = static_cast<Wide>(*it - '0') * unit + part;
    part = step / 10;
    lost = lost || step % 10 != 0;
  }
  Wide value = SaturatingAdd(SaturatingMultiply(units, unit), part);
  if (lost) {
    value = SaturatingAdd(value, 1);
  }
  return std::min(value, cap);
}

constexpr std::string_view kFormatWrong =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
constexpr std::string_view kSuffixWrong = "unable to parse quantity's suffix";

std::int64_t RoundedUp(__int128 nano, Wide nano_per_step) {
  const Wide magnitude = Magnitude(nano);
  const Wide steps = magnitude / nano_per_step + (magnitude % nano_per_step != 0 ? 1 : 0);
  const auto clamped = static_cast<std::int64_t>(std::min(steps, kMaxInt64));
  if (nano >= 0) {
    return clamped;
  }
  return steps > kMaxInt64 ? std::numeric_limits<std::int64_t>::min() : -clamped;
}

bool Overflows(__int128 nano, Wide nano_per_step) {
  const Wide magnitude = Magnitude(nano);
  return magnitude / nano_per_step + (magnitude % nano_per_step != 0 ? 1 : 0) > kMaxInt64;
}

bool BinaryResource(std::string_view resource) {
  return resource == "memory" || resource == "ephemeral-storage" || resource == "storage" ||
         resource.starts_with("hugepages-");
}

}  // namespace

Result<Quantity> Quantity::Parse(std::string_view text) {
  if (text.empty()) {
    return std::unexpected(Error::Invalid(std::string(kFormatWrong)));
  }
  std::size_t at = 0;
  const bool negative = text[0] == '-';
  if (text[0] == '-' || text[0] == '+') {
    ++at;
  }
  const auto take_digits = [&] {
    const std::size_t start = at;
    while (at < text.size() && IsDigit(text[at])) {
      ++at;
    }
    return text.substr(start, at - start);
  };
  const std::string_view whole = take_digits();
  std::string_view fraction;
  if (at < text.size() && text[at] == '.') {
    ++at;
    fraction = take_digits();
  }
  const bool digits = !whole.empty() || !fraction.empty();
  const std::size_t suffix_start = at;
  while (at < text.size() && std::string_view("eEinumkKMGTP").contains(text[at])) {
    ++at;
  }
  if (at < text.size() && (text[at] == '-' || text[at] == '+')) {
    ++at;
  }
  take_digits();
  if (at != text.size() || !digits) {
    return std::unexpected(Error::Invalid(std::string(kFormatWrong)));
  }
  const std::optional<Suffix> suffix = InterpretSuffix(text.substr(suffix_start));
  if (!suffix) {
    return std::unexpected(Error::Invalid(std::string(kSuffixWrong)));
  }
  Wide magnitude = 0;
  Format format = Format::kDecimalSi;
  switch (suffix->family) {
    case Family::kDecimalSi:
      magnitude = ScaleDecimal(whole, fraction, suffix->exponent);
      break;
    case Family::kDecimalExponent:
      magnitude = ScaleDecimal(whole, fraction, suffix->exponent);
      format = Format::kDecimalExponent;
      break;
    case Family::kBinarySi:
      magnitude = ScaleBinary(whole, fraction, suffix->exponent);
      format = magnitude > 0 && magnitude < kNanoPerUnit ? Format::kDecimalSi : Format::kBinarySi;
      break;
  }
  return Quantity(Signed(magnitude, negative), format);
}

std::string Quantity::ToString() const {
  if (nano_ == 0) {
    return "0";
  }
  const std::string sign = nano_ < 0 ? "-" : "";
  Wide magnitude = Magnitude(nano_);
  Format format = format_;
  if (format == Format::kBinarySi &&
      (magnitude < 1024 * kNanoPerUnit || magnitude % kNanoPerUnit != 0)) {
    format = Format::kDecimalSi;
  }
  if (format == Format::kBinarySi) {
    constexpr std::string_view kSuffixes[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
    magnitude /= kNanoPerUnit;
    std::size_t power = 0;
    while (magnitude % 1024 == 0 && power + 1 < std::size(kSuffixes)) {
      magnitude /= 1024;
      ++power;
    }
    return sign + Decimal(magnitude) + std::string(kSuffixes[power]);
  }
  int exponent = -9;
  while (magnitude % 1000 == 0 && (format == Format::kDecimalExponent || exponent < 18)) {
    magnitude /= 1000;
    exponent += 3;
  }
  std::string out = sign + Decimal(magnitude);
  if (exponent == 0) {
    return out;
  }
  if (format == Format::kDecimalExponent) {
    return out + "e" + std::to_string(exponent);
  }
  // n u m (none) k M G T P E, three powers of ten apart.
  const int letter = exponent < 0 ? exponent / 3 + 3 : exponent / 3 + 2;
  return out + kDecimalLetters[static_cast<std::size_t>(letter)];
}

int Quantity::Compare(const Quantity& other) const {
  if (nano_ == other.nano_) {
    return 0;
  }
  return nano_ < other.nano_ ? -1 : 1;
}

bool Quantity::negative() const {
  return nano_ < 0;
}

std::int64_t Quantity::Value() const {
  return RoundedUp(nano_, kNanoPerUnit);
}
std::int64_t Quantity::MilliValue() const {
  return RoundedUp(nano_, kNanoPerMilli);
}
bool Quantity::ValueOverflows() const {
  return Overflows(nano_, kNanoPerUnit);
}
bool Quantity::MilliValueOverflows() const {
  return Overflows(nano_, kNanoPerMilli);
}

Quantity Quantity::FromAmount(std::string_view resource, Amount amount) {
  const __int128 value = amount.value();
  if (resource == "cpu") {
    return Quantity(value * static_cast<__int128>(kNanoPerMilli), Format::kDecimalSi);
  }
  return Quantity(value * static_cast<__int128>(kNanoPerUnit),
                  BinaryResource(resource) ? Format::kBinarySi : Format::kDecimalSi);
}

Quantity Quantity::Plus(const Quantity& other) const {
  const Format format = nano_ == 0 ? other.format_ : format_;
  __int128 sum = 0;
  if (__builtin_add_overflow(nano_, other.nano_, &sum)) {
    return Quantity(Signed(kMaxMagnitude, nano_ < 0), format);
  }
  return Quantity(Signed(Magnitude(sum), sum < 0), format);
}

Quantity Quantity::TimesQuantity(const Quantity& factor) const {
  const Wide a = Magnitude(nano_);
  const Wide b = Magnitude(factor.nano_);
  const Wide a_units = a / kNanoPerUnit;
  const Wide a_rest = a % kNanoPerUnit;
  const Wide b_units = b / kNanoPerUnit;
  const Wide b_rest = b % kNanoPerUnit;
  // a * b / 10^9 = a_units * b + a_rest * b_units + ceil(a_rest * b_rest / 10^9)
  const Wide rests = a_rest * b_rest;  // below 10^18
  const Wide last = rests / kNanoPerUnit + (rests % kNanoPerUnit != 0 ? 1 : 0);
  const Wide magnitude = SaturatingAdd(
      SaturatingAdd(SaturatingMultiply(a_units, b), SaturatingMultiply(a_rest, b_units)), last);
  return Quantity(Signed(magnitude, (nano_ < 0) != (factor.nano_ < 0)), format_);
}

Amount QuotaAmount(std::string_view resource, const Quantity& quantity) {
  // MilliValue and Value clamp to the largest int64, which is Unlimited.
  return Amount(resource == "cpu" ? quantity.MilliValue() : quantity.Value());
}

Amount RequestAmount(std::string_view resource, const Quantity& quantity) {
  return QuotaAmount(resource, quantity).AtLeastZero();
}

std::string FormatAmount(std::string_view resource, Amount amount) {
  return Quantity::FromAmount(resource, amount).ToString();
}

}  // namespace muster::api
