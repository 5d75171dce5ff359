#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cel/program.h"
#include "sim/selectors.h"
#include "sim/server.h"

// Admission: the plugins of the real server that matter here, and admission policies evaluated from
// the stored objects.
namespace muster::sim {

// The stored policies with their bindings, compiled.
//
// Shape    Ordered by name, bindings of a policy too.
// Cost     Rebuilt after a policy or binding has changed; a request looks at each policy's rules.
class Policies {
 public:
  explicit Policies(const Server& server);
  ~Policies();
  Policies(const Policies&) = delete;
  Policies& operator=(const Policies&) = delete;

  // Lets the mutating policies change `object`, which is in the version of the call.
  [[nodiscard]] Outcome<bool> Mutate(Call& call,
                                     Operation operation,
                                     Json& object,
                                     const Json* old) const;
  [[nodiscard]] Outcome<void> Validate(Call& call,
                                       Operation operation,
                                       const Json* object,
                                       const Json* old) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Priority, runtime class, limit range and default tolerations.
[[nodiscard]] Outcome<void> MutateBuiltin(
    const Server& server, const Call& call, Operation operation, Json& object, const Json* old);
// What limit ranges forbid.
[[nodiscard]] Outcome<void> ValidateLimits(const Server& server,
                                           const Call& call,
                                           const Json& object);

// Merges what an apply configuration says into `target`, by the list types of `schema` (which may
// be null).
void MergeApplied(const Schema* schema, Json& target, const Json& applied);

}  // namespace muster::sim
