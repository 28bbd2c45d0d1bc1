"""Your own network: perceptrons with residual blocks, for PPO and IMPALA (`make`) and for DQN (`make_q`)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

WIDTH = 64


class Block(nn.Module):
    """Adds to what it is given; before training it adds little."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
        nn.init.orthogonal_(self.layers[-1].weight, gain=0.1)

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, WIDTH] to [N, WIDTH]."""
        return x + self.layers(x)


class PolicyAndValue(nn.Module):
    """Two blocks, and two heads on them."""

    def __init__(self, features: int, actions: int) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(features, WIDTH), Block(), Block(), nn.LayerNorm(WIDTH))
        self.policy, self.value = nn.Linear(WIDTH, actions), nn.Linear(WIDTH, 1)
        # Every action is as probable as any other, at first.
        nn.init.zeros_(self.policy.weight)
        nn.init.zeros_(self.policy.bias)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [N, actions] and values [N, 1] of observations [N, features]."""
        top = torch.relu(self.trunk(x))
        return self.policy(top), self.value(top)


def make(features: int, actions: int) -> nn.Module:
    """Factory for PPO and IMPALA, as `network.factory` names it. It takes the number of features and of actions."""
    return PolicyAndValue(features, actions)


def make_q(features: int, actions: int) -> nn.Module:
    """Factory for DQN, whose network returns action values [N, actions]."""
    return nn.Sequential(nn.Linear(features, WIDTH), Block(), Block(), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, actions))
