#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/json.h"
#include "sim/failure.h"

// labelSelector and fieldSelector of list and watch requests, and LabelSelector objects inside
// policies.
namespace muster::sim {

class LabelMatcher {
 public:
  // "a=b,c!=d,e in (x,y),!f". Empty matches everything.
  [[nodiscard]] static Outcome<LabelMatcher> Parse(std::string_view text);
  // metav1.LabelSelector as JSON: null matches nothing, {} everything.
  [[nodiscard]] static LabelMatcher FromObject(const Json& selector);

  [[nodiscard]] bool Matches(const Json& object) const;        // by metadata.labels
  [[nodiscard]] bool MatchesLabels(const Json* labels) const;  // nullptr: no labels
  [[nodiscard]] bool everything() const { return requirements_.empty() && !nothing_; }

 private:
  enum class Op : std::uint8_t { kIn, kNotIn, kExists, kDoesNotExist, kGreater, kLess };
  struct Requirement {
    std::string key;
    Op op = Op::kIn;
    std::vector<std::string> values;
  };
  std::vector<Requirement> requirements_;
  bool nothing_ = false;
};

class FieldMatcher {
 public:
  // `allowed` are the paths that the resource supports, metadata.name and metadata.namespace aside.
  [[nodiscard]] static Outcome<FieldMatcher> Parse(std::string_view text,
                                                   std::string_view kind,
                                                   const std::vector<std::string>& allowed);
  [[nodiscard]] bool Matches(const Json& object) const;
  [[nodiscard]] bool everything() const { return requirements_.empty(); }
  // The name that metadata.name=... demands, or empty.
  [[nodiscard]] std::string name() const;

 private:
  struct Requirement {
    std::vector<std::string> path;
    std::string value;
    bool equal = true;
  };
  std::vector<Requirement> requirements_;
};

// The value at a dotted path, or nullptr.
[[nodiscard]] const Json* At(const Json& object, std::string_view dotted);

}  // namespace muster::sim
