#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "scheduler/cycle/plan.h"
#include "scheduler/cycle/snapshot.h"

namespace muster::scheduler {

// Points in the life of the state at which something happened that could change verdicts. 0: never.
struct WakeClock {
  std::uint64_t quota = 0;          // quota given back in the tree
  std::uint64_t configuration = 0;  // anything that decisions in the tree read
  std::uint64_t capacity = 0;
  std::uint64_t pods_ready = 0;
};

// The Workloads that wait in one ClusterQueue.
//
// Shape    Interchangeable Workloads (equal Shape::digest) form a class. A refusal parks the whole
// class under what would change its verdict; it is
//          active again as soon as that has happened after the refusal was decided. Nothing is
//          touched when a wake-up comes: activity is a comparison of two numbers.
// Cost     Add and Remove O(log n); IsActive O(1) per class.
// Threads  The I/O thread.
class PendingQueue {
 public:
  struct ByOrder {
    bool operator()(const std::shared_ptr<const PendingItem>& a,
                    const std::shared_ptr<const PendingItem>& b) const {
      return a->Before(*b);
    }
  };
  using Items = std::set<std::shared_ptr<const PendingItem>, ByOrder>;

  void Add(const std::shared_ptr<const PendingItem>& item);
  void Remove(const std::shared_ptr<const PendingItem>& item);
  // The same Workload in a newer version that still stands at the same place in the same class:
  // nothing is woken by it.
  void Replace(const std::shared_ptr<const PendingItem>& old_item,
               const std::shared_ptr<const PendingItem>& new_item);
  [[nodiscard]] bool empty() const { return items_.empty(); }
  [[nodiscard]] const Items& items() const { return items_; }
  [[nodiscard]] const Items* ClassItems(const std::string& digest) const;

  // Parks the class: decided on what was known at `generation`.
  void Park(const std::string& digest,
            const Refusal& refusal,
            std::uint64_t generation,
            TimePoint now);
  [[nodiscard]] const Verdict* VerdictOf(const std::string& digest) const;

  // The Workload that stands first in a StrictFIFO queue decides for all.
  [[nodiscard]] bool HasActive(const WakeClock& clock, bool strict, TimePoint now) const;
  // The earliest time at which an undecided class wants to be tried again.
  [[nodiscard]] std::optional<TimePoint> NextRetry() const;
  // What a decision gets to see: at most `most_per_class` items of each active class; of a
  // StrictFIFO queue the items before the first parked one.
  void FillView(const WakeClock& clock,
                bool strict,
                TimePoint now,
                std::size_t most_per_class,
                PendingQueueView& view) const;
  // Classes that hold their queue's nominal quota against borrowers. When it shrinks, borrowers may
  // have a chance.
  [[nodiscard]] std::size_t holding() const { return holding_; }
  // Makes the class active whatever it waits for.
  void Wake(const std::string& digest);
  // Grows with Add, Remove and Park.
  [[nodiscard]] std::uint64_t revision() const { return revision_; }

 private:
  struct Class {
    Items items;
    bool parked = false;
    bool woken = false;
    std::uint64_t parked_at = 0;
    WakeOn wake;
    TimePoint retry_at{};
    Verdict verdict;
    std::int32_t undecided = 0;
    std::vector<std::pair<quota::FlavorResource, Amount>> held;
  };
  [[nodiscard]] static bool IsActive(const Class& entry, const WakeClock& clock, TimePoint now);

  Items items_;
  std::map<std::string, Class, std::less<>> classes_;
  std::size_t holding_ = 0;
  std::size_t retrying_ = 0;
  std::uint64_t revision_ = 0;
};

}  // namespace muster::scheduler
