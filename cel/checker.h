#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cel/ast.h"
#include "cel/parser.h"
#include "cel/program.h"

namespace muster::cel {

struct Checked {
  Type type;
  std::vector<std::string> variables;  // of the Env, read by the expression, sorted
  int slots = 0;                       // local variables alive at the same time, at most
};

// Resolves names and functions, infers types, compiles constant patterns. Annotates `root`.
// Errors   As strict as upstream's checker: unknown names, functions and fields, no matching
// overload, mixed literals, bad constants. Cost     Linear in the tree for expressions as people
// write them; types that grow beyond any use are refused.
[[nodiscard]] std::expected<Checked, SourceError> Check(Node& root, const Env& env);

}  // namespace muster::cel
