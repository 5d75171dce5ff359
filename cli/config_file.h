#pragma once

#include <optional>
#include <string>

#include "api/json.h"
#include "base/result.h"
#include "scheduler/options.h"

namespace muster::cli {

// Reads the Configuration from `path` (YAML); an empty path gives `fallback`, or the defaults
// without one. Keys that are known but not implemented are named in one warning. Errors   kInvalid,
// naming file and key.
[[nodiscard]] Result<scheduler::Options> LoadOptions(const std::string& path,
                                                     const std::optional<api::Json>& fallback);

}  // namespace muster::cli
