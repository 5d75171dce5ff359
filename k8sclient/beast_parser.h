#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "k8sclient/request.h"

namespace muster::k8s {

// Reads one HTTP/1.1 response from bytes, however they are cut. Beast's parser without Beast's
// streams.
//
// Limits   64 KiB of header; the body is handed out as it comes and not kept.
// Threads  A value.
class ResponseParser {
 public:
  struct Handlers {
    std::function<void(int status, Headers headers)>
        on_header;  // interim (1xx) answers are skipped
    std::function<void(std::string_view bytes)> on_body;
  };

  explicit ResponseParser(Handlers handlers);
  ~ResponseParser();
  ResponseParser(const ResponseParser&) = delete;
  ResponseParser& operator=(const ResponseParser&) = delete;

  // Errors   kRetry: this is not HTTP.
  [[nodiscard]] Status Feed(std::string_view bytes);
  // The connection was closed in order. An error unless the response was complete or may end so.
  [[nodiscard]] Status FeedEnd();

  [[nodiscard]] bool done() const;
  [[nodiscard]] bool got_anything() const;
  // After done: the connection can carry another request.
  [[nodiscard]] bool keep_alive() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::k8s
