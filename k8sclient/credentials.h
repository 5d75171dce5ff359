#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "k8sclient/config.h"
#include "k8sclient/io_loop.h"
#include "k8sclient/request.h"

namespace muster::k8s {

// What a request carries to say who sends it.
struct Credential {
  Headers headers;       // authorization, impersonate-*
  std::string cert_pem;  // of a plugin; empty: none
  std::string key_pem;
  // Counts up with each change, so that a refusal can name what was refused.
  std::uint64_t generation = 0;
};

// Keeps credentials fresh: token files are read again as they rotate, plugins are run again when
// what they gave expires or is refused.
//
// Threads  That of the loop. Plugins run on a thread of their own, one at a time, which ends with
// the object.
class Credentials {
 public:
  using Done = std::move_only_function<void(Result<Credential>)>;

  Credentials(IoLoop& loop, AuthConfig config, ConfigEnvironment environment);
  ~Credentials();
  Credentials(const Credentials&) = delete;
  Credentials& operator=(const Credentials&) = delete;

  // May call `done` at once.
  void Get(Done done);
  // The server answered 401 to this one. True if asking again may give something else.
  [[nodiscard]] bool Refused(std::uint64_t generation);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::k8s
