#include "k8sclient/gzip.h"

#include <algorithm>
#include <array>
#include <limits>

#include <zlib.h>

#include "base/check.h"

namespace muster::k8s {

struct Gunzip::Impl {
  z_stream stream{};
};

Gunzip::Gunzip() : impl_(std::make_unique<Impl>()) {
  // 16 + the largest window: gzip framing only.
  MUSTER_CHECK(::inflateInit2(&impl_->stream, 16 + MAX_WBITS) == Z_OK);
}

Gunzip::~Gunzip() {
  ::inflateEnd(&impl_->stream);
}

Status Gunzip::Feed(std::string_view bytes, std::size_t limit, std::string& out) {
  z_stream& stream = impl_->stream;
  const std::size_t before = out.size();
  std::array<char, 65536> chunk{};
  std::string input(bytes);  // zlib wants a mutable pointer
  std::size_t at = 0;
  while (at < input.size()) {
    if (finished_) {
      // The API server packs each piece of a watch as a member of its own.
      finished_ = false;
      MUSTER_CHECK(::inflateReset(&stream) == Z_OK);
    }
    const std::size_t part =
        std::min<std::size_t>(input.size() - at, std::numeric_limits<uInt>::max());
    stream.next_in = reinterpret_cast<Bytef*>(input.data() + at);
    stream.avail_in = static_cast<uInt>(part);
    do {
      stream.next_out = reinterpret_cast<Bytef*>(chunk.data());
      stream.avail_out = chunk.size();
      const int result = ::inflate(&stream, Z_SYNC_FLUSH);
      if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
        return std::unexpected(Error::Retry("the answer is not gzip, or was damaged"));
      }
      const std::size_t got = chunk.size() - stream.avail_out;
      if (out.size() - before + got > limit) {
        return std::unexpected(
            Error::Invalid("the answer is larger than " + std::to_string(limit) + " bytes"));
      }
      out.append(chunk.data(), got);
      finished_ = result == Z_STREAM_END;
    } while (!finished_ && (stream.avail_in > 0 || stream.avail_out == 0));
    at += part - stream.avail_in;
    if (!finished_ && stream.avail_in > 0) {
      return std::unexpected(Error::Retry("the answer is not gzip, or was damaged"));
    }
  }
  return {};
}

}  // namespace muster::k8s
