"""`python -m reports build DIR... --out DIR`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from suites.bundle import BundleError
from suites.cli import DONE, ConfigError, OneLineParser, run

if TYPE_CHECKING:
    import pandas as pd

    from reports import dataset

MARK = "summary.json"
"""What a folder that `build` wrote is known by: only such a one may be written over."""


def parser() -> OneLineParser:
    """The command line."""
    top = OneLineParser(prog="tianji-report", description="Draw reports from result bundles.")
    commands = top.add_subparsers(dest="command", required=True, metavar="build")
    build = commands.add_parser("build", help="figures, tables, one HTML page and summaries")
    build.add_argument("bundles", nargs="+", type=Path, metavar="DIR", help="folders that hold bundles")
    build.add_argument("--out", type=Path, required=True, metavar="DIR")
    return top


def build(roots: list[Path], out: Path) -> int:
    """Build a report and print its headlines."""
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / MARK).exists())):
        raise ConfigError(f"--out {out}: exists and is not a report; name a new folder")
    from reports import dataset, figures, page, staleness, tables
    from reports.scaling import tables as scaling
    from reports.transmission import tables as transmission

    try:
        data = dataset.load(roots)
    except BundleError as error:
        raise ConfigError(str(error)) from error
    out.mkdir(parents=True, exist_ok=True)
    dataset.write(data, out)
    made = tables.all_tables(data) | staleness.tables(data) | transmission.tables(data) | scaling.tables(data)
    tables.write(made, out)
    figures.write(figures.all_figures(data), out)
    index = page.write(data, made, out)
    show(data, made)
    print(f"report: {index}")
    return DONE


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


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    return build(options.bundles, options.out)


def console() -> int:
    """The `tianji-report` command."""
    return run("tianji-report", main)


if __name__ == "__main__":
    sys.exit(console())
