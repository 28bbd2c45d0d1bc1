"""`tianji-bench predict`: the command line, and what it refuses."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from programs.cli import DONE, ConfigError
from suites.asynchrony import sweep

if TYPE_CHECKING:
    from argparse import _SubParsersAction

ABOUT = "predict what a profile of the suite asynchrony will give, before it is measured"

MOST_PRICE = 10


def add(commands: _SubParsersAction[Any]) -> None:
    """Add the command to those of `tianji-bench`."""
    one = commands.add_parser("predict", help=ABOUT, description=f"{ABOUT[0].upper()}{ABOUT[1:]}.")
    one.set_defaults(run=run)
    one.add_argument("suite", metavar="SUITE", help=f"{sweep.NAME}, the suite that has predictions")
    one.add_argument("--profile", default="smoke", metavar="NAME", help="the profile to be run (default: %(default)s)")
    one.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="S",
        help="seed of the simulated runs, not one to be measured (default: %(default)s)",
    )
    one.add_argument(
        "--price", type=float, metavar="P", help="price of staleness, as `tianji-report price` fits it: predicts returns too"
    )
    one.add_argument("--out", type=Path, required=True, metavar="FILE", help="a new file, which ends in .json")


def run(options: Namespace) -> int:
    """Write predictions of every cell and system."""
    if options.suite != sweep.NAME:
        raise ConfigError(f"suite {options.suite!r} has no predictions; {sweep.NAME} has")
    if options.profile not in sweep.PROFILES:
        raise ConfigError(f"unknown profile {options.profile!r}; known: {', '.join(sweep.PROFILES)}")
    if options.seed < 0:
        raise ConfigError(f"--seed {options.seed}: seeds count from 0")
    if options.price is not None and not 0 <= options.price <= MOST_PRICE:
        raise ConfigError(f"--price {options.price:g}: must be a number from 0 to {MOST_PRICE}")
    if options.out.suffix != ".json" or options.out.exists():
        raise ConfigError(f"--out {options.out}: name a new file that ends in .json")
    # What it needs takes a while to import, and lines on wrong input need not wait for it.
    from suites.asynchrony.predict import predict

    found = predict(options.profile, options.seed, options.price)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    print(f"{len(found.forecasts)} predictions in {options.out}, SHA-256 {found.digest}")
    return DONE
