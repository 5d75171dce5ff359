#include "scheduler/placement/devices.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <set>
#include <tuple>

#include "base/check.h"

namespace muster::placement {
namespace {

bool Tolerated(const DeviceOption& option, const api::DeviceTaint& taint) {
  return std::any_of(
      option.tolerations.begin(), option.tolerations.end(), [&](const auto& toleration) {
        if (!toleration.effect.empty() && toleration.effect != taint.effect) {
          return false;
        }
        if (!toleration.key.empty() && toleration.key != taint.key) {
          return false;
        }
        if (toleration.op == "Exists") {
          return true;
        }
        return (toleration.op.empty() || toleration.op == "Equal") &&
               toleration.value == taint.value;
      });
}

// Lists are an alpha feature: such an attribute counts as absent, as it does with the default
// gates.
std::string ValueText(const api::AttributeValue& value) {
  if (const auto* boolean = std::get_if<bool>(&value)) {
    return *boolean ? "b1" : "b0";
  }
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    return "i" + std::to_string(*number);
  }
  if (const auto* text = std::get_if<std::string>(&value)) {
    return "s" + *text;
  }
  if (const auto* version = std::get_if<api::Version>(&value)) {
    return "v" + version->text;
  }
  return {};
}

const api::AttributeValue* FindAttribute(const api::Device& device,
                                         const std::string& driver,
                                         const std::string& name) {
  const auto full = device.attributes.find(name);
  if (full != device.attributes.end()) {
    return &full->second;
  }
  // A name without domain belongs to the driver.
  const std::size_t slash = name.find('/');
  if (slash != std::string::npos && name.compare(0, slash, driver) == 0) {
    const auto bare = device.attributes.find(std::string_view(name).substr(slash + 1));
    if (bare != device.attributes.end()) {
      return &bare->second;
    }
  }
  return nullptr;
}

bool SliceTargets(const api::ResourceSlice& slice, const api::Node& node) {
  const std::string& name = node.meta.name;
  if (!slice.node_name.empty()) {
    return slice.node_name == name;
  }
  return slice.all_nodes || (slice.node_selector.present &&
                             MatchesSelector(slice.node_selector, node.meta.labels, name));
}

bool Targets(const PoolDevice& device, const api::Node& node) {
  const api::ResourceSlice& slice = *device.slice;
  const std::string& name = node.meta.name;
  if (slice.per_device_node_selection) {
    return device.device->all_nodes ||
           (!device.device->node_name.empty() && device.device->node_name == name) ||
           (device.device->node_selector.present &&
            MatchesSelector(device.device->node_selector, node.meta.labels, name));
  }
  return SliceTargets(slice, node);
}

constexpr std::int64_t kMaxInt64 = std::numeric_limits<std::int64_t>::max();

// Rounds a request up to what the policy of a capacity allows. nullopt: not representable, or
// refused by the policy.
std::optional<api::Quantity> Consumed(const api::DeviceCapacity& capacity,
                                      const api::Quantity* asked) {
  if (!capacity.policy) {
    return asked == nullptr ? capacity.value : *asked;
  }
  const api::RequestPolicy& policy = *capacity.policy;
  if (asked == nullptr) {
    return policy.default_value ? *policy.default_value : capacity.value;
  }
  api::Quantity used = *asked;
  if (policy.range_min) {
    if (used.Compare(*policy.range_min) < 0) {
      used = *policy.range_min;
    } else if (policy.range_step) {
      // used = min + ceil((asked - min) / step) * step, in thousandths where those are exact, else
      // in whole units.
      const bool milli = policy.range_step->MilliValue() >= 1 &&
                         !policy.range_step->MilliValueOverflows() &&
                         !policy.range_min->MilliValueOverflows() && !used.MilliValueOverflows();
      const __int128 min = milli ? policy.range_min->MilliValue() : policy.range_min->Value();
      const __int128 step = milli ? policy.range_step->MilliValue() : policy.range_step->Value();
      const __int128 want = milli ? used.MilliValue() : used.Value();
      if (step <= 0) {
        return std::nullopt;
      }
      const __int128 steps = (want - min + step - 1) / step;
      const __int128 rounded = min + steps * step;
      if (rounded > kMaxInt64) {
        return std::nullopt;
      }
      auto parsed = api::Quantity::Parse(std::to_string(static_cast<std::int64_t>(rounded)) +
                                         (milli ? "m" : ""));
      if (!parsed) {
        return std::nullopt;
      }
      used = *parsed;
    }
    if (policy.range_max && used.Compare(*policy.range_max) > 0 &&
        !(policy.default_value && used == *policy.default_value)) {
      return std::nullopt;
    }
  } else if (!policy.valid_values.empty()) {
    const auto at = std::find_if(policy.valid_values.begin(),
                                 policy.valid_values.end(),
                                 [&](const auto& v) { return v.Compare(used) >= 0; });
    if (at != policy.valid_values.end()) {
      used = *at;
    } else if (!(policy.default_value && used == *policy.default_value)) {
      return std::nullopt;
    }
  }
  return used;
}

// What a share of `device` uses, or nullopt when one of the amounts asked for cannot be given. A
// plain device answers with nothing, but has to pass the same tests.
std::optional<Consumption> ConsumptionOf(const DeviceOption& option, const api::Device& device) {
  for (const auto& [name, amount] : option.capacity) {
    if (!device.capacity.contains(name)) {
      return std::nullopt;
    }
  }
  if (option.capacity.empty() && !device.allow_multiple_allocations) {
    return Consumption{};
  }
  Consumption out;
  for (const auto& [name, capacity] : device.capacity) {
    const auto asked = option.capacity.find(name);
    auto used = Consumed(capacity, asked == option.capacity.end() ? nullptr : &asked->second);
    if (!used || used->negative() || used->Compare(capacity.value) > 0) {
      return std::nullopt;
    }
    out.emplace(name, *std::move(used));
  }
  return out;
}

bool RoomFor(const api::Device& device, const SharedUse* used, const Consumption& more) {
  return std::all_of(more.begin(), more.end(), [&](const auto& entry) {
    const auto& [name, amount] = entry;
    const auto capacity = device.capacity.find(name);
    if (capacity == device.capacity.end()) {
      return false;
    }
    api::Quantity total = amount;
    if (used != nullptr) {
      const auto before = used->consumed.find(name);
      if (before != used->consumed.end()) {
        total = total.Plus(before->second);
      }
    }
    return total.Compare(capacity->second.value) <= 0;
  });
}

Reason DeviceReason(Reason::Code code, std::string resource, std::string message) {
  Reason reason;
  reason.code = code;
  reason.resource = std::move(resource);
  reason.message = std::move(message);
  return reason;
}

}  // namespace

std::uint32_t DeviceProblem::Attribute(const std::string& name) {
  const auto at = std::find(attributes_.begin(), attributes_.end(), name);
  if (at != attributes_.end()) {
    return static_cast<std::uint32_t>(at - attributes_.begin());
  }
  attributes_.push_back(name);
  return static_cast<std::uint32_t>(attributes_.size() - 1);
}

std::optional<Reason> DeviceProblem::AddOption(RequestPlan& request,
                                               const std::string& label,
                                               const api::DeviceSubRequest& from) {
  const auto device_class = state_.view().classes->find(from.device_class);
  if (device_class == state_.view().classes->end()) {
    return DeviceReason(
        Reason::Code::kDevices,
        from.device_class,
        "request " + label + ": device class " + from.device_class + " does not exist");
  }
  if (from.has_derived_attributes) {
    return DeviceReason(Reason::Code::kUnsupported,
                        from.device_class,
                        "unsupported: derivedAttributes in request " + label);
  }
  DeviceOption option;
  option.label = label;
  option.device_class = from.device_class;
  option.selectors = device_class->second->selectors;
  option.selectors.insert(option.selectors.end(), from.selectors.begin(), from.selectors.end());
  option.all = from.all;
  option.count = from.count;
  option.admin = from.admin_access;
  option.tolerations = from.tolerations;
  option.capacity = from.capacity_requests;
  {
    const std::lock_guard lock(state_.view().selectors->mutex);
    for (const auto& text : option.selectors) {
      const Selector& selector = Compile(*state_.view().selectors, text);
      if (!selector.program) {
        return DeviceReason(
            Reason::Code::kSelector,
            from.device_class,
            "request " + label + ": selector " + text + " does not compile: " + selector.error);
      }
    }
  }
  request.options.push_back(std::move(option));
  return std::nullopt;
}

std::optional<Reason> DeviceProblem::Add(std::size_t claim, const api::ClaimSpec& spec) {
  if (by_claim_.contains(claim)) {
    return std::nullopt;
  }
  auto plan = std::make_unique<ClaimPlan>();
  plan->claim = claim;
  plan->name = gang_.claims[claim].name;
  const auto located = [&](Reason reason) {
    reason.message = "claim " + plan->name + ": " + reason.message;
    return reason;
  };
  std::int64_t least = 0;
  for (const auto& request : spec.requests) {
    RequestPlan entry{.name = request.name};
    if (request.exactly) {
      if (auto reason = AddOption(entry, request.name, *request.exactly)) {
        return located(*std::move(reason));
      }
    }
    for (const auto& sub : request.first_available) {
      if (auto reason = AddOption(entry, request.name + "/" + sub.name, sub)) {
        return located(*std::move(reason));
      }
    }
    if (entry.options.empty()) {
      return located(DeviceReason(
          Reason::Code::kUnsupported,
          request.name,
          "unsupported: request " + request.name + " has neither exactly nor firstAvailable"));
    }
    std::int64_t fewest = kMaxInt64;
    for (const auto& option : entry.options) {
      fewest = std::min(fewest, option.all ? 1 : std::max<std::int64_t>(option.count, 0));
    }
    least = (Amount(least) + Amount(fewest)).value();
    plan->requests.push_back(std::move(entry));
  }
  if (least > kMaxDevicesPerClaim) {
    Reason reason = DeviceReason(
        Reason::Code::kDevices,
        plan->requests.front().options.front().device_class,
        plan->requests.front().options.front().device_class + ": " + std::to_string(least) +
            " devices asked, a claim holds at most " + std::to_string(kMaxDevicesPerClaim));
    reason.asked = least;
    reason.free = kMaxDevicesPerClaim;
    return located(std::move(reason));
  }
  std::vector<std::pair<std::uint32_t, std::string>> labels;
  for (auto& request : plan->requests) {
    for (auto& option : request.options) {
      option.id = static_cast<std::uint32_t>(options_.size());
      options_.push_back(&option);
      labels.emplace_back(option.id, option.label);
    }
  }
  for (const auto& constraint : spec.constraints) {
    if (constraint.match_attribute.empty() == constraint.distinct_attribute.empty()) {
      return located(DeviceReason(Reason::Code::kUnsupported,
                                  "",
                                  "unsupported: a constraint with neither matchAttribute nor "
                                  "distinctAttribute"));
    }
    ConstraintPlan entry;
    entry.distinct = constraint.match_attribute.empty();
    entry.attribute =
        Attribute(entry.distinct ? constraint.distinct_attribute : constraint.match_attribute);
    for (const auto& [id, label] : labels) {
      const std::string base = label.substr(0, label.find('/'));
      if (constraint.requests.empty() ||
          std::any_of(constraint.requests.begin(),
                      constraint.requests.end(),
                      [&](const auto& name) { return name == label || name == base; })) {
        entry.options.push_back(id);
      }
    }
    plan->constraints.push_back(std::move(entry));
  }
  by_claim_[claim] = plans_.size();
  plans_.push_back(std::move(plan));
  return std::nullopt;
}

std::size_t DeviceProblem::AddExtended(const std::string& resource,
                                       const std::string& device_class,
                                       std::int64_t count) {
  auto plan = std::make_unique<ClaimPlan>();
  plan->claim = kExtendedResourceClaim;
  plan->name = resource;
  DeviceOption option{.label = resource, .device_class = device_class};
  option.selectors = state_.view().classes->at(device_class)->selectors;
  option.count = count;
  option.id = static_cast<std::uint32_t>(options_.size());
  plan->requests.push_back(RequestPlan{.name = resource, .options = {std::move(option)}});
  options_.push_back(&plan->requests.front().options.front());
  plans_.push_back(std::move(plan));
  return plans_.size() - 1;
}

const ClaimPlan* DeviceProblem::plan(std::size_t claim) const {
  const auto at = by_claim_.find(claim);
  return at == by_claim_.end() ? nullptr : plans_[at->second].get();
}

std::optional<Consumption> DeviceProblem::Consume(std::uint32_t option,
                                                  const NodeDevice& device) const {
  const PoolRecord& pool = *state_.view().pools.Get(device.pool)->record;
  return ConsumptionOf(*options_[option], *pool.devices[device.device].device);
}

Fit DeviceProblem::FitOf(const DeviceOption& option,
                         const PoolRecord& pool,
                         std::uint32_t device,
                         std::string& error) const {
  for (const auto& text : option.selectors) {
    const Selector& selector = Compile(*state_.view().selectors, text);
    const Match match = Results(selector, pool)[device];
    if (match == Match::kError) {
      if (error.empty()) {
        const auto first = pool.first_error.find(selector.id);
        error = first == pool.first_error.end() ? selector.error : first->second;
      }
      return Fit::kError;
    }
    if (match != Match::kYes) {
      return Fit::kNo;
    }
  }
  if (!ConsumptionOf(option, *pool.devices[device].device)) {
    return Fit::kNo;
  }
  const auto& taints = pool.devices[device].taints;
  const bool tainted =
      std::any_of(taints.begin(), taints.end(), [&](const api::DeviceTaint& taint) {
        return !Tolerated(option, taint);
      });
  return tainted ? Fit::kTainted : Fit::kYes;
}

const NodeDevices& DeviceProblem::On(NodeIndex node) {
  auto& entry = nodes_[node];
  if (!entry) {
    entry = std::make_unique<NodeDevices>();
    Build(node, *entry);
  }
  return *entry;
}

void DeviceProblem::Build(NodeIndex node, NodeDevices& out) {
  const InventoryView& view = state_.view();
  const NodeRecord& record = state_.record(node);
  std::vector<std::uint32_t> slots = record.pools;
  slots.insert(slots.end(), view.network_pools->begin(), view.network_pools->end());
  // Pools by driver and name; those with binding conditions after all others.
  const auto before = [&](std::uint32_t a, std::uint32_t b) {
    const PoolRecord& x = *view.pools.Get(a)->record;
    const PoolRecord& y = *view.pools.Get(b)->record;
    return std::tie(x.driver, x.pool) < std::tie(y.driver, y.pool);
  };
  std::sort(slots.begin(), slots.end(), before);
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  struct Targeted {
    std::uint32_t slot = 0;
    std::vector<std::uint32_t> devices;
  };
  std::vector<Targeted> pools;
  std::vector<Targeted> binding;
  for (const std::uint32_t slot : slots) {
    const PoolRecord& pool = *view.pools.Get(slot)->record;
    Targeted targeted{.slot = slot};
    bool binds = false;
    std::set<std::string_view> names;
    std::string invalid = pool.invalid;
    for (std::uint32_t i = 0; i < pool.devices.size(); ++i) {
      if (!Targets(pool.devices[i], *record.node)) {
        continue;
      }
      targeted.devices.push_back(i);
      binds = binds || pool.devices[i].device->has_binding_conditions;
      if (pool.duplicates && !names.insert(pool.devices[i].device->name).second) {
        invalid = "device name " + pool.devices[i].device->name + " is used twice";
      }
    }
    // A slice without devices counts too: it shows that a pool is here, and whether all of it is.
    const bool here =
        !targeted.devices.empty() ||
        std::any_of(pool.slices.begin(), pool.slices.end(), [&](const auto& slice) {
          return !slice->per_device_node_selection && SliceTargets(*slice, *record.node);
        });
    if (!here) {
      continue;
    }
    if (!pool.complete || !invalid.empty()) {
      if (out.broken.empty()) {
        out.broken = "pool " + pool.driver + "/" + pool.pool +
                     (pool.complete ? " is invalid: " + invalid
                                    : " shows " + std::to_string(pool.slices.size()) + " of " +
                                          std::to_string(pool.announced) + " slices");
      }
      continue;
    }
    (binds ? binding : pools).push_back(std::move(targeted));
  }
  pools.insert(pools.end(),
               std::make_move_iterator(binding.begin()),
               std::make_move_iterator(binding.end()));

  out.listed.resize(options_.size());
  out.usable.resize(options_.size());
  const std::lock_guard lock(view.selectors->mutex);
  for (const Targeted& targeted : pools) {
    const PoolRecord& pool = *view.pools.Get(targeted.slot)->record;
    const TrialPool& trial = state_.pool(targeted.slot);
    for (const std::uint32_t i : targeted.devices) {
      const PoolDevice& device = pool.devices[i];
      const auto index = static_cast<std::uint32_t>(out.devices.size());
      NodeDevice entry{.pool = targeted.slot,
                       .device = i,
                       .multiple = device.device->allow_multiple_allocations,
                       .counters = !device.consumes.empty()};
      const bool network = device.slice->node_name.empty();
      bool wanted = false;
      std::string twin;
      for (const DeviceOption* option : options_) {
        const Fit fit = FitOf(*option, pool, i, out.error);
        out.fits.push_back(fit);
        twin += static_cast<char>('0' + static_cast<int>(fit));
        if (fit == Fit::kNo) {
          continue;
        }
        wanted = true;
        if (option->all) {
          out.listed[option->id].push_back(index);
        }
        if (fit == Fit::kYes && (option->admin || trial.users[i] == 0)) {
          ++out.usable[option->id];
        }
        out.network = out.network || network;
        out.shares = out.shares || entry.multiple;
      }
      for (const auto& name : attributes_) {
        const api::AttributeValue* value = FindAttribute(*device.device, pool.driver, name);
        const std::string text = value == nullptr ? std::string() : ValueText(*value);
        std::int32_t id = -1;
        if (!text.empty()) {
          id = value_ids_.try_emplace(text, static_cast<std::int32_t>(value_ids_.size()))
                   .first->second;
        }
        out.values.push_back(id);
        twin += ',' + std::to_string(id);
      }
      if (network || entry.counters || entry.multiple) {
        twin += '@' + std::to_string(targeted.slot);
        for (const auto& [counter, amount] : device.consumes) {
          twin += ';' + std::to_string(counter) + '=' + std::to_string(amount);
        }
        if (entry.multiple || device.slice->per_device_node_selection) {
          twin += '#' + std::to_string(i);
        } else if (network) {
          twin += '/' + device.slice->meta.name;
        }
      }
      if (!wanted) {
        // No claim of the gang may take it.
        out.fits.resize(out.fits.size() - options_.size());
        out.values.resize(out.values.size() - attributes_.size());
        continue;
      }
      entry.twin =
          twin_ids_.try_emplace(twin, static_cast<std::uint32_t>(twin_ids_.size())).first->second;
      out.devices.push_back(entry);
    }
  }
}

namespace {

// Deeper searches than this are given up: one level is one device.
constexpr std::size_t kMaxItems = 2000;

class Search {
 public:
  Search(TrialState& state,
         const DeviceProblem& problem,
         const std::vector<SearchItem>& items,
         SearchMode mode,
         std::int64_t& steps_left)
      : state_(state), problem_(problem), items_(items), mode_(mode), steps_(steps_left) {
    progress_.resize(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      progress_[i].seen.resize(items[i].plan->constraints.size());
    }
  }

  Found Run(std::vector<std::vector<Chosen>>& chosen) {
    if (items_.size() > kMaxItems) {
      return Found::kBudget;
    }
    // Upstream lists the devices of mode All before it searches, and gives up where that fails.
    for (const SearchItem& item : items_) {
      for (const RequestPlan& request : item.plan->requests) {
        for (const DeviceOption& option : request.options) {
          const auto& listed = item.node->listed[option.id];
          if (mode_ == SearchMode::kFirstFit && option.all &&
              (!item.node->broken.empty() ||
               std::any_of(listed.begin(), listed.end(), [&](std::uint32_t index) {
                 return item.node->fits[index * problem_.option_count() + option.id] == Fit::kError;
               }))) {
            return Found::kError;
          }
        }
      }
    }
    const auto mark = state_.Checkpoint();
    const Outcome outcome = Step(0, 0, nullptr, 0, 0);
    if (outcome != Outcome::kYes) {
      state_.Rollback(mark);
      return outcome == Outcome::kBudget  ? Found::kBudget
             : outcome == Outcome::kError ? Found::kError
                                          : Found::kNo;
    }
    chosen.clear();
    for (auto& progress : progress_) {
      chosen.push_back(std::move(progress.chosen));
    }
    return Found::kYes;
  }

 private:
  // kTooMany: whatever devices are taken, the claim would hold too many; only another subrequest
  // helps.
  enum class Outcome : std::uint8_t { kYes, kNo, kBudget, kError, kTooMany };
  struct Progress {
    std::vector<Chosen> chosen;
    // By constraint of the claim: the values of the devices taken so far.
    std::vector<std::vector<std::int32_t>> seen;
  };

  Outcome Step(std::size_t item,
               std::size_t request,
               const DeviceOption* option,
               std::int64_t taken,
               std::size_t start) {
    if (item == items_.size()) {
      return Outcome::kYes;
    }
    if (--steps_ < 0) {
      return Outcome::kBudget;
    }
    const ClaimPlan& plan = *items_[item].plan;
    if (request == plan.requests.size()) {
      const Outcome outcome = Step(item + 1, 0, nullptr, 0, 0);
      return outcome == Outcome::kTooMany ? Outcome::kNo : outcome;
    }
    if (option == nullptr) {
      const auto& options = plan.requests[request].options;
      bool all_too_many = true;
      for (const DeviceOption& candidate : options) {
        const Outcome outcome = Step(item, request, &candidate, 0, 0);
        if (outcome == Outcome::kTooMany) {
          continue;
        }
        if (outcome != Outcome::kNo) {
          return outcome;
        }
        all_too_many = false;
      }
      return all_too_many ? Outcome::kTooMany : Outcome::kNo;
    }
    const NodeDevices& node = *items_[item].node;
    const auto& listed = node.listed[option->id];
    const std::int64_t count =
        option->all ? static_cast<std::int64_t>(listed.size()) : option->count;
    if (option->all) {
      if (listed.empty() || !node.broken.empty()) {
        return Outcome::kNo;
      }
    }
    if (taken >= count) {
      return Step(item, request + 1, nullptr, 0, 0);
    }
    const auto held = static_cast<std::int64_t>(progress_[item].chosen.size());
    if (count - taken > kMaxDevicesPerClaim - held) {
      return Outcome::kTooMany;
    }
    if (option->all) {
      // All of them, in their order; there is nothing to choose.
      const std::uint32_t index = listed[static_cast<std::size_t>(taken)];
      if (FitOf(item, *option, index) == Fit::kError) {
        return Outcome::kError;
      }
      const auto mark = state_.Checkpoint();
      bool refused = false;
      if (!Take(item, *option, index, refused)) {
        return refused && mode_ == SearchMode::kFirstFit ? Outcome::kError : Outcome::kNo;
      }
      const Outcome outcome = Step(item, request, option, taken + 1, 0);
      if (outcome != Outcome::kYes) {
        Return(item, mark);
      }
      return outcome;
    }
    // Where a selector fails on some device, first fit has to meet that device just when upstream
    // does.
    if ((mode_ == SearchMode::kAny || node.error.empty()) &&
        !EnoughLeft(item, request, *option, taken, start)) {
      return Outcome::kNo;
    }
    std::vector<std::uint32_t> failed_twins;
    for (std::size_t i = start; i < node.devices.size(); ++i) {
      const auto index = static_cast<std::uint32_t>(i);
      if (--steps_ < 0) {
        return Outcome::kBudget;
      }
      const Fit fit = FitOf(item, *option, index);
      if (fit == Fit::kNo || !Free(item, *option, index)) {
        continue;
      }
      if (fit == Fit::kError) {
        if (mode_ == SearchMode::kFirstFit) {
          return Outcome::kError;
        }
        continue;
      }
      if (fit != Fit::kYes) {
        continue;
      }
      // What failed with one device fails with its twin: exchanging the two turns any solution with
      // the one into a solution with the other.
      const std::uint32_t twin = node.devices[i].twin;
      if (!option->admin &&
          std::find(failed_twins.begin(), failed_twins.end(), twin) != failed_twins.end()) {
        continue;
      }
      const auto mark = state_.Checkpoint();
      bool refused = false;
      if (!Take(item, *option, index, refused)) {
        continue;
      }
      const Outcome outcome = Step(item, request, option, taken + 1, i + 1);
      if (outcome == Outcome::kYes) {
        return outcome;
      }
      Return(item, mark);
      if (outcome != Outcome::kNo) {
        return outcome;
      }
      failed_twins.push_back(twin);
    }
    return Outcome::kNo;
  }

  // Not in use, as far as this option minds.
  [[nodiscard]] bool Free(std::size_t item, const DeviceOption& option, std::uint32_t index) const {
    const NodeDevice& device = items_[item].node->devices[index];
    const auto is_it = [&](const Chosen& chosen) {
      return chosen.pool == device.pool && chosen.device == device.device;
    };
    if (option.admin) {
      return device.multiple ||
             std::none_of(progress_[item].chosen.begin(), progress_[item].chosen.end(), is_it);
    }
    if (state_.pool(device.pool).users[device.device] > 0) {
      return false;
    }
    // A device that the same pod watches through admin access is not given to it as well.
    for (std::size_t other = item + 1; other-- > 0 && items_[other].pod == items_[item].pod;) {
      for (const Chosen& chosen : progress_[other].chosen) {
        if (chosen.admin && !device.multiple && is_it(chosen)) {
          return false;
        }
      }
    }
    return true;
  }

  [[nodiscard]] std::int32_t Value(std::size_t item,
                                   const ConstraintPlan& constraint,
                                   std::uint32_t index) const {
    const NodeDevices& node = *items_[item].node;
    const std::size_t width = node.values.size() / node.devices.size();
    return node.values[index * width + constraint.attribute];
  }

  static bool Applies(const ConstraintPlan& constraint, std::uint32_t option) {
    return std::binary_search(constraint.options.begin(), constraint.options.end(), option);
  }

  // Whether the claim's constraints accept the device beside those taken so far.
  [[nodiscard]] bool Agrees(std::size_t item,
                            const DeviceOption& option,
                            std::uint32_t index) const {
    const auto& constraints = items_[item].plan->constraints;
    for (std::size_t c = 0; c < constraints.size(); ++c) {
      if (!Applies(constraints[c], option.id)) {
        continue;
      }
      const std::int32_t value = Value(item, constraints[c], index);
      const auto& seen = progress_[item].seen[c];
      if (value < 0) {
        return false;
      }
      if (constraints[c].distinct) {
        if (std::find(seen.begin(), seen.end(), value) != seen.end()) {
          return false;
        }
      } else if (!seen.empty() && seen.front() != value) {
        return false;
      }
    }
    return true;
  }

  // False when what is left cannot suffice whatever is chosen: too few devices for this request,
  // or, once a match constraint has its value, too few devices of that value for all requests under
  // it. This is what keeps a search without an answer short.
  [[nodiscard]] bool EnoughLeft(std::size_t item,
                                std::size_t request,
                                const DeviceOption& option,
                                std::int64_t taken,
                                std::size_t start) {
    const auto& constraints = items_[item].plan->constraints;
    if (taken > 0 && constraints.empty()) {
      return true;
    }
    const NodeDevices& node = *items_[item].node;
    steps_ -= static_cast<std::int64_t>(node.devices.size()) / 8;
    std::int64_t left = 0;
    for (std::size_t i = start; i < node.devices.size() && left < option.count - taken; ++i) {
      const auto index = static_cast<std::uint32_t>(i);
      left += FitOf(item, option, index) == Fit::kYes && Free(item, option, index) &&
                      Agrees(item, option, index)
                  ? 1
                  : 0;
    }
    if (left < option.count - taken) {
      return false;
    }
    const auto& requests = items_[item].plan->requests;
    for (std::size_t c = 0; c < constraints.size(); ++c) {
      const ConstraintPlan& constraint = constraints[c];
      const auto& seen = progress_[item].seen[c];
      if (constraint.distinct || seen.empty()) {
        continue;
      }
      std::int64_t needed = Applies(constraint, option.id) ? option.count - taken : 0;
      std::vector<const DeviceOption*> askers;
      if (needed > 0) {
        askers.push_back(&option);
      }
      for (std::size_t later = request + 1; later < requests.size(); ++later) {
        const DeviceOption& other = requests[later].options.front();
        // Only requests whose number is known and that do not share devices count.
        if (requests[later].options.size() == 1 && !other.all && !other.admin &&
            Applies(constraint, other.id)) {
          needed += other.count;
          askers.push_back(&other);
        }
      }
      if (askers.empty() || option.admin) {
        continue;
      }
      std::int64_t have = 0;
      for (std::size_t i = 0; i < node.devices.size() && have < needed; ++i) {
        const auto index = static_cast<std::uint32_t>(i);
        if (Value(item, constraint, index) != seen.front()) {
          continue;
        }
        if (node.devices[i].multiple) {
          have = needed;
          break;
        }
        have += std::any_of(askers.begin(),
                            askers.end(),
                            [&](const DeviceOption* asker) {
                              return FitOf(item, *asker, index) == Fit::kYes &&
                                     Free(item, *asker, index);
                            })
                    ? 1
                    : 0;
      }
      if (have < needed) {
        return false;
      }
    }
    return true;
  }

  // Takes a device; `refused` tells that a constraint said no.
  bool Take(std::size_t item, const DeviceOption& option, std::uint32_t index, bool& refused) {
    const NodeDevice& device = items_[item].node->devices[index];
    if (!Free(item, option, index) || FitOf(item, option, index) != Fit::kYes) {
      return false;
    }
    const bool agrees = Agrees(item, option, index);
    const auto mark = state_.Checkpoint();
    Chosen chosen{.option = option.id,
                  .pool = device.pool,
                  .device = device.device,
                  .admin = option.admin,
                  .share = device.multiple};
    if (device.multiple) {
      auto consumed = problem_.Consume(option.id, device);
      const TrialPool& pool = state_.pool(device.pool);
      const auto used = pool.shared.find(device.device);
      const SharedUse* before = used == pool.shared.end() ? nullptr : &used->second;
      if (!consumed ||
          !RoomFor(*pool.base->record->devices[device.device].device, before, *consumed)) {
        return false;
      }
      const bool first = before == nullptr || before->shares.empty();
      if (!option.admin) {
        SharedUse after = before == nullptr ? SharedUse() : *before;
        after.Add(*consumed);
        state_.SetShared(device.pool, device.device, std::move(after));
        if (first && device.counters && state_.pool(device.pool).overdrawn > 0) {
          state_.Rollback(mark);
          return false;
        }
      }
      chosen.consumed = *std::move(consumed);
    } else if (!option.admin) {
      state_.TakeDevice(device.pool, device.device);
      // One overdrawn counter anywhere in the pool refuses every device that uses counters.
      if (device.counters && state_.pool(device.pool).overdrawn > 0) {
        state_.Rollback(mark);
        return false;
      }
    }
    if (!agrees) {
      refused = true;
      state_.Rollback(mark);
      return false;
    }
    const auto& constraints = items_[item].plan->constraints;
    for (std::size_t c = 0; c < constraints.size(); ++c) {
      if (Applies(constraints[c], option.id)) {
        progress_[item].seen[c].push_back(Value(item, constraints[c], index));
      }
    }
    progress_[item].chosen.push_back(std::move(chosen));
    return true;
  }

  void Return(std::size_t item, TrialState::Mark mark) {
    const std::uint32_t option = progress_[item].chosen.back().option;
    progress_[item].chosen.pop_back();
    const auto& constraints = items_[item].plan->constraints;
    for (std::size_t c = 0; c < constraints.size(); ++c) {
      if (Applies(constraints[c], option)) {
        progress_[item].seen[c].pop_back();
      }
    }
    state_.Rollback(mark);
  }

  [[nodiscard]] Fit FitOf(std::size_t item, const DeviceOption& option, std::uint32_t index) const {
    return items_[item].node->fits[index * problem_.option_count() + option.id];
  }

  TrialState& state_;
  const DeviceProblem& problem_;
  const std::vector<SearchItem>& items_;
  SearchMode mode_;
  std::int64_t& steps_;
  std::vector<Progress> progress_;
};

}  // namespace

Found SearchDevices(TrialState& state,
                    const DeviceProblem& problem,
                    const std::vector<SearchItem>& items,
                    SearchMode mode,
                    std::int64_t& steps_left,
                    std::vector<std::vector<Chosen>>& chosen) {
  return Search(state, problem, items, mode, steps_left).Run(chosen);
}

void TakeChosen(TrialState& state, const std::vector<Chosen>& chosen) {
  for (const Chosen& one : chosen) {
    if (one.admin) {
      continue;
    }
    if (one.share) {
      const TrialPool& pool = state.pool(one.pool);
      const auto used = pool.shared.find(one.device);
      SharedUse after = used == pool.shared.end() ? SharedUse() : used->second;
      after.Add(one.consumed);
      state.SetShared(one.pool, one.device, std::move(after));
    } else {
      state.TakeDevice(one.pool, one.device);
    }
  }
}

void ReturnChosen(TrialState& state, const std::vector<Chosen>& chosen) {
  for (const Chosen& one : chosen) {
    if (one.admin) {
      continue;
    }
    if (one.share) {
      SharedUse after = state.pool(one.pool).shared.at(one.device);
      MUSTER_CHECK(after.Remove(one.consumed));
      state.SetShared(one.pool, one.device, std::move(after));
    } else {
      state.ReturnDevice(one.pool, one.device);
    }
  }
}

}  // namespace muster::placement
