#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cel/program.h"
#include "cel/value.h"

namespace muster::cel {

// What a selector sees of a device. Placement implements it over its own device, so that nothing is
// copied before it is asked for. Names written without a domain belong to the driver's:
// device.attributes["gpu.example.com"].model finds "model".
class DeviceView {
 public:
  virtual ~DeviceView() = default;
  [[nodiscard]] virtual std::string_view driver() const = 0;
  [[nodiscard]] virtual bool allow_multiple_allocations() const = 0;
  // Names are as published ("model" or "other.io/x"), in a fixed order. A version attribute is
  // Value::FromSemver; an attribute that cannot be read is an Error.
  [[nodiscard]] virtual std::size_t attribute_count() const = 0;
  [[nodiscard]] virtual std::string_view attribute_name(std::size_t index) const = 0;
  [[nodiscard]] virtual Result<Value> attribute(std::size_t index) const = 0;
  [[nodiscard]] virtual std::size_t capacity_count() const = 0;
  [[nodiscard]] virtual std::string_view capacity_name(std::size_t index) const = 0;
  [[nodiscard]] virtual Result<Value> capacity(std::size_t index) const = 0;  // Value::FromQuantity
};

// A DeviceView that owns its data.
struct DeviceInfo final : DeviceView {
  struct Entry {
    std::string name;
    Result<Value> value;
  };
  std::string driver_name;
  bool multiple = false;
  std::vector<Entry> attributes;
  std::vector<Entry> capacities;

  [[nodiscard]] std::string_view driver() const override { return driver_name; }
  [[nodiscard]] bool allow_multiple_allocations() const override { return multiple; }
  [[nodiscard]] std::size_t attribute_count() const override { return attributes.size(); }
  [[nodiscard]] std::string_view attribute_name(std::size_t i) const override {
    return attributes[i].name;
  }
  [[nodiscard]] Result<Value> attribute(std::size_t i) const override {
    return attributes[i].value;
  }
  [[nodiscard]] std::size_t capacity_count() const override { return capacities.size(); }
  [[nodiscard]] std::string_view capacity_name(std::size_t i) const override {
    return capacities[i].name;
  }
  [[nodiscard]] Result<Value> capacity(std::size_t i) const override { return capacities[i].value; }
};

// Whether `selector` (compiled with Env::Device()) picks the device. A runtime error is not
// "false": upstream aborts the whole attempt. `device` must outlive the call only.
[[nodiscard]] Result<bool> MatchDevice(const Program& selector,
                                       const DeviceView& device,
                                       std::int64_t& budget);

}  // namespace muster::cel
