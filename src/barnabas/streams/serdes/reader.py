"""Numbers and sized bytes as Kafka's stores keep them, read one after the other."""

from __future__ import annotations

from struct import Struct, error

from barnabas.streams.errors import StreamsError

_LONG = Struct(">q")
_INT = Struct(">i")


def sized(data: bytes | None) -> bytes:
    """Return bytes after their length in 4 bytes; None is -1."""
    return _INT.pack(-1) if data is None else _INT.pack(len(data)) + data


class Reader:
    """Reads numbers and sized bytes one after the other. Raises `StreamsError` when bytes are missing."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def long(self) -> int:
        """Read 8 bytes."""
        return self._read(_LONG)

    def int(self) -> int:
        """Read 4 bytes."""
        return self._read(_INT)

    def _read(self, form: Struct) -> int:  # type: ignore[valid-type]  # the method above hides the type
        try:
            number: int = form.unpack_from(self.data, self.at)[0]
        except error as problem:
            raise StreamsError(f"Bytes are missing at position {self.at} of {len(self.data)}") from problem
        self.at += form.size
        return number

    def sized(self) -> bytes | None:
        """Read bytes after their length; None for -1."""
        return self.exactly(self.int())

    def exactly(self, length: int) -> bytes | None:  # type: ignore[valid-type]
        """Read so many bytes; None for a negative length."""
        if length < 0:
            return None
        found = self.data[self.at : self.at + length]
        if len(found) != length:
            raise StreamsError(f"Bytes are missing at position {self.at} of {len(self.data)}")
        self.at += length
        return found
