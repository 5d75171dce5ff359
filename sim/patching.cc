#include "sim/patching.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "sim/access.h"
#include "sim/schema.h"

namespace muster::sim {
namespace {

std::vector<std::string> PointerSteps(const std::string& pointer) {
  std::vector<std::string> steps = Split(pointer, '/');
  steps.erase(steps.begin());
  for (std::string& step : steps) {
    std::string plain;
    for (std::size_t i = 0; i < step.size(); ++i) {
      if (step[i] == '~' && i + 1 < step.size() && (step[i + 1] == '0' || step[i + 1] == '1')) {
        plain += step[i + 1] == '0' ? '~' : '/';
        ++i;
      } else {
        plain += step[i];
      }
    }
    step = std::move(plain);
  }
  return steps;
}

std::optional<std::size_t> Index(const std::string& step) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), index);
  if (error != std::errc() || end != step.data() + step.size() || step.empty()) {
    return std::nullopt;
  }
  return index;
}

// The value at `steps`, or nullptr.
Json* Walk(Json& root, const std::vector<std::string>& steps, std::size_t count) {
  Json* at = &root;
  for (std::size_t i = 0; i < count; ++i) {
    if (at->is_object()) {
      const auto it = at->find(steps[i]);
      if (it == at->end()) {
        return nullptr;
      }
      at = &*it;
    } else if (at->is_array()) {
      const auto index = Index(steps[i]);
      if (!index || *index >= at->size()) {
        return nullptr;
      }
      at = &(*at)[*index];
    } else {
      return nullptr;
    }
  }
  return at;
}

std::unexpected<std::string> Fail(const std::string& what,
                                  const std::string& path,
                                  const std::string& why) {
  return std::unexpected(what + " operation does not apply: doc is missing " + why + ": " + path);
}

std::expected<void, std::string> Add(Json& root,
                                     const std::string& path,
                                     Json value,
                                     bool replace) {
  const std::vector<std::string> steps = PointerSteps(path);
  const std::string what = replace ? "replace" : "add";
  if (path.empty()) {
    root = std::move(value);
    return {};
  }
  Json* parent = Walk(root, steps, steps.size() - 1);
  if (parent == nullptr || !(parent->is_object() || parent->is_array())) {
    return Fail(what, path, "path");
  }
  if (parent->is_object()) {
    if (replace && !parent->contains(steps.back())) {
      return Fail(what, path, "key");
    }
    (*parent)[steps.back()] = std::move(value);
    return {};
  }
  if (!replace && steps.back() == "-") {
    parent->push_back(std::move(value));
    return {};
  }
  const auto index = Index(steps.back());
  if (!index || *index > parent->size() || (replace && *index == parent->size())) {
    return std::unexpected(
        what + " operation does not apply: Unable to access invalid index: " + steps.back());
  }
  if (replace) {
    (*parent)[*index] = std::move(value);
  } else {
    parent->insert(parent->begin() + static_cast<std::ptrdiff_t>(*index), std::move(value));
  }
  return {};
}

std::expected<Json, std::string> Take(Json& root,
                                      const std::string& path,
                                      const std::string& what,
                                      bool keep) {
  const std::vector<std::string> steps = PointerSteps(path);
  if (path.empty()) {
    return keep ? root : std::exchange(root, nullptr);
  }
  Json* parent = Walk(root, steps, steps.size() - 1);
  Json* at = Walk(root, steps, steps.size());
  if (parent == nullptr || at == nullptr) {
    return Fail(what, path, parent == nullptr ? "path" : "key");
  }
  Json out = *at;
  if (!keep) {
    if (parent->is_object()) {
      parent->erase(steps.back());
    } else {
      parent->erase(*Index(steps.back()));
    }
  }
  return out;
}

}  // namespace

Json ParseJson(std::string_view text) {
  // The parser itself does not recurse, but copying and printing what it built does.
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxJsonDepth) {
        return {Json::value_t::discarded};
      }
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return Json::parse(text, nullptr, false);
}

void ApplyMergePatch(Json& target, const Json& patch) {
  if (!patch.is_object()) {
    target = patch;
    return;
  }
  if (!target.is_object()) {
    target = Json::object();
  }
  for (const auto& [key, value] : patch.items()) {
    if (value.is_null()) {
      target.erase(key);
    } else {
      ApplyMergePatch(target[key], value);
    }
  }
}

std::expected<void, std::string> ApplyJsonPatch(Json& target, const Json& operations) {
  if (!operations.is_array()) {
    return std::unexpected("a JSON patch is a list of operations");
  }
  if (operations.size() > kMaxJsonPatchOperations) {
    return std::unexpected("The allowed maximum operations in a JSON patch is " +
                           std::to_string(kMaxJsonPatchOperations) + ", got " +
                           std::to_string(operations.size()));
  }
  for (const Json& operation : operations) {
    if (!operation.is_object() || !operation.contains("op") || !operation["op"].is_string() ||
        !operation.contains("path") || !operation["path"].is_string()) {
      return std::unexpected("Unexpected kind: every operation needs op and path");
    }
    const std::string op = operation["op"];
    const std::string path = operation["path"];
    const std::string from = operation.contains("from") && operation["from"].is_string()
                                 ? operation["from"].get<std::string>()
                                 : "";
    if ((!path.empty() && path.front() != '/') || (!from.empty() && from.front() != '/')) {
      return std::unexpected(op + " operation does not apply: doc is missing path: " + path);
    }
    if (op == "add" || op == "replace") {
      auto done = Add(target, path, operation.value("value", Json()), op == "replace");
      if (!done) {
        return done;
      }
    } else if (op == "remove") {
      auto taken = Take(target, path, op, false);
      if (!taken) {
        return std::unexpected(std::move(taken).error());
      }
    } else if (op == "move" || op == "copy") {
      auto taken = Take(target, from, op, op == "copy");
      if (!taken) {
        return std::unexpected(std::move(taken).error());
      }
      auto done = Add(target, path, *std::move(taken), false);
      if (!done) {
        return done;
      }
    } else if (op == "test") {
      const Json* at =
          Walk(target, PointerSteps(path), path.empty() ? 0 : PointerSteps(path).size());
      const Json wanted = operation.value("value", Json());
      if (at == nullptr ? !wanted.is_null() : *at != wanted) {
        return std::unexpected("testing value " + path + " failed: test failed");
      }
    } else {
      return std::unexpected("Unexpected kind: " + op);
    }
  }
  return {};
}

namespace {

constexpr std::string_view kDirective = "$patch";
constexpr std::string_view kRetainKeys = "$retainKeys";
constexpr std::string_view kElementOrder = "$setElementOrder/";
constexpr std::string_view kDeleteFromList = "$deleteFromPrimitiveList/";

// A value that is new to the object: the directives in it have nothing to work on.
Json WithoutDirectives(const Json& value) {
  if (value.is_array()) {
    Json out = Json::array();
    for (const Json& item : value) {
      if (item.is_object() && item.contains(kDirective)) {
        continue;
      }
      out.push_back(WithoutDirectives(item));
    }
    return out;
  }
  if (!value.is_object()) {
    return value;
  }
  Json out = Json::object();
  for (const auto& [key, item] : value.items()) {
    if (!key.starts_with('$') && !item.is_null()) {
      out[key] = WithoutDirectives(item);
    }
  }
  return out;
}

std::expected<void, std::string> StrategicObject(Json& target,
                                                 const Json& patch,
                                                 const Schema* schema,
                                                 int depth);

std::expected<void, std::string> StrategicList(Json& target,
                                               const Json& patch,
                                               const Schema& schema,
                                               int depth) {
  const std::string& merge_key = schema.patch_merge_key;
  if (merge_key.empty()) {
    for (const Json& item : patch) {
      if (std::ranges::find(target, item) == target.end()) {
        target.push_back(item);
      }
    }
    return {};
  }
  for (const Json& item : patch) {
    if (item.is_object() && TextAt(item, kDirective) == "replace") {
      target = WithoutDirectives(patch);
      return {};
    }
  }
  for (const Json& item : patch) {
    const Json* key = Member(item, merge_key);
    if (key == nullptr) {
      return std::unexpected("map: " + item.dump(-1, ' ', false, Json::error_handler_t::replace) +
                             " does not contain declared merge key: " + merge_key);
    }
    std::size_t at = 0;
    while (at < target.size() &&
           (Member(target[at], merge_key) == nullptr || *Member(target[at], merge_key) != *key)) {
      ++at;
    }
    if (TextAt(item, kDirective) == "delete") {
      if (at < target.size()) {
        target.erase(at);
      }
      continue;
    }
    if (at == target.size()) {
      target.push_back(WithoutDirectives(item));
      continue;
    }
    if (auto done = StrategicObject(target[at], item, schema.items, depth + 1); !done) {
      return done;
    }
  }
  return {};
}

// Items in the order asked for; those that the order does not name keep their place behind.
void Reorder(Json& list, const Json& order, const std::string& merge_key) {
  if (!list.is_array() || !order.is_array()) {
    return;
  }
  const auto rank = [&](const Json& item) {
    for (std::size_t i = 0; i < order.size(); ++i) {
      const bool same = merge_key.empty()
                            ? order[i] == item
                            : Member(order[i], merge_key) != nullptr &&
                                  Member(item, merge_key) != nullptr &&
                                  *Member(order[i], merge_key) == *Member(item, merge_key);
      if (same) {
        return i;
      }
    }
    return order.size();
  };
  std::vector<std::pair<std::size_t, Json>> ranked;
  for (Json& item : list) {
    const std::size_t at = rank(item);
    ranked.emplace_back(at, std::move(item));
  }
  std::ranges::stable_sort(ranked, {}, &std::pair<std::size_t, Json>::first);
  list = Json::array();
  for (auto& [at, item] : ranked) {
    list.push_back(std::move(item));
  }
}

std::expected<void, std::string> StrategicObject(Json& target,
                                                 const Json& patch,
                                                 const Schema* schema,
                                                 int depth) {
  if (depth > kMaxJsonDepth) {
    return std::unexpected("the patch is nested too deeply");
  }
  if (!target.is_object()) {
    target = Json::object();
  }
  const std::string directive = TextAt(patch, kDirective);
  if (directive == "replace") {
    target = WithoutDirectives(patch);
    return {};
  }
  if (directive == "delete") {
    target = Json::object();
    return {};
  }
  if (const Json* keep = Member(patch, kRetainKeys); keep != nullptr && keep->is_array()) {
    for (auto it = target.begin(); it != target.end();) {
      it = std::ranges::find(*keep, Json(it.key())) == keep->end() ? target.erase(it)
                                                                   : std::next(it);
    }
  }
  for (const auto& [key, value] : patch.items()) {
    if (key.starts_with(kDeleteFromList)) {
      const auto it = target.find(key.substr(kDeleteFromList.size()));
      if (it != target.end() && it->is_array() && value.is_array()) {
        for (const Json& item : value) {
          for (std::size_t i = 0; i < it->size();) {
            if ((*it)[i] == item) {
              it->erase(i);
            } else {
              ++i;
            }
          }
        }
      }
    }
  }
  for (const auto& [key, value] : patch.items()) {
    if (key.starts_with('$')) {
      continue;
    }
    if (value.is_null()) {
      target.erase(key);
      continue;
    }
    const Schema* child = schema == nullptr ? nullptr : schema->Property(key);
    const auto it = target.find(key);
    if (value.is_object() && it != target.end() && it->is_object()) {
      if (TextAt(value, kDirective) == "delete") {
        target.erase(it);
      } else if (auto done = StrategicObject(*it, value, child, depth + 1); !done) {
        return done;
      }
    } else if (value.is_array() && it != target.end() && it->is_array() && child != nullptr &&
               child->patch_merge) {
      if (auto done = StrategicList(*it, value, *child, depth + 1); !done) {
        return done;
      }
    } else {
      target[key] = WithoutDirectives(value);
    }
  }
  for (const auto& [key, value] : patch.items()) {
    if (key.starts_with(kElementOrder)) {
      const std::string field = key.substr(kElementOrder.size());
      const Schema* child = schema == nullptr ? nullptr : schema->Property(field);
      if (const auto it = target.find(field); it != target.end()) {
        Reorder(*it, value, child == nullptr ? std::string() : child->patch_merge_key);
      }
    }
  }
  return {};
}

}  // namespace

std::expected<void, std::string> ApplyStrategicPatch(Json& target,
                                                     const Json& patch,
                                                     const Schema* schema) {
  return StrategicObject(target, patch, schema, 0);
}

}  // namespace muster::sim
