#!/usr/bin/env python3
"""Writes builtin_types.json: field names, types and list keys of the builtin kinds that sim/registry serves.

usage: builtin_types.py OPENAPI_DIR > builtin_types.json

OPENAPI_DIR is api/openapi-spec of a Kubernetes release. Descriptions are left out: what remains is the shape of the
API, which strict field validation, strategic merge, server-side apply and kubectl need.
"""
import glob
import json
import os
import sys

WANTED = {
    ("", "v1"): "Namespace Node Pod Binding Service Endpoints ConfigMap Secret ServiceAccount LimitRange ResourceQuota "
                "PodTemplate PersistentVolume PersistentVolumeClaim Event",
    ("events.k8s.io", "v1"): "Event",
    ("apps", "v1"): "Deployment ReplicaSet StatefulSet DaemonSet ControllerRevision",
    ("batch", "v1"): "Job CronJob",
    ("coordination.k8s.io", "v1"): "Lease",
    ("scheduling.k8s.io", "v1"): "PriorityClass",
    ("scheduling.k8s.io", "v1beta1"): "Workload PodGroup",
    ("scheduling.k8s.io", "v1alpha3"): "CompositePodGroup",
    ("node.k8s.io", "v1"): "RuntimeClass",
    ("policy", "v1"): "PodDisruptionBudget Eviction",
    ("resource.k8s.io", "v1"): "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice DeviceTaintRule",
    ("storage.k8s.io", "v1"): "StorageClass",
    ("autoscaling", "v1"): "Scale",
    ("admissionregistration.k8s.io", "v1"):
        "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding MutatingAdmissionPolicy "
        "MutatingAdmissionPolicyBinding ValidatingWebhookConfiguration MutatingWebhookConfiguration",
    ("apiextensions.k8s.io", "v1"): "CustomResourceDefinition",
    ("rbac.authorization.k8s.io", "v1"): "ClusterRole ClusterRoleBinding Role RoleBinding",
    ("authorization.k8s.io", "v1"): "SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview "
                                    "LocalSubjectAccessReview",
    ("authentication.k8s.io", "v1"): "TokenReview SelfSubjectReview",
}
GVK = "x-kubernetes-group-version-kind"
KEEP = {"type", "format", "items", "additionalProperties", "$ref", "properties", "required", "default", "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys", "x-kubernetes-map-type", "x-kubernetes-patch-merge-key",
        "x-kubernetes-patch-strategy", GVK}


def strip(node, names=False):
    if isinstance(node, dict):
        out = {}
        for key, value in node.items():
            if names:
                out[key] = strip(value)
            elif key in KEEP:
                out[key] = value if key == GVK else strip(value, names=key == "properties")
        return out
    return [strip(item) for item in node] if isinstance(node, list) else node


def refs(node):
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):
                yield value.rsplit("/", 1)[1]
            else:
                yield from refs(value)
    elif isinstance(node, list):
        for item in node:
            yield from refs(item)


def main():
    root = sys.argv[1]
    definitions = json.load(open(os.path.join(root, "swagger.json")))["definitions"]
    defaults = {}
    for path in sorted(glob.glob(os.path.join(root, "v3", "*.json"))):
        for name, schema in json.load(open(path)).get("components", {}).get("schemas", {}).items():
            for field, spec in schema.get("properties", {}).items():
                value = spec.get("default")
                if value not in (None, {}, ""):
                    defaults[(name, field)] = value
    todo = ["io.k8s.apimachinery.pkg.apis.meta.v1.Status", "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]
    for name, schema in definitions.items():
        for gvk in schema.get(GVK, []):
            kinds = WANTED.get((gvk["group"], gvk["version"]), "").split()
            if gvk["kind"] in kinds and name.rsplit(".", 1)[1] == gvk["kind"]:
                todo.append(name)
    done = {}
    while todo:
        name = todo.pop()
        if name in done:
            continue
        schema = strip(definitions[name])
        for field, spec in schema.get("properties", {}).items():
            if (name, field) in defaults:
                spec["default"] = defaults[(name, field)]
        if name.startswith("io.k8s.apimachinery.pkg.apis.meta.v1."):
            schema.pop(GVK, None)
        done[name] = schema
        todo.extend(refs(schema))
    print("{")
    lines = [json.dumps(name) + ":" + json.dumps(done[name], separators=(",", ":"), sort_keys=True)
             for name in sorted(done)]
    print(",\n".join(lines))
    print("}")


main()
