"""The controller killed at any moment, two replicas, and a server that goes away: nothing twice, nothing half, nothing lost."""

import json
import os
import random
import subprocess
import sys
import threading
import time

from harness import *
from main_job import Scene

SEED = int(os.environ.get("MUSTER_E2E_SEED", "1"))


class State:
    def __init__(self):
        self.cluster = Cluster("--kwok")
        self.api = self.cluster.api
        self.cluster.install()
        self.muster = None
        self.count = 0

    def on_failure(self, name):
        if self.muster:
            print("--- the controller's last lines:\n" + self.muster.tail() + "---", flush=True)
        # A controller that a failed test left behind would take part in the next one.
        Muster.kill_all()

    def scene(self, label):
        self.count += 1
        return Scene(self, "%s-%d" % (label, self.count))

    def close(self):
        self.cluster.down()


class History(threading.Thread):
    """Watches Workloads and keeps every version, so that a limit broken for a moment is seen."""

    def __init__(self, api, ns, quota):
        super().__init__(daemon=True)
        self.api, self.ns, self.quota = api, ns, quota
        self.reserved, self.problems, self.admissions = {}, [], {}
        self.stop_asked = False
        self.start()

    def run(self):
        version = self.api.request("GET", self.api.path("Workload", self.ns))["metadata"]["resourceVersion"]
        while not self.stop_asked:
            try:
                connection = http.client.HTTPSConnection(self.api.host, self.api.port, timeout=20, context=self.api.context)
                connection.request("GET", self.api.path("Workload", self.ns) + "?watch=1&timeoutSeconds=15&resourceVersion=" + version, headers=self.api.headers)
                response = connection.getresponse()
                for line in response:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        self.problems.append("watch: %s" % event)
                        return
                    version = event["object"]["metadata"]["resourceVersion"]
                    self.see(event["type"], event["object"])
                connection.close()
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.2)

    def see(self, kind, wl):
        name = wl["metadata"]["name"]
        holds = kind != "DELETED" and is_true(wl, "QuotaReserved") and not is_true(wl, "Finished")
        if holds:
            # What has succeeded and will not be replaced is charged no longer.
            reclaimed = sum(p["count"] for p in wl["status"].get("reclaimablePods", []))
            count = sum(p["count"] for p in wl["status"]["admission"]["podSetAssignments"]) - reclaimed
            if name not in self.reserved:
                self.admissions[name] = self.admissions.get(name, 0) + 1
            self.reserved[name] = count
        else:
            self.reserved.pop(name, None)
        if sum(self.reserved.values()) > self.quota:
            self.problems.append("more than the quota: %s" % self.reserved)


def check_whole(s, jobs):
    """Every admitted job runs whole, every other one has no pod."""
    for name, size in jobs.items():
        wl = s.workload_of(name)
        pods = [p for p in s.pods(name) if p["status"].get("phase") in ("Pending", "Running") and not p["metadata"].get("deletionTimestamp")]
        if wl is not None and is_true(wl, "Admitted") and not is_true(wl, "Finished"):
            assert len([p for p in pods if p["status"].get("phase") == "Running"]) == size, (name, len(pods))
        elif wl is not None and not is_true(wl, "Finished"):
            assert s.suspended(name) and not pods, (name, len(pods))


def killed_fifty_times_at_random(state):
    """kill -9 at random moments of admission and release, 50 times; the end state is that of an undisturbed run."""
    rng = random.Random(SEED)
    with state.scene("kill") as s:
        s.nodes(4, cpu="4")
        s.flavor()
        muster = state.muster = Muster(state.cluster).wait_ready()
        s.queue({"cpu": "10"})
        history = History(s.api, s.ns, 10)
        sizes = {}
        for i in range(12):
            sizes["j%d" % i] = rng.choice((1, 2, 3, 4))
        names = list(sizes)
        kills = 0
        for i in range(50):
            if i < len(names):
                s.job(names[i], sizes[names[i]], {"cpu": "1"}, pod_annotations={"sim.muster.dev/run": "3s"})
            time.sleep(rng.uniform(0.01, 0.5))
            muster.kill()
            kills += 1
            muster.start()
            if rng.random() < 0.3:
                muster.wait_ready()
        muster.wait_ready()
        for name in names:
            wait("job %s completes" % name, lambda name=name: is_true(s.api.get("Job", name, s.ns), "Complete"), 120)
        wait("all Workloads finished", lambda: all(is_true(s.workload_of(n), "Finished") for n in names), 60)
        wait("all quota is back", lambda: s.api.get("ClusterQueue", s.ns).get("status", {}).get("reservingWorkloads") == 0, 30)
        history.stop_asked = True
        assert not history.problems, history.problems[:3]
        assert all(n == 1 for n in history.admissions.values()), history.admissions
        assert len(s.api.list("Workload", s.ns)) == len(names)
        assert kills == 50
        muster.kill()


def two_replicas_with_the_leader_killed(state):
    """The standby takes over; clean stop hands over at once; never two writers."""
    with state.scene("lead") as s:
        s.nodes(2, cpu="8")
        s.flavor()
        config = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration",
                  "leaderElection": {"leaderElect": True, "leaseDuration": "5s", "renewDeadline": "3s", "retryPeriod": "1s"}}
        first = state.muster = Muster(state.cluster, config=config, leader_elect=True)
        lease = lambda: s.api.get("Lease", "c1f6bfd2.kueue.x-k8s.io", "muster-system")["spec"]
        holder = wait("a leader", lambda: lease().get("holderIdentity"))
        second = Muster(state.cluster, config=config, leader_elect=True)
        s.queue({"cpu": "16"})
        history = History(s.api, s.ns, 16)
        s.job("one", 4, {"cpu": "1"})
        s.wait_running(4, "one")
        first.kill()
        s.job("two", 4, {"cpu": "1"})
        s.wait_running(4, "two", 90)
        other = lease()["holderIdentity"]
        assert other != holder, other
        # A clean stop releases the lease: the next one leads well within the lease duration.
        first.start()
        wait("the standby is ready", lambda: first.http(first.health_port, "/readyz")[0] == 200, 30)
        code, seconds = second.stop()
        assert code == 0 and seconds < 5, (code, seconds)
        started = time.monotonic()
        wait("hand-over", lambda: lease().get("holderIdentity") not in ("", None, other), 10, 0.05)
        assert time.monotonic() - started < 3
        s.job("three", 4, {"cpu": "1"})
        s.wait_running(4, "three", 90)
        history.stop_asked = True
        assert not history.problems and all(n == 1 for n in history.admissions.values()), (history.problems, history.admissions)
        first.kill()


def the_api_server_goes_away(state):
    """The server is stopped for a while and comes back: recovers by itself, no lost wake-up."""
    with state.scene("gone") as s:
        s.nodes(1, cpu="8")
        s.flavor()
        muster = state.muster = Muster(state.cluster).wait_ready()
        s.queue({"cpu": "2"})
        s.job("before", 2, {"cpu": "1"}, pod_annotations={"sim.muster.dev/run": "4s"})
        s.wait_running(2, "before")
        pid = int(open(os.path.join(state.cluster.dir, "kube-apiserver.pid")).read())
        os.kill(pid, 19)
        time.sleep(int(os.environ.get("MUSTER_E2E_OUTAGE", "60")))
        os.kill(pid, 18)
        s.job("after", 2, {"cpu": "1"}, pod_annotations={"sim.muster.dev/run": "1s"})
        wait("the job from before completes", lambda: is_true(s.api.get("Job", "before", s.ns), "Complete"), 90)
        wait("the job from after completes", lambda: is_true(s.api.get("Job", "after", s.ns), "Complete"), 90)
        assert muster.alive()
        muster.kill()


def many_pending_jobs_cost_nothing(state):
    """Pending jobs in many queues with one slot each: steady state makes no API write and less than 1 % of a core."""
    jobs, queues = int(os.environ.get("MUSTER_E2E_JOBS", "10000")), 100
    with state.scene("idle") as s:
        s.flavor("Elastic")
        for q in range(queues):
            s.add(cluster_queue("%s-%d" % (s.ns, q), {"cpu": "1"}, flavor_name=s.ns))
            s.add(local_queue(s.ns, "q%d" % q, "%s-%d" % (s.ns, q)))
        muster = state.muster = Muster(state.cluster).wait_ready()
        todo = list(range(jobs))
        lock = threading.Lock()

        def submit():
            while True:
                with lock:
                    if not todo:
                        return
                    i = todo.pop()
                s.api.create(job(s.ns, "j%05d" % i, "q%d" % (i % queues), 1, {"cpu": "1"}))
        started = time.monotonic()
        threads = [threading.Thread(target=submit) for _ in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]

        def settled():
            pending = admitted = 0
            for q in range(queues):
                status = s.api.get("ClusterQueue", "%s-%d" % (s.ns, q)).get("status", {})
                pending += status.get("pendingWorkloads", 0)
                admitted += status.get("admittedWorkloads", 0)
            return pending == jobs - queues and admitted == queues
        wait("one job of each queue admitted, the others pending", settled, 600, 2)
        print("    %d jobs in %d queues settled %.0f s after the first was created" % (jobs, queues, time.monotonic() - started))
        time.sleep(5)

        def version():
            return int(s.api.request("GET", s.api.path("Workload", s.ns) + "?limit=1")["metadata"]["resourceVersion"])

        def writes():
            total = 0
            for line in s.api.request("GET", "/metrics").splitlines():
                if line.startswith("apiserver_request_total{") and 'group="kueue.x-k8s.io"' in line or line.startswith("apiserver_request_total{") and 'resource="events"' in line:
                    if any('verb="%s"' % verb in line for verb in ("POST", "PUT", "PATCH", "APPLY", "DELETE")):
                        total += float(line.rsplit(" ", 1)[1])
            return total
        before, cpu = writes(), muster.cpu_seconds()
        time.sleep(20)
        share = (muster.cpu_seconds() - cpu) / 20
        assert writes() == before, "writes in a steady state: %s" % (writes() - before)
        assert share < 0.01, "CPU share %.4f" % share
        print("    steady state: no write in 20 s, %.2f %% of a core" % (share * 100))
        muster.kill()


TESTS = [
    killed_fifty_times_at_random,
    the_api_server_goes_away,
]
# `python3 test/e2e/crash.py --long` runs these instead; they want a machine of their own.
LONG = [
    two_replicas_with_the_leader_killed,
    many_pending_jobs_cost_nothing,
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
