#include "scheduler/cache/shapes.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/digest.h"
#include "base/strings.h"

namespace muster::scheduler {
namespace {

// The LimitRanges of one namespace taken together: the tightest bounds, the first default by name
// of the object.
struct LimitSummary {
  ResourceVector max;
  ResourceVector min;
  ResourceVector default_limit;
  ResourceVector default_request;
  bool present = false;
};

LimitSummary Summarize(const ByKey<api::LimitRange>& ranges,
                       const std::string& ns,
                       std::string_view type) {
  LimitSummary out;
  for (auto it = ranges.lower_bound(api::ObjectKey{.ns = ns, .name = ""});
       it != ranges.end() && it->first.ns == ns;
       ++it) {
    for (const api::LimitRangeItem& item : it->second->limits) {
      if (item.type != type) {
        continue;
      }
      out.present = true;
      for (const auto& [resource, amount] : item.max) {
        const auto [at, inserted] = out.max.try_emplace(resource, amount);
        at->second = std::min(at->second, amount);
      }
      MaxInPlace(out.min, item.min);
      out.default_limit.insert(item.default_limit.begin(), item.default_limit.end());
      out.default_request.insert(item.default_request.begin(), item.default_request.end());
    }
  }
  return out;
}

void CompareBounds(const ResourceVector& requests,
                   const ResourceVector& limits,
                   const LimitSummary& bounds,
                   const std::string& path,
                   std::vector<std::string>& out) {
  for (const auto& [resource, most] : bounds.max) {
    // A limit above the maximum lets the container grow past it, so both are held against it.
    for (const ResourceVector* side : {&requests, &limits}) {
      if (const auto it = side->find(resource); it != side->end() && it->second > most) {
        out.push_back(path + ": " + resource + " " + api::FormatAmount(resource, it->second) +
                      " is above the maximum " + api::FormatAmount(resource, most));
        break;
      }
    }
  }
  for (const auto& [resource, least] : bounds.min) {
    if (const auto it = requests.find(resource); it != requests.end() && it->second < least) {
      out.push_back(path + ": " + resource + " " + api::FormatAmount(resource, it->second) +
                    " is below the minimum " + api::FormatAmount(resource, least));
    }
  }
}

void CompareLimits(const ResourceVector& requests,
                   const ResourceVector& limits,
                   const std::string& path,
                   std::vector<std::string>& out) {
  for (const auto& [resource, limit] : limits) {
    if (const auto it = requests.find(resource); it != requests.end() && it->second > limit) {
      out.push_back(path + ": requests must not exceed its limits for " + resource + " (" +
                    api::FormatAmount(resource, it->second) + " > " +
                    api::FormatAmount(resource, limit) + ")");
    }
  }
}

api::PodSpec Adjusted(const api::PodSpec& spec,
                      const ShapeContext& context,
                      const LimitSummary& container_defaults,
                      const LimitSummary& pod_defaults) {
  api::PodSpec out = spec;
  if (!out.runtime_class.empty() && out.overhead.empty()) {
    if (const auto it = context.runtime_classes->find(out.runtime_class);
        it != context.runtime_classes->end()) {
      out.overhead = it->second->overhead;
      for (const auto& [key, value] : it->second->node_selector) {
        out.node_selector.try_emplace(key, value);
      }
      out.tolerations.insert(
          out.tolerations.end(), it->second->tolerations.begin(), it->second->tolerations.end());
    }
  }
  const auto fill =
      [](ResourceVector& requests, ResourceVector& limits, const LimitSummary& defaults) {
        limits.insert(defaults.default_limit.begin(), defaults.default_limit.end());
        requests.insert(defaults.default_request.begin(), defaults.default_request.end());
        requests.insert(limits.begin(), limits.end());
      };
  for (std::vector<api::Container>* list : {&out.containers, &out.init_containers}) {
    for (api::Container& container : *list) {
      fill(container.requests, container.limits, container_defaults);
      container.has_requests = container.has_requests || !container.requests.empty();
    }
  }
  if (out.has_pod_resources) {
    fill(out.pod_requests, out.pod_limits, pod_defaults);
  }
  return out;
}

// The amount as an exact quantity, for products with factors below one.
api::Quantity ToQuantity(std::string_view resource, Amount amount) {
  return api::Quantity::Parse(api::FormatAmount(resource, amount)).value_or(api::Quantity());
}

ResourceVector Transformed(const ResourceVector& requests,
                           const std::vector<ResourceTransformation>& rules) {
  ResourceVector kept;
  std::map<std::string, api::Quantity, std::less<>> generated;
  for (const auto& [resource, amount] : requests) {
    const auto rule =
        std::find_if(rules.begin(), rules.end(), [&](const ResourceTransformation& r) {
          return r.input == resource;
        });
    if (rule == rules.end() || rule->strategy == TransformStrategy::kRetain) {
      kept[resource] = amount;
    }
    if (rule == rules.end()) {
      continue;
    }
    api::Quantity value = ToQuantity(resource, amount);
    if (!rule->multiply_by.empty()) {
      if (const auto by = requests.find(rule->multiply_by); by != requests.end()) {
        value = value.TimesQuantity(ToQuantity(by->first, by->second));
      }
    }
    for (const auto& [output, factor] : rule->outputs) {
      api::Quantity& sum = generated[output];
      sum = sum.Plus(value.TimesQuantity(factor));
    }
  }
  for (const auto& [resource, quantity] : generated) {
    kept[resource] += api::RequestAmount(resource, quantity);
  }
  return kept;
}

bool IsExtended(std::string_view resource) {
  const std::size_t slash = resource.find('/');
  if (slash == std::string_view::npos) {
    return false;
  }
  const std::string_view domain = resource.substr(0, slash);
  return domain != "kubernetes.io" && !domain.ends_with(".kubernetes.io");
}

// The DeviceClass that serves an extended resource: the newest, the first by name among equals.
const api::DeviceClass* ClassServing(const ByName<api::DeviceClass>& classes,
                                     std::string_view resource) {
  const api::DeviceClass* best = nullptr;
  for (const auto& [name, device_class] : classes) {
    if (device_class->extended_resource_name == resource &&
        (best == nullptr ||
         device_class->meta.creation_timestamp > best->meta.creation_timestamp)) {
      best = device_class.get();
    }
  }
  return best;
}

const std::string* MappedResource(const Options& options, std::string_view device_class) {
  for (const DeviceClassMapping& mapping : options.device_class_mappings) {
    if (std::find(mapping.device_classes.begin(), mapping.device_classes.end(), device_class) !=
        mapping.device_classes.end()) {
      return &mapping.resource;
    }
  }
  return nullptr;
}

struct Charging {
  const ShapeContext& context;
  std::vector<std::string>& problems;

  // Quota resource of a device class, or empty when it costs nothing. An unmapped class is a
  // problem unless the configuration ignores it.
  std::string ResourceOf(const std::string& device_class) const {
    if (const std::string* resource = MappedResource(*context.options, device_class)) {
      return *resource;
    }
    if (context.options->unmapped_device_classes == UnmappedDeviceClasses::kWait) {
      problems.push_back("device class " + device_class +
                         " is not mapped to a quota resource (deviceClassMappings)");
    }
    return {};
  }

  ClaimCharge Of(const api::ClaimSpec& spec) const {
    ClaimCharge out;
    const auto cost = [&](const api::DeviceSubRequest& request, const std::string& path) {
      ResourceVector amounts;
      if (request.admin_access) {
        return amounts;
      }
      const std::string resource = ResourceOf(request.device_class);
      if (resource.empty()) {
        return amounts;
      }
      out.resource_of[path] = resource;
      out.dynamic = out.dynamic || request.all;
      amounts[resource] = Amount(request.all ? 1 : std::max<std::int64_t>(0, request.count));
      return amounts;
    };
    for (const api::DeviceRequest& request : spec.requests) {
      if (request.exactly) {
        Add(out.estimate, cost(*request.exactly, request.name));
        continue;
      }
      // Only one alternative is taken; until it is known, none may turn out dearer than what was
      // checked.
      ResourceVector dearest;
      for (const api::DeviceSubRequest& alternative : request.first_available) {
        MaxInPlace(dearest, cost(alternative, request.name + "/" + alternative.name));
      }
      out.dynamic = out.dynamic || request.first_available.size() > 1;
      Add(out.estimate, dearest);
    }
    return out;
  }
};

// Canonical text of everything that a decision reads. Field separators cannot occur in the values.
class Digest {
 public:
  Digest& operator()(std::string_view text) {
    text_.append(text);
    text_.push_back('\x1f');
    return *this;
  }
  Digest& operator()(std::int64_t number) {
    return (*this)(std::string_view(std::to_string(number)));
  }
  Digest& operator()(const ResourceVector& amounts) {
    for (const auto& [resource, amount] : amounts) {
      (*this)(resource)(amount.value());
    }
    return End();
  }
  Digest& operator()(const api::StringMap& map) {
    for (const auto& [key, value] : map) {
      (*this)(key)(value);
    }
    return End();
  }
  Digest& operator()(const std::vector<std::string>& list) {
    for (const std::string& entry : list) {
      (*this)(entry);
    }
    return End();
  }
  Digest& operator()(const std::vector<api::Toleration>& tolerations) {
    for (const api::Toleration& t : tolerations) {
      (*this)(t.key)(t.op)(t.value)(t.effect);
    }
    return End();
  }
  Digest& operator()(const api::NodeSelectorTerm& term) {
    for (const auto* list : {&term.match_expressions, &term.match_fields}) {
      for (const api::NodeSelectorRequirement& r : *list) {
        (*this)(r.key)(r.op)(r.values);
      }
      End();
    }
    return *this;
  }
  Digest& operator()(const std::vector<api::Container>& containers) {
    for (const api::Container& c : containers) {
      (*this)(c.requests)(c.limits)(c.restart_always ? 1 : 0);
      for (const api::ContainerPort& port : c.ports) {
        (*this)(port.host_port)(port.protocol)(port.host_ip);
      }
      End();
    }
    return End();
  }
  Digest& operator()(const api::PodSpec& spec) {
    (*this)(spec.containers)(spec.init_containers)(spec.overhead)(spec.pod_requests)(
        spec.pod_limits)(spec.node_selector);
    (*this)(spec.required_affinity.present ? 1 : 0);
    for (const api::NodeSelectorTerm& term : spec.required_affinity.terms) {
      (*this)(term);
    }
    End();
    for (const api::PreferredTerm& preferred : spec.preferred_affinity) {
      (*this)(preferred.weight)(preferred.term);
    }
    End();
    (*this)(spec.has_pod_affinity ? 1 : 0)(spec.has_spread_constraints ? 1 : 0)(spec.tolerations)(
        spec.runtime_class);
    (*this)(spec.scheduler_name)(spec.node_name);
    return End();
  }
  Digest& operator()(const api::ClaimSpec& spec) {
    const auto one = [this](const api::DeviceSubRequest& r) {
      (*this)(r.name)(r.device_class)(r.selectors)(r.all ? 1 : 0)(r.count)(r.admin_access ? 1 : 0);
      for (const api::DeviceToleration& t : r.tolerations) {
        (*this)(t.key)(t.op)(t.value)(t.effect);
      }
      End();
      for (const auto& [name, quantity] : r.capacity_requests) {
        (*this)(name)(quantity.ToString());
      }
      End();
    };
    for (const api::DeviceRequest& request : spec.requests) {
      (*this)(request.name);
      if (request.exactly) {
        one(*request.exactly);
      }
      for (const api::DeviceSubRequest& alternative : request.first_available) {
        one(alternative);
      }
      End();
    }
    for (const api::DeviceConstraint& constraint : spec.constraints) {
      (*this)(constraint.requests)(constraint.match_attribute)(constraint.distinct_attribute);
    }
    return End();
  }
  Digest& End() {
    text_.push_back('\x1e');
    return *this;
  }
  [[nodiscard]] std::string Finish() const { return Sha256Hex(text_).substr(0, 32); }

 private:
  std::string text_;
};

}  // namespace

std::int64_t EffectivePriority(const api::Workload& workload) {
  return workload.priority.value_or(0);
}

TimePoint QueueOrderTime(const api::Workload& workload, RequeuingTimestamp timestamp) {
  const api::Condition* evicted = workload.FindCondition("Evicted");
  if (evicted != nullptr && evicted->is_true() && evicted->last_transition_time) {
    if (evicted->reason == "AdmissionCheck" ||
        (evicted->reason == "PodsReadyTimeout" && timestamp == RequeuingTimestamp::kEviction)) {
      return *evicted->last_transition_time;
    }
  }
  return workload.meta.creation_timestamp;
}

ShapeResult BuildShape(const api::Workload& workload, const ShapeContext& context) {
  const Options& options = *context.options;
  auto shape = std::make_shared<Shape>();
  shape->ns = workload.meta.ns;
  std::vector<std::string> over_limits;
  std::vector<std::string> outside_range;
  std::vector<std::string> claim_problems;
  const Charging charging{.context = context, .problems = claim_problems};
  const LimitSummary container_bounds =
      Summarize(*context.limit_ranges, workload.meta.ns, "Container");
  const LimitSummary pod_bounds = Summarize(*context.limit_ranges, workload.meta.ns, "Pod");
  std::map<api::ObjectKey, std::size_t> named_claims;

  Digest digest;
  digest(workload.meta.ns)(EffectivePriority(workload));
  for (const api::PodSet& pod_set : workload.pod_sets) {
    PodSetShape out;
    out.name = pod_set.name;
    std::int32_t given_back = 0;
    if (const auto it = workload.reclaimable_pods.find(pod_set.name);
        it != workload.reclaimable_pods.end()) {
      given_back = std::clamp(it->second, 0, std::max(0, pod_set.count));
    }
    out.count = std::max(0, pod_set.count) - given_back;
    if (pod_set.min_count && *pod_set.min_count < out.count) {
      out.min_count = std::max(0, *pod_set.min_count);
    }
    const auto& topology = pod_set.topology;
    out.wants_topology =
        topology &&
        (!topology->required.empty() || !topology->preferred.empty() || topology->unconstrained ||
         !topology->slice_required.empty() || topology->slice_size.has_value());

    auto spec = std::make_shared<api::PodSpec>(
        Adjusted(pod_set.pod_template.spec, context, container_bounds, pod_bounds));
    const std::string where = "podSets[" + pod_set.name + "].template.spec";
    for (const auto& [list, list_name] : {std::pair(&spec->containers, "containers"),
                                          std::pair(&spec->init_containers, "initContainers")}) {
      for (std::size_t i = 0; i < list->size(); ++i) {
        const api::Container& container = (*list)[i];
        const std::string path = where + "." + list_name + "[" + std::to_string(i) + "]";
        CompareLimits(container.requests, container.limits, path, over_limits);
        CompareBounds(container.requests, container.limits, container_bounds, path, outside_range);
      }
    }
    if (spec->has_pod_resources) {
      CompareLimits(spec->pod_requests, spec->pod_limits, where + ".resources", over_limits);
    }
    out.node_requests = api::PodRequests(*spec);
    if (pod_bounds.present) {
      CompareBounds(out.node_requests, {}, pod_bounds, where, outside_range);
    }

    // Extended resources that a DeviceClass serves are charged as the class is mapped, under their
    // own name without a mapping.
    ResourceVector charged;
    for (const auto& [resource, amount] : out.node_requests) {
      const bool excluded =
          std::any_of(options.exclude_resource_prefixes.begin(),
                      options.exclude_resource_prefixes.end(),
                      [&](const std::string& prefix) { return resource.starts_with(prefix); });
      if (!excluded) {
        charged[resource] = amount;
      }
      out.accelerators = out.accelerators || (IsExtended(resource) && amount > Amount(0));
    }
    charged = Transformed(charged, options.transformations);
    for (const auto& [resource, amount] : charged) {
      const api::DeviceClass* serving =
          IsExtended(resource) ? ClassServing(*context.device_classes, resource) : nullptr;
      const std::string* mapped =
          serving == nullptr ? nullptr : MappedResource(options, serving->meta.name);
      out.container_charge[mapped == nullptr ? resource : *mapped] += amount;
    }
    out.per_pod = out.container_charge;

    digest(out.name)(out.count)(out.min_count.value_or(-1))(out.wants_topology ? 1 : 0)(*spec);
    for (const api::PodResourceClaim& use : spec->claims) {
      out.accelerators = true;
      placement::ClaimDemand demand;
      demand.name = use.name;
      const api::ObjectKey key{.ns = workload.meta.ns,
                               .name = use.claim_name.empty() ? use.template_name : use.claim_name};
      if (!use.claim_name.empty()) {
        if (const auto known = named_claims.find(key); known != named_claims.end()) {
          out.claims.push_back(known->second);
          digest(key.name);
          continue;
        }
        const auto it = context.claims->find(key);
        if (it == context.claims->end()) {
          claim_problems.push_back("ResourceClaim " + key.name + " does not exist");
          continue;
        }
        demand.spec = it->second->spec;
        demand.shared = true;
        demand.existing = key;
        named_claims[key] = shape->claims.size();
      } else {
        const auto it = context.claim_templates->find(key);
        if (it == context.claim_templates->end()) {
          claim_problems.push_back("ResourceClaimTemplate " + key.name + " does not exist");
          continue;
        }
        demand.spec = it->second->spec;
      }
      ClaimCharge charge = charging.Of(demand.spec);
      if (!demand.shared) {
        Add(out.per_pod, charge.estimate);
      }
      digest(demand.shared ? key.name : std::string())(demand.spec);
      out.claims.push_back(shape->claims.size());
      shape->claims.push_back(std::move(demand));
      shape->charges.push_back(std::move(charge));
    }
    digest(out.per_pod);
    out.spec = std::move(spec);
    shape->pod_sets.push_back(std::move(out));
  }
  shape->digest = digest.Finish();

  ShapeResult result{.shape = std::move(shape), .problem = std::nullopt};
  const auto misconfigured =
      [&](std::string_view what, std::vector<std::string> list, std::string fits_if) {
        std::sort(list.begin(), list.end());
        list.erase(std::unique(list.begin(), list.end()), list.end());
        result.problem = Verdict{.reason = "Misconfigured",
                                 .message = std::string(what) + Join(list, ", "),
                                 .would_fit_if = std::move(fits_if)};
      };
  if (!over_limits.empty()) {
    misconfigured("resources validation failed: ",
                  std::move(over_limits),
                  "the requests stay within their limits");
  } else if (!outside_range.empty()) {
    misconfigured("resources didn't satisfy LimitRange constraints: ",
                  std::move(outside_range),
                  "the requests stay within the LimitRanges of the namespace");
  } else if (!claim_problems.empty()) {
    misconfigured("", std::move(claim_problems), "the missing claims or mappings exist");
  }
  return result;
}

}  // namespace muster::scheduler
