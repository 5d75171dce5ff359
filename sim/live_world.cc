#include "sim/live_world.h"

#include <algorithm>
#include <utility>

namespace muster::sim {

LiveWorld::LiveWorld(Scenario scenario, scheduler::Options options, k8s::Timers& timers)
    : timers_(timers),
      start_(timers.Now()),
      server_(std::make_unique<ApiServer>(ApiServerOptions{})),
      player_(*server_, std::move(scenario), start_) {
  options.leader_elect = false;
  player_.CreateNamespaces(start_);
  timeline_ = std::make_unique<Timeline>(*server_, start_);
  stand_ins_ = MakeStandIns(*server_, StandInOptions{.no_nodes = !player_.HasNodes()});
  transport_ = std::make_unique<LocalTransport>(*server_, timers_);
  driver_ = std::make_unique<scheduler::ControllerDriver>(
      *transport_, timers_, std::move(options), scheduler::Hooks{.identity = "demo"});
  server_->SetOnChange([this] { StepSoon(); });
}

LiveWorld::~LiveWorld() {
  *alive_ = false;
  driver_.reset();
  transport_.reset();
}

void LiveWorld::Start() {
  driver_->Start();
  StepSoon();
}

void LiveWorld::Stop(std::move_only_function<void()> done) {
  driver_->Stop(std::move(done));
}

void LiveWorld::StepSoon() {
  if (std::exchange(step_posted_, true)) {
    return;
  }
  timers_.Post([this, alive = alive_] {
    if (*alive) {
      step_posted_ = false;
      Step();
    }
  });
}

void LiveWorld::Step() {
  const TimePoint now = timers_.Now();
  player_.Play(now, [&](const std::string& object, const std::string& message) {
    timeline_->Rejected(now, object, message);
  });
  server_->Tick(now);
  bool more = true;
  while (more) {
    more = false;
    for (const auto& stand_in : stand_ins_) {
      more = stand_in->Step(now) || more;
    }
    timeline_->Observe(now);
  }
  transport_->Pump();
  if (on_change_) {
    on_change_();
  }
  SetAlarm();
}

void LiveWorld::SetAlarm() {
  std::optional<TimePoint> next = player_.Next();
  for (const auto& stand_in : stand_ins_) {
    const auto wake = stand_in->NextWake();
    if (wake && (!next || *wake < *next)) {
      next = wake;
    }
  }
  // Streams of the API server end by time, too.
  const TimePoint tick = timers_.Now() + std::chrono::seconds(1);
  alarm_ = timers_.At(next ? std::min(*next, tick) : tick, [this] { StepSoon(); });
}

}  // namespace muster::sim
