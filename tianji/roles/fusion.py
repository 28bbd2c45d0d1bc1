"""Exchange of models between a group's learner and the Root: pushes of its model, and adoption of means."""

from __future__ import annotations

from dataclasses import dataclass

from tianji.averaging import Stamp, Stamps
from tianji.roles.role import Effect, PushModel

ROOT = "root"
"""Port on which models go to the Root and means come back."""


@dataclass(frozen=True)
class Membership:
    """Place of a learner among the groups that a Root averages.

    Parameters
    ----------
    group, groups
        its number, and the number of groups.
    every_rounds
        rounds of updates between two pushes. Off policy there may be more, because a push waits until the mean for the one
        before was adopted.
    barrier
        True waits for the mean before it publishes weights (on-policy). False continues to train and adopts the mean when it
        arrives.
    """

    group: int
    groups: int
    every_rounds: int
    barrier: bool


class Fusion:
    """State of one learner's exchange with the Root. Without a Root it does nothing.

    Parameters
    ----------
    membership
        None: there is no Root.
    """

    def __init__(self, membership: Membership | None) -> None:
        self._membership = membership
        self.adopted = 0
        """Number of means adopted, also those that changed nothing."""
        self.steps_elsewhere = 0
        """Latest known environment steps of the other groups."""
        self.mean_is_here = False
        """Whether the inbox holds a mean to adopt."""
        self.awaits_mean = False
        """Whether training must wait until the mean of all groups was adopted."""
        self._pushed = Stamp()
        self._samples = self._rounds = 0
        """Samples and rounds since the last push."""
        self._owed = False
        """Whether the mean that contains our latest push has not arrived yet."""

    @property
    def shares_budget(self) -> bool:
        """Whether all groups share one budget of steps, because they do not wait for each other."""
        return self._membership is not None and not self._membership.barrier

    def round_ended(self, samples: int) -> None:
        """Count a round that trained on `samples` samples."""
        self._rounds += 1
        self._samples += samples

    @property
    def due(self) -> bool:
        """Whether to push the model now. It waits for the answer to the last push; otherwise answers would always be late."""
        return self._membership is not None and not self._owed and self._rounds >= self._membership.every_rounds

    def push(self, steps: int) -> Effect:
        """Push the model to be averaged.

        Parameters
        ----------
        steps
            environment steps of this group.
        """
        m = self._membership
        assert m is not None
        self._pushed = Stamp(self._pushed.number + 1, self._samples, steps)
        self._samples = self._rounds = 0
        self._owed, self.awaits_mean, self.mean_is_here = True, m.barrier, False
        return PushModel(self._pushed.number, (self._pushed, Stamp()), ROOT)

    def arrived(self, stamps: Stamps) -> None:
        """Handle a mean that arrived. A mean of our own model alone equals it, so nothing is adopted."""
        own, others = stamps
        self.steps_elsewhere = max(self.steps_elsewhere, others.steps)
        if own.number != self._pushed.number:
            # It lacks our latest push and would undo what we learned before that. The next mean will contain it.
            return
        self.mean_is_here = others.number > 0
        if not self.mean_is_here:
            self.awaits_mean = False
            self.answered()

    def adopt(self) -> None:
        """Begin to adopt the mean in the inbox."""
        self.mean_is_here = self.awaits_mean = False

    def answered(self) -> None:
        """Record that the mean with our latest push was adopted."""
        self.adopted += 1
        self._owed = False
