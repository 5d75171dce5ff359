#pragma once

#include <string>
#include <string_view>

#include "api/json.h"
#include "base/result.h"

namespace muster::sim {

// Bodies of typed clients (kubectl create among them) arrive as protobuf: four magic bytes, then a
// runtime.Unknown with the object inside. Answers are always JSON, which such clients accept too.
[[nodiscard]] bool IsProtobuf(std::string_view content_type);

// The object as JSON, with apiVersion and kind.
// Errors   kInvalid: no such envelope, a kind without a known shape, truncated or too deeply nested
// bytes.
[[nodiscard]] Result<api::Json> DecodeProtobuf(std::string_view body);

}  // namespace muster::sim
