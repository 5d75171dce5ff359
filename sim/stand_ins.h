#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/time.h"
#include "sim/api_server.h"

// What a cluster has besides its API server and Muster, imitated closely enough for jobs to run:
// job controller, kube-scheduler, kubelet, resource claim controller, garbage collector.
namespace muster::sim {

// One of them.
//
// Threads  One.
class StandIn {
 public:
  virtual ~StandIn() = default;
  // Does all that is due; true if it changed anything. Level-triggered: what it left undone it
  // finds again.
  virtual bool Step(TimePoint now) = 0;
  // When time alone will give it something to do.
  [[nodiscard]] virtual std::optional<TimePoint> NextWake() const = 0;
};

struct StandInOptions {
  // The scenario has no Node at all: every released pod runs at once, on a machine without limits
  // that is no API object.
  bool no_nodes = false;
};

// All stand-ins, in the order in which they step.
[[nodiscard]] std::vector<std::unique_ptr<StandIn>> MakeStandIns(ApiServer& server,
                                                                 const StandInOptions& options);

}  // namespace muster::sim
