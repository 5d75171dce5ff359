#include "k8sclient/exec_credential.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "api/json.h"

extern char** environ;

namespace muster::k8s {
namespace {

using api::Json;

const Json* Find(const Json& object, const char* key) {
  if (!object.is_object()) {
    return nullptr;
  }
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  ~Fd() { Close(); }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  [[nodiscard]] int get() const { return fd_; }
  void Reset(int fd) {
    Close();
    fd_ = fd;
  }
  void Close() {
    if (fd_ >= 0) {
      ::close(fd_);
      fd_ = -1;
    }
  }

 private:
  int fd_;
};

std::vector<std::string> Environment(const Program& program) {
  std::vector<std::string> out;
  for (const auto& [name, value] : program.env) {
    out.push_back(name + "=" + value);
  }
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (std::ranges::none_of(program.env, [&](const auto& own) { return own.first == name; })) {
      out.emplace_back(text);
    }
  }
  return out;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (std::string& s : strings) {
    out.push_back(s.data());
  }
  out.push_back(nullptr);
  return out;
}

}  // namespace

std::string ExecInfo(const ExecConfig& config) {
  Json info = {{"apiVersion", config.api_version},
               {"kind", "ExecCredential"},
               {"spec", {{"interactive", false}}}};
  if (config.provide_cluster_info) {
    if (Result<Json> cluster = api::ParseJson(config.cluster_info_json)) {
      info["spec"]["cluster"] = std::move(*cluster);
    }
  }
  return api::Dump(info);
}

Result<ExecCredential> ParseExecCredential(const ExecConfig& config, std::string_view output) {
  const Result<Json> json = api::ParseJson(output);
  // The parser's message may quote the output, which is secret.
  if (!json || !json->is_object()) {
    return std::unexpected(Error::Invalid("its output is not a JSON object"));
  }
  const Json* kind = Find(*json, "kind");
  const Json* version = Find(*json, "apiVersion");
  if (kind == nullptr || *kind != "ExecCredential") {
    return std::unexpected(Error::Invalid("its output: kind: must be ExecCredential"));
  }
  if (version == nullptr || *version != config.api_version) {
    return std::unexpected(Error::Invalid("its output: apiVersion: must be " + config.api_version));
  }
  const Json* status = Find(*json, "status");
  if (status == nullptr || !status->is_object()) {
    return std::unexpected(Error::Invalid("its output: status: must be an object"));
  }
  ExecCredential out;
  for (const auto& [key, into] : {std::pair{"token", &out.token},
                                  std::pair{"clientCertificateData", &out.cert_pem},
                                  std::pair{"clientKeyData", &out.key_pem}}) {
    if (const Json* value = Find(*status, key)) {
      if (!value->is_string()) {
        return std::unexpected(
            Error::Invalid(std::string("its output: status.") + key + ": must be a string"));
      }
      *into = value->get<std::string>();
    }
  }
  if (const Json* expires = Find(*status, "expirationTimestamp")) {
    const Result<TimePoint> time =
        expires->is_string() ? ParseTime(expires->get_ref<const std::string&>())
                             : Result<TimePoint>(std::unexpected(Error::Invalid("not a string")));
    if (!time) {
      return std::unexpected(
          Error::Invalid("its output: status.expirationTimestamp: must be an RFC 3339 time"));
    }
    out.expires = *time;
  }
  if (out.cert_pem.empty() != out.key_pem.empty()) {
    return std::unexpected(Error::Invalid(
        "its output: status: clientCertificateData and clientKeyData must both be there"));
  }
  if (out.token.empty() && out.cert_pem.empty()) {
    return std::unexpected(
        Error::Invalid("its output: status: holds neither a token nor a certificate"));
  }
  return out;
}

Result<std::string> RunProgram(const Program& program, const std::stop_token& stop) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
    return std::unexpected(Error::Retry(std::string("pipe: ") + std::strerror(errno)));
  }
  const Fd reading(pipe[0]);
  Fd writing(pipe[1]);

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, writing.get(), STDOUT_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  // A group of its own, so that children of the plugin end with it; and no signal of ours blocked
  // in it.
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);

  std::vector<std::string> argv{program.command};
  argv.insert(argv.end(), program.args.begin(), program.args.end());
  std::vector<std::string> envp = Environment(program);
  pid_t pid = 0;
  const int failed = ::posix_spawnp(&pid,
                                    program.command.c_str(),
                                    &actions,
                                    &attributes,
                                    Pointers(argv).data(),
                                    Pointers(envp).data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (failed != 0) {
    return std::unexpected(
        Error::Invalid(std::string("cannot be started: ") + std::strerror(failed)));
  }
  writing.Close();

  // The program has ended when it has ended, whatever its children do with the pipe.
  const auto deadline = std::chrono::steady_clock::now() + program.limit;
  std::string output;
  std::string trouble;
  bool open = true;
  int status = 0;
  bool ended = false;
  while (trouble.empty() && !ended) {
    if (open) {
      pollfd poll_fd{.fd = reading.get(), .events = POLLIN, .revents = 0};
      if (::poll(&poll_fd, 1, 50) > 0) {
        std::array<char, 65536> chunk{};
        const ssize_t got = ::read(reading.get(), chunk.data(), chunk.size());
        if (got > 0) {
          output.append(chunk.data(), static_cast<std::size_t>(got));
        } else if (got == 0) {
          open = false;
        }
      }
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (output.size() > program.max_output) {
      trouble = "printed too much";
    } else if (stop.stop_requested()) {
      trouble = "was stopped";
    } else if (std::chrono::steady_clock::now() >= deadline) {
      trouble = "took longer than " + FormatDuration(program.limit);
    }
    if (!open || !trouble.empty()) {
      ended = ::waitpid(pid, &status, WNOHANG) == pid;
    }
  }
  if (!ended) {
    ::kill(-pid, SIGKILL);
    ::waitpid(pid, &status, 0);
  }
  if (!trouble.empty()) {
    return std::unexpected(Error::Retry(trouble));
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return std::unexpected(Error::Retry(
        WIFEXITED(status) ? "ended with status " + std::to_string(WEXITSTATUS(status))
                          : "was killed by signal " + std::to_string(WTERMSIG(status))));
  }
  return output;
}

}  // namespace muster::k8s
