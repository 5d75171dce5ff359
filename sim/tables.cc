#include "sim/tables.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <utility>

#include "base/strings.h"
#include "sim/access.h"

namespace muster::sim {
namespace {

std::string Age(const Call& call, const Json& time) {
  if (!time.is_string()) {
    return "<unknown>";
  }
  const auto parsed = ParseTime(time.get_ref<const std::string&>());
  return parsed ? HumanDuration(call.now - *parsed) : "<unknown>";
}

std::string CreationAge(const Call& call, const Json& object) {
  const Json* time = Member(ObjectAt(object, "metadata"), "creationTimestamp");
  return time == nullptr ? "<unknown>" : Age(call, *time);
}

Json Column(const char* name, const char* type, const char* format = "", int priority = 0) {
  return {{"name", name},
          {"type", type},
          {"format", format},
          {"description", ""},
          {"priority", priority}};
}

struct Printer {
  Json columns = Json::array();
  std::function<Json(const Call&, const Json&)> cells;  // without the name
};

std::string OrNone(std::string text) {
  return text.empty() ? "<none>" : text;
}

Json PodCells(const Call& call, const Json& pod) {
  const Json& spec = ObjectAt(pod, "spec");
  const Json& status = ObjectAt(pod, "status");
  std::string phase =
      HasText(status, "reason") ? TextAt(status, "reason") : TextAt(status, "phase");
  for (const Json& condition : ListAt(status, "conditions")) {
    if (TextAt(condition, "type") == "PodScheduled" &&
        TextAt(condition, "reason") == "SchedulingGated") {
      phase = "SchedulingGated";
    }
  }
  std::int64_t ready = 0;
  std::int64_t restarts = 0;
  for (const Json& container : ListAt(status, "containerStatuses")) {
    ready += TrueAt(container, "ready") ? 1 : 0;
    restarts += IntAt(container, "restartCount").value_or(0);
    for (const char* state : {"waiting", "terminated"}) {
      if (const Json* now = Member(ObjectAt(container, "state"), state);
          now != nullptr && HasText(*now, "reason")) {
        phase = TextAt(*now, "reason");
      }
    }
  }
  if (ObjectAt(pod, "metadata").contains("deletionTimestamp")) {
    phase = "Terminating";
  } else if (TextAt(status, "phase") == "Succeeded") {
    phase = "Completed";
  }
  std::string gates;
  for (const Json& gate : ListAt(spec, "readinessGates")) {
    gates += TextAt(gate, "conditionType");
  }
  return {std::to_string(ready) + "/" + std::to_string(ListAt(spec, "containers").size()),
          phase,
          std::to_string(restarts),
          CreationAge(call, pod),
          OrNone(TextAt(status, "podIP")),
          OrNone(TextAt(spec, "nodeName")),
          OrNone(TextAt(status, "nominatedNodeName")),
          OrNone(gates)};
}

Json NodeCells(const Call& call, const Json& node) {
  const Json& status = ObjectAt(node, "status");
  std::string state = "Unknown";
  for (const Json& condition : ListAt(status, "conditions")) {
    if (TextAt(condition, "type") == "Ready") {
      state = TextAt(condition, "status") == "True" ? "Ready" : "NotReady";
    }
  }
  if (TrueAt(ObjectAt(node, "spec"), "unschedulable")) {
    state += ",SchedulingDisabled";
  }
  std::string roles;
  for (const auto& [key, value] : ObjectAt(ObjectAt(node, "metadata"), "labels").items()) {
    if (key.starts_with("node-role.kubernetes.io/")) {
      roles += (roles.empty() ? "" : ",") + key.substr(24);
    }
  }
  const Json& info = ObjectAt(status, "nodeInfo");
  std::string internal;
  std::string external;
  for (const Json& address : ListAt(status, "addresses")) {
    if (TextAt(address, "type") == "InternalIP") {
      internal = TextAt(address, "address");
    } else if (TextAt(address, "type") == "ExternalIP") {
      external = TextAt(address, "address");
    }
  }
  const auto unknown = [](std::string text) {
    return text.empty() ? std::string("<unknown>") : text;
  };
  return {state,
          OrNone(roles),
          CreationAge(call, node),
          TextAt(info, "kubeletVersion"),
          OrNone(internal),
          OrNone(external),
          unknown(TextAt(info, "osImage")),
          unknown(TextAt(info, "kernelVersion")),
          unknown(TextAt(info, "containerRuntimeVersion"))};
}

Json JobCells(const Call& call, const Json& job) {
  const Json& spec = ObjectAt(job, "spec");
  const Json& status = ObjectAt(job, "status");
  std::string state = "Running";
  bool suspended = false;
  for (const Json& condition : ListAt(status, "conditions")) {
    if (TextAt(condition, "status") != "True") {
      continue;
    }
    const std::string type = TextAt(condition, "type");
    if (type == "Complete" || type == "Failed") {
      state = type;
    } else if (type == "Suspended") {
      suspended = true;
    }
  }
  if (state == "Running") {
    if (ObjectAt(job, "metadata").contains("deletionTimestamp")) {
      state = "Terminating";
    } else if (suspended || TrueAt(spec, "suspend")) {
      state = "Suspended";
    }
  }
  const auto succeeded = IntAt(status, "succeeded").value_or(0);
  std::string completions;
  if (const auto wanted = IntAt(spec, "completions")) {
    completions = std::to_string(succeeded) + "/" + std::to_string(*wanted);
  } else if (const auto parallelism = IntAt(spec, "parallelism").value_or(0); parallelism > 1) {
    completions = std::to_string(succeeded) + "/1 of " + std::to_string(parallelism);
  } else {
    completions = std::to_string(succeeded) + "/1";
  }
  std::string duration;
  if (const auto start = ParseTime(TextAt(status, "startTime"))) {
    const auto end = ParseTime(TextAt(status, "completionTime"));
    duration = HumanDuration((end ? *end : call.now) - *start);
  }
  std::string names;
  std::string images;
  for (const Json& container : ListAt(ObjectAt(ObjectAt(spec, "template"), "spec"), "containers")) {
    names += (names.empty() ? "" : ",") + TextAt(container, "name");
    images += (images.empty() ? "" : ",") + TextAt(container, "image");
  }
  std::string selector;
  for (const auto& [key, value] : ObjectAt(ObjectAt(spec, "selector"), "matchLabels").items()) {
    selector += (selector.empty() ? "" : ",") + key + "=" +
                (value.is_string() ? value.get<std::string>() : "");
  }
  return {state, completions, duration, CreationAge(call, job), names, images, OrNone(selector)};
}

Json EventCells(const Call& call, const Json& event) {
  const bool core = event.contains("involvedObject");
  const Json& regarding = ObjectAt(event, core ? "involvedObject" : "regarding");
  std::string time;
  for (const std::string& candidate :
       {TextAt(ObjectAt(event, "series"), "lastObservedTime"),
        TextAt(event, core ? "lastTimestamp" : "deprecatedLastTimestamp"),
        TextAt(event, "eventTime"),
        TextAt(ObjectAt(event, "metadata"), "creationTimestamp")}) {
    if (time.empty()) {
      time = candidate;
    }
  }
  return {Age(call, time),
          TextAt(event, "type"),
          TextAt(event, "reason"),
          ToLower(TextAt(regarding, "kind")) + "/" + TextAt(regarding, "name"),
          std::string(TrimSpace(TextAt(event, core ? "message" : "note")))};
}

// The printer of a builtin kind; the first column is always the name, but for events.
Printer BuiltinPrinter(const std::string& key) {
  Printer out;
  if (key == "/pods") {
    out.columns = {Column("Ready", "string"),
                   Column("Status", "string"),
                   Column("Restarts", "string"),
                   Column("Age", "string"),
                   Column("IP", "string", "", 1),
                   Column("Node", "string", "", 1),
                   Column("Nominated Node", "string", "", 1),
                   Column("Readiness Gates", "string", "", 1)};
    out.cells = PodCells;
  } else if (key == "/nodes") {
    out.columns = {Column("Status", "string"),
                   Column("Roles", "string"),
                   Column("Age", "string"),
                   Column("Version", "string"),
                   Column("Internal-IP", "string", "", 1),
                   Column("External-IP", "string", "", 1),
                   Column("OS-Image", "string", "", 1),
                   Column("Kernel-Version", "string", "", 1),
                   Column("Container-Runtime", "string", "", 1)};
    out.cells = NodeCells;
  } else if (key == "batch/jobs") {
    out.columns = {Column("Status", "string"),
                   Column("Completions", "string"),
                   Column("Duration", "string"),
                   Column("Age", "string"),
                   Column("Containers", "string", "", 1),
                   Column("Images", "string", "", 1),
                   Column("Selector", "string", "", 1)};
    out.cells = JobCells;
  } else if (key == "/namespaces") {
    out.columns = {Column("Status", "string"), Column("Age", "string")};
    out.cells = [](const Call& call, const Json& object) -> Json {
      return {TextAt(ObjectAt(object, "status"), "phase"), CreationAge(call, object)};
    };
  } else if (key == "scheduling.k8s.io/priorityclasses") {
    out.columns = {Column("Value", "integer"),
                   Column("Global-Default", "boolean"),
                   Column("Age", "string"),
                   Column("PreemptionPolicy", "string")};
    out.cells = [](const Call& call, const Json& object) -> Json {
      return {IntAt(object, "value").value_or(0),
              TrueAt(object, "globalDefault"),
              CreationAge(call, object),
              TextAt(object, "preemptionPolicy")};
    };
  } else if (key == "scheduling.k8s.io/podgroups") {
    out.columns = {
        Column("Policy", "string"), Column("Min-Count", "string"), Column("Age", "string")};
    out.cells = [](const Call& call, const Json& object) -> Json {
      const Json& policy = ObjectAt(ObjectAt(object, "spec"), "schedulingPolicy");
      const auto least = IntAt(ObjectAt(policy, "gang"), "minCount");
      return {policy.contains("gang") ? "gang" : "basic",
              least ? std::to_string(*least) : std::string("<none>"),
              CreationAge(call, object)};
    };
  } else if (key == "resource.k8s.io/resourceclaims") {
    out.columns = {Column("State", "string"), Column("Age", "string")};
    out.cells = [](const Call& call, const Json& object) -> Json {
      const Json& status = ObjectAt(object, "status");
      std::string state = "pending";
      if (status.contains("allocation")) {
        state = ListAt(status, "reservedFor").empty() ? "allocated" : "allocated,reserved";
      }
      if (ObjectAt(object, "metadata").contains("deletionTimestamp")) {
        state = "deleted," + state;
      }
      return {state, CreationAge(call, object)};
    };
  } else if (key == "resource.k8s.io/resourceslices") {
    out.columns = {Column("Node", "string"),
                   Column("Driver", "string"),
                   Column("Pool", "string"),
                   Column("Age", "string")};
    out.cells = [](const Call& call, const Json& object) -> Json {
      const Json& spec = ObjectAt(object, "spec");
      return {OrNone(TextAt(spec, "nodeName")),
              TextAt(spec, "driver"),
              TextAt(ObjectAt(spec, "pool"), "name"),
              CreationAge(call, object)};
    };
  } else if (key == "/configmaps" || key == "/secrets") {
    const bool secret = key == "/secrets";
    if (secret) {
      out.columns.push_back(Column("Type", "string"));
    }
    out.columns.push_back(Column("Data", "integer"));
    out.columns.push_back(Column("Age", "string"));
    out.cells = [secret](const Call& call, const Json& object) -> Json {
      Json cells = Json::array();
      if (secret) {
        cells.push_back(TextAt(object, "type"));
      }
      cells.push_back(ObjectAt(object, "data").size() + ObjectAt(object, "binaryData").size());
      cells.push_back(CreationAge(call, object));
      return cells;
    };
  } else if (key == "coordination.k8s.io/leases") {
    out.columns = {Column("Holder", "string"), Column("Age", "string")};
    out.cells = [](const Call& call, const Json& object) -> Json {
      return {TextAt(ObjectAt(object, "spec"), "holderIdentity"), CreationAge(call, object)};
    };
  } else if (key == "apps/deployments" || key == "apps/statefulsets" || key == "apps/replicasets") {
    out.columns = {Column("Ready", "string"), Column("Age", "string")};
    out.cells = [](const Call& call, const Json& object) -> Json {
      return {std::to_string(IntAt(ObjectAt(object, "status"), "readyReplicas").value_or(0)) + "/" +
                  std::to_string(IntAt(ObjectAt(object, "spec"), "replicas").value_or(0)),
              CreationAge(call, object)};
    };
  } else if (key == "apiextensions.k8s.io/customresourcedefinitions") {
    out.columns = {Column("Created At", "date")};
    out.cells = [](const Call&, const Json& object) -> Json {
      return Json::array({TextAt(ObjectAt(object, "metadata"), "creationTimestamp")});
    };
  } else {
    out.columns.push_back(Column("Age", "string"));
    out.cells = [](const Call& call, const Json& object) -> Json {
      return Json::array({CreationAge(call, object)});
    };
  }
  return out;
}

Json CustomCell(const Call& call, const PrinterColumn& column, const Json& object) {
  const std::vector<const Json*> found = SelectPath(object, column.json_path);
  if (found.empty() || found.front()->is_null()) {
    return nullptr;
  }
  const Json& value = *found.front();
  if (column.type == "integer") {
    return value.is_number()
               ? Json(value.is_number_integer() ? value.get<std::int64_t>()
                                                : static_cast<std::int64_t>(value.get<double>()))
               : Json();
  }
  if (column.type == "number" || column.type == "boolean") {
    return value.is_number() || value.is_boolean() ? value : Json();
  }
  if (column.type == "date") {
    return Age(call, value);
  }
  if (value.is_string()) {
    return value;
  }
  if (found.size() > 1) {
    std::string out;
    for (const Json* item : found) {
      out +=
          (out.empty() ? "" : ",") + (item->is_string() ? item->get<std::string>() : item->dump());
    }
    return out;
  }
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string HumanDuration(Duration duration) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration).count();
  if (seconds < -1) {
    return "<invalid>";
  }
  if (seconds < 0) {
    return "0s";
  }
  const auto minutes = seconds / 60;
  const auto hours = minutes / 60;
  const auto days = hours / 24;
  const auto pair = [](std::int64_t big, char unit, std::int64_t small, char small_unit) {
    return std::to_string(big) + unit + (small == 0 ? "" : std::to_string(small) + small_unit);
  };
  if (seconds < 120) {
    return std::to_string(seconds) + "s";
  }
  if (minutes < 10) {
    return pair(minutes, 'm', seconds % 60, 's');
  }
  if (minutes < 180) {
    return std::to_string(minutes) + "m";
  }
  if (hours < 8) {
    return pair(hours, 'h', minutes % 60, 'm');
  }
  if (hours < 48) {
    return std::to_string(hours) + "h";
  }
  if (hours < 192) {
    return pair(days, 'd', hours % 24, 'h');
  }
  if (days < 730) {
    return std::to_string(days) + "d";
  }
  if (days < 8 * 365) {
    return pair(days / 365, 'y', days % 365, 'd');
  }
  return std::to_string(days / 365) + "y";
}

std::vector<const Json*> SelectPath(const Json& object, std::string_view path) {
  std::vector<const Json*> at = {&object};
  while (!path.empty() && !at.empty()) {
    std::vector<const Json*> next;
    if (path.front() == '.') {
      path.remove_prefix(1);
      std::string name;
      std::size_t i = 0;
      // A backslash keeps a dot inside the name.
      while (i < path.size() && path[i] != '.' && path[i] != '[') {
        if (path[i] == '\\' && i + 1 < path.size()) {
          ++i;
        }
        name += path[i++];
      }
      path.remove_prefix(i);
      if (name.empty()) {
        continue;
      }
      for (const Json* value : at) {
        if (const Json* member = Member(*value, name)) {
          next.push_back(member);
        }
      }
    } else if (path.front() == '[') {
      std::size_t end = 0;
      bool quoted = false;
      for (std::size_t i = 1; i < path.size(); ++i) {
        if (path[i] == '\'' || path[i] == '"') {
          quoted = !quoted;
        } else if (path[i] == ']' && !quoted) {
          end = i;
          break;
        }
      }
      if (end == 0) {
        return {};
      }
      std::string_view inside = path.substr(1, end - 1);
      path.remove_prefix(end + 1);
      for (const Json* value : at) {
        if (inside == "*") {
          if (value->is_structured()) {
            for (const Json& item : *value) {
              next.push_back(&item);
            }
          }
        } else if (inside.starts_with("?(@.") && inside.ends_with(")")) {
          const std::string_view condition = inside.substr(4, inside.size() - 5);
          const std::size_t equals = condition.find("==");
          if (equals == std::string_view::npos || !value->is_array()) {
            continue;
          }
          std::string_view wanted = TrimSpace(condition.substr(equals + 2));
          if (wanted.size() >= 2 && (wanted.front() == '\'' || wanted.front() == '"')) {
            wanted = wanted.substr(1, wanted.size() - 2);
          }
          const std::string field(TrimSpace(condition.substr(0, equals)));
          for (const Json& item : *value) {
            if (TextAt(item, field) == wanted) {
              next.push_back(&item);
            }
          }
        } else if (inside.size() >= 2 && (inside.front() == '\'' || inside.front() == '"')) {
          if (const Json* member = Member(*value, inside.substr(1, inside.size() - 2))) {
            next.push_back(member);
          }
        } else {
          std::size_t index = 0;
          const auto [stop, error] =
              std::from_chars(inside.data(), inside.data() + inside.size(), index);
          if (error == std::errc() && stop == inside.data() + inside.size() && value->is_array() &&
              index < value->size()) {
            next.push_back(&(*value)[index]);
          }
        }
      }
    } else {
      return {};
    }
    at = std::move(next);
  }
  return at;
}

Json MakeTable(const Call& call, const std::vector<const Json*>& objects) {
  Json columns = Json::array();
  Json rows = Json::array();
  const std::string include = call.target.Get("includeObject");
  const auto row_object = [&](const Json& object) -> Json {
    if (include == "None") {
      return nullptr;
    }
    if (include == "Object") {
      return object;
    }
    return {{"kind", "PartialObjectMetadata"},
            {"apiVersion", "meta.k8s.io/v1"},
            {"metadata", ObjectAt(object, "metadata")}};
  };
  const auto add = [&](const Json& object, Json cells) {
    Json row = {{"cells", std::move(cells)}};
    if (Json part = row_object(object); !part.is_null()) {
      row["object"] = std::move(part);
    }
    rows.push_back(std::move(row));
  };
  const std::string key = call.resource->key();
  if (call.resource->custom) {
    columns.push_back(Column("Name", "string", "name"));
    const bool own = !call.version->columns.empty();
    if (own) {
      for (const PrinterColumn& column : call.version->columns) {
        columns.push_back({{"name", column.name},
                           {"type", column.type == "date" ? "date" : column.type},
                           {"format", column.format},
                           {"description", column.description},
                           {"priority", column.priority}});
      }
    } else {
      columns.push_back(Column("Age", "date"));
    }
    for (const Json* object : objects) {
      Json cells = Json::array({TextAt(ObjectAt(*object, "metadata"), "name")});
      if (own) {
        for (const PrinterColumn& column : call.version->columns) {
          cells.push_back(CustomCell(call, column, *object));
        }
      } else {
        cells.push_back(CreationAge(call, *object));
      }
      add(*object, std::move(cells));
    }
  } else if (call.resource->plural == "events") {
    columns = {Column("Last Seen", "string"),
               Column("Type", "string"),
               Column("Reason", "string"),
               Column("Object", "string"),
               Column("Message", "string")};
    for (const Json* object : objects) {
      add(*object, EventCells(call, *object));
    }
  } else {
    const Printer printer = BuiltinPrinter(key);
    columns.push_back(Column("Name", "string", "name"));
    for (const Json& column : printer.columns) {
      columns.push_back(column);
    }
    for (const Json* object : objects) {
      Json cells = Json::array({TextAt(ObjectAt(*object, "metadata"), "name")});
      for (const Json& cell : printer.cells(call, *object)) {
        cells.push_back(cell);
      }
      add(*object, std::move(cells));
    }
  }
  return {{"kind", "Table"},
          {"apiVersion", "meta.k8s.io/v1"},
          {"columnDefinitions", columns},
          {"rows", rows}};
}

}  // namespace muster::sim
