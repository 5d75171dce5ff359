#include "test/support/decision_world.h"

#include <gtest/gtest.h>

#include "test/support/case_file.h"

namespace muster::test {
namespace {

using api::Json;

void SetCondition(Json& status,
                  const std::string& type,
                  const std::string& value,
                  const std::string& reason,
                  const std::string& message,
                  TimePoint now) {
  Json& conditions = status["conditions"];
  if (!conditions.is_array()) {
    conditions = Json::array();
  }
  for (auto it = conditions.begin(); it != conditions.end(); ++it) {
    if ((*it)["type"] == type) {
      conditions.erase(it);
      break;
    }
  }
  conditions.push_back({{"type", type},
                        {"status", value},
                        {"reason", reason},
                        {"message", message},
                        {"lastTransitionTime", FormatTime(now)}});
}

// {cpu: 4} -> {cpu: "4"}
Json Quantities(const Json& amounts) {
  Json out = Json::object();
  for (const auto& [resource, amount] : amounts.items()) {
    out[resource] = Text(amount);
  }
  return out;
}

// One flavor: `nominal: {cpu: 4}` with limits beside it; several: `flavors: [{name, nominal,
// ...}]`.
Json ResourceGroups(const Json& queue) {
  Json groups = Json::array();
  const auto flavor_quotas = [](const std::string& name, const Json& from) {
    Json resources = Json::array();
    for (const auto& [resource, amount] : At(from, "nominal").items()) {
      Json entry{{"name", resource}, {"nominalQuota", Text(amount)}};
      for (const auto& [key, field] : {std::pair("borrowing_limit", "borrowingLimit"),
                                       std::pair("lending_limit", "lendingLimit")}) {
        const Json& limit = At(At(from, key), resource);
        if (!limit.is_null()) {
          entry[field] = Text(limit);
        }
      }
      resources.push_back(std::move(entry));
    }
    return Json{{"name", name}, {"resources", resources}};
  };
  const auto group_of = [&](const Json& flavors) {
    Json covered = Json::array();
    for (const auto& resource : flavors[0]["resources"]) {
      covered.push_back(resource["name"]);
    }
    groups.push_back({{"coveredResources", covered}, {"flavors", flavors}});
  };
  const auto list = [&](const Json& flavors) {
    Json out = Json::array();
    for (const Json& flavor : flavors) {
      out.push_back(flavor_quotas(flavor["name"].get<std::string>(), flavor));
    }
    group_of(out);
  };
  if (queue.contains("groups")) {
    for (const Json& group : queue["groups"]) {
      list(group);
    }
  } else if (queue.contains("flavors")) {
    list(queue["flavors"]);
  } else if (!At(queue, "nominal").is_null()) {
    group_of(Json::array({flavor_quotas(queue.value("flavor", "default"), queue)}));
  }
  return groups;
}

}  // namespace

DecisionWorld::DecisionWorld(scheduler::Options options)
    : options_(options), state_(options), now_(ParseTime("2026-01-01T00:00:00Z").value()) {
  state_.SetSynced();
}

void DecisionWorld::Apply(Json object) {
  const std::string api_version = object.value("apiVersion", "");
  const std::size_t slash = api_version.find('/');
  const auto kind = api::FindKind(slash == std::string::npos ? "" : api_version.substr(0, slash),
                                  object.value("kind", ""));
  ASSERT_TRUE(kind.has_value()) << object.dump();
  Json& meta = object["metadata"];
  const std::string ns = meta.value("namespace", "");
  const std::string name = meta.value("name", "");
  if (!ns.empty()) {
    NeedNamespace(ns);
  }
  meta["resourceVersion"] = std::to_string(++version_);
  if (!meta.contains("uid")) {
    meta["uid"] = "uid-" + std::to_string(1'000'000 + created_++);
  }
  if (!meta.contains("creationTimestamp")) {
    meta["creationTimestamp"] = FormatTime(now_);
  }
  auto decoded = api::Decode(*kind, object);
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  if (*kind == api::Kind::kWorkload) {
    workloads_[name] = object;
  } else {
    others_[{static_cast<int>(*kind), ns + "/" + name}] = object;
  }
  state_.Upsert(*decoded, now_);
}

void DecisionWorld::Remove(api::Kind kind, const std::string& ns, const std::string& name) {
  if (kind == api::Kind::kWorkload) {
    workloads_.erase(name);
    decisions_.erase(name);
  } else {
    others_.erase({static_cast<int>(kind), ns + "/" + name});
  }
  state_.Delete(kind, api::ObjectKey{.ns = ns, .name = name}, now_);
}

void DecisionWorld::NeedNamespace(const std::string& ns) {
  if (namespaces_.insert(ns).second) {
    Apply({{"apiVersion", "v1"},
           {"kind", "Namespace"},
           {"metadata", {{"name", ns}, {"labels", {{"kubernetes.io/metadata.name", ns}}}}}});
  }
}

void DecisionWorld::AddFlavor(const Json& flavor) {
  Json object{{"apiVersion", "kueue.x-k8s.io/v1beta2"},
              {"kind", "ResourceFlavor"},
              {"metadata", {{"name", flavor["name"]}}},
              {"spec", Json::object()}};
  for (const auto& [key, field] : {std::pair("labels", "nodeLabels"),
                                   std::pair("taints", "nodeTaints"),
                                   std::pair("tolerations", "tolerations"),
                                   std::pair("topology", "topologyName")}) {
    if (flavor.contains(key)) {
      object["spec"][field] = flavor[key];
    }
  }
  if (flavor.contains("capacity")) {
    object["metadata"]["annotations"]["muster.dev/capacity"] = flavor["capacity"];
  }
  Apply(std::move(object));
}

void DecisionWorld::AddCohort(const Json& cohort) {
  Json object{{"apiVersion", "kueue.x-k8s.io/v1beta2"},
              {"kind", "Cohort"},
              {"metadata", {{"name", cohort["name"]}}},
              {"spec", {{"resourceGroups", ResourceGroups(cohort)}}}};
  if (cohort.contains("parent")) {
    object["spec"]["parentName"] = cohort["parent"];
  }
  Apply(std::move(object));
}

void DecisionWorld::AddQueue(const Json& queue) {
  const auto name = queue["name"].get<std::string>();
  Json spec{{"resourceGroups", ResourceGroups(queue)},
            {"namespaceSelector", queue.value("namespace_selector", Json::object())}};
  for (const auto& [key, field] : {std::pair("cohort", "cohortName"),
                                   std::pair("preemption", "preemption"),
                                   std::pair("fungibility", "flavorFungibility"),
                                   std::pair("stop", "stopPolicy")}) {
    if (queue.contains(key)) {
      spec[field] = queue[key];
    }
  }
  if (queue.value("strict", false)) {
    spec["queueingStrategy"] = "StrictFIFO";
  }
  if (queue.contains("checks")) {
    Json checks = Json::array();
    for (const Json& check : queue["checks"]) {
      checks.push_back({{"name", check}});
    }
    spec["admissionChecksStrategy"] = {{"admissionChecks", checks}};
  }
  Apply({{"apiVersion", "kueue.x-k8s.io/v1beta2"},
         {"kind", "ClusterQueue"},
         {"metadata", {{"name", name}}},
         {"spec", spec}});
  const std::string ns = queue.value("namespace", "ns");
  if (local_queues_.insert(ns + "/" + name).second) {
    Apply({{"apiVersion", "kueue.x-k8s.io/v1beta2"},
           {"kind", "LocalQueue"},
           {"metadata", {{"name", name}, {"namespace", ns}}},
           {"spec", {{"clusterQueue", name}}}});
  }
}

void DecisionWorld::AddNode(const Json& node) {
  Json allocatable = Quantities(node["allocatable"]);
  if (!allocatable.contains("pods")) {
    allocatable["pods"] = "110";
  }
  Json labels = node.value("labels", Json::object());
  labels["kubernetes.io/hostname"] = node["name"];
  Json spec = Json::object();
  if (node.contains("taints")) {
    spec["taints"] = node["taints"];
  }
  Apply({{"apiVersion", "v1"},
         {"kind", "Node"},
         {"metadata", {{"name", node["name"]}, {"labels", labels}}},
         {"spec", spec},
         {"status",
          {{"allocatable", allocatable},
           {"conditions", Json::array({{{"type", "Ready"}, {"status", "True"}}})}}}});
}

void DecisionWorld::AddWorkload(const Json& workload) {
  Json pod_sets = Json::array();
  const auto add = [&](const Json& from, const std::string& name) {
    Json container{{"name", "c"}, {"image", "i"}};
    container["resources"]["requests"] = Quantities(from.value("each", Json::object()));
    if (from.contains("limits")) {
      container["resources"]["limits"] = Quantities(from["limits"]);
    }
    Json spec{{"containers", Json::array({container})}};
    if (from.contains("containers")) {
      spec["containers"] = from["containers"];
    }
    if (from.contains("spec")) {
      spec.merge_patch(from["spec"]);
    }
    Json pod_set{{"name", name}, {"count", from.value("pods", 1)}, {"template", {{"spec", spec}}}};
    if (from.contains("min")) {
      pod_set["minCount"] = from["min"];
    }
    if (from.contains("topology")) {
      pod_set["topologyRequest"] = from["topology"];
    }
    pod_sets.push_back(std::move(pod_set));
  };
  if (workload.contains("pod_sets")) {
    for (const Json& pod_set : workload["pod_sets"]) {
      add(pod_set, pod_set["name"].get<std::string>());
    }
  } else {
    add(workload, "main");
  }
  const std::string ns = workload.value("namespace", "ns");
  Json object{{"apiVersion", "kueue.x-k8s.io/v1beta2"},
              {"kind", "Workload"},
              {"metadata",
               {{"name", workload["name"]},
                {"namespace", ns},
                {"annotations", workload.value("annotations", Json::object())}}},
              {"spec",
               {{"queueName", workload.value("queue", "a")},
                {"podSets", pod_sets},
                {"active", workload.value("active", true)}}}};
  if (workload.contains("priority")) {
    object["spec"]["priority"] = workload["priority"];
  }
  if (workload.contains("at")) {
    object["metadata"]["creationTimestamp"] =
        FormatTime(now_ + std::chrono::seconds(workload["at"].get<int>()));
  }
  if (workload.contains("status")) {
    object["status"] = workload["status"];
  }
  Apply(std::move(object));
}

void DecisionWorld::EditWorkload(const std::string& name, const std::function<void(Json&)>& edit) {
  Json object = workloads_.at(name);
  edit(object);
  Apply(std::move(object));
}

void DecisionWorld::Finish(const std::string& name) {
  decisions_.erase(name);
  EditWorkload(name, [&](Json& w) {
    SetCondition(w["status"], "Finished", "True", "Succeeded", "done", now_);
  });
}

void DecisionWorld::DropReservation(const std::string& name) {
  decisions_.erase(name);
  EditWorkload(name, [&](Json& w) {
    w["status"].erase("admission");
    SetCondition(w["status"], "QuotaReserved", "False", "PendingEvaluation", "evicted", now_);
    SetCondition(
        w["status"], "Admitted", "False", "NoReservation", "The workload has no reservation", now_);
  });
}

void DecisionWorld::WriteAdmission(const scheduler::AdmissionDecision& decision) {
  ++writes_;
  Json assignments = Json::array();
  for (const scheduler::PodSetDecision& pod_set : decision.pod_sets) {
    Json usage = Json::object();
    for (const auto& [resource, amount] : pod_set.usage) {
      usage[resource] = api::FormatAmount(resource, amount);
    }
    Json flavors = Json::object();
    for (const auto& [resource, flavor] : pod_set.flavors) {
      flavors[resource] = flavor;
    }
    assignments.push_back({{"name", pod_set.name},
                           {"flavors", flavors},
                           {"resourceUsage", usage},
                           {"count", pod_set.count}});
  }
  decisions_[decision.workload.key.name] = decision;
  EditWorkload(decision.workload.key.name, [&](Json& w) {
    EXPECT_EQ(w["metadata"]["resourceVersion"], decision.workload.resource_version)
        << "the precondition of the write";
    w["status"]["admission"] = {{"clusterQueue", decision.cluster_queue},
                                {"podSetAssignments", assignments}};
    SetCondition(w["status"],
                 "QuotaReserved",
                 "True",
                 "QuotaReserved",
                 "Quota reserved in ClusterQueue " + decision.cluster_queue,
                 now_);
    if (decision.admitted) {
      SetCondition(w["status"], "Admitted", "True", "Admitted", "The workload is admitted", now_);
    }
    if (decision.gang && decision.placement) {
      w["metadata"]["annotations"][std::string(scheduler::kPlacementAnnotation)] =
          scheduler::EncodePlacement(*decision.gang, *decision.placement);
    }
  });
}

void DecisionWorld::WriteRefusal(const scheduler::Refusal& refusal) {
  ++writes_;
  ++refusals_told_;
  EditWorkload(refusal.workload.key.name, [&](Json& w) {
    SetCondition(w["status"],
                 "QuotaReserved",
                 "False",
                 refusal.verdict.reason,
                 refusal.verdict.message,
                 now_);
  });
}

scheduler::Plan DecisionWorld::Cycle() {
  const auto snapshot = state_.TakeSnapshot(now_);
  scheduler::Plan plan =
      state_.Apply(scheduler::Decide(*snapshot, now_, scheduler::Budget{}), now_);
  for (const scheduler::AdmissionDecision& decision : plan.admissions) {
    WriteAdmission(decision);
  }
  for (const scheduler::Refusal& refusal : plan.refusals) {
    WriteRefusal(refusal);
  }
  return plan;
}

int DecisionWorld::Settle(int most) {
  int cycles = 0;
  while (state_.NeedsCycle(now_)) {
    if (++cycles > most) {
      ADD_FAILURE() << "still something to decide after " << most << " cycles";
      break;
    }
    Cycle();
  }
  return cycles;
}

bool DecisionWorld::Holds(const std::string& name) const {
  return decisions_.contains(name);
}
bool DecisionWorld::IsAdmitted(const std::string& name) const {
  const auto it = decisions_.find(name);
  return it != decisions_.end() && it->second.admitted;
}

scheduler::Verdict DecisionWorld::VerdictOf(const std::string& name) const {
  const auto it = workloads_.find(name);
  if (it == workloads_.end()) {
    return {};
  }
  const auto view =
      state_.PendingOf({.ns = it->second["metadata"].value("namespace", ""), .name = name});
  return view ? view->verdict : scheduler::Verdict{};
}

std::unique_ptr<DecisionWorld> DecisionWorld::Restarted() const {
  auto out = std::make_unique<DecisionWorld>(options_);
  out->now_ = now_;
  out->version_ = version_;
  out->created_ = created_;
  out->namespaces_ = namespaces_;
  out->local_queues_ = local_queues_;
  for (const auto& [key, object] : others_) {
    if (key.first < static_cast<int>(api::Kind::kWorkload)) {
      out->Apply(object);
    }
  }
  for (const auto& [name, object] : workloads_) {
    out->Apply(object);
  }
  for (const auto& [key, object] : others_) {
    if (key.first > static_cast<int>(api::Kind::kWorkload)) {
      out->Apply(object);
    }
  }
  out->decisions_ = decisions_;
  return out;
}

}  // namespace muster::test
