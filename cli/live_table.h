#pragma once

#include <string>

#include "sim/live_world.h"

namespace muster::cli {

// The screen of `muster demo`: quota per queue, who runs where, who waits and why. Plain text of at
// most `height` lines; `colors` adds ANSI bold and dim.
[[nodiscard]] std::string LiveTable(sim::LiveWorld& world,
                                    std::size_t width,
                                    std::size_t height,
                                    bool colors);

// One line for a log: "12s: 5 gangs run on 31 pods, 3 wait; vision 16/24 GPUs, language 32/24
// GPUs".
[[nodiscard]] std::string LiveLine(sim::LiveWorld& world);

}  // namespace muster::cli
