#pragma once

#include <string>
#include <vector>

#include "api/json.h"

// Case files: test/cases/<module>/*.yaml, one document each, with `why`, `given` and `expect` or
// `steps`.
namespace muster::test {

struct CaseFile {
  std::string name;  // without folder and extension; fit for a test's name
  std::string path;
  std::string why;
  api::Json body;
};

// All cases of a folder below test/cases, by name. A file that is not YAML, has no `why`, or has
// other top-level keys than why, given, steps and expect, yields a case whose `body` is null and
// whose `why` says what is wrong, so that the test that runs it fails.
[[nodiscard]] std::vector<CaseFile> LoadCases(const std::string& folder);

// The value under `key`, or null.
[[nodiscard]] const api::Json& At(const api::Json& object, const std::string& key);
// Text of a scalar: "4" for 4, "1Gi" for "1Gi".
[[nodiscard]] std::string Text(const api::Json& scalar);

}  // namespace muster::test
