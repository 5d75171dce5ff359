#pragma once

#include <string>

#include "sim/server.h"

// Who may do what, by the stored roles and bindings. Requests themselves are not checked: reviews
// and the authorizer of policies ask here.
namespace muster::sim {

struct Access {
  std::string verb;
  std::string group;
  std::string resource;
  std::string subresource;
  std::string ns;
  std::string name;
  std::string path;  // not empty: a request for no resource
};

// Members of system:masters may do everything, as on the real server.
[[nodiscard]] bool Allowed(const Server& server, const UserInfo& user, const Access& access);

}  // namespace muster::sim
