#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/time.h"
#include "k8sclient/transport.h"

namespace muster::sim {

// The clock of a simulation: it moves only when told to.
//
// Shape    Alarms ordered by time, then by the order in which they were set; posted work runs in
// order of posting. Threads  One.
class VirtualTimers final : public k8s::Timers {
 public:
  explicit VirtualTimers(TimePoint start) : now_(start) {}

  [[nodiscard]] TimePoint Now() const override { return now_; }
  [[nodiscard]] std::unique_ptr<Timer> At(TimePoint when,
                                          std::move_only_function<void()> fn) override;
  void Post(std::move_only_function<void()> fn) override;

  // Runs what was posted and the alarms that are due, until nothing is left to run at this instant.
  // Returns false if there was nothing.
  bool RunReady();
  // When the next alarm is due.
  [[nodiscard]] std::optional<TimePoint> NextAlarm() const;
  // Moves the clock forward; it never goes back.
  void AdvanceTo(TimePoint when);

 private:
  using Key = std::pair<TimePoint, std::uint64_t>;
  using Alarms = std::map<Key, std::move_only_function<void()>>;
  class Handle;

  TimePoint now_;
  std::uint64_t sequence_ = 0;
  std::vector<std::move_only_function<void()>> posted_;
  // Shared with the handles, which may outlive a cancelled alarm.
  std::shared_ptr<Alarms> alarms_ = std::make_shared<Alarms>();
};

}  // namespace muster::sim
