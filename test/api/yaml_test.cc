#include "api/yaml.h"

#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/digest.h"
#include "base/strings.h"

namespace muster::api {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Numbers are equal if they are the same number: Go's floats and integers become one in JSON.
bool SameJson(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) {
    return a == b || a.get<double>() == b.get<double>();
  }
  if (a.type() != b.type() || a.size() != b.size()) {
    return false;
  }
  if (a.is_object()) {
    for (auto it = a.begin(); it != a.end(); ++it) {
      if (!b.contains(it.key()) || !SameJson(it.value(), b.at(it.key()))) {
        return false;
      }
    }
    return true;
  }
  if (a.is_array()) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!SameJson(a[i], b[i])) {
        return false;
      }
    }
    return true;
  }
  return a == b;
}

TEST(Yaml, ReadsWhatKubectlReads) {
  std::ifstream file(MUSTER_SOURCE_DIR "/test/api/golden/yaml.txt");
  ASSERT_TRUE(file);
  std::string line;
  int rows = 0;
  int errors = 0;
  while (std::getline(file, line)) {
    const auto tab = line.find('\t');
    std::string text;
    ASSERT_TRUE(Base64Decode(Json::parse(line.substr(0, tab)).get<std::string>(), text));
    const std::string wanted = line.substr(tab + 1);
    const auto documents = ParseYaml(text, "f");
    ++rows;
    if (wanted == "error") {
      EXPECT_FALSE(documents) << "should fail: " << text;
      ++errors;
      continue;
    }
    ASSERT_TRUE(documents) << text << ": " << documents.error().message;
    const Json got = documents->empty() ? Json() : documents->front().value;
    EXPECT_TRUE(SameJson(got, Json::parse(wanted)))
        << text << " is " << got.dump() << ", Go says " << wanted;
  }
  EXPECT_GT(rows, 300);
  EXPECT_GT(errors, 20);
}

TEST(Yaml, ReadsAStreamOfDocumentsWithTheirLines) {
  const auto documents =
      ParseYaml("# head\na: 1\n---\n# nothing\n---\n\nb: 2\n...\n---\n- c\n", "s.yaml");
  ASSERT_TRUE(documents) << documents.error().message;
  ASSERT_EQ(documents->size(), 3U);
  EXPECT_EQ(documents->at(0).line, 2);
  EXPECT_EQ(documents->at(1).line, 7);
  EXPECT_EQ(documents->at(1).value, Json::parse(R"({"b":2})"));
  EXPECT_EQ(documents->at(2).line, 10);
}

TEST(Yaml, ErrorsNameFileAndLine) {
  const auto message = [](std::string_view text) {
    const auto documents = ParseYaml(text, "jobs.yaml");
    return documents ? std::string("no error") : documents.error().message;
  };
  EXPECT_THAT(message("a: 1\nb: [1\nc: 2\n"), StartsWith("jobs.yaml:3: "));
  EXPECT_THAT(message("a: 1\nb: *x\n"), StartsWith("jobs.yaml:2: unknown anchor 'x'"));
  EXPECT_THAT(message("a: 1\n\nb: .inf\n"),
              StartsWith("jobs.yaml:3: '.inf' cannot be written as JSON"));
  EXPECT_THAT(message("a: [+.Inf]\n"), HasSubstr("cannot be written as JSON"));
  EXPECT_THAT(message("a: b\nc: \xff\n"), StartsWith("jobs.yaml:2: "));
  EXPECT_THAT(message("a: &a\n  b: *a\n"),
              StartsWith("jobs.yaml:2: the value of anchor 'a' contains itself"));
  EXPECT_THAT(message("a: 1\n~: b\n"), StartsWith("jobs.yaml:2: a key of a mapping"));
}

TEST(Yaml, BoundsDepthAndAliases) {
  const auto deep = ParseYaml(std::string(100000, '['), "f");
  ASSERT_FALSE(deep);
  EXPECT_THAT(deep.error().message, HasSubstr("levels deep"));

  std::string nested = "a: ";
  for (int i = 0; i < 90; ++i) {
    nested += "{a: ";
  }
  nested += "1" + std::string(90, '}') + "\n";
  EXPECT_TRUE(ParseYaml(nested, "f"));

  // Each level doubles nine times over: 9^9 values if it were expanded.
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int j = 0; j < 8; ++j) {
      laughs += ", " + before;
    }
    laughs += "]\n";
  }
  const auto bomb = ParseYaml(laughs, "f");
  ASSERT_FALSE(bomb);
  EXPECT_THAT(bomb.error().message, HasSubstr("excessive aliasing"));

  // Aliases that add a level each.
  std::string tower = "a0: &a0 [x]\n";
  for (int i = 1; i < 200; ++i) {
    tower += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) +
             "]\n";
  }
  const auto high = ParseYaml(tower, "f");
  ASSERT_FALSE(high);
  EXPECT_THAT(high.error().message, HasSubstr("levels deep"));
}

TEST(Yaml, AnchorsDoNotCrossDocuments) {
  EXPECT_FALSE(ParseYaml("a: &x 1\n---\nb: *x\n", "f"));
}

TEST(Yaml, SurvivesEveryPrefixAndEveryFlippedByte) {
  const std::string text =
      "apiVersion: v1\nkind: List\nitems:\n- &a {name: \"x\\n\", 'q': !!str 1, r: [1, 2.5, ~]}\n- "
      "<<: *a\n  b: |-\n    t\n---\nc: >\n  d\n";
  for (std::size_t i = 0; i <= text.size(); ++i) {
    (void)ParseYaml(std::string_view(text).substr(0, i), "f");
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const char c : {'\0', '\xff', '{', ']', '&', '*', '\n', '\t', '"', ':', '-', '!'}) {
      std::string changed = text;
      changed[i] = c;
      (void)ParseYaml(changed, "f");
    }
  }
}

}  // namespace
}  // namespace muster::api
