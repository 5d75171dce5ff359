"""The main job through a proxy that makes trouble: errors, resets, lost answers, watches cut anywhere. Nothing twice, nothing half, nothing lost."""

import os
import random
import sys
import time

from fault_proxy import FaultProxy, Plan
from harness import *
from history import PodHistory, WorkloadHistory
from main_job import Scene, gated

SEED = int(os.environ.get("MUSTER_E2E_SEED", "1"))
STORM = float(os.environ.get("MUSTER_E2E_STORM", "38"))


class State:
    def __init__(self):
        self.cluster = Cluster("--kwok")
        self.api = self.cluster.api
        self.cluster.install()
        print("    seed %d" % SEED, flush=True)
        self.proxy = FaultProxy(self.cluster, Plan(SEED))
        self.muster = None
        self.count = 0

    def on_failure(self, name):
        print("    faults: %s; requests: %s" % (dict(self.proxy.plan.done), dict(self.proxy.requests)))
        if self.muster:
            print("--- the controller's last lines (all of %s):\n%s---" % (self.muster.log.name, self.muster.tail()), flush=True)
        Muster.kill_all()

    def scene(self, label):
        self.count += 1
        return Scene(self, "%s-%d" % (label, self.count))

    def close(self):
        Muster.kill_all()
        self.proxy.close()
        self.cluster.down()


class Flow:
    """Jobs with and without accelerators in two queues of a cohort, single pods, pod groups, and a queue that is drained and goes on."""

    JOBS, DRAINED, PODS, GROUPS = 32, 4, 5, 4

    def __init__(self, s, seed):
        self.s, self.rng = s, random.Random(seed)
        s.nodes(4, cpu="6", gpus=3)
        s.flavor()
        s.queue({"cpu": {"nominalQuota": "7", "borrowingLimit": "3"}, "nvidia.com/gpu": "8"}, name="-a", cohort=s.ns, lq="a")
        s.queue({"cpu": {"nominalQuota": "7", "lendingLimit": "4"}, "nvidia.com/gpu": "4"}, name="-b", cohort=s.ns, lq="q")
        s.queue({"cpu": "6"}, name="-c", lq="c")
        # What the queues may hold at once, in pods of one cpu each.
        self.limits = {s.ns + "-a": 7 + 3, s.ns + "-b": 7 + 7, s.ns + "-c": 6, None: 7 + 7 + 6}
        self.jobs = {}
        self.steps = []
        for i in range(self.JOBS):
            size, queue, gpu = self.rng.choice((1, 2, 3, 4, 5)), self.rng.choice("aaqqq"), self.rng.random() < 0.3
            self.steps.append(lambda i=i, size=size, queue=queue, gpu=gpu: self.job("j%d" % i, size, queue, gpu))
        for i in range(self.PODS):
            self.steps.append(lambda i=i: self.pod("p%d" % i))
        for i in range(self.GROUPS):
            self.steps.append(lambda i=i: self.group("g%d" % i, 3))
        self.rng.shuffle(self.steps)

    def job(self, name, size, queue, gpu=False, run="1s"):
        self.jobs[name] = size
        requests = {"cpu": "1", **({"nvidia.com/gpu": "1"} if gpu else {})}
        self.s.job(name, size, requests, queue=queue, pod_annotations={"sim.muster.dev/run": run})

    def pod(self, name, queue="q", run="1s"):
        self.s.add(gated(self.s, name, {"cpu": "1"}, labels={"kueue.x-k8s.io/queue-name": queue}, annotations={"sim.muster.dev/run": run}))

    def group(self, name, size):
        for i in range(size):
            self.s.add(gated(self.s, "%s-%d" % (name, i), {"cpu": "1"}, labels={"kueue.x-k8s.io/pod-group-name": name},
                             annotations={"kueue.x-k8s.io/pod-group-total-count": str(size), "sim.muster.dev/run": "1s"}))

    def drain_a_queue(self):
        """Jobs and pods that run for long in a queue that will be drained: the jobs wait and go on later, the pods are deleted."""
        for i in range(2):
            self.pod("e%d" % i, "c", run="600s")
        for i in range(self.DRAINED):
            self.job("d%d" % i, 2, "c", run="4s")

    def stop_policy(self, policy):
        self.s.api.patch("ClusterQueue", self.s.ns + "-c", {"spec": {"stopPolicy": policy}})

    def end_state(self):
        """What is left in the end, without names and times that differ from run to run."""
        s = self.s
        workloads = {}
        for wl in s.api.list("Workload", s.ns):
            owners = sorted({o["name"].split("-")[0] for o in wl["metadata"].get("ownerReferences", [])})
            finished = condition(wl, "Finished") or {}
            workloads.setdefault(" ".join(owners), []).append(
                (finished.get("status"), finished.get("reason"), finished.get("message"), wl["metadata"].get("finalizers", [])))
        # A job whose pods succeed while it is being drained ends as a suspended one.
        jobs = {j["metadata"]["name"]: (is_true(j, "Complete"), j["status"].get("succeeded"), j["status"].get("failed"),
                                        j["spec"]["suspend"] and j["metadata"]["name"][0] != "d") for j in s.api.list("Job", s.ns)}
        pods = {p["metadata"]["name"]: (p["status"].get("phase"), p["metadata"].get("finalizers", []))
                for p in s.api.list("Pod", s.ns) if p["metadata"]["name"][0] in "peg"}
        queues = {}
        for kind in ("ClusterQueue", "LocalQueue"):
            for q in s.api.list(kind, s.ns if kind == "LocalQueue" else None):
                if kind == "LocalQueue" or q["metadata"]["name"].startswith(s.ns):
                    status = q.get("status", {})
                    queues[kind + q["metadata"]["name"].replace(s.ns, "")] = (
                        [status.get(k) for k in ("pendingWorkloads", "reservingWorkloads", "admittedWorkloads")],
                        sorted({r["total"] for f in status.get("flavorsReservation", []) + status.get("flavorsUsage", []) for r in f["resources"]}),
                        is_true(q, "Active"))
        return {"workloads": workloads, "jobs": jobs, "pods": pods, "queues": queues}

    def missing(self):
        """What is not done yet; empty when all is."""
        state = self.end_state()
        out = ["job " + n for n in self.jobs if not state["jobs"].get(n, (False,))[0]]
        # Those of the pods that were evicted go with them: the garbage collector does it.
        out += ["workload of " + n for n, wls in state["workloads"].items() if n[0] == "e" or any(wl[0] != "True" or wl[3] for wl in wls)]
        out += ["pod " + n for n, (phase, finalizers) in state["pods"].items() if phase != "Succeeded" or finalizers]
        out += ["%s %s" % (n, q) for n, q in state["queues"].items() if q[0] != [0, 0, 0] or q[1] != ["0"]]
        return out

    def wait_done(self, timeout):
        try:
            wait("everything to finish", lambda: not self.missing(), timeout, 0.5)
        except AssertionError:
            raise AssertionError("not done %d s after the trouble ended: %s" % (timeout, self.missing()[:12]))


def trouble_leaves_no_trace(state):
    """Errors, resets, lost answers and cut watches for a while, two kills among them: the end is that of a run without, and no limit breaks."""
    with state.scene("calm") as s:
        muster = state.muster = Muster(state.proxy).wait_ready()
        started = time.monotonic()
        calm = Flow(s, SEED)
        calm.drain_a_queue()
        wait("a job of the queue to be drained runs, and a pod",
             lambda: s.running("d0") and s.api.get("Pod", "e0", s.ns)["status"].get("phase") == "Running")
        calm.stop_policy("HoldAndDrain")
        for step in calm.steps:
            step()
        wait("it is drained", lambda: all(s.suspended("d%d" % i) for i in range(calm.DRAINED)) and "e0" not in calm.end_state()["pods"])
        calm.stop_policy("None")
        calm.wait_done(90)
        wanted = calm.end_state()
        undisturbed, requests = time.monotonic() - started, sum(state.proxy.requests.values())

    with state.scene("storm") as s:
        flow = Flow(s, SEED)
        history, pods = WorkloadHistory(s.api, s.ns, flow.limits), PodHistory(s.api, s.ns)
        state.proxy.storm()
        started = time.monotonic()
        kills = [STORM * 0.3, STORM * 0.7]
        drain = [(STORM * 0.2, flow.drain_a_queue), (STORM * 0.35, lambda: flow.stop_policy("HoldAndDrain")),
                 (STORM * 0.6, lambda: flow.stop_policy("None"))]
        todo = list(flow.steps)
        while time.monotonic() - started < STORM:
            elapsed = time.monotonic() - started
            while todo and len(todo) > len(flow.steps) * (1 - elapsed / (STORM * 0.9)):
                todo.pop()()
            if kills and elapsed > kills[0]:
                kills.pop(0)
                muster.kill()
                muster.start()
            if drain and elapsed > drain[0][0]:
                drain.pop(0)[1]()
            assert muster.alive(), "the controller ended by itself"
            time.sleep(0.1)
        assert not todo and not kills and not drain
        state.proxy.calm()
        ended = time.monotonic()
        flow.wait_done(60)
        recovered = time.monotonic() - ended
        assert muster.alive(), "the controller ended by itself"
        found = flow.end_state()
        for part in wanted:
            ours, theirs = found[part], wanted[part]
            differ = [(k, ours.get(k), theirs.get(k)) for k in sorted({**ours, **theirs}) if ours.get(k) != theirs.get(k)]
            assert not differ, "%s differ from those of an undisturbed run: %s" % (part, differ[:5])
        history.stop()
        pods.stop()
        history.check_admitted_once()
        pods.check_freed_when_admitted(history)

        # Calm again, it writes no more: what was left of the trouble is worked off.
        def rested(seconds=6):
            before = state.proxy.writes()
            time.sleep(seconds)
            return state.proxy.writes() == before
        wait("no write for 6 s", rested, 60, 0)
        print("    undisturbed %.0f s and %d requests; %.0f s of trouble with %d requests, %d of them disturbed, done %.1f s later" % (
            undisturbed, requests, STORM, sum(state.proxy.requests.values()) - requests, sum(state.proxy.plan.done.values()), recovered))
        print("    " + ", ".join("%s %d" % entry for entry in sorted(state.proxy.plan.done.items())))
        print("    most pods admitted at once: %s; evicted: %d" % (
            ", ".join("%d of %d in %s" % (history.most[q], limit, (q or "all").replace(s.ns + "-", "")) for q, limit in flow.limits.items()),
            sum(history.evictions.values())))
        muster.kill()


def a_watch_that_falls_silent_is_given_up(state):
    """A connection that is open but dead is noticed by its silence: work that came meanwhile is done, without a restart."""
    with state.scene("silent") as s:
        muster = state.muster = Muster(state.proxy).wait_ready()
        s.nodes(1, cpu="4")
        s.flavor()
        s.queue({"cpu": "4"})
        s.job("before", 2, {"cpu": "1"}, pod_annotations={"sim.muster.dev/run": "1s"})
        wait("the job from before completes", lambda: is_true(s.api.get("Job", "before", s.ns), "Complete"))
        state.proxy.freeze()
        started = time.monotonic()
        s.job("after", 2, {"cpu": "1"}, pod_annotations={"sim.muster.dev/run": "1s"})
        stays("nobody has heard of the job", lambda: s.workload_of("after") is None, 5)
        wait("the job from after completes", lambda: is_true(s.api.get("Job", "after", s.ns), "Complete"), 240, 1)
        print("    noticed and done after %.0f s" % (time.monotonic() - started))
        assert muster.alive()
        muster.kill()


TESTS = [
    trouble_leaves_no_trace,
]
# `python3 test/e2e/faults.py --long` runs these instead: minutes of waiting.
LONG = [
    a_watch_that_falls_silent_is_given_up,
]

if __name__ == "__main__":
    the_state = State()
    try:
        long = "--long" in sys.argv
        if long:
            sys.argv.remove("--long")
        code = run(LONG if long else TESTS, the_state)
    finally:
        the_state.close()
    sys.exit(code)
