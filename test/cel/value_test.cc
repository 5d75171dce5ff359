#include <gtest/gtest.h>

#include "cel/program.h"

namespace muster::cel {
namespace {

TEST(Value, Placeholder) {
  EXPECT_TRUE(Program::Compile("true", Env::CrdRule()).has_value());
}

}  // namespace
}  // namespace muster::cel
