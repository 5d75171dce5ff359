#include "k8sclient/config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <map>

#include "api/json.h"
#include "api/yaml.h"
#include "base/digest.h"
#include "base/strings.h"

namespace muster::k8s {
namespace {

using api::Json;

constexpr std::string_view kServiceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount";
constexpr std::size_t kMaxFile = 16UL << 20;

std::unexpected<Error> Invalid(std::string message) {
  return std::unexpected(Error::Invalid(std::move(message)));
}

std::string DirectoryOf(const std::string& file) {
  const std::size_t slash = file.rfind('/');
  return slash == std::string::npos ? std::string(".")
                                    : file.substr(0, std::max<std::size_t>(slash, 1));
}

std::string Resolve(const std::string& path, const std::string& file) {
  if (path.empty() || path.front() == '/') {
    return path;
  }
  const std::string directory = DirectoryOf(file);
  return directory.ends_with('/') ? directory + path : directory + "/" + path;
}

// One named entry of a kubeconfig and where it stood, for messages and for relative paths.
struct Entry {
  Json value;
  std::string file;
  std::string where;  // "users[1].user"
};

struct Merged {
  std::map<std::string, Entry, std::less<>> clusters;
  std::map<std::string, Entry, std::less<>> users;
  std::map<std::string, Entry, std::less<>> contexts;
  std::string current;
};

const Json* Find(const Json& object, std::string_view key) {
  if (!object.is_object()) {
    return nullptr;
  }
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

// Reads the fields of one entry; the first thing wrong is kept.
class Reader {
 public:
  explicit Reader(const Entry& entry) : entry_(entry) {}

  [[nodiscard]] std::string String(std::string_view key) {
    return StringOf(Find(entry_.value, key), key);
  }

  [[nodiscard]] bool Bool(std::string_view key) {
    const Json* value = Find(entry_.value, key);
    if (value == nullptr) {
      return false;
    }
    if (!value->is_boolean()) {
      Fail(key, "must be true or false");
      return false;
    }
    return value->get<bool>();
  }

  [[nodiscard]] std::vector<std::string> Strings(std::string_view key) {
    return StringsOf(Find(entry_.value, key), key);
  }

  [[nodiscard]] std::string StringOf(const Json* value, std::string_view key) {
    if (value == nullptr) {
      return {};
    }
    if (!value->is_string()) {
      Fail(key, "must be a string");
      return {};
    }
    return value->get<std::string>();
  }

  [[nodiscard]] std::vector<std::string> StringsOf(const Json* value, std::string_view key) {
    std::vector<std::string> out;
    if (value == nullptr) {
      return out;
    }
    if (!value->is_array()) {
      Fail(key, "must be a list");
      return out;
    }
    for (std::size_t i = 0; i < value->size(); ++i) {
      out.push_back(StringOf(&(*value)[i], std::string(key) + "[" + std::to_string(i) + "]"));
    }
    return out;
  }

  // `key`-data in base64, or the file that `key` names; the data win, as everywhere.
  [[nodiscard]] std::string Pem(std::string_view key, const ConfigEnvironment& environment) {
    const std::string data_key = std::string(key) + "-data";
    if (const std::string data = String(data_key); !data.empty()) {
      std::string out;
      if (!Base64Decode(data, out)) {
        Fail(data_key, "not base64");
      }
      return out;
    }
    const std::string path = String(key);
    if (path.empty()) {
      return {};
    }
    Result<std::string> text = environment.read_file(Resolve(path, entry_.file));
    if (!text) {
      Fail(key, text.error().message);
      return {};
    }
    return std::move(*text);
  }

  void Fail(std::string_view key, std::string_view what) {
    if (!error_) {
      error_ = Error::Invalid(entry_.file + ": " + entry_.where + "." + std::string(key) + ": " +
                              std::string(what));
    }
  }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  const Entry& entry_;
  std::optional<Error> error_;
};

Status AddEntries(const Json& config,
                  const char* list,
                  const char* field,
                  const std::string& file,
                  std::map<std::string, Entry, std::less<>>& into) {
  const Json* entries = Find(config, list);
  if (entries == nullptr) {
    return {};
  }
  if (!entries->is_array()) {
    return Invalid(file + ": " + list + ": must be a list");
  }
  for (std::size_t i = 0; i < entries->size(); ++i) {
    const Json& entry = (*entries)[i];
    const std::string where = std::string(list) + "[" + std::to_string(i) + "]";
    const Json* name = Find(entry, "name");
    if (name == nullptr || !name->is_string()) {
      return Invalid(file + ": " + where + ".name: must be a string");
    }
    const Json* value = Find(entry, field);
    if (value != nullptr && !value->is_object()) {
      return Invalid(file + ": " + where + "." + field + ": must be an object");
    }
    into.try_emplace(name->get<std::string>(),
                     Entry{.value = value == nullptr ? Json::object() : *value,
                           .file = file,
                           .where = where + "." + field});
  }
  return {};
}

Status AddFile(const std::string& file, const std::string& text, Merged& merged) {
  Json config;
  if (const std::string_view trimmed = TrimSpace(text); trimmed.starts_with('{')) {
    Result<Json> json = api::ParseJson(trimmed);
    if (!json) {
      return std::unexpected(json.error().At(file));
    }
    config = std::move(*json);
  } else {
    Result<std::vector<api::YamlDocument>> documents = api::ParseYaml(text, file);
    if (!documents) {
      return std::unexpected(std::move(documents).error());
    }
    if (documents->empty()) {
      return {};
    }
    config = std::move(documents->front().value);
  }
  if (!config.is_object()) {
    return Invalid(file + ": not a kubeconfig: must be an object");
  }
  if (const Json* kind = Find(config, "kind"); kind != nullptr && *kind != "Config") {
    return Invalid(file + ": kind: must be Config");
  }
  MUSTER_RETURN_IF_ERROR(AddEntries(config, "clusters", "cluster", file, merged.clusters));
  MUSTER_RETURN_IF_ERROR(AddEntries(config, "users", "user", file, merged.users));
  MUSTER_RETURN_IF_ERROR(AddEntries(config, "contexts", "context", file, merged.contexts));
  if (const Json* current = Find(config, "current-context"); current != nullptr) {
    if (!current->is_string()) {
      return Invalid(file + ": current-context: must be a string");
    }
    if (merged.current.empty()) {
      merged.current = current->get<std::string>();
    }
  }
  return {};
}

Status ReadCluster(const Entry& entry,
                   const ConfigEnvironment& environment,
                   ConnectionConfig& out) {
  Reader reader(entry);
  const std::string server = reader.String("server");
  if (server.empty()) {
    reader.Fail("server", "is missing");
  } else if (Result<ServerAddress> address = ParseServerUrl(server)) {
    out.server = std::move(*address);
  } else {
    reader.Fail("server", address.error().message);
  }
  out.tls.insecure_skip_verify = reader.Bool("insecure-skip-tls-verify");
  out.tls.server_name = reader.String("tls-server-name");
  out.tls.ca_pem = reader.Pem("certificate-authority", environment);
  out.disable_compression = reader.Bool("disable-compression");
  if (out.tls.insecure_skip_verify && !out.tls.ca_pem.empty()) {
    reader.Fail("insecure-skip-tls-verify", "may not be true beside a certificate authority");
  }
  const std::string proxy = reader.String("proxy-url");
  if (!proxy.empty()) {
    if (Result<ProxyConfig> parsed = ParseProxyUrl(proxy)) {
      out.proxy = std::move(*parsed);
    } else {
      reader.Fail("proxy-url", parsed.error().message);
    }
  }
  if (reader.error()) {
    return std::unexpected(*reader.error());
  }
  if (proxy.empty()) {
    MUSTER_ASSIGN_OR_RETURN(out.proxy, ProxyFromEnvironment(out.server, environment));
  }
  return {};
}

void ReadExec(const Json& exec,
              const Entry& entry,
              const Entry& cluster,
              Reader& reader,
              ConnectionConfig& out) {
  ExecConfig config;
  config.command = reader.StringOf(Find(exec, "command"), "exec.command");
  config.args = reader.StringsOf(Find(exec, "args"), "exec.args");
  config.api_version = reader.StringOf(Find(exec, "apiVersion"), "exec.apiVersion");
  config.install_hint = reader.StringOf(Find(exec, "installHint"), "exec.installHint");
  const std::string mode = reader.StringOf(Find(exec, "interactiveMode"), "exec.interactiveMode");
  if (const Json* info = Find(exec, "provideClusterInfo")) {
    config.provide_cluster_info = *info == true;
  }
  if (const Json* env = Find(exec, "env")) {
    for (std::size_t i = 0; env->is_array() && i < env->size(); ++i) {
      const std::string where = "exec.env[" + std::to_string(i) + "]";
      config.env.emplace_back(reader.StringOf(Find((*env)[i], "name"), where + ".name"),
                              reader.StringOf(Find((*env)[i], "value"), where + ".value"));
    }
    if (!env->is_array()) {
      reader.Fail("exec.env", "must be a list");
    }
  }
  if (config.command.empty()) {
    reader.Fail("exec.command", "is missing");
  }
  if (config.api_version != "client.authentication.k8s.io/v1" &&
      config.api_version != "client.authentication.k8s.io/v1beta1") {
    reader.Fail("exec.apiVersion", "must be client.authentication.k8s.io/v1 or v1beta1");
  }
  if (mode == "Always") {
    reader.Fail("exec.interactiveMode", "unsupported: Always (a service has no terminal)");
  } else if (!mode.empty() && mode != "Never" && mode != "IfAvailable") {
    reader.Fail("exec.interactiveMode", "must be Never, IfAvailable or Always");
  }
  // A bare name is looked up in PATH; anything with a slash is relative to the file.
  if (config.command.contains('/')) {
    config.command = Resolve(config.command, entry.file);
  }
  if (config.provide_cluster_info) {
    Json info = Json::object();
    for (const auto* key : {"server",
                            "tls-server-name",
                            "insecure-skip-tls-verify",
                            "proxy-url",
                            "disable-compression"}) {
      if (const Json* value = Find(cluster.value, key)) {
        info[key] = *value;
      }
    }
    if (!out.tls.ca_pem.empty()) {
      info["certificate-authority-data"] = Base64Encode(out.tls.ca_pem);
    }
    if (const Json* extensions = Find(cluster.value, "extensions");
        extensions != nullptr && extensions->is_array()) {
      for (const Json& extension : *extensions) {
        const Json* name = Find(extension, "name");
        const Json* value = Find(extension, "extension");
        if (name != nullptr && *name == "client.authentication.k8s.io/exec" && value != nullptr) {
          info["config"] = *value;
        }
      }
    }
    config.cluster_info_json = api::Dump(info);
  }
  out.auth.exec = std::move(config);
}

Status ReadUser(const Entry& entry,
                const Entry& cluster,
                const ConfigEnvironment& environment,
                ConnectionConfig& out) {
  Reader reader(entry);
  out.tls.cert_pem = reader.Pem("client-certificate", environment);
  out.tls.key_pem = reader.Pem("client-key", environment);
  if (out.tls.cert_pem.empty() != out.tls.key_pem.empty()) {
    reader.Fail("client-certificate", "certificate and key must both be there");
  }
  out.auth.token = reader.String("token");
  out.auth.token_file = Resolve(reader.String("tokenFile"), entry.file);
  out.auth.username = reader.String("username");
  out.auth.password = reader.String("password");
  out.auth.impersonate_user = reader.String("as");
  out.auth.impersonate_uid = reader.String("as-uid");
  out.auth.impersonate_groups = reader.Strings("as-groups");
  if (const Json* extra = Find(entry.value, "as-user-extra"); extra != nullptr) {
    if (!extra->is_object()) {
      reader.Fail("as-user-extra", "must be an object");
    } else {
      for (const auto& [key, values] : extra->items()) {
        for (std::string& value : reader.StringsOf(&values, "as-user-extra." + key)) {
          out.auth.impersonate_extra.emplace_back(key, std::move(value));
        }
      }
    }
  }
  if (out.auth.impersonate_user.empty() &&
      (!out.auth.impersonate_uid.empty() || !out.auth.impersonate_groups.empty() ||
       !out.auth.impersonate_extra.empty())) {
    reader.Fail("as", "is missing beside as-uid, as-groups or as-user-extra");
  }
  if (Find(entry.value, "auth-provider") != nullptr) {
    reader.Fail("auth-provider", "unsupported: use an exec credential plugin");
  }
  if (const Json* exec = Find(entry.value, "exec"); exec != nullptr) {
    if (!exec->is_object()) {
      reader.Fail("exec", "must be an object");
    } else {
      ReadExec(*exec, entry, cluster, reader, out);
    }
  }
  if (reader.error()) {
    return std::unexpected(*reader.error());
  }
  return {};
}

Result<std::uint16_t> ParsePort(std::string_view text) {
  std::uint16_t port = 0;
  const auto [at, failed] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (failed != std::errc() || at != text.data() + text.size() || port == 0) {
    return Invalid("bad port");
  }
  return port;
}

bool HasControlOrSpace(std::string_view text) {
  return std::ranges::any_of(
      text, [](char c) { return static_cast<unsigned char>(c) <= 0x20 || c == 0x7F; });
}

struct Authority {
  std::string userinfo;
  std::string host;
  std::optional<std::uint16_t> port;
};

Result<Authority> ParseAuthority(std::string_view text) {
  Authority out;
  if (const std::size_t at = text.rfind('@'); at != std::string_view::npos) {
    out.userinfo = text.substr(0, at);
    text.remove_prefix(at + 1);
  }
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) {
      return Invalid("bad host");
    }
    out.host = text.substr(1, close - 1);
    text.remove_prefix(close + 1);
    if (!text.empty() && text.front() != ':') {
      return Invalid("bad host");
    }
    port = text.empty() ? text : text.substr(1);
  } else if (const std::size_t colon = text.find(':'); colon != std::string_view::npos) {
    out.host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (port.contains(':')) {
      return Invalid("an IPv6 address must stand in brackets");
    }
  } else {
    out.host = text;
  }
  if (out.host.empty() || HasControlOrSpace(out.host)) {
    return Invalid("bad host");
  }
  if (!port.empty()) {
    MUSTER_ASSIGN_OR_RETURN(out.port, ParsePort(port));
  }
  return out;
}

bool IsLoopback(std::string_view host) {
  return host == "localhost" || host.starts_with("127.") || host == "::1";
}

// An IPv4 address as a number, for ranges in NO_PROXY.
std::optional<std::uint32_t> ParseIpv4(std::string_view text) {
  std::uint32_t out = 0;
  const std::vector<std::string> parts = Split(text, '.');
  if (parts.size() != 4) {
    return std::nullopt;
  }
  for (const std::string& part : parts) {
    std::uint8_t byte = 0;
    const auto [at, failed] = std::from_chars(part.data(), part.data() + part.size(), byte);
    if (part.empty() || failed != std::errc() || at != part.data() + part.size()) {
      return std::nullopt;
    }
    out = out << 8U | byte;
  }
  return out;
}

bool NoProxyMatches(std::string_view pattern, const ServerAddress& server) {
  const std::string host = ToLower(server.host);
  std::string entry = ToLower(TrimSpace(pattern));
  if (entry == "*") {
    return true;
  }
  if (const std::size_t slash = entry.find('/'); slash != std::string::npos) {
    const std::optional<std::uint32_t> network =
        ParseIpv4(std::string_view(entry).substr(0, slash));
    const std::optional<std::uint32_t> address = ParseIpv4(host);
    unsigned bits = 0;
    const char* end = entry.data() + entry.size();
    const auto [at, failed] = std::from_chars(entry.data() + slash + 1, end, bits);
    if (!network || !address || failed != std::errc() || at != end || bits > 32) {
      return false;
    }
    return bits == 0 || (*network >> (32 - bits)) == (*address >> (32 - bits));
  }
  if (const std::size_t colon = entry.rfind(':');
      colon != std::string::npos && entry.find(':') == colon) {
    if (entry.substr(colon + 1) != std::to_string(server.port)) {
      return false;
    }
    entry.resize(colon);
  }
  if (entry.starts_with("*.")) {
    entry.erase(0, 1);
  }
  if (entry.empty()) {
    return false;
  }
  if (entry.starts_with('.')) {
    return host.ends_with(entry);
  }
  return host == entry || host.ends_with("." + entry);
}

}  // namespace

ConfigEnvironment ConfigEnvironment::Real() {
  return ConfigEnvironment{.getenv = [](std::string_view name) -> std::optional<std::string> {
                             const char* value = std::getenv(std::string(name).c_str());
                             return value == nullptr ? std::nullopt
                                                     : std::optional<std::string>(value);
                           },
                           .read_file = [](const std::string& path) -> Result<std::string> {
                             std::ifstream in(path, std::ios::binary);
                             if (!in) {
                               return std::unexpected(Error{.code = ErrorCode::kNotFound,
                                                            .message = path + ": cannot be read"});
                             }
                             std::string out;
                             std::array<char, 65536> chunk{};
                             while (in.read(chunk.data(), chunk.size()) || in.gcount() > 0) {
                               out.append(chunk.data(), static_cast<std::size_t>(in.gcount()));
                               if (out.size() > kMaxFile) {
                                 return Invalid(path + ": larger than 16 MiB");
                               }
                             }
                             if (in.bad()) {
                               return std::unexpected(Error{.code = ErrorCode::kNotFound,
                                                            .message = path + ": cannot be read"});
                             }
                             return out;
                           }};
}

Result<ServerAddress> ParseServerUrl(std::string_view url) {
  ServerAddress out;
  if (url.starts_with("https://")) {
    url.remove_prefix(8);
  } else if (url.starts_with("http://")) {
    url.remove_prefix(7);
    out.tls = false;
    out.port = 80;
  } else if (url.contains("://")) {
    return Invalid("the scheme must be https or http");
  } else {
    // As kubectl reads it: a bare host means plain HTTP.
    out.tls = false;
    out.port = 80;
  }
  if (HasControlOrSpace(url) || url.find_first_of("?#") != std::string_view::npos) {
    return Invalid("must be a plain URL");
  }
  const std::size_t slash = url.find('/');
  MUSTER_ASSIGN_OR_RETURN(const Authority authority, ParseAuthority(url.substr(0, slash)));
  if (!authority.userinfo.empty()) {
    return Invalid("must hold no user");
  }
  out.host = authority.host;
  out.port = authority.port.value_or(out.port);
  if (slash != std::string_view::npos) {
    std::string_view path = url.substr(slash);
    while (path.ends_with('/')) {
      path.remove_suffix(1);
    }
    out.base_path = path;
  }
  return out;
}

Result<ProxyConfig> ParseProxyUrl(std::string_view url) {
  if (url.starts_with("https://") || url.starts_with("socks5://")) {
    return Invalid("unsupported: only http:// proxies");
  }
  if (url.starts_with("http://")) {
    url.remove_prefix(7);
  } else if (url.contains("://")) {
    return Invalid("the scheme must be http");
  }
  url = url.substr(0, url.find('/'));
  MUSTER_ASSIGN_OR_RETURN(const Authority authority, ParseAuthority(url));
  ProxyConfig out{.host = authority.host, .port = authority.port.value_or(80), .authorization = {}};
  if (!authority.userinfo.empty()) {
    const std::size_t colon = authority.userinfo.find(':');
    const std::string user = PercentDecode(authority.userinfo.substr(0, colon));
    const std::string password = colon == std::string::npos
                                     ? std::string()
                                     : PercentDecode(authority.userinfo.substr(colon + 1));
    out.authorization = "Basic " + Base64Encode(user + ":" + password);
  }
  return out;
}

Result<std::optional<ProxyConfig>> ProxyFromEnvironment(const ServerAddress& server,
                                                        const ConfigEnvironment& environment) {
  const auto either = [&](std::string_view upper, std::string_view lower) -> std::string {
    std::string value = environment.getenv(upper).value_or("");
    return value.empty() ? environment.getenv(lower).value_or("") : value;
  };
  const std::string proxy =
      server.tls ? either("HTTPS_PROXY", "https_proxy") : either("HTTP_PROXY", "http_proxy");
  if (proxy.empty() || IsLoopback(server.host)) {
    return std::nullopt;
  }
  for (const std::string& pattern : Split(either("NO_PROXY", "no_proxy"), ',')) {
    if (NoProxyMatches(pattern, server)) {
      return std::nullopt;
    }
  }
  Result<ProxyConfig> parsed = ParseProxyUrl(proxy);
  if (!parsed) {
    return std::unexpected(parsed.error().At(server.tls ? "HTTPS_PROXY" : "HTTP_PROXY"));
  }
  return std::move(*parsed);
}

Result<ConnectionConfig> LoadKubeconfig(std::string_view paths,
                                        std::string_view context,
                                        const ConfigEnvironment& environment) {
  Merged merged;
  std::vector<std::string> files;
  for (std::string& path : Split(paths, ':')) {
    if (!path.empty()) {
      files.push_back(std::move(path));
    }
  }
  std::size_t found = 0;
  for (const std::string& file : files) {
    Result<std::string> text = environment.read_file(file);
    if (!text) {
      // Of several files some may be absent; a single one must be there.
      if (files.size() > 1 && text.error().code == ErrorCode::kNotFound) {
        continue;
      }
      return std::unexpected(Error::Invalid("kubeconfig: " + text.error().message));
    }
    ++found;
    MUSTER_RETURN_IF_ERROR(AddFile(file, *text, merged));
  }
  const std::string name = context.empty() ? merged.current : std::string(context);
  const std::string all(paths);
  if (found == 0) {
    return Invalid(all + ": no kubeconfig could be read");
  }
  if (name.empty()) {
    return Invalid(all + ": current-context: is missing");
  }
  const auto chosen = merged.contexts.find(name);
  if (chosen == merged.contexts.end()) {
    return Invalid(all + ": current-context: there is no context \"" + name + "\"");
  }
  const Entry& entry = chosen->second;
  Reader reader(entry);
  const std::string cluster_name = reader.String("cluster");
  const std::string user_name = reader.String("user");
  ConnectionConfig out;
  out.source = entry.file;
  if (const std::string ns = reader.String("namespace"); !ns.empty()) {
    out.ns = ns;
  }
  const auto cluster = merged.clusters.find(cluster_name);
  if (cluster == merged.clusters.end()) {
    reader.Fail("cluster", "there is no cluster \"" + cluster_name + "\"");
  }
  const auto user = merged.users.find(user_name);
  if (!user_name.empty() && user == merged.users.end()) {
    reader.Fail("user", "there is no user \"" + user_name + "\"");
  }
  if (reader.error()) {
    return std::unexpected(*reader.error());
  }
  MUSTER_RETURN_IF_ERROR(ReadCluster(cluster->second, environment, out));
  if (user != merged.users.end()) {
    MUSTER_RETURN_IF_ERROR(ReadUser(user->second, cluster->second, environment, out));
  }
  return out;
}

Result<ConnectionConfig> LoadInCluster(const ConfigEnvironment& environment) {
  const std::string host = environment.getenv("KUBERNETES_SERVICE_HOST").value_or("");
  const std::string port = environment.getenv("KUBERNETES_SERVICE_PORT").value_or("");
  if (host.empty() || port.empty()) {
    return Invalid("in cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set");
  }
  const std::string dir(kServiceAccountDir);
  ConnectionConfig out;
  out.source = dir;
  out.server.host = host;
  Result<std::uint16_t> parsed = ParsePort(port);
  if (!parsed) {
    return std::unexpected(parsed.error().At("KUBERNETES_SERVICE_PORT"));
  }
  out.server.port = *parsed;
  out.auth.token_file = dir + "/token";
  Result<std::string> token = environment.read_file(out.auth.token_file);
  if (!token) {
    return std::unexpected(Error::Invalid("in cluster: " + token.error().message));
  }
  Result<std::string> ca = environment.read_file(dir + "/ca.crt");
  if (!ca) {
    return std::unexpected(Error::Invalid("in cluster: " + ca.error().message));
  }
  out.tls.ca_pem = std::move(*ca);
  if (const Result<std::string> ns = environment.read_file(dir + "/namespace")) {
    if (const std::string_view trimmed = TrimSpace(*ns); !trimmed.empty()) {
      out.ns = trimmed;
    }
  }
  return out;
}

Result<ConnectionConfig> LoadDefault(std::string_view explicit_path,
                                     const ConfigEnvironment& environment) {
  if (!explicit_path.empty()) {
    return LoadKubeconfig(explicit_path, {}, environment);
  }
  if (const std::string paths = environment.getenv("KUBECONFIG").value_or(""); !paths.empty()) {
    return LoadKubeconfig(paths, {}, environment);
  }
  if (!environment.getenv("KUBERNETES_SERVICE_HOST").value_or("").empty()) {
    return LoadInCluster(environment);
  }
  const std::string home = environment.getenv("HOME").value_or("");
  if (home.empty()) {
    return Invalid(
        "no kubeconfig: --kubeconfig, KUBECONFIG and HOME are not set, and this is no pod");
  }
  return LoadKubeconfig(home + "/.kube/config", {}, environment);
}

}  // namespace muster::k8s
