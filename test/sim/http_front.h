#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "sim/api_server.h"

namespace muster::sim::test {

// A small HTTP/1.1 server over the API server in memory, so that kubectl can be pointed at it. For
// tests alone: plain sockets, one thread, loopback, the real clock.
class HttpFront {
 public:
  explicit HttpFront(ApiServerOptions options);
  ~HttpFront();
  HttpFront(const HttpFront&) = delete;
  HttpFront& operator=(const HttpFront&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  void Serve();

  ApiServer server_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace muster::sim::test
