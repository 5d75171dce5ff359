#pragma once

#include <optional>
#include <string>
#include <vector>

#include "k8sclient/request.h"
#include "sim/server.h"

// What a client asks before it asks for objects: versions, groups, resources, schemas, health; and
// lists in forms other than plain JSON.
namespace muster::sim {

// Answers requests that concern no object, or nullopt.
[[nodiscard]] std::optional<k8s::Response> Discover(const Server& server,
                                                    const k8s::Request& request,
                                                    const Target& target);

[[nodiscard]] Json OpenApiIndex(const Server& server);
[[nodiscard]] std::optional<Json> OpenApiDocument(const Server& server,
                                                  const std::string& group,
                                                  const std::string& version);
[[nodiscard]] Json OpenApiVersion2();

// A list as Table or PartialObjectMetadataList when the request asks for that, or nullopt.
[[nodiscard]] std::optional<Answer> ListInOtherForm(const Server& server,
                                                    const Call& call,
                                                    const std::vector<StoredPtr>& objects,
                                                    const Json& meta);

// One object of a watch in the form that the request asks for.
[[nodiscard]] std::string WatchObjectText(const Server& server,
                                          const Call& call,
                                          const Stored& object);
[[nodiscard]] std::string WatchBookmarkText(const Call& call, const Json& object);
// One object in the form that the request asks for, or nullopt when that is plain JSON.
[[nodiscard]] std::optional<Json> ObjectInOtherForm(const Server& server,
                                                    const Call& call,
                                                    const Stored& object);

}  // namespace muster::sim
