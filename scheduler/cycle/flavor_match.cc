#include "scheduler/cycle/flavor_match.h"

#include <algorithm>
#include <charconv>

namespace muster::scheduler {
namespace {

std::optional<std::int64_t> Number(const std::string& text) {
  std::int64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(out)
                                                                  : std::nullopt;
}

// `value` is what the flavor labels the key with; the key is always present here.
bool Holds(const api::NodeSelectorRequirement& requirement, const std::string& value) {
  const auto listed = [&] {
    return std::find(requirement.values.begin(), requirement.values.end(), value) !=
           requirement.values.end();
  };
  if (requirement.op == "In") {
    return listed();
  }
  if (requirement.op == "NotIn") {
    return !listed();
  }
  if (requirement.op == "Exists") {
    return true;
  }
  if (requirement.op == "Gt" || requirement.op == "Lt") {
    const auto have = Number(value);
    const auto bound =
        requirement.values.size() == 1 ? Number(requirement.values[0]) : std::nullopt;
    return have && bound && (requirement.op == "Gt" ? *have > *bound : *have < *bound);
  }
  return false;  // DoesNotExist, and operators that nobody knows
}

bool AffinityHolds(const api::NodeSelector& affinity, const api::StringMap& labels) {
  if (!affinity.present) {
    return true;
  }
  bool any = false;
  for (const api::NodeSelectorTerm& term : affinity.terms) {
    bool judged = false;
    bool holds = true;
    for (const api::NodeSelectorRequirement& requirement : term.match_expressions) {
      if (const auto it = labels.find(requirement.key); it != labels.end()) {
        judged = true;
        holds = holds && Holds(requirement, it->second);
      }
    }
    if (!judged) {
      return true;
    }
    any = any || holds;
  }
  return any;
}

}  // namespace

std::optional<std::string> FlavorMismatch(const api::ResourceFlavor& flavor,
                                          const api::PodSpec& spec) {
  for (const api::Taint& taint : flavor.node_taints) {
    if (taint.effect != "NoSchedule" && taint.effect != "NoExecute") {
      continue;
    }
    const auto tolerated = [&](const std::vector<api::Toleration>& tolerations) {
      return std::any_of(tolerations.begin(), tolerations.end(), [&](const api::Toleration& t) {
        return api::Tolerates(t, taint);
      });
    };
    if (!tolerated(spec.tolerations) && !tolerated(flavor.tolerations)) {
      return "untolerated taint {" + taint.key + " " + taint.value + " " + taint.effect +
             " <nil>} in flavor " + flavor.meta.name;
    }
  }
  for (const auto& [key, value] : spec.node_selector) {
    if (const auto it = flavor.node_labels.find(key);
        it != flavor.node_labels.end() && it->second != value) {
      return "flavor " + flavor.meta.name + " doesn't match node affinity";
    }
  }
  if (!AffinityHolds(spec.required_affinity, flavor.node_labels)) {
    return "flavor " + flavor.meta.name + " doesn't match node affinity";
  }
  return std::nullopt;
}

}  // namespace muster::scheduler
