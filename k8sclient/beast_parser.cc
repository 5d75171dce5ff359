#include "k8sclient/beast_parser.h"

#include <optional>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>

#include "base/strings.h"

namespace muster::k8s {
namespace {

namespace http = boost::beast::http;
using ErrorCode = boost::beast::error_code;
using View = boost::beast::string_view;

constexpr std::uint32_t kMaxHeader = 64U << 10;
constexpr int kMaxInterim = 8;

std::string_view ToStd(View view) {
  return {view.data(), view.size()};
}

class Parser final : public http::basic_parser<false> {
 public:
  explicit Parser(const ResponseParser::Handlers& handlers) : handlers_(handlers) {
    header_limit(kMaxHeader);
    body_limit(boost::none);
    eager(true);
  }

  [[nodiscard]] bool interim() const { return status_ >= 100 && status_ < 200; }

 private:
  void on_request_impl(http::verb /*method*/,
                       View /*name*/,
                       View /*target*/,
                       int /*version*/,
                       ErrorCode& /*ec*/) override {}
  void on_response_impl(int code, View /*reason*/, int /*version*/, ErrorCode& /*ec*/) override {
    status_ = code;
  }
  void on_field_impl(http::field /*field*/, View name, View value, ErrorCode& /*ec*/) override {
    headers_.emplace_back(ToLower(ToStd(name)), std::string(ToStd(value)));
  }
  void on_header_impl(ErrorCode& /*ec*/) override {
    if (!interim() && handlers_.on_header) {
      handlers_.on_header(status_, std::move(headers_));
    }
  }
  void on_body_init_impl(boost::optional<std::uint64_t> const& /*length*/,
                         ErrorCode& /*ec*/) override {}
  std::size_t on_body_impl(View body, ErrorCode& /*ec*/) override {
    Give(body);
    return body.size();
  }
  void on_chunk_header_impl(std::uint64_t /*size*/,
                            View /*extensions*/,
                            ErrorCode& /*ec*/) override {}
  std::size_t on_chunk_body_impl(std::uint64_t /*remain*/, View body, ErrorCode& /*ec*/) override {
    Give(body);
    return body.size();
  }
  void on_finish_impl(ErrorCode& /*ec*/) override {}

  void Give(View body) {
    if (!interim() && handlers_.on_body) {
      handlers_.on_body(ToStd(body));
    }
  }

  const ResponseParser::Handlers& handlers_;
  int status_ = 0;
  Headers headers_;
};

Error Broken(const ErrorCode& why) {
  return Error::Retry("broken HTTP response: " + why.message());
}

}  // namespace

struct ResponseParser::Impl {
  Handlers handlers;
  std::optional<Parser> parser;
  std::string buffer;  // what the parser has not taken yet
  int interim = 0;
};

ResponseParser::ResponseParser(Handlers handlers) : impl_(std::make_unique<Impl>()) {
  impl_->handlers = std::move(handlers);
  impl_->parser.emplace(impl_->handlers);
}

ResponseParser::~ResponseParser() = default;

Status ResponseParser::Feed(std::string_view bytes) {
  std::string& buffer = impl_->buffer;
  buffer += bytes;
  while (!buffer.empty()) {
    if (impl_->parser->is_done()) {
      return std::unexpected(Error::Retry("broken HTTP response: bytes after its end"));
    }
    ErrorCode failed;
    const std::size_t taken =
        impl_->parser->put(boost::asio::const_buffer(buffer.data(), buffer.size()), failed);
    buffer.erase(0, taken);
    if (failed == http::error::need_more) {
      return {};
    }
    if (failed) {
      return std::unexpected(Broken(failed));
    }
    if (impl_->parser->is_done() && impl_->parser->interim()) {
      if (++impl_->interim > kMaxInterim) {
        return std::unexpected(Error::Retry("broken HTTP response: too many interim answers"));
      }
      impl_->parser.emplace(impl_->handlers);
      continue;
    }
    if (taken == 0) {
      return {};
    }
  }
  return {};
}

Status ResponseParser::FeedEnd() {
  if (done()) {
    return {};
  }
  ErrorCode failed;
  if (got_anything()) {
    impl_->parser->put_eof(failed);
  }
  if (failed || !done()) {
    return std::unexpected(Error::Retry("the connection was closed in the middle of an answer"));
  }
  return {};
}

bool ResponseParser::done() const {
  return impl_->parser->is_done();
}
bool ResponseParser::got_anything() const {
  return impl_->parser->got_some() || !impl_->buffer.empty();
}
bool ResponseParser::keep_alive() const {
  return done() && impl_->buffer.empty() && impl_->parser->keep_alive();
}

}  // namespace muster::k8s
