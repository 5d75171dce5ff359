#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "k8sclient/config.h"

// Credential plugins (client.authentication.k8s.io): what they are asked, how they are run, what
// they answer.
namespace muster::k8s {

struct ExecCredential {
  std::string token;
  std::string cert_pem;
  std::string key_pem;
  std::optional<TimePoint> expires;

  friend bool operator==(const ExecCredential&, const ExecCredential&) = default;
};

// Value of KUBERNETES_EXEC_INFO.
[[nodiscard]] std::string ExecInfo(const ExecConfig& config);
// What the plugin printed. Errors name the field, never the content.
[[nodiscard]] Result<ExecCredential> ParseExecCredential(const ExecConfig& config,
                                                         std::string_view output);

struct Program {
  std::string command;  // looked up in PATH if it holds no slash
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>>
      env;  // beside the own environment, and before it
  Duration limit = std::chrono::seconds(60);
  std::size_t max_output = 1UL << 20;
};
// Runs a program to its end and returns its standard output; standard error is passed through.
// Blocks; kills it (and what it started) at the limit or when asked to stop. Errors   kInvalid:
// cannot be started. kRetry: ended with another status than 0, took too long, printed too much.
[[nodiscard]] Result<std::string> RunProgram(const Program& program, const std::stop_token& stop);

}  // namespace muster::k8s
