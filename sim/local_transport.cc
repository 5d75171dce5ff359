#include "sim/local_transport.h"

#include <algorithm>
#include <utility>

namespace muster::sim {

// State that callbacks on their way keep alive after the transport itself is gone.
struct LocalTransport::Shared {
  Shared(ApiServer& s, k8s::Timers& t) : server(&s), timers(&t) {}

  ApiServer* server;
  k8s::Timers* timers;
  bool connected = true;
  std::function<Fault(const k8s::Request&)> faults;
  // In order of opening, so that a run is deterministic.
  std::vector<LocalStream*> streams;
  std::vector<std::unique_ptr<k8s::Timers::Timer>> delays;

  [[nodiscard]] Fault FaultFor(const k8s::Request& request) const {
    return faults ? faults(request) : Fault{};
  }
};

class LocalTransport::LocalStream final : public Stream {
 public:
  LocalStream(std::shared_ptr<Shared> shared, k8s::Request request, StreamHandlers handlers)
      : shared_(std::move(shared)), request_(std::move(request)), handlers_(std::move(handlers)) {
    shared_->streams.push_back(this);
  }
  ~LocalStream() override {
    *alive_ = false;
    std::erase(shared_->streams, this);
  }
  LocalStream(const LocalStream&) = delete;
  LocalStream& operator=(const LocalStream&) = delete;

  [[nodiscard]] std::shared_ptr<bool> alive() const { return alive_; }

  void Open() {
    const Fault fault = shared_->FaultFor(request_);
    if (fault.kind == Fault::Kind::kLoseRequest || fault.kind == Fault::Kind::kLoseResponse) {
      End(std::unexpected(Error::Retry("connection refused")));
      return;
    }
    k8s::Response refused;
    if (fault.kind == Fault::Kind::kRefuse) {
      refused.status = fault.status;
    } else {
      watch_ = shared_->server->OpenWatch(request_, shared_->timers->Now(), refused);
    }
    const std::shared_ptr<bool> alive = alive_;
    if (watch_ == nullptr) {
      handlers_.on_response(refused.status, refused.headers);
      if (*alive && !refused.body.empty()) {
        handlers_.on_data(refused.body);
      }
      if (*alive) {
        End({});
      }
      return;
    }
    if (fault.kind == Fault::Kind::kCutStream) {
      cut_after_ = fault.bytes;
    }
    handlers_.on_response(200, {});
    if (*alive) {
      Pump();
    }
  }

  void Pump() {
    if (watch_ == nullptr || ended_) {
      return;
    }
    const std::shared_ptr<bool> alive = alive_;
    std::string bytes = watch_->Read();
    if (!bytes.empty() && !cut_after_.has_value()) {
      const Fault fault = shared_->FaultFor(request_);
      if (fault.kind == Fault::Kind::kCutStream) {
        cut_after_ = fault.bytes;
      }
    }
    bool cut = false;
    if (cut_after_.has_value() && bytes.size() >= *cut_after_) {
      bytes.resize(*cut_after_);
      cut = true;
    } else if (cut_after_.has_value()) {
      *cut_after_ -= bytes.size();
    }
    if (!bytes.empty()) {
      handlers_.on_data(bytes);
    }
    if (!*alive) {
      return;
    }
    if (cut) {
      End(std::unexpected(Error::Retry("connection reset by peer")));
    } else if (watch_->closed()) {
      End({});
    }
  }

 private:
  void End(Status status) {
    if (ended_) {
      return;
    }
    ended_ = true;
    watch_.reset();
    handlers_.on_end(std::move(status));
  }

  std::shared_ptr<Shared> shared_;
  k8s::Request request_;
  StreamHandlers handlers_;
  std::unique_ptr<WatchStream> watch_;
  std::optional<std::size_t> cut_after_;
  bool ended_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

LocalTransport::LocalTransport(ApiServer& server, k8s::Timers& timers)
    : shared_(std::make_shared<Shared>(server, timers)) {}

LocalTransport::~LocalTransport() {
  Disconnect();
}

void LocalTransport::Send(k8s::Request request, Done done) {
  shared_->timers->Post(
      [shared = shared_, request = std::move(request), done = std::move(done)]() mutable {
        if (!shared->connected) {
          return;
        }
        const Fault fault = shared->FaultFor(request);
        const TimePoint now = shared->timers->Now();
        switch (fault.kind) {
          case Fault::Kind::kRefuse: {
            k8s::Response response;
            response.status = fault.status;
            done(std::move(response));
            return;
          }
          case Fault::Kind::kLoseRequest:
            done(std::unexpected(Error::Retry("connection refused")));
            return;
          case Fault::Kind::kLoseResponse:
            (void)shared->server->Handle(request, now);
            done(std::unexpected(Error::Retry("connection reset by peer")));
            return;
          case Fault::Kind::kDelay: {
            // The server acts at once; the answer is late.
            k8s::Response response = shared->server->Handle(request, now);
            shared->delays.push_back(shared->timers->At(
                now + fault.delay,
                [shared, response = std::move(response), done = std::move(done)]() mutable {
                  if (shared->connected) {
                    done(std::move(response));
                  }
                }));
            return;
          }
          case Fault::Kind::kNone:
          case Fault::Kind::kCutStream:
            done(shared->server->Handle(request, now));
            return;
        }
      });
}

std::unique_ptr<k8s::Transport::Stream> LocalTransport::OpenStream(k8s::Request request,
                                                                   StreamHandlers handlers) {
  auto stream = std::make_unique<LocalStream>(shared_, std::move(request), std::move(handlers));
  shared_->timers->Post([shared = shared_, raw = stream.get(), alive = stream->alive()] {
    if (shared->connected && *alive) {
      raw->Open();
    }
  });
  return stream;
}

void LocalTransport::SetFaults(std::function<Fault(const k8s::Request&)> faults) {
  shared_->faults = std::move(faults);
}

void LocalTransport::Pump() {
  if (!shared_->connected) {
    return;
  }
  // A handler may open or close streams; those of the moment are served, if they still live.
  const std::vector<LocalStream*> streams = shared_->streams;
  std::vector<std::shared_ptr<bool>> alive;
  alive.reserve(streams.size());
  for (const LocalStream* stream : streams) {
    alive.push_back(stream->alive());
  }
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (*alive[i]) {
      streams[i]->Pump();
    }
  }
}

void LocalTransport::Disconnect() {
  shared_->connected = false;
  shared_->delays.clear();
}

}  // namespace muster::sim
