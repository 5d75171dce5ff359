#pragma once

#include "api/json.h"
#include "sim/failure.h"

// The patch formats of the API server.
namespace muster::sim {

class Schema;

inline constexpr std::size_t kMaxJsonPatchOperations = 10'000;
inline constexpr int kMaxJsonDepth = 256;

// RFC 7386.
void ApplyMergePatch(Json& target, const Json& patch);
// RFC 6902. The error is what the real server's library says.
[[nodiscard]] std::expected<void, std::string> ApplyJsonPatch(Json& target, const Json& operations);
// A strategic merge patch by the merge keys of `schema` (which may be null: then lists are
// replaced).
[[nodiscard]] std::expected<void, std::string> ApplyStrategicPatch(Json& target,
                                                                   const Json& patch,
                                                                   const Schema* schema);

// Parses JSON from outside: bounded depth, no exceptions. A discarded value means that the text is
// not JSON.
[[nodiscard]] Json ParseJson(std::string_view text);

}  // namespace muster::sim
