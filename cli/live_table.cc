#include "cli/live_table.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "api/quantity.h"
#include "base/strings.h"

namespace muster::cli {
namespace {

struct QuotaLine {
  std::string queue;
  std::string flavor;
  std::string resource;
  Amount nominal;
  Amount used;
  Amount borrowed;
};

std::vector<api::Ptr<api::ClusterQueue>> QueuesOf(sim::LiveWorld& world) {
  std::vector<api::Ptr<api::ClusterQueue>> out;
  for (const api::Json* object : world.server().List("kueue.x-k8s.io/clusterqueues")) {
    if (auto queue = api::DecodeAs<api::ClusterQueue>(*object)) {
      out.push_back(std::move(*queue));
    }
  }
  return out;
}

std::vector<QuotaLine> QuotaLines(sim::LiveWorld& world) {
  std::vector<QuotaLine> out;
  for (const auto& queue : QueuesOf(world)) {
    const scheduler::QueueStatus status =
        world.controller().state().ClusterQueueStatus(queue->meta.name);
    for (const api::ResourceGroup& group : queue->resource_groups) {
      for (const api::FlavorQuotas& flavor : group.flavors) {
        for (const api::ResourceQuota& quota : flavor.resources) {
          QuotaLine line{.queue = queue->meta.name,
                         .flavor = flavor.name,
                         .resource = quota.name,
                         .nominal = quota.nominal};
          for (const scheduler::FlavorUsage& usage : status.reservation) {
            if (usage.flavor == flavor.name && usage.resource == quota.name) {
              line.used = usage.total;
              line.borrowed = usage.borrowed;
            }
          }
          out.push_back(std::move(line));
        }
      }
    }
  }
  return out;
}

// "####......" of ten characters; what is borrowed shows as +.
std::string Bar(const QuotaLine& line) {
  constexpr std::int64_t kWidth = 20;
  const std::int64_t scale = std::max<std::int64_t>(1, std::max(line.nominal, line.used).value());
  const std::int64_t own = (line.used - line.borrowed).value() * kWidth / scale;
  const std::int64_t borrowed = line.borrowed.value() * kWidth / scale;
  std::string bar(static_cast<std::size_t>(own), '#');
  bar.append(static_cast<std::size_t>(borrowed), '+');
  bar.resize(static_cast<std::size_t>(kWidth), '.');
  return bar;
}

class Screen {
 public:
  Screen(std::size_t width, std::size_t height, bool colors)
      : width_(width), height_(height), colors_(colors) {}

  void Line(std::string text) {
    if (lines_ + 1 >= height_) {
      return;
    }
    if (text.size() > width_) {
      text.resize(width_);
    }
    out_ += text;
    End();
  }
  void Title(const std::string& text) {
    if (lines_ + 2 >= height_) {
      return;
    }
    End();
    out_ += colors_ ? "\x1b[1m" + text + "\x1b[0m" : text;
    End();
  }
  // Rows that still fit; the last one is needed for "and N more".
  [[nodiscard]] std::size_t room() const { return lines_ + 3 < height_ ? height_ - lines_ - 3 : 0; }
  [[nodiscard]] std::string Take() { return std::move(out_); }

 private:
  void End() {
    out_ += colors_ ? "\x1b[K\n" : "\n";
    ++lines_;
  }
  std::size_t width_;
  std::size_t height_;
  bool colors_;
  std::size_t lines_ = 0;
  std::string out_;
};

std::string Padded(std::string text, std::size_t width) {
  if (text.size() > width) {
    text.resize(width - 1);
    text += '~';
  }
  text.resize(width, ' ');
  return text;
}

std::string Name(const std::string& owner, const api::ObjectKey& workload) {
  const std::size_t space = owner.rfind(' ');
  return space == std::string::npos ? workload.ToString() : owner.substr(space + 1);
}

// The verdict without the words that every refusal starts with: a line of the screen is short.
std::string Shortened(const std::string& message) {
  constexpr std::string_view kStart = "couldn't assign flavors to pod set ";
  if (!message.starts_with(kStart)) {
    return message;
  }
  const std::size_t colon = message.find(": ", kStart.size());
  return colon == std::string::npos ? message : message.substr(colon + 2);
}

std::map<std::string, int> PodsByNode(const scheduler::RunningGang& gang) {
  std::map<std::string, int> out;
  for (const scheduler::RunningMember& member : gang.members) {
    ++out[member.node.empty() ? "?" : member.node];
  }
  return out;
}

}  // namespace

std::string LiveTable(sim::LiveWorld& world, std::size_t width, std::size_t height, bool colors) {
  Screen screen(width, height, colors);
  const scheduler::ControllerDriver& controller = world.controller();
  const auto elapsed = std::chrono::duration_cast<std::chrono::seconds>(world.elapsed());
  screen.Line("Muster demo, " + FormatDuration(elapsed) + "; Ctrl-C ends it");

  screen.Title("QUOTA (# own, + borrowed)");
  for (const QuotaLine& line : QuotaLines(world)) {
    screen.Line(Padded(line.queue, 10) + Padded(line.flavor, 7) + Padded(line.resource, 16) +
                Bar(line) + "  " + api::FormatAmount(line.resource, line.used) + " of " +
                api::FormatAmount(line.resource, line.nominal) +
                (line.borrowed.zero()
                     ? ""
                     : ", " + api::FormatAmount(line.resource, line.borrowed) + " borrowed"));
  }

  const std::vector<scheduler::PendingView> pending = controller.state().Pending();
  std::vector<scheduler::RunningGang> running = controller.Running();
  screen.Title("RUNNING " + std::to_string(running.size()));
  // Half of what is left goes to each of the two lists.
  std::size_t rows = std::max<std::size_t>(3, screen.room() / 2);
  for (std::size_t i = 0; i < running.size() && i < rows; ++i) {
    std::string nodes;
    for (const auto& [node, count] : PodsByNode(running[i])) {
      nodes += (nodes.empty() ? "" : " ") + node + "x" + std::to_string(count);
    }
    screen.Line(Padded(Name(running[i].owner, running[i].workload), 30) +
                Padded(running[i].cluster_queue, 10) + nodes);
  }
  if (running.size() > rows) {
    screen.Line("and " + std::to_string(running.size() - rows) + " more");
  }

  screen.Title("WAITING " + std::to_string(pending.size()));
  rows = screen.room();
  for (std::size_t i = 0; i < pending.size() && i < rows; ++i) {
    screen.Line(Padded(pending[i].workload.ToString(), 36) +
                Padded(pending[i].cluster_queue + " #" + std::to_string(pending[i].position), 13) +
                Shortened(pending[i].verdict.message));
  }
  if (pending.size() > rows) {
    screen.Line("and " + std::to_string(pending.size() - rows) + " more");
  }
  return screen.Take();
}

std::string LiveLine(sim::LiveWorld& world) {
  const auto elapsed = std::chrono::duration_cast<std::chrono::seconds>(world.elapsed());
  const std::vector<scheduler::RunningGang> running = world.controller().Running();
  std::size_t pods = 0;
  for (const scheduler::RunningGang& gang : running) {
    pods += gang.members.size();
  }
  std::vector<std::string> quota;
  for (const QuotaLine& line : QuotaLines(world)) {
    if (line.resource != "cpu") {
      quota.push_back(line.queue + " " + api::FormatAmount(line.resource, line.used) + " of " +
                      api::FormatAmount(line.resource, line.nominal) + " " + line.resource);
    }
  }
  const std::vector<scheduler::PendingView> pending = world.controller().state().Pending();
  std::string out = FormatDuration(elapsed) + ": " + std::to_string(running.size()) +
                    " gangs run with " + std::to_string(pods) + " pods, " +
                    std::to_string(pending.size()) + " wait; " + Join(quota, ", ");
  if (!pending.empty()) {
    out += "; first in line: " + pending.front().workload.ToString() + ": " +
           Shortened(pending.front().verdict.message);
  }
  return out;
}

}  // namespace muster::cli
