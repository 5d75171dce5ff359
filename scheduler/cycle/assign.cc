#include "scheduler/cycle/assign.h"

#include <algorithm>

#include "base/check.h"
#include "base/strings.h"
#include "scheduler/cycle/flavor_match.h"

namespace muster::scheduler {
namespace {

using quota::Mode;

struct Found {
  bool any = false;
  std::size_t flavor = 0;
  quota::Fit fit{.mode = Mode::kNoFit, .level = 0};
  std::vector<quota::Fit> fits;  // per covered resource that is asked for
};

class Assigner {
 public:
  explicit Assigner(const AssignInput& input)
      : in_(input), queue_(*input.queue), tree_(*input.tree), node_(input.queue->place->node) {
    const api::ClusterQueuePreemption& preemption = queue_.spec->preemption;
    preempt_while_borrowing_ =
        preemption.borrow_within_cohort != api::PreemptionPolicy::kNever ||
        (in_.fair_sharing && preemption.reclaim_within_cohort != api::PreemptionPolicy::kNever);
  }

  Assignment Run() {
    for (std::size_t i = 0; i < in_.shape->pod_sets.size(); ++i) {
      out_.pod_sets.push_back(One(i));
      const PodSetAssignment& pod_set = out_.pod_sets.back();
      out_.mode = std::min(out_.mode, pod_set.mode);
      out_.blocker = std::max(out_.blocker, pod_set.blocker);
      if (pod_set.mode == Mode::kNoFit) {
        break;  // what later pod sets would get says nothing while this one gets nothing
      }
    }
    for (const auto& [row, amount] : used_) {
      out_.usage.emplace_back(row, amount);
    }
    return std::move(out_);
  }

 private:
  PodSetAssignment One(std::size_t index) {
    const PodSetShape& shape = in_.shape->pod_sets[index];
    PodSetAssignment out;
    out.name = shape.name;
    out.count = in_.counts[index];
    ResourceVector requests = in_.totals[index];
    if (queue_.resources.contains("pods")) {
      requests["pods"] = Amount(out.count);
    }
    std::set<std::size_t> done;
    for (const auto& [resource, amount] : requests) {
      const auto where = queue_.resources.find(resource);
      if (where == queue_.resources.end()) {
        if (amount.zero() || in_.ignore_undeclared) {
          continue;
        }
        Block(out,
              Blocker::kNoMatchingFlavor,
              "resource " + resource + " unavailable in ClusterQueue");
        break;
      }
      const std::size_t group_index = where->second.first;
      if (!done.insert(group_index).second) {
        continue;
      }
      const CompiledGroup& group = queue_.groups[group_index];
      std::vector<std::pair<std::size_t, Amount>> asked;  // covered index, amount
      for (std::size_t c = 0; c < group.covered.size(); ++c) {
        if (const auto it = requests.find(group.covered[c]); it != requests.end()) {
          asked.emplace_back(c, it->second);
        }
      }
      Blocker blocker = Blocker::kNone;
      const Found found = Find(index, group_index, asked, out.reasons, blocker);
      if (!found.any || found.fit.mode == Mode::kNoFit) {
        Block(out, blocker == Blocker::kNone ? Blocker::kNoMatchingFlavor : blocker, {});
        break;
      }
      out.mode = std::min(out.mode, found.fit.mode);
      if (found.fit.mode != Mode::kFit) {
        out.blocker = std::max(out.blocker, Blocker::kWaitingForQuota);
      }
      for (std::size_t i = 0; i < asked.size(); ++i) {
        const auto& [covered, total] = asked[i];
        out.choices[group.covered[covered]] =
            FlavorChoice{.group = group_index, .flavor = found.flavor, .fit = found.fits[i]};
        out.usage[group.covered[covered]] = total;
        out_.level = std::max(out_.level, found.fits[i].level);
        pending_.emplace_back(group.flavors[found.flavor].rows[covered], total);
      }
    }
    if (out.mode == Mode::kNoFit) {
      out.choices.clear();
      out.usage.clear();
    } else {
      for (const auto& [row, amount] : pending_) {
        used_[row] += amount;
      }
    }
    pending_.clear();
    std::sort(out.reasons.begin(), out.reasons.end());
    out.reasons.erase(std::unique(out.reasons.begin(), out.reasons.end()), out.reasons.end());
    return out;
  }

  static void Block(PodSetAssignment& out, Blocker blocker, std::string reason) {
    out.mode = Mode::kNoFit;
    out.blocker = std::max(out.blocker, blocker);
    if (!reason.empty()) {
      out.reasons.push_back(std::move(reason));
    }
  }

  [[nodiscard]] Amount Used(quota::Row row) const {
    const auto it = used_.find(row);
    return it == used_.end() ? Amount() : it->second;
  }

  Found Find(std::size_t pod_set,
             std::size_t group_index,
             const std::vector<std::pair<std::size_t, Amount>>& asked,
             std::vector<std::string>& reasons,
             Blocker& least) {
    const CompiledGroup& group = queue_.groups[group_index];
    const PodSetShape& shape = in_.shape->pod_sets[pod_set];
    Found best;
    const auto blocked = [&](Blocker blocker) {
      least = least == Blocker::kNone ? blocker : std::min(least, blocker);
    };
    for (std::size_t f = 0; f < group.flavors.size(); ++f) {
      const CompiledFlavor& flavor = group.flavors[f];
      if (in_.excluded != nullptr && in_.excluded->contains({pod_set, group_index, f})) {
        blocked(Blocker::kTopology);
        continue;
      }
      if (flavor.flavor == nullptr) {
        reasons.push_back("flavor " + flavor.name + " not found");
        blocked(Blocker::kNoMatchingFlavor);
        continue;
      }
      if (!flavor.flavor->topology_name.empty()) {
        reasons.push_back("unsupported: flavor " + flavor.name +
                          " has a topology, and topology placement is not supported yet");
        blocked(Blocker::kTopology);
        continue;
      }
      if (auto mismatch = FlavorMismatch(*flavor.flavor, *shape.spec)) {
        reasons.push_back(std::move(*mismatch));
        blocked(Blocker::kNoMatchingFlavor);
        continue;
      }
      quota::Fit whole{.mode = Mode::kFit, .level = 0};
      std::vector<quota::Fit> fits;
      std::vector<std::pair<quota::Row, Amount>> request;
      std::vector<quota::Row> short_rows;
      std::vector<std::size_t> short_at;  // in `fits`
      bool hopeless = false;
      Blocker worst = Blocker::kNone;
      for (const auto& [covered, amount] : asked) {
        const quota::Row row = flavor.rows[covered];
        quota::RowFit fit =
            quota::FitsQuota(tree_, node_, row, Used(row), amount, preempt_while_borrowing_);
        if (fit.shortage != quota::RowFit::Shortage::kNone) {
          Explain(flavor.name, group.covered[covered], row, fit, amount, reasons, worst);
          if (fit.needs_oracle) {
            fit.fit.mode = Mode::kNoCandidates;
            short_rows.push_back(row);
            short_at.push_back(fits.size());
          } else {
            hopeless = true;
          }
        }
        request.emplace_back(row, Used(row) + amount);
        fits.push_back(fit.fit);
      }
      if (!short_rows.empty() && !hopeless && in_.oracle != nullptr) {
        const std::vector<quota::Fit> answers = (*in_.oracle)(request, short_rows);
        for (std::size_t i = 0; i < answers.size(); ++i) {
          fits[short_at[i]] = answers[i];
        }
      }
      for (const quota::Fit& fit : fits) {
        if (quota::IsPreferred(whole, fit, queue_.fungibility)) {
          whole = fit;
        }
      }
      if (worst != Blocker::kNone) {
        blocked(worst);
      }
      if (!quota::TryNext(whole, queue_.fungibility)) {
        return Found{.any = true, .flavor = f, .fit = whole, .fits = std::move(fits)};
      }
      if (quota::IsPreferred(whole, best.fit, queue_.fungibility)) {
        best = Found{.any = true, .flavor = f, .fit = whole, .fits = std::move(fits)};
      }
    }
    return best;
  }

  void Explain(const std::string& flavor,
               const std::string& resource,
               quota::Row row,
               const quota::RowFit& fit,
               Amount amount,
               std::vector<std::string>& reasons,
               Blocker& worst) {
    if (fit.shortage == quota::RowFit::Shortage::kExceedsMax) {
      reasons.push_back("insufficient quota for " + resource + " in flavor " + flavor +
                        ", previously considered podsets requests (" +
                        api::FormatAmount(resource, Used(row)) + ") + current podset request (" +
                        api::FormatAmount(resource, amount) + ") > maximum capacity (" +
                        api::FormatAmount(resource, fit.potential) + ")");
      worst = std::max(worst, Blocker::kExceedsMaxQuota);
    } else {
      reasons.push_back("insufficient unused quota for " + resource + " in flavor " + flavor +
                        ", " + api::FormatAmount(resource, fit.missing) + " more needed");
      worst = std::max(worst, Blocker::kWaitingForQuota);
    }
    out_.shortfalls.push_back(Shortfall{.row = row, .fit = fit});
  }

  const AssignInput& in_;
  const CompiledQueue& queue_;
  const quota::Tree& tree_;
  quota::NodeIndex node_;
  bool preempt_while_borrowing_ = false;
  std::map<quota::Row, Amount> used_;
  std::vector<std::pair<quota::Row, Amount>> pending_;
  Assignment out_;
};

}  // namespace

std::string_view ReasonOf(Blocker blocker) {
  switch (blocker) {
    case Blocker::kNone:
      return "PendingEvaluation";
    case Blocker::kTopology:
      return "TopologyPlacementFailed";
    case Blocker::kWaitingForQuota:
      return "WaitingForQuota";
    case Blocker::kExceedsMaxQuota:
      return "ExceedsMaxQuota";
    case Blocker::kNoMatchingFlavor:
      return "NoMatchingFlavor";
  }
  return "PendingEvaluation";
}

std::string Assignment::Message() const {
  std::vector<std::string> parts;
  for (const PodSetAssignment& pod_set : pod_sets) {
    if (pod_set.mode != Mode::kFit && !pod_set.reasons.empty()) {
      parts.push_back("couldn't assign flavors to pod set " + pod_set.name + ": " +
                      Join(pod_set.reasons, ", "));
    }
  }
  return Join(parts, "; ");
}

std::vector<ResourceVector> Totals(const Shape& shape,
                                   const std::vector<std::int32_t>& counts,
                                   const std::set<api::ObjectKey>& charged,
                                   const std::set<api::ObjectKey>& charged_in_cycle) {
  std::vector<ResourceVector> out;
  std::set<std::size_t> seen;
  for (std::size_t i = 0; i < shape.pod_sets.size(); ++i) {
    const PodSetShape& pod_set = shape.pod_sets[i];
    out.push_back(Times(pod_set.per_pod, counts[i]));
    for (const std::size_t claim : pod_set.claims) {
      const placement::ClaimDemand& demand = shape.claims[claim];
      if (!demand.shared || counts[i] == 0 || !seen.insert(claim).second) {
        continue;
      }
      if (demand.existing &&
          (charged.contains(*demand.existing) || charged_in_cycle.contains(*demand.existing))) {
        continue;
      }
      Add(out.back(), shape.charges[claim].estimate);
    }
  }
  return out;
}

Assignment Assign(const AssignInput& input) {
  MUSTER_CHECK(input.queue->place.has_value());
  MUSTER_CHECK(input.counts.size() == input.shape->pod_sets.size() &&
               input.totals.size() == input.counts.size());
  return Assigner(input).Run();
}

bool Fits(const quota::Tree& tree,
          quota::NodeIndex queue,
          const std::vector<std::pair<quota::Row, Amount>>& usage) {
  return std::all_of(usage.begin(), usage.end(), [&](const auto& entry) {
    return entry.second <= tree.available(queue, entry.first).AtLeastZero();
  });
}

}  // namespace muster::scheduler
