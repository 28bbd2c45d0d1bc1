"""State of an environment as plain data, so that a stopped run goes on with the same episodes.

Known are Gymnasium's classic control, toy text and MuJoCo, the Arcade Learning Environment, and wrappers of Gymnasium and this
package. Any other environment can give its state itself: `get_state()` returns a dict of numbers, arrays, lists and None, and
`set_state(state)` takes it. No object is pickled, and reading a state runs no code of its own.
"""

from __future__ import annotations

import base64
import importlib
from typing import Any

import gymnasium as gym
import numpy as np

from tianji.faults import Unknown, told

ATTRIBUTES = ("gymnasium.envs.classic_control", "gymnasium.envs.toy_text", "gymnasium.envs.mujoco", "ale_py")
"""Packages whose environments keep their state in plain attributes, besides a simulator's own."""
WRAPPERS = ("gymnasium.wrappers", "tianji.environments")
DERIVED = (
    *("xpos", "xquat", "xmat", "xipos", "ximat", "geom_xpos", "site_xpos", "subtree_com", "cinert", "cvel", "cacc"),
    *("cfrc_int", "cfrc_ext", "qfrc_actuator", "qfrc_constraint", "actuator_force", "qacc", "sensordata"),
)
"""What MuJoCo computes in a step, and environments read before the next one: it belongs to the state before the last one."""


def remember(env: gym.Env) -> list[Any]:
    """State of an environment and its wrappers, outermost first, as data for JSON.

    Raises
    ------
    Unknown
        if it cannot be given. It says by what.
    """
    layers = []
    while isinstance(env, gym.Wrapper):
        if not _from(env, WRAPPERS):
            raise Unknown(f"wrapper {type(env).__name__} cannot give its state")
        layers.append(_attributes(env))
        env = env.env
    return [*layers, _base(env)]


def recall(env: gym.Env, state: list[Any]) -> None:
    """Put an environment, which must have been reset once, into a state that `remember` returned.

    Raises
    ------
    Unknown
        if it is not the state of such an environment.
    """
    try:
        for layer in state[:-1]:
            _set_attributes(env, layer)
            env = env.env
        if isinstance(env, gym.Wrapper):
            raise Unknown("it has more wrappers")
        _set_base(env, state[-1])
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
        raise Unknown(f"{type(error).__name__}: {error}") from None


def plain(value: Any) -> Any:
    """Data for JSON that `restored` turns into an equal value of the same type.

    Raises
    ------
    Unknown
        for anything but None, numbers, arrays, tuples, lists, dicts by text, and random generators.
    """
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
        array = np.asarray(value, order="C")
        data = base64.b64encode(array.tobytes()).decode()
        return {"array" if isinstance(value, np.ndarray) else "number": data, "type": array.dtype.str, "shape": [*array.shape]}
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, tuple | list):
        return {type(value).__name__: [plain(one) for one in value]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: plain(one) for key, one in value.items()}}
    if isinstance(value, np.random.Generator):
        return {"generator": value.bit_generator.state}
    raise Unknown(f"a {type(value).__name__} is no plain data")


def restored(data: Any) -> Any:
    """The value of which `plain` returned this."""
    if not isinstance(data, dict):
        return data
    (kind, content), *_ = data.items()
    if kind in ("array", "number"):
        array = np.frombuffer(base64.b64decode(content), np.dtype(data["type"])).reshape(data["shape"])
        return array.copy() if kind == "array" else array[()]
    if kind == "float":
        return float.fromhex(content)
    if kind in ("tuple", "list"):
        values = [restored(one) for one in content]
        return tuple(values) if kind == "tuple" else values
    if kind == "dict":
        return {key: restored(one) for key, one in content.items()}
    if kind == "generator":
        generator = np.random.Generator(getattr(np.random, _known(content["bit_generator"]))())
        generator.bit_generator.state = content
        return generator
    raise ValueError(f"data of kind {kind!r}")


def _known(name: str) -> str:
    if name not in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"):
        raise ValueError(f"generator {name!r}")
    return name


def _from(env: gym.Env, packages: tuple[str, ...]) -> bool:
    module = type(env).__module__
    return any(module == name or module.startswith(f"{name}.") for name in packages)


def _attributes(env: gym.Env) -> dict[str, Any]:
    """Its attributes that are plain data. Others are parts of it, spaces and pictures, which a new one has too."""
    found = {}
    for name, value in vars(env).items():
        try:
            found[name] = plain(value)
        except Unknown:
            continue
    return found


def _set_attributes(env: gym.Env, state: dict[str, Any]) -> None:
    for name, data in state.items():
        if name not in vars(env):
            raise KeyError(name)
        vars(env)[name] = restored(data)


def _base(env: gym.Env) -> dict[str, Any]:
    if not _from(env, ATTRIBUTES):
        if callable(getattr(env, "get_state", None)) and callable(getattr(env, "set_state", None)):
            return {"own": _own(env)}
        raise Unknown(f"{type(env).__name__} cannot give its state (it has no get_state and set_state)")
    state: dict[str, Any] = {"attributes": _attributes(env)}
    if (model := getattr(env, "model", None)) is not None:
        mujoco = importlib.import_module("mujoco")

        whole = np.empty(mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_INTEGRATION))
        mujoco.mj_getState(model, env.data, whole, mujoco.mjtState.mjSTATE_INTEGRATION)
        state["simulator"] = plain(whole)
        state["derived"] = {name: plain(getattr(env.data, name)) for name in DERIVED}
    if (ale := getattr(env, "ale", None)) is not None:
        state["simulator"] = plain(np.frombuffer(ale.cloneSystemState().serialize(), np.uint8))
    return state


def _own(env: gym.Env) -> Any:
    """State that an environment gives itself. It must take it back: methods of these names may be something else."""
    try:
        state = plain(env.get_state())
        env.set_state(restored(state))
    except Unknown:
        raise
    except Exception as error:
        raise Unknown(f"its get_state or set_state raised {told(error)}") from error
    return state


def _set_base(env: gym.Env, state: dict[str, Any]) -> None:
    if "own" in state:
        env.set_state(restored(state["own"]))
        return
    _set_attributes(env, state["attributes"])
    if (model := getattr(env, "model", None)) is not None:
        mujoco = importlib.import_module("mujoco")

        mujoco.mj_setState(model, env.data, restored(state["simulator"]), mujoco.mjtState.mjSTATE_INTEGRATION)
        for name, data in state["derived"].items():
            getattr(env.data, name)[...] = restored(data)
    if (ale := getattr(env, "ale", None)) is not None:
        ale_py = importlib.import_module("ale_py")

        ale.restoreSystemState(ale_py.ALEState(restored(state["simulator"]).tobytes()))
