#include <string>
#include <vector>

#include "api/decode_kinds.h"
#include "api/decode_parts.h"

namespace muster::api {
namespace {

using QuantityMap = std::map<std::string, Quantity, std::less<>>;

template <typename T>
std::vector<T> ReadScalars(const Field& field) {
  std::vector<T> out;
  field.Each([&](const Field& item) {
    T value{};
    item.Required().Read(value);
    out.push_back(std::move(value));
  });
  return out;
}

// std::vector<bool> has no references to read into.
std::vector<bool> ReadBools(const Field& field) {
  std::vector<bool> out;
  field.Each([&](const Field& item) {
    bool value = false;
    item.Required().Read(value);
    out.push_back(value);
  });
  return out;
}

std::vector<Version> Versions(std::vector<std::string> texts) {
  std::vector<Version> out;
  out.reserve(texts.size());
  for (std::string& text : texts) {
    out.push_back(Version{.text = std::move(text)});
  }
  return out;
}

void ReadAttribute(const Field& field, AttributeValue& out) {
  int found = 0;
  const auto take = [&](const char* key, auto&& read) {
    const Field value = field[key];
    if (value.present()) {
      ++found;
      read(value);
    }
  };
  take("bool", [&](const Field& f) {
    bool value = false;
    f.Read(value);
    out = value;
  });
  take("int", [&](const Field& f) {
    std::int64_t value = 0;
    f.Read(value);
    out = value;
  });
  take("string", [&](const Field& f) {
    std::string value;
    f.Read(value);
    out = std::move(value);
  });
  take("version", [&](const Field& f) {
    Version value;
    f.Read(value.text);
    out = std::move(value);
  });
  take("bools", [&](const Field& f) { out = ReadBools(f); });
  take("ints", [&](const Field& f) { out = ReadScalars<std::int64_t>(f); });
  take("strings", [&](const Field& f) { out = ReadScalars<std::string>(f); });
  take("versions", [&](const Field& f) { out = Versions(ReadScalars<std::string>(f)); });
  if (found != 1) {
    field.Fail(
        "exactly one of bool, int, string, version, bools, ints, strings, versions must be set");
  }
}

void ReadRequestPolicy(const Field& field, std::optional<RequestPolicy>& out) {
  if (!field.present()) {
    return;
  }
  RequestPolicy policy;
  field["default"].Read(policy.default_value);
  field["validValues"].ReadList(policy.valid_values,
                                [](const Field& item, Quantity& value) { item.Read(value); });
  const Field range = field["validRange"];
  range["min"].Read(policy.range_min);
  range["max"].Read(policy.range_max);
  range["step"].Read(policy.range_step);
  out = std::move(policy);
}

void ReadCounters(const Field& field, QuantityMap& out) {
  field.EachMember([&](const std::string& key, const Field& counter) {
    Quantity value;
    counter["value"].Required().Read(value);
    out.insert_or_assign(key, value);
  });
}

void ReadDeviceTaint(const Field& field, DeviceTaint& out) {
  field["key"].Read(out.key);
  field["value"].Read(out.value);
  field["effect"].Read(out.effect);
}

void ReadDevice(const Field& item, Device& out) {
  item["name"].Read(out.name);
  item["attributes"].EachMember([&](const std::string& key, const Field& field) {
    AttributeValue value;
    ReadAttribute(field, value);
    out.attributes.insert_or_assign(key, std::move(value));
  });
  item["capacity"].EachMember([&](const std::string& key, const Field& field) {
    DeviceCapacity capacity;
    field["value"].Required().Read(capacity.value);
    ReadRequestPolicy(field["requestPolicy"], capacity.policy);
    out.capacity.insert_or_assign(key, std::move(capacity));
  });
  item["consumesCounters"].ReadList(out.consumes_counters,
                                    [](const Field& field, CounterConsumption& c) {
                                      field["counterSet"].Read(c.counter_set);
                                      ReadCounters(field["counters"], c.counters);
                                    });
  item["taints"].ReadList(out.taints, ReadDeviceTaint);
  item["allowMultipleAllocations"].Read(out.allow_multiple_allocations);
  item["bindsToNode"].Read(out.binds_to_node);
  std::vector<std::string> binding_conditions;
  item["bindingConditions"].Read(binding_conditions);
  out.has_binding_conditions = !binding_conditions.empty();
  item["nodeName"].Read(out.node_name);
  ReadNodeSelector(item["nodeSelector"], out.node_selector);
  item["allNodes"].Read(out.all_nodes);
}

void ReadSelectors(const Field& field, std::vector<std::string>& out) {
  field.Each([&](const Field& item) {
    std::string expression;
    // A selector of a kind that this version does not know must not silently match everything.
    item["cel"]["expression"].Required().Read(expression);
    out.push_back(std::move(expression));
  });
}

void ReadSubRequest(const Field& item, DeviceSubRequest& out) {
  item["name"].Read(out.name);
  item["deviceClassName"].Read(out.device_class);
  ReadSelectors(item["selectors"], out.selectors);
  item["allocationMode"].ReadWord(out.all, {{"ExactCount", 0}, {"All", 1}});
  item["count"].Read(out.count);
  item["adminAccess"].Read(out.admin_access);
  item["tolerations"].ReadList(out.tolerations, [](const Field& field, DeviceToleration& t) {
    field["key"].Read(t.key);
    field["operator"].Read(t.op);
    field["value"].Read(t.value);
    field["effect"].Read(t.effect);
  });
  item["capacity"]["requests"].Read(out.capacity_requests);
  const Field derived = item["derivedAttributes"];
  out.has_derived_attributes = derived.present() && !derived.json()->empty();
}

void ReadClaimSpec(const Field& spec, ClaimSpec& out) {
  const Field devices = spec["devices"];
  devices["requests"].ReadList(out.requests, [](const Field& item, DeviceRequest& request) {
    item["name"].Read(request.name);
    const Field exactly = item["exactly"];
    if (exactly.present()) {
      request.exactly.emplace();
      ReadSubRequest(exactly, *request.exactly);
      request.exactly->name.clear();
    }
    item["firstAvailable"].ReadList(request.first_available, ReadSubRequest);
    if (request.exactly.has_value() == !request.first_available.empty()) {
      item.Fail("exactly one of exactly, firstAvailable must be set");
    }
  });
  devices["constraints"].ReadList(out.constraints,
                                  [](const Field& item, DeviceConstraint& constraint) {
                                    item["requests"].Read(constraint.requests);
                                    item["matchAttribute"].Read(constraint.match_attribute);
                                    item["distinctAttribute"].Read(constraint.distinct_attribute);
                                  });
  devices["config"].ReadRaw(out.config);
}

}  // namespace

void ReadObject(const Field& root, DeviceClass& out) {
  const Field spec = root["spec"];
  ReadSelectors(spec["selectors"], out.selectors);
  spec["extendedResourceName"].Read(out.extended_resource_name);
  spec["config"].ReadRaw(out.config);
}

void ReadObject(const Field& root, ResourceSlice& out) {
  const Field spec = root["spec"];
  spec["driver"].Read(out.driver);
  const Field pool = spec["pool"];
  pool["name"].Read(out.pool);
  pool["generation"].Read(out.generation);
  pool["resourceSliceCount"].Read(out.slice_count);
  spec["nodeName"].Read(out.node_name);
  ReadNodeSelector(spec["nodeSelector"], out.node_selector);
  spec["allNodes"].Read(out.all_nodes);
  spec["perDeviceNodeSelection"].Read(out.per_device_node_selection);
  spec["devices"].ReadList(out.devices, ReadDevice);
  spec["sharedCounters"].ReadList(out.shared_counters, [](const Field& item, CounterSet& set) {
    item["name"].Read(set.name);
    ReadCounters(item["counters"], set.counters);
  });
}

void ReadObject(const Field& root, DeviceTaintRule& out) {
  const Field spec = root["spec"];
  const Field selector = spec["deviceSelector"];
  out.has_selector = selector.present();
  selector["driver"].Read(out.driver);
  selector["pool"].Read(out.pool);
  selector["device"].Read(out.device);
  ReadDeviceTaint(spec["taint"], out.taint);
}

void ReadObject(const Field& root, ResourceClaimTemplate& out) {
  ReadClaimSpec(root["spec"]["spec"], out.spec);
}

void ReadObject(const Field& root, ResourceClaim& out) {
  ReadClaimSpec(root["spec"], out.spec);
  const Field status = root["status"];
  const Field allocation = status["allocation"];
  out.allocated = allocation.present();
  allocation["devices"]["results"].ReadList(
      out.devices, [](const Field& item, AllocatedDevice& device) {
        item["request"].Read(device.request);
        item["driver"].Read(device.driver);
        item["pool"].Read(device.pool);
        item["device"].Read(device.device);
        item["adminAccess"].Read(device.admin_access);
        item["shareID"].Read(device.share_id);
        item["consumedCapacity"].Read(device.consumed_capacity);
      });
  ReadNodeSelector(allocation["nodeSelector"], out.allocation_node_selector);
  status["reservedFor"].ReadList(out.reserved_for, [](const Field& item, ClaimConsumer& consumer) {
    item["apiGroup"].Read(consumer.api_group);
    item["resource"].Read(consumer.resource);
    item["name"].Read(consumer.name);
    item["uid"].Read(consumer.uid);
  });
}

}  // namespace muster::api
