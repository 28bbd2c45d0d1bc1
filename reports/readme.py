"""The README's results: a picture, a table of ratios and the claims, between two marks, made from a dataset.

`nox -s readme` writes them and `docs/report`; with `-- --check` it says whether they are what the bundles say.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from reports import staleness
from reports.claims import Judged
from reports.convergence.tables import times
from reports.dataset import REFERENCE, RELAXED, Dataset
from reports.scaling.lookup import PEER, Scaled, settings
from reports.scaling.text import title
from reports.tables import pipe_table, with_interval
from suites.statistics.crossings import KINDS
from suites.statistics.summary import AGAIN

BEGIN = "<!-- results: made by `nox -s readme` from results/reference; not by hand -->"
END = "<!-- end of results -->"
PICTURE = "ratios.png"
KEPT = ("index.html", "claims.json")
"""Of a report, in `docs/report`."""
SHOWN = 80
"""Characters of a line that is out of date."""


def block(data: Dataset, judged: Sequence[Judged], report: str) -> str:
    """The results as Markdown.

    Parameters
    ----------
    report
        where `docs/report` is, seen from the README.
    """
    parts = [
        f"![How many times as fast TianJi reaches a return as other systems]({report}/{PICTURE})",
        "How many times as fast TianJi reaches a return as another system does: geometric means of ratios within the blocks in "
        "which both got there, with 95 % intervals where these are five or more; n counts all blocks "
        f"({data.machines}). A bound (> or <), which has no interval, stands where one side did not get there in every block "
        "in which the other did; in brackets of how many blocks a figure is, where not of all.",
        "On PPO TianJi is strict or relaxed. Relaxed actors sample on while the learner trains: asynchronous PPO. The systems "
        "that it is held against train synchronously.",
        pipe_table(("Workload", "TianJi", "Against", "Evaluated return", "Training return", "n"), ratios(data)),
    ]
    if gains := relaxed(data):
        parts += [
            "What relaxing buys on PPO: TianJi relaxed against TianJi strict, actor processes alike, within blocks "
            "([docs/balance.md](docs/balance.md)). Steps are environment steps to the return; below 1 relaxed needs fewer. "
            "Workloads whose simulators wait are made to show what waiting costs.",
            pipe_table(("Workload", "Steps/s", "Steps, evaluated", "Steps, training", "Times as fast, evaluated", "n"), gains),
        ]
    nodes = on_nodes(data)
    if nodes:
        parts += [
            "On emulated nodes (unique consumption; [docs/scaling.md](docs/scaling.md)):",
            pipe_table(
                ("Experiment", "Nodes", "Over its own one node", "Of as many copies", "Against the XingTian-style system"),
                nodes,
            ),
        ]
    parts += [
        "What was published, and what these runs say of it ([docs/reports.md](docs/reports.md) has the rule, "
        f"[the report]({report}/index.html) the rest):",
        pipe_table(("Claim", "Claimed", "Verdict", "Measured here"), [claim(one) for one in judged]),
    ]
    return "\n\n".join([BEGIN, *parts, END])


def ratios(data: Dataset) -> list[tuple[str, ...]]:
    """Of times to either threshold, TianJi against every peer: strict, and relaxed where that was measured."""
    lines: list[tuple[str, ...]] = []
    for workload in sorted(data.workloads):
        on_policy = data.workloads[workload]["algo"] == "ppo"
        for ours, discipline in ((REFERENCE, "strict"), (RELAXED, "relaxed")):
            for peer in (label for label in data.systems if label not in (REFERENCE, ours)):
                same = peer == f"{ours}{AGAIN}"
                if peer.endswith(AGAIN) and not same:
                    continue
                rows = [data.find(workload, ours, "time_to_threshold_ratio", kind, peer) for kind in KINDS]
                if all(row is None for row in rows):
                    continue
                counts = sorted({row["n"] + row["censored"] for row in rows if row is not None})
                evaluated, training = (times(data, workload, ours, peer, kind).words for kind in KINDS)
                name = "itself (noise floor)" if same else data.titles[peer]
                which = discipline if on_policy else "-"
                lines.append((workload, which, name, evaluated, training, "/".join(map(str, counts))))
    return lines


def relaxed(data: Dataset) -> list[tuple[str, ...]]:
    """Relaxed TianJi against strict, a line a workload of the staleness suite."""
    lines = []
    for workload in sorted(data.balanced):
        table = staleness.balance(data, workload).set_index("System")
        if (title := data.titles.get(RELAXED)) not in table.index:
            continue
        row = table.loc[title]
        columns = ("Ratio of steps/s", "Ratio of steps, evaluated", "Ratio of steps, training", "Times as fast, evaluated", "n")
        lines.append((workload, *(str(row[column]) for column in columns)))
    return lines


def on_nodes(data: Dataset) -> list[tuple[str, ...]]:
    """TianJi on the largest number of nodes of each experiment."""
    lines = []
    for setting in settings(data):
        scaled = Scaled(data, setting)
        if scaled.most < 2 or REFERENCE not in scaled.systems:
            continue
        told = (
            scaled.speedup(REFERENCE, scaled.most),
            scaled.share(REFERENCE, scaled.most),
            scaled.over("unique_consumption_ratio", PEER, scaled.most),
        )
        if any(told):
            lines.append((title(scaled), str(scaled.most), *(with_interval(row, "x") for row in told)))
    return lines


def claim(one: Judged) -> tuple[str, ...]:
    """A line of the ledger."""
    measured = "; ".join(f"{f.measured} ({f.reading})" for f in one.findings if f.measured != "-")
    return one.says, one.claimed, one.verdict, measured or f"it would take {one.needs}"


def replaced(readme: str, new: str) -> str:
    """A README with other results.

    Raises
    ------
    ValueError
        where the marks are not there, once each and in order.
    """
    before, found, rest = readme.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not found or not ended or BEGIN in rest or END in after:
        raise ValueError(f"the README has no place for results: it needs the lines {BEGIN} and {END}, once each")
    return before + new + after


def keep(built: Path, picture: Path, report: Path) -> None:
    """Copy what `docs/report` has of a report."""
    report.mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        shutil.copyfile(built / name, report / name)
    shutil.copyfile(picture, report / PICTURE)


def stale(built: Path, report: Path) -> str | None:
    """What of `docs/report` is not what the bundles say, in a few words; None: nothing.

    What is written is compared, not what is drawn: another machine's arithmetic places points otherwise.
    """
    for name in (*KEPT, PICTURE):
        if not (report / name).exists():
            return f"{report / name} is missing"
    verdicts = [
        [(c["id"], c["verdict"]) for c in json.loads((folder / "claims.json").read_text(encoding="utf-8"))["claims"]]
        for folder in (report, built)
    ]
    if verdicts[0] != verdicts[1]:
        return f"{report / 'claims.json'} has other verdicts"
    old, new = (_written((folder / "index.html").read_text(encoding="utf-8")) for folder in (report, built))
    for ours, theirs in zip_longest(old, new, fillvalue="nothing"):
        if ours != theirs:
            return f"{report / 'index.html'} has {ours[:SHOWN]!r} where the bundles give {theirs[:SHOWN]!r}"
    return None


def _written(page: str) -> list[str]:
    """Lines of a page without its drawings."""
    return [line.strip() for line in re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL).splitlines()]
