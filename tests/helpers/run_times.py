"""Lines of a frame of runs (`reports.estimate.paired`) from a list of times."""

import math


def runs(times, system, machine="m", session="s"):
    """A line for each run; a negative time is that of a run that did not reach the return."""
    return [
        {
            "machine": machine,
            "session": session,
            "block": block,
            "system": system,
            "seconds": time if time > 0 else math.nan,
            "measured_s": abs(time),
            "measured_steps": 1000,
        }
        for block, time in enumerate(times)
    ]
