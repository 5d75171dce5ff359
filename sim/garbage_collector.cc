#include "sim/garbage_collector.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/kind.h"
#include "sim/access.h"
#include "sim/follower.h"

namespace muster::sim {
namespace {

using api::Kind;

// Kinds that own others or are owned here. A reference to any other kind is left alone.
constexpr std::array kFollowed{Kind::kNode,
                               Kind::kPod,
                               Kind::kJob,
                               Kind::kWorkload,
                               Kind::kResourceClaim,
                               Kind::kResourceSlice,
                               Kind::kNativeWorkload,
                               Kind::kPodGroup,
                               Kind::kCompositePodGroup,
                               Kind::kLocalQueue,
                               Kind::kClusterQueue};

struct ObjectId {
  Kind kind = Kind::kPod;
  api::ObjectKey key;
  friend auto operator<=>(const ObjectId&, const ObjectId&) = default;
};

class GarbageCollector final : public StandIn {
 public:
  explicit GarbageCollector(ApiServer& server)
      : writer_(server), namespaces_(server, "/api/v1/namespaces") {
    for (const Kind kind : kFollowed) {
      followers_.emplace_back(kind, Follower(server, api::Path(kind, "", "")));
    }
  }

  bool Step(TimePoint now) override {
    for (auto& [kind, follower] : followers_) {
      const Kind this_kind = kind;
      follower.Drain(now, [&](const api::ObjectKey& key, const Json* before, const Json* after) {
        OnChange({.kind = this_kind, .key = key}, before, after);
      });
    }
    namespaces_.Drain(now, [&](const api::ObjectKey& key, const Json*, const Json* after) {
      if (after != nullptr && HasText(ObjectAt(*after, "metadata"), "deletionTimestamp")) {
        ending_namespaces_.insert(key.name);
      } else {
        ending_namespaces_.erase(key.name);
      }
    });
    bool changed = false;
    for (const ObjectId& id : std::exchange(dirty_, {})) {
      changed = Act(id, now) || changed;
    }
    for (const std::string& name : std::set<std::string>(ending_namespaces_)) {
      changed = EmptyNamespace(name, now) || changed;
    }
    return changed;
  }

  [[nodiscard]] std::optional<TimePoint> NextWake() const override { return std::nullopt; }

 private:
  static const Json& Meta(const Json& object) { return ObjectAt(object, "metadata"); }

  [[nodiscard]] const Json* Find(const ObjectId& id) const {
    for (const auto& [kind, follower] : followers_) {
      if (kind == id.kind) {
        return follower.Find(id.key);
      }
    }
    return nullptr;
  }

  void OnChange(const ObjectId& id, const Json* before, const Json* after) {
    if (before != nullptr) {
      for (const Json& owner : ListAt(Meta(*before), "ownerReferences")) {
        const auto it = dependents_.find(TextAt(owner, "uid"));
        if (it != dependents_.end()) {
          it->second.erase(id);
          // An owner that waits for its dependents looks again.
          if (const auto alive = alive_.find(TextAt(owner, "uid")); alive != alive_.end()) {
            dirty_.insert(alive->second);
          }
        }
      }
    }
    if (after != nullptr) {
      alive_[TextAt(Meta(*after), "uid")] = id;
      for (const Json& owner : ListAt(Meta(*after), "ownerReferences")) {
        dependents_[TextAt(owner, "uid")].insert(id);
      }
      dirty_.insert(id);
      if (id.kind == Kind::kPod) {
        pods_of_node_[TextAt(ObjectAt(*after, "spec"), "nodeName")].insert(id);
      } else if (id.kind == Kind::kNode) {
        node_seen_.insert(id.key.name);
      }
      return;
    }
    const std::string uid = TextAt(Meta(*before), "uid");
    alive_.erase(uid);
    if (const auto it = dependents_.find(uid); it != dependents_.end()) {
      dirty_.insert(it->second.begin(), it->second.end());
    }
    if (id.kind == Kind::kPod) {
      pods_of_node_[TextAt(ObjectAt(*before, "spec"), "nodeName")].erase(id);
    } else if (id.kind == Kind::kNode) {
      dirty_.insert(pods_of_node_[id.key.name].begin(), pods_of_node_[id.key.name].end());
    }
  }

  [[nodiscard]] static std::string PathOf(const ObjectId& id) {
    return api::Path(id.kind, id.key.ns, id.key.name);
  }

  // Whether the kind of a reference is one whose absence we can know.
  [[nodiscard]] static bool Known(const Json& owner) {
    const std::string api_version = TextAt(owner, "apiVersion");
    const std::size_t slash = api_version.find('/');
    const auto kind = api::FindKind(slash == std::string::npos ? "" : api_version.substr(0, slash),
                                    TextAt(owner, "kind"));
    return kind && std::find(kFollowed.begin(), kFollowed.end(), *kind) != kFollowed.end();
  }

  bool Act(const ObjectId& id, TimePoint now) {
    const Json* object = Find(id);
    if (object == nullptr) {
      return false;
    }
    const Json& meta = Meta(*object);
    const bool deleting = HasText(meta, "deletionTimestamp");
    if (deleting && HasFinalizer(meta, "foregroundDeletion")) {
      return Foreground(id, meta, now);
    }
    if (deleting && HasFinalizer(meta, "orphan")) {
      return Orphan(id, meta, now);
    }
    if (id.kind == Kind::kPod) {
      const std::string node = TextAt(ObjectAt(*object, "spec"), "nodeName");
      if (!node.empty() &&
          Find({.kind = Kind::kNode, .key = {.ns = "", .name = node}}) == nullptr &&
          node_seen_.contains(node)) {
        return writer_.Delete(PathOf(id), "?gracePeriodSeconds=0", now);
      }
    }
    return !deleting && Collect(id, meta, now);
  }

  static bool HasFinalizer(const Json& meta, std::string_view name) {
    const std::vector<std::string> finalizers = TextsAt(meta, "finalizers");
    return std::find(finalizers.begin(), finalizers.end(), name) != finalizers.end();
  }

  bool RemoveFinalizer(const ObjectId& id, const Json& meta, std::string_view name, TimePoint now) {
    Json left = Json::array();
    for (const std::string& finalizer : TextsAt(meta, "finalizers")) {
      if (finalizer != name) {
        left.push_back(finalizer);
      }
    }
    return writer_.Patch(PathOf(id), Json{{"metadata", {{"finalizers", left}}}}, now).has_value();
  }

  bool Foreground(const ObjectId& id, const Json& meta, TimePoint now) {
    const auto it = dependents_.find(TextAt(meta, "uid"));
    if (it == dependents_.end() || it->second.empty()) {
      return RemoveFinalizer(id, meta, "foregroundDeletion", now);
    }
    bool changed = false;
    for (const ObjectId& dependent : std::set<ObjectId>(it->second)) {
      const Json* object = Find(dependent);
      if (object != nullptr && !HasText(Meta(*object), "deletionTimestamp")) {
        changed =
            writer_.Delete(PathOf(dependent), "?propagationPolicy=Foreground", now) || changed;
      }
    }
    return changed;
  }

  bool Orphan(const ObjectId& id, const Json& meta, TimePoint now) {
    const std::string uid = TextAt(meta, "uid");
    if (const auto it = dependents_.find(uid); it != dependents_.end()) {
      for (const ObjectId& dependent : std::set<ObjectId>(it->second)) {
        if (const Json* object = Find(dependent)) {
          (void)DropReferences(dependent, Meta(*object), {uid}, now);
        }
      }
    }
    return RemoveFinalizer(id, meta, "orphan", now);
  }

  bool DropReferences(const ObjectId& id,
                      const Json& meta,
                      const std::set<std::string>& uids,
                      TimePoint now) {
    Json left = Json::array();
    for (const Json& owner : ListAt(meta, "ownerReferences")) {
      if (!uids.contains(TextAt(owner, "uid"))) {
        left.push_back(owner);
      }
    }
    return writer_.Patch(PathOf(id), Json{{"metadata", {{"ownerReferences", left}}}}, now)
        .has_value();
  }

  // An object all of whose owners are gone goes; one that has others loses the dangling references.
  bool Collect(const ObjectId& id, const Json& meta, TimePoint now) {
    std::set<std::string> gone;
    bool others = false;
    for (const Json& owner : ListAt(meta, "ownerReferences")) {
      const std::string uid = TextAt(owner, "uid");
      if (!alive_.contains(uid) && Known(owner)) {
        gone.insert(uid);
      } else {
        others = true;
      }
    }
    if (gone.empty()) {
      return false;
    }
    return others ? DropReferences(id, meta, gone, now)
                  : writer_.Delete(PathOf(id), "?propagationPolicy=Background", now);
  }

  bool EmptyNamespace(const std::string& name, TimePoint now) {
    bool changed = false;
    bool empty = true;
    for (const auto& [kind, follower] : followers_) {
      if (!api::Info(kind).namespaced) {
        continue;
      }
      for (const auto& [key, object] : follower.objects()) {
        if (key.ns == name) {
          empty = false;
          if (!HasText(Meta(object), "deletionTimestamp")) {
            changed =
                writer_.Delete(
                    api::Path(kind, key.ns, key.name), "?propagationPolicy=Background", now) ||
                changed;
          }
        }
      }
    }
    if (!empty) {
      return changed;
    }
    for (const Kind kind :
         {Kind::kLimitRange, Kind::kResourceClaimTemplate, Kind::kLease, Kind::kEvent}) {
      (void)writer_.Delete(api::Path(kind, name, ""), "", now);
    }
    ending_namespaces_.erase(name);
    const std::string path = "/api/v1/namespaces/" + name;
    changed =
        writer_.Patch(path + "/finalize", Json{{"spec", {{"finalizers", Json::array()}}}}, now)
            .has_value() ||
        changed;
    // Nothing holds it any more; the deletion that was asked for is asked for again.
    return writer_.Delete(path, "", now) || changed;
  }

  Writer writer_;
  std::vector<std::pair<Kind, Follower>> followers_;
  Follower namespaces_;
  std::set<ObjectId> dirty_;
  std::map<std::string, ObjectId> alive_;                 // UID -> object
  std::map<std::string, std::set<ObjectId>> dependents_;  // owner UID -> objects
  std::map<std::string, std::set<ObjectId>> pods_of_node_;
  // Nodes that have been there: a pod on a node that is still to come is no garbage.
  std::set<std::string> node_seen_;
  std::set<std::string> ending_namespaces_;
};

}  // namespace

std::unique_ptr<StandIn> MakeGarbageCollector(ApiServer& server) {
  return std::make_unique<GarbageCollector>(server);
}

}  // namespace muster::sim
