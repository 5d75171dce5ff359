#include "api/metadata.h"

#include <algorithm>

namespace muster::api {

const OwnerReference* ObjectMeta::controller() const {
  const auto it = std::ranges::find_if(owner_references, &OwnerReference::controller);
  return it == owner_references.end() ? nullptr : &*it;
}

bool ObjectMeta::HasFinalizer(std::string_view finalizer) const {
  return std::ranges::find(finalizers, finalizer) != finalizers.end();
}

const std::string* ObjectMeta::Label(std::string_view key) const {
  const auto it = labels.find(key);
  return it == labels.end() ? nullptr : &it->second;
}

const std::string* ObjectMeta::Annotation(std::string_view key) const {
  const auto it = annotations.find(key);
  return it == annotations.end() ? nullptr : &it->second;
}

const Condition* FindCondition(const std::vector<Condition>& conditions, std::string_view type) {
  const auto it = std::ranges::find(conditions, type, &Condition::type);
  return it == conditions.end() ? nullptr : &*it;
}

bool ConditionTrue(const std::vector<Condition>& conditions, std::string_view type) {
  const Condition* condition = FindCondition(conditions, type);
  return condition != nullptr && condition->is_true();
}

bool Matches(const LabelSelector& selector, const StringMap& labels) {
  if (!selector.present) {
    return false;
  }
  for (const auto& [key, value] : selector.match_labels) {
    const auto it = labels.find(key);
    if (it == labels.end() || it->second != value) {
      return false;
    }
  }
  return std::ranges::all_of(selector.match_expressions, [&](const LabelSelectorRequirement& r) {
    const auto it = labels.find(r.key);
    const bool exists = it != labels.end();
    const bool listed = exists && std::ranges::find(r.values, it->second) != r.values.end();
    if (r.op == "In") {
      return listed;
    }
    if (r.op == "NotIn") {
      return !listed;
    }
    if (r.op == "Exists") {
      return exists;
    }
    if (r.op == "DoesNotExist") {
      return !exists;
    }
    return false;
  });
}

}  // namespace muster::api
