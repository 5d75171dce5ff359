#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

#include "cel/ast.h"

namespace muster::cel {

// Where and why a text is not an expression.
struct SourceError {
  std::uint32_t offset = 0;
  std::string message;
};

// Reads an expression and expands its macros. `bindings` allows cel.bind.
// Cost     Linear in the text; recursion is bounded by kMaxDepth.
[[nodiscard]] std::expected<NodePtr, SourceError> Parse(std::string_view text, bool bindings);

}  // namespace muster::cel
