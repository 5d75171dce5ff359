#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace muster::internal {

void CheckFailed(const char* expression, const std::source_location& where) {
  // stderr directly: the logger may be what is broken.
  (void)std::fprintf(stderr,
                     "MUSTER_CHECK failed: %s at %s:%u in %s\n",
                     expression,
                     where.file_name(),
                     static_cast<unsigned>(where.line()),
                     where.function_name());
  std::abort();
}

}  // namespace muster::internal
