"""What a training run is told: frozen, typed and checked once, at the edge.

Inside the package code trusts these types. `ConfigError` carries the one line that a user is shown.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import msgspec
from msgspec import Meta, Struct

T = TypeVar("T")

Positive = Annotated[int, Meta(ge=1)]
Count = Annotated[int, Meta(ge=0)]
PositiveFloat = Annotated[float, Meta(gt=0)]
NonNegativeFloat = Annotated[float, Meta(ge=0)]
Fraction = Annotated[float, Meta(ge=0, le=1)]


class ConfigError(Exception):
    """Unusable arguments or input; its text is one line that says what is wrong and what would be right."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all configuration: immutable, keyword-only, and an unknown key is an error."""


class NetworkConfig(Settings):
    """Multilayer perceptrons.

    `mlp-separate` is a policy and a value with tanh that share nothing (PPO); `mlp-q` is action values with ReLU (DQN).
    """

    kind: Literal["mlp-separate", "mlp-q"] = "mlp-separate"
    hidden: tuple[Positive, ...] = (64, 64)
    activation: Literal["tanh", "relu"] = "tanh"

    def __post_init__(self) -> None:
        wanted = {"mlp-separate": "tanh", "mlp-q": "relu"}[self.kind]
        if self.activation != wanted:
            raise ValueError(f"network {self.kind} has activation {wanted!r}, not {self.activation!r}")


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
    gamma: Fraction = 0.99
    gae_lambda: Fraction = 0.95
    value_coefficient: NonNegativeFloat = 0.5
    entropy_coefficient: NonNegativeFloat = 0.0
    max_grad_norm: PositiveFloat = 0.5
    adam_epsilon: PositiveFloat = 1e-5
    normalise_advantages: bool = True
    """Subtract the mean and divide by the (population) standard deviation of each minibatch."""


class DQNConfig(Settings):
    """Deep Q-learning (Mnih et al., 2015) with uniform replay, a hard target copy and Huber loss."""

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


NETWORK_OF = {"ppo": "mlp-separate", "dqn": "mlp-q"}
"""The kind of network that each algorithm trains."""


class TrainConfig(Settings):
    """One training run of TianJi, complete."""

    env: str
    algo: Literal["ppo", "dqn"] = "ppo"
    seed: Count = 0
    actors: Positive = 2
    envs_per_actor: Positive = 4
    buffer: bool = True
    """False joins the actors to the learner directly: the plain synchronous system that the suite compares with."""
    chunk_slots: Positive = 4
    """Shared-memory slots of each actor: the most chunks it can have in flight. Off policy this is the bound on how far
    sampling may run ahead of training; 1 makes each wait for the other."""
    channel: Literal["shm", "ipc"] = "shm"
    """How chunks and weights move on one host: in shared memory, or inside ZeroMQ messages."""
    network: NetworkConfig = NetworkConfig()
    ppo: PPOConfig = PPOConfig()
    dqn: DQNConfig = DQNConfig()
    device: Literal["cpu", "cuda"] = "cpu"
    kernel: Literal["auto", "numpy", "torch"] = "auto"
    """Who computes updates: hand-derived NumPy gradients (fastest on a CPU) or torch autograd (any device)."""
    horizon_steps: Positive = 1_000_000
    """What schedules count towards, in environment steps summed over actors."""
    stop_steps: Positive = 1_000_000
    stop_seconds: PositiveFloat | None = None
    stop_return: float | None = None
    """Stop when the mean return of the last 100 finished episodes reaches this."""
    snapshot_every_steps: Positive = 10_000
    world: Literal["real", "lockstep"] = "real"

    def __post_init__(self) -> None:
        if self.kernel == "numpy" and self.device == "cuda":
            raise ValueError("kernel 'numpy' runs on the cpu only; use kernel 'torch' with device 'cuda'")
        if self.network.kind != NETWORK_OF[self.algo]:
            raise ValueError(f"algo {self.algo} trains a network of kind {NETWORK_OF[self.algo]!r}, not {self.network.kind!r}")
        if self.algo == "dqn" and self.dqn.train_every_steps % self.environments:
            raise ValueError(
                f"dqn.train_every_steps {self.dqn.train_every_steps} must be a multiple of the {self.environments} environments"
            )
        if self.round_steps > self.stop_steps:
            raise ValueError(
                f"stop_steps {self.stop_steps} is less than one update round of {self.round_steps} steps; raise it"
            )

    @property
    def environments(self) -> int:
        """Environments over all actors."""
        return self.actors * self.envs_per_actor

    @property
    def round_steps(self) -> int:
        """Environment steps of one update round, over all actors."""
        return self.environments * self.fragment_steps

    @property
    def fragment_steps(self) -> int:
        """Steps of each environment in one chunk (T)."""
        if self.algo == "dqn":
            return max(1, self.dqn.train_every_steps // self.environments)
        return self.ppo.rollout_steps

    @property
    def on_policy(self) -> bool:
        """Whether a fragment may only be trained on by the version that produced it."""
        return self.algo == "ppo"


def convert(data: Mapping[str, Any], kind: type[T], where: str) -> T:
    """Check plain data against a settings type.

    Raises
    ------
    ConfigError
        naming the key, what is wrong with it and, for an unknown key, the nearest known one.
    """
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {_explain(str(error), kind)}") from error


def _explain(message: str, kind: type) -> str:
    """Turn msgspec's `Object contains unknown field `x` - at `$.ppo`` into a line with a suggestion."""
    text = message.replace("Object contains unknown field", "unknown key").replace(
        "Object missing required field", "missing key"
    )
    text = text.replace(" - at `$.", " in `").replace(" - at `$", " at `")
    if message.startswith("Invalid enum value"):
        return f"{text}; known: {', '.join(map(str, _choices(kind, message)))}"
    if "unknown key" in text:
        unknown = message.split("`")[1]
        known = sorted(_keys(kind))
        near = difflib.get_close_matches(unknown, known, n=1)
        text += f"; did you mean `{near[0]}`?" if near else f"; known keys: {', '.join(known)}"
    return text


def _choices(kind: Any, message: str) -> Iterable[Any]:
    """Values that the field named in a message (`... at `$.a.b``) may have."""
    for name in message.rpartition("$.")[2].rstrip("`").split("."):
        kind = next(field.type for field in msgspec.structs.fields(_table(kind)) if field.name == name)
    return get_args(kind)


def _table(kind: Any) -> Any:
    """The settings type of a field, also where it may be absent (`X | None`); the type itself elsewhere."""
    tables = [part for part in get_args(kind) if isinstance(part, type) and issubclass(part, Struct)]
    return tables[0] if tables else kind


def _keys(kind: type) -> Iterable[str]:
    for field in msgspec.structs.fields(kind):
        yield field.name
        table = _table(field.type)
        if isinstance(table, type) and issubclass(table, Struct):
            yield from _keys(table)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file, or raise `ConfigError` with the line that is wrong."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a TOML file: {error}") from None


def assign(data: dict[str, Any], assignment: str) -> None:
    """Apply one `--set a.b=value` to nested plain data; the value is read as TOML, else taken as text."""
    key, equals, text = assignment.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {assignment}: write it as key=value, for instance ppo.learning_rate=3e-4")
    try:
        value: Any = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    *path, last = key.strip().split(".")
    for name in path:
        data = data.setdefault(name, {})
        if not isinstance(data, dict):
            raise ConfigError(f"--set {assignment}: `{name}` holds a value, not a table")
    data[last] = value
