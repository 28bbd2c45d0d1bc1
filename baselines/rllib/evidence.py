"""Results of RLlib's own learner, connectors and optimizer on the certificate's frozen data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from baselines.certificate import Evidence, Frozen, batch_of
from baselines.rllib import weights

MODULE = "default_policy"


def collect(frozen: Frozen, config: Any) -> Evidence:
    """Evidence of a learner that RLlib builds from this configuration, without starting Ray."""
    import gymnasium as gym

    env = gym.make(frozen.workload.env)
    learner = config.build_learner(env=env)
    env.close()
    module = learner.module[MODULE].unwrapped()
    state = weights.to_rllib(frozen.network, frozen.weights, _plain(module.get_state()))
    if frozen.workload.algo == "dqn":
        targets = weights.to_rllib(frozen.network, frozen.target_weights, state)
        state |= {name: value for name, value in targets.items() if name.startswith("_target_")}
    module.set_state(state)
    if frozen.workload.algo == "ppo":
        return _targets_of_ppo(frozen, learner) | _one_step(frozen, learner, module, _ppo_batch(frozen))
    # Its targets never leave its loss: the loss and what follows from it show them.
    return _one_step(frozen, learner, module, _dqn_batch(frozen))


def _plain(state: Any) -> dict[str, NDArray[Any]]:
    return {name: np.asarray(value) for name, value in state.items()}


def _targets_of_ppo(frozen: Frozen, learner: Any) -> Evidence:
    """Targets from the learner's connectors, on the chunk cut into episodes as an env runner would hand them over."""
    from ray.rllib.core.columns import Columns
    from ray.rllib.env.single_agent_episode import SingleAgentEpisode

    chunk = frozen.chunk
    t_max, b_max = chunk["reward"].shape
    numbers = frozen.describe.actions.deviations > 0
    order = np.nonzero(chunk["truncated"])
    place = {(int(t), int(b)): i for i, (t, b) in enumerate(zip(*order, strict=True))}
    pieces, rows = [], []
    for b in range(b_max):
        begin = 0
        for t in range(t_max):
            terminated, truncated = bool(chunk["terminated"][t, b]), bool(chunk["truncated"][t, b])
            if not (terminated or truncated or t == t_max - 1):
                continue
            steps = range(begin, t + 1)
            last = chunk["final_observation"][place[t, b]] if truncated else chunk["observation"][t + 1, b]
            pieces.append(
                SingleAgentEpisode(
                    observations=[*(chunk["observation"][s, b] for s in steps), last],
                    actions=[chunk["action"][s, b] if numbers else int(chunk["action"][s, b]) for s in steps],
                    rewards=[float(chunk["reward"][s, b]) for s in steps],
                    infos=[{} for _ in range(len(steps) + 1)],
                    terminated=terminated,
                    truncated=truncated,
                    extra_model_outputs={
                        Columns.ACTION_LOGP: [float(chunk["log_probability"][s, b]) for s in steps],
                        Columns.ACTION_DIST_INPUTS: [np.zeros(frozen.describe.actions.scores, np.float32) for _ in steps],
                    },
                    len_lookback_buffer=0,
                )
            )
            rows += [s * b_max + b for s in steps]
            begin = t + 1
    batch = learner._learner_connector(rl_module=learner.module, batch={}, episodes=pieces, shared_data={})[MODULE]
    real = np.asarray(batch[Columns.LOSS_MASK]).astype(bool)
    evidence = {}
    for quantity, column in (("targets", "value_targets"), ("advantages", "advantages")):
        values = np.empty(t_max * b_max)
        values[rows] = np.asarray(batch[column])[real]
        evidence[quantity] = values
    return evidence


def _ppo_batch(frozen: Frozen) -> dict[str, Any]:
    rows = batch_of(frozen)
    return {
        "obs": rows["observation"],
        "actions": rows["action"],
        "action_logp": rows["log_probability"],
        "action_dist_inputs": np.zeros((len(rows["action"]), frozen.describe.actions.scores), np.float32),
        "advantages": rows["advantage"],
        "value_targets": rows["value_target"],
    }


def _dqn_batch(frozen: Frozen) -> dict[str, Any]:
    rows = frozen.transitions
    count = len(rows["action"])
    return {
        "obs": rows["observation"],
        "new_obs": rows["next_observation"],
        "actions": rows["action"],
        "rewards": rows["reward"],
        "terminateds": rows["terminated"],
        "truncateds": np.zeros(count, bool),
        "n_step": np.ones(count, np.float32),
        "weights": np.ones(count, np.float32),
    }


def _one_step(frozen: Frozen, learner: Any, module: Any, arrays: dict[str, Any]) -> Evidence:
    """Forward, loss, gradient, clipping and optimizer, each by the learner's own method."""
    import torch

    batch = {name: torch.as_tensor(value) for name, value in arrays.items()}
    output = module.forward_train(batch)
    settings = learner.config.get_config_for_module(MODULE)
    loss = learner.compute_loss_for_module(module_id=MODULE, config=settings, batch=batch, fwd_out=output)
    gradients = learner.postprocess_gradients(learner.compute_gradients({MODULE: loss}))
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    by_name = {
        names[id(reference)]: gradient.detach().numpy() for reference, gradient in gradients.items() if gradient is not None
    }
    clipped = weights.from_rllib(frozen.network, by_name).copy()
    learner.apply_gradients(gradients)
    return {
        "loss": np.array([loss.item()]),
        "gradient": clipped,
        "weights": weights.from_rllib(frozen.network, _plain(module.get_state()), frozen.network.views(frozen.weights)),
    }
