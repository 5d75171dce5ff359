#pragma once

#include <chrono>

#include "base/prng.h"
#include "base/time.h"

namespace muster::k8s {

struct BackoffOptions {
  Duration first = std::chrono::milliseconds(250);
  Duration max = std::chrono::seconds(30);
};

// Delay before retry number `attempt` (1, 2, …): doubles up to the maximum, and lies anywhere
// between half of that and all of it, so that clients which failed together do not come back
// together.
[[nodiscard]] Duration Backoff(const BackoffOptions& options, int attempt, Prng& prng);

}  // namespace muster::k8s
