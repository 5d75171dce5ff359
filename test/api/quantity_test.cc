#include "api/quantity.h"

#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/json.h"
#include "base/strings.h"

namespace muster::api {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

Quantity Q(std::string_view text) {
  const Result<Quantity> parsed = Quantity::Parse(text);
  EXPECT_TRUE(parsed) << text << ": " << (parsed ? "" : parsed.error().message);
  return parsed.value_or(Quantity());
}

__int128 Wide(std::string_view text) {
  __int128 out = 0;
  const bool negative = text.starts_with('-');
  for (const char c : text.substr(negative ? 1 : 0)) {
    out = out * 10 + (c - '0');
  }
  return negative ? -out : out;
}

std::int64_t Clamped(__int128 value) {
  if (value > kMax) {
    return kMax;
  }
  return value < std::numeric_limits<std::int64_t>::min() ? std::numeric_limits<std::int64_t>::min()
                                                          : static_cast<std::int64_t>(value);
}

TEST(Quantity, ReadsAndPrintsWhatGoDoes) {
  std::ifstream file(MUSTER_SOURCE_DIR "/test/api/golden/quantities.txt");
  ASSERT_TRUE(file);
  std::string line;
  int good = 0;
  int bad = 0;
  while (std::getline(file, line)) {
    const std::vector<std::string> columns = Split(line, '\t');
    const std::string text = Json::parse(columns.at(0)).get<std::string>();
    const Result<Quantity> parsed = Quantity::Parse(text);
    const std::string number = text.substr(0, text.find_first_not_of("+-.0123456789"));
    if (columns.at(1) == "error" || number.find_first_of("0123456789") == std::string::npos) {
      EXPECT_FALSE(parsed) << line;
      ++bad;
      continue;
    }
    ++good;
    ASSERT_TRUE(parsed) << line << ": " << parsed.error().message;
    ASSERT_EQ(columns.size(), 5U) << line;
    const std::string canonical = parsed->ToString();
    if (columns[1] != "?") {
      EXPECT_EQ(canonical, columns[1]) << line;
    }
    EXPECT_EQ(Q(canonical), *parsed) << line << " printed as " << canonical;
    const __int128 units = Wide(columns[3]);
    const __int128 millis = Wide(columns[4]);
    EXPECT_EQ(parsed->Value(), Clamped(units)) << line;
    EXPECT_EQ(parsed->MilliValue(), Clamped(millis)) << line;
    EXPECT_EQ(parsed->ValueOverflows(), units > kMax || units < -static_cast<__int128>(kMax))
        << line;
    EXPECT_EQ(parsed->MilliValueOverflows(), millis > kMax || millis < -static_cast<__int128>(kMax))
        << line;
    EXPECT_EQ(parsed->negative(), columns[2].starts_with('-')) << line;
    EXPECT_EQ(*parsed, Q(columns[2] + "n")) << line;
    EXPECT_TRUE(parsed->NanoValue() == Q(columns[2] + "n").NanoValue()) << line;
  }
  EXPECT_GT(good, 3000);
  EXPECT_GT(bad, 200);
}

TEST(Quantity, ShowsEveryBillionth) {
  const __int128 unit = 1'000'000'000;
  EXPECT_TRUE(Quantity().NanoValue() == 0);
  EXPECT_TRUE(Q("1n").NanoValue() == 1);
  EXPECT_TRUE(Q("0.1n").NanoValue() == 1);  // rounded up where Go does
  EXPECT_TRUE(Q("-1500m").NanoValue() == -3 * unit / 2);
  EXPECT_TRUE(Q("1.000000001").NanoValue() == unit + 1);
  EXPECT_TRUE(Q("1Ki").NanoValue() == 1024 * unit);
  EXPECT_TRUE(Q("1000000000000000000.000000001").NanoValue() == unit * unit * unit + 1);
  EXPECT_TRUE(Q("1e40").NanoValue() > 0);
  EXPECT_TRUE(Q("-1e40").NanoValue() < 0);
}

TEST(Quantity, ComparesExactlyAcrossSuffixes) {
  EXPECT_EQ(Q("0.5G"), Q("500M"));
  EXPECT_EQ(Q("1Ki"), Q("1024"));
  EXPECT_EQ(Q("1e3"), Q("1k"));
  EXPECT_LT(Q("1G").Compare(Q("1Gi")), 0);
  EXPECT_GT(Q("0").Compare(Q("-1n")), 0);
  EXPECT_LT(Q("9223372036854775807").Compare(Q("9223372036854775808")), 0);
}

TEST(Quantity, SumsKeepTheFamilyOfTheFirstNonZero) {
  EXPECT_EQ(Q("1Gi").Plus(Q("1Gi")).ToString(), "2Gi");
  EXPECT_EQ(Quantity().Plus(Q("512Mi")).ToString(), "512Mi");
  EXPECT_EQ(Q("1500m").Plus(Q("500m")).ToString(), "2");
  EXPECT_EQ(Q("1Gi").Plus(Q("-1Gi")).ToString(), "0");
  EXPECT_EQ(Q("1e3").Plus(Q("1")).ToString(), "1001");
}

TEST(Quantity, ProductsAreExactAndSaturate) {
  EXPECT_EQ(Q("1.5").TimesQuantity(Q("3")).ToString(), "4500m");
  EXPECT_EQ(Q("-1.5").TimesQuantity(Q("3")).ToString(), "-4500m");
  EXPECT_EQ(Q("1n").TimesQuantity(Q("1n")).ToString(), "1n");
  EXPECT_EQ(Q("2Gi").TimesQuantity(Q("3")).ToString(), "6Gi");
  const Quantity huge = Q("1e25").TimesQuantity(Q("1e25"));
  EXPECT_TRUE(huge.ValueOverflows());
  EXPECT_EQ(huge.Value(), kMax);
  EXPECT_EQ(huge.Plus(huge).Value(), kMax);
  EXPECT_TRUE(huge.TimesQuantity(Q("-1")).Plus(huge.TimesQuantity(Q("-1"))).negative());
}

TEST(Quantity, FarExponentsNeitherHangNorWrap) {
  EXPECT_TRUE(Q("1e1000000").ValueOverflows());
  EXPECT_EQ(Q("1e9223372036854775807").Value(), kMax);
  EXPECT_EQ(Q("1e-9223372036854775807"), Q("1n"));
  EXPECT_EQ(Q("0e9223372036854775807").Value(), 0);
  EXPECT_EQ(Q("0.e-9223372036854775808").Value(), 0);
  EXPECT_TRUE(Q("-1e100000").negative());
  EXPECT_FALSE(Quantity::Parse("1e9223372036854775808"));
  EXPECT_EQ(Q(std::string(100000, '9') + "Ki").Value(), kMax);
  EXPECT_EQ(Q("0." + std::string(100000, '0') + "1"), Q("1n"));
}

// QM-01, QM-04, QM-05.
TEST(Amounts, SaturateAtTheEdgesOfInt64) {
  const std::vector<std::tuple<std::string, std::string, std::int64_t>> rows = {
      {"gpu", "9223372036854775807", kMax},
      {"gpu", "9223372036854775808", kMax},
      {"gpu", "100000000000000000000", kMax},
      {"memory", "100Ei", kMax},
      {"cpu", "10000000000000000", kMax},
      {"cpu", "9223372036854776", kMax},
      {"cpu", "1E", kMax},
      {"cpu", "1500m", 1500},
      {"cpu", "0.1m", 1},
      {"memory", "1.5", 2},
      {"gpu", "1", 1},
  };
  for (const auto& [resource, text, expected] : rows) {
    EXPECT_EQ(QuotaAmount(resource, Q(text)).value(), expected) << resource << " " << text;
    EXPECT_EQ(RequestAmount(resource, Q(text)).value(), expected) << resource << " " << text;
  }
  EXPECT_TRUE(QuotaAmount("cpu", Q("1E")).unlimited());
  EXPECT_EQ(Q("1E").ToString(), "1E");
  // Never a credit.
  EXPECT_EQ(RequestAmount("gpu", Q("-100000000000000000000")).value(), 0);
  EXPECT_EQ(RequestAmount("cpu", Q("-1")).value(), 0);
  EXPECT_LT(QuotaAmount("gpu", Q("-100000000000000000000")).value(), 0);
}

TEST(Amounts, PrintAsTheFamilyOfTheirResource) {
  EXPECT_EQ(FormatAmount("cpu", Amount(1500)), "1500m");
  EXPECT_EQ(FormatAmount("cpu", Amount(2000)), "2");
  EXPECT_EQ(FormatAmount("cpu", Amount(0)), "0");
  EXPECT_EQ(FormatAmount("cpu", Amount::Unlimited()), "9223372036854775807m");
  EXPECT_EQ(FormatAmount("memory", Amount(std::int64_t{1} << 30)), "1Gi");
  EXPECT_EQ(FormatAmount("memory", Amount((std::int64_t{3} << 29))), "1536Mi");
  EXPECT_EQ(FormatAmount("memory", Amount(1000)), "1k");
  EXPECT_EQ(FormatAmount("hugepages-2Mi", Amount(std::int64_t{1} << 21)), "2Mi");
  EXPECT_EQ(FormatAmount("ephemeral-storage", Amount(1024)), "1Ki");
  EXPECT_EQ(FormatAmount("nvidia.com/gpu", Amount(8)), "8");
  EXPECT_EQ(FormatAmount("nvidia.com/gpu", Amount(2000)), "2k");
  EXPECT_EQ(FormatAmount("nvidia.com/gpu", Amount(-3)), "-3");
  EXPECT_EQ(FormatAmount("memory", Amount::Unlimited()), "9223372036854775807");
}

}  // namespace
}  // namespace muster::api
