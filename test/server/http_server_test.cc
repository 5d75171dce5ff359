#include "server/http_server.h"

#include <arpa/inet.h>
#include <atomic>
#include <future>
#include <netinet/in.h>
#include <optional>
#include <sys/socket.h>
#include <sys/time.h>
#include <thread>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "server/dashboard.h"
#include "server/health.h"

namespace muster::server {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A server on a thread of its own.
class Running {
 public:
  // Runs `fn` on the server's thread and waits for it.
  template <typename F>
  auto On(F fn) {
    std::packaged_task<decltype(fn())()> task(std::move(fn));
    auto done = task.get_future();
    boost::asio::post(context_, [&task] { task(); });
    return done.get();
  }
  explicit Running(HttpServer::Handler handler, HttpServerOptions options = {})
      : guard_(boost::asio::make_work_guard(context_)) {
    server_ = std::make_unique<HttpServer>(context_, std::move(handler), options);
    const Result<std::uint16_t> port = server_->Listen("127.0.0.1", 0);
    EXPECT_TRUE(port) << port.error().message;
    port_ = port.value_or(0);
    thread_ = std::thread([this] { context_.run(); });
  }
  ~Running() {
    On([this] { server_.reset(); });
    guard_.reset();
    thread_.join();
  }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] HttpServer& server() { return *server_; }

 private:
  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_;
  std::unique_ptr<HttpServer> server_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

// A blocking client. Reads give up after ten seconds, so a broken server fails a test instead of
// hanging it.
class Client {
 public:
  explicit Client(std::uint16_t port, int receive_buffer = 0)
      : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval limit{.tv_sec = 10, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (receive_buffer > 0) {
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~Client() { Close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  void Close() {
    if (fd_ >= 0) {
      close(fd_);
      fd_ = -1;
    }
  }
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) {
        return false;
      }
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  // Until `end` has arrived; what came before a close otherwise.
  std::string ReadUntil(std::string_view end) {
    while (true) {
      const auto at = held_.find(end);
      if (at != std::string::npos) {
        std::string out = held_.substr(0, at + end.size());
        held_.erase(0, at + end.size());
        return out;
      }
      if (!Fill()) {
        return std::exchange(held_, {});
      }
    }
  }
  std::string ReadBytes(std::size_t count) {
    while (held_.size() < count && Fill()) {
    }
    std::string out = held_.substr(0, count);
    held_.erase(0, count);
    return out;
  }
  std::string ReadAll() {
    while (Fill()) {
    }
    return std::exchange(held_, {});
  }
  // Head and body of one response with a Content-Length.
  std::string Response() {
    std::string head = ReadUntil("\r\n\r\n");
    const auto at = head.find("Content-Length: ");
    if (at != std::string::npos) {
      head += ReadBytes(std::stoul(head.substr(at + 16)));
    }
    return head;
  }

 private:
  bool Fill() {
    char buffer[65536];
    const ssize_t got = recv(fd_, buffer, sizeof buffer, 0);
    if (got <= 0) {
      return false;
    }
    held_.append(buffer, static_cast<std::size_t>(got));
    return true;
  }
  int fd_;
  std::string held_;
};

// True once `condition` holds, within ten seconds.
template <typename F>
bool Soon(F condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < end) {
    if (condition()) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

void Echo(HttpRequest request, Responder responder) {
  responder.Send({.status = 200,
                  .headers = {{"content-type", "text/plain"}, {"x-odd", "a\r\nInjected: b"}},
                  .body = request.method + " " + request.target + " " + request.body});
}

TEST(HttpServer, KeepsAConnectionForManyRequests) {
  Running running(Echo);
  Client client(running.port());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.Send("GET /a?b=" + std::to_string(i) + " HTTP/1.1\r\nHost: x\r\n\r\n"));
    const std::string response = client.Response();
    EXPECT_THAT(response, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(response, EndsWith("GET /a?b=" + std::to_string(i) + " "));
    EXPECT_THAT(response, Not(HasSubstr("\r\nInjected")));
  }
  ASSERT_TRUE(
      client.Send("POST / HTTP/1.1\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"));
  EXPECT_THAT(client.ReadAll(), EndsWith("POST / hello"));
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
  Running running(Echo);
  Client client(running.port());
  std::string all;
  for (int i = 0; i < 200; ++i) {
    all += "GET /" + std::to_string(i) + " HTTP/1.1\r\n\r\n";
  }
  ASSERT_TRUE(client.Send(all));
  for (int i = 0; i < 200; ++i) {
    ASSERT_THAT(client.Response(), EndsWith("GET /" + std::to_string(i) + " "));
  }
}

TEST(HttpServer, HeadHasNoBody) {
  Running running(Echo);
  Client client(running.port());
  ASSERT_TRUE(client.Send("HEAD /x HTTP/1.1\r\n\r\nGET /y HTTP/1.1\r\n\r\n"));
  const std::string head = client.ReadUntil("\r\n\r\n");
  EXPECT_THAT(head, HasSubstr("Content-Length: 8"));
  EXPECT_THAT(client.Response(), EndsWith("GET /y "));
}

TEST(HttpServer, TakesLargeAndChunkedBodies) {
  Running running([](HttpRequest request, Responder responder) {
    responder.Send({.body = std::to_string(request.body.size())});
  });
  Client client(running.port());
  const std::string body(9'000'000, 'x');
  ASSERT_TRUE(client.Send("POST / HTTP/1.1\r\nContent-Length: " + std::to_string(body.size()) +
                          "\r\n\r\n" + body));
  EXPECT_THAT(client.Response(), EndsWith("9000000"));
  ASSERT_TRUE(client.Send(
      "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n"));
  EXPECT_THAT(client.Response(), EndsWith("7"));
  ASSERT_TRUE(client.Send("POST / HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"));
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  ASSERT_TRUE(client.Send("ab"));
  EXPECT_THAT(client.Response(), EndsWith("2"));
}

TEST(HttpServer, RefusesWhatIsTooLargeOrMalformed) {
  Running running(Echo, {.max_header_bytes = 4096, .max_body_bytes = 1000});
  const std::pair<std::string, std::string> rows[] = {
      {"POST / HTTP/1.1\r\nContent-Length: 1001\r\n\r\n", "413"},
      {"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", "400"},
      {"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "400"},
      {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", "4"},
      {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "400"},
      {"GET / HTTP/1.1\r\nA: " + std::string(5000, 'a') + "\r\n\r\n", "431"},
      {"GET / HTTP/9.9\r\n\r\n", "400"},
      {"GET /\r\n\r\n", "400"},
      {"\x16\x03\x01\x02\r\n\r\n", "400"},
      {std::string("GET /\0 HTTP/1.1\r\n\r\n", 20), "400"},
      {"GET / HTTP/1.1\r\nBad header\r\n\r\n", "400"},
  };
  for (const auto& [bytes, status] : rows) {
    Client client(running.port());
    ASSERT_TRUE(client.Send(bytes));
    EXPECT_THAT(client.ReadAll(), StartsWith("HTTP/1.1 " + status)) << bytes.substr(0, 60);
  }
  Client client(running.port());
  ASSERT_TRUE(client.Send("GET / HTTP/1.1\r\n\r\n"));
  EXPECT_THAT(client.Response(), StartsWith("HTTP/1.1 200"));
}

TEST(HttpServer, SlowAndSilentClientsAreDropped) {
  Running running(Echo,
                  {.idle_timeout = std::chrono::milliseconds(50),
                   .request_timeout = std::chrono::milliseconds(50)});
  Client silent(running.port());
  EXPECT_EQ(silent.ReadAll(), "");
  Client slow(running.port());
  ASSERT_TRUE(slow.Send("GET / HTTP/1.1\r\n"));
  EXPECT_EQ(slow.ReadAll(), "");
  EXPECT_TRUE(
      Soon([&] { return running.On([&] { return running.server().connections(); }) == 0; }));
}

TEST(HttpServer, ReadersThatStopReadingAreDropped) {
  std::atomic<bool> closed = false;
  std::optional<Responder> held;
  Running running(
      [&](HttpRequest, Responder responder) {
        responder.OnClose([&] { closed = true; });
        responder.Start(200, {});
        responder.Write(std::string(40'000'000, 'x'));
        held = std::move(responder);
      },
      {.write_timeout = std::chrono::milliseconds(100)});
  Client client(running.port(), 4096);
  ASSERT_TRUE(client.Send("GET / HTTP/1.1\r\n\r\n"));
  EXPECT_TRUE(Soon([&] { return closed.load(); }));
  running.On([&] { held.reset(); });
}

TEST(HttpServer, StreamsAndKeepsTheConnection) {
  std::optional<Responder> held;
  Running running([&](HttpRequest request, Responder responder) {
    if (request.target == "/watch") {
      responder.Start(200, {{"content-type", "application/json"}});
      held = std::move(responder);
    } else {
      Echo(std::move(request), std::move(responder));
    }
  });
  Client client(running.port());
  ASSERT_TRUE(client.Send("GET /watch HTTP/1.1\r\n\r\n"));
  EXPECT_THAT(client.ReadUntil("\r\n\r\n"), HasSubstr("Transfer-Encoding: chunked"));
  EXPECT_TRUE(running.On([&] { return held->Write("{\"type\":\"ADDED\"}\n"); }));
  EXPECT_EQ(client.ReadUntil("\n\r\n"), "11\r\n{\"type\":\"ADDED\"}\n\r\n");
  // Pipelined while the stream is open: answered after it.
  ASSERT_TRUE(client.Send("GET /next HTTP/1.1\r\n\r\n"));
  EXPECT_TRUE(running.On([&] { return held->Write(""); }));
  EXPECT_TRUE(running.On([&] { return held->Write("second\n"); }));
  EXPECT_EQ(client.ReadUntil("\n\r\n"), "7\r\nsecond\n\r\n");
  running.On([&] {
    held->End();
    EXPECT_FALSE(held->open());
    EXPECT_FALSE(held->Write("late"));
    held.reset();
  });
  EXPECT_EQ(client.ReadUntil("0\r\n\r\n"), "0\r\n\r\n");
  EXPECT_THAT(client.Response(), EndsWith("GET /next "));
}

TEST(HttpServer, OldClientsGetAStreamThatEndsWithTheConnection) {
  Running running([](HttpRequest, Responder responder) {
    responder.Start(200, {});
    responder.Write("abc");
    responder.End();
  });
  Client client(running.port());
  ASSERT_TRUE(client.Send("GET / HTTP/1.0\r\n\r\n"));
  const std::string all = client.ReadAll();
  EXPECT_THAT(all, Not(HasSubstr("chunked")));
  EXPECT_THAT(all, EndsWith("\r\n\r\nabc"));
}

TEST(HttpServer, TellsWhenAStreamsClientGoes) {
  std::atomic<bool> closed = false;
  std::optional<Responder> held;
  Running running([&](HttpRequest, Responder responder) {
    responder.OnClose([&] { closed = true; });
    responder.Start(200, {});
    held = std::move(responder);
  });
  {
    Client client(running.port());
    ASSERT_TRUE(client.Send("GET / HTTP/1.1\r\n\r\n"));
    client.ReadUntil("\r\n\r\n");
    EXPECT_FALSE(closed);
  }
  EXPECT_TRUE(Soon([&] { return closed.load(); }));
  EXPECT_FALSE(running.On([&] { return held->open() || held->Write("x"); }));
  running.On([&] { held.reset(); });
}

TEST(HttpServer, AnswersLaterFromOutsideTheHandler) {
  std::optional<Responder> held;
  std::atomic<bool> ready = false;
  Running running([&](HttpRequest, Responder responder) {
    held = std::move(responder);
    ready = true;
  });
  Client client(running.port());
  ASSERT_TRUE(client.Send("GET / HTTP/1.1\r\n\r\n"));
  ASSERT_TRUE(Soon([&] { return ready.load(); }));
  running.On([&] {
    held->Send({.status = 201, .body = "later"});
    held->Send({.status = 500});  // a second answer is ignored
    held.reset();
  });
  EXPECT_THAT(client.Response(), EndsWith("later"));
  // The connection goes on.
  ready = false;
  ASSERT_TRUE(client.Send("GET / HTTP/1.1\r\n\r\n"));
  ASSERT_TRUE(Soon([&] { return ready.load(); }));
  running.On([&] { held.reset(); });
  EXPECT_THAT(client.Response(), StartsWith("HTTP/1.1 500"));
}

TEST(HttpServer, AThrowingHandlerIsAnInternalError) {
  log::SetSink([](std::string_view) {});
  {
    Running running([](HttpRequest, Responder) -> void { throw std::runtime_error("secret"); });
    Client client(running.port());
    ASSERT_TRUE(client.Send("GET / HTTP/1.1\r\n\r\n"));
    const std::string response = client.Response();
    EXPECT_THAT(response, StartsWith("HTTP/1.1 500"));
    EXPECT_THAT(response, Not(HasSubstr("secret")));
  }
  log::SetSink(nullptr);
}

TEST(HttpServer, TurnsAwayTooManyConnections) {
  Running running(Echo, {.max_connections = 2});
  Client one(running.port());
  Client two(running.port());
  ASSERT_TRUE(one.Send("GET / HTTP/1.1\r\n\r\n"));
  ASSERT_TRUE(two.Send("GET / HTTP/1.1\r\n\r\n"));
  one.Response();
  two.Response();
  Client three(running.port());
  EXPECT_THAT(three.ReadAll(), StartsWith("HTTP/1.1 503"));
}

TEST(HttpServer, StoppingEndsStreamsAndTellsTheirOwners) {
  std::atomic<bool> closed = false;
  std::optional<Responder> held;
  Running running([&](HttpRequest, Responder responder) {
    responder.OnClose([&] { closed = true; });
    responder.Start(200, {});
    held = std::move(responder);
  });
  Client client(running.port());
  ASSERT_TRUE(client.Send("GET / HTTP/1.1\r\n\r\n"));
  client.ReadUntil("\r\n\r\n");
  running.On([&] { running.server().Stop(); });
  EXPECT_EQ(client.ReadAll(), "");
  EXPECT_TRUE(Soon([&] { return closed.load(); }));
  running.On([&] { held.reset(); });
}

TEST(HttpServer, ListenReportsWhatIsWrong) {
  boost::asio::io_context context;
  HttpServer first(context, Echo);
  const Result<std::uint16_t> port = first.Listen("127.0.0.1", 0);
  ASSERT_TRUE(port);
  HttpServer second(context, Echo);
  const Result<std::uint16_t> taken = second.Listen("127.0.0.1", *port);
  ASSERT_FALSE(taken);
  EXPECT_THAT(taken.error().message,
              HasSubstr("cannot listen on 127.0.0.1:" + std::to_string(*port)));
  EXPECT_FALSE(HttpServer(context, Echo).Listen("not-an-address", 0));
}

TEST(ParseBindAddress, ReadsWhatTheFlagsAllow) {
  EXPECT_EQ(ParseBindAddress(":8080")->port, 8080);
  EXPECT_EQ(ParseBindAddress(":8080")->host, "");
  EXPECT_EQ(ParseBindAddress("127.0.0.1:0")->host, "127.0.0.1");
  EXPECT_EQ(ParseBindAddress("[::1]:81")->host, "::1");
  EXPECT_TRUE(ParseBindAddress("0")->off);
  for (const char* bad : {"8080", "a:", ":65536", ":-1", ":x", "a:1x"}) {
    EXPECT_FALSE(ParseBindAddress(bad)) << bad;
  }
}

// Monitoring and dashboard through a real connection.
TEST(Monitoring, RoutesByPath) {
  Health health;
  Running running([&](HttpRequest request, Responder responder) {
    if (!ServeMonitoring(request, responder, health, [] { return std::string("metric 1\n"); }) &&
        !ServeDashboard(request, responder, [] { return DashboardData{.title = "t"}; })) {
      responder.Send(NotFound());
    }
  });
  const auto get = [&](const std::string& path, const std::string& method = "GET") {
    Client client(running.port());
    EXPECT_TRUE(client.Send(method + " " + path + " HTTP/1.1\r\nConnection: close\r\n\r\n"));
    return client.ReadAll();
  };
  EXPECT_THAT(get("/healthz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(get("/readyz"), HasSubstr("not ready: starting"));
  running.On([&] { health.ready = true; });
  EXPECT_THAT(get("/readyz?verbose"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(get("/metrics"), EndsWith("metric 1\n"));
  EXPECT_THAT(get("/metrics"), HasSubstr("version=0.0.4"));
  EXPECT_THAT(get("/metrics", "POST"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(get("/"), HasSubstr("<!doctype html>"));
  EXPECT_THAT(get("/", "DELETE"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(get("/api/v1/dashboard"), HasSubstr("\"title\":\"t\""));
  EXPECT_THAT(get("/api/v1/dashboard?limit=abc"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(get("/api/v1/dashboard?limit=99999999999999999999&offset=3"),
              StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(get("/no/such"), StartsWith("HTTP/1.1 404"));
}

}  // namespace
}  // namespace muster::server
