#pragma once

#include <memory>
#include <vector>

#include "k8sclient/transport.h"
#include "server/http_server.h"
#include "sim/api_server.h"

namespace muster::cli {

// Serves the in-memory API server over HTTP, so that kubectl can talk to it.
//
// Threads  One, that of the HTTP server.
class ApiFront {
 public:
  ApiFront(sim::ApiServer& server, k8s::Timers& timers);
  ~ApiFront();
  ApiFront(const ApiFront&) = delete;
  ApiFront& operator=(const ApiFront&) = delete;

  void Handle(server::HttpRequest request, server::Responder responder);
  // Sends what has become available on open watches. Called after changes.
  void Pump();

 private:
  struct Watch;
  sim::ApiServer& server_;
  k8s::Timers& timers_;
  std::vector<std::unique_ptr<Watch>> watches_;
};

}  // namespace muster::cli
