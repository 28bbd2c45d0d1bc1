"""Roots in a tree, against one Root above all groups."""

import msgspec
import numpy as np
import pytest

from tianji.environments.making import describe
from tianji.messages import Done, Report, Snapshot
from tianji.roles.fusion import ROOT
from tianji.roles.role import ModelArrived, PushModel, Work
from tianji.roles.root import Average
from tianji.topology import lay_out
from tianji.worlds import lockstep

CARTPOLE = describe("CartPole-v1")


def of_groups(small, groups, rounds, **more):
    base = small(actors=1, stop_steps=groups * rounds * 64)
    ppo = msgspec.structs.replace(base.ppo, epochs=1)
    return msgspec.structs.replace(base, groups=groups, snapshot_every_steps=1 << 40, ppo=ppo, **more)


def run(config, order_seed=None):
    """What roles heard and did, the snapshots and the reports of a lockstep run."""
    trace, snapshots, reports, done = [], [], {}, []

    def on_message(message):
        match message:
            case Snapshot():
                snapshots.append((message.steps, message.weights))
            case Report():
                reports[message.role] = message
            case Done():
                done.append(message)
                return "steps" if len(done) == (config.groups if config.rule.groups_wait else 1) else None
        return None

    lockstep.run(config, CARTPOLE, on_message, order_seed, lambda *happened: trace.append(happened))
    return trace, snapshots, reports


def weights(snapshots):
    return np.frombuffer(snapshots[-1][1], "<f4")


def test_a_fan_in_of_all_groups_is_one_root(small):
    config = of_groups(small, 3, 2)
    wide = msgspec.structs.replace(config, fan_in=3)
    one, same = run(config), run(wide)
    same_events, same_policies = repr(one[0]) == repr(same[0]), one[1] == same[1]
    assert same_events
    assert same_policies


@pytest.mark.parametrize(("groups", "fan_in", "roots"), [(4, 2, 3), (5, 3, 3), (8, 2, 7)])
def test_strict_groups_under_a_tree_learn_what_they_learn_under_one_root(small, groups, fan_in, roots):
    """Two levels, two of unequal shares, and three. Weights round to float32 once more at each level."""
    config = of_groups(small, groups, 3)
    _, one, _ = run(config)
    _, tree, reports = run(msgspec.structs.replace(config, fan_in=fan_in))
    assert sum(name.startswith("root") for name in reports) == roots
    assert {report.counters["means_published"] for name, report in reports.items() if name.startswith("root")} == {3.0}
    assert {reports[f"learner g{g}"].counters["means_adopted"] for g in range(groups)} == {3.0}
    assert [steps for steps, _ in tree] == [steps for steps, _ in one]
    assert np.abs(weights(tree) - weights(one[:1])).max() > 1e-3, "something was learned"
    assert np.abs(weights(tree) - weights(one)).max() < 1e-6


class Contents:
    """Pushes of groups that each model contains, from what Roots heard and did."""

    def __init__(self, roles):
        self.children, self.name = {}, {role.name: role for role in roles}
        for role in roles:
            self.children.setdefault(role.under, []).append(role.name)
        self.latest = {}
        """By Root and port: pushes by group, each with its samples and steps."""
        self.pushed = {}
        """By Root and number: what its push to the Root above contains."""
        self.averaged = {}
        """By Root: the contents of the last mean of its children's models, and of the last mean from above."""
        self.sent_down = {}
        """By child: the latest mean that was sent to it."""
        self.means = 0

    def note(self, root, events, effects):
        for event in events:
            if isinstance(event, ModelArrived):
                self.heard(root, event.port, *event.stamps)
        for effect in effects:
            if isinstance(effect, PushModel):
                self.sends(root, effect)
            elif isinstance(effect, Work) and isinstance(effect.argument, Average):
                self.averages(root, effect.argument)

    def heard(self, root, port, own, beyond):
        if port == ROOT:
            self.latest[root, ROOT] = self.sent_down[root]
            return
        child = self.children[root][int(port)]
        if self.name[child].kind == "root":
            found = self.pushed[child, own.number]
            assert beyond.number == len(found) - 1
            assert (own.samples, own.steps) == tuple(sum(push[n] for push in found.values()) for n in (1, 2))
        else:
            found = {self.name[child].group: (own.number, own.samples, own.steps)}
        self.latest[root, port] = found

    def averages(self, root, work):
        whole, weights = {}, []
        for port in work.ports:
            part = self.latest[root, port]
            assert not whole.keys() & part.keys(), "a group counts twice"
            whole |= part
            weights.append(sum(samples for _, samples, _ in part.values()))
        self.averaged[root] = whole
        if work.ports != [ROOT]:
            assert list(work.samples) == weights, "a model weighs as much as the samples of its groups"
            self.means += 1

    def sends(self, root, push):
        whole = self.averaged[root]
        own, others = push.stamps
        if push.port == ROOT:
            self.pushed[root, push.number] = whole
            return
        child = self.children[root][int(push.port)]
        self.sent_down[child] = whole
        below = self.groups(child)
        beyond = [steps for group, (_, _, steps) in whole.items() if group not in below]
        assert (others.number, others.steps) == (len(beyond), sum(beyond))
        inside = {group: one for group, one in whole.items() if group in below}
        assert own.steps == sum(steps for _, _, steps in inside.values())
        if self.name[child].kind == "learner":
            assert own.number == inside[self.name[child].group][0], "the answer is to the push that the mean contains"

    def groups(self, child):
        role = self.name[child]
        return {role.group} if role.kind == "learner" else set().union(*map(self.groups, self.children[child]))


@pytest.mark.long(why="whole runs, again and again")
@pytest.mark.parametrize("discipline", ["strict", "relaxed"])
@pytest.mark.parametrize(("order", "groups", "fan_in"), [(1, 4, 2), (2, 5, 2), (3, 5, 3)])
def test_no_group_counts_twice_and_samples_and_steps_add_up_in_any_order(small, discipline, order, groups, fan_in):
    config = of_groups(small, groups, 16, fan_in=fan_in, discipline=discipline)
    roles = lay_out(config)
    contents = Contents(roles)
    trace, _, reports = run(config, order)
    for name, events, effects in trace:
        if name.startswith("root"):
            contents.note(name, events, effects)
    assert contents.means > 8
    assert set(contents.averaged["root"]) == set(range(groups)), "the last mean has every group"
    assert min(report.counters["means_adopted"] for name, report in reports.items() if name.startswith("learner")) > 0
