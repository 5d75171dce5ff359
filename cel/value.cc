#include "cel/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_map>

#include "base/check.h"
#include "cel/value_internal.h"

namespace muster::cel {
namespace {

constexpr std::int64_t kPublicEqualitySteps = 1'000'000;

class VectorList final : public ListView {
 public:
  explicit VectorList(std::vector<Value> items) : items_(std::move(items)) {}
  [[nodiscard]] std::size_t Size() const override { return items_.size(); }
  [[nodiscard]] Value At(std::size_t index) const override { return items_[index]; }

 private:
  std::vector<Value> items_;
};

// One number for all spellings of a key: 1, 1u and 1.0 find each other.
std::size_t HashKey(const Value& key) {
  switch (key.kind()) {
    case Value::Kind::kBool:
      return key.bool_value() ? 1 : 2;
    case Value::Kind::kInt:
      return std::hash<std::uint64_t>()(static_cast<std::uint64_t>(key.int_value()));
    case Value::Kind::kUint:
      return std::hash<std::uint64_t>()(key.uint_value());
    case Value::Kind::kString:
      return std::hash<std::string_view>()(key.string_value());
    case Value::Kind::kDouble:
      return std::hash<double>()(key.double_value());
    default:
      return 0;
  }
}

// A double that is a whole number, as the int or uint it equals.
Value CanonicalKey(const Value& key) {
  if (!key.is(Value::Kind::kDouble)) {
    return key;
  }
  const double number = key.double_value();
  if (std::trunc(number) != number) {
    return key;
  }
  if (number >= -9223372036854775808.0 && number < 9223372036854775808.0) {
    return Value::Int(static_cast<std::int64_t>(number));
  }
  if (number >= 0 && number < 18446744073709551616.0) {
    return Value::Uint(static_cast<std::uint64_t>(number));
  }
  return key;
}

class EntriesMap final : public MapView {
 public:
  explicit EntriesMap(Value::Entries entries) : entries_(std::move(entries)) {
    if (entries_.size() > kIndexAbove) {
      index_.reserve(entries_.size());
      for (std::size_t i = 0; i < entries_.size(); ++i) {
        index_.emplace(HashKey(CanonicalKey(entries_[i].first)), i);
      }
    }
  }
  [[nodiscard]] std::size_t Size() const override { return entries_.size(); }
  [[nodiscard]] Result<std::optional<Value>> Find(const Value& key) const override {
    const Value wanted = CanonicalKey(key);
    if (!IsKey(wanted)) {
      return std::nullopt;
    }
    if (entries_.size() <= kIndexAbove) {
      for (const auto& [name, value] : entries_) {
        if (name == wanted) {
          return value;
        }
      }
      return std::nullopt;
    }
    std::size_t best = entries_.size();
    const auto [begin, end] = index_.equal_range(HashKey(wanted));
    for (auto it = begin; it != end; ++it) {
      if (it->second < best && entries_[it->second].first == wanted) {
        best = it->second;
      }
    }
    if (best == entries_.size()) {
      return std::nullopt;
    }
    return entries_[best].second;
  }
  [[nodiscard]] std::vector<Value> Keys() const override {
    std::vector<Value> keys;
    keys.reserve(entries_.size());
    for (const auto& entry : entries_) {
      keys.push_back(entry.first);
    }
    return keys;
  }

 private:
  static constexpr std::size_t kIndexAbove = 8;
  Value::Entries entries_;
  std::unordered_multimap<std::size_t, std::size_t> index_;
};

struct ObjectRep {
  std::string type_name;
  std::shared_ptr<const MapView> fields;
};

int Sign(bool less, bool greater) {
  return less ? -1 : (greater ? 1 : 0);
}

int CompareIntUint(std::int64_t a, std::uint64_t b) {
  if (a < 0) {
    return -1;
  }
  const auto unsigned_a = static_cast<std::uint64_t>(a);
  return Sign(unsigned_a<b, unsigned_a> b);
}

std::optional<int> CompareIntDouble(std::int64_t a, double b) {
  if (std::isnan(b)) {
    return std::nullopt;
  }
  if (b >= 9223372036854775808.0) {
    return -1;
  }
  if (b < -9223372036854775808.0) {
    return 1;
  }
  const double whole = std::floor(b);
  const auto floor = static_cast<std::int64_t>(whole);
  if (a != floor) {
    return a < floor ? -1 : 1;
  }
  return whole < b ? -1 : 0;
}

std::optional<int> CompareUintDouble(std::uint64_t a, double b) {
  if (std::isnan(b)) {
    return std::nullopt;
  }
  if (b >= 18446744073709551616.0) {
    return -1;
  }
  if (b < 0) {
    return 1;
  }
  const double whole = std::floor(b);
  const auto floor = static_cast<std::uint64_t>(whole);
  if (a != floor) {
    return a < floor ? -1 : 1;
  }
  return whole < b ? -1 : 0;
}

std::optional<int> Reverse(std::optional<int> order) {
  return order ? std::optional<int>(-*order) : std::nullopt;
}

bool IsNumber(const Value& value) {
  return value.is(Value::Kind::kInt) || value.is(Value::Kind::kUint) ||
         value.is(Value::Kind::kDouble);
}

std::optional<int> CompareNumbers(const Value& a, const Value& b) {
  using Kind = Value::Kind;
  switch (a.kind()) {
    case Kind::kInt:
      if (b.is(Kind::kInt)) {
        return Sign(a.int_value() < b.int_value(), a.int_value() > b.int_value());
      }
      return b.is(Kind::kUint) ? CompareIntUint(a.int_value(), b.uint_value())
                               : CompareIntDouble(a.int_value(), b.double_value());
    case Kind::kUint:
      if (b.is(Kind::kUint)) {
        return Sign(a.uint_value() < b.uint_value(), a.uint_value() > b.uint_value());
      }
      return b.is(Kind::kInt) ? std::optional<int>(-CompareIntUint(b.int_value(), a.uint_value()))
                              : CompareUintDouble(a.uint_value(), b.double_value());
    default:
      if (b.is(Kind::kInt)) {
        return Reverse(CompareIntDouble(b.int_value(), a.double_value()));
      }
      if (b.is(Kind::kUint)) {
        return Reverse(CompareUintDouble(b.uint_value(), a.double_value()));
      }
      if (std::isnan(a.double_value()) || std::isnan(b.double_value())) {
        return std::nullopt;
      }
      return Sign(a.double_value() < b.double_value(), a.double_value() > b.double_value());
  }
}

}  // namespace

std::optional<Value> MapView::Default() const {
  return std::nullopt;
}

struct ValueInternals {
  static Value Make(Value::Kind kind) {
    Value value;
    value.kind_ = kind;
    return value;
  }
  static Value WithRep(Value::Kind kind, std::shared_ptr<const void> rep) {
    Value value;
    value.kind_ = kind;
    value.rep_ = std::move(rep);
    return value;
  }
  static Value Text(Value::Kind kind, std::string text) {
    Value value;
    value.kind_ = kind;
    auto rep = std::make_shared<const std::string>(std::move(text));
    value.bits_.p = rep->data();
    value.size_ = rep->size();
    value.rep_ = std::move(rep);
    return value;
  }
  static const void* Rep(const Value& value) { return value.rep_.get(); }
  template <typename T>
  static const T& As(const Value& value) {
    return *static_cast<const T*>(value.rep_.get());
  }
};

using V = ValueInternals;

Value Value::Bool(bool value) {
  Value out = V::Make(Kind::kBool);
  out.bits_.i = value ? 1 : 0;
  return out;
}
Value Value::Int(std::int64_t value) {
  Value out = V::Make(Kind::kInt);
  out.bits_.i = value;
  return out;
}
Value Value::Uint(std::uint64_t value) {
  Value out = V::Make(Kind::kUint);
  out.bits_.u = value;
  return out;
}
Value Value::Double(double value) {
  Value out = V::Make(Kind::kDouble);
  out.bits_.d = value;
  return out;
}
Value Value::String(std::string value) {
  return V::Text(Kind::kString, std::move(value));
}
Value Value::BorrowedString(std::string_view value) {
  Value out = V::Make(Kind::kString);
  out.bits_.p = value.data();
  out.size_ = value.size();
  return out;
}
Value Value::Bytes(std::string value) {
  return V::Text(Kind::kBytes, std::move(value));
}
Value Value::List(std::vector<Value> items) {
  return List(std::static_pointer_cast<const ListView>(
      std::make_shared<const VectorList>(std::move(items))));
}
Value Value::List(std::shared_ptr<const ListView> view) {
  MUSTER_CHECK(view != nullptr);
  return V::WithRep(Kind::kList, std::move(view));
}
Value Value::Map(Entries entries) {
  return Map(std::static_pointer_cast<const MapView>(
      std::make_shared<const EntriesMap>(std::move(entries))));
}
Value Value::Map(std::shared_ptr<const MapView> view) {
  MUSTER_CHECK(view != nullptr);
  return V::WithRep(Kind::kMap, std::move(view));
}
Value Value::Object(std::string type_name, Entries fields) {
  return Object(std::move(type_name),
                std::static_pointer_cast<const MapView>(
                    std::make_shared<const EntriesMap>(std::move(fields))));
}
Value Value::Object(std::string type_name, std::shared_ptr<const MapView> fields) {
  MUSTER_CHECK(fields != nullptr);
  return V::WithRep(Kind::kObject,
                    std::make_shared<const ObjectRep>(
                        ObjectRep{.type_name = std::move(type_name), .fields = std::move(fields)}));
}
Value Value::Timestamp(TimePoint value) {
  const std::int64_t total = value.time_since_epoch().count();
  std::int64_t seconds = total / 1'000'000'000;
  std::int64_t nanos = total % 1'000'000'000;
  if (nanos < 0) {
    nanos += 1'000'000'000;
    --seconds;
  }
  return Timestamp(seconds, static_cast<std::int32_t>(nanos));
}
Value Value::Timestamp(std::int64_t seconds, std::int32_t nanos) {
  Value out = V::Make(Kind::kTimestamp);
  out.bits_.i = seconds;
  out.small_ = nanos;
  return out;
}
Value Value::FromDuration(Duration value) {
  Value out = V::Make(Kind::kDuration);
  out.bits_.i = value.count();
  return out;
}
Value Value::Type(std::string name) {
  return V::Text(Kind::kType, std::move(name));
}
Value Value::Some(Value value) {
  return V::WithRep(Kind::kOptional, std::make_shared<const Value>(std::move(value)));
}
Value Value::None() {
  return V::Make(Kind::kOptional);
}
Value Value::FromQuantity(const Quantity& value) {
  return V::WithRep(Kind::kQuantity, std::make_shared<const Quantity>(value));
}
Value Value::FromSemver(muster::cel::Semver value) {
  return V::WithRep(Kind::kSemver, std::make_shared<const muster::cel::Semver>(std::move(value)));
}
Value Value::FromOpaque(std::shared_ptr<const Opaque> value) {
  MUSTER_CHECK(value != nullptr);
  return V::WithRep(Kind::kOpaque, std::move(value));
}

bool Value::bool_value() const {
  return bits_.i != 0;
}
std::int64_t Value::int_value() const {
  return bits_.i;
}
std::uint64_t Value::uint_value() const {
  return bits_.u;
}
double Value::double_value() const {
  return bits_.d;
}
std::string_view Value::string_value() const {
  return size_ == 0 ? std::string_view() : std::string_view(bits_.p, size_);
}
std::int64_t Value::timestamp_seconds() const {
  return bits_.i;
}
std::int32_t Value::timestamp_nanos() const {
  return small_;
}
Duration Value::duration_value() const {
  return Duration(bits_.i);
}
const Quantity& Value::quantity_value() const {
  return V::As<Quantity>(*this);
}
const muster::cel::Semver& Value::semver_value() const {
  return V::As<muster::cel::Semver>(*this);
}
const Opaque& Value::opaque_value() const {
  return V::As<Opaque>(*this);
}
std::optional<Value> Value::optional_value() const {
  return rep_ == nullptr ? std::nullopt : std::optional<Value>(V::As<Value>(*this));
}
std::string_view Value::object_type() const {
  return V::As<ObjectRep>(*this).type_name;
}

std::size_t Value::size() const {
  switch (kind_) {
    case Kind::kList:
      return V::As<ListView>(*this).Size();
    case Kind::kMap:
      return V::As<MapView>(*this).Size();
    case Kind::kObject:
      return V::As<ObjectRep>(*this).fields->Size();
    default:
      return 0;
  }
}
Value Value::At(std::size_t index) const {
  MUSTER_CHECK(kind_ == Kind::kList && index < size());
  return V::As<ListView>(*this).At(index);
}
std::vector<Value> Value::Keys() const {
  return kind_ == Kind::kMap ? V::As<MapView>(*this).Keys()
                             : V::As<ObjectRep>(*this).fields->Keys();
}
Result<std::optional<Value>> Value::Find(const Value& key) const {
  return kind_ == Kind::kMap ? V::As<MapView>(*this).Find(key)
                             : V::As<ObjectRep>(*this).fields->Find(key);
}
Result<std::optional<Value>> Value::Find(std::string_view key) const {
  return Find(BorrowedString(key));
}
std::optional<Value> Value::Default() const {
  return kind_ == Kind::kMap ? V::As<MapView>(*this).Default()
                             : V::As<ObjectRep>(*this).fields->Default();
}

std::optional<int> CompareValues(const Value& a, const Value& b) {
  using Kind = Value::Kind;
  if (IsNumber(a) && IsNumber(b)) {
    return CompareNumbers(a, b);
  }
  if (a.kind() != b.kind()) {
    return std::nullopt;
  }
  switch (a.kind()) {
    case Kind::kBool:
      return Sign(!a.bool_value() && b.bool_value(), a.bool_value() && !b.bool_value());
    case Kind::kString:
    case Kind::kBytes: {
      const int order = a.string_value().compare(b.string_value());
      return Sign(order < 0, order > 0);
    }
    case Kind::kDuration:
      return Sign(a.duration_value() < b.duration_value(), a.duration_value() > b.duration_value());
    case Kind::kTimestamp: {
      const std::pair left(a.timestamp_seconds(), a.timestamp_nanos());
      const std::pair right(b.timestamp_seconds(), b.timestamp_nanos());
      return Sign(left<right, left> right);
    }
    default:
      return std::nullopt;
  }
}

bool IsKey(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kBool:
    case Value::Kind::kInt:
    case Value::Kind::kUint:
    case Value::Kind::kDouble:
    case Value::Kind::kNull:
    case Value::Kind::kString:
      return true;
    default:
      return false;
  }
}

Value MapOfLastKeys(Value::Entries entries) {
  std::unordered_multimap<std::size_t, std::size_t> seen;
  Value::Entries out;
  out.reserve(entries.size());
  for (auto& entry : entries) {
    const std::size_t hash = HashKey(CanonicalKey(entry.first));
    bool replaced = false;
    const auto [begin, end] = seen.equal_range(hash);
    for (auto it = begin; it != end && !replaced; ++it) {
      if (out[it->second].first == entry.first) {
        out[it->second].second = std::move(entry.second);
        replaced = true;
      }
    }
    if (!replaced) {
      seen.emplace(hash, out.size());
      out.push_back(std::move(entry));
    }
  }
  return Value::Map(std::move(out));
}

bool EqualBounded(const Value& a, const Value& b, std::int64_t& steps) {
  using Kind = Value::Kind;
  if (--steps < 0) {
    return false;
  }
  if (IsNumber(a) && IsNumber(b)) {
    return CompareNumbers(a, b) == 0;
  }
  const bool both_structs =
      (a.is(Kind::kMap) || a.is(Kind::kObject)) && (b.is(Kind::kMap) || b.is(Kind::kObject));
  if (a.kind() != b.kind() && !both_structs) {
    return false;
  }
  switch (a.kind()) {
    case Kind::kNull:
      return true;
    case Kind::kBool:
    case Kind::kDuration:
    case Kind::kTimestamp:
      return CompareValues(a, b) == 0;
    case Kind::kString:
    case Kind::kBytes:
    case Kind::kType:
      steps -= static_cast<std::int64_t>(
          std::min(a.string_value().size(), b.string_value().size()) / 64);
      return a.string_value() == b.string_value();
    case Kind::kList: {
      const std::size_t size = a.size();
      if (size != b.size()) {
        return false;
      }
      for (std::size_t i = 0; i < size; ++i) {
        if (!EqualBounded(a.At(i), b.At(i), steps)) {
          return false;
        }
      }
      return true;
    }
    case Kind::kObject:
    case Kind::kMap: {
      if (a.size() != b.size() || a.kind() != b.kind() ||
          (a.is(Kind::kObject) && a.object_type() != b.object_type())) {
        return false;
      }
      for (const Value& key : a.Keys()) {
        const auto left = a.Find(key);
        const auto right = b.Find(key);
        if (!left || !right || !*left || !*right || !EqualBounded(**left, **right, steps)) {
          return false;
        }
      }
      return true;
    }
    case Kind::kOptional: {
      const auto left = a.optional_value();
      const auto right = b.optional_value();
      return left.has_value() == right.has_value() && (!left || EqualBounded(*left, *right, steps));
    }
    case Kind::kQuantity:
      return a.quantity_value().Compare(b.quantity_value()) == 0;
    case Kind::kSemver:
      return a.semver_value().Compare(b.semver_value()) == 0;
    case Kind::kOpaque:
      return a.opaque_value().type_name() == b.opaque_value().type_name() &&
             a.opaque_value().Equals(b.opaque_value());
    case Kind::kInt:
    case Kind::kUint:
    case Kind::kDouble:
      return false;  // numbers were compared above
  }
  return false;
}

bool operator==(const Value& a, const Value& b) {
  std::int64_t steps = kPublicEqualitySteps;
  return EqualBounded(a, b, steps) && steps >= 0;
}

std::string_view Value::TypeName() const {
  switch (kind_) {
    case Kind::kNull:
      return "null_type";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kUint:
      return "uint";
    case Kind::kDouble:
      return "double";
    case Kind::kString:
      return "string";
    case Kind::kBytes:
      return "bytes";
    case Kind::kList:
      return "list";
    case Kind::kMap:
      return "map";
    case Kind::kObject:
      return object_type();
    case Kind::kTimestamp:
      return "google.protobuf.Timestamp";
    case Kind::kDuration:
      return "google.protobuf.Duration";
    case Kind::kType:
      return "type";
    case Kind::kOptional:
      return "optional_type";
    case Kind::kQuantity:
      return "kubernetes.Quantity";
    case Kind::kSemver:
      return "kubernetes.Semver";
    case Kind::kOpaque:
      return opaque_value().type_name();
  }
  return "dyn";
}

namespace {

void AppendQuoted(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  out.push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\x";
      out.push_back(kHex[static_cast<unsigned char>(c) >> 4]);
      out.push_back(kHex[static_cast<unsigned char>(c) & 15]);
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
}

void AppendDebug(std::string& out, const Value& value, int depth) {
  using Kind = Value::Kind;
  constexpr std::size_t kMaxDebug = 4096;
  if (depth > 32 || out.size() > kMaxDebug) {
    out += "...";
    return;
  }
  switch (value.kind()) {
    case Kind::kNull:
      out += "null";
      return;
    case Kind::kBool:
      out += value.bool_value() ? "true" : "false";
      return;
    case Kind::kInt:
      out += std::to_string(value.int_value());
      return;
    case Kind::kUint:
      out += std::to_string(value.uint_value()) + "u";
      return;
    case Kind::kDouble: {
      std::string text = FormatDouble(value.double_value());
      if (text.find_first_not_of("-0123456789") == std::string::npos) {
        text += ".0";
      }
      out += text;
      return;
    }
    case Kind::kString:
      AppendQuoted(out, value.string_value());
      return;
    case Kind::kBytes:
      out.push_back('b');
      AppendQuoted(out, value.string_value());
      return;
    case Kind::kType:
      out += value.string_value();
      return;
    case Kind::kList: {
      out.push_back('[');
      const std::size_t size = value.size();
      for (std::size_t i = 0; i < size && out.size() <= kMaxDebug; ++i) {
        out += i == 0 ? "" : ", ";
        AppendDebug(out, value.At(i), depth + 1);
      }
      out.push_back(']');
      return;
    }
    case Kind::kObject:
    case Kind::kMap: {
      if (value.is(Kind::kObject)) {
        out += value.object_type();
      }
      std::vector<Value> keys = value.Keys();
      std::ranges::sort(keys, [](const Value& a, const Value& b) {
        if (const auto order = CompareValues(a, b)) {
          return *order < 0;
        }
        return a.kind() < b.kind();
      });
      out.push_back('{');
      bool first = true;
      for (const Value& key : keys) {
        if (out.size() > kMaxDebug) {
          break;
        }
        out += first ? "" : ", ";
        first = false;
        AppendDebug(out, key, depth + 1);
        out += ": ";
        const auto found = value.Find(key);
        if (found && *found) {
          AppendDebug(out, **found, depth + 1);
        } else {
          out += found ? "absent" : "error(" + found.error().message + ")";
        }
      }
      out.push_back('}');
      return;
    }
    case Kind::kTimestamp:
      out += "timestamp(\"" + FormatTimestamp(value.timestamp_seconds(), value.timestamp_nanos()) +
             "\")";
      return;
    case Kind::kDuration:
      out += "duration(\"" + FormatSeconds(value.duration_value()) + "\")";
      return;
    case Kind::kOptional:
      if (const auto inner = value.optional_value()) {
        out += "optional.of(";
        AppendDebug(out, *inner, depth + 1);
        out.push_back(')');
      } else {
        out += "optional.none()";
      }
      return;
    case Kind::kQuantity:
      out += "quantity(\"" + value.quantity_value().ToString() + "\")";
      return;
    case Kind::kSemver:
      out += "semver(\"" + value.semver_value().ToString() + "\")";
      return;
    case Kind::kOpaque:
      out += value.opaque_value().type_name();
      return;
  }
}

}  // namespace

std::string Value::DebugString() const {
  std::string out;
  AppendDebug(out, *this, 0);
  return out;
}

std::size_t DecodeUtf8(std::string_view text, char32_t& point) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  point = 0xFFFD;
  std::size_t length = 0;
  char32_t value = 0;
  if (lead < 0x80) {
    point = lead;
    return 1;
  }
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
    value = lead & 0x1FU;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    value = lead & 0x0FU;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    value = lead & 0x07U;
  } else {
    return 1;
  }
  if (text.size() < length) {
    return 1;
  }
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) {
      return 1;
    }
    value = (value << 6) | (byte(i) & 0x3FU);
  }
  const bool overlong = (length == 3 && value < 0x800) || (length == 4 && value < 0x10000);
  if (overlong || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
    return 1;
  }
  point = value;
  return length;
}

std::size_t CodePoints(std::string_view text) {
  std::size_t count = 0;
  while (!text.empty()) {
    char32_t point = 0;
    text.remove_prefix(DecodeUtf8(text, point));
    ++count;
  }
  return count;
}

bool IsValidUtf8(std::string_view text) {
  while (!text.empty()) {
    char32_t point = 0;
    const std::size_t length = DecodeUtf8(text, point);
    if (length == 1 && point == 0xFFFD) {
      return false;
    }
    text.remove_prefix(length);
  }
  return true;
}

void AppendUtf8(std::string& out, char32_t point) {
  const auto push = [&](char32_t byte) {
    out.push_back(static_cast<char>(static_cast<unsigned char>(byte)));
  };
  if (point < 0x80) {
    push(point);
  } else if (point < 0x800) {
    push(0xC0 | (point >> 6));
    push(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    push(0xE0 | (point >> 12));
    push(0x80 | ((point >> 6) & 0x3F));
    push(0x80 | (point & 0x3F));
  } else {
    push(0xF0 | (point >> 18));
    push(0x80 | ((point >> 12) & 0x3F));
    push(0x80 | ((point >> 6) & 0x3F));
    push(0x80 | (point & 0x3F));
  }
}

std::string FormatSeconds(Duration duration) {
  const std::int64_t total = duration.count();
  // The magnitude as unsigned, so that the smallest int64 does not overflow.
  const std::uint64_t magnitude =
      total < 0 ? ~static_cast<std::uint64_t>(total) + 1 : static_cast<std::uint64_t>(total);
  std::string out = total < 0 ? "-" : "";
  out += std::to_string(magnitude / 1'000'000'000);
  if (const std::uint64_t rest = magnitude % 1'000'000'000; rest != 0) {
    std::string digits = std::to_string(rest);
    digits.insert(0, 9 - digits.size(), '0');
    while (digits.back() == '0') {
      digits.pop_back();
    }
    out += "." + digits;
  }
  return out + "s";
}

std::string FormatDouble(double value) {
  if (std::isnan(value)) {
    return "NaN";
  }
  if (std::isinf(value)) {
    return value < 0 ? "-Inf" : "+Inf";
  }
  char buffer[64];
  // Go's shortest 'g' writes an exponent below 1e-4 and from 1e6 on.
  const double magnitude = std::fabs(value);
  const bool exponent = magnitude != 0 && (magnitude < 1e-4 || magnitude >= 1e6);
  const auto result =
      std::to_chars(buffer,
                    buffer + sizeof(buffer),
                    value,
                    exponent ? std::chars_format::scientific : std::chars_format::fixed);
  return std::string(buffer, result.ptr);
}

}  // namespace muster::cel
