#include "scheduler/solver_thread.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <utility>

namespace muster::scheduler {

struct SolverThread::State {
  struct Job {
    std::shared_ptr<const Snapshot> snapshot;
    TimePoint now;
  };
  std::mutex mutex;
  std::condition_variable_any wake;
  std::optional<Job> job;  // the mailbox
  Post post;
  Budget budget;
  Done done;  // touched on the I/O thread only; empty once the owner is gone
};

SolverThread::SolverThread(Post post, Budget budget, Done done)
    : state_(std::make_shared<State>()) {
  state_->post = std::move(post);
  state_->budget = budget;
  state_->done = std::move(done);
  thread_ = std::jthread([state = state_](const std::stop_token& stop) {
    for (;;) {
      State::Job job;
      {
        std::unique_lock lock(state->mutex);
        if (!state->wake.wait(lock, stop, [&] { return state->job.has_value(); })) {
          return;
        }
        job = std::move(*state->job);
        state->job.reset();
      }
      // Only measured, never decided by.
      const auto begin = std::chrono::steady_clock::now();
      Plan plan = Decide(*job.snapshot, job.now, state->budget);
      const Duration took = std::chrono::steady_clock::now() - begin;
      job.snapshot.reset();
      if (stop.stop_requested()) {
        return;
      }
      state->post([state, plan = std::move(plan), took]() mutable {
        if (state->done) {
          state->done(std::move(plan), took);
        }
      });
    }
  });
}

SolverThread::~SolverThread() {
  state_->done = nullptr;
  thread_.request_stop();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void SolverThread::Submit(std::shared_ptr<const Snapshot> snapshot, TimePoint now) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->job = State::Job{.snapshot = std::move(snapshot), .now = now};
  }
  state_->wake.notify_one();
}

}  // namespace muster::scheduler
