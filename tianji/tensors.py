"""Writes safetensors files whose bytes follow from what is in them alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

LENGTH_BYTES = 8
"""At the start of a file: length of the JSON header that follows, little endian (the safetensors format)."""


def save_tensors(tensors: Mapping[str, NDArray[Any]], path: Path, metadata: Mapping[str, str]) -> None:
    """Write tensors, and text beside them.

    safetensors writes the entries of `metadata` in an order that differs from process to process; here they are sorted.
    """
    # Where a tensor is not contiguous, safetensors writes what lies between its elements.
    save_file({name: np.asarray(tensor, order="C") for name, tensor in tensors.items()}, path, metadata=dict(metadata))
    with path.open("r+b") as file:
        length = int.from_bytes(file.read(LENGTH_BYTES), "little")
        header = json.loads(file.read(length))
        ordered = {"__metadata__": dict(sorted(header.pop("__metadata__", {}).items())), **header}
        text = json.dumps(ordered, separators=(",", ":"), ensure_ascii=False).encode()
        if len(text) > length:
            raise RuntimeError(f"{path}: its header takes {len(text)} bytes where safetensors needed {length}")
        file.seek(LENGTH_BYTES)
        file.write(text.ljust(length))
