# cython: language_level=3, annotation_typing=False
"""Keys of windows and sessions as stores and changelogs have them. C types are in `window_keys.pxd`."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from struct import Struct

if not cython.compiled:
    from barnabas.streams.serdes.key_bytes import with_numbers

MAX_LONG = 2**63 - 1
MAX_INT = 2**31 - 1

_WINDOW_SUFFIX = Struct(">qi")
_SESSION_SUFFIX = Struct(">qq")


def window_key(key: bytes, start: int, sequence: int) -> bytes:
    """Return the key of a window in a store: key, start in milliseconds, sequence number."""
    return with_numbers(key, start, sequence, 4)


def split_window_key(data: bytes) -> tuple[bytes, int, int]:
    """Return key, start in milliseconds and sequence number of a window's key in a store."""
    start, sequence = _WINDOW_SUFFIX.unpack_from(data, len(data) - 12)
    return data[:-12], start, sequence


def session_key(key: bytes, start: int, end: int) -> bytes:
    """Return the key of a session: key, end, start, both in milliseconds."""
    return with_numbers(key, end, start, 8)


def split_session_key(data: bytes) -> tuple[bytes, int, int]:
    """Return key, start and end of a session's key, both in milliseconds."""
    end, start = _SESSION_SUFFIX.unpack_from(data, len(data) - 16)
    return data[:-16], start, end
