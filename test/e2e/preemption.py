"""Preemption and fair sharing on a real control plane: whole gangs give way, once, and nobody else."""

import sys
import time

from harness import *
from main_job import State


def priority_class(name, value):
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}


def evicted_for(scene, name, reason):
    def look():
        wl = scene.workload_of(name)
        preempted = wl and condition(wl, "Preempted")
        return preempted and preempted["status"] == "True" and preempted["reason"] == reason and scene.suspended(name) and not scene.pods(name)
    wait("%s is preempted (%s), suspended and without pods" % (name, reason), look, 60)


def a_lender_takes_its_quota_back_gang_by_gang(state):
    """The newest borrowing gang goes as a whole, the other keeps its pods, and the lender's gang starts whole."""
    with state.scene("reclaim") as s:
        s.nodes(2, cpu="4")
        s.flavor("Fixed")
        s.queue({"cpu": "4"}, name="-a", cohort=s.ns, lq="a", preemption={"reclaimWithinCohort": "Any"})
        s.queue({"cpu": "4"}, name="-b", cohort=s.ns, lq="b")
        s.job("first", 3, {"cpu": "1"}, queue="b")
        s.wait_running(3, "first")
        kept = {p["metadata"]["uid"] for p in s.pods("first")}
        time.sleep(1.1)  # reservation times have whole seconds
        s.job("second", 3, {"cpu": "1"}, queue="b")
        s.wait_running(3, "second")
        s.job("own", 4, {"cpu": "1"}, queue="a")
        s.wait_running(4, "own")
        evicted_for(s, "second", "InCohortReclamation")
        assert {p["metadata"]["uid"] for p in s.pods("first")} == kept, "the first gang was touched"
        s.wait_reason("second", "cpu")
        s.api.delete("Job", "own", s.ns)
        s.wait_running(3, "second")


def nobody_goes_for_a_gang_that_finds_no_place(state):
    """Quota could be had by preemption, but no node is large enough: nobody is evicted, and the reason says it."""
    with state.scene("noplace") as s:
        s.add(priority_class(s.ns + "-high", 100))
        s.nodes(2, cpu="4")
        s.flavor("Fixed")
        s.queue({"cpu": "8"}, preemption={"withinClusterQueue": "LowerPriority"})
        s.job("low", 8, {"cpu": "1"})
        s.wait_running(8, "low")
        s.job("wide", 1, {"cpu": "6"}, labels={"kueue.x-k8s.io/priority-class": s.ns + "-high"})
        s.wait_reason("wide", "6")
        stays("the running gang is left alone", lambda: len(s.running("low")) == 8 and not s.suspended("low"), 3)


def a_kill_in_the_middle_of_a_preemption(state):
    """Killed as soon as the victim is marked: the end is that of an undisturbed run, and nobody else is evicted."""
    with state.scene("midway") as s:
        s.add(priority_class(s.ns + "-high", 100))
        s.nodes(2, cpu="4")
        s.flavor("Fixed")
        s.queue({"cpu": "8"}, preemption={"withinClusterQueue": "LowerPriority"})
        for name in ("one", "two"):
            s.job(name, 4, {"cpu": "1"})
            s.wait_running(4, name)
            time.sleep(1.1)
        kept = {p["metadata"]["uid"] for p in s.pods("one")}
        s.job("high", 4, {"cpu": "1"}, labels={"kueue.x-k8s.io/priority-class": s.ns + "-high"})
        wait("a victim is marked", lambda: any(is_true(w, "Evicted") for w in s.api.list("Workload", s.ns)), 30, 0.01)
        state.muster.kill()
        state.muster.start()
        state.muster.wait_ready()
        s.wait_running(4, "high")
        evicted_for(s, "two", "InClusterQueue")
        assert {p["metadata"]["uid"] for p in s.pods("one")} == kept, "the older gang was touched"


def three_teams_share_fairly(state):
    """One team has taken all; two others come: each ends with a third, and the shares are in the status."""
    state.muster.stop()
    state.muster = Muster(state.cluster, config={
        "apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", "fairSharing": {
            "preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]}}).wait_ready()
    with state.scene("fair") as s:
        s.nodes(3, cpu="32")  # room enough: quota alone decides
        s.flavor("Fixed")
        s.add({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Cohort", "metadata": {"name": s.ns}, "spec": {"resourceGroups": [
            {"coveredResources": ["cpu"], "flavors": [{"name": s.ns, "resources": [{"name": "cpu", "nominalQuota": "12"}]}]}]}})
        for team in ("a", "b", "c"):
            s.queue({"cpu": "0"}, name="-" + team, cohort=s.ns, lq=team, preemption={"reclaimWithinCohort": "Any"})
        for i in range(6):
            s.job("a%d" % i, 2, {"cpu": "1"}, queue="a")
        wait("the first team has it all", lambda: len(s.running()) == 12)
        for i in range(4):
            s.job("b%d" % i, 2, {"cpu": "1"}, queue="b")
            s.job("c%d" % i, 2, {"cpu": "1"}, queue="c")

        def thirds():
            counts = {}
            for p in s.running():
                team = p["metadata"]["labels"]["batch.kubernetes.io/job-name"][0]
                counts[team] = counts.get(team, 0) + 1
            return counts == {"a": 4, "b": 4, "c": 4} and counts
        wait("a third for each", thirds, 60)
        stays("it stays so", thirds, 3)
        for team in ("a", "b", "c"):
            wait("the share of %s" % team, lambda team=team: s.api.get("ClusterQueue", s.ns + "-" + team)["status"].get("fairSharing", {})
                 .get("weightedShare") == 334, 20)


TESTS = [
    a_lender_takes_its_quota_back_gang_by_gang,
    nobody_goes_for_a_gang_that_finds_no_place,
    a_kill_in_the_middle_of_a_preemption,
    three_teams_share_fairly,
]

if __name__ == "__main__":
    the_state = State()
    try:
        code = run(TESTS, the_state)
    finally:
        the_state.close()
    sys.exit(code)
