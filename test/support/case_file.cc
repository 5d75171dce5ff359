#include "test/support/case_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "api/yaml.h"

namespace muster::test {

std::vector<CaseFile> LoadCases(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<CaseFile> out;
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(fs::path(MUSTER_SOURCE_DIR) / "test" / "cases" / folder, error)) {
    if (entry.path().extension() != ".yaml") {
      continue;
    }
    CaseFile file;
    file.path = entry.path().string();
    file.name = entry.path().stem().string();
    std::replace_if(
        file.name.begin(),
        file.name.end(),
        [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; },
        '_');
    std::ifstream in(entry.path());
    std::stringstream text;
    text << in.rdbuf();
    auto documents = api::ParseYaml(text.str(), file.path);
    if (!documents) {
      file.why = documents.error().message;
    } else if (documents->size() != 1 || !documents->front().value.is_object()) {
      file.why = file.path + ": not exactly one document with keys";
    } else if (!At(documents->front().value, "why").is_string()) {
      file.why = file.path + ": no why";
    } else {
      file.body = std::move(documents->front().value);
      file.why = file.body["why"].get<std::string>();
      for (const auto& [key, value] : file.body.items()) {
        if (key != "why" && key != "given" && key != "steps" && key != "expect") {
          file.why = file.path + ": unknown key " + key;
          file.body = nullptr;
          break;
        }
      }
    }
    out.push_back(std::move(file));
  }
  std::sort(
      out.begin(), out.end(), [](const CaseFile& a, const CaseFile& b) { return a.name < b.name; });
  return out;
}

const api::Json& At(const api::Json& object, const std::string& key) {
  static const api::Json null;
  if (!object.is_object()) {
    return null;
  }
  const auto it = object.find(key);
  return it == object.end() ? null : *it;
}

std::string Text(const api::Json& scalar) {
  return scalar.is_string() ? scalar.get<std::string>() : scalar.dump();
}

}  // namespace muster::test
