#include "k8sclient/event_recorder.h"

#include <algorithm>
#include <cstdio>

#include "k8sclient/requests.h"

namespace muster::k8s {
namespace {

using api::Json;

constexpr std::size_t kMaxNote = 1024;
constexpr std::size_t kMaxWord = 128;  // reason, action, reportingInstance
constexpr std::size_t kMaxName = 253;

Json ToJson(const EventReference& reference) {
  Json out = Json::object();
  const auto put = [&](const char* key, const std::string& value) {
    if (!value.empty()) {
      out[key] = value;
    }
  };
  put("apiVersion", reference.api_version);
  put("kind", reference.kind);
  put("namespace", reference.ns);
  put("name", reference.name);
  put("uid", reference.uid);
  put("resourceVersion", reference.resource_version);
  return out;
}

std::string ObjectKeyOf(const EventReference& r) {
  std::string out = r.kind;
  for (const std::string* part : {&r.ns, &r.name, &r.uid}) {
    out += '\0';
    out += *part;
  }
  return out;
}

std::string Hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof(text), "%llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace

EventReference EventReference::To(api::Kind kind, const api::ObjectMeta& meta) {
  const api::KindInfo& info = api::Info(kind);
  return EventReference{.api_version = info.ApiVersion(),
                        .kind = std::string(info.name),
                        .ns = meta.ns,
                        .name = meta.name,
                        .uid = meta.uid,
                        .resource_version = meta.resource_version};
}

std::string CutNote(std::string_view text, std::size_t max) {
  constexpr std::string_view kTail = " ...";
  if (text.size() <= max) {
    return std::string(text);
  }
  std::size_t end = max < kTail.size() ? 0 : max - kTail.size();
  // Continuation bytes of UTF-8 are 10xxxxxx.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
    --end;
  }
  std::string out(text.substr(0, end));
  out += kTail.substr(0, max);
  return out;
}

EventSeries::EventSeries(EventRecorderOptions options)
    : options_(std::move(options)), bucket_(options_.rate) {}

void EventSeries::Note(const EventNote& note, TimePoint now) {
  ForgetEnded(now);
  const std::string object = ObjectKeyOf(note.regarding);
  std::string key = object;
  for (const std::string& part : {note.reason, note.action, note.note, note.reporting_controller}) {
    key += '\0';
    key += part;
  }
  key += note.type == EventType::kWarning ? 'W' : 'N';

  if (const auto found = ids_.find(key); found != ids_.end()) {
    const auto it = entries_.find(found->second);
    Entry& entry = it->second;
    if (now - entry.last < options_.series_ends_after) {
      ++entry.count;
      entry.last = std::max(entry.last, now);
      Schedule(it->first, entry, now);
      return;
    }
    Forget(it);
  }
  if (!objects_.try_emplace(object, options_.per_object).first->second.TryTake(now) ||
      entries_.size() >= options_.max_series) {
    ++dropped_;
    return;
  }
  if (queue_.size() >= options_.max_waiting && !queue_.empty()) {
    ++dropped_;
    Forget(entries_.find(queue_.front()));
  }
  const std::uint64_t id = next_id_++;
  Entry entry{.key = key,
              .ns = note.regarding.ns.empty() ? "default" : note.regarding.ns,
              .name = {},
              .note = note,
              .first = now,
              .last = now,
              .pause = options_.first_pause};
  // Two recorders never share an instant and a count; a clash would only lose one event.
  const std::string suffix =
      "." + Hex(static_cast<std::uint64_t>(now.time_since_epoch().count())) + Hex(id & 0xFFF);
  entry.name = note.regarding.name.substr(0, kMaxName - suffix.size()) + suffix;
  ids_.emplace(std::move(key), id);
  entries_.emplace(id, std::move(entry));
  queue_.push_back(id);
}

void EventSeries::Schedule(std::uint64_t id, Entry& entry, TimePoint now) {
  if (entry.stage == Stage::kStored && entry.count > entry.written && !entry.due) {
    entry.not_before = std::max(entry.not_before, now);
    entry.due = true;
    due_.emplace(entry.not_before, id);
  }
}

std::optional<EventSeries::Write> EventSeries::Next(TimePoint now) {
  const bool patch = !due_.empty() && due_.begin()->first <= now;
  if ((!patch && queue_.empty()) || !bucket_.TryTake(now)) {
    return std::nullopt;
  }
  if (!queue_.empty()) {
    const std::uint64_t id = queue_.front();
    queue_.pop_front();
    Entry& entry = entries_.find(id)->second;
    entry.stage = Stage::kCreating;
    entry.written = entry.count;
    return Create{.id = id, .ns = entry.ns, .event = EventOf(entry)};
  }
  const std::uint64_t id = due_.begin()->second;
  due_.erase(due_.begin());
  Entry& entry = entries_.find(id)->second;
  entry.due = false;
  entry.stage = Stage::kPatching;
  entry.written = entry.count;
  return Patch{
      .id = id,
      .ns = entry.ns,
      .name = entry.name,
      .patch = {
          {"series", {{"count", entry.count}, {"lastObservedTime", FormatMicroTime(entry.last)}}}}};
}

std::optional<TimePoint> EventSeries::NextAt(TimePoint now) const {
  std::optional<TimePoint> at;
  if (!queue_.empty()) {
    at = now;
  } else if (!due_.empty()) {
    at = std::max(now, due_.begin()->first);
  }
  return at ? std::optional(std::max(*at, bucket_.AvailableAt(now))) : std::nullopt;
}

void EventSeries::Done(std::uint64_t id, Outcome outcome, TimePoint now) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) {
    return;
  }
  Entry& entry = it->second;
  if (outcome == Outcome::kLost) {
    Forget(it);
    return;
  }
  // The first repeat shows up at once, so that a reader sees that it is one.
  if (entry.stage == Stage::kPatching) {
    entry.not_before = now + entry.pause;
    entry.pause = std::min(entry.pause * 2, options_.series_ends_after);
  }
  entry.stage = Stage::kStored;
  Schedule(id, entry, now);
}

Json EventSeries::EventOf(const Entry& entry) const {
  const EventNote& note = entry.note;
  Json out = {{"apiVersion", "events.k8s.io/v1"},
              {"kind", "Event"},
              {"metadata", {{"name", entry.name}, {"namespace", entry.ns}}},
              {"eventTime", FormatMicroTime(entry.first)},
              {"reportingController", note.reporting_controller},
              {"reportingInstance", CutNote(options_.reporting_instance, kMaxWord)},
              {"action", CutNote(note.action.empty() ? note.reason : note.action, kMaxWord)},
              {"reason", CutNote(note.reason, kMaxWord)},
              {"regarding", ToJson(note.regarding)},
              {"note", CutNote(note.note, kMaxNote)},
              {"type", note.type == EventType::kWarning ? "Warning" : "Normal"}};
  if (note.related) {
    out["related"] = ToJson(*note.related);
  }
  if (entry.count > 1) {
    out["series"] = {{"count", entry.count}, {"lastObservedTime", FormatMicroTime(entry.last)}};
  }
  return out;
}

void EventSeries::Forget(Entries::iterator it) {
  Entry& entry = it->second;
  if (entry.due) {
    due_.erase({entry.not_before, it->first});
  }
  if (entry.stage == Stage::kQueued) {
    std::erase(queue_, it->first);
  }
  if (const auto id = ids_.find(entry.key); id != ids_.end() && id->second == it->first) {
    ids_.erase(id);
  }
  entries_.erase(it);
}

void EventSeries::ForgetEnded(TimePoint now) {
  if (now - swept_ < options_.series_ends_after / 4 && entries_.size() < options_.max_series) {
    return;
  }
  // At the limit, once a second is often enough to look for room.
  if (now - swept_ < std::chrono::seconds(1)) {
    return;
  }
  swept_ = now;
  for (auto it = entries_.begin(); it != entries_.end();) {
    const auto current = it++;
    const Entry& entry = current->second;
    if (entry.stage == Stage::kStored && !entry.due &&
        now - entry.last >= options_.series_ends_after) {
      Forget(current);
    }
  }
  // A full bucket remembers nothing.
  std::erase_if(objects_, [&](const auto& object) { return object.second.FullAt() <= now; });
}

struct EventRecorder::State {
  Client& client;
  Timers& timers;
  EventSeries series;
  std::unique_ptr<Timers::Timer> timer{};
  std::optional<TimePoint> timer_at{};
  std::uint64_t failed = 0;

  using Self = std::shared_ptr<State>;
  using Weak = std::weak_ptr<State>;

  static void Pump(const Self& self) {
    const TimePoint now = self->timers.Now();
    while (std::optional<EventSeries::Write> write = self->series.Next(now)) {
      std::visit([&](auto& w) { Send(self, w); }, *write);
    }
    const std::optional<TimePoint> next = self->series.NextAt(now);
    if (next == self->timer_at) {
      return;
    }
    self->timer_at = next;
    self->timer.reset();
    if (next) {
      self->timer = self->timers.At(*next, [weak = Weak(self)] {
        if (const Self state = weak.lock()) {
          state->timer_at.reset();
          Pump(state);
        }
      });
    }
  }

  static void Send(const Self& self, EventSeries::Create& create) {
    Request request = k8s::Create(api::Path(api::Kind::kEvent, create.ns, ""), create.event);
    // The name is ours alone, so a second execution finds the first and stops.
    request.resend = true;
    Submit(self, create.id, std::move(request));
  }

  static void Send(const Self& self, EventSeries::Patch& patch) {
    Request request =
        MergePatch(api::Path(api::Kind::kEvent, patch.ns, patch.name), std::move(patch.patch));
    request.resend = true;
    Submit(self, patch.id, std::move(request));
  }

  static void Submit(const Self& self, std::uint64_t id, Request request) {
    self->client.SendRaw(std::move(request), [weak = Weak(self), id](Client::RawReply reply) {
      const Self state = weak.lock();
      if (!state) {
        return;
      }
      const bool stored = reply.has_value() || reply.error().already_exists();
      if (!stored) {
        ++state->failed;
      }
      state->series.Done(id,
                         stored ? EventSeries::Outcome::kStored : EventSeries::Outcome::kLost,
                         state->timers.Now());
      Pump(state);
    });
  }
};

EventRecorder::EventRecorder(Client& client, Timers& timers, EventRecorderOptions options)
    : state_(std::make_shared<State>(
          State{.client = client, .timers = timers, .series = EventSeries(std::move(options))})) {}

EventRecorder::~EventRecorder() = default;

void EventRecorder::Record(const EventNote& note) {
  state_->series.Note(note, state_->timers.Now());
  State::Pump(state_);
}

std::uint64_t EventRecorder::dropped() const {
  return state_->series.dropped() + state_->failed;
}

}  // namespace muster::k8s
