#include <algorithm>
#include <charconv>
#include <utility>

#include "sim/conversion.h"
#include "sim/discovery.h"
#include "sim/server.h"

namespace muster::sim {
namespace {

constexpr Duration kBookmarkPeriod = std::chrono::minutes(1);
constexpr std::int64_t kDefaultTimeoutSeconds = 1800;

std::string ErrorEvent(const Failure& failure) {
  return "{\"type\":\"ERROR\",\"object\":" +
         failure.ToStatus().dump(-1, ' ', false, Json::error_handler_t::replace) + "}\n";
}

}  // namespace

Stream::Stream(std::shared_ptr<Server> server, Call call, LabelMatcher labels, FieldMatcher fields)
    : server_(std::move(server)),
      resource_(*call.resource),
      call_(std::move(call)),
      labels_(std::move(labels)),
      fields_(std::move(fields)) {
  const auto version = call_.version - call_.resource->versions.data();
  call_.resource = &resource_;
  call_.version = &resource_.versions[static_cast<std::size_t>(version)];
  call_.request = nullptr;
}

void Stream::Emit(std::string& out, std::string_view type, const StoredPtr& object) const {
  out += "{\"type\":\"";
  out += type;
  out += "\",\"object\":";
  out += WatchObjectText(*server_, call_, *object);
  out += "}\n";
}

void Stream::EmitBookmark(std::string& out, std::int64_t version, bool initial_end) const {
  Json meta = {{"resourceVersion", std::to_string(version)}, {"creationTimestamp", nullptr}};
  if (initial_end) {
    meta["annotations"] = {{"k8s.io/initial-events-end", "true"}};
  }
  const Json object = {
      {"kind", call_.resource->kind}, {"apiVersion", call_.api_version()}, {"metadata", meta}};
  out += "{\"type\":\"BOOKMARK\",\"object\":" + WatchBookmarkText(call_, object) + "}\n";
}

std::string Stream::Read() {
  std::string out;
  if (closed_) {
    return out;
  }
  if (!expired_.empty()) {
    closed_ = true;
    return ErrorEvent(Expired(expired_));
  }
  const auto it = server_->tables.find(table_key_);
  static const Table kEmpty;
  const Table& table = it == server_->tables.end() ? kEmpty : it->second;
  if (initial_pending_) {
    initial_pending_ = false;
    for (const StoredPtr& object : initial_) {
      Emit(out, "ADDED", object);
    }
    initial_.clear();
    if (initial_bookmark_) {
      EmitBookmark(out, initial_version_, true);
    }
  }
  if (cursor_ < table.first_number()) {
    // The reader was so slow that changes it has not seen were dropped.
    out += ErrorEvent(Expired("too old resource version"));
    closed_ = true;
    return out;
  }
  for (; cursor_ < table.next_number(); ++cursor_) {
    const Change& change = table.At(cursor_);
    if (!call_.ns.empty() && change.key.ns != call_.ns) {
      continue;
    }
    const auto matches = [&](const StoredPtr& object) {
      return object && labels_.Matches(object->json()) &&
             (fields_.everything() || fields_.Matches(server_->ToVersion(call_, object->json())));
    };
    const bool everything = labels_.everything() && fields_.everything();
    const bool before = change.before && (everything || matches(change.before));
    const bool after =
        change.type != Change::Type::kDeleted && (everything || matches(change.after));
    if (before && after) {
      Emit(out, "MODIFIED", change.after);
    } else if (after) {
      Emit(out, "ADDED", change.after);
    } else if (before) {
      Emit(out, "DELETED", change.after);
    }
  }
  if (bookmark_due_) {
    bookmark_due_ = false;
    EmitBookmark(out, server_->version, false);
  }
  // A watch ends with the definition of what it watches, once it has told that the objects went.
  if (ending_ || !server_->registry.all().contains(resource_.key())) {
    closed_ = true;
  }
  return out;
}

void Stream::Tick(TimePoint now) {
  if (bookmarks_ && now >= next_bookmark_) {
    bookmark_due_ = true;
    next_bookmark_ = now + kBookmarkPeriod;
  }
  if (now >= deadline_) {
    ending_ = true;
  }
}

TimePoint Stream::next_due() const {
  if (ending_ || closed_) {
    return TimePoint::max();
  }
  return bookmarks_ ? std::min(next_bookmark_, deadline_) : deadline_;
}

std::unique_ptr<WatchStream> Server::OpenWatch(const k8s::Request& request,
                                               TimePoint at,
                                               k8s::Response& error_response) {
  now = at;
  const auto refuse = [&](const Failure& failure) {
    error_response = RenderFailure(failure);
    return nullptr;
  };
  auto call = Resolve(request, at);
  if (!call) {
    return refuse(call.error());
  }
  if (request.method != k8s::Method::kGet || call->resource->create_only ||
      !call->subresource.empty()) {
    return refuse(MethodNotAllowed(call->resource->plural));
  }
  auto labels = LabelMatcher::Parse(call->target.Get("labelSelector"));
  if (!labels) {
    return refuse(labels.error());
  }
  std::string field_text = call->target.Get("fieldSelector");
  if (!call->name.empty()) {
    field_text += (field_text.empty() ? "" : ",") + std::string("metadata.name=") + call->name;
  }
  auto fields = FieldMatcher::Parse(
      field_text, call->resource->kind, SelectableFields(*call->resource, *call->version));
  if (!fields) {
    return refuse(fields.error());
  }
  const std::string version_text = call->target.Get("resourceVersion");
  std::int64_t from = 0;
  if (!version_text.empty()) {
    const auto [end, error] =
        std::from_chars(version_text.data(), version_text.data() + version_text.size(), from);
    if (error != std::errc() || end != version_text.data() + version_text.size() || from < 0) {
      return refuse(BadRequest("invalid resource version \"" + version_text + "\""));
    }
  }
  const bool bookmarks = call->target.True("allowWatchBookmarks");
  const bool send_initial = call->target.True("sendInitialEvents");
  if (call->target.Has("sendInitialEvents") &&
      call->target.Get("resourceVersionMatch") != "NotOlderThan") {
    return refuse(InvalidObject(
        "meta.k8s.io",
        "ListOptions",
        "",
        {Forbidden("sendInitialEvents",
                   "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")}));
  }
  std::int64_t timeout = kDefaultTimeoutSeconds;
  if (const std::string text = call->target.Get("timeoutSeconds"); !text.empty()) {
    std::from_chars(text.data(), text.data() + text.size(), timeout);
    timeout = std::clamp<std::int64_t>(timeout, 1, 86'400);
  }
  const std::string key = TableKey(*call->resource);
  const Table& table = TableOf(*call->resource);
  if (from > version) {
    Failure failure{.code = 504,
                    .reason = "Timeout",
                    .message = "Too large resource version: " + version_text +
                               ", current: " + std::to_string(version),
                    .details = Json::object()};
    failure.details["causes"] = {
        {{"reason", "ResourceVersionTooLarge"}, {"message", "Too large resource version"}}};
    failure.retry_after_seconds = 1;
    return refuse(failure);
  }
  auto stream =
      std::make_shared<Stream>(shared_from_this(), *call, *std::move(labels), *std::move(fields));
  stream->table_key_ = key;
  stream->bookmarks_ = bookmarks;
  stream->next_bookmark_ = at + kBookmarkPeriod;
  stream->deadline_ = at + std::chrono::seconds(timeout);
  // Without a version, or with 0, a watch begins with what there is, unless it says that it does
  // not want that.
  const bool initial = send_initial || (from == 0 && !call->target.Has("sendInitialEvents"));
  if (initial) {
    const auto [begin, end] = table.Range(call->ns);
    for (auto it = begin; it != end; ++it) {
      if (stream->labels_.Matches(it->second->json()) &&
          (stream->fields_.everything() ||
           stream->fields_.Matches(ToVersion(*call, it->second->json())))) {
        stream->initial_.push_back(it->second);
      }
    }
    stream->initial_pending_ = true;
    stream->initial_bookmark_ = send_initial && bookmarks;
    stream->initial_version_ = version;
    stream->cursor_ = table.next_number();
  } else if (from == 0) {
    stream->cursor_ = table.next_number();
  } else if (from < table.dropped_version()) {
    // The real server answers 200 and sends the error as the first event.
    stream->cursor_ = table.first_number();
    stream->initial_pending_ = false;
    stream->expired_ = "too old resource version: " + version_text + " (" +
                       std::to_string(table.dropped_version()) + ")";
  } else {
    stream->cursor_ = table.After(from);
  }
  std::erase_if(streams, [](const std::weak_ptr<Stream>& weak) { return weak.expired(); });
  streams.push_back(stream);

  // The caller owns the stream alone; the server only looks at it while time moves.
  class Handle final : public WatchStream {
   public:
    explicit Handle(std::shared_ptr<Stream> inner) : inner_(std::move(inner)) {}
    [[nodiscard]] std::string Read() override { return inner_->Read(); }
    [[nodiscard]] bool closed() const override { return inner_->closed(); }

   private:
    std::shared_ptr<Stream> inner_;
  };
  return std::make_unique<Handle>(std::move(stream));
}

void Server::Tick(TimePoint at) {
  now = at;
  for (const auto& weak : streams) {
    if (const auto stream = weak.lock()) {
      stream->Tick(at);
    }
  }
}

}  // namespace muster::sim
