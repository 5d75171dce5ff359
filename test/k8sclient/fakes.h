#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "k8sclient/transport.h"

// A clock that moves when told to, and a transport whose answers the test writes.
namespace muster::k8s::fake {

class FakeTimers final : public Timers {
 public:
  explicit FakeTimers(TimePoint start = TimePoint(std::chrono::seconds(1'800'000'000)))
      : now_(start) {}

  [[nodiscard]] TimePoint Now() const override { return now_; }
  [[nodiscard]] std::unique_ptr<Timer> At(TimePoint when,
                                          std::move_only_function<void()> fn) override {
    const auto key = std::pair{when, sequence_++};
    alarms_->emplace(key, std::move(fn));
    return std::make_unique<Handle>(alarms_, key);
  }
  void Post(std::move_only_function<void()> fn) override { posted_.push_back(std::move(fn)); }

  // Runs what is ready now.
  void Settle() {
    for (int guard = 0; guard < 100'000; ++guard) {
      if (!posted_.empty()) {
        auto fn = std::move(posted_.front());
        posted_.pop_front();
        fn();
      } else if (!alarms_->empty() && alarms_->begin()->first.first <= now_) {
        auto node = alarms_->extract(alarms_->begin());
        node.mapped()();
      } else {
        return;
      }
    }
  }
  // Moves on, stopping at each alarm.
  void Advance(Duration by) {
    const TimePoint end = now_ + by;
    Settle();
    while (!alarms_->empty() && alarms_->begin()->first.first <= end) {
      now_ = std::max(now_, alarms_->begin()->first.first);
      Settle();
    }
    now_ = end;
    Settle();
  }
  // The process was stopped: the clock goes on, no alarm fires.
  void Freeze(Duration by) { now_ += by; }
  [[nodiscard]] std::size_t alarms() const { return alarms_->size(); }

 private:
  using Key = std::pair<TimePoint, std::uint64_t>;
  using Alarms = std::map<Key, std::move_only_function<void()>>;
  class Handle final : public Timer {
   public:
    Handle(std::shared_ptr<Alarms> alarms, Key key) : alarms_(std::move(alarms)), key_(key) {}
    ~Handle() override { alarms_->erase(key_); }

   private:
    std::shared_ptr<Alarms> alarms_;
    Key key_;
  };

  TimePoint now_;
  std::uint64_t sequence_ = 0;
  std::deque<std::move_only_function<void()>> posted_;
  std::shared_ptr<Alarms> alarms_ = std::make_shared<Alarms>();
};

inline Response Answer(int status, std::string body, Headers headers = {}) {
  return Response{.status = status, .headers = std::move(headers), .body = std::move(body)};
}

// `respond` decides about plain requests: nothing = no answer until its time-out. Streams are
// driven by hand.
class FakeTransport final : public Transport {
 public:
  struct OpenedStream {
    Request request;
    StreamHandlers handlers;
    bool cancelled = false;
  };
  using Respond = std::function<std::optional<Result<Response>>(const Request&)>;

  explicit FakeTransport(Timers& timers) : timers_(timers) {}

  Respond respond;
  std::vector<Request> requests;
  std::vector<TimePoint> sent_at;
  std::vector<std::shared_ptr<OpenedStream>> streams;

  void Send(Request request, Done done) override {
    requests.push_back(request);
    sent_at.push_back(timers_.Now());
    std::optional<Result<Response>> answer =
        respond ? respond(request) : std::optional<Result<Response>>(Answer(200, "{}"));
    if (answer) {
      timers_.Post([done = std::move(done), answer = std::move(*answer)]() mutable {
        done(std::move(answer));
      });
      return;
    }
    auto shared = std::make_shared<Done>(std::move(done));
    held_.push_back(timers_.At(timers_.Now() + request.timeout,
                               [shared] { (*shared)(std::unexpected(Error::Retry("time-out"))); }));
  }
  [[nodiscard]] std::unique_ptr<Stream> OpenStream(Request request,
                                                   StreamHandlers handlers) override {
    sent_at.push_back(timers_.Now());
    auto opened = std::make_shared<OpenedStream>(
        OpenedStream{.request = std::move(request), .handlers = std::move(handlers)});
    streams.push_back(opened);
    if (on_stream) {
      timers_.Post([this, opened] {
        if (!opened->cancelled) {
          on_stream(*opened);
        }
      });
    }
    return std::make_unique<Handle>(opened);
  }
  std::function<void(OpenedStream&)> on_stream;

  [[nodiscard]] OpenedStream& last() { return *streams.back(); }

 private:
  class Handle final : public Stream {
   public:
    explicit Handle(std::shared_ptr<OpenedStream> opened) : opened_(std::move(opened)) {}
    ~Handle() override { opened_->cancelled = true; }

   private:
    std::shared_ptr<OpenedStream> opened_;
  };
  Timers& timers_;
  std::vector<std::unique_ptr<Timers::Timer>> held_;
};

}  // namespace muster::k8s::fake
