// Timestamps and durations: reading, printing, accessors.
#include <charconv>
#include <limits>

#include "cel/functions.h"
#include "cel/value_internal.h"

namespace muster::cel {
namespace {

using Kind = Value::Kind;

struct Civil {
  std::int64_t year = 1970;
  int month = 1;  // 1..12
  int day = 1;
};

// Days since 1970-01-01 of the proleptic Gregorian calendar, and back (eras of 400 years that start
// in March).
std::int64_t DaysFromCivil(const Civil& date) {
  const std::int64_t year = date.month <= 2 ? date.year - 1 : date.year;
  const std::int64_t era = (year >= 0 ? year : year - 399) / 400;
  const std::int64_t year_of_era = year - era * 400;
  const std::int64_t day_of_year =
      (153 * (date.month + (date.month > 2 ? -3 : 9)) + 2) / 5 + date.day - 1;
  const std::int64_t day_of_era =
      year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146'097 + day_of_era - 719'468;
}

Civil CivilFromDays(std::int64_t days) {
  days += 719'468;
  const std::int64_t era = (days >= 0 ? days : days - 146'096) / 146'097;
  const std::int64_t day_of_era = days - era * 146'097;
  const std::int64_t year_of_era =
      (day_of_era - day_of_era / 1460 + day_of_era / 36'524 - day_of_era / 146'096) / 365;
  const std::int64_t day_of_year =
      day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const std::int64_t shifted_month = (5 * day_of_year + 2) / 153;
  Civil out;
  out.day = static_cast<int>(day_of_year - (153 * shifted_month + 2) / 5 + 1);
  out.month = static_cast<int>(shifted_month < 10 ? shifted_month + 3 : shifted_month - 9);
  out.year = year_of_era + era * 400 + (out.month <= 2 ? 1 : 0);
  return out;
}

bool IsLeap(std::int64_t year) {
  return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}
int DaysInMonth(std::int64_t year, int month) {
  static constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return month == 2 && IsLeap(year) ? 29 : kDays[month - 1];
}

std::string Padded(std::int64_t value, std::size_t width) {
  std::string text = std::to_string(value);
  return text.size() < width ? std::string(width - text.size(), '0') + text : text;
}

// Takes exactly `width` digits from the front; -1 when they are not there.
int TakeDigits(std::string_view& text, std::size_t width) {
  if (text.size() < width) {
    return -1;
  }
  int value = 0;
  for (std::size_t i = 0; i < width; ++i) {
    if (text[i] < '0' || text[i] > '9') {
      return -1;
    }
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(width);
  return value;
}

bool TakeChar(std::string_view& text, char c) {
  if (text.empty() || text[0] != c) {
    return false;
  }
  text.remove_prefix(1);
  return true;
}

struct Fields {
  Civil date;
  std::int64_t days = 0;
  std::int64_t second_of_day = 0;
};

Fields Break(std::int64_t seconds) {
  Fields out;
  out.days = seconds >= 0 ? seconds / 86'400 : -((-seconds + 86'399) / 86'400);
  out.second_of_day = seconds - out.days * 86'400;
  out.date = CivilFromDays(out.days);
  return out;
}

// The offset of a zone in seconds. Named zones would need the system's database, which an
// evaluation must not depend on.
Result<std::int64_t> ZoneOffset(std::string_view zone) {
  if (zone.empty() || zone == "UTC" || zone == "Z" || zone == "GMT" || zone == "Etc/UTC") {
    return 0;
  }
  std::string_view rest = zone;
  std::int64_t sign = 1;
  if (TakeChar(rest, '-')) {
    sign = -1;
  } else {
    TakeChar(rest, '+');
  }
  const std::size_t colon = rest.find(':');
  int hours = -1;
  int minutes = -1;
  if (colon != std::string_view::npos && (colon == 1 || colon == 2)) {
    hours = TakeDigits(rest, colon);
    TakeChar(rest, ':');
    minutes = TakeDigits(rest, rest.size() == 1 ? 1 : 2);
  }
  if (hours < 0 || minutes < 0 || !rest.empty()) {
    return Fail("unsupported: time zone \"" + std::string(zone) +
                "\" (only UTC and fixed offsets are known)");
  }
  return sign * (hours * 3600 + minutes * 60);
}

Result<Fields> Local(const Call& call) {
  std::int64_t seconds = call.args[0].timestamp_seconds();
  if (call.args.size() == 2) {
    MUSTER_ASSIGN_OR_RETURN(const std::int64_t offset, ZoneOffset(call.args[1].string_value()));
    seconds += offset;
  }
  return Break(seconds);
}

Result<Value> GetFullYear(const Call& call) {
  MUSTER_ASSIGN_OR_RETURN(const Fields fields, Local(call));
  return Value::Int(fields.date.year);
}
Result<Value> GetMonth(const Call& call) {
  MUSTER_ASSIGN_OR_RETURN(const Fields fields, Local(call));
  return Value::Int(fields.date.month - 1);
}
Result<Value> GetDayOfYear(const Call& call) {
  MUSTER_ASSIGN_OR_RETURN(const Fields fields, Local(call));
  return Value::Int(fields.days -
                    DaysFromCivil(Civil{.year = fields.date.year, .month = 1, .day = 1}));
}
Result<Value> GetDayOfMonth(const Call& call) {
  MUSTER_ASSIGN_OR_RETURN(const Fields fields, Local(call));
  return Value::Int(fields.date.day - 1);
}
Result<Value> GetDate(const Call& call) {
  MUSTER_ASSIGN_OR_RETURN(const Fields fields, Local(call));
  return Value::Int(fields.date.day);
}
Result<Value> GetDayOfWeek(const Call& call) {
  MUSTER_ASSIGN_OR_RETURN(const Fields fields, Local(call));
  // 1970-01-01 was a Thursday, day 4 of a week that starts on Sunday.
  return Value::Int(((fields.days + 4) % 7 + 7) % 7);
}
Result<Value> GetHours(const Call& call) {
  if (call.args[0].is(Kind::kDuration)) {
    return Value::Int(call.args[0].duration_value().count() / 3'600'000'000'000);
  }
  MUSTER_ASSIGN_OR_RETURN(const Fields fields, Local(call));
  return Value::Int(fields.second_of_day / 3600);
}
Result<Value> GetMinutes(const Call& call) {
  if (call.args[0].is(Kind::kDuration)) {
    return Value::Int(call.args[0].duration_value().count() / 60'000'000'000);
  }
  MUSTER_ASSIGN_OR_RETURN(const Fields fields, Local(call));
  return Value::Int(fields.second_of_day / 60 % 60);
}
Result<Value> GetSeconds(const Call& call) {
  if (call.args[0].is(Kind::kDuration)) {
    return Value::Int(call.args[0].duration_value().count() / 1'000'000'000);
  }
  MUSTER_ASSIGN_OR_RETURN(const Fields fields, Local(call));
  return Value::Int(fields.second_of_day % 60);
}
Result<Value> GetMilliseconds(const Call& call) {
  if (call.args[0].is(Kind::kDuration)) {
    return Value::Int(call.args[0].duration_value().count() / 1'000'000);
  }
  if (call.args.size() == 2) {
    MUSTER_RETURN_IF_ERROR(ZoneOffset(call.args[1].string_value()));
  }
  return Value::Int(call.args[0].timestamp_nanos() / 1'000'000);
}

Result<Value> Same(const Call& call) {
  return call.args[0];
}
Result<Value> StringToTimestamp(const Call& call) {
  return ParseTimestamp(call.args[0].string_value());
}
Result<Value> IntToTimestamp(const Call& call) {
  const std::int64_t seconds = call.args[0].int_value();
  if (seconds < kMinTimestampSeconds || seconds > kMaxTimestampSeconds) {
    return Fail("timestamp overflow");
  }
  return Value::Timestamp(seconds, 0);
}
Result<Value> StringToDuration(const Call& call) {
  MUSTER_ASSIGN_OR_RETURN(const Duration duration, ParseDuration(call.args[0].string_value()));
  return Value::FromDuration(duration);
}
Result<Value> TimestampToString(const Call& call) {
  return Value::String(
      FormatTimestamp(call.args[0].timestamp_seconds(), call.args[0].timestamp_nanos()));
}
Result<Value> DurationToString(const Call& call) {
  return Value::String(FormatSeconds(call.args[0].duration_value()));
}

constexpr bool kGlobal = false;
constexpr bool kMember = true;

#define MUSTER_CEL_FIELD(name, function)               \
  {name, kMember, "timestamp", "int", function}, {     \
    name, kMember, "timestamp;string", "int", function \
  }

constexpr Declaration kTable[] = {
    MUSTER_CEL_FIELD("getFullYear", GetFullYear),
    MUSTER_CEL_FIELD("getMonth", GetMonth),
    MUSTER_CEL_FIELD("getDayOfYear", GetDayOfYear),
    MUSTER_CEL_FIELD("getDayOfMonth", GetDayOfMonth),
    MUSTER_CEL_FIELD("getDate", GetDate),
    MUSTER_CEL_FIELD("getDayOfWeek", GetDayOfWeek),
    MUSTER_CEL_FIELD("getHours", GetHours),
    {"getHours", kMember, "duration", "int", GetHours},
    MUSTER_CEL_FIELD("getMinutes", GetMinutes),
    {"getMinutes", kMember, "duration", "int", GetMinutes},
    MUSTER_CEL_FIELD("getSeconds", GetSeconds),
    {"getSeconds", kMember, "duration", "int", GetSeconds},
    MUSTER_CEL_FIELD("getMilliseconds", GetMilliseconds),
    {"getMilliseconds", kMember, "duration", "int", GetMilliseconds},
    {"timestamp", kGlobal, "timestamp", "timestamp", Same},
    {"timestamp", kGlobal, "int", "timestamp", IntToTimestamp},
    {"timestamp", kGlobal, "string", "timestamp", StringToTimestamp},
    {"duration", kGlobal, "duration", "duration", Same},
    {"duration", kGlobal, "string", "duration", StringToDuration},
    {"string", kGlobal, "timestamp", "string", TimestampToString},
    {"string", kGlobal, "duration", "string", DurationToString},
};
#undef MUSTER_CEL_FIELD

}  // namespace

std::string FormatTimestamp(std::int64_t seconds, std::int32_t nanos) {
  const Fields fields = Break(seconds);
  std::string out = Padded(fields.date.year, 4) + "-" + Padded(fields.date.month, 2) + "-" +
                    Padded(fields.date.day, 2) + "T" + Padded(fields.second_of_day / 3600, 2) +
                    ":" + Padded(fields.second_of_day / 60 % 60, 2) + ":" +
                    Padded(fields.second_of_day % 60, 2);
  if (nanos != 0) {
    std::string digits = Padded(nanos, 9);
    while (digits.back() == '0') {
      digits.pop_back();
    }
    out += "." + digits;
  }
  return out + "Z";
}

Result<Value> ParseTimestamp(std::string_view text) {
  const auto bad = [&] {
    return Fail("parsing time \"" + std::string(text.substr(0, 64)) + "\": not RFC 3339");
  };
  std::string_view rest = text;
  Civil date;
  date.year = TakeDigits(rest, 4);
  if (date.year < 0 || !TakeChar(rest, '-')) {
    return bad();
  }
  date.month = TakeDigits(rest, 2);
  if (date.month < 1 || date.month > 12 || !TakeChar(rest, '-')) {
    return bad();
  }
  date.day = TakeDigits(rest, 2);
  if (date.day < 1 || date.day > DaysInMonth(date.year, date.month) || !TakeChar(rest, 'T')) {
    return bad();
  }
  const int hour = TakeDigits(rest, 2);
  const bool first = TakeChar(rest, ':');
  const int minute = TakeDigits(rest, 2);
  const bool second_colon = TakeChar(rest, ':');
  const int second = TakeDigits(rest, 2);
  if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59 || !first ||
      !second_colon) {
    return bad();
  }
  std::int32_t nanos = 0;
  if (!rest.empty() && (rest[0] == '.' || rest[0] == ',')) {
    rest.remove_prefix(1);
    std::int32_t scale = 100'000'000;
    std::size_t digits = 0;
    while (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') {
      nanos += scale * (rest[0] - '0');
      scale /= 10;
      ++digits;
      rest.remove_prefix(1);
    }
    if (digits == 0) {
      return bad();
    }
  }
  std::int64_t offset = 0;
  if (!TakeChar(rest, 'Z')) {
    if (rest.empty() || (rest[0] != '+' && rest[0] != '-')) {
      return bad();
    }
    const int sign = rest[0] == '-' ? -1 : 1;
    rest.remove_prefix(1);
    const int hours = TakeDigits(rest, 2);
    const bool colon = TakeChar(rest, ':');
    const int minutes = TakeDigits(rest, 2);
    if (hours < 0 || hours > 24 || minutes < 0 || minutes > 60 || !colon) {
      return bad();
    }
    offset = sign * (hours * 3600 + minutes * 60);
  }
  if (!rest.empty()) {
    return bad();
  }
  const std::int64_t seconds =
      DaysFromCivil(date) * 86'400 + hour * 3600 + minute * 60 + second - offset;
  if (seconds < kMinTimestampSeconds || seconds > kMaxTimestampSeconds) {
    return Fail("timestamp overflow");
  }
  return Value::Timestamp(seconds, nanos);
}

std::span<const Declaration> TimeFunctions() {
  return kTable;
}

}  // namespace muster::cel
