#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "api/quantity.h"
#include "base/strings.h"
#include "cel/device_env.h"
#include "cel/program.h"
#include "sim/access.h"
#include "sim/programs.h"
#include "sim/schema.h"
#include "sim/validation.h"

namespace muster::sim {
namespace {

void CheckDriver(FieldErrors& errors, const std::string& name, const std::string& path) {
  if (name.empty()) {
    errors.push_back(Required(path, ""));
    return;
  }
  if (name.size() > 63) {
    errors.push_back(TooLong(path, 63));
  }
  RequireEach(errors, path, name, CheckDnsSubdomain(name));
}

void CheckPool(FieldErrors& errors, const std::string& name, const std::string& path) {
  if (name.empty()) {
    errors.push_back(Required(path, ""));
    return;
  }
  if (name.size() > 253) {
    errors.push_back(TooLong(path, 253));
  }
  for (const std::string& part : Split(name, '/')) {
    RequireEach(errors, path, part, CheckDnsSubdomain(part));
  }
}

bool IsIdentifier(std::string_view text) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !text.empty() && letter(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

void CheckDeviceQualifiedName(FieldErrors& errors,
                              const std::string& name,
                              const std::string& path,
                              bool need_domain) {
  if (name.empty()) {
    errors.push_back(Required(path, "name required"));
    return;
  }
  const std::vector<std::string> parts = Split(name, '/');
  const std::string& id = parts.back();
  if (parts.size() > 2) {
    errors.push_back(Invalid(path, name, "too many slashes"));
    return;
  }
  if (parts.size() == 2) {
    if (parts[0].empty()) {
      errors.push_back(Required(path, "the domain must not be empty"));
    } else {
      if (parts[0].size() > 63) {
        errors.push_back(TooLong(path, 63));
      }
      RequireEach(errors, path, parts[0], CheckDnsSubdomain(parts[0]));
    }
  } else if (need_domain) {
    errors.push_back(Invalid(path, name, "must include a domain"));
  }
  if (id.empty()) {
    errors.push_back(Required(path, "the name must not be empty"));
  } else {
    if (id.size() > 32) {
      errors.push_back(TooLong(path, 32));
    }
    if (!IsIdentifier(id)) {
      errors.push_back(Invalid(
          path,
          id,
          "a valid C identifier must start with alphabetic character or '_', followed by a string "
          "of "
          "alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used "
          "for validation is '[A-Za-z_][A-Za-z0-9_]*')"));
    }
  }
}

void CheckAtMost(FieldErrors& errors, const Json& list, std::size_t most, const std::string& path) {
  if (list.size() > most) {
    errors.push_back(TooMany(path, list.size(), most));
  }
}

void CheckSelectors(FieldErrors& errors, const Json& selectors, const std::string& path) {
  CheckAtMost(errors, selectors, 32, path);
  for (std::size_t i = 0; i < selectors.size(); ++i) {
    const std::string at = AtIndex(path, i);
    const Json* cel = Member(selectors[i], "cel");
    if (cel == nullptr) {
      errors.push_back(Required(at + ".cel", ""));
      continue;
    }
    const std::string expression = TextAt(*cel, "expression");
    if (expression.empty()) {
      errors.push_back(Required(at + ".cel.expression", ""));
    } else if (expression.size() > cel::kMaxDeviceExpressionBytes) {
      errors.push_back(TooLong(at + ".cel.expression", cel::kMaxDeviceExpressionBytes));
    } else if (const auto& program = CompileOnce(ProgramKind::kDevice, expression); !program) {
      errors.push_back(Invalid(
          at + ".cel.expression", expression, "compilation failed: " + program.error().message));
    }
  }
}

void CheckDeviceTolerations(FieldErrors& errors, const Json& list, const std::string& path) {
  CheckAtMost(errors, list, 16, path);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string at = AtIndex(path, i);
    const std::string op = TextAt(list[i], "operator");
    const std::string key = TextAt(list[i], "key");
    if (!key.empty()) {
      RequireEach(errors, at + ".key", key, CheckQualifiedName(key));
    }
    if (op == "Exists") {
      if (HasText(list[i], "value")) {
        errors.push_back(Invalid(
            at + ".value", TextAt(list[i], "value"), "must be empty for operator `Exists`"));
      }
    } else if (op == "Equal") {
      if (key.empty()) {
        errors.push_back(Required(at + ".key", "must be set for operator `Equal`"));
      }
    } else {
      errors.push_back(NotSupported(at + ".operator", op, {"Equal", "Exists"}));
    }
    const std::string effect = TextAt(list[i], "effect");
    if (!effect.empty() && effect != "None" && effect != "NoSchedule" && effect != "NoExecute") {
      errors.push_back(NotSupported(at + ".effect", effect, {"NoExecute", "NoSchedule", "None"}));
    }
  }
}

void CheckRequest(FieldErrors& errors, const Json& request, const std::string& path) {
  const std::string device_class = TextAt(request, "deviceClassName");
  if (device_class.empty()) {
    errors.push_back(Required(path + ".deviceClassName", ""));
  } else {
    RequireEach(errors, path + ".deviceClassName", device_class, CheckDnsSubdomain(device_class));
  }
  CheckSelectors(errors, ListAt(request, "selectors"), path + ".selectors");
  const std::string mode = TextAt(request, "allocationMode");
  const auto count = IntAt(request, "count").value_or(0);
  if (mode == "All") {
    if (count != 0) {
      errors.push_back(
          Invalid(path + ".count", count, "must not be specified when allocationMode is 'All'"));
    }
  } else if (mode == "ExactCount") {
    if (count <= 0) {
      errors.push_back(Invalid(path + ".count", count, "must be greater than zero"));
    }
  } else {
    errors.push_back(NotSupported(path + ".allocationMode", mode, {"All", "ExactCount"}));
  }
  CheckDeviceTolerations(errors, ListAt(request, "tolerations"), path + ".tolerations");
}

// Names of requests, and of sub-requests as "request/sub".
std::set<std::string> RequestNames(const Json& devices) {
  std::set<std::string> names;
  for (const Json& request : ListAt(devices, "requests")) {
    names.insert(TextAt(request, "name"));
    for (const Json& sub : ListAt(request, "firstAvailable")) {
      names.insert(TextAt(request, "name") + "/" + TextAt(sub, "name"));
    }
  }
  return names;
}

void CheckClaimSpec(FieldErrors& errors, const Json& spec, const std::string& path) {
  const Json& devices = ObjectAt(spec, "devices");
  const Json& requests = ListAt(devices, "requests");
  const std::string at = path + ".devices";
  CheckAtMost(errors, requests, 32, at + ".requests");
  std::set<std::string> names;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::string here = AtIndex(at + ".requests", i);
    const std::string name = TextAt(requests[i], "name");
    if (name.empty()) {
      errors.push_back(Required(here + ".name", ""));
    } else {
      RequireEach(errors, here + ".name", name, CheckDnsLabel(name));
    }
    if (!names.insert(name).second) {
      errors.push_back(Duplicate(here, Json{{"name", name}}));
    }
    const Json* exactly = Member(requests[i], "exactly");
    const Json& first = ListAt(requests[i], "firstAvailable");
    if (exactly == nullptr && first.empty()) {
      errors.push_back(Required(here, "exactly one of `exactly` or `firstAvailable` is required"));
    } else if (exactly != nullptr && !first.empty()) {
      errors.push_back(Invalid(
          here,
          nullptr,
          "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"));
    } else if (exactly != nullptr) {
      CheckRequest(errors, *exactly, here + ".exactly");
    } else {
      CheckAtMost(errors, first, 8, here + ".firstAvailable");
      std::set<std::string> subs;
      for (std::size_t s = 0; s < first.size(); ++s) {
        const std::string sub_path = AtIndex(here + ".firstAvailable", s);
        const std::string sub = TextAt(first[s], "name");
        if (sub.empty()) {
          errors.push_back(Required(sub_path + ".name", ""));
        } else {
          RequireEach(errors, sub_path + ".name", sub, CheckDnsLabel(sub));
        }
        if (!subs.insert(sub).second) {
          errors.push_back(Duplicate(sub_path, Json{{"name", sub}}));
        }
        CheckRequest(errors, first[s], sub_path);
      }
    }
  }
  const std::set<std::string> known = RequestNames(devices);
  const auto check_references = [&](const Json& list, const std::string& here) {
    const std::vector<std::string> wanted = TextsAt(list, "requests");
    for (std::size_t r = 0; r < wanted.size(); ++r) {
      if (!known.contains(wanted[r])) {
        errors.push_back(Invalid(
            AtIndex(here + ".requests", r),
            wanted[r],
            "must be the name of a request in the claim or the name of a request and a subrequest "
            "separated by '/'"));
      }
    }
  };
  const Json& constraints = ListAt(devices, "constraints");
  CheckAtMost(errors, constraints, 32, at + ".constraints");
  for (std::size_t i = 0; i < constraints.size(); ++i) {
    const std::string here = AtIndex(at + ".constraints", i);
    check_references(constraints[i], here);
    const Json* match = Member(constraints[i], "matchAttribute");
    const Json* distinct = Member(constraints[i], "distinctAttribute");
    if (match != nullptr) {
      CheckDeviceQualifiedName(errors,
                               match->is_string() ? match->get<std::string>() : "",
                               here + ".matchAttribute",
                               true);
    } else if (distinct != nullptr) {
      CheckDeviceQualifiedName(errors,
                               distinct->is_string() ? distinct->get<std::string>() : "",
                               here + ".distinctAttribute",
                               true);
    } else {
      errors.push_back(
          Required(here, "exactly one of `matchAttribute` or `distinctAttribute` is required"));
    }
  }
  const Json& config = ListAt(devices, "config");
  CheckAtMost(errors, config, 32, at + ".config");
  for (std::size_t i = 0; i < config.size(); ++i) {
    const std::string here = AtIndex(at + ".config", i);
    check_references(config[i], here);
    const Json* opaque = Member(config[i], "opaque");
    if (opaque == nullptr) {
      errors.push_back(Required(here + ".opaque", ""));
    } else {
      CheckDriver(errors, TextAt(*opaque, "driver"), here + ".opaque.driver");
    }
  }
}

void CheckTaint(FieldErrors& errors, const Json& taint, const std::string& path) {
  const std::string key = TextAt(taint, "key");
  if (key.empty()) {
    errors.push_back(Required(path + ".key", ""));
  } else {
    RequireEach(errors, path + ".key", key, CheckQualifiedName(key));
  }
  RequireEach(
      errors, path + ".value", TextAt(taint, "value"), CheckLabelValue(TextAt(taint, "value")));
  const std::string effect = TextAt(taint, "effect");
  if (effect.empty()) {
    errors.push_back(Required(path + ".effect", ""));
  } else if (effect != "None" && effect != "NoSchedule" && effect != "NoExecute") {
    errors.push_back(NotSupported(path + ".effect", effect, {"NoExecute", "NoSchedule", "None"}));
  }
}

void CheckNodeChoice(FieldErrors& errors,
                     const Json& object,
                     const std::string& path,
                     bool per_device_allowed) {
  int set = 0;
  set += HasText(object, "nodeName") ? 1 : 0;
  set += object.contains("nodeSelector") ? 1 : 0;
  for (const char* field : {"allNodes", "perDeviceNodeSelection"}) {
    if (const Json* flag = Member(object, field)) {
      if (!TrueAt(object, field)) {
        errors.push_back(Invalid(path + "." + field, *flag, "must be either unset or set to true"));
      }
      if (per_device_allowed || std::string_view(field) == "allNodes") {
        ++set;
      }
    }
  }
  if (const std::string name = TextAt(object, "nodeName"); !name.empty()) {
    RequireEach(errors, path + ".nodeName", name, CheckDnsSubdomain(name));
  }
  if (const Json* selector = Member(object, "nodeSelector")) {
    if (ListAt(*selector, "nodeSelectorTerms").size() != 1) {
      errors.push_back(Invalid(path + ".nodeSelector.nodeSelectorTerms",
                               ListAt(*selector, "nodeSelectorTerms"),
                               "must have exactly one node selector term"));
    }
  }
  const std::string choices =
      per_device_allowed ? "exactly one of `nodeName`, `nodeSelector`, `allNodes`, "
                           "`perDeviceNodeSelection` is required"
                         : "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required";
  if (set == 0) {
    errors.push_back(Required(path, choices));
  } else if (set > 1) {
    errors.push_back(Invalid(path, nullptr, choices + ", but multiple fields are set"));
  }
}

void CheckDevice(FieldErrors& errors,
                 const Json& device,
                 const std::string& path,
                 bool per_device) {
  const std::string name = TextAt(device, "name");
  if (name.empty()) {
    errors.push_back(Required(path + ".name", ""));
  } else {
    RequireEach(errors, path + ".name", name, CheckDnsLabel(name));
  }
  const Json& attributes = ObjectAt(device, "attributes");
  const Json& capacity = ObjectAt(device, "capacity");
  if (attributes.size() + capacity.size() > 32) {
    errors.push_back(Invalid(path,
                             attributes.size() + capacity.size(),
                             "the total number of attributes and capacities must not exceed 32"));
  }
  for (const auto& [key, value] : attributes.items()) {
    const std::string at = path + ".attributes[" + key + "]";
    CheckDeviceQualifiedName(errors, key, at, false);
    int set = 0;
    for (const char* kind :
         {"int", "bool", "string", "version", "ints", "bools", "strings", "versions"}) {
      set += value.contains(kind) ? 1 : 0;
    }
    if (set == 0) {
      errors.push_back(Required(at, "exactly one value must be specified"));
    } else if (set > 1) {
      errors.push_back(Invalid(at, value, "exactly one value must be specified"));
    }
    for (const char* kind : {"string", "version"}) {
      if (TextAt(value, kind).size() > 64) {
        errors.push_back(TooLong(at + "." + kind, 64));
      }
    }
    if (const std::string version = TextAt(value, "version");
        !version.empty() && !cel::Semver::Parse(version)) {
      errors.push_back(Invalid(
          at + ".version", version, "must be a string compatible with semver.org spec 2.0.0"));
    }
  }
  const bool shared = TrueAt(device, "allowMultipleAllocations");
  for (const auto& [key, value] : capacity.items()) {
    const std::string at = path + ".capacity[" + key + "]";
    CheckDeviceQualifiedName(errors, key, at, false);
    if (value.contains("requestPolicy") && !shared) {
      errors.push_back(Forbidden(at + ".requestPolicy", "allowMultipleAllocations must be true"));
    }
  }
  const Json& taints = ListAt(device, "taints");
  CheckAtMost(errors, taints, 16, path + ".taints");
  for (std::size_t i = 0; i < taints.size(); ++i) {
    CheckTaint(errors, taints[i], AtIndex(path + ".taints", i));
  }
  const Json& counters = ListAt(device, "consumesCounters");
  CheckAtMost(errors, counters, 2, path + ".consumesCounters");
  std::set<std::string> sets;
  for (std::size_t i = 0; i < counters.size(); ++i) {
    const std::string at = AtIndex(path + ".consumesCounters", i);
    if (!HasText(counters[i], "counterSet")) {
      errors.push_back(Required(at + ".counterSet", ""));
    } else if (!sets.insert(TextAt(counters[i], "counterSet")).second) {
      errors.push_back(Duplicate(at, TextAt(counters[i], "counterSet")));
    }
    if (ObjectAt(counters[i], "counters").empty()) {
      errors.push_back(Required(at + ".counters", ""));
    }
  }
  const bool binding = !ListAt(device, "bindingConditions").empty();
  const bool failure = !ListAt(device, "bindingFailureConditions").empty();
  CheckAtMost(errors, ListAt(device, "bindingConditions"), 4, path + ".bindingConditions");
  CheckAtMost(
      errors, ListAt(device, "bindingFailureConditions"), 4, path + ".bindingFailureConditions");
  if (binding != failure) {
    errors.push_back(
        Invalid(path + (binding ? ".bindingFailureConditions" : ".bindingConditions"),
                Json::array(),
                binding ? "bindingFailureConditions are required to use bindingConditions"
                        : "bindingConditions are required to use bindingFailureConditions"));
  }
  if (per_device) {
    CheckNodeChoice(errors, device, path, false);
  } else {
    for (const char* field : {"nodeName", "nodeSelector", "allNodes"}) {
      if (const Json* value = Member(device, field)) {
        errors.push_back(Invalid(path,
                                 *value,
                                 "`nodeName`, `nodeSelector` and `allNodes` can only be set if "
                                 "perDeviceNodeSelection is true in the slice"));
        break;
      }
    }
  }
}

void CheckSlice(FieldErrors& errors, const Json& spec) {
  CheckDriver(errors, TextAt(spec, "driver"), "spec.driver");
  const Json& pool = ObjectAt(spec, "pool");
  CheckPool(errors, TextAt(pool, "name"), "spec.pool.name");
  CheckNonNegative(errors, "spec.pool.generation", Member(pool, "generation"));
  if (IntAt(pool, "resourceSliceCount").value_or(0) <= 0) {
    errors.push_back(Invalid("spec.pool.resourceSliceCount",
                             IntAt(pool, "resourceSliceCount").value_or(0),
                             "must be greater than zero"));
  }
  CheckNodeChoice(errors, spec, "spec", true);
  const Json& devices = ListAt(spec, "devices");
  const Json& shared = ListAt(spec, "sharedCounters");
  const bool heavy = std::ranges::any_of(devices, [](const Json& device) {
    return !ListAt(device, "taints").empty() || !ListAt(device, "consumesCounters").empty();
  });
  CheckAtMost(errors, devices, heavy ? 64 : 128, "spec.devices");
  CheckAtMost(errors, shared, 8, "spec.sharedCounters");
  if (!devices.empty() && !shared.empty()) {
    errors.push_back(
        Invalid("spec", nullptr, "only one of `sharedCounters` or `devices` is allowed"));
  }
  std::set<std::string> names;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const std::string at = AtIndex("spec.devices", i);
    CheckDevice(errors, devices[i], at, TrueAt(spec, "perDeviceNodeSelection"));
    if (const std::string name = TextAt(devices[i], "name");
        !name.empty() && !names.insert(name).second) {
      errors.push_back(Duplicate(at + ".name", name));
    }
  }
  std::set<std::string> sets;
  for (std::size_t i = 0; i < shared.size(); ++i) {
    const std::string at = AtIndex("spec.sharedCounters", i);
    const std::string name = TextAt(shared[i], "name");
    if (name.empty()) {
      errors.push_back(Required(at + ".name", ""));
    } else {
      RequireEach(errors, at + ".name", name, CheckDnsLabel(name));
    }
    if (!sets.insert(name).second) {
      errors.push_back(Duplicate(at, name));
    }
    if (ObjectAt(shared[i], "counters").empty()) {
      errors.push_back(Required(at + ".counters", ""));
    } else if (ObjectAt(shared[i], "counters").size() > 32) {
      errors.push_back(TooMany(at + ".counters", ObjectAt(shared[i], "counters").size(), 32));
    }
  }
}

}  // namespace

void CheckResourceKind(FieldErrors& errors,
                       const ResourceInfo& resource,
                       const Json& object,
                       const Json* old) {
  const Json& spec = ObjectAt(object, "spec");
  if (resource.kind == "ResourceClaim" || resource.kind == "ResourceClaimTemplate") {
    if (old != nullptr) {
      RequireSame(errors, "spec", object, *old, "spec");
    } else if (resource.kind == "ResourceClaim") {
      CheckClaimSpec(errors, spec, "spec");
    } else {
      CheckClaimSpec(errors, ObjectAt(spec, "spec"), "spec.spec");
      CheckLabels(errors, ObjectAt(ObjectAt(spec, "metadata"), "labels"), "spec.metadata.labels");
      CheckAnnotations(
          errors, ObjectAt(ObjectAt(spec, "metadata"), "annotations"), "spec.metadata.annotations");
    }
  } else if (resource.kind == "ResourceSlice") {
    CheckSlice(errors, spec);
    if (old != nullptr) {
      const Json& before = ObjectAt(*old, "spec");
      RequireSame(errors, "spec.driver", spec, before, "driver");
      RequireSame(
          errors, "spec.pool.name", ObjectAt(spec, "pool"), ObjectAt(before, "pool"), "name");
      RequireSame(errors, "spec.nodeName", spec, before, "nodeName");
    }
  } else if (resource.kind == "DeviceClass") {
    CheckSelectors(errors, ListAt(spec, "selectors"), "spec.selectors");
    CheckAtMost(errors, ListAt(spec, "config"), 32, "spec.config");
  } else if (resource.kind == "DeviceTaintRule") {
    CheckTaint(errors, ObjectAt(spec, "taint"), "spec.taint");
    if (const Json* selector = Member(spec, "deviceSelector")) {
      if (HasText(*selector, "driver")) {
        CheckDriver(errors, TextAt(*selector, "driver"), "spec.deviceSelector.driver");
      }
      if (HasText(*selector, "pool")) {
        CheckPool(errors, TextAt(*selector, "pool"), "spec.deviceSelector.pool");
      }
      if (const std::string device = TextAt(*selector, "device"); !device.empty()) {
        RequireEach(errors, "spec.deviceSelector.device", device, CheckDnsLabel(device));
      }
    }
  }
}

void CheckClaimStatus(FieldErrors& errors, const Json& claim, const Json& old) {
  const Json& status = ObjectAt(claim, "status");
  const Json& before = ObjectAt(old, "status");
  const Json* allocation = Member(status, "allocation");
  const Json* old_allocation = Member(before, "allocation");
  const Json& reserved = ListAt(status, "reservedFor");
  const bool deleting = ObjectAt(claim, "metadata").contains("deletionTimestamp");
  CheckAtMost(errors, reserved, 256, "status.reservedFor");
  std::set<std::string> uids;
  for (std::size_t i = 0; i < reserved.size(); ++i) {
    const std::string at = AtIndex("status.reservedFor", i);
    for (const char* field : {"resource", "name", "uid"}) {
      if (!HasText(reserved[i], field)) {
        errors.push_back(Required(at + "." + field, ""));
      }
    }
    if (!uids.insert(TextAt(reserved[i], "uid")).second) {
      errors.push_back(Duplicate(at, Json{{"uid", TextAt(reserved[i], "uid")}}));
    }
  }
  if (!reserved.empty()) {
    if (allocation == nullptr) {
      errors.push_back(
          Forbidden("status.reservedFor", "may not be specified when `allocated` is not set"));
    } else if (deleting) {
      const Json& known = ListAt(before, "reservedFor");
      for (std::size_t i = 0; i < reserved.size(); ++i) {
        if (std::ranges::find(known, reserved[i]) == known.end()) {
          errors.push_back(Forbidden("status.reservedFor",
                                     "new entries may not be added while `deallocationRequested` "
                                     "or `deletionTimestamp` are set"));
          break;
        }
      }
    }
  }
  if (allocation != nullptr && old_allocation != nullptr) {
    if (*allocation != *old_allocation) {
      errors.push_back(Invalid("status.allocation", nullptr, "field cannot be modified once set"));
    }
    return;
  }
  if (allocation == nullptr) {
    return;
  }
  const Json& devices = ObjectAt(*allocation, "devices");
  const Json& results = ListAt(devices, "results");
  const std::string at = "status.allocation.devices.results";
  CheckAtMost(errors, results, 32, at);
  CheckAtMost(errors, ListAt(devices, "config"), 64, "status.allocation.devices.config");
  const std::set<std::string> known = RequestNames(ObjectAt(ObjectAt(claim, "spec"), "devices"));
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string here = AtIndex(at, i);
    if (!known.contains(TextAt(results[i], "request"))) {
      errors.push_back(Invalid(
          here + ".request",
          TextAt(results[i], "request"),
          "must be the name of a request in the claim or the name of a request and a subrequest "
          "separated by '/'"));
    }
    CheckDriver(errors, TextAt(results[i], "driver"), here + ".driver");
    CheckPool(errors, TextAt(results[i], "pool"), here + ".pool");
    const std::string device = TextAt(results[i], "device");
    if (device.empty()) {
      errors.push_back(Required(here + ".device", ""));
    } else {
      RequireEach(errors, here + ".device", device, CheckDnsLabel(device));
    }
  }
}

}  // namespace muster::sim
