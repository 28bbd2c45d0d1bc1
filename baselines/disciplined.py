"""TianJi under each discipline of the field, as systems under test that differ in nothing else.

All of them have the same actors, updaters, channels and numbers of slots. Each is named after its discipline, because what it
measures is who waits for whom.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from baselines.system import Task
from baselines.tianji import SameCode, actors_for
from baselines.workload import Workload
from programs.cli import ConfigError
from tianji.config import TrainConfig

SLOTS = 12
"""Least number of slots of an actor, enough for every discipline on up to 8 actors: one with eta = 8 needs ten."""
BESIDE_A_ROUND = 4
"""Slots of an actor beside a round's chunks, where a round has many: for `free`, whose rounds may be of one actor alone."""

PRICE = 0.055
"""Price of staleness on CartPole with PPO at the Zoo's learning rate, as `tianji-report price results/price` fits it."""


class Disciplined(SameCode):
    """Base: a discipline with its options."""

    discipline: ClassVar[dict[str, Any]]
    """Its name, and the values of its options."""

    def unable(self, workload: Workload) -> str | None:
        try:
            self.config(Task(self.name, workload, 0, (0,))).rule.check()
        except ConfigError as error:
            return str(error)
        return None

    def deviations(self, task: Task) -> list[str]:
        rule = self.config(task).rule
        if task.workload.algo != "ppo" or rule.on_policy:
            return []
        age = "any number of" if rule.bound is None else f"up to {rule.bound}"
        return [f"Samples may be of a policy {age} rounds of updates older than the one they train, and are corrected for."]

    def config(self, task: Task) -> TrainConfig:
        actors = actors_for(task)
        slots = max(SLOTS, actors + BESIDE_A_ROUND)
        return self._config(task, actors=actors, chunk_slots=slots, discipline=self.discipline)


def _under(discipline: str, **options: Any) -> type[Disciplined]:
    """The system of a discipline. Its id has the option's value, if there is one."""
    values = [str(value) for value in options.values()]
    told = [f"{name} = {value}" for name, value in options.items()]
    made: type[Disciplined] = type(
        "Under" + discipline.title().replace("-", "") + "".join(values),
        (Disciplined,),
        {
            "__doc__": f"TianJi under the discipline {discipline!r}.",
            "__module__": __name__,
            "name": "-".join(["tianji", discipline, *values]),
            "title": ", ".join([f"TianJi, {discipline}", *told]),
            "discipline": {"name": discipline, **options},
        },
    )
    return made


ExactlyOneRound = _under("exactly-one-round")
QuotaFree = _under("quota-free")
Reactor = _under("reactor")
Periodic = _under("periodic")
Stream = _under("stream")
Free = _under("free")
Admitted0 = _under("admitted", eta=0)
Admitted1 = _under("admitted", eta=1)
Admitted2 = _under("admitted", eta=2)
Admitted4 = _under("admitted", eta=4)
Admitted8 = _under("admitted", eta=8)
Auto = _under("auto")
InOrder0 = _under("admitted-in-order", eta=0)
InOrder1 = _under("admitted-in-order", eta=1)
InOrder2 = _under("admitted-in-order", eta=2)
InOrder4 = _under("admitted-in-order", eta=4)
Interruptible1 = _under("admitted-interruptible", eta=1)


class AutoPriced(Disciplined):
    """TianJi under `auto`, which also counts what staleness costs on CartPole with PPO at this learning rate."""

    name = "tianji-auto-priced"
    title = "TianJi, auto with a price"
    discipline: ClassVar = {"name": "auto", "price": PRICE}


class Strict(Disciplined):
    """TianJi under `strict`, for algorithms whose default is another discipline."""

    name = "tianji-strict"
    title = "TianJi, strict"
    discipline: ClassVar = {"name": "strict"}

    def unable(self, workload: Workload) -> str | None:
        return "it is strict as it is; ask for tianji" if workload.algo == "ppo" else super().unable(workload)


class Grouped(Disciplined):
    """Relaxed TianJi in two groups, each with a learner and half of the actors.

    The learners are averaged by a Root and do not wait for each other. A round of one has half as many samples, so a learner
    with a stated time for a round takes half of it.
    """

    name = "tianji-grouped"
    title = "TianJi, relaxed, two groups"
    discipline: ClassVar = {"name": "relaxed"}
    GROUPS = 2

    def unable(self, workload: Workload) -> str | None:
        if actors_for(Task(self.name, workload, 0, (0,))) % self.GROUPS:
            return f"{self.GROUPS} groups need a workload that states a number of actors which they can share"
        return super().unable(workload)

    def deviations(self, task: Task) -> list[str]:
        told = (
            f"{self.GROUPS} learners, each with its share of the environments, train on rounds of their own and are averaged "
            f"every {task.workload.fusion_rounds} rounds (local SGD)."
        )
        return [*super().deviations(task), told]

    def config(self, task: Task) -> TrainConfig:
        actors = actors_for(task)
        config = self._config(
            task,
            actors=actors // self.GROUPS,
            groups=self.GROUPS,
            chunk_slots=max(SLOTS, actors + BESIDE_A_ROUND),
            discipline=self.discipline,
        )
        return msgspec.structs.replace(config, update_seconds=task.workload.update_seconds / self.GROUPS)
