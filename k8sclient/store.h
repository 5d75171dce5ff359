#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/kind.h"
#include "api/metadata.h"
#include "api/object.h"
#include "base/result.h"

namespace muster::k8s {

// One object as it arrived: decoded, or the reason why not, or not even looked at because the store
// knows this version.
struct StoreItem {
  struct Unchanged {};

  api::ObjectMeta meta;
  std::variant<api::Object, Error, Unchanged> content;
};

struct StoreChange {
  struct Upserted {
    api::Object object;
  };
  struct Deleted {
    api::ObjectKey key;
  };
  struct Bad {
    api::ObjectMeta meta;
    Error error;
  };
  std::variant<Upserted, Deleted, Bad> what;
};

// Which objects of one collection have been handed on, and in which version, so that nothing is
// lost and nothing repeated over cuts, relists and swaps. It keeps identities, not objects: whoever
// gets the changes keeps those.
//
// Bad objects  An object that does not decode is reported once per version. If an earlier version
// of the same object (same uid) was good,
//              that version stays in force: dropping it would free quota and devices that are still
//              in use. Its deletion is reported as usual. An object that never was good is not
//              reported as deleted either.
// Recreated    A key that comes back with another uid is reported as deleted first, then as
// upserted. Threads      A value. Cost         O(log n) per event; a swap is O(n).
class Store {
 public:
  using Changes = std::vector<StoreChange>;

  // This very version has been taken in: it need not be decoded again.
  [[nodiscard]] bool Knows(const api::ObjectMeta& meta) const;

  [[nodiscard]] Changes Upsert(StoreItem item);
  [[nodiscard]] Changes Delete(const api::ObjectMeta& meta);

  void BeginSnapshot();
  void AddToSnapshot(StoreItem item);
  void RemoveFromSnapshot(const api::ObjectMeta& meta);
  // The snapshot becomes the collection. Deletions come first, then the rest in order of keys.
  [[nodiscard]] Changes CommitSnapshot();

  // Everything goes (the kind is no longer served): one deletion each.
  [[nodiscard]] Changes Clear();

  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::string uid;
    std::string resource_version;
    bool handed_on = false;  // a good version is with the receiver
  };
  std::map<api::ObjectKey, Entry> entries_;
  std::optional<std::map<api::ObjectKey, StoreItem>> snapshot_;
};

}  // namespace muster::k8s
