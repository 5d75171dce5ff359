#include "sim/cel_json.h"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/time.h"
#include "sim/schema.h"

namespace muster::sim {
namespace {

using api::Json;

constexpr int kMaxDepth = 256;

class JsonList final : public cel::ListView {
 public:
  JsonList(const Json& json, const Schema* items) : json_(json), items_(items) {}
  [[nodiscard]] std::size_t Size() const override { return json_.size(); }
  [[nodiscard]] cel::Value At(std::size_t index) const override {
    return ToCel(json_[index], items_);
  }

 private:
  const Json& json_;
  const Schema* items_;
};

// Property names that are no identifiers are written escaped in expressions.
std::string Unescape(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, char>, 3> kSymbols = {
      {{"__dot__", '.'}, {"__dash__", '-'}, {"__slash__", '/'}}};
  std::string out;
  while (!name.empty()) {
    bool found = false;
    if (name.starts_with("__underscores__")) {
      out += "__";
      name.remove_prefix(15);
      continue;
    }
    for (const auto& [text, symbol] : kSymbols) {
      if (name.starts_with(text)) {
        out += symbol;
        name.remove_prefix(text.size());
        found = true;
        break;
      }
    }
    if (!found) {
      out += name.front();
      name.remove_prefix(1);
    }
  }
  // Reserved words are wrapped: __namespace__.
  if (out.size() > 4 && out.starts_with("__") && out.ends_with("__")) {
    out = out.substr(2, out.size() - 4);
  }
  return out;
}

class JsonMap final : public cel::MapView {
 public:
  JsonMap(const Json& json, const Schema* schema) : json_(json), schema_(schema) {}
  [[nodiscard]] std::size_t Size() const override { return json_.size(); }
  [[nodiscard]] Result<std::optional<cel::Value>> Find(const cel::Value& key) const override {
    if (!key.is(cel::Value::Kind::kString)) {
      return std::optional<cel::Value>();
    }
    const std::string_view name = key.string_value();
    auto it = json_.find(name);
    if (it == json_.end() && schema_ != nullptr && !schema_->properties.empty() &&
        name.contains("__")) {
      it = json_.find(Unescape(name));
    }
    if (it == json_.end()) {
      return std::optional<cel::Value>();
    }
    return std::optional<cel::Value>(
        ToCel(*it, schema_ == nullptr ? nullptr : schema_->Property(it.key())));
  }
  [[nodiscard]] std::vector<cel::Value> Keys() const override {
    std::vector<cel::Value> keys;
    keys.reserve(json_.size());
    for (const auto& [key, value] : json_.items()) {
      keys.push_back(cel::Value::String(key));
    }
    return keys;
  }

 private:
  const Json& json_;
  const Schema* schema_;
};

Result<Json> Convert(const cel::Value& value, int depth) {
  using Kind = cel::Value::Kind;
  if (depth > kMaxDepth) {
    return std::unexpected(Error::Invalid("the value is nested too deeply"));
  }
  switch (value.kind()) {
    case Kind::kNull:
      return Json(nullptr);
    case Kind::kBool:
      return Json(value.bool_value());
    case Kind::kInt:
      return Json(value.int_value());
    case Kind::kUint:
      return Json(value.uint_value());
    case Kind::kDouble:
      return Json(value.double_value());
    case Kind::kString:
      return Json(std::string(value.string_value()));
    case Kind::kBytes:
      return Json(Base64Encode(value.string_value()));
    case Kind::kTimestamp:
      return Json(FormatTime(TimePoint(std::chrono::seconds(value.timestamp_seconds()))));
    case Kind::kDuration:
      return Json(FormatDuration(value.duration_value()));
    case Kind::kOptional: {
      const auto inner = value.optional_value();
      if (!inner) {
        return std::unexpected(Error::Invalid("an optional without a value"));
      }
      return Convert(*inner, depth + 1);
    }
    case Kind::kList: {
      Json out = Json::array();
      for (std::size_t i = 0; i < value.size(); ++i) {
        MUSTER_ASSIGN_OR_RETURN(Json item, Convert(value.At(i), depth + 1));
        out.push_back(std::move(item));
      }
      return out;
    }
    case Kind::kMap:
    case Kind::kObject: {
      Json out = Json::object();
      for (const cel::Value& key : value.Keys()) {
        if (!key.is(Kind::kString)) {
          return std::unexpected(Error::Invalid("keys of maps must be strings"));
        }
        MUSTER_ASSIGN_OR_RETURN(const std::optional<cel::Value> item, value.Find(key));
        if (!item) {
          continue;
        }
        // optional.none() in a field leaves the field out.
        if (item->is(Kind::kOptional) && !item->optional_value()) {
          continue;
        }
        MUSTER_ASSIGN_OR_RETURN(Json converted, Convert(*item, depth + 1));
        out[std::string(key.string_value())] = std::move(converted);
      }
      return out;
    }
    case Kind::kType:
    case Kind::kQuantity:
    case Kind::kSemver:
    case Kind::kOpaque:
      return std::unexpected(Error::Invalid("a value that JSON does not have"));
  }
  return std::unexpected(Error::Invalid("a value that JSON does not have"));
}

}  // namespace

cel::Value ToCel(const Json& json, const Schema* schema) {
  switch (json.type()) {
    case Json::value_t::null:
    case Json::value_t::discarded:
    case Json::value_t::binary:
      return cel::Value::Null();
    case Json::value_t::boolean:
      return cel::Value::Bool(json.get<bool>());
    case Json::value_t::number_unsigned:
      if (json.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) {
        return cel::Value::Double(json.get<double>());
      }
      [[fallthrough]];
    case Json::value_t::number_integer:
      return schema != nullptr && schema->type == Schema::Type::kNumber
                 ? cel::Value::Double(json.get<double>())
                 : cel::Value::Int(json.get<std::int64_t>());
    case Json::value_t::number_float:
      if (schema != nullptr && schema->type == Schema::Type::kInteger) {
        return cel::Value::Int(static_cast<std::int64_t>(json.get<double>()));
      }
      return cel::Value::Double(json.get<double>());
    case Json::value_t::string: {
      const auto& text = json.get_ref<const std::string&>();
      if (schema != nullptr && !schema->format.empty()) {
        if (schema->format == "date-time" || schema->format == "date") {
          if (const auto time = ParseTime(schema->format == "date" ? text + "T00:00:00Z" : text)) {
            return cel::Value::Timestamp(*time);
          }
        } else if (schema->format == "duration") {
          if (const auto duration = ParseDuration(text)) {
            return cel::Value::FromDuration(*duration);
          }
        } else if (schema->format == "byte") {
          if (std::string bytes; Base64Decode(text, bytes)) {
            return cel::Value::Bytes(std::move(bytes));
          }
        }
      }
      return cel::Value::BorrowedString(text);
    }
    case Json::value_t::array:
      return cel::Value::List(
          std::make_shared<JsonList>(json, schema == nullptr ? nullptr : schema->items));
    case Json::value_t::object:
      return cel::Value::Map(std::make_shared<JsonMap>(json, schema));
  }
  return cel::Value::Null();
}

Result<Json> FromCel(const cel::Value& value) {
  return Convert(value, 0);
}

}  // namespace muster::sim
