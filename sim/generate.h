#pragma once

#include <cstdint>
#include <functional>

#include "base/prng.h"
#include "sim/local_transport.h"
#include "sim/scenario.h"

// Random worlds for properties and simulation. A seed makes the same world on any machine.
namespace muster::sim {

struct GenerateOptions {
  // Small worlds find most bugs and can be read; the sizes grow with this.
  int scale = 1;
  bool nodes = true;        // false: quota alone
  bool preemption = false;  // policies, weights and a cohort of cohorts
  bool changes = true;      // queues stopped and started, nodes cordoned, jobs deleted
};

// Queues in cohorts, nodes, and jobs that come over some minutes; every job has a run time, so that
// a healthy world empties itself of all that fits.
[[nodiscard]] Scenario GenerateScenario(Prng& prng, const GenerateOptions& options);

// Faults of every kind until `until`; none afterwards. `now` reads the virtual clock.
[[nodiscard]] std::function<Fault(const k8s::Request&)> GenerateFaults(
    std::uint64_t seed, std::function<TimePoint()> now, TimePoint until);

}  // namespace muster::sim
