#include "cel/functions.h"

#include <map>

#include <re2/re2.h>

#include "base/check.h"
#include "cel/value_internal.h"

namespace muster::cel {
namespace {

// Reads one type of a declaration. The tables are part of the program, so a mistake in one is a
// bug.
Type ReadType(std::string_view& text) {
  std::size_t length = 0;
  while (length < text.size() && text[length] != '<' && text[length] != '>' &&
         text[length] != ',') {
    ++length;
  }
  const std::string_view name = text.substr(0, length);
  text.remove_prefix(length);
  std::vector<Type> params;
  if (!text.empty() && text[0] == '<') {
    do {
      text.remove_prefix(1);
      params.push_back(ReadType(text));
    } while (!text.empty() && text[0] == ',');
    MUSTER_CHECK(!text.empty() && text[0] == '>');
    text.remove_prefix(1);
  }
  if (name.size() == 1) {
    return ParamType(std::string(name));
  }
  if (name == "list") {
    return ListType(params.at(0));
  }
  if (name == "map") {
    return MapType(params.at(0), params.at(1));
  }
  if (name == "opt") {
    return OptionalType(params.at(0));
  }
  if (name == "type") {
    return TypeType(params.empty() ? nullptr : params[0]);
  }
  if (name == "timestamp") {
    return TimestampType();
  }
  if (name == "duration") {
    return DurationType();
  }
  if (const Type simple = FindTypeName(name)) {
    return simple;
  }
  return OpaqueType(std::string(name));
}

class Registry {
 public:
  Registry() {
    for (const auto table : {StandardFunctions(),
                             TimeFunctions(),
                             StringFunctions(),
                             ListFunctions(),
                             KubernetesFunctions(),
                             NetworkFunctions(),
                             AuthorizerFunctions()}) {
      for (const Declaration& line : table) {
        Add(line);
      }
    }
  }
  [[nodiscard]] const Function* Find(std::string_view name) const {
    const auto found = functions_.find(name);
    return found == functions_.end() ? nullptr : &found->second;
  }

 private:
  void Add(const Declaration& line) {
    Function& function = functions_[line.name];
    function.name = line.name;
    function.mutation_only = function.name.starts_with("jsonpatch.");
    Overload overload{.member = line.member,
                      .args = {},
                      .result = nullptr,
                      .implementation = line.implementation,
                      .cost = line.cost};
    std::string_view args = line.args;
    while (!args.empty()) {
      const std::size_t end = args.find(';');
      std::string_view one = args.substr(0, end);
      overload.args.push_back(ReadType(one));
      args = end == std::string_view::npos ? std::string_view() : args.substr(end + 1);
    }
    std::string_view result = line.result;
    overload.result = ReadType(result);
    function.overloads.push_back(std::move(overload));
  }

  std::map<std::string, Function, std::less<>> functions_;
};

}  // namespace

void Call::ChargeScan(std::size_t index, std::int64_t factor) const {
  Charge((SizeOf(args[index]) * factor + 9) / 10);
}

std::int64_t SizeOf(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kString:
      return static_cast<std::int64_t>(CodePoints(value.string_value()));
    case Value::Kind::kBytes:
      return static_cast<std::int64_t>(value.string_value().size());
    case Value::Kind::kList:
    case Value::Kind::kMap:
      return static_cast<std::int64_t>(value.size());
    case Value::Kind::kOptional: {
      const auto inner = value.optional_value();
      return inner && !inner->is(Value::Kind::kOptional) ? SizeOf(*inner) : 1;
    }
    default:
      return 1;
  }
}

const Function* FindFunction(std::string_view name) {
  static const Registry registry;
  return registry.Find(name);
}

Type FindTypeName(std::string_view name) {
  static const std::map<std::string, Type, std::less<>> types = {
      {"dyn", DynType()},
      {"null_type", NullType()},
      {"bool", BoolType()},
      {"int", IntType()},
      {"uint", UintType()},
      {"double", DoubleType()},
      {"string", StringType()},
      {"bytes", BytesType()},
      {"type", TypeType(nullptr)},
      {"list", ListType(DynType())},
      {"map", MapType(DynType(), DynType())},
      {"optional_type", OptionalType(DynType())},
      {"google.protobuf.Timestamp", TimestampType()},
      {"google.protobuf.Duration", DurationType()},
      {"net.IP", OpaqueType("net.IP")},
      {"net.CIDR", OpaqueType("net.CIDR")},
  };
  const auto found = types.find(name);
  return found == types.end() ? nullptr : found->second;
}

bool Accepts(const Type& type, const Value& value) {
  using Want = TypeData::Kind;
  using Have = Value::Kind;
  switch (type->kind) {
    case Want::kDyn:
    case Want::kError:
    case Want::kParam:
      return true;
    case Want::kNull:
      return value.is(Have::kNull);
    case Want::kBool:
      return value.is(Have::kBool);
    case Want::kInt:
      return value.is(Have::kInt);
    case Want::kUint:
      return value.is(Have::kUint);
    case Want::kDouble:
      return value.is(Have::kDouble);
    case Want::kString:
      return value.is(Have::kString);
    case Want::kBytes:
      return value.is(Have::kBytes);
    case Want::kTimestamp:
      return value.is(Have::kTimestamp);
    case Want::kDuration:
      return value.is(Have::kDuration);
    case Want::kList:
      return value.is(Have::kList);
    case Want::kMap:
      return value.is(Have::kMap) || value.is(Have::kObject);
    case Want::kOptional:
      return value.is(Have::kOptional);
    case Want::kType:
      return value.is(Have::kType);
    case Want::kOpaque:
    case Want::kObject:
      return value.TypeName() == type->name;
  }
  return false;
}

Result<std::shared_ptr<const re2::RE2>> CompileRegex(std::string_view pattern) {
  re2::RE2::Options options(re2::RE2::Quiet);
  options.set_max_mem(1 << 20);
  auto regex =
      std::make_shared<const re2::RE2>(re2::StringPiece(pattern.data(), pattern.size()), options);
  if (!regex->ok()) {
    return Fail("error parsing regexp: " + regex->error());
  }
  return regex;
}

}  // namespace muster::cel
