#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/amount.h"

namespace muster::quota {

// The unit in which quota is kept: one resource on one flavor. Different ones never interact.
struct FlavorResource {
  std::string flavor;
  std::string resource;
  friend auto operator<=>(const FlavorResource&, const FlavorResource&) = default;
};

struct Limits {
  Amount nominal;
  std::optional<Amount> borrowing;  // absent: no limit
  std::optional<Amount> lending;    // absent: everything can be lent
  friend bool operator==(const Limits&, const Limits&) = default;
};

// A cohort or a ClusterQueue as configured.
struct NodeConfig {
  std::string name;
  std::string parent;  // cohort; empty for none
  std::map<FlavorResource, Limits> quotas;
};
struct ForestConfig {
  std::vector<NodeConfig> cohorts;
  std::vector<NodeConfig> queues;
  // Rows which must exist although nobody has quota for them: what running work still uses of a
  // flavor that left the configuration.
  std::vector<std::pair<std::string, FlavorResource>> used;  // queue name, row
};

enum class NodeIndex : std::uint32_t {};
enum class Row : std::uint32_t {};

// Borrowing level of a request: 0 without borrowing, else the height of the smallest subtree that
// can hold it.
struct Level {
  std::int32_t level = 0;
  // The smallest subtree that fits is not the whole tree, therefore the rest of the tree owes it
  // the quota.
  bool may_reclaim = false;
};

// Ledger of one cohort tree: how much each node may still take, and from whom.
//
// Shape    Nodes are ordered parents first; rows by flavor and resource. Configuration is shared
// between copies, usage is not. Units    Amount: millicores for cpu, whole units for the rest.
// Saturates; Unlimited minus anything is Unlimited. Threads  A value. Cost     Available, Add and
// Remove walk leaf to root: O(depth). Everything without usage is precomputed. A copy is O(nodes *
// rows). Source   Kueue KEP-79 (hierarchical cohorts) and KEP-1224 (lending limits). With LL, BL
// the limits of node n:
//          subtree(queue) = nominal;  subtree(cohort) = nominal + sum over children of (subtree -
//          local) local(n) = LL unset ? 0 : max(0, subtree - LL): what n keeps for itself
//          usage(cohort) = sum over children of max(0, usage - local)
//          available(root) = subtree - usage
//          available(n) = max(0, local - usage) + min(available(parent), (subtree - local) - max(0,
//          usage - local) + BL) potential(root) = subtree;  potential(n) = min(local +
//          potential(parent), subtree + BL) Limits of a root are ignored.
class Tree {
 public:
  [[nodiscard]] std::size_t node_count() const { return shape_->nodes.size(); }
  [[nodiscard]] std::size_t row_count() const { return shape_->rows.size(); }
  [[nodiscard]] const FlavorResource& row(Row row) const { return shape_->rows[At(row)]; }
  [[nodiscard]] std::optional<Row> FindRow(std::string_view flavor,
                                           std::string_view resource) const;
  [[nodiscard]] const std::string& name(NodeIndex node) const {
    return shape_->nodes[At(node)].name;
  }
  [[nodiscard]] bool is_queue(NodeIndex node) const { return shape_->nodes[At(node)].queue; }
  [[nodiscard]] bool has_parent(NodeIndex node) const {
    return shape_->nodes[At(node)].parent.has_value();
  }
  [[nodiscard]] std::optional<NodeIndex> parent(NodeIndex node) const {
    return shape_->nodes[At(node)].parent;
  }
  [[nodiscard]] const std::vector<NodeIndex>& children(NodeIndex node) const {
    return shape_->nodes[At(node)].children;
  }
  // Root cohort, or the queue itself when it has no cohort.
  [[nodiscard]] static constexpr NodeIndex root() { return NodeIndex{0}; }
  // 1 for a cohort with queues only, one more than the highest child cohort otherwise; 0 for a
  // queue.
  [[nodiscard]] std::int32_t height(NodeIndex node) const { return shape_->nodes[At(node)].height; }

  [[nodiscard]] const Limits& limits(NodeIndex node, Row row) const {
    return shape_->limits[Cell(node, row)];
  }
  [[nodiscard]] Amount subtree(NodeIndex node, Row row) const {
    return shape_->subtree[Cell(node, row)];
  }
  [[nodiscard]] Amount local(NodeIndex node, Row row) const {
    return shape_->local[Cell(node, row)];
  }
  [[nodiscard]] Amount potential(NodeIndex node, Row row) const {
    return shape_->potential[Cell(node, row)];
  }
  [[nodiscard]] Amount usage(NodeIndex node, Row row) const { return usage_[Cell(node, row)]; }
  [[nodiscard]] Amount local_available(NodeIndex node, Row row) const {
    return (local(node, row) - usage(node, row)).AtLeastZero();
  }
  // May be negative: quota was lowered below what already runs.
  [[nodiscard]] Amount available(NodeIndex node, Row row) const;
  [[nodiscard]] bool BorrowingWith(NodeIndex node, Row row, Amount amount) const {
    return subtree(node, row) < usage(node, row) + amount;
  }
  [[nodiscard]] Level LevelOf(NodeIndex queue, Row row, Amount amount) const;

  // Books `amount` on `node` and what exceeds its own share on the ancestors. Does not check that
  // it fits.
  void Add(NodeIndex node, Row row, Amount amount);
  void Remove(NodeIndex node, Row row, Amount amount);
  // Grows with every Add and Remove of any copy's own history: equal versions of one copy mean
  // equal usage.
  [[nodiscard]] std::uint64_t version() const { return version_; }

  // Recomputes what cohorts should show from what queues use, and compares. For tests.
  [[nodiscard]] bool Consistent() const;

 private:
  friend class Forest;
  struct Node {
    std::string name;
    bool queue = false;
    std::optional<NodeIndex> parent;
    std::vector<NodeIndex> children;  // by kind (cohorts first), then name
    std::int32_t height = 0;
  };
  struct Shape {
    std::vector<Node> nodes;
    std::vector<FlavorResource> rows;
    std::vector<Limits> limits;
    std::vector<Amount> subtree;
    std::vector<Amount> local;
    std::vector<Amount> potential;
  };
  [[nodiscard]] static std::size_t At(NodeIndex node) { return static_cast<std::size_t>(node); }
  [[nodiscard]] static std::size_t At(Row row) { return static_cast<std::size_t>(row); }
  [[nodiscard]] std::size_t Cell(NodeIndex node, Row row) const {
    return (At(node) * row_count()) + At(row);
  }
  static void Precompute(Shape& shape);

  std::shared_ptr<const Shape> shape_;
  std::vector<Amount> usage_;
  std::uint64_t version_ = 0;
};

struct QueuePlace {
  std::size_t tree = 0;
  NodeIndex node{0};
};

// All trees. A cohort that is named but not configured exists implicitly, without quota and without
// parent. Cohorts on a cycle of parents, and all that hangs on them, are left out: their queues
// have no place.
class Forest {
 public:
  Forest() : index_(std::make_shared<Index>()) {}
  [[nodiscard]] static Forest Build(const ForestConfig& config);

  // nullptr: not configured, or under a cycle.
  [[nodiscard]] const QueuePlace* Find(std::string_view queue) const;
  // nullptr likewise.
  [[nodiscard]] const QueuePlace* FindCohort(std::string_view cohort) const;
  [[nodiscard]] std::size_t tree_count() const { return trees_.size(); }
  [[nodiscard]] const Tree& tree(std::size_t index) const { return trees_[index]; }
  [[nodiscard]] Tree& tree(std::size_t index) { return trees_[index]; }
  // Queues whose cohort is on, or below, a cycle.
  [[nodiscard]] const std::vector<std::string>& cyclic_queues() const { return index_->cyclic; }

 private:
  struct Index {
    std::map<std::string, QueuePlace, std::less<>> queues;
    std::map<std::string, QueuePlace, std::less<>> cohorts;
    std::vector<std::string> cyclic;
  };
  std::shared_ptr<const Index> index_;
  std::vector<Tree> trees_;
};

}  // namespace muster::quota
