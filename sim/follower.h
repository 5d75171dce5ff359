#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/json.h"
#include "api/metadata.h"
#include "sim/api_server.h"

// How stand-ins see and change the cluster: as other components do, through watches and requests.
namespace muster::sim {

// Keeps the newest version of every object of a collection.
//
// Threads  One.
// Cost     Drain is O(changes).
class Follower {
 public:
  // `before` or `after` is null for an added or a deleted object.
  using OnChange =
      std::function<void(const api::ObjectKey& key, const Json* before, const Json* after)>;

  // `path` is the collection over all namespaces: "/api/v1/pods".
  Follower(ApiServer& server, std::string path);

  // Takes over what has changed since the last call; true if anything had. An ended watch is opened
  // again.
  bool Drain(TimePoint now, const OnChange& on_change);
  [[nodiscard]] const std::map<api::ObjectKey, Json>& objects() const { return objects_; }
  [[nodiscard]] const Json* Find(const api::ObjectKey& key) const;

 private:
  ApiServer& server_;
  std::string path_;
  std::unique_ptr<WatchStream> stream_;
  std::map<api::ObjectKey, Json> objects_;
};

// Requests of a stand-in. Each returns the stored object, or nothing if the server refused; a
// refusal is no trouble, since stand-ins are level-triggered.
class Writer {
 public:
  explicit Writer(ApiServer& server) : server_(server) {}

  std::optional<Json> Create(const std::string& collection, const Json& object, TimePoint now);
  // JSON merge patch. `path` may end in /status.
  std::optional<Json> Patch(const std::string& path, const Json& merge, TimePoint now);
  bool Delete(const std::string& path, const std::string& query, TimePoint now);
  bool Post(const std::string& path, const Json& body, TimePoint now);

 private:
  ApiServer& server_;
};

// Replaces or adds the condition of that type in a list of conditions; the transition time moves
// only with the status. True if anything changed.
bool SetCondition(Json& conditions,
                  std::string_view type,
                  std::string_view status,
                  std::string_view reason,
                  std::string_view message,
                  TimePoint now);

}  // namespace muster::sim
