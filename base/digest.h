#pragma once

#include <string>
#include <string_view>

namespace muster {

// Lower-case hexadecimal digests. The reference derives object names and role hashes from them.
[[nodiscard]] std::string Sha1Hex(std::string_view bytes);
[[nodiscard]] std::string Sha256Hex(std::string_view bytes);

// Standard base64 (kubeconfig data). Decode refuses anything else, without an error text that could
// leak the secret.
[[nodiscard]] std::string Base64Encode(std::string_view bytes);
[[nodiscard]] bool Base64Decode(std::string_view text, std::string& out);

}  // namespace muster
