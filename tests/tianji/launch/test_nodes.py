"""A run that is spread over nodes of this machine: the same training, and what crosses between them is accounted for."""

import msgspec
import numpy as np
import pytest

from tianji.config import PPOConfig
from tianji.launch.node import Cluster, Node
from tianji.run.training import train

PAIR = Cluster((Node("127.0.0.1"), Node("127.0.0.2")))


def sent(result):
    return {report.role: report.counters.get("payload_bytes_sent") for report in result.reports}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("encrypt", [False, True])
def test_actors_on_two_nodes_train_what_they_train_on_one(small, encrypt):
    config = small(actors=2, encrypt=encrypt, restarts=0, checkpoint_seconds=None)
    apart, together = train(config, cluster=PAIR), train(config)
    assert np.array_equal(apart.weights, together.weights)
    assert apart.steps == together.steps > 0
    # Only the second actor is on another node than the learner; of it every chunk, and every version of the weights.
    told = sent(apart)
    assert told["actor g0.a1"] > 4 * len(apart.weights)
    assert {name: n for name, n in told.items() if name != "actor g0.a1"} == {
        "learner g0": 0.0,
        "buffer g0": 0.0,
        "actor g0.a0": 0.0,
    }
    assert set(sent(together).values()) == {None}


@pytest.mark.long(why="whole runs of real processes")
@pytest.mark.timeout(120)
def test_groups_on_two_nodes_send_models_alone(small):
    config = small(
        groups=2, actors=1, encrypt=False, restarts=0, checkpoint_seconds=None, ppo=PPOConfig(rollout_steps=16, epochs=2)
    )
    result = train(config, cluster=PAIR)
    assert np.array_equal(result.weights, train(config).weights)
    means = {r.role: r.counters.get("means_adopted") for r in result.reports}
    size = 4 * (len(result.weights) + 2 * 6)
    # The Root, on the first node, gets each model of the second learner, and answers with the mean.
    assert sent(result)["root"] == sent(result)["learner g1"] == means["learner g1"] * size > 0
    assert sent(result)["learner g0"] == 0.0


@pytest.mark.long(why="whole runs of real processes")
@pytest.mark.timeout(120)
def test_a_tree_of_roots_sends_one_model_a_node(small):
    config = small(
        groups=4,
        fan_in=2,
        actors=1,
        encrypt=False,
        restarts=0,
        checkpoint_seconds=None,
        stop_steps=512,
        ppo=PPOConfig(rollout_steps=16),
    )
    result = train(config, cluster=PAIR)
    assert np.array_equal(result.weights, train(msgspec.structs.replace(config, world="lockstep")).weights)
    means = {r.role: r.counters.get("means_adopted") for r in result.reports}
    size = 4 * (len(result.weights) + 2 * 6)
    # The Root of the second node passes the mean of both groups there on, and the top one answers.
    told = sent(result)
    assert told["root"] == told["root 1"] == means["learner g3"] * size > 0
    assert [told[name] for name in ("root 0", *(f"learner g{g}" for g in range(4)))] == [0.0] * 5


@pytest.mark.long(why="processes are ended and started again")
@pytest.mark.timeout(120)
def test_an_actor_on_another_node_is_started_again(small):
    killed = []

    def listener(message):
        import os
        import signal

        from tianji.messages import Hello

        if isinstance(message, Hello) and message.role == "actor g0.a1" and not killed:
            killed.append(message.pid)
        if killed and killed[0] and type(message).__name__ == "Progress":
            os.kill(killed[0], signal.SIGKILL)
            killed[0] = 0

    result = train(small(actors=2, encrypt=False, stop_steps=60_000), listener, cluster=PAIR)
    assert [r.role for r in result.restarts] == ["actor g0.a1"]
    assert result.outcome == "steps"


def test_a_node_that_cannot_be_entered_says_which(tmp_path):
    plain = tmp_path / "no-namespace"
    plain.write_text("")
    with pytest.raises(OSError, match=r"cannot enter the network of node 10\.0\.0\.9"):
        Node("10.0.0.9", str(plain)).enter()
