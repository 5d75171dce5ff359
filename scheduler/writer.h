#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "k8sclient/client.h"
#include "scheduler/effects.h"

namespace muster::scheduler {

// Sends the controller's writes, several at a time, the urgent ones first. Each outcome is reported
// exactly once, also when the writer stops.
//
// Threads  As k8s::Transport.
// Order    Releases before admissions before the rest before queue status; first come, first sent
// within one urgency. The controller has at
//          most one write in flight for each object, so no two writes here touch one object.
class Writer {
 public:
  using Done = std::function<void(WriteDone)>;
  Writer(k8s::Client& client, std::size_t in_flight, Done done);
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void Submit(WriteEffect write);
  // Writes that have not been sent end with an error at once; those under way end as they end.
  void Stop();
  [[nodiscard]] bool idle() const;
  [[nodiscard]] std::size_t in_flight() const;
  [[nodiscard]] std::uint64_t sent() const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace muster::scheduler
