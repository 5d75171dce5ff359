#pragma once

#include "api/json.h"
#include "base/time.h"
#include "sim/registry.h"

// What the real server adds to objects of builtin kinds.
namespace muster::sim {

// Defaults of the versioned types: idempotent, on every decode.
void DefaultBuiltin(const ResourceInfo& resource, Json& object, TimePoint now);
// What is decided once, at creation: labels and selector of a Job, the phase of a pod, and the
// like. The object has its name and uid.
void PrepareCreate(const ResourceInfo& resource, Json& object, TimePoint now);
// Fields that follow others at every write.
void PrepareUpdate(const ResourceInfo& resource,
                   const std::string& subresource,
                   Json& object,
                   const Json& old,
                   TimePoint now);

}  // namespace muster::sim
