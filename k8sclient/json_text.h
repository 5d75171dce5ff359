#pragma once

#include <cstddef>
#include <string_view>

#include "api/json.h"
#include "base/result.h"

namespace muster::k8s {

// Nesting that is still read. Objects of Kubernetes nest some 20 deep; nlohmann's copy and dump
// recurse per level.
inline constexpr std::size_t kMaxJsonDepth = 200;

// Reads JSON that came from outside.
// Errors   kInvalid: not JSON, or nested deeper than kMaxJsonDepth. The message names the byte
// offset, never the content.
[[nodiscard]] Result<api::Json> ParseJson(std::string_view text);

}  // namespace muster::k8s
