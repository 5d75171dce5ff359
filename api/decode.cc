#include "api/decode_kinds.h"
#include "api/decode_parts.h"
#include "base/check.h"
#include "base/strings.h"

namespace muster::api {
namespace {

template <typename T>
struct KindFor;
#define MUSTER_KIND_FOR(type)                    \
  template <>                                    \
  struct KindFor<type> {                         \
    static constexpr Kind value = Kind::k##type; \
  };
MUSTER_KIND_FOR(Namespace)
MUSTER_KIND_FOR(Node)
MUSTER_KIND_FOR(PriorityClass)
MUSTER_KIND_FOR(LimitRange)
MUSTER_KIND_FOR(RuntimeClass)
MUSTER_KIND_FOR(DeviceClass)
MUSTER_KIND_FOR(ResourceSlice)
MUSTER_KIND_FOR(DeviceTaintRule)
MUSTER_KIND_FOR(ResourceClaimTemplate)
MUSTER_KIND_FOR(ResourceClaim)
MUSTER_KIND_FOR(ResourceFlavor)
MUSTER_KIND_FOR(Topology)
MUSTER_KIND_FOR(AdmissionCheck)
MUSTER_KIND_FOR(WorkloadPriorityClass)
MUSTER_KIND_FOR(Cohort)
MUSTER_KIND_FOR(ClusterQueue)
MUSTER_KIND_FOR(LocalQueue)
MUSTER_KIND_FOR(Workload)
MUSTER_KIND_FOR(NativeWorkload)
MUSTER_KIND_FOR(PodGroup)
MUSTER_KIND_FOR(CompositePodGroup)
MUSTER_KIND_FOR(Job)
MUSTER_KIND_FOR(Pod)
#undef MUSTER_KIND_FOR

// `Job "team-a/x": `; names come from outside and may be hostile, hence the JSON quoting and the
// cut.
std::string Describe(Kind kind, const Json& json) {
  const ObjectMeta meta = DecodeMetaLeniently(json);
  std::string key = meta.key().ToString();
  constexpr std::size_t kMostNameBytes = 400;
  if (key.size() > kMostNameBytes) {
    key.resize(kMostNameBytes);
  }
  std::string out(Info(kind).name);
  out += ' ';
  AppendJsonString(out, key);
  return out;
}

template <typename T>
Result<Ptr<T>> DecodeKind(const Json& json) {
  ReadState state;
  const Field root(json, state);
  auto out = std::make_shared<T>();
  if (!json.is_object()) {
    state.error = "expected an object, got " + std::string(TypeName(json));
  } else {
    ReadMeta(root["metadata"], out->meta);
    ReadObject(root, *out);
  }
  if (state.error) {
    return std::unexpected(Error::Invalid(Describe(KindFor<T>::value, json) + ": " + *state.error));
  }
  return Ptr<T>(std::move(out));
}

template <typename T>
Result<Object> DecodeToObject(const Json& json) {
  Result<Ptr<T>> decoded = DecodeKind<T>(json);
  if (!decoded) {
    return std::unexpected(std::move(decoded).error());
  }
  return Object(*std::move(decoded));
}

}  // namespace

template <typename T>
Result<Ptr<T>> DecodeAs(const Json& json) {
  return DecodeKind<T>(json);
}
template Result<Ptr<Namespace>> DecodeAs<Namespace>(const Json&);
template Result<Ptr<Node>> DecodeAs<Node>(const Json&);
template Result<Ptr<PriorityClass>> DecodeAs<PriorityClass>(const Json&);
template Result<Ptr<LimitRange>> DecodeAs<LimitRange>(const Json&);
template Result<Ptr<RuntimeClass>> DecodeAs<RuntimeClass>(const Json&);
template Result<Ptr<DeviceClass>> DecodeAs<DeviceClass>(const Json&);
template Result<Ptr<ResourceSlice>> DecodeAs<ResourceSlice>(const Json&);
template Result<Ptr<DeviceTaintRule>> DecodeAs<DeviceTaintRule>(const Json&);
template Result<Ptr<ResourceClaimTemplate>> DecodeAs<ResourceClaimTemplate>(const Json&);
template Result<Ptr<ResourceClaim>> DecodeAs<ResourceClaim>(const Json&);
template Result<Ptr<ResourceFlavor>> DecodeAs<ResourceFlavor>(const Json&);
template Result<Ptr<Topology>> DecodeAs<Topology>(const Json&);
template Result<Ptr<AdmissionCheck>> DecodeAs<AdmissionCheck>(const Json&);
template Result<Ptr<WorkloadPriorityClass>> DecodeAs<WorkloadPriorityClass>(const Json&);
template Result<Ptr<Cohort>> DecodeAs<Cohort>(const Json&);
template Result<Ptr<ClusterQueue>> DecodeAs<ClusterQueue>(const Json&);
template Result<Ptr<LocalQueue>> DecodeAs<LocalQueue>(const Json&);
template Result<Ptr<Workload>> DecodeAs<Workload>(const Json&);
template Result<Ptr<NativeWorkload>> DecodeAs<NativeWorkload>(const Json&);
template Result<Ptr<PodGroup>> DecodeAs<PodGroup>(const Json&);
template Result<Ptr<CompositePodGroup>> DecodeAs<CompositePodGroup>(const Json&);
template Result<Ptr<Job>> DecodeAs<Job>(const Json&);
template Result<Ptr<Pod>> DecodeAs<Pod>(const Json&);

Result<Object> Decode(Kind kind, const Json& json) {
  switch (kind) {
    case Kind::kNamespace:
      return DecodeToObject<Namespace>(json);
    case Kind::kNode:
      return DecodeToObject<Node>(json);
    case Kind::kPriorityClass:
      return DecodeToObject<PriorityClass>(json);
    case Kind::kLimitRange:
      return DecodeToObject<LimitRange>(json);
    case Kind::kRuntimeClass:
      return DecodeToObject<RuntimeClass>(json);
    case Kind::kDeviceClass:
      return DecodeToObject<DeviceClass>(json);
    case Kind::kResourceSlice:
      return DecodeToObject<ResourceSlice>(json);
    case Kind::kDeviceTaintRule:
      return DecodeToObject<DeviceTaintRule>(json);
    case Kind::kResourceClaimTemplate:
      return DecodeToObject<ResourceClaimTemplate>(json);
    case Kind::kResourceClaim:
      return DecodeToObject<ResourceClaim>(json);
    case Kind::kResourceFlavor:
      return DecodeToObject<ResourceFlavor>(json);
    case Kind::kTopology:
      return DecodeToObject<Topology>(json);
    case Kind::kAdmissionCheck:
      return DecodeToObject<AdmissionCheck>(json);
    case Kind::kWorkloadPriorityClass:
      return DecodeToObject<WorkloadPriorityClass>(json);
    case Kind::kCohort:
      return DecodeToObject<Cohort>(json);
    case Kind::kClusterQueue:
      return DecodeToObject<ClusterQueue>(json);
    case Kind::kLocalQueue:
      return DecodeToObject<LocalQueue>(json);
    case Kind::kWorkload:
      return DecodeToObject<Workload>(json);
    case Kind::kNativeWorkload:
      return DecodeToObject<NativeWorkload>(json);
    case Kind::kPodGroup:
      return DecodeToObject<PodGroup>(json);
    case Kind::kCompositePodGroup:
      return DecodeToObject<CompositePodGroup>(json);
    case Kind::kJob:
      return DecodeToObject<Job>(json);
    case Kind::kPod:
      return DecodeToObject<Pod>(json);
    case Kind::kProvisioningRequestConfig:
    case Kind::kMultiKueueConfig:
    case Kind::kMultiKueueCluster:
    case Kind::kLease:
    case Kind::kEvent:
      break;
  }
  return std::unexpected(
      Error::Invalid(Describe(kind, json) + ": unsupported: Muster does not decode this kind"));
}

Kind KindOf(const Object& object) {
  return std::visit(
      []<typename T>(const Ptr<T>&) { return KindFor<std::remove_const_t<T>>::value; }, object);
}

const ObjectMeta& MetaOf(const Object& object) {
  return std::visit(
      [](const auto& pointer) -> const ObjectMeta& {
        MUSTER_CHECK(pointer != nullptr);
        return pointer->meta;
      },
      object);
}

ObjectMeta DecodeMetaLeniently(const Json& json) {
  ObjectMeta out;
  if (!json.is_object()) {
    return out;
  }
  const auto metadata = json.find("metadata");
  if (metadata == json.end() || !metadata->is_object()) {
    return out;
  }
  const auto text = [&](const char* key, std::string& target) {
    const auto it = metadata->find(key);
    if (it != metadata->end() && it->is_string()) {
      target = it->get_ref<const std::string&>();
    }
  };
  text("namespace", out.ns);
  text("name", out.name);
  text("uid", out.uid);
  text("resourceVersion", out.resource_version);
  const auto strings = [&](const char* key, StringMap& target) {
    const auto it = metadata->find(key);
    if (it == metadata->end() || !it->is_object()) {
      return;
    }
    for (auto member = it->begin(); member != it->end(); ++member) {
      if (member.value().is_string()) {
        target.insert_or_assign(member.key(), member.value().get_ref<const std::string&>());
      }
    }
  };
  strings("labels", out.labels);
  strings("annotations", out.annotations);
  return out;
}

}  // namespace muster::api
