#pragma once

#include <set>
#include <string>

#include "api/metadata.h"
#include "scheduler/controller_driver.h"
#include "server/metrics.h"

namespace muster::cli {

// Brings the gauges of all queues up to date from the controller's views; series of queues that are
// gone are removed. Called before each scrape, so that a steady state costs nothing in between.
class Gauges {
 public:
  explicit Gauges(server::Metrics& metrics) : metrics_(metrics) {}
  void Refresh(const scheduler::ControllerDriver& driver);

 private:
  server::Metrics& metrics_;
  std::set<std::string> cluster_queues_;
  std::set<api::ObjectKey> local_queues_;
};

}  // namespace muster::cli
