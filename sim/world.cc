#include "sim/world.h"

#include <algorithm>
#include <set>
#include <utility>

#include "api/kind.h"
#include "base/strings.h"

namespace muster::sim {
namespace {

const Json& At(const Json& object, std::string_view key) {
  static const Json kNothing;
  if (!object.is_object()) {
    return kNothing;
  }
  const auto it = object.find(key);
  return it != object.end() ? *it : kNothing;
}

std::string Text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::string Describe(const Action& action) {
  return action.api_version + " " + action.object_kind + " " +
         (action.ns.empty() ? action.name : action.ns + "/" + action.name);
}

std::string MessageOf(const k8s::Response& response) {
  const Json status = Json::parse(response.body, nullptr, false);
  const std::string message = Text(At(status, "message"));
  return message.empty() ? "the API server answered " + std::to_string(response.status) : message;
}

// Steps at one instant that no healthy run needs: the largest scenarios take some tens of
// thousands.
constexpr int kStepsPerInstant = 2'000'000;

}  // namespace

ScenarioPlayer::ScenarioPlayer(ApiServer& server, Scenario scenario, TimePoint start)
    : server_(server), scenario_(std::move(scenario)), start_(start) {}

const ScenarioPlayer::Resource* ScenarioPlayer::Find(const std::string& api_version,
                                                     const std::string& kind,
                                                     TimePoint now) {
  for (const bool refresh : {false, true}) {
    auto& kinds = resources_[api_version];
    if (kinds.empty() || refresh) {
      // A CustomResourceDefinition of the scenario may have added the kind since.
      const std::string prefix =
          (api_version.find('/') == std::string::npos ? "/api/" : "/apis/") + api_version;
      const k8s::Response response = server_.Handle(k8s::Request{.target = prefix}, now);
      const Json list = Json::parse(response.body, nullptr, false);
      for (const Json& entry : At(list, "resources")) {
        const std::string name = Text(At(entry, "name"));
        const std::size_t slash = name.find('/');
        Resource& resource = kinds[Text(At(entry, "kind"))];
        if (slash == std::string::npos) {
          resource.path_prefix = prefix;
          resource.plural = name;
          resource.namespaced = At(entry, "namespaced") == Json(true);
        } else if (name.substr(slash) == "/status") {
          resource.has_status = true;
        }
      }
    }
    const auto it = kinds.find(kind);
    if (it != kinds.end() && !it->second.plural.empty()) {
      return &it->second;
    }
  }
  return nullptr;
}

std::string ScenarioPlayer::PathOf(const Resource& resource,
                                   const std::string& ns,
                                   const std::string& name) const {
  std::string path = resource.path_prefix;
  if (resource.namespaced) {
    path += "/namespaces/" + PercentEncode(ns.empty() ? "default" : ns);
  }
  path += "/" + resource.plural;
  if (!name.empty()) {
    path += "/" + PercentEncode(name);
  }
  return path;
}

bool ScenarioPlayer::HasNodes() const {
  return std::any_of(scenario_.actions.begin(), scenario_.actions.end(), [](const Action& action) {
    return action.kind == Action::Kind::kCreate && action.api_version == "v1" &&
           action.object_kind == "Node";
  });
}

void ScenarioPlayer::CreateNamespaces(TimePoint now) {
  std::set<std::string> used{"default"};
  std::set<std::string> given;
  for (const Action& action : scenario_.actions) {
    if (action.kind == Action::Kind::kCreate && action.object_kind == "Namespace") {
      given.insert(action.name);
    } else if (!action.ns.empty()) {
      used.insert(action.ns);
    }
  }
  for (const std::string& name : used) {
    if (!given.contains(name)) {
      const Json body{{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", name}}}};
      (void)server_.Handle(k8s::Request{.method = k8s::Method::kPost,
                                        .target = "/api/v1/namespaces",
                                        .content_type = std::string(k8s::kJson),
                                        .body = body.dump()},
                           now);
    }
  }
}

std::optional<TimePoint> ScenarioPlayer::Next() const {
  if (next_ >= scenario_.actions.size()) {
    return std::nullopt;
  }
  return start_ + scenario_.actions[next_].at;
}

void ScenarioPlayer::Play(TimePoint now, const OnRejected& on_rejected) {
  while (next_ < scenario_.actions.size() && start_ + scenario_.actions[next_].at <= now) {
    Perform(scenario_.actions[next_], now, on_rejected);
    ++next_;
  }
}

void ScenarioPlayer::Create(const Action& action,
                            const Resource& resource,
                            TimePoint now,
                            const OnRejected& on_rejected) {
  const k8s::Response created =
      server_.Handle(k8s::Request{.method = k8s::Method::kPost,
                                  .target = PathOf(resource, action.ns, ""),
                                  .content_type = std::string(k8s::kJson),
                                  .body = action.body.dump()},
                     now);
  if (created.status >= 300) {
    on_rejected(Describe(action), MessageOf(created));
    return;
  }
  // The server drops status on create where it is a subresource of its own; a scenario means what
  // it says.
  const Json& status = At(action.body, "status");
  if (!status.is_object() || status.empty() || !resource.has_status) {
    return;
  }
  const Json stored = Json::parse(created.body, nullptr, false);
  if (At(stored, "status") == status) {
    return;
  }
  const k8s::Response patched = server_.Handle(
      k8s::Request{.method = k8s::Method::kPatch,
                   .target = PathOf(resource, action.ns, Text(At(At(stored, "metadata"), "name"))) +
                             "/status",
                   .content_type = std::string(k8s::kMergePatch),
                   .body = Json{{"status", status}}.dump()},
      now);
  if (patched.status >= 300) {
    on_rejected(Describe(action), "status: " + MessageOf(patched));
  }
}

void ScenarioPlayer::Perform(const Action& action, TimePoint now, const OnRejected& on_rejected) {
  const Resource* resource = Find(action.api_version, action.object_kind, now);
  if (resource == nullptr) {
    on_rejected(Describe(action),
                "no matches for kind \"" + action.object_kind + "\" in version \"" +
                    action.api_version + "\"");
    return;
  }
  k8s::Request request;
  switch (action.kind) {
    case Action::Kind::kCreate:
      Create(action, *resource, now, on_rejected);
      return;
    case Action::Kind::kPatch:
      request.method = k8s::Method::kPatch;
      request.target = PathOf(*resource, action.ns, action.name) +
                       (action.subresource.empty() ? "" : "/" + action.subresource);
      request.content_type = std::string(k8s::kMergePatch);
      request.body = action.body.dump();
      break;
    case Action::Kind::kDelete:
      request.method = k8s::Method::kDelete;
      request.target = PathOf(*resource, action.ns, action.name) + "?propagationPolicy=Background";
      break;
  }
  const k8s::Response response = server_.Handle(request, now);
  if (response.status >= 300) {
    on_rejected(Describe(action), MessageOf(response));
  }
}

World::World(Scenario scenario, WorldOptions options)
    : options_(std::move(options)),
      timers_(options_.start),
      server_(std::make_unique<ApiServer>(ApiServerOptions{.managed_fields = false})),
      player_(*server_, std::move(scenario), options_.start) {
  // Without rivals the lease would only add writes and perpetual alarms.
  options_.controller.leader_elect = false;
  player_.CreateNamespaces(options_.start);
  timeline_ = std::make_unique<Timeline>(*server_, options_.start);
  stand_ins_ = MakeStandIns(*server_, StandInOptions{.no_nodes = !player_.HasNodes()});
  server_->SetOnChange([this] { changed_ = true; });
  timeline_->SetPlacementSource([this](const std::string& workload) {
    NodesByPodSet nodes;
    const std::size_t slash = workload.find('/');
    const auto* decision = driver_->state().DecisionOf(
        api::ObjectKey{.ns = workload.substr(0, slash), .name = workload.substr(slash + 1)});
    if (decision == nullptr || !decision->placement || !decision->gang) {
      return nodes;
    }
    for (const placement::PodPlacement& pod : decision->placement->pods) {
      if (!pod.node.empty()) {
        ++nodes[decision->gang->classes[pod.pod_class].name][pod.node];
      }
    }
    return nodes;
  });
  StartController();
}

World::~World() {
  // Before the server: a controller must not outlive what it talks to.
  driver_.reset();
  transport_.reset();
}

void World::StartController() {
  transport_ = std::make_unique<LocalTransport>(*server_, timers_);
  transport_->SetFaults(options_.faults);
  driver_ = std::make_unique<scheduler::ControllerDriver>(
      *transport_,
      timers_,
      options_.controller,
      scheduler::Hooks{.identity = "controller-" + std::to_string(++incarnation_)});
  driver_->Start();
}

void World::RestartController() {
  transport_->Disconnect();
  driver_.reset();
  StartController();
}

void World::NoteQueued() {
  for (const scheduler::PendingView& pending : driver_->state().Pending()) {
    timeline_->NoteQueued(timers_.Now(), pending.workload.ToString(), pending.cluster_queue);
  }
}

Status World::Settle() {
  const TimePoint now = timers_.Now();
  const auto rejected = [&](const std::string& object, const std::string& message) {
    timeline_->Rejected(now, object, message);
  };
  // All that happens at this instant, before anything is decided.
  player_.Play(now, rejected);
  server_->Tick(now);
  timeline_->Observe(now);
  const auto step_stand_ins = [&] {
    bool any = false;
    for (const auto& stand_in : stand_ins_) {
      any = stand_in->Step(now) || any;
    }
    timeline_->Observe(now);
    return any;
  };
  (void)step_stand_ins();
  for (int step = 0; step < kStepsPerInstant; ++step) {
    bool progress = timers_.RunReady();
    if (std::exchange(changed_, false)) {
      transport_->Pump();
      progress = true;
    }
    timeline_->Observe(now);
    if (progress) {
      continue;
    }
    if (!step_stand_ins()) {
      NoteQueued();
      return {};
    }
  }
  return std::unexpected(
      Error::Invalid("the world does not come to rest at " + FormatDuration(now - options_.start)));
}

Result<bool> World::RunNextInstant(Duration until) {
  const TimePoint end = options_.start + until;
  if (!started_) {
    started_ = true;
    MUSTER_RETURN_IF_ERROR(Settle());
    return true;
  }
  // What can still change the cluster; alarms of the client alone (watch time-outs, discovery) keep
  // nothing alive.
  std::optional<TimePoint> next = player_.Next();
  const auto consider = [&](std::optional<TimePoint> when) {
    if (when && (!next || *when < *next)) {
      next = when;
    }
  };
  for (const auto& stand_in : stand_ins_) {
    consider(stand_in->NextWake());
  }
  consider(driver_->NextWake());
  if (!driver_->Idle()) {
    // Something is under way and waits for an alarm, such as a retry of a request.
    consider(timers_.NextAlarm());
  }
  if (!next || *next > end) {
    return false;
  }
  // Housekeeping alarms that come first run on the way.
  const std::optional<TimePoint> alarm = timers_.NextAlarm();
  TimePoint when = alarm && *alarm < *next ? *alarm : *next;
  when = std::max(when, timers_.Now());
  timers_.AdvanceTo(when);
  MUSTER_RETURN_IF_ERROR(Settle());
  return true;
}

Status World::Run(Duration until) {
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool more, RunNextInstant(until));
    if (!more) {
      return {};
    }
  }
}

}  // namespace muster::sim
