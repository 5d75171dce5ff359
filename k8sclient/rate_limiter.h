#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "base/time.h"
#include "k8sclient/transport.h"

namespace muster::k8s {

struct RateLimit {
  std::int64_t per_second = -1;  // <= 0: no limit
  std::int64_t burst = 1;

  [[nodiscard]] bool enabled() const { return per_second > 0; }
};

// Token bucket in integers. Pure.
// Units    Tokens are counted in nanoseconds of refill, so that no rounding accumulates.
class TokenBucket {
 public:
  explicit TokenBucket(RateLimit limit);

  // Takes a token; returns when the caller may act: `now`, or later if it has to wait. Callers that
  // have to wait keep their turn.
  [[nodiscard]] TimePoint Take(TimePoint now);
  // Takes a token only if one is there.
  [[nodiscard]] bool TryTake(TimePoint now);
  // When TryTake would succeed if nobody else took a token: `now` or later.
  [[nodiscard]] TimePoint AvailableAt(TimePoint now) const;
  // When it will be as if never used.
  [[nodiscard]] TimePoint FullAt() const { return full_at_; }

 private:
  RateLimit limit_;
  Duration per_token_{};
  Duration tolerance_{};
  // When the bucket would be full again if nobody took anything; at the most `burst` tokens behind.
  TimePoint full_at_{};
};

// One limit for all that goes through it, whatever its kind: writes, lists and watches alike.
// Without a limit it only passes on. Threads  As Transport. Requests that wait when it is destroyed
// end with kRetry, if the loop still runs.
class LimitedTransport : public Transport {
 public:
  LimitedTransport(Transport& inner, Timers& timers, RateLimit limit);
  ~LimitedTransport() override;

  void Send(Request request, Done done) override;
  [[nodiscard]] std::unique_ptr<Stream> OpenStream(Request request,
                                                   StreamHandlers handlers) override;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::k8s
