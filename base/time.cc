#include "base/time.h"

#include <array>
#include <cstdio>
#include <limits>

namespace muster {
namespace {

using std::chrono::days;
using std::chrono::floor;
using std::chrono::nanoseconds;
using std::chrono::seconds;

struct Cursor {
  std::string_view rest;

  bool Take(char c) {
    if (rest.empty() || rest.front() != c) {
      return false;
    }
    rest.remove_prefix(1);
    return true;
  }
  bool Digits(std::size_t count, int& out) {
    if (rest.size() < count) {
      return false;
    }
    out = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (rest[i] < '0' || rest[i] > '9') {
        return false;
      }
      out = out * 10 + (rest[i] - '0');
    }
    rest.remove_prefix(count);
    return true;
  }
};

std::string Format(TimePoint time, bool micros) {
  const auto day = floor<days>(time);
  const std::chrono::year_month_day date(day);
  const auto in_day = time - day;
  const auto whole = floor<seconds>(in_day);
  const auto s = static_cast<int>(whole.count());
  std::array<char, 48> text{};
  int length = std::snprintf(text.data(),
                             text.size(),
                             "%04d-%02u-%02uT%02d:%02d:%02d",
                             static_cast<int>(date.year()),
                             static_cast<unsigned>(date.month()),
                             static_cast<unsigned>(date.day()),
                             s / 3600,
                             s / 60 % 60,
                             s % 60);
  std::string out(text.data(), static_cast<std::size_t>(length));
  if (micros) {
    length = std::snprintf(text.data(),
                           text.size(),
                           ".%06lld",
                           static_cast<long long>((in_day - whole).count() / 1000));
    out.append(text.data(), static_cast<std::size_t>(length));
  }
  out += 'Z';
  return out;
}

}  // namespace

std::string FormatTime(TimePoint time) {
  return Format(time, false);
}
std::string FormatMicroTime(TimePoint time) {
  return Format(time, true);
}

Result<TimePoint> ParseTime(std::string_view text) {
  const auto bad = [&] {
    return std::unexpected(Error::Invalid("not an RFC 3339 time: \"" + std::string(text) + "\""));
  };
  Cursor in{text};
  int year = 0;
  int month = 0;
  int day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
  if (!in.Digits(4, year) || !in.Take('-') || !in.Digits(2, month) || !in.Take('-') ||
      !in.Digits(2, day) || !(in.Take('T') || in.Take('t')) || !in.Digits(2, hour) ||
      !in.Take(':') || !in.Digits(2, minute) || !in.Take(':') || !in.Digits(2, second)) {
    return bad();
  }
  std::int64_t nanos = 0;
  if (in.Take('.')) {
    std::int64_t unit = 100'000'000;
    int digit = 0;
    if (in.rest.empty() || in.rest.front() < '0' || in.rest.front() > '9') {
      return bad();
    }
    while (in.Digits(1, digit)) {
      nanos += digit * unit;
      unit /= 10;
    }
  }
  int offset_minutes = 0;
  if (!in.Take('Z') && !in.Take('z')) {
    const bool negative = !in.rest.empty() && in.rest.front() == '-';
    int offset_hour = 0;
    int offset_minute = 0;
    if (!(in.Take('-') || in.Take('+')) || !in.Digits(2, offset_hour) || !in.Take(':') ||
        !in.Digits(2, offset_minute) || offset_hour > 23 || offset_minute > 59) {
      return bad();
    }
    offset_minutes = (offset_hour * 60 + offset_minute) * (negative ? -1 : 1);
  }
  const std::chrono::year_month_day date(std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day)));
  // int64 nanoseconds reach from 1678 to 2261; what lies outside is clamped to stay a valid time.
  if (!in.rest.empty() || !date.ok() || hour > 23 || minute > 59 || second > 60) {
    return bad();
  }
  if (year < 1678) {
    return TimePoint::min();
  }
  if (year > 2261) {
    return TimePoint::max();
  }
  return TimePoint(std::chrono::sys_days(date)) + std::chrono::hours(hour) +
         std::chrono::minutes(minute - offset_minutes) + seconds(second) + nanoseconds(nanos);
}

std::string FormatDuration(Duration duration) {
  if (duration == Duration::zero()) {
    return "0s";
  }
  std::string out;
  // The magnitude as unsigned, so that the smallest value does not overflow.
  auto n = static_cast<std::uint64_t>(duration.count());
  if (duration < Duration::zero()) {
    out += '-';
    n = 0 - n;
  }
  const auto fraction = [](std::uint64_t value, int digits) {
    std::string text = std::to_string(value);
    text.insert(0, static_cast<std::size_t>(digits) - text.size(), '0');
    while (!text.empty() && text.back() == '0') {
      text.pop_back();
    }
    return text.empty() ? std::string() : "." + text;
  };
  if (n < 1'000'000'000) {
    if (n < 1'000) {
      return out + std::to_string(n) + "ns";
    }
    if (n < 1'000'000) {
      return out + std::to_string(n / 1'000) + fraction(n % 1'000, 3) + "µs";
    }
    return out + std::to_string(n / 1'000'000) + fraction(n % 1'000'000, 6) + "ms";
  }
  const std::uint64_t whole = n / 1'000'000'000;
  if (whole >= 3600) {
    out += std::to_string(whole / 3600) + "h";
  }
  if (whole >= 60) {
    out += std::to_string(whole / 60 % 60) + "m";
  }
  return out + std::to_string(whole % 60) + fraction(n % 1'000'000'000, 9) + "s";
}

Result<Duration> ParseDuration(std::string_view text) {
  const auto bad = [&] {
    return std::unexpected(Error::Invalid("not a duration: \"" + std::string(text) + "\""));
  };
  std::string_view rest = text;
  bool negative = false;
  if (!rest.empty() && (rest.front() == '-' || rest.front() == '+')) {
    negative = rest.front() == '-';
    rest.remove_prefix(1);
  }
  if (rest == "0") {
    return Duration::zero();
  }
  if (rest.empty()) {
    return bad();
  }
  __int128 total = 0;
  constexpr __int128 kLimit = std::numeric_limits<std::int64_t>::max();
  while (!rest.empty()) {
    // A number with an optional fraction, held in units of 10^-9 of its unit.
    __int128 whole = 0;
    __int128 nine_digits = 0;
    std::int64_t place = 100'000'000;
    bool any = false;
    while (!rest.empty() && rest.front() >= '0' && rest.front() <= '9') {
      whole = whole * 10 + (rest.front() - '0');
      any = true;
      if (whole > kLimit) {
        return bad();
      }
      rest.remove_prefix(1);
    }
    if (!rest.empty() && rest.front() == '.') {
      rest.remove_prefix(1);
      while (!rest.empty() && rest.front() >= '0' && rest.front() <= '9') {
        nine_digits += static_cast<__int128>(rest.front() - '0') * place;
        place /= 10;
        any = true;
        rest.remove_prefix(1);
      }
    }
    if (!any) {
      return bad();
    }
    struct Unit {
      std::string_view name;
      std::int64_t nanos;
    };
    constexpr std::array<Unit, 8> kUnits{{{"ns", 1},
                                          {"us", 1'000},
                                          {"µs", 1'000},
                                          {"μs", 1'000},
                                          {"ms", 1'000'000},
                                          {"s", 1'000'000'000},
                                          {"m", 60'000'000'000},
                                          {"h", 3'600'000'000'000}}};
    const Unit* unit = nullptr;
    for (const Unit& candidate : kUnits) {
      if (rest.starts_with(candidate.name) &&
          (unit == nullptr || candidate.name.size() > unit->name.size())) {
        unit = &candidate;
      }
    }
    if (unit == nullptr) {
      return bad();
    }
    rest.remove_prefix(unit->name.size());
    total += whole * unit->nanos + nine_digits * unit->nanos / 1'000'000'000;
    if (total > kLimit) {
      return bad();
    }
  }
  return Duration(static_cast<std::int64_t>(negative ? -total : total));
}

}  // namespace muster
