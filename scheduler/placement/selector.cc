#include <type_traits>

#include "cel/device_env.h"
#include "scheduler/placement/records.h"

namespace muster::placement {
namespace {

template <typename T>
Result<cel::Value> Scalar(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return cel::Value::Bool(value);
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return cel::Value::Int(value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return cel::Value::BorrowedString(value);
  } else {
    auto version = cel::Semver::Parse(value.text);
    if (!version) {
      return std::unexpected(version.error().At("version"));
    }
    return cel::Value::FromSemver(*std::move(version));
  }
}

Result<cel::Value> ToValue(const api::AttributeValue& attribute) {
  return std::visit(
      [](const auto& value) -> Result<cel::Value> {
        using T = std::decay_t<decltype(value)>;
        if constexpr (requires { typename T::value_type; } && !std::is_same_v<T, std::string>) {
          std::vector<cel::Value> items;
          for (std::size_t i = 0; i < value.size(); ++i) {
            const typename T::value_type item = value[i];
            if constexpr (std::is_same_v<typename T::value_type, std::string>) {
              items.push_back(cel::Value::String(item));
            } else {
              auto converted = Scalar(item);
              if (!converted) {
                return converted;
              }
              items.push_back(*std::move(converted));
            }
          }
          return cel::Value::List(std::move(items));
        } else {
          return Scalar(value);
        }
      },
      attribute);
}

// Refers to the device, which must outlive it.
cel::DeviceInfo Describe(const PoolRecord& pool, const api::Device& device) {
  cel::DeviceInfo info;
  info.driver_name = pool.driver;
  info.multiple = device.allow_multiple_allocations;
  info.attributes.reserve(device.attributes.size());
  for (const auto& [name, value] : device.attributes) {
    info.attributes.push_back({.name = name, .value = ToValue(value)});
  }
  info.capacities.reserve(device.capacity.size());
  for (const auto& [name, capacity] : device.capacity) {
    auto quantity = cel::Quantity::Parse(capacity.value.ToString());
    info.capacities.push_back(
        {.name = name,
         .value = quantity ? Result<cel::Value>(cel::Value::FromQuantity(*quantity))
                           : Result<cel::Value>(std::unexpected(quantity.error()))});
  }
  return info;
}

}  // namespace

const Selector& Compile(SelectorTable& table, const std::string& text) {
  auto& entry = table.by_text[text];
  if (!entry) {
    entry = std::make_unique<Selector>();
    entry->id = static_cast<std::uint32_t>(table.by_text.size());
    entry->text = text;
    if (text.size() > cel::kMaxDeviceExpressionBytes) {
      entry->error = "the expression is longer than 10 KiB";
    } else if (auto program = cel::Program::Compile(text, cel::Env::Device())) {
      entry->program = *std::move(program);
    } else {
      entry->error = program.error().message;
    }
  }
  return *entry;
}

const std::vector<Match>& Results(const Selector& selector, const PoolRecord& pool) {
  auto& results = pool.results[selector.id];
  if (results.size() != pool.devices.size()) {
    results.assign(pool.devices.size(), Match::kError);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!selector.program) {
        continue;
      }
      const cel::DeviceInfo info = Describe(pool, *pool.devices[i].device);
      std::int64_t budget = cel::kPerCallBudget;
      const auto matched = cel::MatchDevice(*selector.program, info, budget);
      if (matched) {
        results[i] = *matched ? Match::kYes : Match::kNo;
      } else {
        pool.first_error.try_emplace(selector.id,
                                     "device " + pool.driver + "/" + pool.pool + "/" +
                                         pool.devices[i].device->name + ": " +
                                         matched.error().message);
      }
    }
  }
  return results;
}

}  // namespace muster::placement
