#include "sim/discovery.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/strings.h"
#include "sim/tables.h"

namespace muster::sim {
namespace {

k8s::Response Ok(const Json& body) {
  return {.status = 200, .headers = {{"content-type", "application/json"}}, .body = body.dump()};
}

Json Verbs(const ResourceInfo& resource) {
  if (resource.create_only) {
    return Json::array({"create"});
  }
  return {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"};
}

Json PlainResource(const ResourceInfo& resource) {
  Json out = {{"name", resource.plural},
              {"singularName", resource.singular},
              {"namespaced", resource.namespaced},
              {"kind", resource.kind},
              {"verbs", Verbs(resource)}};
  if (!resource.short_names.empty()) {
    out["shortNames"] = resource.short_names;
  }
  if (!resource.categories.empty()) {
    out["categories"] = resource.categories;
  }
  return out;
}

Json PlainResources(const Registry& registry,
                    const std::string& group,
                    const std::string& version) {
  Json list = Json::array();
  for (const auto& [key, resource] : registry.all()) {
    const ResourceVersionInfo* info = resource.group == group ? resource.Version(version) : nullptr;
    if (info == nullptr || !info->served) {
      continue;
    }
    list.push_back(PlainResource(resource));
    const auto sub = [&](const std::string& name, Json verbs, const std::string& kind) {
      list.push_back({{"name", resource.plural + "/" + name},
                      {"singularName", ""},
                      {"namespaced", resource.namespaced},
                      {"kind", kind},
                      {"verbs", std::move(verbs)}});
    };
    for (const std::string& name : resource.subresources) {
      if (name == "binding") {
        sub(name, Json::array({"create"}), "Binding");
      } else if (name == "eviction") {
        sub(name, Json::array({"create"}), "Eviction");
        list.back()["group"] = "policy";
        list.back()["version"] = "v1";
      } else if (name == "finalize") {
        sub(name, Json::array({"update"}), resource.kind);
      } else {
        sub(name, {"get", "patch", "update"}, resource.kind);
      }
    }
    if (info->scale) {
      sub("scale", {"get", "patch", "update"}, "Scale");
      list.back()["group"] = "autoscaling";
      list.back()["version"] = "v1";
    }
    if (info->status) {
      sub("status", {"get", "patch", "update"}, resource.kind);
    }
  }
  return list;
}

// Group -> its served versions, preferred first.
std::map<std::string, std::vector<std::string>> Groups(const Registry& registry) {
  std::map<std::string, std::vector<std::string>> out;
  for (const auto& [key, resource] : registry.all()) {
    for (const ResourceVersionInfo& version : resource.versions) {
      if (version.served) {
        std::vector<std::string>& versions = out[resource.group];
        if (std::ranges::find(versions, version.name) == versions.end()) {
          versions.push_back(version.name);
        }
      }
    }
  }
  for (auto& [group, versions] : out) {
    std::ranges::sort(versions, [](const std::string& a, const std::string& b) {
      return VersionRank(a) > VersionRank(b);
    });
  }
  return out;
}

// Everything in one document: what clients ask for first.
Json Aggregated(const Registry& registry, bool core) {
  Json items = Json::array();
  for (const auto& [group, versions] : Groups(registry)) {
    if (group.empty() != core) {
      continue;
    }
    Json list = Json::array();
    for (const std::string& version : versions) {
      Json resources = Json::array();
      for (const auto& [key, resource] : registry.all()) {
        const ResourceVersionInfo* info =
            resource.group == group ? resource.Version(version) : nullptr;
        if (info == nullptr || !info->served) {
          continue;
        }
        const auto kind =
            [](const std::string& g, const std::string& v, const std::string& k) -> Json {
          return {{"group", g}, {"version", v}, {"kind", k}};
        };
        Json entry = {{"resource", resource.plural},
                      {"responseKind", kind(group, version, resource.kind)},
                      {"scope", resource.namespaced ? "Namespaced" : "Cluster"},
                      {"singularResource", resource.singular},
                      {"verbs", Verbs(resource)}};
        if (!resource.short_names.empty()) {
          entry["shortNames"] = resource.short_names;
        }
        if (!resource.categories.empty()) {
          entry["categories"] = resource.categories;
        }
        Json subresources = Json::array();
        const auto sub = [&](const std::string& name, Json response, Json verbs) {
          subresources.push_back({{"subresource", name},
                                  {"responseKind", std::move(response)},
                                  {"verbs", std::move(verbs)}});
        };
        for (const std::string& name : resource.subresources) {
          if (name == "binding") {
            sub(name, kind("", "v1", "Binding"), Json::array({"create"}));
          } else if (name == "eviction") {
            sub(name, kind("policy", "v1", "Eviction"), Json::array({"create"}));
          } else if (name == "finalize") {
            sub(name, kind(group, version, resource.kind), Json::array({"update"}));
          } else {
            sub(name, kind(group, version, resource.kind), {"get", "patch", "update"});
          }
        }
        if (info->scale) {
          sub("scale", kind("autoscaling", "v1", "Scale"), {"get", "patch", "update"});
        }
        if (info->status) {
          sub("status", kind(group, version, resource.kind), {"get", "patch", "update"});
        }
        if (!subresources.empty()) {
          entry["subresources"] = std::move(subresources);
        }
        resources.push_back(std::move(entry));
      }
      list.push_back(
          {{"version", version}, {"resources", std::move(resources)}, {"freshness", "Current"}});
    }
    Json meta = {{"creationTimestamp", nullptr}};
    if (!group.empty()) {
      meta["name"] = group;
    }
    items.push_back({{"metadata", std::move(meta)}, {"versions", std::move(list)}});
  }
  return {{"kind", "APIGroupDiscoveryList"},
          {"apiVersion", "apidiscovery.k8s.io/v2"},
          {"metadata", Json::object()},
          {"items", std::move(items)}};
}

k8s::Response AggregatedResponse(const Registry& registry, bool core) {
  return {.status = 200,
          .headers = {{"content-type",
                       "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"},
                      {"vary", "Accept"}},
          .body = Aggregated(registry, core).dump()};
}

Json GroupJson(const std::string& group, const std::vector<std::string>& versions) {
  Json list = Json::array();
  for (const std::string& version : versions) {
    list.push_back({{"groupVersion", group + "/" + version}, {"version", version}});
  }
  const Json preferred = list.front();
  return {{"name", group}, {"versions", std::move(list)}, {"preferredVersion", preferred}};
}

}  // namespace

std::optional<k8s::Response> Discover(const Server& server,
                                      const k8s::Request& request,
                                      const Target& target) {
  const std::vector<std::string>& path = target.path;
  if (request.method != k8s::Method::kGet) {
    return std::nullopt;
  }
  if (path.size() == 1 && (path[0] == "healthz" || path[0] == "readyz" || path[0] == "livez")) {
    return k8s::Response{
        .status = 200, .headers = {{"content-type", "text/plain; charset=utf-8"}}, .body = "ok"};
  }
  if (path.size() == 1 && path[0] == "version") {
    return Ok({{"major", "1"},
               {"minor", "37"},
               {"gitVersion", "v1.37.2"},
               {"gitCommit", ""},
               {"gitTreeState", "clean"},
               {"buildDate", ""},
               {"goVersion", ""},
               {"compiler", ""},
               {"platform", "linux/amd64"}});
  }
  const bool aggregated = request.accept.contains("as=APIGroupDiscoveryList") &&
                          request.accept.contains("v=v2") && path.size() == 1;
  if (aggregated && (path[0] == "api" || path[0] == "apis")) {
    return AggregatedResponse(server.registry, path[0] == "api");
  }
  if (path.size() == 2 && path[0] == "openapi") {
    if (path[1] == "v3") {
      return Ok(OpenApiIndex(server));
    }
    if (path[1] == "v2" && !request.accept.starts_with("application/com.github.proto-openapi")) {
      return Ok(OpenApiVersion2());
    }
    return k8s::Response{.status = 406,
                         .headers = {{"content-type", "text/plain"}},
                         .body = "only JSON is served\n"};
  }
  if (path.size() >= 4 && path[0] == "openapi" && path[1] == "v3") {
    const bool core = path[2] == "api" && path.size() == 4;
    if (core || (path[2] == "apis" && path.size() == 5)) {
      if (auto document = OpenApiDocument(server, core ? "" : path[3], path.back())) {
        return Ok(*document);
      }
    }
    return std::nullopt;
  }
  if (path.size() == 1 && path[0] == "api") {
    return Ok({{"kind", "APIVersions"},
               {"versions", {"v1"}},
               {"serverAddressByClientCIDRs", Json::array()}});
  }
  if (path.size() == 1 && path[0] == "apis") {
    Json groups = Json::array();
    for (const auto& [group, versions] : Groups(server.registry)) {
      if (group.empty()) {
        continue;
      }
      groups.push_back(GroupJson(group, versions));
    }
    return Ok({{"kind", "APIGroupList"}, {"apiVersion", "v1"}, {"groups", groups}});
  }
  if (path.size() == 2 && path[0] == "apis") {
    const auto groups = Groups(server.registry);
    if (const auto it = groups.find(path[1]); it != groups.end()) {
      Json group = GroupJson(it->first, it->second);
      group["kind"] = "APIGroup";
      group["apiVersion"] = "v1";
      return Ok(group);
    }
    return std::nullopt;
  }
  if ((path.size() == 2 && path[0] == "api") || (path.size() == 3 && path[0] == "apis")) {
    const std::string group = path[0] == "api" ? "" : path[1];
    const Json resources = PlainResources(server.registry, group, path.back());
    if (!resources.empty()) {
      return Ok({{"kind", "APIResourceList"},
                 {"apiVersion", "v1"},
                 {"groupVersion", group.empty() ? path.back() : group + "/" + path.back()},
                 {"resources", resources}});
    }
  }
  return std::nullopt;
}

namespace {

enum class Form : std::uint8_t { kPlain, kTable, kMetadata };

// What the client prefers among the forms that there are.
Form FormOf(const std::string& accept) {
  for (const std::string& part : Split(accept, ',')) {
    const std::string_view type = TrimSpace(part);
    if (!type.starts_with("application/json") && !type.starts_with("*/*")) {
      continue;
    }
    if (type.contains("as=Table")) {
      return Form::kTable;
    }
    if (type.contains("as=PartialObjectMetadata")) {
      return Form::kMetadata;
    }
    return Form::kPlain;
  }
  return Form::kPlain;
}

Json MetadataOnly(const Json& object) {
  return {{"kind", "PartialObjectMetadata"},
          {"apiVersion", "meta.k8s.io/v1"},
          {"metadata", object["metadata"]}};
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::optional<Answer> ListInOtherForm(const Server& server,
                                      const Call& call,
                                      const std::vector<StoredPtr>& objects,
                                      const Json& meta) {
  const Form form = FormOf(call.accept);
  if (form == Form::kPlain) {
    return std::nullopt;
  }
  Answer answer;
  if (form == Form::kTable) {
    std::vector<Json> converted;
    converted.reserve(objects.size());
    std::vector<const Json*> views;
    for (const StoredPtr& object : objects) {
      converted.push_back(server.ToVersion(call, object->json()));
    }
    for (const Json& object : converted) {
      views.push_back(&object);
    }
    answer.body = MakeTable(call, views);
    answer.body["metadata"] = meta;
    return answer;
  }
  Json items = Json::array();
  for (const StoredPtr& object : objects) {
    items.push_back(MetadataOnly(object->json()));
  }
  answer.body = {{"kind", "PartialObjectMetadataList"},
                 {"apiVersion", "meta.k8s.io/v1"},
                 {"metadata", meta},
                 {"items", std::move(items)}};
  return answer;
}

std::optional<Json> ObjectInOtherForm(const Server& server,
                                      const Call& call,
                                      const Stored& object) {
  switch (FormOf(call.accept)) {
    case Form::kPlain:
      return std::nullopt;
    case Form::kTable: {
      const Json converted = server.ToVersion(call, object.json());
      Json table = MakeTable(call, {&converted});
      table["metadata"] = {{"resourceVersion", converted["metadata"].value("resourceVersion", "")}};
      return table;
    }
    case Form::kMetadata:
      return MetadataOnly(object.json());
  }
  return std::nullopt;
}

std::string WatchObjectText(const Server& server, const Call& call, const Stored& object) {
  const auto other = ObjectInOtherForm(server, call, object);
  return other ? Dump(*other) : server.TextIn(call, object);
}

std::string WatchBookmarkText(const Call& call, const Json& object) {
  switch (FormOf(call.accept)) {
    case Form::kPlain:
      break;
    case Form::kTable: {
      Json table = MakeTable(call, {});
      table["metadata"] = {{"resourceVersion", object["metadata"]["resourceVersion"]}};
      return Dump(table);
    }
    case Form::kMetadata:
      return Dump(MetadataOnly(object));
  }
  return Dump(object);
}

}  // namespace muster::sim
