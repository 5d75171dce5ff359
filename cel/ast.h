#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cel/type.h"
#include "cel/value.h"

namespace re2 {
class RE2;
}

namespace muster::cel {

struct Function;  // cel/functions.h
struct Node;
using NodePtr = std::unique_ptr<Node>;

// One node of the syntax tree. The parser fills it, the checker annotates it, the evaluator reads
// it.
//
// Depth    `depth` is 1 + the deepest child and never above kMaxDepth, so that recursion over the
// tree is bounded.
struct Node {
  enum class Kind : std::uint8_t {
    kConst,
    kIdent,   // name; slot >= 0 for a local variable
    kSelect,  // children[0].name; test_only for has(); optional for .?
    kIndex,   // children[0][children[1]]; optional for [?]
    kCall,    // name(children...), receiver style when `member`: children[0] is the target
    kAnd,     // any number of children
    kOr,
    kTernary,
    kNot,
    kList,    // children; flags[i]: optional element
    kMap,     // children: key, value, key, value...; flags[i]: optional entry
    kStruct,  // name{fields[i]: children[i]}; flags[i]: optional field
    kMacro,   // see Macro
  };
  // A loop or binding. children[0] is the range (the operand, the initial value); the others are
  // the bodies, in order.
  enum class Macro : std::uint8_t {
    kNone,
    kAll,  // body: predicate
    kExists,
    kExistsOne,
    kMap,  // bodies: [predicate,] transform; `filtered` says whether the predicate is there
    kFilter,
    kTransformList,
    kTransformMap,
    kTransformMapEntry,
    kSortBy,  // body: key
    kBind,    // body: expression
    kOptMap,
    kOptFlatMap,
  };

  Kind kind = Kind::kConst;
  Macro macro = Macro::kNone;
  bool member = false;
  bool test_only = false;
  bool optional = false;
  bool filtered = false;
  bool absolute = false;  // written with a leading dot
  int depth = 1;
  std::uint32_t offset = 0;  // byte in the source, for messages
  std::string name;
  std::string name2;  // second loop variable, empty when there is none
  Value value;
  std::vector<NodePtr> children;
  std::vector<bool> flags;
  std::vector<std::string> fields;

  // By the checker.
  int slot = -1;   // kIdent: local variable; kMacro: its first variable
  int slot2 = -1;  // kMacro: its second variable
  const Function* function = nullptr;
  Type type;
  std::shared_ptr<const re2::RE2> regex;  // of a constant pattern
};

}  // namespace muster::cel
