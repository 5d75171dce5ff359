#include "sim/api_server.h"

#include <algorithm>
#include <charconv>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/digest.h"
#include "base/strings.h"
#include "sim/admission.h"
#include "sim/conversion.h"
#include "sim/discovery.h"
#include "sim/patching.h"
#include "sim/server.h"

namespace muster::sim {

struct ApiServer::Impl {
  std::shared_ptr<Server> server;
};

ApiServer::ApiServer(ApiServerOptions options)
    : impl_(std::make_unique<Impl>(Impl{.server = std::make_shared<Server>(std::move(options))})) {
  impl_->server->Bootstrap();
}
ApiServer::~ApiServer() = default;

k8s::Response ApiServer::Handle(const k8s::Request& request, TimePoint now) {
  return impl_->server->Handle(request, now);
}
std::unique_ptr<WatchStream> ApiServer::OpenWatch(const k8s::Request& request,
                                                  TimePoint now,
                                                  k8s::Response& error_response) {
  return impl_->server->OpenWatch(request, now, error_response);
}
void ApiServer::SetOnChange(std::function<void()> on_change) {
  impl_->server->on_change = std::move(on_change);
}

const Json* ApiServer::Find(std::string_view resource,
                            std::string_view ns,
                            std::string_view name) const {
  const auto it = impl_->server->tables.find(
      resource == "/events" ? std::string_view("events.k8s.io/events") : resource);
  if (it == impl_->server->tables.end()) {
    return nullptr;
  }
  const StoredPtr found =
      it->second.Find(ObjectKey{.ns = std::string(ns), .name = std::string(name)});
  return found ? &found->json() : nullptr;
}

std::vector<const Json*> ApiServer::List(std::string_view resource) const {
  std::vector<const Json*> out;
  const auto it = impl_->server->tables.find(
      resource == "/events" ? std::string_view("events.k8s.io/events") : resource);
  if (it != impl_->server->tables.end()) {
    for (const auto& [key, object] : it->second.objects()) {
      out.push_back(&object->json());
    }
  }
  return out;
}

std::vector<const Json*> ApiServer::All() const {
  std::vector<std::tuple<std::string, std::string, ObjectKey, const Json*>> sorted;
  for (const auto& [resource, table] : impl_->server->tables) {
    for (const auto& [key, object] : table.objects()) {
      sorted.emplace_back(object->json().value("apiVersion", ""),
                          object->json().value("kind", ""),
                          key,
                          &object->json());
    }
  }
  std::ranges::sort(sorted, [](const auto& a, const auto& b) {
    return std::tie(std::get<0>(a), std::get<1>(a), std::get<2>(a)) <
           std::tie(std::get<0>(b), std::get<1>(b), std::get<2>(b));
  });
  std::vector<const Json*> out;
  out.reserve(sorted.size());
  for (const auto& entry : sorted) {
    out.push_back(std::get<3>(entry));
  }
  return out;
}

std::int64_t ApiServer::resource_version() const {
  return impl_->server->version;
}
void ApiServer::Tick(TimePoint now) {
  impl_->server->Tick(now);
}

std::optional<TimePoint> ApiServer::NextDue() const {
  std::optional<TimePoint> due;
  for (const auto& weak : impl_->server->streams) {
    if (const auto stream = weak.lock()) {
      due = due ? std::min(*due, stream->next_due()) : stream->next_due();
    }
  }
  return due;
}

Target Target::Parse(std::string_view target) {
  Target out;
  const std::size_t question = target.find('?');
  for (const std::string& part : Split(target.substr(0, question), '/')) {
    if (!part.empty()) {
      out.path.push_back(PercentDecode(part));
    }
  }
  if (question != std::string_view::npos) {
    for (const std::string& pair : Split(target.substr(question + 1), '&')) {
      if (pair.empty()) {
        continue;
      }
      const std::size_t equals = pair.find('=');
      std::string value = equals == std::string::npos ? std::string() : pair.substr(equals + 1);
      std::ranges::replace(value, '+', ' ');
      out.query.emplace_back(PercentDecode(pair.substr(0, equals)), PercentDecode(value));
    }
  }
  return out;
}

std::string Target::Get(std::string_view key) const {
  const auto it = std::ranges::find(query, key, &std::pair<std::string, std::string>::first);
  return it == query.end() ? std::string() : it->second;
}
bool Target::Has(std::string_view key) const {
  return std::ranges::find(query, key, &std::pair<std::string, std::string>::first) != query.end();
}
bool Target::True(std::string_view key) const {
  const std::string value = Get(key);
  return Has(key) && value != "false" && value != "0" && value != "f" && value != "False" &&
         value != "FALSE";
}

Server::Server(ApiServerOptions server_options) : options(std::move(server_options)) {}
Server::~Server() = default;

std::string Server::TableKey(const ResourceInfo& resource) {
  return resource.plural == "events" && resource.group.empty() ? std::string("events.k8s.io/events")
                                                               : resource.key();
}
Table& Server::MutableTable(const ResourceInfo& resource) {
  return tables[TableKey(resource)];
}
const Table& Server::TableOf(const ResourceInfo& resource) const {
  static const Table kEmpty;
  const auto it = tables.find(TableKey(resource));
  return it == tables.end() ? kEmpty : it->second;
}

std::string Server::NewUid() {
  // Ascending in order of creation, so that the last tie-break of the scheduler follows it.
  std::string hex(12, '0');
  std::uint64_t n = next_uid++;
  for (std::size_t i = hex.size(); i > 0 && n != 0; --i, n >>= 4U) {
    hex[i - 1] = "0123456789abcdef"[n & 15U];
  }
  return "00000000-0000-4000-8000-" + hex;
}

std::string Server::NewSuffix() {
  static constexpr std::string_view kLetters = "bcdfghjklmnpqrstvwxz2456789";
  std::string out;
  for (int i = 0; i < 5; ++i) {
    out += kLetters[suffixes.Below(kLetters.size())];
  }
  return out;
}

Outcome<Call> Server::Resolve(const k8s::Request& request, TimePoint at) const {
  Call call;
  call.request = &request;
  call.accept = request.accept;
  call.now = at;
  call.target = Target::Parse(request.target);
  const std::vector<std::string>& path = call.target.path;
  std::size_t next = 0;
  std::string group;
  std::string version_name;
  if (path.size() >= 2 && path[0] == "api") {
    version_name = path[1];
    next = 2;
  } else if (path.size() >= 3 && path[0] == "apis") {
    group = path[1];
    version_name = path[2];
    next = 3;
  } else {
    return std::unexpected(PathNotFound());
  }
  if (next >= path.size()) {
    return std::unexpected(PathNotFound());
  }
  std::string plural;
  if (path[next] == "namespaces" && path.size() > next + 2 &&
      !(group.empty() && (path[next + 2] == "status" || path[next + 2] == "finalize"))) {
    call.ns = path[next + 1];
    next += 2;
  }
  plural = path[next++];
  if (next < path.size()) {
    call.name = path[next++];
  }
  if (next < path.size()) {
    call.subresource = path[next++];
  }
  call.resource = registry.Find(group, plural);
  if (call.resource == nullptr || next < path.size()) {
    return std::unexpected(PathNotFound());
  }
  call.version = call.resource->Version(version_name);
  if (call.version == nullptr || !call.version->served) {
    return std::unexpected(PathNotFound());
  }
  if (!call.resource->namespaced && !call.ns.empty()) {
    return std::unexpected(PathNotFound());
  }
  if (call.resource->namespaced && call.ns.empty() && !call.name.empty()) {
    return std::unexpected(PathNotFound());
  }
  if (!call.subresource.empty()) {
    const bool known = (call.subresource == "status" && call.version->status) ||
                       (call.subresource == "scale" && call.version->scale) ||
                       std::ranges::find(call.resource->subresources, call.subresource) !=
                           call.resource->subresources.end();
    if (!known) {
      return std::unexpected(PathNotFound());
    }
  }
  const std::string dry_run = call.target.Get("dryRun");
  if (!dry_run.empty() && dry_run != "All") {
    return std::unexpected(InvalidObject(
        "meta.k8s.io", "CreateOptions", "", {NotSupported("dryRun", dry_run, {"All"})}));
  }
  call.dry_run = !dry_run.empty();
  const std::string validation = call.target.Get("fieldValidation");
  call.field_validation = validation == "Strict"   ? FieldValidation::kStrict
                          : validation == "Ignore" ? FieldValidation::kIgnore
                                                   : FieldValidation::kWarn;
  call.manager = call.target.Get("fieldManager");
  for (const auto& [name, value] : request.headers) {
    if (name == "impersonate-user") {
      call.user.name = value;
      call.user.groups = {"system:authenticated"};
    }
  }
  for (const auto& [name, value] : request.headers) {
    if (name == "impersonate-group") {
      call.user.groups.push_back(value);
    }
    if (name == "user-agent" && call.manager.empty()) {
      call.manager = value.substr(0, value.find('/')).substr(0, 128);
    }
  }
  if (call.manager.empty()) {
    call.manager = "unknown";
  }
  if (call.version->deprecated && !call.version->deprecation_warning.empty()) {
    call.warnings.push_back(call.version->deprecation_warning);
  }
  return call;
}

k8s::Response Server::RenderFailure(const Failure& failure) {
  k8s::Response response;
  response.status = failure.code;
  response.headers.emplace_back("content-type", "application/json");
  if (failure.retry_after_seconds > 0) {
    response.headers.emplace_back("retry-after", std::to_string(failure.retry_after_seconds));
  }
  response.body = failure.ToStatus().dump(-1, ' ', false, Json::error_handler_t::replace);
  return response;
}

std::string Server::TextIn(const Call& call, const Stored& object) const {
  if (call.storage_version() && TableKey(*call.resource) == call.resource->key()) {
    return object.Text();
  }
  return ToVersion(call, object.json()).dump(-1, ' ', false, Json::error_handler_t::replace);
}

k8s::Response Server::Render(const Call& call, Answer answer) const {
  k8s::Response response;
  response.status = answer.status;
  response.headers.emplace_back("content-type", answer.content_type);
  for (const std::string& warning : call.warnings) {
    std::string quoted;
    AppendJsonString(quoted, warning);
    response.headers.emplace_back("warning", "299 - " + quoted);
  }
  if (!answer.text.empty()) {
    response.body = std::move(answer.text);
  } else if (answer.object) {
    const auto other = ObjectInOtherForm(*this, call, *answer.object);
    response.body = other ? other->dump(-1, ' ', false, Json::error_handler_t::replace)
                          : TextIn(call, *answer.object);
  } else {
    response.body = answer.body.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return response;
}

k8s::Response Server::Handle(const k8s::Request& request, TimePoint at) {
  now = at;
  const Target target = Target::Parse(request.target);
  if (auto fixed = Discover(*this, request, target)) {
    return *std::move(fixed);
  }
  auto call = Resolve(request, at);
  if (!call) {
    return RenderFailure(call.error());
  }
  auto answer = Dispatch(*call);
  if (!answer) {
    k8s::Response response = RenderFailure(answer.error());
    return response;
  }
  return Render(*call, *std::move(answer));
}

Outcome<Answer> Server::Dispatch(Call& call) {
  using k8s::Method;
  const Method method = call.request->method;
  if (call.resource->create_only) {
    return method == Method::kPost ? Review(call)
                                   : std::unexpected(MethodNotAllowed(call.resource->plural));
  }
  if (call.subresource == "binding") {
    return method == Method::kPost ? PodBinding(call)
                                   : std::unexpected(MethodNotAllowed(call.resource->plural));
  }
  if (call.subresource == "eviction") {
    return method == Method::kPost ? PodEviction(call)
                                   : std::unexpected(MethodNotAllowed(call.resource->plural));
  }
  if (call.subresource == "scale") {
    return Scale(call);
  }
  switch (method) {
    case Method::kGet:
      return call.name.empty() ? List(call) : Get(call);
    case Method::kPost:
      return call.name.empty() ? Create(call)
                               : std::unexpected(MethodNotAllowed(call.resource->plural));
    case Method::kPut:
      return call.name.empty() ? std::unexpected(MethodNotAllowed(call.resource->plural))
                               : Update(call);
    case Method::kPatch:
      return call.name.empty() ? std::unexpected(MethodNotAllowed(call.resource->plural))
                               : Patch(call);
    case Method::kDelete:
      if (!call.subresource.empty()) {
        return std::unexpected(MethodNotAllowed(call.resource->plural));
      }
      return call.name.empty() ? DeleteCollection(call) : Delete(call);
  }
  return std::unexpected(MethodNotAllowed(call.resource->plural));
}

Outcome<Answer> Server::Get(Call& call) {
  const StoredPtr found = TableOf(*call.resource).Find(ObjectKey{.ns = call.ns, .name = call.name});
  if (!found) {
    return std::unexpected(NotFound(call.resource->group, call.resource->plural, call.name));
  }
  return Answer{.status = 200, .body = {}, .object = found, .text = {}};
}

namespace {

// A typed list of the real server leaves kind and apiVersion out of its items; a list of custom
// resources does not.
std::string ItemText(const Call& call, std::string text) {
  if (call.resource->custom) {
    return text;
  }
  const std::string prefix = "{\"apiVersion\":\"" + call.api_version() + "\",";
  const std::string kind = "\"kind\":\"" + call.resource->kind + "\",";
  if (text.starts_with(prefix) && std::string_view(text).substr(prefix.size()).starts_with(kind)) {
    return "{" + text.substr(prefix.size() + kind.size());
  }
  Json copy = ParseJson(text);
  if (copy.is_object()) {
    copy.erase("apiVersion");
    copy.erase("kind");
    return copy.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return text;
}

}  // namespace

Outcome<Answer> Server::List(Call& call) {
  const auto labels = LabelMatcher::Parse(call.target.Get("labelSelector"));
  if (!labels) {
    return std::unexpected(labels.error());
  }
  const auto fields = FieldMatcher::Parse(call.target.Get("fieldSelector"),
                                          call.resource->kind,
                                          SelectableFields(*call.resource, *call.version));
  if (!fields) {
    return std::unexpected(fields.error());
  }
  const Table& table = TableOf(*call.resource);
  std::int64_t limit = 0;
  const std::string limit_text = call.target.Get("limit");
  std::from_chars(limit_text.data(), limit_text.data() + limit_text.size(), limit);
  std::int64_t wanted = 0;
  const std::string wanted_text = call.target.Get("resourceVersion");
  const std::string match = call.target.Get("resourceVersionMatch");
  if (!wanted_text.empty()) {
    const auto [end, error] =
        std::from_chars(wanted_text.data(), wanted_text.data() + wanted_text.size(), wanted);
    if (error != std::errc() || end != wanted_text.data() + wanted_text.size() || wanted < 0) {
      return std::unexpected(BadRequest("Invalid value: \"" + wanted_text + "\""));
    }
  }
  std::string after_key;
  std::int64_t as_of = version;
  std::string token = call.target.Get("continue");
  if (!match.empty() &&
      (wanted_text.empty() || !token.empty() || (match == "Exact" && wanted == 0))) {
    return std::unexpected(InvalidObject(
        "meta.k8s.io",
        "ListOptions",
        "",
        {Forbidden("resourceVersionMatch",
                   "resourceVersionMatch is forbidden unless resourceVersion is provided")}));
  }
  if (!token.empty()) {
    std::string decoded;
    Json position;
    if (!Base64Decode(token, decoded) || !(position = ParseJson(decoded)).is_object() ||
        !position.contains("rv") || !position["rv"].is_number_integer() ||
        !position.contains("start") || !position["start"].is_string()) {
      return std::unexpected(BadRequest("continue key is not valid: illegal base64 data"));
    }
    as_of = position["rv"].get<std::int64_t>();
    after_key = position["start"].get<std::string>();
  } else if (match == "Exact") {
    as_of = wanted;
  }
  if (wanted > version || as_of > version) {
    Failure failure{
        .code = 504,
        .reason = "Timeout",
        .message = "Too large resource version: " + std::to_string(std::max(wanted, as_of)) +
                   ", current: " + std::to_string(version),
        .details = Json::object()};
    failure.details["causes"] = {
        {{"reason", "ResourceVersionTooLarge"}, {"message", "Too large resource version"}}};
    failure.retry_after_seconds = 1;
    return std::unexpected(std::move(failure));
  }
  if (as_of < table.dropped_version()) {
    return std::unexpected(
        Expired(token.empty() ? "The resourceVersion for the provided list is too old."
                              : "The provided continue parameter is too old to display a "
                                "consistent list result. You can start "
                                "a new list without the continue parameter, or use the continue "
                                "token in this response to "
                                "retrieve the remainder of the results. Continuing with the "
                                "provided token results in an "
                                "inconsistent list - objects that were created, modified, or "
                                "deleted between the time the "
                                "first chunk was returned and now may show up in the list."));
  }
  const bool historic = as_of < version && table.After(as_of) != table.next_number();
  Table::Objects past;
  if (historic) {
    past = table.AsOf(as_of);
  }
  const auto name_only = fields->name();
  std::vector<StoredPtr> picked;
  std::string next_token;
  std::int64_t remaining = 0;
  const auto consider = [&](const ObjectKey& key, const StoredPtr& object) {
    const std::string position = key.ns + "/" + key.name;
    if (!after_key.empty() && position <= after_key) {
      return;
    }
    if (!labels->everything() && !labels->Matches(object->json())) {
      return;
    }
    if (!fields->everything() && !fields->Matches(ToVersion(call, object->json()))) {
      return;
    }
    if (limit > 0 && picked.size() == static_cast<std::size_t>(limit)) {
      if (next_token.empty()) {
        const ObjectKey last{.ns = picked.back()->json()["metadata"].value("namespace", ""),
                             .name = picked.back()->json()["metadata"].value("name", "")};
        next_token = Base64Encode(Json{{"rv", as_of}, {"start", last.ns + "/" + last.name}}.dump());
      }
      ++remaining;
      return;
    }
    picked.push_back(object);
  };
  if (!name_only.empty() && !call.ns.empty() && !historic) {
    const ObjectKey key{.ns = call.ns, .name = name_only};
    if (const StoredPtr found = table.Find(key)) {
      consider(key, found);
    }
  } else if (historic) {
    for (const auto& [key, object] : past) {
      if (call.ns.empty() || key.ns == call.ns) {
        consider(key, object);
      }
    }
  } else {
    const auto [begin, end] = table.Range(call.ns);
    for (auto it = begin; it != end; ++it) {
      consider(it->first, it->second);
    }
  }
  Json meta = {{"resourceVersion", std::to_string(as_of)}};
  if (!next_token.empty()) {
    meta["continue"] = next_token;
    if (labels->everything() && fields->everything()) {
      meta["remainingItemCount"] = remaining;
    }
  }
  if (auto special = ListInOtherForm(*this, call, picked, meta)) {
    return *std::move(special);
  }
  std::string text = "{\"kind\":\"" + call.resource->list_kind + "\",\"apiVersion\":\"" +
                     call.api_version() + "\",\"metadata\":" + meta.dump() + ",\"items\":[";
  bool first = true;
  for (const StoredPtr& object : picked) {
    if (!first) {
      text += ',';
    }
    first = false;
    text += ItemText(call, TextIn(call, *object));
  }
  text += "]}";
  return Answer{.status = 200, .body = {}, .object = {}, .text = std::move(text)};
}

}  // namespace muster::sim
