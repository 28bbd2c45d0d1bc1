"""Writes safetensors files whose bytes depend on their contents alone."""

from __future__ import annotations

import errno
import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import save_file

LENGTH_BYTES = 8
"""Bytes of the length field at the start of a safetensors file, little endian. The JSON header follows."""


def regular(path: Path) -> Path:
    """Return the path if it is a regular file. Reading a pipe could block, and a device never ends.

    Raises
    ------
    OSError
        if it is missing or not a regular file.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return path


def save_tensors(tensors: Mapping[str, NDArray[Any]], path: Path, metadata: Mapping[str, str]) -> None:
    """Write tensors and text metadata to a file.

    safetensors writes the entries of `metadata` in an order that differs between processes. Here they are sorted.
    """
    # safetensors would also write the gaps between the elements of a tensor that is not contiguous.
    try:
        save_file({name: np.asarray(tensor, order="C") for name, tensor in tensors.items()}, path, metadata=dict(metadata))
    except SafetensorError as error:
        # For instance a full disk or a missing folder: raised as an OSError, like Python's own files.
        raise OSError(f"cannot be written: {error}") from error
    with path.open("r+b") as file:
        length = int.from_bytes(file.read(LENGTH_BYTES), "little")
        header = json.loads(file.read(length))
        ordered = {"__metadata__": dict(sorted(header.pop("__metadata__", {}).items())), **header}
        text = json.dumps(ordered, separators=(",", ":"), ensure_ascii=False).encode()
        if len(text) > length:
            raise RuntimeError(f"{path}: its header takes {len(text)} bytes where safetensors needed {length}")
        file.seek(LENGTH_BYTES)
        file.write(text.ljust(length))
