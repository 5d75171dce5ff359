// What an object goes through on its way into the storage: decoding, defaults, admission,
// validation.
#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "api/yaml.h"
#include "base/check.h"
#include "base/log.h"
#include "sim/access.h"
#include "sim/admission.h"
#include "sim/apply.h"
#include "sim/builtin.h"
#include "sim/crds.h"
#include "sim/embedded.h"
#include "sim/patching.h"
#include "sim/rules.h"
#include "sim/schema.h"
#include "sim/server.h"
#include "sim/validation.h"

namespace muster::sim {
namespace {

const Json& MetaOf(const Json& object) {
  return ObjectAt(object, "metadata");
}

constexpr std::string_view kObjectMeta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

std::vector<Json> Documents(std::span<const EmbeddedFile> files) {
  std::vector<Json> out;
  for (const EmbeddedFile& file : files) {
    auto documents = api::ParseYaml(file.text, file.name);
    if (!documents) {
      log::Error("a file that comes with the server cannot be read",
                 {{"error", documents.error().message}});
      continue;
    }
    for (api::YamlDocument& document : *documents) {
      out.push_back(std::move(document.value));
    }
  }
  return out;
}

}  // namespace

void Server::AfterCommit(const ResourceInfo& resource,
                         const StoredPtr& before,
                         const StoredPtr& after) {
  if (resource.group == "admissionregistration.k8s.io") {
    policies.reset();
    return;
  }
  if (resource.key() != "apiextensions.k8s.io/customresourcedefinitions") {
    return;
  }
  if (after) {
    // A change of the status alone leaves the schema as it is; reading it again would be wasted.
    if (before && ObjectAt(before->json(), "spec") == ObjectAt(after->json(), "spec")) {
      return;
    }
    // Validation has just read it.
    if (checked_definition) {
      registry.Put(*std::exchange(checked_definition, std::nullopt));
    }
    return;
  }
  const Json& spec = ObjectAt(before->json(), "spec");
  const std::string key = TextAt(spec, "group") + "/" + TextAt(ObjectAt(spec, "names"), "plural");
  // The instances go with their definition.
  const auto found = registry.all().find(key);
  if (found != registry.all().end()) {
    const ResourceInfo custom = found->second;
    while (!TableOf(custom).objects().empty()) {
      Remove(custom, TableOf(custom).objects().begin()->second);
    }
    registry.Remove(key);
  }
}

const Policies& Server::CurrentPolicies() {
  if (!policies) {
    policies = std::make_unique<Policies>(*this);
  }
  return *policies;
}

Outcome<void> Server::Clean(Call& call, Json& object) const {
  const Schema* schema = call.version->schema.get();
  if (schema == nullptr) {
    return {};
  }
  const std::string where = call.resource->kind + " in version \"" + call.version->name +
                            "\" cannot be handled as a " + call.resource->kind + ": ";
  std::vector<std::string> unknown;
  std::vector<std::string>* report =
      call.field_validation == FieldValidation::kIgnore ? nullptr : &unknown;
  if (call.resource->custom) {
    // metadata is typed for custom resources as well.
    const Schema* meta = BuiltinTypes::Get().Definition(kObjectMeta);
    MUSTER_CHECK(meta != nullptr);
    std::vector<std::string> unknown_meta;
    if (object.contains("metadata")) {
      if (auto done = Canonicalize(
              *meta, call.resource->kind + ".metadata", object["metadata"], &unknown_meta);
          !done) {
        return std::unexpected(BadRequest(where + done.error()));
      }
    }
    for (const std::string& field : unknown_meta) {
      if (report != nullptr) {
        report->push_back("metadata." + field);
      }
    }
    Prune(*schema, object, report);
  } else if (auto done = Canonicalize(*schema, call.resource->kind, object, report); !done) {
    return std::unexpected(BadRequest(where + done.error()));
  }
  if (unknown.empty()) {
    return {};
  }
  std::string list;
  for (const std::string& field : unknown) {
    const std::string text = "unknown field \"" + field + "\"";
    if (call.field_validation == FieldValidation::kStrict) {
      list += (list.empty() ? "" : ", ") + text;
    } else {
      call.warnings.push_back(text);
    }
  }
  if (!list.empty()) {
    return std::unexpected(BadRequest(where + "strict decoding error: " + list));
  }
  return {};
}

Outcome<void> Server::Ingest(Call& call, Json& object) const {
  if (auto done = Clean(call, object); !done) {
    return done;
  }
  if (const Schema* schema = call.version->schema.get()) {
    ApplyDefaults(*schema, object);
  }
  if (!call.resource->custom) {
    DefaultBuiltin(*call.resource, object, call.now);
  }
  return {};
}

Outcome<void> Server::EnsureNamespace(Call& call) {
  const ResourceInfo& resource = *call.resource;
  if (!resource.namespaced) {
    return {};
  }
  const ResourceInfo* namespaces = registry.Find("", "namespaces");
  const StoredPtr ns = TableOf(*namespaces).Find(ObjectKey{.ns = {}, .name = call.ns});
  if (!ns) {
    if (!options.auto_create_namespaces) {
      return std::unexpected(NotFound("", "namespaces", call.ns));
    }
    Call create = call;
    create.resource = namespaces;
    create.version = &namespaces->versions.front();
    create.ns.clear();
    create.name = call.ns;
    create.dry_run = false;
    create.applied = false;
    auto made = CommitCreate(
        create, {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", call.ns}}}});
    if (!made) {
      return std::unexpected(std::move(made).error());
    }
  } else if (MetaOf(ns->json()).contains("deletionTimestamp")) {
    Failure failure = ForbiddenRequest(
        resource.group,
        resource.plural,
        call.name,
        "unable to create new content in namespace " + call.ns + " because it is being terminated");
    failure.details["causes"] =
        Json::array({{{"reason", "NamespaceTerminating"},
                      {"message", "namespace " + call.ns + " is being terminated"},
                      {"field", "metadata.namespace"}}});
    return std::unexpected(std::move(failure));
  }
  return {};
}

Outcome<void> Server::Mutate(Call& call, Operation operation, Json& object, const Json* old) {
  if (auto done = MutateBuiltin(*this, call, operation, object, old); !done) {
    return done;
  }
  if (call.resource->group == "admissionregistration.k8s.io") {
    return {};
  }
  auto changed = CurrentPolicies().Mutate(call, operation, object, old);
  if (!changed) {
    return std::unexpected(std::move(changed).error());
  }
  if (!*changed) {
    return {};
  }
  const FieldValidation asked = std::exchange(call.field_validation, FieldValidation::kIgnore);
  auto done = Ingest(call, object);
  call.field_validation = asked;
  if (!done) {
    return done;
  }
  return MutateBuiltin(*this, call, operation, object, old);
}

Outcome<void> Server::Validate(Call& call, const Json& object, const Json* old) {
  const ResourceInfo& resource = *call.resource;
  FieldErrors errors;
  if (!resource.custom) {
    errors = ValidateBuiltin(resource, call.subresource, object, old);
    if (errors.empty() && resource.key() == "apiextensions.k8s.io/customresourcedefinitions") {
      auto defined = ResourceOf(object);
      if (!defined) {
        return std::unexpected(std::move(defined).error());
      }
      checked_definition = *std::move(defined);
    }
  } else if (const Schema* schema = resource.Storage().schema.get()) {
    CheckObjectMeta(errors, resource, MetaOf(object));
    if (old != nullptr) {
      CheckObjectMetaUpdate(errors, MetaOf(object), MetaOf(*old));
    }
    ValidateValues(*schema, object, old, errors);
    FieldErrors before;
    if (old != nullptr) {
      ValidateListTypes(*schema, *old, before);
    }
    if (before.empty()) {
      ValidateListTypes(*schema, object, errors);
    }
    const bool blocking = std::ranges::any_of(errors, [](const FieldError& error) {
      return error.type == FieldError::Type::kNotSupported ||
             error.type == FieldError::Type::kRequired ||
             error.type == FieldError::Type::kTooLong || error.type == FieldError::Type::kTooMany ||
             error.type == FieldError::Type::kTypeInvalid;
    });
    if (blocking) {
      errors.push_back(
          Invalid("",
                  nullptr,
                  "some validation rules were not checked because the object was invalid; "
                  "correct the existing errors to complete validation"));
    } else {
      ValidateRules(*schema, object, old, errors);
    }
  }
  if (!errors.empty()) {
    return std::unexpected(InvalidObject(resource.group, resource.kind, call.name, errors));
  }
  return {};
}

Outcome<void> Server::Admit(Call& call, Operation operation, const Json* object, const Json* old) {
  if (operation == Operation::kCreate && object != nullptr) {
    if (auto done = ValidateLimits(*this, call, *object); !done) {
      return done;
    }
  }
  if (call.resource->group == "admissionregistration.k8s.io") {
    return {};
  }
  if (call.storage_version()) {
    return CurrentPolicies().Validate(call, operation, object, old);
  }
  const Json now_json = object == nullptr ? Json() : ToVersion(call, *object);
  const Json old_json = old == nullptr ? Json() : ToVersion(call, *old);
  return CurrentPolicies().Validate(call,
                                    operation,
                                    object == nullptr ? nullptr : &now_json,
                                    old == nullptr ? nullptr : &old_json);
}

void Server::Track(const Call& call, const Json* old, Json& object) const {
  const ApplyRequest request{.manager = call.manager,
                             .api_version = call.api_version(),
                             .subresource = call.subresource,
                             .force = true,
                             .now = call.now};
  TrackUpdate(call.resource->Storage().schema.get(), old, object, request);
}

Outcome<Answer> Server::Apply(Call& call, const StoredPtr& old) {
  if (call.target.Get("fieldManager").empty()) {
    return std::unexpected(
        InvalidObject("meta.k8s.io",
                      "PatchOptions",
                      "",
                      {Required("fieldManager", "is required for apply patch")}));
  }
  Json config = ParseJson(call.request->body);
  if (!config.is_object()) {
    const auto documents = api::ParseYaml(call.request->body, "body");
    if (!documents || documents->size() != 1 || !documents->front().value.is_object()) {
      return std::unexpected(
          BadRequest("error decoding YAML: " + (documents ? std::string("the body is not an object")
                                                          : documents.error().message)));
    }
    config = documents->front().value;
  }
  if (TextAt(config, "apiVersion") != call.api_version() ||
      TextAt(config, "kind") != call.resource->kind) {
    return std::unexpected(
        BadRequest("the apiVersion and kind of an apply patch must be those of the path: " +
                   call.api_version() + ", Kind=" + call.resource->kind));
  }
  Json& meta = config["metadata"];
  if (!meta.is_object()) {
    meta = Json::object();
  }
  if (!ListAt(meta, "managedFields").empty()) {
    return std::unexpected(BadRequest("metadata.managedFields must be nil"));
  }
  if (const std::string name = TextAt(meta, "name"); !name.empty() && name != call.name) {
    return std::unexpected(BadRequest("the name of the object (" + name +
                                      ") does not match the name on the URL (" + call.name + ")"));
  }
  meta["name"] = call.name;
  if (call.resource->namespaced) {
    if (const std::string ns = TextAt(meta, "namespace"); !ns.empty() && ns != call.ns) {
      return std::unexpected(BadRequest(
          "the namespace of the provided object does not match the namespace sent on the request"));
    }
    meta["namespace"] = call.ns;
  }
  const std::string wanted_version = TextAt(meta, "resourceVersion");
  if (!old && (HasText(meta, "uid") || !wanted_version.empty() || !call.subresource.empty())) {
    return std::unexpected(NotFound(call.resource->group, call.resource->plural, call.name));
  }
  // Canonical form without defaults: what the configuration does not mention it does not own.
  if (auto done = Clean(call, config); !done) {
    return std::unexpected(std::move(done).error());
  }
  if (call.subresource == "status") {
    for (auto it = config.begin(); it != config.end();) {
      const bool kept = it.key() == "status" || it.key() == "metadata" ||
                        it.key() == "apiVersion" || it.key() == "kind";
      it = kept ? std::next(it) : config.erase(it);
    }
  } else if (call.resource->Storage().status) {
    config.erase("status");
  }
  const ApplyRequest request{.manager = call.manager,
                             .api_version = call.api_version(),
                             .subresource = call.subresource,
                             .force = call.target.True("force"),
                             .now = call.now};
  std::optional<Json> live;
  if (old) {
    live = ToVersion(call, old->json());
  }
  const Json* before = live ? &*live : nullptr;
  auto merged = ApplyConfig(call.version->schema.get(), before, config, request);
  if (!merged) {
    return std::unexpected(std::move(merged).error());
  }
  if (wanted_version.empty()) {
    (*merged)["metadata"].erase("resourceVersion");
  }
  call.applied = true;
  const FieldValidation asked = std::exchange(call.field_validation, FieldValidation::kIgnore);
  auto ingested = Ingest(call, *merged);
  call.field_validation = asked;
  if (!ingested) {
    return std::unexpected(std::move(ingested).error());
  }
  if (!old) {
    if (auto done = EnsureNamespace(call); !done) {
      return std::unexpected(std::move(done).error());
    }
  }
  if (auto done = Mutate(call, old ? Operation::kUpdate : Operation::kCreate, *merged, before);
      !done) {
    return std::unexpected(std::move(done).error());
  }
  auto stored = old ? CommitUpdate(call, old, ToStorage(call, *std::move(merged)))
                    : CommitCreate(call, ToStorage(call, *std::move(merged)));
  if (!stored) {
    return std::unexpected(std::move(stored).error());
  }
  return Answer{.status = old ? 200 : 201, .body = {}, .object = *std::move(stored), .text = {}};
}

void Server::Bootstrap() {
  const auto install = [&](const Json& object) {
    const std::string api_version = TextAt(object, "apiVersion");
    const std::size_t slash = api_version.find('/');
    const std::string group = slash == std::string::npos ? "" : api_version.substr(0, slash);
    const ResourceInfo* resource = registry.FindKind(group, TextAt(object, "kind"));
    MUSTER_CHECK(resource != nullptr);
    k8s::Request request;
    request.method = k8s::Method::kPost;
    request.target = (group.empty() ? "/api/" : "/apis/") + api_version + "/" + resource->plural;
    request.content_type = k8s::kJson;
    request.body = object.dump();
    const k8s::Response response = Handle(request, {});
    if (response.status != 201) {
      log::Error("an object that comes with the server was refused",
                 {{"kind", resource->kind},
                  {"name", TextAt(ObjectAt(object, "metadata"), "name")},
                  {"answer", response.body}});
    }
  };
  for (const char* name : {"default", "kube-node-lease", "kube-public", "kube-system"}) {
    install({{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", name}}}});
  }
  for (const auto& [name, value] :
       {std::pair<const char*, std::int64_t>("system-cluster-critical", 2'000'000'000),
        {"system-node-critical", 2'000'001'000}}) {
    install({{"apiVersion", "scheduling.k8s.io/v1"},
             {"kind", "PriorityClass"},
             {"metadata", {{"name", name}}},
             {"value", value}});
  }
  if (options.install_crds) {
    static const std::vector<Json> kCrds = Documents(EmbeddedCrds());
    std::ranges::for_each(kCrds, install);
  }
  if (options.install_policies) {
    static const std::vector<Json> kPolicies = Documents(EmbeddedPolicies());
    std::ranges::for_each(kPolicies, install);
  }
}

}  // namespace muster::sim
