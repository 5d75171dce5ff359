#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "base/time.h"
#include "k8sclient/request.h"
#include "sim/api_server.h"
#include "sim/failure.h"
#include "sim/registry.h"
#include "sim/selectors.h"
#include "sim/storage.h"

// The inside of ApiServer. Private to the files that implement it.
namespace muster::sim {

enum class FieldValidation : std::uint8_t { kIgnore, kWarn, kStrict };
enum class Operation : std::uint8_t { kCreate, kUpdate, kDelete };

// A parsed request path and query.
struct Target {
  std::vector<std::string> path;
  std::vector<std::pair<std::string, std::string>> query;

  [[nodiscard]] static Target Parse(std::string_view target);
  [[nodiscard]] std::string Get(std::string_view key) const;
  [[nodiscard]] bool Has(std::string_view key) const;
  [[nodiscard]] bool True(std::string_view key) const;
};

struct UserInfo {
  std::string name = "kubernetes-admin";
  std::vector<std::string> groups = {"system:masters", "system:authenticated"};
};

// One request on one resource, as all stages of a write see it.
struct Call {
  const ResourceInfo* resource = nullptr;
  const ResourceVersionInfo* version = nullptr;
  std::string ns;
  std::string name;
  std::string subresource;
  const k8s::Request* request = nullptr;
  std::string accept;
  Target target;
  TimePoint now{};
  bool dry_run = false;
  FieldValidation field_validation = FieldValidation::kWarn;
  std::string manager;
  bool applied = false;  // a server-side apply: managedFields are already in the object
  UserInfo user;
  std::vector<std::string> warnings;

  [[nodiscard]] std::string api_version() const { return resource->ApiVersion(version->name); }
  [[nodiscard]] bool storage_version() const { return version->storage; }
};

// The answer to one request before it becomes bytes.
struct Answer {
  int status = 200;
  Json body;
  // When set, the body is this object in the version asked for.
  StoredPtr object;
  std::string text;  // when not empty, the body as it is
  std::string content_type = "application/json";
};

struct Server;
class Policies;

class Stream final : public WatchStream {
 public:
  Stream(std::shared_ptr<Server> server, Call call, LabelMatcher labels, FieldMatcher fields);
  [[nodiscard]] std::string Read() override;
  [[nodiscard]] bool closed() const override { return closed_; }

  // Time has moved.
  void Tick(TimePoint now);
  [[nodiscard]] TimePoint next_due() const;

 private:
  friend struct Server;
  void Emit(std::string& out, std::string_view type, const StoredPtr& object) const;
  void EmitBookmark(std::string& out, std::int64_t version, bool initial_end) const;

  std::shared_ptr<Server> server_;
  ResourceInfo
      resource_;  // call_ points into it: a definition may change or go while it is watched
  Call call_;
  LabelMatcher labels_;
  FieldMatcher fields_;
  std::string table_key_;
  std::uint64_t cursor_ = 0;
  std::vector<StoredPtr> initial_;
  bool initial_pending_ = false;
  bool initial_bookmark_ = false;
  std::int64_t initial_version_ = 0;
  bool bookmarks_ = false;
  bool bookmark_due_ = false;
  TimePoint next_bookmark_{};
  TimePoint deadline_{};
  std::string expired_;  // answer this and end
  bool ending_ = false;
  bool closed_ = false;
};

struct Server : std::enable_shared_from_this<Server> {
  explicit Server(ApiServerOptions server_options);
  ~Server();

  // Creates what exists in every cluster: namespaces, priority classes, CRDs, policies.
  void Bootstrap();

  [[nodiscard]] k8s::Response Handle(const k8s::Request& request, TimePoint now);
  [[nodiscard]] std::unique_ptr<WatchStream> OpenWatch(const k8s::Request& request,
                                                       TimePoint now,
                                                       k8s::Response& error_response);
  void Tick(TimePoint now);

  // Reads.
  [[nodiscard]] Outcome<Call> Resolve(const k8s::Request& request, TimePoint now) const;
  [[nodiscard]] Outcome<Answer> Dispatch(Call& call);
  [[nodiscard]] Outcome<Answer> Get(Call& call);
  [[nodiscard]] Outcome<Answer> List(Call& call);

  // Writes.
  [[nodiscard]] Outcome<Answer> Create(Call& call);
  [[nodiscard]] Outcome<Answer> Update(Call& call);
  [[nodiscard]] Outcome<Answer> Patch(Call& call);
  [[nodiscard]] Outcome<Answer> Apply(Call& call, const StoredPtr& old);
  [[nodiscard]] Outcome<Answer> Delete(Call& call);
  [[nodiscard]] Outcome<Answer> DeleteCollection(Call& call);
  [[nodiscard]] Outcome<Answer> PodBinding(Call& call);
  [[nodiscard]] Outcome<Answer> PodEviction(Call& call);
  [[nodiscard]] Outcome<Answer> Review(Call& call);
  [[nodiscard]] Outcome<Answer> Scale(Call& call);

  // The body as an object in the version of the request, with unknown fields treated as asked.
  [[nodiscard]] Outcome<Json> DecodeBody(Call& call) const;
  // What every object goes through after it was decoded or patched, in the version of the call:
  // canonical form, unknown fields, defaults.
  [[nodiscard]] Outcome<void> Ingest(Call& call, Json& object) const;
  // The same without defaults.
  [[nodiscard]] Outcome<void> Clean(Call& call, Json& object) const;
  // Books a write on its manager in metadata.managedFields.
  void Track(const Call& call, const Json* old, Json& object) const;
  // Creates may only go into a namespace that exists and stays.
  [[nodiscard]] Outcome<void> EnsureNamespace(Call& call);
  // Plugins and mutating policies.
  [[nodiscard]] Outcome<void> Mutate(Call& call,
                                     Operation operation,
                                     Json& object,
                                     const Json* old);
  // Schema, rules and validating policies. Objects are in the storage version.
  [[nodiscard]] Outcome<void> Validate(Call& call, const Json& object, const Json* old);
  [[nodiscard]] Outcome<void> Admit(Call& call,
                                    Operation operation,
                                    const Json* object,
                                    const Json* old);
  [[nodiscard]] const Policies& CurrentPolicies();
  // `object` is in the storage version, complete but for what the server sets.
  [[nodiscard]] Outcome<StoredPtr> CommitCreate(Call& call, Json object);
  // `object` replaces `old`; both in the storage version.
  [[nodiscard]] Outcome<StoredPtr> CommitUpdate(Call& call, const StoredPtr& old, Json object);
  [[nodiscard]] Outcome<Answer> DeleteOne(Call& call, const StoredPtr& old, const Json& options);

  // Conversions between the served versions of a resource.
  [[nodiscard]] Json ToVersion(const Call& call, const Json& stored) const;
  [[nodiscard]] Json ToStorage(const Call& call, Json object) const;

  // The lowest level: give `object` the next version and log the change.
  StoredPtr Commit(const ResourceInfo& resource, Change::Type type, Json object, StoredPtr before);
  void Remove(const ResourceInfo& resource, const StoredPtr& before);
  // Follows definitions, namespaces and the like after a commit.
  void AfterCommit(const ResourceInfo& resource, const StoredPtr& before, const StoredPtr& after);

  [[nodiscard]] const Table& TableOf(const ResourceInfo& resource) const;
  [[nodiscard]] Table& MutableTable(const ResourceInfo& resource);
  [[nodiscard]] static std::string TableKey(const ResourceInfo& resource);
  [[nodiscard]] std::string NewUid();
  [[nodiscard]] std::string NewSuffix();

  [[nodiscard]] k8s::Response Render(const Call& call, Answer answer) const;
  [[nodiscard]] static k8s::Response RenderFailure(const Failure& failure);
  // The text of one stored object in the version of the call.
  [[nodiscard]] std::string TextIn(const Call& call, const Stored& object) const;

  ApiServerOptions options;
  Registry registry;
  std::map<std::string, Table, std::less<>> tables;
  std::int64_t version = 0;
  std::uint64_t next_uid = 1;
  Prng suffixes{0x6d7573746572ULL};
  std::vector<std::weak_ptr<Stream>> streams;
  std::function<void()> on_change;
  TimePoint now{};
  std::optional<ResourceInfo>
      checked_definition;              // of the CustomResourceDefinition that is being written
  std::unique_ptr<Policies> policies;  // null after a policy has changed
};

}  // namespace muster::sim
