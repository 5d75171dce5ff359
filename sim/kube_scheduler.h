#pragma once

#include <memory>

#include "sim/stand_ins.h"

namespace muster::sim {

// Binds released pods as kube-scheduler would: filters, then the least allocated node, then the
// name; devices by its first fit. A native PodGroup is bound whole (its minCount at least) or not
// at all, and one gated member keeps all of it out.
[[nodiscard]] std::unique_ptr<StandIn> MakeKubeScheduler(ApiServer& server);

}  // namespace muster::sim
