"""`python -m reports build DIR... --out DIR`, `... paper DIR... --out DIR` and `... compare BASE [HEAD]`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from suites.bundle import BundleError
from suites.cli import DONE, FAILED, ConfigError, OneLineParser, run

if TYPE_CHECKING:
    import pandas as pd

    from reports import dataset
    from reports.claims import Judged
    from reports.history import Entry
    from reports.regression.outcome import Outcome

PAPER_MARK = "all.tex"
MARK = "summary.json"
"""What a folder that `build` wrote is known by: only such a one may be written over."""


def parser() -> OneLineParser:
    """The command line."""
    top = OneLineParser(prog="tianji-report", description="Draw reports from result bundles.")
    commands = top.add_subparsers(dest="command", required=True, metavar="build|paper|readme|accept|compare")
    build = commands.add_parser("build", help="figures, tables, one HTML page and summaries")
    build.add_argument("bundles", nargs="+", type=Path, metavar="DIR", help="folders that hold bundles")
    build.add_argument("--out", type=Path, required=True, metavar="DIR")
    build.add_argument("--history", type=Path, metavar="DIR", help="accepted runs, which the page draws too")
    paper = commands.add_parser(
        "paper", help="figures in the width of a column, with captions, tables and what is drawn in them"
    )
    paper.add_argument("bundles", nargs="+", type=Path, metavar="DIR", help="folders that hold bundles")
    paper.add_argument("--out", type=Path, required=True, metavar="DIR")
    readme = commands.add_parser("readme", help="the results in a README, and the report that they are from")
    readme.add_argument("bundles", nargs="+", type=Path, metavar="DIR", help="folders that hold bundles")
    readme.add_argument("--readme", type=Path, required=True, metavar="FILE")
    readme.add_argument("--report", type=Path, required=True, metavar="DIR", help="beside it or below")
    readme.add_argument("--check", action="store_true", help="change nothing; exit status 1 where something is out of date")
    accept = commands.add_parser("accept", help="add a run to a history")
    accept.add_argument("bundles", nargs="+", type=Path, metavar="DIR", help="folders that hold its bundles")
    accept.add_argument("--history", type=Path, required=True, metavar="DIR")
    compare = commands.add_parser("compare", help="is the head worse than the base? exit status 1 if so")
    compare.add_argument(
        "base", type=Path, metavar="BASE", help="a folder of bundles; or, alone, what `tianji-bench against` wrote"
    )
    compare.add_argument("head", type=Path, nargs="?", metavar="HEAD", help="another folder of bundles, of the same blocks")
    compare.add_argument("--size", type=float, metavar="S", help="what matters, of bundles: a share (0.05)")
    compare.add_argument(
        "--looks",
        type=int,
        metavar="K",
        help="how often these are compared while they become more (1): it shares out the error",
    )
    for kind in ("json", "junit", "markdown"):
        compare.add_argument(f"--{kind}", type=Path, metavar="FILE", help="where that goes")
    return top


def build(roots: list[Path], out: Path, history: Path | None = None) -> int:
    """Build a report and print its headlines."""
    if history is not None and not history.is_dir():
        raise ConfigError(f"--history {history}: there is no such folder")
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / MARK).exists())):
        raise ConfigError(f"--out {out}: exists and is not a report; name a new folder")
    from reports import dataset
    from reports.history import read

    try:
        data = dataset.load(roots)
        entries = [] if history is None else read(history)
    except BundleError as error:
        raise ConfigError(str(error)) from error
    made, judged, index = make(data, out, entries)
    show(data, made)
    for claim in judged:
        print(f"claim {claim.id}: {claim.verdict}")
    print(f"report: {index}")
    return DONE


def make(data: dataset.Dataset, out: Path, entries: Sequence[Entry] = ()) -> tuple[dict[str, pd.DataFrame], list[Judged], Path]:
    """Write everything that a report has; its tables, the claims, and the page."""
    from reports import claims, dataset, figures, history, page, staleness, tables
    from reports.scaling import tables as scaling
    from reports.transmission import tables as transmission

    out.mkdir(parents=True, exist_ok=True)
    dataset.write(data, out)
    made = tables.all_tables(data) | staleness.tables(data) | transmission.tables(data) | scaling.tables(data)
    judged = claims.judge(data)
    claims.write(judged, out)
    made |= {page.HISTORY: history.table(entries)} if entries else {}
    tables.write({"claims": claims.table(judged)} | made, out)
    drawn = figures.all_figures(data)
    with figures.style():
        if (grown := history.figure(entries)) is not None:
            drawn[page.HISTORY] = grown
    figures.write(drawn, out)
    return made, judged, page.write(data, made, judged, out, history.finding(entries))


def show(data: dataset.Dataset, made: dict[str, pd.DataFrame]) -> None:
    """Print the headline tables."""
    from rich.console import Console
    from rich.table import Table

    from reports import page, staleness
    from reports.scaling import text as scaling
    from reports.scaling.lookup import Scaled, settings
    from reports.transmission import text as transmission

    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    for name, frame in made.items():
        if not name.endswith(("-threshold", "-ratios", "-ratio", "-balance", "-speedup")):
            continue
        table = Table(title=name, title_justify="left")
        for column in frame.columns:
            table.add_column(column)
        for cells in frame.itertuples(index=False):
            table.add_row(*map(str, cells))
        console.print(table)
    failed = [b.manifest for b in data.bundles if b.manifest.status != "completed"]
    for m in failed:
        console.print(f"failed: {m.workload}, block {m.block}, {m.system}: {(m.error or '').splitlines()[-1]}", markup=False)
    for m, reason in ((b.manifest, reason) for b, reason in data.unusable):
        console.print(f"not counted: {m.workload}, block {m.block}, {m.system}: {reason}", markup=False)
    for workload, description in sorted(data.balanced.items()):
        for line in staleness.findings(data, workload):
            console.print(f"{description['title']}: {line}", markup=False, soft_wrap=True)
    for workload, description in sorted(data.traffic.items()):
        for line in transmission.findings(data, workload):
            console.print(f"{description['title']}: {line}", markup=False, soft_wrap=True)
    for setting in settings(data):
        scaled = Scaled(data, setting)
        for line in scaling.against_others(scaled):
            console.print(f"{scaling.title(scaled)}: {line}", markup=False, soft_wrap=True)
    for line in page.headlines(data):
        console.print(line, markup=False, soft_wrap=True)


def paper(roots: list[Path], out: Path) -> int:
    """Write the figures of a paper."""
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / PAPER_MARK).exists())):
        raise ConfigError(f"--out {out}: exists and holds no figures of ours; name a new folder")
    from reports import dataset
    from reports.paper import plates, systems, training

    try:
        data = dataset.load(roots)
    except BundleError as error:
        raise ConfigError(str(error)) from error
    with plates.style():
        drawn = [*training.plates(data), *systems.plates(data)]
    out.mkdir(parents=True, exist_ok=True)
    plates.write(drawn, out)
    print(f"paper: {len(drawn)} figures in {out}")
    return DONE


def readme(options: Any) -> int:
    """Write a README's results and the report beside it, or say whether they are out of date."""
    try:
        text = options.readme.read_text(encoding="utf-8")
        place = options.report.resolve().relative_to(options.readme.resolve().parent).as_posix()
    except OSError as error:
        raise ConfigError(f"--readme {options.readme}: {error.strerror}") from None
    except ValueError:
        raise ConfigError(f"--report {options.report}: is not below the README's folder") from None
    from reports import claims, dataset
    from reports import readme as results
    from reports.paper import plates, training

    with TemporaryDirectory(prefix="tj") as folder:
        built = Path(folder, "report")
        try:
            # Before the work, whether there is a place for it.
            results.replaced(text, "")
            data = dataset.load(options.bundles)
            make(data, built)
            new = results.replaced(text, results.block(data, claims.judge(data), place))
        except (BundleError, ValueError) as error:
            raise ConfigError(str(error)) from error
        if options.check:
            why = results.stale(built, options.report) or (None if new == text else f"{options.readme} says otherwise")
            print("the results are those of the bundles" if why is None else f"out of date: {why}")
            return DONE if why is None else FAILED
        with plates.style():
            rows = training.forest_rows(data)
            if rows.empty:
                raise ConfigError("these bundles compare no two systems")
            plates.write([training.forest(data, rows)], built)
        results.keep(built, built / results.PICTURE, options.report)
        options.readme.write_text(new, encoding="utf-8")
    print(f"written: {options.readme} and {options.report}")
    return DONE


def accept(options: Any) -> int:
    """Add a run to a history."""
    from reports import dataset, history

    try:
        entry = history.accept(dataset.load(options.bundles), options.history)
    except BundleError as error:
        raise ConfigError(str(error)) from error
    print(f"accepted: {len(entry.values)} values of {(entry.commit or 'an unknown commit')[:12]}, in {options.history}")
    return DONE


def compare(options: Any) -> int:
    """Say whether the head is worse; exit status 1 if so."""
    import msgspec

    from reports.regression import outcome, recorded
    from suites import comparison
    from suites.gate import Rule

    for kind in ("json", "junit", "markdown"):
        file: Path | None = getattr(options, kind)
        if file is not None and (file.exists() or not file.parent.is_dir()):
            raise ConfigError(f"--{kind} {file}: {'exists; name a new file' if file.exists() else 'its folder does not exist'}")
    if options.head is None and (options.size is not None or options.looks is not None):
        raise ConfigError("--size and --looks are for folders of bundles; a comparison says by itself by what it is judged")
    if options.looks is not None and options.looks < 1:
        raise ConfigError(f"--looks {options.looks}: at least 1 is needed")
    try:
        if options.head is None:
            found = comparison.read(options.base)
        else:
            size = Rule.size if options.size is None else options.size
            found = recorded.compare(options.base, options.head, Rule(size, Rule.error / (options.looks or 1)))
        came = outcome.of(found)
    except (BundleError, ValueError) as error:
        raise ConfigError(str(error)) from error
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(came), indent=1) + b"\n")
    if options.junit is not None:
        options.junit.write_text(outcome.junit(came), encoding="utf-8")
    if options.markdown is not None:
        options.markdown.write_text(outcome.markdown(came), encoding="utf-8")
    tell(came)
    return FAILED if came.verdict == "worse" else DONE


def tell(came: Outcome) -> None:
    """Print an outcome."""
    from rich.console import Console
    from rich.table import Table

    from reports.regression import outcome

    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    table = Table(title=came.headline, title_justify="left")
    for head in outcome.HEADS:
        table.add_column(head)
    for line in came.lines:
        table.add_row(*outcome.cells(line), style="bold red" if line.verdict == "worse" else None)
    console.print(table)
    for text in came.failed:
        console.print(f"failed: {text}", markup=False, soft_wrap=True)
    for name, reason in came.left_out.items():
        console.print(f"not compared: {name}: {reason}", markup=False, soft_wrap=True)
    console.print(outcome.explained(came), markup=False, soft_wrap=True)


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    if options.command == "compare":
        return compare(options)
    if options.command == "readme":
        return readme(options)
    if options.command == "accept":
        return accept(options)
    if options.command == "paper":
        return paper(options.bundles, options.out)
    return build(options.bundles, options.out, options.history)


def console() -> int:
    """The `tianji-report` command."""
    return run("tianji-report", main)


if __name__ == "__main__":
    sys.exit(console())
