#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "k8sclient/config.h"
#include "k8sclient/exec_credential.h"

// Any bytes as a kubeconfig: an answer or an error that names the file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const muster::k8s::ConfigEnvironment environment{
      .getenv = [](std::string_view) { return std::nullopt; },
      .read_file = [&](const std::string& path) -> muster::Result<std::string> {
        if (path == "kubeconfig") {
          return text;
        }
        return std::unexpected(muster::Error::Invalid(path + ": cannot be read"));
      }};
  const auto config = muster::k8s::LoadKubeconfig("kubeconfig", {}, environment);
  if (!config && !config.error().message.contains("kubeconfig")) {
    std::abort();
  }
  static_cast<void>(
      muster::k8s::ParseExecCredential({.api_version = "client.authentication.k8s.io/v1"}, text));
  static_cast<void>(muster::k8s::ParseServerUrl(text));
  static_cast<void>(muster::k8s::ParseProxyUrl(text));
  return 0;
}
