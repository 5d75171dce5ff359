#include "scheduler/controller_edit.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "jobs/unit.h"

namespace muster::scheduler {
namespace {

using api::Json;

constexpr std::size_t kMaxMessage = 32768;
constexpr std::string_view kPreviously = "Previously: ";

const Json& EmptyObject() {
  static const Json kEmpty = Json::object();
  return kEmpty;
}

}  // namespace

api::Json& StatusEdit::status() {
  if (!copied_) {
    working_ = stored_ && stored_->is_object() ? *stored_ : Json::object();
    copied_ = true;
  }
  return working_;
}

const api::Json& StatusEdit::view() const {
  if (copied_) {
    return working_;
  }
  return stored_ && stored_->is_object() ? *stored_ : EmptyObject();
}

const api::Json* StatusEdit::Condition(std::string_view type) const {
  const Json& all = view();
  const auto it = all.find("conditions");
  if (it == all.end() || !it->is_array()) {
    return nullptr;
  }
  for (const Json& condition : *it) {
    if (condition.is_object() && condition.contains("type") && condition["type"] == type) {
      return &condition;
    }
  }
  return nullptr;
}

std::string StatusEdit::Field(std::string_view type, const char* field) const {
  const Json* condition = Condition(type);
  if (condition == nullptr || !condition->contains(field) || !(*condition)[field].is_string()) {
    return {};
  }
  return (*condition)[field].get<std::string>();
}

bool StatusEdit::IsTrue(std::string_view type) const {
  return Field(type, "status") == "True";
}

std::optional<TimePoint> StatusEdit::TransitionOf(std::string_view type) const {
  const std::string text = Field(type, "lastTransitionTime");
  if (text.empty()) {
    return std::nullopt;
  }
  const auto time = ParseTime(text);
  return time ? std::optional<TimePoint>(*time) : std::nullopt;
}

void StatusEdit::SetCondition(std::string_view type,
                              std::string_view status,
                              std::string_view reason,
                              std::string_view message) {
  std::string text(message);
  if (text.size() > kMaxMessage) {
    std::size_t end = kMaxMessage - 4;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
      --end;
    }
    text.resize(end);
    text += " ...";
  }
  const Json* old = Condition(type);
  if (old != nullptr && Field(type, "status") == status && Field(type, "reason") == reason &&
      Field(type, "message") == text) {
    return;
  }
  const std::string old_status = Field(type, "status");
  Json& all = status_list();
  Json* target = nullptr;
  for (Json& condition : all) {
    if (condition.is_object() && condition.contains("type") && condition["type"] == type) {
      target = &condition;
    }
  }
  if (target == nullptr) {
    all.push_back(Json::object());
    target = &all.back();
  }
  (*target)["type"] = std::string(type);
  if (old_status != status || !target->contains("lastTransitionTime")) {
    (*target)["lastTransitionTime"] = FormatTime(now_);
  }
  (*target)["status"] = std::string(status);
  (*target)["reason"] = std::string(reason);
  (*target)["message"] = std::move(text);
  if (meta_.generation > 0) {
    (*target)["observedGeneration"] = meta_.generation;
  }
}

api::Json& StatusEdit::status_list() {
  Json& list = status()["conditions"];
  if (!list.is_array()) {
    list = Json::array();
  }
  return list;
}

void StatusEdit::RemoveCondition(std::string_view type) {
  if (Condition(type) == nullptr) {
    return;
  }
  Json kept = Json::array();
  for (const Json& condition : status_list()) {
    if (!condition.is_object() || !condition.contains("type") || condition["type"] != type) {
      kept.push_back(condition);
    }
  }
  status()["conditions"] = std::move(kept);
}

api::Json StatusEdit::Patch() const {
  if (!copied_) {
    return nullptr;
  }
  Json diff = jobs::MergeDiff(stored_ && stored_->is_object() ? *stored_ : EmptyObject(), working_);
  if (diff.empty()) {
    return nullptr;
  }
  Json patch = {{"status", std::move(diff)}};
  patch["metadata"]["resourceVersion"] = meta_.resource_version;
  return patch;
}

void EvictWorkload(StatusEdit& edit,
                   std::string_view reason,
                   std::string_view cause,
                   std::string_view message) {
  edit.SetCondition("Evicted", "True", reason, message);
  Json& status = edit.status();
  status.erase("clusterName");
  status.erase("nominatedClusterNames");
  status.erase("unhealthyNodes");
  if (status.contains("admissionChecks") && status["admissionChecks"].is_array()) {
    for (Json& check : status["admissionChecks"]) {
      if (!check.is_object()) {
        continue;
      }
      const std::string state = check.contains("state") && check["state"].is_string()
                                    ? check["state"].get<std::string>()
                                    : "";
      if (state == "Pending") {
        continue;
      }
      check["state"] = "Pending";
      check["message"] = "Reset to Pending after eviction. Previously: " + state;
      check["lastTransitionTime"] = FormatTime(edit.now());
      check.erase("podSetUpdates");
      if (state == "Retry") {
        const std::int64_t count =
            check.contains("retryCount") && check["retryCount"].is_number_integer()
                ? check["retryCount"].get<std::int64_t>()
                : 0;
        check["retryCount"] = std::min<std::int64_t>(std::max<std::int64_t>(count, 0) + 1,
                                                     std::numeric_limits<std::int32_t>::max());
      } else {
        check.erase("requeueAfterSeconds");
      }
    }
  }
  Json& stats = status["schedulingStats"];
  if (!stats.is_object()) {
    stats = Json::object();
  }
  Json& evictions = stats["evictions"];
  if (!evictions.is_array()) {
    evictions = Json::array();
  }
  for (Json& entry : evictions) {
    if (entry.is_object() && entry.contains("reason") && entry["reason"] == reason &&
        entry.contains("underlyingCause") && entry["underlyingCause"] == cause) {
      const std::int64_t count = entry.contains("count") && entry["count"].is_number_integer()
                                     ? entry["count"].get<std::int64_t>()
                                     : 0;
      entry["count"] = std::min<std::int64_t>(std::max<std::int64_t>(count, 0) + 1,
                                              std::numeric_limits<std::int32_t>::max());
      return;
    }
  }
  if (evictions.size() < 256) {
    evictions.push_back(
        {{"reason", std::string(reason)}, {"underlyingCause", std::string(cause)}, {"count", 1}});
  }
}

void DropReservation(StatusEdit& edit, std::string_view reason, std::string_view message) {
  if (edit.IsTrue("Admitted")) {
    if (const auto since = edit.TransitionOf("Admitted")) {
      const auto seconds =
          std::chrono::duration_cast<std::chrono::seconds>(edit.now() - *since).count();
      const Json& view = edit.view();
      const std::int64_t before =
          view.contains("accumulatedPastExecutionTimeSeconds") &&
                  view["accumulatedPastExecutionTimeSeconds"].is_number_integer()
              ? view["accumulatedPastExecutionTimeSeconds"].get<std::int64_t>()
              : 0;
      if (seconds > 0) {
        edit.status()["accumulatedPastExecutionTimeSeconds"] =
            std::min<std::int64_t>(before + seconds, std::numeric_limits<std::int32_t>::max());
      }
    }
  }
  if (edit.view().contains("admission")) {
    edit.status().erase("admission");
  }
  edit.SetCondition("QuotaReserved", "False", reason, message);
  if (edit.Condition("Admitted") != nullptr) {
    edit.SetCondition("Admitted", "False", "NoReservation", "The workload has no reservation");
  }
}

void ClearEviction(StatusEdit& edit) {
  for (const std::string_view type : {"Evicted", "Preempted", "BlockedOnPreemptionGates"}) {
    if (!edit.IsTrue(type)) {
      continue;
    }
    std::string message = edit.Field(type, "message");
    if (!message.starts_with(kPreviously)) {
      message = std::string(kPreviously) + message;
    }
    edit.SetCondition(type, "False", "QuotaReserved", message);
  }
}

void FinishWorkload(StatusEdit& edit, std::string_view reason, std::string_view message) {
  edit.SetCondition("Finished", "True", reason, message);
}

bool SyncAdmitted(StatusEdit& edit) {
  const bool reserved = edit.IsTrue("QuotaReserved");
  const Json& view = edit.view();
  bool ready = true;
  if (view.contains("admissionChecks") && view["admissionChecks"].is_array()) {
    for (const Json& check : view["admissionChecks"]) {
      ready = ready && check.is_object() && check.contains("state") && check["state"] == "Ready";
    }
  }
  bool delayed = false;
  if (view.contains("admission") && view["admission"].is_object() &&
      view["admission"].contains("podSetAssignments")) {
    for (const Json& set : view["admission"]["podSetAssignments"]) {
      delayed = delayed || (set.is_object() && set.contains("delayedTopologyRequest") &&
                            set["delayedTopologyRequest"] == "Pending");
    }
  }
  const bool was = edit.IsTrue("Admitted");
  if (reserved && ready && !delayed) {
    edit.SetCondition("Admitted", "True", "Admitted", "The workload is admitted");
    return !was;
  }
  if (edit.Condition("Admitted") == nullptr && !reserved) {
    return false;  // never admitted: the absence says the same
  }
  if (!reserved) {
    edit.SetCondition("Admitted", "False", "NoReservation", "The workload has no reservation");
  } else if (!ready) {
    edit.SetCondition(
        "Admitted", "False", "UnsatisfiedAdmissionChecks", "The workload has not all checks ready");
  } else {
    edit.SetCondition("Admitted",
                      "False",
                      "PendingDelayedTopologyRequests",
                      "There are pending delayed topology requests");
  }
  return false;
}

}  // namespace muster::scheduler
