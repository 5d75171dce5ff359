#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace muster::api {

using Json = nlohmann::json;

// An immutable piece of JSON shared by whoever needs it (a pod template, say). Never null where a
// field is documented as present.
using JsonPtr = std::shared_ptr<const Json>;

// Deeper documents are refused: copying and printing a value recurse once a level, and no
// Kubernetes object comes near.
inline constexpr std::size_t kMaxJsonDepth = 256;

// Reads one JSON document.
// Errors   kInvalid with the byte position, also for nesting beyond kMaxJsonDepth. A duplicate key
// keeps the last value.
[[nodiscard]] Result<Json> ParseJson(std::string_view text);

// True if `value` nests at most `limit` levels. Recursion is bounded by `limit`.
[[nodiscard]] bool DepthAtMost(const Json& value, std::size_t limit = kMaxJsonDepth);

// "an object", "a string", "an integer", ... for error texts.
[[nodiscard]] std::string_view TypeName(const Json& value);

// Compact text; bytes that are not UTF-8 become U+FFFD instead of an exception.
[[nodiscard]] std::string Dump(const Json& value);

}  // namespace muster::api
