"""A case that is a folder: regular files, and what may stand in their place. It is kept as JSON."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from msgspec import Struct


class File(Struct, tag="file", omit_defaults=True):
    """A regular file; of a large one a hole follows what it has."""

    data: bytes
    size: int = 0


class Text(Struct, tag="text"):
    """The same, of text."""

    text: str


class Link(Struct, tag="link"):
    """A symbolic link."""

    to: str


class Pipe(Struct, tag="pipe"):
    """A FIFO without a writer."""


Entry = File | Text | Link | Pipe
Folder = dict[str, Entry]


def pack(folder: Folder) -> bytes:
    """Encode a folder for storage, with text files as text."""
    told: Folder = {}
    for path, entry in folder.items():
        told[path] = entry
        if isinstance(entry, File) and not entry.size:
            try:
                told[path] = Text(entry.data.decode())
            except UnicodeDecodeError:
                continue
    return msgspec.json.format(msgspec.json.encode(told), indent=1)


def unpack(case: bytes) -> Folder:
    """Back again."""
    told = msgspec.json.decode(case, type=Folder)
    return {path: File(entry.text.encode()) if isinstance(entry, Text) else entry for path, entry in told.items()}


def lay_out(folder: Folder, root: Path) -> None:
    """Create the folder on disk."""
    for name, entry in folder.items():
        path = root / name
        if not path.resolve().is_relative_to(root.resolve()) or os.path.lexists(path):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        match entry:
            case File(data, size):
                path.write_bytes(data)
                if size:
                    os.truncate(path, size)
            case Link(to):
                path.symlink_to(to)
            case Pipe():
                os.mkfifo(path)
