#include <algorithm>

#include "jobs/names.h"
#include "jobs/pod.h"
#include "k8sclient/requests.h"
#include "scheduler/controller_impl.h"

// Devices of a plan that kube-scheduler would not choose by itself: the claims of held pods are
// allocated before their gates open, and kube-scheduler honours what is allocated.
//
// Order    Finalizer, then the allocation with its time stamp, then a look at all claims, then the
// gate. A cut in between leaves
//          an allocation that the next controller finds and either uses or takes back with the
//          eviction.
// Left out Claims that several pods share, consumed capacity and admin access: those are left to
// kube-scheduler. Source   Kubernetes pkg/registry/resource/resourceclaim,
// pkg/scheduler/framework/plugins/dynamicresources (PreBind).
namespace muster::scheduler {
namespace {

using api::Json;
using api::Kind;
using api::ObjectKey;
using api::Ptr;

constexpr std::string_view kDeleteProtection = "resource.kubernetes.io/delete-protection";
constexpr std::string_view kAllocatedFor =
    "muster.dev/allocated-for";  // annotation: the Workload whose plan this is
constexpr std::string_view kAllocateClaims = "muster.dev/allocate-claims";

std::string DeviceKey(const std::string& driver,
                      const std::string& pool,
                      const std::string& device) {
  return driver + "/" + pool + "/" + device;
}

const api::DeviceSubRequest* FindRequest(const api::ClaimSpec& spec, const std::string& name) {
  for (const api::DeviceRequest& request : spec.requests) {
    if (request.exactly && request.name == name) {
      return &*request.exactly;
    }
    for (const api::DeviceSubRequest& sub : request.first_available) {
      if (request.name + "/" + sub.name == name) {
        return &sub;
      }
    }
  }
  return nullptr;
}

Json Tolerations(const std::vector<api::DeviceToleration>& list) {
  Json out = Json::array();
  for (const api::DeviceToleration& toleration : list) {
    Json entry = Json::object();
    for (const auto& [field, value] : {std::pair("key", &toleration.key),
                                       std::pair("operator", &toleration.op),
                                       std::pair("value", &toleration.value),
                                       std::pair("effect", &toleration.effect)}) {
      if (!value->empty()) {
        entry[field] = *value;
      }
    }
    out.push_back(std::move(entry));
  }
  return out;
}

bool Names(const Json& entry, const std::set<std::string>& chosen) {
  if (!entry.contains("requests") || !entry["requests"].is_array() || entry["requests"].empty()) {
    return true;
  }
  return std::ranges::any_of(entry["requests"], [&](const Json& name) {
    return name.is_string() && std::ranges::any_of(chosen, [&](const std::string& request) {
             const std::string& wanted = name.get_ref<const std::string&>();
             return request == wanted || request.starts_with(wanted + "/");
           });
  });
}

// Plain devices only; anything else is kube-scheduler's.
bool Simple(const placement::DeviceChoice& choice) {
  return !choice.admin_access && choice.consumed_capacity.empty();
}

}  // namespace

void Controller::Impl::Changed(const Ptr<api::ResourceClaim>& old,
                               const Ptr<api::ResourceClaim>& claim) {
  const ObjectKey key = (claim ? claim : old)->meta.key();
  if (old) {
    for (const api::AllocatedDevice& device : old->devices) {
      const auto it = claims_of_device.find(DeviceKey(device.driver, device.pool, device.device));
      if (it != claims_of_device.end() && it->second.erase(key) > 0 && it->second.empty()) {
        claims_of_device.erase(it);
      }
    }
  }
  if (!claim) {
    return;
  }
  for (const api::AllocatedDevice& device : claim->devices) {
    if (!device.admin_access && device.share_id.empty()) {
      claims_of_device[DeviceKey(device.driver, device.pool, device.device)].insert(key);
    }
  }
  if (const api::OwnerReference* owner = claim->meta.controller();
      owner != nullptr && owner->kind == "Pod") {
    if (const auto it = unit_of_pod.find({key.ns, owner->name}); it != unit_of_pod.end()) {
      dirty_units.insert(it->second);
    }
  }
}

void Controller::Impl::Changed(const Ptr<api::DeviceClass>& /*old*/,
                               const Ptr<api::DeviceClass>& /*cls*/) {}

bool Controller::Impl::AllocatesClaims(const AdmissionDecision& decision) const {
  if (!decision.placement || !decision.gang || !decision.pin_nodes) {
    return false;
  }
  const Ptr<api::ClusterQueue> queue = Find<api::ClusterQueue>({{}, decision.cluster_queue});
  const std::string* mode = queue ? queue->meta.Annotation(kAllocateClaims) : nullptr;
  if (mode != nullptr && *mode == "Never") {
    return false;
  }
  return !decision.placement->agrees_with_first_fit || (mode != nullptr && *mode == "Always");
}

Controller::Impl::Claims Controller::Impl::AllocateClaims(const api::Workload& workload,
                                                          const UnitKey& unit,
                                                          const api::Pod& pod,
                                                          const std::string& pod_set,
                                                          const std::string& node) {
  if (pod.spec.claims.empty() || node.empty()) {
    return Claims::kReady;
  }
  const ObjectKey key = workload.meta.key();
  const AdmissionDecision* decision = state.DecisionOf(key);
  if (decision == nullptr || !AllocatesClaims(*decision)) {
    return Claims::kReady;
  }
  // The member that this pod is.
  Members& known = members[key];
  const placement::PodPlacement* plan = nullptr;
  const auto fixed = known.planned.find(pod.meta.key());
  for (const placement::PodPlacement& candidate : decision->placement->pods) {
    const std::pair id{candidate.pod_class, candidate.index};
    if (fixed != known.planned.end()) {
      if (id == fixed->second) {
        plan = &candidate;
        break;
      }
      continue;
    }
    const bool taken =
        known.used.contains(id) ||
        std::ranges::any_of(known.planned, [&](const auto& entry) { return entry.second == id; });
    if (!taken && candidate.node == node && candidate.pod_class < decision->gang->classes.size() &&
        decision->gang->classes[candidate.pod_class].name == pod_set) {
      plan = &candidate;
      break;
    }
  }
  if (plan == nullptr || plan->node != node) {
    return Claims::kReady;  // recovered without its devices: kube-scheduler chooses
  }
  known.planned[pod.meta.key()] = {plan->pod_class, plan->index};

  bool pending = false;
  for (const api::PodResourceClaim& wanted : pod.spec.claims) {
    if (wanted.template_name.empty()) {
      continue;  // a named claim may be shared
    }
    std::vector<const placement::DeviceChoice*> choices;
    bool simple = true;
    for (const placement::DeviceChoice& choice : plan->devices) {
      if (choice.claim < decision->gang->claims.size() &&
          decision->gang->claims[choice.claim].name == wanted.name &&
          !decision->gang->claims[choice.claim].shared) {
        choices.push_back(&choice);
        simple = simple && Simple(choice);
      }
    }
    if (choices.empty() || !simple) {
      continue;
    }
    const auto status = std::ranges::find(pod.claim_statuses, wanted.name, &api::ClaimStatus::name);
    if (status == pod.claim_statuses.end()) {
      pending = true;  // not made yet; the pod's next version says
      continue;
    }
    if (status->claim_name.empty()) {
      continue;
    }
    const ObjectKey name{key.ns, status->claim_name};
    const Ptr<api::ResourceClaim> claim = Find<api::ResourceClaim>(name);
    if (!claim) {
      pending = true;
      continue;
    }
    const std::string* allocated_for = claim->meta.Annotation(kAllocatedFor);
    if (claim->allocated) {
      if (allocated_for == nullptr || *allocated_for != key.name) {
        continue;  // somebody else's allocation: kube-scheduler honours it as it is
      }
      for (const api::AllocatedDevice& device : claim->devices) {
        const auto holders =
            claims_of_device.find(DeviceKey(device.driver, device.pool, device.device));
        if (holders != claims_of_device.end() && holders->second.size() > 1) {
          return Claims::kLost;
        }
      }
      continue;
    }
    for (const placement::DeviceChoice* choice : choices) {
      const auto holders =
          claims_of_device.find(DeviceKey(choice->driver, choice->pool, choice->device));
      if (holders != claims_of_device.end() && !holders->second.empty()) {
        return Claims::kLost;
      }
    }
    pending = true;
    if (!MayWrite(Kind::kResourceClaim, name, unit)) {
      continue;
    }
    const std::string path = api::Path(Kind::kResourceClaim, name.ns, name.name);
    if (!claim->meta.HasFinalizer(kDeleteProtection) || allocated_for == nullptr ||
        *allocated_for != key.name) {
      Json finalizers = Json::array();
      for (const std::string& finalizer : claim->meta.finalizers) {
        if (finalizer != kDeleteProtection) {
          finalizers.push_back(finalizer);
        }
      }
      finalizers.push_back(std::string(kDeleteProtection));
      Json patch;
      patch["metadata"]["finalizers"] = std::move(finalizers);
      patch["metadata"]["annotations"][std::string(kAllocatedFor)] = key.name;
      Issue(Kind::kResourceClaim,
            name,
            Urgency::kRelease,
            k8s::MergePatch(path,
                            std::move(patch),
                            {.resource_version = claim->meta.resource_version, .uid = {}}),
            unit)
          .purpose = Purpose::kStart;
      continue;
    }
    Json results = Json::array();
    std::set<std::string> chosen;
    std::map<std::string, std::vector<std::string>> requests_of_class;
    std::vector<std::string> classes;  // in order of requests
    for (const placement::DeviceChoice* choice : choices) {
      Json result = {{"request", choice->request},
                     {"driver", choice->driver},
                     {"pool", choice->pool},
                     {"device", choice->device}};
      if (const api::DeviceSubRequest* request = FindRequest(claim->spec, choice->request)) {
        if (!request->tolerations.empty()) {
          result["tolerations"] = Tolerations(request->tolerations);
        }
        if (chosen.insert(choice->request).second) {
          if (!requests_of_class.contains(request->device_class)) {
            classes.push_back(request->device_class);
          }
          requests_of_class[request->device_class].push_back(choice->request);
        }
      }
      results.push_back(std::move(result));
    }
    Json config = Json::array();
    for (const std::string& cls : classes) {
      const Ptr<api::DeviceClass> object = Find<api::DeviceClass>({{}, cls});
      if (!object || !object->config || !object->config->is_array()) {
        continue;
      }
      for (Json entry : *object->config) {
        if (!entry.is_object()) {
          continue;
        }
        entry["source"] = "FromClass";
        const std::vector<std::string>& named = requests_of_class[cls];
        if (named.size() < claim->spec.requests.size()) {
          entry["requests"] = named;
        }
        config.push_back(std::move(entry));
      }
    }
    if (claim->spec.config && claim->spec.config->is_array()) {
      for (Json entry : *claim->spec.config) {
        if (entry.is_object() && Names(entry, chosen)) {
          entry["source"] = "FromClaim";
          config.push_back(std::move(entry));
        }
      }
    }
    Json devices = {{"results", std::move(results)}};
    if (!config.empty()) {
      devices["config"] = std::move(config);
    }
    const Json term = {
        {"matchFields",
         Json::array({Json{
             {"key", "metadata.name"}, {"operator", "In"}, {"values", Json::array({node})}}})}};
    Json allocation = {{"devices", std::move(devices)},
                       {"nodeSelector", {{"nodeSelectorTerms", Json::array({term})}}},
                       {"allocationTimestamp", FormatTime(now)}};
    Json patch;
    patch["status"]["allocation"] = std::move(allocation);
    Issue(Kind::kResourceClaim,
          name,
          Urgency::kRelease,
          k8s::MergePatch(api::Path(Kind::kResourceClaim, name.ns, name.name, "status"),
                          std::move(patch),
                          {.resource_version = claim->meta.resource_version, .uid = {}}),
          unit)
        .purpose = Purpose::kStart;
  }
  return pending ? Claims::kPending : Claims::kReady;
}

void Controller::Impl::ReleaseClaims(const UnitKey& unit, const std::vector<Ptr<api::Pod>>& pods) {
  for (const Ptr<api::Pod>& pod : pods) {
    if (!jobs::PodIsHeld(*pod)) {
      continue;  // released pods are being deleted, and their claims with them
    }
    for (const api::ClaimStatus& status : pod->claim_statuses) {
      const ObjectKey name{pod->meta.ns, status.claim_name};
      const Ptr<api::ResourceClaim> claim = Find<api::ResourceClaim>(name);
      if (!claim || !claim->allocated || !claim->reserved_for.empty() ||
          claim->meta.Annotation(kAllocatedFor) == nullptr ||
          !MayWrite(Kind::kResourceClaim, name, unit)) {
        continue;
      }
      Json patch;
      patch["status"]["allocation"] = nullptr;
      Issue(Kind::kResourceClaim,
            name,
            Urgency::kNormal,
            k8s::MergePatch(api::Path(Kind::kResourceClaim, name.ns, name.name, "status"),
                            std::move(patch),
                            {.resource_version = claim->meta.resource_version, .uid = {}}),
            unit);
    }
  }
}

}  // namespace muster::scheduler
