#include "k8sclient/store.h"

#include <utility>

namespace muster::k8s {

bool Store::Knows(const api::ObjectMeta& meta) const {
  const auto it = entries_.find(meta.key());
  return it != entries_.end() && !meta.resource_version.empty() && it->second.uid == meta.uid &&
         it->second.resource_version == meta.resource_version;
}

Store::Changes Store::Upsert(StoreItem item) {
  Changes out;
  if (Knows(item.meta) || std::holds_alternative<StoreItem::Unchanged>(item.content)) {
    return out;
  }
  Entry& entry = entries_[item.meta.key()];
  if (entry.uid != item.meta.uid) {
    if (entry.handed_on) {
      out.push_back({StoreChange::Deleted{.key = item.meta.key()}});
    }
    entry = Entry{.uid = item.meta.uid, .resource_version = {}};
  }
  entry.resource_version = item.meta.resource_version;
  if (auto* object = std::get_if<api::Object>(&item.content)) {
    entry.handed_on = true;
    out.push_back({StoreChange::Upserted{.object = std::move(*object)}});
  } else {
    out.push_back({StoreChange::Bad{.meta = std::move(item.meta),
                                    .error = std::get<Error>(std::move(item.content))}});
  }
  return out;
}

Store::Changes Store::Delete(const api::ObjectMeta& meta) {
  Changes out;
  const auto it = entries_.find(meta.key());
  if (it == entries_.end() || (!meta.uid.empty() && it->second.uid != meta.uid)) {
    return out;
  }
  if (it->second.handed_on) {
    out.push_back({StoreChange::Deleted{.key = meta.key()}});
  }
  entries_.erase(it);
  return out;
}

void Store::BeginSnapshot() {
  snapshot_.emplace();
}

void Store::AddToSnapshot(StoreItem item) {
  if (snapshot_) {
    api::ObjectKey key = item.meta.key();
    snapshot_->insert_or_assign(std::move(key), std::move(item));
  }
}

void Store::RemoveFromSnapshot(const api::ObjectMeta& meta) {
  if (snapshot_) {
    snapshot_->erase(meta.key());
  }
}

Store::Changes Store::CommitSnapshot() {
  Changes out;
  if (!snapshot_) {
    return out;
  }
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (snapshot_->contains(it->first)) {
      ++it;
      continue;
    }
    if (it->second.handed_on) {
      out.push_back({StoreChange::Deleted{.key = it->first}});
    }
    it = entries_.erase(it);
  }
  for (auto& [key, item] : *snapshot_) {
    for (StoreChange& change : Upsert(std::move(item))) {
      out.push_back(std::move(change));
    }
  }
  snapshot_.reset();
  return out;
}

Store::Changes Store::Clear() {
  snapshot_.emplace();
  return CommitSnapshot();
}

}  // namespace muster::k8s
