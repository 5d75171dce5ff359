#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "api/json.h"

// What the API server answers when it says no: metav1.Status values, and the field errors that they
// are made of.
namespace muster::sim {

using api::Json;

// One problem of one field, in the words of the real server.
struct FieldError {
  enum class Type : std::uint8_t {
    kInvalid,
    kRequired,
    kForbidden,
    kNotSupported,
    kDuplicate,
    kNotFound,
    kTooMany,
    kTooLong,
    kTypeInvalid,
  };
  Type type = Type::kInvalid;
  std::string path;
  // As printed in the message: strings are quoted, the rest is JSON. Empty where the type prints no
  // value.
  std::string value;
  std::string detail;

  // `path: Invalid value: V: detail`, and the like.
  [[nodiscard]] std::string ToString() const;
  // The same without the path, as Status causes carry it.
  [[nodiscard]] std::string Body() const;
  // FieldValueInvalid and so on.
  [[nodiscard]] std::string_view CauseReason() const;
};
using FieldErrors = std::vector<FieldError>;

[[nodiscard]] FieldError Invalid(std::string path, const Json& value, std::string detail);
[[nodiscard]] FieldError Required(std::string path, std::string detail);
[[nodiscard]] FieldError Forbidden(std::string path, std::string detail);
[[nodiscard]] FieldError NotSupported(std::string path,
                                      const Json& value,
                                      const std::vector<std::string>& supported);
[[nodiscard]] FieldError Duplicate(std::string path, const Json& value);
[[nodiscard]] FieldError TooMany(std::string path, std::size_t actual, std::size_t maximum);
[[nodiscard]] FieldError TooLong(std::string path, std::size_t maximum);

// A refused request.
struct Failure {
  int code = 500;
  std::string reason;
  std::string message;
  Json details;  // null where there are none
  std::int64_t retry_after_seconds = 0;

  [[nodiscard]] Json ToStatus() const;
};
template <typename T>
using Outcome = std::expected<T, Failure>;

[[nodiscard]] Failure BadRequest(std::string message);
[[nodiscard]] Failure NotFound(std::string_view group,
                               std::string_view plural,
                               std::string_view name);
[[nodiscard]] Failure PathNotFound();
[[nodiscard]] Failure AlreadyExists(std::string_view group,
                                    std::string_view plural,
                                    std::string_view name);
[[nodiscard]] Failure Conflict(std::string_view group,
                               std::string_view plural,
                               std::string_view name,
                               std::string_view cause);
[[nodiscard]] Failure ObjectModified(std::string_view group,
                                     std::string_view plural,
                                     std::string_view name);
[[nodiscard]] Failure ForbiddenRequest(std::string_view group,
                                       std::string_view plural,
                                       std::string_view name,
                                       std::string_view cause);
[[nodiscard]] Failure InvalidObject(std::string_view group,
                                    std::string_view kind,
                                    std::string_view name,
                                    const FieldErrors& errors);
[[nodiscard]] Failure Expired(std::string message);
[[nodiscard]] Failure MethodNotAllowed(std::string_view plural);
[[nodiscard]] Failure UnsupportedMediaType(std::string message);

// "jobs.batch", or "pods" for the core group.
[[nodiscard]] std::string QualifiedResource(std::string_view group, std::string_view plural);

}  // namespace muster::sim
