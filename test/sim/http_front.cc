#include "test/sim/http_front.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cctype>
#include <charconv>
#include <cstring>
#include <map>
#include <memory>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include "base/check.h"
#include "base/strings.h"

namespace muster::sim::test {
namespace {

struct Connection {
  std::string in;
  std::string out;
  std::unique_ptr<WatchStream> watch;
  bool close = false;
};

std::string StatusText(int status) {
  return status < 400 ? "OK" : "Error";
}

void Chunk(std::string& out, const std::string& data) {
  char size[32];
  const int length = std::snprintf(size, sizeof size, "%zx\r\n", data.size());
  out.append(size, static_cast<std::size_t>(length));
  out += data;
  out += "\r\n";
}

// Answers every complete request in the buffer.
void Process(Connection& connection, ApiServer& server, TimePoint now) {
  while (!connection.watch) {
    const std::size_t end = connection.in.find("\r\n\r\n");
    if (end == std::string::npos) {
      return;
    }
    k8s::Request request;
    request.accept.clear();
    const std::vector<std::string> lines = Split(connection.in.substr(0, end), '\n');
    const std::vector<std::string> first = Split(lines[0], ' ');
    std::size_t length = 0;
    bool chunked = false;
    for (std::size_t i = 1; i < lines.size(); ++i) {
      const std::size_t colon = lines[i].find(':');
      if (colon == std::string::npos) {
        continue;
      }
      const std::string name = ToLower(lines[i].substr(0, colon));
      const std::string value(TrimSpace(std::string_view(lines[i]).substr(colon + 1)));
      if (name == "content-length") {
        std::from_chars(value.data(), value.data() + value.size(), length);
      } else if (name == "transfer-encoding") {
        chunked = value.contains("chunked");
      } else if (name == "content-type") {
        request.content_type = value;
      } else if (name == "accept") {
        request.accept = value;
      } else {
        request.headers.emplace_back(name, value);
      }
    }
    std::size_t at = end + 4;
    if (chunked) {
      for (;;) {
        const std::size_t line = connection.in.find("\r\n", at);
        if (line == std::string::npos) {
          return;
        }
        std::size_t size = 0;
        std::from_chars(connection.in.data() + at, connection.in.data() + line, size, 16);
        if (connection.in.size() < line + 2 + size + 2) {
          return;
        }
        request.body += connection.in.substr(line + 2, size);
        at = line + 2 + size + 2;
        if (size == 0) {
          break;
        }
      }
    } else {
      if (connection.in.size() < at + length) {
        return;
      }
      request.body = connection.in.substr(at, length);
      at += length;
    }
    connection.in.erase(0, at);
    const std::string method = first.empty() ? "" : first[0];
    request.method = method == "POST"     ? k8s::Method::kPost
                     : method == "PUT"    ? k8s::Method::kPut
                     : method == "PATCH"  ? k8s::Method::kPatch
                     : method == "DELETE" ? k8s::Method::kDelete
                                          : k8s::Method::kGet;
    request.target = first.size() > 1 ? first[1] : "/";
    k8s::Response response;
    const bool watch =
        request.method == k8s::Method::kGet &&
        (request.target.contains("watch=1") || request.target.contains("watch=true"));
    if (watch) {
      connection.watch = server.OpenWatch(request, now, response);
      if (connection.watch) {
        connection.out +=
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: "
            "chunked\r\n\r\n";
        return;
      }
    } else {
      response = server.Handle(request, now);
    }
    connection.out +=
        "HTTP/1.1 " + std::to_string(response.status) + " " + StatusText(response.status) + "\r\n";
    for (const auto& [name, value] : response.headers) {
      connection.out += name + ": " + value + "\r\n";
    }
    connection.out +=
        "content-length: " + std::to_string(response.body.size()) + "\r\n\r\n" + response.body;
  }
}

void Pump(Connection& connection) {
  if (!connection.watch) {
    return;
  }
  const std::string data = connection.watch->Read();
  if (!data.empty()) {
    Chunk(connection.out, data);
  }
  if (connection.watch->closed()) {
    connection.out += "0\r\n\r\n";
    connection.watch.reset();
  }
}

}  // namespace

HttpFront::HttpFront(ApiServerOptions options) : server_(options) {
  listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
  MUSTER_CHECK(listener_ >= 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  MUSTER_CHECK(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  MUSTER_CHECK(::listen(listener_, 64) == 0);
  socklen_t size = sizeof address;
  MUSTER_CHECK(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Serve(); });
}

HttpFront::~HttpFront() {
  stop_ = true;
  thread_.join();
  ::close(listener_);
}

void HttpFront::Serve() {
  std::map<int, Connection> connections;
  while (!stop_) {
    std::vector<pollfd> polled = {{.fd = listener_, .events = POLLIN, .revents = 0}};
    for (auto& [fd, connection] : connections) {
      polled.push_back(
          {.fd = fd,
           .events = static_cast<short>(POLLIN | (connection.out.empty() ? 0 : POLLOUT)),
           .revents = 0});
    }
    ::poll(polled.data(), polled.size(), 20);
    const TimePoint now = std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
    server_.Tick(now);
    if ((polled[0].revents & POLLIN) != 0) {
      const int fd = ::accept(listener_, nullptr, nullptr);
      if (fd >= 0) {
        connections.emplace(fd, Connection{});
      }
    }
    for (std::size_t i = 1; i < polled.size(); ++i) {
      Connection& connection = connections.at(polled[i].fd);
      if ((polled[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
        char buffer[65536];
        const ssize_t got = ::recv(polled[i].fd, buffer, sizeof buffer, MSG_DONTWAIT);
        if (got <= 0) {
          connection.close = true;
        } else {
          connection.in.append(buffer, static_cast<std::size_t>(got));
        }
      }
      Process(connection, server_, now);
    }
    for (auto it = connections.begin(); it != connections.end();) {
      Connection& connection = it->second;
      Pump(connection);
      if (!connection.out.empty()) {
        const ssize_t sent = ::send(
            it->first, connection.out.data(), connection.out.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent > 0) {
          connection.out.erase(0, static_cast<std::size_t>(sent));
        }
      }
      if (connection.close) {
        ::close(it->first);
        it = connections.erase(it);
      } else {
        ++it;
      }
    }
  }
  for (auto& [fd, connection] : connections) {
    ::close(fd);
  }
}

}  // namespace muster::sim::test
