#include "scheduler/controller_driver.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "k8sclient/client.h"
#include "k8sclient/discovery.h"
#include "k8sclient/event_recorder.h"
#include "k8sclient/informer.h"
#include "k8sclient/leader.h"
#include "k8sclient/rate_limiter.h"
#include "scheduler/controller.h"
#include "scheduler/solver_thread.h"
#include "scheduler/writer.h"

namespace muster::scheduler {
namespace {

using api::Kind;

// Kinds that no API server may lack. The others (DRA, native groups, autoscaler) are used where
// they are served.
bool Required(Kind kind) {
  switch (kind) {
    case Kind::kNamespace:
    case Kind::kNode:
    case Kind::kPod:
    case Kind::kPriorityClass:
    case Kind::kResourceFlavor:
    case Kind::kClusterQueue:
    case Kind::kLocalQueue:
    case Kind::kCohort:
    case Kind::kWorkload:
    case Kind::kWorkloadPriorityClass:
    case Kind::kAdmissionCheck:
    case Kind::kTopology:
      return true;
    case Kind::kLimitRange:
    case Kind::kRuntimeClass:
    case Kind::kDeviceClass:
    case Kind::kResourceSlice:
    case Kind::kDeviceTaintRule:
    case Kind::kResourceClaimTemplate:
    case Kind::kResourceClaim:
    case Kind::kProvisioningRequestConfig:
    case Kind::kMultiKueueConfig:
    case Kind::kMultiKueueCluster:
    case Kind::kNativeWorkload:
    case Kind::kPodGroup:
    case Kind::kCompositePodGroup:
    case Kind::kJob:
    case Kind::kLease:
    case Kind::kEvent:
      return false;
  }
  return false;
}

// Kinds that decode into an object and are therefore watched.
bool Watched(Kind kind) {
  return kind != Kind::kProvisioningRequestConfig && kind != Kind::kMultiKueueConfig &&
         kind != Kind::kMultiKueueCluster && kind != Kind::kLease && kind != Kind::kEvent;
}

}  // namespace

struct ControllerDriver::Impl : std::enable_shared_from_this<ControllerDriver::Impl> {
  Impl(k8s::Transport& t, k8s::Timers& tm, Options o, Hooks h)
      : timers(tm),
        plain(t),
        options(std::move(o)),
        hooks(std::move(h)),
        limited(t,
                tm,
                {.per_second = static_cast<std::int64_t>(options.client_qps),
                 .burst = std::max(1, options.client_burst)}),
        client(limited, tm, k8s::ClientOptions{.max_attempts = 3}),
        state(options),
        controller(state, options) {}

  k8s::Timers& timers;
  k8s::Transport& plain;
  const Options options;
  Hooks hooks;
  k8s::LimitedTransport limited;
  k8s::Client client;
  State state;
  Controller controller;
  std::unique_ptr<k8s::EventRecorder> recorder;
  std::unique_ptr<Writer> writer;
  std::unique_ptr<k8s::Discovery> discovery;
  std::unique_ptr<k8s::LeaderElector> elector;
  std::unique_ptr<SolverThread> solver;
  std::map<Kind, std::unique_ptr<k8s::Informer>> informers;
  std::set<Kind> unsynced;
  bool discovered = false;
  bool synced = false;
  bool leading = false;
  bool running = false;
  bool stopped = false;
  bool pumping = false;
  bool pump_posted = false;
  bool event_refused = false;
  std::unique_ptr<k8s::Timers::Timer> wake;
  std::optional<TimePoint> wake_at;
  std::unique_ptr<k8s::Timers::Timer> stop_patience;
  std::move_only_function<void()> stop_done;
  Counters counters;

  void Start();
  void Input_(Input input) {
    controller.On(std::move(input), timers.Now());
    PostPump();
  }
  void PostPump();
  void Pump();
  void Carry(Effect effect);
  void StartInformer(Kind kind);
  void CheckSynced();
  void SetLeading(bool value);
  void Stop(std::move_only_function<void()> done);
  void FinishStop();
};

ControllerDriver::ControllerDriver(k8s::Transport& transport,
                                   k8s::Timers& timers,
                                   Options options,
                                   Hooks hooks)
    : impl_(std::make_shared<Impl>(transport, timers, std::move(options), std::move(hooks))) {}

ControllerDriver::~ControllerDriver() {
  // Callbacks that are still posted hold only weak references.
  impl_->solver.reset();
  impl_->stopped = true;
}

void ControllerDriver::Start() {
  impl_->Start();
}
void ControllerDriver::Stop(std::move_only_function<void()> done) {
  impl_->Stop(std::move(done));
}
bool ControllerDriver::synced() const {
  return impl_->synced;
}
bool ControllerDriver::leading() const {
  return impl_->leading;
}
const State& ControllerDriver::state() const {
  return impl_->state;
}
const Options& ControllerDriver::options() const {
  return impl_->options;
}
std::vector<RunningGang> ControllerDriver::Running() const {
  return impl_->controller.Running();
}
std::vector<std::string> ControllerDriver::BadObjects() const {
  return impl_->controller.BadObjects();
}
ControllerDriver::Counters ControllerDriver::counters() const {
  return impl_->counters;
}

bool ControllerDriver::Idle() const {
  return impl_->discovered && !impl_->pump_posted && (!impl_->writer || impl_->writer->idle()) &&
         impl_->synced && impl_->controller.Idle(impl_->timers.Now()) &&
         std::ranges::none_of(impl_->informers,
                              [](const auto& entry) { return entry.second->behind(); });
}

std::optional<TimePoint> ControllerDriver::NextWake() const {
  return impl_->controller.NextWake();
}

void ControllerDriver::Impl::Start() {
  if (running) {
    return;
  }
  running = true;
  const std::weak_ptr<Impl> weak = weak_from_this();
  recorder = std::make_unique<k8s::EventRecorder>(
      client, timers, k8s::EventRecorderOptions{.reporting_instance = hooks.identity});
  writer = std::make_unique<Writer>(client, hooks.writes_in_flight, [weak](WriteDone done) {
    if (const auto self = weak.lock(); self) {
      if (!done.response) {
        ++(done.response.error().code == ErrorCode::kConflict ? self->counters.write_conflicts
                                                              : self->counters.write_errors);
      }
      self->Input_(std::move(done));
      if (self->stopped) {
        self->FinishStop();
      }
    }
  });
  if (hooks.post_from_any_thread) {
    solver = std::make_unique<SolverThread>(
        hooks.post_from_any_thread, hooks.budget, [weak](Plan plan, Duration took) {
          if (const auto self = weak.lock(); self) {
            self->counters.last_cycle_microseconds =
                std::chrono::duration_cast<std::chrono::microseconds>(took).count();
            self->Input_(PlanReady{.plan = std::move(plan)});
          }
        });
  }
  discovery = std::make_unique<k8s::Discovery>(
      client,
      timers,
      k8s::DiscoveryOptions{},
      k8s::DiscoveryHandlers{
          .on_change =
              [weak](const std::vector<Kind>& appeared, const std::vector<Kind>& vanished) {
                const auto self = weak.lock();
                if (!self || self->stopped) {
                  return;
                }
                for (const Kind kind : vanished) {
                  if (const auto it = self->informers.find(kind); it != self->informers.end()) {
                    self->informers[kind]->Withdraw();
                    self->unsynced.erase(kind);
                  }
                }
                for (const Kind kind : appeared) {
                  if (Watched(kind)) {
                    self->StartInformer(kind);
                  }
                }
                self->discovered = true;
                self->CheckSynced();
              },
          .on_trouble =
              [](const Error& error) {
                log::Warning("asking what the API server serves fails", {{"error", error.message}});
              }});
  discovery->Start();
  if (!options.leader_elect) {
    SetLeading(true);
    return;
  }
  k8s::LeaderOptions leader;
  leader.ns = options.namespace_name;
  leader.name = options.lease_name;
  leader.lease.identity = hooks.identity;
  leader.lease.lease_duration = options.lease_duration;
  leader.lease.renew_deadline = options.renew_deadline;
  leader.lease.retry_period = options.retry_period;
  elector = std::make_unique<k8s::LeaderElector>(
      plain,
      timers,
      leader,
      k8s::LeaderHandlers{.on_started =
                              [weak] {
                                if (const auto self = weak.lock(); self && !self->stopped) {
                                  self->SetLeading(true);
                                }
                              },
                          .on_stopped =
                              [weak] {
                                if (const auto self = weak.lock(); self) {
                                  const bool lost = self->leading && !self->stopped;
                                  self->SetLeading(false);
                                  if (lost && self->hooks.on_lease_lost) {
                                    self->hooks.on_lease_lost();
                                  }
                                }
                              },
                          .on_holder =
                              [](const std::string& holder) {
                                log::Info("the lease is held", {{"holder", holder}});
                              },
                          .on_trouble =
                              [](const Error& error) {
                                log::Warning("the lease cannot be read or written",
                                             {{"error", error.message}});
                              }});
  elector->Start();
}

void ControllerDriver::Impl::StartInformer(Kind kind) {
  const std::weak_ptr<Impl> weak = weak_from_this();
  auto& slot = informers[kind];
  if (!slot) {
    k8s::InformerOptions informer_options;
    informer_options.kind = kind;
    slot = std::make_unique<k8s::Informer>(
        limited,
        timers,
        informer_options,
        k8s::InformerHandlers{
            .on_upsert =
                [weak](const api::Object& object) {
                  if (const auto self = weak.lock(); self) {
                    self->Input_(ObjectChanged{.object = object});
                  }
                },
            .on_delete =
                [weak](Kind deleted, const api::ObjectKey& key) {
                  if (const auto self = weak.lock(); self) {
                    self->Input_(ObjectDeleted{.kind = deleted, .key = key});
                  }
                },
            .on_synced =
                [weak](Kind done) {
                  if (const auto self = weak.lock(); self) {
                    self->unsynced.erase(done);
                    self->CheckSynced();
                  }
                },
            .on_bad_object =
                [weak](Kind bad, const api::ObjectMeta& meta, const Error& error) {
                  if (const auto self = weak.lock(); self) {
                    self->Input_(BadObject{.kind = bad, .meta = meta, .error = error.message});
                  }
                },
            .on_trouble =
                [weak](Kind trouble, const Error& error) {
                  log::Warning("listing or watching fails",
                               {{"kind", api::Info(trouble).name}, {"error", error.message}});
                  if (const auto self = weak.lock(); self && error.code == ErrorCode::kNotFound) {
                    self->discovery->Refresh();
                  }
                }});
  }
  if (!synced) {
    unsynced.insert(kind);
  }
  slot->Start();
}

void ControllerDriver::Impl::CheckSynced() {
  if (synced || !discovered || !unsynced.empty()) {
    return;
  }
  for (const api::KindInfo& info : api::AllKinds()) {
    if (Required(info.kind) && !informers.contains(info.kind)) {
      return;  // the CustomResourceDefinitions are not there yet
    }
  }
  synced = true;
  log::Info("all kinds are listed", {{"kinds", static_cast<std::int64_t>(informers.size())}});
  Input_(Synced{});
}

void ControllerDriver::Impl::SetLeading(bool value) {
  if (leading == value) {
    return;
  }
  leading = value;
  log::Info(value ? "leading" : "no longer leading", {{"identity", hooks.identity}});
  Input_(LeadershipChanged{.leading = value});
  if (hooks.on_leadership) {
    hooks.on_leadership(value);
  }
}

void ControllerDriver::Impl::PostPump() {
  if (pump_posted) {
    return;
  }
  pump_posted = true;
  timers.Post([weak = weak_from_this()] {
    if (const auto self = weak.lock(); self) {
      self->pump_posted = false;
      self->Pump();
    }
  });
}

void ControllerDriver::Impl::Pump() {
  if (stopped) {
    return;
  }
  const bool may_write = !elector || elector->Leads();
  if (leading && !may_write) {
    return;  // the lease ran out; on_stopped follows
  }
  for (Effect& effect : controller.Run(timers.Now())) {
    Carry(std::move(effect));
  }
  const std::optional<TimePoint> next = controller.NextWake();
  if (next != wake_at || !wake) {
    wake.reset();
    wake_at = next;
    if (next) {
      wake = timers.At(std::max(*next, timers.Now()), [weak = weak_from_this()] {
        if (const auto self = weak.lock(); self) {
          self->wake_at.reset();
          self->PostPump();
        }
      });
    }
  }
}

void ControllerDriver::Impl::Carry(Effect effect) {
  if (auto* write = std::get_if<WriteEffect>(&effect)) {
    ++counters.writes;
    writer->Submit(std::move(*write));
  } else if (auto* event = std::get_if<EventEffect>(&effect)) {
    const api::KindInfo& info = api::Info(event->kind);
    if (event->reason == "Admitted") {
      ++counters.admissions;
    } else if (event->reason.starts_with("EvictedDueTo")) {
      ++counters.evictions;
    }
    recorder->Record(
        k8s::EventNote{.regarding = {.api_version = info.ApiVersion(),
                                     .kind = std::string(info.name),
                                     .ns = event->regarding.ns,
                                     .name = event->regarding.name,
                                     .uid = event->uid,
                                     .resource_version = event->resource_version},
                       .related = std::nullopt,
                       .type = event->warning ? k8s::EventType::kWarning : k8s::EventType::kNormal,
                       .reason = event->reason,
                       .action = event->action,
                       .note = event->note,
                       .reporting_controller = event->controller});
  } else if (auto* metric = std::get_if<MetricEffect>(&effect)) {
    if (hooks.on_metric) {
      hooks.on_metric(*metric);
    }
  } else if (auto* solve = std::get_if<SolveEffect>(&effect)) {
    ++counters.cycles;
    if (solver) {
      solver->Submit(std::move(solve->snapshot), timers.Now());
    } else {
      timers.Post([weak = weak_from_this(), snapshot = std::move(solve->snapshot)] {
        if (const auto self = weak.lock(); self && !self->stopped) {
          self->Input_(
              PlanReady{.plan = Decide(*snapshot, self->timers.Now(), self->hooks.budget)});
        }
      });
    }
  }
}

void ControllerDriver::Impl::Stop(std::move_only_function<void()> done) {
  if (stop_done || stopped) {
    timers.Post(std::move(done));
    return;
  }
  stop_done = std::move(done);
  stopped = true;
  wake.reset();
  solver.reset();
  informers.clear();
  discovery.reset();
  if (writer) {
    writer->Stop();
  }
  // A write that does not end must not keep the process: what it does is decided by its
  // precondition.
  stop_patience = timers.At(timers.Now() + std::chrono::seconds(2), [weak = weak_from_this()] {
    if (const auto self = weak.lock(); self && self->stop_done) {
      self->writer.reset();
      self->FinishStop();
    }
  });
  FinishStop();
}

void ControllerDriver::Impl::FinishStop() {
  if (!stop_done || (writer && !writer->idle())) {
    return;
  }
  stop_patience.reset();
  auto done = std::make_shared<std::move_only_function<void()>>(std::move(stop_done));
  stop_done = nullptr;
  if (elector) {
    elector->Release([done] { (*done)(); });
  } else {
    timers.Post([done] { (*done)(); });
  }
}

}  // namespace muster::scheduler
