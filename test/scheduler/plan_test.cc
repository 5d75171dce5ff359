#include "scheduler/cycle/plan.h"

#include <gtest/gtest.h>

namespace muster::scheduler {
namespace {

TEST(Placement, ComesBackFromItsAnnotationInRunsOfRank) {
  placement::GangRequest gang;
  gang.classes.resize(2);
  gang.classes[0].name = "driver";
  gang.classes[1].name = "worker";
  placement::Placement plan;
  plan.pods = {{.pod_class = 0, .index = 0, .node = "n1", .devices = {}},
               {.pod_class = 1, .index = 0, .node = "n2", .devices = {}},
               {.pod_class = 1, .index = 1, .node = "n2", .devices = {}},
               {.pod_class = 1, .index = 2, .node = "n1", .devices = {}}};
  const std::string text = EncodePlacement(gang, plan);
  EXPECT_EQ(text, R"({"driver":[["n1",1]],"worker":[["n2",2],["n1",1]]})");
  const auto back = DecodePlacement(text);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->at("worker"), (NodeRuns{{"n2", 2}, {"n1", 1}}));
}

TEST(Placement, RefusesWhatIsNotAPlan) {
  for (const char* text : {"",
                           "[]",
                           R"({"a":1})",
                           R"({"a":[["n"]]})",
                           R"({"a":[["n",-1]]})",
                           R"({"a":[[1,1]]})",
                           R"({"a":[["n",2000000]]})",
                           R"({"a":[["n",999999],["n",999999]]})",
                           R"({"a":[["n",99999999999999999999]]})"}) {
    EXPECT_FALSE(DecodePlacement(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace muster::scheduler
