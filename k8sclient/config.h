#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

// How to reach an API server and who one is. Reading the files is here; using them is in
// beast_transport.
namespace muster::k8s {

struct ServerAddress {
  bool tls = true;
  std::string host;  // without brackets
  std::uint16_t port = 443;
  std::string base_path;  // "" or "/prefix", no trailing slash
};

struct TlsConfig {
  std::string ca_pem;    // empty: the system's authorities
  std::string cert_pem;  // client certificate; empty: none
  std::string key_pem;
  std::string server_name;  // name to check and to ask for; empty: the host
  bool insecure_skip_verify = false;
};

// client.authentication.k8s.io
struct ExecConfig {
  std::string command;
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;
  std::string api_version;
  std::string install_hint;
  bool provide_cluster_info = false;
  std::string cluster_info_json;  // spec.cluster of KUBERNETES_EXEC_INFO
  std::string working_directory;  // relative commands are relative to the kubeconfig
};

struct AuthConfig {
  std::string token;       // fixed
  std::string token_file;  // read anew as it rotates; wins over `token`
  std::string username;    // basic
  std::string password;
  std::optional<ExecConfig> exec;
  std::string impersonate_user;
  std::string impersonate_uid;
  std::vector<std::string> impersonate_groups;
  std::vector<std::pair<std::string, std::string>> impersonate_extra;
};

struct ProxyConfig {
  std::string host;
  std::uint16_t port = 0;
  std::string authorization;  // value of Proxy-Authorization, or empty
};

struct ConnectionConfig {
  ServerAddress server;
  TlsConfig tls;
  AuthConfig auth;
  std::optional<ProxyConfig> proxy;
  std::string ns = "default";  // of the context, or of the pod
  bool disable_compression = false;
  std::string source;  // where it came from, for messages
};

// What the loaders ask the world. Tests hand in their own.
struct ConfigEnvironment {
  std::function<std::optional<std::string>(std::string_view name)> getenv;
  std::function<Result<std::string>(const std::string& path)> read_file;

  [[nodiscard]] static ConfigEnvironment Real();
};

// One kubeconfig, or several separated by ':' that are merged: the first to name a cluster, user,
// context or current-context wins. Relative paths are relative to the file that holds them.
// `context` empty: the current one. Errors   kInvalid, naming file and field: `/etc/kc:
// users[1].user.client-key-data: not base64`. Secrets never appear.
[[nodiscard]] Result<ConnectionConfig> LoadKubeconfig(std::string_view paths,
                                                      std::string_view context,
                                                      const ConfigEnvironment& environment);

// The pod's service account.
[[nodiscard]] Result<ConnectionConfig> LoadInCluster(const ConfigEnvironment& environment);

// The usual order: `explicit_path` (--kubeconfig), $KUBECONFIG, in cluster, ~/.kube/config.
[[nodiscard]] Result<ConnectionConfig> LoadDefault(std::string_view explicit_path,
                                                   const ConfigEnvironment& environment);

// Pure parts, for tests.
[[nodiscard]] Result<ServerAddress> ParseServerUrl(std::string_view url);
[[nodiscard]] Result<ProxyConfig> ParseProxyUrl(std::string_view url);
// HTTPS_PROXY and NO_PROXY; loopback is never proxied.
[[nodiscard]] Result<std::optional<ProxyConfig>> ProxyFromEnvironment(
    const ServerAddress& server, const ConfigEnvironment& environment);

}  // namespace muster::k8s
