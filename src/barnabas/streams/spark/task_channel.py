"""Frames between the driver and the processes of its tasks, over TCP, each with a code that only they can make.

Both send a nonce and derive a key for each direction from the nonces and a secret, which Spark carries to the executors
as it carries everything else. A frame: size, HMAC-SHA256 of its number and content, content. So neither a stranger who
connects nor one on the way can say anything; what is said (offsets, reports, errors) is not encrypted.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.streams.errors import StreamsError

if TYPE_CHECKING:
    from barnabas.spark.exactly_once.decision import TaskState

#: Seconds that the other side may take to introduce itself.
INTRODUCTION = 30.0


class End(NamedTuple):
    """What the driver sends in place of a request when the application is closed: the process is to close its tasks.

    `decided` are the states after the last batch that this driver knows to be decided, by task.
    """

    decided: Mapping[str, TaskState]


_SIZE = struct.Struct(">I")
_NUMBER = struct.Struct(">Q")
_NONCE = 16
_CODE = hashlib.sha256().digest_size
_KEEP_ALIVE = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))


class Address(NamedTuple):
    """Where the driver listens, and what to know to be let in."""

    host: str
    port: int
    secret: bytes


class ChannelError(StreamsError):
    """What came was not made by one who knows the secret."""


class Channel:
    """One end of a connection; `is_driver` says which. Not for several threads at once in one direction.

    Raises OSError and EOFError when the connection is gone, ChannelError for frames of strangers.
    """

    def __init__(self, connection: socket.socket, secret: bytes, *, is_driver: bool) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for name, value in _KEEP_ALIVE:
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        connection.settimeout(INTRODUCTION)
        self._connection = connection
        own = os.urandom(_NONCE)
        connection.sendall(own)
        other = self._read(_NONCE)
        nonces = own + other if is_driver else other + own
        keys = [hmac.digest(secret, who + nonces, "sha256") for who in (b"driver", b"process")]
        self._sending, self._receiving = keys if is_driver else reversed(keys)
        self._sent = self._received = 0

    def introduced(self) -> None:
        """Wait as long as it takes from now on: the first frame has come, and was right."""
        self._connection.settimeout(None)

    def send(self, content: bytes) -> None:
        """Send a frame."""
        code = hmac.digest(self._sending, _NUMBER.pack(self._sent) + content, "sha256")
        self._sent += 1
        self._connection.sendall(_SIZE.pack(len(content)) + code + content)

    def receive(self) -> bytes:
        """Wait for a frame, and return its content."""
        (size,) = _SIZE.unpack(self._read(_SIZE.size))
        code = self._read(_CODE)
        content = self._read(size)
        if not hmac.compare_digest(
            code, hmac.digest(self._receiving, _NUMBER.pack(self._received) + content, "sha256")
        ):
            raise ChannelError("a frame came from one who does not know the secret of this application's tasks")
        self._received += 1
        return content

    def _read(self, size: int) -> bytes:
        """Return so many bytes, and take no more than these: what comes next must wake who waits on `fileno`."""
        found = bytearray()
        while len(found) < size:
            piece = self._connection.recv(size - len(found))
            if not piece:
                raise EOFError("the other side has closed the connection")
            found += piece
        return bytes(found)

    def fileno(self) -> int:
        """Return what to wait on; nothing that has come is kept back."""
        return self._connection.fileno()

    def close(self) -> None:
        """Close the connection; a thread that waits for a frame gets EOFError."""
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is gone already
        self._connection.close()
