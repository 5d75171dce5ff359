#pragma once

#include <map>
#include <optional>
#include <string>

#include "api/core.h"
#include "api/queueing.h"
#include "api/resource.h"
#include "scheduler/cycle/plan.h"
#include "scheduler/cycle/shape.h"
#include "scheduler/options.h"

namespace muster::scheduler {

template <typename T>
using ByName = std::map<std::string, std::shared_ptr<const T>, std::less<>>;
template <typename T>
using ByKey = std::map<api::ObjectKey, std::shared_ptr<const T>>;

// The objects that change what a Workload asks for.
struct ShapeContext {
  const Options* options = nullptr;
  const ByKey<api::LimitRange>* limit_ranges = nullptr;
  const ByName<api::RuntimeClass>* runtime_classes = nullptr;
  const ByName<api::DeviceClass>* device_classes = nullptr;
  const ByKey<api::ResourceClaimTemplate>* claim_templates = nullptr;
  const ByKey<api::ResourceClaim>* claims = nullptr;
};

struct ShapeResult {
  std::shared_ptr<const Shape> shape;  // never null
  // The Workload cannot be admitted as it is: requests above limits, outside of a LimitRange, a
  // device class without mapping, a missing claim.
  std::optional<Verdict> problem;
};

// Effective priority: spec.priority, 0 when absent.
[[nodiscard]] std::int64_t EffectivePriority(const api::Workload& workload);
// Where the Workload stands in its queue, among equal priorities.
[[nodiscard]] TimePoint QueueOrderTime(const api::Workload& workload, RequeuingTimestamp timestamp);

// Cost     O(size of the Workload). Pure.
// Source   Kueue pkg/workload (TotalRequests, resource adjustment), pkg/dra; design.md 4 for what
// claims cost.
[[nodiscard]] ShapeResult BuildShape(const api::Workload& workload, const ShapeContext& context);

}  // namespace muster::scheduler
