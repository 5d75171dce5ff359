#include "sim/rbac.h"

#include <algorithm>
#include <vector>

#include "sim/access.h"

namespace muster::sim {
namespace {

bool Lists(const std::vector<std::string>& list, const std::string& wanted) {
  return std::ranges::any_of(
      list, [&](const std::string& item) { return item == "*" || item == wanted; });
}

bool RuleAllows(const Json& rule, const Access& access) {
  if (!Lists(TextsAt(rule, "verbs"), access.verb)) {
    return false;
  }
  if (!access.path.empty()) {
    return std::ranges::any_of(TextsAt(rule, "nonResourceURLs"), [&](const std::string& url) {
      return url == access.path ||
             (url.ends_with('*') && access.path.starts_with(url.substr(0, url.size() - 1)));
    });
  }
  if (!Lists(TextsAt(rule, "apiGroups"), access.group)) {
    return false;
  }
  const std::string full =
      access.subresource.empty() ? access.resource : access.resource + "/" + access.subresource;
  const bool resource =
      std::ranges::any_of(TextsAt(rule, "resources"), [&](const std::string& item) {
        return item == "*" || item == full ||
               (!access.subresource.empty() && item == "*/" + access.subresource);
      });
  const std::vector<std::string> names = TextsAt(rule, "resourceNames");
  return resource && (names.empty() || std::ranges::find(names, access.name) != names.end());
}

bool SubjectIs(const Json& subject, const UserInfo& user, const std::string& binding_ns) {
  const std::string kind = TextAt(subject, "kind");
  const std::string name = TextAt(subject, "name");
  if (kind == "User") {
    return name == "*" || name == user.name;
  }
  if (kind == "Group") {
    return std::ranges::find(user.groups, name) != user.groups.end();
  }
  if (kind == "ServiceAccount") {
    const std::string ns =
        HasText(subject, "namespace") ? TextAt(subject, "namespace") : binding_ns;
    return user.name == "system:serviceaccount:" + ns + ":" + name;
  }
  return false;
}

}  // namespace

bool Allowed(const Server& server, const UserInfo& user, const Access& access) {
  if (std::ranges::find(user.groups, "system:masters") != user.groups.end()) {
    return true;
  }
  const auto resource = [&](const char* plural) {
    return server.registry.Find("rbac.authorization.k8s.io", plural);
  };
  const auto rules_allow = [&](const Json& binding, const std::string& ns) {
    const Json& ref = ObjectAt(binding, "roleRef");
    const bool cluster = TextAt(ref, "kind") == "ClusterRole";
    const StoredPtr role =
        server.TableOf(*resource(cluster ? "clusterroles" : "roles"))
            .Find(ObjectKey{.ns = cluster ? "" : ns, .name = TextAt(ref, "name")});
    return role != nullptr &&
           std::ranges::any_of(ListAt(role->json(), "rules"),
                               [&](const Json& rule) { return RuleAllows(rule, access); });
  };
  const auto bound = [&](const Json& binding, const std::string& ns) {
    return std::ranges::any_of(ListAt(binding, "subjects"),
                               [&](const Json& subject) { return SubjectIs(subject, user, ns); });
  };
  for (const auto& [key, binding] : server.TableOf(*resource("clusterrolebindings")).objects()) {
    if (bound(binding->json(), "") && rules_allow(binding->json(), "")) {
      return true;
    }
  }
  if (access.ns.empty() || !access.path.empty()) {
    return false;
  }
  const auto [begin, end] = server.TableOf(*resource("rolebindings")).Range(access.ns);
  return std::any_of(begin, end, [&](const auto& entry) {
    return bound(entry.second->json(), access.ns) && rules_allow(entry.second->json(), access.ns);
  });
}

}  // namespace muster::sim
