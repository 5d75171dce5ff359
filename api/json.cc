#include "api/json.h"

#include <algorithm>
#include <string>

namespace muster::api {
namespace {

// Deepest nesting of brackets outside strings. Runs before the parser, which has no limit of its
// own.
std::size_t BracketDepth(std::string_view text) {
  std::size_t depth = 0;
  std::size_t deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

// Keeps what the parser complains about; the value itself is built by the DOM callback of the base
// class.
class Builder final : public nlohmann::detail::json_sax_dom_parser<Json> {
 public:
  using Base = nlohmann::detail::json_sax_dom_parser<Json>;
  explicit Builder(Json& out) : Base(out, /*allow_exceptions_=*/false) {}

  template <typename Exception>
  bool parse_error(std::size_t position, const std::string& /*token*/, const Exception& error) {
    failed = true;
    message = error.what();
    at = position;
    return false;
  }

  bool failed = false;
  std::string message;
  std::size_t at = 0;
};

}  // namespace

Result<Json> ParseJson(std::string_view text) {
  if (BracketDepth(text) > kMaxJsonDepth) {
    return std::unexpected(Error::Invalid("JSON is nested more than " +
                                          std::to_string(kMaxJsonDepth) + " levels deep"));
  }
  Json out;
  Builder builder(out);
  const bool ok = Json::sax_parse(text.begin(), text.end(), &builder);
  if (!ok || builder.failed) {
    std::string message = builder.message;
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..." keeps its second
    // half.
    if (const auto end = message.find("] "); end != std::string::npos) {
      message.erase(0, end + 2);
    }
    return std::unexpected(Error::Invalid("not valid JSON: " + message));
  }
  return out;
}

bool DepthAtMost(const Json& value, std::size_t limit) {
  if (!value.is_structured()) {
    return true;
  }
  if (limit == 0) {
    return false;
  }
  return std::ranges::all_of(value, [limit](const Json& child) {
    return !child.is_structured() || DepthAtMost(child, limit - 1);
  });
}

std::string_view TypeName(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "a list";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return "an integer";
    case Json::value_t::number_float:
      return "a number";
    case Json::value_t::binary:
    case Json::value_t::discarded:
      break;
  }
  return "binary data";
}

std::string Dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace muster::api
