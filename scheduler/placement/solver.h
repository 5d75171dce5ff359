#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "scheduler/placement/placement.h"
#include "scheduler/placement/trial_state.h"

// Placing one gang in a trial.
namespace muster::placement {

// Which nodes a filter leaves, and how many it excludes why.
struct NodeFilter {
  std::vector<Exclusion> exclusion;  // by node
  std::int64_t matching = 0;
  std::map<Exclusion, std::int64_t> excluded;
};

// Filters seen in a trial: nodes do not change during one.
class FilterCache {
 public:
  [[nodiscard]] std::shared_ptr<const NodeFilter> Get(const TrialState& state,
                                                      const PodClass& pod_class);

 private:
  std::map<std::string, std::shared_ptr<const NodeFilter>> by_text_;
};

// More members than this are refused: a plan lists each of them.
inline constexpr std::int64_t kMaxMembers = 1'000'000;

// Takes what it places from `state`; on any answer but a Placement the state is as before.
[[nodiscard]] Answer PlaceGang(TrialState& state,
                               FilterCache& filters,
                               const GangRequest& gang,
                               std::int64_t budget_steps);

}  // namespace muster::placement
