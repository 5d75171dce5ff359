#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/json.h"
#include "api/kind.h"
#include "base/time.h"
#include "k8sclient/request.h"

// Builders of API requests. Pure. `path` comes from api::Path:
//
//   client.Send(k8s::MergePatch(api::Path(api::Kind::kJob, ns, name), patch, {.resource_version =
//   rv}), done);
//
// Each builder sets Request::resend: whether the same request may be sent again when no answer
// came, that is, whether a second execution could do no harm.
namespace muster::k8s {

// What must still hold when the write happens; the answer is kConflict otherwise. Empty strings are
// not checked.
struct Preconditions {
  std::string resource_version;
  std::string uid;
};

enum class DryRun : std::uint8_t { kNo, kAll };
enum class Force : std::uint8_t {
  kNo,
  kYes
};  // server-side apply: take fields over from other managers
enum class Propagation : std::uint8_t { kDefault, kBackground, kForeground, kOrphan };

struct ListQuery {
  std::string label_selector;
  std::string field_selector;
  std::int64_t limit = 0;      // 0: no pages
  std::string continue_token;  // excludes resource_version
  std::string resource_version;
  std::string resource_version_match;  // "NotOlderThan", "Exact"
};

struct WatchQuery {
  std::string label_selector;
  std::string field_selector;
  std::string resource_version;
  bool send_initial_events = false;
  std::int64_t timeout_seconds = 0;  // the server ends the watch then; 0: as the server likes
};

struct DeleteQuery {
  Preconditions preconditions;
  Propagation propagation = Propagation::kDefault;
  std::optional<std::int64_t> grace_period_seconds;
};

[[nodiscard]] Request Get(std::string path);
[[nodiscard]] Request List(std::string path, const ListQuery& query);
// A stream: for Transport::OpenStream.
[[nodiscard]] Request Watch(std::string path, const WatchQuery& query, Duration idle_timeout);
// `collection` is the path without a name.
[[nodiscard]] Request Create(std::string collection,
                             const api::Json& object,
                             DryRun dry_run = DryRun::kNo);
// PUT. The object should hold metadata.resourceVersion.
[[nodiscard]] Request Update(std::string path, const api::Json& object);
// RFC 7386. Preconditions go into metadata.resourceVersion and metadata.uid of the patch.
[[nodiscard]] Request MergePatch(std::string path,
                                 api::Json patch,
                                 const Preconditions& preconditions = {});
// RFC 6902. Preconditions become leading "test" operations: a failed test is answered with 422, not
// 409.
[[nodiscard]] Request JsonPatch(std::string path,
                                api::Json operations,
                                const Preconditions& preconditions = {});
// Strategic merge patch; built-in kinds only.
[[nodiscard]] Request StrategicPatch(std::string path,
                                     api::Json patch,
                                     const Preconditions& preconditions = {});
// Server-side apply. `object` needs apiVersion, kind, metadata.name.
[[nodiscard]] Request Apply(std::string path,
                            api::Json object,
                            std::string_view field_manager,
                            Force force);
[[nodiscard]] Request Delete(std::string path, const DeleteQuery& query = {});

}  // namespace muster::k8s
