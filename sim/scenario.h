#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/json.h"
#include "base/result.h"
#include "base/time.h"

// Scenario files: ordinary Kubernetes YAML with a few annotations for time. The format is public
// and changes only by additions.
namespace muster::sim {

// Annotations that scenario files use.
inline constexpr std::string_view kAtAnnotation = "sim.muster.dev/at";
inline constexpr std::string_view kDeleteAtAnnotation = "sim.muster.dev/delete-at";

// One thing that happens to the cluster from outside.
struct Action {
  enum class Kind : std::uint8_t { kCreate, kPatch, kDelete };
  Kind kind = Kind::kCreate;
  Duration at{};  // since the start of the run
  // What it acts on.
  std::string api_version;
  std::string object_kind;
  std::string ns;
  std::string name;
  api::Json body;           // the object, or the merge patch
  std::string subresource;  // of a patch
  std::string where;        // "file.yaml:12", for messages
};

struct Scenario {
  // Ordered by time; at one instant in the order of the files.
  std::vector<Action> actions;
  // The last Configuration document, if there was one.
  std::optional<api::Json> configuration;
};

// Reads files and folders (their *.yaml and *.yml, sorted by name) in the given order.
// Errors   kInvalid with file and line: not YAML, no apiVersion or kind, a time annotation that is
// no duration, a Patch without target.
[[nodiscard]] Result<Scenario> LoadScenario(const std::vector<std::string>& paths);
// The same for text already in memory; `name` stands for the file.
[[nodiscard]] Result<Scenario> ParseScenario(std::string_view text, std::string_view name);

}  // namespace muster::sim
