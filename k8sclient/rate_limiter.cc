#include "k8sclient/rate_limiter.h"

#include <algorithm>
#include <utility>

namespace muster::k8s {

TokenBucket::TokenBucket(RateLimit limit) : limit_(limit) {
  if (!limit_.enabled()) {
    return;
  }
  constexpr std::int64_t kSecond = 1'000'000'000;
  // Rounded up, so that the rate is never above the limit.
  per_token_ = Duration((kSecond + limit_.per_second - 1) / limit_.per_second);
  // A burst worth more than ten years of refill is no limit that anybody meant; the cap keeps the
  // sum below inside 64 bits.
  constexpr Duration kMax = std::chrono::years(10);
  const std::int64_t extra = std::max<std::int64_t>(limit_.burst, 1) - 1;
  tolerance_ = extra > kMax / per_token_ ? kMax : per_token_ * extra;
}

TimePoint TokenBucket::AvailableAt(TimePoint now) const {
  return limit_.enabled() ? std::max(now, full_at_ - tolerance_) : now;
}

TimePoint TokenBucket::Take(TimePoint now) {
  const TimePoint at = AvailableAt(now);
  if (limit_.enabled()) {
    full_at_ = std::max(full_at_, now) + per_token_;
  }
  return at;
}

bool TokenBucket::TryTake(TimePoint now) {
  if (AvailableAt(now) > now) {
    return false;
  }
  static_cast<void>(Take(now));
  return true;
}

namespace {

// A stream whose opening waits for a token.
struct WaitingStream {
  bool cancelled = false;
  std::unique_ptr<Transport::Stream> opened;
};

class LimitedStream final : public Transport::Stream {
 public:
  explicit LimitedStream(std::shared_ptr<WaitingStream> waiting) : waiting_(std::move(waiting)) {}
  ~LimitedStream() override {
    waiting_->cancelled = true;
    waiting_->opened.reset();
  }

 private:
  std::shared_ptr<WaitingStream> waiting_;
};

struct Waiting {
  Request request;
  Transport::Done done;                   // of a plain request
  Transport::StreamHandlers handlers;     // of a stream
  std::shared_ptr<WaitingStream> stream;  // null for a plain request
};

}  // namespace

struct LimitedTransport::State {
  Transport& inner;
  Timers& timers;
  RateLimit limit;
  TokenBucket bucket;
  std::deque<Waiting> queue;
  std::unique_ptr<Timers::Timer> timer;

  static void Arm(const std::shared_ptr<State>& self) {
    if (self->timer || self->queue.empty()) {
      return;
    }
    const TimePoint when = self->bucket.AvailableAt(self->timers.Now());
    self->timer = self->timers.At(when, [weak = std::weak_ptr<State>(self)] {
      if (const std::shared_ptr<State> state = weak.lock()) {
        state->timer.reset();
        Drain(state);
      }
    });
  }

  static void Drain(const std::shared_ptr<State>& self) {
    while (!self->queue.empty()) {
      if (self->queue.front().stream && self->queue.front().stream->cancelled) {
        self->queue.pop_front();
        continue;
      }
      if (!self->bucket.TryTake(self->timers.Now())) {
        break;
      }
      Waiting next = std::move(self->queue.front());
      self->queue.pop_front();
      if (next.stream) {
        next.stream->opened =
            self->inner.OpenStream(std::move(next.request), std::move(next.handlers));
      } else {
        self->inner.Send(std::move(next.request), std::move(next.done));
      }
    }
    Arm(self);
  }
};

LimitedTransport::LimitedTransport(Transport& inner, Timers& timers, RateLimit limit)
    : state_(std::make_shared<State>(State{.inner = inner,
                                           .timers = timers,
                                           .limit = limit,
                                           .bucket = TokenBucket(limit),
                                           .queue = {},
                                           .timer = {}})) {}

LimitedTransport::~LimitedTransport() {
  for (Waiting& waiting : state_->queue) {
    if (!waiting.stream) {
      state_->timers.Post([done = std::move(waiting.done)]() mutable {
        done(std::unexpected(Error::Retry("the client was shut down before the request was sent")));
      });
    }
  }
}

void LimitedTransport::Send(Request request, Done done) {
  if (state_->queue.empty() && state_->bucket.TryTake(state_->timers.Now())) {
    state_->inner.Send(std::move(request), std::move(done));
    return;
  }
  state_->queue.push_back(Waiting{
      .request = std::move(request), .done = std::move(done), .handlers = {}, .stream = nullptr});
  State::Arm(state_);
}

std::unique_ptr<Transport::Stream> LimitedTransport::OpenStream(Request request,
                                                                StreamHandlers handlers) {
  if (state_->queue.empty() && state_->bucket.TryTake(state_->timers.Now())) {
    return state_->inner.OpenStream(std::move(request), std::move(handlers));
  }
  auto stream = std::make_shared<WaitingStream>();
  state_->queue.push_back(Waiting{.request = std::move(request),
                                  .done = {},
                                  .handlers = std::move(handlers),
                                  .stream = stream});
  State::Arm(state_);
  return std::make_unique<LimitedStream>(std::move(stream));
}

}  // namespace muster::k8s
