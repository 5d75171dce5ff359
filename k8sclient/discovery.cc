#include "k8sclient/discovery.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include "k8sclient/requests.h"

namespace muster::k8s {
namespace {

using api::Json;

constexpr std::string_view kAggregatedAccept =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

std::string KeyOf(std::string_view group, std::string_view version, std::string_view plural) {
  std::string out(group);
  out += '/';
  out += version;
  out += '/';
  out += plural;
  return out;
}

const Json* Find(const Json& object, const char* key) {
  if (!object.is_object()) {
    return nullptr;
  }
  const auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}

std::string StringAt(const Json& object, const char* key) {
  const Json* value = Find(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

const Json& ArrayAt(const Json& object, const char* key) {
  static const Json empty = Json::array();
  const Json* value = Find(object, key);
  return value != nullptr && value->is_array() ? *value : empty;
}

bool HasVerbs(const Json& resource) {
  bool list = false;
  bool watch = false;
  for (const Json& verb : ArrayAt(resource, "verbs")) {
    list = list || verb == "list";
    watch = watch || verb == "watch";
  }
  return list && watch;
}

}  // namespace

void Served::Add(ServedResource resource) {
  const std::string key = KeyOf(resource.group, resource.version, resource.plural);
  if (const auto it = index_.find(key); it != index_.end()) {
    resources_[it->second] = std::move(resource);
    return;
  }
  index_.emplace(key, resources_.size());
  resources_.push_back(std::move(resource));
}

const ServedResource* Served::Find(std::string_view group,
                                   std::string_view version,
                                   std::string_view plural) const {
  const auto it = index_.find(KeyOf(group, version, plural));
  return it == index_.end() ? nullptr : &resources_[it->second];
}

bool Served::Has(api::Kind kind) const {
  const api::KindInfo& info = api::Info(kind);
  const ServedResource* found = Find(info.group, info.version, info.plural);
  return found != nullptr && found->watchable;
}

std::vector<std::string> Served::Versions(std::string_view group, std::string_view plural) const {
  std::vector<std::string> out;
  for (const ServedResource& resource : resources_) {
    if (resource.group == group && resource.plural == plural) {
      out.push_back(resource.version);
    }
  }
  return out;
}

std::vector<api::Kind> Served::Kinds() const {
  std::vector<api::Kind> out;
  for (const api::KindInfo& info : api::AllKinds()) {
    if (Has(info.kind)) {
      out.push_back(info.kind);
    }
  }
  return out;
}

Status AddAggregated(const Json& document, Served& served, std::set<std::string>& stale) {
  if (StringAt(document, "kind") != "APIGroupDiscoveryList") {
    return std::unexpected(Error::Invalid("discovery: not an APIGroupDiscoveryList"));
  }
  for (const Json& group : ArrayAt(document, "items")) {
    const Json* metadata = Find(group, "metadata");
    const std::string group_name =
        metadata == nullptr ? std::string() : StringAt(*metadata, "name");
    for (const Json& version : ArrayAt(group, "versions")) {
      const std::string version_name = StringAt(version, "version");
      if (version_name.empty()) {
        continue;
      }
      if (StringAt(version, "freshness") == "Stale") {
        stale.insert(group_name + "/" + version_name);
      }
      for (const Json& resource : ArrayAt(version, "resources")) {
        ServedResource out{
            .group = group_name, .version = version_name, .plural = StringAt(resource, "resource")};
        if (out.plural.empty()) {
          continue;
        }
        if (const Json* kind = Find(resource, "responseKind")) {
          out.kind = StringAt(*kind, "kind");
        }
        out.namespaced = StringAt(resource, "scope") == "Namespaced";
        out.watchable = HasVerbs(resource);
        for (const Json& subresource : ArrayAt(resource, "subresources")) {
          out.has_status = out.has_status || StringAt(subresource, "subresource") == "status";
        }
        served.Add(std::move(out));
      }
    }
  }
  return {};
}

Status AddResourceList(const Json& document, Served& served) {
  if (StringAt(document, "kind") != "APIResourceList") {
    return std::unexpected(Error::Invalid("discovery: not an APIResourceList"));
  }
  const std::string group_version = StringAt(document, "groupVersion");
  const std::size_t slash = group_version.find('/');
  const std::string group =
      slash == std::string::npos ? std::string() : group_version.substr(0, slash);
  const std::string version =
      slash == std::string::npos ? group_version : group_version.substr(slash + 1);
  if (version.empty()) {
    return std::unexpected(Error::Invalid("discovery: APIResourceList without groupVersion"));
  }
  std::set<std::string> with_status;
  for (const Json& resource : ArrayAt(document, "resources")) {
    const std::string name = StringAt(resource, "name");
    if (name.ends_with("/status")) {
      with_status.insert(name.substr(0, name.size() - std::string_view("/status").size()));
    }
  }
  for (const Json& resource : ArrayAt(document, "resources")) {
    const std::string name = StringAt(resource, "name");
    if (name.empty() || name.contains('/')) {
      continue;
    }
    const Json* namespaced = Find(resource, "namespaced");
    served.Add(ServedResource{.group = group,
                              .version = version,
                              .plural = name,
                              .kind = StringAt(resource, "kind"),
                              .namespaced = namespaced != nullptr && *namespaced == true,
                              .has_status = with_status.contains(name),
                              .watchable = HasVerbs(resource)});
  }
  return {};
}

Result<std::vector<std::string>> GroupVersionPaths(const Json& document) {
  std::vector<std::string> out;
  const std::string kind = StringAt(document, "kind");
  if (kind == "APIVersions") {
    for (const Json& version : ArrayAt(document, "versions")) {
      if (version.is_string()) {
        out.push_back("/api/" + version.get<std::string>());
      }
    }
    return out;
  }
  if (kind != "APIGroupList") {
    return std::unexpected(Error::Invalid("discovery: neither APIVersions nor an APIGroupList"));
  }
  for (const Json& group : ArrayAt(document, "groups")) {
    for (const Json& version : ArrayAt(group, "versions")) {
      if (const std::string name = StringAt(version, "groupVersion"); !name.empty()) {
        out.push_back("/apis/" + name);
      }
    }
  }
  return out;
}

struct Discovery::State {
  // One of the two roots, as last answered.
  struct Root {
    std::string path;
    std::string etag{};
    bool known = false;
    Served served{};
  };

  Client& client;
  Timers& timers;
  DiscoveryOptions options;
  DiscoveryHandlers handlers;
  std::array<Root, 2> roots{Root{.path = "/api"}, Root{.path = "/apis"}};
  Served all{};
  std::set<api::Kind> kinds{};
  bool known = false;
  bool started = false;
  bool again = false;           // Refresh was asked for while a round runs
  std::size_t outstanding = 0;  // requests of this round
  std::unique_ptr<Timers::Timer> timer{};

  using Self = std::shared_ptr<State>;
  using Weak = std::weak_ptr<State>;

  static void Round(const Self& self) {
    if (self->outstanding > 0) {
      self->again = true;
      return;
    }
    self->again = false;
    self->timer.reset();
    for (std::size_t i = 0; i < self->roots.size(); ++i) {
      Request request = Get(self->roots[i].path);
      request.accept = kAggregatedAccept;
      if (!self->roots[i].etag.empty()) {
        request.headers.emplace_back("if-none-match", self->roots[i].etag);
      }
      ++self->outstanding;
      self->client.SendRaw(std::move(request), [weak = Weak(self), i](Client::RawReply reply) {
        if (const Self state = weak.lock()) {
          OnRoot(state, i, std::move(reply));
          Finished(state);
        }
      });
    }
  }

  static void OnRoot(const Self& self, std::size_t i, Client::RawReply reply) {
    Root& root = self->roots[i];
    if (!reply) {
      self->Trouble(reply.error());
      return;
    }
    if (reply->status == 304) {
      return;
    }
    Result<Json> document = api::ParseJson(reply->body);
    if (!document) {
      self->Trouble(document.error().At(root.path));
      return;
    }
    if (StringAt(*document, "kind") == "APIGroupDiscoveryList") {
      Served served;
      std::set<std::string> stale;
      if (const Status status = AddAggregated(*document, served, stale); !status) {
        self->Trouble(status.error());
        return;
      }
      // What a silent aggregated server served before, it will serve again.
      for (const std::string& group_version : stale) {
        KeepOld(root.served, group_version, served);
      }
      root.served = std::move(served);
      root.known = true;
      // With a stale part the document has to be read again even if its tag stays the same.
      root.etag = stale.empty() ? std::string(reply->Header("etag")) : std::string();
      return;
    }
    Result<std::vector<std::string>> paths = GroupVersionPaths(*document);
    if (!paths) {
      self->Trouble(paths.error().At(root.path));
      return;
    }
    AskEach(self, i, std::move(*paths));
  }

  static void KeepOld(const Served& old, const std::string& group_version, Served& into) {
    for (const ServedResource& resource : old.resources()) {
      if (resource.group + "/" + resource.version == group_version) {
        into.Add(resource);
      }
    }
  }

  // Servers without aggregated discovery: one document a group version.
  struct Gathering {
    std::size_t left = 0;
    Served served;
  };
  static void AskEach(const Self& self, std::size_t i, std::vector<std::string> paths) {
    auto gathering = std::make_shared<Gathering>();
    gathering->left = paths.size();
    for (const std::string& path : paths) {
      ++self->outstanding;
      self->client.Send(Get(path), [weak = Weak(self), i, gathering, path](Client::Reply reply) {
        const Self state = weak.lock();
        if (!state) {
          return;
        }
        const Status added =
            reply ? AddResourceList(*reply, gathering->served)
                  : Status(std::unexpected(static_cast<const Error&>(reply.error())));
        if (!added) {
          state->Trouble(added.error().At(path));
          const bool core = path.starts_with("/api/");
          KeepOld(state->roots[i].served,
                  core ? "/" + path.substr(std::string_view("/api/").size())
                       : path.substr(std::string_view("/apis/").size()),
                  gathering->served);
        }
        if (--gathering->left == 0) {
          state->roots[i].served = std::move(gathering->served);
          state->roots[i].known = true;
          state->roots[i].etag.clear();
        }
        Finished(state);
      });
    }
    if (paths.empty()) {
      self->roots[i].served = Served();
      self->roots[i].known = true;
    }
  }

  void Trouble(const Error& error) {
    if (handlers.on_trouble) {
      handlers.on_trouble(error.At("discovery"));
    }
  }

  static void Finished(const Self& self) {
    if (--self->outstanding > 0) {
      return;
    }
    // Nothing is said before both halves are known: half an answer would look like vanished kinds.
    if (std::ranges::all_of(self->roots, [](const Root& root) { return root.known; })) {
      Conclude(self);
    }
    if (self->again) {
      Round(self);
      return;
    }
    self->timer = self->timers.At(
        self->timers.Now() + (self->known ? self->options.period : self->options.retry),
        [weak = Weak(self)] {
          if (const Self state = weak.lock()) {
            Round(state);
          }
        });
  }

  static void Conclude(const Self& self) {
    Served all;
    for (const Root& root : self->roots) {
      for (const ServedResource& resource : root.served.resources()) {
        all.Add(resource);
      }
    }
    const std::vector<api::Kind> now = all.Kinds();
    const std::set<api::Kind> now_set(now.begin(), now.end());
    std::vector<api::Kind> appeared;
    std::vector<api::Kind> vanished;
    std::ranges::set_difference(now_set, self->kinds, std::back_inserter(appeared));
    std::ranges::set_difference(self->kinds, now_set, std::back_inserter(vanished));
    self->all = std::move(all);
    self->kinds = now_set;
    const bool first = !std::exchange(self->known, true);
    if ((first || !appeared.empty() || !vanished.empty()) && self->handlers.on_change) {
      self->handlers.on_change(appeared, vanished);
    }
  }
};

Discovery::Discovery(Client& client,
                     Timers& timers,
                     DiscoveryOptions options,
                     DiscoveryHandlers handlers)
    : state_(std::make_shared<State>(State{.client = client,
                                           .timers = timers,
                                           .options = options,
                                           .handlers = std::move(handlers)})) {}

Discovery::~Discovery() = default;

void Discovery::Start() {
  if (!std::exchange(state_->started, true)) {
    State::Round(state_);
  }
}

void Discovery::Refresh() {
  if (state_->started) {
    State::Round(state_);
  }
}

bool Discovery::known() const {
  return state_->known;
}
const Served& Discovery::served() const {
  return state_->all;
}

}  // namespace muster::k8s
