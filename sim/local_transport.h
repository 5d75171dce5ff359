#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "k8sclient/transport.h"
#include "sim/api_server.h"

namespace muster::sim {

// What may go wrong with one request. Returned by a fault hook; the default is that nothing does.
struct Fault {
  enum class Kind : std::uint8_t {
    kNone,
    kRefuse,        // answer `status` without acting
    kLoseRequest,   // no answer, the server did not act
    kLoseResponse,  // no answer, the server did act
    kDelay,         // answer after `delay`
    kCutStream,     // a watch ends after `bytes` more bytes
  };
  Kind kind = Kind::kNone;
  int status = 500;
  Duration delay{};
  std::size_t bytes = 0;
};

// Connects the real client to the in-memory API server: the same requests and bytes, no sockets.
// With VirtualTimers a request is answered at the instant it is sent, after the current callback; a
// real event loop works as well.
//
// Threads  One, that of `timers`.
class LocalTransport final : public k8s::Transport {
 public:
  LocalTransport(ApiServer& server, k8s::Timers& timers);
  ~LocalTransport() override;
  LocalTransport(const LocalTransport&) = delete;
  LocalTransport& operator=(const LocalTransport&) = delete;

  void Send(k8s::Request request, Done done) override;
  [[nodiscard]] std::unique_ptr<Stream> OpenStream(k8s::Request request,
                                                   StreamHandlers handlers) override;

  // Asked once per request and per chunk of a stream.
  void SetFaults(std::function<Fault(const k8s::Request&)> faults);
  // Hands every open stream what has become available. The owner of the server calls it after
  // changes.
  void Pump();
  // A dead process: nothing that was on its way is delivered any more.
  void Disconnect();

 private:
  struct Shared;
  class LocalStream;
  std::shared_ptr<Shared> shared_;
};

}  // namespace muster::sim
