"""Kills Flowloom, DBOS and LangGraph at the same times while they send five POSTs, and prints what arrived.

    compare.py --python PYTHON [--flowloom FILE] [--folder FOLDER] [--seed N] [--kills N] [PROGRAM ...]
"""

import argparse
import random
import subprocess
import tempfile
import time
from pathlib import Path

from counting import STEPS, Run, format_table
from programs import Flowloom, Peer
from recorder import Recorder

MAX_LEGS = 10  # the last one is not disturbed
MAX_LEG_COMMANDS = 5
MAX_KILL_MS = 220
COMMAND_TIMEOUT_SECONDS = 60
PEERS = {"DBOS": "dbos_flow.py", "LangGraph": "langgraph_flow.py"}


def main():
    options = read_options()
    flowloom = options.flowloom or find_flowloom()
    folder = Path(options.folder or tempfile.mkdtemp(prefix="rivals-"))
    print("%s\n%s" % (flowloom, " ".join(read_pins())), flush=True)
    runs = {}
    for name in options.programs or ["Flowloom", *PEERS]:
        own_folder = folder / name.lower()
        own_folder.mkdir(parents=True)
        recorder = Recorder()
        if name == "Flowloom":
            program = Flowloom(str(flowloom), recorder, own_folder)
        else:
            program = Peer(name, str(options.python), PEERS[name], recorder, own_folder)
        started = time.monotonic()
        runs[name] = collect_runs(program, options.seed, options.kills)
        print("%s: %.0f s" % (name, time.monotonic() - started), flush=True)
    print("seed %d\n\n%s" % (options.seed, format_table(runs)))


def read_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True, type=absolute_path, help="a Python with requirements.txt")
    parser.add_argument("--flowloom", type=absolute_path, help="default: the newest build of this repository")
    parser.add_argument("--folder", help="a new folder for the databases")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="Flowloom, DBOS or LangGraph")
    return parser.parse_args()


def absolute_path(text):
    # Not resolved: the python of a virtual environment is a link.
    return Path(text).absolute()


def find_flowloom():
    """The newest build of the program."""
    target = Path(__file__).resolve().parents[2] / "target"
    builds = [build for build in (target / "release/flowloom", target / "debug/flowloom") if build.is_file()]
    if not builds:
        raise SystemExit("build the program first: make program")
    return max(builds, key=lambda build: build.stat().st_mtime)


def read_pins():
    """The packages that are compared, with their versions."""
    folder = Path(__file__).parent
    names = (folder / "requirements.in").read_text().split()
    pins = (line.split()[0] for line in (folder / "requirements.txt").read_text().splitlines() if "==" in line)
    return [pin for pin in pins if pin.split("==")[0] in names]


def collect_runs(program, seed, kills):
    """Runs until there were as many kills."""
    runs = []
    while sum(run.kills for run in runs) < kills:
        run = Run(name="run-%d" % (len(runs) + 1))
        runs.append(run)
        drive(program, run, seed)
        run.received = {step: program.recorder.received[run.name, step] for step in STEPS}
        if run.kills == 0 and not run.has_ended:
            raise SystemExit("%s does not end undisturbed; see %s" % (program.name, program.folder / "stderr"))
    return runs


def drive(program, run, seed):
    """Starts a run and continues it after each kill, until it ends."""
    for leg in range(MAX_LEGS):
        # The schedule depends on the seed, the run and the leg only, so it is the same for every program.
        delay = random.Random("%d %s %d" % (seed, run.name, leg)).uniform(0, MAX_KILL_MS) / 1000
        is_last = leg == MAX_LEGS - 1
        if not perform_leg(program, run, leg == 0, None if is_last else delay):
            return
        run.kills += 1


def perform_leg(program, run, is_first, delay):
    """Runs commands until one is killed `delay` seconds after the first POST; returns whether one was."""
    known = program.recorder.count(run.name)
    first_post = None
    for number in range(MAX_LEG_COMMANDS):
        command = program.start(run) if is_first and number == 0 else program.resume(run)
        with open(program.folder / "stderr", "ab") as stderr:
            process = subprocess.Popen(command, cwd=program.folder, stdout=subprocess.DEVNULL, stderr=stderr)
        first_post = first_post or wait_for_post(program, run, process, known)
        limit = COMMAND_TIMEOUT_SECONDS
        if first_post and delay is not None:
            limit = max(0, first_post + delay - time.monotonic())
        try:
            exit_code = process.wait(limit)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return first_post is not None and delay is not None
        if program.has_ended(run, exit_code):
            run.has_ended = True
            return False
    return False


def wait_for_post(program, run, process, known):
    """The time of the first POST of a leg; `None` if the command ends, or hangs, without one."""
    deadline = time.monotonic() + COMMAND_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        if program.recorder.wait_for_more(run.name, known, 0.01):
            return time.monotonic()
        if process.poll() is not None:
            return None
    return None


if __name__ == "__main__":
    main()
