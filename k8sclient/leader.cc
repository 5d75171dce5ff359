#include "k8sclient/leader.h"

#include <deque>
#include <optional>
#include <utility>

#include "api/kind.h"
#include "base/check.h"
#include "k8sclient/api_error.h"
#include "k8sclient/requests.h"

namespace muster::k8s {

using api::Json;

struct LeaderElector::State {
  Transport& transport;
  Timers& timers;
  LeaderOptions options;
  LeaderHandlers handlers;
  LeaseMachine machine;
  Json lease{};  // as last seen, so that a write keeps what others put there
  std::string holder{};
  std::unique_ptr<Timers::Timer> timer{};
  std::unique_ptr<Timers::Timer> patience{};
  std::function<void()> released{};
  std::deque<LeaseInput> inputs{};
  bool turning = false;

  using Self = std::shared_ptr<State>;
  using Weak = std::weak_ptr<State>;

  // Handlers may call back (Release from on_stopped, say): what they cause is done after them.
  static void Feed(const Self& self, LeaseInput input) {
    self->inputs.push_back(std::move(input));
    if (self->turning) {
      return;
    }
    self->turning = true;
    while (!self->inputs.empty()) {
      const LeaseInput next = std::move(self->inputs.front());
      self->inputs.pop_front();
      for (const LeaseAction& action : self->machine.On(next, self->timers.Now())) {
        std::visit([&](const auto& a) { Perform(self, a); }, action);
      }
    }
    self->turning = false;
  }

  static std::string Path(const Self& self) {
    return api::Path(api::Kind::kLease, self->options.ns, self->options.name);
  }

  static void Send(const Self& self, Request request, bool is_read) {
    // Two attempts fit into the renewal deadline.
    request.timeout = self->options.lease.renew_deadline / 2;
    self->transport.Send(std::move(request), [weak = Weak(self), is_read](Result<Response> answer) {
      if (const Self state = weak.lock()) {
        OnAnswer(state, is_read, std::move(answer));
      }
    });
  }

  static void OnAnswer(const Self& self, bool is_read, Result<Response> answer) {
    if (answer && is_read && answer->status == 404) {
      self->lease = Json();
      Feed(self, lease_input::Read{});
      return;
    }
    if (!answer || answer->status < 200 || answer->status > 299) {
      const ApiError error =
          answer ? ErrorFromResponse(*answer) : ErrorFromTransport(answer.error());
      // Conflicts are how candidates meet; all else is worth a word.
      if (error.code != ErrorCode::kConflict && self->handlers.on_trouble) {
        self->handlers.on_trouble(error.At("lease " + self->options.ns + "/" + self->options.name));
      }
      Feed(self, lease_input::Failed{.error = error});
      return;
    }
    Result<Json> lease = api::ParseJson(answer->body);
    if (!lease || !lease->is_object()) {
      Feed(self,
           lease_input::Failed{.error = Error::Retry("answer about the lease is not an object")});
      return;
    }
    self->lease = std::move(*lease);
    const LeaseRecord record = LeaseFromJson(self->lease);
    if (is_read) {
      Feed(self, lease_input::Read{.record = record});
    } else {
      Feed(self, lease_input::Written{.record = record});
    }
  }

  static void Perform(const Self& self, const lease_action::Read&) {
    Send(self, Get(Path(self)), true);
  }

  static void Perform(const Self& self, const lease_action::Create& create) {
    Json lease = {{"apiVersion", "coordination.k8s.io/v1"},
                  {"kind", "Lease"},
                  {"metadata", {{"name", self->options.name}, {"namespace", self->options.ns}}}};
    LeaseIntoJson(create.record, lease);
    Send(self, k8s::Create(api::Path(api::Kind::kLease, self->options.ns, ""), lease), false);
  }

  static void Perform(const Self& self, const lease_action::Update& update) {
    Json lease = self->lease;
    LeaseIntoJson(update.record, lease);
    Send(self, k8s::Update(Path(self), lease), false);
  }

  static void Perform(const Self& self, const lease_action::StartTimer& start) {
    self->timer = self->timers.At(start.when, [weak = Weak(self)] {
      if (const Self state = weak.lock()) {
        Feed(state, lease_input::TimerFired{});
      }
    });
  }

  static void Perform(const Self& self, const lease_action::Lead&) {
    if (self->handlers.on_started) {
      self->handlers.on_started();
    }
  }

  static void Perform(const Self& self, const lease_action::StopLeading&) {
    if (self->handlers.on_stopped) {
      self->handlers.on_stopped();
    }
  }

  static void Perform(const Self& self, const lease_action::ObserveHolder& observed) {
    self->holder = observed.holder;
    if (self->handlers.on_holder) {
      self->handlers.on_holder(self->holder);
    }
  }

  static void Perform(const Self& self, const lease_action::Released&) { ReportReleased(self); }

  static void ReportReleased(const Self& self) {
    self->timer.reset();
    self->patience.reset();
    if (self->released) {
      self->timers.Post(std::exchange(self->released, nullptr));
    }
  }
};

LeaderElector::LeaderElector(Transport& transport,
                             Timers& timers,
                             LeaderOptions options,
                             LeaderHandlers handlers) {
  MUSTER_CHECK(Validate(options.lease).has_value());
  LeaseMachine machine(options.lease, options.seed);
  state_ = std::make_shared<State>(State{.transport = transport,
                                         .timers = timers,
                                         .options = std::move(options),
                                         .handlers = std::move(handlers),
                                         .machine = std::move(machine)});
}

LeaderElector::~LeaderElector() = default;

void LeaderElector::Start() {
  State::Feed(state_, lease_input::Start{});
}

void LeaderElector::Release(std::function<void()> done, Duration patience) {
  state_->released = std::move(done);
  state_->patience =
      state_->timers.At(state_->timers.Now() + patience, [weak = State::Weak(state_)] {
        if (const State::Self state = weak.lock()) {
          State::ReportReleased(state);
        }
      });
  State::Feed(state_, lease_input::Release{});
}

bool LeaderElector::Leads() const {
  return state_->machine.Leads(state_->timers.Now());
}
const std::string& LeaderElector::holder() const {
  return state_->holder;
}

}  // namespace muster::k8s
