#pragma once

#include <memory>
#include <string>
#include <variant>

#include "api/batch.h"
#include "api/core.h"
#include "api/json.h"
#include "api/kind.h"
#include "api/metadata.h"
#include "api/queueing.h"
#include "api/resource.h"
#include "api/scheduling.h"
#include "base/result.h"

namespace muster::api {

template <typename T>
using Ptr = std::shared_ptr<const T>;

// One decoded, immutable object of any kind that Muster acts on. The alternatives are never null.
using Object = std::variant<Ptr<Namespace>,
                            Ptr<Node>,
                            Ptr<PriorityClass>,
                            Ptr<LimitRange>,
                            Ptr<RuntimeClass>,
                            Ptr<DeviceClass>,
                            Ptr<ResourceSlice>,
                            Ptr<DeviceTaintRule>,
                            Ptr<ResourceClaimTemplate>,
                            Ptr<ResourceClaim>,
                            Ptr<ResourceFlavor>,
                            Ptr<Topology>,
                            Ptr<AdmissionCheck>,
                            Ptr<WorkloadPriorityClass>,
                            Ptr<Cohort>,
                            Ptr<ClusterQueue>,
                            Ptr<LocalQueue>,
                            Ptr<Workload>,
                            Ptr<NativeWorkload>,
                            Ptr<PodGroup>,
                            Ptr<CompositePodGroup>,
                            Ptr<Job>,
                            Ptr<Pod>>;

[[nodiscard]] Kind KindOf(const Object& object);
[[nodiscard]] const ObjectMeta& MetaOf(const Object& object);

// Decodes one object as the API server sends it.
// Errors   kInvalid, naming kind, object and field path: `ResourceSlice "n1-gpu":
// spec.devices[3].capacity: …`. Unknown fields are ignored.
//          Wrong types and values out of range are errors; absent optional fields take the API's
//          defaults.
// Threads  Pure.
[[nodiscard]] Result<Object> Decode(Kind kind, const Json& json);

// For code that knows the kind: Decode<Workload>(json). Specialised for every struct in Object.
template <typename T>
[[nodiscard]] Result<Ptr<T>> DecodeAs(const Json& json);

// metadata alone, for error reports about objects that do not decode. Never fails; absent parts
// stay empty.
[[nodiscard]] ObjectMeta DecodeMetaLeniently(const Json& json);

}  // namespace muster::api
