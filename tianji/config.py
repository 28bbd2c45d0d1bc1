"""Settings of a training run: frozen and typed, and checked once when they are made. Inside the package code trusts them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType

from programs import cores
from programs.cli import ConfigError
from tianji import held, references
from tianji.disciplines.auto import Auto, Choice
from tianji.disciplines.discipline import Discipline
from tianji.disciplines.registry import chooser, make_discipline, samples_beside
from tianji.disciplines.sizes import Facts
from tianji.division import actors_by_need, sampling_share
from tianji.env_settings import ActionsConfig, AtariConfig, EnvironmentConfig, NormaliseConfig, SimulatorConfig
from tianji.hyperparameters import ALGORITHMS, DQNConfig, Hyperparameters, IMPALAConfig, PPOConfig, SACConfig, TD3Config
from tianji.settings import Count, Positive, PositiveFloat, Seconds, Settings
from tianji.trunks import forward_flop

__all__ = [
    "ActionsConfig",
    "AtariConfig",
    "DQNConfig",
    "EnvironmentConfig",
    "EvaluationConfig",
    "IMPALAConfig",
    "NetworkConfig",
    "NormaliseConfig",
    "PPOConfig",
    "SACConfig",
    "SimulatorConfig",
    "TD3Config",
    "TrainConfig",
]


class NetworkConfig(Settings):
    """The network that is trained, chosen by its kind.

    ======================  =====================================================================  ==================
    kind                    network                                                                default `hidden`
    ======================  =====================================================================  ==================
    `mlp-separate`          two perceptrons with tanh, one for the policy and one for the value    (64, 64)
    `mlp-shared`            policy and value heads on one trunk with tanh                          (64, 64)
    `mlp-twin`              SAC's policy and two critics of state and action, perceptrons with     (256, 256)
                            ReLU
    `mlp-deterministic`     TD3's policy and two critics, the same                                 (256, 256)
    `mlp-q`                 action values with ReLU or, if `activation` says so, GELU              (256, 256)
    `nature-shared`         policy and value heads on the convolutions of Mnih et al. (2015),      (512,)
                            followed by `hidden` dense layers, all with ReLU; smaller pictures
                            than 36 x 36 have smaller kernels
    `nature-q`              action values on the same trunk                                        (512,)
    `factory`               your own network: see `tianji.algorithms.modules`                      not used
    ======================  =====================================================================  ==================
    """

    # The run's algorithm and environment fill in the kind, and the kind fills in `hidden` and `activation`. So settings in use
    # always hold values, except that a network of a factory has neither layers nor an activation here.
    kind: Literal[
        "auto", "mlp-separate", "mlp-shared", "mlp-q", "mlp-twin", "mlp-deterministic", "nature-shared", "nature-q", "factory"
    ] = cast(Any, UNSET)
    """Kind of network, from the table above. `auto` (default): `factory` if `factory` is set, else one that the algorithm
    trains, with convolutions if observations look like pictures: bytes or bits of [height, width], [height, width, channels]
    or [channels, height, width]."""
    hidden: tuple[Positive, ...] = cast(Any, UNSET)
    """Widths of the hidden layers, in units. Default: the last column of the table above."""
    activation: Literal["tanh", "relu", "gelu"] = cast(Any, UNSET)
    """Activation of the hidden layers. Only `mlp-q` offers a choice, ReLU (default) or GELU. GELU is computed by its tanh
    approximation (Hendrycks & Gimpel, 2016, arXiv 1606.08415)."""
    factory: str | UnsetType = UNSET
    """Your own network, as `module:function`. The function takes `EnvDescription.features` and the number of actions, and
    returns a `torch.nn.Module`. Default: none."""
    dueling: bool = False
    """Whether action values have two streams, one for the value of the state and one for the advantages of the actions (Wang
    et al., 2016, arXiv 1511.06581, equation 9). Each stream has its own last hidden layer. For `mlp-q` and `nature-q`."""
    pixel_scale: PositiveFloat | UnsetType = UNSET
    """Number by which convolutions divide each byte of a picture. For pictures whose bytes are small numbers, give the
    largest. Default: 255."""

    def __post_init__(self) -> None:
        if cast(Any, self.kind) is UNSET or (self.kind == "auto" and self.factory is not UNSET):
            if self.factory is UNSET:
                return  # The run knows the kind.
            msgspec.structs.force_setattr(self, "kind", "factory")
        if self.kind == "auto":
            return  # The environment's observations decide.
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
            raise ValueError("each dueling stream has its own hidden layer: give `hidden` at least one")

    def of(self, algo: str, *, pictures: bool | None) -> NetworkConfig:
        """These settings, with the usual kind for an algorithm unless they name one.

        Parameters
        ----------
        pictures
            whether observations are pictures; None: the environment will tell.
        """
        if cast(Any, self.kind) not in (UNSET, "auto"):
            return self
        kinds = ALGORITHMS.get(algo, PPOConfig).networks
        kind = "auto" if pictures is None else next((kind for kind in kinds if kind.startswith("nature") == pictures), None)
        if kind is None:
            raise ValueError(f"algo {algo} trains perceptrons, and observations are pictures: use algo ppo, dqn or impala")
        return msgspec.structs.replace(self, kind=cast(Any, kind))

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
    "mlp-twin": ((256, 256), ("relu",)),
    "mlp-deterministic": ((256, 256), ("relu",)),
    "nature-shared": ((512,), ("relu",)),
    "nature-q": ((512,), ("relu",)),
}
"""Default hidden layers of each kind, and the activations that it can have (the default first)."""


class EvaluationConfig(Settings):
    """Evaluation beside training, by a process of its own."""

    every_steps: Positive | None = None
    """Environment steps between two evaluations of the newest policy; snapshots are taken as often. None: there is none."""
    episodes: Positive = 10
    """Greedy episodes of each evaluation, the same ones every time."""
    seed: Count = 10_000
    """Seed of the first episode. The others count up from it."""


Precision = Literal["fp32", "bf16"]
CRITICS = ("mlp-twin", "mlp-deterministic")
"""Kinds of network with two critics."""
SLOTS = 4
"""Slots of each actor, unless its discipline needs more."""
PLACEMENTS = ("auto", "apart", "buffer", "actor")
"""Values of `TrainConfig.placement`."""


def _fill(settings: Settings, name: str, default: Callable[[], Any]) -> None:
    """Set a setting that was left out to its default."""
    if getattr(settings, name) is UNSET:
        msgspec.structs.force_setattr(settings, name, default())


class TrainConfig(Settings):
    """All settings of one training run."""

    env: str
    """Environment: an id registered with Gymnasium, or your own as `module:name` (see `tianji.environments.making.make_env`).
    From Python it may be a class, or a function that makes one, also of a script or a notebook."""
    algo: Literal["ppo", "dqn", "impala", "sac", "td3"] = "ppo"
    """Learning algorithm. Its settings are in the table of the same name."""
    seed: Count = 0
    """Seed of all randomness: initial weights, environments, actions and draws from the replay."""
    groups: Positive = 1
    """Number of groups. Each has its own learner, buffer and actors; a Root averages their models."""
    actors: Positive = cast(Any, UNSET)
    """Number of actors in each group. Default: one for each core that may be used, but no more than there are environments;
    on games of Atari that are sampled beside training, no more than sampling needs (`tianji.division`)."""
    envs_per_actor: Positive = cast(Any, UNSET)
    """Number of environments that each actor steps. Default: a group's actors share 8 environments; with DQN,
    SAC and TD3 there is one."""
    buffer: bool = True
    """Whether a buffer stands between the actors and the learner. False connects them directly: the plain synchronous system
    that the suites compare with."""
    batch_chunks: Positive | None = None
    """Number of chunks that a buffer gathers before it passes them on. None: the discipline decides."""
    chunk_slots: Positive = cast(Any, UNSET)
    """Shared-memory slots of each actor, one per chunk: the most chunks that it can have in flight. The discipline decides how
    many of them are in use. Default: 4, or what the discipline needs."""
    send_steps: Positive | None = None
    """Steps of each environment in one chunk, for algorithms with a replay. None: a round is one chunk from every actor."""
    discipline: str | dict[str, bool | int | float | str] = cast(Any, UNSET)
    """Rule for who waits for whom: a name, or a table with `name` and that discipline's options (docs/disciplines.md).
    Default: `strict` for PPO, else `relaxed`."""
    root: bool = False
    """Whether a Root stands between a learner and its actors even with one group."""
    fan_in: Annotated[int, Meta(ge=2)] | None = None
    """Most groups or Roots whose models one Root averages. If there are more, Roots form a tree (docs/groups.md). None: one for
    all."""
    fusion_rounds: Positive = 1
    """Rounds of updates between two pushes of a group's model to the Root."""
    placement: str = "auto"
    """Which roles share a process. `apart`: none do. `buffer`: a group's buffer shares its learner's process. `actor`: the
    first actor shares it too, which pays if sampling pauses while the learner trains. `auto`: the fastest of these."""
    channel: Literal["shm", "ipc"] = "shm"
    """How chunks and weights move on one host: through shared memory (`shm`) or inside ZeroMQ messages (`ipc`)."""
    network: NetworkConfig = NetworkConfig()
    """Network that is trained. Its kind follows from the algorithm and the environment unless it is given."""
    ppo: PPOConfig = PPOConfig()
    """Settings of PPO, used if `algo` is `ppo`."""
    dqn: DQNConfig = DQNConfig()
    """Settings of DQN, used if `algo` is `dqn`."""
    impala: IMPALAConfig = IMPALAConfig()
    """Settings of IMPALA, used if `algo` is `impala`."""
    sac: SACConfig = SACConfig()
    """Settings of SAC, used if `algo` is `sac`."""
    td3: TD3Config = TD3Config()
    """Settings of TD3, used if `algo` is `td3`."""
    actions: ActionsConfig = ActionsConfig()
    """The policy over actions that are numbers."""
    normalise: NormaliseConfig = NormaliseConfig()
    """Normalisation of observations and rewards."""
    environment: EnvironmentConfig = EnvironmentConfig()
    """Arguments of the environment, wrappers, and how its observations are prepared."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """Evaluation beside training."""
    atari: AtariConfig = AtariConfig()
    """Wrappers of Atari games."""
    simulator: SimulatorConfig | None = None
    """Delays and pictures added to the environment. None: it is used as it is."""
    update_seconds: Seconds = 0.0
    """Least duration of a round of updates, in seconds. The learner waits for what is missing and uses no CPU, as if an
    accelerator of this speed computed the round. 0: it takes the time that it takes."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Device on which the learner computes updates."""
    updater: Literal["auto", "numpy", "torch"] = "auto"
    """Code that computes updates: hand-derived NumPy gradients (fastest on a CPU) or torch autograd (any device and network).
    `auto`: NumPy for multilayer perceptrons on a CPU, else torch."""
    precision: Precision = "fp32"
    """Format of products in updates. `bf16` (torch): operands are rounded to bfloat16; weights, sums and the loss stay float32.
    It pays on processors with AMX or AVX-512 BF16, and on GPUs."""
    learner_threads: Positive | None = None
    """Threads that torch uses for updates. None: with pictures, what learning needs of the cores (`tianji.division`), or all of
    them where actors wait; else the learners share the cores that actors leave free, at least one each. Perceptrons on a CPU
    use one thread, and a helper for wide layers where two cores may be used; 1: no helper. All other roles use one thread,
    because more make small matrices slower."""
    horizon_steps: Positive = cast(Any, UNSET)
    """End of learning-rate schedules, in environment steps summed over actors. Default: `stop_steps`."""
    stop_steps: Positive = 1_000_000
    """Budget of the run, in environment steps summed over actors. Strict groups get equal shares. Other groups share what is
    left, and may exceed the budget by a few rounds."""
    stop_seconds: PositiveFloat | None = None
    """Budget of the run, in seconds of wall-clock time. None: no limit."""
    stop_return: float | None = None
    """Target: the run stops when the mean return of the last 100 finished episodes reaches this. None: no target."""
    snapshot_every_steps: Positive = 10_000
    """Environment steps, summed over actors, between two snapshots of the policy."""
    checkpoint_seconds: PositiveFloat | None = 10.0
    """Minimum seconds between a learner's checkpoints, stretched so that saving costs at most 1 % of the time. None: none are
    saved."""
    checkpoint_replay: bool = True
    """Whether checkpoints contain the replay. If not, a resumed learner fills a new replay before it trains on."""
    restarts: Count = 3
    """How often each actor or buffer that died is restarted, and how often all roles are after a learner or the Root died.
    0: the first death ends the run."""
    not_finite: Literal["end", "drop"] = "end"
    """Reaction to an observation or reward that is not finite (NaN, or beyond float32). `end`: the run ends with an error that
    says where. `drop`: the fragment is dropped and counted, and the actor resets its environments; ten in a row end the
    run."""
    silence_seconds: PositiveFloat | None = 120.0
    """Seconds after which a process that does not answer is reported, for instance because an environment hangs, and after
    which a constructor or a first reset ends the run. None: no check."""
    replace_silent: bool = True
    """Whether an actor or a buffer that does not answer is then killed and restarted, like one that died."""
    launcher: Literal["local", "ray"] = "local"
    """Where role processes run: on this host, or on a running Ray cluster."""
    ray_address: str = "auto"
    """Address of the Ray cluster, as `ray.init` takes it. `auto`: the cluster of this host."""
    ray_placement: Literal["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"] = "PACK"
    """Ray's placement strategy for the groups or, with one group, for its processes."""
    encrypt: bool = True
    """Whether traffic between hosts is encrypted, with keys made for the run. False: anyone on the network can read and change
    it."""
    loggers: tuple[str, ...] = ("tensorboard", "csv")
    """Keepers of a run's curves, of those with a folder: `tensorboard`, `csv` (`progress.csv`), `wandb`, and those of other
    packages."""
    world: Literal["real", "lockstep"] = "real"
    """`real`: processes run in parallel. `lockstep`: all roles take turns in one process, and runs repeat bit for bit."""

    def __post_init__(self) -> None:
        if callable(self.env):
            msgspec.structs.force_setattr(self, "env", held.hold(self.env))
        if not isinstance(self.env, str):
            raise TypeError(
                f"env is {references.kind_of(self.env)}: give a registered id, module:name, or a class or a function that "
                "makes one"
            )
        if held.is_held(self.env) and self.launcher == "ray":
            raise ValueError(
                f"env {self.env} is an object, which stays on this host: with launcher 'ray' name it, as module:name"
            )
        self._check_types()
        self._fill_in()
        if self.updater == "numpy" and self.device == "cuda":
            raise ValueError("updater 'numpy' runs on the cpu only; use updater 'torch' with device 'cuda'")
        msgspec.structs.force_setattr(self, "actions", self.hyperparameters.form(self.algo, self.actions))
        self.hyperparameters.check_network(self.algo, self.network.kind)
        if (self.normalise.observations or self.normalise.rewards) and self.hyperparameters.replays:
            raise ValueError(f"normalise is for algorithms that train on each chunk in one round, not {self.algo}")
        self.hyperparameters.check_chunks(self.algo, self.actors, self.envs_per_actor, self.send_steps)
        self._check_discipline()
        if self.placement not in PLACEMENTS:
            was = "how Ray places processes is now `ray_placement`; " if self.placement.isupper() else ""
            raise ValueError(f"placement {self.placement!r}: {was}here it is {' or '.join(PLACEMENTS)}")
        if self.launcher == "ray" and self.world == "lockstep":
            raise ValueError("world 'lockstep' is one process; launcher 'ray' is for world 'real'")
        if self.round_steps * self.groups > self.stop_steps:
            raise ValueError(
                f"stop_steps {self.stop_steps} is less than one update round of {self.round_steps * self.groups} steps; "
                "raise it"
            )

    def _check_types(self) -> None:
        """Check what Python code gave, as `convert` checks plain data. Raises ValueError."""
        for name, kind in _types().items():
            try:
                if (value := getattr(self, name)) is not UNSET:
                    msgspec.convert(value, kind)
            except msgspec.ValidationError as error:
                raise ValueError(f"{name}: {error}") from None

    def _fill_in(self) -> None:
        """Give every setting that was left out its default, which follows from others. These rules stand nowhere else."""
        fill, algorithm = functools.partial(_fill, self), ALGORITHMS.get(self.algo, PPOConfig)
        # Only the games of Atari are known by their name to show pictures.
        pictures = True if self.env.startswith("ALE/") else None
        msgspec.structs.force_setattr(self, "network", self.network.of(self.algo, pictures=pictures))
        fill("actors", lambda: self._actors_by_need(algorithm.environments))
        fill("envs_per_actor", lambda: max(1, algorithm.environments // self.actors))
        fill("horizon_steps", lambda: self.stop_steps)
        if (every := self.evaluation.every_steps) is not None and every < self.snapshot_every_steps:
            msgspec.structs.force_setattr(self, "snapshot_every_steps", every)

    def _actors_by_need(self, environments: int) -> int:
        chosen = self.hyperparameters.discipline if cast(Any, self.discipline) is UNSET else self.discipline
        name = chosen if isinstance(chosen, str) else str(chosen.get("name"))
        share = self.sampling_share if samples_beside(name) else None
        return actors_by_need(1.0 if share is None else share, cores.usable(), environments)

    @property
    def sampling_share(self) -> float | None:
        """Share of sampling in the work of PPO or IMPALA on a game of Atari, on CPUs; None: it is not known before the run."""
        if not self.env.startswith("ALE/") or self.device != "cpu" or self.network.kind != "nature-shared":
            return None
        side = self.atari.screen
        return sampling_share(forward_flop([(self.atari.stack, side, side)], self.network.hidden), self.hyperparameters.reuse)

    def _check_discipline(self) -> None:
        chosen = self.discipline
        if cast(Any, chosen) is UNSET:
            chosen = {"name": self.hyperparameters.discipline}
        elif isinstance(chosen, str):
            chosen = {"name": chosen}
        elif not isinstance(chosen.get("name"), str):
            raise ValueError("discipline needs a name, for instance discipline.name=relaxed")
        msgspec.structs.force_setattr(self, "discipline", chosen)
        try:
            _fill(self, "chunk_slots", lambda: max(SLOTS, make_discipline(chosen, self._facts(SLOTS)).enough_slots))
            self.rule  # noqa: B018 (whether it can be made)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        if self.auto is not None and (self.groups > 1 or self.launcher != "local"):
            raise ValueError(
                "discipline 'auto' is for one group and launcher 'local'; name the discipline, for instance "
                "discipline.name=relaxed"
            )

    @property
    def rule(self) -> Discipline:
        """The discipline of one group. Of `auto`, it is the one under which the run begins."""
        assert isinstance(self.discipline, dict)
        return make_discipline(self.discipline, self.facts)

    @property
    def auto(self) -> Auto | None:
        """What chooses the discipline while the run goes on; None: it is given."""
        assert isinstance(self.discipline, dict)
        return chooser(self.discipline, self.facts)

    def under(self, choice: Choice) -> TrainConfig:
        """This configuration under the discipline that it chose."""
        return msgspec.structs.replace(self, discipline={"name": choice.discipline})

    @property
    def facts(self) -> Facts:
        """Sizes of one group, for its discipline."""
        return self._facts(self.chunk_slots)

    def _facts(self, slots: int) -> Facts:
        own = self.hyperparameters
        return Facts(
            producers=self.actors,
            slots=slots,
            round_chunks=self.round_chunks,
            chunk_samples=self.chunk_samples,
            reuse=self.reuse,
            replays=own.replays,
            corrects=own.corrects,
            one_step=own.one_step,
            gathered=self.batch_chunks if self.buffer else 1,
            free_samples=own.free_samples,
            least_bound=own.least_bound,
        )

    @property
    def with_learner(self) -> tuple[str, ...]:
        """Names of the roles that live in the process of their group's learner, as `{kind}{index}`."""
        # torch may use several threads in a learner's process, and its sums then round otherwise than an actor's.
        alternate = self.rule.alternates and self.network.kind in ("auto", "mlp-separate", "mlp-shared", *CRITICS)
        chosen = self.placement if self.placement != "auto" else "actor" if alternate else "buffer"
        return {"apart": (), "buffer": ("buffer0",), "actor": ("buffer0", "actor0")}[chosen]

    @property
    def hyperparameters(self) -> Hyperparameters:
        """Settings of the algorithm that `algo` names."""
        found: Hyperparameters = getattr(self, self.algo)
        return found

    @property
    def environments(self) -> int:
        """Number of environments, over all groups and actors."""
        return self.groups * self.actors * self.envs_per_actor

    @property
    def chunk_samples(self) -> int:
        """Environment steps of one chunk."""
        return self.fragment_steps * self.envs_per_actor

    @property
    def round_chunks(self) -> int:
        """Chunks in one update round of a group: one from each actor or, with a replay, `train_every_steps` worth."""
        return self.hyperparameters.round_chunks(self.actors, self.chunk_samples)

    @property
    def round_steps(self) -> int:
        """Environment steps of one update round of a group."""
        return self.round_chunks * self.chunk_samples

    @property
    def fragment_steps(self) -> int:
        """Steps of each environment in one chunk (T)."""
        return self.hyperparameters.fragment_steps(self.actors * self.envs_per_actor, self.send_steps)

    @property
    def round_updates(self) -> int:
        """Optimizer steps of one round."""
        return self.hyperparameters.round_updates(self.round_steps)

    @property
    def reuse(self) -> float:
        """Samples per insert that a round aims at: rows trained on per environment step."""
        return self.hyperparameters.reuse


@functools.cache
def _types() -> dict[str, Any]:
    """Types of all settings, by name."""
    return {field.name: field.type for field in msgspec.structs.fields(TrainConfig)}
