#include "sim/virtual_time.h"

#include <algorithm>

namespace muster::sim {

class VirtualTimers::Handle final : public Timer {
 public:
  Handle(std::shared_ptr<Alarms> alarms, Key key) : alarms_(std::move(alarms)), key_(key) {}
  ~Handle() override { alarms_->erase(key_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

 private:
  std::shared_ptr<Alarms> alarms_;
  Key key_;
};

std::unique_ptr<k8s::Timers::Timer> VirtualTimers::At(TimePoint when,
                                                      std::move_only_function<void()> fn) {
  const Key key{std::max(when, now_), ++sequence_};
  alarms_->emplace(key, std::move(fn));
  return std::make_unique<Handle>(alarms_, key);
}

void VirtualTimers::Post(std::move_only_function<void()> fn) {
  posted_.push_back(std::move(fn));
}

bool VirtualTimers::RunReady() {
  bool ran = false;
  while (true) {
    if (!posted_.empty()) {
      std::vector<std::move_only_function<void()>> batch;
      batch.swap(posted_);
      for (auto& fn : batch) {
        fn();
      }
      ran = true;
      continue;
    }
    const auto first = alarms_->begin();
    if (first == alarms_->end() || first->first.first > now_) {
      return ran;
    }
    // Taken out before it runs: the alarm may destroy its own handle.
    auto fn = std::move(first->second);
    alarms_->erase(first);
    fn();
    ran = true;
  }
}

std::optional<TimePoint> VirtualTimers::NextAlarm() const {
  if (alarms_->empty()) {
    return std::nullopt;
  }
  return alarms_->begin()->first.first;
}

void VirtualTimers::AdvanceTo(TimePoint when) {
  now_ = std::max(now_, when);
}

}  // namespace muster::sim
