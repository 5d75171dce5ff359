#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/json.h"

// Reading JSON that may have any shape: an absent or mistyped part reads as nothing.
namespace muster::sim {

using api::Json;

[[nodiscard]] inline const Json* Member(const Json& object, std::string_view key) {
  if (!object.is_object()) {
    return nullptr;
  }
  const auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}
[[nodiscard]] inline std::string TextAt(const Json& object, std::string_view key) {
  const Json* member = Member(object, key);
  return member != nullptr && member->is_string() ? member->get<std::string>() : std::string();
}
[[nodiscard]] inline std::optional<std::int64_t> IntAt(const Json& object, std::string_view key) {
  const Json* member = Member(object, key);
  return member != nullptr && member->is_number_integer()
             ? std::optional(member->get<std::int64_t>())
             : std::nullopt;
}
[[nodiscard]] inline bool TrueAt(const Json& object, std::string_view key) {
  const Json* member = Member(object, key);
  return member != nullptr && member->is_boolean() && member->get<bool>();
}
[[nodiscard]] inline const Json& ListAt(const Json& object, std::string_view key) {
  static const Json kEmpty = Json::array();
  const Json* member = Member(object, key);
  return member != nullptr && member->is_array() ? *member : kEmpty;
}
[[nodiscard]] inline const Json& ObjectAt(const Json& object, std::string_view key) {
  static const Json kEmpty = Json::object();
  const Json* member = Member(object, key);
  return member != nullptr && member->is_object() ? *member : kEmpty;
}
[[nodiscard]] inline std::vector<std::string> TextsAt(const Json& object, std::string_view key) {
  std::vector<std::string> out;
  for (const Json& item : ListAt(object, key)) {
    if (item.is_string()) {
      out.push_back(item.get<std::string>());
    }
  }
  return out;
}
[[nodiscard]] inline bool HasText(const Json& object, std::string_view key) {
  return !TextAt(object, key).empty();
}
// Two members are the same when both are absent or both are equal; an empty list or map counts as
// absent.
[[nodiscard]] inline bool SameMember(const Json& a, const Json& b, std::string_view key) {
  const auto present = [key](const Json& object) {
    const Json* member = Member(object, key);
    return member != nullptr && (member->is_null() || (member->is_array() && member->empty()))
               ? nullptr
               : member;
  };
  const Json* x = present(a);
  const Json* y = present(b);
  return x == nullptr ? y == nullptr : y != nullptr && *x == *y;
}
// The path of an item: "spec.containers[2]".
[[nodiscard]] inline std::string AtIndex(std::string_view path, std::size_t index) {
  return std::string(path) + "[" + std::to_string(index) + "]";
}

}  // namespace muster::sim
