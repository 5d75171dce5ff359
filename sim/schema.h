#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/json.h"
#include "base/result.h"
#include "sim/failure.h"

namespace re2 {
class RE2;
}  // namespace re2

// Schemas of objects: those of custom resource definitions, and the shapes of the builtin kinds in
// the same form.
namespace muster::sim {

using api::Json;

struct CompiledRule;  // sim/rules.h

// One node of a schema.
//
// Shape    Nodes refer to each other inside one pool; builtin types refer to themselves in places.
// Immutable once built. Threads  A value shared as std::shared_ptr<const Schema>.
class Schema {
 public:
  enum class Type : std::uint8_t {
    kAny,
    kObject,
    kArray,
    kString,
    kInteger,
    kNumber,
    kBoolean,
    kIntOrString
  };
  enum class ListType : std::uint8_t { kAtomic, kSet, kMap };
  // Strings of builtin kinds that the server rewrites in their canonical form.
  enum class Form : std::uint8_t { kPlain, kQuantity, kTime, kMicroTime };

  struct Rule {
    std::string rule;
    std::string message;
    std::string message_expression;
    std::string reason;
    std::string field_path;
    bool optional_old_self = false;
  };
  // Pure value validations: allOf, anyOf, oneOf, not.
  struct Junctors {
    std::vector<const Schema*> all_of;
    std::vector<const Schema*> any_of;
    std::vector<const Schema*> one_of;
    const Schema* not_ = nullptr;
  };

  Schema();
  ~Schema();
  Schema(const Schema&) = delete;
  Schema& operator=(const Schema&) = delete;

  std::string name;  // of a builtin definition
  Type type = Type::kAny;
  Form form = Form::kPlain;
  bool nullable = false;
  bool preserve_unknown = false;
  bool embedded_resource = false;
  std::map<std::string, const Schema*, std::less<>> properties;
  const Schema* additional = nullptr;  // additionalProperties
  const Schema* items = nullptr;
  ListType list_type = ListType::kAtomic;
  bool list_type_given = false;
  std::vector<std::string> list_map_keys;
  bool atomic_map = false;
  // Strategic merge of builtin kinds.
  std::string patch_merge_key;
  bool patch_merge = false;
  bool patch_retain_keys = false;
  std::optional<Json> default_value;
  std::vector<std::string> required;

  std::string format;
  std::string pattern;
  std::unique_ptr<re2::RE2> pattern_program;
  std::optional<double> minimum;
  std::optional<double> maximum;
  bool exclusive_minimum = false;
  bool exclusive_maximum = false;
  std::optional<double> multiple_of;
  std::optional<std::size_t> min_length;
  std::optional<std::size_t> max_length;
  std::optional<std::size_t> min_items;
  std::optional<std::size_t> max_items;
  std::optional<std::size_t> min_properties;
  std::optional<std::size_t> max_properties;
  std::vector<Json> enumeration;
  Junctors junctors;
  std::vector<Rule> rules;
  // Compiled on first use; one entry a rule.
  mutable std::vector<std::shared_ptr<const CompiledRule>> compiled;

  mutable bool has_transitions =
      false;  // a rule here or below reads oldSelf; known once the rules are compiled

  bool has_defaults = false;    // here or below
  bool has_rules = false;       // here or below
  bool has_list_types = false;  // sets or maps, here or below

  [[nodiscard]] bool is_map() const { return additional != nullptr && properties.empty(); }
  [[nodiscard]] const Schema* Property(std::string_view key) const;
};

// Reads openAPIV3Schema of a custom resource definition. `metadata`, `apiVersion` and `kind` of the
// root need not be described. Errors   kInvalid with the path of the offending node (a pattern that
// does not compile, nesting beyond 100 levels).
[[nodiscard]] Result<std::shared_ptr<const Schema>> ReadSchema(const Json& open_api);

// The shapes of the builtin kinds, from the definitions that are compiled in.
class BuiltinTypes {
 public:
  [[nodiscard]] static const BuiltinTypes& Get();
  // Null when the kind is not known.
  [[nodiscard]] std::shared_ptr<const Schema> Find(std::string_view group,
                                                   std::string_view version,
                                                   std::string_view kind) const;
  [[nodiscard]] std::string DefinitionName(std::string_view group,
                                           std::string_view version,
                                           std::string_view kind) const;
  // A definition by its full name; null when there is none.
  [[nodiscard]] const Schema* Definition(std::string_view name) const;
  // OpenAPI definitions by full name, without descriptions.
  [[nodiscard]] const Json& definitions() const { return definitions_; }

 private:
  BuiltinTypes();
  Json definitions_;
  std::shared_ptr<std::deque<Schema>> pool_;
  std::map<std::string, const Schema*, std::less<>> by_name_;
  std::map<std::string, std::string, std::less<>> by_kind_;  // "group/version/kind" -> name
};

// Sets what is absent and has a default. A null where null is not allowed counts as absent when
// there is a default.
void ApplyDefaults(const Schema& schema, Json& value);

// Removes what the schema does not know; `unknown` (may be null) gets the paths.
void Prune(const Schema& schema, Json& value, std::vector<std::string>* unknown);

// Makes an object of a builtin kind what it is after a round through the server's own types: nulls
// and empty optional lists, maps and strings vanish, quantities and times take their canonical
// form, unknown fields are removed and named. The error is the text of the server's decoder.
[[nodiscard]] std::expected<void, std::string> Canonicalize(const Schema& schema,
                                                            std::string_view kind,
                                                            Json& value,
                                                            std::vector<std::string>* unknown);

// Types, formats, limits, enumerations, required fields. `old` (may be null) is what the object
// was: what has not changed is not refused.
void ValidateValues(const Schema& schema, const Json& value, const Json* old, FieldErrors& errors);
// Keys of list maps and items of sets are unique.
void ValidateListTypes(const Schema& schema, const Json& value, FieldErrors& errors);

// The item of `list` with the same keys as `item`, or nullptr.
[[nodiscard]] const Json* FindByKeys(const Json& list, const Json& item, const Schema& list_schema);

// "a.b", or "b" at the root.
[[nodiscard]] std::string JoinPath(std::string_view path, std::string_view field);

}  // namespace muster::sim
