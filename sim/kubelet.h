#pragma once

#include <memory>

#include "sim/stand_ins.h"

namespace muster::sim {

// Runs bound pods at once, for as long as sim.muster.dev/run says, and ends deleted ones after
// their grace. Without any Node in the scenario it runs every pod that no gate holds.
[[nodiscard]] std::unique_ptr<StandIn> MakeKubelet(ApiServer& server,
                                                   const StandInOptions& options);

}  // namespace muster::sim
