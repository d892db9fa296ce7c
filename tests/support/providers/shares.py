#!/usr/bin/env python3
"""The share of prompt tokens that a provider's cache serves to a run of rondo, beside that of a perfect cache.

    shares.py RONDO [--workflow WORKFLOW] [--protocol NAME]... [--model PROTOCOL=MODEL]... [-- ARGUMENT...]

For each protocol it starts a fake, runs `RONDO run WORKFLOW --json` against it in an empty folder with its own
settings and store, and prints a line. Arguments behind `--` go to rondo. The perfect share is that of a cache without
floors, marks or look-backs: the longest beginning of each request that an earlier one of the same model, tools and
system text had. Ends with exit code 1 if a run failed, a request was refused, or the cached share is below `--least`
of the perfect one.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

FAKE = Path(__file__).with_name("fake.py")
TIMEOUT_S = 120
# Answers of a few hundred tokens, as models give them.
WORDS = 300

# How each protocol is asked for: variables, where `{}` is the address of the fake, the model, and settings.
OPENAI = {"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": "{}/v1"}
PROTOCOLS = {
    "openai_chat": (OPENAI, "gpt-4.1", []),
    "openai_responses": (OPENAI, "gpt-5.6", ["provider.openai.protocol=openai_responses"]),
    "anthropic": ({"ANTHROPIC_API_KEY": "key", "ANTHROPIC_BASE_URL": "{}"}, "anthropic/claude-opus-5", []),
    "gemini": ({"GEMINI_API_KEY": "key", "GOOGLE_GEMINI_BASE_URL": "{}"}, "gemini/gemini-3-pro", []),
}

# Two roles with system texts above every floor, six visits each, a tool call in every visit of the first.
RULE = (
    "Rule {}: name what was measured, by whom, where and when, in one sentence without an adjective, and say what is"
    " not known."
)
WORKFLOW = """\
rondo: 1
name: shares
description: Two roles go round.

roles:
  writer:
    system: { file: writer.md }
    tools: [read_file]
    history: exact
    output: { written: { title: string } }
  reader:
    system: { file: reader.md }
    format: json
    output: { again: { comment: string, "weight?": string }, enough: {} }

graph:
  start: { to: writer, prompt: Read the file `text` and write about it. }
  writer:
    written: { to: reader, prompt: "Read this.\\n\\n{{ body }}" }
  reader:
    again: { to: writer, max: 5, on_max: { to: end }, prompt: "Once more: {{ output.comment }}" }
    enough: { to: end }

limits: { steps: 40, visits: 20 }
"""


def own_workflow(folder):
    folder.joinpath("workflow.yaml").write_text(WORKFLOW)
    for role in ("writer", "reader"):
        rules = "\n".join(RULE.format(at) for at in range(1, 161))
        folder.joinpath(f"{role}.md").write_text(f"You are the {role}.\n\n{rules}\n")
    return str(folder / "workflow.yaml")


def run(rondo, workflow, protocol, model, arguments):
    """The notes of the fake on each request of a run, and what rondo said if it failed."""
    variables, _, settings = PROTOCOLS[protocol]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        work, home, log = folder / "work", folder / "home", folder / "log"
        for one in (work, home):
            one.mkdir()
        # The fake's own call of a tool asks for a path `text`.
        work.joinpath("text").write_text("The pool is left by the sea for six hours.\n" * 20)
        workflow = str(Path(workflow).resolve()) if workflow and os.path.exists(workflow) else workflow
        command = [rondo, "run", workflow or own_workflow(folder), "--json", "--trust", "--cache", "off"]
        command += [part for setting in settings for part in ("--set", setting)]
        fake = subprocess.Popen(
            [sys.executable, "-B", str(FAKE), "--log", str(log), "--words", str(WORDS), "--each-turn"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            url = fake.stdout.readline().removeprefix("READY ").strip()
            environment = {"PATH": os.environ["PATH"], "HOME": str(home), "RONDO_MODEL": model}
            environment |= {key: value.format(url) for key, value in variables.items()}
            ran = subprocess.run(
                command + arguments,
                cwd=work,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
            )
        finally:
            fake.stdin.close()
            fake.wait(10)
        notes = [json.loads(path.read_text()) for path in sorted(log.glob("*-answer.json"))]
        return notes, (
            f"exit code {ran.returncode}: {(ran.stderr.strip() or ran.stdout.strip())[-1500:]}"
            if ran.returncode
            else None
        )


def main():
    own, behind = sys.argv[1:], []
    if "--" in own:
        own, behind = own[: own.index("--")], own[own.index("--") + 1 :]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rondo")
    parser.add_argument(
        "--workflow", help="a file, a folder or a name; without it, one of two roles, six visits each, with a tool"
    )
    parser.add_argument("--protocol", action="append", choices=PROTOCOLS)
    parser.add_argument("--model", action="append", default=[], metavar="PROTOCOL=MODEL")
    parser.add_argument("--least", type=float, default=0, help="the least part of the perfect share")
    options = parser.parse_args(own)
    models = dict(pair.split("=", 1) for pair in options.model)
    rondo, failed = str(Path(options.rondo).resolve()), False
    head = ("protocol", "model", "requests", "refused", "prompt", "cached", "share", "perfect", "of perfect")
    form = "{:<17} {:<24} {:>8} {:>8} {:>9} {:>9} {:>7} {:>8} {:>11}"
    print(form.format(*head), flush=True)
    for protocol in options.protocol or PROTOCOLS:
        model = models.get(protocol, PROTOCOLS[protocol][1])
        try:
            notes, fault = run(rondo, options.workflow, protocol, model, behind)
        except subprocess.TimeoutExpired:
            notes, fault = [], f"not done within {TIMEOUT_S} s"
        refusals = [note for note in notes if note["status"] != 200]
        read = [note for note in notes if note["status"] == 200 and note["protocol"] == protocol]
        prompt, cached, perfect = (
            sum(note[name] for note in read) for name in ("prompt_tokens", "cached_tokens", "reusable_tokens")
        )
        share, ideal = (value / prompt if prompt else 0 for value in (cached, perfect))
        part = share / ideal if ideal else 0
        row = (protocol, model, len(read), len(refusals), prompt, cached, f"{share:.1%}", f"{ideal:.1%}", f"{part:.1%}")
        print(form.format(*row), flush=True)
        for line in [fault] if fault else []:
            print(f"  {line}")
        for note in refusals[:3]:
            print(f"  refused: {json.dumps(note['refusal'], ensure_ascii=False)[:600]}")
        strangers = {note["protocol"] for note in notes} - {protocol}
        if strangers:
            print(f"  it spoke {', '.join(sorted(strangers))}")
        failed |= bool(fault or refusals or strangers or not read or part < options.least)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
