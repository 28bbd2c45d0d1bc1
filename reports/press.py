"""Figures into files, as SVG, PDF and PNG: most of a report's time, so that all cores share it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from suites.session import forks

KINDS = ("svg", "pdf", "png")
METADATA = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""Nothing in a file says when it was made: the same data gives the same bytes."""


def write(figures: Mapping[str, Figure], out: Path, kinds: Sequence[str] = KINDS) -> list[Path]:
    """Write each figure in these `KINDS` as `out/NAME.KIND`, in the style that is set, and free it; the files.

    Raises
    ------
    OSError
        when a file cannot be written.
    """
    files = {name: [out / f"{name}.{kind}" for kind in kinds] for name in figures}
    forks.at_once([partial(_save, figure, files[name]) for name, figure in figures.items()])
    for figure in figures.values():
        plt.close(figure)
    return [file for each in files.values() for file in each]


def _save(figure: Figure, files: Sequence[Path]) -> None:
    for file in files:
        figure.savefig(file, metadata=METADATA.get(file.suffix[1:]))
