#include <string>

#include <gtest/gtest.h>

#include "api/object.h"
#include "scheduler/placement/placement.h"
#include "test/placement/world.h"
#include "test/support/case_file.h"

// test/cases/placement/*.yaml: `given` has Kubernetes objects and gangs; each step applies or
// deletes objects, places a gang in a fresh trial (or, with `keep`, in one trial for all steps) and
// says what is expected.
namespace muster::placement {
namespace {

using test::At;
using test::CaseFile;

class PlacementCase : public testing::TestWithParam<CaseFile> {};

void Apply(World& world, const api::Json& json) {
  const std::string version = At(json, "apiVersion").get<std::string>();
  const std::size_t slash = version.find('/');
  const auto kind = api::FindKind(slash == std::string::npos ? "" : version.substr(0, slash),
                                  At(json, "kind").get<std::string>());
  ASSERT_TRUE(kind) << json.dump();
  const auto object = api::Decode(*kind, json);
  ASSERT_TRUE(object) << object.error().message;
  std::visit(
      [&](const auto& ptr) {
        if constexpr (requires { world.inventory.Upsert(ptr); }) {
          world.inventory.Upsert(ptr);
        } else {
          ADD_FAILURE() << "placement does not read this kind";
        }
      },
      *object);
}

GangRequest Gang(const api::Json& json) {
  GangRequest gang;
  gang.ns = "team";
  for (const auto& item : At(json, "claims")) {
    ClaimDemand claim;
    claim.name = At(item, "name").get<std::string>();
    claim.shared = At(item, "shared").is_boolean() && At(item, "shared").get<bool>();
    if (At(item, "existing").is_string()) {
      claim.existing =
          api::ObjectKey{.ns = "team", .name = At(item, "existing").get<std::string>()};
    }
    const auto decoded = api::DecodeAs<api::ResourceClaim>(
        {{"metadata", {{"name", "c"}, {"namespace", "team"}}}, {"spec", At(item, "spec")}});
    EXPECT_TRUE(decoded) << decoded.error().message;
    claim.spec = (*decoded)->spec;
    gang.claims.push_back(std::move(claim));
  }
  for (const auto& item : At(json, "podSets")) {
    PodClass pods;
    pods.name = At(item, "name").get<std::string>();
    pods.count = At(item, "count").get<std::int32_t>();
    for (const auto& [name, amount] : At(item, "requests").items()) {
      pods.requests[name] =
          api::RequestAmount(name, api::Quantity::Parse(test::Text(amount)).value());
    }
    for (const auto& [key, value] : At(item, "nodeSelector").items()) {
      pods.node_selector[key] = test::Text(value);
    }
    for (const auto& name : At(item, "claims")) {
      for (std::size_t i = 0; i < gang.claims.size(); ++i) {
        if (gang.claims[i].name == name.get<std::string>()) {
          pods.claims.push_back(i);
        }
      }
    }
    gang.classes.push_back(std::move(pods));
  }
  return gang;
}

TEST_P(PlacementCase, Holds) {
  const CaseFile& file = GetParam();
  ASSERT_FALSE(file.body.is_null()) << file.why;
  SCOPED_TRACE(file.path + ": " + file.why);
  World world;
  const api::Json& given = At(file.body, "given");
  for (const auto& object : At(given, "objects")) {
    Apply(world, object);
  }
  std::optional<Trial> kept;
  int number = 0;
  for (const auto& step : At(file.body, "steps")) {
    SCOPED_TRACE("step " + std::to_string(++number));
    for (const auto& object : At(step, "apply")) {
      Apply(world, object);
    }
    const std::string name = At(step, "place").get<std::string>();
    const GangRequest gang = Gang(At(At(given, "gangs"), name));
    if (!kept || !At(step, "keep").is_boolean()) {
      kept.emplace(world.inventory.View());
    }
    const Answer answer = kept->Place(gang, 2'000'000);
    const api::Json& expect = At(step, "expect");
    ASSERT_TRUE(expect.is_object()) << "the step expects nothing";
    if (At(expect, "refused").is_array()) {
      const auto* no = std::get_if<Unplaceable>(&answer);
      ASSERT_NE(no, nullptr);
      std::string all;
      for (const auto& reason : no->reasons) {
        all += reason.message + "\n";
      }
      for (const auto& part : At(expect, "refused")) {
        EXPECT_NE(all.find(part.get<std::string>()), std::string::npos)
            << "expected: " << part << "\nsaid: " << all;
      }
      continue;
    }
    const auto* no = std::get_if<Unplaceable>(&answer);
    const auto* placed = std::get_if<Placement>(&answer);
    ASSERT_NE(placed, nullptr) << (no == nullptr ? "undecided" : no->reasons[0].message);
    api::Json nodes = api::Json::object();
    api::Json devices = api::Json::object();
    for (const auto& pod : placed->pods) {
      const std::string& set = gang.classes[pod.pod_class].name;
      nodes[set].push_back(pod.node);
      devices[set].push_back(DevicesOf(pod));
    }
    for (const auto& device : placed->shared_devices) {
      devices["shared"].push_back(device.device);
    }
    if (!At(expect, "nodes").is_null()) {
      EXPECT_EQ(nodes, At(expect, "nodes"));
    }
    if (!At(expect, "devices").is_null()) {
      EXPECT_EQ(devices, At(expect, "devices"));
    }
    if (At(expect, "firstFit").is_boolean()) {
      EXPECT_EQ(placed->agrees_with_first_fit, At(expect, "firstFit").get<bool>());
    }
  }
  EXPECT_GT(number, 0);
}

INSTANTIATE_TEST_SUITE_P(Files,
                         PlacementCase,
                         testing::ValuesIn(test::LoadCases("placement")),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace muster::placement
