"""Messages that are bytes without further structure."""

from __future__ import annotations

from tianji.layout import ChunkLayout, Field


def opaque_layout(size_bytes: int) -> ChunkLayout:
    """Layout of up to `size_bytes` bytes; a row is a byte."""
    return ChunkLayout([Field("payload", "|u1", (size_bytes,))])
