#pragma once

#include <string>
#include <vector>

#include "api/json.h"
#include "sim/registry.h"

// The same object in another version or group.
namespace muster::sim {

// Core v1 events and events.k8s.io/v1 events are one storage; it holds the latter.
[[nodiscard]] Json EventToCore(const Json& event);
[[nodiscard]] Json EventFromCore(const Json& event);

// Paths that fieldSelector may name, metadata aside, in the form "spec.nodeName".
[[nodiscard]] std::vector<std::string> SelectableFields(const ResourceInfo& resource,
                                                        const ResourceVersionInfo& version);

}  // namespace muster::sim
