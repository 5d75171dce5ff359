#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/json.h"
#include "api/metadata.h"
#include "base/result.h"
#include "base/time.h"
#include "k8sclient/request.h"

// An API server in memory: the REST semantics that controllers and kubectl rely on, without
// sockets, threads or a clock.
namespace muster::sim {

using api::Json;

struct ApiServerOptions {
  // Text of CustomResourceDefinition documents (YAML or JSON) to install at start: Muster's own,
  // compiled in.
  bool install_crds = true;
  // The chart's admission policies.
  bool install_policies = true;
  // Namespaces are created on demand when an object names one that does not exist (scenario files
  // rely on it).
  bool auto_create_namespaces = false;
  // Each new PodGroup gets the finalizer scheduling.k8s.io/podgroup-protection; somebody must then
  // remove it again.
  bool podgroup_protection = false;
  // metadata.managedFields is kept for every write, as server-side apply needs it. Without it
  // conflicts are only seen between appliers.
  bool managed_fields = true;
  // Changes kept for watches that resume; older resume points answer 410.
  std::size_t watch_window = 10'000;
};

// One open watch. Bytes are newline-delimited JSON events, as the real server streams them.
class WatchStream {
 public:
  virtual ~WatchStream() = default;
  // Takes what has become available since the last call; empty if nothing.
  [[nodiscard]] virtual std::string Read() = 0;
  // True once the server has ended the stream (time-out, 410) and everything was read.
  [[nodiscard]] virtual bool closed() const = 0;
};

// Shape    Objects are JSON, stored per (group, resource), as the newest storage version.
// Threads  One.
// Cost     A write is O(size of the object) plus the number of open watches on its resource.
class ApiServer {
 public:
  explicit ApiServer(ApiServerOptions options);
  ~ApiServer();
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;

  // One request, answered whole: get, list (limit/continue, selectors, resourceVersion), create,
  // update, patch (JSON, merge, strategic for built-in kinds, server-side apply), delete,
  // deletecollection, subresources status, scale, binding, eviction; discovery (aggregated and
  // plain), OpenAPI for kubectl, /version, /healthz, /readyz, tables. Errors are metav1.Status
  // bodies with the codes, reasons and causes of the real server.
  [[nodiscard]] k8s::Response Handle(const k8s::Request& request, TimePoint now);

  // Opens a watch (the request has watch=1). An Error carries nothing: `error_response` is what to
  // send instead.
  [[nodiscard]] std::unique_ptr<WatchStream> OpenWatch(const k8s::Request& request,
                                                       TimePoint now,
                                                       k8s::Response& error_response);

  // Called after each committed change, for whoever must poll its WatchStreams. Not called from
  // inside Read.
  void SetOnChange(std::function<void()> on_change);

  // Direct views for the stand-ins, checkers and reports. No admission is involved. Keys are
  // ordered. `resource` is "group/plural" ("batch/jobs", "/pods").
  [[nodiscard]] const Json* Find(std::string_view resource,
                                 std::string_view ns,
                                 std::string_view name) const;
  [[nodiscard]] std::vector<const Json*> List(std::string_view resource) const;
  // Every object of every resource, sorted by apiVersion, kind, namespace, name, each with
  // apiVersion and kind set.
  [[nodiscard]] std::vector<const Json*> All() const;
  [[nodiscard]] std::int64_t resource_version() const;

  // Performs deletions that became due (watch time-outs, bookmarks). Call when virtual time has
  // moved.
  void Tick(TimePoint now);
  // When Tick has something to do next: the earliest bookmark or time-out of an open watch.
  [[nodiscard]] std::optional<TimePoint> NextDue() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::sim
