#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "k8sclient/request.h"

// The seam between the client and the world. serve uses Beast and the real clock; the simulator its
// in-memory API server and virtual time; nothing above this header knows which.
namespace muster::k8s {

// Threads  All calls and all callbacks on one thread. A callback never runs from inside the call
// that registered it.
class Transport {
 public:
  using Done = std::move_only_function<void(Result<Response>)>;

  // Destroying a stream cancels it; no handler runs afterwards.
  class Stream {
   public:
    virtual ~Stream() = default;
  };
  struct StreamHandlers {
    // Status line and headers. For a status other than 200 the body follows in on_data and then
    // on_end.
    std::move_only_function<void(int status, const Headers& headers)> on_response;
    std::move_only_function<void(std::string_view bytes)> on_data;
    // Once, at the end: empty for an orderly end, an error for a cut or a silence longer than the
    // request's timeout.
    std::move_only_function<void(Status)> on_end;
  };

  virtual ~Transport() = default;
  // Sends one request; `done` runs exactly once. HTTP errors are responses; an Error means that no
  // answer came (kRetry: unknown whether the server acted).
  virtual void Send(Request request, Done done) = 0;
  [[nodiscard]] virtual std::unique_ptr<Stream> OpenStream(Request request,
                                                           StreamHandlers handlers) = 0;
};

// The clock and its alarms.
// Threads  As Transport.
class Timers {
 public:
  class Timer {  // destroying it cancels
   public:
    virtual ~Timer() = default;
  };
  virtual ~Timers() = default;
  [[nodiscard]] virtual TimePoint Now() const = 0;
  [[nodiscard]] virtual std::unique_ptr<Timer> At(TimePoint when,
                                                  std::move_only_function<void()> fn) = 0;
  // Runs `fn` soon, after the current callback has returned, in order of posting.
  virtual void Post(std::move_only_function<void()> fn) = 0;
};

}  // namespace muster::k8s
