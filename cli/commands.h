#pragma once

#include <cstdint>
#include <string>
#include <vector>

// The `muster` command, one function per subcommand. What they print and return is relied on by
// others (design.md 5).
namespace muster::cli {

// Exit codes.
inline constexpr int kDone = 0;
inline constexpr int kNo = 1;  // the answer is no
inline constexpr int kUsage =
    2;  // usage or unreadable input, with file, line and field on standard error
inline constexpr int kUnreachable = 3;  // the API server cannot be reached

struct SimulateArgs {
  std::vector<std::string> files;
  std::string until = "1h";
  std::uint64_t seed = 0;
  std::string output = "table";  // table or json
  std::string config;
  std::string log_level = "error";  // of the controller, on standard error
};
[[nodiscard]] int Simulate(const SimulateArgs& args);

struct DemoArgs {
  std::uint16_t port = 0;  // 0: any free one
  std::string scenario;    // a folder or file; empty: the built-in one
  bool once = false;
  std::string config;
};
[[nodiscard]] int Demo(const DemoArgs& args);

struct ServeArgs {
  std::string kubeconfig;
  std::string config;
  std::string metrics_bind_address;       // empty: from the configuration
  std::string health_probe_bind_address;  // likewise
  std::string leader_elect;               // "", "true", "false"
  std::string log_level = "info";
};
[[nodiscard]] int Serve(const ServeArgs& args);

struct ExplainArgs {
  std::string object;  // KIND/NAME
  std::string ns = "";
  std::string output = "text";  // text or json
  std::string kubeconfig;
};
[[nodiscard]] int Explain(const ExplainArgs& args);

struct CheckArgs {
  std::string kubeconfig;
};
[[nodiscard]] int Check(const CheckArgs& args);

// "debug", "info", "warning", "error".
void SetLogLevel(const std::string& name);

// One line on standard error: "muster: message".
void Complain(const std::string& message);

}  // namespace muster::cli
