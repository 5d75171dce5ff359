#include "scheduler/cycle/explain.h"

#include <set>
#include <vector>

#include "base/strings.h"

namespace muster::scheduler {

const std::string& QuotaExplainer::Sources(const quota::Tree& tree,
                                           std::size_t tree_index,
                                           quota::Row row) {
  constexpr std::size_t kMostNamed = 8;
  const auto [it, inserted] = sources_.try_emplace({tree_index, row});
  Cached& cached = it->second;
  if (!inserted && cached.version == tree.version()) {
    return cached.text;
  }
  cached.version = tree.version();
  const std::string& resource = tree.row(row).resource;
  std::vector<std::string> parts;
  std::size_t unnamed = 0;
  Amount total;
  Amount used;
  for (std::size_t n = 0; n < tree.node_count(); ++n) {
    const quota::NodeIndex node{static_cast<std::uint32_t>(n)};
    const Amount nominal = tree.limits(node, row).nominal;
    total += nominal;
    if (tree.is_queue(node)) {
      used += tree.usage(node, row);
    }
    if (nominal.zero()) {
      continue;
    }
    if (parts.size() < kMostNamed) {
      parts.push_back(api::FormatAmount(resource, nominal) + " (" +
                      (tree.is_queue(node) ? "" : "cohort ") + tree.name(node) + ")");
    } else {
      ++unnamed;
    }
  }
  if (unnamed > 0) {
    parts.push_back("that of " + std::to_string(unnamed) + " more");
  }
  const std::string owner = (tree.is_queue(quota::Tree::root()) ? "ClusterQueue " : "cohort ") +
                            tree.name(quota::Tree::root());
  cached.text = "quota of " + owner + ": " + (parts.size() > 1 ? Join(parts, " + ") + " = " : "") +
                api::FormatAmount(resource, total) + ", in use " +
                api::FormatAmount(resource, used);
  return cached.text;
}

std::string QuotaExplainer::Shortfalls(const CompiledQueue& queue,
                                       const quota::Tree& tree,
                                       const Assignment& assignment) {
  constexpr std::size_t kMostRows = 4;
  std::vector<std::string> parts;
  std::set<quota::Row> seen;
  bool preemption = false;
  for (const Shortfall& shortfall : assignment.shortfalls) {
    preemption = preemption || shortfall.fit.needs_oracle;
    if (!seen.insert(shortfall.row).second || parts.size() == kMostRows) {
      continue;
    }
    const quota::FlavorResource& row = tree.row(shortfall.row);
    const std::string& sources = Sources(tree, queue.place->tree, shortfall.row);
    if (shortfall.fit.shortage == quota::RowFit::Shortage::kExceedsMax) {
      parts.push_back("at most " + api::FormatAmount(row.resource, shortfall.fit.potential) + " " +
                      row.resource + " in flavor " + row.flavor +
                      " are asked for, or the quota is raised (" + sources + ")");
    } else {
      parts.push_back(api::FormatAmount(row.resource, shortfall.fit.missing) + " more " +
                      row.resource + " unused in flavor " + row.flavor + " (" + sources + ")");
    }
  }
  std::string out = Join(parts, ", or ");
  const api::ClusterQueuePreemption& policy = queue.spec->preemption;
  if (preemption && (policy.within_cluster_queue != api::PreemptionPolicy::kNever ||
                     policy.reclaim_within_cohort != api::PreemptionPolicy::kNever)) {
    out += "; nobody whom the queue's policy lets it preempt would make enough room";
  }
  return out;
}

}  // namespace muster::scheduler
