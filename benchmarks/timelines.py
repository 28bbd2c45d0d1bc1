"""Draws who waits for whom: `python -m benchmarks.timelines --out docs/images/disciplines.svg`.

The real roles run in the simulated world (`suites.components.unequal`) under each discipline: four actors of unequal speed and
a learner. Every piece of work is a bar, and gaps are waiting. So the picture is the same on every machine.
"""

from __future__ import annotations

import argparse
import io
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from suites.components.unequal import Span, Unequal
from tianji.config import IMPALAConfig, PPOConfig, TrainConfig

FRAGMENTS_S = (0.8, 1.0, 1.2, 2.0)
"""Time of a fragment of each actor."""
ROUND_S = 1.0
"""Time of a round of updates."""
WINDOW_S = (8.0, 20.0)
"""Part of a run that is drawn. Before it, disciplines start up."""
DISCIPLINES: tuple[dict[str, int | str], ...] = (
    {"name": "strict"},
    {"name": "reactor"},
    {"name": "quota-free"},
    {"name": "exactly-one-round"},
    {"name": "stream", "ahead": 0},
    {"name": "stream", "ahead": 1},
    {"name": "admitted-in-order", "eta": 1},
    {"name": "admitted", "eta": 1},
    {"name": "admitted-interruptible", "eta": 1},
    {"name": "relaxed"},
    {"name": "one-sided"},
    {"name": "free"},
    {"name": "periodic", "every_updates": 3},
    {"name": "off"},
)
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7")
"""Of rounds in turn, as Okabe and Ito chose them. A fragment has the colour of the round whose weights it began with."""
STYLE = {"svg.hashsalt": "timelines", "svg.fonttype": "none", "font.size": 8, "axes.titlesize": 9}


def recorded(discipline: dict[str, int | str]) -> Unequal:
    """A run of four actors and a learner under a discipline, to the end of the window."""
    algo = "impala" if discipline["name"] == "stream" else "ppo"
    config = TrainConfig(
        env="CartPole-v1",
        algo=algo,
        actors=len(FRAGMENTS_S),
        envs_per_actor=1,
        chunk_slots=8,
        ppo=PPOConfig(rollout_steps=40, minibatch_size=160, epochs=1),
        impala=IMPALAConfig(rollout_steps=40),
        discipline=discipline,
    )
    run = Unequal(config, lambda number: itertools.repeat(FRAGMENTS_S[number]), ROUND_S)
    run.run(WINDOW_S[1] + max(*FRAGMENTS_S, ROUND_S))
    return run


def title(discipline: dict[str, int | str]) -> str:
    """Its name and options, in a line."""
    return ", ".join([str(discipline["name"]), *(f"{k} = {v}" for k, v in discipline.items() if k != "name")])


def draw(axis: Axes, spans: Sequence[Span], actors: int) -> None:
    """Bars of each role's work; the learner is the lowest row."""
    first, last = WINDOW_S
    versions = sorted({span.version for span in spans})
    for span in spans:
        if span.end <= first or span.start >= last:
            continue
        learner = span.role == "learner"
        row = actors if learner else int(span.role.split()[-1])
        colour = COLOURS[versions.index(span.version) % len(COLOURS)]
        start, end = max(span.start, first), min(span.end, last)
        axis.barh(row, end - start, left=start, height=0.72, color=colour, edgecolor="#111111", linewidth=0.4)
    axis.set_xlim(first, last)
    axis.set_ylim(actors + 0.6, -0.6)
    axis.set_yticks(range(actors + 1), [*(f"actor {n}" for n in range(actors)), "learner"])
    axis.set_xticks([])
    axis.tick_params(length=0)
    for side in ("top", "right", "bottom", "left"):
        axis.spines[side].set_visible(False)


def picture() -> str:
    """All disciplines, as SVG."""
    with plt.rc_context(STYLE):
        rows = -(-len(DISCIPLINES) // 2)
        figure, axes = plt.subplots(rows, 2, figsize=(7.4, 1.25 * rows), layout="constrained")
        for axis, discipline in zip(axes.flat, DISCIPLINES, strict=False):
            draw(axis, recorded(discipline).spans, len(FRAGMENTS_S))
            axis.set_title(title(discipline), loc="left")
        for axis in axes.flat[len(DISCIPLINES) :]:
            axis.remove()
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
        plt.close(figure)
    return text.getvalue()


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.timelines", description="Draw who waits for whom.")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the SVG file to write (required)")
    options = parser.parse_args(arguments)
    options.out.write_text(picture(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
