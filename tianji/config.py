"""What a training run is told: frozen, typed and checked once, at the edge. Inside the package code trusts these types."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType

from programs.cli import ConfigError
from tianji import references
from tianji.settings import Count, Fraction, NonNegativeFloat, Positive, PositiveFloat, Seconds, Settings


class NetworkConfig(Settings):
    """A network, by its kind.

    ======================  =====================================================================  ==================
    kind                    what it is                                                             hidden, by default
    ======================  =====================================================================  ==================
    `mlp-separate`          a policy and a value with tanh that share nothing                      (64, 64)
    `mlp-shared`            a policy and a value as two heads on one trunk with tanh               (64, 64)
    `mlp-q`                 action values with ReLU, or with GELU where `activation` says so       (256, 256)
    `nature-shared`         a policy and a value as two heads on the convolutions of Mnih et al.   (512,)
                            (2015) and `hidden` dense layers, all with ReLU
    `nature-q`              action values on the same                                              (512,)
    `factory`               what `factory` makes: see `tianji.algorithms.modules`                  its own affair
    ======================  =====================================================================  ==================
    """

    # Left out, the kind is `factory` where there is one, else `mlp-separate`; the next two are filled in by the kind. So a
    # settings object in use always holds values, but that a factory's network knows neither layers nor an activation.
    kind: Literal["mlp-separate", "mlp-shared", "mlp-q", "nature-shared", "nature-q", "factory"] = cast(Any, UNSET)
    hidden: tuple[Positive, ...] = cast(Any, UNSET)
    activation: Literal["tanh", "relu", "gelu"] = cast(Any, UNSET)
    """GELU, which only `mlp-q` has a choice of, is its tanh approximation (Hendrycks & Gimpel, 2016, arXiv 1606.08415)."""
    factory: str | UnsetType = UNSET
    """`module:function`, which is called with `EnvDescription.features` and the number of actions and returns the network,
    a `torch.nn.Module`."""
    dueling: bool = False
    """Action values from streams of their own for the state's value and the actions' advantages (Wang et al., 2016, arXiv
    1511.06581, equation 9); each has a last hidden layer of its own."""

    def __post_init__(self) -> None:
        if cast(Any, self.kind) is UNSET:
            msgspec.structs.force_setattr(self, "kind", "mlp-separate" if self.factory is UNSET else "factory")
        if self.kind == "factory":
            self._check_factory()
            return
        if self.factory is not UNSET:
            raise ValueError(f"network.factory {self.factory} is for kind 'factory', not {self.kind!r}")
        hidden, activations = _NETWORKS[self.kind]
        for name, default in (("hidden", hidden), ("activation", activations[0])):
            if getattr(self, name) is UNSET:
                msgspec.structs.force_setattr(self, name, default)
        if self.activation not in activations:
            known = " or ".join(map(repr, activations))
            raise ValueError(f"network {self.kind} has activation {known}, not {self.activation!r}")
        if self.dueling and not self.kind.endswith("-q"):
            raise ValueError(f"network {self.kind} has no action values: dueling is for mlp-q and nature-q")
        if self.dueling and not self.hidden:
            raise ValueError("dueling streams have a hidden layer of their own: give `hidden` at least one")

    def _check_factory(self) -> None:
        if self.factory is UNSET:
            raise ValueError("network kind 'factory' needs network.factory, for instance my_module:make")
        try:
            references.split(self.factory)
        except ValueError as error:
            raise ValueError(f"network.factory {self.factory}: {error}") from None
        for name in ("hidden", "activation", "dueling"):
            if getattr(self, name) not in (UNSET, False):
                raise ValueError(f"network.{name} has no meaning for a network of network.factory {self.factory}: leave it out")


_NETWORKS = {
    "mlp-separate": ((64, 64), ("tanh",)),
    "mlp-shared": ((64, 64), ("tanh",)),
    "mlp-q": ((256, 256), ("relu", "gelu")),
    "nature-shared": ((512,), ("relu",)),
    "nature-q": ((512,), ("relu",)),
}
"""Of each kind: hidden layers where none are given, and the activations that it can have, its default first."""


class AtariConfig(Settings):
    """How Atari 2600 games (environments named `ALE/...`) are played; other environments have no use for it.

    The wrappers of Mnih et al. (2015), as OpenAI Baselines fixed them. Sticky actions are off.
    """

    screen: Literal[84, 42] = 84
    """Side of the grey square that a frame is scaled to, in pixels."""
    stack: Annotated[int, Meta(ge=1, le=16)] = 4
    """Frames that a network sees at a time."""
    frame_skip: Positive = 4
    """Frames of the game for which an action is repeated: one step of the environment. The last two are pooled."""
    noop_max: Count = 30
    """A game begins after 1 to so many no-ops; 0 turns them off."""
    episodic_life: bool = True
    """A lost life ends an episode for the learner, while the game goes on. Evaluation plays whole games."""
    fire_reset: bool = True
    """An episode begins with FIRE, in games that have it: some wait for it."""
    subtract_background: bool = False
    """An observation is how far each pixel is from its median over random play, threefold: what never moves is black. Small
    screens, on which little changes, are learnt from several times faster so (docs/performance.md)."""
    clip_rewards: bool = True
    """The learner sees the sign of rewards. Returns are reported, and evaluated, unclipped."""


class SimulatorConfig(Settings):
    """Makes any environment stand in for a slow simulator: see `tianji.simulators`."""

    step_seconds: Seconds = 0.0
    """Mean time of a step: a wait, which takes no CPU."""
    reset_seconds: Seconds = 0.0
    """Mean time that a reset takes, beside the step that ended the episode."""
    distribution: Literal["constant", "lognormal", "pareto"] = "constant"
    """Of both times about their means."""
    sigma: Annotated[float, Meta(gt=0, le=4)] | None = None
    """Of the logarithm of a lognormal time."""
    alpha: Annotated[float, Meta(gt=1, le=100)] | None = None
    """Of a Pareto time, which is longer than x with a probability that falls as x^-alpha."""
    spread: Annotated[float, Meta(ge=1, le=1000)] = 1.0
    """The slowest environment's mean times over the fastest's."""
    spread_over: Annotated[int, Meta(ge=2)] = 8
    """Environments from the fastest to the slowest, evenly; the next is as the first: nodes of so many each are alike."""
    picture: Annotated[int, Meta(ge=4, le=1024)] | None = None
    """Side in pixels of the RGB picture that an observation is drawn as; None: it stays what it is."""
    grain: Annotated[int, Meta(ge=0, le=64)] = 0
    """Noise of a camera's sensor, up to this in each byte of a picture: without any, pictures shrink a hundredfold for whoever
    compresses them."""

    def __post_init__(self) -> None:
        for name, wanted in (("sigma", "lognormal"), ("alpha", "pareto")):
            if self.distribution == wanted and getattr(self, name) is None:
                raise ValueError(f"simulator.distribution {wanted!r} needs simulator.{name}, for instance 1.5")
            if self.distribution != wanted and getattr(self, name) is not None:
                raise ValueError(f"simulator.{name} is for distribution {wanted!r}, not {self.distribution!r}")
        if self.grain and self.picture is None:
            raise ValueError("simulator.grain is for pictures: give simulator.picture their side")

    @property
    def waits(self) -> bool:
        """Whether anything takes time."""
        return self.step_seconds > 0 or self.reset_seconds > 0


class PPOConfig(Settings):
    """Proximal policy optimisation (Schulman et al., 2017, arXiv 1707.06347) with generalised advantages."""

    rollout_steps: Positive = 128
    """Steps of each environment in one update round (T)."""
    minibatch_size: Positive = 256
    epochs: Positive = 10
    learning_rate: PositiveFloat = 3e-4
    learning_rate_schedule: Literal["constant", "linear"] = "constant"
    """`linear` falls to zero at `horizon_steps` environment steps, summed over actors."""
    clip: PositiveFloat = 0.2
    value_clip: PositiveFloat | None = None
    """Makes the value error max((V - target)^2, (V_old + clip(V - V_old, -value_clip, value_clip) - target)^2), V_old being
    the value when the chunk was assessed, as in OpenAI Baselines' PPO2: nothing is gained by moving further towards the
    target than that. None: the error is (V - target)^2."""
    gamma: Fraction = 0.99
    gae_lambda: Fraction = 0.95
    value_coefficient: NonNegativeFloat = 0.5
    entropy_coefficient: NonNegativeFloat = 0.0
    max_grad_norm: PositiveFloat = 0.5
    adam_epsilon: PositiveFloat = 1e-5
    normalise_advantages: bool = True
    """Subtract the mean and divide by the (population) standard deviation of each minibatch."""


class IMPALAConfig(Settings):
    """Importance-weighted actor-learners (Espeholt et al., 2018, arXiv 1802.01561): one optimizer step a round."""

    rollout_steps: Positive = 20
    """Steps of each environment in one update round (T)."""
    learning_rate: PositiveFloat = 2e-3
    learning_rate_schedule: Literal["constant", "linear"] = "constant"
    """`linear` falls to zero at `horizon_steps` environment steps, summed over actors."""
    gamma: Fraction = 0.99
    rho_clip: PositiveFloat = 1.0
    """Bound of the importance weights of temporal differences: which policy's value is learnt (rho-bar)."""
    c_clip: PositiveFloat = 1.0
    """Bound of the importance weights by which a difference reaches back: how fast it is learnt (c-bar)."""
    vtrace_lambda: Fraction = 1.0
    value_coefficient: NonNegativeFloat = 0.5
    """Of the mean squared error."""
    entropy_coefficient: NonNegativeFloat = 0.01
    max_grad_norm: PositiveFloat = 40.0
    adam_epsilon: PositiveFloat = 0.01
    """Large, as the paper's for RMSProp is: where gradients are small, steps are too, and a policy that is good stays so."""


class DQNConfig(Settings):
    """Deep Q-learning (Mnih et al., 2015) with uniform replay, a hard target copy and Huber loss."""

    double: bool = False
    """The network chooses the action by which its target network values the next observation (van Hasselt et al., 2016)."""

    train_every_steps: Positive = 256
    """Environment steps, summed over actors, between two rounds of updates."""
    updates: Positive = 128
    """Optimizer steps of one round."""
    batch_size: Positive = 64
    replay_capacity: Positive = 100_000
    learning_starts: Count = 1000
    """No updates before so many environment steps are in the replay."""
    target_every_steps: Positive = 10
    """Environment steps between two copies to the target network. A round of updates follows a fragment of steps, so a
    copy that falls due within a fragment is made before the round, and the target stays put during it."""
    learning_rate: PositiveFloat = 2.3e-3
    gamma: Fraction = 0.99
    epsilon_start: Fraction = 1.0
    epsilon_end: Fraction = 0.04
    epsilon_steps: Positive = 8000
    """Environment steps, summed over actors, over which epsilon falls linearly."""
    huber_delta: PositiveFloat = 1.0
    max_grad_norm: PositiveFloat = 10.0
    adam_epsilon: PositiveFloat = 1e-8


NETWORKS_OF = {
    "ppo": ("mlp-separate", "mlp-shared", "nature-shared", "factory"),
    "impala": ("mlp-separate", "mlp-shared", "nature-shared", "factory"),
    "dqn": ("mlp-q", "nature-q", "factory"),
}
"""The kinds of network that each algorithm can train."""


MOST_LAG_ROUNDS = 16
"""Rounds of updates that a chunk's policy may be behind the learner's at most, where measured speeds set the bound."""
LEAST_LAG_ROUNDS = {"impala": 8}
"""That a measured bound is at least: a round of IMPALA is one optimizer step, and short beside what delivery takes."""


class TrainConfig(Settings):
    """One training run of TianJi, complete."""

    renamed: ClassVar[dict[str, str]] = {
        "lag_bound": "is now `lag_rounds`, in rounds of updates instead of optimizer steps",
    }
    """Keys of earlier versions, and what became of each."""

    env: str
    """An id that is registered with Gymnasium, or `module:name` of an environment of one's own (`tianji.envs.make`)."""
    algo: Literal["ppo", "dqn", "impala"] = "ppo"
    seed: Count = 0
    groups: Positive = 1
    """Learners with a buffer and actors of their own each; a Root averages their models."""
    actors: Positive = 2
    """Of each group."""
    envs_per_actor: Positive = 4
    buffer: bool = True
    """False joins the actors to the learner directly: the plain synchronous system that the suite compares with."""
    batch_chunks: Positive | None = None
    """Chunks that a buffer gathers before it passes them on. None: a round's on strict PPO, which needs them all; else 1."""
    chunk_slots: Positive = 4
    """Shared-memory slots of each actor: the most chunks it can have in flight. How many of them are in use, the balance
    decides."""
    send_steps: Positive | None = None
    """Steps of each environment in one chunk. None: as many as make a round with one chunk of every actor. DQN only."""
    discipline: Literal["strict", "relaxed"] = "strict"
    """PPO only. `strict`: a round is trained on by the policy that made it, and nobody samples meanwhile. `relaxed`: actors
    sample on, within the lag bound, and what is stale is corrected for."""
    balance: Literal["two-sided", "one-sided", "off"] = "two-sided"
    """Who waits for whom, off policy and on relaxed PPO. `two-sided`: the learner for samples, and actors for the learner;
    `one-sided`: actors wait only for memory; `off`: with a replay, the learner waits for nothing either."""
    lag_rounds: Count | Literal["auto", "none"] = "auto"
    """How many rounds of updates a chunk's policy may be behind the learner's. `auto`: on relaxed PPO and IMPALA as many as
    measured speeds ask for, at most 16; 0 on strict PPO; none on DQN and where the balance is off."""
    beyond_bound: Literal["evict", "correct"] = "evict"
    """What becomes of a chunk beyond the bound, on relaxed PPO and IMPALA: dropped, or trained on with its importance weights
    truncated as all others have them; counted either way."""
    root: bool = False
    """Puts a Root between a learner and its actors even where there is one group only."""
    fusion_rounds: Positive = 1
    """Rounds of updates between two pushes of a group's model to the Root."""
    channel: Literal["shm", "ipc"] = "shm"
    """How chunks and weights move on one host: in shared memory, or inside ZeroMQ messages."""
    network: NetworkConfig = NetworkConfig()
    ppo: PPOConfig = PPOConfig()
    dqn: DQNConfig = DQNConfig()
    impala: IMPALAConfig = IMPALAConfig()
    atari: AtariConfig = AtariConfig()
    simulator: SimulatorConfig | None = None
    """None: the environment as it is."""
    device: Literal["cpu", "cuda"] = "cpu"
    kernel: Literal["auto", "numpy", "torch"] = "auto"
    """Who computes updates: hand-derived NumPy gradients (fastest on a CPU) or torch autograd (any device)."""
    learner_threads: Positive | None = None
    """Of torch, where it computes updates. None: the cores that actors leave free, shared by the learners, at least one.
    Perceptrons on a CPU, and every other role, have one: more make small matrices slower."""
    horizon_steps: Positive = 1_000_000
    """What schedules count towards, in environment steps summed over actors."""
    stop_steps: Positive = 1_000_000
    """Environment steps, summed over actors. Strict groups have equal shares; others share what is left, and may end a few
    rounds beyond it."""
    stop_seconds: PositiveFloat | None = None
    stop_return: float | None = None
    """Stop when the mean return of the last 100 finished episodes reaches this."""
    snapshot_every_steps: Positive = 10_000
    checkpoint_seconds: PositiveFloat | None = 10.0
    """Seconds between two times that a learner stores its state: at least so many, and as many that storing takes no more
    than a hundredth of the time. None: never."""
    checkpoint_replay: bool = True
    """Whether a replay is stored too. If not, a learner that is resumed fills it anew before it trains on."""
    restarts: Count = 3
    """How often an actor or a buffer that died is started again, each, and all roles after the death of a learner or the Root;
    0: the run ends with the first."""
    launcher: Literal["local", "ray"] = "local"
    """Where role processes live: on this host, or on a Ray cluster that runs."""
    ray_address: str = "auto"
    """Of the cluster, as `ray.init` takes it."""
    placement: Literal["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"] = "PACK"
    """How Ray places a run: groups, or the processes of the only one."""
    encrypt: bool = True
    """Between hosts, with keys made for the run. False: whoever is on the way can read and change what is sent."""
    world: Literal["real", "lockstep"] = "real"

    def __post_init__(self) -> None:
        if self.kernel == "numpy" and self.device == "cuda":
            raise ValueError("kernel 'numpy' runs on the cpu only; use kernel 'torch' with device 'cuda'")
        if self.network.kind not in NETWORKS_OF[self.algo]:
            known = " or ".join(repr(kind) for kind in NETWORKS_OF[self.algo])
            raise ValueError(f"algo {self.algo} trains a network of kind {known}, not {self.network.kind!r}")
        for name, wanted in (("discipline", "ppo"), ("send_steps", "dqn")):
            if getattr(self, name) not in (None, "strict") and self.algo != wanted:
                raise ValueError(f"{name} is for algo {wanted}, not {self.algo}")
        if self.beyond_bound == "correct" and (self.algo == "dqn" or self.on_policy):
            raise ValueError("beyond_bound 'correct' is for relaxed ppo and impala: nothing else corrects")
        if self.algo == "dqn":
            self._check_chunks_of_dqn()
        if self.launcher == "ray" and self.world == "lockstep":
            raise ValueError("world 'lockstep' is one process; launcher 'ray' is for world 'real'")
        if self.round_steps * self.groups > self.stop_steps:
            raise ValueError(
                f"stop_steps {self.stop_steps} is less than one update round of {self.round_steps * self.groups} steps; "
                "raise it"
            )

    def _check_chunks_of_dqn(self) -> None:
        together = self.actors * self.envs_per_actor
        every, capacity = self.dqn.train_every_steps, self.dqn.replay_capacity
        if capacity < 2 * self.fragment_steps * together:
            raise ValueError(
                f"dqn.replay_capacity {capacity} holds less than two chunks of each of {together} environments; raise it to "
                f"{2 * self.fragment_steps * together} or more"
            )
        if every % together:
            raise ValueError(f"dqn.train_every_steps {every} must be a multiple of the {together} environments of a group")
        if every % (self.fragment_steps * self.envs_per_actor):
            raise ValueError(
                f"dqn.train_every_steps {every} must be a multiple of a chunk's {self.fragment_steps * self.envs_per_actor} "
                "steps (send_steps x envs_per_actor)"
            )

    def check_chunks_under_way(self) -> None:
        """Refuse what can wait for ever: a round or a batch that the slots of all actors need not be able to hold.

        See docs/balance.md. Not part of making a configuration: what was stored can be read.

        Raises
        ------
        ConfigError
            and says what would be enough.
        """
        slots, held, gathered = self.actors * self.chunk_slots, self.round_chunks, self.gathered_chunks
        if self.on_policy:
            if gathered not in (1, self.actors):
                raise ConfigError(
                    f"batch_chunks {gathered}: strict ppo passes chunks on one by one, or a round of all {self.actors} "
                    "actors at once; leave it out"
                )
            return
        if self.algo != "dqn" and slots == held and held % gathered == 0:
            # Everything moves in whole batches, and every slot is in the round.
            return
        if self.algo == "dqn" and self.balance != "two-sided":
            # Chunks go into a replay as they come, and credit is not withheld: slots hold no round.
            held = 1
        least = held + gathered - 1
        if slots < least:
            raise ConfigError(
                f"chunk_slots {self.chunk_slots}: {self.actors} actors have {slots} slots, and {least} chunks are under way "
                f"in a round; raise it to {-(-least // self.actors)} or more"
            )

    @property
    def gathered_chunks(self) -> int:
        """Chunks in a message to the learner: of a buffer `batch_chunks`, by default a round on strict PPO, else one."""
        if not self.buffer:
            return 1
        return self.batch_chunks or (self.actors if self.on_policy else 1)

    @property
    def environments(self) -> int:
        """Environments over all actors."""
        return self.groups * self.actors * self.envs_per_actor

    @property
    def chunk_samples(self) -> int:
        """Environment steps of one chunk."""
        return self.fragment_steps * self.envs_per_actor

    @property
    def round_chunks(self) -> int:
        """Chunks of one update round of a group: one of each actor, or as many as it takes."""
        if self.algo == "dqn":
            return self.dqn.train_every_steps // self.chunk_samples
        return self.actors

    @property
    def round_steps(self) -> int:
        """Environment steps of one update round of a group."""
        return self.round_chunks * self.chunk_samples

    @property
    def fragment_steps(self) -> int:
        """Steps of each environment in one chunk (T)."""
        if self.algo == "dqn":
            return self.send_steps or max(1, self.dqn.train_every_steps // (self.actors * self.envs_per_actor))
        return self.ppo.rollout_steps if self.algo == "ppo" else self.impala.rollout_steps

    @property
    def on_policy(self) -> bool:
        """Whether a fragment may only be trained on by the version that produced it."""
        return self.algo == "ppo" and self.discipline == "strict"

    @property
    def round_updates(self) -> int:
        """Optimizer steps of one round."""
        if self.algo == "dqn":
            return self.dqn.updates
        if self.algo == "ppo":
            return self.ppo.epochs * -(-self.round_steps // self.ppo.minibatch_size)
        return 1

    @property
    def reuse(self) -> float:
        """Rows that a round trains on for each of its environment steps: the target of consumption over production."""
        if self.algo == "dqn":
            return self.dqn.updates * self.dqn.batch_size / self.round_steps
        return float(self.ppo.epochs) if self.algo == "ppo" else 1.0

    @property
    def most_lag_rounds(self) -> int | None:
        """The most that `lag_rounds` allows; None where there is no bound."""
        if isinstance(self.lag_rounds, int):
            return self.lag_rounds
        if self.on_policy:
            return 0
        if self.lag_rounds == "none" or self.balance == "off" or self.algo == "dqn":
            return None
        return MOST_LAG_ROUNDS

    @property
    def lag_is_measured(self) -> bool:
        """Whether the bound in force follows from measured speeds, up to `most_lag_rounds`."""
        return self.lag_rounds == "auto" and not self.on_policy and self.most_lag_rounds is not None
