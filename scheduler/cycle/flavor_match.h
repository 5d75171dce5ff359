#pragma once

#include <optional>
#include <string>

#include "api/core.h"
#include "api/queueing.h"

namespace muster::scheduler {

// Whether pods of this spec may run on nodes of `flavor`, judged by the flavor's own labels and
// taints. Empty when they may, else the reason in the words of the reference: "untolerated taint {k
// v NoSchedule <nil>} in flavor f", "flavor f doesn't match node affinity".
//
// Source   Taints NoSchedule and NoExecute need a toleration of the pod or of the flavor. Of
// selectors and required affinity only the keys that
//          the flavor itself labels are judged; the rest is left to the nodes. A term that becomes
//          empty so drops the affinity as a whole.
[[nodiscard]] std::optional<std::string> FlavorMismatch(const api::ResourceFlavor& flavor,
                                                        const api::PodSpec& spec);

}  // namespace muster::scheduler
