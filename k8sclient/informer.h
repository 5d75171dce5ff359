#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "api/kind.h"
#include "api/metadata.h"
#include "api/object.h"
#include "base/result.h"
#include "base/time.h"
#include "k8sclient/transport.h"
#include "k8sclient/watch_machine.h"

namespace muster::k8s {

struct InformerOptions {
  api::Kind kind = api::Kind::kPod;
  std::string ns;  // empty: all namespaces
  std::string label_selector;
  std::string field_selector;
  WatchMachineOptions machine{};
  // Silence after which a watch is given up and resumed. Servers send a bookmark about each minute;
  // proxies cut silent connections, and some do so without telling.
  Duration idle_timeout = std::chrono::seconds(150);
  Duration list_timeout = std::chrono::seconds(60);
  std::uint64_t seed = 1;  // of jitter
};

struct InformerHandlers {
  // A new object or a new version of one.
  std::function<void(const api::Object& object)> on_upsert;
  std::function<void(api::Kind kind, const api::ObjectKey& key)> on_delete;
  // Once, after the first complete snapshot has been handed on.
  std::function<void(api::Kind kind)> on_synced;
  // Once per version. An earlier good version stays in force (store.h says why).
  std::function<void(api::Kind kind, const api::ObjectMeta& meta, const Error& error)>
      on_bad_object;
  // Listing or watching fails; the informer goes on trying with back-off. kNotFound: the kind is
  // not served (any more).
  std::function<void(api::Kind kind, const Error& error)> on_trouble;
};

struct InformerStats {
  std::uint64_t lists = 0;    // full snapshots begun, by pages or by stream
  std::uint64_t watches = 0;  // streams opened
  std::uint64_t events = 0;   // events seen, bookmarks included
  std::uint64_t bad_objects = 0;
  std::uint64_t troubles = 0;
};

// Keeps a receiver in step with one collection: list, watch, resume, relist.
//
//   Informer pods(transport, timers, {.kind = api::Kind::kPod}, handlers);
//   pods.Start();
//
// Threads  As Transport; handlers run on the same thread, never from inside Start. Destroying the
// informer stops it; a handler must not
//          destroy it.
class Informer {
 public:
  // With a rate limit, hand in the LimitedTransport.
  Informer(Transport& transport,
           Timers& timers,
           InformerOptions options,
           InformerHandlers handlers);
  ~Informer();
  Informer(const Informer&) = delete;
  Informer& operator=(const Informer&) = delete;

  void Start();
  // The kind is no longer served: stops, and reports every object as deleted. Start begins anew.
  void Withdraw();

  [[nodiscard]] bool synced() const;
  // A list is under way, or the watch is to be opened again: changes may have been missed so far.
  [[nodiscard]] bool behind() const;
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] const InformerStats& stats() const;
  [[nodiscard]] api::Kind kind() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::k8s
