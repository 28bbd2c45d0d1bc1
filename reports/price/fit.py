"""The price of staleness in one number for each workload: how much more steps a round of age costs at its learning rate."""

from __future__ import annotations

from reports.dataset import Dataset
from reports.price.view import KIND, Priced
from suites.convergence.analysis import Run, understand
from suites.price.analysis import pair_up, price


def lines(data: Dataset, first: int | None = None) -> list[tuple[str, ...]]:
    """Workload, machine, price, interval, blocks, pairs, and pairs of which one run missed the return.

    Parameters
    ----------
    first
        so many blocks of each session alone, from the first one; None: all.
    """
    runs: dict[tuple[str, str], list[Run]] = {}
    unusable = {bundle.path for bundle, _ in data.unusable}
    for view in Priced.all(data):
        used = (b for b in view.bundles if first is None or b.manifest.block < first)
        own = (b for b in used if b.manifest.status == "completed" and b.path not in unusable)
        runs.setdefault((view.workload, view.key.machine), []).extend(map(understand, own))
    found: list[tuple[str, ...]] = []
    for what, every in runs.items():
        pairs, missed = pair_up(every, KIND)
        fitted = price(pairs)
        if fitted.value is None:
            continue
        interval = "-" if fitted.low is None else f"{fitted.low:.3f} to {fitted.high:.3f}"
        found.append((*what, f"{fitted.value:.3f}", interval, str(fitted.n), str(len(pairs)), str(missed)))
    return found
