#include "sim/selectors.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/strings.h"

namespace muster::sim {
namespace {

std::optional<std::int64_t> ToInt(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

// The texts between commas that are outside parentheses.
std::vector<std::string> SplitTerms(std::string_view text) {
  std::vector<std::string> out;
  int depth = 0;
  std::string current;
  for (const char c : text) {
    if (c == '(') {
      ++depth;
    } else if (c == ')') {
      --depth;
    }
    if (c == ',' && depth == 0) {
      out.push_back(std::move(current));
      current.clear();
    } else {
      current += c;
    }
  }
  out.push_back(std::move(current));
  return out;
}

bool LabelChars(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == '/';
  });
}

}  // namespace

const Json* At(const Json& object, std::string_view dotted) {
  const Json* at = &object;
  while (!dotted.empty()) {
    const std::size_t dot = dotted.find('.');
    const std::string_view step = dotted.substr(0, dot);
    dotted = dot == std::string_view::npos ? std::string_view() : dotted.substr(dot + 1);
    if (step.empty()) {
      continue;
    }
    if (!at->is_object()) {
      return nullptr;
    }
    const auto it = at->find(step);
    if (it == at->end()) {
      return nullptr;
    }
    at = &*it;
  }
  return at;
}

Outcome<LabelMatcher> LabelMatcher::Parse(std::string_view text) {
  LabelMatcher out;
  if (TrimSpace(text).empty()) {
    return out;
  }
  const auto fail = [&]() {
    return std::unexpected(BadRequest("unable to parse requirement: " + std::string(text)));
  };
  for (const std::string& raw : SplitTerms(text)) {
    std::string_view term = TrimSpace(raw);
    Requirement requirement;
    if (term.empty()) {
      return fail();
    }
    if (term.front() == '!') {
      requirement.op = Op::kDoesNotExist;
      requirement.key = TrimSpace(term.substr(1));
    } else if (const std::size_t open = term.find('('); open != std::string_view::npos) {
      if (term.back() != ')') {
        return fail();
      }
      const std::string_view head = TrimSpace(term.substr(0, open));
      const std::size_t space = head.find_last_of(' ');
      if (space == std::string_view::npos) {
        return fail();
      }
      const std::string_view op = head.substr(space + 1);
      if (op != "in" && op != "notin") {
        return fail();
      }
      requirement.op = op == "in" ? Op::kIn : Op::kNotIn;
      requirement.key = TrimSpace(head.substr(0, space));
      for (const std::string& value : Split(term.substr(open + 1, term.size() - open - 2), ',')) {
        requirement.values.emplace_back(TrimSpace(value));
      }
    } else if (const std::size_t at = term.find_first_of("=!<>"); at != std::string_view::npos) {
      requirement.key = TrimSpace(term.substr(0, at));
      std::size_t after = at + 1;
      if (term[at] == '=') {
        requirement.op = Op::kIn;
        after += after < term.size() && term[after] == '=' ? 1U : 0U;
      } else if (term[at] == '!') {
        if (after >= term.size() || term[after] != '=') {
          return fail();
        }
        ++after;
        requirement.op = Op::kNotIn;
      } else {
        requirement.op = term[at] == '>' ? Op::kGreater : Op::kLess;
      }
      requirement.values.emplace_back(TrimSpace(term.substr(after)));
    } else {
      requirement.op = Op::kExists;
      requirement.key = term;
    }
    if (requirement.key.empty() || !LabelChars(requirement.key) ||
        !std::ranges::all_of(requirement.values,
                             [](const std::string& v) { return LabelChars(v); })) {
      return fail();
    }
    out.requirements_.push_back(std::move(requirement));
  }
  return out;
}

LabelMatcher LabelMatcher::FromObject(const Json& selector) {
  LabelMatcher out;
  if (!selector.is_object()) {
    out.nothing_ = true;
    return out;
  }
  if (const auto labels = selector.find("matchLabels");
      labels != selector.end() && labels->is_object()) {
    for (const auto& [key, value] : labels->items()) {
      out.requirements_.push_back(
          {.key = key,
           .op = Op::kIn,
           .values = {value.is_string() ? value.get<std::string>() : std::string()}});
    }
  }
  if (const auto list = selector.find("matchExpressions");
      list != selector.end() && list->is_array()) {
    for (const Json& item : *list) {
      if (!item.is_object()) {
        out.nothing_ = true;
        continue;
      }
      Requirement requirement;
      requirement.key = item.value("key", "");
      const std::string op = item.value("operator", "");
      if (op == "In") {
        requirement.op = Op::kIn;
      } else if (op == "NotIn") {
        requirement.op = Op::kNotIn;
      } else if (op == "Exists") {
        requirement.op = Op::kExists;
      } else if (op == "DoesNotExist") {
        requirement.op = Op::kDoesNotExist;
      } else {
        out.nothing_ = true;
      }
      if (const auto values = item.find("values"); values != item.end() && values->is_array()) {
        for (const Json& value : *values) {
          requirement.values.push_back(value.is_string() ? value.get<std::string>()
                                                         : std::string());
        }
      }
      out.requirements_.push_back(std::move(requirement));
    }
  }
  return out;
}

bool LabelMatcher::Matches(const Json& object) const {
  return MatchesLabels(At(object, "metadata.labels"));
}

bool LabelMatcher::MatchesLabels(const Json* labels) const {
  if (nothing_) {
    return false;
  }
  for (const Requirement& requirement : requirements_) {
    const std::string* value = nullptr;
    if (labels != nullptr && labels->is_object()) {
      const auto it = labels->find(requirement.key);
      if (it != labels->end() && it->is_string()) {
        value = it->get_ptr<const std::string*>();
      }
    }
    bool ok = false;
    switch (requirement.op) {
      case Op::kExists:
        ok = value != nullptr;
        break;
      case Op::kDoesNotExist:
        ok = value == nullptr;
        break;
      case Op::kIn:
        ok = value != nullptr &&
             std::ranges::find(requirement.values, *value) != requirement.values.end();
        break;
      case Op::kNotIn:
        ok = value == nullptr ||
             std::ranges::find(requirement.values, *value) == requirement.values.end();
        break;
      case Op::kGreater:
      case Op::kLess: {
        const auto left = value == nullptr ? std::nullopt : ToInt(*value);
        const auto right =
            requirement.values.empty() ? std::nullopt : ToInt(requirement.values.front());
        ok = left && right && (requirement.op == Op::kGreater ? *left > *right : *left < *right);
        break;
      }
    }
    if (!ok) {
      return false;
    }
  }
  return true;
}

Outcome<FieldMatcher> FieldMatcher::Parse(std::string_view text,
                                          std::string_view kind,
                                          const std::vector<std::string>& allowed) {
  FieldMatcher out;
  if (TrimSpace(text).empty()) {
    return out;
  }
  for (const std::string& raw : Split(text, ',')) {
    const std::string_view term = TrimSpace(raw);
    if (term.empty()) {
      continue;
    }
    Requirement requirement;
    const std::size_t at = term.find_first_of("=!");
    if (at == std::string_view::npos) {
      return std::unexpected(BadRequest("invalid selector: '" + std::string(text) +
                                        "'; can't understand '" + std::string(term) + "'"));
    }
    const std::string path(term.substr(0, at));
    requirement.equal = term[at] == '=';
    std::size_t after = at + 1;
    if (after < term.size() && term[after] == '=') {
      ++after;
    } else if (!requirement.equal) {
      return std::unexpected(BadRequest("invalid selector: '" + std::string(text) +
                                        "'; can't understand '" + std::string(term) + "'"));
    }
    requirement.value = term.substr(after);
    if (path != "metadata.name" && path != "metadata.namespace" &&
        std::ranges::find(allowed, path) == allowed.end()) {
      return std::unexpected(BadRequest("field label not supported: " + path));
    }
    requirement.path = Split(path, '.');
    out.requirements_.push_back(std::move(requirement));
  }
  (void)kind;
  return out;
}

bool FieldMatcher::Matches(const Json& object) const {
  for (const Requirement& requirement : requirements_) {
    const Json* at = &object;
    for (const std::string& step : requirement.path) {
      if (at == nullptr || !at->is_object()) {
        at = nullptr;
        break;
      }
      const auto it = at->find(step);
      at = it == at->end() ? nullptr : &*it;
    }
    // An absent field reads as its zero value: "" for strings, and "false" or "0" where the API
    // type is not a string.
    bool equal = false;
    if (at == nullptr || at->is_null()) {
      equal = requirement.value.empty() || requirement.value == "false" || requirement.value == "0";
    } else if (at->is_string()) {
      equal = at->get_ref<const std::string&>() == requirement.value;
    } else {
      equal = at->dump() == requirement.value;
    }
    if (equal != requirement.equal) {
      return false;
    }
  }
  return true;
}

std::string FieldMatcher::name() const {
  for (const Requirement& requirement : requirements_) {
    if (requirement.equal && requirement.path.size() == 2 && requirement.path[0] == "metadata" &&
        requirement.path[1] == "name") {
      return requirement.value;
    }
  }
  return {};
}

}  // namespace muster::sim
