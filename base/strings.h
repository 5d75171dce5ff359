#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster {

[[nodiscard]] std::vector<std::string> Split(std::string_view text, char separator);
[[nodiscard]] std::string Join(const std::vector<std::string>& parts, std::string_view separator);
[[nodiscard]] std::string_view TrimSpace(std::string_view text);
[[nodiscard]] std::string ToLower(std::string_view text);
// Appends `text` as a JSON string with quotes; bytes that are not UTF-8 become U+FFFD.
void AppendJsonString(std::string& out, std::string_view text);
// Percent-encodes everything but RFC 3986 unreserved characters.
[[nodiscard]] std::string PercentEncode(std::string_view text);
[[nodiscard]] std::string PercentDecode(std::string_view text);

}  // namespace muster
