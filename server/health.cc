#include "server/health.h"

namespace muster::server {
namespace {

HttpResponse Plain(int status, std::string text) {
  return HttpResponse{.status = status,
                      .headers = {{"content-type", "text/plain; charset=utf-8"},
                                  {"x-content-type-options", "nosniff"}},
                      .body = std::move(text)};
}

}  // namespace

bool IsRead(const HttpRequest& request) {
  return request.method == "GET" || request.method == "HEAD";
}

HttpResponse NotFound() {
  return Plain(404, "not found\n");
}

HttpResponse MethodNotAllowed() {
  HttpResponse out = Plain(405, "method not allowed\n");
  out.headers.emplace_back("allow", "GET, HEAD");
  return out;
}

bool ServeMonitoring(const HttpRequest& request,
                     Responder& responder,
                     const Health& health,
                     const std::function<std::string()>& metrics_text) {
  const std::string_view path = request.path();
  const bool metrics = path == "/metrics" && metrics_text != nullptr;
  const bool alive = path == "/healthz" || path == "/livez";
  const bool ready = path == "/readyz";
  if (!metrics && !alive && !ready) {
    return false;
  }
  if (!IsRead(request)) {
    responder.Send(MethodNotAllowed());
  } else if (metrics) {
    responder.Send({.status = 200,
                    .headers = {{"content-type", "text/plain; version=0.0.4; charset=utf-8"}},
                    .body = metrics_text()});
  } else if (alive || health.ready) {
    responder.Send(Plain(200, "ok\n"));
  } else {
    responder.Send(Plain(503, "not ready: " + health.why_not_ready + "\n"));
  }
  return true;
}

}  // namespace muster::server
