#include "k8sclient/config.h"

#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/json.h"
#include "base/digest.h"
#include "k8sclient/exec_credential.h"

namespace muster::k8s {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Files {
  std::map<std::string, std::string> files;
  std::map<std::string, std::string> env;

  [[nodiscard]] ConfigEnvironment Environment() const {
    return {.getenv = [this](std::string_view name) -> std::optional<std::string> {
              const auto it = env.find(std::string(name));
              return it == env.end() ? std::nullopt : std::optional(it->second);
            },
            .read_file = [this](const std::string& path) -> Result<std::string> {
              const auto it = files.find(path);
              if (it == files.end()) {
                return std::unexpected(
                    Error{.code = ErrorCode::kNotFound, .message = path + ": cannot be read"});
              }
              return it->second;
            }};
  }
};

std::string Config(const std::string& cluster, const std::string& user) {
  return "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
         "contexts:\n- name: c\n  context: {cluster: k, user: u, namespace: team}\n"
         "clusters:\n- name: k\n  cluster: " +
         cluster + "\nusers:\n- name: u\n  user: " + user + "\n";
}

TEST(Kubeconfig, ReadsClusterAndUser) {
  Files f;
  f.files["/etc/kc/config"] = Config(
      "{server: 'https://[fd00::1]:6443/prefix/', tls-server-name: api, "
      "certificate-authority-data: " +
          Base64Encode("CA") + ", proxy-url: 'http://me:p%40ss@proxy:3128'}",
      "{client-certificate: certs/c.pem, client-key-data: " + Base64Encode("KEY") +
          ", tokenFile: token, as: bob, as-groups: [g1, g2], as-user-extra: {x: [z]}}");
  f.files["/etc/kc/certs/c.pem"] = "CERT";
  const auto config = LoadKubeconfig("/etc/kc/config", "", f.Environment());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->server.host, "fd00::1");
  EXPECT_EQ(config->server.port, 6443);
  EXPECT_EQ(config->server.base_path, "/prefix");
  EXPECT_TRUE(config->server.tls);
  EXPECT_EQ(config->tls.server_name, "api");
  EXPECT_EQ(config->tls.ca_pem, "CA");
  EXPECT_EQ(config->tls.cert_pem, "CERT");
  EXPECT_EQ(config->tls.key_pem, "KEY");
  EXPECT_EQ(config->auth.token_file, "/etc/kc/token");
  EXPECT_EQ(config->auth.impersonate_groups.size(), 2U);
  EXPECT_EQ(config->ns, "team");
  ASSERT_TRUE(config->proxy);
  EXPECT_EQ(config->proxy->host, "proxy");
  EXPECT_EQ(config->proxy->authorization, "Basic " + Base64Encode("me:p@ss"));
}

TEST(Kubeconfig, MergesSeveralFilesTheFirstWins) {
  Files f;
  f.files["/a"] = "current-context: two\nusers:\n- name: u\n  user: {token: first}\n";
  f.files["/b"] =
      "current-context: one\nusers:\n- name: u\n  user: {token: second}\n"
      "contexts:\n- name: two\n  context: {cluster: k, user: u}\nclusters:\n- name: k\n  cluster: "
      "{server: 'http://h'}\n";
  const auto config = LoadKubeconfig("/absent:/a::/b", "", f.Environment());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->auth.token, "first");
  EXPECT_EQ(config->server.port, 80);
  EXPECT_FALSE(config->server.tls);
  EXPECT_EQ(config->ns, "default");
  // JSON is a kubeconfig too.
  f.files["/j"] =
      R"({"current-context":"x","contexts":[{"name":"x","context":{"cluster":"k"}}],"clusters":[{"name":"k","cluster":{"server":"https://h"}}]})";
  EXPECT_TRUE(LoadKubeconfig("/j", "", f.Environment()));
}

TEST(Kubeconfig, ErrorsNameFileAndFieldAndNoSecret) {
  struct Row {
    std::string text;
    std::string expect;
  };
  const std::string good = "{server: 'https://h'}";
  const std::vector<Row> rows{
      {"[]", "/kc: not a kubeconfig"},
      {"kind: Pod", "/kc: kind: must be Config"},
      {"users: 7", "/kc: users: must be a list"},
      {"users: [{}]", "/kc: users[0].name: must be a string"},
      {"users: [{name: a, user: []}]", "/kc: users[0].user: must be an object"},
      {"a: {b", "/kc:"},
      {"users: []", "current-context: is missing"},
      {"current-context: z", "there is no context \"z\""},
      {Config("{}", "{}"), "/kc: clusters[0].cluster.server: is missing"},
      {Config("{server: 'ftp://h'}", "{}"), "clusters[0].cluster.server: the scheme"},
      {Config("{server: 'https://h:99999'}", "{}"), "clusters[0].cluster.server: bad port"},
      {Config("{server: 'https://h', certificate-authority-data: '***'}", "{}"),
       "certificate-authority-data: not base64"},
      {Config("{server: 'https://h', certificate-authority: gone}", "{}"),
       "certificate-authority: /gone: cannot be read"},
      {Config("{server: 'https://h', insecure-skip-tls-verify: 'yes'}", "{}"),
       "must be true or false"},
      {Config("{server: 'https://h', proxy-url: 'socks5://p'}", "{}"), "proxy-url: unsupported"},
      {Config(good, "{token: [s3cret]}"), "users[0].user.token: must be a string"},
      {Config(good, "{client-key-data: s3cret!}"), "client-key-data: not base64"},
      {Config(good, "{client-key-data: " + Base64Encode("s3cret") + "}"),
       "certificate and key must both be there"},
      {Config(good, "{auth-provider: {name: gcp}}"), "auth-provider: unsupported"},
      {Config(good, "{exec: {command: x}}"), "exec.apiVersion: must be"},
      {Config(good, "{exec: {apiVersion: client.authentication.k8s.io/v1}}"),
       "exec.command: is missing"},
      {Config(good,
              "{exec: {apiVersion: client.authentication.k8s.io/v1, command: x, interactiveMode: "
              "Always}}"),
       "unsupported: Always"},
      {Config(good, "{as-groups: [a]}"), "users[0].user.as: is missing"},
  };
  for (const Row& row : rows) {
    Files f;
    f.files["/kc"] = row.text;
    const auto config = LoadKubeconfig("/kc", "", f.Environment());
    ASSERT_FALSE(config) << row.text;
    EXPECT_EQ(config.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(config.error().message, HasSubstr(row.expect)) << row.text;
    EXPECT_THAT(config.error().message, HasSubstr("/kc"));
    EXPECT_THAT(config.error().message, Not(HasSubstr("s3cret")));
  }
}

TEST(Kubeconfig, FollowsTheUsualOrder) {
  Files f;
  f.files["/x"] = Config("{server: 'https://explicit'}", "{}");
  f.files["/k"] = Config("{server: 'https://env'}", "{}");
  f.files["/home/u/.kube/config"] = Config("{server: 'https://home'}", "{}");
  const std::string dir = "/var/run/secrets/kubernetes.io/serviceaccount/";
  f.files[dir + "token"] = "t\n";
  f.files[dir + "ca.crt"] = "CA";
  f.files[dir + "namespace"] = "muster-system\n";
  EXPECT_FALSE(LoadDefault("", f.Environment()));
  f.env["HOME"] = "/home/u";
  EXPECT_EQ(LoadDefault("", f.Environment())->server.host, "home");
  f.env["KUBERNETES_SERVICE_HOST"] = "10.0.0.1";
  f.env["KUBERNETES_SERVICE_PORT"] = "443";
  const auto in_cluster = LoadDefault("", f.Environment());
  ASSERT_TRUE(in_cluster);
  EXPECT_EQ(in_cluster->server.host, "10.0.0.1");
  EXPECT_EQ(in_cluster->auth.token_file, dir + "token");
  EXPECT_EQ(in_cluster->tls.ca_pem, "CA");
  EXPECT_EQ(in_cluster->ns, "muster-system");
  f.env["KUBECONFIG"] = "/k";
  EXPECT_EQ(LoadDefault("", f.Environment())->server.host, "env");
  EXPECT_EQ(LoadDefault("/x", f.Environment())->server.host, "explicit");
}

TEST(Kubeconfig, TakesTheProxyFromTheEnvironmentUnlessExcepted) {
  Files f;
  f.env["HTTPS_PROXY"] = "http://proxy:8080";
  f.env["NO_PROXY"] = "example.com, .svc,10.0.0.0/8,exact.org:6443";
  struct Row {
    const char* host;
    std::uint16_t port;
    bool proxied;
  };
  for (const Row& row : std::vector<Row>{{"api.k8s.io", 443, true},
                                         {"127.0.0.1", 443, false},
                                         {"localhost", 443, false},
                                         {"::1", 443, false},
                                         {"example.com", 443, false},
                                         {"a.example.com", 443, false},
                                         {"badexample.com", 443, true},
                                         {"a.svc", 443, false},
                                         {"10.9.8.7", 443, false},
                                         {"11.9.8.7", 443, true},
                                         {"exact.org", 6443, false},
                                         {"exact.org", 443, true}}) {
    const auto proxy =
        ProxyFromEnvironment({.tls = true, .host = row.host, .port = row.port}, f.Environment());
    ASSERT_TRUE(proxy);
    EXPECT_EQ(proxy->has_value(), row.proxied) << row.host;
  }
}

ExecConfig Plugin() {
  return {.command = "x", .api_version = "client.authentication.k8s.io/v1"};
}

TEST(ExecPlugin, AnswersAreChecked) {
  const std::string head =
      R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":)";
  const auto good = ParseExecCredential(
      Plugin(), head + R"({"token":"t","expirationTimestamp":"2026-11-30T12:00:00Z"}})");
  ASSERT_TRUE(good);
  EXPECT_EQ(good->token, "t");
  EXPECT_EQ(FormatTime(*good->expires), "2026-11-30T12:00:00Z");
  for (
      const std::string bad :
      {std::string("s3cret"),
       std::string("[]"),
       std::string(
           R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1","status":{"token":"s3cret"}})"),
       head + "{}}",
       head + R"({"token":7}})",
       head + R"({"token":"s3cret","expirationTimestamp":"soon"}})",
       head + R"({"clientKeyData":"s3cret"}})"}) {
    const auto refused = ParseExecCredential(Plugin(), bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_THAT(refused.error().message, Not(HasSubstr("s3cret")));
  }
  ExecConfig with_cluster = Plugin();
  with_cluster.provide_cluster_info = true;
  with_cluster.cluster_info_json = R"({"server":"https://h"})";
  EXPECT_EQ(
      api::Json::parse(ExecInfo(with_cluster)),
      api::Json::parse(
          R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"interactive":false,"cluster":{"server":"https://h"}}})"));
}

TEST(ExecPlugin, ProgramsEndOneWayOrAnother) {
  const std::stop_token never;
  const auto run =
      [&](std::string script, Duration limit = std::chrono::seconds(20), std::size_t max = 1000) {
        return RunProgram({.command = "sh",
                           .args = {"-c", std::move(script)},
                           .env = {{"PLUGIN_VAR", "v"}},
                           .limit = limit,
                           .max_output = max},
                          never);
      };
  EXPECT_EQ(run("printf \"$PLUGIN_VAR\"").value(), "v");
  EXPECT_EQ(run("cat; exec >&-; true").value(), "")
      << "nothing on standard input; closing early is no end";
  EXPECT_THAT(run("exit 3").error().message, HasSubstr("status 3"));
  EXPECT_THAT(run("kill -9 $$").error().message, HasSubstr("signal 9"));
  EXPECT_THAT(run("exec tail -f /dev/null", std::chrono::milliseconds(100)).error().message,
              HasSubstr("took longer"));
  EXPECT_THAT(run("yes").error().message, HasSubstr("too much"));
  EXPECT_EQ(RunProgram({.command = "/no/such/program"}, never).error().code, ErrorCode::kInvalid);
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_THAT(RunProgram({.command = "tail", .args = {"-f", "/dev/null"}}, stopped.get_token())
                  .error()
                  .message,
              HasSubstr("stopped"));
}

}  // namespace
}  // namespace muster::k8s
