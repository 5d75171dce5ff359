#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/core.h"

// Whether one pod may be on one node as far as names, labels and taints go.
//
// Source   kube-scheduler's plugins NodeUnschedulable, TaintToleration and NodeAffinity.
namespace muster::placement {

enum class Exclusion : std::uint8_t {
  kNone,
  kUnschedulable,
  kTaint,
  kNodeSelector,
  kAffinity,
  kClaim,  // an allocated claim can be used elsewhere only
};

// `term` on a node's labels and name. A term without requirements matches nothing, an unknown
// operator neither.
[[nodiscard]] bool MatchesTerm(const api::NodeSelectorTerm& term,
                               const api::StringMap& labels,
                               const std::string& node_name);
// True when no selector is present; a present one without terms matches nothing.
[[nodiscard]] bool MatchesSelector(const api::NodeSelector& selector,
                                   const api::StringMap& labels,
                                   const std::string& node_name);
[[nodiscard]] bool MatchesLabels(const api::StringMap& wanted, const api::StringMap& labels);

// The first reason, in kube-scheduler's order, why a pod with these fields may not be on `node`.
[[nodiscard]] Exclusion Exclude(const api::Node& node,
                                const api::StringMap& node_selector,
                                const api::NodeSelector& required_affinity,
                                const std::vector<api::Toleration>& tolerations);

struct HostPort {
  std::int32_t port = 0;
  std::string protocol;  // never empty
  std::string ip;        // never empty; 0.0.0.0 stands for all addresses

  friend auto operator<=>(const HostPort&, const HostPort&) = default;
};
[[nodiscard]] std::vector<HostPort> HostPortsOf(const std::vector<api::ContainerPort>& ports);
[[nodiscard]] bool Conflicts(const HostPort& a, const HostPort& b);

}  // namespace muster::placement
