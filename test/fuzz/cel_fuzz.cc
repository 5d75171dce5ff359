// Any text as an expression of each environment: it must compile or be refused, run or fail, within
// its budget.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cel/device_env.h"
#include "cel/program.h"

namespace {

using muster::cel::Env;
using muster::cel::MapActivation;
using muster::cel::Program;
using muster::cel::Value;

muster::cel::DeviceInfo MakeDevice() {
  muster::cel::DeviceInfo device;
  device.driver_name = "gpu.example.com";
  device.attributes = {
      {"model", Value::String("A100")},
      {"count", Value::Int(4)},
      {"version", Value::FromSemver(*muster::cel::Semver::Parse("1.2.3"))},
      {"other.io/ids", Value::List({Value::Int(3), Value::Int(1)})},
  };
  device.capacities = {{"memory", Value::FromQuantity(*muster::cel::Quantity::Parse("80Gi"))}};
  return device;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  static const muster::cel::DeviceInfo device = MakeDevice();
  const std::string_view text(reinterpret_cast<const char*>(data) + 1,
                              size - 1);  // bytes are characters
  // Enough for every function, little enough for many runs a second.
  std::int64_t budget = 20'000;
  if (data[0] % 2 == 0) {
    if (const auto program = Program::Compile(text, Env::Device())) {
      (void)muster::cel::MatchDevice(*program, device, budget);
    }
    return 0;
  }
  if (const auto program = Program::Compile(text, Env::Mutation())) {
    const Value object =
        Value::Map({{Value::String("a"), Value::List({Value::Int(1), Value::String("b")})},
                    {Value::String("b"), Value::Map(Value::Entries{})}});
    const auto value =
        program->Run(MapActivation{{"object", object}, {"oldObject", Value::Null()}}, budget);
    if (value) {
      (void)value->DebugString();
    }
  }
  return 0;
}
