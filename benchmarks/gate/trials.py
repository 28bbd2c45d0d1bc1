"""How often does the gate call something worse where nothing is, and how often does it find what was planted?

    python -m benchmarks.gate.trials --out DIR [--kinds nothing,sampling,learner,channel,learning] [--each N]
    python -m benchmarks.gate.trials --show DIR|FILE.parquet

A trial is a whole comparison of this revision with itself, or with itself made worse (`planted`), by the rule that
`nox -s regression` goes by. Every round is recorded (`suites.statistics.comparison`), so that
another rule can be tried on them.
"""

from __future__ import annotations

import itertools
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from scipy import stats

from benchmarks.gate.planted import KINDS
from programs.cli import DONE, FAILED, ConfigError, OneLineParser, run
from suites.components.revision import Revision, RevisionFailed
from suites.components.session import Session
from suites.records import machine
from suites.records.bundle import BundleError
from suites.statistics import comparison, gate
from suites.statistics.comparison import Comparison

NOTHING = "nothing"


def trial(kind: str, folder: Path) -> Comparison:
    """One comparison, recorded in a folder that is made."""
    base = Revision("the base", sys.executable, machine.ROOT)
    worker = base.worker if kind == NOTHING else ("-m", "benchmarks.gate.planted", kind)
    head = base._replace(name="the head", worker=worker)
    folder.mkdir(parents=True)
    session = Session(base, head, folder, gate.Rule(), planted=None if kind == NOTHING else kind, say=lambda line: None)
    return session.run()


def recorded(root: Path) -> dict[str, list[Comparison]]:
    """Finished trials by what was planted.

    Raises
    ------
    ConfigError
        where there are none, or one is damaged.
    """
    found: dict[str, list[Comparison]] = {}
    try:
        folders = sorted(root.glob(f"*/{comparison.FILE}"))
        for one in comparison.unseal(root).values() if root.is_file() else map(comparison.read, folders):
            if gate.decide(one.worsenings(), one.better, one.rule)[2]:
                found.setdefault(one.planted or NOTHING, []).append(one)
    except BundleError as error:
        raise ConfigError(str(error)) from error
    if not found:
        raise ConfigError(f"{root}: holds no finished trials")
    return found


def lines(found: dict[str, list[Comparison]]) -> list[str]:
    """What trials of each kind come to."""
    told = []
    for kind, trials in sorted(found.items(), key=lambda item: (not item[0].startswith(NOTHING), item[0])):
        decided = [gate.decide(one.worsenings(), one.better, one.rule) for one in trials]
        worse = sum(any(verdict.kind == "worse" for verdict in verdicts.values()) for verdicts, _, _ in decided)
        open_ones = sum(not gate.final(verdicts) for verdicts, _, _ in decided)
        interval = stats.binomtest(worse, len(trials)).proportion_ci(method="exact")
        rounds = [used for _, used, _ in decided]
        seconds = [sum(one.seconds for one in each.rounds[:used]) for each, used in zip(trials, rounds, strict=True)]
        what = "called worse" if kind.startswith(NOTHING) else "found"
        told.append(
            f"{kind}: {worse} of {len(trials)} {what} ({worse / len(trials):.1%}, "
            f"95 % interval {interval.low:.1%} to {interval.high:.1%}); "
            f"{open_ones} inconclusive; rounds: median {statistics.median(rounds):g}, most {max(rounds)}; "
            f"seconds: median {statistics.median(seconds):.0f}, most {max(seconds):.0f}"
        )
        blamed = Counter(dict.fromkeys(decided[0][0], 0))
        for verdicts, _, _ in decided:
            blamed.update(name for name, verdict in verdicts.items() if verdict.kind == "worse")
        told += [f"    {name}: {count}" for name, count in blamed.items() if count]
    return told


def main(arguments: Sequence[str]) -> int:
    parser = OneLineParser(prog="trials", description="Trials of the regression gate.")
    parser.add_argument("--out", type=Path, metavar="DIR", help="go on with the trials in this folder")
    parser.add_argument("--show", type=Path, metavar="DIR", help="measure nothing: say what the trials in a folder come to")
    parser.add_argument(
        "--kinds", default=",".join((NOTHING, *KINDS)), metavar="A,B,...", help="what is planted (default: %(default)s)"
    )
    parser.add_argument("--each", type=int, default=1, metavar="N", help="trials of each kind in all (default: %(default)s)")
    options = parser.parse_args(arguments)
    if (options.out is None) is (options.show is None):
        raise ConfigError("give one of --out and --show")
    if options.show is None:
        kinds = options.kinds.split(",")
        for kind in kinds:
            if kind not in (NOTHING, *KINDS):
                raise ConfigError(f"unknown kind {kind!r}; known: {', '.join((NOTHING, *KINDS))}")
        for number, kind in itertools.product(range(options.each), kinds):
            folder = options.out / f"{kind}-{number:03d}"
            if folder.exists():
                continue
            try:
                trial(kind, folder)
            except RevisionFailed as error:
                print(f"trials: {error}", file=sys.stderr)
                return FAILED
            print(f"{folder.name}: done", flush=True)
    print("\n".join(lines(recorded(options.show or options.out))))
    return DONE


if __name__ == "__main__":
    sys.exit(run("trials", main))
