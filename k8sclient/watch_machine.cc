#include "k8sclient/watch_machine.h"

#include <algorithm>
#include <utility>

namespace muster::k8s {
namespace {

constexpr int kGiveUpStreamedListsAfter = 3;
// A watch that keeps failing with errors of the server's own may hang on the point from which it
// resumes.
constexpr int kRelistAfterWatchErrors = 4;

}  // namespace

WatchMachine::WatchMachine(WatchMachineOptions options, std::uint64_t seed)
    : options_(options), prng_(seed), stream_lists_(options.stream_lists) {}

std::vector<WatchAction> WatchMachine::On(const WatchInput& input, TimePoint now) {
  Actions out;
  std::visit([&](const auto& in) { On(in, now, out); }, input);
  return out;
}

std::int64_t WatchMachine::WatchSeconds() {
  const std::int64_t span =
      std::max<std::int64_t>(options_.watch_max_seconds - options_.watch_min_seconds, 0);
  return options_.watch_min_seconds +
         static_cast<std::int64_t>(prng_.Below(static_cast<std::uint64_t>(span) + 1));
}

void WatchMachine::StartOver(Actions& out) {
  resource_version_.clear();
  if (!stream_lists_ || prefer_plain_) {
    SendPlainList(out);
    return;
  }
  state_ = State::kStreamingList;
  out.emplace_back(watch_action::BeginSnapshot{});
  out.emplace_back(watch_action::OpenWatch{
      .resource_version = {}, .initial_events = true, .timeout_seconds = WatchSeconds()});
}

void WatchMachine::SendPlainList(Actions& out) {
  state_ = State::kListing;
  continued_ = false;
  list_version_.clear();
  out.emplace_back(watch_action::BeginSnapshot{});
  out.emplace_back(
      watch_action::SendList{.limit = paged_ ? options_.page_size : 0, .continue_token = {}});
}

void WatchMachine::OpenWatch(TimePoint now, Actions& out) {
  state_ = State::kWatching;
  progressed_ = false;
  opened_ = now;
  out.emplace_back(watch_action::OpenWatch{.resource_version = resource_version_,
                                           .initial_events = false,
                                           .timeout_seconds = WatchSeconds()});
}

void WatchMachine::Wait(Next next, const Error& why, Actions& out) {
  state_ = State::kWaiting;
  next_ = next;
  ++failures_;
  const Duration asked = std::chrono::seconds(why.retry_after_seconds);
  out.emplace_back(watch_action::StartTimer{
      .delay = std::max(asked, Backoff(options_.backoff, failures_, prng_))});
}

void WatchMachine::RelistAfterGone(const Error& why, Actions& out) {
  // The first time at once. Where each list is out of date before its watch begins, a pause is due.
  if (failures_ == 0) {
    ++failures_;
    StartOver(out);
  } else {
    Wait(Next::kList, why, out);
  }
}

void WatchMachine::Synced(std::string resource_version, Actions& out) {
  resource_version_ = std::move(resource_version);
  synced_ = true;
  out.emplace_back(watch_action::CommitSnapshot{});
}

void WatchMachine::On(const watch_input::Start& /*start*/, TimePoint /*now*/, Actions& out) {
  if (state_ != State::kIdle && state_ != State::kStopped) {
    return;
  }
  synced_ = false;
  failures_ = 0;
  StartOver(out);
}

void WatchMachine::On(const watch_input::ListPage& page, TimePoint now, Actions& out) {
  if (state_ != State::kListing) {
    return;
  }
  if (page.resource_version.empty()) {
    const Error error = Error::Invalid("list without metadata.resourceVersion");
    out.emplace_back(watch_action::ReportTrouble{.error = error});
    Wait(Next::kList, error, out);
    return;
  }
  // Pages show one state of the collection. Should a server break that, resuming from the first
  // page's version repeats events but loses none.
  if (!continued_) {
    list_version_ = page.resource_version;
  }
  out.emplace_back(watch_action::AddPageToSnapshot{});
  if (!page.continue_token.empty()) {
    continued_ = true;
    out.emplace_back(
        watch_action::SendList{.limit = options_.page_size, .continue_token = page.continue_token});
    return;
  }
  paged_ = true;
  prefer_plain_ = false;
  Synced(std::move(list_version_), out);
  OpenWatch(now, out);
}

void WatchMachine::On(const watch_input::ListFailed& failed, TimePoint /*now*/, Actions& out) {
  if (state_ != State::kListing) {
    return;
  }
  if (failed.error.code == ErrorCode::kGone && continued_) {
    // The pages took longer than the server remembers. One big answer cannot expire halfway.
    paged_ = false;
    SendPlainList(out);
    return;
  }
  out.emplace_back(watch_action::ReportTrouble{.error = failed.error});
  Wait(Next::kList, failed.error, out);
}

void WatchMachine::StreamedListFailed(const ApiError& error, Actions& out) {
  if (error.code == ErrorCode::kInvalid) {
    // The server does not know sendInitialEvents, and says so.
    stream_lists_ = false;
    SendPlainList(out);
    return;
  }
  // 429 and the like are no fault of streaming; silence and cuts may be, e.g. of a proxy that holds
  // back what it gets.
  if (error.http_status == 0) {
    prefer_plain_ = true;
    if (++failed_streams_ >= kGiveUpStreamedListsAfter) {
      stream_lists_ = false;
    }
  }
  out.emplace_back(watch_action::ReportTrouble{.error = error});
  Wait(Next::kList, error, out);
}

void WatchMachine::On(const watch_input::StreamRefused& refused, TimePoint /*now*/, Actions& out) {
  if (state_ == State::kStreamingList) {
    StreamedListFailed(refused.error, out);
    return;
  }
  if (state_ != State::kWatching) {
    return;
  }
  const ApiError& error = refused.error;
  if (error.code == ErrorCode::kGone) {
    RelistAfterGone(error, out);
    return;
  }
  out.emplace_back(watch_action::ReportTrouble{.error = error});
  // 404: the kind went away, and its objects with it; if it comes back they are others. 400 and
  // "too large": the server does not know our version (it was restored from a backup, say).
  const bool lost = error.code == ErrorCode::kNotFound || error.code == ErrorCode::kInvalid ||
                    error.HasCause("ResourceVersionTooLarge");
  Wait(lost ? Next::kList : Next::kWatch, error, out);
}

void WatchMachine::On(const watch_input::StreamEvent& event, TimePoint /*now*/, Actions& out) {
  const bool listing = state_ == State::kStreamingList;
  if (!listing && state_ != State::kWatching) {
    return;
  }
  if (event.type == WatchEventType::kError) {
    const ApiError error = event.error.value_or(ApiError{});
    out.emplace_back(watch_action::CloseStream{});
    if (listing) {
      StreamedListFailed(error, out);
      return;
    }
    if (error.code == ErrorCode::kGone) {
      RelistAfterGone(error, out);
      return;
    }
    out.emplace_back(watch_action::ReportTrouble{.error = error});
    const bool lost =
        error.HasCause("ResourceVersionTooLarge") || failures_ + 1 >= kRelistAfterWatchErrors;
    Wait(lost ? Next::kList : Next::kWatch, error, out);
    return;
  }
  if (listing) {
    if (event.type != WatchEventType::kBookmark) {
      out.emplace_back(watch_action::AddEventToSnapshot{});
    } else if (event.initial_events_end && !event.resource_version.empty()) {
      failed_streams_ = 0;
      failures_ = 0;
      progressed_ = true;
      state_ = State::kWatching;
      Synced(event.resource_version, out);
    }
    return;
  }
  if (!event.resource_version.empty() && event.resource_version != resource_version_) {
    resource_version_ = event.resource_version;
    progressed_ = true;
    failures_ = 0;
  }
  if (event.type != WatchEventType::kBookmark) {
    out.emplace_back(watch_action::ApplyEvent{});
  }
}

void WatchMachine::On(const watch_input::StreamEnded& ended, TimePoint now, Actions& out) {
  if (state_ == State::kStreamingList) {
    StreamedListFailed(ErrorFromTransport(ended.error.value_or(Error::Retry(
                           "the watch ended before its initial objects were complete"))),
                       out);
    return;
  }
  if (state_ != State::kWatching) {
    return;
  }
  const bool healthy = progressed_ || now - opened_ >= options_.healthy_after;
  if (healthy) {
    failures_ = 0;
  }
  if (healthy && !ended.error) {
    OpenWatch(now, out);
    return;
  }
  const Error error = ended.error.value_or(Error::Retry("the watch ended as soon as it began"));
  if (failures_ > 0) {
    // One cut is how connections are; a row of them is worth a word.
    out.emplace_back(watch_action::ReportTrouble{.error = error});
  }
  Wait(Next::kWatch, error, out);
}

void WatchMachine::On(const watch_input::StreamGarbled& garbled, TimePoint /*now*/, Actions& out) {
  if (state_ != State::kStreamingList && state_ != State::kWatching) {
    return;
  }
  out.emplace_back(watch_action::CloseStream{});
  if (state_ == State::kStreamingList) {
    prefer_plain_ = true;
  }
  out.emplace_back(watch_action::ReportTrouble{.error = garbled.error});
  Wait(Next::kList, garbled.error, out);
}

void WatchMachine::On(const watch_input::TimerFired& /*fired*/, TimePoint now, Actions& out) {
  if (state_ != State::kWaiting) {
    return;
  }
  switch (next_) {
    case Next::kList:
      StartOver(out);
      break;
    case Next::kWatch:
      OpenWatch(now, out);
      break;
  }
}

void WatchMachine::On(const watch_input::Stop& /*stop*/, TimePoint /*now*/, Actions& out) {
  if (state_ == State::kStreamingList || state_ == State::kWatching) {
    out.emplace_back(watch_action::CloseStream{});
  }
  state_ = State::kStopped;
  synced_ = false;
}

}  // namespace muster::k8s
