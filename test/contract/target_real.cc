#include <cstdlib>
#include <string>
#include <utility>

#include "k8sclient/beast_transport.h"
#include "k8sclient/config.h"
#include "k8sclient/io_loop.h"
#include "test/contract/target.h"

namespace muster::contract {
namespace {

class Real final : public Target {
 public:
  k8s::IoLoop loop;
  std::unique_ptr<k8s::Transport> connection;

  k8s::Transport& transport() override { return *connection; }
  k8s::Timers& timers() override { return loop; }
  bool Until(const std::function<bool()>& done, Duration limit) override {
    const TimePoint end = loop.Now() + limit;
    while (!done()) {
      if (loop.Now() >= end) {
        return false;
      }
      loop.RunFor(std::chrono::milliseconds(50));
    }
    return true;
  }
};

}  // namespace

TargetKind RealTarget() {
  return {.name = "KubeApiserver", .make = [](std::string& why) -> std::unique_ptr<Target> {
            const char* path = std::getenv("MUSTER_TEST_KUBECONFIG");
            if (path == nullptr || *path == '\0') {
              why =
                  "MUSTER_TEST_KUBECONFIG is not set: start a control plane with test/cluster/up "
                  "and set it to the kubeconfig";
              return nullptr;
            }
            auto out = std::make_unique<Real>();
            Result<k8s::ConnectionConfig> config =
                k8s::LoadKubeconfig(path, {}, k8s::ConfigEnvironment::Real());
            if (!config) {
              why = config.error().message;
              return nullptr;
            }
            Result<std::unique_ptr<k8s::Transport>> transport =
                k8s::MakeBeastTransport(out->loop, std::move(*config));
            if (!transport) {
              why = transport.error().message;
              return nullptr;
            }
            out->connection = std::move(*transport);
            return out;
          }};
}

}  // namespace muster::contract
