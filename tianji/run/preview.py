"""What a run would be, in lines, without starting or writing anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tianji.config import NetworkConfig, SimulatorConfig, TrainConfig
from tianji.environments.description import Branches, EnvDescription, Features
from tianji.hyperparameters import ALGORITHMS
from tianji.settings import Settings
from tianji.topology import RoleSpec, lay_out, parameters, seats


def preview(config: TrainConfig, description: EnvDescription) -> Iterator[str]:
    """Lines on the network, on settings that differ from their defaults, and on processes and their places.

    Parameters
    ----------
    config, description
        settings that `tianji.run.training.check` accepts, and what it returns.
    """
    yield first_line(config, description)
    yield f"a round: {config.round_steps:,} environment steps and {config.round_updates:,} updates of each group"
    different = list(_differences(config))
    yield "settings that differ from their defaults:" if different else "every setting has its default"
    yield from (f"  {line}" for line in different)
    roles = lay_out(config)
    places = seats(config, roles)
    if config.world == "lockstep":
        yield f"processes: 1 on this host; all {len(roles)} roles take turns in it"
        return
    where = "on this host" if config.launcher == "local" else f"on the Ray cluster at {config.ray_address}"
    yield f"processes: {len(places)} {where}"
    at = {} if config.launcher == "local" else _bundles(config, roles)
    for there in places:
        yield f"  {there[0].name}: {', '.join(role.name for role in there)}{at.get(there[0].name, '')}"


def first_line(config: TrainConfig, description: EnvDescription) -> str:
    """The environment's sizes and the network."""
    sees = f"features {_said(description.features)}, actions {description.actions}"
    network = config.network.factory if config.network.kind == "factory" else config.network.kind
    return f"environment {config.env}: {sees}; network {network} with {parameters(config, description):,} parameters"


def _said(features: Features) -> str:
    if not isinstance(features, Branches):
        return str(features)
    return f"{', '.join(map(str, features.images))} and a vector of {features.vector}"


def _differences(config: TrainConfig) -> Iterator[str]:
    """Each setting that is not its default, and the default; tables of other algorithms are left out."""
    own = config.network.kind == "factory"
    network = config.network if own else NetworkConfig(kind=config.network.kind)
    simulator = None if config.simulator is None else SimulatorConfig()
    now, usual = _flat(config), _flat(TrainConfig(env=config.env, algo=config.algo, network=network, simulator=simulator))
    # The algorithm itself has a default, too.
    usual["algo"] = next(field.default for field in msgspec.structs.fields(TrainConfig) if field.name == "algo")
    for name, value in now.items():
        table = name.partition(".")[0]
        if value != usual.get(name) and (table == config.algo or table not in ALGORITHMS):
            yield f"{name} = {value} ({f'default {usual[name]}' if name in usual else 'no default'})"


def _flat(settings: Settings) -> dict[str, Any]:
    """Values by dotted key, as `--set` takes them."""
    found: dict[str, Any] = {}
    for name in settings.__struct_fields__:
        value = getattr(settings, name)
        if value is msgspec.UNSET:
            continue
        below = _flat(value) if isinstance(value, Settings) else value if isinstance(value, dict) else None
        found |= {name: value} if below is None else {f"{name}.{key}": one for key, one in below.items()}
    return found


def _bundles(config: TrainConfig, roles: Sequence[RoleSpec]) -> dict[str, str]:
    """Where Ray would place each process: its bundle, and what that reserves."""
    from tianji.launch.ray import Placement

    placement = Placement.of_run(config, roles)
    return {
        name: f" (bundle {bundle} of {len(placement.bundles)}, {placement.strategy}, {_resources(placement.bundles[bundle])})"
        for name, bundle in placement.of.items()
    }


def _resources(bundle: dict[str, float]) -> str:
    return " and ".join(f"{number:g} {kind}" for kind, number in bundle.items())
