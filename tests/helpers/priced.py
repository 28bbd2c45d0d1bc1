"""Made-up bundles of the price suite: runs that reach the return after as many steps as a function says."""

import bundles

from suites.records.events import Episode, Evaluation, FirstStep, Histogram, Snapshot

BUDGET = 10_000


def make(folder, steps, *, lags=(0, 1, 4), rates=(0.001, 0.004), seeds=range(5)):
    """`steps(lag, rate, seed)` is when a run reaches the evaluated return; None: never."""
    for rate in rates:
        for seed in seeds:
            for lag in lags:
                at = steps(lag, rate, seed)
                events = [FirstStep(0), Episode(1, 9.0, 9, 9), Snapshot(2, 0, 0, "f"), Evaluation(3, 0, 0, "curve", [0.0])]
                if at is not None:
                    events += [
                        Snapshot(10, at, 1, "g"),
                        Evaluation(11, at, 1, "curve", [30.0]),
                    ]
                events += [Snapshot(20, BUDGET, 2, "h"), Histogram(21, "learner_age_rounds", {lag: 40})]
                workload = bundles.WORKLOAD | {
                    "budget_steps": BUDGET,
                    "ppo": bundles.WORKLOAD["ppo"] | {"learning_rate": 0.001},
                }
                bundles.make(
                    folder,
                    name=f"cell-{rate}-{seed}-{lag}",
                    events=events,
                    suite="price",
                    profile="standard",
                    system=f"tianji-admitted-in-order-{lag}",
                    system_title=f"TianJi, admitted-in-order, eta = {lag}",
                    seed=seed,
                    block=seed,
                    options={"ppo.learning_rate": rate, "world": "lockstep"},
                    configuration={"workload": workload},
                )
    return folder
