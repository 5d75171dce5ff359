#include "cel/checker.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "cel/functions.h"
#include "cel/value_internal.h"

namespace muster::cel {
namespace {

using TypeKind = TypeData::Kind;

constexpr std::size_t kMaxTypeWeight = 2000;
constexpr std::int64_t kMaxWalkSteps = 5'000'000;
constexpr int kMaxWalkDepth = 2000;

bool IsDyn(const Type& type) {
  return type->kind == TypeKind::kDyn;
}
bool IsDynOrError(const Type& type) {
  return IsDyn(type) || type->kind == TypeKind::kError;
}

bool Exactly(const Type& a, const Type& b) {
  if (a == b) {
    return true;
  }
  if (a->kind != b->kind || a->name != b->name || a->params.size() != b->params.size()) {
    return false;
  }
  for (std::size_t i = 0; i < a->params.size(); ++i) {
    if (!Exactly(a->params[i], b->params[i])) {
      return false;
    }
  }
  return true;
}

// What type variables stand for, with undo: a failed overload leaves no trace.
class Bindings {
 public:
  [[nodiscard]] Type Find(const Type& variable) const {
    if (variable->kind != TypeKind::kParam) {
      return nullptr;
    }
    const auto found = bound_.find(variable->name);
    return found == bound_.end() ? nullptr : found->second;
  }
  void Bind(const Type& variable, const Type& type) {
    Type& slot = bound_[variable->name];
    trail_.emplace_back(variable->name, slot);
    slot = type;
  }
  [[nodiscard]] std::size_t Mark() const { return trail_.size(); }
  void Undo(std::size_t mark) {
    while (trail_.size() > mark) {
      auto& [name, old] = trail_.back();
      if (old == nullptr) {
        bound_.erase(name);
      } else {
        bound_[name] = old;
      }
      trail_.pop_back();
    }
  }

 private:
  std::map<std::string, Type, std::less<>> bound_;
  std::vector<std::pair<std::string, Type>> trail_;
};

bool EqualOrLessSpecific(const Type& a, const Type& b) {
  if (IsDyn(a) || a->kind == TypeKind::kParam) {
    return true;
  }
  if (IsDyn(b) || b->kind == TypeKind::kParam || a->kind != b->kind) {
    return false;
  }
  if (a->kind == TypeKind::kType) {
    return true;
  }
  if (a->params.empty()) {
    return a->name == b->name;
  }
  for (std::size_t i = 0; i < std::min(a->params.size(), b->params.size()); ++i) {
    if (!EqualOrLessSpecific(a->params[i], b->params[i])) {
      return false;
    }
  }
  return true;
}

const Type& MostGeneral(const Type& a, const Type& b) {
  return EqualOrLessSpecific(a, b) ? a : b;
}

// null is allowed where a message or a library type is expected.
bool Nullable(const Type& type) {
  switch (type->kind) {
    case TypeKind::kNull:
    case TypeKind::kOpaque:
    case TypeKind::kOptional:
    case TypeKind::kObject:
    case TypeKind::kTimestamp:
    case TypeKind::kDuration:
      return true;
    default:
      return false;
  }
}

class Checker {
 public:
  explicit Checker(const Env& env) : env_(env) {}

  std::expected<Checked, SourceError> Run(Node& root) {
    Visit(root);
    if (!failed_) {
      CheckLiterals(root);
      const Type type = Substitute(root.type, true);
      if (!IsDyn(env_.result) && !IsDyn(type) && !Exactly(type, env_.result)) {
        Error(root, "must evaluate to " + env_.result->ToString() + ", not " + type->ToString());
      }
    }
    if (failed_) {
      return std::unexpected(std::move(error_));
    }
    return Checked{.type = Substitute(root.type, true),
                   .variables = {variables_.begin(), variables_.end()},
                   .slots = max_slots_};
  }

 private:
  struct Local {
    std::string name;
    Type type;
    int slot;
  };

  // The first problem is the one that is told; the walk goes on only where types allow it.
  void Error(const Node& node, std::string message) {
    if (!failed_) {
      failed_ = true;
      error_ = SourceError{.offset = node.offset, .message = std::move(message)};
    }
  }

  Type Fresh() { return ParamType("_var" + std::to_string(next_variable_++)); }

  // Type variables can be tied together so that types written out in full are exponentially large
  // or deep, so all walks over types share one allowance. Without it left the expression is refused
  // and every answer of the walks is void.
  class Walk {
   public:
    explicit Walk(Checker& checker) : checker_(checker) {
      ++checker_.walk_depth_;
      if (++checker_.walk_steps_ > kMaxWalkSteps || checker_.walk_depth_ > kMaxWalkDepth) {
        if (!checker_.failed_) {
          checker_.failed_ = true;
          checker_.error_ =
              SourceError{.offset = 0, .message = "the types of this expression are too complex"};
        }
        allowed_ = false;
      }
    }
    ~Walk() { --checker_.walk_depth_; }
    Walk(const Walk&) = delete;
    Walk& operator=(const Walk&) = delete;
    [[nodiscard]] bool allowed() const { return allowed_; }

   private:
    Checker& checker_;
    bool allowed_ = true;
  };

  Type Substitute(const Type& type, bool to_dyn) {
    const Walk walk(*this);
    if (!walk.allowed()) {
      return DynType();
    }
    if (type->kind == TypeKind::kParam) {
      const Type bound = bindings_.Find(type);
      if (bound != nullptr) {
        return Substitute(bound, to_dyn);
      }
      return to_dyn ? DynType() : type;
    }
    if (type->params.empty()) {
      return type;
    }
    std::vector<Type> params;
    bool changed = false;
    for (const Type& param : type->params) {
      params.push_back(Substitute(param, to_dyn));
      changed = changed || params.back() != param;
    }
    return changed ? Rebuild(*type, std::move(params)) : type;
  }

  static Type Rebuild(const TypeData& type, std::vector<Type> params) {
    switch (type.kind) {
      case TypeKind::kList:
        return ListType(params[0]);
      case TypeKind::kMap:
        return MapType(params[0], params[1]);
      case TypeKind::kOptional:
        return OptionalType(params[0]);
      default:
        return TypeType(params[0]);
    }
  }

  // Gives an overload's own parameters fresh names.
  Type Instantiate(const Type& type, std::map<std::string, Type>& fresh) {
    if (type->kind == TypeKind::kParam) {
      Type& variable = fresh[type->name];
      if (variable == nullptr) {
        variable = Fresh();
      }
      return variable;
    }
    if (type->params.empty()) {
      return type;
    }
    std::vector<Type> params;
    for (const Type& param : type->params) {
      params.push_back(Instantiate(param, fresh));
    }
    return Rebuild(*type, std::move(params));
  }

  bool OccursIn(const Type& variable, const Type& type) {
    const Walk walk(*this);
    if (!walk.allowed()) {
      return true;
    }
    if (Exactly(variable, type)) {
      return true;
    }
    if (type->kind == TypeKind::kParam) {
      const Type bound = bindings_.Find(type);
      return bound != nullptr && OccursIn(variable, bound);
    }
    return std::ranges::any_of(type->params,
                               [&](const Type& param) { return OccursIn(variable, param); });
  }

  // Whether `type` may stand for `variable`; has_substitution tells whether the variable stood for
  // something already.
  bool TryBind(const Type& type, const Type& variable, bool& has_substitution) {
    has_substitution = true;
    if (Exactly(type, variable)) {
      return true;
    }
    if (const Type bound = bindings_.Find(variable)) {
      if (Exactly(type, bound)) {
        return true;
      }
      if (!Unify(type, bound)) {
        return false;
      }
      const Type general = MostGeneral(type, bound);
      if (!OccursIn(variable, general)) {
        bindings_.Bind(variable, general);
      }
      return true;
    }
    has_substitution = false;
    if (OccursIn(variable, type)) {
      return false;
    }
    bindings_.Bind(variable, type);
    return true;
  }

  // Whether a value of one type can be used as the other; binds type variables on the way.
  bool Unify(const Type& a, const Type& b) {
    const Walk walk(*this);
    if (!walk.allowed()) {
      return true;
    }
    if (b->kind == TypeKind::kParam) {
      bool has_substitution = false;
      if (TryBind(a, b, has_substitution)) {
        return true;
      }
      if (has_substitution) {
        return false;
      }
    }
    if (a->kind == TypeKind::kParam) {
      bool has_substitution = false;
      return TryBind(b, a, has_substitution);
    }
    if (IsDynOrError(a) || IsDynOrError(b)) {
      return true;
    }
    if (a->kind == TypeKind::kNull) {
      return Nullable(b);
    }
    if (b->kind == TypeKind::kNull) {
      return Nullable(a);
    }
    if (a->kind != b->kind) {
      return false;
    }
    switch (a->kind) {
      case TypeKind::kType:
        return true;
      case TypeKind::kObject:
      case TypeKind::kOpaque:
        return a->name == b->name;
      default:
        break;
    }
    for (std::size_t i = 0; i < a->params.size(); ++i) {
      if (!Unify(a->params[i], b->params[i])) {
        return false;
      }
    }
    return true;
  }

  bool Assignable(const Type& a, const Type& b) {
    const std::size_t mark = bindings_.Mark();
    if (Unify(a, b)) {
      return true;
    }
    bindings_.Undo(mark);
    return false;
  }

  void Expect(const Node& node, const Type& wanted) {
    if (!Assignable(wanted, node.type)) {
      Error(node,
            "expected type '" + wanted->ToString() + "' but found '" +
                Substitute(node.type, true)->ToString() + "'");
    }
  }

  // The common type of a literal's elements: dyn when they are mixed, which CheckLiterals refuses
  // later, where it matters.
  Type Joined(const Type& previous, const Type& current) {
    if (previous == nullptr) {
      return current;
    }
    return Assignable(previous, current) ? MostGeneral(previous, current) : DynType();
  }

  // The type a literal's element has in the end; what stays open is dyn.
  Type Settled(const Node& node, bool optional) {
    const Type type = Substitute(node.type, true);
    return optional && type->kind == TypeKind::kOptional ? type->params[0] : type;
  }

  void ExpectSame(const Node& node, Type& first, const Type& type) {
    if (first == nullptr) {
      first = type;
    } else if (!Exactly(first, type)) {
      Error(node, "expected type '" + first->ToString() + "' but found '" + type->ToString() + "'");
    }
  }

  // Literals must not mix types, but for the arguments of format().
  void CheckLiterals(const Node& node) {
    if (node.kind == Node::Kind::kCall && node.name == "format") {
      CheckFormat(node);
      return;
    }
    if (node.kind == Node::Kind::kList) {
      Type first;
      for (std::size_t i = 0; i < node.children.size(); ++i) {
        ExpectSame(*node.children[i], first, Settled(*node.children[i], node.flags[i]));
      }
    }
    if (node.kind == Node::Kind::kMap) {
      Type key;
      Type value;
      for (std::size_t i = 0; i + 1 < node.children.size(); i += 2) {
        ExpectSame(*node.children[i], key, Settled(*node.children[i], false));
        ExpectSame(*node.children[i + 1], value, Settled(*node.children[i + 1], node.flags[i / 2]));
      }
    }
    for (const NodePtr& child : node.children) {
      CheckLiterals(*child);
    }
  }

  // A constant format with a literal list of arguments is checked here: the clauses, their number,
  // and the types as far as they are known.
  void CheckFormat(const Node& node) {
    if (node.children.size() != 2 || node.children[0]->kind != Node::Kind::kConst ||
        node.children[1]->kind != Node::Kind::kList) {
      return;
    }
    const std::string_view text = node.children[0]->value.string_value();
    const std::vector<NodePtr>& args = node.children[1]->children;
    std::size_t used = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '%') {
        continue;
      }
      if (++i < text.size() && text[i] == '%') {
        continue;
      }
      if (i < text.size() && text[i] == '.') {
        do {
          ++i;
        } while (i < text.size() && text[i] >= '0' && text[i] <= '9');
      }
      if (i >= text.size()) {
        Error(node, "unexpected end of string");
        return;
      }
      if (used >= args.size()) {
        Error(node, "index " + std::to_string(used) + " out of range");
        return;
      }
      const Type type = Substitute(args[used]->type, true);
      ++used;
      if (!FormatAccepts(text[i], *type)) {
        Error(node,
              std::string("formatting clause %") + text[i] + " cannot be used on " +
                  type->ToString());
        return;
      }
    }
    if (used < args.size()) {
      Error(node,
            "too many arguments supplied to string.format (expected " + std::to_string(used) +
                ", got " + std::to_string(args.size()) + ")");
    }
  }

  static bool FormatAccepts(char verb, const TypeData& type) {
    const TypeKind kind = type.kind;
    const bool dyn = kind == TypeKind::kDyn;
    const bool whole = dyn || kind == TypeKind::kInt || kind == TypeKind::kUint;
    const bool text = kind == TypeKind::kString || kind == TypeKind::kBytes;
    switch (verb) {
      case 's':
        return kind != TypeKind::kOpaque && kind != TypeKind::kObject &&
               kind != TypeKind::kOptional;
      case 'd':
      case 'o':
        return whole;
      case 'f':
      case 'e':
        return dyn || kind == TypeKind::kDouble;
      case 'b':
        return whole || kind == TypeKind::kBool;
      case 'x':
      case 'X':
        return whole || text;
      default:
        return false;
    }
  }

  void Visit(Node& node) {
    if (failed_) {
      node.type = ErrorType();
      return;
    }
    Type type = TypeOf(node);
    if (type->weight > kMaxTypeWeight) {
      type = Substitute(type, false);
      Error(node, "the type of this expression is too large");
    }
    node.type = failed_ ? ErrorType() : type;
  }

  Type TypeOf(Node& node) {
    switch (node.kind) {
      case Node::Kind::kConst:
        return ConstType(node.value);
      case Node::Kind::kIdent:
        return IdentType(node);
      case Node::Kind::kSelect:
        return SelectType(node);
      case Node::Kind::kIndex:
        return IndexType(node);
      case Node::Kind::kCall:
        return CallType(node);
      case Node::Kind::kAnd:
      case Node::Kind::kOr:
      case Node::Kind::kNot:
        for (const NodePtr& child : node.children) {
          Visit(*child);
          if (!Assignable(child->type, BoolType())) {
            Error(*child,
                  "found no matching overload for '" +
                      std::string(node.kind == Node::Kind::kNot
                                      ? "!_"
                                      : (node.kind == Node::Kind::kAnd ? "_&&_" : "_||_")) +
                      "' applied to '" + Substitute(child->type, true)->ToString() + "'");
          }
        }
        return BoolType();
      case Node::Kind::kTernary: {
        for (const NodePtr& child : node.children) {
          Visit(*child);
        }
        const Type result = Fresh();
        if (!Assignable(node.children[0]->type, BoolType()) ||
            !Assignable(node.children[1]->type, result) ||
            !Assignable(node.children[2]->type, result)) {
          NoOverload(node, "_?_:_", node.children);
          return ErrorType();
        }
        return Substitute(result, false);
      }
      case Node::Kind::kList: {
        Type element;
        for (std::size_t i = 0; i < node.children.size(); ++i) {
          Visit(*node.children[i]);
          element = Joined(element, Unwrapped(*node.children[i], node.flags[i]));
        }
        return ListType(element == nullptr ? Fresh() : element);
      }
      case Node::Kind::kMap: {
        Type key;
        Type value;
        for (std::size_t i = 0; i + 1 < node.children.size(); i += 2) {
          Visit(*node.children[i]);
          Visit(*node.children[i + 1]);
          key = Joined(key, node.children[i]->type);
          value = Joined(value, Unwrapped(*node.children[i + 1], node.flags[i / 2]));
        }
        return MapType(key == nullptr ? Fresh() : key, value == nullptr ? Fresh() : value);
      }
      case Node::Kind::kStruct:
        return StructType(node);
      case Node::Kind::kMacro:
        return MacroType(node);
    }
    return ErrorType();
  }

  static Type ConstType(const Value& value) {
    switch (value.kind()) {
      case Value::Kind::kBool:
        return BoolType();
      case Value::Kind::kInt:
        return IntType();
      case Value::Kind::kUint:
        return UintType();
      case Value::Kind::kDouble:
        return DoubleType();
      case Value::Kind::kString:
        return StringType();
      case Value::Kind::kBytes:
        return BytesType();
      default:
        return NullType();
    }
  }

  // The type of an element or field value that is given as optional (`?`) or plainly.
  Type Unwrapped(const Node& node, bool optional) {
    const Type type = Substitute(node.type, false);
    if (!optional) {
      return type;
    }
    if (type->kind == TypeKind::kOptional) {
      return type->params[0];
    }
    if (!IsDynOrError(type)) {
      Error(node,
            "expected type 'optional_type(" + type->ToString() + ")' but found '" +
                type->ToString() + "'");
    }
    return type;
  }

  [[nodiscard]] const Local* FindLocal(std::string_view name) const {
    for (auto it = locals_.rbegin(); it != locals_.rend(); ++it) {
      if (it->name == name) {
        return &*it;
      }
    }
    return nullptr;
  }

  // Turns a node into a constant that names a type.
  static Type MakeTypeConstant(Node& node, const Type& type) {
    node.kind = Node::Kind::kConst;
    node.value =
        Value::Type(type->kind == TypeKind::kList || type->kind == TypeKind::kMap ||
                            type->kind == TypeKind::kOptional || type->kind == TypeKind::kType
                        ? type->name
                        : type->ToString());
    node.children.clear();
    return TypeType(type);
  }

  Type IdentType(Node& node) {
    if (!node.absolute) {
      if (const Local* local = FindLocal(node.name)) {
        node.slot = local->slot;
        return local->type;
      }
    }
    for (const Env::Variable& variable : env_.variables) {
      if (variable.name == node.name) {
        variables_.insert(node.name);
        return variable.type;
      }
    }
    if (const Type type = FindTypeName(node.name)) {
      return MakeTypeConstant(node, type);
    }
    Error(node, "undeclared reference to '" + node.name + "' (in container '')");
    return ErrorType();
  }

  // "a.b.c" if the node is a plain chain of names, else empty.
  std::string DottedName(const Node& node) {
    if (node.kind == Node::Kind::kIdent) {
      return FindLocal(node.name) != nullptr && !node.absolute ? "" : node.name;
    }
    if (node.kind != Node::Kind::kSelect || node.test_only || node.optional) {
      return "";
    }
    std::string prefix = DottedName(*node.children[0]);
    return prefix.empty() ? "" : prefix + "." + node.name;
  }

  Type SelectType(Node& node) {
    if (!node.test_only && !node.optional) {
      if (const std::string dotted = DottedName(node); !dotted.empty()) {
        if (const Type type = FindTypeName(dotted)) {
          return MakeTypeConstant(node, type);
        }
      }
    }
    Node& operand = *node.children[0];
    Visit(operand);
    const Type operand_type = Substitute(operand.type, false);
    const bool was_optional = operand_type->kind == TypeKind::kOptional;
    const Type target = was_optional ? operand_type->params[0] : operand_type;
    Type result = ErrorType();
    switch (target->kind) {
      case TypeKind::kMap:
        result = target->params[1];
        break;
      case TypeKind::kObject: {
        const auto* field = FindField(*target, node.name);
        if (field != nullptr) {
          result = *field;
        } else if (target->open) {
          result = DynType();
        } else {
          Error(node, "undefined field '" + node.name + "'");
        }
        break;
      }
      case TypeKind::kParam:
        Assignable(DynType(), target);
        result = DynType();
        break;
      default:
        if (!IsDynOrError(target)) {
          Error(node, "type '" + target->ToString() + "' does not support field selection");
        }
        result = DynType();
    }
    if (node.test_only) {
      return BoolType();
    }
    return Substitute(was_optional || node.optional ? OptionalType(result) : result, false);
  }

  static const Type* FindField(const TypeData& type, std::string_view name) {
    for (const auto& [field, field_type] : type.fields) {
      if (field == name) {
        return &field_type;
      }
    }
    return nullptr;
  }

  // list[int], map[key], and both through an optional.
  Type IndexType(Node& node) {
    Visit(*node.children[0]);
    Visit(*node.children[1]);
    const Type key = node.children[1]->type;
    struct Shape {
      bool optional;
      bool map;
    };
    Type result;
    for (const Shape shape :
         {Shape{false, false}, Shape{false, true}, Shape{true, false}, Shape{true, true}}) {
      const Type element = Fresh();
      const Type index = shape.map ? Fresh() : IntType();
      Type container = shape.map ? MapType(index, element) : ListType(element);
      if (shape.optional) {
        container = OptionalType(container);
      }
      const std::size_t mark = bindings_.Mark();
      if (!Unify(node.children[0]->type, container) || !Unify(key, index)) {
        bindings_.Undo(mark);
        continue;
      }
      Type one = Substitute(element, false);
      if (shape.optional || node.optional) {
        one = OptionalType(one);
      }
      if (result == nullptr) {
        result = one;
      } else if (!IsDyn(result) && !Exactly(one, result)) {
        result = DynType();
      }
    }
    if (result == nullptr) {
      NoOverload(node, node.optional ? "_[?_]" : "_[_]", node.children);
      return ErrorType();
    }
    return result;
  }

  void NoOverload(const Node& node, std::string_view name, const std::vector<NodePtr>& args) {
    std::string message =
        "found no matching overload for '" + std::string(name) + "' applied to '(";
    for (std::size_t i = 0; i < args.size(); ++i) {
      message += (i == 0 ? "" : ", ") + Substitute(args[i]->type, true)->ToString();
    }
    Error(node, message + ")'");
  }

  [[nodiscard]] bool Allowed(const Function* function) const {
    return function != nullptr && !function->name.starts_with("@sort") &&
           (!function->mutation_only || env_.mutation);
  }

  Type CallType(Node& node) {
    if (node.member) {
      // a.b.f() may be the function a.b.f.
      if (const std::string prefix = DottedName(*node.children[0]); !prefix.empty()) {
        const Function* qualified = FindFunction(prefix + "." + node.name);
        if (Allowed(qualified)) {
          node.children.erase(node.children.begin());
          node.member = false;
          node.name = qualified->name;
        }
      }
    }
    for (const NodePtr& child : node.children) {
      Visit(*child);
    }
    node.function = FindFunction(node.name);
    if (!Allowed(node.function)) {
      Error(node, "undeclared reference to '" + node.name + "' (in container '')");
      return ErrorType();
    }
    const Type type = Resolve(node, *node.function);
    if (!failed_) {
      CheckConstants(node);
    }
    return type;
  }

  Type Resolve(const Node& node, const Function& function) {
    Type result;
    for (const Overload& overload : function.overloads) {
      if (overload.member != node.member || overload.args.size() != node.children.size()) {
        continue;
      }
      std::map<std::string, Type> fresh;
      const std::size_t mark = bindings_.Mark();
      bool fits = true;
      for (std::size_t i = 0; i < node.children.size() && fits; ++i) {
        fits = Unify(node.children[i]->type, Instantiate(overload.args[i], fresh));
      }
      if (!fits) {
        bindings_.Undo(mark);
        continue;
      }
      const Type one = Substitute(Instantiate(overload.result, fresh), false);
      if (result == nullptr) {
        result = one;
      } else if (!IsDyn(result) && !Exactly(one, result)) {
        result = DynType();
      }
    }
    if (result == nullptr) {
      NoOverload(node, function.name, node.children);
      return ErrorType();
    }
    return result;
  }

  // Constant patterns are compiled once; constant patterns, durations and timestamps must be
  // readable.
  void CheckConstants(Node& node) {
    const auto constant = [&](std::size_t i) {
      return i < node.children.size() && node.children[i]->kind == Node::Kind::kConst &&
             node.children[i]->value.is(Value::Kind::kString);
    };
    const auto text = [&](std::size_t i) { return node.children[i]->value.string_value(); };
    if ((node.name == "matches" || node.name == "find" || node.name == "findAll") && constant(1)) {
      auto regex = CompileRegex(text(1));
      if (!regex) {
        Error(*node.children[1], "invalid matches argument: " + regex.error().message);
        return;
      }
      node.regex = *std::move(regex);
    } else if (node.name == "duration" && constant(0)) {
      if (const auto parsed = ParseDuration(text(0)); !parsed) {
        Error(*node.children[0], "invalid duration argument");
      }
    } else if (node.name == "timestamp" && constant(0)) {
      if (const auto parsed = ParseTimestamp(text(0)); !parsed) {
        Error(*node.children[0], "invalid timestamp argument");
      }
    }
  }

  // Object{...}, Object.spec{...} and JSONPatch{...}; fields of Object are whatever the API has, so
  // only nested types are checked by name.
  Type StructType(Node& node) {
    for (const NodePtr& child : node.children) {
      Visit(*child);
    }
    const bool object = node.name == "Object" || node.name.starts_with("Object.");
    if (!env_.mutation || (!object && node.name != "JSONPatch")) {
      Error(node, "undeclared reference to '" + node.name + "' (in container '')");
      return ErrorType();
    }
    for (std::size_t i = 0; i < node.fields.size(); ++i) {
      const Type given = Unwrapped(*node.children[i], node.flags[i]);
      const std::string& field = node.fields[i];
      if (node.name == "JSONPatch") {
        if (field != "op" && field != "path" && field != "from" && field != "value") {
          Error(node, "undefined field '" + field + "'");
        } else if (field != "value" && !Assignable(StringType(), given)) {
          Error(*node.children[i],
                "expected type of field '" + field + "' is 'string' but provided type is '" +
                    given->ToString() + "'");
        }
        continue;
      }
      CheckObjectPath(*node.children[i], given, node.name + "." + field);
    }
    return object ? OpenObjectType(node.name) : OpenObjectType("JSONPatch");
  }

  // Object types inside a field must be those of that field: Object.spec below spec.
  void CheckObjectPath(const Node& node, const Type& given, const std::string& path) {
    if (given->kind == TypeKind::kObject && given->name.starts_with("Object") &&
        given->name != path) {
      Error(node, "expected type '" + path + "' but found '" + given->name + "'");
    } else if (given->kind == TypeKind::kList) {
      CheckObjectPath(node, Substitute(given->params[0], false), path);
    } else if (given->kind == TypeKind::kMap) {
      CheckObjectPath(node, Substitute(given->params[1], false), path);
    }
  }

  // Runs `body` with a local variable; returns its slot.
  int Push(const std::string& name, const Type& type) {
    const int slot = static_cast<int>(locals_.size());
    locals_.push_back(Local{.name = name, .type = type, .slot = slot});
    max_slots_ = std::max(max_slots_, slot + 1);
    return slot;
  }
  void Pop(std::size_t count) { locals_.resize(locals_.size() - count); }

  Type MacroType(Node& node) {
    using Macro = Node::Macro;
    Node& range = *node.children[0];
    Visit(range);
    Type range_type = Substitute(range.type, false);
    switch (node.macro) {
      case Macro::kBind: {
        node.slot = Push(node.name, range.type);
        Visit(*node.children[1]);
        Pop(1);
        return Substitute(node.children[1]->type, false);
      }
      case Macro::kOptMap:
      case Macro::kOptFlatMap: {
        const Type inner = Fresh();
        if (!Assignable(range_type, OptionalType(inner))) {
          Error(node,
                "found no matching overload for 'hasValue' applied to '" +
                    Substitute(range_type, true)->ToString() + ".()'");
          return ErrorType();
        }
        node.slot = Push(node.name, Substitute(inner, false));
        Visit(*node.children[1]);
        Pop(1);
        const Type body = node.children[1]->type;
        if (node.macro == Macro::kOptMap) {
          return OptionalType(Substitute(body, false));
        }
        const Type result = OptionalType(Fresh());
        if (!Assignable(body, result)) {
          Error(*node.children[1],
                "optFlatMap needs an optional, not " + Substitute(body, true)->ToString());
          return ErrorType();
        }
        return Substitute(result, false);
      }
      default:
        break;
    }
    const bool two = !node.name2.empty();
    Type first = DynType();
    Type second = DynType();
    switch (range_type->kind) {
      case TypeKind::kList:
        first = two ? IntType() : range_type->params[0];
        second = range_type->params[0];
        break;
      case TypeKind::kMap:
        first = range_type->params[0];
        second = range_type->params[1];
        break;
      case TypeKind::kDyn:
      case TypeKind::kError:
      case TypeKind::kParam:
        Assignable(DynType(), range_type);
        break;
      default:
        Error(range,
              "expression of type '" + range_type->ToString() +
                  "' cannot be range of a comprehension (must be list, map, or dynamic)");
        return ErrorType();
    }
    if (node.macro == Macro::kSortBy && range_type->kind != TypeKind::kList &&
        !IsDynOrError(range_type) && range_type->kind != TypeKind::kParam) {
      NoOverload(node, "sortBy", node.children);
      return ErrorType();
    }
    node.slot = Push(node.name, first);
    if (two) {
      node.slot2 = Push(node.name2, second);
    }
    for (std::size_t i = 1; i < node.children.size(); ++i) {
      Visit(*node.children[i]);
    }
    Pop(two ? 2 : 1);
    if (failed_) {
      return ErrorType();
    }
    const Node& body = *node.children.back();
    if (node.filtered) {
      Expect(*node.children[1], BoolType());
    }
    switch (node.macro) {
      case Macro::kAll:
      case Macro::kExists:
      case Macro::kExistsOne:
        Expect(body, BoolType());
        return BoolType();
      case Macro::kFilter:
        Expect(body, BoolType());
        return Substitute(ListType(first), false);
      case Macro::kMap:
      case Macro::kTransformList:
        return Substitute(ListType(body.type), false);
      case Macro::kTransformMap:
        return Substitute(MapType(first, body.type), false);
      case Macro::kTransformMapEntry: {
        const Type entry = MapType(Fresh(), Fresh());
        if (!Assignable(body.type, entry)) {
          Error(body,
                "transformMapEntry needs a map, not " + Substitute(body.type, true)->ToString());
          return ErrorType();
        }
        return Substitute(entry, false);
      }
      case Macro::kSortBy:
        return SortByType(node, range_type);
      case Macro::kNone:
      case Macro::kBind:
      case Macro::kOptMap:
      case Macro::kOptFlatMap:
        break;
    }
    return ErrorType();
  }

  Type SortByType(Node& node, const Type& range_type) {
    const Type key = Substitute(node.children[1]->type, false);
    node.function = FindFunction("@sortBy");
    bool fits = false;
    for (const Overload& overload : node.function->overloads) {
      fits = fits || Assignable(ListType(key), overload.args[1]);
    }
    if (!fits) {
      Error(*node.children[1],
            "sortBy needs keys that can be compared, not " + Substitute(key, true)->ToString());
      return ErrorType();
    }
    return range_type->kind == TypeKind::kList ? range_type : ListType(DynType());
  }

  const Env& env_;
  Bindings bindings_;
  std::vector<Local> locals_;
  std::set<std::string> variables_;
  int next_variable_ = 0;
  int max_slots_ = 0;
  std::int64_t walk_steps_ = 0;
  int walk_depth_ = 0;
  bool failed_ = false;
  SourceError error_;
};

}  // namespace

std::expected<Checked, SourceError> Check(Node& root, const Env& env) {
  return Checker(env).Run(root);
}

}  // namespace muster::cel
