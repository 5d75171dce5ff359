#include "scheduler/writer.h"

#include <utility>

namespace muster::scheduler {

struct Writer::State {
  k8s::Client& client;
  std::size_t limit;
  Done done;
  std::array<std::deque<WriteEffect>, 4> queues;
  std::size_t under_way = 0;
  std::uint64_t sent = 0;
  bool stopped = false;
};

Writer::Writer(k8s::Client& client, std::size_t in_flight, Done done)
    : state_(std::make_shared<State>(State{
          .client = client, .limit = in_flight == 0 ? 1 : in_flight, .done = std::move(done)})) {}

Writer::~Writer() {
  state_->done = nullptr;
}

namespace {

void Pump(const std::shared_ptr<Writer::State>& state) {
  while (state->under_way < state->limit) {
    auto* queue = &state->queues[0];
    for (auto& candidate : state->queues) {
      if (!candidate.empty()) {
        queue = &candidate;
        break;
      }
    }
    if (queue->empty()) {
      return;
    }
    WriteEffect write = std::move(queue->front());
    queue->pop_front();
    ++state->under_way;
    ++state->sent;
    const std::uint64_t id = write.id;
    state->client.SendRaw(std::move(write.request), [state, id](k8s::Client::RawReply reply) {
      --state->under_way;
      if (state->done) {
        state->done(WriteDone{.id = id, .response = std::move(reply)});
      }
      if (!state->stopped) {
        Pump(state);
      }
    });
  }
}

}  // namespace

void Writer::Submit(WriteEffect write) {
  state_->queues[static_cast<std::size_t>(write.urgency)].push_back(std::move(write));
  if (!state_->stopped) {
    Pump(state_);
  }
}

void Writer::Stop() {
  state_->stopped = true;
  for (auto& queue : state_->queues) {
    std::deque<WriteEffect> dropped;
    dropped.swap(queue);
    for (const WriteEffect& write : dropped) {
      if (state_->done) {
        k8s::ApiError error;
        error.code = ErrorCode::kConflict;  // not sent: nothing is unknown about it
        error.message = "the controller is stopping";
        state_->done(WriteDone{.id = write.id, .response = std::unexpected(std::move(error))});
      }
    }
  }
}

bool Writer::idle() const {
  for (const auto& queue : state_->queues) {
    if (!queue.empty()) {
      return false;
    }
  }
  return state_->under_way == 0;
}

std::size_t Writer::in_flight() const {
  return state_->under_way;
}
std::uint64_t Writer::sent() const {
  return state_->sent;
}

}  // namespace muster::scheduler
