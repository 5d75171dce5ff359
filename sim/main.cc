#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/prng.h"
#include "sim/checkers.h"
#include "sim/generate.h"
#include "sim/world.h"

// muster-sim: seeded worlds with late, lost and repeated messages, conflicts, restarts; safety is
// checked at every instant, liveness at the end.
//
//   muster-sim --seed 81723            replays one world, telling what happens
//   muster-sim --from 1 --count 500    many worlds; prints "N passed, N failed"
namespace muster::sim {
namespace {

// Faults stop here; what is still wrong some time later is a bug.
constexpr Duration kFaultsUntil = std::chrono::seconds(200);
constexpr Duration kEnd = std::chrono::hours(1);

std::optional<std::string> RunSeed(std::uint64_t seed, bool verbose) {
  Prng prng(seed);
  const bool faults = !prng.Chance(4);
  const GenerateOptions generate{.scale = 1 + static_cast<int>(prng.Below(2)),
                                 .nodes = !prng.Chance(3),
                                 .preemption = seed % 2 == 0,
                                 .changes = !prng.Chance(3)};
  Scenario scenario = GenerateScenario(prng, generate);
  WorldOptions options;
  // A day is long enough that time-outs of the defaults do not blur the picture.
  options.controller.wait_for_pods_ready.timeout = std::chrono::hours(24);
  options.controller.fair_sharing = seed % 4 == 0;
  World* current = nullptr;
  const TimePoint start = options.start;
  if (faults) {
    options.faults = GenerateFaults(
        prng.Next(),
        [&current, start] { return current == nullptr ? start : current->clock(); },
        start + kFaultsUntil);
  }
  const scheduler::Options controller = options.controller;
  World world(std::move(scenario), std::move(options));
  current = &world;
  while (true) {
    const auto more = world.RunNextInstant(kEnd);
    if (!more) {
      return more.error().message;
    }
    for (const std::string& problem : CheckSafety(world)) {
      return "at " + FormatDuration(world.now()) + ": " + problem;
    }
    if (!*more) {
      break;
    }
    if (faults && world.now() < kFaultsUntil && prng.Chance(40)) {
      world.RestartController();
    }
  }
  if (verbose) {
    std::fputs(ReportTable(world).c_str(), stdout);
  }
  for (const std::string& problem : CheckAtRest(world, controller)) {
    return "at the end: " + problem;
  }
  return std::nullopt;
}

int Main(int argc, char** argv) {
  log::SetLevel(log::Level::kError);
  std::uint64_t from = 1;
  std::uint64_t count = 100;
  bool verbose = false;
  for (int i = 1; i < argc; ++i) {
    std::string_view flag = argv[i];
    std::string_view text;
    if (const auto equals = flag.find('='); equals != std::string_view::npos) {
      text = flag.substr(equals + 1);
      flag = flag.substr(0, equals);
    } else if (i + 1 < argc) {
      text = argv[++i];
    }
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      flag = {};
    }
    if (flag == "--seed") {
      from = value;
      count = 1;
      verbose = true;
    } else if (flag == "--from") {
      from = value;
    } else if (flag == "--count") {
      count = value;
    } else {
      std::fprintf(stderr, "usage: muster-sim [--seed N | --from N --count N]\n");
      return 2;
    }
  }
  std::uint64_t failed = 0;
  for (std::uint64_t seed = from; seed < from + count; ++seed) {
    if (const auto problem = RunSeed(seed, verbose)) {
      ++failed;
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), problem->c_str());
      std::fflush(stdout);
    }
  }
  std::printf("%llu passed, %llu failed\n",
              static_cast<unsigned long long>(count - failed),
              static_cast<unsigned long long>(failed));
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace muster::sim

int main(int argc, char** argv) {
  return muster::sim::Main(argc, argv);
}
