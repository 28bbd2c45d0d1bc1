"""Off: no balance and no bound, for the ablation. Production and consumption follow from speeds alone."""

from __future__ import annotations

from typing import ClassVar

from tianji.disciplines.balance import Mode
from tianji.disciplines.discipline import Discipline
from tianji.disciplines.laws import Law, each_chunk_once


class Off(Discipline):
    """No rule: roles wait only for free memory or for something to work on."""

    name = "off"
    waits: ClassVar = {
        "an actor": "a free slot",
        "the learner": "the chunks of a round; with a replay nothing, once training has begun",
        "groups": "nobody",
    }
    laws: ClassVar[tuple[Law, ...]] = (each_chunk_once,)
    mode: ClassVar[Mode] = "off"
