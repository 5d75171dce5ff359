#include "sim/kube_scheduler.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "api/kind.h"
#include "api/object.h"
#include "base/digest.h"
#include "scheduler/placement/feasible.h"
#include "scheduler/placement/placement.h"
#include "sim/access.h"
#include "sim/follower.h"

namespace muster::sim {
namespace {

using api::Kind;
using api::ObjectKey;

// Attempts are bounded by what one pod of a scenario can need, not by time: virtual time would not
// pass.
constexpr std::int64_t kStepsPerPod = 5'000'000;

const Json& Meta(const Json& object) {
  return ObjectAt(object, "metadata");
}

class KubeScheduler final : public StandIn {
 public:
  explicit KubeScheduler(ApiServer& server)
      : writer_(server),
        nodes_(server, api::Path(Kind::kNode, "", "")),
        pods_(server, api::Path(Kind::kPod, "", "")),
        claims_(server, api::Path(Kind::kResourceClaim, "", "")),
        slices_(server, api::Path(Kind::kResourceSlice, "", "")),
        classes_(server, api::Path(Kind::kDeviceClass, "", "")),
        rules_(server, api::Path(Kind::kDeviceTaintRule, "", "")),
        groups_(server, api::Path(Kind::kPodGroup, "", "")) {}

  bool Step(TimePoint now) override {
    if (!Drain(now)) {
      return false;
    }
    if (room_) {
      refused_.clear();
      room_ = false;
    }
    const std::vector<Unit> units = Units();
    if (units.empty()) {
      return false;
    }
    bool changed = false;
    hopeless_.clear();
    // Each success changes the world; what failed before may fit after it only if room was freed,
    // which a binding never does.
    placement::Trial trial(inventory_.View());
    for (const Unit& unit : units) {
      changed = Schedule(unit, trial, now) || changed;
    }
    return changed;
  }

  [[nodiscard]] std::optional<TimePoint> NextWake() const override { return std::nullopt; }

 private:
  // A pod alone, or the unbound members of a native group.
  struct Unit {
    std::int64_t priority = 0;
    std::string order;  // UID of the oldest member; UIDs ascend with creation
    ObjectKey group;    // empty name: a pod alone
    std::vector<ObjectKey> pods;
    friend bool operator<(const Unit& a, const Unit& b) {
      return std::tuple(-a.priority, a.order) < std::tuple(-b.priority, b.order);
    }
  };
  // Where a pod goes, before it is told to the server.
  struct Decision {
    ObjectKey pod;
    std::string node;
    placement::GangRequest gang;
    placement::Placement placement;
  };

  template <typename T>
  void Feed(Follower& follower,
            TimePoint now,
            bool& changed,
            const std::function<void(const ObjectKey&)>& remove) {
    changed = follower.Drain(now, [&](const ObjectKey& key, const Json*, const Json* after) {
      room_ = true;
      if (after == nullptr) {
        remove(key);
      } else if (auto object = api::DecodeAs<T>(*after)) {
        inventory_.Upsert(*object);
      }
    }) || changed;
  }

  void OnClaim(const ObjectKey& key, const Json* before, const Json* after) {
    // A new claim of a pod gives nobody room: the pod's status, which names it, follows. One that
    // stands for itself may be waited for.
    const auto allocation = [](const Json* claim) {
      return claim == nullptr ? Json::object() : ObjectAt(ObjectAt(*claim, "status"), "allocation");
    };
    room_ = room_ || after == nullptr || allocation(before) != allocation(after) ||
            (before == nullptr && ListAt(Meta(*after), "ownerReferences").empty());
    if (after == nullptr) {
      inventory_.DeleteClaim(key);
    } else if (auto object = api::DecodeAs<api::ResourceClaim>(*after)) {
      inventory_.Upsert(*object);
    }
  }

  void OnNode(const ObjectKey& key, const Json* after) {
    room_ = true;
    decoded_nodes_.erase(key.name);
    if (after == nullptr) {
      inventory_.DeleteNode(key.name);
    } else if (auto node = api::DecodeAs<api::Node>(*after)) {
      inventory_.Upsert(*node);
      decoded_nodes_.emplace(key.name, std::move(*node));
    }
  }

  bool Drain(TimePoint now) {
    bool changed = false;
    changed = nodes_.Drain(now, [&](const ObjectKey& key, const Json*, const Json* after) {
      OnNode(key, after);
    }) || changed;
    Feed<api::ResourceSlice>(
        slices_, now, changed, [&](const ObjectKey& key) { inventory_.DeleteSlice(key.name); });
    Feed<api::DeviceClass>(classes_, now, changed, [&](const ObjectKey& key) {
      inventory_.DeleteDeviceClass(key.name);
    });
    Feed<api::DeviceTaintRule>(
        rules_, now, changed, [&](const ObjectKey& key) { inventory_.DeleteTaintRule(key.name); });
    changed = claims_.Drain(now, [&](const ObjectKey& key, const Json* before, const Json* after) {
      OnClaim(key, before, after);
    }) || changed;
    changed =
        groups_.Drain(now, [&](const ObjectKey&, const Json*, const Json*) { room_ = true; }) ||
        changed;
    changed = pods_.Drain(now, [&](const ObjectKey& key, const Json* before, const Json* after) {
      OnPod(key, before, after);
    }) || changed;
    return changed;
  }

  // Whether a change of a pod that was refused could alter the verdict: its own status conditions
  // cannot.
  static bool Matters(const Json& before, const Json& after) {
    return ObjectAt(before, "spec") != ObjectAt(after, "spec") ||
           ObjectAt(Meta(before), "labels") != ObjectAt(Meta(after), "labels") ||
           ListAt(ObjectAt(before, "status"), "resourceClaimStatuses") !=
               ListAt(ObjectAt(after, "status"), "resourceClaimStatuses");
  }

  void OnPod(const ObjectKey& key, const Json* before, const Json* after) {
    if (before == nullptr || after == nullptr || Matters(*before, *after)) {
      refused_.erase(key);
    }
    if (const auto it = decoded_.find(key); it != decoded_.end()) {
      const std::string phase =
          after == nullptr ? "Failed" : TextAt(ObjectAt(*after, "status"), "phase");
      // Whatever ends gives room, and a member that goes changes its group.
      room_ = room_ || ((phase == "Failed" || phase == "Succeeded") && !it->second->terminated());
      Charge(*it->second, -1);
      members_[{.ns = key.ns, .name = it->second->spec.scheduling_group}].erase(key);
      decoded_.erase(it);
    }
    waiting_.erase(key);
    shapes_.erase(key);
    if (after == nullptr) {
      inventory_.DeletePod(key);
      return;
    }
    auto pod = api::DecodeAs<api::Pod>(*after);
    if (!pod) {
      return;
    }
    inventory_.Upsert(*pod);
    Charge(**pod, 1);
    if (!(*pod)->spec.scheduling_group.empty()) {
      members_[{.ns = key.ns, .name = (*pod)->spec.scheduling_group}].insert(key);
    }
    const bool ours =
        (*pod)->spec.scheduler_name.empty() || (*pod)->spec.scheduler_name == "default-scheduler";
    if (ours && (*pod)->spec.node_name.empty() && !(*pod)->terminated() &&
        !(*pod)->meta.deleting()) {
      waiting_.insert(key);
      shapes_.emplace(key, Sha1Hex(key.ns + ObjectAt(*after, "spec").dump()));
    }
    decoded_.emplace(key, std::move(*pod));
  }

  // cpu and memory in use, for the score.
  void Charge(const api::Pod& pod, std::int64_t sign) {
    if (pod.spec.node_name.empty() || pod.terminated()) {
      return;
    }
    Add(used_[pod.spec.node_name], Times(api::PodRequests(pod.spec), sign));
  }

  [[nodiscard]] std::vector<Unit> Units() const {
    std::vector<Unit> out;
    std::set<ObjectKey> groups;
    for (const ObjectKey& key : waiting_) {
      const api::Pod& pod = *decoded_.at(key);
      const ObjectKey group{.ns = key.ns, .name = pod.spec.scheduling_group};
      if (group.name.empty()) {
        if (pod.spec.scheduling_gates.empty() && !refused_.contains(key)) {
          out.push_back({.priority = pod.spec.priority.value_or(0),
                         .order = pod.meta.uid,
                         .group = {},
                         .pods = {key}});
        }
      } else if (groups.insert(group).second) {
        if (auto unit = GroupUnit(group)) {
          out.push_back(std::move(*unit));
        }
      }
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  [[nodiscard]] std::optional<Unit> GroupUnit(const ObjectKey& group) const {
    const Json* object = groups_.Find(group);
    if (object == nullptr) {
      return std::nullopt;  // not seen yet: its pods are parked
    }
    Unit unit{.group = group};
    std::int64_t known = 0;
    bool news = false;  // a member that was not refused since the world last changed
    for (const ObjectKey& key : members_.at(group)) {
      const api::Pod& pod = *decoded_.at(key);
      if (pod.terminated()) {
        continue;
      }
      if (!pod.spec.scheduling_gates.empty()) {
        return std::nullopt;
      }
      ++known;
      if (waiting_.contains(key)) {
        unit.pods.push_back(key);
        news = news || !refused_.contains(key);
        unit.priority = pod.spec.priority.value_or(0);
        unit.order = unit.order.empty() ? pod.meta.uid : std::min(unit.order, pod.meta.uid);
      }
    }
    std::sort(unit.pods.begin(), unit.pods.end(), [&](const ObjectKey& a, const ObjectKey& b) {
      return decoded_.at(a)->meta.uid < decoded_.at(b)->meta.uid;
    });
    if (known < MinCount(*object) || !news) {
      return std::nullopt;
    }
    return unit;
  }

  static std::int64_t MinCount(const Json& group) {
    return IntAt(ObjectAt(ObjectAt(ObjectAt(group, "spec"), "schedulingPolicy"), "gang"),
                 "minCount")
        .value_or(1);
  }

  bool Schedule(const Unit& unit, placement::Trial& trial, TimePoint now) {
    const placement::Trial::Mark mark = trial.Checkpoint();
    std::map<std::string, ResourceVector> tentative;
    std::vector<Decision> decisions;
    std::map<ObjectKey, std::string> refused;
    for (const ObjectKey& key : unit.pods) {
      std::string why;
      if (auto decision = Place(key, trial, tentative, why)) {
        decisions.push_back(std::move(*decision));
      } else {
        refused[key] = why;
        // What is tried for a group may be taken back; a refusal of a pod alone holds until this
        // step ends.
        if (unit.group.name.empty() && decoded_.at(key)->spec.claims.empty()) {
          hopeless_.emplace(shapes_.at(key), why);
        }
      }
    }
    if (!unit.group.name.empty()) {
      std::int64_t scheduled = static_cast<std::int64_t>(decisions.size());
      for (const ObjectKey& member : members_.at(unit.group)) {
        const api::Pod& pod = *decoded_.at(member);
        scheduled += !pod.terminated() && !pod.spec.node_name.empty() ? 1 : 0;
      }
      if (decisions.empty() || scheduled < MinCount(*groups_.Find(unit.group))) {
        trial.Rollback(mark);
        for (const Decision& decision : decisions) {
          refused[decision.pod] = "the pod group does not fit whole";
        }
        decisions.clear();
      }
    }
    bool changed = false;
    for (const Decision& decision : decisions) {
      changed = Bind(decision, unit.group, now) || changed;
    }
    for (const auto& [key, why] : refused) {
      refused_.insert(key);
      changed = Refuse(key, why, now) || changed;
    }
    return changed;
  }

  // Claims of a pod, in its order. False while one is missing.
  [[nodiscard]] bool Claims(const ObjectKey& key,
                            const api::Pod& pod,
                            placement::GangRequest& gang,
                            std::string& why) const {
    for (const api::PodResourceClaim& entry : pod.spec.claims) {
      std::string name = entry.claim_name;
      for (const api::ClaimStatus& status : pod.claim_statuses) {
        if (name.empty() && status.name == entry.name) {
          name = status.claim_name;
        }
      }
      const Json* object = name.empty() ? nullptr : claims_.Find({.ns = key.ns, .name = name});
      if (object == nullptr) {
        why = "waiting for resource claim \"" + entry.name + "\" to be created";
        return false;
      }
      auto claim = api::DecodeAs<api::ResourceClaim>(*object);
      if (!claim) {
        why = claim.error().message;
        return false;
      }
      gang.classes[0].claims.push_back(gang.claims.size());
      gang.claims.push_back({.name = entry.name,
                             .spec = (*claim)->spec,
                             .shared = true,
                             .existing = ObjectKey{.ns = key.ns, .name = name}});
    }
    return true;
  }

  [[nodiscard]] std::optional<Decision> Place(const ObjectKey& key,
                                              placement::Trial& trial,
                                              std::map<std::string, ResourceVector>& tentative,
                                              std::string& why) const {
    const api::Pod& pod = *decoded_.at(key);
    if (const auto it = hopeless_.find(shapes_.at(key)); it != hopeless_.end()) {
      why = it->second;
      return std::nullopt;
    }
    placement::GangRequest gang{.name = key.ToString(), .ns = key.ns, .classes = {}, .claims = {}};
    placement::PodClass pod_class{.name = "pod",
                                  .count = 1,
                                  .requests = api::PodRequests(pod.spec),
                                  .node_selector = pod.spec.node_selector,
                                  .tolerations = pod.spec.tolerations};
    for (const api::Container& container : pod.spec.containers) {
      pod_class.host_ports.insert(
          pod_class.host_ports.end(), container.ports.begin(), container.ports.end());
    }
    gang.classes.push_back(std::move(pod_class));
    if (!Claims(key, pod, gang, why)) {
      return std::nullopt;
    }
    // Least allocated first, then the name.
    std::vector<std::pair<std::int64_t, std::string>> order;
    for (const auto& [name, node] : decoded_nodes_) {
      if (placement::Exclude(
              *node, pod.spec.node_selector, pod.spec.required_affinity, pod.spec.tolerations) ==
          placement::Exclusion::kNone) {
        order.emplace_back(-Score(*node, gang.classes[0].requests, tentative), name);
      }
    }
    std::sort(order.begin(), order.end());
    for (const auto& [score, name] : order) {
      placement::GangRequest pinned = gang;
      // The filters above have seen the pod's own affinity; only the node is left to say.
      pinned.classes[0].required_affinity = {
          .present = true,
          .terms = {{.match_expressions = {},
                     .match_fields = {{.key = "metadata.name", .op = "In", .values = {name}}}}}};
      placement::Answer answer = trial.Place(pinned, kStepsPerPod);
      if (auto* placed = std::get_if<placement::Placement>(&answer)) {
        Add(tentative[name], gang.classes[0].requests);
        return Decision{
            .pod = key, .node = name, .gang = std::move(pinned), .placement = std::move(*placed)};
      }
      if (const auto* no = std::get_if<placement::Unplaceable>(&answer);
          no != nullptr && !no->reasons.empty()) {
        why = no->reasons.front().message;
      }
    }
    why = "0/" + std::to_string(nodes_.objects().size()) + " nodes are available" +
          (why.empty() ? "" : ": " + why);
    return std::nullopt;
  }

  // Free share of cpu and memory after the pod, in hundredths, averaged as kube-scheduler does.
  [[nodiscard]] std::int64_t Score(const api::Node& node,
                                   const ResourceVector& requests,
                                   const std::map<std::string, ResourceVector>& tentative) const {
    std::int64_t sum = 0;
    for (const char* resource : {"cpu", "memory"}) {
      const auto value = [&](const ResourceVector& from) {
        const auto it = from.find(resource);
        return it == from.end() ? Amount() : it->second;
      };
      const Amount have = value(node.allocatable);
      Amount wanted = value(requests);
      if (const auto it = used_.find(node.meta.name); it != used_.end()) {
        wanted += value(it->second);
      }
      if (const auto it = tentative.find(node.meta.name); it != tentative.end()) {
        wanted += value(it->second);
      }
      if (have.value() > 0 && wanted <= have) {
        sum += static_cast<std::int64_t>(static_cast<__int128>((have - wanted).value()) * 100 /
                                         have.value());
      }
    }
    return sum / 2;
  }

  bool Bind(const Decision& decision, const ObjectKey& group, TimePoint now) {
    const api::Pod& pod = *decoded_.at(decision.pod);
    for (std::size_t i = 0; i < decision.gang.claims.size(); ++i) {
      if (!Allocate(decision, i, pod, group, now)) {
        return true;  // somebody was faster; the pod stays and is tried again
      }
    }
    AllocateExtended(decision, pod, now);
    const std::string path = api::Path(Kind::kPod, decision.pod.ns, decision.pod.name, "binding");
    return writer_.Post(
        path,
        Json{{"apiVersion", "v1"},
             {"kind", "Binding"},
             {"metadata", {{"namespace", decision.pod.ns}, {"name", decision.pod.name}}},
             {"target", {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", decision.node}}}},
        now);
  }

  [[nodiscard]] bool OnNode(const placement::DeviceChoice& choice) const {
    for (const auto& [key, slice] : slices_.objects()) {
      const Json& spec = ObjectAt(slice, "spec");
      if (TextAt(spec, "driver") == choice.driver &&
          TextAt(ObjectAt(spec, "pool"), "name") == choice.pool) {
        return HasText(spec, "nodeName");
      }
    }
    return false;
  }

  [[nodiscard]] static Json Result(const placement::DeviceChoice& choice) {
    Json result{{"request", choice.request},
                {"driver", choice.driver},
                {"pool", choice.pool},
                {"device", choice.device}};
    if (choice.admin_access) {
      result["adminAccess"] = true;
    }
    for (const auto& [name, quantity] : choice.consumed_capacity) {
      result["consumedCapacity"][name] = quantity.ToString();
    }
    return result;
  }

  [[nodiscard]] Json Allocation(const Decision& decision,
                                const std::vector<const placement::DeviceChoice*>& choices,
                                TimePoint now) const {
    Json results = Json::array();
    bool pinned = false;
    for (const placement::DeviceChoice* choice : choices) {
      results.push_back(Result(*choice));
      pinned = pinned || OnNode(*choice);
    }
    Json allocation{{"devices", {{"results", results}}}, {"allocationTimestamp", FormatTime(now)}};
    if (pinned) {
      allocation["nodeSelector"] = {
          {"nodeSelectorTerms",
           Json::array({{{"matchFields",
                          Json::array({{{"key", "metadata.name"},
                                        {"operator", "In"},
                                        {"values", Json::array({decision.node})}}})}}})}};
    }
    return allocation;
  }

  // Writes the allocation of one claim, unless it has one, and reserves it for the pod or its
  // group.
  bool Allocate(const Decision& decision,
                std::size_t index,
                const api::Pod& pod,
                const ObjectKey& group,
                TimePoint now) {
    const ObjectKey& key = *decision.gang.claims[index].existing;
    const Json* claim = claims_.Find(key);
    if (claim == nullptr) {
      return false;
    }
    const std::string path = api::Path(Kind::kResourceClaim, key.ns, key.name);
    const Json& status = ObjectAt(*claim, "status");
    Json patch = Json::object();
    if (ObjectAt(status, "allocation").empty()) {
      std::vector<const placement::DeviceChoice*> choices;
      for (const placement::DeviceChoice& choice : decision.placement.shared_devices) {
        if (choice.claim == index) {
          choices.push_back(&choice);
        }
      }
      Json finalizers = Json::array();
      for (const std::string& finalizer : TextsAt(Meta(*claim), "finalizers")) {
        finalizers.push_back(finalizer);
      }
      const Json protection("resource.kubernetes.io/delete-protection");
      if (std::find(finalizers.begin(), finalizers.end(), protection) == finalizers.end()) {
        finalizers.push_back(protection);
        if (!writer_.Patch(path, Json{{"metadata", {{"finalizers", finalizers}}}}, now)) {
          return false;
        }
      }
      patch["allocation"] = Allocation(decision, choices, now);
    }
    Json reserved = ListAt(status, "reservedFor");
    Json consumer{{"resource", "pods"}, {"name", pod.meta.name}, {"uid", pod.meta.uid}};
    for (const Json& owner : ListAt(Meta(*claim), "ownerReferences")) {
      if (TextAt(owner, "kind") == "PodGroup" && TextAt(owner, "name") == group.name) {
        consumer = {{"apiGroup", "scheduling.k8s.io"},
                    {"resource", "podgroups"},
                    {"name", group.name},
                    {"uid", TextAt(owner, "uid")}};
      }
    }
    if (std::find(reserved.begin(), reserved.end(), consumer) == reserved.end()) {
      reserved.push_back(consumer);
      patch["reservedFor"] = reserved;
    }
    if (patch.empty()) {
      return true;
    }
    const bool done = writer_.Patch(path + "/status", Json{{"status", patch}}, now).has_value();
    // Members of one gang may share the claim: the next one must see this.
    claims_.Drain(now, [&](const ObjectKey& changed_key, const Json* before, const Json* after) {
      const bool room = room_;
      OnClaim(changed_key, before, after);
      // What this scheduler takes itself gives room to nobody, but to those who share the claim.
      room_ =
          room || after == nullptr || ListAt(ObjectAt(*after, "status"), "reservedFor").size() > 1;
    });
    return done;
  }

  [[nodiscard]] std::string ClassOf(const std::string& resource) const {
    constexpr std::string_view kImplicit = "deviceclass.resource.kubernetes.io/";
    if (resource.starts_with(kImplicit)) {
      return resource.substr(kImplicit.size());
    }
    // The newest class serves the name; of two equally old ones the lower name.
    std::string best;
    std::string newest;
    for (const auto& [key, object] : classes_.objects()) {
      const std::string created = TextAt(Meta(object), "creationTimestamp");
      if (TextAt(ObjectAt(object, "spec"), "extendedResourceName") == resource &&
          (best.empty() || created > newest)) {
        best = key.name;
        newest = created;
      }
    }
    return best;
  }

  // The claim that kube-scheduler itself makes for extended resources that a DeviceClass serves.
  void AllocateExtended(const Decision& decision, const api::Pod& pod, TimePoint now) {
    std::map<std::string, std::vector<placement::DeviceChoice>> by_resource;
    for (const placement::PodPlacement& placed : decision.placement.pods) {
      for (const placement::DeviceChoice& choice : placed.devices) {
        if (choice.claim == placement::kExtendedResourceClaim) {
          by_resource[choice.request].push_back(choice);
        }
      }
    }
    if (by_resource.empty()) {
      return;
    }
    Json requests = Json::array();
    Json mappings = Json::array();
    std::vector<placement::DeviceChoice> renamed;
    for (const auto& [resource, choices] : by_resource) {
      const std::string name = "container-0-request-" + std::to_string(requests.size());
      requests.push_back({{"name", name},
                          {"exactly",
                           {{"deviceClassName", ClassOf(resource)},
                            {"allocationMode", "ExactCount"},
                            {"count", choices.size()}}}});
      mappings.push_back(
          {{"containerName",
            pod.spec.containers.empty() ? std::string() : pod.spec.containers[0].name},
           {"resourceName", resource},
           {"requestName", name}});
      for (placement::DeviceChoice choice : choices) {
        choice.request = name;
        renamed.push_back(std::move(choice));
      }
    }
    const std::string claim_name = pod.meta.name.substr(0, 200) + "-extended-resources";
    const auto created = writer_.Create(
        api::Path(Kind::kResourceClaim, pod.meta.ns, ""),
        Json{{"apiVersion", "resource.k8s.io/v1"},
             {"kind", "ResourceClaim"},
             {"metadata",
              {{"namespace", pod.meta.ns},
               {"name", claim_name},
               {"annotations", {{"resource.kubernetes.io/extended-resource-claim", "true"}}},
               {"finalizers", {"resource.kubernetes.io/delete-protection"}},
               {"ownerReferences",
                Json::array({{{"apiVersion", "v1"},
                              {"kind", "Pod"},
                              {"name", pod.meta.name},
                              {"uid", pod.meta.uid},
                              {"controller", true}}})}}},
             {"spec", {{"devices", {{"requests", requests}}}}}},
        now);
    if (!created) {
      return;
    }
    std::vector<const placement::DeviceChoice*> choices;
    for (const placement::DeviceChoice& choice : renamed) {
      choices.push_back(&choice);
    }
    (void)writer_.Patch(
        api::Path(Kind::kResourceClaim, pod.meta.ns, claim_name, "status"),
        Json{{"status",
              {{"allocation", Allocation(decision, choices, now)},
               {"reservedFor",
                Json::array(
                    {{{"resource", "pods"}, {"name", pod.meta.name}, {"uid", pod.meta.uid}}})}}}},
        now);
    (void)writer_.Patch(
        api::Path(Kind::kPod, pod.meta.ns, pod.meta.name, "status"),
        Json{{"status",
              {{"extendedResourceClaimStatus",
                {{"resourceClaimName", claim_name}, {"requestMappings", mappings}}}}}},
        now);
  }

  bool Refuse(const ObjectKey& key, const std::string& why, TimePoint now) {
    const Json* pod = pods_.Find(key);
    Json conditions = ListAt(ObjectAt(*pod, "status"), "conditions");
    if (!SetCondition(conditions, "PodScheduled", "False", "Unschedulable", why, now)) {
      return false;
    }
    return writer_
        .Patch(api::Path(Kind::kPod, key.ns, key.name, "status"),
               Json{{"status", {{"conditions", conditions}}}},
               now)
        .has_value();
  }

  Writer writer_;
  Follower nodes_;
  Follower pods_;
  Follower claims_;
  Follower slices_;
  Follower classes_;
  Follower rules_;
  Follower groups_;
  placement::Inventory inventory_;
  std::map<ObjectKey, api::Ptr<api::Pod>> decoded_;
  std::map<std::string, api::Ptr<api::Node>> decoded_nodes_;
  // Waiting pods with the same digest ask for the same. Bindings only take room, so what one of
  // them was refused in a step, all are.
  std::map<ObjectKey, std::string> shapes_;
  std::map<std::string, std::string> hopeless_;  // digest -> why
  std::set<ObjectKey> waiting_;
  // Waiting pods that did not fit, and whether something has happened since that could give them
  // room: without it they are not looked at.
  std::set<ObjectKey> refused_;
  bool room_ = false;
  std::map<ObjectKey, std::set<ObjectKey>> members_;
  std::map<std::string, ResourceVector> used_;
};

}  // namespace

std::unique_ptr<StandIn> MakeKubeScheduler(ApiServer& server) {
  return std::make_unique<KubeScheduler>(server);
}

}  // namespace muster::sim
