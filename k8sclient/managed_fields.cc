#include "k8sclient/managed_fields.h"

#include <cstddef>

namespace muster::k8s {
namespace {

constexpr std::string_view kKey = "\"managedFields\":";

// Position behind the list that opens at `at`; npos if it does not close.
std::size_t BehindList(std::string_view json, std::size_t at) {
  std::size_t depth = 0;
  while (true) {
    at = json.find_first_of("[]{}\"", at);
    if (at == std::string_view::npos) {
      return at;
    }
    const char c = json[at++];
    if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      if (--depth == 0) {
        return at;
      }
    } else {
      // A string: to its closing quote.
      while (true) {
        at = json.find_first_of("\\\"", at);
        if (at == std::string_view::npos) {
          return at;
        }
        if (json[at] == '"') {
          ++at;
          break;
        }
        at += 2;
      }
    }
  }
}

}  // namespace

std::string_view WithoutManagedFields(std::string_view json, std::string& scratch) {
  std::size_t copied = 0;
  std::size_t from = 0;
  scratch.clear();
  while (true) {
    const std::size_t key = json.find(kKey, from);
    if (key == std::string_view::npos) {
      break;
    }
    const std::size_t value = key + kKey.size();
    from = value;
    // The unescaped quote behind the word shows that a string ends there. That it also began with
    // the word is shown by what stands before: inside a string the first quote would be an escaped
    // one.
    const bool is_key = key > 0 && (json[key - 1] == ',' || json[key - 1] == '{');
    if (!is_key || value >= json.size() || json[value] != '[') {
      continue;
    }
    const std::size_t end = BehindList(json, value);
    if (end == std::string_view::npos) {
      break;
    }
    scratch.append(json.substr(copied, value - copied));
    scratch += "null";
    copied = from = end;
  }
  if (copied == 0) {
    return json;
  }
  scratch.append(json.substr(copied));
  return scratch;
}

}  // namespace muster::k8s
