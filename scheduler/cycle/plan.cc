#include "scheduler/cycle/plan.h"

#include "api/json.h"

namespace muster::scheduler {

std::string EncodePlacement(const placement::GangRequest& gang,
                            const placement::Placement& placement) {
  std::map<std::string, NodeRuns, std::less<>> runs;
  for (const placement::PodPlacement& pod : placement.pods) {
    if (pod.pod_class >= gang.classes.size()) {
      continue;
    }
    NodeRuns& list = runs[gang.classes[pod.pod_class].name];
    if (list.empty() || list.back().first != pod.node) {
      list.emplace_back(pod.node, 0);
    }
    ++list.back().second;
  }
  api::Json out = api::Json::object();
  for (const auto& [name, list] : runs) {
    api::Json& entries = out[name] = api::Json::array();
    for (const auto& [node, count] : list) {
      entries.push_back(api::Json::array({node, count}));
    }
  }
  return api::Dump(out);
}

Result<std::map<std::string, NodeRuns, std::less<>>> DecodePlacement(std::string_view text) {
  constexpr std::int64_t kMostPods = 1'000'000;
  MUSTER_ASSIGN_OR_RETURN(const api::Json json, api::ParseJson(text));
  if (!json.is_object()) {
    return std::unexpected(Error::Invalid("placement: not an object"));
  }
  std::map<std::string, NodeRuns, std::less<>> out;
  for (const auto& [name, entries] : json.items()) {
    if (!entries.is_array()) {
      return std::unexpected(Error::Invalid("placement." + name + ": not a list"));
    }
    std::int64_t total = 0;
    NodeRuns& runs = out[name];
    for (const api::Json& entry : entries) {
      if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() ||
          !entry[1].is_number_integer()) {
        return std::unexpected(
            Error::Invalid("placement." + name + ": an entry is not [node, count]"));
      }
      const auto count = entry[1].get<std::int64_t>();
      if (count < 0 || count > kMostPods || (total += count) > kMostPods) {
        return std::unexpected(Error::Invalid("placement." + name + ": count out of range"));
      }
      runs.emplace_back(entry[0].get<std::string>(), static_cast<std::int32_t>(count));
    }
  }
  return out;
}

}  // namespace muster::scheduler
