"""The workload `cartpole-ppo-tiny`, as TOML."""

TINY = """
id = "{id}"
title = "CartPole, hardly trained"
env = "CartPole-v1"
algo = "ppo"
environments = 4
horizon_steps = 2048
budget_steps = 1024
budget_seconds = 60.0
snapshot_every_steps = 256
[network]
hidden = [16, 16]
[ppo]
rollout_steps = 32
minibatch_size = 64
epochs = 2
learning_rate = 1e-3
learning_rate_schedule = "linear"
[thresholds]
training = {training}
evaluated = {evaluated}
[evaluation]
episodes = 4
averaged = 2
seed = 1
"""


def tiny_workload(name="cartpole-ppo-tiny", training=450.0, evaluated=475.0):
    """The workload with this id and these thresholds."""
    return TINY.format(id=name, training=training, evaluated=evaluated)
