#pragma once

#include "api/object.h"
#include "api/reader.h"

// One reader a kind; `root` is the whole object, metadata has been read. Internal to api/.
namespace muster::api {

void ReadObject(const Field& root, Namespace& out);
void ReadObject(const Field& root, Node& out);
void ReadObject(const Field& root, PriorityClass& out);
void ReadObject(const Field& root, LimitRange& out);
void ReadObject(const Field& root, RuntimeClass& out);
void ReadObject(const Field& root, DeviceClass& out);
void ReadObject(const Field& root, ResourceSlice& out);
void ReadObject(const Field& root, DeviceTaintRule& out);
void ReadObject(const Field& root, ResourceClaimTemplate& out);
void ReadObject(const Field& root, ResourceClaim& out);
void ReadObject(const Field& root, ResourceFlavor& out);
void ReadObject(const Field& root, Topology& out);
void ReadObject(const Field& root, AdmissionCheck& out);
void ReadObject(const Field& root, WorkloadPriorityClass& out);
void ReadObject(const Field& root, Cohort& out);
void ReadObject(const Field& root, ClusterQueue& out);
void ReadObject(const Field& root, LocalQueue& out);
void ReadObject(const Field& root, Workload& out);
void ReadObject(const Field& root, NativeWorkload& out);
void ReadObject(const Field& root, PodGroup& out);
void ReadObject(const Field& root, CompositePodGroup& out);
void ReadObject(const Field& root, Job& out);
void ReadObject(const Field& root, Pod& out);

}  // namespace muster::api
