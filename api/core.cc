#include "api/core.h"

#include <algorithm>
#include <charconv>

namespace muster::api {
namespace {

// Kubernetes' decimal integer: no plus sign, no leading zero, no minus zero, within int64.
std::optional<std::int64_t> DecimalInteger(std::string_view text) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.empty() || (digits.front() == '0' && text.size() > 1)) {
    return std::nullopt;
  }
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

bool PodLevelResource(std::string_view name) {
  return name == "cpu" || name == "memory" || name.starts_with("hugepages-");
}

// A container's requests with what is missing taken from its limits, as the API server defaults
// them in pods.
ResourceVector EffectiveRequests(const Container& container) {
  ResourceVector out = container.requests;
  for (const auto& [name, amount] : container.limits) {
    out.try_emplace(name, amount);
  }
  for (auto& [name, amount] : out) {
    amount = amount.AtLeastZero();
  }
  return out;
}

}  // namespace

bool Tolerates(const Toleration& toleration, const Taint& taint) {
  if (!toleration.effect.empty() && toleration.effect != taint.effect) {
    return false;
  }
  if (!toleration.key.empty() && toleration.key != taint.key) {
    return false;
  }
  if (toleration.op.empty() || toleration.op == "Equal") {
    return toleration.value == taint.value;
  }
  if (toleration.op == "Exists") {
    return true;
  }
  if (toleration.op == "Lt" || toleration.op == "Gt") {
    const auto wanted = DecimalInteger(toleration.value);
    const auto found = DecimalInteger(taint.value);
    if (!wanted || !found) {
      return false;
    }
    return toleration.op == "Lt" ? *found < *wanted : *found > *wanted;
  }
  return false;
}

bool PodSpec::HasGate(std::string_view gate) const {
  return std::ranges::find(scheduling_gates, gate) != scheduling_gates.end();
}

ResourceVector PodRequests(const PodSpec& spec) {
  ResourceVector total;
  for (const Container& container : spec.containers) {
    Add(total, EffectiveRequests(container));
  }
  // An init step runs beside the sidecars that were started before it; sidecars stay for the pod's
  // whole life.
  //   total = max(containers + all sidecars, max over init steps of (step + sidecars before it))
  ResourceVector sidecars;
  ResourceVector init_peak;
  for (const Container& container : spec.init_containers) {
    ResourceVector now = EffectiveRequests(container);
    if (container.restart_always) {
      Add(total, now);
      Add(sidecars, now);
      now = sidecars;
    } else {
      Add(now, sidecars);
    }
    MaxInPlace(init_peak, now);
  }
  MaxInPlace(total, init_peak);

  if (spec.has_pod_resources) {
    // Pod-level requests replace the sum for the resources they may name. A pod-level limit stands
    // in where neither the pod nor a container requests anything; for huge pages, which cannot be
    // overcommitted, also where containers do.
    ResourceVector pod_level = spec.pod_requests;
    for (const auto& [name, amount] : spec.pod_limits) {
      if (!total.contains(name) || name.starts_with("hugepages-")) {
        pod_level.try_emplace(name, amount);
      }
    }
    for (const auto& [name, amount] : pod_level) {
      if (PodLevelResource(name)) {
        total.insert_or_assign(name, amount.AtLeastZero());
      }
    }
  }
  for (const auto& [name, amount] : spec.overhead) {
    total[name] += amount.AtLeastZero();
  }
  return total;
}

}  // namespace muster::api
