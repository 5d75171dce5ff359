#include <optional>
#include <string>

#include "sim/api_server.h"
#include "sim/local_transport.h"
#include "sim/virtual_time.h"
#include "test/contract/target.h"

namespace muster::contract {
namespace {

class Sim final : public Target {
 public:
  Sim() {
    server.SetOnChange([this] { changed = true; });
  }

  sim::ApiServer server{sim::ApiServerOptions{}};
  sim::VirtualTimers clock{TimePoint(std::chrono::seconds(1'800'000'000))};
  sim::LocalTransport link{server, clock};
  bool changed = false;

  k8s::Transport& transport() override { return link; }
  k8s::Timers& timers() override { return clock; }
  bool Until(const std::function<bool()>& done, Duration limit) override {
    const TimePoint end = clock.Now() + limit;
    while (!done()) {
      const bool ran = clock.RunReady();
      if (changed || ran) {
        changed = false;
        link.Pump();
        continue;
      }
      if (clock.Now() >= end) {
        return false;
      }
      const TimePoint next = clock.NextAlarm().value_or(end);
      clock.AdvanceTo(std::min({next, end, clock.Now() + std::chrono::seconds(1)}));
      server.Tick(clock.Now());
      link.Pump();
    }
    return true;
  }
};

}  // namespace

TargetKind SimTarget() {
  return {.name = "SimApiServer",
          .make = [](std::string&) -> std::unique_ptr<Target> { return std::make_unique<Sim>(); }};
}

}  // namespace muster::contract
