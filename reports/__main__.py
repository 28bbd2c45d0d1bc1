"""`python -m reports build|paper|readme|outside|price|compare`: the command line, and what each of them refuses."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from programs.cli import DONE, FAILED, ConfigError, OneLineParser, run
from programs.completion import add_completion
from suites.records.bundle import BundleError

MARK = "summary.json"
PAPER_MARK = "all.tex"
"""What a folder that `build` or `paper` wrote is known by: only such a one may be written over."""


def parser() -> OneLineParser:
    """The command line; `run` of what is parsed is the command's function."""
    top = OneLineParser(prog="tianji-report", description="Draw reports from result bundles.")
    add_completion(top)
    commands = top.add_subparsers(required=True, metavar="build|paper|readme|outside|price|compare")

    def add(run: Callable[[Namespace], int], about: str, *, bundles: bool = True) -> ArgumentParser:
        one: ArgumentParser = commands.add_parser(run.__name__, help=about)
        one.set_defaults(run=run)
        if bundles:
            one.add_argument("bundles", nargs="+", type=Path, metavar="DIR", help="folders that hold bundles")
        return one

    one = add(build, "HTML pages with charts, tables and summaries")
    one.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new folder, or an earlier report's")
    one = add(paper, "figures in the width of a column, with captions, tables and what is drawn in them")
    one.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new folder, or that of earlier figures")
    one = add(readme, "the results in a README, and its pictures")
    one.add_argument("--readme", type=Path, required=True, metavar="FILE", help="the README whose results are replaced")
    one.add_argument("--pictures", type=Path, required=True, metavar="DIR", help="folder of its pictures, below it")
    one.add_argument("--check", action="store_true", help="change nothing; exit status 1 where something is out of date")
    add(outside, "returns beside those that others published for the same settings; exit status 1 if one is different")
    one = add(price, "what staleness costs: the coefficient that `discipline.price` takes, of each workload")
    one.add_argument("--first", type=int, metavar="K", help="the first K blocks of each session alone (default: all)")
    one = add(compare, "is the head worse than the base? exit status 1 if so", bundles=False)
    one.add_argument("base", type=Path, metavar="BASE", help="a folder of bundles; alone: what `tianji-bench against` wrote")
    one.add_argument("head", type=Path, nargs="?", metavar="HEAD", help="another folder of bundles, of the same blocks")
    one.add_argument("--size", type=float, metavar="S", help="the smallest difference that matters, as a share (default: 0.05)")
    one.add_argument("--looks", type=int, metavar="K", help="how often they are compared as they become more (default: 1)")
    for kind in ("json", "junit", "markdown"):
        one.add_argument(f"--{kind}", type=Path, metavar="FILE", help=f"a new file for the outcome as {kind}")
    return top


@contextmanager
def in_one_line(option: str, place: Path) -> Iterator[None]:
    """What the file system refuses meanwhile, as a complaint about an option."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{option} {place}: {error.strerror}") from None


@contextmanager
def whole(options: Namespace, mark: str, what: str) -> Iterator[Path]:
    """A folder to write in, whose files are in `--out` when all of them are written; otherwise nothing is."""
    from suites.records.limits import blamed

    out: Path = options.out
    with in_one_line("--out", out):
        # Refused before any work is done for it: a folder that holds something else, or has no place.
        if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / mark).exists())):
            raise ConfigError(f"--out {out}: exists and is not {what}; name a new folder")
        there = next(place for place in (out, *out.absolute().parents) if place.exists())
        if not os.access(there, os.W_OK | os.X_OK):
            raise ConfigError(f"--out {out}: {there} may not be written")
    new = [place for place in (out, *out.parents) if not place.exists()]
    with in_one_line("--out", out):
        out.mkdir(parents=True, exist_ok=True)
    try:
        with TemporaryDirectory(prefix=".new-", dir=out) as folder:
            with blamed(", ".join(map(str, options.bundles))):
                yield Path(folder)
            for file in (file for file in Path(folder).rglob("*") if file.is_file()):
                place = out / file.relative_to(folder)
                place.parent.mkdir(exist_ok=True)
                file.replace(place)
    except BaseException:
        for place in new:
            # It stays where something was moved to it already.
            with suppress(OSError):
                place.rmdir()
        raise


def build(options: Namespace) -> int:
    """Build a report and print the answer."""
    with whole(options, MARK, "a report") as folder:
        from reports import dataset, page, terminal

        data = dataset.load(options.bundles)
        index = page.build(data, folder)
        lines = terminal.told(data)
    terminal.show([*lines, f"report: {options.out / index.name}"])
    return DONE


def paper(options: Namespace) -> int:
    """Write the figures of a paper."""
    with whole(options, PAPER_MARK, "a folder of plates") as folder:
        from reports import dataset
        from reports import paper as plates

        drawn = list(plates.plates(dataset.load(options.bundles)))
        plates.write(drawn, folder)
    print(f"paper: {len(drawn)} figures in {options.out}")
    return DONE


def readme(options: Namespace) -> int:
    """Write a README's results and its pictures, or say whether they are out of date."""
    page, folder = options.readme, options.pictures
    with in_one_line("--readme", page):
        text = page.read_text(encoding="utf-8")
    try:
        place = folder.resolve().relative_to(page.resolve().parent).as_posix()
    except ValueError:
        raise ConfigError(f"--pictures {folder}: is not below the folder of {page}") from None
    from reports import claims, dataset
    from reports import readme as results
    from suites.records.limits import blamed

    try:
        # Before the work, whether there is a place for it.
        results.replaced(text, "")
    except ValueError as error:
        raise ConfigError(f"{page}: {error}") from None
    with blamed(", ".join(map(str, options.bundles))):
        data = dataset.load(options.bundles)
        new = results.replaced(text, results.block(data, claims.judge(data), place))
    if options.check:
        why = results.stale(data, folder) or (None if new == text else f"{page} says otherwise")
        print("the results are those of the bundles" if why is None else f"out of date: {why}")
        return DONE if why is None else FAILED
    if not results.write_pictures(data, folder):
        raise ConfigError("these bundles compare no two systems")
    page.write_text(new, encoding="utf-8")
    print(f"written: {page} and {folder}")
    return DONE


def outside(options: Namespace) -> int:
    """Show returns beside published ones; exit status 1 if one is different."""
    from reports import dataset, terminal
    from reports import outside as published

    source = published.source()
    lines, left_out = published.lines(dataset.load(options.bundles), source)
    terminal.beside(source, lines, left_out)
    return FAILED if any(line.kind == "different" for line in lines) else DONE


def price(options: Namespace) -> int:
    """Show the price of staleness that runs of the price suite give."""
    from reports import dataset, terminal
    from reports.price import fitted_prices

    if options.first is not None and options.first < 1:
        raise ConfigError(f"--first {options.first}: blocks are counted from 1")
    lines = fitted_prices(dataset.load(options.bundles), options.first)
    if not lines:
        raise ConfigError(f"{', '.join(map(str, options.bundles))}: no runs of the price suite that can be paired")
    terminal.priced(lines)
    return DONE


def compare(options: Namespace) -> int:
    """Say whether the head is worse; exit status 1 if so."""
    from reports import terminal
    from reports.regression import outcome, recorded
    from suites.records.limits import blamed
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
        with blamed(" and ".join(map(str, filter(None, (options.base, options.head))))):
            came = outcome.of(found)
            forms = {kind: form(came) for kind, form in outcome.FORMS.items()}
    except ValueError as error:
        raise ConfigError(str(error)) from error
    for kind, text in forms.items():
        if (file := getattr(options, kind)) is not None:
            file.write_text(text, encoding="utf-8")
    terminal.tell(came)
    return FAILED if came.verdict == "worse" else DONE


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except BundleError as error:
        raise ConfigError(str(error)) from error


def console() -> int:
    """The `tianji-report` command."""
    return run("tianji-report", main)


if __name__ == "__main__":
    sys.exit(console())
