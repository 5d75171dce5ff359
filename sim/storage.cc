#include "sim/storage.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace muster::sim {

Stored::Stored(Json json) : json_(std::move(json)) {
  const auto meta = json_.find("metadata");
  if (meta != json_.end()) {
    const auto version = meta->find("resourceVersion");
    if (version != meta->end() && version->is_string()) {
      const auto& text = version->get_ref<const std::string&>();
      std::from_chars(text.data(), text.data() + text.size(), version_);
    }
  }
}

const std::string& Stored::Text() const {
  if (text_.empty()) {
    text_ = json_.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return text_;
}

StoredPtr Table::Find(const ObjectKey& key) const {
  const auto it = objects_.find(key);
  return it == objects_.end() ? nullptr : it->second;
}

std::pair<Table::Objects::const_iterator, Table::Objects::const_iterator> Table::Range(
    const std::string& ns) const {
  if (ns.empty()) {
    return {objects_.begin(), objects_.end()};
  }
  // '\0' cannot be part of a namespace, so the next key that is not in `ns` is at least ns + '\0'.
  return {objects_.lower_bound(ObjectKey{.ns = ns, .name = {}}),
          objects_.lower_bound(ObjectKey{.ns = ns + std::string(1, '\0'), .name = {}})};
}

std::uint64_t Table::After(std::int64_t version) const {
  const auto it = std::ranges::upper_bound(log_, version, {}, &Change::version);
  return first_number_ + static_cast<std::uint64_t>(it - log_.begin());
}

Table::Objects Table::AsOf(std::int64_t version) const {
  Objects out = objects_;
  for (auto it = log_.rbegin(); it != log_.rend() && it->version > version; ++it) {
    if (it->before) {
      out.insert_or_assign(it->key, it->before);
    } else {
      out.erase(it->key);
    }
  }
  return out;
}

void Table::Commit(Change change, std::size_t window) {
  if (change.type == Change::Type::kDeleted) {
    objects_.erase(change.key);
  } else {
    objects_.insert_or_assign(change.key, change.after);
  }
  log_.push_back(std::move(change));
  while (log_.size() > window) {
    dropped_version_ = log_.front().version;
    log_.pop_front();
    ++first_number_;
  }
}

}  // namespace muster::sim
