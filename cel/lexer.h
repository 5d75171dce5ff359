#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace muster::cel {

struct Token {
  enum class Kind : std::uint8_t {
    kEnd,
    kIdent,
    kInt,   // text: digits with an optional 0x
    kUint,  // the same without the u
    kDouble,
    kString,  // text: the decoded string
    kBytes,
    kSymbol,   // text: operator or punctuation
    kKeyword,  // in, true, false, null
  };
  Kind kind = Kind::kEnd;
  std::string text;
  std::uint32_t offset = 0;
};

// Why a text cannot be cut into tokens, and at which byte.
struct LexError {
  std::uint32_t offset = 0;
  std::string message;
};
// Cuts an expression into tokens; the last one is kEnd.
[[nodiscard]] std::expected<std::vector<Token>, LexError> Tokenize(std::string_view text);

}  // namespace muster::cel
