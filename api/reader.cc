#include "api/reader.h"

#include <limits>

#include "base/strings.h"

namespace muster::api {
namespace {

// Error texts quote what was found; a hostile value must not fill the log.
std::string Quoted(std::string_view text) {
  constexpr std::size_t kMost = 80;
  std::string out;
  AppendJsonString(out, text.substr(0, kMost));
  return text.size() > kMost ? out + "..." : out;
}

bool PlainKey(std::string_view key) {
  for (const char c : key) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-';
    if (!plain) {
      return false;
    }
  }
  return !key.empty();
}

}  // namespace

Field Field::Child(std::string_view key, std::uint32_t index, const Json* value) const {
  const auto place = static_cast<std::uint32_t>(state_->places_.size());
  state_->places_.push_back({.parent = place_, .index = index, .key = key});
  return Field(*state_, place, value != nullptr && value->is_null() ? nullptr : value);
}

Field Field::operator[](std::string_view key) const {
  const Json* value = nullptr;
  if (present()) {
    if (value_->is_object()) {
      const auto it = value_->find(key);
      value = it == value_->end() ? nullptr : &*it;
    } else {
      Fail("expected an object, got " + std::string(TypeName(*value_)));
    }
  }
  return Child(key, ReadState::kNoIndex, value);
}

std::string Field::Path() const {
  std::vector<std::uint32_t> chain;
  for (std::uint32_t at = place_; at != 0; at = state_->places_[at].parent) {
    chain.push_back(at);
  }
  std::string out;
  for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
    const ReadState::Place& place = state_->places_[*it];
    if (place.index != ReadState::kNoIndex) {
      out += "[" + std::to_string(place.index) + "]";
    } else if (!PlainKey(place.key)) {
      constexpr std::size_t kMost = 80;
      std::string shown(place.key.substr(0, kMost));
      for (char& c : shown) {
        c = static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
      }
      out += "[" + shown + "]";
    } else {
      out += (out.empty() ? "" : ".") + std::string(place.key);
    }
  }
  return out;
}

void Field::Fail(std::string_view message) const {
  if (state_->error) {
    return;
  }
  const std::string path = Path();
  state_->error = path.empty() ? std::string(message) : path + ": " + std::string(message);
}

const Field& Field::Required() const {
  if (value_ == nullptr) {
    Fail("required");
  }
  return *this;
}

bool Field::Expect(Json::value_t type, std::string_view wanted) const {
  if (!present()) {
    return false;
  }
  if (value_->type() == type) {
    return true;
  }
  Fail("expected " + std::string(wanted) + ", got " + std::string(TypeName(*value_)));
  return false;
}

void Field::Read(std::string& out) const {
  if (Expect(Json::value_t::string, "a string")) {
    out = value_->get_ref<const std::string&>();
  }
}

void Field::Read(bool& out) const {
  if (Expect(Json::value_t::boolean, "a boolean")) {
    out = value_->get<bool>();
  }
}

void Field::Read(std::int64_t& out) const {
  if (!present()) {
    return;
  }
  if (value_->is_number_unsigned()) {
    const auto value = value_->get<std::uint64_t>();
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      Fail("out of range");
      return;
    }
    out = static_cast<std::int64_t>(value);
  } else if (value_->is_number_integer()) {
    out = value_->get<std::int64_t>();
  } else {
    Fail("expected an integer, got " + std::string(TypeName(*value_)));
  }
}

void Field::Read(std::int32_t& out) const {
  std::int64_t wide = out;
  Read(wide);
  if (!present()) {
    return;
  }
  if (wide < std::numeric_limits<std::int32_t>::min() ||
      wide > std::numeric_limits<std::int32_t>::max()) {
    Fail("out of range for a 32-bit integer: " + std::to_string(wide));
    return;
  }
  out = static_cast<std::int32_t>(wide);
}

void Field::Read(std::vector<std::string>& out) const {
  Each([&](const Field& item) {
    std::string value;
    item.Read(value);
    out.push_back(std::move(value));
  });
}

void Field::Read(StringMap& out) const {
  EachMember([&](const std::string& key, const Field& item) {
    std::string value;
    item.Read(value);
    out.insert_or_assign(key, std::move(value));
  });
}

void Field::Read(Quantity& out) const {
  if (!present()) {
    return;
  }
  std::string text;
  if (value_->is_string()) {
    text = value_->get<std::string>();
  } else if (value_->is_number()) {
    text = value_->dump();
  } else {
    Fail("expected a quantity, got " + std::string(TypeName(*value_)));
    return;
  }
  const Result<Quantity> parsed = Quantity::Parse(TrimSpace(text));
  if (!parsed) {
    Fail(Quoted(text) + ": " + parsed.error().message);
    return;
  }
  out = *parsed;
}

void Field::Read(std::map<std::string, Quantity, std::less<>>& out) const {
  EachMember([&](const std::string& key, const Field& item) {
    Quantity value;
    item.Read(value);
    out.insert_or_assign(key, value);
  });
}

void Field::Read(TimePoint& out) const {
  std::string text;
  Read(text);
  if (!present()) {
    return;
  }
  const Result<TimePoint> parsed = ParseTime(text);
  if (!parsed) {
    Fail("expected a time in RFC 3339, got " + Quoted(text));
    return;
  }
  out = *parsed;
}

void Field::ReadRequests(ResourceVector& out) const {
  EachMember([&](const std::string& key, const Field& item) {
    Quantity value;
    item.Read(value);
    out.insert_or_assign(key, RequestAmount(key, value));
  });
}

void Field::ReadWordImpl(int& out, std::initializer_list<Word> words) const {
  std::string text;
  Read(text);
  if (text.empty()) {
    return;
  }
  std::string known;
  for (const Word& word : words) {
    if (word.text == text) {
      out = word.value;
      return;
    }
    known += (known.empty() ? "" : ", ") + std::string(word.text);
  }
  Fail("unsupported value " + Quoted(text) + ", expected one of " + known);
}

void Field::ReadRaw(JsonPtr& out) const {
  if (!present()) {
    return;
  }
  if (!DepthAtMost(*value_)) {
    Fail("nested more than " + std::to_string(kMaxJsonDepth) + " levels deep");
    return;
  }
  out = std::make_shared<const Json>(*value_);
}

}  // namespace muster::api
