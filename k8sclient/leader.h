#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "k8sclient/lease.h"
#include "k8sclient/transport.h"

namespace muster::k8s {

struct LeaderOptions {
  std::string ns;    // of the Lease
  std::string name;  // of the Lease
  LeaseOptions lease{};
  std::uint64_t seed = 1;
};

struct LeaderHandlers {
  std::function<void()> on_started;  // act from now on
  std::function<void()>
      on_stopped;  // stop acting now; the lease cannot be taken by another before this has run
  std::function<void(const std::string& holder)> on_holder;  // "" = nobody
  std::function<void(const Error& error)> on_trouble;
};

// Takes and keeps a Lease. After a loss it goes on trying.
//
//   LeaderElector elector(transport, timers, {.ns = ns, .name = "muster", .lease = {.identity =
//   id}}, handlers); elector.Start(); … if (elector.Leads()) … before each batch of writes;
//   elector.Release(done) on a clean stop.
//
// Threads  As Transport. Uses the plain transport, so that no rate limit delays a renewal.
class LeaderElector {
 public:
  // `options.lease` must pass Validate.
  LeaderElector(Transport& transport,
                Timers& timers,
                LeaderOptions options,
                LeaderHandlers handlers);
  ~LeaderElector();
  LeaderElector(const LeaderElector&) = delete;
  LeaderElector& operator=(const LeaderElector&) = delete;

  void Start();
  // Gives the lease back, so that a standby need not wait for it to run out. on_stopped runs first
  // (if leading), then `done`; at the latest after `patience`. Write nothing afterwards.
  void Release(std::function<void()> done, Duration patience = std::chrono::seconds(2));

  [[nodiscard]] bool Leads() const;
  [[nodiscard]] const std::string& holder() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::k8s
