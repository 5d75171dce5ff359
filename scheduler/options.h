#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/metadata.h"
#include "api/quantity.h"
#include "base/time.h"

// The configuration, decoded (scheduler/config.h reads it from the reference's Configuration file).
// Every limit here has its reason.
namespace muster::scheduler {

enum class RequeuingTimestamp : std::uint8_t { kEviction, kCreation };

struct WaitForPodsReady {
  bool enabled = true;
  Duration timeout = std::chrono::minutes(30);
  std::optional<Duration> recovery_timeout;  // absent: as timeout
  bool block_admission = false;
  RequeuingTimestamp timestamp = RequeuingTimestamp::kEviction;
  std::optional<std::int32_t> backoff_limit_count;
  std::int32_t backoff_base_seconds = 60;
  std::int32_t backoff_max_seconds = 3600;
};

enum class TransformStrategy : std::uint8_t { kRetain, kReplace };
struct ResourceTransformation {
  std::string input;
  TransformStrategy strategy = TransformStrategy::kRetain;
  std::string multiply_by;
  std::map<std::string, api::Quantity, std::less<>> outputs;
};
struct DeviceClassMapping {
  std::string resource;  // quota resource
  std::vector<std::string> device_classes;
};
enum class UnmappedDeviceClasses : std::uint8_t { kWait, kIgnore };

struct Options {
  // Manager
  std::string namespace_name = "muster-system";
  bool leader_elect = true;
  std::string lease_name = "c1f6bfd2.kueue.x-k8s.io";
  Duration lease_duration = std::chrono::seconds(15);
  Duration renew_deadline = std::chrono::seconds(10);
  Duration retry_period = std::chrono::seconds(2);
  std::string metrics_bind_address = ":8080";
  std::string health_bind_address = ":8081";
  double client_qps = -1;  // < 0: no client-side limit
  std::int32_t client_burst = 0;
  bool enable_cluster_queue_resource_metrics = false;

  // Jobs
  bool manage_jobs_without_queue_name = false;
  api::LabelSelector managed_jobs_namespace_selector{
      .present = true,
      .match_labels = {},
      .match_expressions = {{.key = "kubernetes.io/metadata.name",
                             .op = "NotIn",
                             .values = {"kube-system", "kueue-system", "muster-system"}}}};
  std::vector<std::string> frameworks{"batch/job", "pod"};
  std::vector<std::string> label_keys_to_copy;
  WaitForPodsReady wait_for_pods_ready;
  std::optional<Duration> retain_finished;
  std::optional<Duration> retain_deactivated;

  // Quota
  bool ignore_undeclared_resources = false;  // resources.quotaCheckStrategy: IgnoreUndeclared
  std::vector<std::string> exclude_resource_prefixes;
  std::vector<ResourceTransformation> transformations;
  std::vector<DeviceClassMapping> device_class_mappings;
  UnmappedDeviceClasses unmapped_device_classes = UnmappedDeviceClasses::kWait;
  bool fair_sharing = false;
  // fairSharing.preemptionStrategies: which comes first, and whether LessThanInitialShare follows.
  bool fair_final_share_first = true;
  bool fair_initial_share_second = true;

  // ClusterQueue and LocalQueue status are written at most this often each (the reference batches
  // for one second too).
  Duration status_period = std::chrono::seconds(1);
};

}  // namespace muster::scheduler
