#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/json.h"
#include "base/result.h"

namespace muster::api {

struct YamlDocument {
  Json value;
  int line = 0;  // of the document's first token, from 1
};

// Reads a stream of YAML documents with the scalar rules of kubectl (YAML 1.1: yes and on are true,
// 0644 is 420, 1_000 is 1000; dates and 12:30 stay strings; a key `y` becomes "true"; a duplicate
// key keeps the last value; << merges). Empty documents are left out.
//
// Errors   kInvalid with file and line: `jobs.yaml:12: ...`. Infinity and NaN, which JSON cannot
// carry, are errors; so are tags but the
//          core ones, nesting beyond 100 levels, and aliases that would let a small file grow
//          without bound.
// Threads  Pure.
// Source   YAML 1.1 as sigs.k8s.io/yaml reads it.
[[nodiscard]] Result<std::vector<YamlDocument>> ParseYaml(std::string_view text,
                                                          std::string_view file_name);

}  // namespace muster::api
