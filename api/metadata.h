#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"

namespace muster::api {

using StringMap = std::map<std::string, std::string, std::less<>>;

// namespace/name; the namespace is empty for cluster-scoped objects. Ordered, so that iteration is
// deterministic.
struct ObjectKey {
  std::string ns;
  std::string name;

  friend auto operator<=>(const ObjectKey&, const ObjectKey&) = default;
  [[nodiscard]] std::string ToString() const { return ns.empty() ? name : ns + "/" + name; }
};

struct OwnerReference {
  std::string api_version;
  std::string kind;
  std::string name;
  std::string uid;
  bool controller = false;
};

struct ObjectMeta {
  std::string ns;
  std::string name;
  std::string uid;
  std::string resource_version;  // opaque
  std::int64_t generation = 0;
  TimePoint creation_timestamp{};
  std::optional<TimePoint> deletion_timestamp;
  StringMap labels;
  StringMap annotations;
  std::vector<OwnerReference> owner_references;
  std::vector<std::string> finalizers;

  [[nodiscard]] ObjectKey key() const { return ObjectKey{.ns = ns, .name = name}; }
  [[nodiscard]] bool deleting() const { return deletion_timestamp.has_value(); }
  [[nodiscard]] const OwnerReference* controller() const;
  [[nodiscard]] bool HasFinalizer(std::string_view finalizer) const;
  // The value, or nullptr.
  [[nodiscard]] const std::string* Label(std::string_view key) const;
  [[nodiscard]] const std::string* Annotation(std::string_view key) const;
};

// metav1.Condition.
struct Condition {
  std::string type;
  std::string status;  // "True", "False", "Unknown"
  std::string reason;
  std::string message;
  std::optional<TimePoint> last_transition_time;
  std::int64_t observed_generation = 0;

  friend bool operator==(const Condition&, const Condition&) = default;
  [[nodiscard]] bool is_true() const { return status == "True"; }
};

[[nodiscard]] const Condition* FindCondition(const std::vector<Condition>& conditions,
                                             std::string_view type);
[[nodiscard]] bool ConditionTrue(const std::vector<Condition>& conditions, std::string_view type);

// metav1.LabelSelector. `present` is false for a null selector, which matches nothing.
struct LabelSelectorRequirement {
  std::string key;
  std::string op;  // In, NotIn, Exists, DoesNotExist
  std::vector<std::string> values;
};
struct LabelSelector {
  bool present = false;
  StringMap match_labels;
  std::vector<LabelSelectorRequirement> match_expressions;
};
// An empty selector matches everything; a null one nothing; an unknown operator nothing.
[[nodiscard]] bool Matches(const LabelSelector& selector, const StringMap& labels);

}  // namespace muster::api
