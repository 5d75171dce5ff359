#pragma once

#include "api/json.h"
#include "base/time.h"
#include "sim/failure.h"
#include "sim/registry.h"

// CustomResourceDefinition objects.
namespace muster::sim {

// The resource that a definition describes.
[[nodiscard]] Outcome<ResourceInfo> ResourceOf(const Json& definition);
// Sets status as the controllers of the real server would: names accepted, established.
void Establish(Json& definition, TimePoint now);

}  // namespace muster::sim
