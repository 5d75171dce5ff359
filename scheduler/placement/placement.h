#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/core.h"
#include "api/metadata.h"
#include "api/resource.h"
#include "base/resource_vector.h"

// All-or-nothing placement of gangs on nodes and devices.
namespace muster::placement {

// One claim of a gang's pods.
struct ClaimDemand {
  std::string name;  // for messages: the pod claim's name
  api::ClaimSpec spec;
  // One claim object used by several pods (a named ResourceClaim, or a PodGroup's claim): allocated
  // once for the gang. Otherwise it is made from a template, once per pod.
  bool shared = false;
  // The existing ResourceClaim object, if there is one; its allocation, if any, binds the pods that
  // use it.
  std::optional<api::ObjectKey> existing;
};

// `count` identical members of a gang.
struct PodClass {
  std::string name;  // pod set name, for messages
  std::int32_t count = 0;
  // Per pod, without "pods". Extended resources stay under their own name; the solver turns those
  // that a DeviceClass serves into requests.
  ResourceVector requests;
  api::StringMap node_selector;  // the pod's own and those of the assigned flavors, merged
  api::NodeSelector required_affinity;
  std::vector<api::PreferredTerm> preferred_affinity;
  std::vector<api::Toleration> tolerations;  // the pod's own and those of the flavors
  std::vector<api::ContainerPort> host_ports;
  std::vector<std::size_t> claims;  // indexes into GangRequest::claims
  // False (Elastic): nodes are preferred but do not bind; what finds no node is left unplaced and
  // counted in Placement::unplaced.
  bool nodes_bind = true;
  // False only under an explicit Elastic: devices that no slice shows yet may come with new nodes.
  bool devices_bind = true;
};

struct GangRequest {
  std::string name;  // namespace/name, for messages
  std::string ns;    // for named claims
  std::vector<PodClass> classes;
  std::vector<ClaimDemand> claims;
};

// DeviceChoice::claim of devices for extended resources that a DeviceClass serves: kube-scheduler
// makes their claim when it binds, so there is none to write. Their `request` is the resource's
// name.
inline constexpr std::size_t kExtendedResourceClaim = static_cast<std::size_t>(-1);

struct DeviceChoice {
  std::size_t claim = 0;  // index into GangRequest::claims, or kExtendedResourceClaim
  std::string request;    // "req" or "req/sub"
  std::string driver;
  std::string pool;
  std::string device;
  bool admin_access = false;
  bool share = false;  // one of several allocations of the device (allowMultipleAllocations): it
                       // needs a shareID
  std::map<std::string, api::Quantity, std::less<>> consumed_capacity;
};
struct PodPlacement {
  std::size_t pod_class = 0;
  std::int32_t index = 0;             // rank within the class
  std::string node;                   // empty: left to kube-scheduler (Elastic)
  std::vector<DeviceChoice> devices;  // of per-pod claims
};
struct Placement {
  std::vector<PodPlacement> pods;            // every member, ordered by class then index
  std::vector<DeviceChoice> shared_devices;  // of shared claims
  std::int32_t unplaced = 0;                 // members without a node under Elastic
  // kube-scheduler's own first choice, binding these pods in order, would agree with this plan's
  // devices.
  bool agrees_with_first_fit = true;
};

// One refusal in numbers.
struct Reason {
  // kNodes: too few nodes fit; kResource: a resource is short; kDevices; kUnsupported: needs
  // something not built yet; kClaimMissing.
  enum class Code : std::uint8_t {
    kNodes,
    kResource,
    kDevices,
    kUnsupported,
    kClaimMissing,
    kSelector
  };
  Code code = Code::kNodes;
  std::string pod_class;
  std::string resource;  // what is short: "nvidia.com/gpu", a device class, ...
  std::int64_t asked = 0;
  std::int64_t free = 0;
  // A whole sentence with numbers: "pod set main: 8 pods asked, 6 fit: nvidia.com/gpu 8 asked and 6
  // free on 3 matching nodes; excluded: taint 2, nodeSelector 1".
  std::string message;
};
struct Unplaceable {
  std::vector<Reason> reasons;
};
// The step budget ran out. Never a false "no": the caller tries again with more, or says that it
// does not know.
struct Undecided {
  std::int64_t steps = 0;
};
using Answer = std::variant<Placement, Unplaceable, Undecided>;

class InventoryView;  // immutable; see below

// Nodes, pods, slices and claims as last seen.
//
// Threads  Built and changed on the I/O thread. View() is handed to the solver thread.
// Cost     Upserts are O(log n) plus the object; View() shares every node and pool that did not
// change.
class Inventory {
 public:
  Inventory();
  ~Inventory();
  Inventory(const Inventory&) = delete;
  Inventory& operator=(const Inventory&) = delete;

  void Upsert(const std::shared_ptr<const api::Node>& node);
  void Upsert(const std::shared_ptr<const api::Pod>&
                  pod);  // counted while bound and not terminated, ours or not
  void Upsert(const std::shared_ptr<const api::ResourceSlice>& slice);
  void Upsert(const std::shared_ptr<const api::DeviceClass>& device_class);
  void Upsert(const std::shared_ptr<const api::ResourceClaim>& claim);
  void Upsert(const std::shared_ptr<const api::DeviceTaintRule>& rule);
  void DeleteNode(const std::string& name);
  void DeletePod(const api::ObjectKey& key);
  void DeleteSlice(const std::string& name);
  void DeleteDeviceClass(const std::string& name);
  void DeleteClaim(const api::ObjectKey& key);
  void DeleteTaintRule(const std::string& name);

  // Promises made by admissions whose pods are not bound yet: they hold capacity under `holder`
  // until released or replaced. `bound` pods of the holder must be left out by the caller (they
  // count as pods).
  void Hold(const std::string& holder, const GangRequest& gang, const Placement& placement);
  // Releases the promise of one member (its pod has been bound), or all of them.
  void ReleaseOne(const std::string& holder, std::size_t pod_class, std::int32_t index);
  void Release(const std::string& holder);

  [[nodiscard]] std::shared_ptr<const InventoryView> View() const;
  // Grows whenever capacity for somebody may have grown (node added or relabelled, pod gone, device
  // freed, promise released). Parked work that waits for capacity is tried again when it has moved.
  [[nodiscard]] std::uint64_t growth_generation() const;
  [[nodiscard]] bool has_nodes() const;

  // A node that offers one kind of hardware through a device plugin and through a DRA driver. The
  // plugin's count is not used there, because the two would hand out one device twice. Ordered by
  // node, then resource.
  struct DoubleOffer {
    std::string node;
    std::string resource;  // of the plugin
    std::string driver;
  };
  [[nodiscard]] std::vector<DoubleOffer> DoubleOfferedNodes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A sandbox over a view in which gangs are placed one after the other.
//
// Threads  One; the view may be shared.
// Cost     Checkpoint and Rollback are O(changes since). A homogeneous gang costs O(nodes that
// match) once per distinct shape.
class Trial {
 public:
  explicit Trial(std::shared_ptr<const InventoryView> view);
  ~Trial();
  Trial(Trial&&) noexcept;
  Trial& operator=(Trial&&) noexcept;

  // Places the whole gang and, if it fits, takes the capacity in this trial.
  [[nodiscard]] Answer Place(const GangRequest& gang, std::int64_t budget_steps);
  // As Place, but takes nothing.
  [[nodiscard]] Answer Probe(const GangRequest& gang, std::int64_t budget_steps);

  using Mark = std::size_t;
  [[nodiscard]] Mark Checkpoint() const;
  void Rollback(Mark mark);
  // Takes what `placement` says, whether it is free or not: the plan of a gang that waits for
  // others to go keeps its place, and where they still run, nothing is left.
  void Occupy(const GangRequest& gang, const Placement& placement);
  // Gives back what a running workload holds, to see what its eviction would free: the pods named
  // here and promises of `holder`.
  void Remove(const std::string& holder, const std::vector<api::ObjectKey>& pods);

  // Nodes matching `labels` (all of them for empty labels). For "Auto" capacity and for messages.
  [[nodiscard]] std::int64_t CountNodes(const api::StringMap& labels) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::placement
