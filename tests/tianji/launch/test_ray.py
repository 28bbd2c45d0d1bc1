"""Roles on a Ray cluster of two nodes: the same run as on one host, and the same care for what dies."""

import numpy as np
import on_a_cluster
import pytest
import two_ray_nodes
from commands import refusal

from programs.cli import run
from tianji.__main__ import main
from tianji.launch.ray import Placement
from tianji.run.training import train
from tianji.topology import lay_out


@pytest.mark.long(why="processes are ended and started again")
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("ray")
def test_two_nodes_train_what_one_host_trains_and_survive_what_dies(small, ray_nodes, tmp_path):
    told = two_ray_nodes.ask(on_a_cluster, ray_nodes, tmp_path, timeout=580)
    # Between nodes ports, on one node shared memory; and not a bit of difference to one host.
    assert told["addresses"]["chunks0"].startswith("tcp://")
    assert told["addresses"]["batches0"].startswith("shm://")
    assert np.array_equal(np.array(told["weights"], np.float32), train(small()).weights)
    assert told["survived"] == ["steps", 24_064, ["actor g0.a1", "buffer g0"]]
    assert told["killed"]
    outcome, steps, restarts = told["resumed"]
    assert (outcome, restarts) == ("steps", [""])
    assert 50_048 - 128 < steps <= 50_048
    assert told["left"] == []


def test_groups_and_processes_are_placed_where_they_have_cpus(small):
    one, two = small(actors=3, placement="apart"), small(groups=2, device="cuda", placement="apart")
    placed = Placement.of_run(one, lay_out(one))
    assert placed.bundles == [{"CPU": 1.0}] * 4
    assert placed.of == {"learner g0": 0, "buffer g0": 0, "actor g0.a0": 1, "actor g0.a1": 2, "actor g0.a2": 3}
    placed = Placement.of_run(two, lay_out(two))
    assert placed.bundles == [{"CPU": 3.0, "GPU": 1.0}] * 2
    second = {name for name, bundle in placed.of.items() if bundle == 1}
    assert second == {"learner g1", "buffer g1", "actor g1.a0", "actor g1.a1"}
    assert placed.of["root"] == 0
    # Who shares the learner's process has no CPU of its own.
    together = small(actors=3)
    placed = Placement.of_run(together, lay_out(together))
    assert placed.bundles == [{"CPU": 1.0}] * 3
    assert placed.of == {"learner g0": 0, "buffer g0": 0, "actor g0.a0": 0, "actor g0.a1": 1, "actor g0.a2": 2}
    assert set(placed.cpus) == {"learner g0", "actor g0.a1", "actor g0.a2"}
    together = small(groups=2)
    assert Placement.of_run(together, lay_out(together)).bundles == [{"CPU": 2.0}] * 2


def test_no_cluster_is_one_line(capsys):
    arguments = ["train", "--env", "CartPole-v1", "--launcher", "ray", "--ray-address", "127.0.0.1:1", "--quiet"]
    assert "no cluster at '127.0.0.1:1'" in refusal(capsys, run, "tianji", main, arguments)
