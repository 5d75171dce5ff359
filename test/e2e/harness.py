"""A real control plane, a real `muster serve`, and plain functions to talk to both. Standard library only."""

import base64
import collections
import http.client
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MUSTER = os.environ.get("MUSTER_BINARY", os.path.join(ROOT, "build/release/bin/muster"))
BIN = os.path.join(os.environ.get("MUSTER_CACHE", os.path.expanduser("~/.cache/muster")), "bin")

PATHS = {
    "Namespace": ("/api/v1", "namespaces", False),
    "Node": ("/api/v1", "nodes", False),
    "Pod": ("/api/v1", "pods", True),
    "ConfigMap": ("/api/v1", "configmaps", True),
    "Event": ("/apis/events.k8s.io/v1", "events", True),
    "Job": ("/apis/batch/v1", "jobs", True),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases", True),
    "PriorityClass": ("/apis/scheduling.k8s.io/v1", "priorityclasses", False),
    "PodGroup": ("/apis/scheduling.k8s.io/v1beta1", "podgroups", True),
    "NativeWorkload": ("/apis/scheduling.k8s.io/v1beta1", "workloads", True),
    "DeviceClass": ("/apis/resource.k8s.io/v1", "deviceclasses", False),
    "ResourceSlice": ("/apis/resource.k8s.io/v1", "resourceslices", False),
    "ResourceClaim": ("/apis/resource.k8s.io/v1", "resourceclaims", True),
    "ResourceClaimTemplate": ("/apis/resource.k8s.io/v1", "resourceclaimtemplates", True),
    "CustomResourceDefinition": ("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", False),
}
for _kind, _plural, _namespaced in (
    ("ClusterQueue", "clusterqueues", False), ("LocalQueue", "localqueues", True), ("Cohort", "cohorts", False),
    ("ResourceFlavor", "resourceflavors", False), ("Workload", "workloads", True), ("Topology", "topologies", False),
    ("AdmissionCheck", "admissionchecks", False), ("WorkloadPriorityClass", "workloadpriorityclasses", False),
):
    PATHS[_kind] = ("/apis/kueue.x-k8s.io/v1beta2", _plural, _namespaced)


class ApiError(Exception):
    def __init__(self, status, body):
        super().__init__("%d: %s" % (status, body.get("message") if isinstance(body, dict) else body))
        self.status = status
        self.body = body


class Api:
    """One kubeconfig. Every call opens its own connection: simple, and never stale after the server was restarted."""

    def __init__(self, kubeconfig):
        self.kubeconfig = kubeconfig
        raw = subprocess.run([os.path.join(BIN, "kubectl"), "--kubeconfig", kubeconfig, "config", "view", "--raw", "-o", "json"],
                             check=True, capture_output=True, text=True).stdout
        config = json.loads(raw)
        cluster = config["clusters"][0]["cluster"]
        user = config["users"][0]["user"]
        url = urllib.parse.urlparse(cluster["server"])
        self.host, self.port = url.hostname, url.port
        self.headers = {"Accept": "application/json"}
        self.context = ssl.create_default_context()
        self.context.check_hostname = False
        self.context.verify_mode = ssl.CERT_NONE
        if "token" in user:
            self.headers["Authorization"] = "Bearer " + user["token"]
        if "client-certificate-data" in user or "client-certificate" in user:
            cert = self._file(user, "client-certificate")
            key = self._file(user, "client-key")
            self.context.load_cert_chain(cert, key)

    @staticmethod
    def _file(user, name):
        if name in user:
            return user[name]
        handle, path = tempfile.mkstemp()
        os.write(handle, base64.b64decode(user[name + "-data"]))
        os.close(handle)
        return path

    def request(self, method, path, body=None, content_type="application/json", timeout=30):
        connection = http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=self.context)
        headers = dict(self.headers)
        data = None
        if body is not None:
            data = json.dumps(body)
            headers["Content-Type"] = content_type
        try:
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            text = response.read().decode("utf-8", "replace")
        finally:
            connection.close()
        try:
            parsed = json.loads(text)
        except ValueError:
            parsed = text
        if response.status >= 300:
            raise ApiError(response.status, parsed)
        return parsed

    @staticmethod
    def path(kind, ns=None, name=None, sub=None):
        prefix, plural, namespaced = PATHS[kind]
        path = prefix
        if namespaced and ns:
            path += "/namespaces/" + ns
        path += "/" + plural
        if name:
            path += "/" + name
        if sub:
            path += "/" + sub
        return path

    def create(self, obj, kind=None):
        kind = kind or obj["kind"]
        ns = obj["metadata"].get("namespace")
        return self.request("POST", self.path(kind, ns), obj)

    def get(self, kind, name, ns=None):
        return self.request("GET", self.path(kind, ns, name))

    def list(self, kind, ns=None, selector=None):
        path = self.path(kind, ns)
        if selector:
            path += "?labelSelector=" + urllib.parse.quote(selector)
        return self.request("GET", path)["items"]

    def patch(self, kind, name, body, ns=None, sub=None):
        return self.request("PATCH", self.path(kind, ns, name, sub), body, "application/merge-patch+json")

    def delete(self, kind, name, ns=None, policy="Background"):
        return self.request("DELETE", self.path(kind, ns, name) + "?propagationPolicy=" + policy)

    def delete_all(self, kind, ns=None):
        # One request for all of them: with thousands it takes the API server its time.
        return self.request("DELETE", self.path(kind, ns) + "?propagationPolicy=Background", timeout=300)


def wait(what, fn, timeout=60, every=0.1):
    """Polls until fn() is truthy. A failure says what was awaited and what was seen last."""
    end = time.monotonic() + timeout
    last = None
    while True:
        try:
            last = fn()
            if last:
                return last
        except (ApiError, OSError, http.client.HTTPException) as error:
            last = error
        if time.monotonic() > end:
            raise AssertionError("waited %ds for: %s; last seen: %s" % (timeout, what, last))
        time.sleep(every)


def stays(what, fn, seconds=3, every=0.2):
    """fn() must stay truthy for a while: for what must not happen."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert fn(), "did not stay so: " + what
        time.sleep(every)


class Cluster:
    def __init__(self, *flags):
        self.dir = tempfile.mkdtemp(prefix="muster-e2e-")
        out = subprocess.run([os.path.join(ROOT, "test/cluster/up"), "--dir", self.dir, *flags], capture_output=True, text=True)
        if out.returncode != 0:
            raise RuntimeError("the control plane did not start:\n" + out.stdout + out.stderr)
        self.kubeconfig = out.stdout.strip().splitlines()[-1]
        self.muster_kubeconfig = self.kubeconfig
        self.api = Api(self.kubeconfig)

    def kubectl(self, *args, stdin=None, check=True):
        return subprocess.run([os.path.join(BIN, "kubectl"), "--kubeconfig", self.kubeconfig, *args], input=stdin, check=check,
                              capture_output=True, text=True)

    def install(self):
        crds = os.path.join(ROOT, "api/crds")
        policies = os.path.join(ROOT, "charts/muster/policies")
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", crds)
        self.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", policies)
        try:
            self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "muster-system"}})
        except ApiError as error:
            if error.status != 409:
                raise
        # The policies work once the server has noticed them: a probe tells.
        self.api.create(namespace("policy-probe"))

        def suspended():
            probe = job("policy-probe", "probe-%d" % time.monotonic_ns(), "q", 1, {"cpu": "1"})
            return self.api.create(probe)["spec"].get("suspend")

        wait("the admission policies to work", suspended, 60)
        self.api.delete("Namespace", "policy-probe")

    def muster(self, *args, kubeconfig=None):
        """Another command of the binary: exit code, standard output, standard error."""
        out = subprocess.run([MUSTER, *args, "--kubeconfig", kubeconfig or self.kubeconfig], capture_output=True, text=True, timeout=120)
        return out.returncode, out.stdout, out.stderr

    def use_chart_account(self):
        """From now on `muster serve` runs as the chart's service account, with the chart's roles and no others."""
        helm = [os.path.join(BIN, "helm"), "template", "muster", os.path.join(ROOT, "charts/muster"), "--namespace", "muster-system"]
        rendered = subprocess.run(helm, check=True, capture_output=True, text=True).stdout
        wanted = r"(?m)^kind: (ServiceAccount|ClusterRole|ClusterRoleBinding|Role|RoleBinding)$"
        self.kubectl("apply", "-f", "-", stdin="\n---\n".join(d for d in rendered.split("\n---\n") if re.search(wanted, d)))
        token = self.api.request("POST", "/api/v1/namespaces/muster-system/serviceaccounts/muster/token",
                                 {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})["status"]["token"]
        with open(self.kubeconfig) as file:
            text = file.read()
        self.muster_kubeconfig = os.path.join(self.dir, "kubeconfig-muster")
        with open(self.muster_kubeconfig, "w") as file:
            file.write(re.sub(r"(?m)^(\s*token:).*$", lambda m: m.group(1) + " " + token, text))

    def audited(self):
        """What the controller asked for: (API group, resource or resource/subresource, verb) -> how often; and what it was not allowed to do."""
        used, forbidden = collections.Counter(), []
        with open(os.path.join(self.dir, "audit.jsonl")) as log:
            for line in log:
                event = json.loads(line)
                ref = event.get("objectRef")
                if not ref or "resource" not in ref:
                    continue  # discovery and the like: every authenticated account may
                resource = ref["resource"] + ("/" + ref["subresource"] if ref.get("subresource") else "")
                used[(ref.get("apiGroup", ""), resource, event["verb"])] += 1
                status = event.get("responseStatus", {})
                # Nothing can be created in a namespace that is being deleted: no matter of roles. What is checked on the way has other codes.
                text = status.get("message", "")
                if status.get("code") == 403 and "because it is being terminated" not in text or "is forbidden: User" in text:
                    forbidden.append("%s %s: %s" % (event["verb"], event["requestURI"], status.get("message")))
        return used, forbidden

    def down(self):
        """Ends the control plane. Logs, of the controllers too, are kept where a test has failed, and named."""
        subprocess.run([os.path.join(ROOT, "test/cluster/down"), "--dir", self.dir], capture_output=True)
        if failures:
            print("    logs: " + self.dir)
        else:
            shutil.rmtree(self.dir, ignore_errors=True)


failures = []  # names of tests


class Muster:
    """A `muster serve` process."""

    running = []

    @classmethod
    def kill_all(cls):
        for process in cls.running:
            if process.poll() is None:
                process.kill()
                process.wait()
        cls.running.clear()

    def __init__(self, cluster, *flags, config=None, leader_elect=False):
        self.cluster = cluster
        self.log = tempfile.NamedTemporaryFile(prefix="muster-", suffix=".jsonl", dir=os.path.dirname(cluster.muster_kubeconfig), delete=False)
        self.flags = list(flags)
        if config is not None:
            handle, path = tempfile.mkstemp(suffix=".json", dir=os.path.dirname(cluster.muster_kubeconfig))
            os.write(handle, json.dumps(config).encode())
            os.close(handle)
            self.flags += ["--config", path]
        self.leader_elect = leader_elect
        self.process = None
        self.start()

    def start(self):
        self.health_port, self.metrics_port = free_port(), free_port()
        self.process = subprocess.Popen(
            [MUSTER, "serve", "--kubeconfig", self.cluster.muster_kubeconfig, "--metrics-bind-address", "127.0.0.1:%d" % self.metrics_port,
             "--health-probe-bind-address", "127.0.0.1:%d" % self.health_port,
             "--leader-elect=" + ("true" if self.leader_elect else "false"), *self.flags],
            stdout=self.log, stderr=self.log)
        Muster.running.append(self.process)

    def http(self, port, path):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def wait_ready(self, timeout=30):
        wait("/readyz", lambda: self.http(self.health_port, "/readyz")[0] == 200, timeout)
        return self

    def metrics(self):
        return self.http(self.metrics_port, "/metrics")[1]

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self, timeout=5):
        self.process.send_signal(signal.SIGTERM)
        started = time.monotonic()
        code = self.process.wait(timeout + 10)
        return code, time.monotonic() - started

    def alive(self):
        return self.process.poll() is None

    def cpu_seconds(self):
        with open("/proc/%d/stat" % self.process.pid) as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_mb(self):
        with open("/proc/%d/status" % self.process.pid) as status:
            return next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmRSS:"))

    def tail(self, lines=15):
        with open(self.log.name) as log:
            return "".join(log.readlines()[-lines:])


def writes_so_far(api):
    """Writes that the API server has carried out for anybody, by verb and resource; leases and its own housekeeping left out."""
    writes = collections.Counter()
    for line in api.request("GET", "/metrics").splitlines():
        if not line.startswith("apiserver_request_total{"):
            continue
        of = dict(re.findall(r'(\w+)="([^"]*)"', line))
        if of["verb"] in ("POST", "PUT", "PATCH", "APPLY", "DELETE") and of["resource"] not in ("leases", "tokenreviews", "subjectaccessreviews"):
            writes["%s %s/%s/%s" % (of["verb"], of["group"], of["resource"], of["subresource"])] += int(float(line.rsplit(" ", 1)[1]))
    return writes


def free_port():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


# --- objects ---

def namespace(name):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def node(name, cpu="32", memory="128Gi", gpus=0, labels=None, pods="110"):
    allocatable = {"cpu": cpu, "memory": memory, "pods": pods}
    if gpus:
        allocatable["nvidia.com/gpu"] = str(gpus)
    return {"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}, "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "status": {"allocatable": allocatable, "capacity": dict(allocatable),
                       "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastHeartbeatTime": now(), "lastTransitionTime": now()}]}}


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def flavor(name, labels=None, capacity=None):
    out = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": {}}
    if labels:
        out["spec"]["nodeLabels"] = labels
    if capacity:
        out["metadata"]["annotations"] = {"muster.dev/capacity": capacity}
    return out


def cluster_queue(name, quotas, cohort=None, strategy=None, flavor_name="default", **extra):
    """quotas: resource -> nominal, or a dict with nominalQuota, borrowingLimit, lendingLimit."""
    resources = []
    for resource, quota in quotas.items():
        entry = {"name": resource}
        entry.update(quota if isinstance(quota, dict) else {"nominalQuota": quota})
        resources.append(entry)
    spec = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": list(quotas), "flavors": [{"name": flavor_name, "resources": resources}]}]}
    if cohort:
        spec["cohortName"] = cohort
    if strategy:
        spec["queueingStrategy"] = strategy
    spec.update(extra)
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


def local_queue(ns, name, cq):
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"namespace": ns, "name": name}, "spec": {"clusterQueue": cq}}


def pod_spec(requests, claims=None):
    container = {"name": "main", "image": "registry.invalid/train:1", "resources": {"requests": dict(requests), "limits": {k: v for k, v in requests.items() if "/" in k}}}
    spec = {"restartPolicy": "Never", "containers": [container]}
    if claims:
        spec["resourceClaims"] = [{"name": name, "resourceClaimTemplateName": template} for name, template in claims.items()]
        container["resources"]["claims"] = [{"name": name} for name in claims]
    return spec


def job(ns, name, queue, parallelism, requests, claims=None, completions=None, labels=None, annotations=None, pod_annotations=None):
    meta = {"namespace": ns, "name": name, "labels": dict(labels or {})}
    if queue:
        meta["labels"]["kueue.x-k8s.io/queue-name"] = queue
    if annotations:
        meta["annotations"] = annotations
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta,
            "spec": {"parallelism": parallelism, "completions": parallelism if completions is None else completions, "backoffLimit": 0,
                     "template": {"metadata": {"annotations": pod_annotations or {}}, "spec": pod_spec(requests, claims)}}}


def condition(obj, kind):
    for entry in obj.get("status", {}).get("conditions", []):
        if entry["type"] == kind:
            return entry
    return None


def is_true(obj, kind):
    entry = condition(obj, kind)
    return bool(entry) and entry["status"] == "True"


def run(tests, state):
    """Runs test functions in order; prints GoogleTest-like lines and the closing count. Returns the exit code."""
    wanted = sys.argv[1:]
    passed, failed = 0, 0
    for test in tests:
        if wanted and test.__name__ not in wanted:
            continue
        started = time.monotonic()
        print("[ RUN      ] %s: %s" % (test.__name__, (test.__doc__ or "").strip().split("\n")[0]), flush=True)
        try:
            test(state)
        except Exception as error:  # one failing test must not hide the others
            failed += 1
            failures.append(test.__name__)
            print("[  FAILED  ] %s: %s: %s" % (test.__name__, type(error).__name__, error), flush=True)
            if os.environ.get("MUSTER_E2E_TRACE"):
                import traceback
                traceback.print_exc()
            state.on_failure(test.__name__)
        else:
            passed += 1
            print("[       OK ] %s (%.1f s)" % (test.__name__, time.monotonic() - started), flush=True)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0
