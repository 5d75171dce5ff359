#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace muster {

// What the caller should do about trouble outside the process. A "no" of the scheduler is never an
// Error.
enum class ErrorCode : std::uint8_t {
  kRetry,     // network, time-out, 429, 5xx: the same call may succeed later
  kConflict,  // 409: re-read, then decide again
  kGone,      // 410: list again
  kDenied,    // 401, 403, or refused by policy: no retry helps until somebody changes something
  kInvalid,   // bad input: the message names the object and the field
  kNotFound,  // 404
};

[[nodiscard]] std::string_view ToString(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInvalid;
  std::string message;
  // Seconds that the server asked to wait (Retry-After); 0 when it said nothing.
  std::int64_t retry_after_seconds = 0;

  [[nodiscard]] static Error Invalid(std::string message) {
    return Error{.code = ErrorCode::kInvalid, .message = std::move(message)};
  }
  [[nodiscard]] static Error Retry(std::string message) {
    return Error{.code = ErrorCode::kRetry, .message = std::move(message)};
  }
  // The same error as seen one layer further out: "where: message".
  [[nodiscard]] Error At(std::string_view where) const {
    Error out = *this;
    out.message = std::string(where) + ": " + message;
    return out;
  }
};

template <typename T>
using Result = std::expected<T, Error>;
using Status = std::expected<void, Error>;

}  // namespace muster

#define MUSTER_CONCAT_INNER(a, b) a##b
#define MUSTER_CONCAT(a, b) MUSTER_CONCAT_INNER(a, b)

// MUSTER_ASSIGN_OR_RETURN(const Foo foo, MakeFoo());
#define MUSTER_ASSIGN_OR_RETURN(declaration, ...)                                       \
  auto MUSTER_CONCAT(muster_result_, __LINE__) = (__VA_ARGS__);                         \
  if (!MUSTER_CONCAT(muster_result_, __LINE__)) {                                       \
    return std::unexpected(std::move(MUSTER_CONCAT(muster_result_, __LINE__)).error()); \
  }                                                                                     \
  declaration = std::move(*MUSTER_CONCAT(muster_result_, __LINE__))

#define MUSTER_RETURN_IF_ERROR(...)                             \
  do {                                                          \
    auto muster_status = (__VA_ARGS__);                         \
    if (!muster_status) {                                       \
      return std::unexpected(std::move(muster_status).error()); \
    }                                                           \
  } while (false)
