#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/json.h"
#include "api/kind.h"
#include "base/result.h"
#include "base/time.h"
#include "k8sclient/client.h"

namespace muster::k8s {

struct ServedResource {
  std::string group;
  std::string version;
  std::string plural;
  std::string kind;
  bool namespaced = false;
  bool has_status = false;
  bool watchable = false;

  friend auto operator<=>(const ServedResource&, const ServedResource&) = default;
};

// What an API server serves, at one moment.
class Served {
 public:
  void Add(ServedResource resource);
  [[nodiscard]] bool Has(
      api::Kind kind) const;  // in the version that Muster speaks, listable and watchable
  [[nodiscard]] const ServedResource* Find(std::string_view group,
                                           std::string_view version,
                                           std::string_view plural) const;
  // Versions of a group that serve the resource, in the server's order of preference.
  [[nodiscard]] std::vector<std::string> Versions(std::string_view group,
                                                  std::string_view plural) const;
  [[nodiscard]] std::vector<api::Kind> Kinds() const;  // in the order of api::AllKinds
  [[nodiscard]] const std::vector<ServedResource>& resources() const { return resources_; }

 private:
  std::vector<ServedResource> resources_;  // in the server's order
  std::map<std::string, std::size_t, std::less<>> index_;
};

// APIGroupDiscoveryList, as /api and /apis answer it. Versions that the server marks as stale (an
// aggregated server that does not answer) are named in `stale` as "group/version".
[[nodiscard]] Status AddAggregated(const api::Json& document,
                                   Served& served,
                                   std::set<std::string>& stale);
// APIResourceList of one group version.
[[nodiscard]] Status AddResourceList(const api::Json& document, Served& served);
// Group versions of an APIGroupList or APIVersions document, as paths: "/apis/batch/v1".
[[nodiscard]] Result<std::vector<std::string>> GroupVersionPaths(const api::Json& document);

struct DiscoveryOptions {
  Duration retry = std::chrono::seconds(2);  // while nothing is known yet

  Duration period = std::chrono::seconds(30);  // an unchanged document costs a 304
};
struct DiscoveryHandlers {
  // Kinds among api::AllKinds() that are served now and were not before, or the other way round.
  // Once with the first answer, even if both are empty, then only on changes.
  std::function<void(const std::vector<api::Kind>& appeared,
                     const std::vector<api::Kind>& vanished)>
      on_change;
  std::function<void(const Error& error)> on_trouble;
};

// Asks again and again what is served. A group whose server does not answer keeps what it served
// before. Threads  As Transport.
class Discovery {
 public:
  Discovery(Client& client, Timers& timers, DiscoveryOptions options, DiscoveryHandlers handlers);
  ~Discovery();
  Discovery(const Discovery&) = delete;
  Discovery& operator=(const Discovery&) = delete;

  void Start();
  // Asks now, e.g. because a CustomResourceDefinition changed or a watch answered 404.
  void Refresh();
  [[nodiscard]] bool known() const;  // an answer has come
  [[nodiscard]] const Served& served() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::k8s
