"""What a connection asks of its socket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

#: Among the buffers of a Fetch response there may be a `FileRegion`, where the log is in files of the system.
Buffers = Sequence[bytes | bytearray | memoryview]


class Transport(Protocol):
    """The socket of one connection, or what a test or the simulator puts in its place."""

    def write(self, buffers: Buffers) -> None:
        """Send the buffers, in order; what the socket has no room for waits."""

    def close(self) -> None:
        """End the connection when what was written is out."""

    def abort(self) -> None:
        """End the connection now."""

    def resume_reading(self) -> None:
        """Read again, after `ClientConnection.reading_paused` was set."""
