#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/amount.h"
#include "base/time.h"

// What the scheduler has to tell about itself, one call for each thing that happens. server/metrics
// turns it into Prometheus series; tests pass a recorder; MetricsSink itself ignores everything.
namespace muster::scheduler {

struct QueueRef {
  std::string cluster_queue;
  std::string local_queue;  // empty: unknown
  std::string ns;
  std::string priority_class;  // name in the Workload's priorityClassRef, or empty
};

// One (flavor, resource) of a queue. cpu in millicores, as everywhere.
struct ResourceGauge {
  std::string flavor;
  std::string resource;
  Amount reserved;
  Amount used;
  Amount nominal;
  std::optional<Amount> borrowing_limit;  // absent: no limit
  std::optional<Amount> lending_limit;
};

enum class QueueState : std::uint8_t { kPending, kActive, kTerminating };

struct ClusterQueueGauges {
  std::string cohort;
  QueueState state = QueueState::kPending;
  std::int64_t pending_active = 0;
  std::int64_t pending_inadmissible = 0;
  std::int64_t reserving = 0;
  std::int64_t admitted = 0;
  std::int64_t finished = 0;
  std::optional<std::int64_t>
      weighted_share;  // the largest int64 stands for infinite; absent without fair sharing
  std::vector<ResourceGauge> resources;
};

enum class ActiveState : std::uint8_t { kTrue, kFalse, kUnknown };

struct LocalQueueGauges {
  ActiveState active = ActiveState::kUnknown;
  std::int64_t pending_active = 0;
  std::int64_t pending_inadmissible = 0;
  std::int64_t reserving = 0;
  std::int64_t admitted = 0;
  std::int64_t finished = 0;
  std::vector<ResourceGauge> resources;  // reserved and used only
};

enum class FlavorCapacity : std::uint8_t { kFixed, kElastic };

// Durations below zero, which come of clocks that differ, count as 0.
//
// Threads  One: the controller's.
class MetricsSink {
 public:
  virtual ~MetricsSink() = default;

  // A decision round with at least one Workload to look at; success means that it admitted one.
  virtual void AdmissionAttempt(bool /*success*/, Duration /*took*/) {}
  virtual void QuotaReserved(const QueueRef& /*queue*/, Duration /*since_queued*/) {}
  // `since_reserved` only with admission checks.
  virtual void Admitted(const QueueRef& /*queue*/,
                        Duration /*since_queued*/,
                        std::optional<Duration> /*since_reserved*/) {}
  virtual void PodsReady(const QueueRef& /*queue*/,
                         Duration /*since_queued*/,
                         Duration /*since_admitted*/) {}
  virtual void Finished(const QueueRef& /*queue*/, Duration /*execution*/) {}
  // `first` unless schedulingStats had such an eviction before.
  virtual void Evicted(const QueueRef& /*queue*/,
                       const std::string& /*reason*/,
                       const std::string& /*underlying_cause*/,
                       bool /*first*/) {}
  // Evicted until the quota was given back.
  virtual void EvictionDone(const std::string& /*cluster_queue*/,
                            const std::string& /*reason*/,
                            Duration /*took*/) {}
  virtual void Preempted(const std::string& /*preempting_cluster_queue*/,
                         const std::string& /*reason*/) {}
  virtual void WorkloadCreated(const std::string& /*job_kind*/, Duration /*since_job_created*/) {}
  virtual void GateRemoved(const std::string& /*gate*/,
                           const std::string& /*cluster_queue*/,
                           bool /*is_group*/,
                           Duration /*since_admitted*/) {}

  // Gauges replace what was told before about the same queue; series that are no longer named go.
  virtual void SetClusterQueue(const std::string& /*name*/, const ClusterQueueGauges& /*gauges*/) {}
  virtual void RemoveClusterQueue(const std::string& /*name*/) {}
  virtual void SetLocalQueue(const std::string& /*ns*/,
                             const std::string& /*name*/,
                             const LocalQueueGauges& /*gauges*/) {}
  virtual void RemoveLocalQueue(const std::string& /*ns*/, const std::string& /*name*/) {}
  virtual void SetCohortShare(const std::string& /*name*/,
                              std::optional<std::int64_t> /*weighted_share*/) {}
  virtual void RemoveCohort(const std::string& /*name*/) {}

  // Muster's own.
  virtual void SetFlavorCapacity(const std::string& /*flavor*/,
                                 FlavorCapacity /*mode*/,
                                 const std::string& /*why*/) {}
  virtual void RemoveFlavor(const std::string& /*flavor*/) {}
  virtual void ObjectRejected(const std::string& /*kind*/) {}  // could not be decoded
  virtual void Decision(Duration /*took*/, std::int64_t /*admitted*/, std::int64_t /*refused*/) {}
  virtual void SetLeader(bool /*leader*/) {}
};

}  // namespace muster::scheduler
