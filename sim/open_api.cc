// OpenAPI documents: what kubectl needs to compute patches, to know that the server validates
// fields, and to explain kinds.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/strings.h"
#include "sim/access.h"
#include "sim/discovery.h"
#include "sim/schema.h"

namespace muster::sim {
namespace {

constexpr std::string_view kOldPrefix = "#/definitions/";
constexpr std::string_view kNewPrefix = "#/components/schemas/";

void NamesIn(const Json& node, std::set<std::string>& out) {
  if (node.is_object()) {
    for (const auto& [key, value] : node.items()) {
      if (key == "$ref" && value.is_string()) {
        const std::string ref = value.get<std::string>();
        out.insert(ref.substr(ref.rfind('/') + 1));
      } else {
        NamesIn(value, out);
      }
    }
  } else if (node.is_array()) {
    for (const Json& item : node) {
      NamesIn(item, out);
    }
  }
}

// Version 3 keeps what stands beside a reference by wrapping the reference.
Json ToVersion3(const Json& node, bool names = false) {
  if (node.is_array()) {
    Json out = Json::array();
    for (const Json& item : node) {
      out.push_back(ToVersion3(item));
    }
    return out;
  }
  if (!node.is_object()) {
    return node;
  }
  const std::string ref = names ? "" : TextAt(node, "$ref");
  Json out = Json::object();
  for (const auto& [key, value] : node.items()) {
    if (!ref.empty() && key == "$ref") {
      continue;
    }
    out[key] = ToVersion3(value, !names && key == "properties");
  }
  if (!ref.empty()) {
    const Json target = {{"$ref", std::string(kNewPrefix) + ref.substr(kOldPrefix.size())}};
    if (out.empty()) {
      return target;
    }
    out["allOf"] = Json::array({target});
  }
  return out;
}

std::string CustomName(const ResourceInfo& resource, const std::string& version) {
  std::vector<std::string> parts = Split(resource.group, '.');
  std::ranges::reverse(parts);
  return Join(parts, ".") + "." + version + "." + resource.kind;
}

Json QueryParameter(const char* name) {
  return {{"name", name}, {"in", "query"}, {"schema", {{"type", "string"}, {"uniqueItems", true}}}};
}

Json RestOperation(const char* action,
                   const ResourceInfo& resource,
                   const std::string& version,
                   const std::string& schema) {
  Json parameters = Json::array({QueryParameter("dryRun"),
                                 QueryParameter("fieldManager"),
                                 QueryParameter("fieldValidation")});
  if (std::string_view(action) == "patch") {
    parameters.push_back({{"name", "force"},
                          {"in", "query"},
                          {"schema", {{"type", "boolean"}, {"uniqueItems", true}}}});
  }
  return {
      {"operationId", std::string(action) + resource.kind + version},
      {"parameters", parameters},
      {"responses",
       {{"200",
         {{"description", "OK"},
          {"content",
           {{"application/json", {{"schema", {{"$ref", std::string(kNewPrefix) + schema}}}}}}}}}}},
      {"x-kubernetes-action", action},
      {"x-kubernetes-group-version-kind",
       {{"group", resource.group}, {"version", version}, {"kind", resource.kind}}}};
}

std::string BasePath(const std::string& group, const std::string& version) {
  return group.empty() ? "api/" + version : "apis/" + group + "/" + version;
}

}  // namespace

Json OpenApiIndex(const Server& server) {
  Json paths = Json::object();
  for (const auto& [key, resource] : server.registry.all()) {
    for (const ResourceVersionInfo& version : resource.versions) {
      if (version.served) {
        const std::string path = BasePath(resource.group, version.name);
        paths[path] = {
            {"serverRelativeURL",
             "/openapi/v3/" + path + "?hash=" + std::to_string(server.registry.revision())}};
      }
    }
  }
  return {{"paths", paths}};
}

std::optional<Json> OpenApiDocument(const Server& server,
                                    const std::string& group,
                                    const std::string& version) {
  const BuiltinTypes& types = BuiltinTypes::Get();
  Json schemas = Json::object();
  Json paths = Json::object();
  std::set<std::string> todo;
  for (const auto& [key, resource] : server.registry.all()) {
    const ResourceVersionInfo* info = resource.group == group ? resource.Version(version) : nullptr;
    if (info == nullptr || !info->served) {
      continue;
    }
    std::string name;
    if (resource.custom) {
      name = CustomName(resource, version);
      const ResourceInfo* definitions =
          server.registry.Find("apiextensions.k8s.io", "customresourcedefinitions");
      const StoredPtr definition =
          server.TableOf(*definitions)
              .Find(ObjectKey{.ns = {}, .name = resource.plural + "." + resource.group});
      Json schema = {{"type", "object"}};
      if (definition) {
        for (const Json& item : ListAt(ObjectAt(definition->json(), "spec"), "versions")) {
          if (TextAt(item, "name") == version) {
            schema = ObjectAt(ObjectAt(item, "schema"), "openAPIV3Schema");
          }
        }
      }
      schema["properties"]["apiVersion"] = {{"type", "string"}};
      schema["properties"]["kind"] = {{"type", "string"}};
      schema["properties"]["metadata"] = {
          {"allOf",
           Json::array(
               {{{"$ref",
                  std::string(kNewPrefix) + "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}}})}};
      schema["x-kubernetes-group-version-kind"] =
          Json::array({{{"group", group}, {"version", version}, {"kind", resource.kind}}});
      schemas[name] = std::move(schema);
      todo.insert("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    } else {
      name = types.DefinitionName(group, version, resource.kind);
      if (name.empty()) {
        continue;
      }
      todo.insert(name);
    }
    const std::string base = "/" + BasePath(group, version) +
                             (resource.namespaced ? "/namespaces/{namespace}/" : "/") +
                             resource.plural;
    paths[base] = {{"post", RestOperation("post", resource, version, name)}};
    paths[base]["get"] = RestOperation("list", resource, version, name);
    if (!resource.create_only) {
      paths[base + "/{name}"] = {{"get", RestOperation("get", resource, version, name)},
                                 {"put", RestOperation("put", resource, version, name)},
                                 {"patch", RestOperation("patch", resource, version, name)},
                                 {"delete", RestOperation("delete", resource, version, name)}};
    }
  }
  if (paths.empty()) {
    return std::nullopt;
  }
  while (!todo.empty()) {
    const std::string name = *todo.begin();
    todo.erase(todo.begin());
    const Json* definition = Member(types.definitions(), name);
    if (definition == nullptr || schemas.contains(name)) {
      continue;
    }
    schemas[name] = ToVersion3(*definition);
    std::set<std::string> more;
    NamesIn(*definition, more);
    for (const std::string& other : more) {
      if (!schemas.contains(other)) {
        todo.insert(other);
      }
    }
  }
  return Json{{"openapi", "3.0.0"},
              {"info", {{"title", "Kubernetes"}, {"version", "v1.37.2"}}},
              {"paths", paths},
              {"components", {{"schemas", schemas}}}};
}

Json OpenApiVersion2() {
  return {{"swagger", "2.0"},
          {"info", {{"title", "Kubernetes"}, {"version", "v1.37.2"}}},
          {"paths", Json::object()},
          {"definitions", BuiltinTypes::Get().definitions()}};
}

}  // namespace muster::sim
