#include "k8sclient/watch_decoder.h"

#include <utility>

#include "k8sclient/managed_fields.h"

namespace muster::k8s {
namespace {

using api::Json;

const Json* Member(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}

std::optional<WatchEventType> TypeOf(std::string_view name) {
  if (name == "ADDED") {
    return WatchEventType::kAdded;
  }
  if (name == "MODIFIED") {
    return WatchEventType::kModified;
  }
  if (name == "DELETED") {
    return WatchEventType::kDeleted;
  }
  if (name == "BOOKMARK") {
    return WatchEventType::kBookmark;
  }
  if (name == "ERROR") {
    return WatchEventType::kError;
  }
  return std::nullopt;
}

}  // namespace

Result<WatchEvent> ParseWatchEvent(std::string_view line) {
  std::string scratch;
  Result<Json> parsed = api::ParseJson(WithoutManagedFields(line, scratch));
  if (!parsed) {
    return std::unexpected(parsed.error().At("watch event"));
  }
  if (!parsed->is_object()) {
    return std::unexpected(Error::Invalid("watch event: not an object"));
  }
  const Json* name = Member(*parsed, "type");
  const auto object = parsed->find("object");
  if (name == nullptr || !name->is_string() || object == parsed->end() || !object->is_object()) {
    return std::unexpected(Error::Invalid("watch event: type or object is missing"));
  }
  const std::optional<WatchEventType> type = TypeOf(name->get_ref<const std::string&>());
  if (!type) {
    return std::unexpected(Error::Invalid("watch event: unknown type"));
  }
  WatchEvent out;
  out.type = *type;
  if (out.type == WatchEventType::kError) {
    out.error = ErrorFromStatus(*object);
    return out;
  }
  if (const Json* metadata = Member(*object, "metadata");
      metadata != nullptr && metadata->is_object()) {
    if (const Json* version = Member(*metadata, "resourceVersion");
        version != nullptr && version->is_string()) {
      out.resource_version = version->get<std::string>();
    }
    if (out.type == WatchEventType::kBookmark) {
      const Json* annotations = Member(*metadata, "annotations");
      if (annotations != nullptr && annotations->is_object()) {
        const Json* end = Member(*annotations, "k8s.io/initial-events-end");
        out.initial_events_end = end != nullptr && *end == "true";
      }
    }
  }
  out.object = std::move(*object);
  return out;
}

void WatchDecoder::Feed(std::string_view bytes) {
  if (failed_) {
    return;
  }
  if (start_ == buffer_.size()) {
    buffer_.clear();
    start_ = scanned_ = 0;
  } else if (start_ > buffer_.size() / 2) {
    // Moving at the most as much as has been read keeps the cost linear.
    buffer_.erase(0, start_);
    scanned_ -= start_;
    start_ = 0;
  }
  buffer_ += bytes;
}

Result<std::optional<WatchEvent>> WatchDecoder::Next() {
  while (!failed_) {
    const std::size_t end = buffer_.find('\n', scanned_);
    const std::size_t length = (end == std::string::npos ? buffer_.size() : end) - start_;
    if (length > max_line_) {
      failed_ = Error::Invalid("watch event: a line of more than " + std::to_string(max_line_) +
                               " bytes");
      break;
    }
    if (end == std::string::npos) {
      scanned_ = buffer_.size();
      return std::nullopt;
    }
    const std::string_view line = std::string_view(buffer_).substr(start_, length);
    start_ = scanned_ = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) {
      continue;
    }
    Result<WatchEvent> event = ParseWatchEvent(line);
    if (event) {
      return std::move(*event);
    }
    failed_ = std::move(event).error();
  }
  buffer_.clear();
  buffer_.shrink_to_fit();
  start_ = scanned_ = 0;
  return std::unexpected(*failed_);
}

}  // namespace muster::k8s
