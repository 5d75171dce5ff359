#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/json.h"
#include "api/object.h"
#include "base/result.h"
#include "k8sclient/client.h"
#include "k8sclient/io_loop.h"

namespace muster::cli {

// A cluster as a command sees it: one request after the other, each waited for.
class Cluster {
 public:
  // Follows the usual order when `kubeconfig` is empty: KUBECONFIG, in-cluster, ~/.kube/config.
  // Errors   kInvalid: the configuration cannot be read, with file and field.
  [[nodiscard]] static Result<std::unique_ptr<Cluster>> Connect(const std::string& kubeconfig);

  // Errors   kRetry: no answer. An HTTP error is an Error too: kNotFound, kDenied, ... with the
  // server's message.
  [[nodiscard]] Result<api::Json> Send(k8s::Request request);
  [[nodiscard]] Result<api::Json> Get(std::string target);
  // All objects of a collection, page by page. A kind that is not served gives kNotFound.
  [[nodiscard]] Result<std::vector<api::Json>> List(const std::string& path);

  [[nodiscard]] const std::string& source() const { return source_; }
  // The namespace of the kubeconfig's context.
  [[nodiscard]] const std::string& ns() const { return ns_; }

 private:
  Cluster() = default;
  std::string source_;
  std::string ns_;
  k8s::IoLoop loop_;
  std::unique_ptr<k8s::Transport> transport_;
  std::unique_ptr<k8s::Client> client_;
};

// Every object of the kinds that decisions are made of.
struct Inventory {
  std::vector<api::Object> objects;
  std::vector<std::string> undecodable;  // "Kind ns/name: error"
  std::vector<api::Kind> absent;         // kinds that the server does not serve
};
[[nodiscard]] Result<Inventory> ReadAll(Cluster& cluster);

// The Configuration that the installed controller runs with (its ConfigMap), as far as it can be
// found and read; decisions depend on it.
[[nodiscard]] std::optional<api::Json> ReadConfiguration(Cluster& cluster);

// The exit code for an error of Connect, Send or List.
[[nodiscard]] int ExitCodeOf(const Error& error);

}  // namespace muster::cli
