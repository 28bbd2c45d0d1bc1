"""`python -m reports build|paper|readme|compare`: the command line, and what each of them refuses."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from programs.cli import DONE, FAILED, ConfigError, OneLineParser, run
from suites.records.bundle import BundleError

if TYPE_CHECKING:
    from reports.dataset import Dataset

MARK = "summary.json"
PAPER_MARK = "all.tex"
"""What a folder that `build` or `paper` wrote is known by: only such a one may be written over."""


def parser() -> OneLineParser:
    """The command line; `run` of what is parsed is the command's function."""
    top = OneLineParser(prog="tianji-report", description="Draw reports from result bundles.")
    commands = top.add_subparsers(required=True, metavar="build|paper|readme|compare")

    def add(run: Callable[[Namespace], int], about: str, *, bundles: bool = True) -> ArgumentParser:
        one: ArgumentParser = commands.add_parser(run.__name__, help=about)
        one.set_defaults(run=run)
        if bundles:
            one.add_argument("bundles", nargs="+", type=Path, metavar="DIR", help="folders that hold bundles")
        return one

    one = add(build, "figures, tables, one HTML page and summaries")
    one.add_argument("--out", type=Path, required=True, metavar="DIR")
    one.add_argument("--svg", action="store_true", help="figures as SVG alone, which is all that the page needs: faster")
    one = add(paper, "figures in the width of a column, with captions, tables and what is drawn in them")
    one.add_argument("--out", type=Path, required=True, metavar="DIR")
    one = add(readme, "the results in a README, and the report that they are from")
    one.add_argument("--readme", type=Path, required=True, metavar="FILE")
    one.add_argument("--report", type=Path, required=True, metavar="DIR", help="beside it or below")
    one.add_argument("--check", action="store_true", help="change nothing; exit status 1 where something is out of date")
    one = add(compare, "is the head worse than the base? exit status 1 if so", bundles=False)
    one.add_argument("base", type=Path, metavar="BASE", help="a folder of bundles; alone: what `tianji-bench against` wrote")
    one.add_argument("head", type=Path, nargs="?", metavar="HEAD", help="another folder of bundles, of the same blocks")
    one.add_argument("--size", type=float, metavar="S", help="what matters, of bundles: a share (0.05)")
    one.add_argument("--looks", type=int, metavar="K", help="how often they are compared as they become more (1)")
    for kind in ("json", "junit", "markdown"):
        one.add_argument(f"--{kind}", type=Path, metavar="FILE", help="where that goes")
    return top


@contextmanager
def in_one_line(option: str, place: Path) -> Iterator[None]:
    """What the file system refuses meanwhile, as a complaint about an option."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{option} {place}: {error.strerror}") from None


def may_be_written(out: Path, mark: str, what: str) -> None:
    """Refuse a folder that holds something else, or has no place, before any work is done for it."""
    with in_one_line("--out", out):
        if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / mark).exists())):
            raise ConfigError(f"--out {out}: exists and is not {what}; name a new folder")
        there = next(place for place in (out, *out.absolute().parents) if place.exists())
        if not os.access(there, os.W_OK | os.X_OK):
            raise ConfigError(f"--out {out}: {there} may not be written")


def made(out: Path) -> None:
    """Make the folder."""
    with in_one_line("--out", out):
        out.mkdir(parents=True, exist_ok=True)


def loaded(folders: list[Path]) -> Dataset:
    """What these folders hold, or one line that says what is wrong with it."""
    from reports import dataset

    try:
        return dataset.load(folders)
    except BundleError as error:
        raise ConfigError(str(error)) from error


def build(options: Namespace) -> int:
    """Build a report and print the answer."""
    out = options.out
    may_be_written(out, MARK, "a report")
    from reports import figures, terminal
    from reports.build import build as write

    data = loaded(options.bundles)
    made(out)
    report = write(data, out, ["svg"] if options.svg else figures.KINDS)
    terminal.show(data, report.page)
    return DONE


def paper(options: Namespace) -> int:
    """Write the figures of a paper."""
    out = options.out
    may_be_written(out, PAPER_MARK, "a folder of plates")
    from reports import paper as plates

    data = loaded(options.bundles)
    made(out)
    drawn = plates.draw(data)
    plates.write(drawn, out)
    print(f"paper: {len(drawn)} figures in {out}")
    return DONE


def readme(options: Namespace) -> int:
    """Write a README's results and the report beside it, or say whether they are out of date."""
    with in_one_line("--readme", options.readme):
        text = options.readme.read_text(encoding="utf-8")
    try:
        place = options.report.resolve().relative_to(options.readme.resolve().parent).as_posix()
    except ValueError:
        raise ConfigError(f"--report {options.report}: is not below the README's folder") from None
    from reports import paper as plates
    from reports import readme as results
    from reports.build import build as write
    from reports.convergence.figures import RATIOS

    with TemporaryDirectory(prefix="tj") as folder:
        built = Path(folder, "report")
        try:
            # Before the work, whether there is a place for it.
            results.replaced(text, "")
            data = loaded(options.bundles)
            report = write(data, built, ["svg"])
            new = results.replaced(text, results.block(data, report.claims, place))
        except ValueError as error:
            raise ConfigError(str(error)) from error
        if options.check:
            why = results.stale(built, options.report) or (None if new == text else f"{options.readme} says otherwise")
            print("the results are those of the bundles" if why is None else f"out of date: {why}")
            return DONE if why is None else FAILED
        drawn = plates.draw(data, [RATIOS])
        if not drawn:
            raise ConfigError("these bundles compare no two systems")
        plates.write(drawn, built)
        results.keep(built, options.report)
        options.readme.write_text(new, encoding="utf-8")
    print(f"written: {options.readme} and {options.report}")
    return DONE


def compare(options: Namespace) -> int:
    """Say whether the head is worse; exit status 1 if so."""
    from reports import terminal
    from reports.regression import outcome, recorded
    from suites.statistics import comparison
    from suites.statistics.gate import Rule

    for kind in outcome.FORMS:
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
    for kind, form in outcome.FORMS.items():
        if (file := getattr(options, kind)) is not None:
            file.write_text(form(came), encoding="utf-8")
    terminal.tell(came)
    return FAILED if came.verdict == "worse" else DONE


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    return int(options.run(options))


def console() -> int:
    """The `tianji-report` command."""
    return run("tianji-report", main)


if __name__ == "__main__":
    sys.exit(console())
