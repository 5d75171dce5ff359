#include "k8sclient/lease.h"

#include <algorithm>
#include <utility>

namespace muster::k8s {
namespace {

using api::Json;

// Longer leases than that are a mistake of whoever wrote them; it also keeps the sum below inside
// 64 bits.
constexpr std::int64_t kMaxLeaseSeconds = 24 * 3600;

const Json* Find(const Json& object, const char* key) {
  if (!object.is_object()) {
    return nullptr;
  }
  const auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}

std::string StringAt(const Json* object, const char* key) {
  const Json* value = object == nullptr ? nullptr : Find(*object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

std::int64_t IntAt(const Json* object, const char* key) {
  const Json* value = object == nullptr ? nullptr : Find(*object, key);
  return value != nullptr && value->is_number_integer() ? value->get<std::int64_t>() : 0;
}

}  // namespace

Status Validate(const LeaseOptions& options) {
  if (options.identity.empty()) {
    return std::unexpected(Error::Invalid("leader election: identity is empty"));
  }
  if (options.retry_period <= Duration::zero()) {
    return std::unexpected(
        Error::Invalid("leader election: retryPeriod must be greater than zero"));
  }
  if (options.lease_duration < std::chrono::seconds(1) ||
      options.lease_duration > std::chrono::seconds(kMaxLeaseSeconds) ||
      options.lease_duration % std::chrono::seconds(1) != Duration::zero()) {
    return std::unexpected(
        Error::Invalid("leader election: leaseDuration must be whole seconds, from 1s to 24h"));
  }
  if (options.lease_duration <= options.renew_deadline) {
    return std::unexpected(
        Error::Invalid("leader election: leaseDuration must be greater than renewDeadline"));
  }
  if (options.renew_deadline <= options.retry_period + options.retry_period / 5) {
    return std::unexpected(
        Error::Invalid("leader election: renewDeadline must be greater than 1.2 * retryPeriod"));
  }
  return {};
}

LeaseRecord LeaseFromJson(const Json& lease) {
  const Json* spec = Find(lease, "spec");
  return LeaseRecord{.holder = StringAt(spec, "holderIdentity"),
                     .duration_seconds = IntAt(spec, "leaseDurationSeconds"),
                     .acquire_time = StringAt(spec, "acquireTime"),
                     .renew_time = StringAt(spec, "renewTime"),
                     .transitions = IntAt(spec, "leaseTransitions"),
                     .resource_version = StringAt(Find(lease, "metadata"), "resourceVersion")};
}

void LeaseIntoJson(const LeaseRecord& record, Json& lease) {
  Json& spec = lease["spec"];
  if (!spec.is_object()) {
    spec = Json::object();
  }
  spec["holderIdentity"] = record.holder;
  spec["leaseDurationSeconds"] = record.duration_seconds;
  spec["leaseTransitions"] = record.transitions;
  if (!record.acquire_time.empty()) {
    spec["acquireTime"] = record.acquire_time;
  }
  if (!record.renew_time.empty()) {
    spec["renewTime"] = record.renew_time;
  }
  if (!record.resource_version.empty()) {
    lease["metadata"]["resourceVersion"] = record.resource_version;
  }
}

LeaseMachine::LeaseMachine(LeaseOptions options, std::uint64_t seed)
    : options_(std::move(options)), prng_(seed) {}

std::vector<LeaseAction> LeaseMachine::On(const LeaseInput& input, TimePoint now) {
  Actions out;
  // Whatever comes in: a deadline that has passed comes first.
  StepDownIfLate(now, out);
  std::visit([&](const auto& in) { On(in, now, out); }, input);
  return out;
}

void LeaseMachine::StepDownIfLate(TimePoint now, Actions& out) {
  if (leading_ && now >= deadline_) {
    leading_ = false;
    out.emplace_back(lease_action::StopLeading{});
  }
}

TimePoint LeaseMachine::FreeAt() const {
  if (!exists_ || observed_.holder.empty() || observed_.holder == options_.identity) {
    return observed_at_;
  }
  const std::int64_t own = options_.lease_duration / std::chrono::seconds(1);
  const std::int64_t theirs = observed_.duration_seconds > 0 ? observed_.duration_seconds : own;
  return observed_at_ + std::chrono::seconds(std::min(theirs, kMaxLeaseSeconds));
}

void LeaseMachine::Observe(const LeaseRecord& record, TimePoint now, Actions& out) {
  if (exists_ && record == observed_) {
    return;
  }
  const bool other_holder = !exists_ || record.holder != observed_.holder;
  exists_ = true;
  observed_ = record;
  observed_at_ = now;
  if (other_holder) {
    out.emplace_back(lease_action::ObserveHolder{.holder = observed_.holder});
  }
}

void LeaseMachine::Read(Actions& out) {
  out_ = Out::kRead;
  out.emplace_back(lease_action::Read{});
}

void LeaseMachine::Write(TimePoint now, Actions& out) {
  const bool mine = exists_ && observed_.holder == options_.identity;
  LeaseRecord record;
  record.holder = options_.identity;
  record.duration_seconds = options_.lease_duration / std::chrono::seconds(1);
  record.renew_time = FormatMicroTime(now);
  record.acquire_time =
      mine && !observed_.acquire_time.empty() ? observed_.acquire_time : record.renew_time;
  record.transitions = exists_ ? observed_.transitions : 0;
  if (exists_ && !mine) {
    // A bad count of a foreign writer must not overflow.
    record.transitions = std::clamp<std::int64_t>(record.transitions, 0, 1'000'000'000) + 1;
  }
  out_ = Out::kWrite;
  sent_ = now;
  if (exists_) {
    record.resource_version = observed_.resource_version;
    out.emplace_back(lease_action::Update{.record = std::move(record)});
  } else {
    out.emplace_back(lease_action::Create{.record = std::move(record)});
  }
}

void LeaseMachine::TakeIfFree(TimePoint now, Actions& out) {
  if (!exists_ || FreeAt() <= now) {
    Write(now, out);
  } else {
    Sleep(now, out);
  }
}

void LeaseMachine::Sleep(TimePoint now, Actions& out) {
  conflicts_ = 0;
  if (leading_) {
    out.emplace_back(
        lease_action::StartTimer{.when = std::min(now + options_.retry_period, deadline_)});
    return;
  }
  // Candidates spread their attempts, but look once more just when the lease runs out.
  const auto spread =
      static_cast<std::uint64_t>((options_.retry_period + options_.retry_period / 5).count());
  TimePoint when =
      now + options_.retry_period + Duration(static_cast<std::int64_t>(prng_.Below(spread + 1)));
  if (exists_ && FreeAt() > now) {
    when = std::min(when, FreeAt());
  }
  out.emplace_back(lease_action::StartTimer{.when = when});
}

void LeaseMachine::On(const lease_input::Start& /*start*/, TimePoint /*now*/, Actions& out) {
  if (!started_) {
    started_ = true;
    Read(out);
  }
}

void LeaseMachine::On(const lease_input::TimerFired& /*fired*/, TimePoint now, Actions& out) {
  if (!started_ || releasing_) {
    return;
  }
  if (out_ != Out::kNothing) {
    if (leading_) {
      out.emplace_back(lease_action::StartTimer{.when = deadline_});
    }
    return;
  }
  if (leading_) {
    Write(now, out);
    // The timer guards the deadline while the answer is awaited.
    out.emplace_back(lease_action::StartTimer{.when = deadline_});
  } else {
    Read(out);
  }
}

void LeaseMachine::On(const lease_input::Read& read, TimePoint now, Actions& out) {
  if (out_ != Out::kRead) {
    return;
  }
  out_ = Out::kNothing;
  if (read.record) {
    Observe(*read.record, now, out);
  } else {
    exists_ = false;
    observed_ = LeaseRecord{};
    observed_at_ = now;
  }
  if (releasing_) {
    GoOnReleasing(now, out);
    return;
  }
  if (leading_ && exists_ && observed_.holder != options_.identity) {
    // Somebody took it, against the rules or by hand.
    leading_ = false;
    out.emplace_back(lease_action::StopLeading{});
  }
  TakeIfFree(now, out);
  if (leading_ && out_ != Out::kNothing) {
    out.emplace_back(lease_action::StartTimer{.when = deadline_});
  }
}

void LeaseMachine::On(const lease_input::Written& written, TimePoint now, Actions& out) {
  if (out_ == Out::kRelease) {
    out_ = Out::kNothing;
    Observe(written.record, now, out);
    released_ = true;
    out.emplace_back(lease_action::Released{});
    return;
  }
  if (out_ != Out::kWrite) {
    return;
  }
  out_ = Out::kNothing;
  conflicts_ = 0;
  Observe(written.record, now, out);
  if (releasing_) {
    GoOnReleasing(now, out);
    return;
  }
  const TimePoint until = sent_ + options_.renew_deadline;
  // An answer that took too long proves nothing: another may count from before it.
  if (until > now) {
    deadline_ = until;
    if (!leading_) {
      leading_ = true;
      out.emplace_back(lease_action::Lead{});
    }
  }
  Sleep(now, out);
}

void LeaseMachine::On(const lease_input::Failed& failed, TimePoint now, Actions& out) {
  if (out_ == Out::kNothing) {
    return;
  }
  const Out was = std::exchange(out_, Out::kNothing);
  if (was == Out::kRelease) {
    // Tried once; the lease runs out by itself.
    released_ = true;
    out.emplace_back(lease_action::Released{});
    return;
  }
  if (releasing_) {
    // Whether a write that failed was stored is unknown, so look.
    if (was == Out::kWrite) {
      Read(out);
    } else {
      released_ = true;
      out.emplace_back(lease_action::Released{});
    }
    return;
  }
  // Somebody else wrote: look at once, but not for ever should a server answer so to everything.
  const bool lost_race =
      failed.error.code == ErrorCode::kConflict || failed.error.code == ErrorCode::kNotFound;
  if (was == Out::kWrite && lost_race && ++conflicts_ <= 2) {
    Read(out);
    if (leading_) {
      out.emplace_back(lease_action::StartTimer{.when = deadline_});
    }
    return;
  }
  Sleep(now, out);
}

void LeaseMachine::On(const lease_input::Release& /*release*/, TimePoint now, Actions& out) {
  if (releasing_) {
    return;
  }
  releasing_ = true;
  if (leading_) {
    leading_ = false;
    out.emplace_back(lease_action::StopLeading{});
  }
  if (out_ == Out::kNothing) {
    GoOnReleasing(now, out);
  }
}

void LeaseMachine::GoOnReleasing(TimePoint now, Actions& out) {
  if (released_) {
    return;
  }
  if (!exists_ || observed_.holder != options_.identity) {
    released_ = true;
    out.emplace_back(lease_action::Released{});
    return;
  }
  LeaseRecord record = observed_;
  record.holder.clear();
  record.duration_seconds = 1;
  record.renew_time = record.acquire_time = FormatMicroTime(now);
  out_ = Out::kRelease;
  sent_ = now;
  out.emplace_back(lease_action::Update{.record = std::move(record)});
}

}  // namespace muster::k8s
