#include "sim/schema.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include <re2/re2.h>

#include "api/quantity.h"
#include "base/strings.h"
#include "base/time.h"
#include "sim/access.h"
#include "sim/embedded.h"
#include "sim/patching.h"

namespace muster::sim {
namespace {

constexpr int kMaxSchemaDepth = 100;

using Pool = std::deque<Schema>;

bool Flag(const Json& object, std::string_view key) {
  const Json* member = Member(object, key);
  return member != nullptr && member->is_boolean() && member->get<bool>();
}
std::optional<std::size_t> Size(const Json& object, std::string_view key) {
  const Json* member = Member(object, key);
  if (member == nullptr || !member->is_number_integer() || member->get<std::int64_t>() < 0) {
    return std::nullopt;
  }
  return member->get<std::size_t>();
}
std::optional<double> Real(const Json& object, std::string_view key) {
  const Json* member = Member(object, key);
  return member != nullptr && member->is_number() ? std::optional(member->get<double>())
                                                  : std::nullopt;
}
std::vector<std::string> Strings(const Json& object, std::string_view key) {
  std::vector<std::string> out;
  if (const Json* member = Member(object, key); member != nullptr && member->is_array()) {
    for (const Json& item : *member) {
      if (item.is_string()) {
        out.push_back(item.get<std::string>());
      }
    }
  }
  return out;
}

Schema::Type TypeOf(const std::string& text) {
  if (text == "object") {
    return Schema::Type::kObject;
  }
  if (text == "array") {
    return Schema::Type::kArray;
  }
  if (text == "string") {
    return Schema::Type::kString;
  }
  if (text == "integer") {
    return Schema::Type::kInteger;
  }
  if (text == "number") {
    return Schema::Type::kNumber;
  }
  if (text == "boolean") {
    return Schema::Type::kBoolean;
  }
  return Schema::Type::kAny;
}

// The parts that OpenAPI of builtin kinds and of definitions have in common.
void ReadCommon(const Json& in, Schema& out) {
  out.type = TypeOf(TextAt(in, "type"));
  out.format = TextAt(in, "format");
  out.required = Strings(in, "required");
  const std::string list_type = TextAt(in, "x-kubernetes-list-type");
  out.list_type_given = !list_type.empty();
  out.list_type = list_type == "map"   ? Schema::ListType::kMap
                  : list_type == "set" ? Schema::ListType::kSet
                                       : Schema::ListType::kAtomic;
  out.list_map_keys = Strings(in, "x-kubernetes-list-map-keys");
  out.atomic_map = TextAt(in, "x-kubernetes-map-type") == "atomic";
  if (const Json* value = Member(in, "default")) {
    out.default_value = *value;
  }
}

Result<const Schema*> ReadNode(Pool& pool, const Json& in, const std::string& path, int depth) {
  if (depth > kMaxSchemaDepth) {
    return std::unexpected(Error::Invalid(path + ": nested too deeply"));
  }
  if (!in.is_object()) {
    return std::unexpected(Error::Invalid(path + ": must be an object"));
  }
  Schema& out = pool.emplace_back();
  ReadCommon(in, out);
  out.nullable = Flag(in, "nullable");
  out.preserve_unknown = Flag(in, "x-kubernetes-preserve-unknown-fields");
  out.embedded_resource = Flag(in, "x-kubernetes-embedded-resource");
  if (Flag(in, "x-kubernetes-int-or-string")) {
    out.type = Schema::Type::kIntOrString;
  }
  out.pattern = TextAt(in, "pattern");
  if (!out.pattern.empty()) {
    RE2::Options options;
    options.set_log_errors(false);
    out.pattern_program = std::make_unique<RE2>(out.pattern, options);
    if (!out.pattern_program->ok()) {
      return std::unexpected(Error::Invalid(path + ".pattern: " + out.pattern_program->error()));
    }
  }
  out.minimum = Real(in, "minimum");
  out.maximum = Real(in, "maximum");
  out.exclusive_minimum = Flag(in, "exclusiveMinimum");
  out.exclusive_maximum = Flag(in, "exclusiveMaximum");
  out.multiple_of = Real(in, "multipleOf");
  out.min_length = Size(in, "minLength");
  out.max_length = Size(in, "maxLength");
  out.min_items = Size(in, "minItems");
  out.max_items = Size(in, "maxItems");
  out.min_properties = Size(in, "minProperties");
  out.max_properties = Size(in, "maxProperties");
  if (const Json* list = Member(in, "enum"); list != nullptr && list->is_array()) {
    out.enumeration.assign(list->begin(), list->end());
  }
  if (const Json* list = Member(in, "x-kubernetes-validations");
      list != nullptr && list->is_array()) {
    for (const Json& item : *list) {
      out.rules.push_back({.rule = TextAt(item, "rule"),
                           .message = TextAt(item, "message"),
                           .message_expression = TextAt(item, "messageExpression"),
                           .reason = TextAt(item, "reason"),
                           .field_path = TextAt(item, "fieldPath"),
                           .optional_old_self = Flag(item, "optionalOldSelf")});
    }
    out.compiled.resize(out.rules.size());
  }
  if (const Json* properties = Member(in, "properties");
      properties != nullptr && properties->is_object()) {
    for (const auto& [key, value] : properties->items()) {
      MUSTER_ASSIGN_OR_RETURN(const Schema* child,
                              ReadNode(pool, value, path + ".properties[" + key + "]", depth + 1));
      out.properties.emplace(key, child);
    }
  }
  if (const Json* additional = Member(in, "additionalProperties")) {
    if (additional->is_object()) {
      MUSTER_ASSIGN_OR_RETURN(
          out.additional, ReadNode(pool, *additional, path + ".additionalProperties", depth + 1));
    } else if (additional->is_boolean() && additional->get<bool>()) {
      out.preserve_unknown = true;
    }
  }
  if (const Json* items = Member(in, "items"); items != nullptr && items->is_object()) {
    MUSTER_ASSIGN_OR_RETURN(out.items, ReadNode(pool, *items, path + ".items", depth + 1));
  }
  const auto junctor = [&](std::string_view key, std::vector<const Schema*>& to) -> Status {
    if (const Json* list = Member(in, key); list != nullptr && list->is_array()) {
      for (const Json& item : *list) {
        MUSTER_ASSIGN_OR_RETURN(const Schema* child,
                                ReadNode(pool, item, path + "." + std::string(key), depth + 1));
        to.push_back(child);
      }
    }
    return {};
  };
  MUSTER_RETURN_IF_ERROR(junctor("allOf", out.junctors.all_of));
  MUSTER_RETURN_IF_ERROR(junctor("anyOf", out.junctors.any_of));
  MUSTER_RETURN_IF_ERROR(junctor("oneOf", out.junctors.one_of));
  if (const Json* inner = Member(in, "not")) {
    MUSTER_ASSIGN_OR_RETURN(out.junctors.not_, ReadNode(pool, *inner, path + ".not", depth + 1));
  }
  // What is true of a child is true of its parents.
  const auto inherit = [&out](const Schema* child) {
    if (child != nullptr) {
      out.has_defaults = out.has_defaults || child->has_defaults;
      out.has_rules = out.has_rules || child->has_rules;
      out.has_list_types = out.has_list_types || child->has_list_types;
    }
  };
  out.has_defaults = out.default_value.has_value();
  out.has_rules = !out.rules.empty();
  out.has_list_types = out.list_type != Schema::ListType::kAtomic;
  for (const auto& [key, child] : out.properties) {
    inherit(child);
  }
  inherit(out.additional);
  inherit(out.items);
  for (const Schema* child : out.junctors.all_of) {
    out.has_rules = out.has_rules || child->has_rules;
  }
  return &out;
}

std::string_view TypeName(const Json& value) {
  if (value.is_number_integer()) {
    return "integer";
  }
  return value.type_name();
}

std::string_view TypeName(Schema::Type type) {
  switch (type) {
    case Schema::Type::kAny:
      return "";
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
    case Schema::Type::kIntOrString:
      return "integer,string";
  }
  return "";
}

bool IsIntegral(const Json& value) {
  if (value.is_number_integer()) {
    return true;
  }
  if (!value.is_number_float()) {
    return false;
  }
  const double real = value.get<double>();
  return std::isfinite(real) && std::floor(real) == real;
}

bool HasType(const Json& value, Schema::Type type) {
  switch (type) {
    case Schema::Type::kAny:
      return true;
    case Schema::Type::kObject:
      return value.is_object();
    case Schema::Type::kArray:
      return value.is_array();
    case Schema::Type::kString:
      return value.is_string();
    case Schema::Type::kInteger:
      return IsIntegral(value);
    case Schema::Type::kNumber:
      return value.is_number();
    case Schema::Type::kBoolean:
      return value.is_boolean();
    case Schema::Type::kIntOrString:
      return value.is_string() || IsIntegral(value);
  }
  return false;
}

std::size_t CodePoints(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

// A number as Go prints it with %v.
std::string Number(double value) {
  if (std::floor(value) == value && std::abs(value) < 1e15) {
    return std::to_string(static_cast<std::int64_t>(value));
  }
  return Json(value).dump();
}

bool FormatHolds(const std::string& format, const std::string& text) {
  if (format == "date-time") {
    return ParseTime(text).has_value();
  }
  if (format == "duration") {
    return ParseDuration(text).has_value();
  }
  if (format == "date") {
    return ParseTime(text + "T00:00:00Z").has_value();
  }
  if (format == "byte") {
    return std::ranges::all_of(text, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '+' || c == '/' || c == '=';
    });
  }
  if (format == "uuid") {
    static const RE2 kUuid(
        "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$");
    return RE2::PartialMatch(text, kUuid);
  }
  return true;
}

class Validator {
 public:
  explicit Validator(FieldErrors& errors) : errors_(errors) {}

  void Node(const Schema& schema, const Json& value, const Json* old, const std::string& path) {
    if (old != nullptr && *old == value) {
      return;
    }
    if (value.is_null()) {
      if (!schema.nullable && schema.type != Schema::Type::kAny) {
        WrongType(schema, value, path);
      }
      return;
    }
    if (!HasType(value, schema.type)) {
      WrongType(schema, value, path);
      return;
    }
    Values(schema, value, path);
    if (value.is_object()) {
      for (const auto& [key, item] : value.items()) {
        const Schema* child = schema.Property(key);
        if (child == nullptr) {
          continue;
        }
        const Json* before = old == nullptr ? nullptr : Member(*old, key);
        const bool named = schema.properties.contains(key);
        Node(*child, item, before, named ? JoinPath(path, key) : path + "." + key);
      }
    } else if (value.is_array() && schema.items != nullptr) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        const Json* before = old != nullptr && schema.list_type == Schema::ListType::kMap
                                 ? FindByKeys(*old, value[i], schema)
                                 : nullptr;
        Node(*schema.items, value[i], before, path + "[" + std::to_string(i) + "]");
      }
    }
  }

 private:
  void Say(const std::string& path, const Json& value, const std::string& what) {
    errors_.push_back(Invalid(path, value, path + " in body " + what));
  }

  void WrongType(const Schema& schema, const Json& value, const std::string& path) {
    const std::string shown(TypeName(value));
    std::string text =
        path + " in body must be of type " + std::string(TypeName(schema.type)) + ": ";
    AppendJsonString(text, shown);
    FieldError error = Invalid(path, value.is_null() ? Json("null") : value, std::move(text));
    error.type = FieldError::Type::kTypeInvalid;
    if (value.is_structured() || value.is_string() || value.is_number() || value.is_boolean()) {
      // The real server prints the name of the type that it found.
      error.value.clear();
      AppendJsonString(error.value, shown);
    }
    errors_.push_back(std::move(error));
  }

  void Values(const Schema& schema, const Json& value, const std::string& path) {
    if (value.is_string()) {
      const auto& text = value.get_ref<const std::string&>();
      if (schema.max_length && CodePoints(text) > *schema.max_length) {
        errors_.push_back(TooLong(path, *schema.max_length));
      }
      if (schema.min_length && CodePoints(text) < *schema.min_length) {
        Say(path,
            value,
            "should be at least " + std::to_string(*schema.min_length) + " chars long");
      }
      if (schema.pattern_program && !RE2::PartialMatch(text, *schema.pattern_program)) {
        Say(path, value, "should match '" + schema.pattern + "'");
      }
      if (!schema.format.empty() && !FormatHolds(schema.format, text)) {
        std::string what = "must be of type " + schema.format + ": ";
        AppendJsonString(what, text);
        FieldError error = Invalid(path, value, path + " in body " + what);
        error.type = FieldError::Type::kTypeInvalid;
        errors_.push_back(std::move(error));
      }
    }
    if (value.is_number()) {
      const double number = value.get<double>();
      if (schema.minimum &&
          (schema.exclusive_minimum ? number <= *schema.minimum : number < *schema.minimum)) {
        Say(path,
            value,
            std::string("should be greater than ") +
                (schema.exclusive_minimum ? "" : "or equal to ") + Number(*schema.minimum));
      }
      if (schema.maximum &&
          (schema.exclusive_maximum ? number >= *schema.maximum : number > *schema.maximum)) {
        Say(path,
            value,
            std::string("should be less than ") + (schema.exclusive_maximum ? "" : "or equal to ") +
                Number(*schema.maximum));
      }
      if (schema.multiple_of && *schema.multiple_of > 0 &&
          std::fmod(number, *schema.multiple_of) != 0) {
        Say(path, value, "should be a multiple of " + Number(*schema.multiple_of));
      }
      const bool int32 = schema.format == "int32";
      if (value.is_number_integer() && int32 &&
          (number > std::numeric_limits<std::int32_t>::max() ||
           number < std::numeric_limits<std::int32_t>::min())) {
        FieldError error = Invalid(
            path, value, path + " in body must be of type int32: " + "\"" + value.dump() + "\"");
        errors_.push_back(std::move(error));
      }
    }
    if (value.is_array()) {
      if (schema.max_items && value.size() > *schema.max_items) {
        errors_.push_back(TooMany(path, value.size(), *schema.max_items));
      }
      if (schema.min_items && value.size() < *schema.min_items) {
        Say(path,
            value.size(),
            "should have at least " + std::to_string(*schema.min_items) + " items");
      }
    }
    if (value.is_object()) {
      if (schema.max_properties && value.size() > *schema.max_properties) {
        errors_.push_back(TooMany(path, value.size(), *schema.max_properties));
      }
      if (schema.min_properties && value.size() < *schema.min_properties) {
        Say(path,
            value.size(),
            "should have at least " + std::to_string(*schema.min_properties) + " properties");
      }
      for (const std::string& field : schema.required) {
        if (!value.contains(field)) {
          errors_.push_back(Required(JoinPath(path, field), ""));
        }
      }
    }
    if (!schema.enumeration.empty() &&
        std::ranges::find(schema.enumeration, value) == schema.enumeration.end()) {
      std::vector<std::string> supported;
      for (const Json& item : schema.enumeration) {
        supported.push_back(item.is_string() ? item.get<std::string>() : item.dump());
      }
      errors_.push_back(NotSupported(path, value, supported));
    }
    Junctors(schema, value, path);
  }

  void Junctors(const Schema& schema, const Json& value, const std::string& path) {
    const auto holds = [&](const Schema& inner, FieldErrors* why) {
      FieldErrors found;
      Validator(found).Node(inner, value, nullptr, path);
      const bool ok = found.empty();
      if (why != nullptr) {
        why->insert(why->end(), found.begin(), found.end());
      }
      return ok;
    };
    for (const Schema* inner : schema.junctors.all_of) {
      FieldErrors why;
      if (!holds(*inner, &why)) {
        errors_.insert(errors_.end(), why.begin(), why.end());
        errors_.push_back(
            Invalid(path, "", "\"" + path + "\" must validate all the schemas (allOf)"));
      }
    }
    if (!schema.junctors.any_of.empty() &&
        std::ranges::none_of(schema.junctors.any_of,
                             [&](const Schema* s) { return holds(*s, nullptr); })) {
      errors_.push_back(
          Invalid(path, "", "\"" + path + "\" must validate at least one schema (anyOf)"));
    }
    if (!schema.junctors.one_of.empty()) {
      const auto count = std::ranges::count_if(schema.junctors.one_of,
                                               [&](const Schema* s) { return holds(*s, nullptr); });
      if (count != 1) {
        errors_.push_back(
            Invalid(path,
                    "",
                    "\"" + path + "\" must validate one and only one schema (oneOf). " +
                        (count == 0 ? std::string("Found none valid")
                                    : "Found " + std::to_string(count) + " valid alternatives")));
      }
    }
    if (schema.junctors.not_ != nullptr && holds(*schema.junctors.not_, nullptr)) {
      errors_.push_back(Invalid(path, "", "\"" + path + "\" must not validate the schema (not)"));
    }
  }

  FieldErrors& errors_;
};

void ListTypes(const Schema& schema,
               const Json& value,
               const std::string& path,
               FieldErrors& errors) {
  if (!schema.has_list_types) {
    return;
  }
  if (value.is_object()) {
    for (const auto& [key, item] : value.items()) {
      if (const Schema* child = schema.Property(key)) {
        ListTypes(*child,
                  item,
                  schema.properties.contains(key) ? JoinPath(path, key) : path + "[" + key + "]",
                  errors);
      }
    }
    return;
  }
  if (!value.is_array()) {
    return;
  }
  if (schema.list_type != Schema::ListType::kAtomic && value.size() > 1) {
    // Each value that occurs again is reported once, at its second place.
    std::map<Json, int> seen;
    for (std::size_t i = 0; i < value.size(); ++i) {
      Json key = value[i];
      if (schema.list_type == Schema::ListType::kMap) {
        key = Json::object();
        for (const std::string& field : schema.list_map_keys) {
          if (const Json* part = Member(value[i], field)) {
            key[field] = *part;
          }
        }
      }
      if (++seen[key] == 2) {
        errors.push_back(Duplicate(path + "[" + std::to_string(i) + "]", key));
      }
    }
  }
  if (schema.items != nullptr) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      ListTypes(*schema.items, value[i], path + "[" + std::to_string(i) + "]", errors);
    }
  }
}

void PruneNode(const Schema& schema,
               Json& value,
               const std::string& path,
               bool root,
               std::vector<std::string>* unknown) {
  if (value.is_array()) {
    if (schema.items != nullptr) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        PruneNode(*schema.items,
                  value[i],
                  unknown == nullptr ? path : path + "[" + std::to_string(i) + "]",
                  false,
                  unknown);
      }
    }
    return;
  }
  if (!value.is_object()) {
    return;
  }
  for (auto it = value.begin(); it != value.end();) {
    const Schema* child = schema.Property(it.key());
    if ((root || schema.embedded_resource) &&
        (it.key() == "metadata" || it.key() == "apiVersion" || it.key() == "kind")) {
      ++it;
      continue;
    }
    if (child == nullptr && schema.preserve_unknown) {
      ++it;
      continue;
    }
    if (child == nullptr) {
      if (unknown != nullptr) {
        unknown->push_back(JoinPath(path, it.key()));
      }
      it = value.erase(it);
      continue;
    }
    PruneNode(
        *child, it.value(), unknown == nullptr ? path : JoinPath(path, it.key()), false, unknown);
    ++it;
  }
}

void DefaultNode(const Schema& schema, Json& value) {
  if (!schema.has_defaults) {
    return;
  }
  if (value.is_object()) {
    for (const auto& [key, child] : schema.properties) {
      if (!child->has_defaults) {
        continue;
      }
      auto it = value.find(key);
      if (child->default_value && (it == value.end() || (it->is_null() && !child->nullable))) {
        value[key] = *child->default_value;
        it = value.find(key);
      }
      if (it != value.end()) {
        DefaultNode(*child, *it);
      }
    }
    if (schema.additional != nullptr && schema.additional->has_defaults) {
      for (auto& [key, item] : value.items()) {
        if (!schema.properties.contains(key)) {
          DefaultNode(*schema.additional, item);
        }
      }
    }
  } else if (value.is_array() && schema.items != nullptr) {
    for (Json& item : value) {
      DefaultNode(*schema.items, item);
    }
  }
}

// The decoder of the builtin kinds.
class Decoder {
 public:
  Decoder(std::string_view kind, std::vector<std::string>* unknown)
      : holder_(kind), unknown_(unknown) {}

  bool Node(const Schema& schema, Json& value, const std::string& path, int depth) {
    if (depth > kMaxJsonDepth) {
      return Wrong("a deeply nested value", "value", path);
    }
    switch (schema.type) {
      case Schema::Type::kAny:
        return true;
      case Schema::Type::kObject:
        return value.is_object() ? Object(schema, value, path, depth) : Wrong(schema, value, path);
      case Schema::Type::kArray:
        if (!value.is_array()) {
          return Wrong(schema, value, path);
        }
        if (schema.items != nullptr) {
          for (Json& item : value) {
            if (!Node(*schema.items, item, path, depth + 1)) {
              return false;
            }
          }
        }
        return true;
      case Schema::Type::kString:
        return String(schema, value, path);
      case Schema::Type::kInteger: {
        if (value.is_number_float() && IsIntegral(value) && std::abs(value.get<double>()) < 9e15) {
          value = static_cast<std::int64_t>(value.get<double>());
        }
        if (!value.is_number_integer()) {
          return Wrong(schema, value, path);
        }
        const bool wide = value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX;
        if (wide || (schema.format == "int32" && (value.get<std::int64_t>() > INT32_MAX ||
                                                  value.get<std::int64_t>() < INT32_MIN))) {
          return Wrong(
              "number " + value.dump(), schema.format.empty() ? "int64" : schema.format, path);
        }
        return true;
      }
      case Schema::Type::kNumber:
        return value.is_number() || Wrong(schema, value, path);
      case Schema::Type::kBoolean:
        return value.is_boolean() || Wrong(schema, value, path);
      case Schema::Type::kIntOrString:
        return value.is_string() || value.is_number_integer() || Wrong(schema, value, path);
    }
    return true;
  }

  std::string error;

 private:
  bool Wrong(const std::string& found, const std::string& wanted, const std::string& path) {
    error = "json: cannot unmarshal " + found + " into Go struct field " + holder_ +
            (path.empty() ? "" : "." + path) + " of type " + wanted;
    return false;
  }
  bool Wrong(const Schema& schema, const Json& value, const std::string& path) {
    const std::string found = value.is_boolean()      ? "bool"
                              : value.is_number()     ? "number"
                              : value.is_structured() ? std::string(value.type_name())
                                                      : "string";
    std::string wanted;
    if (!schema.name.empty()) {
      const std::size_t dot = schema.name.rfind('.');
      wanted = "v1." + schema.name.substr(dot == std::string::npos ? 0 : dot + 1);
    } else if (schema.type == Schema::Type::kInteger) {
      wanted = schema.format.empty() ? "int64" : schema.format;
    } else if (schema.type == Schema::Type::kBoolean) {
      wanted = "bool";
    } else if (schema.type == Schema::Type::kArray) {
      wanted = "[]" + (schema.items != nullptr && !schema.items->name.empty()
                           ? "v1." + schema.items->name.substr(schema.items->name.rfind('.') + 1)
                           : std::string("string"));
    } else if (schema.type == Schema::Type::kObject) {
      wanted = "map[string]string";
    } else {
      wanted = TypeName(schema.type);
    }
    return Wrong(found, wanted, path);
  }

  bool String(const Schema& schema, Json& value, const std::string& path) {
    if (schema.form == Schema::Form::kQuantity) {
      const std::string text = value.is_string()   ? value.get<std::string>()
                               : value.is_number() ? value.dump()
                                                   : "";
      const auto quantity = api::Quantity::Parse(text);
      if (!quantity || text.empty()) {
        error =
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        return false;
      }
      value = quantity->ToString();
      return true;
    }
    if (!value.is_string()) {
      return Wrong(schema, value, path);
    }
    if (schema.form == Schema::Form::kTime || schema.form == Schema::Form::kMicroTime) {
      const auto time = ParseTime(value.get_ref<const std::string&>());
      if (!time) {
        error = "parsing time \"" + value.get<std::string>() +
                "\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"" + value.get<std::string>() +
                "\"";
        return false;
      }
      value = schema.form == Schema::Form::kTime ? FormatTime(*time) : FormatMicroTime(*time);
    }
    return true;
  }

  bool Object(const Schema& schema, Json& value, const std::string& path, int depth) {
    const bool free_form = schema.properties.empty() && schema.additional == nullptr;
    if (free_form) {
      return true;
    }
    // Messages name the innermost type, as Go does.
    const std::string outer = holder_;
    if (!schema.name.empty() && depth > 0) {
      holder_ = schema.name.substr(schema.name.rfind('.') + 1);
    }
    for (auto it = value.begin(); it != value.end();) {
      const Schema* child = schema.Property(it.key());
      if (child == nullptr) {
        if (unknown_ != nullptr) {
          unknown_->push_back(JoinPath(path, it.key()));
        }
        it = value.erase(it);
        continue;
      }
      if (it->is_null() && child->type != Schema::Type::kAny) {
        it = value.erase(it);
        continue;
      }
      const std::string inner = JoinPath(path, it.key());
      if (!Node(*child, it.value(), inner, depth + 1)) {
        return false;
      }
      // What a Go type with omitempty does not print does not exist. Values of maps are kept.
      const bool named = schema.properties.contains(it.key());
      const bool empty = (it->is_array() && it->empty()) ||
                         (it->is_object() && it->empty() && child->is_map()) ||
                         (it->is_string() && it->get_ref<const std::string&>().empty() &&
                          it.key() != "storageClassName");
      if (named && empty && std::ranges::find(schema.required, it.key()) == schema.required.end()) {
        it = value.erase(it);
        continue;
      }
      ++it;
    }
    holder_ = outer;
    return true;
  }

  std::string holder_;
  std::vector<std::string>* unknown_;
};

}  // namespace

Schema::Schema() = default;
Schema::~Schema() = default;

const Schema* Schema::Property(std::string_view key) const {
  const auto it = properties.find(key);
  return it == properties.end() ? additional : it->second;
}

std::string JoinPath(std::string_view path, std::string_view field) {
  std::string out(path);
  if (!out.empty()) {
    out += '.';
  }
  out += field;
  return out;
}

Result<std::shared_ptr<const Schema>> ReadSchema(const Json& open_api) {
  auto pool = std::make_shared<Pool>();
  MUSTER_ASSIGN_OR_RETURN(const Schema* root, ReadNode(*pool, open_api, "openAPIV3Schema", 0));
  return std::shared_ptr<const Schema>(std::move(pool), root);
}

BuiltinTypes::BuiltinTypes()
    : definitions_(ParseJson(kBuiltinTypes)), pool_(std::make_shared<std::deque<Schema>>()) {
  std::map<std::string, Schema*, std::less<>> writable;
  for (const auto& [name, definition] : definitions_.items()) {
    Schema& schema = pool_->emplace_back();
    schema.name = name;
    writable.emplace(name, &schema);
    by_name_.emplace(name, &schema);
    if (const Json* kinds = Member(definition, "x-kubernetes-group-version-kind")) {
      for (const Json& kind : *kinds) {
        by_kind_.emplace(
            TextAt(kind, "group") + "/" + TextAt(kind, "version") + "/" + TextAt(kind, "kind"),
            name);
      }
    }
  }
  const auto resolve = [&](const auto& self, const Json& node) -> const Schema* {
    const std::string ref = TextAt(node, "$ref");
    const bool decorated = node.contains("x-kubernetes-list-type") || node.contains("default") ||
                           node.contains("x-kubernetes-map-type") ||
                           node.contains("x-kubernetes-patch-strategy");
    if (!ref.empty() && !decorated) {
      const auto it = by_name_.find(ref.substr(ref.rfind('/') + 1));
      return it == by_name_.end() ? nullptr : it->second;
    }
    Schema& schema = pool_->emplace_back();
    if (!ref.empty()) {
      // A reference with something of its own: the definition's fields, filled in below when all
      // definitions are read.
      schema.name = ref.substr(ref.rfind('/') + 1);
    }
    ReadCommon(node, schema);
    schema.patch_merge_key = TextAt(node, "x-kubernetes-patch-merge-key");
    const std::string strategy = TextAt(node, "x-kubernetes-patch-strategy");
    schema.patch_merge = strategy.contains("merge");
    schema.patch_retain_keys = strategy.contains("retainKeys");
    if (const Json* items = Member(node, "items")) {
      schema.items = self(self, *items);
    }
    if (const Json* additional = Member(node, "additionalProperties")) {
      schema.additional = self(self, *additional);
    }
    return &schema;
  };
  for (const auto& [name, definition] : definitions_.items()) {
    Schema& schema = *writable[name];
    ReadCommon(definition, schema);
    if (const Json* properties = Member(definition, "properties")) {
      for (const auto& [key, value] : properties->items()) {
        schema.properties.emplace(key, resolve(resolve, value));
      }
    }
    if (name.ends_with(".Quantity")) {
      schema.form = Schema::Form::kQuantity;
    } else if (name.ends_with(".IntOrString")) {
      schema.type = Schema::Type::kIntOrString;
    } else if (name.ends_with(".MicroTime")) {
      schema.form = Schema::Form::kMicroTime;
    } else if (name.ends_with("meta.v1.Time")) {
      schema.form = Schema::Form::kTime;
    } else if (name.ends_with(".JSON") || name.ends_with(".JSONSchemaPropsOrBool") ||
               name.ends_with(".JSONSchemaPropsOrArray") ||
               name.ends_with(".JSONSchemaPropsOrStringArray") || name.ends_with(".RawExtension") ||
               name.ends_with(".FieldsV1")) {
      schema.type = Schema::Type::kAny;
    }
  }
  for (Schema& schema : *pool_) {
    if (!schema.name.empty() && schema.properties.empty() && !writable.contains(schema.name)) {
      continue;
    }
    if (const auto it = writable.find(schema.name); it != writable.end() && it->second != &schema) {
      const Schema& base = *it->second;
      schema.properties = base.properties;
      schema.additional = base.additional;
      schema.items = base.items;
      schema.type = base.type;
      schema.form = base.form;
      schema.required = base.required;
      schema.atomic_map = schema.atomic_map || base.atomic_map;
    }
  }
  // Recursive types make a bottom-up pass awkward; builtin defaults are few, so every node is
  // walked.
  for (Schema& schema : *pool_) {
    schema.has_defaults = true;
  }
}

const BuiltinTypes& BuiltinTypes::Get() {
  static const BuiltinTypes kTypes;
  return kTypes;
}

std::string BuiltinTypes::DefinitionName(std::string_view group,
                                         std::string_view version,
                                         std::string_view kind) const {
  const auto it =
      by_kind_.find(std::string(group) + "/" + std::string(version) + "/" + std::string(kind));
  return it == by_kind_.end() ? std::string() : it->second;
}

const Schema* BuiltinTypes::Definition(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second;
}

std::shared_ptr<const Schema> BuiltinTypes::Find(std::string_view group,
                                                 std::string_view version,
                                                 std::string_view kind) const {
  const Schema* schema = Definition(DefinitionName(group, version, kind));
  return schema == nullptr ? nullptr : std::shared_ptr<const Schema>(pool_, schema);
}

void ApplyDefaults(const Schema& schema, Json& value) {
  DefaultNode(schema, value);
}

void Prune(const Schema& schema, Json& value, std::vector<std::string>* unknown) {
  PruneNode(schema, value, "", true, unknown);
}

std::expected<void, std::string> Canonicalize(const Schema& schema,
                                              std::string_view kind,
                                              Json& value,
                                              std::vector<std::string>* unknown) {
  Decoder decoder(kind, unknown);
  if (!decoder.Node(schema, value, "", 0)) {
    return std::unexpected(std::move(decoder.error));
  }
  return {};
}

void ValidateValues(const Schema& schema, const Json& value, const Json* old, FieldErrors& errors) {
  Validator(errors).Node(schema, value, old, "");
}

void ValidateListTypes(const Schema& schema, const Json& value, FieldErrors& errors) {
  ListTypes(schema, value, "", errors);
}

const Json* FindByKeys(const Json& list, const Json& item, const Schema& list_schema) {
  if (!list.is_array() || !item.is_object()) {
    return nullptr;
  }
  for (const Json& candidate : list) {
    if (std::ranges::all_of(list_schema.list_map_keys, [&](const std::string& key) {
          const auto part = [&](const Json& object) {
            const Json* value = Member(object, key);
            const Schema* child =
                list_schema.items == nullptr ? nullptr : list_schema.items->Property(key);
            return value == nullptr && child != nullptr && child->default_value
                       ? &*child->default_value
                       : value;
          };
          const Json* a = part(candidate);
          const Json* b = part(item);
          return a == nullptr ? b == nullptr : b != nullptr && *a == *b;
        })) {
      return &candidate;
    }
  }
  return nullptr;
}

}  // namespace muster::sim
