#pragma once

#include <memory>

#include "sim/stand_ins.h"

namespace muster::sim {

// Follows owner references as the propagation asked for says (background, foreground, orphan),
// drops the pods of deleted nodes, and empties namespaces that are being deleted.
[[nodiscard]] std::unique_ptr<StandIn> MakeGarbageCollector(ApiServer& server);

}  // namespace muster::sim
