"""The controller killed at any moment, two replicas, and a server that goes away: nothing twice, nothing half, nothing lost."""

import os
import random
import sys
import threading
import time

from harness import *
from history import PodHistory, WorkloadHistory
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


def killed_fifty_times_at_random(state):
    """kill -9 at random moments of admission and release, 50 times; the end state is that of an undisturbed run."""
    rng = random.Random(SEED)
    with state.scene("kill") as s:
        s.nodes(4, cpu="4")
        s.flavor()
        muster = state.muster = Muster(state.cluster).wait_ready()
        s.queue({"cpu": "10"})
        history = WorkloadHistory(s.api, s.ns, {None: 10})
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
        history.stop()
        history.check_admitted_once()
        assert len(s.api.list("Workload", s.ns)) == len(names)
        assert kills == 50
        muster.kill()


def two_replicas_with_the_leader_killed(state):
    """The standby takes over, also in the middle of admissions; clean stop hands over at once; never two writers."""
    rng = random.Random(SEED)
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
        history, pods = WorkloadHistory(s.api, s.ns, {None: 16}), PodHistory(s.api, s.ns)
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
        # What runs since before counts once: all that is left is given to the next.
        s.job("three", 8, {"cpu": "1"}, pod_annotations={"sim.muster.dev/run": "1s"})
        s.wait_running(8, "three", 90)
        # Now the leader dies again and again while it admits; whoever is dead comes back as the standby.
        second.start()
        leads = lambda: next((m for m in (first, second) if lease()["holderIdentity"].endswith("_%d" % m.process.pid)), None)
        names = []
        for kill in range(3):
            wait("both are ready and one leads", lambda: all(m.http(m.health_port, "/readyz")[0] == 200 for m in (first, second)) and leads(), 30)
            for i in range(5):
                names.append("k%d-%d" % (kill, i))
                s.job(names[-1], rng.choice((1, 2, 3, 5)), {"cpu": "1"}, pod_annotations={"sim.muster.dev/run": "1s"})
            time.sleep(rng.uniform(0.0, 0.4))
            leader = wait("one of the two leads", leads, 20, 0.05)
            leader.kill()
            leader.start()
        for name in names:
            wait("job %s completes" % name, lambda name=name: is_true(s.api.get("Job", name, s.ns), "Complete"), 90)
        wait("their quota is back", lambda: s.api.get("ClusterQueue", s.ns).get("status", {}).get("reservingWorkloads") == 2, 30)
        for name in ("one", "two"):
            assert len(s.running(name)) == 4, name
        history.stop()
        pods.stop()
        history.check_admitted_once()
        pods.check_freed_when_admitted(history)
        assert len(history.admissions) == len(names) + 3, history.admissions
        first.kill()
        second.kill()


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
    jobs, queues, seconds = int(os.environ.get("MUSTER_E2E_JOBS", "10000")), 100, 60
    with state.scene("idle") as s:
        s.flavor("Elastic")
        for q in range(queues):
            s.add(cluster_queue("%s-%d" % (s.ns, q), {"cpu": "1"}, flavor_name=s.ns))
            s.add(local_queue(s.ns, "q%d" % q, "%s-%d" % (s.ns, q)))
        # As it ships: the leader of an election, which renews its lease all the time.
        muster = state.muster = Muster(state.cluster, leader_elect=True).wait_ready()
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
        created = time.monotonic() - started

        def counts():
            all_of_it = [q.get("status", {}) for q in s.api.list("ClusterQueue") if q["metadata"]["name"].startswith(s.ns)]
            return sum(q.get("pendingWorkloads", 0) for q in all_of_it), sum(q.get("admittedWorkloads", 0) for q in all_of_it)
        wait("one job of each queue admitted, the others pending", lambda: counts() == (jobs - queues, queues), 900, 2)
        print("    %d jobs in %d queues created in %.0f s, settled %.0f s after the first; the controller took %.1f CPU seconds, %d MB" % (
            jobs, queues, created, time.monotonic() - started, muster.cpu_seconds(), muster.rss_mb()))
        # Reasons are told to each that waits, events come in series: the last of them are written some time later.
        calm = [writes_so_far(s.api), time.monotonic()]

        def rested():
            now_written = writes_so_far(s.api)
            if now_written != calm[0]:
                calm[0], calm[1] = now_written, time.monotonic()
            return time.monotonic() - calm[1] > 10
        wait("no write for 10 s", rested, 300, 1)
        before, cpu, since = writes_so_far(s.api), muster.cpu_seconds(), time.monotonic()
        time.sleep(seconds)
        share = (muster.cpu_seconds() - cpu) / (time.monotonic() - since)
        after = writes_so_far(s.api)
        print("    steady state: %d writes but for the lease in %d s, %.3f %% of a core, %d MB" % (
            sum((after - before).values()), seconds, share * 100, muster.rss_mb()))
        assert after == before, "writes in a steady state: %s" % (after - before)
        assert share < 0.01, "CPU share %.4f" % share
        # A job that goes wakes one that waits in its queue, and nobody else.
        running = next(j for j in s.api.list("Job", s.ns) if not j["spec"]["suspend"])
        s.api.delete("Job", running["metadata"]["name"], s.ns)
        wait("the next job of that queue is admitted", lambda: counts() == (jobs - queues - 1, queues), 60, 1)
        muster.kill()


TESTS = [
    killed_fifty_times_at_random,
    two_replicas_with_the_leader_killed,
    the_api_server_goes_away,
]
# `python3 test/e2e/crash.py --long` runs these instead: minutes, most of them the API server's own.
LONG = [
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
