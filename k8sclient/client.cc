#include "k8sclient/client.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/prng.h"

namespace muster::k8s {

RetryDecision DecideRetry(const Request& request,
                          const ApiError& error,
                          int attempt,
                          const ClientOptions& options,
                          Prng& prng) {
  if (attempt >= options.max_attempts || error.code != ErrorCode::kRetry) {
    return {};
  }
  const bool refused_unread = error.http_status == 429;
  const bool asked_to = error.http_status >= 500 && error.retry_after_seconds > 0;
  if (!refused_unread && !asked_to && !request.resend) {
    return {};
  }
  const Duration asked = std::chrono::seconds(error.retry_after_seconds);
  if (asked > options.max_retry_after) {
    return {};
  }
  return {.again = true, .delay = std::max(asked, Backoff(options.backoff, attempt, prng))};
}

struct Client::State {
  struct Call {
    Request request;
    RawDone done;
    int attempts = 0;
    std::unique_ptr<Timers::Timer> timer;
  };

  Transport& transport;
  Timers& timers;
  ClientOptions options;
  Prng prng;
  std::map<std::uint64_t, Call> calls;
  std::uint64_t next_id = 1;
  std::uint64_t sent = 0;
  std::uint64_t repeated = 0;

  static void Attempt(const std::shared_ptr<State>& self, std::uint64_t id) {
    const auto it = self->calls.find(id);
    if (it == self->calls.end()) {
      return;
    }
    Call& call = it->second;
    call.timer.reset();
    ++self->sent;
    if (++call.attempts > 1) {
      ++self->repeated;
    }
    // The last possible attempt may take the request along.
    Request request =
        call.attempts < self->options.max_attempts ? call.request : std::move(call.request);
    self->transport.Send(std::move(request),
                         [weak = std::weak_ptr<State>(self), id](Result<Response> answer) {
                           if (const std::shared_ptr<State> state = weak.lock()) {
                             OnAnswer(state, id, std::move(answer));
                           }
                         });
  }

  static void OnAnswer(const std::shared_ptr<State>& self,
                       std::uint64_t id,
                       Result<Response> answer) {
    const auto it = self->calls.find(id);
    if (it == self->calls.end()) {
      return;
    }
    Call& call = it->second;
    if (answer && ((answer->status >= 200 && answer->status < 300) || answer->status == 304)) {
      Finish(self, id, std::move(*answer));
      return;
    }
    ApiError error = answer ? ErrorFromResponse(*answer) : ErrorFromTransport(answer.error());
    const RetryDecision decision =
        DecideRetry(call.request, error, call.attempts, self->options, self->prng);
    if (!decision.again) {
      Finish(self, id, std::unexpected(std::move(error)));
      return;
    }
    call.timer = self->timers.At(self->timers.Now() + decision.delay,
                                 [weak = std::weak_ptr<State>(self), id] {
                                   if (const std::shared_ptr<State> state = weak.lock()) {
                                     Attempt(state, id);
                                   }
                                 });
  }

  static void Finish(const std::shared_ptr<State>& self, std::uint64_t id, RawReply reply) {
    auto node = self->calls.extract(id);
    node.mapped().done(std::move(reply));
  }
};

Client::Client(Transport& transport, Timers& timers, ClientOptions options)
    : state_(std::make_shared<State>(State{.transport = transport,
                                           .timers = timers,
                                           .options = options,
                                           .prng = Prng(options.seed),
                                           .calls = {}})) {}

Client::~Client() = default;

void Client::SendRaw(Request request, RawDone done) {
  const std::uint64_t id = state_->next_id++;
  state_->calls.emplace(
      id,
      State::Call{
          .request = std::move(request), .done = std::move(done), .attempts = 0, .timer = {}});
  State::Attempt(state_, id);
}

void Client::Send(Request request, Done done) {
  SendRaw(std::move(request), [done = std::move(done)](RawReply reply) mutable {
    if (!reply) {
      done(std::unexpected(std::move(reply).error()));
      return;
    }
    if (reply->body.empty()) {
      done(api::Json());
      return;
    }
    Result<api::Json> json = api::ParseJson(reply->body);
    if (!json) {
      ApiError error = ErrorFromTransport(json.error().At("answer of the API server"));
      error.http_status = reply->status;
      done(std::unexpected(std::move(error)));
      return;
    }
    done(std::move(*json));
  });
}

Transport& Client::transport() {
  return state_->transport;
}
Timers& Client::timers() {
  return state_->timers;
}
std::uint64_t Client::sent() const {
  return state_->sent;
}
std::uint64_t Client::repeated() const {
  return state_->repeated;
}
std::size_t Client::in_flight() const {
  return state_->calls.size();
}

}  // namespace muster::k8s
