#include "api/decode_parts.h"

namespace muster::api {
namespace {

void ReadRequirements(const Field& field, std::vector<NodeSelectorRequirement>& out) {
  field.ReadList(out, [](const Field& item, NodeSelectorRequirement& r) {
    item["key"].Read(r.key);
    item["operator"].Read(r.op);
    item["values"].Read(r.values);
  });
}

void ReadContainers(const Field& field, std::vector<Container>& out) {
  field.ReadList(out, [](const Field& item, Container& c) {
    item["name"].Read(c.name);
    const Field resources = item["resources"];
    resources["requests"].ReadRequests(c.requests);
    resources["limits"].ReadRequests(c.limits);
    c.has_requests = resources["requests"].present();
    resources["claims"].Each([&](const Field& claim) {
      std::string name;
      claim["name"].Read(name);
      c.claims.push_back(std::move(name));
    });
    std::string policy;
    item["restartPolicy"].Read(policy);
    c.restart_always = policy == "Always";
    item["ports"].ReadList(c.ports, [](const Field& port, ContainerPort& p) {
      port["hostPort"].Read(p.host_port);
      port["protocol"].Read(p.protocol);
      port["hostIP"].Read(p.host_ip);
    });
  });
}

bool NotEmptyList(const Field& field) {
  return field.present() && field.json()->is_array() && !field.json()->empty();
}

}  // namespace

void ReadMeta(const Field& field, ObjectMeta& out) {
  field["namespace"].Read(out.ns);
  field["name"].Read(out.name);
  field["uid"].Read(out.uid);
  field["resourceVersion"].Read(out.resource_version);
  field["generation"].Read(out.generation);
  field["creationTimestamp"].Read(out.creation_timestamp);
  field["deletionTimestamp"].Read(out.deletion_timestamp);
  field["labels"].Read(out.labels);
  field["annotations"].Read(out.annotations);
  field["ownerReferences"].ReadList(out.owner_references, [](const Field& item, OwnerReference& o) {
    item["apiVersion"].Read(o.api_version);
    item["kind"].Read(o.kind);
    item["name"].Read(o.name);
    item["uid"].Read(o.uid);
    item["controller"].Read(o.controller);
  });
  field["finalizers"].Read(out.finalizers);
}

void ReadConditions(const Field& field, std::vector<Condition>& out) {
  field.ReadList(out, [](const Field& item, Condition& c) {
    item["type"].Read(c.type);
    item["status"].Read(c.status);
    item["reason"].Read(c.reason);
    item["message"].Read(c.message);
    item["lastTransitionTime"].Read(c.last_transition_time);
    item["observedGeneration"].Read(c.observed_generation);
  });
}

void ReadLabelSelector(const Field& field, LabelSelector& out) {
  if (!field.present()) {
    return;
  }
  field["matchLabels"].Read(out.match_labels);
  field["matchExpressions"].ReadList(out.match_expressions,
                                     [](const Field& item, LabelSelectorRequirement& r) {
                                       item["key"].Read(r.key);
                                       item["operator"].Read(r.op);
                                       item["values"].Read(r.values);
                                     });
  out.present = true;
}

void ReadTaints(const Field& field, std::vector<Taint>& out) {
  field.ReadList(out, [](const Field& item, Taint& t) {
    item["key"].Read(t.key);
    item["value"].Read(t.value);
    item["effect"].Read(t.effect);
  });
}

void ReadTolerations(const Field& field, std::vector<Toleration>& out) {
  field.ReadList(out, [](const Field& item, Toleration& t) {
    item["key"].Read(t.key);
    item["operator"].Read(t.op);
    item["value"].Read(t.value);
    item["effect"].Read(t.effect);
    item["tolerationSeconds"].Read(t.toleration_seconds);
  });
}

void ReadNodeSelectorTerm(const Field& field, NodeSelectorTerm& out) {
  ReadRequirements(field["matchExpressions"], out.match_expressions);
  ReadRequirements(field["matchFields"], out.match_fields);
}

void ReadNodeSelector(const Field& field, NodeSelector& out) {
  if (!field.present()) {
    return;
  }
  field["nodeSelectorTerms"].ReadList(out.terms, ReadNodeSelectorTerm);
  out.present = true;
}

void ReadPodClaims(const Field& field, std::vector<PodResourceClaim>& out) {
  field.ReadList(out, [](const Field& item, PodResourceClaim& c) {
    item["name"].Read(c.name);
    item["resourceClaimName"].Read(c.claim_name);
    item["resourceClaimTemplateName"].Read(c.template_name);
  });
}

void ReadClaimStatuses(const Field& field, std::vector<ClaimStatus>& out) {
  field.ReadList(out, [](const Field& item, ClaimStatus& c) {
    item["name"].Read(c.name);
    item["resourceClaimName"].Read(c.claim_name);
  });
}

void ReadPodSpec(const Field& field, PodSpec& out) {
  ReadContainers(field["containers"], out.containers);
  ReadContainers(field["initContainers"], out.init_containers);
  field["overhead"].ReadRequests(out.overhead);
  const Field resources = field["resources"];
  resources["requests"].ReadRequests(out.pod_requests);
  resources["limits"].ReadRequests(out.pod_limits);
  out.has_pod_resources = !out.pod_requests.empty() || !out.pod_limits.empty();
  field["nodeSelector"].Read(out.node_selector);

  const Field affinity = field["affinity"];
  const Field node_affinity = affinity["nodeAffinity"];
  ReadNodeSelector(node_affinity["requiredDuringSchedulingIgnoredDuringExecution"],
                   out.required_affinity);
  node_affinity["preferredDuringSchedulingIgnoredDuringExecution"].ReadList(
      out.preferred_affinity, [](const Field& item, PreferredTerm& term) {
        item["weight"].Read(term.weight);
        ReadNodeSelectorTerm(item["preference"], term.term);
      });
  const Field pod_affinity = affinity["podAffinity"];
  const Field pod_anti_affinity = affinity["podAntiAffinity"];
  out.has_pod_affinity =
      NotEmptyList(pod_affinity["requiredDuringSchedulingIgnoredDuringExecution"]) ||
      NotEmptyList(pod_anti_affinity["requiredDuringSchedulingIgnoredDuringExecution"]);
  out.has_spread_constraints = NotEmptyList(field["topologySpreadConstraints"]);

  ReadTolerations(field["tolerations"], out.tolerations);
  field["runtimeClassName"].Read(out.runtime_class);
  field["priorityClassName"].Read(out.priority_class);
  field["priority"].Read(out.priority);
  field["schedulerName"].Read(out.scheduler_name);
  field["nodeName"].Read(out.node_name);
  field["schedulingGroup"]["podGroupName"].Read(out.scheduling_group);
  field["schedulingGates"].Each([&](const Field& gate) {
    std::string name;
    gate["name"].Read(name);
    out.scheduling_gates.push_back(std::move(name));
  });
  ReadPodClaims(field["resourceClaims"], out.claims);
}

void ReadPodTemplate(const Field& field, PodTemplate& out) {
  const Field metadata = field["metadata"];
  metadata["labels"].Read(out.labels);
  metadata["annotations"].Read(out.annotations);
  ReadPodSpec(field["spec"], out.spec);
  if (field.present()) {
    field.ReadRaw(out.raw);
  } else {
    out.raw = std::make_shared<const Json>(Json::object());
  }
}

}  // namespace muster::api
