#include "sim/resource_claim_controller.h"

#include <map>
#include <set>
#include <string>
#include <utility>

#include "api/kind.h"
#include "base/digest.h"
#include "sim/access.h"
#include "sim/follower.h"

namespace muster::sim {
namespace {

using api::Kind;
using api::ObjectKey;

constexpr std::string_view kProtection = "resource.kubernetes.io/delete-protection";

const Json& Meta(const Json& object) {
  return ObjectAt(object, "metadata");
}

bool Over(const Json& pod) {
  const std::string phase = TextAt(ObjectAt(pod, "status"), "phase");
  return phase == "Succeeded" || phase == "Failed";
}

class ResourceClaimController final : public StandIn {
 public:
  explicit ResourceClaimController(ApiServer& server)
      : writer_(server),
        pods_(server, "/api/v1/pods"),
        claims_(server, api::Path(Kind::kResourceClaim, "", "")),
        templates_(server, api::Path(Kind::kResourceClaimTemplate, "", "")),
        groups_(server, api::Path(Kind::kPodGroup, "", "")) {}

  bool Step(TimePoint now) override {
    templates_.Drain(now, [&](const ObjectKey& key, const Json*, const Json* after) {
      if (after != nullptr) {
        // Pods that came before their template.
        for (const ObjectKey& pod : waiting_for_template_[key]) {
          dirty_pods_.insert(pod);
        }
        waiting_for_template_.erase(key);
      }
    });
    groups_.Drain(now, [&](const ObjectKey& key, const Json*, const Json* after) {
      if (after == nullptr) {
        TouchClaims(key.ns);
      }
      if (const auto it = members_.find(key); it != members_.end()) {
        dirty_pods_.insert(it->second.begin(), it->second.end());
      }
    });
    pods_.Drain(now, [&](const ObjectKey& key, const Json* before, const Json* after) {
      if (after != nullptr) {
        dirty_pods_.insert(key);
      }
      if (const std::string group = GroupOf(after != nullptr ? *after : *before); !group.empty()) {
        std::set<ObjectKey>& members = members_[{.ns = key.ns, .name = group}];
        if (after != nullptr) {
          members.insert(key);
        } else {
          members.erase(key);
        }
      }
      const bool over_now = after == nullptr || Over(*after);
      if (over_now && (before == nullptr || !Over(*before) || after == nullptr)) {
        const Json& pod = after != nullptr ? *after : *before;
        for (const Json& status : ListAt(ObjectAt(pod, "status"), "resourceClaimStatuses")) {
          dirty_claims_.insert({.ns = key.ns, .name = TextAt(status, "resourceClaimName")});
        }
        for (const Json& entry : ListAt(ObjectAt(pod, "spec"), "resourceClaims")) {
          dirty_claims_.insert({.ns = key.ns, .name = TextAt(entry, "resourceClaimName")});
        }
        dirty_claims_.insert(
            {.ns = key.ns,
             .name = TextAt(ObjectAt(ObjectAt(pod, "status"), "extendedResourceClaimStatus"),
                            "resourceClaimName")});
      }
    });
    claims_.Drain(now, [&](const ObjectKey& key, const Json*, const Json* after) {
      if (after != nullptr) {
        dirty_claims_.insert(key);
      }
    });
    bool changed = false;
    for (const ObjectKey& key : std::exchange(dirty_pods_, {})) {
      changed = MakeClaims(key, now) || changed;
    }
    for (const ObjectKey& key : std::exchange(dirty_claims_, {})) {
      changed = CleanUp(key, now) || changed;
    }
    return changed;
  }

  [[nodiscard]] std::optional<TimePoint> NextWake() const override { return std::nullopt; }

 private:
  static std::string GroupOf(const Json& pod) {
    return TextAt(ObjectAt(ObjectAt(pod, "spec"), "schedulingGroup"), "podGroupName");
  }

  void TouchClaims(const std::string& ns) {
    for (const auto& [key, claim] : claims_.objects()) {
      if (key.ns == ns) {
        dirty_claims_.insert(key);
      }
    }
  }

  // The name that the status of `owner` records for this entry; empty if there is none yet.
  static std::string Recorded(const Json& owner, std::string_view entry) {
    for (const Json& status : ListAt(ObjectAt(owner, "status"), "resourceClaimStatuses")) {
      if (TextAt(status, "name") == entry) {
        return TextAt(status, "resourceClaimName");
      }
    }
    return {};
  }

  // Creates the claim of one entry for `owner`, or finds it. Empty if the template is missing.
  std::string Ensure(Kind owner_kind,
                     const ObjectKey& owner_key,
                     const Json& owner,
                     const Json& entry,
                     TimePoint now) {
    const ObjectKey template_key{.ns = owner_key.ns,
                                 .name = TextAt(entry, "resourceClaimTemplateName")};
    const Json* claim_template = templates_.Find(template_key);
    if (claim_template == nullptr) {
      return {};
    }
    const std::string entry_name = TextAt(entry, "name");
    const std::string uid = TextAt(Meta(owner), "uid");
    // The real controller draws five letters; a digest does the same without chance.
    const std::string name = owner_key.name.substr(0, 180) + "-" + entry_name + "-" +
                             Sha1Hex(uid + "/" + entry_name).substr(0, 5);
    if (claims_.Find({.ns = owner_key.ns, .name = name}) != nullptr) {
      return name;
    }
    const Json& spec = ObjectAt(*claim_template, "spec");
    const api::KindInfo& info = api::Info(owner_kind);
    Json meta{{"namespace", owner_key.ns},
              {"name", name},
              {"annotations", {{"resource.kubernetes.io/pod-claim-name", entry_name}}},
              {"ownerReferences",
               Json::array({{{"apiVersion", info.ApiVersion()},
                             {"kind", info.name},
                             {"name", owner_key.name},
                             {"uid", uid},
                             {"controller", true},
                             {"blockOwnerDeletion", true}}})}};
    const Json& wanted = ObjectAt(spec, "metadata");
    for (const auto& [key, value] : ObjectAt(wanted, "annotations").items()) {
      meta["annotations"][key] = value;
    }
    if (const Json& labels = ObjectAt(wanted, "labels"); !labels.empty()) {
      meta["labels"] = labels;
    }
    const auto created =
        writer_.Create(api::Path(Kind::kResourceClaim, owner_key.ns, ""),
                       Json{{"apiVersion", api::Info(Kind::kResourceClaim).ApiVersion()},
                            {"kind", "ResourceClaim"},
                            {"metadata", meta},
                            {"spec", ObjectAt(spec, "spec")}},
                       now);
    return created ? name : std::string();
  }

  bool MakeClaims(const ObjectKey& key, TimePoint now) {
    const Json* pod = pods_.Find(key);
    if (pod == nullptr || Over(*pod) || HasText(Meta(*pod), "deletionTimestamp")) {
      return false;
    }
    Json statuses = ListAt(ObjectAt(*pod, "status"), "resourceClaimStatuses");
    bool changed = false;
    for (const Json& entry : ListAt(ObjectAt(*pod, "spec"), "resourceClaims")) {
      const std::string entry_name = TextAt(entry, "name");
      if (!HasText(entry, "resourceClaimTemplateName") || !Recorded(*pod, entry_name).empty()) {
        continue;
      }
      std::string name;
      const ObjectKey group_key{.ns = key.ns, .name = GroupOf(*pod)};
      const Json* group = group_key.name.empty() ? nullptr : groups_.Find(group_key);
      if (group != nullptr && SharedByGroup(*group, entry)) {
        name = EnsureForGroup(group_key, *group, entry, now);
      } else {
        name = Ensure(Kind::kPod, key, *pod, entry, now);
      }
      if (name.empty()) {
        waiting_for_template_[{.ns = key.ns, .name = TextAt(entry, "resourceClaimTemplateName")}]
            .insert(key);
        continue;
      }
      statuses.push_back({{"name", entry_name}, {"resourceClaimName", name}});
      changed = true;
    }
    return changed && writer_
                          .Patch(api::Path(Kind::kPod, key.ns, key.name, "status"),
                                 Json{{"status", {{"resourceClaimStatuses", statuses}}}},
                                 now)
                          .has_value();
  }

  static bool SharedByGroup(const Json& group, const Json& entry) {
    for (const Json& mine : ListAt(ObjectAt(group, "spec"), "resourceClaims")) {
      if (TextAt(mine, "name") == TextAt(entry, "name") &&
          TextAt(mine, "resourceClaimTemplateName") == TextAt(entry, "resourceClaimTemplateName")) {
        return true;
      }
    }
    return false;
  }

  std::string EnsureForGroup(const ObjectKey& key,
                             const Json& group,
                             const Json& entry,
                             TimePoint now) {
    const std::string recorded = Recorded(group, TextAt(entry, "name"));
    if (!recorded.empty()) {
      return recorded;
    }
    std::string name = Ensure(Kind::kPodGroup, key, group, entry, now);
    if (!name.empty()) {
      Json statuses = ListAt(ObjectAt(group, "status"), "resourceClaimStatuses");
      statuses.push_back({{"name", TextAt(entry, "name")}, {"resourceClaimName", name}});
      (void)writer_.Patch(api::Path(Kind::kPodGroup, key.ns, key.name, "status"),
                          Json{{"status", {{"resourceClaimStatuses", statuses}}}},
                          now);
    }
    return name;
  }

  [[nodiscard]] bool StillUses(const std::string& ns, const Json& consumer) const {
    const ObjectKey key{.ns = ns, .name = TextAt(consumer, "name")};
    if (TextAt(consumer, "resource") == "podgroups") {
      const Json* group = groups_.Find(key);
      return group != nullptr && TextAt(Meta(*group), "uid") == TextAt(consumer, "uid");
    }
    const Json* pod = pods_.Find(key);
    return pod != nullptr && TextAt(Meta(*pod), "uid") == TextAt(consumer, "uid") && !Over(*pod);
  }

  bool CleanUp(const ObjectKey& key, TimePoint now) {
    const Json* claim = claims_.Find(key);
    if (claim == nullptr) {
      return false;
    }
    const std::string path = api::Path(Kind::kResourceClaim, key.ns, key.name);
    const Json& status = ObjectAt(*claim, "status");
    const Json& reserved = ListAt(status, "reservedFor");
    Json left = Json::array();
    for (const Json& consumer : reserved) {
      if (StillUses(key.ns, consumer)) {
        left.push_back(consumer);
      }
    }
    const bool allocated =
        Member(status, "allocation") != nullptr && !status.at("allocation").is_null();
    bool changed = false;
    if (left.size() != reserved.size()) {
      Json patch{{"reservedFor", left}};
      if (left.empty() && allocated) {
        patch["allocation"] = nullptr;
      }
      changed = writer_.Patch(path + "/status", Json{{"status", patch}}, now).has_value();
    } else if (left.empty() && allocated && HasText(Meta(*claim), "deletionTimestamp")) {
      changed = writer_.Patch(path + "/status", Json{{"status", {{"allocation", nullptr}}}}, now)
                    .has_value();
    }
    if (left.empty() && HasText(Meta(*claim), "deletionTimestamp")) {
      Json finalizers = Json::array();
      for (const std::string& finalizer : TextsAt(Meta(*claim), "finalizers")) {
        if (finalizer != kProtection) {
          finalizers.push_back(finalizer);
        }
      }
      if (finalizers.size() != ListAt(Meta(*claim), "finalizers").size()) {
        changed = writer_.Patch(path, Json{{"metadata", {{"finalizers", finalizers}}}}, now)
                      .has_value() ||
                  changed;
      }
    }
    // A claim made for a pod that is over goes; the pod itself may stay for a while.
    for (const Json& owner : ListAt(Meta(*claim), "ownerReferences")) {
      if (TextAt(owner, "kind") == "Pod" && !HasText(Meta(*claim), "deletionTimestamp")) {
        const Json* pod = pods_.Find({.ns = key.ns, .name = TextAt(owner, "name")});
        if (pod != nullptr && Over(*pod)) {
          changed = writer_.Delete(path, "", now) || changed;
        }
      }
    }
    return changed;
  }

  Writer writer_;
  Follower pods_;
  Follower claims_;
  Follower templates_;
  Follower groups_;
  std::set<ObjectKey> dirty_pods_;
  std::set<ObjectKey> dirty_claims_;
  std::map<ObjectKey, std::set<ObjectKey>> waiting_for_template_;
  std::map<ObjectKey, std::set<ObjectKey>> members_;  // native group -> pods
};

}  // namespace

std::unique_ptr<StandIn> MakeResourceClaimController(ApiServer& server) {
  return std::make_unique<ResourceClaimController>(server);
}

}  // namespace muster::sim
