#include "k8sclient/api_error.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

namespace muster::k8s {
namespace {

constexpr std::size_t kMaxMessage = 4096;
constexpr std::size_t kMaxCauses = 100;
constexpr std::int64_t kMaxRetryAfter = 3600;

std::string Bounded(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) {
    return std::string(text);
  }
  return std::string(text.substr(0, limit)) + " …";
}

std::string StringAt(const api::Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string()
             ? Bounded(it->get_ref<const std::string&>(), kMaxMessage)
             : std::string();
}

void ReadStatus(const api::Json& status, ApiError& out) {
  out.reason = StringAt(status, "reason");
  if (std::string message = StringAt(status, "message"); !message.empty()) {
    out.message = std::move(message);
  }
  const auto details = status.find("details");
  if (details == status.end() || !details->is_object()) {
    return;
  }
  if (const auto seconds = details->find("retryAfterSeconds");
      seconds != details->end() && seconds->is_number_integer()) {
    out.retry_after_seconds =
        std::clamp<std::int64_t>(seconds->get<std::int64_t>(), 0, kMaxRetryAfter);
  }
  const auto causes = details->find("causes");
  if (causes == details->end() || !causes->is_array()) {
    return;
  }
  for (const api::Json& cause : *causes) {
    if (out.causes.size() == kMaxCauses) {
      break;
    }
    if (cause.is_object()) {
      out.causes.push_back(StatusCause{.reason = StringAt(cause, "reason"),
                                       .message = StringAt(cause, "message"),
                                       .field = StringAt(cause, "field")});
    }
  }
}

}  // namespace

bool ApiError::HasCause(std::string_view cause_reason) const {
  return std::ranges::any_of(causes,
                             [&](const StatusCause& c) { return c.reason == cause_reason; });
}

ErrorCode CodeForHttpStatus(int http_status) {
  switch (http_status) {
    case 401:
    case 403:
      return ErrorCode::kDenied;
    case 404:
      return ErrorCode::kNotFound;
    case 409:
      return ErrorCode::kConflict;
    case 410:
      return ErrorCode::kGone;
    case 408:
    case 429:
      return ErrorCode::kRetry;
    default:
      return http_status >= 400 && http_status < 500 ? ErrorCode::kInvalid : ErrorCode::kRetry;
  }
}

std::int64_t RetryAfterSeconds(const Headers& headers) {
  for (const auto& [name, value] : headers) {
    if (name == "retry-after") {
      std::int64_t seconds = 0;
      const char* end = value.data() + value.size();
      const auto [at, failed] = std::from_chars(value.data(), end, seconds);
      return failed == std::errc() && at == end
                 ? std::clamp<std::int64_t>(seconds, 0, kMaxRetryAfter)
                 : 0;
    }
  }
  return 0;
}

ApiError ErrorFromResponse(const Response& response) {
  ApiError out;
  out.http_status = response.status;
  out.code = CodeForHttpStatus(response.status);
  out.message = "HTTP " + std::to_string(response.status);
  if (Result<api::Json> body = api::ParseJson(response.body);
      body && body->is_object() && StringAt(*body, "kind") == "Status") {
    ReadStatus(*body, out);
  } else if (!response.body.empty()) {
    // Proxies answer in HTML or plain text; a few words of it are enough to recognise them.
    out.message += ": " + Bounded(response.body, 256);
  }
  if (out.http_status == 422 && std::ranges::any_of(out.causes, [](const StatusCause& c) {
        return c.field == "metadata.uid";
      })) {
    // A patch that names another uid than the object has: the API server calls that an attempt to
    // change it. It means that the object is a successor of the one that was meant.
    out.code = ErrorCode::kConflict;
  }
  out.retry_after_seconds = std::max(out.retry_after_seconds, RetryAfterSeconds(response.headers));
  return out;
}

ApiError ErrorFromStatus(const api::Json& status) {
  ApiError out;
  out.code = ErrorCode::kRetry;
  out.message = "the server sent an error without a message";
  if (!status.is_object()) {
    return out;
  }
  if (const auto code = status.find("code"); code != status.end() && code->is_number_integer()) {
    const auto value = code->get<std::int64_t>();
    if (value >= 100 && value <= 599) {
      out.http_status = static_cast<int>(value);
      out.code = CodeForHttpStatus(out.http_status);
    }
  }
  ReadStatus(status, out);
  if (out.reason == "Expired" || out.reason == "Gone") {
    out.code = ErrorCode::kGone;
  }
  return out;
}

ApiError ErrorFromTransport(const Error& error) {
  ApiError out;
  static_cast<Error&>(out) = error;
  return out;
}

}  // namespace muster::k8s
