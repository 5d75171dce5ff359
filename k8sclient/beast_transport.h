#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "k8sclient/config.h"
#include "k8sclient/io_loop.h"
#include "k8sclient/transport.h"

namespace muster::k8s {

struct BeastTransportOptions {
  // Connections for requests; each open stream has one of its own besides.
  std::size_t max_connections = 8;
  std::size_t max_waiting = 100'000;
  std::size_t max_response_bytes = 256UL << 20;
  Duration connect_timeout = std::chrono::seconds(10);
  // Servers close what is idle for longer; we close first, so that no request meets a closing
  // connection.
  Duration keep_alive = std::chrono::seconds(60);
  std::string user_agent = "muster";
};

// The real thing: HTTP/1.1 over TLS 1.2+ (or plain TCP for http:// servers), several kept-alive
// connections, gzip, deadlines, HTTP CONNECT proxy, credentials that are re-read and re-run. Errors
// kInvalid: certificates or keys that do not parse.
[[nodiscard]] Result<std::unique_ptr<Transport>> MakeBeastTransport(
    IoLoop& loop, ConnectionConfig config, BeastTransportOptions options = {});

}  // namespace muster::k8s
