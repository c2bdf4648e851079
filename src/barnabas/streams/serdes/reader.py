# cython: language_level=3, annotation_typing=False
"""Numbers, sized bytes and headers as Kafka's stores keep them."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from struct import Struct, error

from barnabas.streams.errors import StreamsError

if not cython.compiled:
    from barnabas.streams.serdes.key_bytes import int_bytes

_LONG = Struct(">q")
_INT = Struct(">i")


Headers = list[tuple[str, bytes | None]]


def sized(data: bytes | None) -> bytes:
    """Return bytes after their length in 4 bytes; None is -1."""
    return int_bytes(-1) if data is None else int_bytes(len(data)) + data


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


def zigzag(number: int) -> bytes:
    """Return a varint of Kafka's protocol, zigzag-encoded, for a number that is not negative."""
    number <<= 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def unzigzag(data: bytes, at: int = 0) -> tuple[int, int]:
    """Return the number at a position of data, and the position behind it. Raises `StreamsError` when it is cut."""
    number = shift = 0
    for position, byte in enumerate(data[at : at + 5], at):
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position + 1
        shift += 7
    raise StreamsError(f"The varint at position {at} of {len(data)} bytes does not end")


def written_headers(headers: Headers) -> bytes:
    """Return headers behind their size in bytes, both as varints: as stores with headers keep them (KIP-1271)."""
    if not headers:
        return b"\x00"
    parts = [zigzag(len(headers))]
    for name, value in headers:
        encoded = name.encode()
        parts += [zigzag(len(encoded)), encoded]
        parts += [b"\x01"] if value is None else [zigzag(len(value)), value]
    written = b"".join(parts)
    return zigzag(len(written)) + written


def split_headers(data: bytes) -> tuple[Headers, int]:
    """Return the headers that data begins with, and the position behind them. Raises `StreamsError` when it is cut."""
    size, at = unzigzag(data)
    end = at + size
    headers: Headers = []
    if size:
        count, at = unzigzag(data, at)
        for _ in range(count):
            length, at = unzigzag(data, at)
            name = data[at : at + length].decode()
            at += length
            length, at = unzigzag(data, at)
            headers.append((name, None if length < 0 else data[at : at + length]))
            at += max(length, 0)
    if at != end or end > len(data):
        raise StreamsError(f"Headers of {size} bytes do not end where they should, in a value of {len(data)} bytes")
    return headers, end
