#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/json.h"
#include "api/kind.h"
#include "api/metadata.h"
#include "base/time.h"
#include "k8sclient/client.h"
#include "k8sclient/rate_limiter.h"

namespace muster::k8s {

struct EventReference {
  std::string api_version;
  std::string kind;
  std::string ns;
  std::string name;
  std::string uid;
  std::string resource_version;

  [[nodiscard]] static EventReference To(api::Kind kind, const api::ObjectMeta& meta);
};

enum class EventType : std::uint8_t { kNormal, kWarning };

struct EventNote {
  EventReference regarding;
  std::optional<EventReference> related;
  EventType type = EventType::kNormal;
  std::string reason;
  std::string action;  // empty: the reason
  std::string note;    // cut to 1024 bytes with a trailing " ..."
  std::string reporting_controller;
};

// Cuts `text` to `max` bytes, the last four of them " ...", never inside a UTF-8 sequence.
[[nodiscard]] std::string CutNote(std::string_view text, std::size_t max);

struct EventRecorderOptions {
  std::string reporting_instance;
  // Events that can be sent per second in all; what comes faster waits, and beyond max_waiting the
  // oldest are dropped.
  RateLimit rate{.per_second = 100, .burst = 500};
  std::size_t max_waiting = 10'000;
  // One object cannot flood the rest: at the most that many new events per object in a row, then
  // one every 10 s.
  RateLimit per_object_burst{.per_second = 1, .burst = 25};
  // A series ends when nothing repeated for so long; the next repeat is a new Event.
  Duration series_ends_after = std::chrono::minutes(6);
  // Least time between two writes of one series: this, doubling up to a tenth of an hour.
  Duration first_series_write = std::chrono::seconds(10);
};

// Aggregation of repeats, pure. Two notes are the same if regarding object, type, reason, action,
// note and controller are. The first is created at once; repeats are counted and the count patched
// into it, seldom. Threads  A value.  Cost  O(log n) per note; remembers at the most 20,000 series.
class EventSeries {
 public:
  struct Create {
    std::uint64_t id = 0;  // hand it back to Created or Lost
    std::string ns;
    api::Json event;
  };
  struct Patch {
    std::uint64_t id = 0;
    std::string ns;
    std::string name;
    api::Json patch;
  };
  using Write = std::variant<Create, Patch>;

  explicit EventSeries(EventRecorderOptions options);

  void Note(const EventNote& note, TimePoint now);
  // The next write that is due, if any.
  [[nodiscard]] std::optional<Write> Next(TimePoint now);
  // When Next may have something, if nothing else happens.
  [[nodiscard]] std::optional<TimePoint> NextAt(TimePoint now) const;
  // Outcome of a write. `lost`: the Event is gone (404) or was never stored; the next repeat
  // creates a new one.
  void Done(std::uint64_t id, bool lost, TimePoint now);

  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }
  [[nodiscard]] std::size_t waiting() const { return queue_.size(); }

 private:
  struct Entry;
  struct ObjectBucket;
  void Forget(TimePoint now);

  EventRecorderOptions options_;
  TokenBucket bucket_;
  std::map<std::string, std::uint64_t, std::less<>> ids_;
  std::map<std::uint64_t, std::shared_ptr<Entry>> entries_;
  std::map<std::string, std::shared_ptr<ObjectBucket>, std::less<>> objects_;
  std::deque<std::uint64_t> queue_;  // creations that wait
  std::multimap<TimePoint, std::uint64_t>
      due_;  // patches, by the time at which they may be written
  std::uint64_t next_id_ = 1;
  std::uint64_t dropped_ = 0;
};

// Sends them. Events are advice: a failed one is dropped and counted, nothing waits for it.
// Threads  As Transport.
class EventRecorder {
 public:
  EventRecorder(Client& client, Timers& timers, EventRecorderOptions options);
  ~EventRecorder();
  EventRecorder(const EventRecorder&) = delete;
  EventRecorder& operator=(const EventRecorder&) = delete;

  void Record(const EventNote& note);
  [[nodiscard]] std::uint64_t dropped() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::k8s
