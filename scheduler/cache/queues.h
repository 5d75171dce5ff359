#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/queueing.h"
#include "quota/tree.h"
#include "scheduler/cache/shapes.h"
#include "scheduler/cycle/snapshot.h"

// From the configured objects to what decisions run on.
namespace muster::scheduler {

struct QueueObjects {
  ByName<api::ResourceFlavor> flavors;
  ByName<api::Topology> topologies;
  ByName<api::AdmissionCheck> checks;
  ByName<api::Cohort> cohorts;
  ByName<api::ClusterQueue> cluster_queues;
};

struct Configuration {
  std::shared_ptr<const CompiledQueues> queues;
  quota::Forest ledger;                                          // without usage
  std::vector<std::shared_ptr<const quota::FairShares>> shares;  // by tree index
  // Root cohort (or queue without cohort) of each tree, by tree index, and a text that is equal as
  // long as nothing that matters to the decisions in the tree has changed.
  std::vector<std::string> roots;
  std::vector<std::string> fingerprints;
  std::vector<std::vector<std::string>> members;  // queue names
};

// `used`: rows that running work still uses.
// Cost     O(all configuration). Called when configuration changed, not when usage did.
[[nodiscard]] Configuration Compile(
    const QueueObjects& objects, std::vector<std::pair<std::string, quota::FlavorResource>> used);

// Capacity that the flavor asks for; anything but Fixed and Elastic is Auto.
[[nodiscard]] Capacity CapacityOf(const api::ResourceFlavor& flavor);

// Admission checks that apply to an admission with these flavors.
[[nodiscard]] std::vector<std::string> RequiredChecks(const api::ClusterQueue& queue,
                                                      const std::vector<std::string>& flavors);

}  // namespace muster::scheduler
