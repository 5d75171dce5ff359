#pragma once

#include <functional>

#include "server/http_server.h"
#include "server/pending_view.h"

namespace muster::server {

// The dashboard: GET / and the files of its page, GET /api/v1/dashboard?limit=&offset=&queue= as
// JSON of what `data` returns. False, and the responder untouched, for any other path.
[[nodiscard]] bool ServeDashboard(const HttpRequest& request,
                                  Responder& responder,
                                  const std::function<DashboardData()>& data);

}  // namespace muster::server
