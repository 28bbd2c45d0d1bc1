"""What is checked in observations of trials: functions that give what is wrong, in words, or None.

`round_steps` is always the most environment steps that a round of the system can have.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from baselines.conformance.trial import STOP_S, Events, Observation
from baselines.workload import Workload

ROUNDS_UNREPORTED = 3
"""Rounds that may be sampled and not reported: one that is under way, one that waits, and one that is trained on. Steps that
try an environment out before the training are counted too, and are few."""
SLACK_S = 3.0
"""Seconds beyond its budget in which a system ends its last round."""


def of_kind(events: Events, kind: str) -> Events:
    """Events of a kind."""
    return [event for event in events if event["event"] == kind]


def reported(events: Events) -> int:
    """Environment steps that a system reports."""
    return max([event["steps"] for event in events if event["event"] in ("snapshot", "episode")], default=0)


def ends_in_order(seen: Observation) -> str | None:
    """The host process ends with status 0."""
    if seen.status is None:
        return "it was killed, because it had not ended when its time was over"
    return f"exit status {seen.status}: {seen.last_line}" if seen.status else None


def steps(seen: Observation, round_steps: int) -> str | None:
    """Steps reported agree with those that the environments counted."""
    told, slack = reported(seen.events), ROUNDS_UNREPORTED * round_steps
    in_episodes = sum(event["length"] for event in of_kind(seen.events, "episode"))
    if told > seen.counted:
        return f"it reports {told:,} steps, and the environments counted {seen.counted:,}"
    if told < seen.counted - slack:
        return f"it reports {told:,} steps, and the environments counted {seen.counted:,}: more than {slack:,} are missing"
    if in_episodes > seen.counted:
        return f"its episodes have {in_episodes:,} steps, and the environments counted {seen.counted:,}"
    return None


def snapshot_order(seen: Observation, run: Path) -> str | None:
    """Snapshots are in order, and their files are there."""
    snapshots = of_kind(seen.events, "snapshot")
    for one, other in pairwise(snapshots):
        for key in ("ns", "steps", "version"):
            if other[key] < one[key]:
                return f"{key} {other[key]} comes after {one[key]}"
    files = [snapshot["file"] for snapshot in snapshots]
    if len(set(files)) < len(files):
        return "two snapshots have the same file"
    missing = [file for file in files if not (run / file).is_file()]
    return f"{missing[0]} is not there" if missing else None


def snapshot_before(seen: Observation) -> str | None:
    """There is a snapshot before the first update."""
    snapshots = of_kind(seen.events, "snapshot")
    if not snapshots:
        return "there is no snapshot"
    first = snapshots[0]
    if first["steps"] or first["version"]:
        return f"the first one is after {first['steps']:,} steps and {first['version']:,} updates"
    return None


def snapshot_at_end(seen: Observation, round_steps: int) -> str | None:
    """There is a snapshot at the end."""
    last = max((snapshot["steps"] for snapshot in of_kind(seen.events, "snapshot")), default=0)
    told = reported(seen.events)
    if last < told - ROUNDS_UNREPORTED * round_steps:
        return f"the last one is after {last:,} steps, and {told:,} are reported"
    return f"the last one is after {last:,} steps" if last == 0 else None


def snapshot_distance(seen: Observation, workload: Workload, round_steps: int) -> str | None:
    """Snapshots are no further apart than prescribed, to the round."""
    most = workload.snapshot_every_steps + round_steps
    for one, other in pairwise(of_kind(seen.events, "snapshot")):
        if other["steps"] - one["steps"] > most:
            return f"{other['steps'] - one['steps']:,} steps lie between two; at most {most:,} are allowed"
    return None


def budget_of_steps(seen: Observation, workload: Workload, round_steps: int) -> str | None:
    """It trains until the budget's steps are used, to the round, and no further."""
    told = max((snapshot["steps"] for snapshot in of_kind(seen.events, "snapshot")), default=0)
    least, slack = workload.budget_steps - round_steps, ROUNDS_UNREPORTED * round_steps
    if told <= least:
        return f"it ended after {told:,} of {workload.budget_steps:,} steps"
    used = max(told, seen.counted)
    if used > workload.budget_steps + slack:
        return f"it took {used:,} steps of {workload.budget_steps:,}"
    return None


def budget_of_seconds(seen: Observation, workload: Workload) -> str | None:
    """It trains until the budget's seconds are used, and no longer than its last round takes."""
    if why := ends_in_order(seen):
        return why
    begun = [event["ns"] for event in of_kind(seen.events, "first_step")]
    # The measured phase ends as in a bundle: with the last report, and not with the processes.
    reports = [event["ns"] for event in seen.events if event["event"] in ("snapshot", "episode", "progress")]
    if not begun or not reports:
        return "it reports no first step, or nothing after it"
    took, allowed = (max(reports) - begun[0]) / 1e9, workload.budget_seconds
    if not 0.9 * allowed <= took <= allowed + SLACK_S:
        return f"it trained for {took:.1f} s of {allowed:.1f} s"
    return None


def cores(seen: Observation) -> str | None:
    """Only the given cores are used."""
    foreign = ", ".join(map(str, sorted(seen.foreign_cores)))
    return f"it may also run on cores {foreign}" if foreign else None


def stop_request(seen: Observation) -> str | None:
    """A stop request is obeyed in time."""
    if seen.status is None:
        return f"it had not ended {STOP_S:.0f} s after the stop request"
    return "it ended before it was asked to" if seen.stopped_after_s is None else None


def processes_left(seen: Observation) -> str | None:
    """No process is left behind."""
    return f"left: {', '.join(seen.processes_left)}" if seen.processes_left else None


def files_left(seen: Observation) -> str | None:
    """No shared memory, and no file outside its folder, is left behind."""
    more = len(seen.files_left) - 3
    listed = ", ".join(seen.files_left[:3]) + (f" and {more} more" if more > 0 else "")
    return f"left: {listed}" if seen.files_left else None
