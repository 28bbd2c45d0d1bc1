"""Untrusted policy files: refused in one line, before memory is allocated for what they claim."""

import json
import os
import re
import resource

import numpy as np
import pytest
from commands import refusal
from safetensors.numpy import save_file

from programs.cli import ConfigError, run
from tianji.__main__ import main
from tianji.algorithms import networks
from tianji.policy import Policy, load_policy, save_policy

NETWORK = networks.make_network("mlp-separate", 4, (8,), 2)


def written(path, *, description=None, tensors=None, **metadata):
    """A policy's file with other metadata or tensors than it should have."""
    flat = NETWORK.initialise(0)
    said = {"network": NETWORK.name, "description": json.dumps({**NETWORK.description(), **(description or {})}), **metadata}
    own = {name: np.array(tensor) for name, tensor in NETWORK.named_tensors(flat).items()}
    save_file(own | (tensors or {}), path, metadata=said)
    return path


def test_a_policy_is_what_was_saved(tmp_path):
    flat = NETWORK.initialise(3)
    save_policy(tmp_path / "p", Policy(NETWORK, flat), env="x")
    assert np.array_equal(load_policy(tmp_path / "p").weights, flat)


HOSTILE = {
    "wide": {"description": {"hidden": [10**6, 10**6]}},
    "features": {"description": {"features": 10**12}},
    "more features": {"description": {"features": [10**6, 10**6, 10**6]}},
    "negative": {"description": {"features": -4}},
    "actions": {"description": {"actions": 10**15}},
    "infinite": {"description": {"actions": float("inf")}},
    "text": {"description": {"features": "4"}},
    "deep": {"description": {"hidden": json.loads("[" * 500 + "]" * 500)}},
    "list": {"description": {"hidden": {"a": 1}}},
    "nan": {"tensors": {"policy.bias": np.array([np.nan, 0], np.float32)}},
    "inf": {"tensors": {"policy.bias": np.array([np.inf, 0], np.float32)}},
    "integers": {"tensors": {"policy.bias": np.zeros(2, np.int32)}},
    "doubles": {"tensors": {"policy.bias": np.zeros(2, np.float64)}},
    "shape": {"tensors": {"policy.bias": np.zeros((2, 1), np.float32)}},
    "another": {"tensors": {"more": np.zeros(2, np.float32)}},
    "kind": {"network": "../x"},
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_no_policy_is_refused_in_a_line(tmp_path, capsys, case):
    path = written(tmp_path / "p.safetensors", **HOSTILE[case])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    said = refusal(capsys, run, "tianji", main, ["evaluate", str(path), "--env", "CartPole-v1"])
    assert said.startswith(f"tianji: {path}: ")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 << 10


@pytest.mark.parametrize("case", ["empty", "garbage", "header", "folder", "fifo", "deep"])
def test_what_is_no_safetensors_file_is_refused_in_a_line(tmp_path, capsys, case):
    path = tmp_path / "p.safetensors"
    match case:
        case "empty":
            path.write_bytes(b"")
        case "garbage":
            path.write_bytes(os.urandom(500))
        case "header":
            path.write_bytes((10**15).to_bytes(8, "little") + b"{}")
        case "deep":
            text = b"[" * 100_000
            path.write_bytes(len(text).to_bytes(8, "little") + text)
        case "folder":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
    said = refusal(capsys, run, "tianji", main, ["evaluate", str(path), "--env", "CartPole-v1"])
    assert str(path) in said


def test_a_policy_of_another_shape_than_its_network_is_named(tmp_path):
    name, tensor = next((n, t) for n, t in NETWORK.named_tensors(NETWORK.initialise(0)).items() if t.ndim > 1)
    path = written(tmp_path / "p", tensors={name: tensor.reshape(-1)})
    with pytest.raises(ConfigError, match=f"tensor {re.escape(name)} of shape"):
        load_policy(path)
