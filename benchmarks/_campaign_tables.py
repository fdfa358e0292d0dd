"""What a campaign found, as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from hardmax.testing import UNTOUCHED, Trial, zoo

VERDICTS = ("PROVED", "REFUTED", "UNDECIDED", "CRASHED")


def untouched_table(trials: list[Trial]) -> Table | None:
    """Verdicts of the zoo as it is, by kind of specimen: only PROVED will do."""
    own = [trial for trial in trials if trial.kind == UNTOUCHED]
    return _verdicts("untouched", own, lambda trial: zoo()[trial.specimen].kind, "unproved")


def mutants_table(trials: list[Trial]) -> Table | None:
    """Verdicts by kind of mutation; the last column must be 0 throughout."""
    own = [trial for trial in trials if trial.kind != UNTOUCHED]
    return _verdicts("mutation", own, lambda trial: trial.kind, "false PROVED")


def faults_table(faults: list[Trial], most: int = 40) -> Table | None:
    if not faults:
        return None
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold red")
    for name in ("specimen", "mutation", "seed", "fault"):
        table.add_column(name, overflow="fold")
    for trial in faults[:most]:
        what = f"{trial.kind}: {trial.label}".strip(": ")
        table.add_row(
            escape(trial.specimen), escape(what), str(trial.seed), escape(trial.fault or "")
        )
    return table


def _verdicts(
    title: str, trials: list[Trial], group: Callable[[Trial], str], wrong: str
) -> Table | None:
    if not trials:
        return None
    names = (title, "checked", "broken", "belied", *map(str.lower, VERDICTS), "seconds", wrong)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(name, justify="left" if name == title else "right", no_wrap=True)
    groups = list(dict.fromkeys(map(group, trials)))
    for name in sorted(groups):
        table.add_row(name, *_row([t for t in trials if group(t) == name]))
    table.add_section()
    table.add_row("all", *_row(trials))
    return table


def _row(trials: Iterable[Trial]) -> list[str]:
    own = list(trials)
    verdicts = Counter(trial.verdict for trial in own)
    wrong = sum(_is_wrong(trial) for trial in own)
    return [
        f"{len(own):,}",
        f"{sum(trial.broken for trial in own):,}",
        f"{sum(trial.belied for trial in own):,}",
        *(f"{verdicts[name]:,}" for name in VERDICTS),
        f"{sum(trial.seconds for trial in own):.0f}",
        f"[bold red]{wrong}[/]" if wrong else "0",
    ]


def _is_wrong(trial: Trial) -> bool:
    if trial.kind == UNTOUCHED:
        return trial.verdict != "PROVED"
    return trial.verdict == "PROVED" and trial.fault is not None
