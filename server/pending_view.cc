#include "server/pending_view.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/strings.h"

namespace muster::server {
namespace {

// Writes JSON text front to back; commas come by themselves.
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  void Begin(char bracket) {
    Separate();
    out_ += bracket;
    first_ = true;
  }
  void End(char bracket) {
    out_ += bracket;
    first_ = false;
  }
  Writer& Key(std::string_view key) {
    Separate();
    AppendJsonString(out_, key);
    out_ += ':';
    first_ = true;  // the value follows without a comma
    return *this;
  }
  void Value(std::string_view text) {
    Separate();
    AppendJsonString(out_, text);
  }
  void Value(std::int64_t number) {
    Separate();
    out_ += std::to_string(number);
  }
  void Value(bool value) {
    Separate();
    out_ += value ? "true" : "false";
  }
  void Value(const std::optional<TimePoint>& time) {
    Separate();
    if (time) {
      AppendJsonString(out_, FormatTime(*time));
    } else {
      out_ += "null";
    }
  }
  template <typename T>
  void Field(std::string_view key, const T& value) {
    Key(key);
    if constexpr (std::is_convertible_v<T, std::string_view>) {
      Value(std::string_view(value));
    } else {
      Value(value);
    }
  }

 private:
  void Separate() {
    if (!first_) {
      out_ += ',';
    }
    first_ = false;
  }

  std::string& out_;
  bool first_ = true;
};

template <typename Rows, typename F>
void List(Writer& w, std::string_view key, const Rows& rows, F&& row) {
  w.Key(key).Begin('[');
  for (const auto& item : rows) {
    w.Begin('{');
    row(item);
    w.End('}');
  }
  w.End(']');
}

void Strings(Writer& w, std::string_view key, const std::vector<std::string>& values) {
  w.Key(key).Begin('[');
  for (const std::string& value : values) {
    w.Value(std::string_view(value));
  }
  w.End(']');
}

// The rows of `all` that the page wants, and how many there are without paging.
template <typename Row>
std::vector<const Row*> Cut(const std::vector<Row>& all, const Page& page, std::int64_t& total) {
  std::vector<const Row*> out;
  total = 0;
  for (const Row& row : all) {
    if (!page.cluster_queue.empty() && row.cluster_queue != page.cluster_queue) {
      continue;
    }
    if (total >= page.offset && total - page.offset < page.limit) {
      out.push_back(&row);
    }
    ++total;
  }
  return out;
}

Result<std::int64_t> Number(std::string_view key, const std::string& text, std::int64_t least) {
  std::int64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error == std::errc::result_out_of_range && !text.starts_with('-')) {
    return std::numeric_limits<std::int64_t>::max();
  }
  if (error != std::errc{} || end != text.data() + text.size() || out < least) {
    return std::unexpected(Error::Invalid(std::string(key) + ": expected an integer of at least " +
                                          std::to_string(least)));
  }
  return out;
}

}  // namespace

Result<Page> ParsePage(std::string_view query) {
  Page out;
  for (const std::string& pair : Split(query, '&')) {
    const auto equals = pair.find('=');
    const std::string key = pair.substr(0, equals);
    const std::string value = equals == std::string::npos
                                  ? std::string()
                                  : PercentDecode(std::string_view(pair).substr(equals + 1));
    if (key == "limit") {
      MUSTER_ASSIGN_OR_RETURN(out.limit, Number(key, value, 1));
      out.limit = std::min(out.limit, Page::kMaxLimit);
    } else if (key == "offset") {
      MUSTER_ASSIGN_OR_RETURN(out.offset, Number(key, value, 0));
    } else if (key == "queue") {
      out.cluster_queue = value;
    }
  }
  return out;
}

std::string DashboardJson(const DashboardData& data, const Page& page) {
  std::string out;
  Writer w(out);
  w.Begin('{');
  w.Field("title", data.title);
  w.Field("version", data.version);
  w.Field("now", std::optional(data.now));
  w.Field("leader", data.leader);

  List(w, "queues", data.queues, [&](const QueueRow& q) {
    w.Field("name", q.name);
    w.Field("cohort", q.cohort);
    w.Field("strictFIFO", q.strict_fifo);
    w.Field("active", q.active);
    w.Field("message", q.message);
    w.Field("pending", q.pending);
    w.Field("reserving", q.reserving);
    w.Field("admitted", q.admitted);
    Strings(w, "localQueues", q.local_queues);
    List(w, "quota", q.quota, [&](const QuotaRow& r) {
      w.Field("flavor", r.flavor);
      w.Field("resource", r.resource);
      w.Field("nominal", r.nominal);
      w.Field("reserved", r.reserved);
      w.Field("borrowed", r.borrowed);
      w.Field("nominalText", r.nominal_text);
      w.Field("reservedText", r.reserved_text);
      w.Field("borrowedText", r.borrowed_text);
    });
  });

  std::int64_t total = 0;
  const auto pending = Cut(data.pending, page, total);
  w.Field("pendingTotal", total);
  List(w, "pending", pending, [&](const PendingRow* p) {
    w.Field("namespace", p->ns);
    w.Field("name", p->name);
    w.Field("job", p->job);
    w.Field("clusterQueue", p->cluster_queue);
    w.Field("localQueue", p->local_queue);
    w.Field("position", p->position);
    w.Field("localPosition", p->local_position);
    w.Field("priority", p->priority);
    w.Field("pods", p->pods);
    w.Field("requests", p->requests);
    w.Field("since", p->since);
    w.Field("parked", p->parked);
    w.Field("reason", p->reason);
    w.Field("message", p->message);
    w.Field("wouldFit", p->would_fit);
  });

  const auto running = Cut(data.running, page, total);
  w.Field("runningTotal", total);
  List(w, "running", running, [&](const RunningRow* r) {
    w.Field("namespace", r->ns);
    w.Field("name", r->name);
    w.Field("job", r->job);
    w.Field("clusterQueue", r->cluster_queue);
    w.Field("priority", r->priority);
    w.Field("pods", r->pods);
    w.Field("podsBound", r->pods_bound);
    w.Field("requests", r->requests);
    w.Field("since", r->since);
    List(w, "nodes", r->nodes, [&](const NodeShare& n) {
      w.Field("node", n.node);
      w.Field("pods", n.pods);
      Strings(w, "devices", n.devices);
    });
  });

  List(w, "nodes", data.nodes, [&](const NodeRow& n) {
    w.Field("name", n.name);
    w.Field("ready", n.ready);
    w.Field("schedulable", n.schedulable);
    w.Field("group", n.group);
    w.Field("accelerator", n.accelerator);
    w.Field("total", n.total);
    w.Field("used", n.used);
    w.Field("pods", n.pods);
  });
  List(w, "events", data.events, [&](const EventRow& e) {
    w.Field("at", std::optional(e.at));
    w.Field("kind", e.kind);
    w.Field("workload", e.workload);
    w.Field("message", e.message);
  });
  w.End('}');
  return out;
}

}  // namespace muster::server
