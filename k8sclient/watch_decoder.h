#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/json.h"
#include "base/result.h"
#include "k8sclient/api_error.h"

namespace muster::k8s {

enum class WatchEventType : std::uint8_t { kAdded, kModified, kDeleted, kBookmark, kError };

struct WatchEvent {
  WatchEventType type = WatchEventType::kAdded;
  api::Json object;                 // the object, or null for kError
  std::string resource_version;     // of the object; opaque
  bool initial_events_end = false;  // a bookmark that ends a streaming list
  std::optional<ApiError> error;    // for kError
};

// Cuts the bytes of a watch (newline-delimited JSON) into events.
//
// Threads  A value, pure.
// Cost     Each byte is scanned once, however it is cut. Memory: at most one line.
class WatchDecoder {
 public:
  // The API server refuses objects above some 3 MiB; aggregated servers may send more.
  static constexpr std::size_t kMaxLine = 32UL << 20;
  explicit WatchDecoder(std::size_t max_line = kMaxLine) : max_line_(max_line) {}

  // Adds bytes; then call Next until it answers nothing.
  void Feed(std::string_view bytes);
  // The next event, or nothing if more bytes are needed.
  // Errors   kInvalid: a line that is too long, not JSON, or no watch event. Which object it was
  // about is unknown, so events are lost and
  //          the decoder answers this error for ever.
  [[nodiscard]] Result<std::optional<WatchEvent>> Next();
  // At the end of the stream: bytes of an unfinished line are left.
  [[nodiscard]] bool has_partial_line() const { return start_ < buffer_.size(); }

 private:
  std::size_t max_line_;
  std::string buffer_;
  std::size_t start_ = 0;    // of the unread part
  std::size_t scanned_ = 0;  // no newline in [start_, scanned_)
  std::optional<Error> failed_;
};

// One line. Unknown event types are an error.
[[nodiscard]] Result<WatchEvent> ParseWatchEvent(std::string_view line);

}  // namespace muster::k8s
