"""Trains with SBX, in its interpreter, as a task on standard input says, and prints what it told and how it ended, as JSON.

The argument `not-ahead` leaves compilation to the first steps.
"""

import sys

import msgspec
import numpy as np
from told import Memory

from baselines import system
from baselines.sbx import compilation, state, weights

task = msgspec.json.decode(sys.stdin.buffer.read(), type=system.Task)
if "not-ahead" in sys.argv:
    compilation.compile_ahead = lambda model: None
under_test, memory = system.get("sbx"), Memory()
try:
    under_test.prepare(task, memory)
    x = np.random.default_rng(0).normal(size=(16, under_test._network.features)).astype(np.float32)
    network, policy = under_test._network, under_test._model.policy
    blocks = network.views(network.initialise(task.seed))
    if task.workload.algo == "dqn":
        held = policy.qf_state
        outputs = [np.asarray(held.apply_fn(one, x)) for one in (held.params, held.target_params)]
        expected = [network.scores(blocks, x)] * 2
    else:
        logits = policy.actor_state.apply_fn(policy.actor_state.params, x).logits
        outputs = [np.asarray(logits), np.asarray(policy.vf_state.apply_fn(policy.vf_state.params, x))[:, 0]]
        expected = [network.scores(blocks, x), network.values(blocks, x)]
    at_first = max(float(np.abs(one - other).max()) for one, other in zip(outputs, expected, strict=True))
    # What was compiled for this script's own question is none of training's.
    under_test._watch.seconds = 0.0
    under_test.train(task, memory)
    model = under_test._model
    told = {
        "first_steps": memory.first_steps,
        "episodes": memory.episodes,
        "snapshots": [(at, steps, version, flat.tolist()) for at, steps, version, flat in memory.snapshots],
        "processes": memory.processes,
        "counters": memory.counters,
        "difference_at_first": at_first,
    }
    if task.workload.algo == "dqn":
        target = {"q": model.policy.qf_state.target_params}
        told["target"] = weights.from_flax(network, target).tolist()
        told["exploration_rate"] = model.exploration_rate
    else:
        rates = [float(one.opt_state[1].hyperparams["learning_rate"]) for one in state.towers(policy).values()]
        told["learning_rates"] = rates
    sys.stdout.write(msgspec.json.encode(told).decode())
finally:
    under_test.stop()
