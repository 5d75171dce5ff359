#include "base/resource_vector.h"

#include <algorithm>

namespace muster {

void Add(ResourceVector& a, const ResourceVector& b) {
  for (const auto& [name, amount] : b) {
    a[name] += amount;
  }
}

void Subtract(ResourceVector& a, const ResourceVector& b) {
  for (const auto& [name, amount] : b) {
    a[name] -= amount;
  }
}

ResourceVector Times(const ResourceVector& a, std::int64_t count) {
  ResourceVector out;
  for (const auto& [name, amount] : a) {
    out.emplace(name, amount * count);
  }
  return out;
}

void MaxInPlace(ResourceVector& a, const ResourceVector& b) {
  for (const auto& [name, amount] : b) {
    auto [it, inserted] = a.try_emplace(name, amount);
    if (!inserted) {
      it->second = std::max(it->second, amount);
    }
  }
}

}  // namespace muster
