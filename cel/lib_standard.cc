// Operators, conversions, sizes and optionals.
#include <charconv>
#include <cmath>
#include <limits>

#include <re2/re2.h>

#include "cel/functions.h"
#include "cel/value_internal.h"

namespace muster::cel {
namespace {

using Kind = Value::Kind;

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMinInt = std::numeric_limits<std::int64_t>::min();

std::unexpected<Error> IntOverflow() {
  return Fail("integer overflow");
}
std::unexpected<Error> UintOverflow() {
  return Fail("unsigned integer overflow");
}

bool Both(const Call& call, Kind kind) {
  return call.args[0].is(kind) && call.args[1].is(kind);
}

Result<Value> CheckedTimestamp(std::int64_t seconds, std::int64_t nanos) {
  seconds += nanos / 1'000'000'000;
  nanos %= 1'000'000'000;
  if (nanos < 0) {
    nanos += 1'000'000'000;
    --seconds;
  }
  if (seconds < kMinTimestampSeconds || seconds > kMaxTimestampSeconds) {
    return Fail("timestamp overflow");
  }
  return Value::Timestamp(seconds, static_cast<std::int32_t>(nanos));
}

// timestamp +- duration without leaving int64 on the way.
Result<Value> Shift(const Value& timestamp, Duration duration, int sign) {
  const std::int64_t nanos = duration.count();
  return CheckedTimestamp(timestamp.timestamp_seconds() + sign * (nanos / 1'000'000'000),
                          timestamp.timestamp_nanos() + sign * (nanos % 1'000'000'000));
}

Result<Value> Add(const Call& call) {
  const Value& a = call.args[0];
  const Value& b = call.args[1];
  if (Both(call, Kind::kInt)) {
    call.Charge(1);
    std::int64_t out = 0;
    if (__builtin_add_overflow(a.int_value(), b.int_value(), &out)) {
      return IntOverflow();
    }
    return Value::Int(out);
  }
  if (Both(call, Kind::kString) || Both(call, Kind::kBytes)) {
    call.Charge((SizeOf(a) + SizeOf(b) + 9) / 10);
    if (call.exhausted()) {
      return Value();
    }
    std::string text;
    text.reserve(a.string_value().size() + b.string_value().size());
    text += a.string_value();
    text += b.string_value();
    return a.is(Kind::kString) ? Value::String(std::move(text)) : Value::Bytes(std::move(text));
  }
  call.Charge(1);
  if (Both(call, Kind::kUint)) {
    std::uint64_t out = 0;
    if (__builtin_add_overflow(a.uint_value(), b.uint_value(), &out)) {
      return UintOverflow();
    }
    return Value::Uint(out);
  }
  if (Both(call, Kind::kDouble)) {
    return Value::Double(a.double_value() + b.double_value());
  }
  if (Both(call, Kind::kList)) {
    const std::size_t left = a.size();
    const std::size_t right = b.size();
    // Upstream joins lists lazily and charges nothing; copying is charged so that doubling cannot
    // eat the memory.
    call.Charge(static_cast<std::int64_t>((left + right) / 16));
    if (call.exhausted()) {
      return Value();
    }
    std::vector<Value> items;
    items.reserve(left + right);
    for (std::size_t i = 0; i < left; ++i) {
      items.push_back(a.At(i));
    }
    for (std::size_t i = 0; i < right; ++i) {
      items.push_back(b.At(i));
    }
    return Value::List(std::move(items));
  }
  if (Both(call, Kind::kDuration)) {
    std::int64_t out = 0;
    if (__builtin_add_overflow(a.duration_value().count(), b.duration_value().count(), &out)) {
      return Fail("duration overflow");
    }
    return Value::FromDuration(Duration(out));
  }
  if (a.is(Kind::kTimestamp) && b.is(Kind::kDuration)) {
    return Shift(a, b.duration_value(), 1);
  }
  if (a.is(Kind::kDuration) && b.is(Kind::kTimestamp)) {
    return Shift(b, a.duration_value(), 1);
  }
  return NoSuchOverload();
}

Result<Value> Subtract(const Call& call) {
  const Value& a = call.args[0];
  const Value& b = call.args[1];
  if (Both(call, Kind::kInt)) {
    std::int64_t out = 0;
    if (__builtin_sub_overflow(a.int_value(), b.int_value(), &out)) {
      return IntOverflow();
    }
    return Value::Int(out);
  }
  if (Both(call, Kind::kUint)) {
    if (a.uint_value() < b.uint_value()) {
      return UintOverflow();
    }
    return Value::Uint(a.uint_value() - b.uint_value());
  }
  if (Both(call, Kind::kDouble)) {
    return Value::Double(a.double_value() - b.double_value());
  }
  if (Both(call, Kind::kDuration)) {
    std::int64_t out = 0;
    if (__builtin_sub_overflow(a.duration_value().count(), b.duration_value().count(), &out)) {
      return Fail("duration overflow");
    }
    return Value::FromDuration(Duration(out));
  }
  if (a.is(Kind::kTimestamp) && b.is(Kind::kDuration)) {
    return Shift(a, b.duration_value(), -1);
  }
  if (Both(call, Kind::kTimestamp)) {
    const __int128 nanos =
        static_cast<__int128>(a.timestamp_seconds() - b.timestamp_seconds()) * 1'000'000'000 +
        (a.timestamp_nanos() - b.timestamp_nanos());
    if (nanos > kMaxInt || nanos < kMinInt) {
      return Fail("duration overflow");
    }
    return Value::FromDuration(Duration(static_cast<std::int64_t>(nanos)));
  }
  return NoSuchOverload();
}

Result<Value> Multiply(const Call& call) {
  const Value& a = call.args[0];
  const Value& b = call.args[1];
  if (Both(call, Kind::kInt)) {
    std::int64_t out = 0;
    if (__builtin_mul_overflow(a.int_value(), b.int_value(), &out)) {
      return IntOverflow();
    }
    return Value::Int(out);
  }
  if (Both(call, Kind::kUint)) {
    std::uint64_t out = 0;
    if (__builtin_mul_overflow(a.uint_value(), b.uint_value(), &out)) {
      return UintOverflow();
    }
    return Value::Uint(out);
  }
  if (Both(call, Kind::kDouble)) {
    return Value::Double(a.double_value() * b.double_value());
  }
  return NoSuchOverload();
}

Result<Value> Divide(const Call& call) {
  const Value& a = call.args[0];
  const Value& b = call.args[1];
  if (Both(call, Kind::kInt)) {
    if (b.int_value() == 0) {
      return Fail("division by zero");
    }
    if (a.int_value() == kMinInt && b.int_value() == -1) {
      return IntOverflow();
    }
    return Value::Int(a.int_value() / b.int_value());
  }
  if (Both(call, Kind::kUint)) {
    if (b.uint_value() == 0) {
      return Fail("division by zero");
    }
    return Value::Uint(a.uint_value() / b.uint_value());
  }
  if (Both(call, Kind::kDouble)) {
    // IEEE division by zero is defined; UBSan calls it suspicious, so the cases are spelled out.
    const double x = a.double_value();
    const double y = b.double_value();
    if (y == 0) {
      if (x == 0 || std::isnan(x)) {
        return Value::Double(std::numeric_limits<double>::quiet_NaN());
      }
      return Value::Double(std::signbit(x) == std::signbit(y)
                               ? std::numeric_limits<double>::infinity()
                               : -std::numeric_limits<double>::infinity());
    }
    return Value::Double(x / y);
  }
  return NoSuchOverload();
}

Result<Value> Modulo(const Call& call) {
  const Value& a = call.args[0];
  const Value& b = call.args[1];
  if (Both(call, Kind::kInt)) {
    if (b.int_value() == 0) {
      return Fail("modulus by zero");
    }
    if (a.int_value() == kMinInt && b.int_value() == -1) {
      return IntOverflow();
    }
    return Value::Int(a.int_value() % b.int_value());
  }
  if (Both(call, Kind::kUint)) {
    if (b.uint_value() == 0) {
      return Fail("modulus by zero");
    }
    return Value::Uint(a.uint_value() % b.uint_value());
  }
  return NoSuchOverload();
}

Result<Value> Negate(const Call& call) {
  const Value& a = call.args[0];
  if (a.is(Kind::kInt)) {
    if (a.int_value() == kMinInt) {
      return IntOverflow();
    }
    return Value::Int(-a.int_value());
  }
  if (a.is(Kind::kDouble)) {
    return Value::Double(-a.double_value());
  }
  return NoSuchOverload();
}

Result<Value> EqualTo(const Call& call, bool wanted) {
  const Value& left = call.args[0];
  const bool library_type =
      left.is(Kind::kQuantity) || left.is(Kind::kSemver) || left.is(Kind::kOpaque);
  if (library_type) {
    call.Charge(1);
    // Library types refuse to be compared with anything else, but only from the left, and != takes
    // the refusal for an answer.
    if (left.TypeName() != call.args[1].TypeName()) {
      if (wanted) {
        return NoSuchOverload();
      }
      return Value::Bool(true);
    }
    std::int64_t steps = 1;
    return Value::Bool(EqualBounded(left, call.args[1], steps) == wanted);
  }
  const std::int64_t size = std::min(SizeOf(call.args[0]), SizeOf(call.args[1]));
  call.Charge((size + 9) / 10);
  // Work beyond what the cost model sees (nested values) is charged, too.
  const std::int64_t allowance = size + 1000;
  std::int64_t steps = std::max<std::int64_t>(call.budget, 0);
  steps = steps > kMaxInt - allowance ? kMaxInt : steps + allowance;
  const std::int64_t before = steps;
  const bool equal = EqualBounded(call.args[0], call.args[1], steps);
  if (steps < 0) {
    call.budget = -1;
    return Value();
  }
  call.Charge(std::max<std::int64_t>(0, before - steps - allowance));
  return Value::Bool(equal == wanted);
}
Result<Value> Equal(const Call& call) {
  return EqualTo(call, true);
}
Result<Value> NotEqual(const Call& call) {
  return EqualTo(call, false);
}

bool IsNumber(const Value& value) {
  return value.is(Kind::kInt) || value.is(Kind::kUint) || value.is(Kind::kDouble);
}

// The order of the two arguments; nullopt inside for NaN, which compares false with everything.
Result<std::optional<int>> Order(const Call& call) {
  const Value& a = call.args[0];
  const Value& b = call.args[1];
  if (Both(call, Kind::kString) || Both(call, Kind::kBytes)) {
    call.Charge((std::min(SizeOf(a), SizeOf(b)) + 9) / 10);
  } else {
    call.Charge(1);
  }
  const std::optional<int> order = CompareValues(a, b);
  if (!order && !(IsNumber(a) && IsNumber(b))) {
    return NoSuchOverload();
  }
  return order;
}
Result<Value> Less(const Call& call) {
  MUSTER_ASSIGN_OR_RETURN(const std::optional<int> order, Order(call));
  return Value::Bool(order && *order < 0);
}
Result<Value> LessOrEqual(const Call& call) {
  MUSTER_ASSIGN_OR_RETURN(const std::optional<int> order, Order(call));
  return Value::Bool(order && *order <= 0);
}
Result<Value> Greater(const Call& call) {
  MUSTER_ASSIGN_OR_RETURN(const std::optional<int> order, Order(call));
  return Value::Bool(order && *order > 0);
}
Result<Value> GreaterOrEqual(const Call& call) {
  MUSTER_ASSIGN_OR_RETURN(const std::optional<int> order, Order(call));
  return Value::Bool(order && *order >= 0);
}

Result<Value> In(const Call& call) {
  const Value& needle = call.args[0];
  const Value& haystack = call.args[1];
  if (haystack.is(Kind::kList)) {
    const std::size_t size = haystack.size();
    call.Charge(static_cast<std::int64_t>(size));
    std::int64_t steps = std::max<std::int64_t>(call.budget, 0);
    for (std::size_t i = 0; i < size && !call.exhausted(); ++i) {
      if (EqualBounded(haystack.At(i), needle, steps)) {
        return Value::Bool(true);
      }
      if (steps < 0) {
        call.budget = -1;
      }
    }
    return Value::Bool(false);
  }
  call.Charge(1);
  if (haystack.is(Kind::kMap) || haystack.is(Kind::kObject)) {
    const auto found = haystack.Find(needle);
    // A key whose value cannot be computed is there all the same.
    return Value::Bool(!found.has_value() || found->has_value());
  }
  return NoSuchOverload();
}

Result<Value> Size(const Call& call) {
  return Value::Int(SizeOf(call.args[0]));
}
Result<Value> TypeOf(const Call& call) {
  return Value::Type(std::string(call.args[0].TypeName()));
}
Result<Value> Same(const Call& call) {
  return call.args[0];
}

Result<Value> ToBool(const Call& call) {
  const std::string_view text = call.args[0].string_value();
  for (const std::string_view yes : {"1", "t", "T", "true", "TRUE", "True"}) {
    if (text == yes) {
      return Value::Bool(true);
    }
  }
  for (const std::string_view no : {"0", "f", "F", "false", "FALSE", "False"}) {
    if (text == no) {
      return Value::Bool(false);
    }
  }
  return Fail("type conversion error from 'string' to 'bool'");
}

Result<Value> StringToBytes(const Call& call) {
  return Value::Bytes(std::string(call.args[0].string_value()));
}

Result<Value> IntToDouble(const Call& call) {
  return Value::Double(static_cast<double>(call.args[0].int_value()));
}
Result<Value> UintToDouble(const Call& call) {
  return Value::Double(static_cast<double>(call.args[0].uint_value()));
}
Result<Value> StringToDouble(const Call& call) {
  std::string_view text = call.args[0].string_value();
  if (text.starts_with("+")) {
    text.remove_prefix(1);
    if (text.starts_with("-")) {
      text = "";
    }
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
    return Fail("type conversion error from 'string' to 'double'");
  }
  return Value::Double(value);
}

Result<Value> DoubleToInt(const Call& call) {
  const double value = call.args[0].double_value();
  if (!(value > -9223372036854775808.0 && value < 9223372036854775808.0)) {
    return IntOverflow();
  }
  return Value::Int(static_cast<std::int64_t>(value));
}
Result<Value> UintToInt(const Call& call) {
  if (call.args[0].uint_value() > static_cast<std::uint64_t>(kMaxInt)) {
    return IntOverflow();
  }
  return Value::Int(static_cast<std::int64_t>(call.args[0].uint_value()));
}
Result<Value> StringToInt(const Call& call) {
  std::string_view text = call.args[0].string_value();
  if (text.starts_with("+") && text.size() > 1 && text[1] != '-') {
    text.remove_prefix(1);
  }
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
    return Fail("type conversion error from 'string' to 'int'");
  }
  return Value::Int(value);
}
Result<Value> TimestampToInt(const Call& call) {
  return Value::Int(call.args[0].timestamp_seconds());
}
Result<Value> DurationToInt(const Call& call) {
  return Value::Int(call.args[0].duration_value().count());
}

Result<Value> DoubleToUint(const Call& call) {
  const double value = call.args[0].double_value();
  if (!(value >= 0 && value < 18446744073709551616.0)) {
    return UintOverflow();
  }
  return Value::Uint(static_cast<std::uint64_t>(value));
}
Result<Value> IntToUint(const Call& call) {
  if (call.args[0].int_value() < 0) {
    return UintOverflow();
  }
  return Value::Uint(static_cast<std::uint64_t>(call.args[0].int_value()));
}
Result<Value> StringToUint(const Call& call) {
  const std::string_view text = call.args[0].string_value();
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
    return Fail("type conversion error from 'string' to 'uint'");
  }
  return Value::Uint(value);
}

Result<Value> BoolToString(const Call& call) {
  return Value::String(call.args[0].bool_value() ? "true" : "false");
}
Result<Value> BytesToString(const Call& call) {
  if (!IsValidUtf8(call.args[0].string_value())) {
    return Fail("invalid UTF-8 in bytes, cannot convert to string");
  }
  return Value::String(std::string(call.args[0].string_value()));
}
Result<Value> DoubleToString(const Call& call) {
  return Value::String(FormatDouble(call.args[0].double_value()));
}
Result<Value> IntToString(const Call& call) {
  return Value::String(std::to_string(call.args[0].int_value()));
}
Result<Value> UintToString(const Call& call) {
  return Value::String(std::to_string(call.args[0].uint_value()));
}

Result<Value> Contains(const Call& call) {
  call.Charge(((SizeOf(call.args[0]) + 9) / 10) * ((SizeOf(call.args[1]) + 9) / 10));
  return Value::Bool(call.args[0].string_value().contains(call.args[1].string_value()));
}
Result<Value> StartsWith(const Call& call) {
  call.ChargeScan(1);
  return Value::Bool(call.args[0].string_value().starts_with(call.args[1].string_value()));
}
Result<Value> EndsWith(const Call& call) {
  call.ChargeScan(1);
  return Value::Bool(call.args[0].string_value().ends_with(call.args[1].string_value()));
}
Result<Value> Matches(const Call& call) {
  const std::int64_t text = (SizeOf(call.args[0]) + 1 + 9) / 10;
  const std::int64_t pattern = (SizeOf(call.args[1]) + 3) / 4;
  call.Charge(text * pattern);
  if (call.exhausted()) {
    return Value();
  }
  std::shared_ptr<const re2::RE2> regex = call.node.regex;
  if (regex == nullptr) {
    MUSTER_ASSIGN_OR_RETURN(regex, CompileRegex(call.args[1].string_value()));
  }
  const std::string_view subject = call.args[0].string_value();
  return Value::Bool(
      re2::RE2::PartialMatch(re2::StringPiece(subject.data(), subject.size()), *regex));
}

bool IsZero(const Value& value) {
  switch (value.kind()) {
    case Kind::kNull:
      return true;
    case Kind::kBool:
      return !value.bool_value();
    case Kind::kInt:
      return value.int_value() == 0;
    case Kind::kUint:
      return value.uint_value() == 0;
    case Kind::kDouble:
      return value.double_value() == 0;
    case Kind::kString:
    case Kind::kBytes:
      return value.string_value().empty();
    case Kind::kList:
    case Kind::kMap:
      return value.size() == 0;
    case Kind::kDuration:
      return value.duration_value().count() == 0;
    case Kind::kTimestamp:
      return value.timestamp_seconds() == kMinTimestampSeconds && value.timestamp_nanos() == 0;
    case Kind::kOptional:
      return !value.optional_value().has_value();
    case Kind::kObject:
      return value.size() == 0;
    case Kind::kType:
    case Kind::kQuantity:
    case Kind::kSemver:
    case Kind::kOpaque:
      return false;
  }
  return false;
}

Result<Value> OptionalOf(const Call& call) {
  return Value::Some(call.args[0]);
}
Result<Value> OptionalOfNonZero(const Call& call) {
  return IsZero(call.args[0]) ? Value::None() : Value::Some(call.args[0]);
}
Result<Value> OptionalNone(const Call&) {
  return Value::None();
}
Result<Value> OptionalValue(const Call& call) {
  if (auto inner = call.args[0].optional_value()) {
    return *std::move(inner);
  }
  return Fail("optional.none() dereference");
}
Result<Value> HasValue(const Call& call) {
  return Value::Bool(call.args[0].optional_value().has_value());
}
// or and orValue are evaluated lazily by the evaluator; these serve as their declarations.
Result<Value> OptionalOr(const Call& call) {
  return call.args[0].optional_value() ? call.args[0] : call.args[1];
}
Result<Value> OptionalOrValue(const Call& call) {
  auto inner = call.args[0].optional_value();
  return inner ? *std::move(inner) : call.args[1];
}
Result<Value> First(const Call& call) {
  const Value& list = call.args[0];
  return list.size() == 0 ? Value::None() : Value::Some(list.At(0));
}
Result<Value> Last(const Call& call) {
  const Value& list = call.args[0];
  return list.size() == 0 ? Value::None() : Value::Some(list.At(list.size() - 1));
}
Result<Value> Unwrap(const Call& call) {
  std::vector<Value> out;
  const std::size_t size = call.args[0].size();
  for (std::size_t i = 0; i < size; ++i) {
    const Value item = call.args[0].At(i);
    if (!item.is(Kind::kOptional)) {
      return NoSuchOverload();
    }
    if (auto inner = item.optional_value()) {
      out.push_back(*std::move(inner));
    }
  }
  return Value::List(std::move(out));
}

constexpr bool kGlobal = false;
constexpr bool kMember = true;

#define MUSTER_CEL_ORDER(name, function)                                       \
  {name, kGlobal, "bool;bool", "bool", function, Cost::kSelf},                 \
      {name, kGlobal, "int;int", "bool", function, Cost::kSelf},               \
      {name, kGlobal, "int;double", "bool", function, Cost::kSelf},            \
      {name, kGlobal, "int;uint", "bool", function, Cost::kSelf},              \
      {name, kGlobal, "uint;uint", "bool", function, Cost::kSelf},             \
      {name, kGlobal, "uint;double", "bool", function, Cost::kSelf},           \
      {name, kGlobal, "uint;int", "bool", function, Cost::kSelf},              \
      {name, kGlobal, "double;double", "bool", function, Cost::kSelf},         \
      {name, kGlobal, "double;int", "bool", function, Cost::kSelf},            \
      {name, kGlobal, "double;uint", "bool", function, Cost::kSelf},           \
      {name, kGlobal, "string;string", "bool", function, Cost::kSelf},         \
      {name, kGlobal, "bytes;bytes", "bool", function, Cost::kSelf},           \
      {name, kGlobal, "timestamp;timestamp", "bool", function, Cost::kSelf}, { \
    name, kGlobal, "duration;duration", "bool", function, Cost::kSelf          \
  }

constexpr Declaration kTable[] = {
    {"_==_", kGlobal, "A;A", "bool", Equal, Cost::kSelf},
    {"_!=_", kGlobal, "A;A", "bool", NotEqual, Cost::kSelf},
    MUSTER_CEL_ORDER("_<_", Less),
    MUSTER_CEL_ORDER("_<=_", LessOrEqual),
    MUSTER_CEL_ORDER("_>_", Greater),
    MUSTER_CEL_ORDER("_>=_", GreaterOrEqual),
    {"_+_", kGlobal, "bytes;bytes", "bytes", Add, Cost::kSelf},
    {"_+_", kGlobal, "double;double", "double", Add, Cost::kSelf},
    {"_+_", kGlobal, "duration;duration", "duration", Add, Cost::kSelf},
    {"_+_", kGlobal, "duration;timestamp", "timestamp", Add, Cost::kSelf},
    {"_+_", kGlobal, "timestamp;duration", "timestamp", Add, Cost::kSelf},
    {"_+_", kGlobal, "int;int", "int", Add, Cost::kSelf},
    {"_+_", kGlobal, "list<A>;list<A>", "list<A>", Add, Cost::kSelf},
    {"_+_", kGlobal, "string;string", "string", Add, Cost::kSelf},
    {"_+_", kGlobal, "uint;uint", "uint", Add, Cost::kSelf},
    {"_-_", kGlobal, "double;double", "double", Subtract},
    {"_-_", kGlobal, "duration;duration", "duration", Subtract},
    {"_-_", kGlobal, "int;int", "int", Subtract},
    {"_-_", kGlobal, "timestamp;duration", "timestamp", Subtract},
    {"_-_", kGlobal, "timestamp;timestamp", "duration", Subtract},
    {"_-_", kGlobal, "uint;uint", "uint", Subtract},
    {"_*_", kGlobal, "double;double", "double", Multiply},
    {"_*_", kGlobal, "int;int", "int", Multiply},
    {"_*_", kGlobal, "uint;uint", "uint", Multiply},
    {"_/_", kGlobal, "double;double", "double", Divide},
    {"_/_", kGlobal, "int;int", "int", Divide},
    {"_/_", kGlobal, "uint;uint", "uint", Divide},
    {"_%_", kGlobal, "int;int", "int", Modulo},
    {"_%_", kGlobal, "uint;uint", "uint", Modulo},
    {"-_", kGlobal, "double", "double", Negate},
    {"-_", kGlobal, "int", "int", Negate},
    {"@in", kGlobal, "A;list<A>", "bool", In, Cost::kSelf},
    {"@in", kGlobal, "A;map<A,B>", "bool", In, Cost::kSelf},
    {"size", kGlobal, "bytes", "int", Size},
    {"size", kMember, "bytes", "int", Size},
    {"size", kGlobal, "list<A>", "int", Size},
    {"size", kMember, "list<A>", "int", Size},
    {"size", kGlobal, "map<A,B>", "int", Size},
    {"size", kMember, "map<A,B>", "int", Size},
    {"size", kGlobal, "string", "int", Size},
    {"size", kMember, "string", "int", Size},
    {"type", kGlobal, "A", "type<A>", TypeOf},
    {"dyn", kGlobal, "A", "dyn", Same},
    {"bool", kGlobal, "bool", "bool", Same},
    {"bool", kGlobal, "string", "bool", ToBool},
    {"bytes", kGlobal, "bytes", "bytes", Same},
    {"bytes", kGlobal, "string", "bytes", StringToBytes, Cost::kScan},
    {"double", kGlobal, "double", "double", Same},
    {"double", kGlobal, "int", "double", IntToDouble},
    {"double", kGlobal, "string", "double", StringToDouble},
    {"double", kGlobal, "uint", "double", UintToDouble},
    {"int", kGlobal, "int", "int", Same},
    {"int", kGlobal, "double", "int", DoubleToInt},
    {"int", kGlobal, "duration", "int", DurationToInt},
    {"int", kGlobal, "string", "int", StringToInt},
    {"int", kGlobal, "timestamp", "int", TimestampToInt},
    {"int", kGlobal, "uint", "int", UintToInt},
    {"uint", kGlobal, "uint", "uint", Same},
    {"uint", kGlobal, "double", "uint", DoubleToUint},
    {"uint", kGlobal, "int", "uint", IntToUint},
    {"uint", kGlobal, "string", "uint", StringToUint},
    {"string", kGlobal, "string", "string", Same},
    {"string", kGlobal, "bool", "string", BoolToString},
    {"string", kGlobal, "bytes", "string", BytesToString, Cost::kScan},
    {"string", kGlobal, "double", "string", DoubleToString},
    {"string", kGlobal, "int", "string", IntToString},
    {"string", kGlobal, "uint", "string", UintToString},
    {"contains", kMember, "string;string", "bool", Contains, Cost::kSelf},
    {"endsWith", kMember, "string;string", "bool", EndsWith, Cost::kSelf},
    {"startsWith", kMember, "string;string", "bool", StartsWith, Cost::kSelf},
    {"matches", kGlobal, "string;string", "bool", Matches, Cost::kSelf},
    {"matches", kMember, "string;string", "bool", Matches, Cost::kSelf},
    {"optional.of", kGlobal, "V", "opt<V>", OptionalOf},
    {"optional.ofNonZeroValue", kGlobal, "V", "opt<V>", OptionalOfNonZero},
    {"optional.none", kGlobal, "", "opt<V>", OptionalNone},
    {"value", kMember, "opt<V>", "V", OptionalValue},
    {"hasValue", kMember, "opt<V>", "bool", HasValue},
    {"or", kMember, "opt<V>;opt<V>", "opt<V>", OptionalOr},
    {"orValue", kMember, "opt<V>;V", "V", OptionalOrValue},
    {"first", kMember, "list<V>", "opt<V>", First},
    {"last", kMember, "list<V>", "opt<V>", Last},
    {"optional.unwrap", kGlobal, "list<opt<V>>", "list<V>", Unwrap, Cost::kTraverse},
    {"unwrapOpt", kMember, "list<opt<V>>", "list<V>", Unwrap, Cost::kTraverse},
};
#undef MUSTER_CEL_ORDER

}  // namespace

std::span<const Declaration> StandardFunctions() {
  return kTable;
}

}  // namespace muster::cel
