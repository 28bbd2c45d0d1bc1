"""TD3's update in torch, by autograd. It runs on any device and is the NumPy updater's reference."""

from __future__ import annotations

import torch
from torch import Tensor

from tianji.algorithms.networks_torch import Blocks
from tianji.algorithms.transitions import Transitions
from tianji.algorithms.twin import CRITICS
from tianji.algorithms.twin_torch import Columns, TwinUpdater, gradient_of
from tianji.hyperparameters import TD3Config


class TorchUpdater(TwinUpdater[TD3Config]):
    """Updates as `tianji.algorithms.td3` describes them. The vector of target networks has a policy too.

    On a GPU its steps are not recorded, because some have a policy's step and others have none.
    """

    def step(self, batch: Transitions, learning_rate: float) -> None:
        """One update of the critics and, now and then, of the policy and the target networks."""
        self.set_rates(learning_rate, learning_rate)
        columns = self.columns(batch)
        with self.low():
            with torch.no_grad():
                targets = self.targets(columns)
            critics = self.blocks(*CRITICS)
            loss = self.critic_loss(critics, columns, targets)
        self.descend("critics", gradient_of(loss, critics))
        # The critics' steps are the updates so far.
        if int(self.state_of("critics")["step"].item()) % self.config.policy_every:
            return
        with self.low():
            policy = self.blocks("policy")
            loss = self.policy_loss(policy | self.blocks(*CRITICS, trained=False), columns)
        self.descend("policy", gradient_of(loss, policy))
        self.target.lerp_(self.flat, self.config.tau)

    @torch.no_grad()
    def measured(self, batch: Transitions) -> dict[str, float]:
        columns, blocks = self.columns(batch), self.network.views(self.flat)
        values = self.values(blocks, columns["features"], torch.tanh(self.outputs(blocks, columns["features"])))
        found = {
            "policy_loss": -values[0].mean(),
            "critic_loss": self.critic_loss(blocks, columns, self.targets(columns)),
            "mean_value": values.mean(),
        }
        return {name: float(value) for name, value in found.items()}

    def critic_loss(self, blocks: Blocks, columns: Columns, targets: Tensor) -> Tensor:
        """Sum over both critics of the mean squared error."""
        error = self.values(blocks, columns["features"], columns["action"]) - targets
        return (error * error).mean(dim=1).sum()

    def policy_loss(self, blocks: Blocks, columns: Columns) -> Tensor:
        """Minus the mean value of the policy's actions by the first critic."""
        x = columns["features"]
        return -self.values(blocks, x, torch.tanh(self.outputs(blocks, x)))[0].mean()

    def targets(self, columns: Columns) -> Tensor:
        following, most, blocks = columns["following"], self.config.target_noise_clip, self.network.views(self.target)
        noise = (self.config.target_noise * columns["next_noise"]).clamp(-most, most)
        action = (torch.tanh(self.outputs(blocks, following)) + noise).clamp(-1, 1)
        return columns["reward"] + columns["discount"] * self.values(blocks, following, action).amin(dim=0)
