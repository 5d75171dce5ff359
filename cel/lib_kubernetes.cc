// Quantities, semantic versions, named formats, JSON patch helpers.
#include <array>
#include <limits>

#include <re2/re2.h>

#include "cel/functions.h"
#include "cel/value_internal.h"

namespace muster::cel {
namespace {

// ---- quantity ----

Result<Value> ToQuantity(const Call& call) {
  MUSTER_ASSIGN_OR_RETURN(const Quantity quantity, Quantity::Parse(call.args[0].string_value()));
  return Value::FromQuantity(quantity);
}
Result<Value> IsQuantity(const Call& call) {
  return Value::Bool(Quantity::Parse(call.args[0].string_value()).has_value());
}
Result<Value> Sign(const Call& call) {
  return Value::Int(call.args[0].quantity_value().Sign());
}
int Order(const Call& call) {
  return call.args[0].quantity_value().Compare(call.args[1].quantity_value());
}
Result<Value> QuantityGreater(const Call& call) {
  return Value::Bool(Order(call) > 0);
}
Result<Value> QuantityLess(const Call& call) {
  return Value::Bool(Order(call) < 0);
}
Result<Value> QuantityCompare(const Call& call) {
  return Value::Int(Order(call));
}
Result<Value> AsApproximateFloat(const Call& call) {
  return Value::Double(call.args[0].quantity_value().AsApproximateFloat());
}
Result<Value> IsInteger(const Call& call) {
  return Value::Bool(call.args[0].quantity_value().IsInteger());
}
Result<Value> AsInteger(const Call& call) {
  if (!call.args[0].quantity_value().IsInteger()) {
    return Fail("cannot convert value to integer");
  }
  return Value::Int(call.args[0].quantity_value().AsInteger());
}
Quantity Other(const Call& call) {
  return call.args[1].is(Value::Kind::kInt) ? Quantity::FromInt(call.args[1].int_value())
                                            : call.args[1].quantity_value();
}
Result<Value> QuantityAdd(const Call& call) {
  return Value::FromQuantity(call.args[0].quantity_value().Plus(Other(call)));
}
Result<Value> QuantitySub(const Call& call) {
  return Value::FromQuantity(call.args[0].quantity_value().Minus(Other(call)));
}

// ---- semver ----

bool Normalizes(const Call& call) {
  return call.args.size() == 2 && call.args[1].bool_value();
}
Result<Value> ToSemver(const Call& call) {
  MUSTER_ASSIGN_OR_RETURN(Semver version,
                          Semver::Parse(call.args[0].string_value(), Normalizes(call)));
  return Value::FromSemver(std::move(version));
}
Result<Value> IsSemver(const Call& call) {
  return Value::Bool(Semver::Parse(call.args[0].string_value(), Normalizes(call)).has_value());
}
int SemverOrder(const Call& call) {
  return call.args[0].semver_value().Compare(call.args[1].semver_value());
}
Result<Value> SemverGreater(const Call& call) {
  return Value::Bool(SemverOrder(call) > 0);
}
Result<Value> SemverLess(const Call& call) {
  return Value::Bool(SemverOrder(call) < 0);
}
Result<Value> SemverCompare(const Call& call) {
  return Value::Int(SemverOrder(call));
}
Result<Value> Part(std::uint64_t value) {
  if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return Fail("integer overflow");
  }
  return Value::Int(static_cast<std::int64_t>(value));
}
Result<Value> Major(const Call& call) {
  return Part(call.args[0].semver_value().major);
}
Result<Value> Minor(const Call& call) {
  return Part(call.args[0].semver_value().minor);
}
Result<Value> Patch(const Call& call) {
  return Part(call.args[0].semver_value().patch);
}

// ---- named formats ----

struct FormatRule {
  const char* name;
  std::size_t max_length;  // 0: no limit
  const char* pattern;
  const char* message;
};
#define MUSTER_LABEL "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
#define MUSTER_QUALIFIED "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
constexpr FormatRule kFormats[] = {
    {"dns1123Label", 63, MUSTER_LABEL, "must be a lowercase RFC 1123 label"},
    {"dns1123Subdomain",
     253,
     MUSTER_LABEL "(\\." MUSTER_LABEL ")*",
     "must be a lowercase RFC 1123 subdomain"},
    {"dns1035Label", 63, "[a-z]([-a-z0-9]*[a-z0-9])?", "must be a lowercase RFC 1035 label"},
    {"qualifiedName",
     0,
     "(" MUSTER_LABEL "(\\." MUSTER_LABEL ")*/)?" MUSTER_QUALIFIED,
     "must be a qualified name"},
    {"dns1123LabelPrefix",
     63,
     "[a-z0-9][-a-z0-9]*",
     "must be the beginning of a lowercase RFC 1123 label"},
    {"dns1123SubdomainPrefix",
     253,
     "(" MUSTER_LABEL "\\.)*[a-z0-9][-a-z0-9]*\\.?",
     "must be the beginning of a lowercase RFC 1123 subdomain"},
    {"dns1035LabelPrefix",
     63,
     "[a-z][-a-z0-9]*",
     "must be the beginning of a lowercase RFC 1035 label"},
    {"labelValue", 63, "(" MUSTER_QUALIFIED ")?", "must be a valid label value"},
    {"uri", 0, "[A-Za-z][A-Za-z0-9+.-]*:[^\\s]*|/[^\\s]*", "must be a URI"},
    {"uuid",
     36,
     "[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}",
     "does not match the UUID format"},
    {"byte", 0, "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", "invalid base64"},
    {"date", 10, "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])", "invalid date"},
    {"datetime", 0, "", "invalid datetime"},
};
#undef MUSTER_LABEL
#undef MUSTER_QUALIFIED

class NamedFormat final : public Opaque {
 public:
  explicit NamedFormat(const FormatRule& rule) : rule_(rule) {}
  [[nodiscard]] std::string_view type_name() const override { return "kubernetes.NamedFormat"; }
  [[nodiscard]] bool Equals(const Opaque& other) const override {
    const auto* format = dynamic_cast<const NamedFormat*>(&other);
    return format != nullptr && &format->rule_ == &rule_;
  }
  // The problems of `text`; none when it is valid.
  [[nodiscard]] std::vector<Value> Validate(std::string_view text) const {
    std::vector<Value> problems;
    if (std::string_view(rule_.name) == "datetime") {
      if (!ParseTimestamp(text)) {
        problems.push_back(Value::String(rule_.message));
      }
      return problems;
    }
    if (rule_.max_length != 0 && text.size() > rule_.max_length) {
      problems.push_back(Value::String("must be no more than " + std::to_string(rule_.max_length) +
                                       " characters"));
    }
    if (!re2::RE2::FullMatch(re2::StringPiece(text.data(), text.size()), rule_.pattern)) {
      problems.push_back(Value::String(rule_.message));
    }
    return problems;
  }

 private:
  const FormatRule& rule_;
};

const FormatRule* FindFormat(std::string_view name) {
  for (const FormatRule& rule : kFormats) {
    if (name == rule.name) {
      return &rule;
    }
  }
  return nullptr;
}

Result<Value> FormatNamed(const Call& call) {
  const FormatRule* rule = FindFormat(call.args[0].string_value());
  return rule == nullptr
             ? Value::None()
             : Value::Some(Value::FromOpaque(std::make_shared<const NamedFormat>(*rule)));
}
// format.dns1123Label() and its like: the name of the function is the name of the format.
Result<Value> FormatByFunction(const Call& call) {
  const std::string_view name = call.node.function->name;
  const FormatRule* rule = FindFormat(name.substr(name.find('.') + 1));
  if (rule == nullptr) {
    return NoSuchOverload();
  }
  return Value::FromOpaque(std::make_shared<const NamedFormat>(*rule));
}
Result<Value> Validate(const Call& call) {
  const auto* format = dynamic_cast<const NamedFormat*>(&call.args[0].opaque_value());
  if (format == nullptr) {
    return NoSuchOverload();
  }
  call.Charge(((SizeOf(call.args[1]) + 10) / 10) * 16);
  if (call.exhausted()) {
    return Value();
  }
  std::vector<Value> problems = format->Validate(call.args[1].string_value());
  return problems.empty() ? Value::None() : Value::Some(Value::List(std::move(problems)));
}

// ---- mutation ----

Result<Value> EscapeKey(const Call& call) {
  std::string out;
  for (const char c : call.args[0].string_value()) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out.push_back(c);
    }
  }
  return Value::String(std::move(out));
}

constexpr bool kGlobal = false;
constexpr bool kMember = true;

#define MUSTER_Q "kubernetes.Quantity"
#define MUSTER_V "kubernetes.Semver"
#define MUSTER_F "kubernetes.NamedFormat"
constexpr Declaration kTable[] = {
    {"quantity", kGlobal, "string", MUSTER_Q, ToQuantity, Cost::kScan},
    {"isQuantity", kGlobal, "string", "bool", IsQuantity, Cost::kScan},
    {"sign", kGlobal, MUSTER_Q, "int", Sign},
    {"isGreaterThan", kMember, MUSTER_Q ";" MUSTER_Q, "bool", QuantityGreater},
    {"isLessThan", kMember, MUSTER_Q ";" MUSTER_Q, "bool", QuantityLess},
    {"compareTo", kMember, MUSTER_Q ";" MUSTER_Q, "int", QuantityCompare},
    {"asApproximateFloat", kMember, MUSTER_Q, "double", AsApproximateFloat},
    {"asInteger", kMember, MUSTER_Q, "int", AsInteger},
    {"isInteger", kMember, MUSTER_Q, "bool", IsInteger},
    {"add", kMember, MUSTER_Q ";" MUSTER_Q, MUSTER_Q, QuantityAdd},
    {"add", kMember, MUSTER_Q ";int", MUSTER_Q, QuantityAdd},
    {"sub", kMember, MUSTER_Q ";" MUSTER_Q, MUSTER_Q, QuantitySub},
    {"sub", kMember, MUSTER_Q ";int", MUSTER_Q, QuantitySub},
    {"semver", kGlobal, "string", MUSTER_V, ToSemver, Cost::kScan},
    {"semver", kGlobal, "string;bool", MUSTER_V, ToSemver, Cost::kScan},
    {"isSemver", kGlobal, "string", "bool", IsSemver, Cost::kScan},
    {"isSemver", kGlobal, "string;bool", "bool", IsSemver, Cost::kScan},
    {"isGreaterThan", kMember, MUSTER_V ";" MUSTER_V, "bool", SemverGreater},
    {"isLessThan", kMember, MUSTER_V ";" MUSTER_V, "bool", SemverLess},
    {"compareTo", kMember, MUSTER_V ";" MUSTER_V, "int", SemverCompare},
    {"major", kMember, MUSTER_V, "int", Major},
    {"minor", kMember, MUSTER_V, "int", Minor},
    {"patch", kMember, MUSTER_V, "int", Patch},
    {"format.named", kGlobal, "string", "opt<" MUSTER_F ">", FormatNamed},
    {"format.dns1123Label", kGlobal, "", MUSTER_F, FormatByFunction},
    {"format.dns1123Subdomain", kGlobal, "", MUSTER_F, FormatByFunction},
    {"format.dns1035Label", kGlobal, "", MUSTER_F, FormatByFunction},
    {"format.qualifiedName", kGlobal, "", MUSTER_F, FormatByFunction},
    {"format.dns1123LabelPrefix", kGlobal, "", MUSTER_F, FormatByFunction},
    {"format.dns1123SubdomainPrefix", kGlobal, "", MUSTER_F, FormatByFunction},
    {"format.dns1035LabelPrefix", kGlobal, "", MUSTER_F, FormatByFunction},
    {"format.labelValue", kGlobal, "", MUSTER_F, FormatByFunction},
    {"format.uri", kGlobal, "", MUSTER_F, FormatByFunction},
    {"format.uuid", kGlobal, "", MUSTER_F, FormatByFunction},
    {"format.byte", kGlobal, "", MUSTER_F, FormatByFunction},
    {"format.date", kGlobal, "", MUSTER_F, FormatByFunction},
    {"format.datetime", kGlobal, "", MUSTER_F, FormatByFunction},
    {"validate", kMember, MUSTER_F ";string", "opt<list<string>>", Validate, Cost::kSelf},
    {"jsonpatch.escapeKey", kGlobal, "string", "string", EscapeKey, Cost::kScan},
};
#undef MUSTER_Q
#undef MUSTER_V
#undef MUSTER_F

}  // namespace

std::span<const Declaration> KubernetesFunctions() {
  return kTable;
}

}  // namespace muster::cel
