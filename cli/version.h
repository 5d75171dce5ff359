#pragma once

namespace muster::cli {

inline constexpr const char* kVersion = "muster 0.1.0";

}  // namespace muster::cli
