#!/usr/bin/env python3
"""Threads on real Restate servers: the same heads as here, whatever is killed meanwhile, and what it costs.

    trials.py --server RESTATE_SERVER [--short] [--only NAME]... RONDO

Each trial has a cluster of its own on loopback. A line says how it went; figures stand beside those of the local driver
in the same run. Ends with exit code 1 if a trial failed.
"""

import argparse
import concurrent.futures
import json
import random
import re
import statistics
import sys
import tempfile
import threading
import time
import traceback
import urllib.request
from pathlib import Path

import graphs
from cluster import Cluster, Failed, Process, Rondo, free_port, until
from model import Model

ROOT = Path(__file__).resolve().parents[2]
TRIALS = []

# Its tests compile a crate.
LEFT_OUT = ["fix-failing-test"]

LOOP = """\
rondo: 1
name: loop
description: Works, again and again.
input: { key: { type: string } }
models: { default: { model: gpt-4.1-mini } }
roles:
  writer: { system: You work., format: json, history: exact, output: { more: {} } }
graph:
  start: { to: writer, prompt: "work {{ input.key }}" }
  writer:
    more: { to: writer, prompt: "Again: work {{ input.key }}", max: COUNT, on_max: { to: end } }
limits: { steps: 5000, visits: 5000 }
"""

ASK = """\
rondo: 1
name: ask
description: Waits for a person.
roles:
  person: { kind: human, TIMEOUT output: { approved: {}, refused: {} } }
graph:
  start: { to: person, prompt: Well? }
  person: { approved: { to: end }, refused: { to: fail, reason: refused } LATE }
"""


def trial(run):
    TRIALS.append(run)
    return run


class Scene:
    """A cluster, a model server and commands, in a folder of their own."""

    def __init__(self, options, nodes=1, **model):
        self.folder = tempfile.TemporaryDirectory(prefix="rondo-restate-")
        self.model = Model(**model)
        variables = {"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": self.model.url}
        self.rondo = Rondo(options.rondo, self.folder.name, variables)
        self.cluster = Cluster(options.server, Path(self.folder.name) / "nodes", nodes)
        self.port, self.workers, self.count = free_port(), {}, 0

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for worker in self.workers.values():
            worker.kill()
        self.cluster.close()
        self.model.close()
        if kind is not None:
            logs = [*self.rondo.aside.glob("*.log"), *Path(self.folder.name).glob("nodes/*/log")]
            for log in logs:
                tail = log.read_text(errors="replace").splitlines()[-15:]
                print(f"--- {log.name}", *tail, sep="\n", file=sys.stderr)
        self.folder.cleanup()

    def worker(self, name=None, node=0):
        self.count += 1
        name = name or f"w{self.count}"
        self.workers[name] = self.rondo.worker(self.cluster, self.port, name, node)
        self.cluster.knows_workers()
        return name

    def kill(self, name):
        self.workers.pop(name).kill()

    def on(self, node=0):
        return self.cluster.at("--on", node)

    def write(self, name, text):
        (self.rondo.folder / name).write_text(text)
        return name


def equal(found, wanted, what):
    if found != wanted:
        raise Failed(f"{what}: {found!r}, not {wanted!r}")


def finished(lines):
    return next((line for line in lines if line["event"] == "thread_finished" and line["parent"] is None), None)


def both(scene, *words, timeout=120):
    """The last events of the same run here and on the cluster, and the cluster's thread."""
    here = scene.rondo.run("run", *words, "--json", timeout=timeout)
    there = scene.rondo.run("run", *words, "--json", *scene.on(), timeout=timeout)
    equal(there.returncode, here.returncode, f"exit of {words[0]}\n{there.stdout[-1500:]}\n{there.stderr[-1500:]}")
    ends = [finished([json.loads(line) for line in run.stdout.splitlines()]) for run in (here, there)]
    for key in ("head", "outcome", "status", "reason", "result"):
        if ends[0] is not None:
            equal(ends[1][key], ends[0][key], f"{key} of {words[0]}")
    return ends[1]


@trial
def shipped_workflows_have_the_heads_of_local_runs(options):
    with Scene(options) as scene:
        scene.worker()
        count = 0
        for folder in sorted((ROOT / "workflows").iterdir()):
            if not (folder / "script.yaml").exists() or folder.name in LEFT_OUT:
                continue
            given = ["--input-file", folder / "input.json"] if (folder / "input.json").exists() else []
            end = both(scene, folder.name, "--offline", *given)
            if end is None:
                raise Failed(f"{folder.name} did not end")
            thread = end["thread"]
            for verb in ("verify", "prefix", "usage", "messages", "export"):
                scene.rondo.run(verb, thread, *scene.on(), check=0)
            count += 1
        return f"{count} workflows, without {', '.join(LEFT_OUT)}"


@trial
def random_graphs_have_the_heads_of_local_runs(options):
    count = 20 if options.short else 1000
    with Scene(options) as scene:
        scene.worker()

        def run(seed):
            text, script = graphs.workflow(seed)
            name = scene.write(f"graph{seed}.json", text)
            both(scene, name, "--script", scene.write(f"script{seed}.json", script))

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(run, range(options.seed, options.seed + count)))
        return f"{count} graphs from seed {options.seed}"


@trial
def a_worker_is_killed_and_another_one_goes_on(options):
    with Scene(options, delay_s=0.1) as scene:
        name = scene.write("loop.yaml", LOOP.replace("COUNT", "19"))
        first, found = scene.worker(), {}

        def run():
            found["end"] = finished(scene.rondo.lines("run", name, "-i", "key=one", *scene.on(), timeout=120))

        running = threading.Thread(target=run)
        running.start()
        for killed in range(3):
            until("a few steps", lambda killed=killed: scene.model.asked() > 5 * (killed + 1))
            scene.kill(first)
            first = scene.worker()
        running.join()
        equal(scene.model.again(), [], "work that was acknowledged and asked for again")
        asked = scene.model.asked()
        here = finished(scene.rondo.lines("run", name, "-i", "key=one", timeout=60))
        equal(found["end"]["head"], here["head"], "head")
        if asked > 20 + 3:
            raise Failed(f"{asked} calls for 20 steps and 3 kills")
        return f"3 kills, {asked} calls for 20 steps"


@trial
def a_workflow_with_children_goes_on_behind_a_killed_worker(options):
    with Scene(options) as scene:
        given = ["--input-file", ROOT / "workflows" / "research-report" / "input.json"]
        text = (ROOT / "workflows" / "research-report" / "script.yaml").read_text()
        slow = scene.write("slow.yaml", re.sub(r"^( *)- status:", r"\1- delay_ms: 250\n\1  status:", text, flags=re.M))
        worker, found = scene.worker(), {}

        def run():
            words = ["run", "research-report", "--script", slow, *given, *scene.on()]
            found["lines"] = scene.rondo.lines(*words, timeout=120)

        running = threading.Thread(target=run)
        running.start()
        for _ in range(4):
            time.sleep(0.8)
            scene.kill(worker)
            worker = scene.worker()
        running.join()
        here = finished(scene.rondo.lines("run", "research-report", "--offline", *given, timeout=60))
        equal(finished(found["lines"])["head"], here["head"], "head")
        return "4 kills, the head of a local run"


@trial
def a_worker_with_an_empty_disk_and_every_reading_verb(options):
    with Scene(options) as scene:
        name = scene.write("loop.yaml", LOOP.replace("COUNT", "9"))
        first = scene.worker("same")
        end = finished(scene.rondo.lines("run", name, "-i", "key=one", *scene.on()))
        scene.rondo.run("run", scene.write("ask.yaml", ask()), *scene.on(), check=75)
        thread = next(line["thread"] for line in scene.rondo.lines("threads", "--waiting", *scene.on()))
        scene.kill(first)
        scene.rondo.forget("same")
        scene.worker("same")
        answered = scene.rondo.lines("answer", thread, "--status", "approved", *scene.on(), timeout=60)
        equal(finished(answered)["outcome"], "done", "outcome of what waited")
        fork = scene.rondo.lines("fork", end["thread"], "--at", "4", *scene.on(), timeout=60)
        equal(finished(fork)["outcome"], "done", "outcome of the fork")
        equal(len({line["thread"] for line in scene.rondo.lines("threads", *scene.on())}), 3, "threads")
        for words in (["show", "last"], ["messages", "last"], ["prefix", "last"], ["verify", "last"], ["usage"],
                      ["diff", end["thread"], "last"], ["export", end["thread"]]):
            scene.rondo.run(*words, *scene.on(), check=0)
        return "answered and forked after the disk was lost"


def ask(timeout="", late=""):
    late = f", on_timeout: {{ to: end, say: {late} }}" if late else ""
    return ASK.replace("TIMEOUT", f"timeout: {timeout}," if timeout else "").replace("LATE", late)


@trial
def a_form_is_answered_once_and_times_out(options):
    with Scene(options) as scene:
        scene.worker()
        scene.worker()
        scene.write("ask.yaml", ask())
        scene.write("late.yaml", ask("2s", "late"))
        scene.rondo.run("run", "ask.yaml", *scene.on(), check=75)
        (line,) = scene.rondo.lines("threads", "--waiting", *scene.on())
        thread = line["thread"]

        def answer(status):
            return scene.rondo.run("answer", thread, "--status", status, *scene.on())

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            exits = sorted(each.returncode for each in pool.map(answer, ["approved", "refused"]))
        if exits not in ([0, 7], [1, 7]):
            raise Failed(f"two answers at once: exits {exits}")
        scene.rondo.run("run", "late.yaml", *scene.on(), check=75)
        late = scene.rondo.lines("threads", "--waiting", *scene.on())[0]["thread"]

        def is_done():
            lines = scene.rondo.lines("threads", *scene.on())
            return next(line for line in lines if line["thread"] == late)["status"] == "done"

        until("the form's time", is_done, 15, 0.5)
        return "one of two answers, the other exit 7; a timer went off"


@trial
def the_lines_of_a_batch_fan_out_over_the_workers(options):
    count = 40 if options.short else 400
    with Scene(options, delay_s=0.05) as scene:
        names = [scene.worker(), scene.worker(), scene.worker()]
        name = scene.write("loop.yaml", LOOP.replace("COUNT", "4"))
        lines = scene.write("lines.jsonl", "".join(json.dumps({"key": f"l{line}"}) + "\n" for line in range(count)))
        done = scene.rondo.run(
            "run", name, "--input-file", lines, "--concurrency", "32", "--json", *scene.on(), timeout=600, check=0
        )
        results = [json.loads(line) for line in done.stdout.splitlines()]
        results = {line["line"]: line["outcome"] for line in results if line.get("line") and "outcome" in line}
        equal(results, {line: "done" for line in range(1, count + 1)}, "lines")
        equal(scene.model.asked(), count * 5, "calls")
        drove = []
        for one in names:
            stored = scene.rondo.lines("threads", "--store", scene.rondo.aside / f"worker-{one}")
            drove.append(len(stored))
        equal(sum(drove), count, "threads of the workers")
        return f"{count} lines over workers that drove {', '.join(map(str, drove))}"


@trial
def a_thread_is_cancelled_inside_a_call(options):
    with Scene(options, delay_s=60) as scene:
        scene.worker()
        name = scene.write("loop.yaml", LOOP.replace("COUNT", "9"))
        running = threading.Thread(
            target=lambda: scene.rondo.run("run", name, "-i", "key=one", *scene.on(), timeout=60)
        )
        running.start()
        until("the call", lambda: scene.model.asked() == 1)
        thread = scene.rondo.lines("threads", *scene.on())[0]["thread"]
        began = time.monotonic()
        scene.rondo.run("cancel", thread, *scene.on(), check=0)
        took = time.monotonic() - began
        running.join()
        equal(scene.rondo.lines("threads", *scene.on())[0]["status"], "cancelled", "status")
        if took > 3:
            raise Failed(f"it took {took:.1f} s")
        return f"after {took:.1f} s"


@trial
def the_api_begins_and_answers_threads_of_a_cluster(options):
    with Scene(options) as scene:
        scene.worker()
        (scene.rondo.folder / "workflows" / "ask").mkdir(parents=True)
        scene.write("workflows/ask/workflow.yaml", ask())
        token = "t" * 40
        environment = {**scene.rondo.environment, "RONDO_TOKEN": token}
        command = [scene.rondo.binary, "serve", "--port", "0", "--json", *scene.on()]
        log = scene.rondo.aside / "serve.log"
        scene.workers["serve"] = Process(command, log, cwd=scene.rondo.folder, env=environment)
        until("the server", lambda: log.read_text())
        address = json.loads(log.read_text().splitlines()[0])["address"]

        def api(path, body=None):
            headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
            request = urllib.request.Request(f"{address}/api/v1/{path}", body and json.dumps(body).encode(), headers)
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read())

        def stands(thread, status):
            until(f"{status} of {thread}", lambda: api(f"threads/{thread}")["status"] == status, 15)

        run = api("threads", {"workflow": "review-loop", "offline": True})["thread"]
        waiting = api("threads", {"workflow": "ask"})["thread"]
        stands(run, "done")
        stands(waiting, "waiting")
        (form,) = api(f"threads/{waiting}")["forms"]
        api(f"threads/{waiting}/answer", {"form": form["digest"], "status": "approved"})
        stands(waiting, "done")
        other = api("threads", {"workflow": "ask"})["thread"]
        stands(other, "waiting")
        api(f"threads/{other}/cancel", {})
        stands(other, "cancelled")
        return "begun, answered and cancelled"


@trial
def a_long_thread_goes_on_under_other_invocations(options):
    count = 500 if options.short else 2500
    with Scene(options) as scene:
        scene.worker()
        name = scene.write("loop.yaml", LOOP.replace("COUNT", str(count - 1)).replace("history: exact", "history: none"))
        began = time.monotonic()
        end = finished(scene.rondo.lines("run", name, "-i", "key=one", *scene.on(), timeout=900))
        took = time.monotonic() - began
        equal(scene.model.asked(), count, "calls")
        steps = sum(line["event"] == "step" for line in scene.rondo.lines("show", end["thread"], *scene.on(), timeout=120))
        equal(steps, count, "steps")
        return f"{count} steps in {took:.0f} s"


@trial
def a_large_reply_is_cut_into_pieces(options):
    with Scene(options, reply_bytes=12 << 20) as scene:
        scene.worker()
        name = scene.write("once.yaml", LOOP.split("    more:")[0] + "    more: { to: end }\n")
        both(scene, name, "-i", "key=one")
        equal(scene.model.asked(), 2, "calls")
        return "12 MiB"


@trial
def a_cluster_that_is_not_there_or_has_no_majority_is_an_error_soon(options):
    with Scene(options, nodes=1 if options.short else 3) as scene:
        name = scene.write("ask.yaml", ask())
        none = scene.rondo.run("run", name, *scene.on())
        equal((none.returncode, "RN2103" in none.stderr), (9, True), f"without a worker: {none.stderr}")
        scene.worker()
        scene.rondo.run("run", name, *scene.on(), check=75)
        for number in range(1, len(scene.cluster.nodes)):
            scene.cluster.kill(number)
        if options.short:
            scene.cluster.kill(0)
        began = time.monotonic()
        gone = scene.rondo.run("run", name, *scene.on())
        took = time.monotonic() - began
        code = "RN2101" if options.short else "RN2102"
        equal((gone.returncode, code in gone.stderr), (9, True), f"without its nodes: {gone.stderr}")
        wrong = scene.rondo.run("run", name, "--on", "nowhere")
        equal((wrong.returncode, "RN2105" in wrong.stderr), (2, True), "an address that is none")
        return f"said after {took:.1f} s"


@trial
def threads_end_while_nodes_and_workers_are_killed(options):
    threads, kills, nodes = (30, 4, 1) if options.short else (1000, 40, 3)
    with Scene(options, nodes=nodes, delay_s=0.05) as scene:
        chance = random.Random(options.seed)
        names = [scene.worker(), scene.worker()]
        loop = scene.write("loop.yaml", LOOP.replace("COUNT", "9"))
        ends, stop = [], threading.Event()

        def run(number):
            # A command that loses its node looks for the thread at another one.
            lines = []
            for attempt in range(8):
                node = (number + attempt) % nodes
                words = ["run", loop, "-i", f"key=k{number}-{attempt}", "--json", "--store", scene.rondo.aside / f"copy{number}"]
                done = scene.rondo.run(*words, *scene.on(node), timeout=300)
                lines = [json.loads(line) for line in done.stdout.splitlines()]
                if finished(lines) or any(line["event"] == "thread_started" for line in lines):
                    break
                time.sleep(1)
            end = finished(lines)
            started = next((line["thread"] for line in lines if line["event"] == "thread_started"), None)
            if end is None and started is not None:
                for attempt in range(60):
                    words = ["show", started, "--json", "--store", scene.rondo.aside / f"copy{number}"]
                    done = scene.rondo.run(*words, *scene.on(attempt % nodes), timeout=60)
                    if done.returncode == 0:
                        line = json.loads(done.stdout.splitlines()[0])
                        if line["status"] == "done":
                            end = {"head": line["head"], "outcome": "done"}
                            break
                    time.sleep(1)
            ends.append((number, end))

        def destroy():
            for _ in range(kills):
                if stop.wait(chance.uniform(0.5, 2.0) if options.short else chance.uniform(2.0, 4.0)):
                    return
                if nodes > 1 and chance.random() < 0.4:
                    number = chance.randrange(nodes)
                    scene.cluster.kill(number)
                    stop.wait(chance.uniform(0.2, 1.0))
                    scene.cluster.start(number)
                    scene.cluster.wait(number)
                    # A node that has just come back is not the only one that may go.
                    stop.wait(6.0)
                elif nodes == 1 and chance.random() < 0.3:
                    scene.cluster.kill(0)
                    scene.cluster.start(0)
                    scene.cluster.wait(0)
                else:
                    scene.kill(names.pop(chance.randrange(len(names))))
                    names.append(scene.worker())

        destroyer = threading.Thread(target=destroy)
        began = time.monotonic()
        destroyer.start()
        with concurrent.futures.ThreadPoolExecutor(8 if options.short else 24) as pool:
            list(pool.map(run, range(threads)))
        stop.set()
        destroyer.join()
        took = time.monotonic() - began
        lost = [number for number, end in ends if end is None or end["outcome"] != "done"]
        equal(lost, [], "threads that did not end")
        equal(scene.model.again(), [], "calls made again that were acknowledged")
        return f"{threads} threads of 10 steps in {took:.0f} s, {scene.model.asked() - threads * 10} calls in flight lost"


@trial
def a_step_costs_little_more_than_a_journaled_run(options):
    steps, rounds = (60, 3) if options.short else (300, 7)
    with Scene(options) as scene:
        scene.worker()
        text = LOOP.replace("COUNT", str(steps - 1)).replace("history: exact", "history: none")
        name = scene.write("loop.yaml", text)
        script = scene.write("script.json", json.dumps({"writer": [{"status": "more"}] * steps}))
        bare = Bare(scene, options)
        try:
            figures = {"a bare run": [], "a step there": [], "a step here": []}
            for number in range(rounds):
                figures["a bare run"].append(bare.run(f"b{number}", steps))
                for key, where in (("a step there", scene.on()), ("a step here", [])):
                    words = ["run", name, "-i", "key=one", "--script", script, "-q", *where]
                    scene.rondo.run(*words, check=0)
                    line = scene.rondo.lines("show", "last", *where)
                    times = [one["note"]["ended_at_ms"] for one in line if one["event"] == "step"]
                    figures[key].append((times[-1] - times[0]) / (len(times) - 1))
        finally:
            bare.close()
        middle = {key: statistics.median(values) for key, values in figures.items()}
        ratio = middle["a step there"] / middle["a bare run"]
        told = ", ".join(f"{key} {value:.2f} ms" for key, value in middle.items())
        return f"{told}: {ratio:.2f} x a bare run"


class Bare:
    """A service that journals empty runs, for comparison."""

    def __init__(self, scene, options):
        port = free_port()
        self.scene = scene
        self.process = Process([str(options.bare), str(port)], scene.rondo.aside / "bare.log")
        body = json.dumps({"uri": f"http://127.0.0.1:{port}"}).encode()
        until("the bare service", lambda: post(f"{scene.cluster.admin()}/deployments", body))

    def run(self, key, steps):
        """Milliseconds for each run."""
        return float(post(f"{self.scene.cluster.url()}/Bare/{key}/run", json.dumps(steps).encode())) / steps / 1000

    def close(self):
        self.process.kill()


def post(url, body):
    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read()


@trial
def threads_that_wait_cost_a_worker_nothing(options):
    count = 200 if options.short else 10_000
    with Scene(options) as scene:
        name = scene.worker()
        process = scene.workers[name].process
        scene.write("ask.yaml", ask())
        memory, began = [], time.monotonic()

        def run(_):
            copy = scene.rondo.aside / f"copy{threading.get_ident()}"
            scene.rondo.run("run", "ask.yaml", "-q", "--store", copy, *scene.on(), check=75)

        for _ in range(4):
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                list(pool.map(run, range(count // 4)))
            memory.append(resident(process.pid))
        took = time.monotonic() - began
        grown = memory[-1] - memory[0]
        if grown > 64 << 20:
            raise Failed(f"the worker grew by {grown >> 20} MiB")
        told = ", ".join(f"{each >> 20}" for each in memory)
        return f"{count} threads in {took:.0f} s; MiB after each quarter: {told}"


def resident(pid):
    text = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmRSS")).split()[1]) << 10


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path, required=True)
    parser.add_argument("--bare", type=Path, help="the service of engine/restate/examples/bare.rs")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("rondo", type=Path)
    options = parser.parse_args()
    options.rondo = options.rondo.resolve()
    options.bare = options.bare or options.rondo.parent / "examples" / "bare"
    failed, began = 0, time.monotonic()
    chosen = [run for run in TRIALS if not options.only or any(word in run.__name__ for word in options.only)]
    for run in chosen:
        title, since = run.__name__.replace("_", " "), time.monotonic()
        try:
            print(f"ok      {title}: {run(options)} ({time.monotonic() - since:.0f} s)", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED  {title}\n{traceback.format_exc(limit=-3)}", flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} trials in {time.monotonic() - began:.0f} s", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
