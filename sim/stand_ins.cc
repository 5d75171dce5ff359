#include "sim/stand_ins.h"

#include "sim/garbage_collector.h"
#include "sim/job_controller.h"
#include "sim/kube_scheduler.h"
#include "sim/kubelet.h"
#include "sim/resource_claim_controller.h"

namespace muster::sim {

std::vector<std::unique_ptr<StandIn>> MakeStandIns(ApiServer& server,
                                                   const StandInOptions& options) {
  std::vector<std::unique_ptr<StandIn>> out;
  // What ends comes before what starts, so that room freed at an instant can be used at it.
  out.push_back(MakeKubelet(server, options));
  out.push_back(MakeGarbageCollector(server));
  out.push_back(MakeJobController(server));
  out.push_back(MakeResourceClaimController(server));
  if (!options.no_nodes) {
    out.push_back(MakeKubeScheduler(server));
  }
  return out;
}

}  // namespace muster::sim
