#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "api/json.h"
#include "base/time.h"
#include "sim/api_server.h"

// What happened to Workloads, told as events. It is read off the API objects alone, as any observer
// could.
namespace muster::sim {

// pod set -> resource -> flavor, and pod set -> node -> pods.
using FlavorsByPodSet = std::map<std::string, std::map<std::string, std::string>>;
using NodesByPodSet = std::map<std::string, std::map<std::string, std::int32_t>>;

struct TimelineEvent {
  Duration at{};
  std::string event;     // Created, Queued, QuotaReserved, Admitted, Started, Preempted, Evicted,
                         // Requeued, Finished, Deactivated, Deleted, Rejected
  std::string workload;  // namespace/name
  std::string owner;     // "batch/v1 Job team-a/x", empty when nothing owns it
  std::string cluster_queue;
  FlavorsByPodSet flavors;
  NodesByPodSet nodes;
  std::string reason;
  std::string message;
  std::string object;  // of Rejected
};

// Follows Workloads and pods on an ApiServer through watches.
//
// Threads  One.
// Cost     O(change).
class Timeline {
 public:
  Timeline(ApiServer& server, TimePoint start);
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // Reads what has changed. Call it often enough that no two transitions of one object lie between:
  // after every step of the world.
  void Observe(TimePoint now);
  void Rejected(TimePoint now, std::string object, std::string message);
  // A Workload stands in a queue (it may never be seen pending when it is admitted at once).
  void NoteQueued(TimePoint now, const std::string& workload, const std::string& cluster_queue);
  // Where a plan puts the pods, for the Admitted event. Asked at most once per admission.
  void SetPlacementSource(std::function<NodesByPodSet(const std::string& workload)> source);

  [[nodiscard]] const std::vector<TimelineEvent>& events() const { return events_; }
  // Running pods by node, per Workload (finished ones left out).
  [[nodiscard]] std::map<std::string, NodesByPodSet> Running() const;

 private:
  struct Gang;
  struct PodState;
  void OnWorkload(const Json& object, bool deleted, TimePoint now);
  void OnPod(const Json& object, bool deleted);
  void CheckStarted(TimePoint now);
  [[nodiscard]] TimelineEvent Make(std::string_view event, const Gang& gang, TimePoint now) const;
  void Queued(Gang& gang, TimePoint now);

  TimePoint start_;
  std::unique_ptr<WatchStream> workloads_;
  std::unique_ptr<WatchStream> pods_;
  std::map<std::string, std::unique_ptr<Gang>> gangs_;           // by namespace/name
  std::map<std::string, std::unique_ptr<PodState>> pod_states_;  // by namespace/name
  std::map<std::string, std::string> gang_of_owner_;             // owner UID -> gang
  std::set<std::string> maybe_started_;
  std::function<NodesByPodSet(const std::string&)> placement_;
  std::vector<TimelineEvent> events_;
};

}  // namespace muster::sim
