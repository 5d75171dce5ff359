#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/json.h"
#include "base/time.h"
#include "sim/failure.h"

// Server-side apply: who manages which field of an object.
namespace muster::sim {

using api::Json;

class Schema;

// A set of fields, as a tree whose edges are written as in metadata.managedFields: f:name,
// k:{"name":"x"}, v:"x".
//
// Source   KEP-555; sigs.k8s.io/structured-merge-diff fieldpath.
struct FieldSet {
  bool member = false;
  std::map<std::string, FieldSet> children;

  [[nodiscard]] bool empty() const;
  void Add(const FieldSet& other);
  [[nodiscard]] FieldSet Minus(const FieldSet& other) const;
  [[nodiscard]] FieldSet And(const FieldSet& other) const;
  // Paths of all members: `.spec.containers[name="x"].image`.
  [[nodiscard]] std::vector<std::string> Paths() const;
  [[nodiscard]] Json ToJson() const;
  [[nodiscard]] static FieldSet FromJson(const Json& json);
  friend bool operator==(const FieldSet&, const FieldSet&) = default;
};

struct ApplyRequest {
  std::string manager;
  std::string api_version;
  std::string subresource;
  bool force = false;
  TimePoint now{};
};

// Fields that `config` mentions, those that the server keeps to itself aside.
[[nodiscard]] FieldSet FieldsOf(const Schema* schema, const Json& config);

// Applies `config` to `live` (null: the object does not exist yet). The result carries the new
// managedFields. Errors   409 naming the managers whose fields would change, unless forced.
[[nodiscard]] Outcome<Json> ApplyConfig(const Schema* schema,
                                        const Json* live,
                                        const Json& config,
                                        const ApplyRequest& request);

// Books the changes from `old` (null: none) to `object` on the manager of an update.
void TrackUpdate(const Schema* schema, const Json* old, Json& object, const ApplyRequest& request);

}  // namespace muster::sim
