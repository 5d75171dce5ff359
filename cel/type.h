#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::cel {

class TypeData;
// A static type. Immutable and shared; never null where a Type is asked for.
using Type = std::shared_ptr<const TypeData>;

class TypeData {
 public:
  enum class Kind : std::uint8_t {
    kDyn,    // anything goes; checked when it runs
    kError,  // internal: a diagnosed sub-expression
    kNull,
    kBool,
    kInt,
    kUint,
    kDouble,
    kString,
    kBytes,
    kTimestamp,
    kDuration,
    kList,      // params: element
    kMap,       // params: key, value
    kOptional,  // params: inner
    kType,      // params: the type that it names, or none
    kOpaque,    // name: "kubernetes.Quantity"
    kObject,    // name, fields; `open` objects let any field through as dyn
    kParam,     // internal: a type variable, name
  };
  using Fields = std::vector<std::pair<std::string, Type>>;

  Kind kind = Kind::kDyn;
  std::string name;
  std::vector<Type> params;
  Fields fields;
  bool open = false;
  // Nodes of the type written out in full, saturating: a type may share its parts and be
  // exponentially larger than it looks.
  std::size_t weight = 1;

  [[nodiscard]] std::string ToString() const;  // "map(string, list(int))"
};

[[nodiscard]] Type DynType();
[[nodiscard]] Type ErrorType();
[[nodiscard]] Type NullType();
[[nodiscard]] Type BoolType();
[[nodiscard]] Type IntType();
[[nodiscard]] Type UintType();
[[nodiscard]] Type DoubleType();
[[nodiscard]] Type StringType();
[[nodiscard]] Type BytesType();
[[nodiscard]] Type TimestampType();
[[nodiscard]] Type DurationType();
[[nodiscard]] Type QuantityType();
[[nodiscard]] Type SemverType();
[[nodiscard]] Type AuthorizerType();
[[nodiscard]] Type ListType(Type element);
[[nodiscard]] Type MapType(Type key, Type value);
[[nodiscard]] Type OptionalType(Type inner);
[[nodiscard]] Type TypeType(Type of);
[[nodiscard]] Type OpaqueType(std::string name);
[[nodiscard]] Type ParamType(std::string name);
// A struct with exactly these fields; selecting another is a compile error ("undefined field 'x'").
[[nodiscard]] Type ObjectType(std::string name, TypeData::Fields fields);
// A struct whose fields are not known: every selection is dyn.
[[nodiscard]] Type OpenObjectType(std::string name);

}  // namespace muster::cel
