#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/placement/placement.h"
#include "scheduler/placement/trial_state.h"

// Devices for claims: what a claim may take on a node, and the search for a complete choice.
//
// Source   The structured allocator of k8s.io/dynamic-resource-allocation ("incubating", what
// kube-scheduler 1.37 runs by default): pool and
//          device order, the checks on one device and their order, first complete solution in
//          depth-first order. What is skipped here is skipped only where it cannot hold the first
//          solution, so one claim on one node gets upstream's devices.
namespace muster::placement {

// A claim never holds more devices than this.
inline constexpr std::int64_t kMaxDevicesPerClaim = 32;

// One way to satisfy a request: `exactly`, or an entry of firstAvailable.
struct DeviceOption {
  std::string label;  // "req", "req/sub", or a resource name
  std::string device_class;
  std::vector<std::string> selectors;  // the class's, then the request's
  bool all = false;
  std::int64_t count = 1;
  bool admin = false;
  std::vector<api::DeviceToleration> tolerations;
  std::map<std::string, api::Quantity, std::less<>> capacity;
  std::uint32_t id = 0;  // dense in the gang
};
struct RequestPlan {
  std::string name;
  std::vector<DeviceOption> options;
};
struct ConstraintPlan {
  std::uint32_t attribute = 0;  // dense in the gang
  bool distinct = false;
  std::vector<std::uint32_t> options;  // ids that it applies to, ascending
};
struct ClaimPlan {
  std::size_t claim = 0;  // index into GangRequest::claims, or kExtendedResourceClaim
  std::string name;
  std::vector<RequestPlan> requests;
  std::vector<ConstraintPlan> constraints;
};

// Where one option stands on one device, apart from what is in use.
enum class Fit : std::uint8_t {
  kNo,
  kYes,
  kTainted,  // selected, but a taint is not tolerated: counts for mode All, and makes it fail
  kError,    // a selector, or the capacity request, cannot be evaluated
};

struct NodeDevice {
  std::uint32_t pool = 0;
  std::uint32_t device = 0;
  bool multiple = false;
  bool counters = false;
  std::uint32_t twin = 0;  // devices of one number can stand in for each other
};
// The devices that one node can use, in the order in which they are tried.
struct NodeDevices {
  std::vector<NodeDevice> devices;
  std::vector<Fit> fits;                           // [device * options + option]
  std::vector<std::int32_t> values;                // [device * attributes + attribute]; -1: absent
  std::vector<std::vector<std::uint32_t>> listed;  // by option with mode All: its devices
  std::vector<std::int64_t>
      usable;            // by option: devices that fit and are free now; kept for upper bounds
  bool shares = false;   // an option may take a device that allows several allocations
  bool network = false;  // an option may take a device that other nodes can use too
  std::string broken;    // why mode All fails here: an incomplete or invalid pool
  std::string error;     // the first selector error
};

class DeviceProblem {
 public:
  DeviceProblem(TrialState& state, const GangRequest& gang) : state_(state), gang_(gang) {}

  // Adds a claim. A refusal names what is missing or not supported.
  [[nodiscard]] std::optional<Reason> Add(std::size_t claim, const api::ClaimSpec& spec);
  // Adds what `count` devices of an extended resource ask for. Returns the plan's index.
  std::size_t AddExtended(const std::string& resource,
                          const std::string& device_class,
                          std::int64_t count);
  [[nodiscard]] const ClaimPlan* plan(std::size_t claim) const;
  [[nodiscard]] const ClaimPlan& at(std::size_t index) const { return *plans_[index]; }
  [[nodiscard]] bool empty() const { return plans_.empty(); }
  [[nodiscard]] std::size_t option_count() const { return options_.size(); }
  [[nodiscard]] const DeviceOption& option(std::uint32_t id) const { return *options_[id]; }

  // The node's devices for the claims of this gang; built once, before anything of the gang is
  // taken.
  [[nodiscard]] const NodeDevices& On(NodeIndex node);
  // What `option` would use of a shared device; nullopt when the device cannot give it.
  [[nodiscard]] std::optional<Consumption> Consume(std::uint32_t option,
                                                   const NodeDevice& device) const;

 private:
  [[nodiscard]] std::optional<Reason> AddOption(RequestPlan& request,
                                                const std::string& label,
                                                const api::DeviceSubRequest& from);
  void Build(NodeIndex node, NodeDevices& out);
  [[nodiscard]] std::uint32_t Attribute(const std::string& name);
  [[nodiscard]] Fit FitOf(const DeviceOption& option,
                          const PoolRecord& pool,
                          std::uint32_t device,
                          std::string& error) const;

  TrialState& state_;
  const GangRequest& gang_;
  std::vector<std::unique_ptr<ClaimPlan>> plans_;
  std::map<std::size_t, std::size_t> by_claim_;
  std::vector<const DeviceOption*> options_;
  std::vector<std::string> attributes_;
  std::map<std::string, std::int32_t> value_ids_;
  std::map<std::string, std::uint32_t> twin_ids_;
  std::map<NodeIndex, std::unique_ptr<NodeDevices>> nodes_;
};

// One device of a solution.
struct Chosen {
  std::uint32_t option = 0;
  std::uint32_t pool = 0;
  std::uint32_t device = 0;
  bool admin = false;
  bool share = false;
  Consumption consumed;

  friend bool operator==(const Chosen& a, const Chosen& b) {
    return a.option == b.option && a.pool == b.pool && a.device == b.device;
  }
};
// A claim to be satisfied on a node, for one pod.
struct SearchItem {
  const ClaimPlan* plan = nullptr;
  const NodeDevices* node = nullptr;
  std::size_t pod = 0;  // items of one pod share the rules for admin access
};

enum class Found : std::uint8_t { kYes, kNo, kBudget, kError };

// Like upstream, kFirstFit gives up on the node where upstream does: at the first selector error,
// and where a constraint refuses a device of mode All. kAny goes on.
enum class SearchMode : std::uint8_t { kFirstFit, kAny };

// Finds devices for all items at once. On kYes they are taken in `state` and listed in `chosen` (by
// item); otherwise the state is as before.
[[nodiscard]] Found SearchDevices(TrialState& state,
                                  const DeviceProblem& problem,
                                  const std::vector<SearchItem>& items,
                                  SearchMode mode,
                                  std::int64_t& steps_left,
                                  std::vector<std::vector<Chosen>>& chosen);

// Takes the devices of a known solution, or gives them back.
void TakeChosen(TrialState& state, const std::vector<Chosen>& chosen);
void ReturnChosen(TrialState& state, const std::vector<Chosen>& chosen);

}  // namespace muster::placement
