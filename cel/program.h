#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cel/type.h"
#include "cel/value.h"

namespace muster::cel {

// Upstream's limits: what one evaluation may cost, and what one expression may measure.
inline constexpr std::int64_t kPerCallBudget = 1'000'000;
inline constexpr std::size_t kMaxDeviceExpressionBytes = 10 * 1024;
inline constexpr std::size_t kMaxExpressionBytes = 100'000;
inline constexpr int kMaxDepth = 250;

// Which names an expression may use and what it must give.
struct Env {
  enum class Kind : std::uint8_t {
    kDevice,   // DRA selectors: `device`, cel.bind, result bool
    kCrdRule,  // x-kubernetes-validations: `self`, `oldSelf` and what the caller adds, result bool
               // (messageExpression: string)
    kAdmission,  // admission policies; `mutation` adds Object{...}, JSONPatch{...} and
                 // jsonpatch.escapeKey
  };
  struct Variable {
    std::string name;
    Type type;
  };
  Kind kind = Kind::kCrdRule;
  std::vector<Variable> variables;
  bool mutation = false;
  // The type that the whole expression must have; dyn accepts every type. A dyn expression is let
  // through and checked at run time.
  Type result = BoolType();

  // `device` typed as upstream types it; result bool (or dyn).
  [[nodiscard]] static Env Device();
  // self and oldSelf as dyn unless a type is given.
  [[nodiscard]] static Env CrdRule(Type self = DynType());
  // object, oldObject, request, params, namespaceObject, authorizer, variables, all dyn.
  [[nodiscard]] static Env Admission(Type result = BoolType());
  [[nodiscard]] static Env
  Mutation();  // result dyn; the caller tells Object from list of JSONPatch
};

// The values of an Env's variables at run time.
class Activation {
 public:
  virtual ~Activation() = default;
  // nullopt: "no such attribute". An Error makes the sub-expression fail with it (it can be
  // absorbed by && and ||).
  [[nodiscard]] virtual Result<std::optional<Value>> Find(std::string_view name) const = 0;
};

// A few variables by name.
class MapActivation final : public Activation {
 public:
  MapActivation() = default;
  MapActivation(std::initializer_list<std::pair<std::string, Value>> variables);
  void Set(std::string name, Value value);
  // Computed when first asked for, at most once.
  void SetLazy(std::string name, std::function<Result<Value>()> compute);
  [[nodiscard]] Result<std::optional<Value>> Find(std::string_view name) const override;

 private:
  struct Slot {
    std::string name;
    std::function<Result<Value>()> compute;
    mutable std::optional<Result<Value>> value;
  };
  std::vector<Slot> slots_;
};

struct Node;  // the checked syntax tree, cel/ast.h

// A compiled expression.
//
// Errors   Compile: kInvalid with "ERROR: <input>:line:column: message". Run: kInvalid with what
// upstream says ("no such key: mem",
//          "division by zero", "no such overload"), and kDenied when the budget is used up.
// Threads  A value, shared as is: running does not change it.
// Cost     Run takes steps from `budget` by upstream's runtime cost model and stops when it is
// below zero. Source   cel-spec doc/langdef.md; k8s.io/apiserver pkg/cel/library.
class Program {
 public:
  [[nodiscard]] static Result<Program> Compile(std::string_view text, const Env& env);
  [[nodiscard]] Result<Value> Run(const Activation& activation, std::int64_t& budget) const;
  // Run for expressions that must give a bool.
  [[nodiscard]] Result<bool> RunBool(const Activation& activation, std::int64_t& budget) const;
  [[nodiscard]] const Type& result_type() const { return result_type_; }
  // Names of the Env's variables that the expression reads, sorted (a rule that reads oldSelf is a
  // transition rule).
  [[nodiscard]] const std::vector<std::string>& variables() const { return variables_; }

 private:
  std::shared_ptr<const Node> root_;
  Type result_type_;
  std::vector<std::string> variables_;
  int slots_ = 0;
};

}  // namespace muster::cel
