#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "api/json.h"
#include "k8sclient/managed_fields.h"
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

void NullLists(muster::api::Json& value) {
  if (value.is_object()) {
    for (auto& [key, member] : value.items()) {
      if (key == "managedFields" && member.is_array()) {
        member = nullptr;
      } else {
        NullLists(member);
      }
    }
  } else if (value.is_array()) {
    for (auto& element : value) {
      NullLists(element);
    }
  }
}

// Leaving managedFields out of the text is leaving them out of the value; where the text has spaces
// they may stay.
void CheckManagedFields(std::string_view text) {
  std::string scratch;
  auto before = muster::api::ParseJson(text);
  auto after = muster::api::ParseJson(muster::k8s::WithoutManagedFields(text, scratch));
  if (!before) {
    return;
  }
  if (!after) {
    std::abort();
  }
  NullLists(*before);
  NullLists(*after);
  if (*before != *after) {
    std::abort();
  }
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
  CheckManagedFields(bytes);
  return 0;
}
