#pragma once

#include <source_location>

namespace muster::internal {
[[noreturn]] void CheckFailed(const char* expression, const std::source_location& where);
}  // namespace muster::internal

// A broken invariant is a bug: the process stops in every build, and a restart rebuilds all state
// from the API server. Nothing that arrives from outside may reach a MUSTER_CHECK.
#define MUSTER_CHECK(expression)                                                     \
  do {                                                                               \
    if (!(expression)) [[unlikely]] {                                                \
      ::muster::internal::CheckFailed(#expression, std::source_location::current()); \
    }                                                                                \
  } while (false)
