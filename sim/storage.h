#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/json.h"
#include "api/metadata.h"

// The memory of the API server: versioned objects and the log of their changes.
namespace muster::sim {

using api::Json;
using api::JsonPtr;
using api::ObjectKey;

// One stored object with its text, which is made once however many readers there are.
class Stored {
 public:
  explicit Stored(Json json);
  [[nodiscard]] const Json& json() const { return json_; }
  [[nodiscard]] const std::string& Text() const;
  [[nodiscard]] std::int64_t version() const { return version_; }

 private:
  Json json_;
  std::int64_t version_ = 0;
  mutable std::string text_;
};
using StoredPtr = std::shared_ptr<const Stored>;

// One committed change. `after` of a deletion is the last state with the version of the deletion;
// `before` of a creation is null.
struct Change {
  enum class Type : std::uint8_t { kAdded, kModified, kDeleted };
  std::int64_t version = 0;
  Type type = Type::kAdded;
  ObjectKey key;
  StoredPtr before;
  StoredPtr after;
};

// The objects of one resource.
//
// Shape    Ordered by namespace, then name. The log holds the newest `window` changes, oldest
// first. Cost     Reads and writes are O(log n); the log is append and trim.
class Table {
 public:
  using Objects = std::map<ObjectKey, StoredPtr>;

  [[nodiscard]] const Objects& objects() const { return objects_; }
  [[nodiscard]] StoredPtr Find(const ObjectKey& key) const;
  // [first, last) of one namespace; of everything when `ns` is empty.
  [[nodiscard]] std::pair<Objects::const_iterator, Objects::const_iterator> Range(
      const std::string& ns) const;

  // Changes have running numbers: [first_number, next_number) are held.
  [[nodiscard]] std::uint64_t first_number() const { return first_number_; }
  [[nodiscard]] std::uint64_t next_number() const { return first_number_ + log_.size(); }
  [[nodiscard]] const Change& At(std::uint64_t number) const {
    return log_[number - first_number_];
  }
  // Number of the first change newer than `version`.
  [[nodiscard]] std::uint64_t After(std::int64_t version) const;
  // The newest version whose change was dropped from the log; a reader that saw less must start
  // anew.
  [[nodiscard]] std::int64_t dropped_version() const { return dropped_version_; }
  // The objects as they were at `version`; the caller has checked that the log reaches back that
  // far.
  [[nodiscard]] Objects AsOf(std::int64_t version) const;

  void Commit(Change change, std::size_t window);

 private:
  Objects objects_;
  std::deque<Change> log_;
  std::uint64_t first_number_ = 0;
  std::int64_t dropped_version_ = 0;
};

}  // namespace muster::sim
