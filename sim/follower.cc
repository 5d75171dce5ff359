#include "sim/follower.h"

#include <utility>

#include "sim/access.h"

namespace muster::sim {
namespace {

api::ObjectKey KeyOf(const Json& object) {
  const Json& meta = ObjectAt(object, "metadata");
  return {.ns = TextAt(meta, "namespace"), .name = TextAt(meta, "name")};
}

}  // namespace

Follower::Follower(ApiServer& server, std::string path) : server_(server), path_(std::move(path)) {}

bool Follower::Drain(TimePoint now, const OnChange& on_change) {
  bool changed = false;
  if (stream_ == nullptr) {
    k8s::Response refused;
    stream_ = server_.OpenWatch(
        k8s::Request{.target = path_ + "?watch=1&sendInitialEvents=true&resourceVersionMatch="
                                       "NotOlderThan&allowWatchBookmarks=true"
                                       "&timeoutSeconds=315360000"},
        now,
        refused);
    if (stream_ == nullptr) {
      return false;  // the kind is not served
    }
    // What is still there comes again as an initial event; what has gone meanwhile would be missed,
    // so the old view goes.
    for (const auto& [key, object] : std::exchange(objects_, {})) {
      on_change(key, &object, nullptr);
      changed = true;
    }
  }
  const std::string bytes = stream_->Read();
  for (std::size_t start = 0; start < bytes.size();) {
    const std::size_t end = std::min(bytes.find('\n', start), bytes.size());
    Json event = Json::parse(bytes.begin() + static_cast<std::ptrdiff_t>(start),
                             bytes.begin() + static_cast<std::ptrdiff_t>(end),
                             nullptr,
                             false);
    start = end + 1;
    const std::string type = TextAt(event, "type");
    if (type != "ADDED" && type != "MODIFIED" && type != "DELETED") {
      continue;
    }
    changed = true;
    Json& object = event["object"];
    const api::ObjectKey key = KeyOf(object);
    const auto it = objects_.find(key);
    if (type == "DELETED") {
      if (it != objects_.end()) {
        const Json last = std::move(it->second);
        objects_.erase(it);
        on_change(key, &last, nullptr);
      }
    } else if (it == objects_.end()) {
      const auto added = objects_.emplace(key, std::move(object)).first;
      on_change(key, nullptr, &added->second);
    } else {
      const Json before = std::exchange(it->second, std::move(object));
      on_change(key, &before, &it->second);
    }
  }
  if (stream_->closed()) {
    stream_.reset();
  }
  return changed;
}

const Json* Follower::Find(const api::ObjectKey& key) const {
  const auto it = objects_.find(key);
  return it == objects_.end() ? nullptr : &it->second;
}

namespace {

std::optional<Json> Answer(const k8s::Response& response) {
  if (response.status >= 300) {
    return std::nullopt;
  }
  return Json::parse(response.body, nullptr, false);
}

}  // namespace

std::optional<Json> Writer::Create(const std::string& collection,
                                   const Json& object,
                                   TimePoint now) {
  return Answer(server_.Handle(k8s::Request{.method = k8s::Method::kPost,
                                            .target = collection,
                                            .content_type = std::string(k8s::kJson),
                                            .body = object.dump()},
                               now));
}

std::optional<Json> Writer::Patch(const std::string& path, const Json& merge, TimePoint now) {
  return Answer(server_.Handle(k8s::Request{.method = k8s::Method::kPatch,
                                            .target = path,
                                            .content_type = std::string(k8s::kMergePatch),
                                            .body = merge.dump()},
                               now));
}

bool Writer::Delete(const std::string& path, const std::string& query, TimePoint now) {
  return server_.Handle(k8s::Request{.method = k8s::Method::kDelete, .target = path + query}, now)
             .status < 300;
}

bool Writer::Post(const std::string& path, const Json& body, TimePoint now) {
  return Create(path, body, now).has_value();
}

bool SetCondition(Json& conditions,
                  std::string_view type,
                  std::string_view status,
                  std::string_view reason,
                  std::string_view message,
                  TimePoint now) {
  if (!conditions.is_array()) {
    conditions = Json::array();
  }
  Json* found = nullptr;
  for (Json& condition : conditions) {
    if (TextAt(condition, "type") == type) {
      found = &condition;
    }
  }
  if (found == nullptr) {
    found = &conditions.emplace_back(Json{{"type", type}});
  }
  const Json before = *found;
  if (TextAt(*found, "status") != status) {
    (*found)["status"] = status;
    (*found)["lastTransitionTime"] = FormatTime(now);
  }
  if (reason.empty()) {
    found->erase("reason");
  } else {
    (*found)["reason"] = reason;
  }
  if (message.empty()) {
    found->erase("message");
  } else {
    (*found)["message"] = message;
  }
  return before != *found;
}

}  // namespace muster::sim
