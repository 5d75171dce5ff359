#pragma once

#include <memory>

#include "sim/stand_ins.h"

namespace muster::sim {

// batch/v1 Jobs: pods up to parallelism, completions, indexes, suspend and resume, retries with
// backoff and their limits, deadlines. Jobs of another managedBy are left alone.
[[nodiscard]] std::unique_ptr<StandIn> MakeJobController(ApiServer& server);

}  // namespace muster::sim
