#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/metadata.h"
#include "base/time.h"
#include "k8sclient/transport.h"
#include "scheduler/effects.h"
#include "scheduler/options.h"
#include "scheduler/state.h"

namespace muster::scheduler {

// One pod of an admitted gang.
struct RunningMember {
  api::ObjectKey pod;
  std::string pod_set;
  std::string
      node;  // where it is bound, or where it will be sent; empty when kube-scheduler chooses
  std::string phase;  // "" while the pod does not exist yet or is held by a gate
  bool bound = false;
};
// An admitted Workload that has not finished.
struct RunningGang {
  api::ObjectKey workload;
  std::string owner;  // "batch/v1 Job team-a/x"; empty when nothing owns it
  std::string cluster_queue;
  std::string local_queue;
  std::optional<TimePoint> admitted_at;
  std::int64_t priority = 0;
  bool evicting = false;
  std::vector<RunningMember> members;
};

struct Hooks {
  // Name of this replica in the lease; must differ between replicas.
  std::string identity = "muster";
  // Set: cycles run on a solver thread, and this runs a function on the I/O thread from any other
  // (asio::post). Empty: cycles run inline, as the simulator wants it.
  std::function<void(std::move_only_function<void()>)> post_from_any_thread;
  std::function<void(const MetricEffect&)> on_metric;
  std::function<void(bool leading)> on_leadership;
  // The lease was lost or could not be renewed in time: serve ends the process, so that no second
  // writer can exist.
  std::function<void()> on_lease_lost;
  Budget budget{};
  std::size_t writes_in_flight = 32;
};

// The whole controller on one Transport and one set of Timers: discovery, informers, leader
// election, reconciling, deciding, writing. With a real transport it serves a cluster; with the
// in-memory API server and virtual time it is the same program in a simulator.
//
// Threads  Everything on the thread of transport and timers, but Decide when hooks ask for a solver
// thread. Crash    May be destroyed at any moment; the next one rebuilds all from the API server.
//
//   ControllerDriver driver(transport, timers, options, Hooks{.identity = "a"});
//   driver.Start();
//   while (!driver.Idle() || driver.NextWake()) { run what is due in transport and timers }
class ControllerDriver {
 public:
  ControllerDriver(k8s::Transport& transport, k8s::Timers& timers, Options options, Hooks hooks);
  ~ControllerDriver();
  ControllerDriver(const ControllerDriver&) = delete;
  ControllerDriver& operator=(const ControllerDriver&) = delete;

  void Start();
  // Stops deciding, waits for the writes in flight, releases the lease, then runs `done` (exactly
  // once).
  void Stop(std::move_only_function<void()> done);

  [[nodiscard]] bool synced() const;   // all kinds listed
  [[nodiscard]] bool leading() const;  // may write
  // True when nothing is dirty, no write is in flight or queued and no cycle runs: only a watch
  // event or NextWake can change anything. Watch deliveries that are still under way are the
  // transport's to know.
  [[nodiscard]] bool Idle() const;
  // When time alone will make the controller act (backoff, time-outs, status due); lease renewal
  // and client keep-alives do not count.
  [[nodiscard]] std::optional<TimePoint> NextWake() const;

  // Views for dashboard, metrics and `explain`; valid until the next callback.
  [[nodiscard]] const State& state() const;
  [[nodiscard]] const Options& options() const;
  [[nodiscard]] std::vector<RunningGang> Running() const;
  // Objects that could not be decoded: "Kind ns/name: error".
  [[nodiscard]] std::vector<std::string> BadObjects() const;
  struct Counters {
    std::uint64_t cycles = 0;
    std::uint64_t writes = 0;
    std::uint64_t write_conflicts = 0;
    std::uint64_t write_errors = 0;
    std::uint64_t admissions = 0;
    std::uint64_t evictions = 0;
    std::int64_t last_cycle_microseconds = 0;  // 0 in virtual time
  };
  [[nodiscard]] Counters counters() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace muster::scheduler
