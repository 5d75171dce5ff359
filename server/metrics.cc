#include "server/metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "base/log.h"
#include "base/strings.h"

namespace muster::server {
namespace {

using prometheus::Labels;
using scheduler::ResourceGauge;

enum class Type : std::uint8_t { kCounter, kGauge, kHistogram };
enum class Buckets : std::uint8_t { kNone, kDefault, kE14, kE16, kCreation };

// Every metric, in the order of this table.
enum class Id : std::uint8_t {
  kBuildInfo,
  kAdmissionAttempts,
  kAdmissionAttemptDuration,
  kQuotaReserved,
  kQuotaReservedWait,
  kAdmitted,
  kAdmissionWait,
  kChecksWait,
  kReadyWait,
  kAdmittedUntilReady,
  kFinished,
  kExecution,
  kEvicted,
  kEvictedOnce,
  kEvictionLatency,
  kPreempted,
  kPending,
  kFinishedGauge,
  kReserving,
  kAdmittedActive,
  kClusterQueueStatus,
  kWeightedShare,
  kResourceReservation,
  kResourceUsage,
  kNominal,
  kBorrowing,
  kLending,
  kCohortShare,
  kCreationLatency,
  kGateRemoval,
  kLqQuotaReserved,
  kLqQuotaReservedWait,
  kLqAdmitted,
  kLqAdmissionWait,
  kLqChecksWait,
  kLqReadyWait,
  kLqAdmittedUntilReady,
  kLqFinished,
  kLqExecution,
  kLqEvicted,
  kLqPending,
  kLqFinishedGauge,
  kLqReserving,
  kLqAdmittedActive,
  kLqStatus,
  kLqReservation,
  kLqUsage,
  kFlavorCapacity,
  kRejectedObjects,
  kDecisionDuration,
  kDecisions,
  kCount,
};

struct Row {
  Id id;
  Type type;
  const char* name;
  Buckets buckets;
  const char* labels;  // beside replica_role
  const char* help;
};

constexpr auto kCounter = Type::kCounter;
constexpr auto kGauge = Type::kGauge;
constexpr auto kHistogram = Type::kHistogram;
constexpr auto kNone = Buckets::kNone;

constexpr Row kTable[] = {
    {Id::kBuildInfo,
     kGauge,
     "kueue_build_info",
     kNone,
     "git_version,git_commit,build_date,go_version,compiler,platform",
     "Version of this program; always 1."},
    {Id::kAdmissionAttempts,
     kCounter,
     "kueue_admission_attempts_total",
     kNone,
     "result",
     "Decision rounds that had a Workload to look at; success if one was admitted."},
    {Id::kAdmissionAttemptDuration,
     kHistogram,
     "kueue_admission_attempt_duration_seconds",
     Buckets::kDefault,
     "result",
     "Duration of a decision round."},
    {Id::kQuotaReserved,
     kCounter,
     "kueue_quota_reserved_workloads_total",
     kNone,
     "cluster_queue,priority_class",
     "Workloads that got quota."},
    {Id::kQuotaReservedWait,
     kHistogram,
     "kueue_quota_reserved_wait_time_seconds",
     Buckets::kE14,
     "cluster_queue,priority_class",
     "Time from queued to quota."},
    {Id::kAdmitted,
     kCounter,
     "kueue_admitted_workloads_total",
     kNone,
     "cluster_queue,priority_class",
     "Workloads that were admitted."},
    {Id::kAdmissionWait,
     kHistogram,
     "kueue_admission_wait_time_seconds",
     Buckets::kE16,
     "cluster_queue,priority_class",
     "Time from queued to admitted."},
    {Id::kChecksWait,
     kHistogram,
     "kueue_admission_checks_wait_time_seconds",
     Buckets::kE14,
     "cluster_queue,priority_class",
     "Time from quota to admitted."},
    {Id::kReadyWait,
     kHistogram,
     "kueue_ready_wait_time_seconds",
     Buckets::kE14,
     "cluster_queue,priority_class",
     "Time from queued to all pods ready."},
    {Id::kAdmittedUntilReady,
     kHistogram,
     "kueue_admitted_until_ready_wait_time_seconds",
     Buckets::kE14,
     "cluster_queue,priority_class",
     "Time from admitted to all pods ready."},
    {Id::kFinished,
     kCounter,
     "kueue_finished_workloads_total",
     kNone,
     "cluster_queue,priority_class",
     "Workloads that finished."},
    {Id::kExecution,
     kHistogram,
     "kueue_execution_time_seconds",
     Buckets::kE16,
     "cluster_queue,priority_class",
     "Time that finished Workloads have run."},
    {Id::kEvicted,
     kCounter,
     "kueue_evicted_workloads_total",
     kNone,
     "cluster_queue,reason,underlying_cause,priority_class",
     "Evictions."},
    {Id::kEvictedOnce,
     kCounter,
     "kueue_evicted_workloads_once_total",
     kNone,
     "cluster_queue,reason,underlying_cause,priority_class",
     "Workloads evicted for the first time with this reason."},
    {Id::kEvictionLatency,
     kHistogram,
     "kueue_workload_eviction_latency_seconds",
     Buckets::kE14,
     "cluster_queue,reason",
     "Time from eviction until the quota was free."},
    {Id::kPreempted,
     kCounter,
     "kueue_preempted_workloads_total",
     kNone,
     "preempting_cluster_queue,reason",
     "Preemptions by the queue that gained."},
    {Id::kPending,
     kGauge,
     "kueue_pending_workloads",
     kNone,
     "cluster_queue,status",
     "Waiting Workloads; inadmissible ones wait for a change."},
    {Id::kFinishedGauge,
     kGauge,
     "kueue_finished_workloads",
     kNone,
     "cluster_queue",
     "Finished Workloads that still exist."},
    {Id::kReserving,
     kGauge,
     "kueue_reserving_active_workloads",
     kNone,
     "cluster_queue",
     "Workloads that hold quota."},
    {Id::kAdmittedActive,
     kGauge,
     "kueue_admitted_active_workloads",
     kNone,
     "cluster_queue",
     "Admitted Workloads that have not finished."},
    {Id::kClusterQueueStatus,
     kGauge,
     "kueue_cluster_queue_status",
     kNone,
     "cluster_queue,status",
     "1 on the state that the ClusterQueue is in."},
    {Id::kWeightedShare,
     kGauge,
     "kueue_cluster_queue_weighted_share",
     kNone,
     "cluster_queue,cohort",
     "Weighted share of borrowed quota; NaN when infinite."},
    {Id::kResourceReservation,
     kGauge,
     "kueue_cluster_queue_resource_reservation",
     kNone,
     "cohort,cluster_queue,flavor,resource",
     "Quota held."},
    {Id::kResourceUsage,
     kGauge,
     "kueue_cluster_queue_resource_usage",
     kNone,
     "cohort,cluster_queue,flavor,resource",
     "Quota held by admitted Workloads."},
    {Id::kNominal,
     kGauge,
     "kueue_cluster_queue_nominal_quota",
     kNone,
     "cohort,cluster_queue,flavor,resource",
     "Nominal quota."},
    {Id::kBorrowing,
     kGauge,
     "kueue_cluster_queue_borrowing_limit",
     kNone,
     "cohort,cluster_queue,flavor,resource",
     "Borrowing limit; +Inf without one."},
    {Id::kLending,
     kGauge,
     "kueue_cluster_queue_lending_limit",
     kNone,
     "cohort,cluster_queue,flavor,resource",
     "Lending limit; +Inf without one."},
    {Id::kCohortShare,
     kGauge,
     "kueue_cohort_weighted_share",
     kNone,
     "cohort",
     "Weighted share of borrowed quota; NaN when infinite."},
    {Id::kCreationLatency,
     kHistogram,
     "kueue_workload_creation_latency_seconds",
     Buckets::kCreation,
     "job_kind",
     "Time from the job's creation to its Workload's."},
    {Id::kGateRemoval,
     kHistogram,
     "kueue_pod_scheduling_gate_removal_seconds",
     Buckets::kDefault,
     "name,cluster_queue,is_group",
     "Time from admission to the removal of a pod's gate."},
    {Id::kLqQuotaReserved,
     kCounter,
     "kueue_local_queue_quota_reserved_workloads_total",
     kNone,
     "name,namespace,priority_class",
     "Workloads that got quota."},
    {Id::kLqQuotaReservedWait,
     kHistogram,
     "kueue_local_queue_quota_reserved_wait_time_seconds",
     Buckets::kE14,
     "name,namespace,priority_class",
     "Time from queued to quota."},
    {Id::kLqAdmitted,
     kCounter,
     "kueue_local_queue_admitted_workloads_total",
     kNone,
     "name,namespace,priority_class",
     "Workloads that were admitted."},
    {Id::kLqAdmissionWait,
     kHistogram,
     "kueue_local_queue_admission_wait_time_seconds",
     Buckets::kE14,
     "name,namespace,priority_class",
     "Time from queued to admitted."},
    {Id::kLqChecksWait,
     kHistogram,
     "kueue_local_queue_admission_checks_wait_time_seconds",
     Buckets::kE14,
     "name,namespace,priority_class",
     "Time from quota to admitted."},
    {Id::kLqReadyWait,
     kHistogram,
     "kueue_local_queue_ready_wait_time_seconds",
     Buckets::kE14,
     "name,namespace,priority_class",
     "Time from queued to all pods ready."},
    {Id::kLqAdmittedUntilReady,
     kHistogram,
     "kueue_local_queue_admitted_until_ready_wait_time_seconds",
     Buckets::kE14,
     "name,namespace,priority_class",
     "Time from admitted to all pods ready."},
    {Id::kLqFinished,
     kCounter,
     "kueue_local_queue_finished_workloads_total",
     kNone,
     "name,namespace,priority_class",
     "Workloads that finished."},
    {Id::kLqExecution,
     kHistogram,
     "kueue_local_queue_execution_time_seconds",
     Buckets::kE16,
     "name,namespace,priority_class",
     "Time that finished Workloads have run."},
    {Id::kLqEvicted,
     kCounter,
     "kueue_local_queue_evicted_workloads_total",
     kNone,
     "name,namespace,reason,underlying_cause,priority_class",
     "Evictions."},
    {Id::kLqPending,
     kGauge,
     "kueue_local_queue_pending_workloads",
     kNone,
     "name,namespace,status",
     "Waiting Workloads; inadmissible ones wait for a change."},
    {Id::kLqFinishedGauge,
     kGauge,
     "kueue_local_queue_finished_workloads",
     kNone,
     "name,namespace",
     "Finished Workloads that still exist."},
    {Id::kLqReserving,
     kGauge,
     "kueue_local_queue_reserving_active_workloads",
     kNone,
     "name,namespace",
     "Workloads that hold quota."},
    {Id::kLqAdmittedActive,
     kGauge,
     "kueue_local_queue_admitted_active_workloads",
     kNone,
     "name,namespace",
     "Admitted Workloads that have not finished."},
    {Id::kLqStatus,
     kGauge,
     "kueue_local_queue_status",
     kNone,
     "name,namespace,active",
     "1 on the value of the condition Active."},
    {Id::kLqReservation,
     kGauge,
     "kueue_local_queue_resource_reservation",
     kNone,
     "name,namespace,flavor,resource",
     "Quota held."},
    {Id::kLqUsage,
     kGauge,
     "kueue_local_queue_resource_usage",
     kNone,
     "name,namespace,flavor,resource",
     "Quota held by admitted Workloads."},
    {Id::kFlavorCapacity,
     kGauge,
     "muster_flavor_capacity",
     kNone,
     "flavor,mode,why",
     "1 on how placement treats the flavor's nodes: Fixed or Elastic, and why."},
    {Id::kRejectedObjects,
     kCounter,
     "muster_rejected_objects_total",
     kNone,
     "kind",
     "Objects that could not be decoded and were skipped."},
    {Id::kDecisionDuration,
     kHistogram,
     "muster_decision_duration_seconds",
     Buckets::kDefault,
     "",
     "Time of one decision on the solver thread."},
    {Id::kDecisions,
     kCounter,
     "muster_decisions_total",
     kNone,
     "outcome",
     "Verdicts by outcome: admitted or refused."},
};

constexpr bool TableInOrder() {
  for (std::size_t i = 0; i < std::size(kTable); ++i) {
    if (static_cast<std::size_t>(kTable[i].id) != i) {
      return false;
    }
  }
  return std::size(kTable) == static_cast<std::size_t>(Id::kCount);
}
static_assert(TableInOrder());

// E(n) = 1, then 2.5 * 2^k for k = 0 .. n-2.
std::vector<double> Exponential(int count) {
  std::vector<double> out = {1};
  for (int k = 0; k + 1 < count; ++k) {
    out.push_back(std::ldexp(2.5, k));
  }
  return out;
}

std::vector<double> Bounds(Buckets buckets) {
  switch (buckets) {
    case Buckets::kNone:
      return {};
    case Buckets::kDefault:
      return {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};
    case Buckets::kE14:
      return Exponential(14);
    case Buckets::kE16:
      return Exponential(16);
    case Buckets::kCreation: {
      std::vector<double> out;
      constexpr int kCount = 11;
      for (int k = 0; k < kCount; ++k) {
        out.push_back(0.01 * std::ldexp(1, k));
      }
      return out;
    }
  }
  return {};
}

double Seconds(Duration duration) {
  return std::max(0.0, std::chrono::duration<double>(duration).count());
}

// cpu is told in cores, everything else in whole units; what no quota bounds is infinite.
double Told(const std::string& resource, Amount amount) {
  if (amount.unlimited()) {
    return std::numeric_limits<double>::infinity();
  }
  const auto value = static_cast<double>(amount.value());
  return resource == "cpu" ? value / 1000 : value;
}

double Told(const std::string& resource, const std::optional<Amount>& limit) {
  return limit ? Told(resource, *limit) : std::numeric_limits<double>::infinity();
}

double Share(std::int64_t share) {
  return share == std::numeric_limits<std::int64_t>::max()
             ? std::numeric_limits<double>::quiet_NaN()
             : static_cast<double>(share);
}

// Label values must be UTF-8 for Prometheus to read the page at all; names from the API always are.
Labels With(const Labels& a, const Labels& b) {
  Labels out = a;
  out.insert(b.begin(), b.end());
  return out;
}

using OwnerKey = std::string;
OwnerKey ClusterQueueOwner(const std::string& name) {
  return "cq/" + name;
}
OwnerKey LocalQueueOwner(const std::string& ns, const std::string& name) {
  return "lq/" + ns + "/" + name;
}
OwnerKey CohortOwner(const std::string& name) {
  return "cohort/" + name;
}
OwnerKey FlavorOwner(const std::string& name) {
  return "flavor/" + name;
}

}  // namespace

struct Metrics::Impl {
  explicit Impl(const MetricsOptions& o) : options(o) {
    role = options.leader_election ? "follower" : "standalone";
    Reset();
  }

  void Reset() {
    owners.clear();
    registry = std::make_unique<prometheus::Registry>(prometheus::Registry::InsertBehavior::Throw);
    for (std::size_t i = 0; i < std::size(kTable); ++i) {
      const Row& row = kTable[i];
      const Labels constant = row.id == Id::kBuildInfo ? Labels{} : Labels{{"replica_role", role}};
      Family& family = families[i];
      family = {};
      switch (row.type) {
        case Type::kCounter:
          family.counter =
              &prometheus::BuildCounter().Name(row.name).Help(row.help).Labels(constant).Register(
                  *registry);
          break;
        case Type::kGauge:
          family.gauge =
              &prometheus::BuildGauge().Name(row.name).Help(row.help).Labels(constant).Register(
                  *registry);
          break;
        case Type::kHistogram:
          family.histogram =
              &prometheus::BuildHistogram().Name(row.name).Help(row.help).Labels(constant).Register(
                  *registry);
          break;
      }
    }
    const BuildInfo& build = options.build;
    families[0]
        .gauge
        ->Add({{"git_version", build.version},
               {"git_commit", build.commit},
               {"build_date", build.date},
               {"go_version", ""},
               {"compiler", build.compiler},
               {"platform", build.platform}})
        .Set(1);
  }

  struct Family {
    prometheus::Family<prometheus::Counter>* counter = nullptr;
    prometheus::Family<prometheus::Gauge>* gauge = nullptr;
    prometheus::Family<prometheus::Histogram>* histogram = nullptr;
  };
  // The series of one queue, to be removed with it. Gauges are listed apart: a new report replaces
  // them.
  struct Series {
    std::set<std::pair<Id, prometheus::Counter*>> counters;
    std::set<std::pair<Id, prometheus::Histogram*>> histograms;
    std::map<std::pair<Id, Labels>, prometheus::Gauge*> gauges;
  };

  Family& At(Id id) { return families[static_cast<std::size_t>(id)]; }

  void Count(const OwnerKey& owner, Id id, const Labels& labels, double by = 1) {
    prometheus::Counter& counter = At(id).counter->Add(labels);
    counter.Increment(by);
    if (!owner.empty()) {
      owners[owner].counters.emplace(id, &counter);
    }
  }

  void Observe(const OwnerKey& owner, Id id, const Labels& labels, Duration duration) {
    const auto buckets = Bounds(kTable[static_cast<std::size_t>(id)].buckets);
    prometheus::Histogram& histogram = At(id).histogram->Add(labels, buckets);
    histogram.Observe(Seconds(duration));
    if (!owner.empty()) {
      owners[owner].histograms.emplace(id, &histogram);
    }
  }

  // Nothing if there is no such metric of that type.
  static const Row* FindRow(Type type, std::string_view full_name) {
    for (const Row& row : kTable) {
      if (row.type == type && row.name == full_name) {
        return &row;
      }
    }
    return nullptr;
  }

  static std::string Value(const Metrics::LabelList& labels, std::string_view name) {
    for (const auto& [key, value] : labels) {
      if (key == name) {
        return value;
      }
    }
    return {};
  }

  void Sample(const OwnerKey& owner, const Row& row, const Labels& labels, double value) {
    // Not a number and negative values, which only clocks that differ or a bug can make, count as
    // nothing.
    const double told = value > 0 ? value : 0;
    if (row.type == Type::kCounter) {
      Count(owner, row.id, labels, told);
    } else {
      Observe(
          owner,
          row.id,
          labels,
          std::chrono::duration_cast<Duration>(std::chrono::duration<double>(std::min(told, 1e9))));
    }
  }

  void Record(Type type, const std::string& name, const Metrics::LabelList& given, double value) {
    const Row* row = FindRow(type, "kueue_" + name);
    if (row == nullptr) {
      if (unknown.insert(name).second) {
        log::Warning("no such metric", {{"metric", name}});
      }
      return;
    }
    Labels labels;
    for (const std::string& key : Split(row->labels, ',')) {
      if (!key.empty()) {
        labels.emplace(key, Value(given, key));
      }
    }
    std::string queue = Value(given, "cluster_queue");
    if (queue.empty()) {
      queue = Value(given, "preempting_cluster_queue");
    }
    Sample(queue.empty() ? OwnerKey() : ClusterQueueOwner(queue), *row, labels, value);

    const std::string local_queue = Value(given, "local_queue");
    const std::string ns = Value(given, "namespace");
    const Row* local = FindRow(type, "kueue_local_queue_" + name);
    if (options.local_queues && local != nullptr && !local_queue.empty()) {
      Labels local_labels;
      for (const std::string& key : Split(local->labels, ',')) {
        local_labels.emplace(key, key == "name" ? local_queue : Value(given, key));
      }
      Sample(LocalQueueOwner(ns, local_queue), *local, local_labels, value);
    }
  }

  using GaugeValues = std::map<std::pair<Id, Labels>, double>;
  void Replace(const OwnerKey& owner, const GaugeValues& values) {
    Series& series = owners[owner];
    for (auto it = series.gauges.begin(); it != series.gauges.end();) {
      if (values.contains(it->first)) {
        ++it;
      } else {
        At(it->first.first).gauge->Remove(it->second);
        it = series.gauges.erase(it);
      }
    }
    for (const auto& [key, value] : values) {
      auto it = series.gauges.find(key);
      if (it == series.gauges.end()) {
        it = series.gauges.emplace(key, &At(key.first).gauge->Add(key.second)).first;
      }
      it->second->Set(value);
    }
  }

  void Remove(const OwnerKey& owner) {
    const auto it = owners.find(owner);
    if (it == owners.end()) {
      return;
    }
    for (const auto& [id, counter] : it->second.counters) {
      At(id).counter->Remove(counter);
    }
    for (const auto& [id, histogram] : it->second.histograms) {
      At(id).histogram->Remove(histogram);
    }
    for (const auto& [key, gauge] : it->second.gauges) {
      At(key.first).gauge->Remove(gauge);
    }
    owners.erase(it);
  }

  // One event of a Workload: for its ClusterQueue and, where switched on, its LocalQueue.
  void CountBoth(const scheduler::QueueRef& queue, Id cluster_id, Id local_id, const Labels& more) {
    Count(ClusterQueueOwner(queue.cluster_queue),
          cluster_id,
          With({{"cluster_queue", queue.cluster_queue}, {"priority_class", queue.priority_class}},
               more));
    if (Local(queue)) {
      Count(LocalQueueOwner(queue.ns, queue.local_queue), local_id, With(LocalLabels(queue), more));
    }
  }
  void ObserveBoth(const scheduler::QueueRef& queue,
                   Id cluster_id,
                   Id local_id,
                   Duration duration) {
    Observe(ClusterQueueOwner(queue.cluster_queue),
            cluster_id,
            {{"cluster_queue", queue.cluster_queue}, {"priority_class", queue.priority_class}},
            duration);
    if (Local(queue)) {
      Observe(LocalQueueOwner(queue.ns, queue.local_queue), local_id, LocalLabels(queue), duration);
    }
  }
  [[nodiscard]] bool Local(const scheduler::QueueRef& queue) const {
    return options.local_queues && !queue.local_queue.empty();
  }
  static Labels LocalLabels(const scheduler::QueueRef& queue) {
    return {{"name", queue.local_queue},
            {"namespace", queue.ns},
            {"priority_class", queue.priority_class}};
  }

  MetricsOptions options;
  std::string role;
  std::unique_ptr<prometheus::Registry> registry;
  std::array<Family, static_cast<std::size_t>(Id::kCount)> families;
  std::map<OwnerKey, Series> owners;
  std::set<std::string> unknown;
};

Metrics::Metrics(const MetricsOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Metrics::~Metrics() = default;

std::string Metrics::Text() const {
  const prometheus::TextSerializer serializer;
  return serializer.Serialize(impl_->registry->Collect());
}

void Metrics::RecordCount(const std::string& name, const LabelList& labels, double by) {
  impl_->Record(Type::kCounter, name, labels, by);
}

void Metrics::RecordSeconds(const std::string& name, const LabelList& labels, double seconds) {
  impl_->Record(Type::kHistogram, name, labels, seconds);
}

void Metrics::AdmissionAttempt(bool success, Duration took) {
  const Labels labels = {{"result", success ? "success" : "inadmissible"}};
  impl_->Count({}, Id::kAdmissionAttempts, labels);
  impl_->Observe({}, Id::kAdmissionAttemptDuration, labels, took);
}

void Metrics::QuotaReserved(const scheduler::QueueRef& queue, Duration since_queued) {
  impl_->CountBoth(queue, Id::kQuotaReserved, Id::kLqQuotaReserved, {});
  impl_->ObserveBoth(queue, Id::kQuotaReservedWait, Id::kLqQuotaReservedWait, since_queued);
}

void Metrics::Admitted(const scheduler::QueueRef& queue,
                       Duration since_queued,
                       std::optional<Duration> since_reserved) {
  impl_->CountBoth(queue, Id::kAdmitted, Id::kLqAdmitted, {});
  impl_->ObserveBoth(queue, Id::kAdmissionWait, Id::kLqAdmissionWait, since_queued);
  if (since_reserved) {
    impl_->ObserveBoth(queue, Id::kChecksWait, Id::kLqChecksWait, *since_reserved);
  }
}

void Metrics::PodsReady(const scheduler::QueueRef& queue,
                        Duration since_queued,
                        Duration since_admitted) {
  impl_->ObserveBoth(queue, Id::kReadyWait, Id::kLqReadyWait, since_queued);
  impl_->ObserveBoth(queue, Id::kAdmittedUntilReady, Id::kLqAdmittedUntilReady, since_admitted);
}

void Metrics::Finished(const scheduler::QueueRef& queue, Duration execution) {
  impl_->CountBoth(queue, Id::kFinished, Id::kLqFinished, {});
  impl_->ObserveBoth(queue, Id::kExecution, Id::kLqExecution, execution);
}

void Metrics::Evicted(const scheduler::QueueRef& queue,
                      const std::string& reason,
                      const std::string& underlying_cause,
                      bool first) {
  const Labels why = {{"reason", reason}, {"underlying_cause", underlying_cause}};
  impl_->CountBoth(queue, Id::kEvicted, Id::kLqEvicted, why);
  if (first) {
    impl_->Count(
        ClusterQueueOwner(queue.cluster_queue),
        Id::kEvictedOnce,
        With({{"cluster_queue", queue.cluster_queue}, {"priority_class", queue.priority_class}},
             why));
  }
}

void Metrics::EvictionDone(const std::string& cluster_queue,
                           const std::string& reason,
                           Duration took) {
  impl_->Observe(ClusterQueueOwner(cluster_queue),
                 Id::kEvictionLatency,
                 {{"cluster_queue", cluster_queue}, {"reason", reason}},
                 took);
}

void Metrics::Preempted(const std::string& preempting_cluster_queue, const std::string& reason) {
  impl_->Count(ClusterQueueOwner(preempting_cluster_queue),
               Id::kPreempted,
               {{"preempting_cluster_queue", preempting_cluster_queue}, {"reason", reason}});
}

void Metrics::WorkloadCreated(const std::string& job_kind, Duration since_job_created) {
  impl_->Observe({}, Id::kCreationLatency, {{"job_kind", job_kind}}, since_job_created);
}

void Metrics::GateRemoved(const std::string& gate,
                          const std::string& cluster_queue,
                          bool is_group,
                          Duration since_admitted) {
  impl_->Observe(
      ClusterQueueOwner(cluster_queue),
      Id::kGateRemoval,
      {{"name", gate}, {"cluster_queue", cluster_queue}, {"is_group", is_group ? "true" : "false"}},
      since_admitted);
}

void Metrics::SetClusterQueue(const std::string& name,
                              const scheduler::ClusterQueueGauges& gauges) {
  Impl::GaugeValues values;
  const Labels queue = {{"cluster_queue", name}};
  const auto set = [&](Id id, const Labels& labels, double value) {
    values[{id, With(queue, labels)}] = value;
  };
  set(Id::kPending, {{"status", "active"}}, static_cast<double>(gauges.pending_active));
  set(Id::kPending, {{"status", "inadmissible"}}, static_cast<double>(gauges.pending_inadmissible));
  set(Id::kFinishedGauge, {}, static_cast<double>(gauges.finished));
  set(Id::kReserving, {}, static_cast<double>(gauges.reserving));
  set(Id::kAdmittedActive, {}, static_cast<double>(gauges.admitted));
  const std::pair<const char*, scheduler::QueueState> states[] = {
      {"pending", scheduler::QueueState::kPending},
      {"active", scheduler::QueueState::kActive},
      {"terminating", scheduler::QueueState::kTerminating}};
  for (const auto& [text, state] : states) {
    set(Id::kClusterQueueStatus, {{"status", text}}, gauges.state == state ? 1 : 0);
  }
  if (gauges.weighted_share) {
    set(Id::kWeightedShare, {{"cohort", gauges.cohort}}, Share(*gauges.weighted_share));
  }
  if (impl_->options.cluster_queue_resources) {
    for (const ResourceGauge& r : gauges.resources) {
      const Labels row = {
          {"cohort", gauges.cohort}, {"flavor", r.flavor}, {"resource", r.resource}};
      set(Id::kResourceReservation, row, Told(r.resource, r.reserved));
      set(Id::kResourceUsage, row, Told(r.resource, r.used));
      set(Id::kNominal, row, Told(r.resource, r.nominal));
      set(Id::kBorrowing, row, Told(r.resource, r.borrowing_limit));
      set(Id::kLending, row, Told(r.resource, r.lending_limit));
    }
  }
  impl_->Replace(ClusterQueueOwner(name), values);
}

void Metrics::RemoveClusterQueue(const std::string& name) {
  impl_->Remove(ClusterQueueOwner(name));
}

void Metrics::SetLocalQueue(const std::string& ns,
                            const std::string& name,
                            const scheduler::LocalQueueGauges& gauges) {
  if (!impl_->options.local_queues) {
    return;
  }
  Impl::GaugeValues values;
  const Labels queue = {{"name", name}, {"namespace", ns}};
  const auto set = [&](Id id, const Labels& labels, double value) {
    values[{id, With(queue, labels)}] = value;
  };
  set(Id::kLqPending, {{"status", "active"}}, static_cast<double>(gauges.pending_active));
  set(Id::kLqPending,
      {{"status", "inadmissible"}},
      static_cast<double>(gauges.pending_inadmissible));
  set(Id::kLqFinishedGauge, {}, static_cast<double>(gauges.finished));
  set(Id::kLqReserving, {}, static_cast<double>(gauges.reserving));
  set(Id::kLqAdmittedActive, {}, static_cast<double>(gauges.admitted));
  const std::pair<const char*, scheduler::ActiveState> states[] = {
      {"True", scheduler::ActiveState::kTrue},
      {"False", scheduler::ActiveState::kFalse},
      {"Unknown", scheduler::ActiveState::kUnknown}};
  for (const auto& [text, state] : states) {
    set(Id::kLqStatus, {{"active", text}}, gauges.active == state ? 1 : 0);
  }
  for (const ResourceGauge& r : gauges.resources) {
    const Labels row = {{"flavor", r.flavor}, {"resource", r.resource}};
    set(Id::kLqReservation, row, Told(r.resource, r.reserved));
    set(Id::kLqUsage, row, Told(r.resource, r.used));
  }
  impl_->Replace(LocalQueueOwner(ns, name), values);
}

void Metrics::RemoveLocalQueue(const std::string& ns, const std::string& name) {
  impl_->Remove(LocalQueueOwner(ns, name));
}

void Metrics::SetCohortShare(const std::string& name, std::optional<std::int64_t> weighted_share) {
  Impl::GaugeValues values;
  if (weighted_share) {
    values[{Id::kCohortShare, {{"cohort", name}}}] = Share(*weighted_share);
  }
  impl_->Replace(CohortOwner(name), values);
}

void Metrics::RemoveCohort(const std::string& name) {
  impl_->Remove(CohortOwner(name));
}

void Metrics::SetFlavorCapacity(const std::string& flavor,
                                scheduler::FlavorCapacity mode,
                                const std::string& why) {
  impl_->Replace(FlavorOwner(flavor),
                 {{{Id::kFlavorCapacity,
                    {{"flavor", flavor},
                     {"mode", mode == scheduler::FlavorCapacity::kFixed ? "Fixed" : "Elastic"},
                     {"why", why}}},
                   1}});
}

void Metrics::RemoveFlavor(const std::string& flavor) {
  impl_->Remove(FlavorOwner(flavor));
}

void Metrics::ObjectRejected(const std::string& kind) {
  impl_->Count({}, Id::kRejectedObjects, {{"kind", kind}});
}

void Metrics::Decision(Duration took, std::int64_t admitted, std::int64_t refused) {
  impl_->Observe({}, Id::kDecisionDuration, {}, took);
  impl_->Count({},
               Id::kDecisions,
               {{"outcome", "admitted"}},
               static_cast<double>(std::max<std::int64_t>(0, admitted)));
  impl_->Count({},
               Id::kDecisions,
               {{"outcome", "refused"}},
               static_cast<double>(std::max<std::int64_t>(0, refused)));
}

void Metrics::SetLeader(bool leader) {
  const std::string role = leader ? "leader" : "follower";
  if (!impl_->options.leader_election || impl_->role == role) {
    return;
  }
  impl_->role = role;
  impl_->Reset();
}

}  // namespace muster::server
