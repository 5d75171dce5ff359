#include "cli/api_front.h"

#include <optional>
#include <string>
#include <utility>

namespace muster::cli {
namespace {

std::optional<k8s::Method> MethodOf(const std::string& text) {
  using k8s::Method;
  for (const Method method :
       {Method::kGet, Method::kPost, Method::kPut, Method::kPatch, Method::kDelete}) {
    if (k8s::ToString(method) == text) {
      return method;
    }
  }
  // HEAD is a GET whose body the HTTP server drops.
  return text == "HEAD" ? std::optional(Method::kGet) : std::nullopt;
}

bool IsWatch(std::string_view query) {
  for (const std::string_view flag : {"watch=1", "watch=true", "watch=True"}) {
    for (std::size_t at = query.find(flag); at != std::string_view::npos;
         at = query.find(flag, at + 1)) {
      const bool starts = at == 0 || query[at - 1] == '&';
      const std::size_t end = at + flag.size();
      if (starts && (end == query.size() || query[end] == '&')) {
        return true;
      }
    }
  }
  return false;
}

server::HttpResponse Convert(k8s::Response response) {
  server::HttpResponse out{.status = response.status,
                           .headers = std::move(response.headers),
                           .body = std::move(response.body)};
  bool typed = false;
  for (const auto& [name, value] : out.headers) {
    typed = typed || name == "content-type";
  }
  if (!typed) {
    out.headers.emplace_back("content-type", "application/json");
  }
  return out;
}

}  // namespace

struct ApiFront::Watch {
  std::unique_ptr<sim::WatchStream> stream;
  server::Responder responder;
};

ApiFront::ApiFront(sim::ApiServer& server, k8s::Timers& timers)
    : server_(server), timers_(timers) {}
ApiFront::~ApiFront() = default;

void ApiFront::Handle(server::HttpRequest request, server::Responder responder) {
  const std::optional<k8s::Method> method = MethodOf(request.method);
  if (!method) {
    responder.Send({.status = 405, .headers = {}, .body = {}});
    return;
  }
  const bool watch = *method == k8s::Method::kGet && IsWatch(request.query());
  k8s::Request out{.method = *method,
                   .target = std::move(request.target),
                   .content_type = std::string(request.Header("content-type")),
                   .accept = std::string(request.Header("accept")),
                   .body = std::move(request.body),
                   .headers = std::move(request.headers)};
  if (!watch) {
    responder.Send(Convert(server_.Handle(out, timers_.Now())));
    return;
  }
  k8s::Response refused;
  auto stream = server_.OpenWatch(out, timers_.Now(), refused);
  if (stream == nullptr) {
    responder.Send(Convert(std::move(refused)));
    return;
  }
  responder.Start(200, {{"content-type", "application/json"}});
  watches_.push_back(std::make_unique<Watch>(
      Watch{.stream = std::move(stream), .responder = std::move(responder)}));
  Pump();
}

void ApiFront::Pump() {
  std::erase_if(watches_, [](const std::unique_ptr<Watch>& watch) {
    std::string bytes = watch->stream->Read();
    if (!bytes.empty() && !watch->responder.Write(std::move(bytes))) {
      return true;
    }
    if (watch->stream->closed()) {
      watch->responder.End();
      return true;
    }
    return !watch->responder.open();
  });
}

}  // namespace muster::cli
