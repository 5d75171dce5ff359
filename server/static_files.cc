#include "server/static_files.h"

#include "base/digest.h"

namespace muster::server {
namespace {

std::string_view ContentType(std::string_view name) {
  if (name.ends_with(".html")) {
    return "text/html; charset=utf-8";
  }
  if (name.ends_with(".js")) {
    return "text/javascript; charset=utf-8";
  }
  if (name.ends_with(".css")) {
    return "text/css; charset=utf-8";
  }
  if (name.ends_with(".svg")) {
    return "image/svg+xml";
  }
  return "application/octet-stream";
}

}  // namespace

void AddSecurityHeaders(HttpHeaders& headers) {
  headers.emplace_back("content-security-policy",
                       "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
                       "connect-src 'self'; "
                       "base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
  headers.emplace_back("x-content-type-options", "nosniff");
  headers.emplace_back("referrer-policy", "no-referrer");
}

std::optional<HttpResponse> ServeFile(const HttpRequest& request) {
  std::string_view name = request.path();
  if (!name.starts_with('/')) {
    return std::nullopt;
  }
  name.remove_prefix(1);
  if (name.empty()) {
    name = "index.html";
  }
  for (const EmbeddedFile& file : EmbeddedFiles()) {
    if (file.name != name) {
      continue;
    }
    constexpr std::size_t kTagDigits = 16;
    const std::string tag = "\"" + Sha256Hex(file.bytes).substr(0, kTagDigits) + "\"";
    HttpResponse response;
    response.headers = {{"content-type", std::string(ContentType(name))},
                        {"etag", tag},
                        {"cache-control", "no-cache"}};
    AddSecurityHeaders(response.headers);
    if (request.Header("if-none-match") == tag) {
      response.status = 304;
    } else {
      response.body = std::string(file.bytes);
    }
    return response;
  }
  return std::nullopt;
}

}  // namespace muster::server
