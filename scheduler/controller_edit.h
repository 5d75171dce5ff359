#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/json.h"
#include "api/queueing.h"
#include "base/time.h"

namespace muster::scheduler {

// Collects the changes of one reconcile to an object's status and answers them as one JSON merge
// patch with resourceVersion precondition. Whatever other writers put into the status stays; a
// change that changes nothing makes no patch.
//
// Cost     Nothing until the first change, then one copy of the status.
class StatusEdit {
 public:
  // `status` may be null; both pointers must outlive the edit.
  StatusEdit(const api::ObjectMeta& meta, const api::JsonPtr& status, TimePoint now)
      : meta_(meta), stored_(status), now_(now) {}

  // The working copy.
  [[nodiscard]] api::Json& status();
  // As it stands with the changes so far.
  [[nodiscard]] const api::Json& view() const;
  // metav1 semantics: lastTransitionTime moves only when the status does. Messages are cut to 32768
  // bytes.
  void SetCondition(std::string_view type,
                    std::string_view status,
                    std::string_view reason,
                    std::string_view message);
  void RemoveCondition(std::string_view type);
  [[nodiscard]] const api::Json* Condition(std::string_view type) const;  // null if absent
  [[nodiscard]] bool IsTrue(std::string_view type) const;
  [[nodiscard]] std::string Field(std::string_view type,
                                  const char* field) const;  // of a condition; empty if absent
  [[nodiscard]] std::optional<TimePoint> TransitionOf(std::string_view type) const;

  // The merge patch, or null when nothing differs.
  [[nodiscard]] api::Json Patch() const;
  [[nodiscard]] TimePoint now() const { return now_; }

 private:
  [[nodiscard]] api::Json& status_list();

  const api::ObjectMeta& meta_;
  const api::JsonPtr& stored_;
  TimePoint now_;
  bool copied_ = false;
  api::Json working_;
};

// --- transitions of a Workload's status; each is a no-op when already there ---

// Evicted=True, checks back to Pending, counters. `cause` may be empty.
void EvictWorkload(StatusEdit& edit,
                   std::string_view reason,
                   std::string_view cause,
                   std::string_view message);
// The reservation is given back: admission, QuotaReserved, Admitted; past execution time is added
// up.
void DropReservation(StatusEdit& edit, std::string_view reason, std::string_view message);
// Evicted, Preempted and BlockedOnPreemptionGates turn False with "Previously: ..." once.
void ClearEviction(StatusEdit& edit);
void FinishWorkload(StatusEdit& edit, std::string_view reason, std::string_view message);
// Admitted in step with QuotaReserved and the checks.
// Returns  True when Admitted has just turned True.
bool SyncAdmitted(StatusEdit& edit);

}  // namespace muster::scheduler
