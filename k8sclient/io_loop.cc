#include "k8sclient/io_loop.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <time.h>
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include "k8sclient/io_loop_asio.h"

namespace muster::k8s {
namespace asio = boost::asio;
namespace {

Duration ReadClock(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

// Wall-clock time that never goes back: boot time plus an offset that follows the wall clock by at
// the most a twentieth of what passes.
class SteadyWallClock {
 public:
  SteadyWallClock()
      : last_(ReadClock(CLOCK_BOOTTIME)), offset_(ReadClock(CLOCK_REALTIME) - last_) {}

  TimePoint Now() {
    const Duration boot = ReadClock(CLOCK_BOOTTIME);
    const Duration wanted = ReadClock(CLOCK_REALTIME) - boot;
    const Duration may_move = (boot - last_) / 20;
    offset_ += std::clamp(wanted - offset_, -may_move, may_move);
    last_ = boot;
    return TimePoint(boot + offset_);
  }

 private:
  Duration last_;
  Duration offset_;
};

}  // namespace

struct IoLoop::Impl {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  SteadyWallClock clock;
  std::unique_ptr<asio::signal_set> signals;
  std::function<void(int)> on_signal;

  void AwaitSignal() {
    signals->async_wait([this](const boost::system::error_code& failed, int signal) {
      if (!failed) {
        on_signal(signal);
        AwaitSignal();
      }
    });
  }
};

namespace {

class AsioTimer final : public Timers::Timer {
 public:
  struct Shared {
    asio::steady_timer timer;
    IoLoop& loop;
    TimePoint when;
    std::move_only_function<void()> fn;
  };

  AsioTimer(asio::io_context& context,
            IoLoop& loop,
            TimePoint when,
            std::move_only_function<void()> fn)
      : shared_(std::make_shared<Shared>(Shared{.timer = asio::steady_timer(context),
                                                .loop = loop,
                                                .when = when,
                                                .fn = std::move(fn)})) {
    Arm(shared_);
  }
  ~AsioTimer() override {
    shared_->fn = nullptr;
    shared_->timer.cancel();
  }

 private:
  static void Arm(const std::shared_ptr<Shared>& shared) {
    // Looks again now and then: the clock behind Now is not quite that of the timer.
    const Duration left = shared->when - shared->loop.Now();
    const Duration delay = std::clamp<Duration>(left, Duration::zero(), std::chrono::minutes(1));
    shared->timer.expires_after(delay);
    shared->timer.async_wait([shared](const boost::system::error_code& failed) {
      if (failed || !shared->fn) {
        return;
      }
      if (shared->loop.Now() < shared->when) {
        Arm(shared);
        return;
      }
      // The timer may be destroyed by what it calls.
      std::move_only_function<void()> fn = std::move(shared->fn);
      shared->fn = nullptr;
      fn();
    });
  }

  std::shared_ptr<Shared> shared_;
};

}  // namespace

IoLoop::IoLoop() : impl_(std::make_unique<Impl>()) {
  // A peer that is gone is an error of the write, not a signal that ends the process.
  (void)std::signal(SIGPIPE, SIG_IGN);
}

IoLoop::~IoLoop() = default;

void IoLoop::Run() {
  impl_->context.restart();
  impl_->context.run();
}

void IoLoop::RunFor(Duration limit) {
  impl_->context.restart();
  if (impl_->context.run_one_for(limit) > 0) {
    impl_->context.poll();
  }
}

void IoLoop::Stop() {
  impl_->context.stop();
}

TimePoint IoLoop::Now() const {
  return impl_->clock.Now();
}

std::unique_ptr<Timers::Timer> IoLoop::At(TimePoint when, std::move_only_function<void()> fn) {
  return std::make_unique<AsioTimer>(impl_->context, *this, when, std::move(fn));
}

void IoLoop::Post(std::move_only_function<void()> fn) {
  asio::post(impl_->context, [fn = std::move(fn)]() mutable { fn(); });
}

void IoLoop::PostFromAnyThread(std::move_only_function<void()> fn) {
  Post(std::move(fn));
}

void IoLoop::OnSignals(const std::vector<int>& signals, std::function<void(int)> fn) {
  impl_->on_signal = std::move(fn);
  impl_->signals = std::make_unique<asio::signal_set>(impl_->context);
  for (const int signal : signals) {
    impl_->signals->add(signal);
  }
  impl_->AwaitSignal();
}

asio::io_context& AsioContext(IoLoop& loop) {
  return loop.impl().context;
}

}  // namespace muster::k8s
