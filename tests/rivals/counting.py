"""What the recorded POSTs say about a run, and the table of all runs."""

from collections import Counter
from dataclasses import dataclass, field

STEPS = range(1, 6)


@dataclass
class Run:
    """A run when it has ended, or when it is given up."""

    name: str = ""
    kills: int = 0
    has_ended: bool = False
    received: dict = field(default_factory=dict)  # number of POSTs by step
    decisions: dict = field(default_factory=dict)  # (step, whether to send it again), by uncertain event


def count_duplicates(run):
    """POSTs beyond the first of a step, without those that a decision asked for."""
    resent = Counter(step for step, is_resend in run.decisions.values() if is_resend)
    return sum(max(0, run.received.get(step, 0) - 1 - resent[step]) for step in STEPS)


def count_lost(run):
    """Steps of an ended run whose POST never arrived."""
    return sum(run.received.get(step, 0) == 0 for step in STEPS) if run.has_ended else 0


def sum_up(runs):
    """The figures of a row, by the name of its column."""
    return {
        "kills": sum(run.kills for run in runs),
        "runs": len(runs),
        "duplicates": sum(map(count_duplicates, runs)),
        "lost steps": sum(map(count_lost, runs)),
        "stuck runs": sum(not run.has_ended for run in runs),
        "decisions": sum(len(run.decisions) for run in runs),
    }


def format_cell(name, figures):
    """A figure, with what it is for each 100 kills if it depends on their number."""
    figure, kills = figures[name], figures["kills"]
    if name in ("kills", "runs") or kills == 0 or figure == 0:
        return str(figure)
    return "%d (%.0f)" % (figure, 100 * figure / kills)


def format_table(runs_by_name):
    """A Markdown table with a row for each program."""
    rows = {name: sum_up(runs) for name, runs in runs_by_name.items()}
    columns = list(sum_up([]))
    lines = ["| program | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name, figures in rows.items():
        lines.append("| %s | " % name + " | ".join(format_cell(column, figures) for column in columns) + " |")
    return "\n".join(lines)
