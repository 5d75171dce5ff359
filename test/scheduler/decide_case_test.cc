#include <string>

#include <gtest/gtest.h>

#include "test/support/case_file.h"
#include "test/support/decision_world.h"

// test/cases/quota: what is decided, told and charged. `given` sets a world up; `steps` change it
// and say what must hold once nothing is left to decide; `expect` alone is one step that changes
// nothing.
namespace muster::test {
namespace {

using api::Json;

scheduler::Options ReadOptions(const Json& json) {
  scheduler::Options out;
  for (const auto& [key, value] : json.items()) {
    if (key == "transformations") {
      for (const Json& rule : value) {
        scheduler::ResourceTransformation& t = out.transformations.emplace_back();
        t.input = rule["input"].get<std::string>();
        t.strategy = rule["strategy"] == "Replace" ? scheduler::TransformStrategy::kReplace
                                                   : scheduler::TransformStrategy::kRetain;
        t.multiply_by = rule.value("multiply_by", "");
        for (const auto& [name, factor] : rule["outputs"].items()) {
          t.outputs[name] = api::Quantity::Parse(Text(factor)).value();
        }
      }
    } else if (key == "device_class_mappings") {
      for (const Json& mapping : value) {
        out.device_class_mappings.push_back(
            {.resource = mapping["resource"].get<std::string>(),
             .device_classes = mapping["device_classes"].get<std::vector<std::string>>()});
      }
    } else if (key == "exclude_resource_prefixes") {
      out.exclude_resource_prefixes = value.get<std::vector<std::string>>();
    } else if (key == "ignore_undeclared_resources") {
      out.ignore_undeclared_resources = value.get<bool>();
    } else if (key == "block_admission") {
      out.wait_for_pods_ready.block_admission = value.get<bool>();
    } else {
      ADD_FAILURE() << "unknown option " << key;
    }
  }
  return out;
}

void Change(DecisionWorld& world, const Json& step) {
  for (const auto& [key, value] : step.items()) {
    if (key == "flavors") {
      for (const Json& flavor : value) {
        world.AddFlavor(flavor);
      }
    } else if (key == "cohorts") {
      for (const Json& cohort : value) {
        world.AddCohort(cohort);
      }
    } else if (key == "queues") {
      for (const Json& queue : value) {
        world.AddQueue(queue);
      }
    } else if (key == "nodes") {
      for (const Json& node : value) {
        world.AddNode(node);
      }
    } else if (key == "objects") {
      for (const Json& object : value) {
        world.Apply(object);
      }
    } else if (key == "remove") {
      for (const Json& object : value) {
        const auto kind = api::FindKind("kueue.x-k8s.io", object["kind"].get<std::string>());
        ASSERT_TRUE(kind.has_value()) << object.dump();
        world.Remove(*kind, object.value("namespace", ""), object["name"].get<std::string>());
      }
    } else if (key == "finish") {
      for (const Json& name : value) {
        world.Finish(name.get<std::string>());
      }
    } else if (key == "edit") {
      for (const auto& [workload, patch] : value.items()) {
        world.EditWorkload(workload, [&merge = patch](Json& w) { w.merge_patch(merge); });
      }
    } else if (key == "advance") {
      world.Advance(std::chrono::seconds(value.get<int>()));
    } else {
      EXPECT_TRUE(key == "expect" || key == "options" || key == "workloads" || key == "add" ||
                  key == "restart")
          << "unknown key " << key;
    }
  }
  for (const char* key : {"workloads", "add"}) {
    for (const Json& workload : At(step, key)) {
      world.AddWorkload(workload);
    }
  }
}

Amount AmountOf(const std::string& resource, const Json& json) {
  return api::RequestAmount(resource, api::Quantity::Parse(Text(json)).value());
}

void ExpectUsage(const std::vector<scheduler::FlavorUsage>& list,
                 const Json& wanted,
                 bool borrowed,
                 const std::string& queue) {
  for (const auto& [resource, amount] : wanted.items()) {
    Amount sum;
    for (const scheduler::FlavorUsage& entry : list) {
      if (entry.resource == resource) {
        sum += borrowed ? entry.borrowed : entry.total;
      }
    }
    EXPECT_EQ(sum.value(), AmountOf(resource, amount).value()) << resource << " of " << queue;
  }
}

void Expect(DecisionWorld& world, const Json& expect) {
  std::size_t checks = 0;
  for (const auto& [key, wanted] : expect.items()) {
    for (const auto& [name, value] : wanted.items()) {
      SCOPED_TRACE(key + " " + name);
      ++checks;
      if (key == "admitted") {
        ASSERT_TRUE(world.IsAdmitted(name))
            << world.VerdictOf(name).reason << ": " << world.VerdictOf(name).message;
        const scheduler::AdmissionDecision& decision = world.Decision(name);
        ResourceVector sum;
        for (const scheduler::PodSetDecision& pod_set : decision.pod_sets) {
          Add(sum, pod_set.usage);
        }
        for (const auto& [what, amount] : value.items()) {
          if (what == "flavor") {
            for (const scheduler::PodSetDecision& pod_set : decision.pod_sets) {
              for (const auto& [resource, flavor] : pod_set.flavors) {
                EXPECT_EQ(flavor, amount.get<std::string>()) << resource;
              }
            }
          } else if (what == "flavors") {
            for (const scheduler::PodSetDecision& pod_set : decision.pod_sets) {
              EXPECT_EQ(Json(pod_set.flavors), At(amount, pod_set.name)) << pod_set.name;
            }
          } else if (what == "counts") {
            for (const scheduler::PodSetDecision& pod_set : decision.pod_sets) {
              EXPECT_EQ(Json(pod_set.count), At(amount, pod_set.name)) << pod_set.name;
            }
          } else if (what == "nodes") {
            ASSERT_TRUE(decision.placement.has_value());
            std::map<std::string, int> nodes;
            for (const placement::PodPlacement& pod : decision.placement->pods) {
              ++nodes[pod.node];
            }
            EXPECT_EQ(Json(nodes), amount);
          } else if (what == "pinned") {
            EXPECT_EQ(decision.pin_nodes, amount.get<bool>());
          } else {
            const auto it = sum.find(what);
            ASSERT_NE(it, sum.end()) << what << " is not charged";
            EXPECT_EQ(it->second.value(), AmountOf(what, amount).value()) << what;
          }
        }
      } else if (key == "waiting") {
        ASSERT_FALSE(world.Holds(name)) << "has quota";
        const scheduler::Verdict verdict = world.VerdictOf(name);
        EXPECT_EQ(verdict.reason, At(value, "reason").get<std::string>()) << verdict.message;
        if (value.contains("message")) {
          EXPECT_NE(verdict.message.find(value["message"].get<std::string>()), std::string::npos)
              << verdict.message;
        }
        if (value.contains("would_fit_if")) {
          EXPECT_NE(verdict.would_fit_if.find(value["would_fit_if"].get<std::string>()),
                    std::string::npos)
              << verdict.would_fit_if;
        }
      } else if (key == "usage") {
        ExpectUsage(world.state().ClusterQueueStatus(name).reservation, value, false, name);
      } else if (key == "borrowed") {
        ExpectUsage(world.state().ClusterQueueStatus(name).reservation, value, true, name);
      } else if (key == "pending") {
        EXPECT_EQ(world.state().ClusterQueueStatus(name).pending, value.get<int>());
      } else if (key == "active") {
        EXPECT_EQ(world.state().ClusterQueueStatus(name).active.reason, value.get<std::string>());
      } else if (key == "positions") {
        bool found = false;
        for (const scheduler::PendingView& view : world.state().Pending()) {
          if (view.workload.name == name) {
            found = true;
            EXPECT_EQ(view.position, value[0].get<int>());
            EXPECT_EQ(view.local_position, value[1].get<int>());
          }
        }
        EXPECT_TRUE(found);
      } else {
        ADD_FAILURE() << "unknown expectation";
      }
    }
  }
  EXPECT_GT(checks, 0U) << "the step expects nothing";
}

class QuotaCase : public testing::TestWithParam<CaseFile> {};

TEST_P(QuotaCase, Holds) {
  const CaseFile& file = GetParam();
  ASSERT_FALSE(file.body.is_null()) << file.why;
  SCOPED_TRACE(file.path + ": " + file.why);
  const Json& given = At(file.body, "given");
  auto world = std::make_unique<DecisionWorld>(ReadOptions(At(given, "options")));
  Change(*world, given);
  world->Settle();
  if (file.body.contains("expect")) {
    Expect(*world, file.body["expect"]);
  }
  int number = 0;
  for (const Json& step : At(file.body, "steps")) {
    SCOPED_TRACE("step " + std::to_string(++number));
    if (step.value("restart", false)) {
      world = world->Restarted();
    }
    Change(*world, step);
    world->Settle();
    if (step.contains("expect")) {
      Expect(*world, step["expect"]);
    }
  }
  EXPECT_TRUE(file.body.contains("expect") || number > 0) << "the case expects nothing";
}

INSTANTIATE_TEST_SUITE_P(Files,
                         QuotaCase,
                         testing::ValuesIn(LoadCases("quota")),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace muster::test
