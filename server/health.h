#pragma once

#include <functional>
#include <string>

#include "server/http_server.h"

namespace muster::server {

// Where the process is in its life. Not ready until told.
struct Health {
  bool ready = false;
  std::string why_not_ready = "starting";
};

// Answers /healthz and /livez (200 as long as the loop runs), /readyz, and /metrics with
// `metrics_text` where that is given. False, and the responder untouched, for any other path.
[[nodiscard]] bool ServeMonitoring(const HttpRequest& request,
                                   Responder& responder,
                                   const Health& health,
                                   const std::function<std::string()>& metrics_text);

// 404 and 405 in the plain form that all of Muster's own endpoints use.
[[nodiscard]] HttpResponse NotFound();
[[nodiscard]] HttpResponse MethodNotAllowed();
[[nodiscard]] bool IsRead(const HttpRequest& request);  // GET or HEAD

}  // namespace muster::server
