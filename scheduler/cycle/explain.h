#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "scheduler/cycle/assign.h"
#include "scheduler/cycle/snapshot.h"

namespace muster::scheduler {

// Says in numbers what a refused assignment would need, and where the quota of its tree comes from.
//
// Cost     O(nodes of the tree) for the first question about a row after usage changed, then O(1).
class QuotaExplainer {
 public:
  // "2 more cpu unused in flavor default (quota of cohort ab: 4 (cohort ab) + 2 (a) + 2 (b) = 8, in
  // use 8)"
  [[nodiscard]] std::string Shortfalls(const CompiledQueue& queue,
                                       const quota::Tree& tree,
                                       const Assignment& assignment);

 private:
  [[nodiscard]] const std::string& Sources(const quota::Tree& tree,
                                           std::size_t tree_index,
                                           quota::Row row);

  struct Cached {
    std::uint64_t version = 0;
    std::string text;
  };
  std::map<std::pair<std::size_t, quota::Row>, Cached> sources_;
};

}  // namespace muster::scheduler
