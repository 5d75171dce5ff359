#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
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
  // Writes per second in all. What comes faster waits; beyond max_waiting the oldest is dropped.
  RateLimit rate{.per_second = 100, .burst = 500};
  std::size_t max_waiting = 10'000;
  // One object cannot drown the rest: new Events (not repeats) about it, beyond these, are dropped.
  RateLimit per_object{.per_second = 1, .burst = 25};
  // A series ends when nothing repeated for so long; the next repeat is a new Event.
  Duration series_ends_after = std::chrono::minutes(6);
  // Least time between two writes of one series; it doubles with each, up to series_ends_after.
  Duration first_pause = std::chrono::seconds(10);
  std::size_t max_series = 20'000;
};

// Aggregation of repeats, pure. Two notes are the same if regarding object, type, reason, action,
// note and controller are. The first is created at once; repeats are counted, and the count is
// patched into it, ever more seldom. Threads  A value. Cost     O(log n) a note; at the most
// max_series series are remembered.
class EventSeries {
 public:
  struct Create {
    std::uint64_t id = 0;  // hand it back to Done
    std::string ns;
    api::Json event;
  };
  struct Patch {
    std::uint64_t id = 0;
    std::string ns;
    std::string name;
    api::Json patch;  // merge patch
  };
  using Write = std::variant<Create, Patch>;

  explicit EventSeries(EventRecorderOptions options);

  void Note(const EventNote& note, TimePoint now);
  // The next write that is due, if any. Its outcome must be told to Done.
  [[nodiscard]] std::optional<Write> Next(TimePoint now);
  // When Next may have something, if nothing else happens.
  [[nodiscard]] std::optional<TimePoint> NextAt(TimePoint now) const;

  enum class Outcome : std::uint8_t {
    kStored,
    kLost,  // the Event is gone, or never was stored: the next repeat creates a new one
  };
  void Done(std::uint64_t id, Outcome outcome, TimePoint now);

  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }
  [[nodiscard]] std::size_t waiting() const { return queue_.size(); }
  [[nodiscard]] std::size_t series() const { return entries_.size(); }

 private:
  enum class Stage : std::uint8_t { kQueued, kCreating, kStored, kPatching };
  struct Entry {
    std::string key;
    std::string ns;
    std::string name;
    EventNote note;
    Stage stage = Stage::kQueued;
    TimePoint first{};
    TimePoint last{};
    std::int64_t count = 1;
    std::int64_t written = 0;  // count that the server has, or will have by the write that is out
    Duration pause{};          // until the next write of this series
    TimePoint not_before{};
    bool due = false;  // stands in due_
  };
  using Entries = std::map<std::uint64_t, Entry>;

  [[nodiscard]] api::Json EventOf(const Entry& entry) const;
  void Schedule(std::uint64_t id, Entry& entry, TimePoint now);
  void Forget(Entries::iterator it);
  void ForgetEnded(TimePoint now);

  EventRecorderOptions options_;
  TokenBucket bucket_;
  std::map<std::string, std::uint64_t, std::less<>> ids_;
  Entries entries_;
  std::map<std::string, TokenBucket, std::less<>> objects_;
  std::deque<std::uint64_t> queue_;  // creations that wait
  std::set<std::pair<TimePoint, std::uint64_t>>
      due_;  // patches, by the time from which they may be written
  TimePoint swept_{};
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
