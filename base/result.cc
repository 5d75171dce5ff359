#include "base/result.h"

namespace muster {

std::string_view ToString(ErrorCode code) {
  switch (code) {
    case ErrorCode::kRetry:
      return "Retry";
    case ErrorCode::kConflict:
      return "Conflict";
    case ErrorCode::kGone:
      return "Gone";
    case ErrorCode::kDenied:
      return "Denied";
    case ErrorCode::kInvalid:
      return "Invalid";
    case ErrorCode::kNotFound:
      return "NotFound";
  }
  return "Unknown";
}

}  // namespace muster
