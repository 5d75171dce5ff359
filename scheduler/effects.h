#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "api/kind.h"
#include "api/metadata.h"
#include "api/object.h"
#include "base/result.h"
#include "k8sclient/api_error.h"
#include "k8sclient/request.h"
#include "scheduler/cycle/plan.h"

// What goes into the controller and what comes out of it, as values.
namespace muster::scheduler {

struct Snapshot;

// --- in ---

struct ObjectChanged {  // added or modified, by list or watch
  api::Object object;
};
struct ObjectDeleted {
  api::Kind kind = api::Kind::kPod;
  api::ObjectKey key;
};
// Every kind has been listed once. Before that nothing is decided and nothing is written.
struct Synced {};
// Writing is allowed only while leading. Losing the lead forgets nothing: a standby keeps its
// caches warm.
struct LeadershipChanged {
  bool leading = false;
};
// The outcome of a WriteEffect. `response` is an HTTP response of any status, or the error that
// kept it from coming.
struct WriteDone {
  std::uint64_t id = 0;
  std::expected<k8s::Response, k8s::ApiError> response;
};
struct PlanReady {
  Plan plan;
};
// An object that could not be decoded; it is reported once and skipped.
struct BadObject {
  api::Kind kind = api::Kind::kPod;
  api::ObjectMeta meta;
  std::string error;
};
using Input = std::variant<ObjectChanged,
                           ObjectDeleted,
                           Synced,
                           LeadershipChanged,
                           WriteDone,
                           PlanReady,
                           BadObject>;

// --- out ---

// The order in which waiting writes go out.
enum class Urgency : std::uint8_t { kRelease, kAdmission, kNormal, kStatus };

// One request. At most one is in flight for each object; the outcome comes back as WriteDone.
struct WriteEffect {
  std::uint64_t id = 0;
  Urgency urgency = Urgency::kNormal;
  api::Kind kind = api::Kind::kWorkload;
  api::ObjectKey key;
  k8s::Request request;
};
// An events.k8s.io/v1 Event.
struct EventEffect {
  api::Kind kind = api::Kind::kWorkload;
  api::ObjectKey regarding;
  std::string uid;
  std::string resource_version;
  bool warning = false;
  std::string reason;
  std::string action;  // empty: as reason
  std::string note;
  std::string controller;  // reportingController
};
// One sample for the metrics table: `name` without prefix, label values by label name.
struct MetricEffect {
  enum class Type : std::uint8_t { kCount, kObserve };
  Type type = Type::kCount;
  std::string name;
  std::vector<std::pair<std::string, std::string>> labels;
  double value = 1;  // seconds for durations
};
struct SolveEffect {
  std::shared_ptr<const Snapshot> snapshot;
};
using Effect = std::variant<WriteEffect, EventEffect, MetricEffect, SolveEffect>;

}  // namespace muster::scheduler
