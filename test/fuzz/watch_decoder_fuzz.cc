#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "k8sclient/watch_decoder.h"

namespace {

using muster::k8s::WatchDecoder;

std::string Decode(std::string_view bytes, std::size_t cut) {
  WatchDecoder decoder(1024);
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += cut) {
    decoder.Feed(bytes.substr(at, cut));
    while (true) {
      const auto next = decoder.Next();
      if (!next) {
        return out + "error";
      }
      if (!*next) {
        break;
      }
      out +=
          std::to_string(static_cast<int>((*next)->type)) + ":" + (*next)->resource_version + ";";
    }
  }
  return out;
}

}  // namespace

// Events do not depend on how the bytes were cut.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) {
    return 0;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t cut = 1 + data[0] % 64;
  if (Decode(bytes, cut) != Decode(bytes, bytes.size() + 1)) {
    std::abort();
  }
  return 0;
}
