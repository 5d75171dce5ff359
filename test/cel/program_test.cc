#include "cel/program.h"

#include <gtest/gtest.h>

namespace muster::cel {
namespace {

TEST(Program, Placeholder) {
  EXPECT_TRUE(Program::Compile("true", Env::CrdRule()).has_value());
}

}  // namespace
}  // namespace muster::cel
