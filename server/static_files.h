#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/http_server.h"

namespace muster::server {

struct EmbeddedFile {
  std::string_view name;  // "app.js"
  std::string_view bytes;
};

// The files of web/, compiled in.
[[nodiscard]] std::span<const EmbeddedFile> EmbeddedFiles();

// The answer to GET or HEAD of a page: "/" is index.html. With ETag, and headers that let the page
// load nothing but what this server serves. Nothing if there is no such file.
[[nodiscard]] std::optional<HttpResponse> ServeFile(const HttpRequest& request);

// Headers that every answer with content for a browser carries.
void AddSecurityHeaders(HttpHeaders& headers);

}  // namespace muster::server
