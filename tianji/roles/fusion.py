"""A group's exchange of models with the Root: when it pushes its own, and what it makes of the means that come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tianji.averaging import Stamp
from tianji.roles.role import Effect, PushModel

ROOT = "root"
"""The port on which models go to the Root, and means come from there."""


@dataclass(frozen=True)
class Membership:
    """A learner's place among groups that a Root averages.

    Parameters
    ----------
    group, groups
        its number, and how many there are.
    every_rounds
        rounds of updates between two pushes; off policy at least so many, for a push waits until the mean that answers the one
        before has been adopted.
    waits
        True waits for the mean before it publishes weights (on-policy); False trains on and adopts the mean when it comes.
    """

    group: int
    groups: int
    every_rounds: int
    waits: bool


class Fusion:
    """State of one learner's exchange; nothing ever happens where there is no Root.

    Parameters
    ----------
    membership
        None: there is no Root.
    """

    def __init__(self, membership: Membership | None) -> None:
        self._membership = membership
        self.adopted = 0
        """Means, those that changed nothing too."""
        self.steps_elsewhere = 0
        """Environment steps of the other groups, as far as they are known."""
        self.mean_is_here = False
        """A mean lies in the inbox, to be adopted."""
        self.awaits_mean = False
        """Nothing may go on before the mean of all groups has been adopted."""
        self._pushed = Stamp()
        self._samples = self._rounds = 0
        """Since the last push."""
        self._owed = False
        """Whether no mean has come yet that has our latest push in it."""

    @property
    def shares_budget(self) -> bool:
        """Whether the budget of steps is that of all groups: they do not wait for each other."""
        return self._membership is not None and not self._membership.waits

    def round_ended(self, samples: int) -> None:
        """A round trained on so many samples."""
        self._rounds += 1
        self._samples += samples

    def push(self, steps: int) -> list[Effect]:
        """Have the model averaged if that is due: not before the last push was answered, or answers would always come too late.

        Parameters
        ----------
        steps
            environment steps of this group.
        """
        m = self._membership
        if m is None or self._owed or self._rounds < m.every_rounds:
            return []
        self._pushed = Stamp(self._pushed.number + 1, self._samples, steps)
        self._samples = self._rounds = 0
        self._owed, self.awaits_mean, self.mean_is_here = True, m.waits, False
        stamps = [self._pushed if g == m.group else Stamp() for g in range(m.groups)]
        return [PushModel(self._pushed.number, stamps, [ROOT])]

    def arrived(self, stamps: Sequence[Stamp]) -> bool:
        """A mean has come; whether it is our own model alone.

        The mean of one model is that model: there is nothing to adopt then, and no other policy than before.
        """
        assert self._membership is not None
        group = self._membership.group
        others = [stamp for g, stamp in enumerate(stamps) if g != group]
        self.steps_elsewhere = max(self.steps_elsewhere, sum(stamp.steps for stamp in others))
        if stamps[group].number != self._pushed.number:
            # It lacks our latest push, and would take back what we learned before that: the next one will have it.
            return False
        alone = not any(stamp.number for stamp in others)
        self.mean_is_here = not alone
        return alone

    def adopt(self) -> None:
        """What lies in the inbox is being adopted."""
        self.mean_is_here = self.awaits_mean = False

    def answered(self) -> None:
        """The mean that has our latest push in it was adopted."""
        self.adopted += 1
        self._owed = False
