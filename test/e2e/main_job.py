"""The main job on a real control plane: gangs start whole, when quota and hardware allow it."""

import collections
import json
import os
import re
import sys
import time
import types

from fault_proxy import FaultProxy, OldServer, Plan
from harness import *


class State:
    def __init__(self):
        self.cluster = Cluster("--kwok", "--gates", "GenericWorkload,CompositePodGroup,TopologyAwareWorkloadScheduling", "--audit", "muster-system")
        self.api = self.cluster.api
        self.check_before_install = self.cluster.muster("check")
        self.cluster.install()
        self.cluster.use_chart_account()
        self.muster = Muster(self.cluster).wait_ready()
        self.count = 0

    def on_failure(self, name):
        print("--- the controller's last lines:\n" + self.muster.tail() + "---", flush=True)
        if not self.muster.alive():
            self.muster.start()
            self.muster.wait_ready()

    def scene(self, label):
        self.count += 1
        return Scene(self, "%s-%d" % (label, self.count))

    def close(self):
        self.muster.kill()
        self.cluster.down()


class Scene:
    """Namespace, nodes and queues of one test, kept apart from others by a node label."""

    def __init__(self, state, name):
        self.state, self.api, self.ns = state, state.api, name
        self.api.create(namespace(name))
        self.made = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for kind in ("Job", "Pod", "ResourceClaim", "LocalQueue"):
            try:
                self.api.delete_all(kind, self.ns)
            except ApiError:
                pass
        for kind, name in reversed(self.made):
            try:
                self.api.delete(kind, name)
            except ApiError:
                pass
        try:
            self.api.delete("Namespace", self.ns)
        except ApiError:
            pass

    def add(self, obj, kind=None):
        kind = kind or obj["kind"]
        out = self.api.create(obj, kind)
        if not PATHS[kind][2]:
            self.made.append((kind, obj["metadata"]["name"]))
        return out

    def nodes(self, count, start=0, **extra):
        for i in range(start, start + count):
            self.add(node("%s-n%d" % (self.ns, i), labels={"pool": self.ns}, **extra))

    def flavor(self, capacity=None, suffix=""):
        name = self.ns + suffix
        self.add(flavor(name, {"pool": self.ns}, capacity))
        return name

    def queue(self, quotas, name="", cohort=None, flavor_name=None, lq="q", **extra):
        cq = self.ns + name
        self.add(cluster_queue(cq, quotas, cohort=cohort, flavor_name=flavor_name or self.ns, **extra))
        self.add(local_queue(self.ns, lq, cq))
        wait("ClusterQueue %s active" % cq, lambda: is_true(self.api.get("ClusterQueue", cq), "Active"))
        return cq

    def job(self, name, parallelism, requests, queue="q", **extra):
        return self.add(job(self.ns, name, queue, parallelism, requests, **extra))

    def workload_of(self, name):
        for wl in self.api.list("Workload", self.ns):
            if any(o["name"] == name for o in wl["metadata"].get("ownerReferences", [])):
                return wl
        return None

    def pods(self, job_name=None):
        return [p for p in self.api.list("Pod", self.ns)
                if job_name is None or p["metadata"].get("labels", {}).get("batch.kubernetes.io/job-name") == job_name]

    def running(self, job_name=None):
        return [p for p in self.pods(job_name) if p["status"].get("phase") == "Running"]

    def suspended(self, name):
        return self.api.get("Job", name, self.ns)["spec"]["suspend"]

    def wait_reason(self, name, *texts):
        def look():
            wl = self.workload_of(name)
            reserved = wl and condition(wl, "QuotaReserved")
            return reserved and reserved["status"] == "False" and all(t in reserved["message"] for t in texts) and reserved
        try:
            return wait("a reason of %s with %s" % (name, texts), look, 30)
        except AssertionError as error:
            wl = self.workload_of(name)
            raise AssertionError("%s; the workload says %s" % (error, wl and wl.get("status")))

    def wait_running(self, count, name=None, timeout=60):
        try:
            return wait("%d pods of %s running" % (count, name), lambda: len(self.running(name)) == count, timeout)
        except AssertionError as error:
            wl = self.workload_of(name) if name else (self.api.list("Workload", self.ns) or [None])[0]
            pods = [(p["metadata"]["name"], gates_of(p), p["status"].get("phase"), [c.get("message") for c in p["status"].get("conditions", [])]) for p in self.pods(name)]
            raise AssertionError("%s; the workload says %s; pods %s" % (error, wl and wl.get("status"), pods))


def plugin_gpus_wait_for_the_whole_gang(state):
    """8 workers with one GPU each, 6 free: nothing starts and the reason says so; 2 more become free: all 8 run."""
    with state.scene("plugin") as s:
        s.nodes(3, gpus=2)
        s.flavor()
        s.queue({"cpu": "100", "nvidia.com/gpu": "100"})
        s.job("train", 8, {"cpu": "1", "nvidia.com/gpu": "1"})
        s.wait_reason("train", "8", "6", "nvidia.com/gpu")
        stays("no pod exists and the job is suspended", lambda: s.suspended("train") and not s.pods())
        s.nodes(1, start=3, gpus=2)
        s.wait_running(8, "train")
        wl = s.workload_of("train")
        assert is_true(wl, "Admitted") and is_true(wl, "QuotaReserved"), wl["status"]
        per_node = {}
        for pod in s.running("train"):
            per_node[pod["spec"]["nodeName"]] = per_node.get(pod["spec"]["nodeName"], 0) + 1
        assert all(n == 2 for n in per_node.values()) and len(per_node) == 4, per_node


def device_slice(s, i, memories, generation=1):
    name = "%s-n%d" % (s.ns, i)
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name + "-gpu"},
            "spec": {"driver": "gpu.nvidia.com", "nodeName": name, "pool": {"name": name, "generation": generation, "resourceSliceCount": 1},
                     "devices": [{"name": "gpu-%d" % k, "attributes": {"model": {"string": "H100"}, "index": {"int": k}},
                                  "capacity": {"memory": {"value": m}}} for k, m in enumerate(memories)]}}


def claims_wait_for_devices_that_match(state):
    """The same with DRA claims: device.capacity["gpu.nvidia.com"].memory greater than 20Gi."""
    with state.scene("dra") as s:
        s.nodes(3)
        for i in range(3):
            s.add(device_slice(s, i, ["80Gi", "80Gi", "16Gi"]))
        s.add({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": s.ns},
               "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.nvidia.com"'}}]}})
        s.add({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"namespace": s.ns, "name": "big"},
               "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {
                   "deviceClassName": s.ns,
                   "selectors": [{"cel": {"expression": 'device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("20Gi"))'}}]}}]}}}})
        s.flavor()
        s.queue({"cpu": "100", "gpus": "100"})
        # The class is not mapped to a quota resource: the Workload waits with the class named.
        s.job("unmapped", 1, {"cpu": "1"}, claims={"gpu": "big"})
        s.wait_reason("unmapped", s.ns)
        s.api.delete("Job", "unmapped", s.ns)
        state.muster.kill()
        mapped = Muster(state.cluster, config={
            "apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration",
            "resources": {"deviceClassMappings": [{"name": "gpus", "deviceClassNames": [s.ns]}]}}).wait_ready()
        try:
            s.job("train", 8, {"cpu": "1"}, claims={"gpu": "big"})
            s.wait_reason("train", "8", "6")
            stays("no pod exists and the job is suspended", lambda: s.suspended("train") and not s.pods("train"))
            s.nodes(1, start=3)
            s.add(device_slice(s, 3, ["80Gi", "80Gi"]))
            s.wait_running(8, "train")
            used = set()
            for claim in s.api.list("ResourceClaim", s.ns):
                for result in claim["status"]["allocation"]["devices"]["results"]:
                    device = (result["pool"], result["device"])
                    assert device not in used, "promised twice: %s" % (device,)
                    used.add(device)
                    assert result["device"] != "gpu-2", device
            assert len(used) == 8, used
        finally:
            mapped.kill()
            state.muster.start()
            state.muster.wait_ready()


def gated(s, name, requests, group=None, labels=None, annotations=None):
    spec = pod_spec(requests)
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": s.ns, "name": name, "labels": {"kueue.x-k8s.io/queue-name": "q", **(labels or {})}, "annotations": annotations or {}},
            "spec": spec}


def gates_of(pod):
    return [g["name"] for g in pod["spec"].get("schedulingGates", [])]


def native_pod_group_is_released_together(state):
    """The same as a native PodGroup of gated pods."""
    with state.scene("native") as s:
        s.nodes(3, gpus=2)
        s.flavor()
        s.queue({"cpu": "100", "nvidia.com/gpu": "100"})
        s.api.create({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"namespace": s.ns, "name": "g"},
                      "spec": {"schedulingPolicy": {"gang": {"minCount": 8}}}})
        for i in range(8):
            s.add(gated(s, "w%d" % i, {"cpu": "1", "nvidia.com/gpu": "1"}, group="g"))
        assert all("kueue.x-k8s.io/admission" in gates_of(p) for p in s.pods()), "the policy gates queue-named pods"
        wait("a Workload for the group", lambda: s.api.list("Workload", s.ns))
        time.sleep(2)
        stays("all gates stay", lambda: len([p for p in s.pods() if gates_of(p)]) == 8, 2)
        reserved = condition(s.api.list("Workload", s.ns)[0], "QuotaReserved")
        assert reserved and "8" in reserved["message"] and "6" in reserved["message"], reserved
        s.nodes(1, start=3, gpus=2)
        s.wait_running(8)


def pod_group_by_label_starts_whole(state):
    """A pod group of the reference's kind: label and total count."""
    with state.scene("group") as s:
        s.nodes(1, cpu="4")
        s.flavor()
        s.queue({"cpu": "3"})
        total = {"kueue.x-k8s.io/pod-group-total-count": "3"}
        label = {"kueue.x-k8s.io/pod-group-name": "trio"}
        for i in range(2):
            s.add(gated(s, "p%d" % i, {"cpu": "1"}, labels=label, annotations=total))
        stays("two of three wait", lambda: all(gates_of(p) for p in s.pods()), 2)
        s.add(gated(s, "p2", {"cpu": "1"}, labels=label, annotations=total))
        s.wait_running(3)
        wl = s.api.get("Workload", "trio", s.ns)
        assert is_true(wl, "Admitted"), wl["status"]


def a_single_pod_runs_when_quota_allows(state):
    """Single pods: gated on create, released on admission, deleted when they are evicted."""
    with state.scene("pod") as s:
        s.nodes(1, cpu="4")
        s.flavor()
        s.queue({"cpu": "1"})
        s.add(gated(s, "a", {"cpu": "1"}))
        wait("pod a to run", lambda: s.api.get("Pod", "a", s.ns)["status"].get("phase") == "Running")
        s.add(gated(s, "b", {"cpu": "1"}))
        stays("pod b is held", lambda: gates_of(s.api.get("Pod", "b", s.ns)), 2)
        s.api.delete("Pod", "a", s.ns)
        wait("pod b to run", lambda: s.api.get("Pod", "b", s.ns)["status"].get("phase") == "Running")
        s.api.patch("ClusterQueue", s.ns, {"spec": {"stopPolicy": "HoldAndDrain"}})
        wait("pod b is evicted", lambda: not s.pods())


def fragmented_capacity_depends_on_the_flavor(state):
    """4 nodes with 1 free GPU each, pods of 2 GPUs: waits in Fixed, admitted in Elastic."""
    with state.scene("fixed") as s:
        s.nodes(4, gpus=1)
        s.flavor("Fixed")
        s.queue({"cpu": "100", "nvidia.com/gpu": "8"})
        s.job("pairs", 2, {"cpu": "1", "nvidia.com/gpu": "2"})
        s.wait_reason("pairs", "nvidia.com/gpu")
        stays("it waits", lambda: s.suspended("pairs"), 2)
        s.api.patch("ResourceFlavor", s.ns, {"metadata": {"annotations": {"muster.dev/capacity": "Elastic"}}})
        wait("Elastic admits it", lambda: is_true(s.workload_of("pairs"), "Admitted"))
        wait("the job is unsuspended", lambda: not s.suspended("pairs"))


def teams_borrow_within_limits(state):
    """Two teams in a cohort: one borrows what the other leaves idle, within limits; a lending limit holds."""
    with state.scene("cohort") as s:
        s.nodes(2, cpu="32")
        s.flavor()
        s.queue({"cpu": {"nominalQuota": "4", "borrowingLimit": "3"}}, name="-a", cohort=s.ns, lq="a")
        s.queue({"cpu": {"nominalQuota": "4", "lendingLimit": "2"}}, name="-b", cohort=s.ns, lq="b")
        s.job("seven", 7, {"cpu": "1"}, queue="a")     # 4 + borrowing 3 would do, but b lends only 2
        s.wait_reason("seven", "cpu")
        stays("the lending limit holds", lambda: s.suspended("seven"), 2)
        s.job("six", 6, {"cpu": "1"}, queue="a")
        s.wait_running(6, "six")
        cq = wait("status shows what is borrowed", lambda: [
            r for f in s.api.get("ClusterQueue", s.ns + "-a").get("status", {}).get("flavorsReservation", []) for r in f["resources"]
            if r["name"] == "cpu" and r["borrowed"] == "2"])
        assert cq[0]["total"] == "6", cq
        s.job("own", 2, {"cpu": "1"}, queue="b")
        s.wait_running(2, "own")


def finished_jobs_give_quota_back(state):
    """A job that completes finishes its Workload, and the next one starts."""
    with state.scene("finish") as s:
        s.nodes(1, cpu="8")
        s.flavor()
        s.queue({"cpu": "2"})
        s.job("first", 2, {"cpu": "1"}, pod_annotations={"sim.muster.dev/run": "2s"})
        s.job("second", 2, {"cpu": "1"}, pod_annotations={"sim.muster.dev/run": "2s"})
        for name in ("first", "second"):
            wait("job %s completes" % name, lambda name=name: is_true(s.api.get("Job", name, s.ns), "Complete"), 60)
            wl = wait("its Workload is finished", lambda name=name: (lambda w: w and is_true(w, "Finished") and w)(s.workload_of(name)))
            assert condition(wl, "Finished")["reason"] == "Succeeded", wl["status"]
        wait("the queue is empty", lambda: s.api.get("ClusterQueue", s.ns).get("status", {}).get("reservingWorkloads") == 0)


def stopping_and_draining_a_queue(state):
    """HoldAndDrain evicts with the reason, suspends the job and restores its template; resuming runs it again."""
    with state.scene("drain") as s:
        s.nodes(1, cpu="8")
        s.flavor()
        s.queue({"cpu": "4"})
        before = s.job("work", 2, {"cpu": "1"})
        s.wait_running(2, "work")
        assert s.api.get("Job", "work", s.ns)["spec"]["template"]["spec"].get("nodeSelector") == {"pool": s.ns}
        s.api.patch("ClusterQueue", s.ns, {"spec": {"stopPolicy": "HoldAndDrain"}})
        wait("the job is suspended", lambda: s.suspended("work"))
        wait("its pods are gone", lambda: not s.pods("work"))
        wl = wait("the reservation is dropped", lambda: (lambda w: not is_true(w, "QuotaReserved") and w)(s.workload_of("work")))
        assert condition(wl, "Evicted")["reason"] == "ClusterQueueStopped", wl["status"]
        after = s.api.get("Job", "work", s.ns)["spec"]["template"]
        assert after["spec"] == before["spec"]["template"]["spec"], (after, before["spec"]["template"])
        s.api.patch("ClusterQueue", s.ns, {"spec": {"stopPolicy": "None"}})
        s.wait_running(2, "work")


def queues_and_flavors_stay_while_they_are_used(state):
    """The controller holds queues and flavors by a finalizer: deleted while in use, they go when the last use ends."""
    with state.scene("use") as s:
        s.nodes(1, cpu="8")
        s.flavor()
        s.queue({"cpu": "4"})
        for kind in ("ClusterQueue", "ResourceFlavor"):
            wait("the finalizer of the %s" % kind,
                 lambda kind=kind: "kueue.x-k8s.io/resource-in-use" in s.api.get(kind, s.ns)["metadata"].get("finalizers", []))
        s.job("work", 2, {"cpu": "1"})
        s.wait_running(2, "work")
        s.job("late", 3, {"cpu": "1"})
        # The same for what only flavors and queues refer to.
        for kind, spec in (("Topology", {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}),
                           ("AdmissionCheck", {"controllerName": "example.com/check"})):
            s.api.create({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": s.ns}, "spec": spec})
            wait("the finalizer of the %s" % kind,
                 lambda kind=kind: "kueue.x-k8s.io/resource-in-use" in s.api.get(kind, s.ns)["metadata"].get("finalizers", []))
            s.api.delete(kind, s.ns)
        s.api.delete("ResourceFlavor", s.ns)
        s.api.delete("ClusterQueue", s.ns)
        s.wait_reason("late", s.ns)
        stays("a queue that holds work, and its flavor", lambda: all(
            s.api.get(kind, s.ns)["metadata"].get("deletionTimestamp") for kind in ("ClusterQueue", "ResourceFlavor")), 2)
        assert len(s.running("work")) == 2 and s.suspended("late")
        s.api.delete("Job", "work", s.ns)

        def gone(kind):
            try:
                s.api.get(kind, s.ns)
                return False
            except ApiError as error:
                return error.status == 404
        for kind in ("ClusterQueue", "ResourceFlavor", "Topology", "AdmissionCheck"):
            wait("the %s is gone" % kind, lambda kind=kind: gone(kind))


def jobs_without_queue_name_are_left_alone(state):
    """WV-01: with the controller down, other objects can be created and run; queue-named jobs are created suspended."""
    with state.scene("alone") as s:
        s.nodes(1, cpu="8")
        state.muster.kill()
        try:
            s.job("free", 1, {"cpu": "1"}, queue=None)
            s.wait_running(1, "free")
            s.job("held", 1, {"cpu": "1"})
            assert s.suspended("held")
        finally:
            state.muster.start()
            state.muster.wait_ready()
        assert not s.workload_of("free")


def bad_input_is_isolated(state):
    """BI-06 and others: odd jobs get a reason, and work of others goes on."""
    with state.scene("odd") as s:
        s.nodes(1, cpu="8")
        s.flavor()
        s.queue({"cpu": "4"})
        s.job("zero", 0, {"cpu": "1"}, completions=1)
        s.job("huge", 100000, {"cpu": "1"})
        s.job("nowhere", 1, {"cpu": "1"}, queue="no-such-queue")
        s.add(job(s.ns, "n" * 63, "q", 1, {"cpu": "1"}))
        s.wait_reason("huge", "cpu")
        s.wait_reason("nowhere", "no-such-queue")
        s.wait_running(1, "n" * 63)
        s.job("good", 1, {"cpu": "1"})
        s.wait_running(1, "good")
        stays("nothing else runs", lambda: len(s.running()) == 2, 2)
        assert state.muster.alive()
        # Raised, the empty job wakes up.
        s.api.patch("Job", "zero", {"spec": {"parallelism": 1}}, s.ns)
        s.wait_running(1, "zero")


def cohort_cycles_are_named_and_survived(state):
    """CO-03: a cycle makes its queues inactive; the rest goes on; clearing it wakes them."""
    with state.scene("cycle") as s:
        s.nodes(1, cpu="8")
        s.flavor()
        for name, parent in (("-x", None), ("-y", s.ns + "-x")):
            spec = {"parentName": parent} if parent else {}
            s.add({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Cohort", "metadata": {"name": s.ns + name}, "spec": spec})
        s.queue({"cpu": "4"}, name="-cq", cohort=s.ns + "-y")
        s.api.patch("Cohort", s.ns + "-x", {"spec": {"parentName": s.ns + "-y"}})
        wait("CohortCycleDetected", lambda: (condition(s.api.get("ClusterQueue", s.ns + "-cq"), "Active") or {}).get("reason") == "CohortCycleDetected")
        s.job("w", 1, {"cpu": "1"})
        stays("it waits", lambda: s.suspended("w"), 2)
        s.api.patch("Cohort", s.ns + "-x", {"spec": {"parentName": None}})
        s.wait_running(1, "w")


def sigterm_ends_it_quickly(state):
    """SIGTERM ends serve within five seconds with exit code 0."""
    code, seconds = state.muster.stop()
    state.muster.start()
    state.muster.wait_ready()
    assert code == 0 and seconds < 5, (code, seconds)


def kubectl_sees_queues_and_workloads(state):
    """Printer columns, events and metrics are there for people."""
    with state.scene("people") as s:
        s.nodes(1, cpu="8")
        s.flavor()
        s.queue({"cpu": "4"})
        s.job("seen", 1, {"cpu": "1"})
        s.wait_running(1, "seen")
        out = state.cluster.kubectl("get", "workloads.kueue.x-k8s.io,localqueues", "-n", s.ns).stdout
        assert "ADMITTED" in out and "True" in out, out
        reasons = {e["reason"] for e in s.api.list("Event", s.ns)}
        assert {"QuotaReserved", "Admitted", "CreatedWorkload", "Started"} <= reasons, reasons
        metrics = state.muster.metrics()
        assert 'kueue_admitted_workloads_total{' in metrics and 'kueue_pending_workloads{' in metrics, metrics[:500]


def devices_are_allocated_where_first_fit_would_spoil_the_plan(state):
    """One member takes any device, the other needs the big one, which stands first: each gets the right one, and both run."""
    with state.scene("devices") as s:
        s.nodes(1)
        s.add(device_slice(s, 0, ["80Gi", "16Gi"]))
        s.add({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": s.ns},
               "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.nvidia.com"'}}]}})
        for name, expression in (("any", "true"), ("big", 'device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("20Gi"))')):
            s.add({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"namespace": s.ns, "name": name},
                   "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {
                       "deviceClassName": s.ns, "selectors": [{"cel": {"expression": expression}}]}}]}}}})
        s.flavor()
        s.queue({"cpu": "100"})
        state.muster.kill()
        config = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", "muster": {"unmappedDeviceClasses": "Ignore"}}
        ignoring = Muster(state.cluster, config=config).wait_ready()
        try:
            for name in ("any", "big"):
                pod = gated(s, name, {"cpu": "1"}, labels={"kueue.x-k8s.io/pod-group-name": "pair"},
                            annotations={"kueue.x-k8s.io/pod-group-total-count": "2"})
                pod["spec"].update({k: v for k, v in pod_spec({"cpu": "1"}, claims={"gpu": name}).items() if k in ("resourceClaims", "containers")})
                s.add(pod)
            s.wait_running(2)
            devices = {c["metadata"]["annotations"]["resource.kubernetes.io/pod-claim-name"] + "/" + c["metadata"]["ownerReferences"][0]["name"]:
                       c["status"]["allocation"]["devices"]["results"][0]["device"] for c in s.api.list("ResourceClaim", s.ns)}
            assert devices == {"gpu/any": "gpu-1", "gpu/big": "gpu-0"}, devices
        finally:
            ignoring.kill()
            state.muster.start()
            state.muster.wait_ready()


def an_old_server_lost_answers_and_retention(state):
    """Without streaming lists, with answers lost, as an elected leader: jobs finish, shares are told, and what is over is deleted when it is due."""
    with state.scene("old") as s:
        s.nodes(1, cpu="8")
        s.flavor()
        s.add({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Cohort", "metadata": {"name": s.ns}, "spec": {}})
        s.queue({"cpu": "4"}, cohort=s.ns)
        state.muster.kill()
        losses = [("POST", "/workloads$"), ("PATCH", "/workloads/[^/]+/status$"), ("PATCH", "/jobs/short$")]
        proxy = FaultProxy(state.cluster, OldServer(losses))
        config = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration",
                  "fairSharing": {"preemptionStrategies": ["LessThanOrEqualToFinalShare"]},
                  "objectRetentionPolicies": {"workloads": {"afterFinished": "2s", "afterDeactivatedByKueue": "1s"}}}
        muster = Muster(proxy, config=config, leader_elect=True).wait_ready()
        try:
            s.job("short", 2, {"cpu": "1"}, pod_annotations={"sim.muster.dev/run": "1s"})
            s.job("long", 2, {"cpu": "1"}, labels={"kueue.x-k8s.io/max-exec-time-seconds": "3"})
            wait("the job completes", lambda: is_true(s.api.get("Job", "short", s.ns), "Complete"))
            wait("its Workload is deleted", lambda: s.workload_of("short") is None)
            wait("the cohort's share", lambda: "weightedShare" in s.api.get("Cohort", s.ns).get("status", {}).get("fairSharing", {}))
            wait("the job that ran for too long is deleted", lambda: [j["metadata"]["name"] for j in s.api.list("Job", s.ns)] == ["short"])
            assert not proxy.plan.losses, "not met: %s" % proxy.plan.losses
            code, _ = muster.stop()
            assert code == 0, code
        finally:
            muster.kill()
            proxy.close()
            state.muster.start()
            state.muster.wait_ready()


def explain_says_why_and_where(state):
    """explain tells why a gang waits and what would make it fit, or where it runs; it writes nothing; bad names have their exit codes."""
    with state.scene("explain") as s:
        s.nodes(2, cpu="4")
        s.flavor()
        s.queue({"cpu": "100"})
        s.job("runs", 4, {"cpu": "1"})
        s.wait_running(4, "runs")
        s.job("waits", 8, {"cpu": "1"})
        s.wait_reason("waits", "8", "4")
        proxy = FaultProxy(types.SimpleNamespace(dir=state.cluster.dir, muster_kubeconfig=state.cluster.kubeconfig), Plan(0))
        explain = lambda name, *more: state.cluster.muster("explain", name, "-n", s.ns, *more, kubeconfig=proxy.muster_kubeconfig)

        waiting = s.workload_of("waits")["metadata"]["name"]
        for name in ("workload/" + waiting, "job/waits", "workloads.kueue.x-k8s.io/" + waiting):
            code, out, err = explain(name)
            assert code == 0 and not err, (code, out, err)
            assert "pending (InsufficientCapacity)" in out and "8 pods asked, 4 fit" in out and "would fit if:" in out, out
            assert "ClusterQueue %s, position 0" % s.ns in out, out
        answer = json.loads(explain("job/waits", "-o", "json")[1])
        reserved = condition(s.workload_of("waits"), "QuotaReserved")
        assert (answer["state"], answer["reason"], answer["message"]) == ("pending", reserved["reason"], reserved["message"]), (answer, reserved)

        code, out, _ = explain("workload/" + s.workload_of("runs")["metadata"]["name"])
        assert code == 0 and "admitted (Admitted)" in out, (code, out)
        nodes = json.loads(explain("job/runs", "-o", "json")[1])["nodes"]
        placed = collections.Counter(p["spec"]["nodeName"] for p in s.running("runs"))
        assert nodes == placed, (nodes, placed)
        code, out, _ = explain("pod/" + s.running("runs")[0]["metadata"]["name"])
        assert code == 0 and "admitted (Admitted)" in out, (code, out)

        s.job("free", 1, {"cpu": "1"}, queue=None)
        code, out, _ = explain("job/free")
        assert code == 0 and "unmanaged" in out and "kueue.x-k8s.io/queue-name" in out, (code, out)

        for name, wanted, text in (("workload/nobody", 1, 'workload "nobody" not found in namespace ' + s.ns), ("job/nobody", 1, "not found"),
                                   ("workload", 2, "KIND/NAME"), ("cronjob/x", 2, "cronjob"), ("workload/", 2, "KIND/NAME")):
            code, out, err = explain(name)
            assert (code, out) == (wanted, "") and text in err, (name, code, out, err)
        code, _, err = explain("job/waits", "-o", "yaml")
        assert code == 2 and "yaml" in err, (code, err)
        assert set(proxy.requests) == {"GET"}, proxy.requests
        proxy.close()
        check_exit_codes(state, "explain", "job/waits")


def check_exit_codes(state, *command):
    """2 for a kubeconfig that cannot be read, 3 for a server that does not answer or lets nobody look."""
    code, out, err = state.cluster.muster(*command, kubeconfig="/nowhere/kubeconfig")
    assert (code, out) == (2, "") and "/nowhere/kubeconfig" in err, (code, out, err)
    closed = os.path.join(state.cluster.dir, "kubeconfig-closed")
    with open(state.cluster.kubeconfig) as file, open(closed, "w") as to:
        to.write(re.sub(r"https://127.0.0.1:[0-9]+", "https://127.0.0.1:%d" % free_port(), file.read()))
    code, out, err = state.cluster.muster(*command, kubeconfig=closed)
    assert (code, out) == (3, "") and "refused" in err, (code, out, err)
    code, out, err = state.cluster.muster(*command, kubeconfig=os.path.join(state.cluster.dir, "kubeconfig-user"))
    assert (code, out) == (3, "") and "forbidden" in err and "alice" in err, (code, out, err)


def check_finds_what_is_wrong(state):
    """check says what is missing before the install, is content after it, and names what is broken; exit code 1 where something is wrong."""
    code, out, err = state.check_before_install
    assert code == 1 and not err, (code, out, err)
    assert "WRONG  not served: " in out and "ClusterQueue (kueue.x-k8s.io)" in out and "no bound admission policy holds queue-named jobs" in out, out
    with state.scene("check") as s:
        s.nodes(1)
        s.flavor()
        s.queue({"cpu": "4"})
        code, out, err = state.cluster.muster("check")
        assert code == 0 and not err and "WRONG" not in out and out.endswith("nothing wrong found\n"), (code, out, err)
        assert "ok     API server v1.37" in out and "a bound admission policy holds queue-named pods" in out, out
        s.add(local_queue(s.ns, "lost", "nobody"))
        s.add(flavor(s.ns + "-bare", {"pool": "none"}, "Fixed"))
        s.add(cluster_queue(s.ns + "-broken", {"cpu": "1"}, flavor_name="missing"))
        code, out, _ = state.cluster.muster("check")
        assert code == 1 and out.endswith("3 wrong\n"), (code, out)
        for text in ("LocalQueue %s/lost points to ClusterQueue nobody" % s.ns, "ResourceFlavor %s-bare is Fixed and no node has its labels" % s.ns,
                     "ClusterQueue %s-broken: FlavorNotFound" % s.ns):
            assert "WRONG  " + text in out, (text, out)
        check_exit_codes(state, "check")


def nothing_is_left_behind(state):
    """Deleted namespaces go, and with them every queue, job and pod of the tests before: no finalizer of ours holds anything back."""
    def left():
        return {n["metadata"]["name"]: [c["message"] for c in n["status"].get("conditions", []) if c["status"] == "True"]
                for n in state.api.list("Namespace") if n["metadata"].get("deletionTimestamp")}
    try:
        wait("all deleted namespaces to be gone", lambda: not left(), 90)
    except AssertionError:
        raise AssertionError("namespaces hang: %s" % left())
    for kind in ("Workload", "LocalQueue", "ClusterQueue", "ResourceFlavor", "Cohort", "Topology", "AdmissionCheck"):
        objects = state.api.list(kind)
        assert not objects, (kind, [o["metadata"]["name"] for o in objects])


# What is granted and not seen as a request in these tests, and why: the API server asks about it while it handles another request.
NOT_SEEN = {
    ("batch", "jobs/finalizers", "update"): "OwnerReferencesPermissionEnforcement, on the creation of a Workload that blocks the deletion of its Job",
    ("", "pods/finalizers", "update"): "the same for a pod",
    ("resource.k8s.io", "resourceclaims/binding", "patch"): "a write of a claim's allocation",
}


def the_chart_grants_what_is_used(state):
    """The chart's roles allow every call that was made in these tests, and nothing that none of them needs."""
    used, forbidden = state.cluster.audited()
    assert not forbidden, forbidden[:5]
    granted = set()
    for kind, name in (("clusterroles", "muster-controller"), ("namespaces/muster-system/roles", "muster-leader-election")):
        for rule in state.api.request("GET", "/apis/rbac.authorization.k8s.io/v1/%s/%s" % (kind, name))["rules"]:
            granted |= {(g, r, v) for g in rule["apiGroups"] for r in rule["resources"] for v in rule["verbs"]}
    if sys.argv[1:]:
        print("    not all tests were run: what is granted and not used cannot be told")
        return
    idle = granted - set(used) - set(NOT_SEEN)
    assert not idle, "granted and never used: %s" % sorted(idle)
    stale = {key for key in NOT_SEEN if key in used or key not in granted}
    assert not stale, "no longer granted, or seen as requests: %s" % sorted(stale)
    print("    %d permissions, each used; %d calls" % (len(granted), sum(used.values())))


TESTS = [
    plugin_gpus_wait_for_the_whole_gang,
    claims_wait_for_devices_that_match,
    native_pod_group_is_released_together,
    pod_group_by_label_starts_whole,
    a_single_pod_runs_when_quota_allows,
    fragmented_capacity_depends_on_the_flavor,
    teams_borrow_within_limits,
    finished_jobs_give_quota_back,
    stopping_and_draining_a_queue,
    queues_and_flavors_stay_while_they_are_used,
    jobs_without_queue_name_are_left_alone,
    bad_input_is_isolated,
    cohort_cycles_are_named_and_survived,
    kubectl_sees_queues_and_workloads,
    explain_says_why_and_where,
    check_finds_what_is_wrong,
    sigterm_ends_it_quickly,
    devices_are_allocated_where_first_fit_would_spoil_the_plan,
    an_old_server_lost_answers_and_retention,
    nothing_is_left_behind,
    the_chart_grants_what_is_used,
]

if __name__ == "__main__":
    the_state = State()
    try:
        code = run(TESTS, the_state)
    finally:
        the_state.close()
    sys.exit(code)
