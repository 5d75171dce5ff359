#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/amount.h"

namespace muster {

// Resource name -> amount, ordered by name. The form in which requests and capacities travel
// between modules; solvers translate it into dense rows of their own.
using ResourceVector = std::map<std::string, Amount, std::less<>>;

// a += b, resource by resource, saturating.
void Add(ResourceVector& a, const ResourceVector& b);
// a -= b; a resource absent from `a` counts as 0 there.
void Subtract(ResourceVector& a, const ResourceVector& b);
// Each amount times `count` (>= 0).
[[nodiscard]] ResourceVector Times(const ResourceVector& a, std::int64_t count);
// Element-wise maximum.
void MaxInPlace(ResourceVector& a, const ResourceVector& b);

}  // namespace muster
