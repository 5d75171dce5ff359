#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"

// HTTP requests and responses as values. What a request means is decided far from any socket.
namespace muster::k8s {

enum class Method : std::uint8_t { kGet, kPost, kPut, kPatch, kDelete };
[[nodiscard]] std::string_view ToString(Method method);

inline constexpr std::string_view kJson = "application/json";
inline constexpr std::string_view kMergePatch = "application/merge-patch+json";
inline constexpr std::string_view kJsonPatch = "application/json-patch+json";
inline constexpr std::string_view kApplyPatch = "application/apply-patch+yaml";
inline constexpr std::string_view kStrategicMergePatch = "application/strategic-merge-patch+json";

using Headers = std::vector<std::pair<std::string, std::string>>;  // names in lower case

struct Request {
  Method method = Method::kGet;
  std::string target;        // path and query, percent-encoded: "/api/v1/pods?limit=500"
  std::string content_type;  // empty without a body
  std::string accept = "application/json";
  std::string body;
  Headers headers;  // beyond content-type, accept, authorization
  // The request may be sent again when no answer came: a second execution could do no harm. The
  // builders of requests.h set it.
  bool resend = false;
  // The whole exchange must end by then; for streams, the silence after which the connection is
  // given up.
  Duration timeout = std::chrono::seconds(30);
};

struct Response {
  int status = 0;
  Headers headers;
  std::string body;

  // Value of the first header of that (lower-case) name, or empty.
  [[nodiscard]] std::string_view Header(std::string_view name) const;
};

}  // namespace muster::k8s
