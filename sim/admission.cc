#include "sim/admission.h"

#include <algorithm>
#include <set>
#include <utility>

#include "api/quantity.h"
#include "base/strings.h"
#include "cel/authorizer.h"
#include "sim/access.h"
#include "sim/cel_json.h"
#include "sim/patching.h"
#include "sim/programs.h"
#include "sim/rbac.h"
#include "sim/rules.h"
#include "sim/schema.h"

namespace muster::sim {
namespace {

constexpr std::size_t kMaxMessageBytes = 5 * 1024;

struct Expression {
  std::string name;
  std::string text;
  std::optional<cel::Program> program;
  std::string error;
};

Expression Compile(std::string name, const std::string& text, ProgramKind kind) {
  Expression out{.name = std::move(name), .text = text, .program = std::nullopt, .error = {}};
  const auto& program = CompileOnce(kind, text);
  if (program) {
    out.program = *program;
  } else {
    out.error = "compilation error: " + program.error().message;
  }
  return out;
}

struct Rule {
  std::vector<std::string> groups;
  std::vector<std::string> versions;
  std::vector<std::string> resources;
  std::vector<std::string> operations;
  std::vector<std::string> names;
  std::string scope;
};

bool Lists(const std::vector<std::string>& list, const std::string& wanted) {
  return std::ranges::any_of(
      list, [&](const std::string& item) { return item == "*" || item == wanted; });
}

std::string_view Name(Operation operation) {
  switch (operation) {
    case Operation::kCreate:
      return "CREATE";
    case Operation::kUpdate:
      return "UPDATE";
    case Operation::kDelete:
      return "DELETE";
  }
  return "";
}

// matchConstraints of a policy or matchResources of a binding.
struct Match {
  bool present = false;
  bool exact = false;
  std::vector<Rule> rules;
  std::vector<Rule> excluded;
  LabelMatcher namespaces;
  LabelMatcher objects;

  static Match Read(const Json* json) {
    Match out;
    if (json == nullptr || !json->is_object()) {
      return out;
    }
    out.present = true;
    out.exact = TextAt(*json, "matchPolicy") == "Exact";
    const auto read = [](const Json& list, std::vector<Rule>& to) {
      for (const Json& item : list) {
        to.push_back({.groups = TextsAt(item, "apiGroups"),
                      .versions = TextsAt(item, "apiVersions"),
                      .resources = TextsAt(item, "resources"),
                      .operations = TextsAt(item, "operations"),
                      .names = TextsAt(item, "resourceNames"),
                      .scope = TextAt(item, "scope")});
      }
    };
    read(ListAt(*json, "resourceRules"), out.rules);
    read(ListAt(*json, "excludeResourceRules"), out.excluded);
    out.namespaces = LabelMatcher::FromObject(ObjectAt(*json, "namespaceSelector"));
    out.objects = LabelMatcher::FromObject(ObjectAt(*json, "objectSelector"));
    return out;
  }

  [[nodiscard]] bool Applies(const Rule& rule, const Call& call, Operation operation) const {
    if (!Lists(rule.groups, call.resource->group) ||
        !Lists(rule.operations, std::string(Name(operation)))) {
      return false;
    }
    const bool version =
        Lists(rule.versions, call.version->name) ||
        (!exact &&
         std::ranges::any_of(call.resource->versions, [&](const ResourceVersionInfo& other) {
           return other.served && Lists(rule.versions, other.name);
         }));
    if (!version) {
      return false;
    }
    if ((rule.scope == "Namespaced" && !call.resource->namespaced) ||
        (rule.scope == "Cluster" && call.resource->namespaced)) {
      return false;
    }
    if (!rule.names.empty() && std::ranges::find(rule.names, call.name) == rule.names.end()) {
      return false;
    }
    return std::ranges::any_of(rule.resources, [&](const std::string& wanted) {
      const std::size_t slash = wanted.find('/');
      const std::string resource = wanted.substr(0, slash);
      const std::string sub = slash == std::string::npos ? "" : wanted.substr(slash + 1);
      return (resource == "*" || resource == call.resource->plural) &&
             (sub == "*" || sub == call.subresource);
    });
  }

  [[nodiscard]] bool Matches(const Server& server,
                             const Call& call,
                             Operation operation,
                             const Json* object,
                             const Json* old) const {
    if (!present) {
      return true;
    }
    const auto applies = [&](const Rule& rule) { return Applies(rule, call, operation); };
    if (std::ranges::any_of(excluded, applies) ||
        (!rules.empty() && std::ranges::none_of(rules, applies))) {
      return false;
    }
    if (!objects.everything() && !((object != nullptr && objects.Matches(*object)) ||
                                   (old != nullptr && objects.Matches(*old)))) {
      return false;
    }
    if (!namespaces.everything()) {
      if (call.resource->key() == "/namespaces") {
        const Json* own = object != nullptr ? object : old;
        return own != nullptr && namespaces.Matches(*own);
      }
      if (call.resource->namespaced) {
        const auto ns = server.TableOf(*server.registry.Find("", "namespaces"))
                            .Find(ObjectKey{.ns = {}, .name = call.ns});
        return ns != nullptr && namespaces.Matches(ns->json());
      }
    }
    return true;
  }
};

struct Binding {
  std::string name;
  Match match;
  std::vector<std::string> actions;
  StoredPtr stored;
};

struct Validation {
  Expression expression;
  std::optional<Expression> message_expression;
  std::string message;
  std::string reason;
};

struct Mutation {
  bool json_patch = false;
  Expression expression;
};

struct Policy {
  std::string name;
  bool ignore_failure = false;
  bool reinvoke = false;
  Match match;
  std::string param_api_version;
  std::string param_kind;
  std::vector<Expression> conditions;
  std::vector<Expression> variables;
  std::vector<Validation> validations;
  std::vector<Mutation> mutations;
  std::vector<Binding> bindings;
};

Json RequestObject(const Call& call, Operation operation) {
  const Json kind = {{"group", call.resource->group},
                     {"version", call.version->name},
                     {"kind", call.resource->kind}};
  const Json resource = {{"group", call.resource->group},
                         {"version", call.version->name},
                         {"resource", call.resource->plural}};
  return {{"kind", kind},
          {"resource", resource},
          {"subResource", call.subresource},
          {"requestKind", kind},
          {"requestResource", resource},
          {"requestSubResource", call.subresource},
          {"name", call.name},
          {"namespace", call.ns},
          {"operation", Name(operation)},
          {"userInfo",
           {{"username", call.user.name},
            {"uid", ""},
            {"groups", call.user.groups},
            {"extra", Json::object()}}},
          {"dryRun", call.dry_run},
          {"options", Json::object()}};
}

// Answers `authorizer` by the stored roles.
class RoleBackend final : public cel::AccessBackend {
 public:
  RoleBackend(const Server& server, UserInfo user) : server_(server), user_(std::move(user)) {}
  [[nodiscard]] cel::AccessDecision Check(const cel::AccessQuery& query) const override {
    UserInfo user = user_;
    if (!query.service_account.empty()) {
      user = {.name = query.service_account,
              .groups = {"system:serviceaccounts", "system:authenticated"}};
    }
    return {.allowed = Allowed(server_,
                               user,
                               {.verb = query.verb,
                                .group = query.group,
                                .resource = query.resource,
                                .subresource = query.subresource,
                                .ns = query.ns,
                                .name = query.name,
                                .path = query.path}),
            .reason = {},
            .error = {}};
  }

 private:
  const Server& server_;
  UserInfo user_;
};

// One evaluation of one policy: variables are computed when they are first read.
class Evaluation {
 public:
  Evaluation(const Server& server,
             const UserInfo& user,
             const Policy& policy,
             const Json& request,
             const Json* object,
             const Json* old,
             const Json* params,
             const Json* ns)
      : policy_(policy) {
    const auto value = [](const Json* json) {
      return json == nullptr ? cel::Value::Null() : ToCel(*json);
    };
    activation_.Set("object", value(object));
    activation_.Set("oldObject", value(old));
    activation_.Set("request", ToCel(request));
    activation_.Set("params", value(params));
    activation_.Set("namespaceObject", value(ns));
    activation_.Set("authorizer", cel::MakeAuthorizer(std::make_shared<RoleBackend>(server, user)));
    activation_.Set("variables", cel::Value::Map(std::make_shared<Variables>(*this)));
  }
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

  [[nodiscard]] Result<cel::Value> Run(const Expression& expression) const {
    if (!expression.program) {
      return std::unexpected(Error::Invalid(expression.error));
    }
    std::int64_t budget = std::min(budget_, cel::kPerCallBudget);
    const std::int64_t given = budget;
    auto value = expression.program->Run(activation_, budget);
    budget_ -= given - std::max<std::int64_t>(budget, 0);
    if (!value) {
      return std::unexpected(Error::Invalid("expression '" + expression.text +
                                            "' resulted in error: " + value.error().message));
    }
    return value;
  }

 private:
  class Variables final : public cel::MapView {
   public:
    explicit Variables(const Evaluation& evaluation)
        : evaluation_(evaluation), values_(evaluation.policy_.variables.size()) {}
    [[nodiscard]] std::size_t Size() const override { return values_.size(); }
    [[nodiscard]] Result<std::optional<cel::Value>> Find(const cel::Value& key) const override {
      const auto& variables = evaluation_.policy_.variables;
      for (std::size_t i = 0; key.is(cel::Value::Kind::kString) && i < variables.size(); ++i) {
        if (variables[i].name != key.string_value()) {
          continue;
        }
        if (!values_[i]) {
          if (depth_ > static_cast<int>(variables.size())) {
            return std::unexpected(Error::Invalid("variables refer to each other in a circle"));
          }
          ++depth_;
          auto value = evaluation_.Run(variables[i]);
          --depth_;
          if (!value) {
            return std::unexpected(
                Error::Invalid("composited variable \"" + variables[i].name +
                               "\" fails to evaluate: " + value.error().message));
          }
          values_[i] = *std::move(value);
        }
        return values_[i];
      }
      return std::optional<cel::Value>();
    }
    [[nodiscard]] std::vector<cel::Value> Keys() const override {
      std::vector<cel::Value> keys;
      for (const Expression& variable : evaluation_.policy_.variables) {
        keys.push_back(cel::Value::String(variable.name));
      }
      return keys;
    }

   private:
    const Evaluation& evaluation_;
    mutable std::vector<std::optional<cel::Value>> values_;
    mutable int depth_ = 0;
  };

  const Policy& policy_;
  cel::MapActivation activation_;
  mutable std::int64_t budget_ = kRuleBudget;
};

int CodeOf(const std::string& reason) {
  return reason == "Unauthorized"            ? 401
         : reason == "Forbidden"             ? 403
         : reason == "RequestEntityTooLarge" ? 413
                                             : 422;
}

}  // namespace

struct Policies::Impl {
  const Server& server;
  std::vector<Policy> mutating;
  std::vector<Policy> validating;

  [[nodiscard]] const Json* Namespace(const Call& call) const {
    if (!call.resource->namespaced) {
      return nullptr;
    }
    const auto ns = server.TableOf(*server.registry.Find("", "namespaces"))
                        .Find(ObjectKey{.ns = {}, .name = call.ns});
    return ns == nullptr ? nullptr : &ns->json();
  }

  // The parameters of a binding; an unset optional is the absence of params where none are asked
  // for.
  [[nodiscard]] std::expected<std::vector<StoredPtr>, std::string> Params(const Policy& policy,
                                                                          const Binding& binding,
                                                                          const Call& call) const {
    std::vector<StoredPtr> out;
    if (policy.param_kind.empty()) {
      out.push_back(nullptr);
      return out;
    }
    const Json& ref = ObjectAt(ObjectAt(binding.stored->json(), "spec"), "paramRef");
    if (ref.empty()) {
      out.push_back(nullptr);
      return out;
    }
    const std::size_t slash = policy.param_api_version.find('/');
    const std::string group =
        slash == std::string::npos ? "" : policy.param_api_version.substr(0, slash);
    const ResourceInfo* resource = server.registry.FindKind(group, policy.param_kind);
    if (resource == nullptr) {
      return std::unexpected("failed to find resource referenced by paramKind: '" +
                             policy.param_api_version + ", Kind=" + policy.param_kind + "'");
    }
    std::string ns = TextAt(ref, "namespace");
    if (resource->namespaced && ns.empty()) {
      ns = call.ns;
      if (ns.empty()) {
        return std::unexpected(
            "cannot use namespaced paramRef in policy binding that matches cluster-scoped "
            "resources");
      }
    }
    const Table& table = server.TableOf(*resource);
    if (const std::string name = TextAt(ref, "name"); !name.empty()) {
      if (auto found = table.Find(ObjectKey{.ns = resource->namespaced ? ns : "", .name = name})) {
        out.push_back(std::move(found));
      }
    } else if (const Json* selector = Member(ref, "selector")) {
      const LabelMatcher matcher = LabelMatcher::FromObject(*selector);
      const auto [begin, end] = table.Range(resource->namespaced ? ns : "");
      for (auto it = begin; it != end; ++it) {
        if (matcher.Matches(it->second->json())) {
          out.push_back(it->second);
        }
      }
    }
    if (out.empty() && TextAt(ref, "parameterNotFoundAction") == "Deny") {
      return std::unexpected(
          "no params found for policy binding with `Deny` parameterNotFoundAction");
    }
    return out;
  }

  // True when all match conditions hold.
  [[nodiscard]] static std::expected<bool, std::string> ConditionsHold(
      const Policy& policy, const Evaluation& evaluation) {
    std::string errors;
    for (const Expression& condition : policy.conditions) {
      const auto value = evaluation.Run(condition);
      if (!value) {
        errors += (errors.empty() ? "" : ", ") + value.error().message;
      } else if (!value->is(cel::Value::Kind::kBool) || !value->bool_value()) {
        // A false condition settles it, whatever errors there were before.
        return false;
      }
    }
    if (!errors.empty()) {
      return std::unexpected(errors);
    }
    return true;
  }
};

Policies::~Policies() = default;

Policies::Policies(const Server& server)
    : impl_(std::make_unique<Impl>(Impl{.server = server, .mutating = {}, .validating = {}})) {
  const auto read =
      [&](const char* policies, const char* bindings, bool mutating, std::vector<Policy>& to) {
        const ResourceInfo* policy_resource =
            server.registry.Find("admissionregistration.k8s.io", policies);
        const ResourceInfo* binding_resource =
            server.registry.Find("admissionregistration.k8s.io", bindings);
        for (const auto& [key, stored] : server.TableOf(*policy_resource).objects()) {
          const Json& spec = ObjectAt(stored->json(), "spec");
          Policy policy;
          policy.name = key.name;
          policy.ignore_failure = TextAt(spec, "failurePolicy") == "Ignore";
          policy.reinvoke = TextAt(spec, "reinvocationPolicy") == "IfNeeded";
          policy.match = Match::Read(Member(spec, "matchConstraints"));
          policy.param_api_version = TextAt(ObjectAt(spec, "paramKind"), "apiVersion");
          policy.param_kind = TextAt(ObjectAt(spec, "paramKind"), "kind");
          for (const Json& item : ListAt(spec, "matchConditions")) {
            policy.conditions.push_back(Compile(
                TextAt(item, "name"), TextAt(item, "expression"), ProgramKind::kAdmissionBool));
          }
          for (const Json& item : ListAt(spec, "variables")) {
            policy.variables.push_back(Compile(
                TextAt(item, "name"), TextAt(item, "expression"), ProgramKind::kAdmissionAny));
          }
          for (const Json& item : ListAt(spec, "validations")) {
            Validation validation{
                .expression = Compile("", TextAt(item, "expression"), ProgramKind::kAdmissionBool),
                .message_expression = std::nullopt,
                .message = TextAt(item, "message"),
                .reason = TextAt(item, "reason")};
            if (const std::string text = TextAt(item, "messageExpression"); !text.empty()) {
              validation.message_expression = Compile("", text, ProgramKind::kAdmissionMessage);
            }
            policy.validations.push_back(std::move(validation));
          }
          for (const Json& item : ListAt(spec, "mutations")) {
            const bool json_patch = TextAt(item, "patchType") == "JSONPatch";
            policy.mutations.push_back(
                {.json_patch = json_patch,
                 .expression =
                     Compile("",
                             TextAt(ObjectAt(item, json_patch ? "jsonPatch" : "applyConfiguration"),
                                    "expression"),
                             ProgramKind::kMutation)});
          }
          for (const auto& [binding_key, binding] : server.TableOf(*binding_resource).objects()) {
            const Json& binding_spec = ObjectAt(binding->json(), "spec");
            if (TextAt(binding_spec, "policyName") == policy.name) {
              policy.bindings.push_back(
                  {.name = binding_key.name,
                   .match = Match::Read(Member(binding_spec, "matchResources")),
                   .actions = mutating ? std::vector<std::string>{"Deny"}
                                       : TextsAt(binding_spec, "validationActions"),
                   .stored = binding});
            }
          }
          if (!policy.bindings.empty()) {
            to.push_back(std::move(policy));
          }
        }
      };
  read("mutatingadmissionpolicies", "mutatingadmissionpolicybindings", true, impl_->mutating);
  read(
      "validatingadmissionpolicies", "validatingadmissionpolicybindings", false, impl_->validating);
}

namespace {

// An apply configuration may not reach into what is replaced as a whole.
std::string AtomicField(const Schema* schema, const Json& applied, const std::string& path) {
  if (schema == nullptr) {
    return {};
  }
  if (applied.is_array() && schema->type == Schema::Type::kArray &&
      schema->list_type == Schema::ListType::kAtomic) {
    return path;
  }
  if (applied.is_object()) {
    if (schema->atomic_map) {
      return path;
    }
    for (const auto& [key, value] : applied.items()) {
      if (std::string found = AtomicField(schema->Property(key), value, path + "." + key);
          !found.empty()) {
        return found;
      }
    }
  } else if (applied.is_array() && schema->items != nullptr) {
    for (const Json& item : applied) {
      if (std::string found = AtomicField(schema->items, item, path + "[]"); !found.empty()) {
        return found;
      }
    }
  }
  return {};
}

std::expected<void, std::string> ApplyMutation(const Mutation& mutation,
                                               const Evaluation& evaluation,
                                               const Schema* schema,
                                               Json& object) {
  const auto value = evaluation.Run(mutation.expression);
  if (!value) {
    return std::unexpected(value.error().message);
  }
  auto json = FromCel(*value);
  if (!json) {
    return std::unexpected(json.error().message);
  }
  if (!mutation.json_patch) {
    if (!json->is_object()) {
      return std::unexpected(
          "type mismatch: ApplyConfiguration expression should evaluate to Object");
    }
    if (const std::string atomic = AtomicField(schema, *json, ""); !atomic.empty()) {
      return std::unexpected(
          "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: " + atomic);
    }
    MergeApplied(schema, object, *json);
    return {};
  }
  Json patched = object;
  const auto done = ApplyJsonPatch(patched, *json);
  if (!done) {
    // A failed test means: nothing to do.
    if (done.error().starts_with("testing value")) {
      return {};
    }
    return std::unexpected("JSON Patch: " + done.error());
  }
  object = std::move(patched);
  return {};
}

}  // namespace

Outcome<bool> Policies::Mutate(Call& call,
                               Operation operation,
                               Json& object,
                               const Json* old) const {
  bool changed = false;
  std::set<std::string> again;
  std::optional<Json> request;
  // A second round for policies that want to see what others did.
  for (int round = 0; round < 2; ++round) {
    bool changed_now = false;
    for (const Policy& policy : impl_->mutating) {
      if (round == 1 && !again.contains(policy.name)) {
        continue;
      }
      if (!policy.match.Matches(impl_->server, call, operation, &object, old)) {
        continue;
      }
      if (!request) {
        request = RequestObject(call, operation);
      }
      for (const Binding& binding : policy.bindings) {
        if (!binding.match.Matches(impl_->server, call, operation, &object, old)) {
          continue;
        }
        const auto refuse = [&](const std::string& why) {
          Failure failure = ForbiddenRequest(call.resource->group,
                                             call.resource->plural,
                                             call.name,
                                             "policy '" + policy.name + "' with binding '" +
                                                 binding.name + "' denied request: " + why);
          failure.reason = "Invalid";
          failure.code = 422;
          failure.details["causes"] =
              Json::array({{{"message",
                             "policy '" + policy.name + "' with binding '" + binding.name +
                                 "' denied request: " + why}}});
          return std::unexpected(std::move(failure));
        };
        const auto params = impl_->Params(policy, binding, call);
        if (!params) {
          if (policy.ignore_failure) {
            continue;
          }
          return refuse("failed to configure binding: " + params.error());
        }
        for (const StoredPtr& param : *params) {
          const Json* param_json = param == nullptr ? nullptr : &param->json();
          {
            const Evaluation evaluation(impl_->server,
                                        call.user,
                                        policy,
                                        *request,
                                        &object,
                                        old,
                                        param_json,
                                        impl_->Namespace(call));
            const auto holds = Impl::ConditionsHold(policy, evaluation);
            if (!holds) {
              if (policy.ignore_failure) {
                continue;
              }
              return refuse(holds.error());
            }
            if (!*holds) {
              continue;
            }
          }
          for (const Mutation& mutation : policy.mutations) {
            Json next = object;
            const Evaluation evaluation(impl_->server,
                                        call.user,
                                        policy,
                                        *request,
                                        &object,
                                        old,
                                        param_json,
                                        impl_->Namespace(call));
            const auto done = ApplyMutation(mutation, evaluation, call.version->schema.get(), next);
            if (!done) {
              if (policy.ignore_failure) {
                continue;
              }
              return refuse(done.error());
            }
            if (next != object) {
              object = std::move(next);
              changed_now = true;
            }
          }
          if (policy.reinvoke && round == 0) {
            again.insert(policy.name);
          }
        }
      }
    }
    changed = changed || changed_now;
    if (!changed_now || again.empty()) {
      break;
    }
  }
  return changed;
}

Outcome<void> Policies::Validate(Call& call,
                                 Operation operation,
                                 const Json* object,
                                 const Json* old) const {
  std::optional<Json> request;
  for (const Policy& policy : impl_->validating) {
    if (!policy.match.Matches(impl_->server, call, operation, object, old)) {
      continue;
    }
    for (const Binding& binding : policy.bindings) {
      if (!binding.match.Matches(impl_->server, call, operation, object, old)) {
        continue;
      }
      if (!request) {
        request = RequestObject(call, operation);
      }
      const auto lists = [&](const char* action) {
        return std::ranges::find(binding.actions, action) != binding.actions.end();
      };
      const auto deny = [&](const std::string& message,
                            std::string reason) -> std::optional<Failure> {
        if (lists("Warn")) {
          call.warnings.push_back("Validation failed for ValidatingAdmissionPolicy '" +
                                  policy.name + "' with binding '" + binding.name +
                                  "': " + message);
        }
        if (!lists("Deny")) {
          return std::nullopt;
        }
        const std::string text = "ValidatingAdmissionPolicy '" + policy.name + "' with binding '" +
                                 binding.name + "' denied request: " + message;
        Failure failure =
            ForbiddenRequest(call.resource->group, call.resource->plural, call.name, text);
        failure.reason = reason.empty() ? "Invalid" : std::move(reason);
        failure.code = CodeOf(failure.reason);
        failure.details["causes"] = Json::array({{{"message", text}}});
        return failure;
      };
      const auto params = impl_->Params(policy, binding, call);
      if (!params) {
        if (policy.ignore_failure) {
          continue;
        }
        if (auto failure = deny("failed to configure binding: " + params.error(), "")) {
          return std::unexpected(*std::move(failure));
        }
        continue;
      }
      for (const StoredPtr& param : *params) {
        const Evaluation evaluation(impl_->server,
                                    call.user,
                                    policy,
                                    *request,
                                    object,
                                    old,
                                    param == nullptr ? nullptr : &param->json(),
                                    impl_->Namespace(call));
        const auto holds = Impl::ConditionsHold(policy, evaluation);
        if (!holds) {
          if (!policy.ignore_failure) {
            if (auto failure = deny(holds.error(), "")) {
              return std::unexpected(*std::move(failure));
            }
          }
          continue;
        }
        if (!*holds) {
          continue;
        }
        for (const Validation& validation : policy.validations) {
          const auto value = evaluation.Run(validation.expression);
          if (!value) {
            if (!policy.ignore_failure) {
              if (auto failure = deny(value.error().message, "")) {
                return std::unexpected(*std::move(failure));
              }
            }
            continue;
          }
          if (value->is(cel::Value::Kind::kBool) && value->bool_value()) {
            continue;
          }
          std::string message;
          if (validation.message_expression) {
            const auto text = evaluation.Run(*validation.message_expression);
            if (text && text->is(cel::Value::Kind::kString)) {
              message = TrimSpace(text->string_value());
              if (message.size() > kMaxMessageBytes || message.contains('\n')) {
                message.clear();
              }
            }
          }
          if (message.empty()) {
            message = TrimSpace(validation.message);
          }
          if (message.empty()) {
            message = "failed expression: " + std::string(TrimSpace(validation.expression.text));
          }
          if (auto failure = deny(message, validation.reason)) {
            return std::unexpected(*std::move(failure));
          }
        }
      }
    }
  }
  return {};
}

void MergeApplied(const Schema* schema, Json& target, const Json& applied) {
  const bool atomic = schema != nullptr && schema->atomic_map;
  if (applied.is_object() && target.is_object() && !atomic) {
    for (const auto& [key, value] : applied.items()) {
      const Schema* child = schema == nullptr ? nullptr : schema->Property(key);
      if (const auto it = target.find(key); it != target.end()) {
        MergeApplied(child, *it, value);
      } else {
        target[key] = value;
      }
    }
    return;
  }
  if (applied.is_array() && target.is_array() && schema != nullptr) {
    if (schema->list_type == Schema::ListType::kSet) {
      for (const Json& item : applied) {
        if (std::ranges::find(target, item) == target.end()) {
          target.push_back(item);
        }
      }
      return;
    }
    if (schema->list_type == Schema::ListType::kMap) {
      for (const Json& item : applied) {
        const Json* same = FindByKeys(target, item, *schema);
        if (same == nullptr) {
          target.push_back(item);
        } else {
          for (Json& existing : target) {
            if (&existing == same) {
              MergeApplied(schema->items, existing, item);
              break;
            }
          }
        }
      }
      return;
    }
  }
  target = applied;
}

namespace {

// priorityClassName, priority and preemptionPolicy of a pod or a group of pods.
Outcome<void> ResolvePriority(const Server& server, const Call& call, Json& spec, bool policy_too) {
  const ResourceInfo* classes = server.registry.Find("scheduling.k8s.io", "priorityclasses");
  const auto refuse = [&](const std::string& why) {
    return std::unexpected(
        ForbiddenRequest(call.resource->group, call.resource->plural, call.name, why));
  };
  std::int64_t priority = 0;
  std::string policy = "PreemptLowerPriority";
  const std::string name = TextAt(spec, "priorityClassName");
  if (!name.empty()) {
    const auto found = server.TableOf(*classes).Find(ObjectKey{.ns = {}, .name = name});
    if (!found) {
      return refuse("no PriorityClass with name " + name + " was found");
    }
    priority = IntAt(found->json(), "value").value_or(0);
    if (const std::string given = TextAt(found->json(), "preemptionPolicy"); !given.empty()) {
      policy = given;
    }
  } else {
    const Stored* chosen = nullptr;
    for (const auto& [key, stored] : server.TableOf(*classes).objects()) {
      if (TrueAt(stored->json(), "globalDefault") &&
          (chosen == nullptr || IntAt(stored->json(), "value") < IntAt(chosen->json(), "value"))) {
        chosen = stored.get();
      }
    }
    if (chosen != nullptr) {
      priority = IntAt(chosen->json(), "value").value_or(0);
      spec["priorityClassName"] = TextAt(ObjectAt(chosen->json(), "metadata"), "name");
      if (const std::string given = TextAt(chosen->json(), "preemptionPolicy"); !given.empty()) {
        policy = given;
      }
    }
  }
  if (const auto given = IntAt(spec, "priority"); given && *given != priority) {
    return refuse("the integer value of priority (" + std::to_string(*given) +
                  ") must not be provided in pod spec; priority admission controller computed " +
                  std::to_string(priority) + " from the given PriorityClass name");
  }
  spec["priority"] = priority;
  if (policy_too) {
    if (const std::string given = TextAt(spec, "preemptionPolicy");
        !given.empty() && given != policy) {
      return refuse("the string value of PreemptionPolicy (" + given +
                    ") must not be provided in pod spec; priority admission controller computed " +
                    policy + " from the given PriorityClass name");
    }
    spec["preemptionPolicy"] = policy;
  }
  return {};
}

Outcome<void> ApplyRuntimeClass(const Server& server, const Call& call, Json& spec) {
  const std::string name = TextAt(spec, "runtimeClassName");
  if (name.empty()) {
    return {};
  }
  const auto found = server.TableOf(*server.registry.Find("node.k8s.io", "runtimeclasses"))
                         .Find(ObjectKey{.ns = {}, .name = name});
  const auto refuse = [&](const std::string& why) {
    return std::unexpected(ForbiddenRequest("", "pods", call.name, why));
  };
  if (!found) {
    return refuse("pod rejected: RuntimeClass \"" + name + "\" not found");
  }
  const Json& overhead = ObjectAt(ObjectAt(found->json(), "overhead"), "podFixed");
  if (!overhead.empty()) {
    if (spec.contains("overhead") && spec["overhead"] != overhead) {
      return refuse("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead");
    }
    spec["overhead"] = overhead;
  } else if (!ObjectAt(spec, "overhead").empty()) {
    return refuse(
        "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead");
  }
  const Json& scheduling = ObjectAt(found->json(), "scheduling");
  for (const auto& [key, value] : ObjectAt(scheduling, "nodeSelector").items()) {
    const Json* own = Member(ObjectAt(spec, "nodeSelector"), key);
    if (own != nullptr && *own != value) {
      return refuse("conflict: runtimeClass.scheduling.nodeSelector[" + key + "] = " +
                    value.dump() + "; pod.spec.nodeSelector[" + key + "] = " + own->dump());
    }
    spec["nodeSelector"][key] = value;
  }
  for (const Json& toleration : ListAt(scheduling, "tolerations")) {
    if (std::ranges::find(ListAt(spec, "tolerations"), toleration) ==
        ListAt(spec, "tolerations").end()) {
      spec["tolerations"].push_back(toleration);
    }
  }
  return {};
}

void DefaultTolerations(Json& spec) {
  const auto tolerated = [&](const std::string& key) {
    return std::ranges::any_of(ListAt(spec, "tolerations"), [&](const Json& t) {
      const std::string effect = TextAt(t, "effect");
      return (TextAt(t, "key") == key || TextAt(t, "key").empty()) &&
             (effect.empty() || effect == "NoExecute");
    });
  };
  const bool ready = tolerated("node.kubernetes.io/not-ready");
  const bool reachable = tolerated("node.kubernetes.io/unreachable");
  const auto add = [&](const char* key) {
    spec["tolerations"].push_back({{"key", key},
                                   {"operator", "Exists"},
                                   {"effect", "NoExecute"},
                                   {"tolerationSeconds", 300}});
  };
  if (!ready) {
    add("node.kubernetes.io/not-ready");
  }
  if (!reachable) {
    add("node.kubernetes.io/unreachable");
  }
}

void DefaultFromLimits(const Server& server, const Call& call, Json& object) {
  Json& spec = object["spec"];
  const ResourceInfo* ranges = server.registry.Find("", "limitranges");
  const auto [begin, end] = server.TableOf(*ranges).Range(call.ns);
  for (auto it = begin; it != end; ++it) {
    for (const Json& limit : ListAt(ObjectAt(it->second->json(), "spec"), "limits")) {
      if (TextAt(limit, "type") != "Container") {
        continue;
      }
      for (const char* list : {"containers", "initContainers"}) {
        if (!spec.contains(list) || !spec[list].is_array()) {
          continue;
        }
        for (Json& container : spec[list]) {
          if (!container.is_object()) {
            continue;
          }
          const auto fill = [&](const char* side, const char* from) {
            for (const auto& [name, value] : ObjectAt(limit, from).items()) {
              if (Member(ObjectAt(ObjectAt(container, "resources"), side), name) == nullptr) {
                container["resources"][side][name] = value;
              }
            }
          };
          fill("limits", "default");
          fill("requests", "defaultRequest");
        }
      }
    }
  }
}

}  // namespace

Outcome<void> MutateBuiltin(
    const Server& server, const Call& call, Operation operation, Json& object, const Json* old) {
  if (operation == Operation::kDelete || !call.subresource.empty() || !object.contains("spec") ||
      !object["spec"].is_object()) {
    return {};
  }
  const std::string key = call.resource->key();
  Json& spec = object["spec"];
  if (operation == Operation::kUpdate) {
    if (key == "/pods") {
      // A whole object that leaves out what was resolved at creation keeps it.
      const Json& before = ObjectAt(*old, "spec");
      for (const char* field : {"priority", "preemptionPolicy"}) {
        if (!spec.contains(field) && before.contains(field)) {
          spec[field] = before[field];
        }
      }
      DefaultTolerations(spec);
    }
    return {};
  }
  if (key == "/pods") {
    DefaultFromLimits(server, call, object);
    if (auto done = ResolvePriority(server, call, spec, true); !done) {
      return done;
    }
    if (auto done = ApplyRuntimeClass(server, call, spec); !done) {
      return done;
    }
    DefaultTolerations(spec);
  } else if (key == "scheduling.k8s.io/podgroups" ||
             key == "scheduling.k8s.io/compositepodgroups") {
    if (auto done = ResolvePriority(server, call, spec, true); !done) {
      return done;
    }
    if (key == "scheduling.k8s.io/podgroups" && server.options.podgroup_protection) {
      Json& finalizers = object["metadata"]["finalizers"];
      if (!finalizers.is_array()) {
        finalizers = Json::array();
      }
      if (std::ranges::find(finalizers, Json("scheduling.k8s.io/podgroup-protection")) ==
          finalizers.end()) {
        finalizers.push_back("scheduling.k8s.io/podgroup-protection");
      }
    }
  }
  return {};
}

Outcome<void> ValidateLimits(const Server& server, const Call& call, const Json& object) {
  if (call.resource->key() != "/pods" || !call.subresource.empty()) {
    return {};
  }
  const ResourceInfo* ranges = server.registry.Find("", "limitranges");
  const auto [begin, end] = server.TableOf(*ranges).Range(call.ns);
  std::vector<std::string> problems;
  const auto quantity = [](const Json* value) {
    return value != nullptr && value->is_string()
               ? api::Quantity::Parse(value->get<std::string>())
               : Result<api::Quantity>(std::unexpected(Error::Invalid("")));
  };
  for (auto it = begin; it != end; ++it) {
    for (const Json& limit : ListAt(ObjectAt(it->second->json(), "spec"), "limits")) {
      const std::string type = TextAt(limit, "type");
      const auto check = [&](const Json& resources, const char* bound) {
        for (const auto& [name, value] : ObjectAt(limit, bound).items()) {
          const auto wanted = quantity(&value);
          if (!wanted) {
            continue;
          }
          const bool is_min = std::string_view(bound) == "min";
          const auto request = quantity(Member(ObjectAt(resources, "requests"), name));
          const auto most = quantity(Member(ObjectAt(resources, "limits"), name));
          const std::string head = std::string(is_min ? "minimum " : "maximum ") + name +
                                   " usage per " + type + " is " + wanted->ToString();
          if (is_min) {
            if (!request) {
              problems.push_back(head + ".  No request is specified");
            } else if (request->Compare(*wanted) < 0) {
              problems.push_back(head + ", but request is " + request->ToString());
            } else if (most && most->Compare(*wanted) < 0) {
              problems.push_back(head + ", but limit is " + most->ToString());
            }
          } else {
            if (!most) {
              problems.push_back(head + ".  No limit is specified");
            } else if (most->Compare(*wanted) > 0) {
              problems.push_back(head + ", but limit is " + most->ToString());
            } else if (request && request->Compare(*wanted) > 0) {
              problems.push_back(head + ", but request is " + request->ToString());
            }
          }
        }
      };
      const Json& spec = ObjectAt(object, "spec");
      if (type == "Container") {
        for (const char* list : {"containers", "initContainers"}) {
          for (const Json& container : ListAt(spec, list)) {
            check(ObjectAt(container, "resources"), "min");
            check(ObjectAt(container, "resources"), "max");
          }
        }
      } else if (type == "Pod") {
        Json total = {{"requests", Json::object()}, {"limits", Json::object()}};
        for (const char* side : {"requests", "limits"}) {
          std::map<std::string, api::Quantity> sum;
          for (const Json& container : ListAt(spec, "containers")) {
            for (const auto& [name, value] :
                 ObjectAt(ObjectAt(container, "resources"), side).items()) {
              if (const auto amount = quantity(&value)) {
                const auto found = sum.find(name);
                sum.insert_or_assign(name,
                                     found == sum.end() ? *amount : found->second.Plus(*amount));
              }
            }
          }
          for (const auto& [name, amount] : sum) {
            total[side][name] = amount.ToString();
          }
        }
        check(total, "min");
        check(total, "max");
      }
    }
  }
  if (problems.empty()) {
    return {};
  }
  return std::unexpected(
      ForbiddenRequest("",
                       "pods",
                       call.name,
                       problems.size() == 1 ? problems.front() : "[" + Join(problems, ", ") + "]"));
}

}  // namespace muster::sim
