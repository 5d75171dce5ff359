#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/json.h"
#include "api/object.h"
#include "scheduler/controller.h"
#include "scheduler/state.h"
#include "sim/api_server.h"

namespace muster::scheduler {

// The controller against the API server in memory, without driver, sockets or threads. Every write
// is applied, every change fed back.
class Harness {
 public:
  explicit Harness(Options options = {});

  void Create(const api::Json& object);
  void Merge(const std::string& path, const api::Json& patch);  // merge patch by somebody else
  void Delete(const std::string& path);
  [[nodiscard]] api::Json Get(const std::string& path);
  // The only Workload of a namespace; null if there is none.
  [[nodiscard]] api::Json OnlyWorkload(const std::string& ns);
  // Status of a condition of the object at `path`, empty if absent.
  [[nodiscard]] std::string Condition(const api::Json& object,
                                      const std::string& type,
                                      const std::string& field = "status");

  // Runs until nothing is left to do now. Returns false when a limit of rounds is reached: the
  // controller does not come to rest.
  bool Settle();
  void Advance(Duration by);
  // Forgets all memory and starts a new controller on what the API server holds.
  void Restart();
  // Ends the controller after so many more writes have been carried out; -1: never. A cut write is
  // not applied.
  int cut_after = -1;
  bool cut = false;
  // Seen before the server; an answer replaces the server's.
  std::function<std::optional<k8s::Response>(const k8s::Request&)> intercept;

  std::vector<k8s::Request> writes;
  std::vector<EventEffect> events;
  std::vector<std::string> violations;
  TimePoint now;

  [[nodiscard]] Controller& controller() { return *controller_; }
  [[nodiscard]] State& state() { return *state_; }
  [[nodiscard]] sim::ApiServer& server() { return server_; }

 private:
  void Feed();
  void Boot();
  k8s::Response Handle(const k8s::Request& request);

  Options options_;
  sim::ApiServer server_;
  std::unique_ptr<State> state_;
  std::unique_ptr<Controller> controller_;
  std::map<std::pair<api::Kind, api::ObjectKey>, std::string> seen_;
};

// Objects for tests.
api::Json Flavor(const std::string& name);
api::Json ClusterQueue(const std::string& name, const std::string& cpu);
api::Json LocalQueue(const std::string& ns,
                     const std::string& name,
                     const std::string& cluster_queue);
api::Json Job(const std::string& ns,
              const std::string& name,
              const std::string& queue,
              int parallelism,
              const std::string& cpu);
api::Json HeldPod(const std::string& ns,
                  const std::string& name,
                  const std::string& queue,
                  const std::string& cpu);

}  // namespace muster::scheduler
