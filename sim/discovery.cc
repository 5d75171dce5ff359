#include "sim/discovery.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace muster::sim {
namespace {

k8s::Response Ok(const Json& body) {
  return {.status = 200, .headers = {{"content-type", "application/json"}}, .body = body.dump()};
}

Json Verbs(const ResourceInfo& resource) {
  if (resource.create_only) {
    return {"create"};
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
        sub(name, {"create"}, "Binding");
      } else if (name == "eviction") {
        sub(name, {"create"}, "Eviction");
        list.back()["group"] = "policy";
        list.back()["version"] = "v1";
      } else if (name == "finalize") {
        sub(name, {"update"}, resource.kind);
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
  return out;
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
      Json list = Json::array();
      for (const std::string& version : versions) {
        list.push_back({{"groupVersion", group + "/" + version}, {"version", version}});
      }
      groups.push_back({{"name", group}, {"versions", list}, {"preferredVersion", list.front()}});
    }
    return Ok({{"kind", "APIGroupList"}, {"apiVersion", "v1"}, {"groups", groups}});
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

std::optional<Answer> ListInOtherForm(const Server& server,
                                      const Call& call,
                                      const std::vector<StoredPtr>& objects,
                                      const Json& meta) {
  (void)server;
  (void)call;
  (void)objects;
  (void)meta;
  return std::nullopt;
}

std::string WatchObjectText(const Server& server, const Call& call, const Stored& object) {
  return server.TextIn(call, object);
}

std::string WatchBookmarkText(const Call& call, const Json& object) {
  (void)call;
  return object.dump();
}

}  // namespace muster::sim
