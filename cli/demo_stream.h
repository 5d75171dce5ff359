#pragma once

#include <cstdint>

#include "sim/scenario.h"

namespace muster::cli {

// The stream of gangs of the demo: training jobs of two teams, of many sizes, some on devices that
// are claimed through DRA.
//
// Shape    `jobs` Jobs, one every few seconds from the start; the same seed gives the same stream.
// Nodes of the demo come with it, because eight nodes and their slices are easier made than
// written.
void AddDemoCluster(sim::Scenario& scenario);
void AddDemoJobs(sim::Scenario& scenario, int jobs, std::uint64_t seed);

}  // namespace muster::cli
