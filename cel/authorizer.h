#pragma once

#include <memory>
#include <string>

#include "cel/value.h"

namespace muster::cel {

// What `authorizer.group(...).resource(...).check(verb)` or `authorizer.path(...).check(verb)`
// asks.
struct AccessQuery {
  // Of authorizer.serviceAccount(namespace, name); empty for the user of the request.
  std::string service_account;
  std::string path;  // not empty: a non-resource request
  std::string group;
  std::string resource;
  std::string subresource;
  std::string ns;
  std::string name;
  std::string field_selector;
  std::string label_selector;
  std::string verb;
};

struct AccessDecision {
  bool allowed = false;
  std::string reason;
  std::string error;  // not empty: the decision could not be made
};

// Who answers such questions. Called while an expression runs; each call costs 350,000 steps, as
// upstream charges it.
class AccessBackend {
 public:
  virtual ~AccessBackend() = default;
  [[nodiscard]] virtual AccessDecision Check(const AccessQuery& query) const = 0;
};

// The value of variable `authorizer` (and, with a query filled in, of authorizer.requestResource).
[[nodiscard]] Value MakeAuthorizer(std::shared_ptr<const AccessBackend> backend);

}  // namespace muster::cel
