#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "api/json.h"
#include "base/result.h"
#include "k8sclient/request.h"

// What the API server says when it says no: HTTP status and metav1.Status as one value.
namespace muster::k8s {

struct StatusCause {
  std::string reason;  // "FieldManagerConflict", "FieldValueInvalid", "ResourceVersionTooLarge", …
  std::string message;
  std::string field;

  friend bool operator==(const StatusCause&, const StatusCause&) = default;
};

// An Error with what the server added. Slicing it to Error is meant: `code`, `message` and
// `retry_after_seconds` say what to do.
//
// Codes    409 kConflict (AlreadyExists too: see already_exists()), 410 kGone, 404 kNotFound, 401
// and 403 kDenied,
//          422 about metadata.uid kConflict (a patch meant for an object of the same name that is
//          gone), 400, 405, 406, 413, 415, 422 and other 4xx kInvalid, 408, 429 and 5xx kRetry. No
//          answer at all: kRetry with http_status 0.
struct ApiError : Error {
  int http_status = 0;  // 0: no answer came, and whether the server acted is unknown
  std::string reason;   // "Conflict", "AlreadyExists", "Expired", "Forbidden", …
  std::vector<StatusCause> causes;

  [[nodiscard]] bool already_exists() const { return reason == "AlreadyExists"; }
  [[nodiscard]] bool unknown_outcome() const {
    return http_status == 0 && code == ErrorCode::kRetry;
  }
  [[nodiscard]] bool HasCause(std::string_view cause_reason) const;
};

[[nodiscard]] ErrorCode CodeForHttpStatus(int http_status);

// From an HTTP response with a status other than 2xx. The body need not be a Status, nor JSON. The
// message is bounded to 4 KiB.
[[nodiscard]] ApiError ErrorFromResponse(const Response& response);
// From a metav1.Status, as ERROR events of a watch carry it.
[[nodiscard]] ApiError ErrorFromStatus(const api::Json& status);
// From a transport that got no answer.
[[nodiscard]] ApiError ErrorFromTransport(const Error& error);

// Seconds in a Retry-After header; 0 if there is none or it is a date.
[[nodiscard]] std::int64_t RetryAfterSeconds(const Headers& headers);

}  // namespace muster::k8s
