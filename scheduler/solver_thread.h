#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "base/time.h"
#include "scheduler/state.h"

namespace muster::scheduler {

// Runs Decide away from the I/O thread. One snapshot at a time: the controller asks for the next
// cycle only after it has the plan.
//
// Threads  Submit and the destructor on the I/O thread. `done` runs on the I/O thread, through
// `post`. Stop     The destructor waits for the cycle under way, whose length the budget bounds;
// its plan is dropped.
class SolverThread {
 public:
  using Post = std::function<void(std::move_only_function<void()>)>;
  using Done = std::function<void(Plan plan, Duration took)>;
  SolverThread(Post post, Budget budget, Done done);
  ~SolverThread();
  SolverThread(const SolverThread&) = delete;
  SolverThread& operator=(const SolverThread&) = delete;

  void Submit(std::shared_ptr<const Snapshot> snapshot, TimePoint now);

 private:
  struct State;
  std::shared_ptr<State> state_;
  std::jthread thread_;
};

}  // namespace muster::scheduler
