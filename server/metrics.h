#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scheduler/metrics_sink.h"

namespace muster::server {

struct BuildInfo {
  std::string version;
  std::string commit;
  std::string date;
  std::string compiler;
  std::string platform;
};

struct MetricsOptions {
  bool leader_election = true;           // false: replica_role is "standalone"
  bool local_queues = false;             // metrics.localQueueMetrics.enable
  bool cluster_queue_resources = false;  // metrics.enableClusterQueueResources
  BuildInfo build;
};

// The Prometheus series of the reference, name for name (kueue_*), and a few of Muster's own
// (muster_*).
//
// Shape    One table of names, help texts and buckets in metrics.cc. Every series but build_info
// carries replica_role; when the role
//          changes, series start anew under the new one.
// Threads  That of the controller; Text may be called from any thread only while nothing else is
// (so: from the same loop). Cost     A counter is one map lookup by labels. Removing a queue is
// O(series of that queue). Source   Kueue pkg/metrics/metrics.go.
class Metrics : public scheduler::MetricsSink {
 public:
  explicit Metrics(const MetricsOptions& options);
  ~Metrics() override;
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Prometheus text format 0.0.4.
  [[nodiscard]] std::string Text() const;

  // One sample by name, without the prefix kueue_, and label values by label name, as the
  // controller's effects carry them. Labels that the table does not know are dropped, missing ones
  // are "". With "local_queue" and "namespace" among them, the local_queue_* series moves too where
  // there is one. A name that is not in the table is reported once in the log.
  using LabelList = std::vector<std::pair<std::string, std::string>>;
  void RecordCount(const std::string& name, const LabelList& labels, double by = 1);
  void RecordSeconds(const std::string& name, const LabelList& labels, double seconds);

  void AdmissionAttempt(bool success, Duration took) override;
  void QuotaReserved(const scheduler::QueueRef& queue, Duration since_queued) override;
  void Admitted(const scheduler::QueueRef& queue,
                Duration since_queued,
                std::optional<Duration> since_reserved) override;
  void PodsReady(const scheduler::QueueRef& queue,
                 Duration since_queued,
                 Duration since_admitted) override;
  void Finished(const scheduler::QueueRef& queue, Duration execution) override;
  void Evicted(const scheduler::QueueRef& queue,
               const std::string& reason,
               const std::string& underlying_cause,
               bool first) override;
  void EvictionDone(const std::string& cluster_queue,
                    const std::string& reason,
                    Duration took) override;
  void Preempted(const std::string& preempting_cluster_queue, const std::string& reason) override;
  void WorkloadCreated(const std::string& job_kind, Duration since_job_created) override;
  void GateRemoved(const std::string& gate,
                   const std::string& cluster_queue,
                   bool is_group,
                   Duration since_admitted) override;
  void SetClusterQueue(const std::string& name,
                       const scheduler::ClusterQueueGauges& gauges) override;
  void RemoveClusterQueue(const std::string& name) override;
  void SetLocalQueue(const std::string& ns,
                     const std::string& name,
                     const scheduler::LocalQueueGauges& gauges) override;
  void RemoveLocalQueue(const std::string& ns, const std::string& name) override;
  void SetCohortShare(const std::string& name, std::optional<std::int64_t> weighted_share) override;
  void RemoveCohort(const std::string& name) override;
  void SetFlavorCapacity(const std::string& flavor,
                         scheduler::FlavorCapacity mode,
                         const std::string& why) override;
  void RemoveFlavor(const std::string& flavor) override;
  void ObjectRejected(const std::string& kind) override;
  void Decision(Duration took, std::int64_t admitted, std::int64_t refused) override;
  void SetLeader(bool leader) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::server
