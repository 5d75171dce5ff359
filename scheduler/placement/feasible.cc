#include "scheduler/placement/feasible.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace muster::placement {
namespace {

std::optional<std::int64_t> ParseInt(std::string_view text) {
  // Go's strconv.ParseInt takes one leading plus sign, from_chars takes none.
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) {
      return std::nullopt;
    }
  }
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

bool MatchesRequirement(const api::NodeSelectorRequirement& requirement, const std::string* value) {
  const auto listed = [&] {
    return value != nullptr &&
           std::find(requirement.values.begin(), requirement.values.end(), *value) !=
               requirement.values.end();
  };
  if (requirement.op == "In") {
    return listed();
  }
  if (requirement.op == "NotIn") {
    return !listed();
  }
  if (requirement.op == "Exists") {
    return value != nullptr;
  }
  if (requirement.op == "DoesNotExist") {
    return value == nullptr;
  }
  if (requirement.op == "Gt" || requirement.op == "Lt") {
    if (value == nullptr || requirement.values.size() != 1) {
      return false;
    }
    const auto have = ParseInt(*value);
    const auto bound = ParseInt(requirement.values[0]);
    if (!have || !bound) {
      return false;
    }
    return requirement.op == "Gt" ? *have > *bound : *have < *bound;
  }
  return false;
}

}  // namespace

bool MatchesTerm(const api::NodeSelectorTerm& term,
                 const api::StringMap& labels,
                 const std::string& node_name) {
  if (term.match_expressions.empty() && term.match_fields.empty()) {
    return false;
  }
  for (const auto& requirement : term.match_expressions) {
    const auto at = labels.find(requirement.key);
    if (!MatchesRequirement(requirement, at == labels.end() ? nullptr : &at->second)) {
      return false;
    }
  }
  for (const auto& requirement : term.match_fields) {
    if (requirement.key != "metadata.name" || !MatchesRequirement(requirement, &node_name)) {
      return false;
    }
  }
  return true;
}

bool MatchesSelector(const api::NodeSelector& selector,
                     const api::StringMap& labels,
                     const std::string& node_name) {
  return !selector.present ||
         std::any_of(selector.terms.begin(), selector.terms.end(), [&](const auto& term) {
           return MatchesTerm(term, labels, node_name);
         });
}

bool MatchesLabels(const api::StringMap& wanted, const api::StringMap& labels) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& entry) {
    const auto at = labels.find(entry.first);
    return at != labels.end() && at->second == entry.second;
  });
}

Exclusion Exclude(const api::Node& node,
                  const api::StringMap& node_selector,
                  const api::NodeSelector& required_affinity,
                  const std::vector<api::Toleration>& tolerations) {
  const auto tolerated = [&](const api::Taint& taint) {
    return std::any_of(tolerations.begin(), tolerations.end(), [&](const auto& toleration) {
      return api::Tolerates(toleration, taint);
    });
  };
  if (node.unschedulable &&
      !tolerated(api::Taint{
          .key = "node.kubernetes.io/unschedulable", .value = "", .effect = "NoSchedule"})) {
    return Exclusion::kUnschedulable;
  }
  for (const auto& taint : node.taints) {
    if ((taint.effect == "NoSchedule" || taint.effect == "NoExecute") && !tolerated(taint)) {
      return Exclusion::kTaint;
    }
  }
  if (!MatchesLabels(node_selector, node.meta.labels)) {
    return Exclusion::kNodeSelector;
  }
  if (!MatchesSelector(required_affinity, node.meta.labels, node.meta.name)) {
    return Exclusion::kAffinity;
  }
  return Exclusion::kNone;
}

std::vector<HostPort> HostPortsOf(const std::vector<api::ContainerPort>& ports) {
  std::vector<HostPort> out;
  for (const auto& port : ports) {
    if (port.host_port > 0) {
      out.push_back(HostPort{.port = port.host_port,
                             .protocol = port.protocol.empty() ? "TCP" : port.protocol,
                             .ip = port.host_ip.empty() ? "0.0.0.0" : port.host_ip});
    }
  }
  return out;
}

bool Conflicts(const HostPort& a, const HostPort& b) {
  return a.port == b.port && a.protocol == b.protocol &&
         (a.ip == b.ip || a.ip == "0.0.0.0" || b.ip == "0.0.0.0");
}

}  // namespace muster::placement
