#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/json.h"
#include "base/result.h"
#include "base/time.h"
#include "scheduler/controller_driver.h"
#include "scheduler/options.h"
#include "sim/api_server.h"
#include "sim/local_transport.h"
#include "sim/scenario.h"
#include "sim/stand_ins.h"
#include "sim/timeline.h"
#include "sim/virtual_time.h"

// A whole cluster in virtual time: the in-memory API server, the stand-ins, and the real
// controller.
namespace muster::sim {

struct WorldOptions {
  scheduler::Options controller;
  // Called for every request of the controller; empty: nothing goes wrong.
  std::function<Fault(const k8s::Request&)> faults;
  // Virtual time starts here; scenario times count from it.
  TimePoint start = std::chrono::sys_days(std::chrono::year(2026) / 1 / 1);
};

// Applies scenario actions to an API server as a user with kubectl would. Used by the world and by
// the demo.
//
// Threads  One.
class ScenarioPlayer {
 public:
  using OnRejected = std::function<void(const std::string& object, const std::string& message)>;

  ScenarioPlayer(ApiServer& server, Scenario scenario, TimePoint start);

  // Namespaces that objects use and that no document creates.
  void CreateNamespaces(TimePoint now);
  // Performs everything that is due by `now`, in order.
  void Play(TimePoint now, const OnRejected& on_rejected);
  [[nodiscard]] std::optional<TimePoint> Next() const;
  [[nodiscard]] const Scenario& scenario() const { return scenario_; }
  [[nodiscard]] bool HasNodes() const;

 private:
  struct Resource {
    std::string path_prefix;  // "/apis/batch/v1"
    std::string plural;
    bool namespaced = false;
    bool has_status = false;
  };
  [[nodiscard]] const Resource* Find(const std::string& api_version,
                                     const std::string& kind,
                                     TimePoint now);
  [[nodiscard]] std::string PathOf(const Resource& resource,
                                   const std::string& ns,
                                   const std::string& name) const;
  void Perform(const Action& action, TimePoint now, const OnRejected& on_rejected);
  void Create(const Action& action,
              const Resource& resource,
              TimePoint now,
              const OnRejected& on_rejected);

  ApiServer& server_;
  Scenario scenario_;
  TimePoint start_;
  std::size_t next_ = 0;
  std::map<std::string, std::map<std::string, Resource>> resources_;  // apiVersion -> kind
};

// Threads  One.
// Errors   A run that cannot come to rest at one instant ends with kInvalid: a bug, reported with
// what was still moving.
class World {
 public:
  World(Scenario scenario, WorldOptions options);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Runs until `until` (since the start) or until nothing can happen any more. May be called again
  // with a later time.
  [[nodiscard]] Status Run(Duration until);
  // Moves to the next instant at which something happens, but not beyond `until`. False when there
  // is none.
  [[nodiscard]] Result<bool> RunNextInstant(Duration until);
  // Kills the controller without warning and starts a new one from nothing.
  void RestartController();

  [[nodiscard]] ApiServer& server() { return *server_; }
  [[nodiscard]] const scheduler::ControllerDriver& controller() const { return *driver_; }
  [[nodiscard]] const Timeline& timeline() const { return *timeline_; }
  [[nodiscard]] Duration now() const { return timers_.Now() - options_.start; }
  [[nodiscard]] TimePoint clock() const { return timers_.Now(); }
  [[nodiscard]] LocalTransport& transport() { return *transport_; }

 private:
  void StartController();
  [[nodiscard]] Status Settle();
  void NoteQueued();

  WorldOptions options_;
  VirtualTimers timers_;
  std::unique_ptr<ApiServer> server_;
  ScenarioPlayer player_;
  std::vector<std::unique_ptr<StandIn>> stand_ins_;
  std::unique_ptr<Timeline> timeline_;
  std::unique_ptr<LocalTransport> transport_;
  std::unique_ptr<scheduler::ControllerDriver> driver_;
  bool changed_ = false;
  bool started_ = false;
  int incarnation_ = 0;
};

// Reports, as scenario.md fixes them.
[[nodiscard]] api::Json ReportJson(World& world);
[[nodiscard]] std::string ReportTable(World& world);

}  // namespace muster::sim
