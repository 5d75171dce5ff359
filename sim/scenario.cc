#include "sim/scenario.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include "api/yaml.h"

namespace muster::sim {
namespace {

using api::Json;

// The member as a string, or empty when it is absent or something else.
std::string Text(const Json& object, std::string_view key) {
  if (!object.is_object()) {
    return {};
  }
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

const Json& Member(const Json& object, std::string_view key) {
  static const Json kNothing;
  if (!object.is_object()) {
    return kNothing;
  }
  const auto it = object.find(key);
  return it != object.end() ? *it : kNothing;
}

// A time: a duration as Go writes it; a bare 0 is one too.
Result<Duration> Time(const Json& value, std::string_view field) {
  if (value.is_number_integer() && value.get<std::int64_t>() == 0) {
    return Duration::zero();
  }
  if (!value.is_string()) {
    return std::unexpected(
        Error::Invalid(std::string(field) + ": expected a duration such as 90s"));
  }
  auto duration = ParseDuration(value.get_ref<const std::string&>());
  if (!duration) {
    return std::unexpected(duration.error().At(field));
  }
  if (*duration < Duration::zero()) {
    return std::unexpected(Error::Invalid(std::string(field) + ": must not be negative"));
  }
  return *duration;
}

Result<Action> ReadPatch(const Json& document) {
  const Json& spec = Member(document, "spec").is_object() ? Member(document, "spec") : document;
  Action action{.kind = Action::Kind::kPatch};
  const Json& target = Member(spec, "target");
  action.api_version = Text(target, "apiVersion");
  action.object_kind = Text(target, "kind");
  action.ns = Text(target, "namespace");
  action.name = Text(target, "name");
  if (action.api_version.empty() || action.object_kind.empty() || action.name.empty()) {
    return std::unexpected(
        Error::Invalid("Patch: target needs apiVersion, kind and name (and namespace)"));
  }
  if (const Json& at = Member(spec, "at"); !at.is_null()) {
    MUSTER_ASSIGN_OR_RETURN(action.at, Time(at, "at"));
  }
  action.subresource = Text(spec, "subresource");
  action.body = Member(spec, "merge");
  if (!action.body.is_object()) {
    return std::unexpected(Error::Invalid("Patch: merge must be an object"));
  }
  return action;
}

Status ReadObject(Json document, const std::string& where, Scenario& out) {
  const Json& meta = Member(document, "metadata");
  const Json& annotations = Member(meta, "annotations");
  Action create{.kind = Action::Kind::kCreate,
                .api_version = Text(document, "apiVersion"),
                .object_kind = Text(document, "kind"),
                .ns = Text(meta, "namespace"),
                .name = Text(meta, "name"),
                .where = where};
  if (const Json& at = Member(annotations, kAtAnnotation); !at.is_null()) {
    MUSTER_ASSIGN_OR_RETURN(create.at, Time(at, "metadata.annotations[sim.muster.dev/at]"));
  }
  std::optional<Action> removal;
  if (const Json& at = Member(annotations, kDeleteAtAnnotation); !at.is_null()) {
    MUSTER_ASSIGN_OR_RETURN(const Duration when,
                            Time(at, "metadata.annotations[sim.muster.dev/delete-at]"));
    removal = create;
    removal->kind = Action::Kind::kDelete;
    removal->at = when;
  }
  create.body = std::move(document);
  out.actions.push_back(std::move(create));
  if (removal) {
    out.actions.push_back(std::move(*removal));
  }
  return {};
}

Status ReadDocument(Json document, const std::string& where, Scenario& out) {
  if (document.is_null()) {
    return {};  // an empty document between two separators
  }
  const std::string api_version = Text(document, "apiVersion");
  const std::string kind = Text(document, "kind");
  if (!document.is_object() || api_version.empty() || kind.empty()) {
    return std::unexpected(Error::Invalid("a document needs apiVersion and kind"));
  }
  if (kind == "List" && api_version == "v1") {
    for (const Json& item : Member(document, "items")) {
      MUSTER_RETURN_IF_ERROR(ReadDocument(item, where, out));
    }
    return {};
  }
  if (kind == "Configuration" && api_version.starts_with("config.kueue.x-k8s.io/")) {
    out.configuration = std::move(document);
    return {};
  }
  if (kind == "Patch" && api_version == "sim.muster.dev/v1") {
    auto patch = ReadPatch(document);
    if (!patch) {
      return std::unexpected(std::move(patch).error());
    }
    patch->where = where;
    out.actions.push_back(std::move(*patch));
    return {};
  }
  return ReadObject(std::move(document), where, out);
}

Status ReadText(std::string_view text, std::string_view name, Scenario& out) {
  auto documents = api::ParseYaml(text, name);
  if (!documents) {
    return std::unexpected(std::move(documents).error());
  }
  for (auto& document : *documents) {
    const std::string where = std::string(name) + ":" + std::to_string(document.line);
    if (Status status = ReadDocument(std::move(document.value), where, out); !status) {
      return std::unexpected(status.error().At(where));
    }
  }
  return {};
}

void Order(Scenario& scenario) {
  std::stable_sort(scenario.actions.begin(),
                   scenario.actions.end(),
                   [](const Action& a, const Action& b) { return a.at < b.at; });
}

Result<std::vector<std::string>> FilesOf(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::exists(path, error)) {
    return std::unexpected(Error::Invalid(path + ": no such file or folder"));
  }
  if (!fs::is_directory(path, error)) {
    return std::vector<std::string>{path};
  }
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    const std::string extension = entry.path().extension().string();
    if (entry.is_regular_file(error) && (extension == ".yaml" || extension == ".yml")) {
      files.push_back(entry.path().string());
    }
  }
  if (error) {
    return std::unexpected(Error::Invalid(path + ": " + error.message()));
  }
  if (files.empty()) {
    return std::unexpected(Error::Invalid(path + ": no *.yaml in this folder"));
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Result<Scenario> ParseScenario(std::string_view text, std::string_view name) {
  Scenario out;
  MUSTER_RETURN_IF_ERROR(ReadText(text, name, out));
  Order(out);
  return out;
}

Result<Scenario> LoadScenario(const std::vector<std::string>& paths) {
  Scenario out;
  for (const std::string& path : paths) {
    MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOf(path));
    for (const std::string& file : files) {
      std::ifstream in(file, std::ios::binary);
      std::ostringstream text;
      text << in.rdbuf();
      if (!in) {
        return std::unexpected(Error::Invalid(file + ": cannot be read"));
      }
      MUSTER_RETURN_IF_ERROR(ReadText(text.str(), file, out));
    }
  }
  Order(out);
  return out;
}

}  // namespace muster::sim
