#pragma once

#include <memory>

#include "sim/stand_ins.h"

namespace muster::sim {

// Makes claims from templates, for gated pods too, one a pod, or one a native PodGroup where the
// group asks for it; takes finished consumers out of claims, gives their devices back, and lets
// claims go with their pods.
[[nodiscard]] std::unique_ptr<StandIn> MakeResourceClaimController(ApiServer& server);

}  // namespace muster::sim
