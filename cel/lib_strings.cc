// The strings library in its second version, regular expressions, and format().
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include <re2/re2.h>

#include "cel/functions.h"
#include "cel/value_internal.h"

namespace muster::cel {
namespace {

using Kind = Value::Kind;

// A string cut into code points, by byte position; positions.size() == code points + 1.
class Runes {
 public:
  explicit Runes(std::string_view text) : text_(text) {
    std::size_t at = 0;
    while (at < text.size()) {
      positions_.push_back(at);
      char32_t point = 0;
      at += DecodeUtf8(text.substr(at), point);
    }
    positions_.push_back(text.size());
  }
  [[nodiscard]] std::int64_t size() const {
    return static_cast<std::int64_t>(positions_.size()) - 1;
  }
  [[nodiscard]] std::string_view Slice(std::int64_t begin, std::int64_t end) const {
    const std::size_t from = positions_[static_cast<std::size_t>(begin)];
    return text_.substr(from, positions_[static_cast<std::size_t>(end)] - from);
  }
  [[nodiscard]] std::size_t Byte(std::int64_t index) const {
    return positions_[static_cast<std::size_t>(index)];
  }
  // The code point that starts at a byte.
  [[nodiscard]] std::int64_t IndexOfByte(std::size_t byte) const {
    return std::ranges::lower_bound(positions_, byte) - positions_.begin();
  }

 private:
  std::string_view text_;
  std::vector<std::size_t> positions_;
};

std::unexpected<Error> OutOfRange(std::int64_t index) {
  return Fail("index out of range: " + std::to_string(index));
}

Result<Value> CharAt(const Call& call) {
  call.ChargeScan(0);
  const Runes runes(call.args[0].string_value());
  const std::int64_t index = call.args[1].int_value();
  if (index < 0 || index > runes.size()) {
    return OutOfRange(index);
  }
  return Value::String(index == runes.size() ? "" : std::string(runes.Slice(index, index + 1)));
}

Result<Value> IndexOf(const Call& call) {
  const std::string_view text = call.args[0].string_value();
  const std::string_view part = call.args[1].string_value();
  const Runes runes(text);
  const std::int64_t from = call.args.size() == 3 ? call.args[2].int_value() : 0;
  if (from < 0) {
    return OutOfRange(from);
  }
  if (part.empty()) {
    return Value::Int(std::min(from, runes.size()));
  }
  if (from >= runes.size()) {
    return Value::Int(-1);
  }
  const std::size_t found = text.find(part, runes.Byte(from));
  return Value::Int(found == std::string_view::npos ? -1 : runes.IndexOfByte(found));
}

Result<Value> LastIndexOf(const Call& call) {
  const std::string_view text = call.args[0].string_value();
  const std::string_view part = call.args[1].string_value();
  const Runes runes(text);
  if (call.args.size() == 2) {
    if (part.empty()) {
      return Value::Int(runes.size());
    }
    const std::size_t found = text.rfind(part);
    return Value::Int(found == std::string_view::npos ? -1 : runes.IndexOfByte(found));
  }
  const std::int64_t from = call.args[2].int_value();
  if (from < 0) {
    return OutOfRange(from);
  }
  if (part.empty()) {
    return Value::Int(std::min(from, runes.size()));
  }
  if (from >= runes.size()) {
    return Value::Int(-1);
  }
  const std::size_t found = text.rfind(part, runes.Byte(from));
  return Value::Int(found == std::string_view::npos ? -1 : runes.IndexOfByte(found));
}

Result<Value> LowerAscii(const Call& call) {
  std::string text(call.args[0].string_value());
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') {
      c = static_cast<char>(c - 'A' + 'a');
    }
  }
  return Value::String(std::move(text));
}
Result<Value> UpperAscii(const Call& call) {
  std::string text(call.args[0].string_value());
  for (char& c : text) {
    if (c >= 'a' && c <= 'z') {
      c = static_cast<char>(c - 'a' + 'A');
    }
  }
  return Value::String(std::move(text));
}

Result<Value> Replace(const Call& call) {
  const std::string_view text = call.args[0].string_value();
  const std::string_view old = call.args[1].string_value();
  const std::string_view with = call.args[2].string_value();
  std::int64_t limit = call.args.size() == 4 ? call.args[3].int_value() : -1;
  if (limit < 0) {
    limit = std::numeric_limits<std::int64_t>::max();
  }
  std::string out;
  std::size_t at = 0;
  std::int64_t charged = 0;
  const auto charge_output = [&] {
    const auto tenth = static_cast<std::int64_t>(out.size() / 10);
    call.Charge(tenth > charged ? tenth - charged : 0);
    charged = std::max(charged, tenth);
  };
  // The traversal itself was charged; what replacing adds is charged as it grows.
  charged = static_cast<std::int64_t>(text.size() / 10) + 1;
  if (old.empty()) {
    // Between all code points, and at both ends.
    while (limit > 0 && !call.exhausted()) {
      out += with;
      --limit;
      if (at == text.size()) {
        return Value::String(std::move(out));
      }
      char32_t point = 0;
      const std::size_t length = DecodeUtf8(text.substr(at), point);
      out += text.substr(at, length);
      at += length;
      charge_output();
    }
    out += text.substr(at);
    return Value::String(std::move(out));
  }
  while (limit > 0 && !call.exhausted()) {
    const std::size_t found = text.find(old, at);
    if (found == std::string_view::npos) {
      break;
    }
    out += text.substr(at, found - at);
    out += with;
    at = found + old.size();
    --limit;
    charge_output();
  }
  out += text.substr(at);
  return Value::String(std::move(out));
}

Result<Value> Split(const Call& call) {
  std::string_view text = call.args[0].string_value();
  const std::string_view separator = call.args[1].string_value();
  std::int64_t limit = call.args.size() == 3 ? call.args[2].int_value() : -1;
  std::vector<Value> out;
  if (limit == 0) {
    return Value::List(std::move(out));
  }
  if (limit < 0) {
    limit = std::numeric_limits<std::int64_t>::max();
  }
  if (separator.empty()) {
    while (!text.empty() && limit > 1) {
      char32_t point = 0;
      const std::size_t length = DecodeUtf8(text, point);
      out.push_back(Value::String(std::string(text.substr(0, length))));
      text.remove_prefix(length);
      --limit;
    }
    if (!text.empty()) {
      out.push_back(Value::String(std::string(text)));
    }
    return Value::List(std::move(out));
  }
  while (limit > 1) {
    const std::size_t found = text.find(separator);
    if (found == std::string_view::npos) {
      break;
    }
    out.push_back(Value::String(std::string(text.substr(0, found))));
    text.remove_prefix(found + separator.size());
    --limit;
  }
  out.push_back(Value::String(std::string(text)));
  return Value::List(std::move(out));
}

Result<Value> Substring(const Call& call) {
  const Runes runes(call.args[0].string_value());
  const std::int64_t begin = call.args[1].int_value();
  const std::int64_t end = call.args.size() == 3 ? call.args[2].int_value() : runes.size();
  if (call.args.size() == 3 && begin > end) {
    return Fail("invalid substring range. start: " + std::to_string(begin) +
                ", end: " + std::to_string(end));
  }
  if (begin < 0 || begin > runes.size()) {
    return OutOfRange(begin);
  }
  if (end < 0 || end > runes.size()) {
    return OutOfRange(end);
  }
  return Value::String(std::string(runes.Slice(begin, end)));
}

bool IsSpace(char32_t point) {
  switch (point) {
    case 0x20:
    case 0x85:
    case 0xA0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202F:
    case 0x205F:
    case 0x3000:
      return true;
    default:
      return (point >= 0x09 && point <= 0x0D) || (point >= 0x2000 && point <= 0x200A);
  }
}

Result<Value> Trim(const Call& call) {
  const std::string_view text = call.args[0].string_value();
  std::size_t begin = text.size();
  std::size_t end = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    char32_t point = 0;
    const std::size_t length = DecodeUtf8(text.substr(at), point);
    if (!IsSpace(point)) {
      begin = std::min(begin, at);
      end = at + length;
    }
    at += length;
  }
  return Value::String(begin < end ? std::string(text.substr(begin, end - begin)) : "");
}

Result<Value> Join(const Call& call) {
  const std::string_view separator = call.args.size() == 2 ? call.args[1].string_value() : "";
  std::string out;
  const std::size_t size = call.args[0].size();
  for (std::size_t i = 0; i < size && !call.exhausted(); ++i) {
    const Value item = call.args[0].At(i);
    if (!item.is(Kind::kString)) {
      return NoSuchOverload();
    }
    out += i == 0 ? std::string_view() : separator;
    out += item.string_value();
    // Growing far beyond the budget must stop before the memory is gone.
    if (static_cast<std::int64_t>(out.size() / 5) > call.budget) {
      call.budget = -1;
    }
  }
  call.Charge((static_cast<std::int64_t>(CodePoints(out)) * 2 + 9) / 10);
  return Value::String(std::move(out));
}

Result<Value> Quote(const Call& call) {
  std::string out = "\"";
  for (const char c : call.args[0].string_value()) {
    switch (c) {
      case '\a':
        out += "\\a";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\v':
        out += "\\v";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '"':
        out += "\\\"";
        break;
      default:
        out.push_back(c);
    }
  }
  out.push_back('"');
  return Value::String(std::move(out));
}

Result<std::shared_ptr<const re2::RE2>> RegexOf(const Call& call) {
  const std::int64_t text = (SizeOf(call.args[0]) + 1 + 9) / 10;
  const std::int64_t pattern = (SizeOf(call.args[1]) + 3) / 4;
  call.Charge(text * pattern);
  if (call.node.regex != nullptr) {
    return call.node.regex;
  }
  return CompileRegex(call.args[1].string_value());
}

Result<Value> Find(const Call& call) {
  MUSTER_ASSIGN_OR_RETURN(const auto regex, RegexOf(call));
  const std::string_view text = call.args[0].string_value();
  re2::StringPiece match;
  if (!regex->Match(re2::StringPiece(text.data(), text.size()),
                    0,
                    text.size(),
                    re2::RE2::UNANCHORED,
                    &match,
                    1)) {
    return Value::String("");
  }
  return Value::String(std::string(match.data(), match.size()));
}

Result<Value> FindAll(const Call& call) {
  MUSTER_ASSIGN_OR_RETURN(const auto regex, RegexOf(call));
  std::int64_t limit = call.args.size() == 3 ? call.args[2].int_value() : -1;
  if (limit < 0) {
    limit = std::numeric_limits<std::int64_t>::max();
  }
  const std::string_view text = call.args[0].string_value();
  const re2::StringPiece subject(text.data(), text.size());
  std::vector<Value> out;
  std::size_t at = 0;
  std::size_t previous_end = std::string_view::npos;
  while (at <= text.size() && limit > 0 && !call.exhausted()) {
    re2::StringPiece match;
    if (!regex->Match(subject, at, text.size(), re2::RE2::UNANCHORED, &match, 1)) {
      break;
    }
    const auto begin = static_cast<std::size_t>(match.data() - text.data());
    const std::size_t end = begin + match.size();
    // An empty match right after a match does not count, as in Go.
    if (!(match.empty() && begin == previous_end)) {
      out.push_back(Value::String(std::string(match.data(), match.size())));
      --limit;
      call.Charge(1);
    }
    previous_end = end;
    if (!match.empty()) {
      at = end;
    } else if (end < text.size()) {
      char32_t point = 0;
      at = end + DecodeUtf8(text.substr(end), point);
    } else {
      break;
    }
  }
  return Value::List(std::move(out));
}

// ---- format() ----

std::string FixedPoint(double number, int precision) {
  std::string buffer(512 + static_cast<std::size_t>(precision), '\0');
  const auto result = std::to_chars(
      buffer.data(), buffer.data() + buffer.size(), number, std::chars_format::fixed, precision);
  buffer.resize(static_cast<std::size_t>(result.ptr - buffer.data()));
  return buffer;
}

// Thousands apart, as the English locale of upstream writes %f.
std::string Grouped(std::string text) {
  const std::size_t sign = text.starts_with("-") ? 1 : 0;
  std::size_t at = std::min(text.find('.'), text.size());
  while (at > sign + 3) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

// 1.5 x 10 to the power of 3 with raised digits, as the English locale writes %e. Upstream takes
// the number in "%.2e" for a width, not a precision; so do we.
std::string Scientific(double number, int width) {
  char buffer[64];
  const auto result =
      std::to_chars(buffer, buffer + sizeof(buffer), number, std::chars_format::scientific, 6);
  const std::string digits(buffer, result.ptr);
  const std::size_t e = digits.find('e');
  static constexpr const char* kRaised[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string out = digits.substr(0, e) + "×10";
  for (const char c : digits.substr(e + 1)) {
    if (c == '-') {
      out += "⁻";
    } else if (c >= '0' && c <= '9') {
      out += kRaised[c - '0'];
    }
  }
  const std::size_t length = CodePoints(out);
  const auto wanted = static_cast<std::size_t>(width);
  return length < wanted ? std::string(wanted - length, ' ') + out : out;
}

void AppendQuoted(std::string& out, std::string_view text) {
  out.push_back('"');
  for (const char c : text) {
    switch (c) {
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      case '"':
      case '\\':
        out.push_back('\\');
        [[fallthrough]];
      default:
        out.push_back(c);
    }
  }
  out.push_back('"');
}

// How %s writes a value; inside a list or map (`nested`) as a literal.
Status AppendPlain(std::string& out, const Value& value, const Call& call, bool nested, int depth) {
  if (depth > 64 || call.exhausted()) {
    return Fail("value is nested too deeply to be formatted");
  }
  call.Charge(1 + static_cast<std::int64_t>(
                      value.is(Kind::kString) ? value.string_value().size() / 10 : 0));
  switch (value.kind()) {
    case Kind::kString:
      if (nested) {
        AppendQuoted(out, value.string_value());
        return {};
      }
      out += value.string_value();
      return {};
    case Kind::kBytes:
      if (nested) {
        out.push_back('b');
        AppendQuoted(out, value.string_value());
        return {};
      }
      if (!IsValidUtf8(value.string_value())) {
        return Fail("invalid UTF-8 in bytes, cannot convert to string");
      }
      out += value.string_value();
      return {};
    case Kind::kType:
      out += value.string_value();
      return {};
    case Kind::kBool:
      out += value.bool_value() ? "true" : "false";
      return {};
    case Kind::kNull:
      out += "null";
      return {};
    case Kind::kInt:
      out += std::to_string(value.int_value());
      return {};
    case Kind::kUint:
      out += std::to_string(value.uint_value());
      return {};
    case Kind::kDouble:
      if (nested && std::isfinite(value.double_value())) {
        out += FixedPoint(value.double_value(), 6);
      } else if (nested) {
        AppendQuoted(out, FormatDouble(value.double_value()));
      } else {
        out += FormatDouble(value.double_value());
      }
      return {};
    case Kind::kDuration:
      out += nested ? "duration(\"" + FormatSeconds(value.duration_value()) + "\")"
                    : FormatSeconds(value.duration_value());
      return {};
    case Kind::kTimestamp: {
      const std::string text = FormatTimestamp(value.timestamp_seconds(), value.timestamp_nanos());
      out += nested ? "timestamp(\"" + text + "\")" : text;
      return {};
    }
    case Kind::kList: {
      out.push_back('[');
      const std::size_t size = value.size();
      for (std::size_t i = 0; i < size; ++i) {
        out += i == 0 ? "" : ", ";
        MUSTER_RETURN_IF_ERROR(AppendPlain(out, value.At(i), call, true, depth + 1));
      }
      out.push_back(']');
      return {};
    }
    case Kind::kMap: {
      std::vector<std::pair<std::string, Value>> entries;
      for (const Value& key : value.Keys()) {
        std::string name;
        MUSTER_RETURN_IF_ERROR(AppendPlain(name, key, call, true, depth + 1));
        MUSTER_ASSIGN_OR_RETURN(const auto found, value.Find(key));
        entries.emplace_back(std::move(name), found.value_or(Value()));
      }
      std::ranges::sort(entries, {}, &std::pair<std::string, Value>::first);
      out.push_back('{');
      bool first = true;
      for (const auto& [name, entry] : entries) {
        out += first ? "" : ", ";
        first = false;
        out += name + ":";
        MUSTER_RETURN_IF_ERROR(AppendPlain(out, entry, call, true, depth + 1));
      }
      out.push_back('}');
      return {};
    }
    case Kind::kObject:
    case Kind::kOptional:
    case Kind::kQuantity:
    case Kind::kSemver:
    case Kind::kOpaque:
      break;
  }
  return Fail(
      "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, "
      "durations, and timestamps, was given " +
      std::string(value.TypeName()));
}

std::string InBase(std::uint64_t value, unsigned base, bool upper) {
  char buffer[72];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value, static_cast<int>(base));
  std::string out(buffer, result.ptr);
  if (upper) {
    for (char& c : out) {
      c = c >= 'a' && c <= 'f' ? static_cast<char>(c - 'a' + 'A') : c;
    }
  }
  return out;
}

std::string SignedInBase(std::int64_t value, unsigned base, bool upper) {
  const std::uint64_t magnitude =
      value < 0 ? ~static_cast<std::uint64_t>(value) + 1 : static_cast<std::uint64_t>(value);
  return (value < 0 ? "-" : "") + InBase(magnitude, base, upper);
}

Result<std::string> FormatVerb(char verb, int precision, const Value& value, const Call& call) {
  switch (verb) {
    case 's': {
      std::string out;
      MUSTER_RETURN_IF_ERROR(AppendPlain(out, value, call, false, 0));
      return out;
    }
    case 'd':
      if (value.is(Kind::kInt)) {
        return std::to_string(value.int_value());
      }
      if (value.is(Kind::kUint)) {
        return std::to_string(value.uint_value());
      }
      break;
    case 'f':
    case 'e':
      if (!value.is(Kind::kDouble)) {
        break;
      }
      if (!std::isfinite(value.double_value())) {
        return std::isnan(value.double_value()) ? "NaN" : (value.double_value() < 0 ? "-∞" : "∞");
      }
      return verb == 'f' ? Grouped(FixedPoint(value.double_value(), precision))
                         : Scientific(value.double_value(), precision);
    case 'b':
      if (value.is(Kind::kBool)) {
        return value.bool_value() ? "1" : "0";
      }
      [[fallthrough]];
    case 'o':
    case 'x':
    case 'X': {
      const unsigned base = verb == 'b' ? 2 : (verb == 'o' ? 8 : 16);
      if (value.is(Kind::kInt)) {
        return SignedInBase(value.int_value(), base, verb == 'X');
      }
      if (value.is(Kind::kUint)) {
        return InBase(value.uint_value(), base, verb == 'X');
      }
      if (base == 16 && (value.is(Kind::kString) || value.is(Kind::kBytes))) {
        std::string out;
        for (const char c : value.string_value()) {
          const auto byte = static_cast<unsigned char>(c);
          out += (byte < 16 ? "0" : "") + InBase(byte, 16, verb == 'X');
        }
        return out;
      }
      break;
    }
    default:
      return Fail(std::string("unrecognized formatting clause \"") + verb + "\"");
  }
  return Fail(std::string("formatting clause %") + verb + " cannot be used on " +
              std::string(value.TypeName()));
}

Result<Value> Format(const Call& call) {
  const std::string_view pattern = call.args[0].string_value();
  const Value& list = call.args[1];
  call.ChargeScan(0);
  std::string out;
  std::size_t used = 0;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      out.push_back(pattern[i]);
      continue;
    }
    if (++i == pattern.size()) {
      return Fail("unexpected end of string");
    }
    if (pattern[i] == '%') {
      out.push_back('%');
      continue;
    }
    int precision = 6;
    if (pattern[i] == '.') {
      precision = 0;
      std::size_t digits = 0;
      while (i + 1 < pattern.size() && pattern[i + 1] >= '0' && pattern[i + 1] <= '9') {
        precision = precision * 10 + (pattern[++i] - '0');
        if (++digits > 3) {
          return Fail("precision is too large");
        }
      }
      if (digits == 0 || ++i == pattern.size()) {
        return Fail("could not find end of precision specifier");
      }
    }
    if (used >= list.size()) {
      return Fail("index " + std::to_string(used) + " out of range");
    }
    MUSTER_ASSIGN_OR_RETURN(const std::string text,
                            FormatVerb(pattern[i], precision, list.At(used), call));
    ++used;
    out += text;
    call.Charge(static_cast<std::int64_t>(text.size() / 10));
    if (call.exhausted()) {
      return Value();
    }
  }
  return Value::String(std::move(out));
}

constexpr bool kGlobal = false;
constexpr bool kMember = true;

constexpr Declaration kTable[] = {
    {"charAt", kMember, "string;int", "string", CharAt, Cost::kSelf},
    {"indexOf", kMember, "string;string", "int", IndexOf, Cost::kScan},
    {"indexOf", kMember, "string;string;int", "int", IndexOf, Cost::kScan},
    {"lastIndexOf", kMember, "string;string", "int", LastIndexOf, Cost::kScan},
    {"lastIndexOf", kMember, "string;string;int", "int", LastIndexOf, Cost::kScan},
    {"lowerAscii", kMember, "string", "string", LowerAscii, Cost::kScan},
    {"upperAscii", kMember, "string", "string", UpperAscii, Cost::kScan},
    {"replace", kMember, "string;string;string", "string", Replace, Cost::kTwoScans},
    {"replace", kMember, "string;string;string;int", "string", Replace, Cost::kTwoScans},
    {"split", kMember, "string;string", "list<string>", Split, Cost::kTwoScans},
    {"split", kMember, "string;string;int", "list<string>", Split, Cost::kTwoScans},
    {"substring", kMember, "string;int", "string", Substring, Cost::kScan},
    {"substring", kMember, "string;int;int", "string", Substring, Cost::kScan},
    {"trim", kMember, "string", "string", Trim, Cost::kScan},
    {"join", kMember, "list<string>", "string", Join, Cost::kSelf},
    {"join", kMember, "list<string>;string", "string", Join, Cost::kSelf},
    {"strings.quote", kGlobal, "string", "string", Quote, Cost::kScan},
    {"format", kMember, "string;list<dyn>", "string", Format, Cost::kSelf},
    {"find", kMember, "string;string", "string", Find, Cost::kSelf},
    {"findAll", kMember, "string;string", "list<string>", FindAll, Cost::kSelf},
    {"findAll", kMember, "string;string;int", "list<string>", FindAll, Cost::kSelf},
};

}  // namespace

std::span<const Declaration> StringFunctions() {
  return kTable;
}

}  // namespace muster::cel
