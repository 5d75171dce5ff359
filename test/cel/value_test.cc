#include "cel/value.h"

#include <limits>

#include <gtest/gtest.h>

namespace muster::cel {
namespace {

TEST(Value, NumbersAreEqualAcrossTypesOnlyWhenTheyAreTheSameNumber) {
  EXPECT_EQ(Value::Int(1), Value::Double(1.0));
  EXPECT_EQ(Value::Uint(1), Value::Int(1));
  EXPECT_FALSE(Value::Int(-1) == Value::Uint(std::numeric_limits<std::uint64_t>::max()));
  // 2^53 + 1 is not a double.
  EXPECT_FALSE(Value::Int(9007199254740993) == Value::Double(9007199254740992.0));
  EXPECT_FALSE(Value::Int(std::numeric_limits<std::int64_t>::max()) ==
               Value::Double(9223372036854775808.0));
  EXPECT_FALSE(Value::Double(std::numeric_limits<double>::quiet_NaN()) ==
               Value::Double(std::numeric_limits<double>::quiet_NaN()));
  EXPECT_FALSE(Value::Int(1) == Value::String("1"));
  EXPECT_FALSE(Value::Null() == Value::Bool(false));
}

TEST(Value, MapsFindKeysOfEitherSpellingSmallAndLarge) {
  for (const int size : {3, 100}) {
    Value::Entries entries;
    for (int i = 0; i < size; ++i) {
      entries.emplace_back(Value::Int(i), Value::Int(i * 10));
    }
    entries.emplace_back(Value::Int(1), Value::String("later"));
    const Value map = Value::Map(entries);
    EXPECT_EQ((*map.Find(Value::Uint(2)))->int_value(), 20);
    EXPECT_EQ((*map.Find(Value::Double(2.0)))->int_value(), 20);
    EXPECT_EQ((*map.Find(Value::Int(1)))->int_value(), 10) << "the first of equal keys is found";
    EXPECT_FALSE(map.Find(Value::Double(2.5))->has_value());
    EXPECT_FALSE(map.Find("a")->has_value());
    EXPECT_FALSE(map.Find(Value::List(std::vector<Value>{}))->has_value());
  }
}

TEST(Value, EmptyTextsAreFine) {
  EXPECT_EQ(Value::String(""), Value::BorrowedString({}));
  EXPECT_EQ(Value::String("").DebugString(), "\"\"");
}

TEST(Value, ADoubledValueIsComparedInBoundedTime) {
  Value value = Value::Int(1);
  for (int i = 0; i < 200; ++i) {
    value = Value::List({value, value});
  }
  EXPECT_FALSE(value == value) << "not decided within the steps, so not called equal";
  EXPECT_LT(value.DebugString().size(), 100'000U);
}

TEST(Value, TimestampsKeepNanosecondsBeforeTheEpoch) {
  const Value value = Value::Timestamp(TimePoint(Duration(-1)));
  EXPECT_EQ(value.timestamp_seconds(), -1);
  EXPECT_EQ(value.timestamp_nanos(), 999'999'999);
  EXPECT_EQ(value.DebugString(), "timestamp(\"1969-12-31T23:59:59.999999999Z\")");
  EXPECT_EQ(Value::FromDuration(Duration(std::numeric_limits<std::int64_t>::min())).DebugString(),
            "duration(\"-9223372036.854775808s\")");
}

TEST(Quantity, KeepsExactDecimalsAndSaturates) {
  EXPECT_EQ(Quantity::Parse("1.5")->ToString(), "1.5");
  EXPECT_EQ(Quantity::Parse("-100m")->ToString(), "-0.1");
  EXPECT_EQ(Quantity::Parse("1Gi")->ToString(), "1073741824");
  EXPECT_EQ(Quantity::Parse("0.0000000001")->Compare(*Quantity::Parse("1n")), 0);
  const Quantity huge = *Quantity::Parse("1e999999999");
  EXPECT_EQ(huge.Plus(huge).Compare(huge), 0);
  EXPECT_EQ(huge.Minus(huge).Sign(), 0);
  EXPECT_LT(Quantity::Parse("1e18")->Compare(huge), 0);
  EXPECT_EQ(Quantity::Parse("1e-999999999999999999")->Compare(*Quantity::Parse("1n")), 0);
  EXPECT_FALSE(Quantity::Parse("1e9999999999999999999"));
  EXPECT_FALSE(Quantity::Parse("1KiB"));
  EXPECT_FALSE(Quantity::Parse(std::string(100, '9') + "x"));
  EXPECT_GT(Quantity::Parse(std::string(100, '9'))->Sign(), 0);
}

TEST(Semver, OrdersByPrecedence) {
  const char* ascending[] = {"1.0.0-alpha",
                             "1.0.0-alpha.1",
                             "1.0.0-alpha.beta",
                             "1.0.0-beta",
                             "1.0.0-beta.2",
                             "1.0.0-beta.11",
                             "1.0.0-rc.1",
                             "1.0.0",
                             "1.0.1",
                             "1.10.0",
                             "2.0.0"};
  for (std::size_t i = 0; i < std::size(ascending); ++i) {
    for (std::size_t j = 0; j < std::size(ascending); ++j) {
      const int want = i < j ? -1 : (i > j ? 1 : 0);
      EXPECT_EQ(Semver::Parse(ascending[i])->Compare(*Semver::Parse(ascending[j])), want)
          << ascending[i] << " " << ascending[j];
    }
  }
  EXPECT_EQ(Semver::Parse("v1.02", true)->ToString(), "1.2.0");
  EXPECT_EQ(Semver::Parse("1.2.3-a.1+b.2")->ToString(), "1.2.3-a.1+b.2");
  EXPECT_FALSE(Semver::Parse("1.2.3+"));
}

}  // namespace
}  // namespace muster::cel
