#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/core.h"
#include "api/metadata.h"
#include "base/resource_vector.h"
#include "scheduler/placement/placement.h"

// What a Workload asks for, worked out once when it changes and shared by every decision about it.
namespace muster::scheduler {

// What one claim costs in quota, through deviceClassMappings.
struct ClaimCharge {
  // Per claim object. Where the amount is not known before there is a plan (`dynamic`): the dearest
  // alternative of firstAvailable, one device for allocationMode All.
  ResourceVector estimate;
  bool dynamic = false;
  // "request" or "request/alternative" -> quota resource. Requests that cost nothing (admin access,
  // unmapped and ignored) are absent.
  std::map<std::string, std::string, std::less<>> resource_of;
};

struct PodSetShape {
  std::string name;
  std::int32_t count = 0;                 // without the pods that the job has given back
  std::optional<std::int32_t> min_count;  // partial admission, when below count
  // Quota per pod: excluded, transformed and mapped; without "pods" and without claims.
  ResourceVector container_charge;
  // The same with the claims that are made per pod.
  ResourceVector per_pod;
  // Per pod as nodes see it.
  ResourceVector node_requests;
  std::shared_ptr<const api::PodSpec> spec;  // with defaults of LimitRange and RuntimeClass
  std::vector<std::size_t> claims;           // indexes into Shape::claims
  bool wants_topology = false;
  // Uses claims or extended resources: kube-scheduler could hand out the wrong devices or fill a
  // node that was meant for another member.
  bool accelerators = false;
};

struct Shape {
  // Equal digests get equal answers from the same snapshot (the effective priority is part of it).
  std::string digest;
  std::string ns;
  std::vector<PodSetShape> pod_sets;
  std::vector<placement::ClaimDemand> claims;
  std::vector<ClaimCharge> charges;  // one per claim
};

}  // namespace muster::scheduler
