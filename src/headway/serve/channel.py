"""Messages between the server and a model process: the length in four bytes, then JSON. Nothing is ever unpickled."""

from __future__ import annotations

import asyncio
import json
import struct
from typing import Any, BinaryIO

LENGTH = struct.Struct(">I")
LARGEST = 256 << 20  # bytes of a message

Message = dict[str, Any]


def frame(message: Message) -> bytes:
    body = json.dumps(message, separators=(",", ":")).encode()
    return LENGTH.pack(len(body)) + body


def read(stream: BinaryIO) -> Message | None:
    """The next message; None at the end."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    return json.loads(stream.read(checked(head)))


async def receive(stream: asyncio.StreamReader) -> Message:
    """The next message; IncompleteReadError at the end."""
    head = await stream.readexactly(LENGTH.size)
    return json.loads(await stream.readexactly(checked(head)))


def checked(head: bytes) -> int:
    (length,) = LENGTH.unpack(head)
    if length > LARGEST:
        raise ValueError(f"a message of {length} bytes; at most {LARGEST} are allowed")
    return length
