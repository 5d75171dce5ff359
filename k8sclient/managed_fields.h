#pragma once

#include <string>
#include <string_view>

namespace muster::k8s {

// The JSON text without its "managedFields" lists, which are more than half of many objects and are
// read by nobody here: it is cheaper to skip them as bytes than to parse them into values.
//
// Returns  `json` itself if there is nothing to leave out; else a view of `scratch`. JSON stays
// JSON and means the same, but for keys
//          "managedFields" with a list, which are null. A fault inside such a list goes unnoticed.
// Cost     One search for the key; the lists are scanned byte by byte.
[[nodiscard]] std::string_view WithoutManagedFields(std::string_view json, std::string& scratch);

}  // namespace muster::k8s
