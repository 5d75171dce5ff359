#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/time.h"
#include "k8sclient/transport.h"

namespace muster::k8s {

// The event loop of the I/O thread: timers, signals, work posted from other threads. Boost.Asio
// inside; io_loop_asio.h has the door.
//
// Clock    Now follows the wall clock but never goes back and never jumps: a step of the system
// clock is made up for gradually, so that
//          intervals (leases, deadlines) stay true. Time in which the machine was suspended counts.
// Threads  Run, timers and Post on one thread; PostFromAnyThread and Stop from any.
class IoLoop : public Timers {
 public:
  IoLoop();
  ~IoLoop() override;
  IoLoop(const IoLoop&) = delete;
  IoLoop& operator=(const IoLoop&) = delete;

  // Until Stop. Work that is posted later runs in the next Run.
  void Run();
  // Handles what is ready, waiting at the most `limit` for the first of it. For tests and for tools
  // that wait for one answer.
  void RunFor(Duration limit);
  void Stop();

  [[nodiscard]] TimePoint Now() const override;
  [[nodiscard]] std::unique_ptr<Timer> At(TimePoint when,
                                          std::move_only_function<void()> fn) override;
  void Post(std::move_only_function<void()> fn) override;
  void PostFromAnyThread(std::move_only_function<void()> fn);

  // Calls `fn` for each of these signals, on the loop's thread.
  void OnSignals(const std::vector<int>& signals, std::function<void(int signal)> fn);

  struct Impl;
  [[nodiscard]] Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::k8s
