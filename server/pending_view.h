#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

// What the dashboard shows, as plain data that whoever serves it fills in, and its JSON.
namespace muster::server {

struct QuotaRow {
  std::string flavor;
  std::string resource;
  // Shares of one unit, so that bars can be drawn: internal units of the resource.
  std::int64_t nominal = 0;
  std::int64_t reserved = 0;
  std::int64_t borrowed = 0;
  // The same as quantities: "8", "1500m", "64Gi".
  std::string nominal_text;
  std::string reserved_text;
  std::string borrowed_text;
};

struct QueueRow {
  std::string name;
  std::string cohort;
  bool strict_fifo = false;
  bool active = true;
  std::string message;  // why it is not active
  std::int64_t pending = 0;
  std::int64_t reserving = 0;
  std::int64_t admitted = 0;
  std::vector<std::string> local_queues;  // "namespace/name"
  std::vector<QuotaRow> quota;
};

struct PendingRow {
  std::string ns;
  std::string name;
  std::string job;  // "Job/train-a", or empty
  std::string cluster_queue;
  std::string local_queue;
  std::int64_t position = 0;        // in the ClusterQueue, from 0
  std::int64_t local_position = 0;  // in the LocalQueue, from 0
  std::int64_t priority = 0;
  std::int64_t pods = 0;
  std::string requests;  // "8 x nvidia.com/gpu, 64 cpu"
  std::optional<TimePoint> since;
  bool parked = false;    // waits for a change, not for its turn
  std::string reason;     // code
  std::string message;    // a sentence with numbers
  std::string would_fit;  // what would make it fit, or empty
};

struct NodeShare {
  std::string node;
  std::int64_t pods = 0;
  std::vector<std::string> devices;
};
struct RunningRow {
  std::string ns;
  std::string name;
  std::string job;
  std::string cluster_queue;
  std::int64_t priority = 0;
  std::int64_t pods = 0;
  std::int64_t pods_bound = 0;
  std::string requests;
  std::optional<TimePoint> since;  // admitted
  std::vector<NodeShare> nodes;
};

struct NodeRow {
  std::string name;
  bool ready = true;
  bool schedulable = true;
  std::string group;        // rack, zone or pool, to draw neighbours together; may be empty
  std::string accelerator;  // resource or device class that `total` counts, may be empty
  std::int64_t total = 0;
  std::int64_t used = 0;
  std::int64_t pods = 0;
};

struct EventRow {
  TimePoint at{};
  std::string kind;  // Admitted, Evicted, Preempted, Finished, ...
  std::string workload;
  std::string message;
};

struct DashboardData {
  std::string title;  // "demo", the cluster's name
  std::string version;
  TimePoint now{};
  bool leader = true;
  std::vector<QueueRow> queues;     // by name
  std::vector<PendingRow> pending;  // by ClusterQueue, then position
  std::vector<RunningRow> running;  // by namespace and name
  std::vector<NodeRow> nodes;       // by group, then name
  std::vector<EventRow> events;     // newest first
};

// Which part of the long lists is wanted.
struct Page {
  std::int64_t offset = 0;
  std::int64_t limit = 500;
  std::string cluster_queue;  // empty: all

  static constexpr std::int64_t kMaxLimit = 100'000;
};

// "limit=100&offset=5&queue=a", in any order, percent-encoded; unknown keys are ignored. A limit
// beyond kMaxLimit is cut to it. Errors   kInvalid: not a number, negative, or zero as the limit.
[[nodiscard]] Result<Page> ParsePage(std::string_view query);

// One JSON object; `page` cuts the lists of pending and running, whose full lengths are told beside
// them.
[[nodiscard]] std::string DashboardJson(const DashboardData& data, const Page& page);

}  // namespace muster::server
