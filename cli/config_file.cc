#include "cli/config_file.h"

#include <fstream>
#include <sstream>
#include <utility>

#include "api/yaml.h"
#include "base/log.h"
#include "base/strings.h"
#include "scheduler/config.h"

namespace muster::cli {

Result<scheduler::Options> LoadOptions(const std::string& path,
                                       const std::optional<api::Json>& fallback) {
  std::optional<api::Json> document = fallback;
  if (!path.empty()) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    if (!in) {
      return std::unexpected(Error::Invalid(path + ": cannot be read"));
    }
    auto documents = api::ParseYaml(text.str(), path);
    if (!documents) {
      return std::unexpected(std::move(documents).error());
    }
    if (documents->size() != 1) {
      return std::unexpected(Error::Invalid(path + ": expected one Configuration document, found " +
                                            std::to_string(documents->size())));
    }
    document = std::move(documents->front().value);
  }
  if (!document) {
    return scheduler::Options{};
  }
  auto loaded = scheduler::ReadConfiguration(*document);
  if (!loaded) {
    return std::unexpected(loaded.error().At(path.empty() ? "Configuration" : path));
  }
  if (!loaded->not_implemented.empty()) {
    log::Warning("keys of the configuration have no effect yet",
                 {{"keys", Join(loaded->not_implemented, ", ")}});
  }
  return std::move(loaded->options);
}

}  // namespace muster::cli
