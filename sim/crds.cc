#include "sim/crds.h"

#include <utility>

#include "base/strings.h"
#include "sim/rules.h"
#include "sim/schema.h"
#include "sim/selectors.h"

namespace muster::sim {
namespace {

std::string Text(const Json& object, std::string_view key) {
  if (!object.is_object()) {
    return {};
  }
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}
bool Flag(const Json& object, std::string_view key) {
  const Json* at = At(object, key);
  return at != nullptr && at->is_boolean() && at->get<bool>();
}
std::vector<std::string> Strings(const Json& object, std::string_view key) {
  std::vector<std::string> out;
  if (const Json* list = At(object, key); list != nullptr && list->is_array()) {
    for (const Json& item : *list) {
      if (item.is_string()) {
        out.push_back(item.get<std::string>());
      }
    }
  }
  return out;
}

}  // namespace

Outcome<ResourceInfo> ResourceOf(const Json& definition) {
  FieldErrors errors;
  ResourceInfo info;
  info.custom = true;
  info.generation = true;
  info.requires_version_on_put = true;
  const std::string name =
      At(definition, "metadata.name") != nullptr ? Text(definition["metadata"], "name") : "";
  const Json* spec = At(definition, "spec");
  if (spec == nullptr || !spec->is_object()) {
    return std::unexpected(InvalidObject(
        "apiextensions.k8s.io", "CustomResourceDefinition", name, {Required("spec", "")}));
  }
  info.group = Text(*spec, "group");
  const Json names = spec->value("names", Json::object());
  info.plural = Text(names, "plural");
  info.kind = Text(names, "kind");
  info.singular = Text(names, "singular");
  info.list_kind = Text(names, "listKind");
  info.short_names = Strings(names, "shortNames");
  info.categories = Strings(names, "categories");
  if (info.singular.empty()) {
    info.singular = ToLower(info.kind);
  }
  if (info.list_kind.empty()) {
    info.list_kind = info.kind + "List";
  }
  const std::string scope = Text(*spec, "scope");
  if (scope != "Namespaced" && scope != "Cluster") {
    errors.push_back(NotSupported("spec.scope", scope, {"Cluster", "Namespaced"}));
  }
  info.namespaced = scope == "Namespaced";
  for (const auto& [field, value] :
       {std::pair<const char*, const std::string&>("spec.group", info.group),
        {"spec.names.plural", info.plural},
        {"spec.names.kind", info.kind}}) {
    if (value.empty()) {
      errors.push_back(Required(field, ""));
    }
  }
  if (name != info.plural + "." + info.group) {
    errors.push_back(Invalid("metadata.name", name, "must be spec.names.plural+\".\"+spec.group"));
  }
  const Json* versions = At(*spec, "versions");
  int storage = 0;
  for (std::size_t i = 0; versions != nullptr && versions->is_array() && i < versions->size();
       ++i) {
    const Json& item = (*versions)[i];
    const std::string path = "spec.versions[" + std::to_string(i) + "]";
    ResourceVersionInfo version;
    version.name = Text(item, "name");
    version.served = Flag(item, "served");
    version.storage = Flag(item, "storage");
    version.deprecated = Flag(item, "deprecated");
    version.deprecation_warning = Text(item, "deprecationWarning");
    if (version.deprecated && version.deprecation_warning.empty()) {
      version.deprecation_warning =
          info.group + "/" + version.name + " " + info.kind + " is deprecated";
    }
    storage += version.storage ? 1 : 0;
    version.status = At(item, "subresources.status") != nullptr;
    version.scale = At(item, "subresources.scale") != nullptr;
    if (const Json* columns = At(item, "additionalPrinterColumns");
        columns != nullptr && columns->is_array()) {
      for (const Json& column : *columns) {
        version.columns.push_back(
            {.name = Text(column, "name"),
             .type = Text(column, "type"),
             .format = Text(column, "format"),
             .description = Text(column, "description"),
             .priority = column.is_object() ? column.value("priority", std::int64_t{0}) : 0,
             .json_path = Text(column, "jsonPath")});
      }
    }
    if (const Json* fields = At(item, "selectableFields");
        fields != nullptr && fields->is_array()) {
      for (const Json& field : *fields) {
        version.selectable_fields.push_back(Text(field, "jsonPath"));
      }
    }
    const Json* open_api = At(item, "schema.openAPIV3Schema");
    if (open_api == nullptr) {
      errors.push_back(Required(path + ".schema.openAPIV3Schema", "schemas are required"));
    } else {
      auto schema = ReadSchema(*open_api);
      if (!schema) {
        errors.push_back(Invalid(path + ".schema.openAPIV3Schema", "", schema.error().message));
      } else {
        for (const std::string& problem : CompileRules(**schema)) {
          errors.push_back(
              Invalid(path + ".schema.openAPIV3Schema", "", "compilation failed: " + problem));
        }
        version.schema = *std::move(schema);
      }
    }
    info.versions.push_back(std::move(version));
  }
  if (storage != 1) {
    errors.push_back(
        Invalid("spec.versions", "", "must have exactly one version marked as storage version"));
  }
  if (!errors.empty()) {
    return std::unexpected(
        InvalidObject("apiextensions.k8s.io", "CustomResourceDefinition", name, errors));
  }
  std::ranges::stable_sort(info.versions,
                           [](const ResourceVersionInfo& a, const ResourceVersionInfo& b) {
                             return VersionRank(a.name) > VersionRank(b.name);
                           });
  return info;
}

void Establish(Json& definition, TimePoint now) {
  Json& spec = definition["spec"];
  Json names = spec.value("names", Json::object());
  if (names.is_object()) {
    if (Text(names, "singular").empty()) {
      names["singular"] = ToLower(Text(names, "kind"));
    }
    if (Text(names, "listKind").empty()) {
      names["listKind"] = Text(names, "kind") + "List";
    }
    spec["names"] = names;
  }
  if (!spec.contains("conversion")) {
    spec["conversion"] = {{"strategy", "None"}};
  }
  Json& status = definition["status"];
  if (!status.is_object()) {
    status = Json::object();
  }
  status["acceptedNames"] = names;
  if (!status.contains("conditions")) {
    const std::string time = FormatTime(now);
    status["conditions"] = Json::array({{{"type", "NamesAccepted"},
                                         {"status", "True"},
                                         {"reason", "NoConflicts"},
                                         {"message", "no conflicts found"},
                                         {"lastTransitionTime", time}},
                                        {{"type", "Established"},
                                         {"status", "True"},
                                         {"reason", "InitialNamesAccepted"},
                                         {"message", "the initial names have been accepted"},
                                         {"lastTransitionTime", time}}});
  }
  Json stored = Json::array();
  if (const Json* versions = At(spec, "versions"); versions != nullptr && versions->is_array()) {
    for (const Json& version : *versions) {
      if (Flag(version, "storage")) {
        stored.push_back(Text(version, "name"));
      }
    }
  }
  status["storedVersions"] = std::move(stored);
}

}  // namespace muster::sim
