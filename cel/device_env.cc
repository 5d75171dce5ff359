#include "cel/device_env.h"

#include <algorithm>

namespace muster::cel {
namespace {

constexpr std::string_view kDeviceType = "kubernetes.DRADevice";

enum class Part : std::uint8_t { kAttributes, kCapacity };

struct Names {
  std::string_view domain;
  std::string_view id;
};

Names Qualified(std::string_view name, std::string_view driver) {
  const std::size_t slash = name.find('/');
  return slash == std::string_view::npos
             ? Names{.domain = driver, .id = name}
             : Names{.domain = name.substr(0, slash), .id = name.substr(slash + 1)};
}

std::size_t Count(const DeviceView& device, Part part) {
  return part == Part::kAttributes ? device.attribute_count() : device.capacity_count();
}
Names NamesOf(const DeviceView& device, Part part, std::size_t index) {
  return Qualified(
      part == Part::kAttributes ? device.attribute_name(index) : device.capacity_name(index),
      device.driver());
}
Result<Value> ValueOf(const DeviceView& device, Part part, std::size_t index) {
  return part == Part::kAttributes ? device.attribute(index) : device.capacity(index);
}

Value SortedKeys(std::vector<std::string_view>& names, std::vector<Value>& out) {
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (const std::string_view name : names) {
    out.push_back(Value::String(std::string(name)));
  }
  return {};
}

// id -> value, of one domain.
class Inner final : public MapView {
 public:
  Inner(const DeviceView& device, Part part, std::string domain)
      : device_(device), part_(part), domain_(std::move(domain)) {}
  [[nodiscard]] std::size_t Size() const override { return Keys().size(); }
  [[nodiscard]] Result<std::optional<Value>> Find(const Value& key) const override {
    if (!key.is(Value::Kind::kString)) {
      return std::nullopt;
    }
    for (std::size_t i = 0; i < Count(device_, part_); ++i) {
      const Names names = NamesOf(device_, part_, i);
      if (names.id == key.string_value() && names.domain == domain_) {
        MUSTER_ASSIGN_OR_RETURN(Value value, ValueOf(device_, part_, i));
        return value;
      }
    }
    return std::nullopt;
  }
  [[nodiscard]] std::vector<Value> Keys() const override {
    std::vector<std::string_view> ids;
    for (std::size_t i = 0; i < Count(device_, part_); ++i) {
      const Names names = NamesOf(device_, part_, i);
      if (names.domain == domain_) {
        ids.push_back(names.id);
      }
    }
    std::vector<Value> out;
    SortedKeys(ids, out);
    return out;
  }

 private:
  const DeviceView& device_;
  Part part_;
  std::string domain_;
};

// domain -> id -> value. A domain that is not there reads as an empty map.
class Outer final : public MapView {
 public:
  Outer(const DeviceView& device, Part part) : device_(device), part_(part) {}
  [[nodiscard]] std::size_t Size() const override { return Keys().size(); }
  [[nodiscard]] Result<std::optional<Value>> Find(const Value& key) const override {
    if (!key.is(Value::Kind::kString)) {
      return std::nullopt;
    }
    for (std::size_t i = 0; i < Count(device_, part_); ++i) {
      if (NamesOf(device_, part_, i).domain == key.string_value()) {
        return Value::Map(
            std::make_shared<const Inner>(device_, part_, std::string(key.string_value())));
      }
    }
    return std::nullopt;
  }
  [[nodiscard]] std::vector<Value> Keys() const override {
    std::vector<std::string_view> domains;
    for (std::size_t i = 0; i < Count(device_, part_); ++i) {
      domains.push_back(NamesOf(device_, part_, i).domain);
    }
    std::vector<Value> out;
    SortedKeys(domains, out);
    return out;
  }
  [[nodiscard]] std::optional<Value> Default() const override {
    return Value::Map(Value::Entries{});
  }

 private:
  const DeviceView& device_;
  Part part_;
};

class DeviceFields final : public MapView {
 public:
  explicit DeviceFields(const DeviceView& device) : device_(device) {}
  [[nodiscard]] std::size_t Size() const override { return 4; }
  [[nodiscard]] Result<std::optional<Value>> Find(const Value& key) const override {
    if (!key.is(Value::Kind::kString)) {
      return std::nullopt;
    }
    const std::string_view name = key.string_value();
    if (name == "driver") {
      return Value::BorrowedString(device_.driver());
    }
    if (name == "allowMultipleAllocations") {
      return Value::Bool(device_.allow_multiple_allocations());
    }
    if (name == "attributes") {
      return Value::Map(std::make_shared<const Outer>(device_, Part::kAttributes));
    }
    if (name == "capacity") {
      return Value::Map(std::make_shared<const Outer>(device_, Part::kCapacity));
    }
    return std::nullopt;
  }
  [[nodiscard]] std::vector<Value> Keys() const override {
    return {Value::String("allowMultipleAllocations"),
            Value::String("attributes"),
            Value::String("capacity"),
            Value::String("driver")};
  }

 private:
  const DeviceView& device_;
};

class DeviceActivation final : public Activation {
 public:
  explicit DeviceActivation(const DeviceView& device)
      : device_(Value::Object(std::string(kDeviceType),
                              std::make_shared<const DeviceFields>(device))) {}
  [[nodiscard]] Result<std::optional<Value>> Find(std::string_view name) const override {
    if (name == "device") {
      return device_;
    }
    return std::nullopt;
  }

 private:
  Value device_;
};

}  // namespace

Env Env::Device() {
  static const Env env = [] {
    const Type quantities = MapType(StringType(), MapType(StringType(), QuantityType()));
    const Type attributes = MapType(StringType(), MapType(StringType(), DynType()));
    return Env{.kind = Kind::kDevice,
               .variables = {{.name = "device",
                              .type = ObjectType(std::string(kDeviceType),
                                                 {{"driver", StringType()},
                                                  {"attributes", attributes},
                                                  {"capacity", quantities},
                                                  {"allowMultipleAllocations", BoolType()}})}}};
  }();
  return env;
}

Result<bool> MatchDevice(const Program& selector, const DeviceView& device, std::int64_t& budget) {
  // An attribute that cannot be read fails the evaluation even where the selector does not look at
  // it.
  for (std::size_t i = 0; i < device.attribute_count(); ++i) {
    if (const auto value = device.attribute(i); !value) {
      return std::unexpected(
          value.error().At("attribute " + std::string(device.attribute_name(i))));
    }
  }
  return selector.RunBool(DeviceActivation(device), budget);
}

}  // namespace muster::cel
