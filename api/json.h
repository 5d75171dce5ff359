#pragma once

#include <memory>

#include <nlohmann/json.hpp>

namespace muster::api {

using Json = nlohmann::json;

// An immutable piece of JSON shared by whoever needs it (a pod template, say). Never null where a field is documented as present.
using JsonPtr = std::shared_ptr<const Json>;

}  // namespace muster::api
