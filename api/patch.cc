#include "api/patch.h"

#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/quantity.h"
#include "base/strings.h"

namespace muster::api {
namespace {

using Tokens = std::vector<std::string>;

// RFC 6901: "/a/b~1c" -> ["a", "b/c"].
std::optional<Tokens> ParsePointer(std::string_view text) {
  Tokens out;
  if (text.empty()) {
    return out;
  }
  if (text.front() != '/') {
    return std::nullopt;
  }
  out.emplace_back();
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '/') {
      out.emplace_back();
    } else if (text[i] != '~') {
      out.back() += text[i];
    } else if (i + 1 < text.size() && (text[i + 1] == '0' || text[i + 1] == '1')) {
      out.back() += text[++i] == '0' ? '~' : '/';
    } else {
      return std::nullopt;
    }
  }
  return out;
}

// An index of a list: digits without leading zeros. "-" is handled by the callers that may append.
std::optional<std::size_t> ListIndex(const std::string& token) {
  if (token.empty() || (token.size() > 1 && token.front() == '0')) {
    return std::nullopt;
  }
  std::size_t out = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), out);
  if (error != std::errc{} || end != token.data() + token.size() || token.front() < '0' ||
      token.front() > '9') {
    return std::nullopt;
  }
  return out;
}

Json* Step(Json& at, const std::string& token) {
  if (at.is_object()) {
    const auto it = at.find(token);
    return it == at.end() ? nullptr : &*it;
  }
  if (at.is_array()) {
    const auto index = ListIndex(token);
    return index && *index < at.size() ? &at[*index] : nullptr;
  }
  return nullptr;
}

Json* Find(Json& root, std::span<const std::string> tokens) {
  Json* at = &root;
  for (const std::string& token : tokens) {
    at = Step(*at, token);
    if (at == nullptr) {
      return nullptr;
    }
  }
  return at;
}

using Problem = std::optional<std::string>;

Problem Add(Json& root, const Tokens& tokens, Json value) {
  if (tokens.empty()) {
    root = std::move(value);
    return std::nullopt;
  }
  Json* parent = Find(root, std::span(tokens).first(tokens.size() - 1));
  if (parent == nullptr) {
    return "the parent does not exist";
  }
  const std::string& last = tokens.back();
  if (parent->is_object()) {
    (*parent)[last] = std::move(value);
    return std::nullopt;
  }
  if (!parent->is_array()) {
    return "the parent is " + std::string(TypeName(*parent));
  }
  if (last == "-") {
    parent->push_back(std::move(value));
    return std::nullopt;
  }
  const auto index = ListIndex(last);
  if (!index || *index > parent->size()) {
    return "no such index";
  }
  parent->insert(parent->begin() + static_cast<Json::difference_type>(*index), std::move(value));
  return std::nullopt;
}

Problem Remove(Json& root, const Tokens& tokens) {
  if (tokens.empty()) {
    root = nullptr;
    return std::nullopt;
  }
  Json* parent = Find(root, std::span(tokens).first(tokens.size() - 1));
  if (parent == nullptr || Step(*parent, tokens.back()) == nullptr) {
    return "no such member";
  }
  if (parent->is_object()) {
    parent->erase(tokens.back());
  } else {
    parent->erase(*ListIndex(tokens.back()));
  }
  return std::nullopt;
}

Problem ApplyOne(
    Json& root, const std::string& op, const Tokens& path, const Json& operation, bool& conflict) {
  const auto value = operation.find("value");
  if ((op == "add" || op == "replace" || op == "test") && value == operation.end()) {
    return "value is required";
  }
  if (op == "add") {
    return Add(root, path, *value);
  }
  if (op == "remove") {
    return Remove(root, path);
  }
  if (op == "replace" || op == "test") {
    Json* found = Find(root, path);
    if (found == nullptr) {
      conflict = op == "test";
      return "no such member";
    }
    if (op == "replace") {
      *found = *value;
      return std::nullopt;
    }
    conflict = *found != *value;
    return conflict ? Problem("the value differs") : std::nullopt;
  }
  if (op == "move" || op == "copy") {
    const auto from = operation.find("from");
    if (from == operation.end() || !from->is_string()) {
      return "from is required";
    }
    const auto tokens = ParsePointer(from->get_ref<const std::string&>());
    if (!tokens) {
      return "from is not a JSON pointer";
    }
    Json* found = Find(root, *tokens);
    if (found == nullptr) {
      return "from does not exist";
    }
    Json moved = *found;
    if (op == "move") {
      if (path.size() > tokens->size() &&
          std::equal(tokens->begin(), tokens->end(), path.begin())) {
        return "a value cannot be moved into itself";
      }
      if (const Problem problem = Remove(root, *tokens)) {
        return problem;
      }
    }
    return Add(root, path, std::move(moved));
  }
  return "unknown operation";
}

// Repeated copies of the whole into itself double the document; this many operations cannot do harm
// with the size limit below.
constexpr std::size_t kMostOperations = 10'000;
constexpr std::size_t kMostValues = 2'000'000;

std::size_t CountValues(const Json& value) {
  std::size_t out = 1;
  if (value.is_structured()) {
    for (const Json& child : value) {
      out += CountValues(child);
    }
  }
  return out;
}

bool HoldsQuantities(std::string_view key) {
  return key == "requests" || key == "limits" || key == "overhead";
}

bool EqualQuantities(const Json& a, const Json& b) {
  const auto text = [](const Json& value) -> std::string {
    if (value.is_string()) {
      return value.get<std::string>();
    }
    return value.is_number() ? value.dump() : std::string();
  };
  const Result<Quantity> left = Quantity::Parse(text(a));
  const Result<Quantity> right = Quantity::Parse(text(b));
  return left && right && *left == *right;
}

bool EqualBelow(const Json& a, const Json& b, bool quantities) {
  if (a.is_object() && b.is_object()) {
    const auto covered = [&](const Json& x, const Json& y, bool compare) {
      for (auto it = x.begin(); it != x.end(); ++it) {
        const auto other = y.find(it.key());
        if (other == y.end()) {
          if (!it.value().is_null()) {
            return false;
          }
        } else if (compare && !EqualBelow(it.value(), *other, HoldsQuantities(it.key()))) {
          return false;
        }
      }
      return true;
    };
    if (!quantities) {
      return covered(a, b, true) && covered(b, a, false);
    }
    for (auto it = a.begin(); it != a.end(); ++it) {
      const auto other = b.find(it.key());
      if (other == b.end() ||
          !(EqualBelow(it.value(), *other, false) || EqualQuantities(it.value(), *other))) {
        return false;
      }
    }
    return a.size() == b.size();
  }
  if (a.is_array() && b.is_array()) {
    if (a.size() != b.size()) {
      return false;
    }
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!EqualBelow(a[i], b[i], false)) {
        return false;
      }
    }
    return true;
  }
  return a == b;
}

}  // namespace

void ApplyMergePatch(Json& target, const Json& patch) {
  if (!patch.is_object()) {
    target = patch;
    return;
  }
  if (!target.is_object()) {
    target = Json::object();
  }
  for (auto it = patch.begin(); it != patch.end(); ++it) {
    if (it.value().is_null()) {
      target.erase(it.key());
    } else {
      ApplyMergePatch(target[it.key()], it.value());
    }
  }
}

Status ApplyJsonPatch(Json& target, const Json& patch) {
  if (!patch.is_array()) {
    return std::unexpected(
        Error::Invalid("a JSON patch must be a list, got " + std::string(TypeName(patch))));
  }
  if (patch.size() > kMostOperations) {
    return std::unexpected(Error::Invalid("a JSON patch may have at most " +
                                          std::to_string(kMostOperations) + " operations"));
  }
  Json work = target;
  for (std::size_t i = 0; i < patch.size(); ++i) {
    const Json& operation = patch[i];
    std::string where = "patch[" + std::to_string(i) + "]";
    if (!operation.is_object()) {
      return std::unexpected(
          Error::Invalid(where + ": expected an object, got " + std::string(TypeName(operation))));
    }
    const auto text = [&](const char* key) -> const std::string* {
      const auto it = operation.find(key);
      return it != operation.end() && it->is_string() ? &it->get_ref<const std::string&>()
                                                      : nullptr;
    };
    const std::string* op = text("op");
    const std::string* path = text("path");
    if (op == nullptr || path == nullptr) {
      return std::unexpected(Error::Invalid(where + ": op and path are required"));
    }
    constexpr std::size_t kShown = 200;
    where += " (" + op->substr(0, kShown) + " " + path->substr(0, kShown) + ")";
    const auto tokens = ParsePointer(*path);
    if (!tokens) {
      return std::unexpected(Error::Invalid(where + ": path is not a JSON pointer"));
    }
    bool conflict = false;
    if (const Problem problem = ApplyOne(work, *op, *tokens, operation, conflict)) {
      return std::unexpected(Error{.code = conflict ? ErrorCode::kConflict : ErrorCode::kInvalid,
                                   .message = where + ": " + *problem});
    }
    if (*op == "copy" || *op == "add" || *op == "move") {
      if (!DepthAtMost(work) || CountValues(work) > kMostValues) {
        return std::unexpected(Error::Invalid(where + ": the result is too large"));
      }
    }
  }
  target = std::move(work);
  return {};
}

Json DiffMerge(const Json& from, const Json& to) {
  if (!from.is_object() || !to.is_object()) {
    return from == to ? Json::object() : to;
  }
  Json out = Json::object();
  for (auto it = from.begin(); it != from.end(); ++it) {
    if (!it.value().is_null() && !to.contains(it.key())) {
      out[it.key()] = nullptr;
    }
  }
  for (auto it = to.begin(); it != to.end(); ++it) {
    const auto before = from.find(it.key());
    if (before == from.end()) {
      if (!it.value().is_null()) {
        out[it.key()] = it.value();
      }
    } else if (*before != it.value()) {
      if (before->is_object() && it.value().is_object()) {
        Json inner = DiffMerge(*before, it.value());
        if (!inner.empty()) {
          out[it.key()] = std::move(inner);
        }
      } else {
        out[it.key()] = it.value();
      }
    }
  }
  return out;
}

bool EqualSemantically(const Json& a, const Json& b) {
  return EqualBelow(a, b, false);
}

}  // namespace muster::api
