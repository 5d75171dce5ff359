#include "cel/program.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "cel/ast.h"
#include "cel/checker.h"
#include "cel/functions.h"
#include "cel/parser.h"
#include "cel/value_internal.h"

namespace muster::cel {
namespace {

using Kind = Value::Kind;

constexpr std::int64_t kSelectCost = 1;
constexpr std::int64_t kListCost = 10;
constexpr std::int64_t kMapCost = 30;
constexpr std::int64_t kStructCost = 40;

// Walks the tree. Recursion is as deep as the tree, which the parser has bounded.
class Evaluator {
 public:
  Evaluator(const Activation& activation, std::int64_t& budget, int slots)
      : activation_(activation), budget_(budget), locals_(static_cast<std::size_t>(slots)) {}

  Result<Value> Eval(const Node& node) {
    Result<Value> result = Dispatch(node);
    if (budget_ < 0) {
      return std::unexpected(Error{.code = ErrorCode::kDenied,
                                   .message = "operation cancelled: actual cost limit exceeded"});
    }
    return result;
  }

 private:
  void Charge(std::int64_t steps) { budget_ = budget_ < steps ? -1 : budget_ - steps; }

  Result<Value> Dispatch(const Node& node) {
    switch (node.kind) {
      case Node::Kind::kConst:
        return node.value;
      case Node::Kind::kIdent:
        return Ident(node);
      case Node::Kind::kSelect:
        return Select(node);
      case Node::Kind::kIndex:
        return Index(node);
      case Node::Kind::kCall:
        return CallFunction(node);
      case Node::Kind::kAnd:
        return Logical(node, false);
      case Node::Kind::kOr:
        return Logical(node, true);
      case Node::Kind::kTernary:
        return Ternary(node);
      case Node::Kind::kNot: {
        MUSTER_ASSIGN_OR_RETURN(const Value value, Eval(*node.children[0]));
        Charge(1);
        if (!value.is(Kind::kBool)) {
          return NoSuchOverload();
        }
        return Value::Bool(!value.bool_value());
      }
      case Node::Kind::kList:
        return List(node);
      case Node::Kind::kMap:
        return Map(node);
      case Node::Kind::kStruct:
        return Struct(node);
      case Node::Kind::kMacro:
        return Macro(node);
    }
    return NoSuchOverload();
  }

  Result<Value> Ident(const Node& node) {
    Charge(kSelectCost);
    if (node.slot >= 0) {
      return locals_[static_cast<std::size_t>(node.slot)];
    }
    MUSTER_ASSIGN_OR_RETURN(std::optional<Value> value, activation_.Find(node.name));
    if (!value) {
      return Fail("no such attribute(s): " + node.name);
    }
    return *std::move(value);
  }

  // Takes the inside out of an optional. `absent` is set for optional.none(), `was_optional` for
  // any optional.
  static Value Unwrap(Value value, bool& was_optional, bool& absent) {
    was_optional = value.is(Kind::kOptional);
    absent = false;
    if (was_optional) {
      auto inner = value.optional_value();
      absent = !inner.has_value();
      return inner ? *std::move(inner) : Value();
    }
    return value;
  }

  Result<Value> Select(const Node& node) {
    MUSTER_ASSIGN_OR_RETURN(Value operand, Eval(*node.children[0]));
    if (!node.test_only) {
      Charge(kSelectCost);
    }
    bool was_optional = false;
    bool absent = false;
    const Value target = Unwrap(std::move(operand), was_optional, absent);
    if (absent) {
      return node.test_only ? Value::Bool(false) : Value::None();
    }
    if (!target.is(Kind::kMap) && !target.is(Kind::kObject)) {
      return NoSuchOverload();
    }
    auto found = target.Find(Value::BorrowedString(node.name));
    if (node.test_only) {
      return Value::Bool(!found.has_value() || found->has_value() || target.Default().has_value());
    }
    if (!found) {
      return std::unexpected(std::move(found).error());
    }
    return Picked(
        target, *std::move(found), node.name, was_optional || node.optional, node.optional);
  }

  // What a selection gives: the value, the default of the map, optional.none(), or "no such key".
  Result<Value> Picked(const Value& target,
                       std::optional<Value> found,
                       std::string_view key,
                       bool wrap,
                       bool forgiving) {
    if (!found) {
      found = target.Default();
    }
    if (found) {
      return wrap ? Value::Some(*std::move(found)) : *std::move(found);
    }
    if (forgiving || wrap) {
      return Value::None();
    }
    return Fail("no such key: " + std::string(key));
  }

  Result<Value> Index(const Node& node) {
    MUSTER_ASSIGN_OR_RETURN(Value operand, Eval(*node.children[0]));
    MUSTER_ASSIGN_OR_RETURN(const Value key, Eval(*node.children[1]));
    Charge(kSelectCost);
    bool was_optional = false;
    bool absent = false;
    const Value target = Unwrap(std::move(operand), was_optional, absent);
    if (absent) {
      return Value::None();
    }
    const bool wrap = was_optional || node.optional;
    if (target.is(Kind::kList)) {
      const std::optional<std::int64_t> index = ListIndex(key);
      if (!index) {
        return Fail("unsupported index type '" + std::string(key.TypeName()) + "' in list");
      }
      if (*index < 0 || static_cast<std::uint64_t>(*index) >= target.size()) {
        if (wrap) {
          return Value::None();
        }
        return Fail("index out of bounds: " + std::to_string(*index));
      }
      Value item = target.At(static_cast<std::size_t>(*index));
      return wrap ? Value::Some(std::move(item)) : item;
    }
    if (!target.is(Kind::kMap) && !target.is(Kind::kObject)) {
      return NoSuchOverload();
    }
    MUSTER_ASSIGN_OR_RETURN(std::optional<Value> found, target.Find(key));
    const std::string name =
        key.is(Kind::kString) ? std::string(key.string_value()) : key.DebugString();
    return Picked(target, std::move(found), name, wrap, node.optional);
  }

  static std::optional<std::int64_t> ListIndex(const Value& key) {
    switch (key.kind()) {
      case Kind::kInt:
        return key.int_value();
      case Kind::kUint:
        return key.uint_value() >
                       static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())
                   ? -1
                   : static_cast<std::int64_t>(key.uint_value());
      case Kind::kDouble: {
        const double number = key.double_value();
        if (std::trunc(number) != number || std::fabs(number) > 9e15) {
          return std::nullopt;
        }
        return static_cast<std::int64_t>(number);
      }
      default:
        return std::nullopt;
    }
  }

  Result<Value> CallFunction(const Node& node) {
    if (node.member && (node.name == "or" || node.name == "orValue")) {
      return OptionalOr(node);
    }
    constexpr std::size_t kInline = 4;
    std::array<Value, kInline> inline_args;
    std::vector<Value> more_args;
    const std::size_t count = node.children.size();
    if (count > kInline) {
      more_args.resize(count);
    }
    const std::span<Value> args =
        count > kInline ? std::span<Value>(more_args) : std::span<Value>(inline_args).first(count);
    for (std::size_t i = 0; i < count; ++i) {
      MUSTER_ASSIGN_OR_RETURN(args[i], Eval(*node.children[i]));
    }
    return Invoke(node, node.member, args);
  }

  // Picks the overload by the arguments that are really there.
  Result<Value> Invoke(const Node& node, bool member, std::span<const Value> args) {
    for (const Overload& overload : node.function->overloads) {
      if (overload.member != member || overload.args.size() != args.size()) {
        continue;
      }
      bool fits = true;
      for (std::size_t i = 0; i < args.size() && fits; ++i) {
        fits = Accepts(overload.args[i], args[i]);
      }
      if (!fits) {
        continue;
      }
      const Call call{.node = node, .args = args, .budget = budget_};
      switch (overload.cost) {
        case Cost::kOne:
          Charge(1);
          break;
        case Cost::kScan:
          call.ChargeScan(0);
          break;
        case Cost::kTwoScans:
          call.ChargeScan(0, 2);
          break;
        case Cost::kTraverse:
          Charge(SizeOf(args[0]));
          break;
        case Cost::kSelf:
          break;
      }
      if (budget_ < 0) {
        return Value();
      }
      return overload.implementation(call);
    }
    return NoSuchOverload();
  }

  // The right side is not evaluated when the left one has a value.
  Result<Value> OptionalOr(const Node& node) {
    MUSTER_ASSIGN_OR_RETURN(const Value left, Eval(*node.children[0]));
    if (!left.is(Kind::kOptional)) {
      return NoSuchOverload();
    }
    Charge(1);
    const bool plain = node.name == "orValue";
    if (auto inner = left.optional_value()) {
      return plain ? *std::move(inner) : left;
    }
    MUSTER_ASSIGN_OR_RETURN(Value right, Eval(*node.children[1]));
    if (!plain && !right.is(Kind::kOptional)) {
      return NoSuchOverload();
    }
    return right;
  }

  // Whether `value` decides a || (decisive true) or a && (decisive false). Anything that is not a
  // bool is an error.
  Result<Value> Logical(const Node& node, bool decisive) {
    std::optional<Error> error;
    for (const NodePtr& child : node.children) {
      Result<Value> value = Eval(*child);
      if (budget_ < 0) {
        return value;
      }
      if (value && value->is(Kind::kBool)) {
        if (value->bool_value() == decisive) {
          return value;
        }
      } else if (!error) {
        error = value ? NoSuchOverload().error() : std::move(value).error();
      }
    }
    if (error) {
      return std::unexpected(*std::move(error));
    }
    return Value::Bool(!decisive);
  }

  Result<Value> Ternary(const Node& node) {
    MUSTER_ASSIGN_OR_RETURN(const Value condition, Eval(*node.children[0]));
    if (!condition.is(Kind::kBool)) {
      return NoSuchOverload();
    }
    return Eval(*node.children[condition.bool_value() ? 1 : 2]);
  }

  // The value of an optional element; nullopt when it is to be left out.
  Result<std::optional<Value>> OptionalElement(const Node& node) {
    MUSTER_ASSIGN_OR_RETURN(const Value value, Eval(node));
    if (!value.is(Kind::kOptional)) {
      return Fail("cannot initialize optional list element or entry from non-optional value");
    }
    return value.optional_value();
  }

  Result<Value> List(const Node& node) {
    std::vector<Value> items;
    items.reserve(node.children.size());
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      if (node.flags[i]) {
        MUSTER_ASSIGN_OR_RETURN(std::optional<Value> item, OptionalElement(*node.children[i]));
        if (item) {
          items.push_back(*std::move(item));
        }
      } else {
        MUSTER_ASSIGN_OR_RETURN(Value item, Eval(*node.children[i]));
        items.push_back(std::move(item));
      }
    }
    Charge(kListCost);
    return Value::List(std::move(items));
  }

  Result<Value> Map(const Node& node) {
    Value::Entries entries;
    entries.reserve(node.children.size() / 2);
    for (std::size_t i = 0; i + 1 < node.children.size(); i += 2) {
      MUSTER_ASSIGN_OR_RETURN(Value key, Eval(*node.children[i]));
      if (!IsKey(key)) {
        return Fail("unsupported key type: " + std::string(key.TypeName()));
      }
      if (node.flags[i / 2]) {
        MUSTER_ASSIGN_OR_RETURN(std::optional<Value> value, OptionalElement(*node.children[i + 1]));
        if (value) {
          entries.emplace_back(std::move(key), *std::move(value));
        }
      } else {
        MUSTER_ASSIGN_OR_RETURN(Value value, Eval(*node.children[i + 1]));
        entries.emplace_back(std::move(key), std::move(value));
      }
    }
    Charge(kMapCost);
    return MapOfLastKeys(std::move(entries));
  }

  Result<Value> Struct(const Node& node) {
    Value::Entries fields;
    for (std::size_t i = 0; i < node.fields.size(); ++i) {
      if (node.flags[i]) {
        MUSTER_ASSIGN_OR_RETURN(std::optional<Value> value, OptionalElement(*node.children[i]));
        if (value) {
          fields.emplace_back(Value::BorrowedString(node.fields[i]), *std::move(value));
        }
      } else {
        MUSTER_ASSIGN_OR_RETURN(Value value, Eval(*node.children[i]));
        fields.emplace_back(Value::BorrowedString(node.fields[i]), std::move(value));
      }
    }
    Charge(kStructCost);
    // The names must outlive the program, which may be gone when the value is read.
    for (auto& field : fields) {
      field.first = Value::String(std::string(field.first.string_value()));
    }
    return Value::Object(node.name, std::move(fields));
  }

  void Set(int slot, Result<Value> value) {
    locals_[static_cast<std::size_t>(slot)] = std::move(value);
  }

  Result<Value> Macro(const Node& node) {
    switch (node.macro) {
      case Node::Macro::kBind: {
        Result<Value> init = Eval(*node.children[0]);
        if (budget_ < 0) {
          return init;
        }
        // An error counts only where the name is used, and can be absorbed there.
        Set(node.slot, std::move(init));
        return Eval(*node.children[1]);
      }
      case Node::Macro::kOptMap:
      case Node::Macro::kOptFlatMap: {
        MUSTER_ASSIGN_OR_RETURN(const Value target, Eval(*node.children[0]));
        if (!target.is(Kind::kOptional)) {
          return NoSuchOverload();
        }
        Charge(1);
        auto inner = target.optional_value();
        if (!inner) {
          return Value::None();
        }
        Set(node.slot, *std::move(inner));
        MUSTER_ASSIGN_OR_RETURN(Value out, Eval(*node.children[1]));
        Charge(2);
        if (node.macro == Node::Macro::kOptMap) {
          return Value::Some(std::move(out));
        }
        if (!out.is(Kind::kOptional)) {
          return NoSuchOverload();
        }
        return out;
      }
      default:
        return Loop(node);
    }
  }

  Result<Value> Loop(const Node& node) {
    MUSTER_ASSIGN_OR_RETURN(const Value range, Eval(*node.children[0]));
    std::vector<Value> keys;
    const bool is_list = range.is(Kind::kList);
    if (range.is(Kind::kMap) || range.is(Kind::kObject)) {
      keys = range.Keys();
      // Upstream walks maps in no particular order; ours is the order of the keys, so that results
      // repeat.
      std::ranges::sort(keys, [](const Value& a, const Value& b) {
        const std::optional<int> order = CompareValues(a, b);
        return order ? *order < 0 : a.kind() < b.kind();
      });
    } else if (!is_list) {
      return NoSuchOverload();
    }
    const bool two = node.slot2 >= 0;
    const std::size_t count = is_list ? range.size() : keys.size();
    LoopState state;
    for (std::size_t i = 0; i < count; ++i) {
      Value first =
          is_list ? (two ? Value::Int(static_cast<std::int64_t>(i)) : range.At(i)) : keys[i];
      if (two) {
        Value second;
        if (is_list) {
          second = range.At(i);
        } else {
          MUSTER_ASSIGN_OR_RETURN(std::optional<Value> found, range.Find(keys[i]));
          second = found ? *std::move(found) : Value();
        }
        Set(node.slot2, std::move(second));
      }
      Set(node.slot, first);
      MUSTER_RETURN_IF_ERROR(Step(node, first, state));
      if (budget_ < 0 || state.decided) {
        break;
      }
    }
    return Finish(node, range, state);
  }

  struct LoopState {
    std::vector<Value> items;
    Value::Entries entries;
    std::optional<Error> error;
    std::int64_t matches = 0;
    bool decided = false;
  };

  // One round of a loop. Upstream charges nothing for an element that a constant predicate leaves
  // out; we charge a step, so that every round costs something.
  Status Step(const Node& node, const Value& first, LoopState& state) {
    using M = Node::Macro;
    const Node& body = *node.children.back();
    switch (node.macro) {
      case M::kAll:
      case M::kExists: {
        Charge(node.macro == M::kAll ? 3 : 4);
        Result<Value> value = Eval(body);
        if (budget_ < 0) {
          return {};
        }
        if (value && value->is(Kind::kBool)) {
          state.decided = value->bool_value() == (node.macro == M::kExists);
          if (state.decided) {
            Charge(node.macro == M::kAll ? 2 : 3);
          }
        } else if (!state.error) {
          state.error = value ? NoSuchOverload().error() : std::move(value).error();
        }
        return {};
      }
      case M::kExistsOne: {
        MUSTER_ASSIGN_OR_RETURN(const bool matched, Predicate(body));
        Charge(matched ? 2 : 1);
        state.matches += matched ? 1 : 0;
        return {};
      }
      case M::kFilter: {
        MUSTER_ASSIGN_OR_RETURN(const bool matched, Predicate(body));
        Charge(matched ? 13 : 1);
        if (matched) {
          state.items.push_back(first);
        }
        return {};
      }
      case M::kMap:
      case M::kTransformList: {
        MUSTER_ASSIGN_OR_RETURN(const bool wanted, Filtered(node));
        if (!wanted) {
          Charge(1);
          return {};
        }
        MUSTER_ASSIGN_OR_RETURN(Value value, Eval(body));
        Charge(12);
        state.items.push_back(std::move(value));
        return {};
      }
      case M::kSortBy: {
        MUSTER_ASSIGN_OR_RETURN(Value value, Eval(body));
        Charge(12);
        state.items.push_back(std::move(value));
        return {};
      }
      case M::kTransformMap: {
        MUSTER_ASSIGN_OR_RETURN(const bool wanted, Filtered(node));
        if (!wanted) {
          Charge(1);
          return {};
        }
        MUSTER_ASSIGN_OR_RETURN(Value value, Eval(body));
        Charge(3);
        state.entries.emplace_back(first, std::move(value));
        return {};
      }
      case M::kTransformMapEntry: {
        MUSTER_ASSIGN_OR_RETURN(const bool wanted, Filtered(node));
        if (!wanted) {
          Charge(1);
          return {};
        }
        MUSTER_ASSIGN_OR_RETURN(const Value entry, Eval(body));
        Charge(2);
        return AddEntries(entry, state);
      }
      case M::kNone:
      case M::kBind:
      case M::kOptMap:
      case M::kOptFlatMap:
        break;
    }
    return NoSuchOverload();
  }

  Status AddEntries(const Value& entry, LoopState& state) {
    if (!entry.is(Kind::kMap)) {
      return NoSuchOverload();
    }
    for (const Value& key : entry.Keys()) {
      // The search is linear, so it is charged.
      Charge(static_cast<std::int64_t>(state.entries.size() / 8));
      if (budget_ < 0) {
        return {};
      }
      for (const auto& [known, value] : state.entries) {
        if (known == key) {
          return Fail("insert failed: key " + key.DebugString() + " already exists");
        }
      }
      MUSTER_ASSIGN_OR_RETURN(std::optional<Value> value, entry.Find(key));
      if (value) {
        state.entries.emplace_back(key, *std::move(value));
      }
    }
    return {};
  }

  Result<bool> Predicate(const Node& node) {
    MUSTER_ASSIGN_OR_RETURN(const Value value, Eval(node));
    if (!value.is(Kind::kBool)) {
      return NoSuchOverload();
    }
    return value.bool_value();
  }
  Result<bool> Filtered(const Node& node) {
    return node.filtered ? Predicate(*node.children[1]) : Result<bool>(true);
  }

  Result<Value> Finish(const Node& node, const Value& range, LoopState& state) {
    using M = Node::Macro;
    switch (node.macro) {
      case M::kAll:
      case M::kExists:
        Charge(1);
        if (state.decided) {
          return Value::Bool(node.macro == M::kExists);
        }
        if (state.error) {
          return std::unexpected(*std::move(state.error));
        }
        return Value::Bool(node.macro == M::kAll);
      case M::kExistsOne:
        Charge(2);
        return Value::Bool(state.matches == 1);
      case M::kTransformMap:
      case M::kTransformMapEntry:
        Charge(1);
        return Value::Map(std::move(state.entries));
      case M::kSortBy: {
        const std::array<Value, 2> args = {range, Value::List(std::move(state.items))};
        return Invoke(node, false, args);
      }
      default:
        Charge(1);
        return Value::List(std::move(state.items));
    }
  }

  const Activation& activation_;
  std::int64_t& budget_;
  std::vector<Result<Value>> locals_;
};

bool IsConversion(std::string_view name) {
  static constexpr std::string_view kConversions[] = {
      "bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"};
  return std::ranges::find(kConversions, name) != std::end(kConversions);
}

// Computes literals of constants and conversions of constants once. A conversion that fails is a
// mistake that no input can mend.
std::optional<SourceError> Fold(Node& node) {
  bool constant = true;
  for (const NodePtr& child : node.children) {
    if (std::optional<SourceError> error = Fold(*child)) {
      return error;
    }
    constant = constant && child->kind == Node::Kind::kConst;
  }
  const bool literal = (node.kind == Node::Kind::kList || node.kind == Node::Kind::kMap) &&
                       std::ranges::find(node.flags, true) == node.flags.end();
  const bool conversion = node.kind == Node::Kind::kCall && !node.member &&
                          node.children.size() == 1 && IsConversion(node.name);
  if (!constant || (!literal && !conversion)) {
    return std::nullopt;
  }
  const MapActivation nothing;
  std::int64_t budget = kPerCallBudget;
  Result<Value> value = Evaluator(nothing, budget, 0).Eval(node);
  if (!value) {
    return conversion ? std::optional<SourceError>(SourceError{
                            .offset = node.offset, .message = std::move(value).error().message})
                      : std::nullopt;
  }
  node.kind = Node::Kind::kConst;
  node.value = *std::move(value);
  node.children.clear();
  return std::nullopt;
}

std::string Located(std::string_view text, const SourceError& error) {
  const std::size_t offset = std::min<std::size_t>(error.offset, text.size());
  std::size_t line = 1;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < offset; ++i) {
    if (text[i] == '\n') {
      ++line;
      begin = i + 1;
    }
  }
  return "ERROR: <input>:" + std::to_string(line) + ":" +
         std::to_string(CodePoints(text.substr(begin, offset - begin)) + 1) + ": " + error.message;
}

}  // namespace

Env Env::CrdRule(Type self) {
  return Env{.kind = Kind::kCrdRule,
             .variables = {{.name = "self", .type = self}, {.name = "oldSelf", .type = self}}};
}

Env Env::Admission(Type result) {
  Env env{
      .kind = Kind::kAdmission, .variables = {}, .mutation = false, .result = std::move(result)};
  for (const char* name :
       {"object", "oldObject", "request", "params", "namespaceObject", "variables"}) {
    env.variables.push_back({.name = name, .type = DynType()});
  }
  env.variables.push_back({.name = "authorizer", .type = AuthorizerType()});
  return env;
}

Env Env::Mutation() {
  Env env = Admission(DynType());
  env.mutation = true;
  return env;
}

MapActivation::MapActivation(std::initializer_list<std::pair<std::string, Value>> variables) {
  for (const auto& [name, value] : variables) {
    Set(name, value);
  }
}

void MapActivation::Set(std::string name, Value value) {
  slots_.push_back(Slot{.name = std::move(name), .compute = nullptr, .value = std::move(value)});
}

void MapActivation::SetLazy(std::string name, std::function<Result<Value>()> compute) {
  slots_.push_back(
      Slot{.name = std::move(name), .compute = std::move(compute), .value = std::nullopt});
}

Result<std::optional<Value>> MapActivation::Find(std::string_view name) const {
  for (const Slot& slot : slots_) {
    if (slot.name != name) {
      continue;
    }
    if (!slot.value) {
      slot.value = slot.compute();
    }
    if (!*slot.value) {
      return std::unexpected(slot.value->error());
    }
    return **slot.value;
  }
  return std::nullopt;
}

Result<Program> Program::Compile(std::string_view text, const Env& env) {
  const std::size_t limit =
      env.kind == Env::Kind::kDevice ? kMaxDeviceExpressionBytes : kMaxExpressionBytes;
  if (text.size() > limit) {
    return Fail("expression is too long: " + std::to_string(text.size()) + " bytes, at most " +
                std::to_string(limit));
  }
  auto root = Parse(text, env.kind == Env::Kind::kDevice);
  if (!root) {
    return Fail(Located(text, root.error()));
  }
  auto checked = Check(**root, env);
  if (!checked) {
    return Fail(Located(text, checked.error()));
  }
  if (const std::optional<SourceError> error = Fold(**root)) {
    return Fail(Located(text, *error));
  }
  Program program;
  program.root_ = std::shared_ptr<const Node>(std::move(*root));
  program.result_type_ = std::move(checked->type);
  program.variables_ = std::move(checked->variables);
  program.slots_ = checked->slots;
  return program;
}

Result<Value> Program::Run(const Activation& activation, std::int64_t& budget) const {
  return Evaluator(activation, budget, slots_).Eval(*root_);
}

Result<bool> Program::RunBool(const Activation& activation, std::int64_t& budget) const {
  MUSTER_ASSIGN_OR_RETURN(const Value value, Run(activation, budget));
  if (!value.is(Kind::kBool)) {
    return Fail("CEL result of type " + std::string(value.TypeName()) +
                " could not be converted to bool");
  }
  return value.bool_value();
}

}  // namespace muster::cel
