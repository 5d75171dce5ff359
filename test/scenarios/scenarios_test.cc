#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "api/yaml.h"
#include "base/log.h"
#include "scheduler/config.h"
#include "sim/scenario.h"
#include "sim/world.h"

// Each file of test/cases/scenarios is a scenario with one more document, `kind: Expect`:
//
// clang-format off
//   apiVersion: test.muster.dev/v1
//   kind: Expect
//   why: one sentence
//   until: 10m                                              # default 1h
//   events: [{event: Admitted, owner: Job a/x, at: 30s}]    # each must occur; every given member must match
//   events: [{event: Preempted, times: 2}]                  # exactly so often
//   never: [{event: Preempted}]                             # none may occur
//   order: [{event: Started, owner: Job a/x}, {...}]        # must occur in this order
//   waiting: [{owner: Job a/y, reason: WaitingForQuota, message: "2 more needed"}]
//   notWaiting: [{owner: ...}]
//   queues: {a: {pending: 1, reserving: 0, admitted: 0, usage: {default: {cpu: "4"}}}}
//   objects: [{kind: Job, namespace: a, name: x, values: {/spec/suspend: true}}]
//   conditions: [{owner: x, type: Preempted, status: "True", reason: InClusterQueue}]  # of a Workload that x owns
//   absent: [{kind: Pod, namespace: a, labels: {k: v}}]
// clang-format on
//
// `message` and `owner` match when they are contained (of conditions only `message`); everything
// else must be equal. In usage an absent amount is zero.
namespace muster::sim {
namespace {

using api::Json;

struct CaseFile {
  std::string path;
  std::string text;
  Json expect;
};

CaseFile ReadCase(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  CaseFile out{.path = path, .text = {}, .expect = {}};
  // The Expect document is cut out by its separator, so that the rest stays the text that a user
  // would write.
  std::string scenario;
  std::istringstream lines(text.str());
  std::vector<std::string> documents(1);
  for (std::string line; std::getline(lines, line);) {
    if (line == "---") {
      documents.emplace_back();
    } else {
      documents.back() += line + "\n";
    }
  }
  for (const std::string& document : documents) {
    if (document.contains("kind: Expect\n")) {
      auto parsed = api::ParseYaml(document, path);
      if (parsed && parsed->size() == 1) {
        out.expect = std::move(parsed->front().value);
      } else {
        ADD_FAILURE() << path << ": " << (parsed ? "no document" : parsed.error().message);
      }
    } else {
      scenario += "---\n" + document;
    }
  }
  out.text = scenario;
  return out;
}

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Whether every member of `wanted` matches `entry`.
bool Matches(const Json& entry, const Json& wanted) {
  for (const auto& [key, value] : wanted.items()) {
    if (key == "why" || key == "times") {
      continue;
    }
    if (!entry.contains(key)) {
      return false;
    }
    const bool by_part = key == "message" || key == "owner" || key == "object";
    if (by_part && value.is_array()) {
      for (const Json& part : value) {
        if (!Contains(entry[key].get<std::string>(), part.get<std::string>())) {
          return false;
        }
      }
    } else if (by_part ? !Contains(entry[key].get<std::string>(), value.get<std::string>())
                       : entry[key] != value) {
      return false;
    }
  }
  return true;
}

bool Any(const Json& entries, const Json& wanted) {
  return std::any_of(
      entries.begin(), entries.end(), [&](const Json& entry) { return Matches(entry, wanted); });
}

std::string Shown(const Json& entries) {
  std::string out;
  for (const Json& entry : entries) {
    out += "  " + entry.dump() + "\n";
  }
  return out;
}

void CheckUsage(const std::string& where, const Json& got, const Json& wanted) {
  for (const auto& [flavor, resources] : wanted.items()) {
    for (const auto& [resource, amount] : resources.items()) {
      const std::string have = got.contains(flavor) && got[flavor].contains(resource)
                                   ? got[flavor][resource].get<std::string>()
                                   : std::string("0");
      const std::string want = amount.is_string() ? amount.get<std::string>() : amount.dump();
      EXPECT_EQ(have, want) << where << ": usage of " << resource << " in flavor " << flavor;
    }
  }
}

bool IsObject(const Json& object, const Json& wanted) {
  const Json& meta = object.at("metadata");
  const auto same = [&](const Json& from, const char* key) {
    return !wanted.contains(key) || from.value(key, "") == wanted.value(key, "");
  };
  if (!same(object, "kind") || !same(object, "apiVersion") || !same(meta, "namespace") ||
      !same(meta, "name")) {
    return false;
  }
  const Json labels = meta.value("labels", Json::object());
  for (const auto& [key, value] : wanted.value("labels", Json::object()).items()) {
    if (labels.value(key, Json()) != value) {
      return false;
    }
  }
  return true;
}

void CheckObjects(const Json& report, const Json& expect) {
  for (const Json& wanted : expect.value("objects", Json::array())) {
    const auto found = std::find_if(report["objects"].begin(),
                                    report["objects"].end(),
                                    [&](const Json& object) { return IsObject(object, wanted); });
    if (found == report["objects"].end()) {
      ADD_FAILURE() << "no such object: " << wanted.dump();
      continue;
    }
    for (const auto& [pointer, value] : wanted.value("values", Json::object()).items()) {
      const Json got = found->value(Json::json_pointer(pointer), Json());
      EXPECT_EQ(got, value) << wanted.dump() << " at " << pointer << ": " << found->dump();
    }
  }
  for (const Json& wanted : expect.value("absent", Json::array())) {
    for (const Json& object : report["objects"]) {
      EXPECT_FALSE(IsObject(object, wanted)) << "should not exist: " << object.dump();
    }
  }
}

// Conditions of the Workload that an object of this name owns.
bool HasCondition(const Json& object, const Json& wanted) {
  const Json owners = object.at("metadata").value("ownerReferences", Json::array());
  const bool owned = object.value("kind", "") == "Workload" &&
                     std::any_of(owners.begin(), owners.end(), [&](const Json& owner) {
                       return owner.value("name", "") == wanted.at("owner").get<std::string>();
                     });
  if (!owned) {
    return false;
  }
  Json members = wanted;
  members.erase("owner");
  return Any(object.value(Json::json_pointer("/status/conditions"), Json::array()), members);
}

void CheckConditions(const Json& objects, const Json& expect) {
  for (const Json& wanted : expect.value("conditions", Json::array())) {
    if (std::any_of(objects.begin(), objects.end(), [&](const Json& object) {
          return HasCondition(object, wanted);
        })) {
      continue;
    }
    Json workloads = Json::array();
    std::copy_if(
        objects.begin(), objects.end(), std::back_inserter(workloads), [](const Json& object) {
          return object.value("kind", "") == "Workload";
        });
    ADD_FAILURE() << "no such condition: " << wanted.dump() << "\nworkloads:\n" << Shown(workloads);
  }
}

void CheckEvents(const Json& timeline, const Json& expect) {
  for (const Json& wanted : expect.value("events", Json::array())) {
    if (wanted.contains("times")) {
      const auto times = std::count_if(timeline.begin(), timeline.end(), [&](const Json& entry) {
        return Matches(entry, wanted);
      });
      EXPECT_EQ(times, wanted["times"].get<std::int64_t>()) << wanted.dump() << "\ntimeline:\n"
                                                            << Shown(timeline);
      continue;
    }
    EXPECT_TRUE(Any(timeline, wanted)) << "no such event: " << wanted.dump() << "\ntimeline:\n"
                                       << Shown(timeline);
  }
  for (const Json& wanted : expect.value("never", Json::array())) {
    EXPECT_FALSE(Any(timeline, wanted)) << "must not occur: " << wanted.dump() << "\ntimeline:\n"
                                        << Shown(timeline);
  }
  auto from = timeline.begin();
  for (const Json& wanted : expect.value("order", Json::array())) {
    from = std::find_if(
        from, timeline.end(), [&](const Json& entry) { return Matches(entry, wanted); });
    if (from == timeline.end()) {
      ADD_FAILURE() << "not in this order: " << wanted.dump() << "\ntimeline:\n" << Shown(timeline);
      return;
    }
    ++from;
  }
}

void RunCase(const std::string& path) {
  SCOPED_TRACE(path);
  const CaseFile file = ReadCase(path);
  ASSERT_TRUE(file.expect.is_object()) << path << " has no Expect document";
  SCOPED_TRACE(file.expect.value("why", ""));
  auto scenario = ParseScenario(file.text, path);
  ASSERT_TRUE(scenario.has_value()) << scenario.error().message;
  scheduler::Options options;
  if (scenario->configuration) {
    auto config = scheduler::ReadConfiguration(*scenario->configuration);
    ASSERT_TRUE(config.has_value()) << config.error().message;
    options = std::move(config->options);
  }
  const auto until = ParseDuration(file.expect.value("until", "1h"));
  ASSERT_TRUE(until.has_value());

  World world(std::move(*scenario), WorldOptions{.controller = std::move(options)});
  const Status status = world.Run(*until);
  ASSERT_TRUE(status.has_value()) << status.error().message;
  const Json report = ReportJson(world);

  CheckEvents(report["timeline"], file.expect);
  for (const Json& wanted : file.expect.value("waiting", Json::array())) {
    EXPECT_TRUE(Any(report["waiting"], wanted))
        << "does not wait so: " << wanted.dump() << "\nwaiting:\n"
        << Shown(report["waiting"]);
  }
  for (const Json& wanted : file.expect.value("notWaiting", Json::array())) {
    EXPECT_FALSE(Any(report["waiting"], wanted))
        << "should not wait: " << wanted.dump() << "\nwaiting:\n"
        << Shown(report["waiting"]);
  }
  for (const auto& [name, wanted] : file.expect.value("queues", Json::object()).items()) {
    ASSERT_TRUE(report["queues"].contains(name)) << name;
    const Json& got = report["queues"][name];
    for (const char* count : {"pending", "reserving", "admitted"}) {
      if (wanted.contains(count)) {
        EXPECT_EQ(got[count], wanted[count]) << "queue " << name << ": " << count;
      }
    }
    CheckUsage("queue " + name, got["usage"], wanted.value("usage", Json::object()));
  }
  CheckObjects(report, file.expect);
  CheckConditions(report["objects"], file.expect);
}

class Scenarios : public testing::TestWithParam<std::string> {};

TEST_P(Scenarios, EndAsExpected) {
  log::SetLevel(log::Level::kError);
  RunCase(GetParam());
}

std::vector<std::string> Files() {
  std::vector<std::string> out;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(MUSTER_SOURCE_DIR "/test/cases/scenarios")) {
    if (entry.path().extension() == ".yaml") {
      out.push_back(entry.path().string());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

INSTANTIATE_TEST_SUITE_P(Cases, Scenarios, testing::ValuesIn(Files()), [](const auto& param) {
  std::string name = std::filesystem::path(param.param).stem().string();
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace muster::sim
