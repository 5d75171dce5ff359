#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/version.h"

namespace muster::cli {

void Complain(const std::string& message) {
  (void)std::fprintf(stderr, "muster: %s\n", message.c_str());
}

void SetLogLevel(const std::string& name) {
  log::SetLevel(name == "debug"     ? log::Level::kDebug
                : name == "info"    ? log::Level::kInfo
                : name == "warning" ? log::Level::kWarning
                                    : log::Level::kError);
}

namespace {

int Main(int argc, char** argv) {
  CLI::App app{"Muster: a gang and queue scheduler for Kubernetes", "muster"};
  app.require_subcommand(1);
  int code = kDone;

  ServeArgs serve;
  CLI::App* serve_command = app.add_subcommand("serve", "run the controller against a cluster");
  serve_command->add_option("--kubeconfig",
                            serve.kubeconfig,
                            "kubeconfig file; absent: KUBECONFIG, in-cluster, ~/.kube/config");
  serve_command->add_option(
      "--config", serve.config, "Configuration file (config.kueue.x-k8s.io/v1beta2)");
  serve_command->add_option("--metrics-bind-address",
                            serve.metrics_bind_address,
                            "where /metrics is served, such as :8080; 0 switches it off");
  serve_command->add_option("--health-probe-bind-address",
                            serve.health_probe_bind_address,
                            "where /healthz and /readyz are served, such as :8081");
  serve_command->add_option("--leader-elect", serve.leader_elect, "take part in leader election")
      ->check(CLI::IsMember({"true", "false"}))
      ->expected(0, 1)
      ->default_str("true");
  serve_command->add_option("--log-level", serve.log_level, "debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  serve_command->callback([&] {
    if (serve_command->count("--leader-elect") > 0 && serve.leader_elect.empty()) {
      serve.leader_elect = "true";
    }
    code = Serve(serve);
  });

  DemoArgs demo;
  CLI::App* demo_command = app.add_subcommand(
      "demo", "embedded API server, simulated GPU cluster, the real controller, dashboard");
  demo_command->add_option(
      "--port", demo.port, "port of the dashboard and the API server; absent: any free one");
  demo_command->add_option(
      "--scenario", demo.scenario, "scenario file or folder; absent: the built-in one");
  demo_command->add_option("--config", demo.config, "Configuration file");
  demo_command->add_flag(
      "--once", demo.once, "run the scenario to its end in virtual time and exit");
  demo_command->callback([&] { code = Demo(demo); });

  SimulateArgs simulate;
  CLI::App* simulate_command = app.add_subcommand(
      "simulate", "run scenario files offline, in virtual time, with the real controller");
  simulate_command->add_option("-f,--filename", simulate.files, "scenario files or folders")
      ->required()
      ->expected(1, -1);
  simulate_command->add_option("--until", simulate.until, "when the run ends, such as 90s or 1h");
  simulate_command->add_option("--seed", simulate.seed, "seed; matters only with injected faults");
  simulate_command->add_option("-o,--output", simulate.output, "table or json")
      ->check(CLI::IsMember({"table", "json"}));
  simulate_command->add_option("--config", simulate.config, "Configuration file");
  simulate_command
      ->add_option("--log-level",
                   simulate.log_level,
                   "what the controller logs: debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  simulate_command->callback([&] { code = Simulate(simulate); });

  ExplainArgs explain;
  CLI::App* explain_command =
      app.add_subcommand("explain", "why a job waits, what would make it fit, or where it runs");
  explain_command
      ->add_option(
          "object", explain.object, "KIND/NAME, such as job/train or workload/job-train-1a2b3")
      ->required();
  explain_command->add_option("-n,--namespace", explain.ns, "namespace");
  explain_command->add_option("-o,--output", explain.output, "text or json")
      ->check(CLI::IsMember({"text", "json"}));
  explain_command->add_option("--kubeconfig", explain.kubeconfig, "kubeconfig file");
  explain_command->callback([&] { code = Explain(explain); });

  CheckArgs check;
  CLI::App* check_command = app.add_subcommand(
      "check", "what is wrong or risky in this cluster, before and after install");
  check_command->add_option("--kubeconfig", check.kubeconfig, "kubeconfig file");
  check_command->callback([&] { code = Check(check); });

  CLI::App* version_command = app.add_subcommand("version", "print the version");
  version_command->callback([] { std::puts(kVersion); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help is a success; every other parse error is a usage error of ours, whatever number the
    // library gives it.
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  return code;
}

}  // namespace
}  // namespace muster::cli

int main(int argc, char** argv) {
  return muster::cli::Main(argc, argv);
}
