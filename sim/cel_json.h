#pragma once

#include "api/json.h"
#include "base/result.h"
#include "cel/value.h"

// JSON as CEL sees it, and back.
namespace muster::sim {

class Schema;

// A view, made on demand: `json` must outlive every copy of the value. With a schema, formats
// become times, durations and bytes, numbers have the declared type, and property names may be
// written in the escaped form (`a__dash__b`).
[[nodiscard]] cel::Value ToCel(const api::Json& json, const Schema* schema = nullptr);

// Errors   kInvalid: a value that JSON does not have.
[[nodiscard]] Result<api::Json> FromCel(const cel::Value& value);

}  // namespace muster::sim
