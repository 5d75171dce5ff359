#include "scheduler/queue/pending.h"

#include <algorithm>

namespace muster::scheduler {

void PendingQueue::Add(const std::shared_ptr<const PendingItem>& item) {
  ++revision_;
  items_.insert(item);
  classes_[item->shape->digest].items.insert(item);
}

void PendingQueue::Remove(const std::shared_ptr<const PendingItem>& item) {
  ++revision_;
  items_.erase(item);
  const auto it = classes_.find(item->shape->digest);
  if (it == classes_.end()) {
    return;
  }
  it->second.items.erase(item);
  if (it->second.items.empty()) {
    holding_ -= it->second.held.empty() ? 0 : 1;
    retrying_ -= it->second.parked && it->second.wake.retry_after ? 1 : 0;
    classes_.erase(it);
  }
}

void PendingQueue::Replace(const std::shared_ptr<const PendingItem>& old_item,
                           const std::shared_ptr<const PendingItem>& new_item) {
  Items& members = classes_[old_item->shape->digest].items;
  items_.erase(old_item);
  members.erase(old_item);
  items_.insert(new_item);
  members.insert(new_item);
}

const PendingQueue::Items* PendingQueue::ClassItems(const std::string& digest) const {
  const auto it = classes_.find(digest);
  return it == classes_.end() ? nullptr : &it->second.items;
}

void PendingQueue::Park(const std::string& digest,
                        const Refusal& refusal,
                        std::uint64_t generation,
                        TimePoint now) {
  const auto it = classes_.find(digest);
  if (it == classes_.end()) {
    return;
  }
  ++revision_;
  Class& entry = it->second;
  holding_ -= entry.held.empty() ? 0 : 1;
  retrying_ -= entry.parked && entry.wake.retry_after ? 1 : 0;
  entry.parked = true;
  entry.parked_at = generation;
  entry.woken = false;
  entry.wake = refusal.wake;
  entry.verdict = refusal.verdict;
  entry.held = refusal.held;
  if (refusal.wake.retry_after) {
    entry.retry_at = now + *refusal.wake.retry_after;
    ++entry.undecided;
    ++retrying_;
  } else {
    entry.undecided = 0;
  }
  holding_ += entry.held.empty() ? 0 : 1;
}

void PendingQueue::Wake(const std::string& digest) {
  if (const auto it = classes_.find(digest); it != classes_.end()) {
    it->second.woken = true;
    ++revision_;
  }
}

const Verdict* PendingQueue::VerdictOf(const std::string& digest) const {
  const auto it = classes_.find(digest);
  return it == classes_.end() || it->second.verdict.reason.empty() ? nullptr : &it->second.verdict;
}

bool PendingQueue::IsActive(const Class& entry, const WakeClock& clock, TimePoint now) {
  if (!entry.parked || entry.woken || clock.configuration > entry.parked_at) {
    return true;
  }
  return (entry.wake.quota && clock.quota > entry.parked_at) ||
         (entry.wake.capacity && clock.capacity > entry.parked_at) ||
         (entry.wake.pods_ready && clock.pods_ready > entry.parked_at) ||
         (entry.wake.retry_after && now >= entry.retry_at);
}

bool PendingQueue::HasActive(const WakeClock& clock, bool strict, TimePoint now) const {
  if (items_.empty()) {
    return false;
  }
  if (strict) {
    return IsActive(classes_.find((*items_.begin())->shape->digest)->second, clock, now);
  }
  return std::any_of(classes_.begin(), classes_.end(), [&](const auto& entry) {
    return IsActive(entry.second, clock, now);
  });
}

std::optional<TimePoint> PendingQueue::NextRetry() const {
  std::optional<TimePoint> out;
  if (retrying_ == 0) {
    return out;
  }
  for (const auto& [digest, entry] : classes_) {
    if (entry.parked && entry.wake.retry_after && (!out || entry.retry_at < *out)) {
      out = entry.retry_at;
    }
  }
  return out;
}

void PendingQueue::FillView(const WakeClock& clock,
                            bool strict,
                            TimePoint now,
                            std::size_t most_per_class,
                            PendingQueueView& view) const {
  if (strict) {
    std::map<std::string_view, std::size_t> index;
    std::size_t taken = 0;
    for (const auto& item : items_) {
      const Class& entry = classes_.find(item->shape->digest)->second;
      if (!IsActive(entry, clock, now) || taken++ == most_per_class) {
        break;
      }
      const auto [it, inserted] = index.try_emplace(item->shape->digest, view.classes.size());
      if (inserted) {
        view.classes.push_back(PendingClass{.items = {}, .undecided = entry.undecided});
      }
      view.classes[it->second].items.push_back(item);
    }
  } else {
    for (const auto& [digest, entry] : classes_) {
      if (!IsActive(entry, clock, now)) {
        continue;
      }
      PendingClass& out =
          view.classes.emplace_back(PendingClass{.items = {}, .undecided = entry.undecided});
      for (const auto& item : entry.items) {
        if (out.items.size() == most_per_class) {
          break;
        }
        out.items.push_back(item);
      }
    }
  }
  if (holding_ == 0) {
    return;
  }
  // The first in order among those that wait for their queue's own quota: what is free of it cannot
  // be held twice.
  const Class* first = nullptr;
  for (const auto& [digest, entry] : classes_) {
    if (!entry.held.empty() && !IsActive(entry, clock, now) &&
        (first == nullptr || (*entry.items.begin())->Before(**first->items.begin()))) {
      first = &entry;
    }
  }
  if (first != nullptr) {
    view.held = first->held;
    view.held_for = (*first->items.begin())->ref.key.ToString();
  }
}

}  // namespace muster::scheduler
