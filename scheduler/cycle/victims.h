#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "api/queueing.h"
#include "quota/fair_share.h"
#include "quota/tree.h"
#include "scheduler/cycle/snapshot.h"

// Who has to go so that a Workload can start.
namespace muster::scheduler {

// Somebody who may have to go: a running Workload, or the claim of one that waits for its own
// victims.
struct Candidate {
  WorkloadRef ref;
  quota::NodeIndex queue{0};
  std::int64_t priority = 0;
  TimePoint order_time{};
  std::optional<TimePoint> reserved_at;              // absent: now
  bool evicted = false;                              // costs nothing any more
  std::vector<std::pair<quota::Row, Amount>> usage;  // rows of the tree, each once
  const RunningWorkload* running = nullptr;          // null: a claim
  bool taken = false;                                // by somebody earlier in this decision
};
// Of one tree: by index of the queue's node, each list in order of `Dearer`.
using Candidates = std::vector<std::vector<Candidate>>;

struct FairSearch {
  const quota::FairShares* shares = nullptr;
  // LessThanOrEqualToFinalShare, LessThanInitialShare: which come, in this order.
  bool final_share_first = true;
  bool initial_share_second = true;
};

struct VictimSearch {
  quota::Tree* tree = nullptr;  // changed while searching; afterwards as before
  quota::NodeIndex queue{0};
  const api::ClusterQueuePreemption* policy = nullptr;
  std::int64_t priority = 0;
  TimePoint order_time{};
  std::vector<std::pair<quota::Row, Amount>> request;  // everything that it asks for, by row
  std::vector<quota::Row> short_rows;                  // of which there is too little
  Candidates* candidates = nullptr;
  // Have been waited for long enough already, and are not counted on again. May be null.
  const std::set<api::ObjectKey>* in_vain = nullptr;
  const FairSearch* fair = nullptr;  // null: classical preemption
  // Asked once quota suffices without `gone`: would the pods find their place, too? Null: yes.
  std::function<bool(const std::vector<const Candidate*>& gone)> places;
};

struct Victim {
  Candidate* candidate = nullptr;
  std::string_view reason;  // as PreemptionDecision::reason
};

// Victims such that the request fits without them, and with none of them given back; empty: there
// are none such. One that is `taken` is never chosen.
//
// Cost     O(candidates * log + candidates * depth * rows), and one call of `places` a candidate.
// Source   Kueue pkg/scheduler/preemption (classical and fair sharing), KEP-83, KEP-1714, KEP-4136.
[[nodiscard]] std::vector<Victim> FindVictims(const VictimSearch& search);

}  // namespace muster::scheduler
