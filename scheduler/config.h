#pragma once

#include <string>
#include <vector>

#include "api/json.h"
#include "base/result.h"
#include "scheduler/options.h"

namespace muster::scheduler {

struct LoadedConfig {
  Options options;
  // Keys that the reference knows and we do not implement, as paths, sorted: for one warning at
  // start.
  std::vector<std::string> not_implemented;
};

// Reads a config.kueue.x-k8s.io/v1beta2 Configuration. Our own keys live under `muster`.
// Errors   kInvalid, naming the path: an unknown key, a wrong type, a value that the reference
// refuses, another apiVersion or kind. Source   Kueue apis/config/v1beta2,
// pkg/config/validation.go.
[[nodiscard]] Result<LoadedConfig> ReadConfiguration(const api::Json& document);

}  // namespace muster::scheduler
