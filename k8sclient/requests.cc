#include "k8sclient/requests.h"

#include <utility>

#include "base/strings.h"

namespace muster::k8s {
namespace {

using api::Json;

void AddQuery(std::string& target, std::string_view name, std::string_view value) {
  target += target.find('?') == std::string::npos ? '?' : '&';
  target += name;
  target += '=';
  target += PercentEncode(value);
}

void AddIfSet(std::string& target, std::string_view name, std::string_view value) {
  if (!value.empty()) {
    AddQuery(target, name, value);
  }
}

Request WithBody(Method method, std::string path, std::string_view content_type, const Json& body) {
  Request out;
  out.method = method;
  out.target = std::move(path);
  out.content_type = content_type;
  out.body = api::Dump(body);
  return out;
}

Json& Metadata(Json& object) {
  Json& metadata = object["metadata"];
  if (!metadata.is_object()) {
    metadata = Json::object();
  }
  return metadata;
}

Request PatchWithMetadata(std::string path,
                          std::string_view content_type,
                          Json patch,
                          const Preconditions& preconditions) {
  if (!preconditions.resource_version.empty()) {
    Metadata(patch)["resourceVersion"] = preconditions.resource_version;
  }
  if (!preconditions.uid.empty()) {
    Metadata(patch)["uid"] = preconditions.uid;
  }
  Request out = WithBody(Method::kPatch, std::move(path), content_type, patch);
  out.resend = !preconditions.resource_version.empty();
  return out;
}

}  // namespace

Request Get(std::string path) {
  Request out;
  out.target = std::move(path);
  out.resend = true;
  return out;
}

Request List(std::string path, const ListQuery& query) {
  Request out = Get(std::move(path));
  AddIfSet(out.target, "labelSelector", query.label_selector);
  AddIfSet(out.target, "fieldSelector", query.field_selector);
  if (query.limit > 0) {
    AddQuery(out.target, "limit", std::to_string(query.limit));
  }
  AddIfSet(out.target, "continue", query.continue_token);
  AddIfSet(out.target, "resourceVersion", query.resource_version);
  AddIfSet(out.target, "resourceVersionMatch", query.resource_version_match);
  return out;
}

Request Watch(std::string path, const WatchQuery& query, Duration idle_timeout) {
  Request out = Get(std::move(path));
  out.timeout = idle_timeout;
  AddQuery(out.target, "watch", "1");
  AddQuery(out.target, "allowWatchBookmarks", "true");
  AddIfSet(out.target, "labelSelector", query.label_selector);
  AddIfSet(out.target, "fieldSelector", query.field_selector);
  AddIfSet(out.target, "resourceVersion", query.resource_version);
  if (query.send_initial_events) {
    AddQuery(out.target, "sendInitialEvents", "true");
    AddQuery(out.target, "resourceVersionMatch", "NotOlderThan");
  }
  if (query.timeout_seconds > 0) {
    AddQuery(out.target, "timeoutSeconds", std::to_string(query.timeout_seconds));
  }
  return out;
}

Request Create(std::string collection, const Json& object, DryRun dry_run) {
  Request out = WithBody(Method::kPost, std::move(collection), kJson, object);
  if (dry_run == DryRun::kAll) {
    AddQuery(out.target, "dryRun", "All");
  }
  return out;
}

Request Update(std::string path, const Json& object) {
  Request out = WithBody(Method::kPut, std::move(path), kJson, object);
  const auto metadata = object.find("metadata");
  out.resend =
      metadata != object.end() && metadata->is_object() && metadata->contains("resourceVersion");
  return out;
}

Request MergePatch(std::string path, Json patch, const Preconditions& preconditions) {
  return PatchWithMetadata(std::move(path), kMergePatch, std::move(patch), preconditions);
}

Request StrategicPatch(std::string path, Json patch, const Preconditions& preconditions) {
  return PatchWithMetadata(std::move(path), kStrategicMergePatch, std::move(patch), preconditions);
}

Request JsonPatch(std::string path, Json operations, const Preconditions& preconditions) {
  Json all = Json::array();
  if (!preconditions.uid.empty()) {
    all.push_back({{"op", "test"}, {"path", "/metadata/uid"}, {"value", preconditions.uid}});
  }
  if (!preconditions.resource_version.empty()) {
    all.push_back({{"op", "test"},
                   {"path", "/metadata/resourceVersion"},
                   {"value", preconditions.resource_version}});
  }
  if (operations.is_array()) {
    for (Json& operation : operations) {
      all.push_back(std::move(operation));
    }
  }
  // Not sent again even with preconditions: the second execution would fail its tests with 422,
  // which looks like bad input.
  return WithBody(Method::kPatch, std::move(path), kJsonPatch, all);
}

Request Apply(std::string path, Json object, std::string_view field_manager, Force force) {
  if (const auto metadata = object.find("metadata");
      metadata != object.end() && metadata->is_object()) {
    metadata->erase("managedFields");
  }
  Request out = WithBody(Method::kPatch, std::move(path), kApplyPatch, object);
  AddQuery(out.target, "fieldManager", field_manager);
  if (force == Force::kYes) {
    AddQuery(out.target, "force", "true");
  }
  out.resend = true;
  return out;
}

Request Delete(std::string path, const DeleteQuery& query) {
  Json options = {{"apiVersion", "v1"}, {"kind", "DeleteOptions"}};
  if (query.grace_period_seconds) {
    options["gracePeriodSeconds"] = *query.grace_period_seconds;
  }
  switch (query.propagation) {
    case Propagation::kDefault:
      break;
    case Propagation::kBackground:
      options["propagationPolicy"] = "Background";
      break;
    case Propagation::kForeground:
      options["propagationPolicy"] = "Foreground";
      break;
    case Propagation::kOrphan:
      options["propagationPolicy"] = "Orphan";
      break;
  }
  if (!query.preconditions.uid.empty()) {
    options["preconditions"]["uid"] = query.preconditions.uid;
  }
  if (!query.preconditions.resource_version.empty()) {
    options["preconditions"]["resourceVersion"] = query.preconditions.resource_version;
  }
  Request out = WithBody(Method::kDelete, std::move(path), kJson, options);
  // By name alone, a second execution could delete a successor of the same name.
  out.resend = !query.preconditions.uid.empty();
  return out;
}

}  // namespace muster::k8s
