"""What holds bytes: a name for the three types that messages, records and sockets take and give."""

from __future__ import annotations

Buffer = bytes | bytearray | memoryview
