#include "sim/rules.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "sim/cel_json.h"
#include "sim/programs.h"

namespace muster::sim {
namespace {

constexpr std::size_t kMaxMessageBytes = 5 * 1024;

// ".a.b['c']" -> "a.b[c]".
std::string NormalizePath(std::string_view path) {
  std::string out;
  while (!path.empty()) {
    if (path.starts_with("['")) {
      const std::size_t end = path.find("']");
      out += "[" + std::string(path.substr(2, end == std::string_view::npos ? end : end - 2)) + "]";
      path = end == std::string_view::npos ? std::string_view() : path.substr(end + 2);
    } else {
      out += path.front();
      path.remove_prefix(1);
    }
  }
  return out.starts_with('.') ? out.substr(1) : out;
}

void CompileNode(const Schema& schema, std::vector<std::string>& errors) {
  if (!schema.has_rules) {
    return;
  }
  for (std::size_t i = 0; i < schema.rules.size(); ++i) {
    const Schema::Rule& rule = schema.rules[i];
    if (!schema.compiled[i]) {
      auto compiled = std::make_shared<CompiledRule>();
      const auto& program = CompileOnce(ProgramKind::kCrdRule, rule.rule);
      if (program) {
        compiled->uses_old_self =
            std::ranges::find(program->variables(), "oldSelf") != program->variables().end();
        compiled->program = *program;
      } else {
        compiled->compile_error = program.error().message;
      }
      if (!rule.message_expression.empty()) {
        const auto& message = CompileOnce(ProgramKind::kCrdMessage, rule.message_expression);
        if (message) {
          compiled->message = *message;
        } else if (compiled->compile_error.empty()) {
          compiled->compile_error = "messageExpression: " + message.error().message;
        }
      }
      compiled->field_path = NormalizePath(rule.field_path);
      schema.compiled[i] = compiled;
    }
    if (!schema.compiled[i]->compile_error.empty()) {
      errors.push_back(rule.rule + ": " + schema.compiled[i]->compile_error);
    }
    schema.has_transitions = schema.has_transitions || schema.compiled[i]->uses_old_self;
  }
  const auto child = [&](const Schema* node) {
    if (node != nullptr) {
      CompileNode(*node, errors);
      schema.has_transitions = schema.has_transitions || node->has_transitions;
    }
  };
  for (const auto& [key, node] : schema.properties) {
    child(node);
  }
  child(schema.additional);
  child(schema.items);
  for (const Schema* node : schema.junctors.all_of) {
    child(node);
  }
}

std::string_view SchemaTypeName(const Schema& schema) {
  switch (schema.type) {
    case Schema::Type::kObject:
      return "object";
    case Schema::Type::kArray:
      return "array";
    case Schema::Type::kString:
      return "string";
    case Schema::Type::kInteger:
      return "integer";
    case Schema::Type::kNumber:
      return "number";
    case Schema::Type::kBoolean:
      return "boolean";
    case Schema::Type::kAny:
    case Schema::Type::kIntOrString:
      break;
  }
  return "";
}

class Runner {
 public:
  explicit Runner(FieldErrors& errors) : errors_(errors) {}

  // `unchanged`: the nearest part of the object that can be compared with its old self is the same.
  void Node(const Schema& schema,
            const Json& value,
            const Json* old,
            bool unchanged,
            const std::string& path) {
    if (!schema.has_rules || value.is_null() || budget_ < 0) {
      return;
    }
    unchanged = unchanged || (old != nullptr && *old == value);
    if (unchanged && !schema.has_transitions) {
      return;
    }
    Rules(schema, value, old, unchanged, path);
    for (const Schema* node : schema.junctors.all_of) {
      Node(*node, value, old, unchanged, path);
    }
    if (value.is_object()) {
      for (const auto& [key, item] : value.items()) {
        const auto named = schema.properties.find(key);
        const Schema* child = named != schema.properties.end() ? named->second : schema.additional;
        if (child == nullptr || !child->has_rules) {
          continue;
        }
        const Json* before = nullptr;
        if (old != nullptr && old->is_object()) {
          const auto it = old->find(key);
          before = it == old->end() ? nullptr : &*it;
        }
        Node(*child,
             item,
             before,
             unchanged,
             named != schema.properties.end() ? JoinPath(path, key) : path + "[" + key + "]");
      }
    } else if (value.is_array() && schema.items != nullptr && schema.items->has_rules) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        const Json* before = old != nullptr && schema.list_type == Schema::ListType::kMap
                                 ? FindByKeys(*old, value[i], schema)
                                 : nullptr;
        Node(*schema.items, value[i], before, unchanged, path + "[" + std::to_string(i) + "]");
      }
    }
  }

 private:
  void Say(const Schema& schema, const std::string& path, std::string detail) {
    errors_.push_back(Invalid(path, SchemaTypeName(schema), std::move(detail)));
  }

  void Rules(const Schema& schema,
             const Json& value,
             const Json* old,
             bool unchanged,
             const std::string& path) {
    if (schema.rules.empty()) {
      return;
    }
    cel::MapActivation activation;
    activation.Set("self", ToCel(value, &schema));
    cel::MapActivation with_optional = activation;
    if (old != nullptr) {
      activation.Set("oldSelf", ToCel(*old, &schema));
      with_optional.Set("oldSelf", cel::Value::Some(ToCel(*old, &schema)));
    } else {
      with_optional.Set("oldSelf", cel::Value::None());
    }
    for (std::size_t i = 0; i < schema.rules.size(); ++i) {
      const Schema::Rule& rule = schema.rules[i];
      const CompiledRule& compiled = *schema.compiled[i];
      if (!compiled.program) {
        Say(schema, path, "rule compile error: " + compiled.compile_error);
        continue;
      }
      if (compiled.uses_old_self && old == nullptr && !rule.optional_old_self) {
        continue;
      }
      if (unchanged && !compiled.uses_old_self) {
        continue;
      }
      const std::string shown(TrimSpace(rule.message.empty() ? rule.rule : rule.message));
      std::int64_t call = std::min(budget_, cel::kPerCallBudget);
      const std::int64_t given = call;
      const auto result =
          compiled.program->RunBool(rule.optional_old_self ? with_optional : activation, call);
      budget_ -= given - std::max<std::int64_t>(call, 0);
      if (!result) {
        const std::string& what = result.error().message;
        if (result.error().code == ErrorCode::kDenied) {
          Say(schema,
              path,
              "'operation cancelled: actual cost limit exceeded': no further validation rules will "
              "be run due to call "
              "cost exceeds limit for rule: " +
                  shown);
          budget_ = -1;
          return;
        }
        if (what.starts_with("no such overload")) {
          Say(schema,
              path,
              "'" + what +
                  "': call arguments did not match a supported operator, function or macro "
                  "signature for rule: " +
                  shown);
        } else {
          Say(schema, path, what + " evaluating rule: " + shown);
        }
        continue;
      }
      if (*result) {
        continue;
      }
      std::string detail = rule.message.empty() ? "failed rule: " + shown : shown;
      if (compiled.message) {
        std::int64_t left = std::min(budget_, cel::kPerCallBudget);
        const auto text =
            compiled.message->Run(rule.optional_old_self ? with_optional : activation, left);
        if (text && text->is(cel::Value::Kind::kString)) {
          const std::string_view trimmed = TrimSpace(text->string_value());
          if (!trimmed.empty() && trimmed.size() <= kMaxMessageBytes && !trimmed.contains('\n')) {
            detail = trimmed;
          }
        }
      }
      const std::string at =
          compiled.field_path.empty() ? path : JoinPath(path, compiled.field_path);
      FieldError error = Invalid(at, value, std::move(detail));
      if (rule.reason == "FieldValueForbidden") {
        error.type = FieldError::Type::kForbidden;
      } else if (rule.reason == "FieldValueRequired") {
        error.type = FieldError::Type::kRequired;
      } else if (rule.reason == "FieldValueDuplicate") {
        error.type = FieldError::Type::kDuplicate;
      }
      if (schema.type == Schema::Type::kObject || schema.type == Schema::Type::kArray) {
        error.value.clear();
      }
      errors_.push_back(std::move(error));
    }
  }

  FieldErrors& errors_;
  std::int64_t budget_ = kRuleBudget;
};

}  // namespace

std::vector<std::string> CompileRules(const Schema& schema) {
  std::vector<std::string> errors;
  CompileNode(schema, errors);
  return errors;
}

void ValidateRules(const Schema& schema, const Json& value, const Json* old, FieldErrors& errors) {
  Runner(errors).Node(schema, value, old, false, "");
}

}  // namespace muster::sim
