#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "k8sclient/api_error.h"
#include "k8sclient/beast_parser.h"
#include "k8sclient/gzip.h"

namespace {

struct Outcome {
  int status = 0;
  std::string body;
  bool done = false;
  bool failed = false;
};

Outcome Parse(std::string_view bytes, std::size_t cut) {
  Outcome out;
  muster::k8s::ResponseParser parser(
      {.on_header = [&](int status, muster::k8s::Headers) { out.status = status; },
       .on_body = [&](std::string_view part) { out.body += part; }});
  for (std::size_t at = 0; at < bytes.size() && !parser.done(); at += cut) {
    if (!parser.Feed(bytes.substr(at, cut))) {
      out.failed = true;
      break;
    }
  }
  out.done = parser.done();
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) {
    return 0;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Outcome cut = Parse(bytes, 1 + data[0] % 64);
  const Outcome whole = Parse(bytes, bytes.size() + 1);
  // Bytes behind a complete answer are an error only where they arrive with it.
  if (cut.done && whole.done && (cut.status != whole.status || cut.body != whole.body)) {
    std::abort();
  }
  std::string unpacked;
  muster::k8s::Gunzip gunzip;
  static_cast<void>(gunzip.Feed(bytes, 1 << 20, unpacked));
  if (unpacked.size() > 1 << 20) {
    std::abort();
  }
  static_cast<void>(
      muster::k8s::ErrorFromResponse({.status = 500,
                                      .headers = {{"retry-after", std::string(bytes)}},
                                      .body = std::string(bytes)}));
  return 0;
}
