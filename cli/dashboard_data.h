#pragma once

#include "server/pending_view.h"
#include "sim/live_world.h"

namespace muster::cli {

// What the dashboard of the demo shows: the controller's views, and the nodes and queues of its API
// server.
[[nodiscard]] server::DashboardData MakeDashboardData(sim::LiveWorld& world, TimePoint now);

}  // namespace muster::cli
