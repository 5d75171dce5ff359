#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/api_server.h"
#include "sim/patching.h"

// A few words for tests that speak to the in-memory API server.
namespace muster::sim::test {

inline constexpr TimePoint kStart{std::chrono::seconds(1'800'000'000)};

struct Reply {
  int status = 0;
  Json body;
  std::vector<std::string> warnings;

  [[nodiscard]] std::string message() const {
    return body.is_object() ? body.value("message", "") : "";
  }
  [[nodiscard]] std::string reason() const {
    return body.is_object() ? body.value("reason", "") : "";
  }
};

class Client {
 public:
  explicit Client(ApiServerOptions options = {.install_crds = false, .install_policies = false})
      : server_(options) {}

  [[nodiscard]] ApiServer& server() { return server_; }
  TimePoint now = kStart;
  k8s::Headers headers;

  Reply Send(k8s::Method method,
             std::string target,
             std::string body,
             std::string_view content_type = k8s::kJson) {
    k8s::Request request;
    request.method = method;
    request.target = std::move(target);
    request.body = std::move(body);
    request.content_type = content_type;
    request.headers = headers;
    const k8s::Response response = server_.Handle(request, now);
    Reply reply{.status = response.status, .body = ParseJson(response.body), .warnings = {}};
    for (const auto& [name, value] : response.headers) {
      if (name == "warning") {
        reply.warnings.push_back(value);
      }
    }
    return reply;
  }
  Reply Get(std::string target) { return Send(k8s::Method::kGet, std::move(target), {}); }
  Reply Post(std::string target, const Json& body) {
    return Send(k8s::Method::kPost, std::move(target), body.dump());
  }
  Reply Put(std::string target, const Json& body) {
    return Send(k8s::Method::kPut, std::move(target), body.dump());
  }
  Reply Merge(std::string target, const Json& body) {
    return Send(k8s::Method::kPatch, std::move(target), body.dump(), k8s::kMergePatch);
  }
  Reply Strategic(std::string target, const Json& body) {
    return Send(k8s::Method::kPatch, std::move(target), body.dump(), k8s::kStrategicMergePatch);
  }
  Reply JsonPatch(std::string target, const Json& body) {
    return Send(k8s::Method::kPatch, std::move(target), body.dump(), k8s::kJsonPatch);
  }
  Reply Apply(std::string target, const Json& body) {
    return Send(k8s::Method::kPatch, std::move(target), body.dump(), k8s::kApplyPatch);
  }
  Reply Delete(std::string target, const Json& options = Json::object()) {
    return Send(k8s::Method::kDelete, std::move(target), options.dump());
  }
  std::unique_ptr<WatchStream> Watch(std::string target, int* status = nullptr) {
    k8s::Request request;
    request.target = std::move(target);
    k8s::Response error;
    auto stream = server_.OpenWatch(request, now, error);
    if (status != nullptr) {
      *status = stream ? 200 : error.status;
    }
    return stream;
  }
  // The events that have become available.
  static std::vector<Json> Events(WatchStream& stream) {
    std::vector<Json> out;
    const std::string text = stream.Read();
    std::size_t at = 0;
    while (at < text.size()) {
      const std::size_t end = text.find('\n', at);
      out.push_back(ParseJson(std::string_view(text).substr(at, end - at)));
      at = end + 1;
    }
    return out;
  }

 private:
  ApiServer server_;
};

}  // namespace muster::sim::test
