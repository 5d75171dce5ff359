#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/metadata.h"

// Tables whose snapshots share everything that did not change.
namespace muster::placement {

// Slots of immutable items. Freeze() is O(chunks) and only when something changed since the last
// one.
//
// Threads  The table belongs to one thread; a View may be read from any.
template <typename T>
class CowTable {
  static constexpr std::size_t kChunk = 64;
  struct Chunk {
    std::array<std::shared_ptr<const T>, kChunk> items;
  };
  using Chunks = std::vector<std::shared_ptr<Chunk>>;

 public:
  class View {
   public:
    View() = default;
    [[nodiscard]] std::size_t size() const { return chunks_ ? chunks_->size() * kChunk : 0; }
    // The item or null.
    [[nodiscard]] const T* Get(std::size_t slot) const {
      return slot < size() ? (*chunks_)[slot / kChunk]->items[slot % kChunk].get() : nullptr;
    }

   private:
    friend class CowTable;
    explicit View(std::shared_ptr<const Chunks> chunks) : chunks_(std::move(chunks)) {}
    std::shared_ptr<const Chunks> chunks_;
  };

  void Set(std::size_t slot, std::shared_ptr<const T> item) {
    const std::size_t index = slot / kChunk;
    while (chunks_.size() <= index) {
      chunks_.push_back(std::make_shared<Chunk>());
      shared_.push_back(false);
    }
    // A chunk that a view may see is replaced, never changed.
    if (shared_[index]) {
      chunks_[index] = std::make_shared<Chunk>(*chunks_[index]);
      shared_[index] = false;
    }
    chunks_[index]->items[slot % kChunk] = std::move(item);
    frozen_.reset();
  }
  [[nodiscard]] const T* Get(std::size_t slot) const {
    const std::size_t index = slot / kChunk;
    return index < chunks_.size() ? chunks_[index]->items[slot % kChunk].get() : nullptr;
  }
  [[nodiscard]] View Freeze() {
    if (!frozen_) {
      frozen_ = std::make_shared<const Chunks>(chunks_);
      shared_.assign(chunks_.size(), true);
    }
    return View(frozen_);
  }

 private:
  Chunks chunks_;
  std::vector<bool> shared_;
  std::shared_ptr<const Chunks> frozen_;
};

[[nodiscard]] inline std::uint64_t StableHash(std::string_view text,
                                              std::uint64_t hash = 14695981039346656037ULL) {
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  }
  return hash;
}
[[nodiscard]] inline std::uint64_t StableHash(const api::ObjectKey& key) {
  return StableHash(key.name, StableHash(key.ns) * 31);
}

// Key -> immutable value in hash buckets of a CowTable. Nothing iterates it, so no order hangs on
// the hash.
template <typename K, typename V>
class CowMap {
  static constexpr std::size_t kBuckets = 1024;
  struct Bucket {
    std::vector<std::pair<K, std::shared_ptr<const V>>> entries;
  };
  static const V* FindIn(const Bucket* bucket, const K& key) {
    if (bucket != nullptr) {
      for (const auto& entry : bucket->entries) {
        if (entry.first == key) {
          return entry.second.get();
        }
      }
    }
    return nullptr;
  }

 public:
  class View {
   public:
    [[nodiscard]] const V* Find(const K& key) const {
      return FindIn(table_.Get(StableHash(key) % kBuckets), key);
    }

   private:
    friend class CowMap;
    typename CowTable<Bucket>::View table_;
  };

  [[nodiscard]] const V* Find(const K& key) const {
    return FindIn(table_.Get(StableHash(key) % kBuckets), key);
  }
  // A null value erases.
  void Set(const K& key, std::shared_ptr<const V> value) {
    const std::size_t slot = StableHash(key) % kBuckets;
    const Bucket* old = table_.Get(slot);
    auto bucket = old == nullptr ? std::make_shared<Bucket>() : std::make_shared<Bucket>(*old);
    auto at = std::find_if(bucket->entries.begin(), bucket->entries.end(), [&](const auto& entry) {
      return entry.first == key;
    });
    if (at == bucket->entries.end()) {
      if (value) {
        bucket->entries.emplace_back(key, std::move(value));
      }
    } else if (value) {
      at->second = std::move(value);
    } else {
      bucket->entries.erase(at);
    }
    table_.Set(slot, std::move(bucket));
  }
  [[nodiscard]] View Freeze() {
    View view;
    view.table_ = table_.Freeze();
    return view;
  }

 private:
  CowTable<Bucket> table_;
};

}  // namespace muster::placement
