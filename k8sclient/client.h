#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>

#include "api/json.h"
#include "base/time.h"
#include "k8sclient/api_error.h"
#include "k8sclient/backoff.h"
#include "k8sclient/request.h"
#include "k8sclient/requests.h"
#include "k8sclient/transport.h"

namespace muster::k8s {

struct ClientOptions {
  int max_attempts = 5;
  BackoffOptions backoff{};
  // A longer Retry-After is handed to the caller instead of waited for.
  Duration max_retry_after = std::chrono::seconds(35);
  std::uint64_t seed = 1;  // of the jitter
};

// What one answer means for a request that has been sent `attempt` times. Pure, so that the rule is
// a table.
//
//   no answer            again if request.resend
//   429                  again: the server refuses before it acts
//   5xx + Retry-After    again: the server asks for it
//   5xx                  again if request.resend
//   anything else        final
struct RetryDecision {
  bool again = false;
  Duration delay{};
};
[[nodiscard]] RetryDecision DecideRetry(const Request& request,
                                        const ApiError& error,
                                        int attempt,
                                        const ClientOptions& options,
                                        Prng& prng);

// Sends requests, retries where that is safe, and turns answers into JSON or an ApiError.
//
//   client.Send(k8s::Get(api::Path(api::Kind::kPod, "a", "p")), [](k8s::Reply reply) {
//     if (!reply && reply.error().code == ErrorCode::kNotFound) …
//   });
//
// Threads  As Transport. `done` runs exactly once, never from inside Send; never after the client
// is destroyed.
class Client {
 public:
  using Reply = std::expected<api::Json, ApiError>;
  using Done = std::move_only_function<void(Reply)>;
  using RawReply = std::expected<Response, ApiError>;
  using RawDone = std::move_only_function<void(RawReply)>;

  Client(Transport& transport, Timers& timers, ClientOptions options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // An answer of 2xx without a body is JSON null.
  void Send(Request request, Done done);
  // The same without reading the body.
  void SendRaw(Request request, RawDone done);

  [[nodiscard]] Transport& transport();
  [[nodiscard]] Timers& timers();
  // Requests sent so far, each attempt counted, and how many of them were repeats.
  [[nodiscard]] std::uint64_t sent() const;
  [[nodiscard]] std::uint64_t repeated() const;
  [[nodiscard]] std::size_t in_flight() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::k8s
