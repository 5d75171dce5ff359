#include "k8sclient/backoff.h"

#include <algorithm>

namespace muster::k8s {

Duration Backoff(const BackoffOptions& options, int attempt, Prng& prng) {
  const Duration::rep max = std::max<Duration::rep>(options.max.count(), 2);
  Duration::rep cap = std::clamp<Duration::rep>(options.first.count(), 2, max);
  for (int i = 1; i < attempt && cap < max; ++i) {
    cap = cap > max / 2 ? max : cap * 2;
  }
  const Duration::rep half = cap / 2;
  const auto spread = prng.Below(static_cast<std::uint64_t>(cap - half) + 1);
  return Duration(half + static_cast<Duration::rep>(spread));
}

}  // namespace muster::k8s
