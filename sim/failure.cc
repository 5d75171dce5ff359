#include "sim/failure.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace muster::sim {
namespace {

std::string Dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json Details(std::string_view group, std::string_view plural, std::string_view name) {
  Json details = Json::object();
  if (!name.empty()) {
    details["name"] = name;
  }
  if (!group.empty()) {
    details["group"] = group;
  }
  if (!plural.empty()) {
    details["kind"] = plural;
  }
  return details;
}

}  // namespace

std::string FieldError::Body() const {
  std::string out;
  switch (type) {
    case Type::kInvalid:
    case Type::kTypeInvalid:
      out = value.empty() ? "Invalid value" : "Invalid value: " + value;
      break;
    case Type::kRequired:
      out = "Required value";
      break;
    case Type::kForbidden:
      out = "Forbidden";
      break;
    case Type::kNotSupported:
      out = "Unsupported value: " + value;
      break;
    case Type::kDuplicate:
      out = value.empty() ? "Duplicate value" : "Duplicate value: " + value;
      break;
    case Type::kNotFound:
      out = "Not found: " + value;
      break;
    case Type::kTooMany:
      out = "Too many: " + value;
      break;
    case Type::kTooLong:
      out = "Too long";
      break;
  }
  if (!detail.empty()) {
    out += ": " + detail;
  }
  return out;
}

std::string FieldError::ToString() const {
  return path.empty() ? "<nil>: " + Body() : path + ": " + Body();
}

std::string_view FieldError::CauseReason() const {
  switch (type) {
    case Type::kInvalid:
      return "FieldValueInvalid";
    case Type::kTypeInvalid:
      return "FieldValueTypeInvalid";
    case Type::kRequired:
      return "FieldValueRequired";
    case Type::kForbidden:
      return "FieldValueForbidden";
    case Type::kNotSupported:
      return "FieldValueNotSupported";
    case Type::kDuplicate:
      return "FieldValueDuplicate";
    case Type::kNotFound:
      return "FieldValueNotFound";
    case Type::kTooMany:
      return "FieldValueTooMany";
    case Type::kTooLong:
      return "FieldValueTooLong";
  }
  return "";
}

FieldError Invalid(std::string path, const Json& value, std::string detail) {
  return {.type = FieldError::Type::kInvalid,
          .path = std::move(path),
          .value = Dump(value),
          .detail = std::move(detail)};
}
FieldError Required(std::string path, std::string detail) {
  return {.type = FieldError::Type::kRequired,
          .path = std::move(path),
          .value = {},
          .detail = std::move(detail)};
}
FieldError Forbidden(std::string path, std::string detail) {
  return {.type = FieldError::Type::kForbidden,
          .path = std::move(path),
          .value = {},
          .detail = std::move(detail)};
}
FieldError NotSupported(std::string path,
                        const Json& value,
                        const std::vector<std::string>& supported) {
  std::string detail;
  if (!supported.empty()) {
    detail = "supported values: ";
    for (std::size_t i = 0; i < supported.size(); ++i) {
      detail += (i == 0 ? "" : ", ");
      AppendJsonString(detail, supported[i]);
    }
  }
  return {.type = FieldError::Type::kNotSupported,
          .path = std::move(path),
          .value = Dump(value),
          .detail = std::move(detail)};
}
FieldError Duplicate(std::string path, const Json& value) {
  return {.type = FieldError::Type::kDuplicate,
          .path = std::move(path),
          .value = Dump(value),
          .detail = {}};
}
FieldError TooMany(std::string path, std::size_t actual, std::size_t maximum) {
  return {.type = FieldError::Type::kTooMany,
          .path = std::move(path),
          .value = std::to_string(actual),
          .detail = "must have at most " + std::to_string(maximum) + " items"};
}
FieldError TooLong(std::string path, std::size_t maximum) {
  return {.type = FieldError::Type::kTooLong,
          .path = std::move(path),
          .value = {},
          .detail = "may not be more than " + std::to_string(maximum) + " bytes"};
}

Json Failure::ToStatus() const {
  Json status = {{"kind", "Status"},
                 {"apiVersion", "v1"},
                 {"metadata", Json::object()},
                 {"status", "Failure"},
                 {"message", message},
                 {"reason", reason},
                 {"code", code}};
  if (!details.is_null()) {
    status["details"] = details;
  }
  if (retry_after_seconds > 0) {
    status["details"]["retryAfterSeconds"] = retry_after_seconds;
  }
  return status;
}

std::string QualifiedResource(std::string_view group, std::string_view plural) {
  std::string out(plural);
  if (!group.empty()) {
    out += '.';
    out += group;
  }
  return out;
}

Failure BadRequest(std::string message) {
  return {.code = 400, .reason = "BadRequest", .message = std::move(message), .details = nullptr};
}
Failure NotFound(std::string_view group, std::string_view plural, std::string_view name) {
  return {.code = 404,
          .reason = "NotFound",
          .message = QualifiedResource(group, plural) + " \"" + std::string(name) + "\" not found",
          .details = Details(group, plural, name)};
}
Failure PathNotFound() {
  return {.code = 404,
          .reason = "NotFound",
          .message = "the server could not find the requested resource",
          .details = Json::object()};
}
Failure AlreadyExists(std::string_view group, std::string_view plural, std::string_view name) {
  return {
      .code = 409,
      .reason = "AlreadyExists",
      .message = QualifiedResource(group, plural) + " \"" + std::string(name) + "\" already exists",
      .details = Details(group, plural, name)};
}
Failure Conflict(std::string_view group,
                 std::string_view plural,
                 std::string_view name,
                 std::string_view cause) {
  return {.code = 409,
          .reason = "Conflict",
          .message = "Operation cannot be fulfilled on " + QualifiedResource(group, plural) +
                     " \"" + std::string(name) + "\": " + std::string(cause),
          .details = Details(group, plural, name)};
}
Failure ObjectModified(std::string_view group, std::string_view plural, std::string_view name) {
  return Conflict(group,
                  plural,
                  name,
                  "the object has been modified; please apply your changes to the latest version "
                  "and try again");
}
Failure ForbiddenRequest(std::string_view group,
                         std::string_view plural,
                         std::string_view name,
                         std::string_view cause) {
  std::string message = QualifiedResource(group, plural);
  if (!name.empty()) {
    message += " \"" + std::string(name) + "\"";
  }
  message += " is forbidden: " + std::string(cause);
  return {.code = 403,
          .reason = "Forbidden",
          .message = std::move(message),
          .details = Details(group, plural, name)};
}
Failure InvalidObject(std::string_view group,
                      std::string_view kind,
                      std::string_view name,
                      const FieldErrors& errors) {
  // Identical errors are reported once, as the real server aggregates them.
  std::vector<std::string> seen;
  std::string list;
  Json details = Details(group, kind, name);
  Json causes = Json::array();
  for (const FieldError& error : errors) {
    const std::string text = error.ToString();
    if (std::ranges::find(seen, text) == seen.end()) {
      seen.push_back(text);
    }
    causes.push_back(
        {{"reason", error.CauseReason()}, {"message", error.Body()}, {"field", error.path}});
  }
  list = seen.size() == 1 ? seen.front() : "[" + Join(seen, ", ") + "]";
  details["causes"] = std::move(causes);
  return {.code = 422,
          .reason = "Invalid",
          .message = QualifiedResource(group, kind).substr(0, kind.size()) +
                     (group.empty() ? "" : "." + std::string(group)) + " \"" + std::string(name) +
                     "\" is invalid: " + list,
          .details = std::move(details)};
}
Failure Expired(std::string message) {
  return {.code = 410, .reason = "Expired", .message = std::move(message), .details = nullptr};
}
Failure MethodNotAllowed(std::string_view plural) {
  (void)plural;
  return {.code = 405,
          .reason = "MethodNotAllowed",
          .message = "the server does not allow this method on the requested resource",
          .details = Json::object()};
}
Failure UnsupportedMediaType(std::string message) {
  return {.code = 415,
          .reason = "UnsupportedMediaType",
          .message = std::move(message),
          .details = Json::object()};
}

}  // namespace muster::sim
