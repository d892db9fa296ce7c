"""Cases against a fake: each starts its own, and says in a line how it went."""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

FAKE = Path(__file__).with_name("fake.py")
TIMEOUT_S = 20
CASES = []


def case(client, name, script=None):
    def register(run):
        CASES.append((client, name, script, run))
        return run

    return register


@contextlib.contextmanager
def fake(script):
    """The address of a fake that plays the lines of a script."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(FAKE)]
        if script:
            path = Path(folder, "script.jsonl")
            path.write_text("\n".join(map(json.dumps, script)), encoding="utf-8")
            command += ["--script", str(path)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            yield process.stdout.readline().removeprefix("READY ").strip()
        finally:
            process.stdin.close()
            assert process.wait(10) == 0, "the fake did not end with its standard input"


def equal(found, wanted):
    assert found == wanted, f"{found!r} instead of {wanted!r}"


def raises(kind, run):
    try:
        run()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def play(versions):
    """Runs every case; the process ends with 1 if one failed."""
    failed, started = 0, time.monotonic()
    for client, name, script, run in CASES:
        try:
            with fake(script) as url:
                run(url)
            print(f"ok      {client}: {name}", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED  {client}: {name}\n{traceback.format_exc(limit=-2)}", flush=True)
    print(f"{len(CASES) - failed} of {len(CASES)} cases in {time.monotonic() - started:.1f} s with {versions}")
    sys.exit(1 if failed else 0)
