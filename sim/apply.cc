#include "sim/apply.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/strings.h"
#include "sim/access.h"
#include "sim/admission.h"
#include "sim/patching.h"
#include "sim/schema.h"

namespace muster::sim {
namespace {

// What the server maintains belongs to nobody.
constexpr std::string_view kServerMetadata[] = {"name",
                                                "namespace",
                                                "creationTimestamp",
                                                "selfLink",
                                                "uid",
                                                "generation",
                                                "managedFields",
                                                "resourceVersion",
                                                "deletionTimestamp",
                                                "deletionGracePeriodSeconds"};

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool AtomicList(const Schema* schema) {
  return schema == nullptr || schema->list_type == Schema::ListType::kAtomic;
}

std::string ItemKey(const Schema& list, const Json& item) {
  if (list.list_type == Schema::ListType::kSet) {
    return "v:" + Dump(item);
  }
  Json key = Json::object();
  for (const std::string& field : list.list_map_keys) {
    if (const Json* value = Member(item, field)) {
      key[field] = *value;
    } else if (const Schema* child = list.items == nullptr ? nullptr : list.items->Property(field);
               child != nullptr && child->default_value) {
      key[field] = *child->default_value;
    }
  }
  return "k:" + Dump(key);
}

const Schema* Child(const Schema* schema, std::string_view key) {
  return schema == nullptr ? nullptr : schema->Property(key);
}

void Collect(const Schema* schema, const Json& value, FieldSet& out) {
  if (value.is_object() && !(schema != nullptr && schema->atomic_map)) {
    if (value.empty()) {
      out.member = true;
    }
    for (const auto& [key, item] : value.items()) {
      FieldSet& child = out.children["f:" + key];
      Collect(Child(schema, key), item, child);
      if (schema != nullptr && !schema->properties.contains(key)) {
        child.member = true;
      }
    }
    return;
  }
  if (value.is_array() && !AtomicList(schema)) {
    for (const Json& item : value) {
      FieldSet& child = out.children[ItemKey(*schema, item)];
      if (schema->list_type == Schema::ListType::kMap) {
        Collect(schema->items, item, child);
      }
      child.member = true;
    }
    return;
  }
  out.member = true;
}

struct Difference {
  FieldSet changed;  // modified or added
  FieldSet removed;
};

void Compare(
    const Schema* schema, const Json* old, const Json* now, FieldSet& changed, FieldSet& removed) {
  if (old != nullptr && now != nullptr && *old == *now) {
    return;
  }
  if (old == nullptr) {
    Collect(schema, *now, changed);
    return;
  }
  if (now == nullptr) {
    Collect(schema, *old, removed);
    removed.member = true;
    return;
  }
  const bool map =
      old->is_object() && now->is_object() && !(schema != nullptr && schema->atomic_map);
  if (map) {
    std::set<std::string> keys;
    for (const auto& [key, value] : old->items()) {
      keys.insert(key);
    }
    for (const auto& [key, value] : now->items()) {
      keys.insert(key);
    }
    for (const std::string& key : keys) {
      FieldSet more;
      FieldSet less;
      Compare(Child(schema, key), Member(*old, key), Member(*now, key), more, less);
      if (!more.empty()) {
        changed.children["f:" + key].Add(more);
      }
      if (!less.empty()) {
        removed.children["f:" + key].Add(less);
      }
    }
    return;
  }
  if (old->is_array() && now->is_array() && !AtomicList(schema)) {
    std::map<std::string, std::pair<const Json*, const Json*>> items;
    for (const Json& item : *old) {
      items[ItemKey(*schema, item)].first = &item;
    }
    for (const Json& item : *now) {
      items[ItemKey(*schema, item)].second = &item;
    }
    for (const auto& [key, pair] : items) {
      FieldSet more;
      FieldSet less;
      Compare(schema->items, pair.first, pair.second, more, less);
      if (pair.first == nullptr) {
        more.member = true;
      }
      if (!more.empty()) {
        changed.children[key].Add(more);
      }
      if (!less.empty()) {
        removed.children[key].Add(less);
      }
    }
    return;
  }
  changed.member = true;
}

void Strip(FieldSet& set) {
  set.children.erase("f:apiVersion");
  set.children.erase("f:kind");
  const auto meta = set.children.find("f:metadata");
  if (meta != set.children.end()) {
    for (const std::string_view field : kServerMetadata) {
      meta->second.children.erase("f:" + std::string(field));
    }
    meta->second.member = false;
    if (meta->second.empty()) {
      set.children.erase(meta);
    }
  }
}

// Takes the members of `doomed` out of `value`. True when nothing of it is left.
bool RemoveFields(const Schema* schema, Json& value, const FieldSet& doomed) {
  bool removed = false;
  if (value.is_object()) {
    for (const auto& [key, child] : doomed.children) {
      if (!key.starts_with("f:")) {
        continue;
      }
      const auto it = value.find(key.substr(2));
      if (it == value.end()) {
        continue;
      }
      if ((child.member && child.children.empty()) ||
          RemoveFields(Child(schema, key.substr(2)), *it, child)) {
        value.erase(it);
        removed = true;
      }
    }
    return removed && value.empty();
  }
  if (value.is_array() && !AtomicList(schema)) {
    for (std::size_t i = 0; i < value.size();) {
      const auto child = doomed.children.find(ItemKey(*schema, value[i]));
      if (child != doomed.children.end()) {
        if (child->second.member) {
          value.erase(i);
          removed = true;
          continue;
        }
        RemoveFields(schema->items, value[i], child->second);
      }
      ++i;
    }
    return removed && value.empty();
  }
  return doomed.member;
}

struct Manager {
  std::string name;
  std::string operation;
  std::string api_version;
  std::string subresource;
  std::string time;
  FieldSet fields;

  [[nodiscard]] bool Is(const ApplyRequest& request, std::string_view op) const {
    return name == request.manager && operation == op && subresource == request.subresource &&
           (op == "Apply" || api_version == request.api_version);
  }
  [[nodiscard]] std::string Describe() const {
    std::string out;
    AppendJsonString(out, name);
    if (!subresource.empty()) {
      out += " with subresource ";
      AppendJsonString(out, subresource);
    }
    if (operation == "Update") {
      out += " using " + api_version + (time.empty() ? "" : " at " + time);
    }
    return out;
  }
};

std::vector<Manager> ReadManagers(const Json* object) {
  std::vector<Manager> out;
  if (object == nullptr) {
    return out;
  }
  for (const Json& item : ListAt(ObjectAt(*object, "metadata"), "managedFields")) {
    out.push_back({.name = TextAt(item, "manager"),
                   .operation = TextAt(item, "operation"),
                   .api_version = TextAt(item, "apiVersion"),
                   .subresource = TextAt(item, "subresource"),
                   .time = TextAt(item, "time"),
                   .fields = FieldSet::FromJson(ObjectAt(item, "fieldsV1"))});
  }
  return out;
}

void WriteManagers(std::vector<Manager> managers, Json& object) {
  std::erase_if(managers, [](const Manager& manager) { return manager.fields.empty(); });
  // Appliers first, then by time, as the real server sorts them.
  std::ranges::stable_sort(managers, [](const Manager& a, const Manager& b) {
    if (a.operation != b.operation) {
      return a.operation < b.operation;
    }
    return a.time != b.time ? a.time < b.time : a.name < b.name;
  });
  Json list = Json::array();
  for (const Manager& manager : managers) {
    Json item = {{"manager", manager.name},
                 {"operation", manager.operation},
                 {"apiVersion", manager.api_version},
                 {"time", manager.time},
                 {"fieldsType", "FieldsV1"},
                 {"fieldsV1", manager.fields.ToJson()}};
    if (!manager.subresource.empty()) {
      item["subresource"] = manager.subresource;
    }
    list.push_back(std::move(item));
  }
  if (list.empty()) {
    object["metadata"].erase("managedFields");
  } else {
    object["metadata"]["managedFields"] = std::move(list);
  }
}

void PathsOf(const FieldSet& set, const std::string& path, std::vector<std::string>& out) {
  if (set.member) {
    out.push_back(path);
  }
  for (const auto& [key, child] : set.children) {
    std::string step;
    if (key.starts_with("f:")) {
      step = "." + key.substr(2);
    } else if (key.starts_with("k:")) {
      const Json keys = ParseJson(std::string_view(key).substr(2));
      step = "[";
      bool first = true;
      for (const auto& [name, value] : keys.items()) {
        step += (first ? "" : ",") + name + "=" + Dump(value);
        first = false;
      }
      step += "]";
    } else {
      step = "[=" + key.substr(2) + "]";
    }
    PathsOf(child, path + step, out);
  }
}

}  // namespace

bool FieldSet::empty() const {
  return !member &&
         std::ranges::all_of(children, [](const auto& child) { return child.second.empty(); });
}

void FieldSet::Add(const FieldSet& other) {
  member = member || other.member;
  for (const auto& [key, child] : other.children) {
    children[key].Add(child);
  }
}

FieldSet FieldSet::Minus(const FieldSet& other) const {
  FieldSet out;
  out.member = member && !other.member;
  for (const auto& [key, child] : children) {
    const auto it = other.children.find(key);
    FieldSet left = it == other.children.end() ? child : child.Minus(it->second);
    if (!left.empty()) {
      out.children.emplace(key, std::move(left));
    }
  }
  return out;
}

FieldSet FieldSet::And(const FieldSet& other) const {
  FieldSet out;
  out.member = member && other.member;
  for (const auto& [key, child] : children) {
    if (const auto it = other.children.find(key); it != other.children.end()) {
      FieldSet both = child.And(it->second);
      if (!both.empty()) {
        out.children.emplace(key, std::move(both));
      }
    }
  }
  return out;
}

std::vector<std::string> FieldSet::Paths() const {
  std::vector<std::string> out;
  PathsOf(*this, "", out);
  return out;
}

Json FieldSet::ToJson() const {
  Json out = Json::object();
  if (member && !children.empty()) {
    out["."] = Json::object();
  }
  for (const auto& [key, child] : children) {
    if (!child.empty()) {
      out[key] = child.ToJson();
    }
  }
  return out;
}

FieldSet FieldSet::FromJson(const Json& json) {
  FieldSet out;
  if (!json.is_object()) {
    return out;
  }
  for (const auto& [key, value] : json.items()) {
    if (key == ".") {
      out.member = true;
      continue;
    }
    FieldSet child = FromJson(value);
    if (child.children.empty()) {
      child.member = true;
    }
    out.children.emplace(key, std::move(child));
  }
  return out;
}

FieldSet FieldsOf(const Schema* schema, const Json& config) {
  FieldSet out;
  Collect(schema, config, out);
  out.member = false;
  Strip(out);
  return out;
}

Outcome<Json> ApplyConfig(const Schema* schema,
                          const Json* live,
                          const Json& config,
                          const ApplyRequest& request) {
  std::vector<Manager> managers = ReadManagers(live);
  FieldSet applied = FieldsOf(schema, config);
  if (live != nullptr && managers.empty()) {
    // Written before anybody was recorded: a manager of that name stands for all of it.
    Manager before{.name = "before-first-apply",
                   .operation = "Update",
                   .api_version = request.api_version,
                   .subresource = {},
                   .time = FormatTime(request.now),
                   .fields = FieldsOf(schema, *live)};
    managers.push_back(std::move(before));
  }
  Json merged = live == nullptr ? Json::object() : *live;
  Json wanted = config;
  if (wanted.contains("metadata") && wanted["metadata"].is_object()) {
    wanted["metadata"].erase("managedFields");
    if (live != nullptr) {
      for (const char* field : {"creationTimestamp", "generation", "selfLink"}) {
        wanted["metadata"].erase(field);
      }
    }
  }
  MergeApplied(schema, merged, wanted);

  FieldSet changed;
  FieldSet removed;
  Compare(schema, live, &merged, changed, removed);
  Strip(changed);
  FieldSet others;
  FieldSet last;
  struct Clash {
    std::string manager;
    std::string path;
  };
  std::vector<Clash> clashes;
  for (Manager& manager : managers) {
    if (manager.Is(request, "Apply")) {
      last = manager.fields;
      continue;
    }
    const FieldSet clash = manager.fields.And(changed);
    if (!clash.empty()) {
      if (request.force) {
        manager.fields = manager.fields.Minus(clash);
      } else {
        for (const std::string& path : clash.Paths()) {
          clashes.push_back({.manager = manager.Describe(), .path = path});
        }
      }
    }
    others.Add(manager.fields);
  }
  if (!clashes.empty()) {
    Failure failure{.code = 409, .reason = "Conflict", .message = {}, .details = Json::object()};
    Json causes = Json::array();
    for (const Clash& clash : clashes) {
      causes.push_back({{"reason", "FieldManagerConflict"},
                        {"message", "conflict with " + clash.manager},
                        {"field", clash.path}});
    }
    failure.details["causes"] = std::move(causes);
    failure.message = "Apply failed with " + std::to_string(clashes.size()) + " conflict";
    if (clashes.size() == 1) {
      failure.message += ": conflict with " + clashes.front().manager + ": " + clashes.front().path;
    } else {
      failure.message += "s: ";
      std::string current;
      for (const Clash& clash : clashes) {
        if (clash.manager != current) {
          failure.message +=
              std::string(current.empty() ? "" : "\n") + "conflicts with " + clash.manager + ":";
          current = clash.manager;
        }
        failure.message += "\n- " + clash.path;
      }
    }
    return std::unexpected(std::move(failure));
  }
  // What this manager applied before and does not any more, and nobody else wants, goes.
  const FieldSet doomed = last.Minus(applied).Minus(others);
  RemoveFields(schema, merged, doomed);

  std::erase_if(managers, [&](const Manager& manager) { return manager.Is(request, "Apply"); });
  const auto previous = ReadManagers(live);
  const auto same =
      std::ranges::find_if(previous, [&](const Manager& m) { return m.Is(request, "Apply"); });
  managers.push_back({.name = request.manager,
                      .operation = "Apply",
                      .api_version = request.api_version,
                      .subresource = request.subresource,
                      .time = same != previous.end() && same->fields == applied &&
                                      changed.empty() && doomed.empty()
                                  ? same->time
                                  : FormatTime(request.now),
                      .fields = std::move(applied)});
  WriteManagers(std::move(managers), merged);
  return merged;
}

void TrackUpdate(const Schema* schema, const Json* old, Json& object, const ApplyRequest& request) {
  std::vector<Manager> managers = ReadManagers(old);
  FieldSet changed;
  FieldSet removed;
  Compare(schema, old, &object, changed, removed);
  Strip(changed);
  Strip(removed);
  changed.member = false;
  if (request.subresource.empty()) {
    // The status is written by somebody else, through its own path.
    if (old == nullptr) {
      changed.children.erase("f:status");
    }
  }
  Manager* own = nullptr;
  for (Manager& manager : managers) {
    manager.fields = manager.fields.Minus(removed);
    if (manager.Is(request, "Update")) {
      own = &manager;
    } else {
      manager.fields = manager.fields.Minus(changed);
    }
  }
  if (!changed.empty()) {
    if (own == nullptr) {
      managers.push_back({.name = request.manager,
                          .operation = "Update",
                          .api_version = request.api_version,
                          .subresource = request.subresource,
                          .time = {},
                          .fields = {}});
      own = &managers.back();
    }
    own->fields.Add(changed);
    own->time = FormatTime(request.now);
  }
  WriteManagers(std::move(managers), object);
}

}  // namespace muster::sim
