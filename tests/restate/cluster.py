"""Restate servers, workers of rondo and commands, on loopback and bounded."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

START_S = 30


class Failed(AssertionError):
    pass


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(url, timeout=3):
    with urllib.request.urlopen(url, timeout=timeout) as answer:
        return answer.read()


def until(what, ready, seconds=START_S, pause=0.1):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            found = ready()
            if found:
                return found
        except (OSError, urllib.error.URLError):
            pass
        time.sleep(pause)
    raise Failed(f"{what}: not within {seconds} s")


class Process:
    """A process that ends with this one."""

    def __init__(self, command, log, **options):
        self.log = log
        with open(log, "ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True, **options)

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)

    def end(self, seconds=15):
        self.process.terminate()
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def is_running(self):
        return self.process.poll() is None


class Cluster:
    """Nodes of Restate, each with ports and a folder of its own."""

    def __init__(self, server, folder, nodes=1):
        self.server, self.folder = server, Path(folder)
        self.ports = [{kind: free_port() for kind in ("ingress", "admin", "fabric")} for _ in range(nodes)]
        self.nodes = [None] * nodes
        for number in range(nodes):
            self.start(number)
        for number in range(nodes):
            self.wait(number)

    def url(self, number=0):
        return f"http://127.0.0.1:{self.ports[number]['ingress']}"

    def admin(self, number=0):
        return f"http://127.0.0.1:{self.ports[number]['admin']}"

    def at(self, option, first=0):
        """The options that name all nodes, from one on."""
        numbers = [(first + turn) % len(self.nodes) for turn in range(len(self.nodes))]
        return [option, ",".join(map(self.url, numbers)), "--admin", ",".join(map(self.admin, numbers))]

    def start(self, number):
        ports, several = self.ports[number], len(self.nodes) > 1
        folder = self.folder / f"node{number}"
        folder.mkdir(parents=True, exist_ok=True)
        addresses = [f"http://127.0.0.1:{each['fabric']}" for each in self.ports]
        config = f"""\
node-name = "n{number + 1}"
cluster-name = "trials"
roles = ["worker", "admin", "metadata-server", "log-server", "http-ingress"]
base-dir = "{folder}"
bind-address = "127.0.0.1:{ports["fabric"]}"
advertised-address = "http://127.0.0.1:{ports["fabric"]}"
listen-mode = "tcp"
default-num-partitions = 4
auto-provision = {"true" if number == 0 else "false"}
default-replication = {2 if several else 1}
rocksdb-total-memory-size = "256MiB"
[metadata-client]
type = "replicated"
addresses = {json.dumps(addresses)}
[bifrost]
default-provider = "replicated"
[ingress]
bind-address = "127.0.0.1:{ports["ingress"]}"
[admin]
bind-address = "127.0.0.1:{ports["admin"]}"
disable-web-ui = true
"""
        path = folder / "restate.toml"
        path.write_text(config)
        environment = {**os.environ, "RESTATE_DISABLE_TELEMETRY": "true"}
        command = [str(self.server), "--no-logo", "--config-file", str(path)]
        self.nodes[number] = Process(command, folder / "log", env=environment)

    def wait(self, number):
        port = self.ports[number]
        until(f"node {number + 1}", lambda: get(f"http://127.0.0.1:{port['ingress']}/restate/health"))
        until(f"admin of node {number + 1}", lambda: get(f"http://127.0.0.1:{port['admin']}/health") is not None)

    def knows_workers(self):
        for number in range(len(self.nodes)):
            url = f"{self.url(number)}/restate/health"
            until(f"node {number + 1} knows workers", lambda url=url: b"RondoThread" in get(url))

    def kill(self, number):
        self.nodes[number].kill()

    def close(self):
        for node in self.nodes:
            node.kill()


class Rondo:
    """Commands of rondo with a home and settings of their own."""

    def __init__(self, binary, folder, variables=None):
        self.binary, self.folder = str(binary), Path(folder) / "work"
        self.home, self.aside = Path(folder) / "home", Path(folder) / "aside"
        for each in (self.folder, self.home, self.aside):
            each.mkdir(parents=True, exist_ok=True)
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.environment = {**kept, "HOME": str(self.home), **(variables or {})}

    def run(self, *words, timeout=60, check=None, cwd=None, **options):
        done = subprocess.run(
            [self.binary, *map(str, words)], capture_output=True, text=True, timeout=timeout,
            cwd=cwd or self.folder, env=self.environment, stdin=subprocess.DEVNULL, **options,
        )
        if check is not None and done.returncode != check:
            raise Failed(f"rondo {' '.join(map(str, words))}: exit {done.returncode}, not {check}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return done

    def lines(self, *words, check=0, **options):
        done = self.run(*words, "--json", check=check, **options)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def worker(self, cluster, port, name, node=0, *words):
        store = self.aside / f"worker-{name}"
        command = [
            self.binary, "worker", *cluster.at("--restate", node),
            "--listen", f"127.0.0.1:{port}", "--trust", "--store", str(store), *words,
        ]
        log = self.aside / f"worker-{name}.log"
        before = log.read_bytes().count(b"driving threads") if log.exists() else 0
        process = Process(command, log, cwd=self.folder, env=self.environment)
        until(f"worker {name}", lambda: log.read_bytes().count(b"driving threads") > before or not process.is_running())
        if not process.is_running():
            raise Failed(f"worker {name} ended: {log.read_text()[-2000:]}")
        return process

    def forget(self, name):
        shutil.rmtree(self.aside / f"worker-{name}", ignore_errors=True)
