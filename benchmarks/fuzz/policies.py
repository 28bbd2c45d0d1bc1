"""Untrusted policy files: a loaded policy is finite and fits its network, and anything else is refused in one line."""

from __future__ import annotations

import json
import random
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.fuzz import Verdict, Wrong, changes
from programs.cli import ConfigError
from tianji.algorithms import networks
from tianji.policy import Policy, load_policy, save_policy
from tianji.tensors import LENGTH_BYTES

LIMIT_S = 5.0


@cache
def whole(kind: str) -> bytes:
    """A policy that is in order."""
    network = networks.make_network(kind, 4, (8,), 2)
    with tempfile.TemporaryDirectory(prefix="tj-fuzz") as folder:
        path = Path(folder) / "policy"
        save_policy(path, Policy(network, network.initialise(0)), env="CartPole-v1")
        return path.read_bytes()


def mutate(rng: random.Random) -> bytes:
    """A policy with bytes, its header or its description changed."""
    data = whole(rng.choice(("mlp-separate", "mlp-shared", "mlp-q")))
    if rng.random() < 0.4:
        return changes.of_bytes(rng, data)
    length = int.from_bytes(data[:LENGTH_BYTES], "little")
    header, body = json.loads(data[LENGTH_BYTES : LENGTH_BYTES + length]), data[LENGTH_BYTES + length :]
    if rng.random() < 0.6:
        described = json.loads(header["__metadata__"]["description"])
        header["__metadata__"]["description"] = json.dumps(changes.of_json(rng, described))
    else:
        header = changes.of_json(rng, header)
    text = json.dumps(header).encode()
    return len(text).to_bytes(LENGTH_BYTES, "little") + text + body


def check(case: bytes) -> Verdict:
    """Load it."""
    with tempfile.TemporaryDirectory(prefix="tj-fuzz") as folder:
        path = Path(folder) / "policy"
        path.write_bytes(case)
        try:
            policy = load_policy(path)
        except ConfigError as error:
            if str(path) not in str(error):
                raise Wrong(f"does not name the file: {error}") from None
            return "refused"
    if not np.isfinite(policy.weights).all() or len(policy.weights) != policy.network.size:
        raise Wrong("its weights are no numbers, or others than its network has")
    return "accepted"
