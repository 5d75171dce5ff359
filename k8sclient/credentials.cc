#include "k8sclient/credentials.h"

#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/strings.h"
#include "k8sclient/exec_credential.h"

namespace muster::k8s {
namespace {

constexpr Duration kReadTokenEvery = std::chrono::seconds(30);
constexpr Duration kRenewBefore = std::chrono::seconds(10);
constexpr Duration kRerunFailedAfter = std::chrono::seconds(5);

}  // namespace

struct Credentials::State {
  IoLoop& loop;
  AuthConfig config;
  ConfigEnvironment environment;
  Headers fixed{};  // impersonation
  std::optional<Credential> current{};
  std::uint64_t generation = 0;
  std::optional<TimePoint> fresh_until{};  // nothing: for ever
  // A plugin that fails is not run again for each waiting request.
  std::optional<Error> failure{};
  TimePoint failed_until{};
  std::vector<Done> waiting{};
  bool running = false;
  std::jthread thread{};

  using Self = std::shared_ptr<State>;

  Credential Make(std::string authorization) {
    Credential out{.headers = fixed};
    if (!authorization.empty()) {
      out.headers.emplace_back("authorization", std::move(authorization));
    }
    return out;
  }

  void Take(Credential credential, std::optional<TimePoint> until) {
    const bool same = current && current->headers == credential.headers &&
                      current->cert_pem == credential.cert_pem &&
                      current->key_pem == credential.key_pem;
    if (!same) {
      ++generation;
    }
    credential.generation = generation;
    current = std::move(credential);
    fresh_until = until;
  }

  void ReadTokenFile() {
    const TimePoint now = loop.Now();
    Result<std::string> text = environment.read_file(config.token_file);
    const std::string token(text ? TrimSpace(*text) : std::string_view());
    if (!token.empty()) {
      Take(Make("Bearer " + token), now + kReadTokenEvery);
    } else if (current) {
      // While a token rotates its file may be away for a moment: the old token goes on until the
      // server refuses it.
      fresh_until = now + kRenewBefore;
    } else {
      failure = Error::Retry("token file: " +
                             (text ? config.token_file + ": is empty" : text.error().message));
      failed_until = now;
    }
  }

  static void RunPlugin(const Self& self) {
    self->running = true;
    const ExecConfig& exec = *self->config.exec;
    Program program{.command = exec.command, .args = exec.args, .env = exec.env};
    program.env.emplace_back("KUBERNETES_EXEC_INFO", ExecInfo(exec));
    // Joins the thread of the run before, which has ended.
    self->thread = std::jthread(
        [weak = std::weak_ptr<State>(self), &loop = self->loop, exec, program = std::move(program)](
            const std::stop_token& stop) {
          Result<std::string> output = RunProgram(program, stop);
          Result<ExecCredential> credential =
              output ? ParseExecCredential(exec, *output)
                     : Result<ExecCredential>(std::unexpected(output.error()));
          loop.PostFromAnyThread([weak, credential = std::move(credential)]() mutable {
            if (const Self state = weak.lock()) {
              OnPlugin(state, std::move(credential));
            }
          });
        });
  }

  static void OnPlugin(const Self& self, Result<ExecCredential> result) {
    self->running = false;
    const TimePoint now = self->loop.Now();
    if (result) {
      self->failure.reset();
      Credential credential =
          self->Make(result->token.empty() ? std::string() : "Bearer " + result->token);
      credential.cert_pem = std::move(result->cert_pem);
      credential.key_pem = std::move(result->key_pem);
      std::optional<TimePoint> until;
      if (result->expires) {
        until = *result->expires - kRenewBefore;
      }
      self->Take(std::move(credential), until);
    } else {
      const ExecConfig& exec = *self->config.exec;
      std::string message = "credential plugin " + exec.command + ": " + result.error().message;
      if (result.error().code == ErrorCode::kInvalid && !exec.install_hint.empty()) {
        message += " (" + exec.install_hint + ")";
      }
      self->failure = Error{.code = ErrorCode::kRetry, .message = std::move(message)};
      self->failed_until = now + kRerunFailedAfter;
    }
    for (Done& done : std::exchange(self->waiting, {})) {
      if (self->failure) {
        done(std::unexpected(*self->failure));
      } else {
        done(*self->current);
      }
    }
  }
};

Credentials::Credentials(IoLoop& loop, AuthConfig config, ConfigEnvironment environment)
    : state_(std::make_shared<State>(State{
          .loop = loop, .config = std::move(config), .environment = std::move(environment)})) {
  const AuthConfig& c = state_->config;
  Headers& fixed = state_->fixed;
  if (!c.impersonate_user.empty()) {
    fixed.emplace_back("impersonate-user", c.impersonate_user);
  }
  if (!c.impersonate_uid.empty()) {
    fixed.emplace_back("impersonate-uid", c.impersonate_uid);
  }
  for (const std::string& group : c.impersonate_groups) {
    fixed.emplace_back("impersonate-group", group);
  }
  for (const auto& [key, value] : c.impersonate_extra) {
    fixed.emplace_back("impersonate-extra-" + PercentEncode(ToLower(key)), value);
  }
}

Credentials::~Credentials() = default;

void Credentials::Get(Done done) {
  State& s = *state_;
  const TimePoint now = s.loop.Now();
  if (s.current && (!s.fresh_until || now < *s.fresh_until)) {
    done(*s.current);
    return;
  }
  if (s.config.exec) {
    if (s.failure && now < s.failed_until && !s.running) {
      done(std::unexpected(*s.failure));
      return;
    }
    s.waiting.push_back(std::move(done));
    if (!s.running) {
      State::RunPlugin(state_);
    }
    return;
  }
  if (!s.config.token_file.empty()) {
    s.failure.reset();
    s.ReadTokenFile();
    if (s.failure) {
      done(std::unexpected(*s.failure));
      return;
    }
  } else if (!s.config.token.empty()) {
    s.Take(s.Make("Bearer " + s.config.token), std::nullopt);
  } else if (!s.config.username.empty()) {
    s.Take(s.Make("Basic " + Base64Encode(s.config.username + ":" + s.config.password)),
           std::nullopt);
  } else {
    s.Take(s.Make({}), std::nullopt);
  }
  done(*s.current);
}

bool Credentials::Refused(std::uint64_t generation) {
  State& s = *state_;
  if (!s.current || s.current->generation != generation) {
    return true;  // it has been replaced meanwhile
  }
  if (s.config.exec) {
    s.current.reset();
    return true;
  }
  if (!s.config.token_file.empty()) {
    s.ReadTokenFile();
    return s.current->generation != generation;
  }
  return false;
}

}  // namespace muster::k8s
