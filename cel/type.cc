#include "cel/type.h"

#include <algorithm>

namespace muster::cel {
namespace {

using Kind = TypeData::Kind;

constexpr std::size_t kMaxWeight = 1U << 20;

Type Make(Kind kind, std::string name, std::vector<Type> params = {}) {
  auto type = std::make_shared<TypeData>();
  type->kind = kind;
  type->name = std::move(name);
  for (const Type& param : params) {
    type->weight = std::min(kMaxWeight, type->weight + param->weight);
  }
  type->params = std::move(params);
  return type;
}

}  // namespace

std::string TypeData::ToString() const {
  if (weight > 100) {
    return name.empty() ? "a type too large to print" : name;
  }
  if (kind == Kind::kParam && name.starts_with("_var")) {
    return "dyn";
  }
  if (params.empty()) {
    return name;
  }
  std::string out = name + "(";
  for (std::size_t i = 0; i < params.size(); ++i) {
    out += (i == 0 ? "" : ", ") + params[i]->ToString();
  }
  return out + ")";
}

#define MUSTER_CEL_SIMPLE_TYPE(function, kind, name) \
  Type function() {                                  \
    static const Type type = Make(Kind::kind, name); \
    return type;                                     \
  }
MUSTER_CEL_SIMPLE_TYPE(DynType, kDyn, "dyn")
MUSTER_CEL_SIMPLE_TYPE(ErrorType, kError, "!error!")
MUSTER_CEL_SIMPLE_TYPE(NullType, kNull, "null_type")
MUSTER_CEL_SIMPLE_TYPE(BoolType, kBool, "bool")
MUSTER_CEL_SIMPLE_TYPE(IntType, kInt, "int")
MUSTER_CEL_SIMPLE_TYPE(UintType, kUint, "uint")
MUSTER_CEL_SIMPLE_TYPE(DoubleType, kDouble, "double")
MUSTER_CEL_SIMPLE_TYPE(StringType, kString, "string")
MUSTER_CEL_SIMPLE_TYPE(BytesType, kBytes, "bytes")
MUSTER_CEL_SIMPLE_TYPE(TimestampType, kTimestamp, "google.protobuf.Timestamp")
MUSTER_CEL_SIMPLE_TYPE(DurationType, kDuration, "google.protobuf.Duration")
MUSTER_CEL_SIMPLE_TYPE(QuantityType, kOpaque, "kubernetes.Quantity")
MUSTER_CEL_SIMPLE_TYPE(SemverType, kOpaque, "kubernetes.Semver")
MUSTER_CEL_SIMPLE_TYPE(AuthorizerType, kOpaque, "kubernetes.authorization.Authorizer")
#undef MUSTER_CEL_SIMPLE_TYPE

Type ListType(Type element) {
  return Make(Kind::kList, "list", {std::move(element)});
}
Type MapType(Type key, Type value) {
  return Make(Kind::kMap, "map", {std::move(key), std::move(value)});
}
Type OptionalType(Type inner) {
  return Make(Kind::kOptional, "optional_type", {std::move(inner)});
}
Type TypeType(Type of) {
  return of == nullptr ? Make(Kind::kType, "type") : Make(Kind::kType, "type", {std::move(of)});
}
Type OpaqueType(std::string name) {
  return Make(Kind::kOpaque, std::move(name));
}
Type ParamType(std::string name) {
  return Make(Kind::kParam, std::move(name));
}

Type ObjectType(std::string name, TypeData::Fields fields) {
  auto type = std::make_shared<TypeData>();
  type->kind = Kind::kObject;
  type->name = std::move(name);
  type->fields = std::move(fields);
  return type;
}

Type OpenObjectType(std::string name) {
  auto type = std::make_shared<TypeData>();
  type->kind = Kind::kObject;
  type->name = std::move(name);
  type->open = true;
  return type;
}

}  // namespace muster::cel
