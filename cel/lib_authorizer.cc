// The authorizer library: questions about access, built up step by step and answered by the host.
#include "base/check.h"
#include "cel/authorizer.h"
#include "cel/functions.h"

namespace muster::cel {
namespace {

// One class for the authorizer and for every step of a question; the type's name says how far it
// is.
class Question final : public Opaque {
 public:
  Question(std::string_view type, std::shared_ptr<const AccessBackend> backend, AccessQuery query)
      : type_(type), backend_(std::move(backend)), query_(std::move(query)) {}
  [[nodiscard]] std::string_view type_name() const override { return type_; }
  [[nodiscard]] bool Equals(const Opaque& other) const override { return this == &other; }
  [[nodiscard]] const std::shared_ptr<const AccessBackend>& backend() const { return backend_; }
  [[nodiscard]] const AccessQuery& query() const { return query_; }

 private:
  std::string_view type_;
  std::shared_ptr<const AccessBackend> backend_;
  AccessQuery query_;
};

class Answer final : public Opaque {
 public:
  explicit Answer(AccessDecision decision) : decision_(std::move(decision)) {}
  [[nodiscard]] std::string_view type_name() const override {
    return "kubernetes.authorization.Decision";
  }
  [[nodiscard]] bool Equals(const Opaque& other) const override { return this == &other; }
  [[nodiscard]] const AccessDecision& decision() const { return decision_; }

 private:
  AccessDecision decision_;
};

#define MUSTER_AUTHORIZER "kubernetes.authorization.Authorizer"
#define MUSTER_PATH "kubernetes.authorization.PathCheck"
#define MUSTER_GROUP "kubernetes.authorization.GroupCheck"
#define MUSTER_RESOURCE "kubernetes.authorization.ResourceCheck"
#define MUSTER_DECISION "kubernetes.authorization.Decision"

// Accepts() has checked the type's name, which these classes alone carry.
const Question& QuestionOf(const Call& call) {
  return static_cast<const Question&>(call.args[0].opaque_value());
}
const AccessDecision& DecisionOf(const Call& call) {
  return static_cast<const Answer&>(call.args[0].opaque_value()).decision();
}

std::string Text(const Call& call, std::size_t index) {
  return std::string(call.args[index].string_value());
}

// The question with one more thing said.
Result<Value> With(const Call& call, std::string_view type, std::string AccessQuery::* field) {
  AccessQuery query = QuestionOf(call).query();
  query.*field = Text(call, 1);
  return Value::FromOpaque(
      std::make_shared<const Question>(type, QuestionOf(call).backend(), std::move(query)));
}

Result<Value> Path(const Call& call) {
  if (call.args[1].string_value().empty()) {
    return Fail("path must not be empty");
  }
  return With(call, MUSTER_PATH, &AccessQuery::path);
}
Result<Value> Group(const Call& call) {
  return With(call, MUSTER_GROUP, &AccessQuery::group);
}
Result<Value> ServiceAccount(const Call& call) {
  AccessQuery query = QuestionOf(call).query();
  query.service_account = "system:serviceaccount:" + Text(call, 1) + ":" + Text(call, 2);
  return Value::FromOpaque(std::make_shared<const Question>(
      MUSTER_AUTHORIZER, QuestionOf(call).backend(), std::move(query)));
}
Result<Value> Resource(const Call& call) {
  return With(call, MUSTER_RESOURCE, &AccessQuery::resource);
}
Result<Value> Subresource(const Call& call) {
  return With(call, MUSTER_RESOURCE, &AccessQuery::subresource);
}
Result<Value> Namespace(const Call& call) {
  return With(call, MUSTER_RESOURCE, &AccessQuery::ns);
}
Result<Value> Name(const Call& call) {
  return With(call, MUSTER_RESOURCE, &AccessQuery::name);
}
Result<Value> FieldSelector(const Call& call) {
  return With(call, MUSTER_RESOURCE, &AccessQuery::field_selector);
}
Result<Value> LabelSelector(const Call& call) {
  return With(call, MUSTER_RESOURCE, &AccessQuery::label_selector);
}
Result<Value> Check(const Call& call) {
  call.Charge(350'000);
  if (call.exhausted()) {
    return Value();
  }
  AccessQuery query = QuestionOf(call).query();
  query.verb = Text(call, 1);
  return Value::FromOpaque(
      std::make_shared<const Answer>(QuestionOf(call).backend()->Check(query)));
}
Result<Value> Allowed(const Call& call) {
  return Value::Bool(DecisionOf(call).allowed);
}
Result<Value> Reason(const Call& call) {
  return Value::String(DecisionOf(call).reason);
}
Result<Value> Errored(const Call& call) {
  return Value::Bool(!DecisionOf(call).error.empty());
}
Result<Value> ErrorText(const Call& call) {
  return Value::String(DecisionOf(call).error);
}

constexpr bool kMember = true;

constexpr Declaration kTable[] = {
    {"path", kMember, MUSTER_AUTHORIZER ";string", MUSTER_PATH, Path},
    {"group", kMember, MUSTER_AUTHORIZER ";string", MUSTER_GROUP, Group},
    {"serviceAccount",
     kMember,
     MUSTER_AUTHORIZER ";string;string",
     MUSTER_AUTHORIZER,
     ServiceAccount},
    {"resource", kMember, MUSTER_GROUP ";string", MUSTER_RESOURCE, Resource},
    {"subresource", kMember, MUSTER_RESOURCE ";string", MUSTER_RESOURCE, Subresource},
    {"namespace", kMember, MUSTER_RESOURCE ";string", MUSTER_RESOURCE, Namespace},
    {"name", kMember, MUSTER_RESOURCE ";string", MUSTER_RESOURCE, Name},
    {"fieldSelector", kMember, MUSTER_RESOURCE ";string", MUSTER_RESOURCE, FieldSelector},
    {"labelSelector", kMember, MUSTER_RESOURCE ";string", MUSTER_RESOURCE, LabelSelector},
    {"check", kMember, MUSTER_PATH ";string", MUSTER_DECISION, Check, Cost::kSelf},
    {"check", kMember, MUSTER_RESOURCE ";string", MUSTER_DECISION, Check, Cost::kSelf},
    {"allowed", kMember, MUSTER_DECISION, "bool", Allowed},
    {"reason", kMember, MUSTER_DECISION, "string", Reason},
    {"errored", kMember, MUSTER_DECISION, "bool", Errored},
    {"error", kMember, MUSTER_DECISION, "string", ErrorText},
};

}  // namespace

std::span<const Declaration> AuthorizerFunctions() {
  return kTable;
}

Value MakeAuthorizer(std::shared_ptr<const AccessBackend> backend) {
  MUSTER_CHECK(backend != nullptr);
  return Value::FromOpaque(
      std::make_shared<const Question>(MUSTER_AUTHORIZER, std::move(backend), AccessQuery{}));
}

}  // namespace muster::cel
