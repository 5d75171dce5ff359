"""What happened to Workloads and pods, version by version, so that a limit broken for a moment is seen too."""

import http.client
import json
import threading
import time

from harness import is_true, wait


class Watcher(threading.Thread):
    """Follows one kind in one namespace from now on. Talks to the API server itself, not through a proxy."""

    kind = None

    def __init__(self, api, ns):
        super().__init__(daemon=True)
        self.api, self.ns = api, ns
        self.problems = []
        self.stop_asked = False
        self.version = self.api.request("GET", self.api.path(self.kind, self.ns))["metadata"]["resourceVersion"]
        self.start()

    def run(self):
        while not self.stop_asked:
            connection = http.client.HTTPSConnection(self.api.host, self.api.port, timeout=20, context=self.api.context)
            try:
                path = self.api.path(self.kind, self.ns) + "?watch=1&allowWatchBookmarks=1&timeoutSeconds=15&resourceVersion=" + self.version
                connection.request("GET", path, headers=self.api.headers)
                for line in connection.getresponse():
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        self.problems.append("watch: %s" % event)
                        return
                    self.version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self.see(event["type"], event["object"])
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.2)
            finally:
                connection.close()

    def stop(self):
        """Ends when everything up to now has been seen."""
        items = self.api.list(self.kind, self.ns)
        newest = max([int(item["metadata"]["resourceVersion"]) for item in items], default=0)
        wait("the history of %ss to be complete" % self.kind, lambda: self.problems or int(self.version) >= newest, 30)
        self.stop_asked = True


class WorkloadHistory(Watcher):
    """limits: ClusterQueue -> the most pods that its Workloads may hold quota for at once; None stands for all of them together."""

    kind = "Workload"

    def __init__(self, api, ns, limits):
        self.limits = limits
        self.held = {}        # name -> (ClusterQueue, pods)
        self.admissions = {}  # name -> how often quota was reserved
        self.evictions = {}   # name -> how often an eviction ended that
        self.admitted = {}    # name -> [[resourceVersion from, to or None], ...]
        self.most = {}
        super().__init__(api, ns)

    def see(self, kind, wl):
        name, version = wl["metadata"]["name"], int(wl["metadata"]["resourceVersion"])
        holds = kind != "DELETED" and is_true(wl, "QuotaReserved") and not is_true(wl, "Finished")
        if holds:
            # What has succeeded and will not be replaced is charged no longer.
            reclaimed = sum(p["count"] for p in wl["status"].get("reclaimablePods", []))
            admission = wl["status"]["admission"]
            count = sum(p["count"] for p in admission["podSetAssignments"]) - reclaimed
            if name not in self.held:
                self.admissions[name] = self.admissions.get(name, 0) + 1
            elif self.held[name][0] != admission["clusterQueue"]:
                self.problems.append("%s moved from %s to %s under its reservation" % (name, self.held[name][0], admission["clusterQueue"]))
            self.held[name] = (admission["clusterQueue"], count)
        elif self.held.pop(name, None) and kind != "DELETED" and is_true(wl, "Evicted") and not is_true(wl, "Finished"):
            self.evictions[name] = self.evictions.get(name, 0) + 1
        periods = self.admitted.setdefault(name, [])
        if kind != "DELETED" and is_true(wl, "Admitted"):
            if not periods or periods[-1][1] is not None:
                periods.append([version, None])
        elif periods and periods[-1][1] is None:
            periods[-1][1] = version
        for queue, limit in self.limits.items():
            used = sum(count for of, count in self.held.values() if queue is None or of == queue)
            self.most[queue] = max(self.most.get(queue, 0), used)
            if used > limit:
                self.problems.append("%s pods admitted where %s are allowed (%s): %s" % (used, limit, queue or "all queues", self.held))

    def check_admitted_once(self):
        """No limit was ever broken, and quota was given once, and again only after an eviction."""
        assert not self.problems, self.problems[:3]
        assert self.admissions, "nothing was admitted"
        twice = {n: (c, self.evictions.get(n, 0)) for n, c in self.admissions.items() if c > 1 + self.evictions.get(n, 0)}
        assert not twice, "admitted more often than evictions explain (admissions, evictions): %s" % twice


class PodHistory(Watcher):
    """When each pod could first be scheduled: created without a gate, or its last gate removed."""

    kind = "Pod"

    def __init__(self, api, ns):
        self.freed = {}  # uid -> (resourceVersion, name, Workload)
        super().__init__(api, ns)

    def see(self, kind, pod):
        meta = pod["metadata"]
        if kind == "DELETED" or meta["uid"] in self.freed or pod["spec"].get("schedulingGates") or meta.get("deletionTimestamp"):
            return
        self.freed[meta["uid"]] = (int(meta["resourceVersion"]), meta["name"], meta.get("annotations", {}).get("kueue.x-k8s.io/workload"))

    def check_freed_when_admitted(self, workloads):
        """No pod got loose but under an admission of its Workload. resourceVersions of one etcd tell the order over all kinds."""
        assert self.freed, "no pod was seen"
        for version, name, workload in self.freed.values():
            periods = workloads.admitted.get(workload)
            assert periods, "pod %s runs for Workload %s, which was never admitted" % (name, workload)
            assert any(start < version and (end is None or version <= end) for start, end in periods), (
                "pod %s got loose at %d, its Workload %s was admitted %s" % (name, version, workload, periods))
