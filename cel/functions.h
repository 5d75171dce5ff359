#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cel/ast.h"
#include "cel/type.h"
#include "cel/value.h"

namespace muster::cel {

// What a function sees of its call.
struct Call {
  const Node& node;
  std::span<const Value> args;
  std::int64_t& budget;

  // Takes steps; the evaluator stops once the budget is below zero. Call it before doing work of
  // that size.
  void Charge(std::int64_t steps) const { budget = budget < steps ? -1 : budget - steps; }
  [[nodiscard]] bool exhausted() const { return budget < 0; }
  // Charges a tenth of the size of argument `index`, rounded up, `factor` times.
  void ChargeScan(std::size_t index, std::int64_t factor = 1) const;
};

// Size as the cost model sees it: code points, bytes, elements, or 1.
[[nodiscard]] std::int64_t SizeOf(const Value& value);

using Implementation = Result<Value> (*)(const Call& call);

// How a call is charged before it runs.
enum class Cost : std::uint8_t {
  kOne,
  kScan,      // a tenth of the first argument
  kTwoScans,  // twice that
  kTraverse,  // every element of the first argument
  kSelf,      // the implementation charges
};

struct Overload {
  bool member = false;
  std::vector<Type> args;
  Type result;
  Implementation implementation = nullptr;
  Cost cost = Cost::kOne;
};

struct Function {
  std::string name;
  std::vector<Overload> overloads;
  bool mutation_only = false;
};

// One line of a library's table. Types are written "string", "list<A>", "map<K,V>", "opt<V>";
// capital letters are type parameters.
struct Declaration {
  const char* name;
  bool member;
  const char* args;  // separated by ';'
  const char* result;
  Implementation implementation;
  Cost cost = Cost::kOne;
};

// null when there is no such function.
[[nodiscard]] const Function* FindFunction(std::string_view name);
// The type that a name such as "int" or "google.protobuf.Timestamp" stands for, or null.
[[nodiscard]] Type FindTypeName(std::string_view name);
// Whether a runtime value may be passed where `type` is declared (parameters of types are not
// looked at).
[[nodiscard]] bool Accepts(const Type& type, const Value& value);

// The libraries' tables.
[[nodiscard]] std::span<const Declaration> StandardFunctions();
[[nodiscard]] std::span<const Declaration> TimeFunctions();
[[nodiscard]] std::span<const Declaration> StringFunctions();
[[nodiscard]] std::span<const Declaration> ListFunctions();
[[nodiscard]] std::span<const Declaration> KubernetesFunctions();
[[nodiscard]] std::span<const Declaration> NetworkFunctions();
[[nodiscard]] std::span<const Declaration> AuthorizerFunctions();

// Compiles a pattern under the limits of the project. Errors   kInvalid: RE2's message.
[[nodiscard]] Result<std::shared_ptr<const re2::RE2>> CompileRegex(std::string_view pattern);

[[nodiscard]] inline std::unexpected<Error> Fail(std::string message) {
  return std::unexpected(Error::Invalid(std::move(message)));
}
[[nodiscard]] inline std::unexpected<Error> NoSuchOverload() {
  return Fail("no such overload");
}

}  // namespace muster::cel
