// The cases of test/cases/crds and test/cases/policies, which test/crds/run checks against a real
// API server, run here against the one in memory. The format is described there.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "api/yaml.h"
#include "base/log.h"
#include "sim/access.h"
#include "test/sim/api_client.h"

namespace muster::sim::test {
namespace {

// The first difference between what is expected and what there is.
std::optional<std::string> MissingPart(const Json& part,
                                       const Json& whole,
                                       const std::string& where) {
  if (part.is_object()) {
    if (!whole.is_object()) {
      return where + " is " + whole.dump();
    }
    for (const auto& [key, value] : part.items()) {
      const std::string here = where + "." + key;
      const Json* found = Member(whole, key);
      if (value.is_null()) {
        if (found != nullptr && !found->is_null()) {
          return here + " is " + found->dump() + ", should be absent";
        }
        continue;
      }
      if (found == nullptr) {
        return here + " is absent";
      }
      if (auto trouble = MissingPart(value, *found, here)) {
        return trouble;
      }
    }
    return std::nullopt;
  }
  if (part.is_array()) {
    if (!whole.is_array() || part.size() != whole.size()) {
      return where + " is " + whole.dump();
    }
    for (std::size_t i = 0; i < part.size(); ++i) {
      if (auto trouble = MissingPart(part[i], whole[i], AtIndex(where, i))) {
        return trouble;
      }
    }
    return std::nullopt;
  }
  return part == whole
             ? std::nullopt
             : std::optional(where + " is " + whole.dump() + ", should be " + part.dump());
}

class Case {
 public:
  explicit Case(Client& client) : client_(client) {}

  std::optional<std::string> Step(const Json& step) {
    const char* verb = nullptr;
    for (const char* candidate : {"create", "apply", "patch", "json", "delete"}) {
      if (step.contains(candidate)) {
        verb = candidate;
      }
    }
    if (verb == nullptr) {
      return "a step must be one of create, apply, patch, json, delete";
    }
    const Json& target = step[verb];
    const Json& meta = target.contains("metadata") ? target["metadata"] : target;
    const std::string name = TextAt(meta, "name");
    const std::string ns = TextAt(meta, "namespace");
    const auto path = Path(TextAt(target, "apiVersion"), TextAt(target, "kind"), ns);
    if (!path) {
      return TextAt(target, "kind") + " is not served";
    }
    const std::string sub =
        HasText(target, "subresource") ? "/" + TextAt(target, "subresource") : "";
    Reply reply;
    const std::string_view what = verb;
    if (what == "create") {
      EnsureNamespace(ns);
      reply = client_.Post(*path + "?fieldValidation=Strict", target);
    } else if (what == "apply") {
      EnsureNamespace(ns);
      reply = client_.Apply(
          *path + "/" + name + "?fieldManager=cases&force=true&fieldValidation=Strict", target);
    } else if (what == "patch") {
      reply = client_.Merge(*path + "/" + name + sub + "?fieldValidation=Strict", target["merge"]);
    } else if (what == "json") {
      reply =
          client_.JsonPatch(*path + "/" + name + sub + "?fieldValidation=Strict", target["ops"]);
    } else {
      reply = client_.Delete(*path + "/" + name);
    }
    const std::string whom = std::string(verb) + " " + TextAt(target, "kind");
    if (step.contains("refused")) {
      if (reply.status < 400) {
        return whom + " was accepted, should be refused with " + step["refused"].dump();
      }
      const Json wanted =
          step["refused"].is_array() ? step["refused"] : Json::array({step["refused"]});
      for (const Json& text : wanted) {
        if (!reply.message().contains(text.get<std::string>())) {
          return "the refusal of " + whom + " (" + std::to_string(reply.status) + ") lacks " +
                 text.dump() + ": " + reply.message();
        }
      }
      return std::nullopt;
    }
    if (reply.status >= 400) {
      return whom + " was refused (" + std::to_string(reply.status) + "): " + reply.message();
    }
    if (step.contains("then")) {
      return MissingPart(step["then"], reply.body, "answer");
    }
    return std::nullopt;
  }

 private:
  void EnsureNamespace(const std::string& ns) {
    if (!ns.empty() && ns != "default") {
      client_.Post("/api/v1/namespaces",
                   {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", ns}}}});
    }
  }

  std::optional<std::string> Path(const std::string& api_version,
                                  const std::string& kind,
                                  const std::string& ns) {
    const std::string root = (api_version.contains('/') ? "/apis/" : "/api/") + api_version;
    const Reply found = client_.Get(root);
    for (const Json& entry : ListAt(found.body, "resources")) {
      if (TextAt(entry, "kind") == kind && !TextAt(entry, "name").contains('/')) {
        return root +
               (TrueAt(entry, "namespaced") ? "/namespaces/" + (ns.empty() ? "default" : ns) : "") +
               "/" + TextAt(entry, "name");
      }
    }
    return std::nullopt;
  }

  Client& client_;
};

class ApiCases : public testing::TestWithParam<std::string> {};

TEST_P(ApiCases, HoldInMemoryAsOnARealServer) {
  std::ifstream in(GetParam());
  std::stringstream text;
  text << in.rdbuf();
  const auto documents = api::ParseYaml(text.str(), GetParam());
  ASSERT_TRUE(documents.has_value()) << documents.error().message;
  ASSERT_FALSE(documents->empty());
  for (const api::YamlDocument& document : *documents) {
    Client client({.install_crds = true, .install_policies = GetParam().contains("/policies/")});
    Case run(client);
    int number = 0;
    for (const Json& step : document.value["steps"]) {
      ++number;
      if (const auto trouble = run.Step(step)) {
        ADD_FAILURE_AT(GetParam().c_str(), document.line)
            << document.value.value("why", "") << "\nstep " << number << ": " << *trouble;
        break;
      }
    }
  }
}

std::vector<std::string> Files() {
  std::vector<std::string> out;
  for (const char* folder : {"api", "crds", "policies"}) {
    const std::filesystem::path root =
        std::filesystem::path(MUSTER_SOURCE_DIR) / "test/cases" / folder;
    for (const auto& entry : std::filesystem::directory_iterator(root)) {
      if (entry.path().extension() == ".yaml") {
        out.push_back(entry.path().string());
      }
    }
  }
  std::ranges::sort(out);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Files, ApiCases, testing::ValuesIn(Files()), [](const auto& param) {
  const std::filesystem::path path = param.param;
  std::string name = path.parent_path().filename().string() + "_" + path.stem().string();
  std::ranges::replace_if(
      name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

TEST(EmbeddedFiles, AreAllAccepted) {
  std::string said;
  log::SetSink([&](std::string_view line) { said += line; });
  const Client client({.install_crds = true, .install_policies = true});
  log::SetSink({});
  EXPECT_EQ(said, "");
}

}  // namespace
}  // namespace muster::sim::test
