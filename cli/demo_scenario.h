#pragma once

#include <string_view>

namespace muster::cli {

// cli/demo/cluster.yaml, compiled in.
extern const std::string_view kDemoCluster;

}  // namespace muster::cli
