#pragma once

#include <string>

#include "base/result.h"
#include "cel/program.h"

// Compiled expressions, kept between servers and objects: a world in a test starts in milliseconds,
// and a thousand claims with one selector compile it once.
namespace muster::sim {

enum class ProgramKind : std::uint8_t {
  kCrdRule,
  kCrdMessage,
  kAdmissionBool,
  kAdmissionAny,
  kAdmissionMessage,
  kMutation,
  kDevice,
};

// Threads  Any; each has its own store.
[[nodiscard]] const Result<cel::Program>& CompileOnce(ProgramKind kind, const std::string& text);

}  // namespace muster::sim
