#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "api/json.h"
#include "api/object.h"
#include "scheduler/state.h"

namespace muster::test {

// The decisions with the smallest possible controller around them: objects go in as JSON, plans are
// written back into the status of the Workloads, as the API server would hold them. Time stands
// still unless it is moved.
class DecisionWorld {
 public:
  explicit DecisionWorld(scheduler::Options options = {});

  // Decodes and feeds an object; a failed decode fails the test.
  void Apply(api::Json object);
  void Remove(api::Kind kind, const std::string& ns, const std::string& name);

  // Short forms; see the case files for their fields. Returns the object.
  void AddFlavor(const api::Json& flavor);
  void AddCohort(const api::Json& cohort);
  void AddQueue(const api::Json& queue);
  void AddNode(const api::Json& node);
  void AddWorkload(const api::Json& workload);
  // The Workload ends: Finished=True.
  void Finish(const std::string& name);
  // Evicted and stopped: the reservation is dropped.
  void DropReservation(const std::string& name);
  // Any change to the stored object of a Workload.
  void EditWorkload(const std::string& name, const std::function<void(api::Json&)>& edit);

  // Decides until nothing needs a cycle any more. Returns the number of cycles; more than `most`
  // fails the test.
  int Settle(int most = 50);
  // One cycle; the plan as carried out.
  scheduler::Plan Cycle();
  void Advance(Duration duration) { now_ += duration; }
  [[nodiscard]] TimePoint now() const { return now_; }

  [[nodiscard]] bool IsAdmitted(const std::string& name) const;
  [[nodiscard]] bool Holds(const std::string& name) const;  // has quota reserved
  [[nodiscard]] const scheduler::AdmissionDecision& Decision(const std::string& name) const {
    return decisions_.at(name);
  }
  [[nodiscard]] scheduler::Verdict VerdictOf(const std::string& name) const;
  [[nodiscard]] scheduler::State& state() { return state_; }
  [[nodiscard]] const api::Json& Stored(const std::string& name) const {
    return workloads_.at(name);
  }
  [[nodiscard]] const std::map<std::string, api::Json>& workloads() const { return workloads_; }
  [[nodiscard]] std::int64_t writes() const { return writes_; }
  [[nodiscard]] std::int64_t refusals_told() const { return refusals_told_; }
  // A new process: the same objects, read in the order in which kinds are synced.
  [[nodiscard]] std::unique_ptr<DecisionWorld> Restarted() const;

 private:
  void WriteAdmission(const scheduler::AdmissionDecision& decision);
  void WriteRefusal(const scheduler::Refusal& refusal);
  void NeedNamespace(const std::string& ns);

  scheduler::Options options_;
  scheduler::State state_;
  TimePoint now_;
  std::int64_t version_ = 0;
  std::int64_t created_ = 0;
  std::int64_t writes_ = 0;
  std::int64_t refusals_told_ = 0;
  std::map<std::string, api::Json> workloads_;  // by name
  std::map<std::string, scheduler::AdmissionDecision> decisions_;
  std::map<std::pair<int, std::string>, api::Json> others_;  // by kind and namespace/name
  std::set<std::string> namespaces_;
  std::set<std::string> local_queues_;
};

}  // namespace muster::test
