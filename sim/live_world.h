#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "k8sclient/transport.h"
#include "scheduler/controller_driver.h"
#include "sim/api_server.h"
#include "sim/local_transport.h"
#include "sim/stand_ins.h"
#include "sim/timeline.h"
#include "sim/world.h"

namespace muster::sim {

// The same cluster as World, on a real clock: what `muster demo` runs.
//
// Threads  That of `timers`.
class LiveWorld {
 public:
  LiveWorld(Scenario scenario, scheduler::Options options, k8s::Timers& timers);
  ~LiveWorld();
  LiveWorld(const LiveWorld&) = delete;
  LiveWorld& operator=(const LiveWorld&) = delete;

  void Start();
  // Ends the controller in good order, then runs `done`.
  void Stop(std::move_only_function<void()> done);
  // Called after each change of the cluster, once for all that changed together: streams of HTTP
  // clients are fed from here.
  void SetOnChange(std::function<void()> on_change) { on_change_ = std::move(on_change); }

  [[nodiscard]] ApiServer& server() { return *server_; }
  [[nodiscard]] const scheduler::ControllerDriver& controller() const { return *driver_; }
  [[nodiscard]] const Timeline& timeline() const { return *timeline_; }
  [[nodiscard]] Duration elapsed() const { return timers_.Now() - start_; }

 private:
  void Step();
  void StepSoon();
  void SetAlarm();

  k8s::Timers& timers_;
  TimePoint start_;
  std::unique_ptr<ApiServer> server_;
  ScenarioPlayer player_;
  std::vector<std::unique_ptr<StandIn>> stand_ins_;
  std::unique_ptr<Timeline> timeline_;
  std::unique_ptr<LocalTransport> transport_;
  std::unique_ptr<scheduler::ControllerDriver> driver_;
  std::function<void()> on_change_;
  std::unique_ptr<k8s::Timers::Timer> alarm_;
  bool step_posted_ = false;
  // Posted work may outlive this object.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::sim
