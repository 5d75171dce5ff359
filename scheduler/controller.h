#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/metadata.h"
#include "base/time.h"
#include "scheduler/effects.h"
#include "scheduler/options.h"
#include "scheduler/state.h"

namespace muster::scheduler {

struct RunningGang;

// Turns objects into Workloads and decisions into writes. Level-triggered: every change marks what
// it touches, Run looks at what is marked and answers with the writes that bring the world closer
// to what it should be. Nothing is remembered that the API server does not hold, but for writes in
// flight, back-offs and decisions on their way.
//
// Crash    A cut after any effect is harmless: a new Controller fed with the objects goes on from
// there. The admission is stored before a job
//          starts or a gate opens, and a job is only started by an admission that was read back.
// Threads  The I/O thread.
// Cost     Run is O(what is marked). A pod event costs its job's pods once per Run.
class Controller {
 public:
  // Both must outlive the controller.
  Controller(State& state, const Options& options);
  ~Controller();
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  void On(Input input, TimePoint now);
  // All that can be done now. While not synced or not leading: nothing.
  [[nodiscard]] std::vector<Effect> Run(TimePoint now);

  // On followed by Run.
  [[nodiscard]] std::vector<Effect> Step(Input input, TimePoint now);

  [[nodiscard]] bool Idle(TimePoint now) const;
  [[nodiscard]] std::optional<TimePoint> NextWake() const;
  [[nodiscard]] std::vector<RunningGang> Running() const;
  [[nodiscard]] std::vector<std::string> BadObjects() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::scheduler
