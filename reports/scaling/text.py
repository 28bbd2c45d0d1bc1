"""What the page says in words of the scaling suite: captions, findings, headlines."""

from __future__ import annotations

from typing import Any

from reports.bounds import NEITHER, NOTHING
from reports.dataset import REFERENCE, Dataset
from reports.scaling.lookup import PEER, REGIMES, Scaled, settings
from reports.scaling.tables import times_as_fast
from reports.tables import number, with_interval
from suites.scaling.ratios import HEADLINE
from suites.statistics.crossings import KINDS

PARTS = (
    "most",
    "speedup",
    "throughput",
    "efficiency",
    "nodes",
    "convergence",
    "times",
    "laws",
    "wire",
    "traffic",
    "busy",
    "checks",
    "setup",
)
"""Of its figures and tables, in the order of reading."""
TABLE_TEXTS = {
    "most": (
        "On the largest number of nodes",
        "Unique consumption over a system's own on one node, and over that of as many copies of TianJi (or of itself) that do "
        "not communicate; how many times as much as the system TianJi takes in, and how many times as fast it reaches a "
        "threshold. Ratios within blocks.",
    ),
    "speedup": (
        "How many times its own throughput on one node",
        "Unique consumption; geometric means of ratios within blocks, 95 % intervals in brackets.",
    ),
    "nodes": (
        "Throughput by number of nodes",
        "Steps sampled, samples trained on (repeats counted) and different samples trained on are three quantities. Speed-up, "
        "efficiency, the share of as many copies that do not communicate, and TianJi's ratio are of different samples, within "
        "blocks. The budget is that of the nodes' cores; the learner is busy with updates. Interquartile means over blocks.",
    ),
    "times": (
        "Time to the threshold by number of nodes",
        "Interquartile means over the runs that got there; the ratio says how many times as fast TianJi is, within "
        "blocks, with a bound (> or <) where one side did not get there in every block.",
    ),
    "laws": (
        "The Universal Scalability Law",
        "X(N) = X(1) N / (1 + sigma (N - 1) + kappa N (N - 1)), least squares of log throughput over all numbers of nodes; "
        "95 % intervals by resampling blocks. sigma: the share of work that one node does at a time; kappa: what each pair of "
        "nodes costs. Where kappa is above 0 throughput has a peak.",
    ),
    "traffic": (
        "What travels between nodes",
        "On the wire: frames with their headers. Given to sockets: bytes handed to TCP for other nodes, over the payload that "
        "had to travel, of the whole run. What the launcher is told is apart.",
    ),
    "checks": (
        "What the nodes were found to be",
        "Measured before each run, on each node: the least and the most of all. Cores: what a busy process got of one. "
        "Link: one TCP connection to another node, Ethernet frames and all.",
    ),
    "setup": (
        "What it took to begin, and what stands outside the budgets",
        "Setting up ends at the first environment step. Daemons (Ray's) run outside a node's budget: CPU seconds a second, of "
        "all nodes together, in the steady window. Held back: seconds a second in which a node's budget was used up.",
    ),
}


SHARED = " They share its cores, and one alone has them all: so no speed-up over one node is given."


def title(scaled: Scaled) -> str:
    """Of its part of the page."""
    regime = REGIMES.get(scaled.regime.get("id", ""), scaled.regime.get("id", ""))
    kind = ", ".join(part for part in (regime, scaled.setting.scaling) if part)
    return f"Scaling, {kind}: {scaled.description['workload']['title']}"


def text(scaled: Scaled) -> str:
    """What a reader needs to know of the nodes and of the work."""
    work = {
        "weak": "The work grows with the nodes: each has as many environments, whatever their number.",
        "strong": "The work stays the same: as many environments in all are spread over the nodes.",
    }[scaled.setting.scaling]
    counts = scaled.description["environments"]
    spread = ", ".join(f"{environments} on {nodes}" for nodes, environments in sorted(counts.items()))
    return (
        f"{_where(scaled)} {work} Environments by number of nodes: {spread}.{_varies(scaled)} Throughput is the growth of each "
        "process's own totals in the steady window, from a fifth of the measured time (at least two seconds) after the first "
        f"step to the last moment that all have told of.{_daemons(scaled)}"
    )


def _where(scaled: Scaled) -> str:
    cores, link = scaled.regime.get("cores"), scaled.regime.get("link_bits_per_s")
    if scaled.setting.testbed == "netns":
        budget = "no budget of cores" if cores is None else f"a budget of {cores:g} of a core by quota"
        rate = "a link as fast as the machine" if link is None else f"a link of {number(link / 1e6)} Mbit/s either way"
        return (
            f"Emulated nodes of one machine: each has a network of its own with an address, {budget} and {rate}, measured "
            "before each run. They show the shape of scaling, not the speed of real machines."
            f"{SHARED if cores is None else ''}"
        )
    if scaled.setting.testbed == "ray":
        return "Nodes of a Ray cluster, as they are."
    return f"Nodes that are processes of this host alone, without budgets and links of their own.{SHARED}"


def _varies(scaled: Scaled) -> str:
    """What of a workload is not the same on all numbers of nodes: should a batch be among it, that shows."""
    names = ", ".join(sorted(scaled.description["varies"]))
    return f" Of the workload's keys these differ between numbers of nodes, and no others: {names}." if names else ""


def _daemons(scaled: Scaled) -> str:
    """What Ray's daemons cost where there are most nodes; nothing where there are none."""
    parts = [
        f"{with_interval(row)} cores with {scaled.title(label)}"
        for label in scaled.systems
        if (row := scaled.find(label, "daemons_cores", scaled.most)) and row["value"] > 0
    ]
    if not parts:
        return ""
    return (
        f" Ray's daemons stand outside the budgets; on {scaled.most} nodes they took {'; '.join(parts)}, all nodes "
        "together: on a real node of many cores that would not be felt."
    )


def headlines(data: Dataset) -> list[str]:
    """One sentence for each setting: what the most nodes make of TianJi's throughput, and what that is over XingTian's."""
    lines = []
    for setting in settings(data):
        scaled = Scaled(data, setting)
        if own := _own(scaled):
            over = scaled.over("unique_consumption_ratio", PEER, scaled.most)
            told = (
                f" That is {with_interval(over, 'x')} as many as with {scaled.title(PEER)} ({_counted(over)})." if over else ""
            )
            lines.append(f"{title(scaled)}: {own}{told}")
    return lines


def _own(scaled: Scaled) -> str | None:
    speedup, share = scaled.speedup(REFERENCE, scaled.most), scaled.share(REFERENCE, scaled.most)
    if speedup is None:
        return None if share is None else _of_copies(scaled, share)
    ceiling = ""
    if share:
        ceiling = f", {with_interval(share)} of {scaled.most} copies that do not communicate ({_counted(share)})"
    return (
        f"On {scaled.most} nodes {scaled.title(REFERENCE)} trains on {with_interval(speedup, 'x')} as many different samples a "
        f"second as on one ({_counted(speedup)}){ceiling}."
    )


def _of_copies(scaled: Scaled, share: dict[str, Any]) -> str:
    return (
        f"On {scaled.most} nodes {scaled.title(REFERENCE)} trains on {with_interval(share, 'x')} as many different samples a "
        f"second as {scaled.most} copies that do not communicate ({_counted(share)})."
    )


def _counted(row: dict[str, Any]) -> str:
    return f"n = {row['n']} block{'s' * (row['n'] > 1)}"


def findings(scaled: Scaled) -> list[str]:
    """What the numbers say where there are most nodes: TianJi's throughput, and what `against_others` says."""
    own = _own(scaled)
    return [*([own] if own else []), *against_others(scaled)]


def against_others(scaled: Scaled) -> list[str]:
    """A sentence each of peers' throughput, of time to the threshold and of traffic, where there are most nodes."""
    most, lines = scaled.most, []
    if published := _published(scaled):
        lines.append(published)
    for label in scaled.systems:
        ratio = scaled.over("unique_consumption_ratio", label, most)
        if ratio and not (published and label == PEER):
            lines.append(
                f"On {most} nodes {scaled.title(REFERENCE)}'s throughput is {with_interval(ratio, 'x')} that of "
                f"{scaled.title(label)} ({_counted(ratio)})."
            )
    for label in scaled.systems:
        by_kind = {kind: times_as_fast(scaled, label, most, kind) for kind in KINDS}
        found = [f"the {kind} one {faster}" for kind, faster in by_kind.items() if faster not in (NOTHING, NEITHER)]
        if label != REFERENCE and found:
            lines.append(
                f"On {most} nodes {scaled.title(REFERENCE)} reaches the threshold as many times as fast as "
                f"{scaled.title(label)}: {', '.join(found)}."
            )
    if (overhead := scaled.find(REFERENCE, "socket_bytes_per_payload_byte", most)) is not None:
        lines.append(
            f"Bytes that {scaled.title(REFERENCE)} hands to sockets on {most} nodes are {overhead['value']:.4f} times the "
            f"payload ({_counted(overhead)})."
        )
    return lines


def _published(scaled: Scaled) -> str | None:
    """The published speed-up on eight nodes, both ways in which it can be read, and the ratio of the two speed-ups."""
    most = scaled.most
    direct, relative = (scaled.over(metric, PEER, most) for metric in ("unique_consumption_ratio", "speedup_ratio"))
    own, theirs = scaled.speedup(REFERENCE, most), scaled.speedup(PEER, most)
    if direct is None or own is None:
        return None
    second = f" ({scaled.title(PEER)}'s own is {with_interval(theirs, 'x')}, {_counted(theirs)})" if theirs else ""
    ratio = f"; the ratio of both speed-ups is {with_interval(relative, 'x')}" if relative else ""
    return (
        "The published speed-up on eight nodes can be read in two ways. Over its own throughput on one node, "
        f"{scaled.title(REFERENCE)}'s on {most} is "
        f"{with_interval(own, 'x')}, {_counted(own)}{second}; over {scaled.title(PEER)}'s on as "
        f"many it is {with_interval(direct, 'x')}{ratio} ({_counted(direct)})."
    )


def captions(scaled: Scaled) -> dict[str, str]:
    """Of each figure: what it shows of these runs, and how to read it."""
    bars = "Points are interquartile means over blocks (of ratios: geometric means), bars 95 % intervals."
    most = scaled.most
    return {
        "throughput": f"{_ends(scaled)}Markers: measured; thin lines: the fitted law of scalability, where there are "
        f"nodes enough; lines without markers: as many copies that do not communicate, which are the ceiling. {bars}",
        "efficiency": f"{_shares(scaled)}100 %: nothing is lost by having several nodes. {bars}",
        "convergence": f"{_fastest(scaled)}Means are of the runs that got there, dots are runs; an open triangle is a run that "
        "ended there without having reached the threshold.",
        "wire": f"{_carried(scaled)}Frames with their headers, in the steady window. {bars}",
        "busy": f"{_spent(scaled, most)}What is left is waiting and handling messages. {bars}",
    }


def _ends(scaled: Scaled) -> str:
    parts = [
        f"{scaled.title(label)} {with_interval(row, 'x')}"
        for label in scaled.systems
        if (row := scaled.speedup(label, scaled.most))
    ]
    return f"From one to {scaled.most} nodes throughput grows: {'; '.join(parts)}. " if parts else ""


def _shares(scaled: Scaled) -> str:
    parts = [
        f"{scaled.title(label)} {number(row['value'] * 100)} %"
        for label in scaled.systems
        if (row := scaled.share(label, scaled.most))
    ]
    return f"Of {scaled.most} copies' throughput {'; '.join(parts)} is left. " if parts else ""


def _fastest(scaled: Scaled) -> str:
    found = [
        (row["value"], scaled.title(label))
        for label in scaled.systems
        if (row := scaled.find(label, "time_to_threshold_s", scaled.most, None, "evaluated"))
    ]
    if not found:
        return ""
    parts = [f"{name} after {number(seconds)} s" for seconds, name in sorted(found)]
    return f"On {scaled.most} nodes the evaluated threshold is reached by {'; '.join(parts)}. "


def _carried(scaled: Scaled) -> str:
    def size(row: dict[str, Any]) -> str:
        return f"{number(row['value'] / 1e6)} MB/s"

    parts = [
        f"{scaled.title(label)} {size(row)}"
        for label in scaled.systems
        if (row := scaled.find(label, "wire_busiest_bytes_per_s", scaled.most))
    ]
    return f"On {scaled.most} nodes the link that carries most has {'; '.join(parts)}. " if parts else ""


def _spent(scaled: Scaled, nodes: int) -> str:
    parts = [
        f"{scaled.title(label)} {number(row['value'] * 100)} %"
        for label in scaled.systems
        if (row := scaled.find(label, "learner_busy_share", nodes)) and scaled.find(label, HEADLINE, nodes)
    ]
    return f"On {nodes} nodes learners are busy with updates for {'; '.join(parts)} of the time. " if parts else ""
