#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/json.h"
#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"

// Leader election on a Lease, as a pure machine. leader.h drives it.
//
// Why two leaders never act at once: a holder counts its time from the moment it SENT its last
// successful write and stops acting renew_deadline later; a challenger counts lease_duration from
// the moment it first SAW that record, which is later than the sending. renew_deadline <
// lease_duration. Remote clocks are never read.
namespace muster::k8s {

struct LeaseOptions {
  std::string identity;  // unique per process
  Duration lease_duration = std::chrono::seconds(15);
  Duration renew_deadline = std::chrono::seconds(10);
  Duration retry_period = std::chrono::seconds(2);
};
// lease_duration > renew_deadline > 1.2 * retry_period > 0, whole seconds of lease_duration;
// identity not empty.
[[nodiscard]] Status Validate(const LeaseOptions& options);

// What is read and written of a coordination.k8s.io/v1 Lease.
struct LeaseRecord {
  std::string holder;
  std::int64_t duration_seconds = 0;
  std::string acquire_time;  // as text; they are only carried over and compared
  std::string renew_time;
  std::int64_t transitions = 0;
  std::string resource_version;

  friend bool operator==(const LeaseRecord&, const LeaseRecord&) = default;
};
// Lenient: absent or ill-typed fields stay empty.
[[nodiscard]] LeaseRecord LeaseFromJson(const api::Json& lease);
// Puts the fields into `lease`, keeping what else it holds.
void LeaseIntoJson(const LeaseRecord& record, api::Json& lease);

namespace lease_input {
struct Start {};
struct TimerFired {};
struct Read {  // answer to kRead; nothing: there is no Lease
  std::optional<LeaseRecord> record;
};
struct Written {  // answer to a write: as the server stored it
  LeaseRecord record;
};
struct Failed {  // either; a conflict means that somebody else wrote
  Error error;
};
struct Release {};  // clean stop
}  // namespace lease_input
using LeaseInput = std::variant<lease_input::Start,
                                lease_input::TimerFired,
                                lease_input::Read,
                                lease_input::Written,
                                lease_input::Failed,
                                lease_input::Release>;

namespace lease_action {
struct Read {};
struct Create {
  LeaseRecord record;
};
struct Update {  // guarded by record.resource_version
  LeaseRecord record;
};
struct StartTimer {  // replaces the running one
  TimePoint when;
};
struct Lead {};         // act from now on
struct StopLeading {};  // stop acting before anything else
struct ObserveHolder {  // somebody (perhaps nobody: "") holds it now
  std::string holder;
};
struct Released {};  // the answer to Release: nothing more will be written
}  // namespace lease_action
using LeaseAction = std::variant<lease_action::Read,
                                 lease_action::Create,
                                 lease_action::Update,
                                 lease_action::StartTimer,
                                 lease_action::Lead,
                                 lease_action::StopLeading,
                                 lease_action::ObserveHolder,
                                 lease_action::Released>;

// Threads  A value.
class LeaseMachine {
 public:
  LeaseMachine(LeaseOptions options, std::uint64_t seed);

  [[nodiscard]] std::vector<LeaseAction> On(const LeaseInput& input, TimePoint now);

  // May act at `now`. False at the deadline even if no timer has fired yet (a process that was
  // stopped and goes on).
  [[nodiscard]] bool Leads(TimePoint now) const { return leading_ && now < deadline_; }
  [[nodiscard]] const std::string& holder() const { return observed_.holder; }

 private:
  using Actions = std::vector<LeaseAction>;
  enum class Out : std::uint8_t { kNothing, kRead, kWrite, kRelease };  // the request that is out

  void On(const lease_input::Start&, TimePoint now, Actions& out);
  void On(const lease_input::TimerFired&, TimePoint now, Actions& out);
  void On(const lease_input::Read& read, TimePoint now, Actions& out);
  void On(const lease_input::Written& written, TimePoint now, Actions& out);
  void On(const lease_input::Failed& failed, TimePoint now, Actions& out);
  void On(const lease_input::Release&, TimePoint now, Actions& out);

  void Observe(const LeaseRecord& record, TimePoint now, Actions& out);
  void Read(Actions& out);
  void TakeIfFree(TimePoint now, Actions& out);
  void Write(TimePoint now, Actions& out);
  void Sleep(TimePoint now, Actions& out);
  void StepDownIfLate(TimePoint now, Actions& out);
  void GoOnReleasing(TimePoint now, Actions& out);
  [[nodiscard]] TimePoint FreeAt() const;  // when the observed record may be taken

  LeaseOptions options_;
  Prng prng_;
  Out out_ = Out::kNothing;
  int conflicts_ = 0;  // in a row
  bool started_ = false;
  bool leading_ = false;
  bool releasing_ = false;
  bool released_ = false;
  bool exists_ = false;      // observed_ is what the server had
  TimePoint sent_{};         // of the write that is out
  TimePoint deadline_{};     // stop acting then
  TimePoint observed_at_{};  // local time at which observed_ was first seen
  LeaseRecord observed_;
};

}  // namespace muster::k8s
