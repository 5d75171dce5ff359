#pragma once

#include "api/core.h"
#include "api/metadata.h"
#include "api/reader.h"
#include "api/resource.h"

// Readers of the parts that several kinds share. Internal to api/.
namespace muster::api {

void ReadMeta(const Field& field, ObjectMeta& out);
void ReadConditions(const Field& field, std::vector<Condition>& out);
void ReadLabelSelector(const Field& field, LabelSelector& out);
void ReadTaints(const Field& field, std::vector<Taint>& out);
void ReadTolerations(const Field& field, std::vector<Toleration>& out);
void ReadNodeSelector(const Field& field, NodeSelector& out);
void ReadNodeSelectorTerm(const Field& field, NodeSelectorTerm& out);
void ReadPodSpec(const Field& field, PodSpec& out);
void ReadPodTemplate(const Field& field, PodTemplate& out);
void ReadPodClaims(const Field& field, std::vector<PodResourceClaim>& out);
void ReadClaimStatuses(const Field& field, std::vector<ClaimStatus>& out);

}  // namespace muster::api
