// Lists and sets: the kubernetes list library, the list extensions, sets.
#include <algorithm>
#include <limits>

#include "cel/functions.h"
#include "cel/value_internal.h"

namespace muster::cel {
namespace {

using Kind = Value::Kind;

// All elements; empty, with the budget spent, when there are more than the budget allows.
std::vector<Value> Items(const Call& call, std::size_t index) {
  const Value& list = call.args[index];
  std::vector<Value> items;
  const std::size_t size = list.size();
  if (static_cast<std::int64_t>(size) / 16 > call.budget) {
    call.budget = -1;
    return items;
  }
  items.reserve(size);
  for (std::size_t i = 0; i < size; ++i) {
    items.push_back(list.At(i));
  }
  return items;
}

bool EqualCharged(const Call& call, const Value& a, const Value& b) {
  std::int64_t steps = std::max<std::int64_t>(call.budget, 0) + 1;
  const std::int64_t before = steps;
  const bool equal = EqualBounded(a, b, steps);
  // One step is part of what the caller charged already.
  call.Charge(std::max<std::int64_t>(0, before - steps - 1));
  return equal && !call.exhausted();
}

Result<int> OrderOf(const Value& a, const Value& b) {
  const std::optional<int> order = a.kind() == b.kind() ? CompareValues(a, b) : std::nullopt;
  if (!order) {
    return NoSuchOverload();
  }
  return *order;
}

bool IsOrdered(const Value& value) {
  return CompareValues(value, value).has_value() || value.is(Kind::kDouble);
}

// Elements without an order between them (which a checked expression has only in lists of dyn)
// count as equal, as upstream.
Result<Value> IsSorted(const Call& call) {
  const std::vector<Value> items = Items(call, 0);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!IsOrdered(items[i])) {
      return NoSuchOverload();
    }
    if (i > 0 && CompareValues(items[i - 1], items[i]).value_or(0) > 0) {
      return Value::Bool(false);
    }
  }
  return Value::Bool(true);
}

Result<Value> Extreme(const Call& call, int wanted, std::string_view name) {
  const std::vector<Value> items = Items(call, 0);
  if (items.empty()) {
    return Fail(std::string(name) + " called on empty list");
  }
  std::size_t best = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!IsOrdered(items[i])) {
      return NoSuchOverload();
    }
    if (CompareValues(items[i], items[best]) == wanted) {
      best = i;
    }
  }
  return items[best];
}
Result<Value> Min(const Call& call) {
  return Extreme(call, -1, "min");
}
Result<Value> Max(const Call& call) {
  return Extreme(call, 1, "max");
}

Result<Value> SumOf(const Call& call, Value total) {
  for (const Value& item : Items(call, 0)) {
    if (item.kind() != total.kind()) {
      return NoSuchOverload();
    }
    std::int64_t sum = 0;
    std::uint64_t unsigned_sum = 0;
    switch (item.kind()) {
      case Kind::kInt:
        if (__builtin_add_overflow(total.int_value(), item.int_value(), &sum)) {
          return Fail("integer overflow");
        }
        total = Value::Int(sum);
        break;
      case Kind::kUint:
        if (__builtin_add_overflow(total.uint_value(), item.uint_value(), &unsigned_sum)) {
          return Fail("unsigned integer overflow");
        }
        total = Value::Uint(unsigned_sum);
        break;
      case Kind::kDouble:
        total = Value::Double(total.double_value() + item.double_value());
        break;
      default:
        if (__builtin_add_overflow(
                total.duration_value().count(), item.duration_value().count(), &sum)) {
          return Fail("duration overflow");
        }
        total = Value::FromDuration(Duration(sum));
    }
  }
  return total;
}
Result<Value> SumInt(const Call& call) {
  // A list of unknown element type comes here first; the elements decide.
  if (call.args[0].size() > 0) {
    switch (call.args[0].At(0).kind()) {
      case Kind::kUint:
        return SumOf(call, Value::Uint(0));
      case Kind::kDouble:
        return SumOf(call, Value::Double(0));
      case Kind::kDuration:
        return SumOf(call, Value::FromDuration(Duration(0)));
      default:
        break;
    }
  }
  return SumOf(call, Value::Int(0));
}
Result<Value> SumUint(const Call& call) {
  return SumOf(call, Value::Uint(0));
}
Result<Value> SumDouble(const Call& call) {
  return SumOf(call, Value::Double(0));
}
Result<Value> SumDuration(const Call& call) {
  return SumOf(call, Value::FromDuration(Duration(0)));
}

Result<Value> IndexOf(const Call& call) {
  const std::size_t size = call.args[0].size();
  for (std::size_t i = 0; i < size; ++i) {
    if (EqualCharged(call, call.args[0].At(i), call.args[1])) {
      return Value::Int(static_cast<std::int64_t>(i));
    }
  }
  return Value::Int(-1);
}
Result<Value> LastIndexOf(const Call& call) {
  for (std::size_t i = call.args[0].size(); i > 0; --i) {
    if (EqualCharged(call, call.args[0].At(i - 1), call.args[1])) {
      return Value::Int(static_cast<std::int64_t>(i - 1));
    }
  }
  return Value::Int(-1);
}
Result<Value> Includes(const Call& call) {
  if (!call.args[0].is(Kind::kList)) {
    return Value::Bool(EqualCharged(call, call.args[0], call.args[1]));
  }
  const std::size_t size = call.args[0].size();
  for (std::size_t i = 0; i < size; ++i) {
    if (EqualCharged(call, call.args[0].At(i), call.args[1])) {
      return Value::Bool(true);
    }
  }
  return Value::Bool(false);
}

Result<Value> Slice(const Call& call) {
  const std::int64_t begin = call.args[1].int_value();
  const std::int64_t end = call.args[2].int_value();
  const auto size = static_cast<std::int64_t>(call.args[0].size());
  if (begin < 0 || end < 0) {
    return Fail("cannot slice(" + std::to_string(begin) + ", " + std::to_string(end) +
                "), negative indexes not supported");
  }
  if (begin > end) {
    return Fail("cannot slice(" + std::to_string(begin) + ", " + std::to_string(end) +
                "), start index must be less than or equal to end index");
  }
  if (end > size) {
    return Fail("cannot slice(" + std::to_string(begin) + ", " + std::to_string(end) +
                "), list is length " + std::to_string(size));
  }
  call.Charge(end - begin);
  std::vector<Value> out;
  for (std::int64_t i = begin; i < end && !call.exhausted(); ++i) {
    out.push_back(call.args[0].At(static_cast<std::size_t>(i)));
  }
  return Value::List(std::move(out));
}

void FlattenInto(std::vector<Value>& out, const Value& list, std::int64_t depth, const Call& call) {
  const std::size_t size = list.size();
  for (std::size_t i = 0; i < size && !call.exhausted(); ++i) {
    const Value item = list.At(i);
    call.Charge(1);
    if (item.is(Kind::kList) && depth > 0) {
      FlattenInto(out, item, depth - 1, call);
    } else {
      out.push_back(item);
    }
  }
}
Result<Value> Flatten(const Call& call) {
  const std::int64_t depth = call.args.size() == 2 ? call.args[1].int_value() : 1;
  if (depth < 0) {
    return Fail("level must be non-negative");
  }
  std::vector<Value> out;
  // Values are never nested deeper than expressions or documents are, but a bound costs nothing.
  FlattenInto(out, call.args[0], std::min<std::int64_t>(depth, 1000), call);
  return Value::List(std::move(out));
}

// Sorts `items` by `keys`, stable; both have the same length.
Result<Value> SortByKeys(const Call& call,
                         const std::vector<Value>& items,
                         const std::vector<Value>& keys) {
  std::vector<std::size_t> order(items.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
    if (i > 0) {
      MUSTER_RETURN_IF_ERROR(OrderOf(keys[0], keys[i]));
    } else if (!CompareValues(keys[0], keys[0])) {
      return Fail("list elements must be comparable");
    }
  }
  call.Charge(static_cast<std::int64_t>(items.size()) * 8);
  if (call.exhausted()) {
    return Value();
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const int compared = CompareValues(keys[a], keys[b]).value_or(0);
    return compared != 0 ? compared < 0 : a < b;
  });
  std::vector<Value> out;
  out.reserve(items.size());
  for (const std::size_t i : order) {
    out.push_back(items[i]);
  }
  return Value::List(std::move(out));
}
Result<Value> Sort(const Call& call) {
  const std::vector<Value> items = Items(call, 0);
  return SortByKeys(call, items, items);
}
Result<Value> SortBy(const Call& call) {
  const std::vector<Value> items = Items(call, 0);
  const std::vector<Value> keys = Items(call, 1);
  if (items.size() != keys.size()) {
    return Value();  // the budget is spent
  }
  return SortByKeys(call, items, keys);
}

Result<Value> Range(const Call& call) {
  const std::int64_t count = call.args[0].int_value();
  if (count < 0) {
    return Fail("lists.range: size must be non-negative, got " + std::to_string(count));
  }
  call.Charge(std::max<std::int64_t>(count, 0));
  std::vector<Value> out;
  if (!call.exhausted()) {
    for (std::int64_t i = 0; i < count; ++i) {
      out.push_back(Value::Int(i));
    }
  }
  return Value::List(std::move(out));
}
Result<Value> Reverse(const Call& call) {
  std::vector<Value> items = Items(call, 0);
  std::ranges::reverse(items);
  return Value::List(std::move(items));
}
Result<Value> Distinct(const Call& call) {
  std::vector<Value> out;
  for (const Value& item : Items(call, 0)) {
    bool seen = false;
    for (const Value& other : out) {
      call.Charge(1);
      seen = seen || EqualCharged(call, item, other);
      if (seen || call.exhausted()) {
        break;
      }
    }
    if (!seen) {
      out.push_back(item);
    }
    if (call.exhausted()) {
      break;
    }
  }
  return Value::List(std::move(out));
}

bool ContainsAll(const Call& call,
                 const std::vector<Value>& set,
                 const std::vector<Value>& wanted) {
  for (const Value& item : wanted) {
    bool found = false;
    for (const Value& member : set) {
      found = found || EqualCharged(call, member, item);
      if (found || call.exhausted()) {
        break;
      }
    }
    if (!found) {
      return false;
    }
  }
  return true;
}
void ChargeProduct(const Call& call, std::int64_t factor) {
  const auto a = static_cast<std::int64_t>(std::min<std::size_t>(call.args[0].size(), 1U << 24));
  const auto b = static_cast<std::int64_t>(std::min<std::size_t>(call.args[1].size(), 1U << 24));
  call.Charge(1 + a * b * factor);
}
Result<Value> SetContains(const Call& call) {
  ChargeProduct(call, 1);
  if (call.exhausted()) {
    return Value();
  }
  return Value::Bool(ContainsAll(call, Items(call, 0), Items(call, 1)));
}
Result<Value> SetEquivalent(const Call& call) {
  ChargeProduct(call, 2);
  if (call.exhausted()) {
    return Value();
  }
  const std::vector<Value> a = Items(call, 0);
  const std::vector<Value> b = Items(call, 1);
  return Value::Bool(ContainsAll(call, a, b) && ContainsAll(call, b, a));
}
Result<Value> SetIntersects(const Call& call) {
  ChargeProduct(call, 1);
  if (call.exhausted()) {
    return Value();
  }
  const std::vector<Value> a = Items(call, 0);
  for (const Value& item : Items(call, 1)) {
    for (const Value& member : a) {
      if (EqualCharged(call, member, item)) {
        return Value::Bool(true);
      }
    }
  }
  return Value::Bool(false);
}

constexpr bool kGlobal = false;
constexpr bool kMember = true;

#define MUSTER_CEL_ORDERED(name, result_of, function, cost)                       \
  {name, kMember, "list<int>", result_of("int"), function, cost},                 \
      {name, kMember, "list<uint>", result_of("uint"), function, cost},           \
      {name, kMember, "list<double>", result_of("double"), function, cost},       \
      {name, kMember, "list<bool>", result_of("bool"), function, cost},           \
      {name, kMember, "list<duration>", result_of("duration"), function, cost},   \
      {name, kMember, "list<timestamp>", result_of("timestamp"), function, cost}, \
      {name, kMember, "list<string>", result_of("string"), function, cost}, {     \
    name, kMember, "list<bytes>", result_of("bytes"), function, cost              \
  }
#define MUSTER_CEL_BOOL(type) "bool"
#define MUSTER_CEL_SAME(type) type
#define MUSTER_CEL_LIST(type) "list<" type ">"
#define MUSTER_CEL_KEYED(type) \
  {"@sortBy", kGlobal, "list<T>;list<" type ">", "list<T>", SortBy, Cost::kTraverse}

constexpr Declaration kTable[] = {
    MUSTER_CEL_ORDERED("isSorted", MUSTER_CEL_BOOL, IsSorted, Cost::kTraverse),
    MUSTER_CEL_ORDERED("min", MUSTER_CEL_SAME, Min, Cost::kTraverse),
    MUSTER_CEL_ORDERED("max", MUSTER_CEL_SAME, Max, Cost::kTraverse),
    {"sum", kMember, "list<int>", "int", SumInt, Cost::kTraverse},
    {"sum", kMember, "list<uint>", "uint", SumUint, Cost::kTraverse},
    {"sum", kMember, "list<double>", "double", SumDouble, Cost::kTraverse},
    {"sum", kMember, "list<duration>", "duration", SumDuration, Cost::kTraverse},
    {"indexOf", kMember, "list<A>;A", "int", IndexOf, Cost::kTraverse},
    {"lastIndexOf", kMember, "list<A>;A", "int", LastIndexOf, Cost::kTraverse},
    {"includes", kMember, "dyn;dyn", "bool", Includes, Cost::kTraverse},
    {"slice", kMember, "list<T>;int;int", "list<T>", Slice, Cost::kSelf},
    {"flatten", kMember, "list<list<T>>", "list<T>", Flatten, Cost::kSelf},
    {"flatten", kMember, "list<dyn>;int", "list<dyn>", Flatten, Cost::kSelf},
    MUSTER_CEL_ORDERED("sort", MUSTER_CEL_LIST, Sort, Cost::kTraverse),
    MUSTER_CEL_KEYED("int"),
    MUSTER_CEL_KEYED("uint"),
    MUSTER_CEL_KEYED("double"),
    MUSTER_CEL_KEYED("bool"),
    MUSTER_CEL_KEYED("duration"),
    MUSTER_CEL_KEYED("timestamp"),
    MUSTER_CEL_KEYED("string"),
    MUSTER_CEL_KEYED("bytes"),
    {"lists.range", kGlobal, "int", "list<int>", Range, Cost::kSelf},
    {"reverse", kMember, "list<T>", "list<T>", Reverse, Cost::kTraverse},
    {"distinct", kMember, "list<T>", "list<T>", Distinct, Cost::kTraverse},
    {"sets.contains", kGlobal, "list<T>;list<T>", "bool", SetContains, Cost::kSelf},
    {"sets.equivalent", kGlobal, "list<T>;list<T>", "bool", SetEquivalent, Cost::kSelf},
    {"sets.intersects", kGlobal, "list<T>;list<T>", "bool", SetIntersects, Cost::kSelf},
};

}  // namespace

std::span<const Declaration> ListFunctions() {
  return kTable;
}

}  // namespace muster::cel
