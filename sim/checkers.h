#pragma once

#include <string>
#include <vector>

#include "sim/world.h"

// What must hold in every world. Each answer is a list of sentences; empty means that all is well.
namespace muster::sim {

// At every instant: quota limits hold, no node is overbooked, no gang is partly released, no
// Workload is charged twice.
[[nodiscard]] std::vector<std::string> CheckSafety(World& world);

// At the end, when nothing can happen any more: nobody waits who would fit, every admitted job
// runs, what is finished holds nothing.
[[nodiscard]] std::vector<std::string> CheckAtRest(World& world, const scheduler::Options& options);

}  // namespace muster::sim
