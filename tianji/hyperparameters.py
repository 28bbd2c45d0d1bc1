"""Settings of each algorithm, one class each, and the sizes that follow from them for the rest of the system.

These are plain numbers, so that every process can import them cheaply. `tianji.algorithms` does the computing.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from tianji.env_settings import ActionsConfig
from tianji.settings import Count, Fraction, NonNegativeFloat, Positive, PositiveFloat, Settings


class Hyperparameters(Settings):
    """Settings of one algorithm, and its properties that do not depend on the environment."""

    networks: ClassVar[tuple[str, ...]]
    """Kinds of network that it can train."""
    discipline: ClassVar[str] = "relaxed"
    """Default discipline."""
    environments: ClassVar[int] = 8
    """Default number of environments of the command line, over all actors."""
    replays: ClassVar[bool] = False
    """Whether chunks are copied into a replay from which training draws. If not, each chunk is trained on in one round."""
    corrects: ClassVar[bool] = True
    """Whether updates correct for samples from an older policy."""
    one_step: ClassVar[bool] = False
    """Whether a round is one optimizer step, on the mean of a loss over all of its rows."""
    behaviour: ClassVar[bool] = True
    """Whether actors record the log-probability of each action."""
    least_bound: ClassVar[int] = 0
    """Smallest bound on staleness, in rounds, when the bound follows measured speeds."""

    gamma: Fraction
    """Discount factor per environment step."""

    @classmethod
    def check_network(cls, algo: str, kind: str) -> None:
        """Check that this algorithm can train a network of this kind; raise `ValueError` if not."""
        if kind not in (*cls.networks, "auto"):
            raise ValueError(f"algo {algo} trains a network of kind {' or '.join(map(repr, cls.networks))}, not {kind!r}")

    def form(self, algo: str, actions: ActionsConfig) -> ActionsConfig:
        """The settings of a policy over numbers, as this algorithm has it; raise `ValueError` if it cannot have it so."""
        return actions

    @property
    def free_samples(self) -> int:
        """Environment steps before training begins."""
        return 0

    @property
    def clips_apart(self) -> bool:
        """Whether the gradients of policy and value are clipped apart."""
        return False

    def check_chunks(self, algo: str, actors: int, envs_per_actor: int, send_steps: int | None) -> None:
        """Check that rounds of one group divide into whole chunks; raise `ValueError` if not."""
        if send_steps is not None:
            raise ValueError(f"send_steps is for algorithms with a replay, not {algo}")

    def fragment_steps(self, environments: int, send_steps: int | None) -> int:
        """Steps of each environment in one chunk (T), for a group with `environments` environments."""
        raise NotImplementedError

    def round_chunks(self, actors: int, chunk_samples: int) -> int:
        """Chunks in one update round of a group: one from each actor, unless a subclass says otherwise."""
        return actors

    def round_updates(self, round_steps: int) -> int:
        """Optimizer steps of one round."""
        return 1

    @property
    def reuse(self) -> float:
        """Rows that are trained on, per environment step."""
        return 1.0


class PolicyGradientConfig(Hyperparameters, kw_only=True):
    """Settings that PPO and IMPALA share. Both train a policy and a value, on each chunk in one round."""

    networks = ("mlp-separate", "mlp-shared", "nature-shared", "factory")

    rollout_steps: Positive
    """Steps of each environment in one update round (T)."""
    learning_rate: PositiveFloat
    """Adam's learning rate, or its first one under a schedule."""
    learning_rate_schedule: Literal["constant", "linear"] = "constant"
    """`linear` lowers the learning rate to zero at `horizon_steps` environment steps, summed over actors."""
    gamma: Fraction = 0.99
    """Discount factor per environment step."""
    value_coefficient: NonNegativeFloat = 0.5
    """Weight of the mean squared value error in the loss."""
    entropy_coefficient: NonNegativeFloat
    """Weight of the mean entropy of the policy, which the loss subtracts. 0: no entropy bonus."""
    max_grad_norm: PositiveFloat
    """Largest norm of the gradient. Longer gradients are scaled down to it."""
    adam_epsilon: PositiveFloat
    """Adam's epsilon, added to its denominator."""

    def fragment_steps(self, environments: int, send_steps: int | None) -> int:
        return self.rollout_steps

    def rate(self, steps: int, horizon_steps: int) -> float:
        """The learning rate for a round whose first transition is environment step `steps`, summed over actors."""
        if self.learning_rate_schedule == "constant":
            return self.learning_rate
        return self.learning_rate * max(0.0, 1.0 - steps / horizon_steps)


class PPOConfig(PolicyGradientConfig):
    """Proximal policy optimisation (Schulman et al., 2017, arXiv 1707.06347) with generalised advantage estimation."""

    discipline = "strict"

    rollout_steps: Positive = 128
    """Steps of each environment in one update round (T)."""
    minibatch_size: Positive = 256
    """Rows (environment steps) in one minibatch. The last minibatch of an epoch may be smaller."""
    epochs: Positive = 10
    """Passes over the samples of one round."""
    learning_rate: PositiveFloat = 3e-4
    """Adam's learning rate, or its first one under a schedule."""
    clip: PositiveFloat = 0.2
    """Clip range of the probability ratio: the surrogate gains nothing beyond 1 - clip and 1 + clip."""
    value_clip: PositiveFloat | None = None
    """Largest useful change of a value in one round, as in OpenAI Baselines' PPO2. None: values are not clipped.

    The value error is max((V - target)^2, (V_old + clip(V - V_old, -value_clip, value_clip) - target)^2). V_old is the
    value before the round. Without clipping the error is (V - target)^2."""
    gae_lambda: Fraction = 0.95
    """Lambda of generalised advantage estimation. 0: one-step advantages; 1: Monte Carlo returns."""
    entropy_coefficient: NonNegativeFloat = 0.0
    """Weight of the mean entropy of the policy, which the loss subtracts. 0: no entropy bonus."""
    max_grad_norm: PositiveFloat = 0.5
    """Largest norm of the gradient. Longer gradients are scaled down to it."""
    clip_gradients: Literal["together", "each"] = "together"
    """What `max_grad_norm` bounds. `together` (default): the norm of the whole gradient. `each`: the norm over the policy's
    parameters, and that over the value's. This needs a network whose policy and value share no parameters."""
    adam_epsilon: PositiveFloat = 1e-5
    """Adam's epsilon, added to its denominator."""
    normalise_advantages: bool = True
    """Whether advantages are normalised in each minibatch, by its mean and (population) standard deviation."""
    correction: Literal["behaviour", "decoupled"] = "behaviour"
    """Policy around which the loss clips if samples are of an older policy. `behaviour` (default): the one that made them.
    `decoupled`: the newest one before the round, with its probability over the behaviour policy's as a weight of the surrogate
    (Hilton et al., 2022, arXiv 2110.00641; Fu et al., 2025, arXiv 2505.24298)."""

    @property
    def clips_apart(self) -> bool:
        return self.clip_gradients == "each"

    def round_updates(self, round_steps: int) -> int:
        return self.epochs * -(-round_steps // self.minibatch_size)

    @property
    def reuse(self) -> float:
        return float(self.epochs)


class IMPALAConfig(PolicyGradientConfig):
    """Importance-weighted actor-learners (Espeholt et al., 2018, arXiv 1802.01561): one optimizer step a round."""

    one_step = True
    least_bound = 8  # A round is one optimizer step, which is short compared with the time of delivery.

    rollout_steps: Positive = 20
    """Steps of each environment in one update round (T)."""
    learning_rate: PositiveFloat = 2e-3
    """Adam's learning rate, or its first one under a schedule."""
    rho_clip: PositiveFloat = 1.0
    """Upper bound of V-trace's importance weights of temporal differences (rho-bar). It sets which policy's value is learnt."""
    c_clip: PositiveFloat = 1.0
    """Upper bound of V-trace's importance weights along the trace (c-bar). It sets how fast values are learnt."""
    vtrace_lambda: Fraction = 1.0
    """Lambda of V-trace, a factor of the weights along the trace."""
    entropy_coefficient: NonNegativeFloat = 0.01
    """Weight of the mean entropy of the policy, which the loss subtracts. 0: no entropy bonus."""
    max_grad_norm: PositiveFloat = 40.0
    """Largest norm of the gradient. Longer gradients are scaled down to it."""
    adam_epsilon: PositiveFloat = 0.01
    """Adam's epsilon, added to its denominator. It is large, as the paper's for RMSProp is: small gradients then make small
    steps, so that a good policy stays good."""


class ReplayConfig(Hyperparameters, kw_only=True):
    """Settings of algorithms that draw minibatches from a replay."""

    environments = 1
    replays = True
    corrects = False
    behaviour = False

    train_every_steps: Positive
    """Environment steps, summed over actors, between two rounds of updates."""
    updates: Positive
    """Updates in one round."""
    batch_size: Positive
    """Transitions in one minibatch, drawn from the replay."""
    recent: Fraction = 0.0
    """Probability that a draw is from the newest transitions only, as in TBA (Bartoldson et al., 2025, arXiv 2503.18929). The
    other draws are uniform over the whole replay, and so are all with 0."""
    recent_steps: Positive = 1000
    """Size of that newest part of the replay, in steps of all environments together; last observations of truncated episodes
    take the place of some. At least two of each environment."""
    replay_capacity: Positive = 100_000
    """Transitions that the replay of one group holds. The oldest are overwritten."""
    learning_starts: Count = 1000
    """Environment steps that must be in the replay before the first update."""
    learning_rate: PositiveFloat
    """Adam's learning rate."""
    gamma: Fraction = 0.99
    """Discount factor per environment step."""
    adam_epsilon: PositiveFloat = 1e-8
    """Adam's epsilon, added to its denominator."""

    @property
    def free_samples(self) -> int:
        return self.learning_starts

    def check_chunks(self, algo: str, actors: int, envs_per_actor: int, send_steps: int | None) -> None:
        together, every, capacity = actors * envs_per_actor, self.train_every_steps, self.replay_capacity
        steps = self.fragment_steps(together, send_steps)
        if capacity < 2 * steps * together:
            raise ValueError(
                f"{algo}.replay_capacity {capacity} holds less than two chunks of each of {together} environments; raise it to "
                f"{2 * steps * together} or more"
            )
        if every % together:
            raise ValueError(f"{algo}.train_every_steps {every} must be a multiple of the {together} environments of a group")
        if every % (steps * envs_per_actor):
            raise ValueError(
                f"{algo}.train_every_steps {every} must be a multiple of a chunk's {steps * envs_per_actor} "
                "steps (send_steps x envs_per_actor)"
            )

    def fragment_steps(self, environments: int, send_steps: int | None) -> int:
        return send_steps or max(1, self.train_every_steps // environments)

    def round_chunks(self, actors: int, chunk_samples: int) -> int:
        return self.train_every_steps // chunk_samples

    def round_updates(self, round_steps: int) -> int:
        return self.updates

    @property
    def reuse(self) -> float:
        return self.updates * self.batch_size / self.train_every_steps


class DQNConfig(ReplayConfig):
    """Deep Q-learning (Mnih et al., 2015) with uniform replay, a hard target copy and Huber loss."""

    networks = ("mlp-q", "nature-q", "factory")

    train_every_steps: Positive = 256
    """Environment steps, summed over actors, between two rounds of updates."""
    updates: Positive = 128
    """Optimizer steps in one round."""
    batch_size: Positive = 64
    """Transitions in one minibatch, drawn from the replay."""
    double: bool = False
    """Double DQN: whether the network, not its target network, chooses the action whose target value is used (van Hasselt et
    al., 2016, arXiv 1509.06461)."""
    target_every_steps: Positive = 10
    """Environment steps between two copies to the target network. A copy that falls due is made just before the next round of
    updates; the target network does not change during a round."""
    learning_rate: PositiveFloat = 2.3e-3
    """Adam's learning rate."""
    epsilon_start: Fraction = 1.0
    """Share of random actions at the start."""
    epsilon_end: Fraction = 0.04
    """Share of random actions after `epsilon_steps`."""
    epsilon_steps: Positive = 8000
    """Environment steps, summed over actors, over which epsilon falls linearly."""
    huber_delta: PositiveFloat = 1.0
    """Error beyond which the Huber loss is linear."""
    max_grad_norm: PositiveFloat = 10.0
    """Largest norm of the gradient. Longer gradients are scaled down to it."""


class TwinConfig(ReplayConfig, kw_only=True):
    """Settings that SAC and TD3 share: two critics and target networks, for actions that are numbers, squashed by tanh."""

    discipline = "reactor"  # Beside an update, sampling takes next to nothing; waking up for messages takes more.

    train_every_steps: Positive = 8
    """Environment steps, summed over actors, between two rounds of updates."""
    updates: Positive = 8
    """Updates in one round."""
    batch_size: Positive = 256
    """Transitions in one minibatch, drawn from the replay."""
    replay_capacity: Positive = 1_000_000
    """Transitions that the replay of one group holds. The oldest are overwritten."""
    learning_starts: Count = 100
    """Environment steps that must be in the replay before the first update. Until then actions are uniform within bounds."""
    tau: Annotated[float, Meta(gt=0, le=1)] = 0.005
    """Share by which target networks move towards the others: after each update, and with TD3 after those of the policy."""

    def form(self, algo: str, actions: ActionsConfig) -> ActionsConfig:
        if actions.exploration == "state":
            raise ValueError(f"actions.exploration 'state' is for algo ppo and impala, not {algo}")
        return msgspec.structs.replace(actions, bounds="squash")


class SACConfig(TwinConfig):
    """Soft actor-critic (Haarnoja et al., 2018, arXiv 1812.05905), with a temperature that is learnt."""

    networks = ("mlp-twin",)

    learning_rate: PositiveFloat = 3e-4
    """Adam's learning rate for the policy."""
    critic_learning_rate: PositiveFloat | None = None
    """Adam's learning rate for the critics and the temperature. None: that of the policy."""
    temperature: PositiveFloat | Literal["auto"] = "auto"
    """Weight of the entropy (alpha). `auto`: it begins at 1, and is learnt so that the entropy becomes `target_entropy`."""
    target_entropy: float | None = None
    """Entropy at which a learnt temperature aims, in nats, of actions scaled to -1..1. None: minus the number of actions."""


class TD3Config(TwinConfig):
    """Twin delayed DDPG (Fujimoto et al., 2018, arXiv 1802.09477), with a deterministic policy and a target network of it."""

    networks = ("mlp-deterministic",)

    learning_rate: PositiveFloat = 1e-3
    """Adam's learning rate."""
    policy_every: Positive = 2
    """Updates of the critics for each one of the policy and the target networks."""
    exploration_noise: NonNegativeFloat = 0.1
    """Standard deviation of the noise that actors add to actions scaled to -1..1."""
    target_noise: NonNegativeFloat = 0.2
    """Standard deviation of the noise on the target policy's actions, scaled to -1..1."""
    target_noise_clip: PositiveFloat = 0.5
    """Largest absolute value of that noise."""


ALGORITHMS: dict[str, type[Hyperparameters]] = {
    "ppo": PPOConfig,
    "dqn": DQNConfig,
    "impala": IMPALAConfig,
    "sac": SACConfig,
    "td3": TD3Config,
}
"""Settings classes by the name in `algo`, which is also the name of the table of settings."""
