"""A proxy that ends TLS between a client and the API server and makes trouble by a seeded plan. Standard library only.

    proxy = FaultProxy(cluster, Plan(seed=7))     a harness.Cluster
    proxy.muster_kubeconfig                       the cluster's, led through the proxy
    proxy.storm()                                 from now on
    proxy.calm()                                  no more trouble, and what is held back goes on

Before a request is carried out: answers 409, 429 with Retry-After, 500, 503 (with and without Retry-After), a reset connection, a pause, silence
without end. After it was carried out: the answer is lost, or cut in its middle. Watches: refused with 410, 429, 500, 503; cut in the middle of an
object, between two objects, or ended in order in the middle of one; an ERROR event (410 or 500); a pause.
"""

import asyncio
import collections
import json
import os
import random
import re
import socket
import ssl
import struct
import threading
import time
import urllib.parse


def status_body(code, reason, message, retry_after=None):
    out = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason, "code": code}
    if retry_after is not None:
        out["details"] = {"retryAfterSeconds": retry_after}
    return out


ANSWERS = {
    "409": (409, "Conflict", "the object has been modified; please apply your changes to the latest version and try again", None),
    "410": (410, "Expired", "too old resource version", None),
    "429": (429, "TooManyRequests", "the server has received too many requests", 1),
    "422": (422, "Invalid", "sendInitialEvents: Forbidden: is forbidden for watch unless the WatchList feature gate is enabled", None),
    "500": (500, "InternalError", "Internal error occurred: etcdserver: request timed out", None),
    "503": (503, "ServiceUnavailable", "apiserver is shutting down", None),
    "503-later": (503, "ServiceUnavailable", "apiserver is shutting down", 1),
}
BEFORE_WRITE = ["409", "429", "500", "503", "503-later", "reset", "pause"]
BEFORE_READ = ["429", "500", "503", "503-later", "reset", "pause"]
AFTER = ["lost", "torn"]
WATCH_START = ["410", "429", "500", "503", "reset", "lost"]
# Much goes through these watches, so that a cut in the middle of an object finds one.
BUSY = ("workloads", "jobs", "pods", "clusterqueues", "localqueues")
WATCH_END = ["cut-inside", "cut-between", "end-inside", "event-410", "event-500", "pause"]


class Plan:
    """What happens to which request. The draws come from the seed in the order of the requests."""

    def __init__(self, seed, request_rate=0.3, watch_rate=0.9):
        self.rng = random.Random(seed)
        self.request_rate, self.watch_rate = request_rate, watch_rate
        self.stormy = False
        self.silences = 2  # requests that are never answered: each costs the client its whole patience
        self.done = collections.Counter()

    def of_request(self, method, path):
        """The fault of one request, or None."""
        if not self.stormy or self.rng.random() >= self.request_rate:
            return None
        if self.silences and self.rng.random() < 0.02:
            self.silences -= 1
            return "silence"
        before = BEFORE_READ if method == "GET" else BEFORE_WRITE
        return self.rng.choice(before + AFTER + AFTER)

    def of_watch(self, path, query):
        """(fault at the start or None, fault later or None, seconds until then)"""
        if not self.stormy:
            return None, None, 0
        if self.rng.random() < 0.2:
            return self.rng.choice(WATCH_START), None, 0
        if self.rng.random() >= self.watch_rate:
            return None, None, 0
        if path.rsplit("/", 1)[1] in BUSY:
            return None, self.rng.choice(WATCH_END + ["cut-inside", "cut-inside", "end-inside"]), self.rng.uniform(0.1, 3)
        return None, self.rng.choice(WATCH_END), self.rng.uniform(0.1, 6)


class OldServer(Plan):
    """No storm: a server that knows no streaming lists, and the answers that are lost are those in `losses`, (method, pattern of the path)."""

    def __init__(self, losses):
        super().__init__(0)
        self.losses = list(losses)

    def of_request(self, method, path):
        for loss in self.losses:
            if method == loss[0] and re.search(loss[1], path):
                self.losses.remove(loss)
                return "lost"
        return None

    def of_watch(self, path, query):
        return "422" if "sendInitialEvents" in query else None, None, 0


class Reset(Exception):
    """The client's connection is to be reset."""


class Head:
    def __init__(self, raw):
        lines = raw.decode("latin-1").split("\r\n")
        self.first = lines[0]
        self.headers = [tuple(part.strip() for part in line.split(":", 1)) for line in lines[1:] if ":" in line]

    def get(self, name, default=""):
        return next((v for k, v in self.headers if k.lower() == name), default)

    def bytes(self, drop=(), add=()):
        kept = [(k, v) for k, v in self.headers if k.lower() not in drop]
        return (self.first + "\r\n" + "".join("%s: %s\r\n" % h for h in [*kept, *add]) + "\r\n").encode("latin-1")


async def chunks_of(reader):
    """The data of a chunked body, piece by piece; returns after the last."""
    while True:
        size = int((await reader.readline()).split(b";")[0], 16)
        data = await reader.readexactly(size) if size else b""
        await reader.readline()
        if not size:
            return
        yield data


class Upstream:
    """One kept connection to the API server, opened again when it has been idle for long."""

    def __init__(self, proxy):
        self.proxy, self.reader, self.writer, self.used = proxy, None, None, 0.0

    async def open(self):
        if self.writer is None or time.monotonic() - self.used > 20 or self.reader.at_eof():
            self.close()
            self.reader, self.writer = await asyncio.open_connection(
                self.proxy.host, self.proxy.upstream_port, ssl=self.proxy.client_tls, limit=1 << 20)
        self.used = time.monotonic()

    def close(self):
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None


class FaultProxy:
    def __init__(self, cluster, plan):
        at = lambda name: os.path.join(cluster.dir, name)
        with open(at("server")) as file:
            server = file.read().strip()
        url = urllib.parse.urlparse(server)
        self.host, self.upstream_port = url.hostname, url.port
        self.plan = plan
        self.streams = []
        self.requests = collections.Counter()  # by method, watches as WATCH
        self.client_tls = ssl.create_default_context(cafile=at("ca.crt"))
        self.server_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server_tls.load_cert_chain(at("apiserver.crt"), at("apiserver.key"))
        self.loop = asyncio.new_event_loop()
        # The clients hang up whenever they like; that is no news.
        self.loop.set_exception_handler(lambda *_: None)
        ready = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self.thread.start()
        if not ready.wait(10):
            raise RuntimeError("the proxy did not start")
        with open(cluster.muster_kubeconfig) as file:
            text = file.read()
        self.muster_kubeconfig = at("kubeconfig-proxy-%d" % self.port)
        with open(self.muster_kubeconfig, "w") as file:
            file.write(text.replace(server, "https://127.0.0.1:%d" % self.port))

    def _run(self, ready):
        asyncio.set_event_loop(self.loop)
        self.calm_now = asyncio.Event()

        async def begin():
            self.server = await asyncio.start_server(self._client, "127.0.0.1", 0, ssl=self.server_tls, limit=1 << 20)
            self.port = self.server.sockets[0].getsockname()[1]
            ready.set()
        self.loop.create_task(begin())
        self.loop.run_forever()

    def storm(self):
        self.loop.call_soon_threadsafe(self.calm_now.clear)
        self.plan.stormy = True

    def calm(self):
        self.plan.stormy = False
        self.loop.call_soon_threadsafe(self.calm_now.set)

    def freeze(self):
        """Watches that are open now stay so, and nothing comes through them any more: no data, no end."""
        for stream in self.streams:
            stream["frozen"] = True

    def close(self):
        async def end():
            self.server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            [task.cancel() for task in others]
            await asyncio.gather(*others, return_exceptions=True)
            self.loop.stop()
        self.loop.call_soon_threadsafe(lambda: self.loop.create_task(end()))
        self.thread.join(5)

    def writes(self):
        return sum(count for method, count in self.requests.items() if method not in ("GET", "WATCH"))

    async def _pause(self, seconds):
        """Waits, but not beyond the end of the storm."""
        try:
            await asyncio.wait_for(self.calm_now.wait(), seconds)
        except asyncio.TimeoutError:
            pass

    async def _client(self, reader, writer):
        upstream = Upstream(self)
        try:
            while True:
                head = Head(await reader.readuntil(b"\r\n\r\n"))
                body = await reader.readexactly(int(head.get("content-length", "0")))
                await self._exchange(head, body, reader, writer, upstream)
        except Reset:
            # Closing with a linger time of zero sends RST in place of FIN.
            raw = writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        except (OSError, EOFError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            upstream.close()
            writer.close()

    async def _answer(self, name, writer):
        code, reason, message, retry_after = ANSWERS[name]
        body = json.dumps(status_body(code, reason, message, retry_after)).encode()
        later = "Retry-After: %d\r\n" % retry_after if retry_after is not None else ""
        head = "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n" % (code, reason, later, len(body))
        writer.write(head.encode() + body)
        await writer.drain()

    async def _exchange(self, head, body, reader, writer, upstream):
        method, target = head.first.split(" ")[:2]
        url = urllib.parse.urlparse(target)
        query = urllib.parse.parse_qs(url.query)
        watch = method == "GET" and query.get("watch", [""])[0] in ("1", "true")
        self.requests["WATCH" if watch else method] += 1
        if watch:
            fault, later, after = self.plan.of_watch(url.path, query)
        else:
            fault, later, after = self.plan.of_request(method, url.path), None, 0
        if fault is not None:
            self.plan.done[("watch " if watch else "") + fault] += 1
        if fault in ANSWERS:
            await self._answer(fault, writer)
            return
        if fault == "reset":
            raise Reset()
        if fault == "pause":
            await self._pause(self.plan.rng.uniform(0.5, 5))
        elif fault == "silence":
            # Never carried out and never answered; the client hangs up when its patience ends.
            waits = [asyncio.ensure_future(reader.read(1)), asyncio.ensure_future(self.calm_now.wait())]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            [task.cancel() for task in waits]
            raise Reset()

        await upstream.open()
        upstream.writer.write(head.bytes() + body)
        await upstream.writer.drain()
        answer = Head(await upstream.reader.readuntil(b"\r\n\r\n"))
        if fault == "lost":
            # It has been carried out, and nobody will know.
            if not watch:
                await self._body(answer, upstream)
            raise Reset()
        if watch and answer.first.split(" ")[1] == "200":
            await self._stream(answer, reader, writer, upstream, later, after)
            return
        data = await self._body(answer, upstream)
        out = answer.bytes(drop=("transfer-encoding", "content-length"), add=[("Content-Length", str(len(data)))]) + data
        if fault == "torn":
            writer.write(out[:max(1, len(out) - len(data) // 2 - 1)])
            await writer.drain()
            raise Reset()
        writer.write(out)
        await writer.drain()

    @staticmethod
    async def _body(answer, upstream):
        if answer.get("transfer-encoding").lower() == "chunked":
            return b"".join([piece async for piece in chunks_of(upstream.reader)])
        return await upstream.reader.readexactly(int(answer.get("content-length", "0")))

    async def _stream(self, answer, reader, writer, upstream, fault, after):
        writer.write(answer.bytes())
        await writer.drain()
        due = time.monotonic() + after if fault else None
        whole = True  # the last byte sent ended an object

        def send(data):
            writer.write(b"%x\r\n" % len(data) + data + b"\r\n")

        pieces = chunks_of(upstream.reader).__aiter__()
        hung_up = asyncio.ensure_future(reader.read(1))
        pending = None
        stream = {"frozen": False}
        self.streams.append(stream)
        try:
            while True:
                if pending is None:
                    pending = asyncio.ensure_future(pieces.__anext__())
                timeout = None
                if due is not None:
                    # A fault that wants an object in its hands waits for one, but not for ever.
                    timeout = max(0.0, due + (4 if fault in ("cut-inside", "end-inside") else 0) - time.monotonic())
                await asyncio.wait({pending, hung_up}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                if hung_up.done():
                    raise Reset()
                piece = b""
                if pending.done():
                    try:
                        piece = pending.result()
                    except StopAsyncIteration:
                        if stream["frozen"]:
                            await hung_up
                            raise Reset()
                        # Hung up on after that: what waits for the client's end may have read into its next request.
                        writer.write(b"0\r\n\r\n")
                        await writer.drain()
                        raise EOFError
                    pending = None
                if stream["frozen"]:
                    continue
                if due is not None and not self.plan.stormy:
                    due = None
                if due is None or time.monotonic() < due:
                    if piece:
                        send(piece)
                        whole = piece.endswith(b"\n")
                        await writer.drain()
                    continue
                if fault == "pause":
                    self.plan.done["watch pause"] += 1
                    await self._pause(self.plan.rng.uniform(1, 8))
                    due = None
                    if piece:
                        send(piece)
                        whole = piece.endswith(b"\n")
                    continue
                if fault in ("cut-inside", "end-inside"):
                    self.plan.done["watch " + (fault if piece else "cut-idle")] += 1
                    if piece:
                        send(piece[:max(1, len(piece) // 2)])
                        await writer.drain()
                    if fault == "end-inside" and piece:
                        writer.write(b"0\r\n\r\n")
                        await writer.drain()
                        writer.close()
                        raise EOFError
                    raise Reset()
                # The others come between two objects.
                if piece:
                    send(piece)
                    whole = piece.endswith(b"\n")
                    await writer.drain()
                if not whole:
                    continue
                self.plan.done["watch " + fault] += 1
                if fault.startswith("event-"):
                    code, reason, message, _ = ANSWERS[fault[6:]]
                    send(json.dumps({"type": "ERROR", "object": status_body(code, reason, message)}).encode() + b"\n")
                    writer.write(b"0\r\n\r\n")
                    await writer.drain()
                    writer.close()
                    raise EOFError
                raise Reset()
        finally:
            self.streams.remove(stream)
            upstream.close()
            for task in (pending, hung_up):
                if task is not None:
                    task.cancel()
