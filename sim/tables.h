#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/server.h"

// Lists as kubectl prints them: metav1.Table.
namespace muster::sim {

// {"columnDefinitions": [...], "rows": [...]} of `objects`, which are in the version of the call.
[[nodiscard]] Json MakeTable(const Call& call, const std::vector<const Json*>& objects);

// "5d3h", "12s": how long ago, as kubectl prints ages.
[[nodiscard]] std::string HumanDuration(Duration duration);

// The values that a JSON path of a printer column selects: .a.b, ['c'], [0], [*], [?(@.type=='X')].
[[nodiscard]] std::vector<const Json*> SelectPath(const Json& object, std::string_view path);

}  // namespace muster::sim
