#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cel/program.h"
#include "sim/schema.h"

// x-kubernetes-validations of custom resources.
namespace muster::sim {

// Upstream's limits for one object and for one rule.
inline constexpr std::int64_t kRuleBudget = 10'000'000;

struct CompiledRule {
  std::optional<cel::Program> program;
  std::string compile_error;
  std::optional<cel::Program> message;
  bool uses_old_self = false;
  std::string field_path;  // "podSets", relative to the node
};

// Compiles all rules of a schema; idempotent. Returns what does not compile, with the rule.
std::vector<std::string> CompileRules(const Schema& schema);

// Runs the rules over `value`. `old` (may be null) is what the object was: transition rules need
// it, and what has not changed is not refused.
void ValidateRules(const Schema& schema, const Json& value, const Json* old, FieldErrors& errors);

}  // namespace muster::sim
