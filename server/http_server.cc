#include "server/http_server.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <deque>
#include <exception>
#include <map>
#include <optional>
#include <set>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>

#include "base/log.h"
#include "base/strings.h"

namespace muster::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using ErrorCode = boost::system::error_code;

// RFC 9110: "Mon, 30 Nov 2026 12:00:00 GMT".
std::string HttpDate() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[64];
  const std::size_t size = std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return std::string(text, size);
}

// A header value must not be able to start a line of its own.
std::string OneLine(std::string_view text) {
  std::string out(text);
  std::ranges::replace_if(out, [](char c) { return c == '\r' || c == '\n' || c == '\0'; }, ' ');
  return out;
}

std::string Head(int status, const HttpHeaders& headers) {
  const auto reason = http::obsolete_reason(static_cast<http::status>(status));
  std::string out = "HTTP/1.1 " + std::to_string(status) + " " +
                    std::string(reason.data(), reason.size()) + "\r\n";
  out += "Date: " + HttpDate() + "\r\n";
  for (const auto& [name, value] : headers) {
    out += OneLine(name) + ": " + OneLine(value) + "\r\n";
  }
  return out;
}

bool MayHaveBody(int status) {
  return status >= 200 && status != 204 && status != 304;
}

HttpResponse TextResponse(int status, std::string text) {
  return HttpResponse{.status = status,
                      .headers = {{"content-type", "text/plain; charset=utf-8"}},
                      .body = std::move(text) + "\n"};
}

}  // namespace

std::string_view HttpRequest::Header(std::string_view lower_case_name) const {
  for (const auto& [name, value] : headers) {
    if (name == lower_case_name) {
      return value;
    }
  }
  return {};
}

std::string_view HttpRequest::path() const {
  return std::string_view(target).substr(0, target.find('?'));
}

std::string_view HttpRequest::query() const {
  const auto at = target.find('?');
  return at == std::string::npos ? std::string_view() : std::string_view(target).substr(at + 1);
}

struct HttpServerState : std::enable_shared_from_this<HttpServerState> {
  HttpServerState(asio::io_context& io, HttpServer::Handler h, HttpServerOptions o)
      : context(io), handler(std::move(h)), options(o), acceptor(io), retry(io) {}

  void Accept();

  asio::io_context& context;
  HttpServer::Handler handler;
  HttpServerOptions options;
  tcp::acceptor acceptor;
  asio::steady_timer retry;
  std::set<std::shared_ptr<HttpConnection>> open;
  bool stopped = false;
};

// One client. Its life: wait for a first byte, read one request, run the handler, write the answer,
// again.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(tcp::socket socket, std::shared_ptr<HttpServerState> server)
      : socket_(std::move(socket)), deadline_(socket_.get_executor()), server_(std::move(server)) {
    ErrorCode error;
    const tcp::endpoint peer = socket_.remote_endpoint(error);
    if (!error) {
      remote_ = peer.address().to_string() + ":" + std::to_string(peer.port());
    }
    socket_.set_option(tcp::no_delay(true), error);
  }

  void Begin() {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(server_->options.max_header_bytes));
    parser_->body_limit(server_->options.max_body_bytes);
    if (buffer_.size() > 0) {
      ReadHeader();
      return;
    }
    Arm(server_->options.idle_timeout);
    constexpr std::size_t kFirstRead = 8192;
    socket_.async_read_some(buffer_.prepare(kFirstRead),
                            [self = shared_from_this()](ErrorCode error, std::size_t size) {
                              if (error) {
                                self->Close();
                                return;
                              }
                              self->buffer_.commit(size);
                              self->ReadHeader();
                            });
  }

  void TurnAway() {
    answer_ = Answer{.last = true};
    SendNow(TextResponse(503, "too many connections"));
  }

  void Close() {
    if (closed_) {
      return;
    }
    closed_ = true;
    deadline_.cancel();
    ErrorCode ignored;
    socket_.shutdown(tcp::socket::shutdown_both, ignored);
    socket_.close(ignored);
    queue_.clear();
    queued_bytes_ = 0;
    const auto self = shared_from_this();
    server_->open.erase(self);
    if (answer_ && answer_->on_close) {
      // Not from inside Write or Send: the caller may be in the middle of something.
      asio::post(socket_.get_executor(), std::exchange(answer_->on_close, nullptr));
    }
    answer_.reset();
  }

  // Calls of a Responder count only while its exchange is the current one.
  [[nodiscard]] bool Current(std::uint64_t exchange) const {
    return !closed_ && answer_ && exchange == exchange_ && !answer_->complete;
  }
  [[nodiscard]] bool Started() const { return answer_ && answer_->started; }
  [[nodiscard]] std::size_t queued_bytes() const { return queued_bytes_; }
  void SetOnClose(std::function<void()> fn) { answer_->on_close = std::move(fn); }

  void SendNow(HttpResponse response) {
    const bool body_allowed = MayHaveBody(response.status);
    std::string bytes = Head(response.status, response.headers);
    if (body_allowed) {
      bytes += "Content-Length: " + std::to_string(response.body.size()) + "\r\n";
    }
    bytes += answer_->last ? "Connection: close\r\n\r\n" : "\r\n";
    if (body_allowed && !answer_->head_only) {
      bytes += response.body;
    }
    answer_->started = true;
    answer_->complete = true;
    answer_->on_close = nullptr;
    Queue(std::move(bytes));
  }

  void StartStream(int status, const HttpHeaders& headers) {
    answer_->started = true;
    answer_->chunked = answer_->http_1_1;
    if (!answer_->chunked) {
      answer_->last = true;
    }
    std::string bytes = Head(status, headers);
    if (answer_->chunked) {
      bytes += "Transfer-Encoding: chunked\r\n";
    }
    bytes += answer_->last ? "Connection: close\r\n\r\n" : "\r\n";
    Queue(std::move(bytes));
  }

  void WriteStream(std::string bytes) {
    if (answer_->head_only || bytes.empty()) {
      return;
    }
    if (answer_->chunked) {
      char size[32];
      const auto [end, error] = std::to_chars(std::begin(size), std::end(size), bytes.size(), 16);
      std::string framed(size, end);
      framed.reserve(framed.size() + bytes.size() + 4);
      framed += "\r\n";
      framed += bytes;
      framed += "\r\n";
      bytes = std::move(framed);
    }
    Queue(std::move(bytes));
  }

  void EndStream() {
    answer_->complete = true;
    answer_->on_close = nullptr;
    if (answer_->chunked && !answer_->head_only) {
      Queue("0\r\n\r\n");
    } else {
      Pump();
    }
  }

 private:
  struct Answer {
    bool http_1_1 = true;
    bool head_only = false;
    bool last = false;  // close afterwards
    bool started = false;
    bool chunked = false;
    bool complete = false;  // nothing more will be queued
    std::function<void()> on_close;
  };

  void Arm(Duration limit) {
    deadline_.expires_after(limit);
    deadline_.async_wait([self = shared_from_this()](ErrorCode error) {
      if (!error && self->deadline_.expiry() <= asio::steady_timer::clock_type::now()) {
        self->Close();
      }
    });
  }

  void ReadHeader() {
    Arm(server_->options.request_timeout);
    http::async_read_header(
        socket_, buffer_, *parser_, [self = shared_from_this()](ErrorCode error, std::size_t) {
          if (error) {
            self->Refuse(error);
            return;
          }
          const auto& message = self->parser_->get();
          const auto expect = message[http::field::expect];
          if (!self->parser_->is_done() && boost::beast::iequals(expect, "100-continue")) {
            self->continue_ = "HTTP/1.1 100 Continue\r\n\r\n";
            asio::async_write(self->socket_,
                              asio::buffer(self->continue_),
                              [self](ErrorCode failed, std::size_t) {
                                if (failed) {
                                  self->Close();
                                } else {
                                  self->ReadBody();
                                }
                              });
            return;
          }
          self->ReadBody();
        });
  }

  void ReadBody() {
    http::async_read(
        socket_, buffer_, *parser_, [self = shared_from_this()](ErrorCode error, std::size_t) {
          if (error) {
            self->Refuse(error);
          } else {
            self->Dispatch();
          }
        });
  }

  void Refuse(const ErrorCode& error) {
    if (closed_) {
      return;
    }
    const bool protocol = error.category() == ErrorCode(http::error::bad_version).category();
    if (!protocol || error == http::error::end_of_stream || error == http::error::partial_message) {
      Close();
      return;
    }
    int status = 400;
    if (error == http::error::body_limit) {
      status = 413;
    } else if (error == http::error::header_limit) {
      status = 431;
    }
    answer_ = Answer{.last = true};
    SendNow(TextResponse(status, error.message()));
  }

  void Dispatch() {
    deadline_.cancel();
    auto message = parser_->release();
    HttpRequest request;
    request.method = std::string(message.method_string());
    request.target = std::string(message.target());
    request.remote = remote_;
    for (const auto& field : message) {
      request.headers.emplace_back(
          ToLower(std::string_view(field.name_string().data(), field.name_string().size())),
          std::string(field.value()));
    }
    request.body = std::move(message.body());
    answer_ = Answer{.http_1_1 = message.version() >= 11,
                     .head_only = request.method == "HEAD",
                     .last = !message.keep_alive()};
    const std::uint64_t exchange = ++exchange_;
    try {
      server_->handler(std::move(request), Responder(shared_from_this(), exchange));
    } catch (const std::exception& error) {
      log::Error("a request handler failed", {{"error", std::string(error.what())}});
      if (Current(exchange) && !answer_->started) {
        SendNow(TextResponse(500, "internal error"));
      } else if (Current(exchange)) {
        Close();
      }
    }
    if (Current(exchange)) {
      WatchClient();
    }
  }

  // While a handler takes its time or streams, a read tells when the client goes. What a pipelining
  // client sends meanwhile is kept.
  void WatchClient() {
    constexpr std::size_t kMostPipelined = 64 << 10;
    if (watching_ || closed_ || buffer_.size() >= kMostPipelined) {
      return;
    }
    watching_ = true;
    constexpr std::size_t kPiece = 4096;
    socket_.async_read_some(buffer_.prepare(kPiece),
                            [self = shared_from_this()](ErrorCode error, std::size_t size) {
                              self->watching_ = false;
                              if (self->closed_) {
                                return;
                              }
                              self->buffer_.commit(size);
                              if (error == asio::error::operation_aborted) {
                                // The answer is complete: on to the next request.
                                self->Pump();
                                return;
                              }
                              if (error) {
                                self->Close();
                                return;
                              }
                              if (self->answer_ && !self->answer_->complete) {
                                self->WatchClient();
                              } else {
                                self->Pump();
                              }
                            });
  }

  void Queue(std::string bytes) {
    queued_bytes_ += bytes.size();
    queue_.push_back(std::move(bytes));
    Pump();
  }

  // Writes what is queued; when the answer is complete and written, goes on to the next request.
  void Pump() {
    if (closed_ || writing_ || lingering_) {
      return;
    }
    if (!queue_.empty()) {
      writing_ = true;
      // The deadline moves with every piece that is taken: a slow client is not a dead one.
      Arm(server_->options.write_timeout);
      socket_.async_write_some(asio::buffer(queue_.front().data() + front_written_,
                                            queue_.front().size() - front_written_),
                               [self = shared_from_this()](ErrorCode error, std::size_t size) {
                                 self->writing_ = false;
                                 if (self->closed_) {
                                   return;
                                 }
                                 if (error) {
                                   self->Close();
                                   return;
                                 }
                                 self->front_written_ += size;
                                 self->queued_bytes_ -= size;
                                 if (self->front_written_ == self->queue_.front().size()) {
                                   self->queue_.pop_front();
                                   self->front_written_ = 0;
                                 }
                                 self->Pump();
                               });
      return;
    }
    deadline_.cancel();
    if (!answer_ || !answer_->complete) {
      return;
    }
    if (answer_->last) {
      Linger();
      return;
    }
    if (watching_) {
      ErrorCode ignored;
      socket_.cancel(ignored);
      return;  // the read's handler comes back here
    }
    answer_.reset();
    // A chain of pipelined requests must not grow the stack.
    asio::post(socket_.get_executor(), [self = shared_from_this()] {
      if (!self->closed_) {
        self->Begin();
      }
    });
  }

  // Closing with unread input makes the kernel send a reset, which can destroy the answer on its
  // way. So say goodbye, then read a little.
  void Linger() {
    ErrorCode ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    answer_.reset();
    lingering_ = true;
    if (watching_) {
      socket_.cancel(ignored);
    }
    Arm(std::chrono::seconds(2));
    Drain();
  }

  void Drain() {
    constexpr std::size_t kPiece = 4096;
    constexpr std::size_t kMost = 32 << 20;
    buffer_.clear();
    socket_.async_read_some(
        buffer_.prepare(kPiece), [self = shared_from_this()](ErrorCode error, std::size_t size) {
          self->drained_ += size;
          if (self->closed_) {
            return;
          }
          if ((error && error != asio::error::operation_aborted) || self->drained_ > kMost) {
            self->Close();
            return;
          }
          self->Drain();
        });
  }

  tcp::socket socket_;
  asio::steady_timer deadline_;
  std::shared_ptr<HttpServerState> server_;
  std::string remote_;
  boost::beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::string continue_;
  std::optional<Answer> answer_;
  std::uint64_t exchange_ = 0;
  std::deque<std::string> queue_;
  std::size_t front_written_ = 0;
  std::size_t queued_bytes_ = 0;
  std::size_t drained_ = 0;
  bool writing_ = false;
  bool watching_ = false;
  bool lingering_ = false;
  bool closed_ = false;
};

void HttpServerState::Accept() {
  acceptor.async_accept([self = shared_from_this()](ErrorCode error, tcp::socket socket) {
    if (self->stopped || error == asio::error::operation_aborted) {
      return;
    }
    if (error) {
      // Out of file descriptors, most likely: wait for some to come back instead of spinning.
      self->retry.expires_after(std::chrono::milliseconds(100));
      self->retry.async_wait([self](ErrorCode failed) {
        if (!failed && !self->stopped) {
          self->Accept();
        }
      });
      return;
    }
    auto connection = std::make_shared<HttpConnection>(std::move(socket), self);
    const bool full = self->open.size() >= self->options.max_connections;
    self->open.insert(connection);
    if (full) {
      connection->TurnAway();
    } else {
      connection->Begin();
    }
    self->Accept();
  });
}

Responder::Responder(std::shared_ptr<HttpConnection> connection, std::uint64_t exchange)
    : connection_(std::move(connection)), exchange_(exchange) {}

Responder& Responder::operator=(Responder&& other) noexcept {
  if (this != &other) {
    Release();
    connection_ = std::move(other.connection_);
    exchange_ = other.exchange_;
  }
  return *this;
}

Responder::~Responder() {
  Release();
}

void Responder::Release() {
  if (open()) {
    if (connection_->Started()) {
      connection_->EndStream();
    } else {
      connection_->SendNow(TextResponse(500, "the request was not answered"));
    }
  }
  connection_.reset();
}

bool Responder::open() const {
  return connection_ != nullptr && connection_->Current(exchange_);
}

void Responder::Send(HttpResponse response) {
  if (open() && !connection_->Started()) {
    connection_->SendNow(std::move(response));
  }
}

void Responder::Start(int status, const HttpHeaders& headers) {
  if (open() && !connection_->Started()) {
    connection_->StartStream(status, headers);
  }
}

bool Responder::Write(std::string bytes) {
  if (!open() || !connection_->Started()) {
    return false;
  }
  if (connection_->queued_bytes() + bytes.size() > kMaxBuffered) {
    connection_->Close();
    return false;
  }
  connection_->WriteStream(std::move(bytes));
  return open();
}

void Responder::End() {
  if (open() && connection_->Started()) {
    connection_->EndStream();
  }
}

std::size_t Responder::buffered() const {
  return open() ? connection_->queued_bytes() : 0;
}

void Responder::OnClose(std::function<void()> fn) {
  if (open()) {
    connection_->SetOnClose(std::move(fn));
  }
}

HttpServer::HttpServer(asio::io_context& context, Handler handler, HttpServerOptions options)
    : impl_(std::make_shared<HttpServerState>(context, std::move(handler), options)) {}

HttpServer::~HttpServer() {
  Stop();
}

Result<std::uint16_t> HttpServer::Listen(const std::string& address, std::uint16_t port) {
  ErrorCode error;
  tcp::endpoint endpoint(tcp::v6(), port);
  const auto fail = [&](std::string_view what) -> Result<std::uint16_t> {
    ErrorCode ignored;
    impl_->acceptor.close(ignored);
    return std::unexpected(Error{.code = muster::ErrorCode::kInvalid,
                                 .message = "cannot listen on " + address + ":" +
                                            std::to_string(port) + ": " + std::string(what) + ": " +
                                            error.message()});
  };
  if (!address.empty()) {
    const auto parsed =
        asio::ip::make_address(address == "localhost" ? "127.0.0.1" : address, error);
    if (error) {
      return fail("not an IP address");
    }
    endpoint = tcp::endpoint(parsed, port);
  }
  tcp::acceptor& acceptor = impl_->acceptor;
  acceptor.open(endpoint.protocol(), error);
  if (error && address.empty()) {
    // A machine without IPv6.
    endpoint = tcp::endpoint(tcp::v4(), port);
    acceptor.open(endpoint.protocol(), error);
  }
  if (error) {
    return fail("open");
  }
  acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (address.empty() && endpoint.protocol() == tcp::v6()) {
    acceptor.set_option(asio::ip::v6_only(false), error);
  }
  acceptor.bind(endpoint, error);
  if (error) {
    return fail("bind");
  }
  acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return fail("listen");
  }
  const tcp::endpoint bound = acceptor.local_endpoint(error);
  if (error) {
    return fail("listen");
  }
  impl_->Accept();
  return bound.port();
}

void HttpServer::Stop() {
  impl_->stopped = true;
  ErrorCode ignored;
  impl_->acceptor.close(ignored);
  impl_->retry.cancel();
  const auto open = impl_->open;  // Close takes each out of the set
  for (const auto& connection : open) {
    connection->Close();
  }
}

std::size_t HttpServer::connections() const {
  return impl_->open.size();
}

Result<BindAddress> ParseBindAddress(std::string_view text) {
  BindAddress out;
  if (text == "0" || text.empty()) {
    out.off = true;
    return out;
  }
  const auto colon = text.rfind(':');
  const auto refuse = [&] {
    return std::unexpected(
        Error::Invalid("expected host:port or :port, got \"" + std::string(text) + "\""));
  };
  if (colon == std::string_view::npos) {
    return refuse();
  }
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  out.host = std::string(host);
  const std::string_view port = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (error != std::errc{} || end != port.data() + port.size() || port.empty()) {
    return refuse();
  }
  return out;
}

}  // namespace muster::server
