// The real kubectl against the API server in memory. Skipped where there is no kubectl:
// MUSTER_KUBECTL names it.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/sim/http_front.h"

namespace muster::sim::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string FindKubectl() {
  if (const char* named = std::getenv("MUSTER_KUBECTL")) {
    return named;
  }
  if (const char* home = std::getenv("HOME")) {
    const std::filesystem::path cached = std::filesystem::path(home) / ".cache/muster/bin/kubectl";
    if (std::filesystem::exists(cached)) {
      return cached.string();
    }
  }
  return {};
}

class Kubectl : public testing::Test {
 protected:
  void SetUp() override {
    kubectl_ = FindKubectl();
    if (kubectl_.empty()) {
      GTEST_SKIP() << "there is no kubectl";
    }
    front_ = std::make_unique<HttpFront>(
        ApiServerOptions{.install_crds = true, .install_policies = true});
    folder_ =
        std::filesystem::temp_directory_path() / ("muster-kubectl-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    if (!folder_.empty()) {
      std::filesystem::remove_all(folder_);
    }
  }

  struct Result {
    int code = 0;
    std::string output;
  };
  // Output and errors of `kubectl ARGUMENTS`, which may read `input`.
  Result Run(const std::string& arguments, const std::string& input = "") {
    const std::filesystem::path file = folder_ / "input.yaml";
    std::ofstream(file) << input;
    const std::string command =
        "HOME='" + folder_.string() + "' KUBECONFIG=/dev/null '" + kubectl_ + "' --cache-dir='" +
        folder_.string() + "/cache' --server=http://127.0.0.1:" + std::to_string(front_->port()) +
        " " + arguments + " < '" + file.string() + "' 2>&1";
    Result result;
    FILE* pipe = ::popen(command.c_str(), "r");
    std::array<char, 4096> buffer{};
    while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
      result.output.append(buffer.data(), got);
    }
    const int status = ::pclose(pipe);
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return result;
  }
  std::string Ok(const std::string& arguments, const std::string& input = "") {
    const Result result = Run(arguments, input);
    EXPECT_EQ(result.code, 0) << "kubectl " << arguments << "\n" << result.output;
    return result.output;
  }

  std::string kubectl_;
  std::unique_ptr<HttpFront> front_;
  std::filesystem::path folder_;
};

constexpr const char* kQueues = R"(
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: cluster}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: default
      resources: [{name: cpu, nominalQuota: 4}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team, namespace: default}
spec: {clusterQueue: cluster}
)";

constexpr const char* kJob = R"(
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  labels: {kueue.x-k8s.io/queue-name: team}
spec:
  parallelism: 2
  completions: 2
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: main, image: busybox, resources: {requests: {cpu: "1"}}}
)";

TEST_F(Kubectl, KnowsTheVersionAndWhatIsServed) {
  EXPECT_THAT(Ok("version"), HasSubstr("Server Version: v1.37.2"));
  const std::string resources = Ok("api-resources");
  EXPECT_THAT(
      resources,
      AllOf(HasSubstr("clusterqueues"), HasSubstr("resourceslices"), HasSubstr("podgroups")));
  EXPECT_THAT(Ok("api-versions"), HasSubstr("kueue.x-k8s.io/v1beta2"));
  EXPECT_THAT(Ok("explain job.spec.suspend"), HasSubstr("boolean"));
  EXPECT_THAT(Ok("explain clusterqueue.spec.cohortName"), HasSubstr("string"));
}

TEST_F(Kubectl, AppliesGetsDescribesAndDeletes) {
  EXPECT_THAT(Ok("apply -f -", kQueues), HasSubstr("clusterqueue.kueue.x-k8s.io/cluster created"));
  EXPECT_THAT(Ok("apply -f -", kQueues),
              HasSubstr("clusterqueue.kueue.x-k8s.io/cluster unchanged"));
  EXPECT_THAT(Ok("apply -f -", kJob), HasSubstr("job.batch/train created"));
  EXPECT_THAT(Ok("get jobs"),
              AllOf(HasSubstr("COMPLETIONS"), HasSubstr("Suspended"), HasSubstr("0/2")));
  EXPECT_THAT(Ok("get cq,lq,flavors"),
              AllOf(HasSubstr("cluster"), HasSubstr("team"), HasSubstr("default")));
  EXPECT_EQ(Ok("get job train -o jsonpath='{.spec.suspend}'"), "true");
  EXPECT_THAT(Ok("describe job train"), AllOf(HasSubstr("Parallelism:"), HasSubstr("Suspend:")));
  EXPECT_THAT(Ok("describe clusterqueue cluster"), HasSubstr("Nominal Quota:"));
  EXPECT_THAT(Ok("delete job train"), HasSubstr("deleted"));
  EXPECT_NE(Run("get job train").code, 0);
  EXPECT_THAT(Run("get job train").output, HasSubstr("jobs.batch \"train\" not found"));
}

TEST_F(Kubectl, ClientSideApplyMergesListsByKey) {
  Ok("apply -f -", kJob);
  std::string changed = kJob;
  changed.replace(changed.find("parallelism: 2"), 14, "parallelism: 1");
  EXPECT_THAT(Ok("apply -f -", changed), HasSubstr("configured"));
  EXPECT_EQ(Ok("get job train -o jsonpath='{.spec.parallelism}'"), "1");
  EXPECT_THAT(Ok("diff -f -", changed), testing::Eq(""));
}

TEST_F(Kubectl, ServerSideApplyKnowsWhoOwnsWhat) {
  EXPECT_THAT(Ok("apply --server-side -f -", kJob), HasSubstr("serverside-applied"));
  std::string changed = kJob;
  changed.replace(changed.find("parallelism: 2"), 14, "parallelism: 1");
  const Result conflict = Run("apply --server-side --field-manager=other -f -", changed);
  EXPECT_NE(conflict.code, 0);
  EXPECT_THAT(conflict.output, HasSubstr("conflict with \"kubectl\": .spec.parallelism"));
  EXPECT_THAT(Ok("apply --server-side --field-manager=other --force-conflicts -f -", changed),
              HasSubstr("serverside-applied"));
  EXPECT_EQ(Ok("get job train -o jsonpath='{.spec.parallelism}'"), "1");
}

TEST_F(Kubectl, RefusesWhatTheSchemaAndThePoliciesRefuse) {
  std::string bad = kQueues;
  bad.replace(bad.find("nominalQuota: 4"), 15, "nominalQuota: -4");
  EXPECT_THAT(Run("apply -f -", bad).output,
              AllOf(HasSubstr("ClusterQueue"), HasSubstr("is invalid")));
  std::string typo = kQueues;
  typo.replace(typo.find("clusterQueue: cluster"), 21, "clusterQueu: cluster");
  EXPECT_THAT(Run("apply -f -", typo).output, HasSubstr("unknown field \"spec.clusterQueu\""));
}

TEST_F(Kubectl, LabelsAnnotatesPatchesScalesAndWaits) {
  Ok("create namespace team-a");
  EXPECT_THAT(Ok("create configmap settings -n team-a --from-literal=a=1"),
              HasSubstr("configmap/settings created"));
  Ok("label configmap settings -n team-a colour=blue");
  Ok("annotate configmap settings -n team-a note=x");
  EXPECT_THAT(Ok("get configmaps -n team-a -l colour=blue -o name"),
              HasSubstr("configmap/settings"));
  Ok("patch configmap settings -n team-a --type=merge -p '{\"data\":{\"b\":\"2\"}}'");
  Ok("patch configmap settings -n team-a --type=json -p "
     "'[{\"op\":\"remove\",\"path\":\"/data/a\"}]'");
  EXPECT_EQ(Ok("get configmap settings -n team-a -o jsonpath='{.data}'"), "{\"b\":\"2\"}");
  Ok("create deployment web -n team-a --image=nginx --replicas=1");
  Ok("scale deployment web -n team-a --replicas=3");
  EXPECT_EQ(Ok("get deployment web -n team-a -o jsonpath='{.spec.replicas}'"), "3");
  EXPECT_THAT(Ok("wait --for=jsonpath='{.spec.replicas}'=3 deployment/web -n team-a --timeout=5s"),
              HasSubstr("condition met"));
  EXPECT_THAT(Ok("get all -n team-a"), HasSubstr("deployment.apps/web"));
}

TEST_F(Kubectl, WatchesAndPages) {
  for (int i = 0; i < 5; ++i) {
    Ok("create configmap c" + std::to_string(i));
  }
  EXPECT_THAT(Ok("get configmaps --chunk-size=2 -o name"), AllOf(HasSubstr("c0"), HasSubstr("c4")));
  EXPECT_THAT(Ok("get configmaps --watch --request-timeout=2s -o name 2>&1 || true"),
              AllOf(HasSubstr("configmap/c0"), HasSubstr("configmap/c4")));
}

}  // namespace
}  // namespace muster::sim::test
