#include "quota/tree.h"

#include <algorithm>
#include <set>

#include "base/check.h"

namespace muster::quota {

std::optional<Row> Tree::FindRow(std::string_view flavor, std::string_view resource) const {
  const auto before = [&](const FlavorResource& row, int) {
    const int order = std::string_view(row.flavor).compare(flavor);
    return order != 0 ? order < 0 : std::string_view(row.resource) < resource;
  };
  const auto it = std::lower_bound(shape_->rows.begin(), shape_->rows.end(), 0, before);
  if (it == shape_->rows.end() || it->flavor != flavor || it->resource != resource) {
    return std::nullopt;
  }
  return Row{static_cast<std::uint32_t>(it - shape_->rows.begin())};
}

Amount Tree::available(NodeIndex node, Row row) const {
  // available(n) = own(n) + min(available(parent), cap(n)), unrolled from the leaf up so that depth
  // costs no stack: the least of own(leaf) + ... + own(n) + cap(n) over all n, and of the same sum
  // up to the root with what is left there.
  Amount own;
  Amount least = Amount::Unlimited();
  while (const std::optional<NodeIndex> up = parent(node)) {
    own += local_available(node, row);
    if (const auto& limit = limits(node, row).borrowing) {
      // What the node may still take from outside = what it shares itself, less what it already
      // took, plus its limit.
      const Amount used_from_parent = (usage(node, row) - local(node, row)).AtLeastZero();
      const Amount shared = subtree(node, row) - local(node, row);
      least = std::min(least, own + (shared - used_from_parent + *limit));
    }
    node = *up;
  }
  return std::min(least, own + (subtree(node, row) - usage(node, row)));
}

Level Tree::LevelOf(NodeIndex queue, Row row, Amount amount) const {
  std::optional<NodeIndex> up = parent(queue);
  if (!up || !BorrowingWith(queue, row, amount)) {
    return Level{.level = 0, .may_reclaim = up.has_value()};
  }
  Amount rest = amount - local_available(queue, row);
  NodeIndex last = *up;
  while (up) {
    last = *up;
    if (!BorrowingWith(last, row, rest)) {
      return Level{.level = height(last), .may_reclaim = has_parent(last)};
    }
    rest -= local_available(last, row);
    up = parent(last);
  }
  return Level{.level = height(last), .may_reclaim = false};
}

void Tree::Add(NodeIndex node, Row row, Amount amount) {
  ++version_;
  std::optional<NodeIndex> at = node;
  while (at) {
    const Amount kept = local_available(*at, row);
    Amount& used = usage_[Cell(*at, row)];
    used += amount;
    if (amount <= kept) {
      return;
    }
    amount -= kept;
    at = parent(*at);
  }
}

void Tree::Remove(NodeIndex node, Row row, Amount amount) {
  ++version_;
  std::optional<NodeIndex> at = node;
  while (at) {
    const Amount shared = usage(*at, row) - local(*at, row);
    Amount& used = usage_[Cell(*at, row)];
    used -= amount;
    if (shared <= Amount(0)) {
      return;
    }
    amount = std::min(amount, shared);
    at = parent(*at);
  }
}

bool Tree::Consistent() const {
  for (std::size_t r = 0; r < row_count(); ++r) {
    const Row row{static_cast<std::uint32_t>(r)};
    for (std::size_t n = 0; n < node_count(); ++n) {
      const NodeIndex node{static_cast<std::uint32_t>(n)};
      if (is_queue(node)) {
        continue;
      }
      Amount sum;
      for (const NodeIndex child : children(node)) {
        sum += (usage(child, row) - local(child, row)).AtLeastZero();
      }
      if (sum != usage(node, row)) {
        return false;
      }
    }
  }
  return true;
}

void Tree::Precompute(Shape& shape) {
  const std::size_t rows = shape.rows.size();
  const std::size_t cells = shape.nodes.size() * rows;
  shape.subtree.assign(cells, Amount());
  shape.local.assign(cells, Amount());
  shape.potential.assign(cells, Amount());
  // Children come after their parents: bottom-up is backwards, top-down forwards.
  for (std::size_t n = shape.nodes.size(); n-- > 0;) {
    Node& node = shape.nodes[n];
    std::int32_t highest = 0;
    for (const NodeIndex child : node.children) {
      highest = std::max(highest, shape.nodes[At(child)].height);
    }
    node.height = node.queue || node.children.empty() ? 0 : highest + 1;
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t cell = (n * rows) + r;
      Amount total = shape.limits[cell].nominal;
      for (const NodeIndex child : node.children) {
        const std::size_t other = (At(child) * rows) + r;
        total += shape.subtree[other] - shape.local[other];
      }
      shape.subtree[cell] = total;
      const auto& lending = shape.limits[cell].lending;
      shape.local[cell] = node.parent && lending ? (total - *lending).AtLeastZero() : Amount();
    }
  }
  for (std::size_t n = 0; n < shape.nodes.size(); ++n) {
    const Node& node = shape.nodes[n];
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t cell = (n * rows) + r;
      if (!node.parent) {
        shape.potential[cell] = shape.subtree[cell];
        continue;
      }
      Amount most = shape.local[cell] + shape.potential[(At(*node.parent) * rows) + r];
      if (const auto& borrowing = shape.limits[cell].borrowing) {
        most = std::min(most, shape.subtree[cell] + *borrowing);
      }
      shape.potential[cell] = most;
    }
  }
}

const QueuePlace* Forest::Find(std::string_view queue) const {
  const auto it = index_->queues.find(queue);
  return it == index_->queues.end() ? nullptr : &it->second;
}

const QueuePlace* Forest::FindCohort(std::string_view cohort) const {
  const auto it = index_->cohorts.find(cohort);
  return it == index_->cohorts.end() ? nullptr : &it->second;
}

Forest Forest::Build(const ForestConfig& config) {
  std::map<std::string, const NodeConfig*, std::less<>> cohorts;
  const auto mention = [&](const std::string& name) {
    if (!name.empty()) {
      cohorts.try_emplace(name, nullptr);
    }
  };
  std::map<std::string, const NodeConfig*, std::less<>> queues;
  for (const NodeConfig& cohort : config.cohorts) {
    cohorts[cohort.name] = &cohort;
    mention(cohort.parent);
  }
  for (const NodeConfig& queue : config.queues) {
    queues[queue.name] = &queue;
    mention(queue.parent);
  }

  // The root of each cohort, or nothing when the walk up never ends. Memoised, so that a long chain
  // costs its length once.
  std::map<std::string_view, std::string_view> root_of;  // "" marks a cycle
  for (const auto& [name, unused] : cohorts) {
    std::vector<std::string_view> path;
    std::set<std::string_view> on_path;
    std::string_view at = name;
    std::string_view root;
    while (true) {
      if (const auto known = root_of.find(at); known != root_of.end()) {
        root = known->second;
        break;
      }
      if (!on_path.insert(at).second) {
        break;  // a cycle: root stays empty
      }
      path.push_back(at);
      const NodeConfig* cohort = cohorts.find(at)->second;
      if (cohort == nullptr || cohort->parent.empty()) {
        root = at;
        break;
      }
      at = cohort->parent;
    }
    for (const std::string_view step : path) {
      root_of[step] = root;
    }
  }

  auto index = std::make_shared<Index>();
  // A tree per root cohort, and one per queue without cohort; in order of name, queues after
  // cohorts.
  struct Draft {
    std::vector<const NodeConfig*> queues;
    std::vector<std::string_view> cohorts;
    std::set<FlavorResource> rows;
  };
  std::map<std::pair<bool, std::string_view>, Draft> drafts;
  std::map<std::string_view, std::pair<bool, std::string_view>> draft_of_queue;
  for (const auto& [name, cohort] : cohorts) {
    const std::string_view root = root_of[name];
    if (root.empty()) {
      continue;
    }
    Draft& draft = drafts[{false, root}];
    draft.cohorts.push_back(name);
    if (cohort != nullptr) {
      for (const auto& [row, limits] : cohort->quotas) {
        draft.rows.insert(row);
      }
    }
  }
  for (const auto& [name, queue] : queues) {
    std::pair<bool, std::string_view> key{true, name};
    if (!queue->parent.empty()) {
      key = {false, root_of[queue->parent]};
      if (key.second.empty()) {
        index->cyclic.push_back(name);
        continue;
      }
    }
    Draft& draft = drafts[key];
    draft.queues.push_back(queue);
    draft_of_queue[name] = key;
    for (const auto& [row, limits] : queue->quotas) {
      draft.rows.insert(row);
    }
  }
  for (const auto& [name, row] : config.used) {
    if (const auto it = draft_of_queue.find(name); it != draft_of_queue.end()) {
      drafts[it->second].rows.insert(row);
    }
  }

  Forest out;
  for (const auto& [key, draft] : drafts) {
    auto shape = std::make_shared<Tree::Shape>();
    shape->rows.assign(draft.rows.begin(), draft.rows.end());
    std::vector<const NodeConfig*> configs;
    std::map<std::string_view, NodeIndex> placed;
    const std::size_t tree_index = out.trees_.size();
    const auto place = [&](std::string_view name,
                           bool queue,
                           std::optional<NodeIndex> parent,
                           const NodeConfig* node_config) {
      const NodeIndex node{static_cast<std::uint32_t>(shape->nodes.size())};
      shape->nodes.push_back(
          Tree::Node{.name = std::string(name), .queue = queue, .parent = parent});
      configs.push_back(node_config);
      if (parent) {
        shape->nodes[Tree::At(*parent)].children.push_back(node);
      }
      const QueuePlace where{.tree = tree_index, .node = node};
      (queue ? index->queues : index->cohorts).emplace(std::string(name), where);
      return node;
    };
    if (!key.first) {
      // Breadth first from the root; children in order of name because draft.cohorts is.
      std::map<std::string_view, std::vector<std::string_view>> children;
      for (const std::string_view name : draft.cohorts) {
        const NodeConfig* cohort = cohorts.find(name)->second;
        if (cohort != nullptr && !cohort->parent.empty()) {
          children[cohort->parent].push_back(name);
        }
      }
      placed[key.second] = place(key.second, false, std::nullopt, cohorts.find(key.second)->second);
      std::vector<std::string_view> order{key.second};
      for (std::size_t i = 0; i < order.size(); ++i) {
        const std::string_view at = order[i];
        for (const std::string_view child : children[at]) {
          placed[child] = place(child, false, placed[at], cohorts.find(child)->second);
          order.push_back(child);
        }
      }
    }
    for (const NodeConfig* queue : draft.queues) {
      std::optional<NodeIndex> parent;
      if (!queue->parent.empty()) {
        parent = placed.at(queue->parent);
      }
      place(queue->name, true, parent, queue);
    }
    shape->limits.assign(shape->nodes.size() * shape->rows.size(), Limits{});
    for (std::size_t n = 0; n < configs.size(); ++n) {
      if (configs[n] == nullptr) {
        continue;
      }
      for (const auto& [row, limits] : configs[n]->quotas) {
        const auto it = std::lower_bound(shape->rows.begin(), shape->rows.end(), row);
        shape->limits[(n * shape->rows.size()) +
                      static_cast<std::size_t>(it - shape->rows.begin())] = limits;
      }
    }
    Tree::Precompute(*shape);
    Tree tree;
    tree.usage_.assign(shape->nodes.size() * shape->rows.size(), Amount());
    tree.shape_ = std::move(shape);
    out.trees_.push_back(std::move(tree));
  }
  out.index_ = std::move(index);
  return out;
}

}  // namespace muster::quota
