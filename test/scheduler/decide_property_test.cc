#include <gtest/gtest.h>

#include "base/prng.h"
#include "scheduler/cycle/snapshot.h"
#include "test/support/decision_world.h"

namespace muster::test {
namespace {

using api::Json;

// A random world: cohorts with limits, several flavors, StrictFIFO and BestEffortFIFO queues; work
// comes, ends and is evicted.
class RandomWorld {
 public:
  explicit RandomWorld(std::uint64_t seed) : prng_(seed) {
    for (const char* flavor : {"f0", "f1"}) {
      world_.AddFlavor({{"name", flavor}});
    }
    const std::uint64_t cohorts = prng_.Below(3);
    for (std::uint64_t i = 0; i < cohorts; ++i) {
      Json cohort{{"name", "c" + std::to_string(i)}, {"flavors", Flavors(3)}};
      if (i > 0) {
        cohort["parent"] = "c" + std::to_string(prng_.Below(i));
      }
      world_.AddCohort(cohort);
    }
    queues_ = 1 + prng_.Below(4);
    for (std::uint64_t i = 0; i < queues_; ++i) {
      Json queue{{"name", "q" + std::to_string(i)}, {"strict", prng_.Chance(4)}};
      if (cohorts > 0 && !prng_.Chance(4)) {
        queue["cohort"] = "c" + std::to_string(prng_.Below(cohorts));
      }
      queue["flavors"] = Flavors(8, queue.contains("cohort"));
      if (prng_.Chance(3)) {
        queue["fungibility"] = {{"whenCanBorrow", "TryNextFlavor"}};
      }
      if (prng_.Chance(3)) {
        queue["preemption"] = {{"reclaimWithinCohort", "Any"}};
      }
      world_.AddQueue(queue);
    }
  }

  void Step() {
    switch (prng_.Below(5)) {
      case 0:
      case 1:
      case 2: {
        Json workload{{"name", "w" + std::to_string(next_++)},
                      {"queue", "q" + std::to_string(prng_.Below(queues_))},
                      {"pods", 1 + prng_.Below(4)},
                      {"each", {{"cpu", 1 + prng_.Below(4)}}},
                      {"priority", prng_.Below(3)},
                      {"at", next_}};
        if (prng_.Chance(4)) {
          workload["min"] = 1;
        }
        world_.AddWorkload(workload);
        break;
      }
      case 3:
        if (const std::string name = Pick(true); !name.empty()) {
          world_.Finish(name);
        }
        break;
      default:
        if (const std::string name = Pick(prng_.Chance(2)); !name.empty()) {
          if (world_.Holds(name)) {
            world_.DropReservation(name);
          } else {
            world_.Remove(api::Kind::kWorkload, "ns", name);
          }
        }
    }
  }

  DecisionWorld& world() { return world_; }

  // Nobody is over a limit, cohorts show what their children use, and what is booked is what the
  // admissions say.
  void CheckSafety() {
    const auto snapshot = world_.state().TakeSnapshot(world_.now());
    std::map<std::string, std::map<quota::FlavorResource, Amount>> booked;
    for (const auto& [name, object] : world_.workloads()) {
      if (!world_.Holds(name)) {
        continue;
      }
      const scheduler::AdmissionDecision& decision = world_.Decision(name);
      for (const scheduler::PodSetDecision& pod_set : decision.pod_sets) {
        for (const auto& [resource, amount] : pod_set.usage) {
          booked[decision.cluster_queue]
                [{.flavor = pod_set.flavors.at(resource), .resource = resource}] += amount;
        }
      }
    }
    for (std::size_t t = 0; t < snapshot->ledger.tree_count(); ++t) {
      const quota::Tree& tree = snapshot->ledger.tree(t);
      ASSERT_TRUE(tree.Consistent());
      for (std::size_t n = 0; n < tree.node_count(); ++n) {
        for (std::size_t r = 0; r < tree.row_count(); ++r) {
          const quota::NodeIndex node{static_cast<std::uint32_t>(n)};
          const quota::Row row{static_cast<std::uint32_t>(r)};
          ASSERT_GE(tree.available(node, row), Amount(0)) << tree.name(node);
          if (tree.is_queue(node)) {
            ASSERT_EQ(tree.usage(node, row), booked[tree.name(node)][tree.row(row)])
                << tree.name(node);
          }
        }
      }
    }
  }

  // Whatever waits would not fit if it alone were asked again, unless it stands behind the first of
  // a StrictFIFO queue or the quota is held.
  void CheckNobodyIsForgotten() {
    const auto fresh = world_.Restarted();
    const auto snapshot = fresh->state().TakeSnapshot(fresh->now());
    const scheduler::Plan plan = scheduler::Decide(*snapshot, fresh->now(), scheduler::Budget{});
    for (const scheduler::AdmissionDecision& decision : plan.admissions) {
      const std::string& name = decision.workload.key.name;
      const scheduler::Verdict verdict = world_.VerdictOf(name);
      // A new process has not seen yet who waits for their own quota, and may be faster than they.
      if (verdict.message.find("is held for") == std::string::npos) {
        ADD_FAILURE() << name << " fits, was waiting for: " << verdict.message;
      }
    }
  }

 private:
  Json Flavors(std::uint64_t most, bool limits = true) {
    Json out = Json::array();
    for (const char* flavor : {"f0", "f1"}) {
      Json entry{{"name", flavor}, {"nominal", {{"cpu", prng_.Below(most)}}}};
      if (limits && prng_.Chance(3)) {
        entry["borrowing_limit"] = {{"cpu", prng_.Below(4)}};
      }
      if (limits && prng_.Chance(3)) {
        entry["lending_limit"] = {{"cpu", prng_.Below(4)}};
      }
      out.push_back(std::move(entry));
    }
    return out;
  }

  std::string Pick(bool running) {
    std::vector<std::string> names;
    for (const auto& [name, object] : world_.workloads()) {
      if (world_.Holds(name) == running && At(object).find("Finished") == std::string::npos) {
        names.push_back(name);
      }
    }
    return names.empty() ? std::string() : names[prng_.Below(names.size())];
  }
  static std::string At(const Json& object) {
    return object.value("status", Json::object()).dump();
  }

  Prng prng_;
  DecisionWorld world_;
  std::uint64_t queues_ = 1;
  std::uint64_t next_ = 0;
};

TEST(DecideProperty, NeverOverALimitAndNobodyForgotten) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomWorld random(seed);
    for (int step = 0; step < 30; ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      random.Step();
      random.world().Settle();
      random.CheckSafety();
      random.CheckNobodyIsForgotten();
      if (testing::Test::HasFailure()) {
        return;
      }
    }
  }
}

std::string Describe(const scheduler::Plan& plan) {
  std::string out;
  for (const scheduler::AdmissionDecision& decision : plan.admissions) {
    out += "admit " + decision.workload.key.name + " in " + decision.cluster_queue;
    for (const scheduler::PodSetDecision& pod_set : decision.pod_sets) {
      out += " " + std::to_string(pod_set.count);
      for (const auto& [resource, flavor] : pod_set.flavors) {
        out += " " + flavor;
      }
    }
    out += "\n";
  }
  for (const scheduler::Refusal& refusal : plan.refusals) {
    out += "refuse " + refusal.workload.key.name + " " + refusal.verdict.reason + " " +
           refusal.verdict.message + "\n";
  }
  return out;
}

TEST(DecideProperty, TheSameSnapshotGivesTheSamePlan) {
  for (std::uint64_t seed = 100; seed < 110; ++seed) {
    RandomWorld one(seed);
    RandomWorld two(seed);
    for (int step = 0; step < 25; ++step) {
      one.Step();
      two.Step();
    }
    const auto first = one.world().state().TakeSnapshot(one.world().now());
    const auto second = two.world().state().TakeSnapshot(two.world().now());
    const std::string plan =
        Describe(scheduler::Decide(*first, one.world().now(), scheduler::Budget{}));
    EXPECT_EQ(plan, Describe(scheduler::Decide(*first, one.world().now(), scheduler::Budget{})))
        << seed;
    EXPECT_EQ(plan, Describe(scheduler::Decide(*second, two.world().now(), scheduler::Budget{})))
        << seed;
    EXPECT_FALSE(plan.empty());
  }
}

}  // namespace
}  // namespace muster::test
