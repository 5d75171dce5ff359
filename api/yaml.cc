#include "api/yaml.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <yaml.h>

#include "base/digest.h"

namespace muster::api {
namespace {

constexpr std::size_t kMostLevels = 100;
// Values that aliases may add to one stream, and values of a stream in all. A hand-written file has
// a few thousand.
constexpr std::size_t kMostAliased = 400'000;
constexpr std::size_t kMostValues = 20'000'000;

constexpr std::string_view kTagPrefix = "tag:yaml.org,2002:";

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

bool OneOf(std::string_view text, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) {
    if (text == word) {
      return true;
    }
  }
  return false;
}

// Optional sign, then base-prefixed digits as in Go source: 0x, 0o, 0b, a leading 0 for octal, or
// decimal.
std::optional<Json> ParseInteger(std::string_view text) {
  bool negative = false;
  if (text.starts_with('+') || text.starts_with('-')) {
    negative = text.front() == '-';
    text.remove_prefix(1);
  }
  int base = 10;
  if (text.size() > 1 && text.front() == '0') {
    switch (text[1]) {
      case 'x':
      case 'X':
        base = 16;
        text.remove_prefix(2);
        break;
      case 'o':
      case 'O':
        base = 8;
        text.remove_prefix(2);
        break;
      case 'b':
      case 'B':
        base = 2;
        text.remove_prefix(2);
        break;
      default:
        base = 8;
        text.remove_prefix(1);
        break;
    }
  }
  if (text.empty() || text.front() == '-') {
    return std::nullopt;
  }
  std::uint64_t magnitude = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), magnitude, base);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return std::nullopt;
  }
  if (!negative) {
    return Json(magnitude);
  }
  constexpr std::uint64_t kLowest = std::uint64_t{1} << 63;
  if (magnitude > kLowest) {
    return std::nullopt;
  }
  return Json(static_cast<std::int64_t>(std::uint64_t{0} - magnitude));
}

// [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?
bool LooksLikeFloat(std::string_view text) {
  std::size_t at = 0;
  const auto digits = [&] {
    const std::size_t start = at;
    while (at < text.size() && IsDigit(text[at])) {
      ++at;
    }
    return at - start;
  };
  if (at < text.size() && (text[at] == '+' || text[at] == '-')) {
    ++at;
  }
  const bool whole = digits() > 0;
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (digits() == 0 && !whole) {
      return false;
    }
  } else if (!whole) {
    return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) {
      ++at;
    }
    if (digits() == 0) {
      return false;
    }
  }
  return at == text.size();
}

std::optional<double> ParseFloat(std::string_view text) {
  if (!LooksLikeFloat(text)) {
    return std::nullopt;
  }
  if (text.starts_with('+')) {
    text.remove_prefix(1);
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) {
    // Too small is zero; too large is no number at all, and so stays text.
    const auto exponent = text.find_first_of("eE");
    const bool small = exponent != std::string_view::npos && exponent + 1 < text.size() &&
                       text[exponent + 1] == '-';
    return small ? std::optional<double>(0.0) : std::nullopt;
  }
  if (error != std::errc{} || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

// JSON prints 3.0 as 3 and 1e3 as 1000, and so the API server reads integers.
Json NumberValue(double value) {
  constexpr double kInt64Limit = 9223372036854775808.0;
  if (std::trunc(value) == value && value >= -kInt64Limit && value < kInt64Limit) {
    return Json(static_cast<std::int64_t>(value));
  }
  return Json(value);
}

struct Scalar {
  enum class Type : std::uint8_t { kString, kBool, kInt, kFloat, kNull, kNotFinite };
  Type type = Type::kString;
  Json value;
  // As the key of a mapping; nothing where kubectl refuses it.
  std::optional<std::string> key;
};

// Shortest text of the nearest 32-bit float with the exponent form from 1e+06 on and below 1e-04:
// what kubectl makes of such a key.
std::string FloatKey(double value) {
  char buffer[128];
  const auto narrow = static_cast<float>(value);
  const auto [end, error] =
      std::to_chars(std::begin(buffer), std::end(buffer), narrow, std::chars_format::scientific);
  if (error != std::errc{}) {
    return {};
  }
  const std::string scientific(buffer, end);
  const std::size_t e = scientific.find('e');
  int exponent = 0;
  const std::size_t digits = e + (scientific[e + 1] == '+' ? 2 : 1);
  std::from_chars(scientific.data() + digits, scientific.data() + scientific.size(), exponent);
  constexpr int kLeast = -4;
  constexpr int kMost = 6;
  if (exponent < kLeast || exponent >= kMost) {
    return scientific;
  }
  const auto fixed =
      std::to_chars(std::begin(buffer), std::end(buffer), narrow, std::chars_format::fixed);
  return std::string(buffer, fixed.ptr);
}

std::optional<std::string> IntegerKey(const Json& value) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > kMost) {
    return std::nullopt;
  }
  return value.dump();
}

// What a plain scalar means in YAML 1.1, without base-60 numbers.
Scalar ResolvePlain(const std::string& text) {
  using Type = Scalar::Type;
  if (OneOf(text, {"", "~", "null", "Null", "NULL"})) {
    return {Type::kNull, nullptr, std::nullopt};
  }
  if (OneOf(text, {"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})) {
    return {Type::kBool, true, "true"};
  }
  if (OneOf(text, {"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})) {
    return {Type::kBool, false, "false"};
  }
  if (OneOf(text, {".nan", ".NaN", ".NAN"})) {
    return {Type::kNotFinite, nullptr, ".nan"};
  }
  if (OneOf(text, {".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"})) {
    return {Type::kNotFinite, nullptr, ".inf"};
  }
  if (OneOf(text, {"-.inf", "-.Inf", "-.INF"})) {
    return {Type::kNotFinite, nullptr, "-.inf"};
  }
  const char first = text.front();
  if (first == '.') {
    if (const auto value = ParseFloat(text)) {
      return {Type::kFloat, NumberValue(*value), FloatKey(*value)};
    }
  } else if (IsDigit(first) || first == '+' || first == '-') {
    std::string plain = text;
    std::erase(plain, '_');
    if (auto value = ParseInteger(plain)) {
      auto key = IntegerKey(*value);
      return {Type::kInt, *std::move(value), std::move(key)};
    }
    if (const auto value = ParseFloat(plain)) {
      return {Type::kFloat, NumberValue(*value), FloatKey(*value)};
    }
  }
  return {Type::kString, text, text};
}

struct Event {
  yaml_event_t raw{};
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { yaml_event_delete(&raw); }
};

struct Node {
  Json value;
  std::optional<std::string> key = std::nullopt;  // the scalar as the key of a mapping
  std::size_t values = 1;
  std::size_t levels = 0;
  bool merge_key = false;   // a plain "<<"
  bool not_finite = false;  // a key at most
};

struct Anchor {
  bool complete =
      false;  // false while the value is being read: an alias inside it would contain itself
  Node node;
};

Node TextNode(std::string text) {
  Node out{.value = text};
  out.key = std::move(text);
  return out;
}

class Reader {
 public:
  Reader(std::string_view text, std::string_view file_name) : text_(text), file_name_(file_name) {
    ready_ = yaml_parser_initialize(&parser_) == 1;
    if (ready_) {
      yaml_parser_set_input_string(
          &parser_, reinterpret_cast<const unsigned char*>(text.data()), text.size());
    }
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() {
    if (ready_) {
      yaml_parser_delete(&parser_);
    }
  }

  Result<std::vector<YamlDocument>> Run() {
    std::vector<YamlDocument> out;
    if (!ready_) {
      return std::unexpected(Error::Invalid(std::string(file_name_) + ": out of memory"));
    }
    while (true) {
      Event event;
      MUSTER_RETURN_IF_ERROR(Next(event));
      if (event.raw.type == YAML_STREAM_END_EVENT) {
        return out;
      }
      if (event.raw.type != YAML_DOCUMENT_START_EVENT) {
        continue;  // stream start, document end
      }
      anchors_.clear();
      Event first;
      MUSTER_RETURN_IF_ERROR(Next(first));
      const int line = LineOf(first.raw.start_mark);
      Result<Node> node = ReadValue(first, 0);
      if (!node) {
        return std::unexpected(std::move(node).error());
      }
      if (!node->value.is_null()) {
        out.push_back({.value = std::move(node->value), .line = line});
      }
    }
  }

 private:
  static int LineOf(const yaml_mark_t& mark) {
    constexpr std::size_t kMost = std::numeric_limits<int>::max() - 1;
    return static_cast<int>(mark.line < kMost ? mark.line : kMost) + 1;
  }

  Error ErrorAt(int line, std::string_view message) const {
    return Error::Invalid(std::string(file_name_) + ":" + std::to_string(line) + ": " +
                          std::string(message));
  }

  Status Next(Event& event) {
    if (yaml_parser_parse(&parser_, &event.raw) == 1) {
      return {};
    }
    const std::string problem = parser_.problem != nullptr ? parser_.problem : "cannot be read";
    if (parser_.error == YAML_READER_ERROR) {
      const std::size_t end = std::min(parser_.problem_offset, text_.size());
      const auto lines =
          std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(end), '\n');
      return std::unexpected(ErrorAt(static_cast<int>(lines) + 1, problem));
    }
    std::string message = problem;
    if (parser_.context != nullptr) {
      message = std::string(parser_.context) + ", " + problem;
    }
    return std::unexpected(ErrorAt(LineOf(parser_.problem_mark), message));
  }

  static std::string Text(const unsigned char* text) {
    return text == nullptr ? std::string() : std::string(reinterpret_cast<const char*>(text));
  }

  Status Grow(std::size_t by, int line) {
    values_ += by;
    if (values_ > kMostValues) {
      return std::unexpected(ErrorAt(line, "too many values"));
    }
    return {};
  }

  // A node that ends up in the JSON, other than as a key.
  Result<Node> ReadValue(const Event& event, std::size_t depth) {
    Result<Node> node = ReadNode(event, depth);
    if (node && node->not_finite) {
      return std::unexpected(
          ErrorAt(LineOf(event.raw.start_mark), "'" + *node->key + "' cannot be written as JSON"));
    }
    return node;
  }

  Result<Node> ReadNode(const Event& event, std::size_t depth) {
    const int line = LineOf(event.raw.start_mark);
    if (depth > kMostLevels) {
      return std::unexpected(
          ErrorAt(line, "nested more than " + std::to_string(kMostLevels) + " levels deep"));
    }
    MUSTER_RETURN_IF_ERROR(Grow(1, line));
    switch (event.raw.type) {
      case YAML_ALIAS_EVENT:
        return ReadAlias(event, depth);
      case YAML_SCALAR_EVENT: {
        const std::string anchor = Text(event.raw.data.scalar.anchor);
        Result<Node> node = ReadScalar(event);
        return node ? Keep(anchor, *std::move(node)) : std::move(node);
      }
      case YAML_SEQUENCE_START_EVENT: {
        const std::string anchor = Text(event.raw.data.sequence_start.anchor);
        Begin(anchor);
        Result<Node> node = ReadSequence(depth);
        return node ? Keep(anchor, *std::move(node)) : std::move(node);
      }
      case YAML_MAPPING_START_EVENT: {
        const std::string anchor = Text(event.raw.data.mapping_start.anchor);
        Begin(anchor);
        Result<Node> node = ReadMapping(depth);
        return node ? Keep(anchor, *std::move(node)) : std::move(node);
      }
      case YAML_NO_EVENT:
      case YAML_STREAM_START_EVENT:
      case YAML_STREAM_END_EVENT:
      case YAML_DOCUMENT_START_EVENT:
      case YAML_DOCUMENT_END_EVENT:
      case YAML_SEQUENCE_END_EVENT:
      case YAML_MAPPING_END_EVENT:
        break;
    }
    return std::unexpected(ErrorAt(line, "a value was expected"));
  }

  void Begin(const std::string& anchor) {
    if (!anchor.empty()) {
      anchors_.insert_or_assign(anchor, Anchor{});
    }
  }

  Node Keep(const std::string& anchor, Node node) {
    if (!anchor.empty()) {
      anchors_.insert_or_assign(anchor, Anchor{.complete = true, .node = node});
    }
    return node;
  }

  Result<Node> ReadAlias(const Event& event, std::size_t depth) {
    const int line = LineOf(event.raw.start_mark);
    const std::string name = Text(event.raw.data.alias.anchor);
    const auto it = anchors_.find(name);
    if (it == anchors_.end()) {
      return std::unexpected(ErrorAt(line, "unknown anchor '" + name + "'"));
    }
    const Anchor& anchor = it->second;
    if (!anchor.complete) {
      return std::unexpected(ErrorAt(line, "the value of anchor '" + name + "' contains itself"));
    }
    aliased_ += anchor.node.values;
    if (aliased_ > kMostAliased) {
      return std::unexpected(ErrorAt(line, "the document contains excessive aliasing"));
    }
    if (depth + anchor.node.levels > kMostLevels) {
      return std::unexpected(
          ErrorAt(line, "nested more than " + std::to_string(kMostLevels) + " levels deep"));
    }
    MUSTER_RETURN_IF_ERROR(Grow(anchor.node.values, line));
    Node out = anchor.node;
    out.merge_key = false;
    return out;
  }

  Result<Node> ReadScalar(const Event& event) {
    const auto& scalar = event.raw.data.scalar;
    const int line = LineOf(event.raw.start_mark);
    std::string text(reinterpret_cast<const char*>(scalar.value), scalar.length);
    std::string tag = Text(scalar.tag);
    if (tag.starts_with(kTagPrefix)) {
      tag.erase(0, kTagPrefix.size());
    } else if (!tag.empty()) {
      return TextNode(std::move(text));  // an application's tag says nothing about JSON
    }
    if (tag.empty() && scalar.plain_implicit == 0) {
      return TextNode(std::move(text));  // quoted or a block
    }
    if (tag == "str") {
      return TextNode(std::move(text));
    }
    if (tag == "binary") {
      std::string bytes;
      std::erase_if(text, [](char c) { return c == '\n' || c == '\r'; });
      if (!Base64Decode(text, bytes)) {
        return std::unexpected(ErrorAt(line, "!!binary value contains invalid base64 data"));
      }
      return TextNode(std::move(bytes));
    }
    if ((tag.empty() || tag == "merge") && text == "<<") {
      Node out = TextNode(std::move(text));
      out.merge_key = true;
      return out;
    }
    Scalar resolved = ResolvePlain(text);
    using Type = Scalar::Type;
    const bool fits =
        tag.empty() || (tag == "bool" && resolved.type == Type::kBool) ||
        (tag == "int" && resolved.type == Type::kInt) ||
        (tag == "float" && (resolved.type == Type::kFloat || resolved.type == Type::kInt ||
                            resolved.type == Type::kNotFinite)) ||
        (tag == "null" && resolved.type == Type::kNull);
    if (!fits) {
      return std::unexpected(ErrorAt(line, "cannot read '" + text + "' as !!" + tag));
    }
    return Node{.value = std::move(resolved.value),
                .key = std::move(resolved.key),
                .not_finite = resolved.type == Type::kNotFinite};
  }

  Result<Node> ReadSequence(std::size_t depth) {
    Node out{.value = Json::array()};
    while (true) {
      Event event;
      MUSTER_RETURN_IF_ERROR(Next(event));
      if (event.raw.type == YAML_SEQUENCE_END_EVENT) {
        return out;
      }
      MUSTER_ASSIGN_OR_RETURN(Node item, ReadValue(event, depth + 1));
      out.values += item.values;
      out.levels = std::max(out.levels, item.levels + 1);
      out.value.push_back(std::move(item.value));
    }
  }

  Result<Node> ReadMapping(std::size_t depth) {
    Node out{.value = Json::object()};
    while (true) {
      Event event;
      MUSTER_RETURN_IF_ERROR(Next(event));
      if (event.raw.type == YAML_MAPPING_END_EVENT) {
        return out;
      }
      const int line = LineOf(event.raw.start_mark);
      MUSTER_ASSIGN_OR_RETURN(const Node key, ReadNode(event, depth + 1));
      Event value_event;
      MUSTER_RETURN_IF_ERROR(Next(value_event));
      MUSTER_ASSIGN_OR_RETURN(Node value, ReadValue(value_event, depth + 1));
      out.values += value.values + 1;
      if (key.merge_key) {
        MUSTER_RETURN_IF_ERROR(Merge(out.value, value.value, line));
        out.levels = std::max(out.levels, value.levels);
        continue;
      }
      if (!key.key) {
        return std::unexpected(
            ErrorAt(line, "a key of a mapping must be a text, a boolean or a number"));
      }
      out.levels = std::max(out.levels, value.levels + 1);
      out.value[*key.key] = std::move(value.value);
    }
  }

  // Members of the merged mapping, in the order of the document: what comes later wins. In a list
  // of mappings the first wins.
  Status Merge(Json& into, const Json& from, int line) const {
    const auto merge_one = [&](const Json& mapping) {
      if (!mapping.is_object()) {
        return false;
      }
      for (auto it = mapping.begin(); it != mapping.end(); ++it) {
        into[it.key()] = it.value();
      }
      return true;
    };
    bool ok = true;
    if (from.is_array()) {
      for (auto it = from.rbegin(); ok && it != from.rend(); ++it) {
        ok = merge_one(*it);
      }
    } else {
      ok = merge_one(from);
    }
    if (!ok) {
      return std::unexpected(
          ErrorAt(line, "map merge requires a mapping or a list of mappings as the value"));
    }
    return {};
  }

  std::string_view text_;
  std::string_view file_name_;
  yaml_parser_t parser_{};
  bool ready_ = false;
  std::map<std::string, Anchor, std::less<>> anchors_;
  std::size_t values_ = 0;
  std::size_t aliased_ = 0;
};

}  // namespace

Result<std::vector<YamlDocument>> ParseYaml(std::string_view text, std::string_view file_name) {
  return Reader(text, file_name).Run();
}

}  // namespace muster::api
