#include <algorithm>
#include <charconv>
#include <utility>

#include "api/yaml.h"
#include "base/check.h"
#include "base/log.h"
#include "base/strings.h"
#include "sim/access.h"
#include "sim/admission.h"
#include "sim/builtin.h"
#include "sim/crds.h"
#include "sim/embedded.h"
#include "sim/patching.h"
#include "sim/protobuf.h"
#include "sim/rbac.h"
#include "sim/rules.h"
#include "sim/schema.h"
#include "sim/server.h"
#include "sim/validation.h"

namespace muster::sim {
namespace {

std::string Text(const Json& object, std::string_view key) {
  if (!object.is_object()) {
    return {};
  }
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

Json& Meta(Json& object) {
  Json& meta = object["metadata"];
  if (!meta.is_object()) {
    meta = Json::object();
  }
  return meta;
}

// Puts a condition in the place of the one of its type.
void SetPodCondition(Json& pod, Json condition) {
  Json& conditions = pod["status"]["conditions"];
  if (!conditions.is_array()) {
    conditions = Json::array();
  }
  const auto it = std::ranges::find_if(
      conditions, [&](const Json& c) { return Text(c, "type") == Text(condition, "type"); });
  if (it == conditions.end()) {
    conditions.push_back(std::move(condition));
  } else {
    *it = std::move(condition);
  }
}

// The body as JSON; discarded when it is neither JSON nor protobuf.
Json BodyOf(const Call& call) {
  if (!IsProtobuf(call.request->content_type)) {
    return ParseJson(call.request->body);
  }
  auto decoded = DecodeProtobuf(call.request->body);
  return decoded ? *std::move(decoded) : Json(Json::value_t::discarded);
}

// What differs between two versions of an object when the fields that the server maintains are left
// out.
bool SameButForServerFields(const Json& a, const Json& b) {
  if (a.size() != b.size()) {
    return false;
  }
  for (auto left = a.begin(), right = b.begin(); left != a.end(); ++left, ++right) {
    if (left.key() != right.key()) {
      return false;
    }
    if (left.key() != "metadata") {
      if (left.value() != right.value()) {
        return false;
      }
      continue;
    }
    Json x = left.value();
    Json y = right.value();
    for (const char* field : {"resourceVersion", "managedFields"}) {
      x.erase(field);
      y.erase(field);
    }
    if (x != y) {
      return false;
    }
  }
  return true;
}

// True when something besides metadata and a status with a path of its own changed.
bool SpecChanged(const Json& before, const Json& after, bool has_status) {
  const auto plain = [has_status](const std::string& key) {
    return key != "metadata" && (key != "status" || !has_status) && key != "apiVersion" &&
           key != "kind";
  };
  for (const auto& [key, value] : before.items()) {
    if (plain(key) && (!after.contains(key) || after[key] != value)) {
      return true;
    }
  }
  for (const auto& [key, value] : after.items()) {
    if (plain(key) && !before.contains(key)) {
      return true;
    }
  }
  return false;
}

bool HasFinalizers(const Json& object) {
  const Json* finalizers = At(object, "metadata.finalizers");
  return finalizers != nullptr && finalizers->is_array() && !finalizers->empty();
}

// Empty maps and lists of metadata are not stored.
void TidyMetadata(Json& meta) {
  for (const char* field : {"labels", "annotations", "finalizers", "ownerReferences"}) {
    const auto it = meta.find(field);
    if (it != meta.end() && (it->is_null() || it->empty())) {
      meta.erase(it);
    }
  }
}

void BumpGeneration(Json& meta) {
  const std::int64_t old = meta.contains("generation") && meta["generation"].is_number_integer()
                               ? meta["generation"].get<std::int64_t>()
                               : 0;
  meta["generation"] = old + 1;
}

}  // namespace

StoredPtr Server::Commit(const ResourceInfo& resource,
                         Change::Type type,
                         Json object,
                         StoredPtr before) {
  ++version;
  Meta(object)["resourceVersion"] = std::to_string(version);
  auto stored = std::make_shared<const Stored>(std::move(object));
  const Json& meta = stored->json()["metadata"];
  const ObjectKey key{.ns = Text(meta, "namespace"), .name = Text(meta, "name")};
  MutableTable(resource).Commit(
      Change{.version = version, .type = type, .key = key, .before = before, .after = stored},
      options.watch_window);
  AfterCommit(resource, before, type == Change::Type::kDeleted ? nullptr : stored);
  if (on_change) {
    on_change();
  }
  return stored;
}

void Server::Remove(const ResourceInfo& resource, const StoredPtr& before) {
  Commit(resource, Change::Type::kDeleted, before->json(), before);
}

Outcome<Json> Server::DecodeBody(Call& call) const {
  Json body = BodyOf(call);
  if (body.is_discarded() && IsProtobuf(call.request->content_type)) {
    return std::unexpected(
        UnsupportedMediaType(DecodeProtobuf(call.request->body).error().message));
  }
  if (!body.is_object()) {
    return std::unexpected(BadRequest("the request body is not a JSON object"));
  }
  const std::string api_version = Text(body, "apiVersion");
  const std::string kind = Text(body, "kind");
  if (kind.empty()) {
    body["kind"] = call.resource->kind;
  } else if (kind != call.resource->kind) {
    return std::unexpected(BadRequest("the object provided is unrecognized (must be of type " +
                                      call.resource->kind + "): kind " + kind));
  }
  if (api_version.empty()) {
    body["apiVersion"] = call.api_version();
  } else if (api_version != call.api_version()) {
    return std::unexpected(BadRequest("the API version in the data (" + api_version +
                                      ") does not match the expected API version (" +
                                      call.api_version() + ")"));
  }
  if (body.contains("metadata") && !body["metadata"].is_object() && !body["metadata"].is_null()) {
    return std::unexpected(BadRequest("metadata must be an object"));
  }
  return body;
}

Outcome<Answer> Server::Create(Call& call) {
  auto body = DecodeBody(call);
  if (!body) {
    return std::unexpected(std::move(body).error());
  }
  Json& meta = Meta(*body);
  if (call.resource->namespaced) {
    const std::string given = Text(meta, "namespace");
    if (call.ns.empty()) {
      return std::unexpected(MethodNotAllowed(call.resource->plural));
    }
    if (!given.empty() && given != call.ns) {
      return std::unexpected(BadRequest(
          "the namespace of the provided object does not match the namespace sent on the request"));
    }
    meta["namespace"] = call.ns;
  } else {
    meta.erase("namespace");
  }
  if (auto done = Ingest(call, *body); !done) {
    return std::unexpected(std::move(done).error());
  }
  call.name = Text(Meta(*body), "name");
  if (auto done = EnsureNamespace(call); !done) {
    return std::unexpected(std::move(done).error());
  }
  if (auto done = Mutate(call, Operation::kCreate, *body, nullptr); !done) {
    return std::unexpected(std::move(done).error());
  }
  auto stored = CommitCreate(call, ToStorage(call, *std::move(body)));
  if (!stored) {
    return std::unexpected(std::move(stored).error());
  }
  return Answer{.status = 201, .body = {}, .object = *std::move(stored), .text = {}};
}

Outcome<StoredPtr> Server::CommitCreate(Call& call, Json object) {
  const ResourceInfo& resource = *call.resource;
  Json& meta = Meta(object);
  if (!Text(meta, "resourceVersion").empty()) {
    return std::unexpected(
        BadRequest("resourceVersion should not be set on objects to be created"));
  }
  std::string name = Text(meta, "name");
  if (name.empty()) {
    const std::string prefix = Text(meta, "generateName");
    if (prefix.empty()) {
      return std::unexpected(
          InvalidObject(resource.group,
                        resource.kind,
                        "",
                        {Required("metadata.name", "name or generateName is required")}));
    }
    do {
      name = prefix.substr(0, 58) + NewSuffix();
    } while (TableOf(resource).Find(ObjectKey{.ns = call.ns, .name = name}));
    meta["name"] = name;
  }
  call.name = name;
  if (TableOf(resource).Find(ObjectKey{.ns = call.ns, .name = name})) {
    return std::unexpected(AlreadyExists(resource.group, resource.plural, name));
  }
  if (resource.Storage().status && resource.key() != "/nodes") {
    object.erase("status");
  }
  for (const char* field : {"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"}) {
    meta.erase(field);
  }
  if (!call.applied) {
    meta.erase("managedFields");
  }
  meta["uid"] = NewUid();
  meta["creationTimestamp"] = FormatTime(call.now);
  if (resource.generation) {
    meta["generation"] = 1;
  } else {
    meta.erase("generation");
  }
  if (!resource.custom) {
    PrepareCreate(resource, object, call.now);
  }
  TidyMetadata(Meta(object));
  if (options.managed_fields && !call.applied) {
    Track(call, nullptr, object);
  }
  if (auto done = Validate(call, object, nullptr); !done) {
    return std::unexpected(std::move(done).error());
  }
  if (auto done = Admit(call, Operation::kCreate, &object, nullptr); !done) {
    return std::unexpected(std::move(done).error());
  }
  if (call.dry_run) {
    return std::make_shared<const Stored>(std::move(object));
  }
  return Commit(resource, Change::Type::kAdded, std::move(object), nullptr);
}

Outcome<StoredPtr> Server::CommitUpdate(Call& call, const StoredPtr& old, Json object) {
  const ResourceInfo& resource = *call.resource;
  const Json& before = old->json();
  const Json& old_meta = before["metadata"];
  Json& meta = Meta(object);
  const std::string given_version = Text(meta, "resourceVersion");
  if (!given_version.empty() && given_version != Text(old_meta, "resourceVersion")) {
    return std::unexpected(ObjectModified(resource.group, resource.plural, call.name));
  }
  const std::string given_uid = Text(meta, "uid");
  if (!given_uid.empty() && given_uid != Text(old_meta, "uid")) {
    if (call.request->method == k8s::Method::kPatch) {
      // A patch changes the field, and is told that it cannot; an update names the wrong object.
      return std::unexpected(
          InvalidObject(resource.group,
                        resource.kind,
                        call.name,
                        {Invalid("metadata.uid", given_uid, "field is immutable")}));
    }
    return std::unexpected(Conflict(resource.group,
                                    resource.plural,
                                    call.name,
                                    "Precondition failed: UID in precondition: " + given_uid +
                                        ", UID in object meta: " + Text(old_meta, "uid")));
  }
  Json applied_managers =
      call.applied && meta.contains("managedFields") ? meta["managedFields"] : Json::array();
  if (call.subresource == "status") {
    Json next = before;
    if (object.contains("status")) {
      next["status"] = object["status"];
    } else {
      next.erase("status");
    }
    if (!resource.custom && !resource.status_keeps_metadata) {
      for (const char* field : {"labels", "annotations", "finalizers"}) {
        if (meta.contains(field)) {
          next["metadata"][field] = meta[field];
        } else {
          next["metadata"].erase(field);
        }
      }
    }
    object = std::move(next);
  } else if (resource.Storage().status) {
    if (before.contains("status")) {
      object["status"] = before["status"];
    } else {
      object.erase("status");
    }
  }
  Json& final_meta = Meta(object);
  for (const char* field : {"uid",
                            "creationTimestamp",
                            "deletionTimestamp",
                            "deletionGracePeriodSeconds",
                            "generation",
                            "namespace",
                            "name",
                            "generateName",
                            "resourceVersion"}) {
    if (old_meta.contains(field)) {
      final_meta[field] = old_meta[field];
    } else {
      final_meta.erase(field);
    }
  }
  final_meta.erase("selfLink");
  if (call.applied) {
    final_meta["managedFields"] = std::move(applied_managers);
  } else if (old_meta.contains("managedFields")) {
    final_meta["managedFields"] = old_meta["managedFields"];
  } else {
    final_meta.erase("managedFields");
  }
  if (!resource.custom) {
    PrepareUpdate(resource, call.subresource, object, before, call.now);
  }
  TidyMetadata(Meta(object));
  const bool same =
      SameButForServerFields(before, object) &&
      (!call.applied || ListAt(old_meta, "managedFields") == ListAt(Meta(object), "managedFields"));
  if (!same && !call.applied && (options.managed_fields || old_meta.contains("managedFields"))) {
    Track(call, &before, object);
  }
  if (!same || call.resource->custom) {
    if (auto done = Validate(call, object, &before); !done) {
      return std::unexpected(std::move(done).error());
    }
  }
  if (auto done = Admit(call, Operation::kUpdate, &object, &before); !done) {
    return std::unexpected(std::move(done).error());
  }
  if (same) {
    return old;
  }
  if (resource.generation && SpecChanged(before, object, resource.Storage().status)) {
    BumpGeneration(final_meta);
  }
  if (call.dry_run) {
    return std::make_shared<const Stored>(std::move(object));
  }
  // The last finalizer of an object that is being deleted is gone: so is the object.
  if (final_meta.contains("deletionTimestamp") && !HasFinalizers(object)) {
    const bool graceful = final_meta.contains("deletionGracePeriodSeconds") &&
                          final_meta["deletionGracePeriodSeconds"].is_number_integer() &&
                          final_meta["deletionGracePeriodSeconds"].get<std::int64_t>() > 0;
    if (!graceful && resource.key() != "/namespaces") {
      return Commit(resource, Change::Type::kDeleted, std::move(object), old);
    }
  }
  return Commit(resource, Change::Type::kModified, std::move(object), old);
}

Outcome<Answer> Server::Update(Call& call) {
  auto body = DecodeBody(call);
  if (!body) {
    return std::unexpected(std::move(body).error());
  }
  Json& meta = Meta(*body);
  const std::string name = Text(meta, "name");
  if (name.empty()) {
    return std::unexpected(BadRequest("the name of the object must be set"));
  }
  if (name != call.name) {
    return std::unexpected(BadRequest("the name of the object (" + name +
                                      ") does not match the name on the URL (" + call.name + ")"));
  }
  const std::string ns = Text(meta, "namespace");
  if (!ns.empty() && ns != call.ns) {
    return std::unexpected(BadRequest(
        "the namespace of the provided object does not match the namespace sent on the request"));
  }
  const StoredPtr old = TableOf(*call.resource).Find(ObjectKey{.ns = call.ns, .name = call.name});
  if (!old) {
    return std::unexpected(NotFound(call.resource->group, call.resource->plural, call.name));
  }
  if (call.resource->requires_version_on_put || call.resource->custom) {
    if (Text(meta, "resourceVersion").empty()) {
      return std::unexpected(InvalidObject(
          call.resource->group,
          call.resource->kind,
          call.name,
          {Invalid("metadata.resourceVersion", Json(0), "must be specified for an update")}));
    }
  }
  if (auto done = Ingest(call, *body); !done) {
    return std::unexpected(std::move(done).error());
  }
  const Json current = ToVersion(call, old->json());
  if (auto done = Mutate(call, Operation::kUpdate, *body, &current); !done) {
    return std::unexpected(std::move(done).error());
  }
  auto stored = CommitUpdate(call, old, ToStorage(call, *std::move(body)));
  if (!stored) {
    return std::unexpected(std::move(stored).error());
  }
  return Answer{.status = 200, .body = {}, .object = *std::move(stored), .text = {}};
}

Outcome<Answer> Server::Patch(Call& call) {
  const std::string type =
      call.request->content_type.substr(0, call.request->content_type.find(';'));
  const StoredPtr old = TableOf(*call.resource).Find(ObjectKey{.ns = call.ns, .name = call.name});
  const bool merge = type == k8s::kMergePatch;
  const bool json_patch = type == k8s::kJsonPatch;
  const bool strategic = type == k8s::kStrategicMergePatch && !call.resource->custom;
  if (type == k8s::kApplyPatch) {
    return Apply(call, old);
  }
  if (!merge && !json_patch && !strategic) {
    return std::unexpected(UnsupportedMediaType(
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"));
  }
  if (!old) {
    return std::unexpected(NotFound(call.resource->group, call.resource->plural, call.name));
  }
  const Json patch = ParseJson(call.request->body);
  if (patch.is_discarded() || (!json_patch && !patch.is_object())) {
    return std::unexpected(BadRequest("error decoding patch: the body is not a JSON " +
                                      std::string(json_patch ? "list" : "object")));
  }
  Json object = ToVersion(call, old->json());
  // The version of the patch, if it has one, is the precondition.
  Meta(object).erase("resourceVersion");
  if (merge) {
    ApplyMergePatch(object, patch);
  } else {
    Meta(object)["resourceVersion"] = old->json()["metadata"]["resourceVersion"];
    const auto done = json_patch ? ApplyJsonPatch(object, patch)
                                 : ApplyStrategicPatch(object, patch, call.version->schema.get());
    if (!done) {
      Failure failure{.code = 422,
                      .reason = "Invalid",
                      .message = "the server rejected our request due to an error in our request",
                      .details = Json::object()};
      failure.details["causes"] = {
          {{"reason", "UnexpectedServerResponse"}, {"message", done.error()}}};
      return std::unexpected(std::move(failure));
    }
  }
  if (!object.is_object() || (object.contains("metadata") && !object["metadata"].is_object())) {
    return std::unexpected(BadRequest("the patched object is not an object"));
  }
  if (Text(object, "apiVersion") != call.api_version() ||
      Text(object, "kind") != call.resource->kind) {
    return std::unexpected(BadRequest("the patch may not change apiVersion or kind"));
  }
  if (Text(Meta(object), "name") != call.name) {
    return std::unexpected(BadRequest("the name of the object (" + Text(Meta(object), "name") +
                                      ") does not match the name on the URL (" + call.name + ")"));
  }
  if (auto done = Ingest(call, object); !done) {
    return std::unexpected(std::move(done).error());
  }
  const Json current = ToVersion(call, old->json());
  if (auto done = Mutate(call, Operation::kUpdate, object, &current); !done) {
    return std::unexpected(std::move(done).error());
  }
  auto stored = CommitUpdate(call, old, ToStorage(call, std::move(object)));
  if (!stored) {
    return std::unexpected(std::move(stored).error());
  }
  return Answer{.status = 200, .body = {}, .object = *std::move(stored), .text = {}};
}

namespace {

Outcome<Json> DeleteOptionsOf(const Call& call) {
  Json out = Json::object();
  if (!call.request->body.empty()) {
    out = BodyOf(call);
    if (!out.is_object()) {
      return std::unexpected(BadRequest("the request body is not a JSON object"));
    }
  }
  if (call.target.Has("propagationPolicy")) {
    out["propagationPolicy"] = call.target.Get("propagationPolicy");
  }
  if (call.target.Has("gracePeriodSeconds")) {
    std::int64_t seconds = 0;
    const std::string text = call.target.Get("gracePeriodSeconds");
    std::from_chars(text.data(), text.data() + text.size(), seconds);
    out["gracePeriodSeconds"] = seconds;
  }
  if (call.target.Has("orphanDependents")) {
    out["orphanDependents"] = call.target.True("orphanDependents");
  }
  const std::string policy = Text(out, "propagationPolicy");
  if (!policy.empty() && policy != "Orphan" && policy != "Background" && policy != "Foreground") {
    return std::unexpected(InvalidObject(
        "meta.k8s.io",
        "DeleteOptions",
        "",
        {NotSupported(
            "propagationPolicy", policy, {"Foreground", "Background", "Orphan", "nil"})}));
  }
  return out;
}

}  // namespace

Outcome<Answer> Server::DeleteOne(Call& call, const StoredPtr& old, const Json& delete_options) {
  const ResourceInfo& resource = *call.resource;
  const Json& before = old->json();
  const Json& old_meta = before["metadata"];
  if (const auto it = delete_options.find("preconditions");
      it != delete_options.end() && it->is_object()) {
    const std::string uid = Text(*it, "uid");
    const std::string wanted = Text(*it, "resourceVersion");
    if (!uid.empty() && uid != Text(old_meta, "uid")) {
      return std::unexpected(Conflict(resource.group,
                                      resource.plural,
                                      call.name,
                                      "Precondition failed: UID in precondition: " + uid +
                                          ", UID in object meta: " + Text(old_meta, "uid")));
    }
    if (!wanted.empty() && wanted != Text(old_meta, "resourceVersion")) {
      return std::unexpected(
          Conflict(resource.group,
                   resource.plural,
                   call.name,
                   "Precondition failed: ResourceVersion in precondition: " + wanted +
                       ", ResourceVersion in object meta: " + Text(old_meta, "resourceVersion")));
    }
  }
  const bool dry_run =
      call.dry_run || (delete_options.contains("dryRun") && !delete_options["dryRun"].empty());
  Json object = before;
  Json& meta = Meta(object);

  // Finalizers of the garbage collector follow the propagation policy; jobs orphan by default, an
  // old promise of batch/v1.
  std::string policy = Text(delete_options, "propagationPolicy");
  if (policy.empty() && delete_options.contains("orphanDependents") &&
      delete_options["orphanDependents"].is_boolean()) {
    policy = delete_options["orphanDependents"].get<bool>() ? "Orphan" : "Background";
  }
  std::vector<std::string> finalizers;
  if (meta.contains("finalizers") && meta["finalizers"].is_array()) {
    for (const Json& item : meta["finalizers"]) {
      if (item.is_string()) {
        finalizers.push_back(item.get<std::string>());
      }
    }
  }
  const auto has = [&](std::string_view name) {
    return std::ranges::find(finalizers, name) != finalizers.end();
  };
  const bool gc = resource.key() != "/events" && resource.key() != "events.k8s.io/events";
  bool orphan = false;
  bool foreground = false;
  if (gc) {
    if (!policy.empty()) {
      orphan = policy == "Orphan";
      foreground = policy == "Foreground";
    } else if (has("orphan") || has("foregroundDeletion")) {
      orphan = has("orphan");
      foreground = has("foregroundDeletion");
    } else {
      orphan = resource.key() == "batch/jobs";
    }
  }
  std::erase_if(finalizers,
                [](const std::string& f) { return f == "orphan" || f == "foregroundDeletion"; });
  if (orphan) {
    finalizers.emplace_back("orphan");
  }
  if (foreground) {
    finalizers.emplace_back("foregroundDeletion");
  }
  if (finalizers.empty()) {
    meta.erase("finalizers");
  } else {
    meta["finalizers"] = finalizers;
  }

  std::int64_t grace = 0;
  if (resource.key() == "/pods") {
    const Json* asked = At(delete_options, "gracePeriodSeconds");
    const Json* default_grace = At(before, "spec.terminationGracePeriodSeconds");
    grace = asked != nullptr && asked->is_number_integer() ? asked->get<std::int64_t>()
            : default_grace != nullptr && default_grace->is_number_integer()
                ? default_grace->get<std::int64_t>()
                : 30;
    const Json* node = At(before, "spec.nodeName");
    const Json* phase = At(before, "status.phase");
    // A pod without a node has nothing to end, unless it runs on the machine that stands in for all
    // nodes.
    const bool placed =
        (node != nullptr && node->is_string() && !node->get<std::string>().empty()) ||
        (phase != nullptr && *phase == "Running");
    if (!placed || (phase != nullptr && (*phase == "Succeeded" || *phase == "Failed"))) {
      grace = 0;
    }
    grace = std::max<std::int64_t>(grace, 0);
  }
  const bool is_namespace = resource.key() == "/namespaces";
  const bool was_deleting = old_meta.contains("deletionTimestamp");
  bool pending = !finalizers.empty() || grace > 0;
  if (is_namespace) {
    const Json* spec_finalizers = At(before, "spec.finalizers");
    pending = pending || (spec_finalizers != nullptr && !spec_finalizers->empty());
  }
  if (!pending) {
    if (!dry_run) {
      Remove(resource, old);
    }
    if (resource.key() == "/pods") {
      return Answer{.status = 200, .body = {}, .object = old, .text = {}};
    }
    Json details = {{"name", call.name}, {"kind", resource.plural}, {"uid", Text(old_meta, "uid")}};
    if (!resource.group.empty()) {
      details["group"] = resource.group;
    }
    return Answer{.status = 200,
                  .body = {{"kind", "Status"},
                           {"apiVersion", "v1"},
                           {"metadata", Json::object()},
                           {"status", "Success"},
                           {"details", details}},
                  .object = {},
                  .text = {}};
  }
  if (was_deleting) {
    // A later deletion may only shorten the time that is left.
    const std::int64_t left = meta.contains("deletionGracePeriodSeconds") &&
                                      meta["deletionGracePeriodSeconds"].is_number_integer()
                                  ? meta["deletionGracePeriodSeconds"].get<std::int64_t>()
                                  : 0;
    if (grace < left) {
      meta["deletionGracePeriodSeconds"] = grace;
      meta["deletionTimestamp"] = FormatTime(call.now + std::chrono::seconds(grace));
    }
  } else {
    meta["deletionTimestamp"] = FormatTime(call.now + std::chrono::seconds(grace));
    meta["deletionGracePeriodSeconds"] = grace;
    if (meta.contains("generation")) {
      BumpGeneration(meta);
    }
    if (is_namespace) {
      meta.erase("deletionGracePeriodSeconds");
      object["status"]["phase"] = "Terminating";
    }
  }
  if (dry_run || SameButForServerFields(before, object)) {
    return Answer{.status = 200, .body = {}, .object = old, .text = {}};
  }
  const StoredPtr stored = Commit(resource, Change::Type::kModified, std::move(object), old);
  return Answer{.status = 200, .body = {}, .object = stored, .text = {}};
}

Outcome<Answer> Server::Delete(Call& call) {
  auto delete_options = DeleteOptionsOf(call);
  if (!delete_options) {
    return std::unexpected(std::move(delete_options).error());
  }
  const StoredPtr old = TableOf(*call.resource).Find(ObjectKey{.ns = call.ns, .name = call.name});
  if (!old) {
    return std::unexpected(NotFound(call.resource->group, call.resource->plural, call.name));
  }
  return DeleteOne(call, old, *delete_options);
}

Outcome<Answer> Server::DeleteCollection(Call& call) {
  auto delete_options = DeleteOptionsOf(call);
  if (!delete_options) {
    return std::unexpected(std::move(delete_options).error());
  }
  auto listed = List(call);
  if (!listed) {
    return listed;
  }
  const auto labels = LabelMatcher::Parse(call.target.Get("labelSelector"));
  const auto fields =
      FieldMatcher::Parse(call.target.Get("fieldSelector"), call.resource->kind, {});
  std::vector<StoredPtr> doomed;
  const auto [begin, end] = TableOf(*call.resource).Range(call.ns);
  for (auto it = begin; it != end; ++it) {
    if (labels && labels->Matches(it->second->json()) &&
        (!fields || fields->Matches(ToVersion(call, it->second->json())))) {
      doomed.push_back(it->second);
    }
  }
  for (const StoredPtr& object : doomed) {
    Call one = call;
    one.name = Text(object->json()["metadata"], "name");
    one.ns = Text(object->json()["metadata"], "namespace");
    auto done = DeleteOne(one, object, *delete_options);
    if (!done) {
      return done;
    }
  }
  return listed;
}

Outcome<Answer> Server::PodBinding(Call& call) {
  const Json body = BodyOf(call);
  const Json* node = body.is_object() ? At(body, "target.name") : nullptr;
  if (node == nullptr || !node->is_string() || node->get<std::string>().empty()) {
    return std::unexpected(InvalidObject("", "Binding", call.name, {Required("target.name", "")}));
  }
  const StoredPtr old = TableOf(*call.resource).Find(ObjectKey{.ns = call.ns, .name = call.name});
  if (!old) {
    return std::unexpected(NotFound("", "pods", call.name));
  }
  const auto refuse = [&](const std::string& why) {
    return std::unexpected(Conflict("", "pods/binding", call.name, why));
  };
  Json object = old->json();
  if (object["metadata"].contains("deletionTimestamp")) {
    return refuse("pod " + call.name + " is being deleted, cannot be assigned to a host");
  }
  if (const Json* bound = At(object, "spec.nodeName");
      bound != nullptr && bound->is_string() && !bound->get<std::string>().empty()) {
    return refuse("pod " + call.name + " is already assigned to node \"" +
                  bound->get<std::string>() + "\"");
  }
  if (const Json* gates = At(object, "spec.schedulingGates"); gates != nullptr && !gates->empty()) {
    return refuse("pod " + call.name + " has non-empty .spec.schedulingGates");
  }
  object["spec"]["nodeName"] = *node;
  SetPodCondition(object,
                  {{"type", "PodScheduled"},
                   {"status", "True"},
                   {"lastProbeTime", nullptr},
                   {"lastTransitionTime", FormatTime(call.now)}});
  if (!call.dry_run) {
    Commit(*call.resource, Change::Type::kModified, std::move(object), old);
  }
  return Answer{.status = 201,
                .body = {{"kind", "Status"},
                         {"apiVersion", "v1"},
                         {"metadata", Json::object()},
                         {"status", "Success"},
                         {"code", 201}},
                .object = {},
                .text = {}};
}

Outcome<Answer> Server::PodEviction(Call& call) {
  const Json body = BodyOf(call);
  if (!body.is_object()) {
    return std::unexpected(BadRequest("the request body is not a JSON object"));
  }
  StoredPtr old = TableOf(*call.resource).Find(ObjectKey{.ns = call.ns, .name = call.name});
  if (!old) {
    return std::unexpected(NotFound("", "pods", call.name));
  }
  const std::string phase = Text(ObjectAt(old->json(), "status"), "phase");
  const bool matters = phase != "Succeeded" && phase != "Failed" && phase != "Pending" &&
                       !old->json()["metadata"].contains("deletionTimestamp");
  const auto [begin, end] =
      TableOf(*registry.Find("policy", "poddisruptionbudgets")).Range(call.ns);
  for (auto it = begin; matters && it != end; ++it) {
    const Json& budget = it->second->json();
    const Json* selector = At(budget, "spec.selector");
    if (selector == nullptr || !LabelMatcher::FromObject(*selector).Matches(old->json())) {
      continue;
    }
    const Json& status = ObjectAt(budget, "status");
    if (IntAt(status, "disruptionsAllowed").value_or(0) <= 0) {
      Failure failure{
          .code = 429,
          .reason = "TooManyRequests",
          .message = "Cannot evict pod as it would violate the pod's disruption budget.",
          .details = Json::object()};
      failure.details["causes"] = Json::array(
          {{{"reason", "DisruptionBudget"},
            {"message",
             "The disruption budget " + it->first.name + " needs " +
                 std::to_string(IntAt(status, "desiredHealthy").value_or(0)) +
                 " healthy pods and has " +
                 std::to_string(IntAt(status, "currentHealthy").value_or(0)) + " currently"}}});
      return std::unexpected(std::move(failure));
    }
  }
  const bool dry_run = call.dry_run || !ListAt(ObjectAt(body, "deleteOptions"), "dryRun").empty();
  if (!dry_run && !old->json()["metadata"].contains("deletionTimestamp")) {
    Json object = old->json();
    SetPodCondition(object,
                    {{"type", "DisruptionTarget"},
                     {"status", "True"},
                     {"reason", "EvictionByEvictionAPI"},
                     {"message", "Eviction API: evicting"},
                     {"lastProbeTime", nullptr},
                     {"lastTransitionTime", FormatTime(call.now)}});
    old = Commit(*call.resource, Change::Type::kModified, std::move(object), old);
  }
  auto done = DeleteOne(call, old, ObjectAt(body, "deleteOptions"));
  if (!done) {
    return done;
  }
  return Answer{.status = 201,
                .body = {{"kind", "Status"},
                         {"apiVersion", "v1"},
                         {"metadata", Json::object()},
                         {"status", "Success"},
                         {"code", 201}},
                .object = {},
                .text = {}};
}

Outcome<Answer> Server::Review(Call& call) {
  auto body = DecodeBody(call);
  if (!body) {
    return std::unexpected(std::move(body).error());
  }
  Meta(*body)["creationTimestamp"] = nullptr;
  const std::string& kind = call.resource->kind;
  if (kind.ends_with("AccessReview")) {
    const Json& spec = ObjectAt(*body, "spec");
    UserInfo user = call.user;
    if (kind != "SelfSubjectAccessReview") {
      user = {.name = Text(spec, "user"), .groups = TextsAt(spec, "groups")};
    }
    const Json& attributes = ObjectAt(spec, "resourceAttributes");
    const Json& path = ObjectAt(spec, "nonResourceAttributes");
    const Access access{.verb = attributes.empty() ? Text(path, "verb") : Text(attributes, "verb"),
                        .group = Text(attributes, "group"),
                        .resource = Text(attributes, "resource"),
                        .subresource = Text(attributes, "subresource"),
                        .ns = Text(attributes, "namespace"),
                        .name = Text(attributes, "name"),
                        .path = attributes.empty() ? Text(path, "path") : std::string()};
    (*body)["status"] = {{"allowed", Allowed(*this, user, access)}};
  } else if (kind == "SelfSubjectRulesReview") {
    (*body)["status"] = {
        {"resourceRules", {{{"verbs", {"*"}}, {"apiGroups", {"*"}}, {"resources", {"*"}}}}},
        {"nonResourceRules", {{{"verbs", {"*"}}, {"nonResourceURLs", {"*"}}}}},
        {"incomplete", false}};
  } else if (kind == "SelfSubjectReview") {
    (*body)["status"] = {
        {"userInfo", {{"username", call.user.name}, {"groups", call.user.groups}}}};
  } else if (kind == "TokenReview") {
    (*body)["status"] = {{"authenticated", true},
                         {"user", {{"username", call.user.name}, {"groups", call.user.groups}}}};
  } else {
    return std::unexpected(MethodNotAllowed(call.resource->plural));
  }
  return Answer{.status = 201, .body = *std::move(body), .object = {}, .text = {}};
}

Outcome<Answer> Server::Scale(Call& call) {
  const StoredPtr old = TableOf(*call.resource).Find(ObjectKey{.ns = call.ns, .name = call.name});
  if (!old) {
    return std::unexpected(NotFound(call.resource->group, call.resource->plural, call.name));
  }
  const auto scale_of = [&](const Json& object) {
    const Json& meta = object["metadata"];
    Json out = {{"kind", "Scale"},
                {"apiVersion", "autoscaling/v1"},
                {"metadata",
                 {{"name", meta["name"]},
                  {"namespace", meta.value("namespace", "")},
                  {"uid", meta["uid"]},
                  {"resourceVersion", meta["resourceVersion"]},
                  {"creationTimestamp", meta["creationTimestamp"]}}},
                {"spec", Json::object()},
                {"status", {{"replicas", 0}}}};
    if (const Json* replicas = At(object, "spec.replicas")) {
      out["spec"]["replicas"] = *replicas;
    }
    if (const Json* replicas = At(object, "status.replicas")) {
      out["status"]["replicas"] = *replicas;
    }
    return out;
  };
  Json scale = scale_of(old->json());
  if (call.request->method == k8s::Method::kGet) {
    return Answer{.status = 200, .body = std::move(scale), .object = {}, .text = {}};
  }
  const Json body = BodyOf(call);
  if (body.is_discarded()) {
    return std::unexpected(BadRequest("the request body is not JSON"));
  }
  if (call.request->method == k8s::Method::kPut && body.is_object()) {
    scale = body;
  } else if (call.request->method == k8s::Method::kPatch &&
             call.request->content_type == k8s::kJsonPatch) {
    if (auto done = ApplyJsonPatch(scale, body); !done) {
      return std::unexpected(BadRequest(done.error()));
    }
  } else if (call.request->method == k8s::Method::kPatch) {
    ApplyMergePatch(scale, body);
  } else {
    return std::unexpected(MethodNotAllowed(call.resource->plural));
  }
  const Json* replicas = At(scale, "spec.replicas");
  if (replicas == nullptr || !replicas->is_number_integer() || replicas->get<std::int64_t>() < 0) {
    return std::unexpected(InvalidObject("autoscaling",
                                         "Scale",
                                         call.name,
                                         {Invalid("spec.replicas",
                                                  replicas == nullptr ? Json() : *replicas,
                                                  "must be greater than or equal to 0")}));
  }
  Json object = old->json();
  object["spec"]["replicas"] = *replicas;
  if (const Json* given = At(scale, "metadata.resourceVersion")) {
    object["metadata"]["resourceVersion"] = *given;
  }
  call.subresource.clear();
  auto stored = CommitUpdate(call, old, std::move(object));
  if (!stored) {
    return std::unexpected(std::move(stored).error());
  }
  return Answer{.status = 200, .body = scale_of((*stored)->json()), .object = {}, .text = {}};
}

}  // namespace muster::sim
