#pragma once

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>

#include "base/time.h"
#include "k8sclient/transport.h"

// What the contract suite talks to: the API server in memory, or a real one.
namespace muster::contract {

class Target {
 public:
  virtual ~Target() = default;
  [[nodiscard]] virtual k8s::Transport& transport() = 0;
  [[nodiscard]] virtual k8s::Timers& timers() = 0;
  // Lets the world go on until `done` says so. False if it never did within `limit`.
  [[nodiscard]] virtual bool Until(const std::function<bool()>& done, Duration limit) = 0;
};

struct TargetKind {
  std::string name;
  // Nothing if this target cannot be had here; `why` says what is missing.
  std::function<std::unique_ptr<Target>(std::string& why)> make;
};

[[nodiscard]] TargetKind RealTarget();
#ifdef MUSTER_CONTRACT_SIM
[[nodiscard]] TargetKind SimTarget();
#endif

}  // namespace muster::contract
