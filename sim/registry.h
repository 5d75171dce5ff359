#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "api/json.h"

// Which resources the API server serves, and how each differs from the others.
namespace muster::sim {

using api::Json;

class Schema;

// additionalPrinterColumns of a custom resource.
struct PrinterColumn {
  std::string name;
  std::string type;
  std::string format;
  std::string description;
  std::int64_t priority = 0;
  std::string json_path;
};

// One version of one resource.
struct ResourceVersionInfo {
  std::string name;
  bool served = true;
  bool storage = true;
  bool deprecated = false;
  std::string deprecation_warning;
  bool status = false;  // has a status subresource
  bool scale = false;
  std::vector<PrinterColumn> columns;
  std::vector<std::string> selectable_fields;  // ".spec.x"
  std::shared_ptr<const Schema> schema;        // null: anything goes
};

struct ResourceInfo {
  std::string group;
  std::string plural;
  std::string singular;
  std::string kind;
  std::string list_kind;
  std::vector<std::string> short_names;
  std::vector<std::string> categories;
  bool namespaced = false;
  bool custom = false;       // defined by a CustomResourceDefinition
  bool create_only = false;  // a review: POST answers, nothing is stored
  bool generation = false;   // metadata.generation follows the spec
  bool status_keeps_metadata =
      false;  // writes through /status leave labels, annotations and the like alone
  bool requires_version_on_put = false;
  std::vector<std::string>
      subresources;  // beyond status and scale: "binding", "eviction", "finalize"
  std::vector<ResourceVersionInfo> versions;  // the preferred one first

  // "batch/jobs", "/pods": the key of the storage.
  [[nodiscard]] std::string key() const { return group + "/" + plural; }
  [[nodiscard]] const ResourceVersionInfo* Version(std::string_view name) const;
  [[nodiscard]] const ResourceVersionInfo& Storage() const;
  [[nodiscard]] std::string ApiVersion(std::string_view version) const;
};

// Versions are preferred by stage, then by number: v2, v1, v1beta2, v1beta1, v1alpha1. The higher
// rank comes first.
[[nodiscard]] std::tuple<int, int, int> VersionRank(const std::string& version);

// Shape    Ordered by key. Builtin kinds are there from the start; custom ones come and go with
// their definitions.
class Registry {
 public:
  Registry();

  [[nodiscard]] const ResourceInfo* Find(std::string_view group, std::string_view plural) const;
  [[nodiscard]] const ResourceInfo* FindKind(std::string_view group, std::string_view kind) const;
  [[nodiscard]] const std::map<std::string, ResourceInfo, std::less<>>& all() const {
    return resources_;
  }

  void Put(ResourceInfo info);
  void Remove(std::string_view key);
  // Raised by each Put and Remove: caches of discovery hang on it.
  [[nodiscard]] std::uint64_t revision() const { return revision_; }

 private:
  std::map<std::string, ResourceInfo, std::less<>> resources_;
  std::uint64_t revision_ = 0;
};

}  // namespace muster::sim
