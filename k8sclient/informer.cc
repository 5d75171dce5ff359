#include "k8sclient/informer.h"

#include <deque>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "api/json.h"
#include "k8sclient/api_error.h"
#include "k8sclient/managed_fields.h"
#include "k8sclient/requests.h"
#include "k8sclient/store.h"
#include "k8sclient/watch_decoder.h"

namespace muster::k8s {
namespace {

using api::Json;

constexpr std::size_t kMaxErrorBody = 64UL << 10;

// What goes into the machine, with the objects that belong to it.
struct Turn {
  WatchInput input;
  Json object;  // of an event, or the items of a page
  bool withdraw = false;
};

StoreItem MakeItem(api::Kind kind, const Json& object, const Store& store) {
  StoreItem item{.meta = api::DecodeMetaLeniently(object), .content = StoreItem::Unchanged{}};
  if (!store.Knows(item.meta)) {
    if (Result<api::Object> decoded = api::Decode(kind, object)) {
      item.content = std::move(*decoded);
    } else {
      item.content = std::move(decoded).error();
    }
  }
  return item;
}

std::string StringAt(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

}  // namespace

struct Informer::State {
  Transport& transport;
  Timers& timers;
  InformerOptions options;
  InformerHandlers handlers;
  WatchMachine machine;
  Store store{};
  InformerStats stats{};
  std::string path{};

  // Answers to anything but the newest list, stream or timer are too late.
  std::uint64_t list_id = 0;
  std::uint64_t stream_id = 0;
  std::unique_ptr<Transport::Stream> stream{};
  std::unique_ptr<Timers::Timer> timer{};
  WatchDecoder decoder{};
  int stream_status = 0;
  Response refusal{};

  std::deque<Turn> turns{};
  bool turning = false;
  bool announced = false;

  using Self = std::shared_ptr<State>;
  using Weak = std::weak_ptr<State>;

  // Handlers may call back into the informer; what they cause is done after them.
  static void Feed(const Self& self, Turn turn) {
    self->turns.push_back(std::move(turn));
    if (self->turning) {
      return;
    }
    self->turning = true;
    while (!self->turns.empty()) {
      const Turn next = std::move(self->turns.front());
      self->turns.pop_front();
      for (const WatchAction& action : self->machine.On(next.input, self->timers.Now())) {
        std::visit([&](const auto& a) { Perform(self, a, next); }, action);
      }
      if (next.withdraw) {
        ++self->list_id;
        self->timer.reset();
        self->announced = false;
        self->HandOn(self->store.Clear());
      }
    }
    self->turning = false;
  }
  static void Feed(const Self& self, WatchInput input) {
    Feed(self, Turn{.input = std::move(input), .object = nullptr});
  }

  void HandOn(Store::Changes changes) {
    for (StoreChange& change : changes) {
      if (const auto* upserted = std::get_if<StoreChange::Upserted>(&change.what)) {
        if (handlers.on_upsert) {
          handlers.on_upsert(upserted->object);
        }
      } else if (const auto* deleted = std::get_if<StoreChange::Deleted>(&change.what)) {
        if (handlers.on_delete) {
          handlers.on_delete(options.kind, deleted->key);
        }
      } else if (const auto* bad = std::get_if<StoreChange::Bad>(&change.what)) {
        ++stats.bad_objects;
        if (handlers.on_bad_object) {
          handlers.on_bad_object(options.kind, bad->meta, bad->error);
        }
      }
    }
  }

  static void Perform(const Self& self, const watch_action::BeginSnapshot&, const Turn&) {
    ++self->stats.lists;
    self->store.BeginSnapshot();
  }

  static void Perform(const Self& self, const watch_action::SendList& list, const Turn&) {
    Request request = List(self->path,
                           ListQuery{.label_selector = self->options.label_selector,
                                     .field_selector = self->options.field_selector,
                                     .limit = list.limit,
                                     .continue_token = list.continue_token,
                                     .resource_version = {},
                                     .resource_version_match = {}});
    request.timeout = self->options.list_timeout;
    const std::uint64_t id = ++self->list_id;
    self->transport.Send(std::move(request), [weak = Weak(self), id](Result<Response> answer) {
      const Self state = weak.lock();
      if (state && state->list_id == id) {
        OnList(state, std::move(answer));
      }
    });
  }

  static void OnList(const Self& self, Result<Response> answer) {
    if (!answer) {
      Feed(self, watch_input::ListFailed{.error = ErrorFromTransport(answer.error())});
      return;
    }
    if (answer->status != 200) {
      Feed(self, watch_input::ListFailed{.error = ErrorFromResponse(*answer)});
      return;
    }
    std::string scratch;
    Result<Json> list = api::ParseJson(WithoutManagedFields(answer->body, scratch));
    scratch = std::string();
    if (list && !list->is_object()) {
      list = std::unexpected(Error::Invalid("not an object"));
    }
    if (!list) {
      ApiError error = ErrorFromTransport(list.error().At("list of " + self->path));
      error.http_status = 200;
      Feed(self, watch_input::ListFailed{.error = std::move(error)});
      return;
    }
    // Freed before the objects are decoded: a page is many megabytes.
    answer->body = std::string();
    watch_input::ListPage page;
    if (const auto metadata = list->find("metadata");
        metadata != list->end() && metadata->is_object()) {
      page.resource_version = StringAt(*metadata, "resourceVersion");
      page.continue_token = StringAt(*metadata, "continue");
    }
    Json items;
    if (const auto it = list->find("items"); it != list->end() && it->is_array()) {
      items = std::move(*it);
    }
    Feed(self, Turn{.input = std::move(page), .object = std::move(items)});
  }

  static void Perform(const Self& self, const watch_action::AddPageToSnapshot&, const Turn& turn) {
    if (!turn.object.is_array()) {
      return;
    }
    for (const Json& item : turn.object) {
      self->store.AddToSnapshot(MakeItem(self->options.kind, item, self->store));
    }
  }

  static void Perform(const Self& self, const watch_action::AddEventToSnapshot&, const Turn& turn) {
    if (std::get<watch_input::StreamEvent>(turn.input).type == WatchEventType::kDeleted) {
      self->store.RemoveFromSnapshot(api::DecodeMetaLeniently(turn.object));
    } else {
      self->store.AddToSnapshot(MakeItem(self->options.kind, turn.object, self->store));
    }
  }

  static void Perform(const Self& self, const watch_action::CommitSnapshot&, const Turn&) {
    self->HandOn(self->store.CommitSnapshot());
    if (!std::exchange(self->announced, true) && self->handlers.on_synced) {
      self->handlers.on_synced(self->options.kind);
    }
  }

  static void Perform(const Self& self, const watch_action::ApplyEvent&, const Turn& turn) {
    if (std::get<watch_input::StreamEvent>(turn.input).type == WatchEventType::kDeleted) {
      self->HandOn(self->store.Delete(api::DecodeMetaLeniently(turn.object)));
    } else {
      self->HandOn(self->store.Upsert(MakeItem(self->options.kind, turn.object, self->store)));
    }
  }

  static void Perform(const Self& self, const watch_action::OpenWatch& open, const Turn& turn) {
    Perform(self, watch_action::CloseStream{}, turn);
    ++self->stats.watches;
    self->decoder = WatchDecoder();
    self->stream_status = 0;
    self->refusal = Response();
    const std::uint64_t id = self->stream_id;
    Transport::StreamHandlers streams;
    streams.on_response = [weak = Weak(self), id](int status, const Headers& headers) {
      const Self state = weak.lock();
      if (state && state->stream_id == id) {
        state->stream_status = status;
        state->refusal.status = status;
        state->refusal.headers = headers;
      }
    };
    streams.on_data = [weak = Weak(self), id](std::string_view bytes) {
      const Self state = weak.lock();
      if (state && state->stream_id == id) {
        OnData(state, id, bytes);
      }
    };
    streams.on_end = [weak = Weak(self), id](muster::Status status) {
      const Self state = weak.lock();
      if (state && state->stream_id == id) {
        OnEnd(state, std::move(status));
      }
    };
    self->stream =
        self->transport.OpenStream(Watch(self->path,
                                         WatchQuery{.label_selector = self->options.label_selector,
                                                    .field_selector = self->options.field_selector,
                                                    .resource_version = open.resource_version,
                                                    .send_initial_events = open.initial_events,
                                                    .timeout_seconds = open.timeout_seconds},
                                         self->options.idle_timeout),
                                   std::move(streams));
  }

  static void OnData(const Self& self, std::uint64_t id, std::string_view bytes) {
    if (self->stream_status != 200) {
      self->refusal.body +=
          bytes.substr(0, kMaxErrorBody - std::min(kMaxErrorBody, self->refusal.body.size()));
      return;
    }
    self->decoder.Feed(bytes);
    // A handler may end this very stream.
    while (self->stream_id == id) {
      Result<std::optional<WatchEvent>> next = self->decoder.Next();
      if (!next) {
        Feed(self, watch_input::StreamGarbled{.error = next.error().At(self->path)});
        return;
      }
      if (!*next) {
        return;
      }
      WatchEvent& event = **next;
      ++self->stats.events;
      Feed(self,
           Turn{.input =
                    watch_input::StreamEvent{.type = event.type,
                                             .resource_version = std::move(event.resource_version),
                                             .initial_events_end = event.initial_events_end,
                                             .error = std::move(event.error)},
                .object = std::move(event.object)});
    }
  }

  static void OnEnd(const Self& self, muster::Status status) {
    if (self->stream_status == 200) {
      watch_input::StreamEnded ended;
      if (!status) {
        ended.error = std::move(status).error();
      }
      Feed(self, std::move(ended));
    } else if (self->stream_status != 0) {
      Feed(self, watch_input::StreamRefused{.error = ErrorFromResponse(self->refusal)});
    } else {
      Feed(self,
           watch_input::StreamRefused{
               .error = ErrorFromTransport(
                   status ? Error::Retry("the connection ended without an answer")
                          : status.error())});
    }
  }

  static void Perform(const Self& self, const watch_action::CloseStream&, const Turn&) {
    ++self->stream_id;
    if (self->stream) {
      // This may run inside one of the stream's own handlers.
      self->timers.Post([stream = std::move(self->stream)] {});
      self->stream.reset();
    }
  }

  static void Perform(const Self& self, const watch_action::StartTimer& start, const Turn& turn) {
    Perform(self, watch_action::CloseStream{}, turn);
    self->timer = self->timers.At(self->timers.Now() + start.delay, [weak = Weak(self)] {
      if (const Self state = weak.lock()) {
        Feed(state, watch_input::TimerFired{});
      }
    });
  }

  static void Perform(const Self& self, const watch_action::ReportTrouble& trouble, const Turn&) {
    ++self->stats.troubles;
    if (self->handlers.on_trouble) {
      self->handlers.on_trouble(self->options.kind, trouble.error);
    }
  }
};

Informer::Informer(Transport& transport,
                   Timers& timers,
                   InformerOptions options,
                   InformerHandlers handlers) {
  WatchMachine machine(options.machine, options.seed);
  std::string path = api::Path(options.kind, options.ns, "");
  state_ = std::make_shared<State>(State{.transport = transport,
                                         .timers = timers,
                                         .options = std::move(options),
                                         .handlers = std::move(handlers),
                                         .machine = std::move(machine)});
  state_->path = std::move(path);
}

Informer::~Informer() = default;

void Informer::Start() {
  State::Feed(state_, watch_input::Start{});
}

void Informer::Withdraw() {
  State::Feed(state_, Turn{.input = watch_input::Stop{}, .object = nullptr, .withdraw = true});
}

bool Informer::synced() const {
  return state_->announced;
}
bool Informer::behind() const {
  const WatchMachine::State at = state_->machine.state();
  return at != WatchMachine::State::kWatching && at != WatchMachine::State::kIdle &&
         at != WatchMachine::State::kStopped;
}
std::size_t Informer::size() const {
  return state_->store.size();
}
const InformerStats& Informer::stats() const {
  return state_->stats;
}
api::Kind Informer::kind() const {
  return state_->options.kind;
}

}  // namespace muster::k8s
