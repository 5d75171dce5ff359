#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/prng.h"
#include "base/time.h"
#include "k8sclient/api_error.h"
#include "k8sclient/backoff.h"
#include "k8sclient/watch_decoder.h"

// When to list, when to watch, when to start over: the protocol by which one collection is kept in
// step with the API server. Pure: inputs go in, actions come out; objects never pass through it.
// informer.h performs the actions.
namespace muster::k8s {

struct WatchMachineOptions {
  std::int64_t page_size = 500;
  // Ask for streaming lists (sendInitialEvents); a server that refuses them is listed instead.
  bool stream_lists = true;
  BackoffOptions backoff{.first = std::chrono::milliseconds(500), .max = std::chrono::seconds(30)};
  // A watch that ended in order is resumed at once if it lasted that long or brought something;
  // else after a back-off.
  Duration healthy_after = std::chrono::seconds(5);
  // The server is asked to end the watch after a time between these, so that watches spread over
  // the servers again.
  std::int64_t watch_min_seconds = 300;
  std::int64_t watch_max_seconds = 600;
};

namespace watch_input {
struct Start {};
// One page of a list: `continue_token` is empty on the last. The objects stay with the driver.
struct ListPage {
  std::string resource_version;
  std::string continue_token;
};
struct ListFailed {
  ApiError error;
};
struct StreamRefused {  // an answer other than 200, or none
  ApiError error;
};
struct StreamEvent {  // as the decoder gave it; `error` only for kError
  WatchEventType type = WatchEventType::kAdded;
  std::string resource_version;
  bool initial_events_end = false;
  std::optional<ApiError> error;
};
struct StreamEnded {  // after 200; an error for a cut or a silence
  std::optional<Error> error;
};
struct StreamGarbled {  // bytes that are no watch event: something was lost
  Error error;
};
struct TimerFired {};
struct Stop {};
}  // namespace watch_input

using WatchInput = std::variant<watch_input::Start,
                                watch_input::ListPage,
                                watch_input::ListFailed,
                                watch_input::StreamRefused,
                                watch_input::StreamEvent,
                                watch_input::StreamEnded,
                                watch_input::StreamGarbled,
                                watch_input::TimerFired,
                                watch_input::Stop>;

namespace watch_action {
struct SendList {
  std::int64_t limit = 0;
  std::string continue_token;
  friend bool operator==(const SendList&, const SendList&) = default;
};
struct OpenWatch {
  std::string resource_version;  // empty with initial_events
  bool initial_events = false;
  std::int64_t timeout_seconds = 0;
  friend bool operator==(const OpenWatch&, const OpenWatch&) = default;
};
struct CloseStream {
  friend bool operator==(const CloseStream&, const CloseStream&) = default;
};
struct StartTimer {
  Duration delay{};
  friend bool operator==(const StartTimer&, const StartTimer&) = default;
};
struct BeginSnapshot {  // forget what an unfinished snapshot gathered
  friend bool operator==(const BeginSnapshot&, const BeginSnapshot&) = default;
};
struct AddPageToSnapshot {
  friend bool operator==(const AddPageToSnapshot&, const AddPageToSnapshot&) = default;
};
struct AddEventToSnapshot {
  friend bool operator==(const AddEventToSnapshot&, const AddEventToSnapshot&) = default;
};
// Swap: what the snapshot lacks is deleted, what it has in another version is updated. The
// collection is synced from now on.
struct CommitSnapshot {
  friend bool operator==(const CommitSnapshot&, const CommitSnapshot&) = default;
};
struct ApplyEvent {
  friend bool operator==(const ApplyEvent&, const ApplyEvent&) = default;
};
struct ReportTrouble {
  Error error;
  friend bool operator==(const ReportTrouble& a, const ReportTrouble& b) {
    return a.error.code == b.error.code;
  }
};
}  // namespace watch_action

using WatchAction = std::variant<watch_action::SendList,
                                 watch_action::OpenWatch,
                                 watch_action::CloseStream,
                                 watch_action::StartTimer,
                                 watch_action::BeginSnapshot,
                                 watch_action::AddPageToSnapshot,
                                 watch_action::AddEventToSnapshot,
                                 watch_action::CommitSnapshot,
                                 watch_action::ApplyEvent,
                                 watch_action::ReportTrouble>;

// Threads  A value.
class WatchMachine {
 public:
  enum class State : std::uint8_t {
    kIdle,
    kListing,        // a list request is out
    kStreamingList,  // a watch is open and sends the initial objects
    kWatching,       // a watch is open
    kWaiting,        // a timer runs, then list or watch
    kStopped,
  };

  WatchMachine(WatchMachineOptions options, std::uint64_t seed);

  // Inputs that do not belong to the state (an answer that crossed a Stop, say) are ignored.
  [[nodiscard]] std::vector<WatchAction> On(const WatchInput& input, TimePoint now);

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool synced() const { return synced_; }  // a snapshot has been committed
  [[nodiscard]] const std::string& resource_version() const { return resource_version_; }

 private:
  using Actions = std::vector<WatchAction>;
  enum class Next : std::uint8_t { kList, kWatch };

  void StartOver(Actions& out);                 // list, by stream or by pages
  void SendPlainList(Actions& out);             // from the first page
  void OpenWatch(TimePoint now, Actions& out);  // from resource_version_
  void Wait(Next next, const Error& why, Actions& out);
  void RelistAfterGone(const Error& why, Actions& out);
  void Synced(std::string resource_version, Actions& out);
  void StreamedListFailed(const ApiError& error, Actions& out);
  [[nodiscard]] std::int64_t WatchSeconds();

  void On(const watch_input::Start&, TimePoint now, Actions& out);
  void On(const watch_input::ListPage& page, TimePoint now, Actions& out);
  void On(const watch_input::ListFailed& failed, TimePoint now, Actions& out);
  void On(const watch_input::StreamRefused& refused, TimePoint now, Actions& out);
  void On(const watch_input::StreamEvent& event, TimePoint now, Actions& out);
  void On(const watch_input::StreamEnded& ended, TimePoint now, Actions& out);
  void On(const watch_input::StreamGarbled& garbled, TimePoint now, Actions& out);
  void On(const watch_input::TimerFired&, TimePoint now, Actions& out);
  void On(const watch_input::Stop&, TimePoint now, Actions& out);

  WatchMachineOptions options_;
  Prng prng_;
  State state_ = State::kIdle;
  bool synced_ = false;
  Next next_ = Next::kList;  // what kWaiting waits for
  int failures_ = 0;         // in a row, with nothing good between
  // Streaming lists. One that failed is followed by a plain list; after three failures in a row
  // none is tried any more.
  bool stream_lists_ = true;
  bool prefer_plain_ = false;
  int failed_streams_ = 0;
  // Plain lists.
  bool paged_ = true;
  bool continued_ = false;    // a page beyond the first has been asked for
  std::string list_version_;  // of the first page
  // The open watch.
  bool progressed_ = false;
  TimePoint opened_{};
  std::string resource_version_;
};

}  // namespace muster::k8s
