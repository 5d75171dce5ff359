#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "cel/quantity.h"

namespace muster::cel {

class Value;

// A list whose elements are made on demand (over JSON, say). Must not change while a Value refers
// to it.
class ListView {
 public:
  virtual ~ListView() = default;
  [[nodiscard]] virtual std::size_t Size() const = 0;
  [[nodiscard]] virtual Value At(std::size_t index) const = 0;  // index < Size()
};

// A map whose entries are made on demand. Find may fail: a lazily computed variable carries its own
// error. Shape    Keys are scalars, mostly strings; Keys() gives all of them in a fixed
// order.
class MapView {
 public:
  virtual ~MapView() = default;
  [[nodiscard]] virtual std::size_t Size() const = 0;
  [[nodiscard]] virtual Result<std::optional<Value>> Find(const Value& key) const = 0;
  [[nodiscard]] virtual std::vector<Value> Keys() const = 0;
  // What selecting an absent key gives instead of "no such key"; has() believes in it, `in` does
  // not.
  [[nodiscard]] virtual std::optional<Value> Default() const;
};

// major.minor.patch with pre-release and build, compared by the precedence rules of semver 2.0.0
// (build is ignored).
struct Semver {
  std::uint64_t major = 0;
  std::uint64_t minor = 0;
  std::uint64_t patch = 0;
  std::vector<std::string> pre;
  std::string build;

  // Strict form; with `normalize` a leading v, missing minor or patch and leading zeros are
  // forgiven.
  [[nodiscard]] static Result<Semver> Parse(std::string_view text, bool normalize = false);
  [[nodiscard]] int Compare(const Semver& other) const;  // -1, 0, 1
  [[nodiscard]] std::string ToString() const;
};

// Values of library types (IP, CIDR, URL, Format, Authorizer...). `type_name` as type() prints it.
class Opaque {
 public:
  virtual ~Opaque() = default;
  [[nodiscard]] virtual std::string_view type_name() const = 0;
  [[nodiscard]] virtual bool Equals(const Opaque& other) const = 0;
};

// Any value of CEL. Immutable; a copy is a reference count.
//
// Shape    kMap and kObject are both read by Find; kObject has a type name and string keys only
// (Object{...}, JSONPatch{...}, a device).
//          Strings are UTF-8 that need not be valid; sizes and indices count code points.
// Threads  A value: may be shared for reading if the views behind it may.
class Value {
 public:
  enum class Kind : std::uint8_t {
    kNull,
    kBool,
    kInt,
    kUint,
    kDouble,
    kString,
    kBytes,
    kList,
    kMap,
    kObject,
    kTimestamp,
    kDuration,
    kType,
    kOptional,
    kQuantity,
    kSemver,
    kOpaque,
  };
  using Entries = std::vector<std::pair<Value, Value>>;

  Value() = default;  // null
  [[nodiscard]] static Value Null() { return {}; }
  [[nodiscard]] static Value Bool(bool value);
  [[nodiscard]] static Value Int(std::int64_t value);
  [[nodiscard]] static Value Uint(std::uint64_t value);
  [[nodiscard]] static Value Double(double value);
  [[nodiscard]] static Value String(std::string value);
  // Refers to text that outlives every copy of the value; nothing is allocated.
  [[nodiscard]] static Value BorrowedString(std::string_view value);
  [[nodiscard]] static Value Bytes(std::string value);
  [[nodiscard]] static Value List(std::vector<Value> items);
  [[nodiscard]] static Value List(std::shared_ptr<const ListView> view);
  // Entries keep their order. Of entries with equal keys the first one is found.
  [[nodiscard]] static Value Map(Entries entries);
  [[nodiscard]] static Value Map(std::shared_ptr<const MapView> view);
  [[nodiscard]] static Value Object(std::string type_name, Entries fields);
  [[nodiscard]] static Value Object(std::string type_name, std::shared_ptr<const MapView> fields);
  [[nodiscard]] static Value Timestamp(TimePoint value);
  // Beyond the years that TimePoint holds (1677..2262): seconds since 1970 and nanoseconds within
  // the second.
  [[nodiscard]] static Value Timestamp(std::int64_t seconds, std::int32_t nanos);
  [[nodiscard]] static Value FromDuration(Duration value);
  [[nodiscard]] static Value Type(std::string name);
  [[nodiscard]] static Value Some(Value value);
  [[nodiscard]] static Value None();
  [[nodiscard]] static Value FromQuantity(const Quantity& value);
  [[nodiscard]] static Value FromSemver(muster::cel::Semver value);
  [[nodiscard]] static Value FromOpaque(std::shared_ptr<const Opaque> value);

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] bool is(Kind kind) const { return kind_ == kind; }

  // Accessors: the kind must match, which is the caller's to check.
  [[nodiscard]] bool bool_value() const;
  [[nodiscard]] std::int64_t int_value() const;
  [[nodiscard]] std::uint64_t uint_value() const;
  [[nodiscard]] double double_value() const;
  [[nodiscard]] std::string_view string_value() const;  // kString, kBytes, kType
  [[nodiscard]] std::int64_t timestamp_seconds() const;
  [[nodiscard]] std::int32_t timestamp_nanos() const;
  [[nodiscard]] Duration duration_value() const;
  [[nodiscard]] const Quantity& quantity_value() const;
  [[nodiscard]] const muster::cel::Semver& semver_value() const;
  [[nodiscard]] const Opaque& opaque_value() const;
  [[nodiscard]] std::optional<Value> optional_value() const;
  [[nodiscard]] std::string_view object_type() const;  // kObject

  // Lists and maps.
  [[nodiscard]] std::size_t size() const;                                   // kList, kMap, kObject
  [[nodiscard]] Value At(std::size_t index) const;                          // kList, index < size()
  [[nodiscard]] std::vector<Value> Keys() const;                            // kMap, kObject
  [[nodiscard]] Result<std::optional<Value>> Find(const Value& key) const;  // kMap, kObject
  [[nodiscard]] Result<std::optional<Value>> Find(std::string_view key) const;
  [[nodiscard]] std::optional<Value> Default() const;  // of the view, see MapView

  // CEL equality: numbers compare across types, values of different types are unequal. Errors of
  // lazy entries make values unequal.
  friend bool operator==(const Value& a, const Value& b);

  // Name of the value's type as type() gives it: "int", "list", "google.protobuf.Timestamp",
  // "kubernetes.Quantity".
  [[nodiscard]] std::string_view TypeName() const;
  // For messages and tests: CEL-like text, maps in key order. Bounded in depth and length.
  [[nodiscard]] std::string DebugString() const;

 private:
  friend struct ValueInternals;
  Kind kind_ = Kind::kNull;
  std::int32_t small_ = 0;  // timestamp nanos
  union Bits {
    std::int64_t i = 0;
    std::uint64_t u;
    double d;
    const char* p;  // borrowed string; its length is in `size_`
  } bits_;
  std::size_t size_ = 0;
  std::shared_ptr<const void> rep_;
};

}  // namespace muster::cel
