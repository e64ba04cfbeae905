"""The programs under test: the commands that start a run, and those that continue one after a kill."""

import json
import subprocess
from pathlib import Path

HERE = Path(__file__).parent


class Peer:
    """A Python program in which one process starts or continues a run."""

    def __init__(self, name, python, script, recorder, folder):
        self.name, self.recorder, self.folder = name, recorder, folder
        self.command = [python, str(HERE / script), recorder.address]

    def start(self, run):
        return [*self.command, run.name, "start"]

    def resume(self, run):
        return [*self.command, run.name, "resume"]

    def has_ended(self, run, exit_code):
        return exit_code == 0


class Flowloom:
    """The program of this repository. The harness decides about an uncertain step: it can ask the recorder."""

    def __init__(self, program, recorder, folder):
        self.name, self.program, self.recorder, self.folder = "Flowloom", program, recorder, folder
        self.common = ["--data-dir", str(folder / "data")]
        definition = (HERE / "five.json").read_text().replace("@RECORDER@", recorder.address)
        (folder / "five.json").write_text(definition)
        (folder / "flowloom.toml").write_text('[egress]\nallow = ["%s"]\n' % recorder.address)

    def start(self, run):
        return [self.program, "run", "five.json", "-i", "run=" + run.name, *self.common]

    def resume(self, run):
        """`resume`, or the decision about the step at which the last `resume` stopped."""
        state = self.show_last()
        if state["status"] != "uncertain":
            return [self.program, "resume", state["run_id"], *self.common]
        event = next(event for event in reversed(state["events"]) if event["event"] == "step_uncertain")
        started = next(other for other in state["events"] if is_start_of(event, other))
        return [self.program, "resolve", state["run_id"], event["path"], *self.decide(run, event["seq"], started), *self.common]

    def decide(self, run, seq, started):
        step = int(started["data"]["target"].rsplit("/", 1)[1])
        has_arrived = self.recorder.has_received(run.name, step)
        run.decisions[seq] = (step, not has_arrived)
        return ["--value", '{"step": %d}' % step] if has_arrived else ["--resend"]

    def has_ended(self, run, exit_code):
        return self.show_last()["status"] == "succeeded"

    def show_last(self):
        shown = subprocess.run([self.program, "show", "last", "--json", *self.common], cwd=self.folder,
                               capture_output=True, check=True)
        return json.loads(shown.stdout)


def is_start_of(event, other):
    return other["event"] == "step_started" and (other["path"], other["attempt"]) == (event["path"], event["attempt"])
