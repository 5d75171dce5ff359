#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

#include "base/log.h"
#include "cli/api_front.h"
#include "cli/commands.h"
#include "cli/config_file.h"
#include "cli/dashboard_data.h"
#include "cli/demo_scenario.h"
#include "cli/demo_stream.h"
#include "cli/live_table.h"
#include "k8sclient/io_loop.h"
#include "k8sclient/io_loop_asio.h"
#include "server/dashboard.h"
#include "sim/live_world.h"
#include "sim/scenario.h"
#include "sim/world.h"

namespace muster::cli {
namespace {

constexpr int kLiveJobs = 400;  // about half an hour
constexpr int kOnceJobs = 24;
constexpr std::uint64_t kSeed = 7;

Result<sim::Scenario> DemoScenario(const DemoArgs& args) {
  if (!args.scenario.empty()) {
    return sim::LoadScenario({args.scenario});
  }
  auto scenario = sim::ParseScenario(kDemoCluster, "the built-in cluster");
  if (scenario) {
    AddDemoCluster(*scenario);
    AddDemoJobs(*scenario, args.once ? kOnceJobs : kLiveJobs, kSeed);
  }
  return scenario;
}

// Runs everything in virtual time and tells what happened. The answer is no if a gang that could
// have run did not.
int RunOnce(sim::Scenario scenario, scheduler::Options options) {
  sim::World world(std::move(scenario), sim::WorldOptions{.controller = std::move(options)});
  if (Status status = world.Run(std::chrono::hours(2)); !status) {
    Complain(status.error().message);
    return kNo;
  }
  std::fputs(sim::ReportTable(world).c_str(), stdout);
  int admitted = 0;
  int started = 0;
  int finished = 0;
  for (const sim::TimelineEvent& event : world.timeline().events()) {
    admitted += event.event == "Admitted" ? 1 : 0;
    started += event.event == "Started" ? 1 : 0;
    finished += event.event == "Finished" ? 1 : 0;
  }
  (void)std::printf(
      "\n%d gangs were admitted, %d started whole, %d finished, in %s of virtual time\n",
      admitted,
      started,
      finished,
      FormatDuration(world.now()).c_str());
  return admitted > 0 && started == admitted ? kDone : kNo;
}

// A kubeconfig that only this user can read, for the demo's own server.
Result<std::string> WriteKubeconfig(std::uint16_t port) {
  std::error_code error;
  const std::string path = (std::filesystem::temp_directory_path(error) /
                            ("muster-demo-" + std::to_string(port) + ".kubeconfig"))
                               .string();
  std::ofstream out(path, std::ios::trunc);
  out << "apiVersion: v1\n"
         "kind: Config\n"
         "clusters: [{name: demo, cluster: {server: \"http://127.0.0.1:"
      << port
      << "\"}}]\n"
         "users: [{name: demo, user: {}}]\n"
         "contexts: [{name: demo, context: {cluster: demo, user: demo}}]\n"
         "current-context: demo\n";
  out.close();
  if (!out) {
    return std::unexpected(Error::Invalid(path + ": cannot be written"));
  }
  std::filesystem::permissions(
      path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write, error);
  return path;
}

struct Size {
  std::size_t width = 120;
  std::size_t height = 40;
};
Size TerminalSize() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    return {};
  }
  return {.width = size.ws_col, .height = size.ws_row};
}

class LiveDemo {
 public:
  LiveDemo(sim::Scenario scenario, scheduler::Options options)
      : world_(std::move(scenario), std::move(options), loop_),
        api_(world_.server(), loop_),
        http_(k8s::AsioContext(loop_),
              [this](server::HttpRequest request, server::Responder responder) {
                Handle(std::move(request), std::move(responder));
              }) {
    world_.SetOnChange([this] { api_.Pump(); });
  }

  int Run(std::uint16_t port) {
    const auto bound = http_.Listen("127.0.0.1", port);
    if (!bound) {
      Complain(bound.error().message);
      return kUsage;
    }
    const auto kubeconfig = WriteKubeconfig(*bound);
    if (!kubeconfig) {
      Complain(kubeconfig.error().message);
      return kUsage;
    }
    header_ = "dashboard   http://127.0.0.1:" + std::to_string(*bound) +
              "/\nkubectl     export KUBECONFIG=" + *kubeconfig + "\n";
    terminal_ = isatty(STDOUT_FILENO) != 0;
    if (!terminal_) {
      std::fputs(header_.c_str(), stdout);
      std::fflush(stdout);
    }
    loop_.OnSignals({SIGINT, SIGTERM}, [this](int) { Stop(); });
    world_.Start();
    Draw();
    loop_.Run();
    std::error_code error;
    std::filesystem::remove(*kubeconfig, error);
    if (terminal_) {
      std::fputs("\n", stdout);
    }
    return kDone;
  }

 private:
  void Handle(server::HttpRequest request, server::Responder responder) {
    if (server::ServeDashboard(
            request, responder, [this] { return MakeDashboardData(world_, loop_.Now()); })) {
      return;
    }
    api_.Handle(std::move(request), std::move(responder));
  }

  void Draw() {
    if (terminal_) {
      const Size size = TerminalSize();
      // Home, the screen, and whatever an older, longer screen left below.
      const std::string text = "\x1b[H" + header_ + "\x1b[K" +
                               LiveTable(world_, size.width, size.height - 3, true) + "\x1b[J";
      if (frames_ == 0) {
        std::fputs("\x1b[2J", stdout);
      }
      std::fputs(text.c_str(), stdout);
    } else if (frames_ % 5 == 0) {
      std::fputs((LiveLine(world_) + "\n").c_str(), stdout);
    }
    std::fflush(stdout);
    ++frames_;
    redraw_ = loop_.At(loop_.Now() + std::chrono::seconds(1), [this] { Draw(); });
  }

  void Stop() {
    redraw_.reset();
    world_.Stop([this] {
      http_.Stop();
      loop_.Stop();
    });
  }

  k8s::IoLoop loop_;
  sim::LiveWorld world_;
  ApiFront api_;
  server::HttpServer http_;
  std::string header_;
  bool terminal_ = false;
  int frames_ = 0;
  std::unique_ptr<k8s::Timers::Timer> redraw_;
};

}  // namespace

int Demo(const DemoArgs& args) {
  log::SetLevel(log::Level::kError);
  auto scenario = DemoScenario(args);
  if (!scenario) {
    Complain(scenario.error().message);
    return kUsage;
  }
  auto options = LoadOptions(args.config, scenario->configuration);
  if (!options) {
    Complain(options.error().message);
    return kUsage;
  }
  if (args.once) {
    return RunOnce(std::move(*scenario), std::move(*options));
  }
  return LiveDemo(std::move(*scenario), std::move(*options)).Run(args.port);
}

}  // namespace muster::cli
