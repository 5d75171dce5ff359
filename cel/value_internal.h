#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "cel/value.h"

// What the evaluator needs of values beyond their public face.
namespace muster::cel {

// Equality that counts its work in `steps`, because values may share their parts and be
// exponentially larger than they look. Once `steps` is below zero the answer means nothing and the
// caller must give up.
[[nodiscard]] bool EqualBounded(const Value& a, const Value& b, std::int64_t& steps);

// -1, 0, 1, or nothing where CEL has no order between the two (different types, NaN). Numbers
// compare across types.
[[nodiscard]] std::optional<int> CompareValues(const Value& a, const Value& b);

// Whether a value may be a key of a map: scalars, as upstream allows them.
[[nodiscard]] bool IsKey(const Value& value);

// A map of a literal: of equal keys the last one counts. Every key must be a key.
[[nodiscard]] Value MapOfLastKeys(Value::Entries entries);

// Code points of UTF-8; a byte that is not part of valid UTF-8 counts as one.
[[nodiscard]] std::size_t CodePoints(std::string_view text);
// Byte length of the code point at the start of `text` (not empty), and the code point itself
// (U+FFFD for a bad byte).
[[nodiscard]] std::size_t DecodeUtf8(std::string_view text, char32_t& point);
void AppendUtf8(std::string& out, char32_t point);
[[nodiscard]] bool IsValidUtf8(std::string_view text);

// The Timestamp range of CEL: year 1 to 9999.
inline constexpr std::int64_t kMinTimestampSeconds = -62'135'596'800;
inline constexpr std::int64_t kMaxTimestampSeconds = 253'402'300'799;

// RFC 3339 with as many fraction digits as needed, as Go's RFC3339Nano prints.
[[nodiscard]] std::string FormatTimestamp(std::int64_t seconds, std::int32_t nanos);
[[nodiscard]] Result<Value> ParseTimestamp(std::string_view text);
// Seconds with up to nine digits and "s", as protobuf's JSON form: "90s", "0.5s".
[[nodiscard]] std::string FormatSeconds(Duration duration);
// Shortest text that reads back as the same double, as Go's 'g' format prints.
[[nodiscard]] std::string FormatDouble(double value);

}  // namespace muster::cel
