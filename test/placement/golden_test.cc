#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/json.h"
#include "api/object.h"
#include "scheduler/placement/placement.h"
#include "test/placement/world.h"

// What the upstream allocator answers for random small worlds (test/placement/golden/gen): one pod
// on one node. Muster says yes and no where it does, with the same devices. Where upstream gives up
// with an error, Muster may find an answer, but knows that kube-scheduler will not.
namespace muster::placement {
namespace {

std::string Text(const Placement& placement) {
  std::string out;
  for (const auto& device : placement.pods[0].devices) {
    out += std::to_string(device.claim) + ":" + device.request + "=" + device.driver + "/" +
           device.pool + "/" + device.device + " ";
  }
  return out;
}

TEST(Golden, OnePodOnOneNodeGetsTheDevicesOfTheUpstreamAllocator) {
  std::ifstream file(std::string(MUSTER_SOURCE_DIR) + "/test/placement/golden/allocator.jsonl");
  ASSERT_TRUE(file.is_open());
  std::string line;
  int number = 0;
  int yes = 0;
  while (std::getline(file, line)) {
    ++number;
    const api::Json json = api::Json::parse(line, nullptr, false);
    ASSERT_FALSE(json.is_discarded());
    World world;
    for (const auto& item : json.at("classes")) {
      world.inventory.Upsert(api::DecodeAs<api::DeviceClass>(item).value());
    }
    world.inventory.Upsert(api::DecodeAs<api::Node>(json.at("node")).value());
    for (const auto& item : json.at("slices")) {
      const auto slice = api::DecodeAs<api::ResourceSlice>(item);
      ASSERT_TRUE(slice) << "line " << number << ": " << slice.error().message;
      world.inventory.Upsert(*slice);
    }
    if (json.at("allocated").is_array()) {
      api::ResourceClaim claim;
      claim.meta.ns = "ns";
      claim.meta.name = "in-use";
      claim.allocated = true;
      for (const auto& item : json.at("allocated")) {
        claim.devices.push_back({.request = "r",
                                 .driver = item.at("driver").get<std::string>(),
                                 .pool = item.at("pool").get<std::string>(),
                                 .device = item.at("device").get<std::string>()});
      }
      world.inventory.Upsert(std::make_shared<const api::ResourceClaim>(claim));
    }
    GangRequest gang;
    gang.classes = {Pods("main", 1, {{"cpu", 1000}})};
    for (const auto& item : json.at("claims")) {
      const auto claim = api::DecodeAs<api::ResourceClaim>(item);
      ASSERT_TRUE(claim) << "line " << number << ": " << claim.error().message;
      gang.classes[0].claims.push_back(gang.claims.size());
      gang.claims.push_back(ClaimDemand{
          .name = (*claim)->meta.name, .spec = (*claim)->spec, .shared = false, .existing = {}});
    }
    const Answer answer = world.trial().Place(gang, 2'000'000);
    const std::string outcome = json.at("outcome").get<std::string>();
    const auto* placed = std::get_if<Placement>(&answer);
    const auto* no = std::get_if<Unplaceable>(&answer);
    const std::string said = no != nullptr       ? no->reasons[0].message
                             : placed != nullptr ? Text(*placed)
                                                 : "undecided";
    if (outcome == "error") {
      EXPECT_TRUE(no != nullptr || (placed != nullptr && !placed->agrees_with_first_fit))
          << "line " << number << ": " << json.at("error") << "; ours: " << said;
      continue;
    }
    ASSERT_EQ(placed != nullptr, outcome == "yes") << "line " << number << ", ours: " << said;
    if (placed == nullptr) {
      EXPECT_NE(no, nullptr) << "line " << number << ", ours: " << said;
      continue;
    }
    ++yes;
    std::string expected;
    for (std::size_t c = 0; c < json.at("devices").size(); ++c) {
      for (const auto& device : json.at("devices")[c]) {
        expected += std::to_string(c) + ":" + device.at("request").get<std::string>() + "=" +
                    device.at("driver").get<std::string>() + "/" +
                    device.at("pool").get<std::string>() + "/" +
                    device.at("device").get<std::string>() + " ";
      }
    }
    EXPECT_EQ(Text(*placed), expected) << "line " << number;
    EXPECT_TRUE(placed->agrees_with_first_fit) << "line " << number;
  }
  EXPECT_GT(yes, 100);
}

}  // namespace
}  // namespace muster::placement
