#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "api/json.h"
#include "api/metadata.h"
#include "api/quantity.h"
#include "base/resource_vector.h"
#include "base/result.h"

// Readers for one field each, which know where they stand in the document.
namespace muster::api {

// What one decoding shares: the first error, and the path of every place that is being looked at.
class ReadState {
 public:
  std::optional<std::string> error;  // "spec.parallelism: expected an integer, got a string"

 private:
  friend class Field;
  struct Place {
    std::uint32_t parent = 0;
    std::uint32_t index = kNoIndex;  // in a list
    std::string_view key;            // in an object
  };
  static constexpr std::uint32_t kNoIndex = static_cast<std::uint32_t>(-1);
  std::vector<Place> places_ = std::vector<Place>(1);  // places_[0] is the root
};

// A place in a JSON document: `root["spec"]["count"].Read(out)`.
//
// Shape    Paths live in the ReadState, so a Field can be copied and named freely while document
// and state live. Fields made inside
//          Each and EachMember must not outlive the visit of their element. Keys must outlive the
//          state (literals, or keys of the document).
// Errors   The first one is kept in the ReadState, with the path of the place that failed; every
// later read is a no-op. Null equals
//          absent. An absent field leaves `out` as it is. Unknown fields are never looked at.
// Threads  A value on one stack.
// Cost     One map lookup a field; path texts are built only for an error.
class Field {
 public:
  Field(const Json& root, ReadState& state)
      : state_(&state), value_(root.is_null() ? nullptr : &root) {}

  [[nodiscard]] Field operator[](std::string_view key) const;
  // True if present, not null, and nothing has failed yet.
  [[nodiscard]] bool present() const { return value_ != nullptr && !state_->error; }
  [[nodiscard]] const Json* json() const { return value_; }
  [[nodiscard]] bool IsString() const { return present() && value_->is_string(); }

  void Fail(std::string_view message) const;
  // Fails if the field is absent: "required".
  const Field& Required() const;

  void Read(std::string& out) const;
  void Read(bool& out) const;
  void Read(std::int32_t& out) const;
  void Read(std::int64_t& out) const;
  void Read(std::vector<std::string>& out) const;
  void Read(StringMap& out) const;
  // Quantities are strings or numbers.
  void Read(Quantity& out) const;
  void Read(std::map<std::string, Quantity, std::less<>>& out) const;
  void Read(TimePoint& out) const;
  template <typename T>
  void Read(std::optional<T>& out) const {
    if (present()) {
      T value{};
      Read(value);
      out = std::move(value);
    }
  }
  // Resource amounts in internal units, never negative.
  void ReadRequests(ResourceVector& out) const;
  // One of a closed set of words; an empty string leaves `out`.
  struct Word {
    std::string_view text;
    int value;
  };
  template <typename E>
  void ReadWord(E& out, std::initializer_list<Word> words) const {
    int value = static_cast<int>(out);
    ReadWordImpl(value, words);
    out = static_cast<E>(value);
  }
  // A copy of the value; fails when it is nested too deeply to be copied safely.
  void ReadRaw(JsonPtr& out) const;

  // Calls `visit(const Field&)` for each element; fails unless the field is a list. A null element
  // counts as absent.
  template <typename F>
  void Each(F&& visit) const {
    if (!Expect(Json::value_t::array, "a list")) {
      return;
    }
    const std::size_t mark = state_->places_.size();
    std::uint32_t index = 0;
    for (const Json& item : *value_) {
      if (state_->error) {
        return;
      }
      visit(Child({}, index++, &item));
      state_->places_.resize(mark);
    }
  }
  // Calls `visit(const std::string& key, const Field&)` for each member in the order of the keys.
  template <typename F>
  void EachMember(F&& visit) const {
    if (!Expect(Json::value_t::object, "an object")) {
      return;
    }
    const std::size_t mark = state_->places_.size();
    for (auto it = value_->begin(); it != value_->end(); ++it) {
      if (state_->error) {
        return;
      }
      visit(it.key(), Child(it.key(), ReadState::kNoIndex, &it.value()));
      state_->places_.resize(mark);
    }
  }
  // A list of structs, read element by element.
  template <typename T, typename F>
  void ReadList(std::vector<T>& out, F&& read) const {
    Each([&](const Field& item) {
      T value{};
      read(item, value);
      out.push_back(std::move(value));
    });
  }

 private:
  Field(ReadState& state, std::uint32_t place, const Json* value)
      : state_(&state), place_(place), value_(value) {}
  [[nodiscard]] Field Child(std::string_view key, std::uint32_t index, const Json* value) const;

  [[nodiscard]] bool Expect(Json::value_t type, std::string_view wanted) const;
  void ReadWordImpl(int& out, std::initializer_list<Word> words) const;
  [[nodiscard]] std::string Path() const;

  ReadState* state_;
  std::uint32_t place_ = 0;
  const Json* value_;
};

}  // namespace muster::api
