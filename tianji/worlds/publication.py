"""Stamp of published weights on a weights edge: one number from which a reader learns what it missed."""

from __future__ import annotations

from tianji.roles.role import PUBLICATIONS, WeightsArrived


def stamp_of(version: int, number: int, *, closing: bool) -> int:
    """Stamp of a publication. Stamps rise, as the channel demands.

    Parameters
    ----------
    version
        of the weights, below 2^40.
    number
        of publications before this one. It is carried modulo `PUBLICATIONS`.
    closing
        whether the weights are published once more because their round closes.
    """
    return 2 * (version * PUBLICATIONS + number % PUBLICATIONS) + closing


def read(stamp: int) -> WeightsArrived:
    """What a reader of this stamp tells its role."""
    version, number = divmod(stamp >> 1, PUBLICATIONS)
    return WeightsArrived(version, bool(stamp & 1), number)
