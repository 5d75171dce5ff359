#include "k8sclient/beast_transport.h"

#include <algorithm>
#include <array>
#include <deque>
#include <list>
#include <optional>
#include <utility>

#include "k8sclient/beast_parser.h"
#include "k8sclient/credentials.h"
#include "k8sclient/gzip.h"
#include "k8sclient/tls.h"

namespace muster::k8s {
namespace {

bool Safe(std::string_view text) {
  return std::ranges::none_of(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

// The body as it was before the server packed it.
class BodyReader {
 public:
  void Begin(const Headers& headers) {
    for (const auto& [name, value] : headers) {
      if (name == "content-encoding" && value == "gzip") {
        gunzip_ = std::make_unique<Gunzip>();
      }
    }
  }
  [[nodiscard]] Status Feed(std::string_view bytes, std::size_t limit, std::string& out) {
    empty_ = empty_ && bytes.empty();
    if (gunzip_) {
      return gunzip_->Feed(bytes, limit, out);
    }
    if (bytes.size() > limit) {
      return std::unexpected(Error::Invalid("the answer is too large"));
    }
    out += bytes;
    return {};
  }

  // The body has ended; it should end so.
  [[nodiscard]] bool complete() const { return !gunzip_ || gunzip_->finished() || empty_; }

 private:
  std::unique_ptr<Gunzip> gunzip_;
  bool empty_ = true;
};

std::string Serialize(const Request& request,
                      const ConnectionConfig& config,
                      const BeastTransportOptions& options,
                      const Credential& credential) {
  std::string out;
  out.reserve(512 + request.body.size());
  out += ToString(request.method);
  out += ' ';
  out += config.server.base_path;
  out += request.target;
  out += " HTTP/1.1\r\nHost: ";
  const bool v6 = config.server.host.contains(':');
  out += v6 ? "[" + config.server.host + "]" : config.server.host;
  if (config.server.port != (config.server.tls ? 443 : 80)) {
    out += ':';
    out += std::to_string(config.server.port);
  }
  const auto add = [&](std::string_view name, std::string_view value) {
    out += "\r\n";
    out += name;
    out += ": ";
    out += value;
  };
  add("User-Agent", options.user_agent);
  add("Accept", request.accept);
  if (!config.disable_compression) {
    add("Accept-Encoding", "gzip");
  }
  for (const auto& [name, value] : credential.headers) {
    add(name, value);
  }
  for (const auto& [name, value] : request.headers) {
    add(name, value);
  }
  if (!request.content_type.empty()) {
    add("Content-Type", request.content_type);
  }
  if (!request.body.empty() || request.method != Method::kGet) {
    add("Content-Length", std::to_string(request.body.size()));
  }
  out += "\r\n\r\n";
  out += request.body;
  return out;
}

// A request line or header with a line break in it would be two requests.
Status CheckRequest(const Request& request) {
  bool safe = Safe(request.target) && !request.target.contains(' ') &&
              request.target.starts_with('/') && Safe(request.content_type) && Safe(request.accept);
  for (const auto& [name, value] : request.headers) {
    safe = safe && Safe(name) && Safe(value) && !name.contains(':') && !name.contains(' ');
  }
  if (!safe) {
    return std::unexpected(Error::Invalid("request with a bad target or header"));
  }
  return {};
}

}  // namespace

// The pool. Every callback holds the pool weakly; whatever it owns is destroyed outside of its own
// callbacks.
class HttpTransport final : public Transport {
 public:
  HttpTransport(IoLoop& loop,
                ConnectionConfig config,
                BeastTransportOptions options,
                std::unique_ptr<Dialer> dialer)
      : pool_(std::make_shared<Pool>(
            loop, std::move(config), std::move(options), std::move(dialer))) {}

  ~HttpTransport() override { pool_->Shutdown(); }

  void Send(Request request, Done done) override {
    Pool::Send(pool_, std::move(request), std::move(done));
  }

  std::unique_ptr<Stream> OpenStream(Request request, StreamHandlers handlers) override {
    return Pool::OpenStream(pool_, std::move(request), std::move(handlers));
  }

 private:
  struct Pool;
  struct Connection;
  struct StreamState;
  class StreamHandle;

  struct Exchange {
    Request request;
    Done done;
    std::unique_ptr<Timers::Timer> deadline{};
    Connection* connection = nullptr;  // while on one
    int tries = 0;
    bool retried_unauthorized = false;
  };
  using Exchanges = std::list<std::unique_ptr<Exchange>>;

  struct Connection {
    std::unique_ptr<Dialer::Attempt> attempt{};
    std::unique_ptr<Socket> socket{};
    std::unique_ptr<ResponseParser> parser{};
    std::array<char, 65536> buffer{};
    std::unique_ptr<Timers::Timer> idle{};
    std::unique_ptr<Exchange> exchange{};
    std::uint64_t answered = 0;
    std::uint64_t cert_generation = 0;  // of the certificate it was greeted with
    std::uint64_t credential_generation = 0;
    Response response{};
    BodyReader body{};
    std::optional<Error> body_error{};
    bool got_header = false;
    bool writing = false;
  };
  using ConnectionPtr = std::shared_ptr<Connection>;

  struct Pool : std::enable_shared_from_this<Pool> {
    Pool(IoLoop& io_loop,
         ConnectionConfig connection_config,
         BeastTransportOptions transport_options,
         std::unique_ptr<Dialer> connection_dialer)
        : loop(io_loop),
          config(std::move(connection_config)),
          options(std::move(transport_options)),
          dialer(std::move(connection_dialer)),
          credentials(
              std::make_unique<Credentials>(io_loop, config.auth, ConfigEnvironment::Real())) {}

    IoLoop& loop;
    ConnectionConfig config;
    BeastTransportOptions options;
    std::unique_ptr<Dialer> dialer;
    std::unique_ptr<Credentials> credentials;  // null after Shutdown: its thread has ended
    std::string cert_pem{};                    // of the plugin, in use
    std::uint64_t cert_generation = 0;
    Exchanges queue{};
    std::list<ConnectionPtr> connections{};
    std::list<std::weak_ptr<StreamState>> streams{};
    bool shut = false;
    bool pumping = false;

    using Self = std::shared_ptr<Pool>;
    using Weak = std::weak_ptr<Pool>;

    void Shutdown() {
      shut = true;
      credentials.reset();
      for (const ConnectionPtr& c : connections) {
        if (c->exchange) {
          Answer(std::move(c->exchange), std::unexpected(Error::Retry("the client was shut down")));
        }
        Bury(c);
      }
      connections.clear();
      for (std::unique_ptr<Exchange>& exchange : queue) {
        Answer(std::move(exchange), std::unexpected(Error::Retry("the client was shut down")));
      }
      queue.clear();
    }

    // Destroys what may be in the middle of a callback, later.
    void Bury(const ConnectionPtr& c) {
      loop.Post([attempt = std::move(c->attempt),
                 socket = std::move(c->socket),
                 parser = std::move(c->parser),
                 idle = std::move(c->idle),
                 keep = c] {});
    }

    void Answer(std::unique_ptr<Exchange> exchange, Result<Response> result) {
      exchange->deadline.reset();
      loop.Post([done = std::move(exchange->done), result = std::move(result)]() mutable {
        done(std::move(result));
      });
    }

    static void Send(const Self& self, Request request, Done done) {
      auto exchange = std::make_unique<Exchange>();
      exchange->request = std::move(request);
      exchange->done = std::move(done);
      if (const Status good = CheckRequest(exchange->request); !good) {
        self->Answer(std::move(exchange), std::unexpected(good.error()));
        return;
      }
      if (self->queue.size() >= self->options.max_waiting) {
        self->Answer(std::move(exchange),
                     std::unexpected(Error::Retry("too many requests wait for a connection")));
        return;
      }
      exchange->deadline = self->loop.At(self->loop.Now() + exchange->request.timeout,
                                         [weak = Weak(self), raw = exchange.get()] {
                                           if (const Self pool = weak.lock()) {
                                             pool->OnDeadline(raw);
                                           }
                                         });
      self->queue.push_back(std::move(exchange));
      self->Pump();
    }

    void OnDeadline(Exchange* exchange) {
      const Error error =
          Error::Retry("no answer within " + FormatDuration(exchange->request.timeout));
      if (Connection* on = exchange->connection; on != nullptr) {
        const auto it = std::ranges::find_if(connections,
                                             [&](const ConnectionPtr& c) { return c.get() == on; });
        const ConnectionPtr c = *it;
        std::unique_ptr<Exchange> taken = std::move(c->exchange);
        Drop(c);
        Answer(std::move(taken), std::unexpected(error));
      } else {
        const auto it =
            std::ranges::find_if(queue, [&](const auto& e) { return e.get() == exchange; });
        // In no place: it waits for credentials, which will find it answered.
        if (it != queue.end()) {
          std::unique_ptr<Exchange> taken = std::move(*it);
          queue.erase(it);
          Answer(std::move(taken), std::unexpected(error));
        }
      }
      Pump();
    }

    void Drop(const ConnectionPtr& c) {
      connections.remove(c);
      Bury(c);
    }

    // Gives waiting requests to idle connections, and opens more while there are too few.
    void Pump() {
      if (shut || pumping || queue.empty()) {
        return;
      }
      pumping = true;
      credentials->Get([weak = weak_from_this()](Result<Credential> credential) {
        const Self pool = weak.lock();
        if (!pool || pool->shut) {
          return;
        }
        pool->pumping = false;
        pool->PumpWith(credential);
      });
    }

    void PumpWith(const Result<Credential>& credential) {
      if (!credential) {
        for (std::unique_ptr<Exchange>& exchange : std::exchange(queue, {})) {
          Answer(std::move(exchange), std::unexpected(credential.error()));
        }
        return;
      }
      if (const Status set = UseCertificate(*credential); !set) {
        for (std::unique_ptr<Exchange>& exchange : std::exchange(queue, {})) {
          Answer(std::move(exchange), std::unexpected(set.error()));
        }
        return;
      }
      // The most recently used connection first, so that surplus ones grow idle and close.
      for (auto it = connections.begin(); it != connections.end() && !queue.empty();) {
        const ConnectionPtr c = *it++;
        if (c->socket && !c->exchange && c->cert_generation == cert_generation) {
          std::unique_ptr<Exchange> exchange = std::move(queue.front());
          queue.pop_front();
          Begin(c, std::move(exchange), *credential);
        }
      }
      std::size_t dialing = static_cast<std::size_t>(std::ranges::count_if(
          connections, [](const ConnectionPtr& c) { return c->attempt != nullptr; }));
      while (dialing < queue.size() && connections.size() < options.max_connections) {
        Dial();
        ++dialing;
      }
    }

    Status UseCertificate(const Credential& credential) {
      if (credential.cert_pem.empty() || credential.cert_pem == cert_pem) {
        return {};
      }
      Status set = dialer->SetClientCertificate(credential.cert_pem, credential.key_pem);
      if (set) {
        cert_pem = credential.cert_pem;
        ++cert_generation;
        // Connections speak for whom they were greeted with; idle ones go now, busy ones when they
        // have their answer.
        for (auto it = connections.begin(); it != connections.end();) {
          const ConnectionPtr c = *it++;
          if (!c->exchange) {
            Drop(c);
          }
        }
      }
      return set;
    }

    void Dial() {
      auto c = std::make_shared<Connection>();
      c->cert_generation = cert_generation;
      connections.push_front(c);
      c->attempt = dialer->Dial(options.connect_timeout,
                                [weak = weak_from_this(), weak_c = std::weak_ptr<Connection>(c)](
                                    Result<std::unique_ptr<Socket>> socket) {
                                  const Self pool = weak.lock();
                                  const ConnectionPtr connection = weak_c.lock();
                                  if (pool && connection && !pool->shut) {
                                    pool->OnDialed(connection, std::move(socket));
                                  }
                                });
    }

    void OnDialed(const ConnectionPtr& c, Result<std::unique_ptr<Socket>> socket) {
      loop.Post([attempt = std::move(c->attempt)] {});
      c->attempt.reset();
      if (!socket) {
        connections.remove(c);
        // One failure for one request: the others may have better luck, and have their deadlines.
        if (!queue.empty()) {
          std::unique_ptr<Exchange> exchange = std::move(queue.front());
          queue.pop_front();
          Answer(std::move(exchange), std::unexpected(std::move(socket).error()));
        }
        Pump();
        return;
      }
      c->socket = std::move(*socket);
      Idle(c);
      ReadMore(c);
      Pump();
    }

    void Idle(const ConnectionPtr& c) {
      c->parser.reset();
      c->idle = loop.At(loop.Now() + options.keep_alive,
                        [weak = weak_from_this(), weak_c = std::weak_ptr<Connection>(c)] {
                          const Self pool = weak.lock();
                          const ConnectionPtr connection = weak_c.lock();
                          if (pool && connection && !connection->exchange) {
                            pool->Drop(connection);
                          }
                        });
    }

    void Begin(const ConnectionPtr& c,
               std::unique_ptr<Exchange> exchange,
               const Credential& credential) {
      c->idle.reset();
      c->response = Response();
      c->body = BodyReader();
      c->body_error.reset();
      c->got_header = false;
      c->credential_generation = credential.generation;
      c->parser = std::make_unique<ResponseParser>(ResponseParser::Handlers{
          .on_header =
              [raw = c.get()](int status, Headers headers) {
                raw->got_header = true;
                raw->response.status = status;
                raw->body.Begin(headers);
                raw->response.headers = std::move(headers);
              },
          .on_body =
              [raw = c.get(), limit = options.max_response_bytes](std::string_view bytes) {
                if (!raw->body_error) {
                  const std::size_t left = limit - std::min(limit, raw->response.body.size());
                  if (Status fed = raw->body.Feed(bytes, left, raw->response.body); !fed) {
                    raw->body_error = std::move(fed).error();
                  }
                }
              }});
      exchange->connection = c.get();
      ++exchange->tries;
      std::string bytes = Serialize(exchange->request, config, options, credential);
      c->exchange = std::move(exchange);
      // Front: most recently used.
      connections.remove(c);
      connections.push_front(c);
      c->writing = true;
      c->socket->Write(
          std::move(bytes),
          [weak = weak_from_this(), weak_c = std::weak_ptr<Connection>(c)](Status written) {
            const Self pool = weak.lock();
            const ConnectionPtr connection = weak_c.lock();
            if (!pool || !connection || pool->shut) {
              return;
            }
            connection->writing = false;
            if (!written) {
              pool->OnBroken(connection, std::move(written).error());
            }
          });
    }

    // A read is always out, also on idle connections: that is how one learns that the server
    // closed.
    void ReadMore(const ConnectionPtr& c) {
      c->socket->Read(c->buffer,
                      [weak = weak_from_this(),
                       weak_c = std::weak_ptr<Connection>(c)](Result<std::size_t> got) {
                        const Self pool = weak.lock();
                        const ConnectionPtr connection = weak_c.lock();
                        if (pool && connection && !pool->shut) {
                          pool->OnRead(connection, std::move(got));
                        }
                      });
    }

    void OnRead(const ConnectionPtr& c, Result<std::size_t> got) {
      if (!c->socket) {
        return;
      }
      if (!got) {
        OnBroken(c, std::move(got).error());
        return;
      }
      if (!c->exchange) {
        // Closed while idle, or the server talks unasked.
        Drop(c);
        Pump();
        return;
      }
      const Status fed = *got == 0 ? c->parser->FeedEnd()
                                   : c->parser->Feed(std::string_view(c->buffer.data(), *got));
      if (!fed) {
        OnBroken(c, fed.error());
        return;
      }
      if (c->body_error) {
        std::unique_ptr<Exchange> exchange = std::move(c->exchange);
        const Error error = *c->body_error;
        Drop(c);
        Answer(std::move(exchange), std::unexpected(error));
        Pump();
        return;
      }
      if (c->parser->done() && !c->body.complete()) {
        OnBroken(c, Error::Retry("the answer was cut short"));
        return;
      }
      if (c->parser->done()) {
        OnAnswered(c, *got == 0);
        return;
      }
      ReadMore(c);
    }

    void OnAnswered(const ConnectionPtr& c, bool closed) {
      std::unique_ptr<Exchange> exchange = std::move(c->exchange);
      exchange->connection = nullptr;
      Response response = std::move(c->response);
      ++c->answered;
      const bool reusable = !closed && !c->writing && c->parser->keep_alive() &&
                            c->cert_generation == cert_generation;
      const std::uint64_t credential_generation = c->credential_generation;
      if (reusable) {
        Idle(c);
        ReadMore(c);
      } else {
        Drop(c);
      }
      // 401: nothing was done. Once more with a fresh credential, if there is one.
      if (response.status == 401 && !exchange->retried_unauthorized &&
          credentials->Refused(credential_generation)) {
        exchange->retried_unauthorized = true;
        queue.push_front(std::move(exchange));
      } else {
        Answer(std::move(exchange), std::move(response));
      }
      Pump();
    }

    void OnBroken(const ConnectionPtr& c, Error error) {
      if (!c->socket) {
        return;
      }
      std::unique_ptr<Exchange> exchange = std::move(c->exchange);
      // A kept-alive connection that breaks before a byte of the answer was most likely closed by
      // the server before the request reached it.
      const bool stale = c->answered > 0 && c->parser && !c->parser->got_anything();
      Drop(c);
      if (exchange) {
        exchange->connection = nullptr;
        if (stale && exchange->request.resend && exchange->tries < 3) {
          queue.push_front(std::move(exchange));
        } else {
          Answer(std::move(exchange), std::unexpected(std::move(error)));
        }
      }
      Pump();
    }

    static std::unique_ptr<Stream> OpenStream(const Self& self,
                                              Request request,
                                              StreamHandlers handlers);
  };

  // One stream on a connection of its own.
  struct StreamState : std::enable_shared_from_this<StreamState> {
    StreamState(std::shared_ptr<Pool> owner, Request r, StreamHandlers h)
        : pool(std::move(owner)), request(std::move(r)), handlers(std::move(h)) {}

    std::shared_ptr<Pool> pool;  // released when the stream ends
    Request request;
    StreamHandlers handlers;
    std::unique_ptr<Dialer::Attempt> attempt{};
    std::unique_ptr<Socket> socket{};
    std::unique_ptr<ResponseParser> parser{};
    std::unique_ptr<Timers::Timer> silence{};
    TimePoint last_byte{};
    BodyReader body{};
    std::string pending{};  // unpacked, not handed on yet
    std::optional<Error> body_error{};
    int status = 0;
    Headers headers{};
    std::uint64_t credential_generation = 0;
    bool header_pending = false;
    bool retried_unauthorized = false;
    bool over = false;
    std::array<char, 65536> buffer{};

    using Self = std::shared_ptr<StreamState>;
    using Weak = std::weak_ptr<StreamState>;

    void Start() {
      last_byte = pool->loop.Now();
      Listen();
      pool->loop.Post([weak = weak_from_this()] {
        if (const Self self = weak.lock(); self && !self->over) {
          self->Authorize();
        }
      });
    }

    // Silence: no byte for as long as the request allows.
    void Listen() {
      silence = pool->loop.At(last_byte + request.timeout, [weak = weak_from_this()] {
        const Self self = weak.lock();
        if (!self || self->over) {
          return;
        }
        if (self->pool->loop.Now() < self->last_byte + self->request.timeout) {
          self->Listen();
        } else {
          self->End(
              std::unexpected(Error::Retry("silent for " + FormatDuration(self->request.timeout))));
        }
      });
    }

    void Authorize() {
      if (const Status good = CheckRequest(request); !good) {
        End(std::unexpected(good.error()));
        return;
      }
      if (pool->shut) {
        End(std::unexpected(Error::Retry("the client was shut down")));
        return;
      }
      pool->credentials->Get([weak = weak_from_this()](Result<Credential> credential) {
        const Self self = weak.lock();
        if (!self || self->over) {
          return;
        }
        if (!credential) {
          self->End(std::unexpected(std::move(credential).error()));
          return;
        }
        if (Status set = self->pool->UseCertificate(*credential); !set) {
          self->End(std::move(set));
          return;
        }
        self->Dial(std::move(*credential));
      });
    }

    void Dial(Credential credential) {
      attempt = pool->dialer->Dial(pool->options.connect_timeout,
                                   [weak = weak_from_this(), credential = std::move(credential)](
                                       Result<std::unique_ptr<Socket>> dialed) {
                                     const Self self = weak.lock();
                                     if (!self || self->over) {
                                       return;
                                     }
                                     self->pool->loop.Post([attempt = std::move(self->attempt)] {});
                                     self->attempt.reset();
                                     if (!dialed) {
                                       self->End(std::unexpected(std::move(dialed).error()));
                                       return;
                                     }
                                     self->socket = std::move(*dialed);
                                     self->Ask(credential);
                                   });
    }

    void Ask(const Credential& credential) {
      credential_generation = credential.generation;
      last_byte = pool->loop.Now();
      parser = std::make_unique<ResponseParser>(ResponseParser::Handlers{
          .on_header =
              [this](int code, Headers fields) {
                status = code;
                body.Begin(fields);
                headers = std::move(fields);
                header_pending = true;
              },
          .on_body =
              [this](std::string_view bytes) {
                if (!body_error) {
                  if (Status fed = body.Feed(bytes, pool->options.max_response_bytes, pending);
                      !fed) {
                    body_error = std::move(fed).error();
                  }
                }
              }});
      socket->Write(Serialize(request, pool->config, pool->options, credential),
                    [weak = weak_from_this()](Status written) {
                      const Self self = weak.lock();
                      if (self && !self->over && !written) {
                        self->End(std::move(written));
                      }
                    });
      Read();
    }

    void Read() {
      socket->Read(buffer, [weak = weak_from_this()](Result<std::size_t> got) {
        const Self self = weak.lock();
        if (self && !self->over) {
          self->OnRead(std::move(got));
        }
      });
    }

    void OnRead(Result<std::size_t> got) {
      if (!got) {
        End(std::unexpected(std::move(got).error()));
        return;
      }
      last_byte = pool->loop.Now();
      const Status fed =
          *got == 0 ? parser->FeedEnd() : parser->Feed(std::string_view(buffer.data(), *got));
      const bool done = parser->done();
      const Self keep = shared_from_this();  // a handler may destroy the stream
      if (status == 401 && header_pending && !retried_unauthorized && !pool->shut &&
          pool->credentials->Refused(credential_generation)) {
        retried_unauthorized = true;
        header_pending = false;
        status = 0;
        body = BodyReader();
        pending.clear();
        pool->loop.Post([dead = std::move(socket), parsed = std::move(parser)] {});
        Authorize();
        return;
      }
      if (std::exchange(header_pending, false) && handlers.on_response) {
        handlers.on_response(status, headers);
      }
      if (!over && !pending.empty() && handlers.on_data) {
        const std::string bytes = std::exchange(pending, {});
        handlers.on_data(bytes);
      }
      if (over) {
        return;
      }
      if (body_error) {
        End(std::unexpected(*body_error));
      } else if (!fed) {
        End(fed);
      } else if (done) {
        End({});
      } else {
        Read();
      }
    }

    void End(Status why) {
      if (over) {
        return;
      }
      auto on_end = std::move(handlers.on_end);
      Cancel();
      if (on_end) {
        on_end(std::move(why));
      }
    }

    void Cancel() {
      if (over) {
        return;
      }
      over = true;
      IoLoop& loop = pool->loop;
      loop.Post([keep = shared_from_this(),
                 owner = std::move(pool),
                 dead = std::move(socket),
                 dialing = std::move(attempt),
                 parsed = std::move(parser),
                 timer = std::move(silence)] {});
    }
  };

  class StreamHandle final : public Stream {
   public:
    explicit StreamHandle(std::shared_ptr<StreamState> state) : state_(std::move(state)) {}
    ~StreamHandle() override { state_->Cancel(); }

   private:
    std::shared_ptr<StreamState> state_;
  };

  std::shared_ptr<Pool> pool_;
};

std::unique_ptr<Transport::Stream> HttpTransport::Pool::OpenStream(const Self& self,
                                                                   Request request,
                                                                   StreamHandlers handlers) {
  auto state = std::make_shared<StreamState>(self, std::move(request), std::move(handlers));
  state->Start();
  return std::make_unique<StreamHandle>(std::move(state));
}

Result<std::unique_ptr<Transport>> MakeBeastTransport(IoLoop& loop,
                                                      ConnectionConfig config,
                                                      BeastTransportOptions options) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Dialer> dialer, MakeDialer(loop, config));
  return std::make_unique<HttpTransport>(
      loop, std::move(config), std::move(options), std::move(dialer));
}

}  // namespace muster::k8s
