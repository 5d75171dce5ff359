#include "server/dashboard.h"

#include "server/health.h"
#include "server/static_files.h"

namespace muster::server {

bool ServeDashboard(const HttpRequest& request,
                    Responder& responder,
                    const std::function<DashboardData()>& data) {
  if (request.path() == "/api/v1/dashboard") {
    if (!IsRead(request)) {
      responder.Send(MethodNotAllowed());
      return true;
    }
    HttpResponse response;
    AddSecurityHeaders(response.headers);
    const Result<Page> page = ParsePage(request.query());
    if (!page) {
      response.status = 400;
      response.headers.emplace_back("content-type", "text/plain; charset=utf-8");
      response.body = page.error().message + "\n";
    } else {
      response.headers.emplace_back("content-type", "application/json");
      response.headers.emplace_back("cache-control", "no-store");
      response.body = DashboardJson(data(), *page);
    }
    responder.Send(std::move(response));
    return true;
  }
  std::optional<HttpResponse> file = ServeFile(request);
  if (!file) {
    return false;
  }
  responder.Send(IsRead(request) ? *std::move(file) : MethodNotAllowed());
  return true;
}

}  // namespace muster::server
