#include "scheduler/config.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "base/strings.h"

namespace muster::scheduler {
namespace {

using api::Json;

constexpr std::array<std::string_view, 2> kFrameworks = {"batch/job", "pod"};
constexpr std::array<std::string_view, 16> kOtherFrameworks = {
    "kubeflow.org/mpijob",
    "kubeflow.org/paddlejob",
    "kubeflow.org/pytorchjob",
    "kubeflow.org/tfjob",
    "kubeflow.org/xgboostjob",
    "kubeflow.org/jaxjob",
    "ray.io/rayjob",
    "ray.io/raycluster",
    "ray.io/rayservice",
    "jobset.x-k8s.io/jobset",
    "trainer.kubeflow.org/trainjob",
    "workload.codeflare.dev/appwrapper",
    "sparkoperator.k8s.io/sparkapplication",
    "deployment",
    "statefulset",
    "leaderworkerset.x-k8s.io/leaderworkerset"};

// One object of the document: every key must be asked for, or it is unknown. The first error is
// kept.
class Section {
 public:
  Section(const Json& json, std::string path, LoadedConfig& out, std::string& error)
      : json_(json), path_(std::move(path)), out_(out), error_(error) {
    if (!json_.is_object() && !json_.is_null()) {
      Fail(path_.empty() ? "the document" : path_, "must be an object");
    }
  }
  ~Section() {
    if (!json_.is_object()) {
      return;
    }
    for (const auto& [key, value] : json_.items()) {
      if (!asked_.contains(key)) {
        Fail(At(key), "unknown field");
      }
    }
  }
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;

  void Fail(const std::string& path, const std::string& why) {
    if (error_.empty()) {
      error_ = path + ": " + why;
    }
  }
  [[nodiscard]] std::string At(std::string_view key) const {
    return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
  }

  // The member, or null.
  const Json& Get(const std::string& key) {
    static const Json kNull;
    asked_.insert(key);
    if (!json_.is_object()) {
      return kNull;
    }
    const auto it = json_.find(key);
    return it == json_.end() ? kNull : *it;
  }
  void NotImplemented(const std::string& key) {
    if (!Get(key).is_null()) {
      out_.not_implemented.push_back(At(key));
    }
  }
  void Bool(const std::string& key, bool& target) {
    const Json& value = Get(key);
    if (value.is_boolean()) {
      target = value.get<bool>();
    } else if (!value.is_null()) {
      Fail(At(key), "must be true or false");
    }
  }
  void String(const std::string& key, std::string& target) {
    const Json& value = Get(key);
    if (value.is_string()) {
      target = value.get<std::string>();
    } else if (!value.is_null()) {
      Fail(At(key), "must be a string");
    }
  }
  void Int32(const std::string& key, std::int32_t& target, std::int64_t minimum) {
    const Json& value = Get(key);
    if (value.is_null()) {
      return;
    }
    if (!value.is_number_integer() ||
        value.get<std::int64_t>() > std::numeric_limits<std::int32_t>::max() ||
        value.get<std::int64_t>() < std::numeric_limits<std::int32_t>::min()) {
      Fail(At(key), "must be an integer of 32 bits");
    } else if (value.get<std::int64_t>() < minimum) {
      Fail(At(key), "must be greater than or equal to " + std::to_string(minimum));
    } else {
      target = value.get<std::int32_t>();
    }
  }
  void Time(const std::string& key, Duration& target) {
    const Json& value = Get(key);
    if (value.is_null()) {
      return;
    }
    const auto parsed = value.is_string() ? ParseDuration(value.get<std::string>())
                                          : Result<Duration>(std::unexpected(Error::Invalid("")));
    if (!parsed) {
      Fail(At(key), "must be a duration such as \"5m\"");
    } else if (*parsed < Duration::zero()) {
      Fail(At(key), "must be greater than or equal to 0");
    } else {
      target = *parsed;
    }
  }
  void Strings(const std::string& key, std::vector<std::string>& target) {
    const Json& value = Get(key);
    if (value.is_null()) {
      return;
    }
    if (!value.is_array()) {
      Fail(At(key), "must be a list of strings");
      return;
    }
    std::vector<std::string> list;
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (!value[i].is_string()) {
        Fail(At(key) + "[" + std::to_string(i) + "]", "must be a string");
        return;
      }
      list.push_back(value[i].get<std::string>());
    }
    target = std::move(list);
  }

 private:
  const Json& json_;
  std::string path_;
  LoadedConfig& out_;
  std::string& error_;
  std::set<std::string> asked_;
};

void ReadSelector(Section& section,
                  const std::string& key,
                  api::LabelSelector& target,
                  LoadedConfig& out,
                  std::string& error) {
  const Json& value = section.Get(key);
  if (value.is_null()) {
    return;
  }
  api::LabelSelector selector;
  selector.present = true;
  Section body(value, section.At(key), out, error);
  const Json& labels = body.Get("matchLabels");
  if (!labels.is_null() && !labels.is_object()) {
    body.Fail(body.At("matchLabels"), "must be an object");
  } else if (labels.is_object()) {
    for (const auto& [name, label] : labels.items()) {
      if (!label.is_string()) {
        body.Fail(body.At("matchLabels") + "." + name, "must be a string");
        return;
      }
      selector.match_labels[name] = label.get<std::string>();
    }
  }
  const Json& expressions = body.Get("matchExpressions");
  if (!expressions.is_null() && !expressions.is_array()) {
    body.Fail(body.At("matchExpressions"), "must be a list");
  } else {
    for (std::size_t i = 0; expressions.is_array() && i < expressions.size(); ++i) {
      Section entry(
          expressions[i], body.At("matchExpressions") + "[" + std::to_string(i) + "]", out, error);
      api::LabelSelectorRequirement requirement;
      entry.String("key", requirement.key);
      entry.String("operator", requirement.op);
      entry.Strings("values", requirement.values);
      const bool listed = requirement.op == "In" || requirement.op == "NotIn";
      if (!listed && requirement.op != "Exists" && requirement.op != "DoesNotExist") {
        entry.Fail(entry.At("operator"), "not a valid selector operator");
      } else if (listed && requirement.values.empty()) {
        entry.Fail(entry.At("values"), "must be specified when `operator` is 'In' or 'NotIn'");
      } else if (!listed && !requirement.values.empty()) {
        entry.Fail(entry.At("values"),
                   "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
      }
      selector.match_expressions.push_back(std::move(requirement));
    }
  }
  target = std::move(selector);
}

void ReadResources(Section& section, LoadedConfig& out, std::string& error) {
  Options& options = out.options;
  std::string strategy;
  section.String("quotaCheckStrategy", strategy);
  if (strategy == "IgnoreUndeclared") {
    options.ignore_undeclared_resources = true;
  } else if (!strategy.empty() && strategy != "BlockUndeclared") {
    section.Fail(section.At("quotaCheckStrategy"),
                 "supported values: \"BlockUndeclared\", \"IgnoreUndeclared\"");
  }
  section.Strings("excludeResourcePrefixes", options.exclude_resource_prefixes);
  if (options.ignore_undeclared_resources && !options.exclude_resource_prefixes.empty()) {
    section.Fail(section.At("excludeResourcePrefixes"),
                 "cannot be used with quotaCheckStrategy IgnoreUndeclared");
  }
  const Json& transformations = section.Get("transformations");
  if (!transformations.is_null() && !transformations.is_array()) {
    section.Fail(section.At("transformations"), "must be a list");
  }
  std::set<std::string> inputs;
  for (std::size_t i = 0; transformations.is_array() && i < transformations.size(); ++i) {
    Section entry(transformations[i],
                  section.At("transformations") + "[" + std::to_string(i) + "]",
                  out,
                  error);
    ResourceTransformation item;
    entry.String("input", item.input);
    if (item.input.empty()) {
      entry.Fail(entry.At("input"), "must be specified");
    } else if (!inputs.insert(item.input).second) {
      entry.Fail(entry.At("input"), "Duplicate value: \"" + item.input + "\"");
    }
    std::string retain;
    entry.String("strategy", retain);
    if (retain == "Replace") {
      item.strategy = TransformStrategy::kReplace;
    } else if (!retain.empty() && retain != "Retain") {
      entry.Fail(entry.At("strategy"), "supported values: \"Retain\", \"Replace\"");
    }
    entry.String("multiplyBy", item.multiply_by);
    const Json& outputs = entry.Get("outputs");
    if (!outputs.is_null() && !outputs.is_object()) {
      entry.Fail(entry.At("outputs"), "must be an object");
    }
    static const Json kNone = Json::object();
    const Json& listed = outputs.is_object() ? outputs : kNone;
    for (const auto& [name, value] : listed.items()) {
      const auto quantity = api::Quantity::Parse(value.is_string()   ? value.get<std::string>()
                                                 : value.is_number() ? value.dump()
                                                                     : std::string());
      if (!quantity) {
        entry.Fail(entry.At("outputs") + "." + name, quantity.error().message);
      } else {
        item.outputs[name] = *quantity;
      }
    }
    options.transformations.push_back(std::move(item));
  }
  const Json& mappings = section.Get("deviceClassMappings");
  if (!mappings.is_null() && (!mappings.is_array() || mappings.size() > 16)) {
    section.Fail(section.At("deviceClassMappings"), "must be a list of at most 16 items");
  }
  std::set<std::string> names;
  for (std::size_t i = 0; mappings.is_array() && i < mappings.size(); ++i) {
    Section entry(
        mappings[i], section.At("deviceClassMappings") + "[" + std::to_string(i) + "]", out, error);
    DeviceClassMapping item;
    entry.String("name", item.resource);
    entry.Strings("deviceClassNames", item.device_classes);
    entry.NotImplemented("sources");
    if (item.resource.empty()) {
      entry.Fail(entry.At("name"), "must be specified");
    } else if (!names.insert(item.resource).second) {
      entry.Fail(entry.At("name"), "Duplicate value: \"" + item.resource + "\"");
    }
    if (item.device_classes.empty() || item.device_classes.size() > 8) {
      entry.Fail(entry.At("deviceClassNames"), "must have 1 to 8 items");
    }
    options.device_class_mappings.push_back(std::move(item));
  }
}

void ReadWaitForPodsReady(Section& section,
                          WaitForPodsReady& wait,
                          LoadedConfig& out,
                          std::string& error) {
  wait.enabled = true;
  section.Time("timeout", wait.timeout);
  if (wait.timeout == Duration::zero()) {
    wait.timeout = std::chrono::minutes(30);
  }
  section.Bool("blockAdmission", wait.block_admission);
  if (!section.Get("recoveryTimeout").is_null()) {
    Duration recovery{};
    section.Time("recoveryTimeout", recovery);
    wait.recovery_timeout = recovery;
  }
  Section strategy(section.Get("requeuingStrategy"), section.At("requeuingStrategy"), out, error);
  std::string timestamp;
  strategy.String("timestamp", timestamp);
  if (timestamp == "Creation") {
    wait.timestamp = RequeuingTimestamp::kCreation;
  } else if (!timestamp.empty() && timestamp != "Eviction") {
    strategy.Fail(strategy.At("timestamp"), "supported values: \"Eviction\", \"Creation\"");
  }
  if (!strategy.Get("backoffLimitCount").is_null()) {
    std::int32_t limit = 0;
    strategy.Int32("backoffLimitCount", limit, 0);
    wait.backoff_limit_count = limit;
  }
  strategy.Int32("backoffBaseSeconds", wait.backoff_base_seconds, 0);
  strategy.Int32("backoffMaxSeconds", wait.backoff_max_seconds, 0);
}

void ReadDocument(const Json& document, LoadedConfig& out, std::string& error) {
  Options& options = out.options;
  Section root(document, "", out, error);
  std::string api_version;
  std::string kind;
  root.String("apiVersion", api_version);
  root.String("kind", kind);
  if (api_version != "config.kueue.x-k8s.io/v1beta2") {
    root.Fail("apiVersion",
              "unsupported: \"" + api_version +
                  "\"; supported values: \"config.kueue.x-k8s.io/v1beta2\"");
  }
  if (kind != "Configuration") {
    root.Fail("kind", "must be Configuration");
  }
  root.NotImplemented("metadata");
  root.String("namespace", options.namespace_name);
  for (const char* key : {"webhook",
                          "pprofBindAddress",
                          "controller",
                          "tls",
                          "internalCertManagement",
                          "multiKueue",
                          "admissionFairSharing",
                          "featureGates",
                          "visibilityServer"}) {
    root.NotImplemented(key);
  }
  {
    Section leader(root.Get("leaderElection"), "leaderElection", out, error);
    leader.Bool("leaderElect", options.leader_elect);
    leader.Time("leaseDuration", options.lease_duration);
    leader.Time("renewDeadline", options.renew_deadline);
    leader.Time("retryPeriod", options.retry_period);
    leader.String("resourceName", options.lease_name);
    std::string lock = "leases";
    leader.String("resourceLock", lock);
    if (lock != "leases") {
      leader.Fail("leaderElection.resourceLock", "supported values: \"leases\"");
    }
    std::string ns;
    leader.String("resourceNamespace", ns);
    if (!ns.empty() && ns != options.namespace_name) {
      out.not_implemented.emplace_back("leaderElection.resourceNamespace");
    }
    if (options.lease_duration <= options.renew_deadline) {
      leader.Fail("leaderElection.leaseDuration", "must be greater than renewDeadline");
    } else if (options.renew_deadline <= options.retry_period) {
      leader.Fail("leaderElection.renewDeadline", "must be greater than retryPeriod");
    } else if (options.retry_period <= Duration::zero()) {
      leader.Fail("leaderElection.retryPeriod", "must be greater than 0");
    }
  }
  {
    Section metrics(root.Get("metrics"), "metrics", out, error);
    metrics.String("bindAddress", options.metrics_bind_address);
    metrics.Bool("enableClusterQueueResources", options.enable_cluster_queue_resource_metrics);
    metrics.NotImplemented("localQueueMetrics");
    metrics.NotImplemented("customLabels");
  }
  {
    Section health(root.Get("health"), "health", out, error);
    health.String("healthProbeBindAddress", options.health_bind_address);
    health.NotImplemented("readinessEndpointName");
    health.NotImplemented("livenessEndpointName");
  }
  {
    Section client(root.Get("clientConnection"), "clientConnection", out, error);
    const Json& qps = client.Get("qps");
    if (qps.is_number()) {
      options.client_qps = std::clamp(qps.get<double>(), -1.0, 1e6);
    } else if (!qps.is_null()) {
      client.Fail("clientConnection.qps", "must be a number");
    }
    client.Int32("burst", options.client_burst, 0);
  }
  root.Bool("manageJobsWithoutQueueName", options.manage_jobs_without_queue_name);
  ReadSelector(
      root, "managedJobsNamespaceSelector", options.managed_jobs_namespace_selector, out, error);
  for (const std::string& ns : {std::string("kube-system"), options.namespace_name}) {
    if (!root.Get("managedJobsNamespaceSelector").is_null() &&
        api::Matches(options.managed_jobs_namespace_selector,
                     {{"kubernetes.io/metadata.name", ns}})) {
      root.Fail("managedJobsNamespaceSelector", "should not match the \"" + ns + "\" namespace");
    }
  }
  {
    Section integrations(root.Get("integrations"), "integrations", out, error);
    std::vector<std::string> frameworks = options.frameworks;
    integrations.Strings("frameworks", frameworks);
    std::set<std::string> seen;
    std::vector<std::string> implemented;
    for (std::size_t i = 0; i < frameworks.size(); ++i) {
      const std::string& name = frameworks[i];
      const std::string path = "integrations.frameworks[" + std::to_string(i) + "]";
      if (!seen.insert(name).second) {
        integrations.Fail(path, "Duplicate value: \"" + name + "\"");
      } else if (std::ranges::find(kFrameworks, name) != kFrameworks.end()) {
        implemented.push_back(name);
      } else if (std::ranges::find(kOtherFrameworks, name) != kOtherFrameworks.end()) {
        out.not_implemented.push_back(path + " (" + name + ")");
      } else {
        integrations.Fail(path, "Unsupported value: \"" + name + "\"");
      }
    }
    options.frameworks = std::move(implemented);
    integrations.NotImplemented("externalFrameworks");
    integrations.NotImplemented("podOptions");
    integrations.Strings("labelKeysToCopy", options.label_keys_to_copy);
  }
  {
    Section wait(root.Get("waitForPodsReady"), "waitForPodsReady", out, error);
    ReadWaitForPodsReady(wait, options.wait_for_pods_ready, out, error);
  }
  {
    Section resources(root.Get("resources"), "resources", out, error);
    ReadResources(resources, out, error);
  }
  const Json& fair = root.Get("fairSharing");
  if (!fair.is_null()) {
    options.fair_sharing = true;
    Section section(fair, "fairSharing", out, error);
    std::vector<std::string> strategies;
    section.Strings("preemptionStrategies", strategies);
    if (strategies.empty()) {
      strategies = {"LessThanOrEqualToFinalShare", "LessThanInitialShare"};
    }
    const bool known = strategies == std::vector<std::string>{"LessThanOrEqualToFinalShare"} ||
                       strategies == std::vector<std::string>{"LessThanInitialShare"} ||
                       strategies == std::vector<std::string>{"LessThanOrEqualToFinalShare",
                                                              "LessThanInitialShare"};
    if (!known) {
      section.Fail(
          "fairSharing.preemptionStrategies",
          "must be [LessThanOrEqualToFinalShare], [LessThanInitialShare], or both in that order");
    } else {
      options.fair_final_share_first = strategies.front() == "LessThanOrEqualToFinalShare";
      options.fair_initial_share_second = strategies.size() == 2;
    }
  }
  {
    Section retention(root.Get("objectRetentionPolicies"), "objectRetentionPolicies", out, error);
    Section workloads(retention.Get("workloads"), "objectRetentionPolicies.workloads", out, error);
    for (const auto& [key, target] :
         {std::pair("afterFinished", &options.retain_finished),
          std::pair("afterDeactivatedByKueue", &options.retain_deactivated)}) {
      if (!workloads.Get(key).is_null()) {
        Duration value{};
        workloads.Time(key, value);
        *target = value;
      }
    }
  }
  {
    Section own(root.Get("muster"), "muster", out, error);
    std::string unmapped;
    own.String("unmappedDeviceClasses", unmapped);
    if (unmapped == "Ignore") {
      options.unmapped_device_classes = UnmappedDeviceClasses::kIgnore;
    } else if (!unmapped.empty() && unmapped != "Wait") {
      own.Fail("muster.unmappedDeviceClasses", "supported values: \"Wait\", \"Ignore\"");
    }
    own.Time("statusPeriod", options.status_period);
  }
}

}  // namespace

Result<LoadedConfig> ReadConfiguration(const api::Json& document) {
  LoadedConfig out;
  std::string error;
  if (!document.is_object()) {
    return std::unexpected(Error::Invalid("Configuration: the document must be an object"));
  }
  ReadDocument(document, out, error);
  if (!error.empty()) {
    return std::unexpected(Error::Invalid("Configuration: " + error));
  }
  std::ranges::sort(out.not_implemented);
  return out;
}

}  // namespace muster::scheduler
