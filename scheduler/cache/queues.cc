#include "scheduler/cache/queues.h"

#include <algorithm>
#include <set>

#include "base/strings.h"

namespace muster::scheduler {
namespace {

constexpr std::string_view kMultiKueue = "kueue.x-k8s.io/multikueue";
constexpr std::string_view kProvisioning = "kueue.x-k8s.io/provisioning-request";
constexpr std::string_view kCapacityAnnotation = "muster.dev/capacity";

std::map<quota::FlavorResource, quota::Limits> QuotasOf(
    const std::vector<api::ResourceGroup>& groups) {
  std::map<quota::FlavorResource, quota::Limits> out;
  for (const api::ResourceGroup& group : groups) {
    for (const api::FlavorQuotas& flavor : group.flavors) {
      for (const api::ResourceQuota& quota : flavor.resources) {
        // Negative quantities are refused by the schema; from a server without it they count as
        // nothing.
        const auto floor = [](const std::optional<Amount>& amount) {
          return amount ? std::optional(amount->AtLeastZero()) : std::nullopt;
        };
        out[quota::FlavorResource{.flavor = flavor.name, .resource = quota.name}] =
            quota::Limits{.nominal = quota.nominal.AtLeastZero(),
                          .borrowing = floor(quota.borrowing_limit),
                          .lending = floor(quota.lending_limit)};
      }
    }
  }
  return out;
}

void AppendSelector(std::string& out, const api::LabelSelector& selector) {
  out += selector.present ? "sel" : "nosel";
  for (const auto& [key, value] : selector.match_labels) {
    out += "|" + key + "=" + value;
  }
  for (const api::LabelSelectorRequirement& r : selector.match_expressions) {
    out += "|" + r.key + " " + r.op + " " + Join(r.values, ",");
  }
}

std::string FlavorText(const api::ResourceFlavor& flavor) {
  std::string out = "flavor " + flavor.meta.name + " " + flavor.topology_name + " " +
                    std::to_string(static_cast<int>(CapacityOf(flavor)));
  for (const auto& [key, value] : flavor.node_labels) {
    out += "|" + key + "=" + value;
  }
  for (const api::Taint& taint : flavor.node_taints) {
    out += "|" + taint.key + "=" + taint.value + ":" + taint.effect;
  }
  for (const api::Toleration& t : flavor.tolerations) {
    out += "|" + t.key + " " + t.op + " " + t.value + " " + t.effect;
  }
  return out;
}

std::string QuotaText(const std::map<quota::FlavorResource, quota::Limits>& quotas) {
  std::string out;
  for (const auto& [row, limits] : quotas) {
    out += "|" + row.flavor + "/" + row.resource + "=" + std::to_string(limits.nominal.value());
    if (limits.borrowing) {
      out += "+" + std::to_string(limits.borrowing->value());
    }
    if (limits.lending) {
      out += "-" + std::to_string(limits.lending->value());
    }
  }
  return out;
}

std::string QueueText(const CompiledQueue& queue) {
  const api::ClusterQueue& spec = *queue.spec;
  std::string out = "queue " + spec.meta.name + " " + spec.cohort + " " +
                    (spec.strict_fifo ? "strict " : "best ") +
                    std::to_string(static_cast<int>(spec.stop_policy)) + queue.active.status +
                    queue.active.reason;
  for (const bool flag : {spec.fungibility.can_borrow_try_next,
                          spec.fungibility.can_preempt_try_next,
                          spec.fungibility.preemption_over_borrowing}) {
    out += flag ? '1' : '0';
  }
  out += std::to_string(static_cast<int>(spec.preemption.reclaim_within_cohort)) +
         std::to_string(static_cast<int>(spec.preemption.within_cluster_queue)) +
         std::to_string(static_cast<int>(spec.preemption.borrow_within_cohort)) +
         (spec.preemption.borrow_max_priority_threshold
              ? std::to_string(*spec.preemption.borrow_max_priority_threshold)
              : "");
  AppendSelector(out, spec.namespace_selector);
  for (const api::AdmissionCheckRule& rule : spec.admission_checks) {
    out += "|check " + rule.name + ":" + Join(rule.on_flavors, ",");
  }
  for (const CompiledGroup& group : queue.groups) {
    out += "|group " + Join(group.covered, ",");
    for (const CompiledFlavor& flavor : group.flavors) {
      out += "|" + (flavor.flavor ? FlavorText(*flavor.flavor) : "missing " + flavor.name);
    }
  }
  out += QuotaText(QuotasOf(spec.resource_groups));
  return out;
}

// The Active condition: the first reason that applies, all messages.
api::Condition ActiveCondition(const api::ClusterQueue& queue,
                               const QueueObjects& objects,
                               bool cyclic) {
  api::Condition out{.type = "Active",
                     .status = "False",
                     .reason = {},
                     .message = {},
                     .last_transition_time = {},
                     .observed_generation = queue.meta.generation};
  if (queue.meta.deleting()) {
    out.reason = "Terminating";
    out.message = "Can't admit new workloads; clusterQueue is terminating";
    return out;
  }
  std::vector<std::string> messages;
  const auto add = [&](std::string_view reason, std::string message) {
    if (out.reason.empty()) {
      out.reason = reason;
    }
    messages.push_back(std::move(message));
  };
  if (queue.stop_policy != api::StopPolicy::kNone) {
    add("Stopped", "is stopped");
  }
  if (cyclic) {
    add("CohortCycleDetected",
        "cohort " + queue.cohort + " is part of a cycle of parents or below one");
  }
  std::set<std::string> missing_flavors;
  std::vector<std::string> missing_topologies;
  for (const api::ResourceGroup& group : queue.resource_groups) {
    for (const api::FlavorQuotas& flavor : group.flavors) {
      const auto it = objects.flavors.find(flavor.name);
      if (it == objects.flavors.end()) {
        missing_flavors.insert(flavor.name);
      } else if (!it->second->topology_name.empty() &&
                 !objects.topologies.contains(it->second->topology_name)) {
        missing_topologies.push_back("there is no Topology \"" + it->second->topology_name +
                                     "\" for TAS flavor \"" + flavor.name + "\"");
      }
    }
  }
  std::set<std::string> missing_checks;
  std::set<std::string> inactive_checks;
  std::set<std::string> multikueue;
  std::set<std::string> per_flavor;
  std::set<std::string> provisioning;
  for (const api::AdmissionCheckRule& rule : queue.admission_checks) {
    const auto it = objects.checks.find(rule.name);
    if (it == objects.checks.end()) {
      missing_checks.insert(rule.name);
      continue;
    }
    if (!api::ConditionTrue(it->second->conditions, "Active")) {
      inactive_checks.insert(rule.name);
    }
    if (it->second->controller_name == kMultiKueue) {
      multikueue.insert(rule.name);
      if (!rule.on_flavors.empty()) {
        per_flavor.insert(rule.name);
      }
    }
    if (it->second->controller_name == kProvisioning) {
      provisioning.insert(rule.name);
    }
  }
  const auto list = [](const std::set<std::string>& names) {
    return Join(std::vector<std::string>(names.begin(), names.end()), ",");
  };
  if (!missing_flavors.empty()) {
    add("FlavorNotFound", "references missing ResourceFlavor(s): " + list(missing_flavors));
  }
  if (!missing_checks.empty()) {
    add("AdmissionCheckNotFound", "references missing AdmissionCheck(s): " + list(missing_checks));
  }
  if (!inactive_checks.empty()) {
    add("AdmissionCheckInactive",
        "references inactive AdmissionCheck(s): " + list(inactive_checks));
  }
  if (multikueue.size() > 1) {
    add("MultipleMultiKueueAdmissionChecks",
        "Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, found: " +
            list(multikueue));
  }
  if (!per_flavor.empty()) {
    add("MultiKueueAdmissionCheckAppliedPerFlavor",
        "Cannot specify MultiKueue AdmissionCheck per flavor, found: " + list(per_flavor));
  }
  if (!multikueue.empty() && !provisioning.empty()) {
    add("MultiKueueWithProvisioningRequest",
        "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, found: " +
            list(multikueue) + ", " + list(provisioning));
  }
  if (multikueue.empty()) {
    for (std::string& message : missing_topologies) {
      add("TopologyNotFound", std::move(message));
    }
  }
  if (messages.empty()) {
    out.status = "True";
    out.reason = "Ready";
    out.message = "Can admit new workloads";
  } else {
    out.message = "Can't admit new workloads: " + Join(messages, ", ") + ".";
  }
  return out;
}

}  // namespace

Capacity CapacityOf(const api::ResourceFlavor& flavor) {
  const std::string* value = flavor.meta.Annotation(kCapacityAnnotation);
  if (value != nullptr && *value == "Fixed") {
    return Capacity::kFixed;
  }
  return value != nullptr && *value == "Elastic" ? Capacity::kElastic : Capacity::kAuto;
}

std::vector<std::string> RequiredChecks(const api::ClusterQueue& queue,
                                        const std::vector<std::string>& flavors) {
  std::vector<std::string> out;
  for (const api::AdmissionCheckRule& rule : queue.admission_checks) {
    const bool applies =
        rule.on_flavors.empty() ||
        std::any_of(rule.on_flavors.begin(), rule.on_flavors.end(), [&](const std::string& flavor) {
          return std::find(flavors.begin(), flavors.end(), flavor) != flavors.end();
        });
    if (applies) {
      out.push_back(rule.name);
    }
  }
  return out;
}

Configuration Compile(const QueueObjects& objects,
                      std::vector<std::pair<std::string, quota::FlavorResource>> used) {
  quota::ForestConfig forest;
  forest.used = std::move(used);
  for (const auto& [name, cohort] : objects.cohorts) {
    forest.cohorts.push_back(
        {.name = name, .parent = cohort->parent, .quotas = QuotasOf(cohort->resource_groups)});
  }
  for (const auto& [name, queue] : objects.cluster_queues) {
    forest.queues.push_back(
        {.name = name, .parent = queue->cohort, .quotas = QuotasOf(queue->resource_groups)});
  }
  Configuration out;
  out.ledger = quota::Forest::Build(forest);
  const std::size_t trees = out.ledger.tree_count();
  out.roots.resize(trees);
  out.fingerprints.resize(trees);
  out.members.resize(trees);
  for (std::size_t t = 0; t < trees; ++t) {
    const quota::Tree& tree = out.ledger.tree(t);
    out.roots[t] = (tree.is_queue(quota::Tree::root()) ? "queue/" : "cohort/") +
                   tree.name(quota::Tree::root());
  }
  for (const quota::NodeConfig& cohort : forest.cohorts) {
    if (const quota::QueuePlace* place = out.ledger.FindCohort(cohort.name)) {
      out.fingerprints[place->tree] +=
          "cohort " + cohort.name + "<" + cohort.parent + QuotaText(cohort.quotas) + "\n";
    }
  }

  for (std::size_t t = 0; t < out.ledger.tree_count(); ++t) {
    const quota::Tree& tree = out.ledger.tree(t);
    std::vector<quota::Weight> weights;
    for (std::size_t i = 0; i < tree.node_count(); ++i) {
      const auto node = static_cast<quota::NodeIndex>(i);
      const std::optional<api::Quantity>* weight = nullptr;
      if (tree.is_queue(node)) {
        weight = &objects.cluster_queues.at(tree.name(node))->fair_weight;
      } else if (const auto it = objects.cohorts.find(tree.name(node));
                 it != objects.cohorts.end()) {
        weight = &it->second->fair_weight;
      }
      weights.push_back(weight != nullptr && *weight
                            ? quota::Weight::FromNano((*weight)->NanoValue())
                            : quota::Weight{});
      if (weight != nullptr && *weight) {
        out.fingerprints[t] += "weight " + std::to_string(i) + " " + (*weight)->ToString() + "\n";
      }
    }
    out.shares.push_back(std::make_shared<const quota::FairShares>(tree, std::move(weights)));
  }

  auto queues = std::make_shared<CompiledQueues>();
  for (const auto& [name, spec] : objects.cluster_queues) {
    auto queue = std::make_shared<CompiledQueue>();
    queue->name = name;
    queue->spec = spec;
    const quota::QueuePlace* place = out.ledger.Find(name);
    if (place != nullptr) {
      queue->place = *place;
    }
    queue->active = ActiveCondition(*spec, objects, place == nullptr);
    queue->fungibility = quota::Fungibility{
        .can_borrow_try_next = spec->fungibility.can_borrow_try_next,
        .can_preempt_try_next = spec->fungibility.can_preempt_try_next,
        .preemption_over_borrowing = spec->fungibility.preemption_over_borrowing};
    for (const api::AdmissionCheckRule& rule : spec->admission_checks) {
      const auto it = objects.checks.find(rule.name);
      queue->provisioning_check =
          queue->provisioning_check ||
          (it != objects.checks.end() && it->second->controller_name == kProvisioning);
    }
    for (const api::ResourceGroup& group : spec->resource_groups) {
      CompiledGroup compiled;
      for (const std::string& resource : group.covered_resources) {
        queue->resources.try_emplace(resource, queue->groups.size(), compiled.covered.size());
        compiled.covered.push_back(resource);
      }
      for (const api::FlavorQuotas& quotas : group.flavors) {
        CompiledFlavor flavor{
            .name = quotas.name, .flavor = nullptr, .capacity = Capacity::kAuto, .rows = {}};
        if (const auto it = objects.flavors.find(quotas.name); it != objects.flavors.end()) {
          flavor.flavor = it->second;
          flavor.capacity = CapacityOf(*it->second);
        }
        bool whole = place != nullptr;
        for (const std::string& resource : compiled.covered) {
          const auto row = place == nullptr
                               ? std::nullopt
                               : out.ledger.tree(place->tree).FindRow(quotas.name, resource);
          whole = whole && row.has_value();
          flavor.rows.push_back(row.value_or(quota::Row{0}));
        }
        // The schema makes every flavor of a group name every covered resource. One that does not,
        // has nothing to give.
        if (whole) {
          compiled.flavors.push_back(std::move(flavor));
        }
      }
      queue->groups.push_back(std::move(compiled));
    }
    if (place != nullptr) {
      out.fingerprints[place->tree] += QueueText(*queue) + "\n";
      out.members[place->tree].push_back(name);
    }
    queues->emplace(name, std::move(queue));
  }
  out.queues = std::move(queues);
  return out;
}

}  // namespace muster::scheduler
