"""The topology: places of roles, and addresses of edges."""

from collections import Counter

import pytest

from programs.cli import ConfigError
from tianji.config import TrainConfig
from tianji.launch.job import at_open_ports, known_to, neighbours
from tianji.settings import convert
from tianji.topology import Topology, addresses, lay_out, place, seats, within_processes
from tianji.worlds.threads import learner_threads


def roles_of(**settings):
    return lay_out(TrainConfig(env="CartPole-v1", **settings))


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 6, 8])
def test_a_group_a_node(nodes):
    where = place(roles_of(groups=nodes, actors=2), nodes)
    assert where["learner g0"] == 0
    for group in range(nodes):
        members = {f"learner g{group}", f"buffer g{group}", f"actor g{group}.a0", f"actor g{group}.a1"}
        assert {where[name] for name in members} == {group}
    assert where.get("root", 0) == 0


@pytest.mark.parametrize(("actors", "nodes"), [(8, 8), (8, 4), (6, 3), (5, 2), (3, 3)])
def test_one_group_has_its_learner_on_the_first_node_and_actors_on_all(actors, nodes):
    where = place(roles_of(actors=actors), nodes)
    assert where["learner g0"] == where["buffer g0"] == 0
    on = Counter(node for name, node in where.items() if name.startswith("actor"))
    assert set(on) == set(range(nodes))
    assert max(on.values()) - min(on.values()) <= 1


def test_groups_share_nodes_or_have_several():
    shared = place(roles_of(groups=4, actors=1), 2)
    assert [shared[f"learner g{g}"] for g in range(4)] == [0, 0, 1, 1]
    several = place(roles_of(groups=2, actors=2), 4)
    assert [several[f"learner g{g}"] for g in range(2)] == [0, 2]
    assert [several[f"actor g{g}.a{a}"] for g in range(2) for a in range(2)] == [0, 1, 2, 3]


def test_edges_are_in_memory_on_a_node_and_at_ports_between_nodes():
    config = TrainConfig(env="CartPole-v1", groups=2, actors=1, placement="apart")
    roles = lay_out(config)
    where = place(roles, 2)
    found = addresses(config, roles, where, {0: "/f0", 1: "/f1"}, {0: "10.0.0.1", 1: "10.0.0.2"})
    assert found == {
        "batches0": "shm:///f0/batches0",
        "chunks0": "shm:///f0/chunks0",
        "weights0": "shm:///f0/weights0",
        "batches1": "shm:///f1/batches1",
        "chunks1": "shm:///f1/chunks1",
        "weights1": "shm:///f1/weights1",
        # The Root comes to learners for their models, and learners to the Root for the mean: each is where who is come to is.
        "model0": "shm:///f0/model0",
        "model1": "tcp://10.0.0.2:0",
        "mean0": "shm:///f0/mean0",
        "mean1": "tcp://10.0.0.1:0",
    }
    config = TrainConfig(env="CartPole-v1", actors=2, channel="ipc", placement="apart")
    apart = addresses(config, lay_out(config), place(lay_out(config), 2), {0: "/f"}, {0: "10.0.0.1"})
    assert apart == {"batches0": "ipc:///f/batches0", "chunks0": "tcp://10.0.0.1:0", "weights0": "tcp://10.0.0.1:0"}


def test_roots_form_a_tree_of_as_few_levels_as_fit():
    def under(groups, fan_in):
        return {
            role.name: role.under
            for role in roles_of(groups=groups, fan_in=fan_in, actors=1)
            if role.under or role.kind == "root"
        }

    flat = {"root": "", "learner g0": "root", "learner g1": "root", "learner g2": "root"}
    assert under(3, None) == under(3, 3) == under(3, 8) == flat
    assert under(5, 3) == {
        "root": "",
        "root 0": "root",
        "root 1": "root",
        "learner g0": "root 0",
        "learner g1": "root 0",
        "learner g2": "root 1",
        "learner g3": "root 1",
        "learner g4": "root 1",
    }
    assert under(5, 2)["learner g4"] == "root 1.1", "three levels"
    assert under(3, 2) == {"root": "", "learner g0": "root", "root 1": "root", "learner g1": "root 1", "learner g2": "root 1"}
    for groups, fan_in in ((64, 8), (512, 8), (100, 16), (600, 24)):
        tree = under(groups, fan_in)
        assert max(Counter(tree.values()).values()) <= fan_in
        # Dots in a name count the levels between it and the top one's children.
        levels = max(above.count(".") + 2 if " " in above else 1 for above in tree.values())
        assert fan_in ** (levels - 1) < groups <= fan_in**levels


def test_a_root_is_on_the_node_of_its_first_group_and_edges_in_a_node_are_in_memory():
    config = TrainConfig(env="CartPole-v1", groups=4, fan_in=2, actors=1)
    roles = lay_out(config)
    where = place(roles, 2)
    assert {name: node for name, node in where.items() if name.startswith("root")} == {"root": 0, "root 0": 0, "root 1": 1}
    found = addresses(config, roles, where, {0: "/f0", 1: "/f1"}, {0: "10.0.0.1", 1: "10.0.0.2"})
    at_ports = {edge: address for edge, address in found.items() if address.startswith("tcp")}
    assert at_ports == {"model-1": "tcp://10.0.0.2:0", "mean-1": "tcp://10.0.0.1:0"}
    assert found["mean3"] == "shm:///f1/mean3"


def test_each_process_is_told_of_its_own_edges_alone():
    config = TrainConfig(env="CartPole-v1", groups=4, fan_in=2, actors=1)
    roles = lay_out(config)
    topology = Topology(roles, addresses(config, roles, place(roles, 2), {0: "/f0", 1: "/f1"}, {0: "h0", 1: "h1"}))
    known = known_to({there[0].name: there for there in seats(config, roles)}, topology)
    assert {name: set(part.addresses) for name, part in known.items() if not name.endswith(("g1", "g2", "g3"))} == {
        "root": {"model-0", "mean-0", "model-1", "mean-1"},
        "root 0": {"model-0", "mean-0", "model0", "mean0", "model1", "mean1"},
        "root 1": {"model-1", "mean-1", "model2", "mean2", "model3", "mean3"},
        "learner g0": {"model0", "mean0", "batches0", "chunks0", "weights0"},
    }
    assert at_open_ports(known).keys() == {"root", "root 1"}


def test_roles_share_processes_as_placement_says_and_nothing_is_between_those_that_do():
    def shared(**more):
        config = TrainConfig(env="CartPole-v1", **{"actors": 2, **more})
        roles = lay_out(config)
        return [[role.name for role in there] for there in seats(config, roles)], within_processes(config, roles)

    alone = [["learner g0"], ["buffer g0"], ["actor g0.a0"], ["actor g0.a1"]]
    assert shared(placement="apart") == (alone, {})
    between = {"batches0": "memory://batches0"}
    assert shared(placement="buffer") == ([["learner g0", "buffer g0"], ["actor g0.a0"], ["actor g0.a1"]], between)
    strict = [["learner g0", "buffer g0", "actor g0.a0"], ["actor g0.a1"]]
    assert shared(placement="actor") == shared() == (strict, between)
    # Whoever samples while the learner trains needs a core of its own; so does what torch computes in threads.
    assert shared(discipline="relaxed") == shared(placement="buffer")
    assert shared(discipline="exactly-one-round") == shared(placement="buffer")
    one, edges = shared(actors=1, groups=2, buffer=False)
    assert one == [["root"], ["learner g0", "actor g0.a0"], ["learner g1", "actor g1.a0"]]
    assert sorted(edges) == ["chunks0", "chunks1", "weights0", "weights1"]


@pytest.mark.parametrize(
    ("placement", "says"),
    [("SPREAD", "how Ray places processes is now `ray_placement`"), ("near", "auto or apart or buffer or actor")],
)
def test_other_placements_are_refused_in_a_line(placement, says):
    with pytest.raises(ConfigError, match=says):
        convert({"env": "CartPole-v1", "placement": placement}, TrainConfig, "train")


def test_a_learner_computes_in_the_cores_that_actors_beside_it_leave():
    """Two groups of 4 actors on two nodes of 8 cores: each learner has 4 threads; both on one node share what is left."""
    config = TrainConfig(env="CartPole-v1", groups=2, actors=4)
    roles = lay_out(config)

    def threads(nodes):
        found = neighbours(roles, place(roles, nodes))["learner g1"]
        return learner_threads(config, 4, found["actor"], found["learner"], usable=8.0)

    assert threads(2) == 4
    assert threads(1) == 1
