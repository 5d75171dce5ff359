#include "cli/cluster.h"

#include <optional>
#include <utility>

#include "api/yaml.h"
#include "cli/commands.h"
#include "k8sclient/beast_transport.h"
#include "k8sclient/config.h"
#include "k8sclient/requests.h"

namespace muster::cli {
namespace {

// A person waits: long enough for a busy server, short enough to be told.
constexpr Duration kPatience = std::chrono::seconds(40);
constexpr std::int64_t kPage = 500;

}  // namespace

Result<std::unique_ptr<Cluster>> Cluster::Connect(const std::string& kubeconfig) {
  MUSTER_ASSIGN_OR_RETURN(k8s::ConnectionConfig config,
                          k8s::LoadDefault(kubeconfig, k8s::ConfigEnvironment::Real()));
  std::unique_ptr<Cluster> cluster(new Cluster());
  cluster->source_ = config.source;
  cluster->ns_ = config.ns.empty() ? "default" : config.ns;
  MUSTER_ASSIGN_OR_RETURN(cluster->transport_,
                          k8s::MakeBeastTransport(cluster->loop_, std::move(config)));
  cluster->client_ = std::make_unique<k8s::Client>(
      *cluster->transport_, cluster->loop_, k8s::ClientOptions{.max_attempts = 3});
  return cluster;
}

Result<api::Json> Cluster::Send(k8s::Request request) {
  std::optional<k8s::Client::Reply> reply;
  client_->Send(std::move(request), [&](k8s::Client::Reply answer) { reply = std::move(answer); });
  const TimePoint deadline = loop_.Now() + kPatience;
  while (!reply && loop_.Now() < deadline) {
    loop_.RunFor(std::chrono::milliseconds(100));
  }
  if (!reply) {
    return std::unexpected(
        Error::Retry(source_ + ": no answer within " + FormatDuration(kPatience)));
  }
  if (!*reply) {
    return std::unexpected(Error(reply->error()));
  }
  return std::move(**reply);
}

Result<api::Json> Cluster::Get(std::string target) {
  return Send(k8s::Get(std::move(target)));
}

Result<std::vector<api::Json>> Cluster::List(const std::string& path) {
  std::vector<api::Json> out;
  k8s::ListQuery query{.limit = kPage};
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(api::Json page, Send(k8s::List(path, query)));
    if (!page.is_object() || !page.contains("items") || !page["items"].is_array()) {
      return std::unexpected(Error::Invalid(path + ": the answer is not a list"));
    }
    for (api::Json& item : page["items"]) {
      out.push_back(std::move(item));
    }
    query.continue_token = page.value("/metadata/continue"_json_pointer, "");
    if (query.continue_token.empty()) {
      return out;
    }
  }
}

Result<Inventory> ReadAll(Cluster& cluster) {
  Inventory out;
  for (const api::KindInfo& info : api::AllKinds()) {
    // These carry nothing for decisions.
    if (info.kind == api::Kind::kEvent || info.kind == api::Kind::kLease ||
        info.kind == api::Kind::kProvisioningRequestConfig ||
        info.kind == api::Kind::kMultiKueueConfig || info.kind == api::Kind::kMultiKueueCluster) {
      continue;
    }
    auto items = cluster.List(api::Path(info.kind, "", ""));
    if (!items) {
      if (items.error().code == ErrorCode::kNotFound) {
        out.absent.push_back(info.kind);
        continue;
      }
      return std::unexpected(items.error().At("listing " + std::string(info.plural)));
    }
    for (const api::Json& item : *items) {
      auto object = api::Decode(info.kind, item);
      if (object) {
        out.objects.push_back(std::move(*object));
      } else {
        out.undecodable.push_back(object.error().message);
      }
    }
  }
  return out;
}

std::optional<api::Json> ReadConfiguration(Cluster& cluster) {
  const auto maps = cluster.List("/api/v1/namespaces/muster-system/configmaps");
  if (!maps) {
    return std::nullopt;
  }
  for (const api::Json& map : *maps) {
    const api::Json data = map.value("data", api::Json::object());
    for (const auto& [name, text] : data.items()) {
      if (!text.is_string() ||
          !text.get_ref<const std::string&>().contains("config.kueue.x-k8s.io/")) {
        continue;
      }
      auto documents = api::ParseYaml(text.get_ref<const std::string&>(), name);
      if (documents && documents->size() == 1) {
        return std::move(documents->front().value);
      }
    }
  }
  return std::nullopt;
}

int ExitCodeOf(const Error& error) {
  switch (error.code) {
    case ErrorCode::kRetry:
    case ErrorCode::kDenied:
      return kUnreachable;
    case ErrorCode::kInvalid:
      return kUsage;
    case ErrorCode::kConflict:
    case ErrorCode::kGone:
    case ErrorCode::kNotFound:
      return kNo;
  }
  return kNo;
}

}  // namespace muster::cli
