#include <string>
#include <utility>

#include "api/decode_kinds.h"
#include "api/decode_parts.h"

namespace muster::api {
namespace {

void ReadResourceGroups(const Field& field, std::vector<ResourceGroup>& out) {
  field.ReadList(out, [](const Field& item, ResourceGroup& group) {
    item["coveredResources"].Read(group.covered_resources);
    item["flavors"].ReadList(group.flavors, [](const Field& entry, FlavorQuotas& flavor) {
      entry["name"].Read(flavor.name);
      entry["resources"].ReadList(flavor.resources, [](const Field& r, ResourceQuota& quota) {
        r["name"].Read(quota.name);
        const auto limit = [&](const char* key, std::optional<Amount>& target) {
          std::optional<Quantity> quantity;
          r[key].Read(quantity);
          if (quantity) {
            target = QuotaAmount(quota.name, *quantity);
          }
        };
        r["nominalQuota"].Read(quota.nominal_quantity);
        quota.nominal = QuotaAmount(quota.name, quota.nominal_quantity);
        limit("borrowingLimit", quota.borrowing_limit);
        limit("lendingLimit", quota.lending_limit);
      });
    });
  });
}

void ReadStopPolicy(const Field& field, StopPolicy& out) {
  field.ReadWord(out,
                 {{"None", std::to_underlying(StopPolicy::kNone)},
                  {"Hold", std::to_underlying(StopPolicy::kHold)},
                  {"HoldAndDrain", std::to_underlying(StopPolicy::kHoldAndDrain)}});
}

void ReadPreemptionPolicy(const Field& field, PreemptionPolicy& out) {
  field.ReadWord(out,
                 {{"Never", std::to_underlying(PreemptionPolicy::kNever)},
                  {"LowerPriority", std::to_underlying(PreemptionPolicy::kLowerPriority)},
                  {"LowerOrNewerEqualPriority",
                   std::to_underlying(PreemptionPolicy::kLowerOrNewerEqualPriority)},
                  {"Any", std::to_underlying(PreemptionPolicy::kAny)}});
}

void ReadTopologyRequest(const Field& field, std::optional<TopologyRequest>& out) {
  if (!field.present()) {
    return;
  }
  TopologyRequest request;
  field["required"].Read(request.required);
  field["preferred"].Read(request.preferred);
  field["unconstrained"].Read(request.unconstrained);
  field["podIndexLabel"].Read(request.pod_index_label);
  field["subGroupIndexLabel"].Read(request.sub_group_index_label);
  field["subGroupCount"].Read(request.sub_group_count);
  field["podSetGroupName"].Read(request.group_name);
  field["podSetSliceRequiredTopology"].Read(request.slice_required);
  field["podSetSliceSize"].Read(request.slice_size);
  field["podsetSliceRequiredTopologyConstraints"].ReadList(
      request.slice_constraints, [](const Field& item, SliceConstraint& constraint) {
        item["topology"].Read(constraint.topology);
        item["size"].Read(constraint.size);
      });
  out = std::move(request);
}

void ReadCount(const Field& field, std::int32_t& out) {
  field.Read(out);
  if (out < 0) {
    field.Fail("must be greater than or equal to 0, got " + std::to_string(out));
  }
}

void ReadPodSet(const Field& item, PodSet& out) {
  item["name"].Read(out.name);
  ReadPodTemplate(item["template"], out.pod_template);
  ReadCount(item["count"], out.count);
  item["minCount"].Read(out.min_count);
  ReadTopologyRequest(item["topologyRequest"], out.topology);
}

// A slice says "N domains, all with these values, all with this count" in a few bytes; the sum over
// the slices of one assignment is bounded so that a small object cannot claim all memory.
constexpr std::size_t kMostDomains = 200'000;

// One level of a slice: the same value for all domains, or prefix + roots[i] + suffix.
struct LevelValues {
  bool universal = false;
  std::string prefix;  // the whole value when universal
  std::string suffix;
  std::vector<std::string> roots;
};

void ReadSlice(const Field& slice, std::size_t level_count, TopologyAssignment& out) {
  std::int32_t domain_count = 0;
  slice["domainCount"].Required().Read(domain_count);
  if (domain_count < 1 ||
      static_cast<std::size_t>(domain_count) > kMostDomains - out.domains.size()) {
    slice["domainCount"].Fail("must be at least 1, and at most " + std::to_string(kMostDomains) +
                              " over all slices, got " + std::to_string(domain_count));
  }
  const auto domains = static_cast<std::size_t>(std::max(domain_count, 0));
  std::vector<LevelValues> levels;
  const Field values = slice["valuesPerLevel"];
  values.ReadList(levels, [&](const Field& item, LevelValues& level) {
    const Field universal = item["universal"];
    const Field individual = item["individual"];
    if (universal.present() == individual.present()) {
      item.Fail("exactly one of universal, individual must be set");
    }
    level.universal = universal.present();
    universal.Read(level.prefix);
    individual["prefix"].Read(level.prefix);
    individual["suffix"].Read(level.suffix);
    individual["roots"].Read(level.roots);
    if (!level.universal && level.roots.size() != domains) {
      individual["roots"].Fail("must have as many entries as domainCount, " +
                               std::to_string(domains));
    }
  });
  if (levels.size() != level_count) {
    values.Fail("must have one entry a level, " + std::to_string(level_count));
  }
  const Field counts = slice["podCounts"];
  const Field universal_count = counts["universal"];
  const Field individual_counts = counts["individual"];
  std::vector<std::int32_t> pods;
  individual_counts.ReadList(
      pods, [](const Field& item, std::int32_t& count) { ReadCount(item.Required(), count); });
  std::int32_t same = 0;
  ReadCount(universal_count, same);
  if (universal_count.present() == individual_counts.present()) {
    counts.Fail("exactly one of universal, individual must be set");
  } else if (individual_counts.present() && pods.size() != domains) {
    individual_counts.Fail("must have as many entries as domainCount, " + std::to_string(domains));
  }
  if (!slice.present()) {
    return;  // something above failed
  }
  for (std::size_t i = 0; i < domains; ++i) {
    TopologyDomainAssignment domain;
    domain.values.reserve(levels.size());
    for (const LevelValues& level : levels) {
      domain.values.push_back(level.universal ? level.prefix
                                              : level.prefix + level.roots[i] + level.suffix);
    }
    domain.count = pods.empty() ? same : pods[i];
    out.domains.push_back(std::move(domain));
  }
}

void ReadTopologyAssignment(const Field& field, std::optional<TopologyAssignment>& out) {
  if (!field.present()) {
    return;
  }
  TopologyAssignment assignment;
  field["levels"].Read(assignment.levels);
  constexpr std::size_t kMostLevels = 16;
  if (assignment.levels.size() > kMostLevels) {
    field["levels"].Fail("must have at most " + std::to_string(kMostLevels) + " entries");
  }
  field["slices"].Each(
      [&](const Field& slice) { ReadSlice(slice, assignment.levels.size(), assignment); });
  out = std::move(assignment);
}

void ReadAdmission(const Field& field, std::optional<Admission>& out) {
  if (!field.present()) {
    return;
  }
  Admission admission;
  field["clusterQueue"].Read(admission.cluster_queue);
  field["podSetAssignments"].ReadList(
      admission.pod_sets, [](const Field& item, PodSetAssignment& assignment) {
        item["name"].Read(assignment.name);
        item["flavors"].Read(assignment.flavors);
        item["resourceUsage"].Read(assignment.resource_usage);
        if (item["count"].present()) {
          std::int32_t count = 0;
          ReadCount(item["count"], count);
          assignment.count = count;
        }
        ReadTopologyAssignment(item["topologyAssignment"], assignment.topology);
        std::string delayed;
        item["delayedTopologyRequest"].Read(delayed);
        assignment.delayed_topology_pending = delayed == "Pending";
      });
  out = std::move(admission);
}

void ReadAdmissionCheckState(const Field& item, AdmissionCheckState& out) {
  item["name"].Read(out.name);
  item["state"].Read(out.state);
  item["message"].Read(out.message);
  item["lastTransitionTime"].Read(out.last_transition_time);
  item["requeueAfterSeconds"].Read(out.requeue_after_seconds);
  item["retryCount"].Read(out.retry_count);
  const Field updates = item["podSetUpdates"];
  updates.ReadList(out.pod_set_updates, [](const Field& entry, PodSetUpdate& update) {
    entry["name"].Read(update.name);
    entry["labels"].Read(update.labels);
    entry["annotations"].Read(update.annotations);
    entry["nodeSelector"].Read(update.node_selector);
    ReadTolerations(entry["tolerations"], update.tolerations);
    entry["tolerations"].ReadRaw(update.tolerations_raw);
  });
  updates.ReadRaw(out.pod_set_updates_raw);
}

void ReadFairSharing(const Field& field, std::optional<Quantity>& weight) {
  field["weight"].Read(weight);
}

}  // namespace

bool Workload::ConditionIsTrue(std::string_view type) const {
  return ConditionTrue(conditions, type);
}

const Condition* Workload::FindCondition(std::string_view type) const {
  return api::FindCondition(conditions, type);
}

void ReadObject(const Field& root, ResourceFlavor& out) {
  const Field spec = root["spec"];
  spec["nodeLabels"].Read(out.node_labels);
  ReadTaints(spec["nodeTaints"], out.node_taints);
  ReadTolerations(spec["tolerations"], out.tolerations);
  spec["topologyName"].Read(out.topology_name);
}

void ReadObject(const Field& root, Topology& out) {
  root["spec"]["levels"].Each([&](const Field& item) {
    std::string label;
    item["nodeLabel"].Required().Read(label);
    out.levels.push_back(std::move(label));
  });
}

void ReadObject(const Field& root, AdmissionCheck& out) {
  root["spec"]["controllerName"].Read(out.controller_name);
  ReadConditions(root["status"]["conditions"], out.conditions);
}

void ReadObject(const Field& root, WorkloadPriorityClass& out) {
  root["value"].Read(out.value);
}

void ReadObject(const Field& root, Cohort& out) {
  const Field spec = root["spec"];
  spec["parentName"].Read(out.parent);
  ReadResourceGroups(spec["resourceGroups"], out.resource_groups);
  ReadFairSharing(spec["fairSharing"], out.fair_weight);
  root["status"].ReadRaw(out.status);
}

void ReadObject(const Field& root, ClusterQueue& out) {
  const Field spec = root["spec"];
  spec["cohortName"].Read(out.cohort);
  ReadResourceGroups(spec["resourceGroups"], out.resource_groups);
  spec["queueingStrategy"].ReadWord(out.strict_fifo, {{"BestEffortFIFO", 0}, {"StrictFIFO", 1}});
  ReadLabelSelector(spec["namespaceSelector"], out.namespace_selector);

  const Field fungibility = spec["flavorFungibility"];
  // Borrow and Preempt are the words of v1beta1 for MayStopSearch.
  fungibility["whenCanBorrow"].ReadWord(
      out.fungibility.can_borrow_try_next,
      {{"MayStopSearch", 0}, {"TryNextFlavor", 1}, {"Borrow", 0}});
  fungibility["whenCanPreempt"].ReadWord(
      out.fungibility.can_preempt_try_next,
      {{"MayStopSearch", 0}, {"TryNextFlavor", 1}, {"Preempt", 0}});
  fungibility["preference"].ReadWord(
      out.fungibility.preemption_over_borrowing,
      {{"BorrowingOverPreemption", 0}, {"PreemptionOverBorrowing", 1}});

  const Field preemption = spec["preemption"];
  ReadPreemptionPolicy(preemption["reclaimWithinCohort"], out.preemption.reclaim_within_cohort);
  ReadPreemptionPolicy(preemption["withinClusterQueue"], out.preemption.within_cluster_queue);
  const Field borrow = preemption["borrowWithinCohort"];
  ReadPreemptionPolicy(borrow["policy"], out.preemption.borrow_within_cohort);
  borrow["maxPriorityThreshold"].Read(out.preemption.borrow_max_priority_threshold);

  spec["admissionChecksStrategy"]["admissionChecks"].ReadList(
      out.admission_checks, [](const Field& item, AdmissionCheckRule& rule) {
        item["name"].Read(rule.name);
        item["onFlavors"].Read(rule.on_flavors);
      });
  ReadStopPolicy(spec["stopPolicy"], out.stop_policy);
  ReadFairSharing(spec["fairSharing"], out.fair_weight);
  std::string mode;
  spec["admissionScope"]["admissionMode"].Read(mode);
  out.usage_based_fair_sharing = mode == "UsageBasedAdmissionFairSharing";
  root["status"].ReadRaw(out.status);
}

void ReadObject(const Field& root, LocalQueue& out) {
  const Field spec = root["spec"];
  spec["clusterQueue"].Read(out.cluster_queue);
  ReadStopPolicy(spec["stopPolicy"], out.stop_policy);
  ReadFairSharing(spec["fairSharing"], out.fair_weight);
  root["status"].ReadRaw(out.status);
}

void ReadObject(const Field& root, Workload& out) {
  const Field spec = root["spec"];
  spec["podSets"].ReadList(out.pod_sets, ReadPodSet);
  spec["queueName"].Read(out.queue_name);
  const Field ref = spec["priorityClassRef"];
  if (ref.present()) {
    out.priority_class.emplace();
    ref["group"].Read(out.priority_class->group);
    ref["kind"].Read(out.priority_class->kind);
    ref["name"].Read(out.priority_class->name);
  }
  spec["priority"].Read(out.priority);
  spec["active"].Read(out.active);
  spec["maximumExecutionTimeSeconds"].Read(out.max_execution_seconds);

  const Field status = root["status"];
  ReadConditions(status["conditions"], out.conditions);
  ReadAdmission(status["admission"], out.admission);
  const Field requeue = status["requeueState"];
  if (requeue.present()) {
    out.requeue_state.emplace();
    requeue["count"].Read(out.requeue_state->count);
    requeue["requeueAt"].Read(out.requeue_state->requeue_at);
  }
  status["reclaimablePods"].Each([&](const Field& item) {
    std::string name;
    std::int32_t count = 0;
    item["name"].Read(name);
    ReadCount(item["count"], count);
    out.reclaimable_pods.insert_or_assign(std::move(name), count);
  });
  status["admissionChecks"].ReadList(out.admission_checks, ReadAdmissionCheckState);
  status["accumulatedPastExecutionTimeSeconds"].Read(out.accumulated_past_execution_seconds);
  status.ReadRaw(out.status);
}

}  // namespace muster::api
