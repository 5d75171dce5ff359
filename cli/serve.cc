#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <unistd.h>
#include <utility>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/config_file.h"
#include "cli/gauges.h"
#include "cli/version.h"
#include "k8sclient/beast_transport.h"
#include "k8sclient/config.h"
#include "k8sclient/io_loop.h"
#include "k8sclient/io_loop_asio.h"
#include "scheduler/controller_driver.h"
#include "server/health.h"
#include "server/http_server.h"
#include "server/metrics.h"

namespace muster::cli {
namespace {

// Shorter than the five seconds that the contract gives, so that a server that does not answer
// cannot hold the end up.
constexpr Duration kStopLimit = std::chrono::seconds(4);

// Who leads is told apart by host and process: two replicas may share a host.
std::string Identity() {
  char host[256] = {};
  if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0') {
    return "muster_" + std::to_string(getpid());
  }
  return std::string(host) + "_" + std::to_string(getpid());
}

class Service {
 public:
  Service(scheduler::Options options, std::string source)
      : options_(std::move(options)),
        source_(std::move(source)),
        metrics_({.leader_election = options_.leader_elect,
                  .cluster_queue_resources = options_.enable_cluster_queue_resource_metrics,
                  .build = {.version = kVersion,
                            .commit = {},
                            .date = {},
                            .compiler = __VERSION__,
                            .platform = "linux/amd64"}}),
        gauges_(metrics_) {}

  int Run(k8s::ConnectionConfig config) {
    auto transport = k8s::MakeBeastTransport(loop_, std::move(config));
    if (!transport) {
      Complain(transport.error().message);
      return kUsage;
    }
    transport_ = std::move(*transport);
    if (!Listen("metrics-bind-address", options_.metrics_bind_address, metrics_server_) ||
        !Listen("health-probe-bind-address", options_.health_bind_address, health_server_)) {
      return kUsage;
    }
    scheduler::Hooks hooks{.identity = Identity()};
    hooks.post_from_any_thread = [this](std::move_only_function<void()> fn) {
      loop_.PostFromAnyThread(std::move(fn));
    };
    hooks.on_metric = [this](const scheduler::MetricEffect& effect) {
      if (effect.type == scheduler::MetricEffect::Type::kCount) {
        metrics_.RecordCount(effect.name, effect.labels, effect.value);
      } else {
        metrics_.RecordSeconds(effect.name, effect.labels, effect.value);
      }
    };
    hooks.on_leadership = [this](bool leading) {
      metrics_.SetLeader(leading);
      log::Info(leading ? "this replica leads" : "this replica stands by");
    };
    hooks.on_lease_lost = [this] {
      // Another replica may write from now on: nothing of ours may follow.
      log::Error("the lease was lost; ending");
      code_ = kNo;
      loop_.Stop();
    };
    driver_ = std::make_unique<scheduler::ControllerDriver>(
        *transport_, loop_, options_, std::move(hooks));
    loop_.OnSignals({SIGINT, SIGTERM}, [this](int signal) { Stop(signal); });
    log::Info("starting",
              {{"version", kVersion},
               {"configuration", source_},
               {"leader_election", options_.leader_elect}});
    driver_->Start();
    loop_.Run();
    // The controller first: its transport is still there for what it cancels.
    driver_.reset();
    metrics_server_.reset();
    health_server_.reset();
    log::Info("ended");
    return code_;
  }

 private:
  bool Listen(const char* flag, const std::string& text, std::unique_ptr<server::HttpServer>& out) {
    const auto address = server::ParseBindAddress(text);
    if (!address) {
      Complain("--" + std::string(flag) + ": " + address.error().message);
      return false;
    }
    if (address->off) {
      return true;
    }
    out = std::make_unique<server::HttpServer>(
        k8s::AsioContext(loop_),
        [this](const server::HttpRequest& request, server::Responder responder) {
          Handle(request, std::move(responder));
        });
    const auto port = out->Listen(address->host, address->port);
    if (!port) {
      Complain("--" + std::string(flag) + ": " + port.error().message);
      return false;
    }
    return true;
  }

  void Handle(const server::HttpRequest& request, server::Responder responder) {
    const server::Health health{
        .ready = driver_ != nullptr && driver_->synced() && !stopping_,
        .why_not_ready = stopping_ ? "ending" : "the caches are not complete yet"};
    const auto text = [this] {
      if (driver_ != nullptr && driver_->synced()) {
        gauges_.Refresh(*driver_);
      }
      return metrics_.Text();
    };
    if (!server::ServeMonitoring(request, responder, health, text)) {
      responder.Send(server::NotFound());
    }
  }

  void Stop(int signal) {
    if (std::exchange(stopping_, true)) {
      loop_.Stop();  // asked twice: at once
      return;
    }
    log::Info("ending", {{"signal", signal}});
    limit_ = loop_.At(loop_.Now() + kStopLimit, [this] {
      log::Warning("the API server did not answer in time; the lease runs out by itself");
      loop_.Stop();
    });
    driver_->Stop([this] { loop_.Stop(); });
  }

  scheduler::Options options_;
  std::string source_;
  k8s::IoLoop loop_;
  std::unique_ptr<k8s::Transport> transport_;
  server::Metrics metrics_;
  Gauges gauges_;
  std::unique_ptr<server::HttpServer> metrics_server_;
  std::unique_ptr<server::HttpServer> health_server_;
  std::unique_ptr<scheduler::ControllerDriver> driver_;
  std::unique_ptr<k8s::Timers::Timer> limit_;
  bool stopping_ = false;
  int code_ = kDone;
};

}  // namespace

int Serve(const ServeArgs& args) {
  SetLogLevel(args.log_level);
  auto options = LoadOptions(args.config, std::nullopt);
  if (!options) {
    Complain(options.error().message);
    return kUsage;
  }
  if (!args.metrics_bind_address.empty()) {
    options->metrics_bind_address = args.metrics_bind_address;
  }
  if (!args.health_probe_bind_address.empty()) {
    options->health_bind_address = args.health_probe_bind_address;
  }
  if (!args.leader_elect.empty()) {
    options->leader_elect = args.leader_elect == "true";
  }
  auto config = k8s::LoadDefault(args.kubeconfig, k8s::ConfigEnvironment::Real());
  if (!config) {
    Complain(config.error().message);
    return kUsage;
  }
  std::string source = config->source;
  return Service(std::move(*options), std::move(source)).Run(std::move(*config));
}

}  // namespace muster::cli
