#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "quota/flavors.h"
#include "quota/tree.h"
#include "scheduler/cycle/shape.h"
#include "scheduler/cycle/snapshot.h"

// Flavors for every pod set under the ledger.
namespace muster::scheduler {

// From least to most severe.
enum class Blocker : std::uint8_t {
  kNone,
  kTopology,
  kWaitingForQuota,
  kExceedsMaxQuota,
  kNoMatchingFlavor
};
[[nodiscard]] std::string_view ReasonOf(Blocker blocker);

struct FlavorChoice {
  std::size_t group = 0;
  std::size_t flavor = 0;  // index in the group
  quota::Fit fit;
};
struct PodSetAssignment {
  std::string name;
  std::int32_t count = 0;
  std::map<std::string, FlavorChoice, std::less<>> choices;  // by resource
  ResourceVector usage;                                      // of resources with a flavor
  std::vector<std::string> reasons;                          // sorted
  quota::Mode mode = quota::Mode::kFit;
  Blocker blocker = Blocker::kNone;
};
// What stands in the way, row by row, for explanations.
struct Shortfall {
  quota::Row row{0};
  quota::RowFit fit;
};
struct Assignment {
  quota::Mode mode = quota::Mode::kFit;
  std::int32_t level = 0;
  Blocker blocker = Blocker::kNone;
  std::vector<PodSetAssignment> pod_sets;
  std::vector<std::pair<quota::Row, Amount>> usage;  // by row, each once
  std::vector<Shortfall> shortfalls;

  // "couldn't assign flavors to pod set main: ...; ..."
  [[nodiscard]] std::string Message() const;
};

// (pod set, group, flavor): not to be tried, because no machines for it were found.
using Exclusions = std::set<std::tuple<std::size_t, std::size_t, std::size_t>>;

// What preemption could do for rows of one flavor of which there is too little: one answer a row of
// `short_rows`, all of them kNoCandidates when no set of victims helps all of `request` at once.
using Oracle =
    std::function<std::vector<quota::Fit>(const std::vector<std::pair<quota::Row, Amount>>& request,
                                          const std::vector<quota::Row>& short_rows)>;

struct AssignInput {
  const CompiledQueue* queue = nullptr;
  const quota::Tree* tree = nullptr;
  const Shape* shape = nullptr;
  std::vector<std::int32_t> counts;      // per pod set
  std::vector<ResourceVector> totals;    // per pod set, without "pods"
  const Exclusions* excluded = nullptr;  // may be null
  bool ignore_undeclared = false;
  bool fair_sharing = false;
  const Oracle* oracle = nullptr;  // null: nobody can be preempted
};

// Totals of each pod set for `counts`: per-pod charges, and shared claims once, to the first pod
// set that uses them, unless `charged` has them.
[[nodiscard]] std::vector<ResourceVector> Totals(const Shape& shape,
                                                 const std::vector<std::int32_t>& counts,
                                                 const std::set<api::ObjectKey>& charged,
                                                 const std::set<api::ObjectKey>& charged_in_cycle);

// Cost     O(pod sets * resources * flavors * depth). Pure.
// Source   Kueue pkg/scheduler/flavorassigner.
[[nodiscard]] Assignment Assign(const AssignInput& input);

// True when every row of `usage` is available now.
[[nodiscard]] bool Fits(const quota::Tree& tree,
                        quota::NodeIndex queue,
                        const std::vector<std::pair<quota::Row, Amount>>& usage);

}  // namespace muster::scheduler
