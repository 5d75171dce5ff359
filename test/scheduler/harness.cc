#include "harness.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <set>

#include <gtest/gtest.h>

#include "k8sclient/api_error.h"
#include "k8sclient/requests.h"

namespace muster::scheduler {
namespace {

using api::Json;

std::uint64_t Version(const Json& object) {
  const std::string text = object.at("metadata").value("resourceVersion", "0");
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

sim::ApiServerOptions ServerOptions() {
  sim::ApiServerOptions options;
  options.install_policies = false;
  options.auto_create_namespaces = true;
  return options;
}

}  // namespace

Harness::Harness(Options options)
    : now(*ParseTime("2026-11-30T12:00:00Z")),
      options_(std::move(options)),
      server_(ServerOptions()) {
  Boot();
}

void Harness::Boot() {
  controller_.reset();
  state_ = std::make_unique<State>(options_);
  controller_ = std::make_unique<Controller>(*state_, options_);
  seen_.clear();
  cut = false;
  Feed();
  controller_->On(Synced{}, now);
  controller_->On(LeadershipChanged{.leading = true}, now);
}

void Harness::Restart() {
  Boot();
}

void Harness::Feed() {
  std::vector<const Json*> all = server_.All();
  std::ranges::sort(all, {}, [](const Json* object) { return Version(*object); });
  std::set<std::pair<api::Kind, api::ObjectKey>> alive;
  std::vector<Input> changes;
  for (const Json* object : all) {
    const std::string api_version = object->value("apiVersion", "");
    const auto slash = api_version.find('/');
    const std::string group = slash == std::string::npos ? "" : api_version.substr(0, slash);
    const auto kind = api::FindKind(group, object->value("kind", ""));
    if (!kind || api::Info(*kind).ApiVersion() != api_version) {
      continue;
    }
    const std::pair id{*kind,
                       api::ObjectKey{object->at("metadata").value("namespace", ""),
                                      object->at("metadata").value("name", "")}};
    alive.insert(id);
    const std::string version = object->at("metadata").value("resourceVersion", "") + "/" +
                                object->at("metadata").value("uid", "");
    if (seen_[id] == version) {
      continue;
    }
    seen_[id] = version;
    auto decoded = api::Decode(*kind, *object);
    if (decoded) {
      changes.emplace_back(ObjectChanged{.object = *decoded});
    }
  }
  for (auto it = seen_.begin(); it != seen_.end();) {
    if (!alive.contains(it->first)) {
      controller_->On(ObjectDeleted{.kind = it->first.first, .key = it->first.second}, now);
      it = seen_.erase(it);
    } else {
      ++it;
    }
  }
  for (Input& change : changes) {
    controller_->On(std::move(change), now);
  }
}

k8s::Response Harness::Handle(const k8s::Request& request) {
  if (intercept) {
    if (auto answer = intercept(request)) {
      return *answer;
    }
  }
  return server_.Handle(request, now);
}

bool Harness::Settle() {
  for (int round = 0; round < 400; ++round) {
    Feed();
    std::deque<Effect> effects;
    for (Effect& effect : controller_->Run(now)) {
      effects.push_back(std::move(effect));
    }
    if (effects.empty()) {
      return true;
    }
    while (!effects.empty()) {
      Effect effect = std::move(effects.front());
      effects.pop_front();
      if (auto* write = std::get_if<WriteEffect>(&effect)) {
        if (cut_after == 0) {
          cut = true;
          return true;
        }
        if (cut_after > 0) {
          --cut_after;
        }
        writes.push_back(write->request);
        k8s::Response response = Handle(write->request);
        WriteDone done{.id = write->id, .response = std::unexpected(k8s::ApiError{})};
        if (response.status >= 200 && response.status < 300) {
          done.response = std::move(response);
        } else if (response.status == 0) {
          done.response = std::unexpected(k8s::ErrorFromTransport(Error::Retry("cut")));
        } else {
          done.response = std::unexpected(k8s::ErrorFromResponse(response));
        }
        controller_->On(std::move(done), now);
      } else if (auto* solve = std::get_if<SolveEffect>(&effect)) {
        controller_->On(PlanReady{.plan = Decide(*solve->snapshot, now, Budget{})}, now);
      } else if (auto* event = std::get_if<EventEffect>(&effect)) {
        events.push_back(*event);
      }
    }
  }
  return false;
}

void Harness::Advance(Duration by) {
  const TimePoint end = now + by;
  for (int i = 0; i < 10'000; ++i) {
    Settle();
    const auto next = controller_->NextWake();
    if (!next || *next > end) {
      break;
    }
    now = std::max(now + std::chrono::milliseconds(1), *next);
    server_.Tick(now);
  }
  now = end;
  server_.Tick(now);
  Settle();
}

void Harness::Create(const Json& object) {
  const std::string api_version = object.value("apiVersion", "");
  const auto slash = api_version.find('/');
  const auto kind = api::FindKind(slash == std::string::npos ? "" : api_version.substr(0, slash),
                                  object.value("kind", ""));
  ASSERT_TRUE(kind.has_value()) << object.dump();
  const auto response = server_.Handle(
      k8s::Create(api::Path(*kind, object["metadata"].value("namespace", ""), {}), object), now);
  ASSERT_EQ(response.status, 201) << response.body;
  if (object.contains("status")) {
    Merge(api::Path(*kind,
                    object["metadata"].value("namespace", ""),
                    object["metadata"].value("name", ""),
                    "status"),
          {{"status", object["status"]}});
  }
}

void Harness::Merge(const std::string& path, const Json& patch) {
  const auto response = server_.Handle(k8s::MergePatch(path, patch), now);
  ASSERT_EQ(response.status, 200) << response.body;
}

void Harness::Delete(const std::string& path) {
  const auto response = server_.Handle(k8s::Delete(path), now);
  ASSERT_LT(response.status, 300) << response.body;
}

Json Harness::Get(const std::string& path) {
  const auto response = server_.Handle(k8s::Get(path), now);
  return response.status == 200 ? Json::parse(response.body) : Json();
}

Json Harness::OnlyWorkload(const std::string& ns) {
  Json found;
  for (const Json* workload : server_.List("kueue.x-k8s.io/workloads")) {
    if (workload->at("metadata").value("namespace", "") == ns) {
      EXPECT_TRUE(found.is_null()) << "two Workloads in " << ns;
      found = *workload;
    }
  }
  return found;
}

std::string Harness::Condition(const Json& object,
                               const std::string& type,
                               const std::string& field) {
  if (!object.is_object() || !object.contains("status") ||
      !object["status"].contains("conditions")) {
    return {};
  }
  for (const Json& condition : object["status"]["conditions"]) {
    if (condition.value("type", "") == type) {
      return condition.value(field, "");
    }
  }
  return {};
}

Json Flavor(const std::string& name) {
  return {{"apiVersion", "kueue.x-k8s.io/v1beta2"},
          {"kind", "ResourceFlavor"},
          {"metadata", {{"name", name}}},
          {"spec", Json::object()}};
}

Json ClusterQueue(const std::string& name, const std::string& cpu) {
  Json queue = Json::parse(
      R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"ClusterQueue","metadata":{},"spec":{"namespaceSelector":{},
    "resourceGroups":[{"coveredResources":["cpu"],"flavors":[{"name":"default","resources":[{"name":"cpu"}]}]}]}})");
  queue["metadata"]["name"] = name;
  queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = cpu;
  return queue;
}

Json LocalQueue(const std::string& ns, const std::string& name, const std::string& cluster_queue) {
  return {{"apiVersion", "kueue.x-k8s.io/v1beta2"},
          {"kind", "LocalQueue"},
          {"metadata", {{"namespace", ns}, {"name", name}}},
          {"spec", {{"clusterQueue", cluster_queue}}}};
}

Json Job(const std::string& ns,
         const std::string& name,
         const std::string& queue,
         int parallelism,
         const std::string& cpu) {
  Json job = Json::parse(
      R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"labels":{}},"spec":{"suspend":true,
    "template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i","resources":{"requests":{}}}]}}}})");
  job["metadata"]["namespace"] = ns;
  job["metadata"]["name"] = name;
  job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = queue;
  job["spec"]["parallelism"] = parallelism;
  job["spec"]["completions"] = parallelism;
  job["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu;
  return job;
}

Json HeldPod(const std::string& ns,
             const std::string& name,
             const std::string& queue,
             const std::string& cpu) {
  Json pod = Json::parse(
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"kueue.x-k8s.io/managed":"true"},"finalizers":["kueue.x-k8s.io/managed"]},
    "spec":{"schedulingGates":[{"name":"kueue.x-k8s.io/admission"}],"containers":[{"name":"c","image":"i","resources":{"requests":{}}}]}})");
  pod["metadata"]["namespace"] = ns;
  pod["metadata"]["name"] = name;
  pod["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = queue;
  pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu;
  return pod;
}

}  // namespace muster::scheduler
