#include "cel/parser.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "cel/lexer.h"
#include "cel/program.h"

namespace muster::cel {
namespace {

// Names that no variable and no function may have.
bool IsReserved(std::string_view name) {
  static constexpr std::string_view kReserved[] = {"as",
                                                   "break",
                                                   "const",
                                                   "continue",
                                                   "else",
                                                   "for",
                                                   "function",
                                                   "if",
                                                   "import",
                                                   "let",
                                                   "loop",
                                                   "package",
                                                   "namespace",
                                                   "return",
                                                   "var",
                                                   "void",
                                                   "while"};
  return std::ranges::find(kReserved, name) != std::end(kReserved);
}

struct Precedence {
  std::string_view symbol;
  int level;  // higher binds tighter
  std::string_view function;
};
constexpr Precedence kBinary[] = {
    {"<", 1, "_<_"},
    {"<=", 1, "_<=_"},
    {">", 1, "_>_"},
    {">=", 1, "_>=_"},
    {"==", 1, "_==_"},
    {"!=", 1, "_!=_"},
    {"in", 1, "@in"},
    {"+", 2, "_+_"},
    {"-", 2, "_-_"},
    {"*", 3, "_*_"},
    {"/", 3, "_/_"},
    {"%", 3, "_%_"},
};

// Parse errors leave by a flag rather than by exceptions: every Parse* returns null after Fail.
class Parser {
 public:
  Parser(std::vector<Token> tokens, bool bindings)
      : tokens_(std::move(tokens)), bindings_(bindings) {}

  std::expected<NodePtr, SourceError> Run() {
    NodePtr root = ParseExpr();
    if (root != nullptr && Current().kind != Token::Kind::kEnd) {
      root = Unexpected();
    }
    if (root == nullptr) {
      return std::unexpected(std::move(error_));
    }
    return root;
  }

 private:
  // Counts the nesting of the text itself, which parentheses deepen without deepening the tree.
  class Nesting {
   public:
    explicit Nesting(Parser& parser) : parser_(parser) { ++parser_.nesting_; }
    ~Nesting() { --parser_.nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    [[nodiscard]] bool too_deep() const { return parser_.nesting_ > kMaxDepth; }

   private:
    Parser& parser_;
  };

  [[nodiscard]] const Token& Current() const { return tokens_[at_]; }
  [[nodiscard]] const Token& Ahead(std::size_t count) const {
    return tokens_[std::min(at_ + count, tokens_.size() - 1)];
  }
  [[nodiscard]] bool IsSymbol(std::string_view symbol) const {
    return Current().kind == Token::Kind::kSymbol && Current().text == symbol;
  }
  bool TakeSymbol(std::string_view symbol) {
    if (!IsSymbol(symbol)) {
      return false;
    }
    ++at_;
    return true;
  }

  NodePtr Fail(std::uint32_t offset, std::string message) {
    if (error_.message.empty()) {
      error_ = SourceError{.offset = offset, .message = std::move(message)};
    }
    return nullptr;
  }
  NodePtr Unexpected() {
    const Token& token = Current();
    return Fail(token.offset,
                token.kind == Token::Kind::kEnd
                    ? "Syntax error: unexpected end of the expression"
                    : "Syntax error: unexpected '" + token.text.substr(0, 40) + "'");
  }

  NodePtr New(Node::Kind kind, std::uint32_t offset) {
    auto node = std::make_unique<Node>();
    node->kind = kind;
    node->offset = offset;
    return node;
  }
  // Adds a child and keeps the depth; false (and an error) when the tree gets too deep.
  bool Add(Node& parent, NodePtr child) {
    if (child == nullptr) {
      return false;
    }
    parent.depth = std::max(parent.depth, child->depth + 1);
    parent.children.push_back(std::move(child));
    if (parent.depth > kMaxDepth) {
      Fail(parent.offset, "expression recursion limit exceeded: " + std::to_string(kMaxDepth));
      return false;
    }
    return true;
  }

  NodePtr ParseExpr() {
    const Nesting nesting(*this);
    if (nesting.too_deep()) {
      return Fail(Current().offset,
                  "expression recursion limit exceeded: " + std::to_string(kMaxDepth));
    }
    NodePtr condition = ParseLogical(true);
    if (condition == nullptr || !IsSymbol("?")) {
      return condition;
    }
    NodePtr node = New(Node::Kind::kTernary, Current().offset);
    ++at_;
    if (!Add(*node, std::move(condition)) || !Add(*node, ParseLogical(true))) {
      return nullptr;
    }
    if (!TakeSymbol(":")) {
      return Unexpected();
    }
    if (!Add(*node, ParseExpr())) {
      return nullptr;
    }
    return node;
  }

  // || over && over comparisons. A chain of either becomes one node, so its length does not count
  // as depth.
  NodePtr ParseLogical(bool is_or) {
    NodePtr first = is_or ? ParseLogical(false) : ParseBinary(1);
    const std::string_view symbol = is_or ? "||" : "&&";
    if (first == nullptr || !IsSymbol(symbol)) {
      return first;
    }
    NodePtr node = New(is_or ? Node::Kind::kOr : Node::Kind::kAnd, Current().offset);
    if (!Add(*node, std::move(first))) {
      return nullptr;
    }
    while (TakeSymbol(symbol)) {
      if (!Add(*node, is_or ? ParseLogical(false) : ParseBinary(1))) {
        return nullptr;
      }
    }
    return node;
  }

  [[nodiscard]] const Precedence* BinaryOperator() const {
    const Token& token = Current();
    if (token.kind != Token::Kind::kSymbol && token.kind != Token::Kind::kKeyword) {
      return nullptr;
    }
    const auto* found = std::ranges::find(kBinary, token.text, &Precedence::symbol);
    return found == std::end(kBinary) ? nullptr : found;
  }

  NodePtr ParseBinary(int level) {
    NodePtr left = ParseUnary();
    while (left != nullptr) {
      const Precedence* op = BinaryOperator();
      if (op == nullptr || op->level < level) {
        return left;
      }
      NodePtr node = New(Node::Kind::kCall, Current().offset);
      node->name = std::string(op->function);
      ++at_;
      if (!Add(*node, std::move(left)) || !Add(*node, ParseBinary(op->level + 1))) {
        return nullptr;
      }
      left = std::move(node);
    }
    return left;
  }

  NodePtr ParseUnary() {
    const std::uint32_t offset = Current().offset;
    if (IsSymbol("!")) {
      std::size_t count = 0;
      while (TakeSymbol("!")) {
        ++count;
      }
      NodePtr operand = ParseMember();
      if (count % 2 == 0 || operand == nullptr) {
        return operand;
      }
      NodePtr node = New(Node::Kind::kNot, offset);
      return Add(*node, std::move(operand)) ? std::move(node) : nullptr;
    }
    if (IsSymbol("-")) {
      std::size_t count = 0;
      while (IsSymbol("-")) {
        // The minus right before a number belongs to the number, so that the smallest int can be
        // written.
        if (count % 2 == 0 && !(Ahead(1).kind == Token::Kind::kSymbol && Ahead(1).text == "-") &&
            IsNumber(Ahead(1))) {
          break;
        }
        ++at_;
        ++count;
      }
      NodePtr operand = ParseMember();
      if (count % 2 == 0 || operand == nullptr) {
        return operand;
      }
      NodePtr node = New(Node::Kind::kCall, offset);
      node->name = "-_";
      return Add(*node, std::move(operand)) ? std::move(node) : nullptr;
    }
    return ParseMember();
  }

  static bool IsNumber(const Token& token) {
    return token.kind == Token::Kind::kInt || token.kind == Token::Kind::kUint ||
           token.kind == Token::Kind::kDouble;
  }

  NodePtr ParseMember() {
    NodePtr node = ParsePrimary();
    while (node != nullptr) {
      const std::uint32_t offset = Current().offset;
      if (TakeSymbol(".")) {
        const bool optional = TakeSymbol("?");
        if (Current().kind != Token::Kind::kIdent) {
          return Unexpected();
        }
        std::string name = Current().text;
        const std::uint32_t name_offset = Current().offset;
        ++at_;
        if (!optional && IsSymbol("(")) {
          node = ParseCall(std::move(name), std::move(node), name_offset);
          continue;
        }
        NodePtr select = New(Node::Kind::kSelect, offset);
        select->name = std::move(name);
        select->optional = optional;
        node = Add(*select, std::move(node)) ? std::move(select) : nullptr;
      } else if (TakeSymbol("[")) {
        NodePtr index = New(Node::Kind::kIndex, offset);
        index->optional = TakeSymbol("?");
        if (!Add(*index, std::move(node)) || !Add(*index, ParseExpr())) {
          return nullptr;
        }
        if (!TakeSymbol("]")) {
          return Unexpected();
        }
        node = std::move(index);
      } else {
        return node;
      }
    }
    return node;
  }

  NodePtr ParsePrimary() {
    const Token& token = Current();
    const std::uint32_t offset = token.offset;
    switch (token.kind) {
      case Token::Kind::kInt:
      case Token::Kind::kUint:
      case Token::Kind::kDouble:
        return ParseNumber(false);
      case Token::Kind::kString:
      case Token::Kind::kBytes: {
        NodePtr node = New(Node::Kind::kConst, offset);
        node->value = token.kind == Token::Kind::kString ? Value::String(token.text)
                                                         : Value::Bytes(token.text);
        ++at_;
        return node;
      }
      case Token::Kind::kKeyword: {
        if (token.text == "in") {
          return Unexpected();
        }
        NodePtr node = New(Node::Kind::kConst, offset);
        node->value = token.text == "null" ? Value::Null() : Value::Bool(token.text == "true");
        ++at_;
        return node;
      }
      case Token::Kind::kIdent:
        return ParseIdent(false);
      case Token::Kind::kSymbol:
        break;
      case Token::Kind::kEnd:
        return Unexpected();
    }
    if (IsSymbol("-") && IsNumber(Ahead(1))) {
      ++at_;
      return ParseNumber(true);
    }
    if (TakeSymbol("(")) {
      NodePtr inner = ParseExpr();
      if (inner != nullptr && !TakeSymbol(")")) {
        return Unexpected();
      }
      return inner;
    }
    if (TakeSymbol("[")) {
      NodePtr node = New(Node::Kind::kList, offset);
      while (!TakeSymbol("]")) {
        node->flags.push_back(TakeSymbol("?"));
        if (!Add(*node, ParseExpr())) {
          return nullptr;
        }
        if (!TakeSymbol(",") && !IsSymbol("]")) {
          return Unexpected();
        }
      }
      return node;
    }
    if (IsSymbol("{")) {
      NodePtr node = New(Node::Kind::kMap, offset);
      ++at_;
      while (!TakeSymbol("}")) {
        node->flags.push_back(TakeSymbol("?"));
        if (!Add(*node, ParseExpr())) {
          return nullptr;
        }
        if (!TakeSymbol(":")) {
          return Unexpected();
        }
        if (!Add(*node, ParseExpr())) {
          return nullptr;
        }
        if (!TakeSymbol(",") && !IsSymbol("}")) {
          return Unexpected();
        }
      }
      return node;
    }
    if (IsSymbol(".") && Ahead(1).kind == Token::Kind::kIdent) {
      ++at_;
      return ParseIdent(true);
    }
    return Unexpected();
  }

  NodePtr ParseNumber(bool negative) {
    const Token& token = Current();
    NodePtr node = New(Node::Kind::kConst, token.offset);
    ++at_;
    if (token.kind == Token::Kind::kDouble) {
      double value = 0;
      const auto [end, error] =
          std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
      if (error == std::errc::result_out_of_range) {
        return Fail(token.offset, "invalid double literal");
      }
      node->value = Value::Double(negative ? -value : value);
      return node;
    }
    std::string_view digits = token.text;
    int base = 10;
    if (digits.starts_with("0x") || digits.starts_with("0X")) {
      digits.remove_prefix(2);
      base = 16;
    }
    std::uint64_t value = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    constexpr std::uint64_t kMaxInt = std::numeric_limits<std::int64_t>::max();
    const bool bad = error != std::errc() || end != digits.data() + digits.size();
    if (token.kind == Token::Kind::kUint) {
      if (bad || negative) {
        return Fail(token.offset, "invalid uint literal");
      }
      node->value = Value::Uint(value);
      return node;
    }
    if (bad || value > kMaxInt + (negative ? 1 : 0)) {
      return Fail(token.offset, "invalid int literal");
    }
    node->value = Value::Int(negative ? static_cast<std::int64_t>(~value + 1)
                                      : static_cast<std::int64_t>(value));
    return node;
  }

  // An identifier, a call, or a struct literal with a dotted type name.
  NodePtr ParseIdent(bool absolute) {
    const std::uint32_t offset = Current().offset;
    std::string name = Current().text;
    // a.b.C{ is a struct; look ahead without consuming.
    std::size_t ahead = 1;
    std::string dotted = name;
    while (Ahead(ahead).kind == Token::Kind::kSymbol && Ahead(ahead).text == "." &&
           Ahead(ahead + 1).kind == Token::Kind::kIdent && ahead < 64) {
      dotted += "." + Ahead(ahead + 1).text;
      ahead += 2;
    }
    if (Ahead(ahead).kind == Token::Kind::kSymbol && Ahead(ahead).text == "{") {
      at_ += ahead + 1;
      return ParseStruct(std::move(dotted), offset);
    }
    ++at_;
    if (IsReserved(name)) {
      return Fail(offset, "Syntax error: reserved identifier: " + name);
    }
    if (IsSymbol("(")) {
      return ParseCall(std::move(name), nullptr, offset);
    }
    NodePtr node = New(Node::Kind::kIdent, offset);
    node->name = std::move(name);
    node->absolute = absolute;
    return node;
  }

  NodePtr ParseStruct(std::string name, std::uint32_t offset) {
    NodePtr node = New(Node::Kind::kStruct, offset);
    node->name = std::move(name);
    while (!TakeSymbol("}")) {
      node->flags.push_back(TakeSymbol("?"));
      if (Current().kind != Token::Kind::kIdent) {
        return Unexpected();
      }
      std::string field = Current().text;
      if (std::ranges::find(node->fields, field) != node->fields.end()) {
        return Fail(Current().offset, "field '" + field + "' is given twice");
      }
      node->fields.push_back(std::move(field));
      ++at_;
      if (!TakeSymbol(":")) {
        return Unexpected();
      }
      if (!Add(*node, ParseExpr())) {
        return nullptr;
      }
      if (!TakeSymbol(",") && !IsSymbol("}")) {
        return Unexpected();
      }
    }
    return node;
  }

  // After the name, at "(". `target` is null for a global call.
  NodePtr ParseCall(std::string name, NodePtr target, std::uint32_t offset) {
    ++at_;
    std::vector<NodePtr> args;
    while (!TakeSymbol(")")) {
      if (!args.empty() && !TakeSymbol(",")) {
        return Unexpected();
      }
      NodePtr arg = ParseExpr();
      if (arg == nullptr) {
        return nullptr;
      }
      args.push_back(std::move(arg));
    }
    bool expanded = false;
    NodePtr macro = ExpandMacro(name, target, args, offset, expanded);
    if (expanded) {
      return macro;
    }
    NodePtr node = New(Node::Kind::kCall, offset);
    node->name = std::move(name);
    node->member = target != nullptr;
    if (target != nullptr && !Add(*node, std::move(target))) {
      return nullptr;
    }
    for (NodePtr& arg : args) {
      if (!Add(*node, std::move(arg))) {
        return nullptr;
      }
    }
    return node;
  }

  static bool IsPlainIdent(const Node& node) {
    return node.kind == Node::Kind::kIdent && !node.absolute;
  }

  // Sets `expanded` when the call is a macro, whether or not it is a good one.
  NodePtr ExpandMacro(const std::string& name,
                      NodePtr& target,
                      std::vector<NodePtr>& args,
                      std::uint32_t offset,
                      bool& expanded) {
    using Macro = Node::Macro;
    if (target == nullptr) {
      if (name != "has" || args.size() != 1) {
        return nullptr;
      }
      expanded = true;
      if (args[0]->kind != Node::Kind::kSelect || args[0]->optional || args[0]->test_only) {
        return Fail(args[0]->offset, "invalid argument to has() macro");
      }
      args[0]->test_only = true;
      return std::move(args[0]);
    }
    if (name == "bind" && bindings_ && IsPlainIdent(*target) && target->name == "cel") {
      if (args.size() != 3) {
        return nullptr;
      }
      expanded = true;
      return MakeMacro(Macro::kBind,
                       offset,
                       std::move(args[1]),
                       std::move(args[0]),
                       nullptr,
                       std::move(args[2]),
                       nullptr,
                       "cel.bind() variable name must be a simple identifier");
    }
    struct Rule {
      std::string_view name;
      std::size_t args;
      Macro macro;
      int variables;
      bool filtered;
    };
    static constexpr Rule kRules[] = {
        {"all", 2, Macro::kAll, 1, false},
        {"exists", 2, Macro::kExists, 1, false},
        {"exists_one", 2, Macro::kExistsOne, 1, false},
        {"map", 2, Macro::kMap, 1, false},
        {"map", 3, Macro::kMap, 1, true},
        {"filter", 2, Macro::kFilter, 1, false},
        {"all", 3, Macro::kAll, 2, false},
        {"exists", 3, Macro::kExists, 2, false},
        {"exists_one", 3, Macro::kExistsOne, 2, false},
        {"existsOne", 3, Macro::kExistsOne, 2, false},
        {"transformList", 3, Macro::kTransformList, 2, false},
        {"transformList", 4, Macro::kTransformList, 2, true},
        {"transformMap", 3, Macro::kTransformMap, 2, false},
        {"transformMap", 4, Macro::kTransformMap, 2, true},
        {"transformMapEntry", 3, Macro::kTransformMapEntry, 2, false},
        {"transformMapEntry", 4, Macro::kTransformMapEntry, 2, true},
        {"sortBy", 2, Macro::kSortBy, 1, false},
        {"optMap", 2, Macro::kOptMap, 1, false},
        {"optFlatMap", 2, Macro::kOptFlatMap, 1, false},
    };
    for (const Rule& rule : kRules) {
      if (rule.name != name || rule.args != args.size()) {
        continue;
      }
      expanded = true;
      const auto variables = static_cast<std::size_t>(rule.variables);
      if (rule.variables == 2 && IsPlainIdent(*args[0]) && IsPlainIdent(*args[1]) &&
          args[0]->name == args[1]->name) {
        return Fail(args[1]->offset, "duplicate variable name: " + args[1]->name);
      }
      NodePtr second = rule.variables == 2 ? std::move(args[1]) : nullptr;
      NodePtr first_body = std::move(args[variables]);
      NodePtr second_body = rule.filtered ? std::move(args[variables + 1]) : nullptr;
      NodePtr node = MakeMacro(rule.macro,
                               offset,
                               std::move(target),
                               std::move(args[0]),
                               std::move(second),
                               std::move(first_body),
                               std::move(second_body),
                               "argument must be a simple name");
      if (node != nullptr) {
        node->filtered = rule.filtered;
      }
      return node;
    }
    return nullptr;
  }

  NodePtr MakeMacro(Node::Macro macro,
                    std::uint32_t offset,
                    NodePtr range,
                    NodePtr variable,
                    NodePtr variable2,
                    NodePtr body,
                    NodePtr body2,
                    std::string_view bad_name) {
    for (const Node* ident : {variable.get(), variable2.get()}) {
      if (ident != nullptr && (!IsPlainIdent(*ident) || ident->name == "__result__")) {
        return Fail(ident->offset, std::string(bad_name));
      }
    }
    NodePtr node = New(Node::Kind::kMacro, offset);
    node->macro = macro;
    node->name = variable->name;
    node->name2 = variable2 == nullptr ? "" : variable2->name;
    if (!Add(*node, std::move(range)) || !Add(*node, std::move(body)) ||
        (body2 != nullptr && !Add(*node, std::move(body2)))) {
      return nullptr;
    }
    return node;
  }

  std::vector<Token> tokens_;
  bool bindings_ = false;
  std::size_t at_ = 0;
  int nesting_ = 0;
  SourceError error_;
};

}  // namespace

std::expected<NodePtr, SourceError> Parse(std::string_view text, bool bindings) {
  auto tokens = Tokenize(text);
  if (!tokens) {
    return std::unexpected(
        SourceError{.offset = tokens.error().offset, .message = std::move(tokens.error().message)});
  }
  return Parser(std::move(*tokens), bindings).Run();
}

}  // namespace muster::cel
