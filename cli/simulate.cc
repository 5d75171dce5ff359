#include <cstdio>
#include <string>

#include "cli/commands.h"
#include "cli/config_file.h"
#include "sim/scenario.h"
#include "sim/world.h"

namespace muster::cli {

int Simulate(const SimulateArgs& args) {
  // Standard output belongs to the report; the controller's own lines would only disturb.
  SetLogLevel(args.log_level);
  const auto until = ParseDuration(args.until);
  if (!until || *until < Duration::zero()) {
    Complain("--until: expected a duration such as 90s or 1h, got \"" + args.until + "\"");
    return kUsage;
  }
  auto scenario = sim::LoadScenario(args.files);
  if (!scenario) {
    Complain(scenario.error().message);
    return kUsage;
  }
  auto options = LoadOptions(args.config, scenario->configuration);
  if (!options) {
    Complain(options.error().message);
    return kUsage;
  }
  sim::World world(std::move(*scenario), sim::WorldOptions{.controller = std::move(*options)});
  if (Status status = world.Run(*until); !status) {
    Complain(status.error().message);
    return kNo;
  }
  const std::string report =
      args.output == "json"
          ? sim::ReportJson(world).dump(2, ' ', false, api::Json::error_handler_t::replace) + "\n"
          : sim::ReportTable(world);
  (void)std::fwrite(report.data(), 1, report.size(), stdout);
  return kDone;
}

}  // namespace muster::cli
