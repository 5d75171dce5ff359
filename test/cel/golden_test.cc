// Compares every answer of golden.txt (what the compiler of kube-scheduler says) with ours.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cel/device_env.h"
#include "cel/program.h"

namespace muster::cel {
namespace {

Value Version(const char* text) {
  return Value::FromSemver(*Semver::Parse(text));
}
Value Amount(const char* text) {
  return Value::FromQuantity(*Quantity::Parse(text));
}

// The devices of golden/gen/main.go.
std::vector<DeviceInfo> Devices() {
  std::vector<DeviceInfo> out(3);
  out[0].driver_name = "gpu.example.com";
  out[0].attributes = {
      {"model", Value::String("A100")},
      {"count", Value::Int(4)},
      {"healthy", Value::Bool(true)},
      {"driverVersion", Version("550.54.15")},
      {"other.io/numa", Value::Int(1)},
      {"other.io/name", Value::String("rack-a/node-1")},
      {"modes", Value::List({Value::String("fast"), Value::String("slow")})},
      {"ids", Value::List({Value::Int(3), Value::Int(1), Value::Int(2)})},
      {"gpu.example.com/uuid", Value::String("GPU-18db0e85-99e9-c746-8531-ffeb86328b39")},
  };
  out[0].capacities = {
      {"memory", Amount("80Gi")}, {"cores", Amount("100")}, {"other.io/memory", Amount("1500m")}};
  out[1].driver_name = "gpu.example.com";
  out[1].multiple = true;
  out[1].attributes = {
      {"model", Value::String("H100-SXM")},
      {"count", Value::Int(-8)},
      {"healthy", Value::Bool(false)},
      {"driverVersion", Version("1.2.3-beta.2+build")},
      {"other.io/numa", Value::String("0")},
      {"modes", Value::String("fast")},
  };
  out[1].capacities = {{"memory", Amount("40960Mi")}};
  out[2].driver_name = "empty.example.com";
  return out;
}

std::vector<std::string> Lines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  std::string line;
  while (std::getline(file, line)) {
    lines.push_back(line);
  }
  return lines;
}

std::string WithLineFeeds(std::string text) {
  static const std::string kMark = "␤";
  for (std::size_t at = text.find(kMark); at != std::string::npos; at = text.find(kMark)) {
    text.replace(at, kMark.size(), "\n");
  }
  return text;
}

TEST(Golden, AnswersAsKubeSchedulersCompilerDoes) {
  const std::string folder = std::string(MUSTER_SOURCE_DIR) + "/test/cel/golden/";
  const std::vector<std::string> expressions = Lines(folder + "expressions.txt");
  const std::vector<std::string> golden = Lines(folder + "golden.txt");
  ASSERT_GT(golden.size(), 500U);
  const std::vector<DeviceInfo> devices = Devices();
  int cost_differs = 0;
  int cost_total = 0;
  for (const std::string& line : golden) {
    std::istringstream words(line);
    std::size_t number = 0;
    std::string want;
    words >> number >> want;
    ASSERT_TRUE(number >= 1 && number <= expressions.size());
    const std::string text = WithLineFeeds(expressions[number - 1]);
    SCOPED_TRACE("line " + std::to_string(number) + ": " + text);
    const auto program = Program::Compile(text, Env::Device());
    if (want == "compile-error") {
      EXPECT_FALSE(program.has_value()) << "compiled, but upstream refuses it";
      continue;
    }
    if (!program) {
      ADD_FAILURE() << "upstream compiles it, we say: " << program.error().message;
      continue;
    }
    for (const DeviceInfo& device : devices) {
      std::int64_t budget = kPerCallBudget;
      const auto match = MatchDevice(*program, device, budget);
      const std::string got = match ? (*match ? "true" : "false") : "error";
      const std::size_t colon = want.find(':');
      EXPECT_EQ(got, want.substr(0, colon))
          << "device " << &device - devices.data() << (match ? "" : ": " + match.error().message);
      const std::int64_t cost = std::stoll(want.substr(colon + 1));
      if (match && cost >= 0) {
        ++cost_total;
        if (kPerCallBudget - budget != cost) {
          ++cost_differs;
          if (std::getenv("MUSTER_SHOW_COSTS") != nullptr) {
            std::fprintf(stderr,
                         "cost %lld, upstream %lld: %s\n",
                         static_cast<long long>(kPerCallBudget - budget),
                         static_cast<long long>(cost),
                         text.c_str());
          }
        }
      }
      words >> want;
    }
  }
  RecordProperty("costs_compared", cost_total);
  RecordProperty("costs_that_differ", cost_differs);
  // The cost model is upstream's where an expression is likely to be expensive; small differences
  // of bookkeeping remain.
  EXPECT_LT(cost_differs * 4, cost_total)
      << cost_differs << " of " << cost_total << " costs differ";
}

}  // namespace
}  // namespace muster::cel
