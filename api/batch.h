#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/core.h"
#include "api/metadata.h"

namespace muster::api {

// batch/v1 Job: what the queue needs of it.
struct Job {
  ObjectMeta meta;
  std::optional<std::int32_t> parallelism;
  std::optional<std::int32_t> completions;
  std::optional<std::int32_t> backoff_limit;
  bool suspend = false;
  bool indexed = false;
  std::string managed_by;
  PodTemplate pod_template;

  // status
  std::vector<Condition> conditions;  // Complete, Failed, Suspended, ...
  bool started = false;               // status.startTime set
  std::int32_t active = 0;
  std::int32_t ready = 0;
  std::int32_t terminating = 0;
  std::int32_t succeeded = 0;
  std::int32_t failed = 0;
  std::string completed_indexes;  // "0-3,7"
  std::string failed_indexes;
  std::int32_t uncounted_succeeded = 0;  // length of uncountedTerminatedPods.succeeded
};

}  // namespace muster::api
