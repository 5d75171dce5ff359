#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace boost::asio {
class io_context;
}  // namespace boost::asio

namespace muster::server {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;  // names in lower case

struct HttpRequest {
  std::string method;  // "GET", upper case as sent
  std::string target;  // path and query as sent
  HttpHeaders headers;
  std::string body;
  std::string remote;  // "127.0.0.1:5000", for logs

  [[nodiscard]] std::string_view Header(std::string_view lower_case_name) const;
  [[nodiscard]] std::string_view path() const;   // target up to '?'
  [[nodiscard]] std::string_view query() const;  // behind '?', or empty
};

struct HttpResponse {
  int status = 200;
  HttpHeaders headers;  // content-length, connection and date are added
  std::string body;
};

class HttpConnection;
struct HttpServerState;

// Answers one request: once with Send, or with Start, Write..., End as a stream.
//
// Shape    Movable handle. When the last one goes without an answer, the client gets 500; an open
// stream is ended. Threads  The thread that runs the io_context. May be kept and used later, also
// after the client or the server has gone: then nothing
//          happens.
class Responder {
 public:
  Responder() = default;
  explicit Responder(std::shared_ptr<HttpConnection> connection, std::uint64_t exchange);
  Responder(Responder&&) noexcept = default;
  Responder& operator=(Responder&& other) noexcept;
  Responder(const Responder&) = delete;
  Responder& operator=(const Responder&) = delete;
  ~Responder();

  void Send(HttpResponse response);
  // Headers now, body in pieces (chunked; to an HTTP/1.0 client until the connection closes). For
  // HEAD the pieces are dropped.
  void Start(int status, const HttpHeaders& headers);
  // False once the client is gone or too far behind (kMaxBuffered): the stream is over.
  bool Write(std::string bytes);
  void End();

  // The client is there, and the answer is not complete.
  [[nodiscard]] bool open() const;
  // Bytes that the client has not taken yet.
  [[nodiscard]] std::size_t buffered() const;
  // Called once, from the loop, when the client goes before the answer was complete.
  void OnClose(std::function<void()> fn);

  static constexpr std::size_t kMaxBuffered = std::size_t{64} << 20;

 private:
  void Release();
  std::shared_ptr<HttpConnection> connection_;
  std::uint64_t exchange_ = 0;
};

struct HttpServerOptions {
  std::size_t max_header_bytes = std::size_t{64} << 10;
  std::size_t max_body_bytes = std::size_t{10} << 20;
  std::size_t max_connections = 1024;                // more are turned away with 503
  Duration idle_timeout = std::chrono::seconds(90);  // between requests
  Duration request_timeout =
      std::chrono::seconds(30);  // from the first byte of a request to its last
  Duration write_timeout = std::chrono::seconds(30);  // without a byte taken by the client
};

// HTTP/1.1 without TLS: keep-alive, HEAD, chunked streams, limits and time-outs against slow
// clients.
//
// Threads  All on the thread that runs `context`; handlers are called there. An exception of a
// handler becomes a 500 and a log line. Errors   Malformed requests are answered with 400, 413 or
// 431 and the connection is closed.
class HttpServer {
 public:
  using Handler = std::function<void(HttpRequest, Responder)>;

  HttpServer(boost::asio::io_context& context, Handler handler, HttpServerOptions options = {});
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Starts to listen; returns the port, which matters when `port` is 0. `address` is an IP address,
  // "" for all.
  [[nodiscard]] Result<std::uint16_t> Listen(const std::string& address, std::uint16_t port);
  // Closes the listener and all connections. Streams get no proper end.
  void Stop();
  [[nodiscard]] std::size_t connections() const;

 private:
  std::shared_ptr<HttpServerState> impl_;
};

// "host:port" and ":port" as the flags of `serve` write addresses; "0" switches off (port 0 and
// empty address).
struct BindAddress {
  std::string host;  // an IP address, empty for all
  std::uint16_t port = 0;
  bool off = false;
};
[[nodiscard]] Result<BindAddress> ParseBindAddress(std::string_view text);

}  // namespace muster::server
