"""Keys of windows and sessions, in topics and in stores.

Topic and sink: key, then start of the window (8 bytes); a session: key, end, start. Stores and changelogs of windows
add a sequence number (4 bytes): key, start, sequence.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from barnabas.streams.serdes.serde import Headers, Serde, set_if_unset
from barnabas.streams.serdes.window_keys import MAX_LONG, session_key, split_session_key, split_window_key
from barnabas.streams.windowed import SessionWindow, TimeWindow, Windowed

_LONG = Struct(">q")


def time_window(start: int, size_ms: int) -> TimeWindow:
    """Return the window of a size; one that would end after the last possible time ends there."""
    return TimeWindow(start, min(start + size_ms, MAX_LONG))


class TimeWindowedSerde(Serde[Windowed[Any]]):
    """Windowed keys in topics. Without `window_size_ms` a key that is read has a window without end.

    `for_changelog` reads and writes keys with the sequence number of a store.
    """

    immutable = True

    def __init__(
        self, inner: Serde[Any] | None = None, window_size_ms: int = MAX_LONG, *, for_changelog: bool = False
    ) -> None:
        self.inner: Any = inner
        self.window_size_ms = window_size_ms
        self.for_changelog = for_changelog

    def set_if_unset(self, key_serde: Any, value_serde: Any) -> None:
        """Take the default serde of keys where none was given."""
        self.inner = set_if_unset(key_serde if self.inner is None else self.inner, key_serde, value_serde)

    def serialize(self, topic: str, value: Windowed[Any] | None, headers: Headers) -> bytes | None:
        """Write key and start."""
        if value is None:
            return None
        if not isinstance(value, Windowed):
            raise TypeError(f"TimeWindowedSerde cannot write {type(value).__name__}: {value!r}")
        key: bytes = self.inner.serialize(topic, value.key, headers)
        return key + _LONG.pack(value.window.start)

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> Windowed[Any] | None:
        """Read key and start; the end follows from the size."""
        if not data:
            return None
        if self.for_changelog:
            key, start, _ = split_window_key(data)
        else:
            key, start = data[:-8], _LONG.unpack_from(data, len(data) - 8)[0]
        return Windowed(self.inner.deserialize(topic, key, headers), time_window(start, self.window_size_ms))


class SessionWindowedSerde(Serde[Windowed[Any]]):
    """Keys of sessions in topics, stores and changelogs."""

    immutable = True

    def __init__(self, inner: Serde[Any] | None = None) -> None:
        self.inner: Any = inner

    def set_if_unset(self, key_serde: Any, value_serde: Any) -> None:
        """Take the default serde of keys where none was given."""
        self.inner = set_if_unset(key_serde if self.inner is None else self.inner, key_serde, value_serde)

    def serialize(self, topic: str, value: Windowed[Any] | None, headers: Headers) -> bytes | None:
        """Write key, end and start."""
        if value is None:
            return None
        if not isinstance(value, Windowed):
            raise TypeError(f"SessionWindowedSerde cannot write {type(value).__name__}: {value!r}")
        key: bytes = self.inner.serialize(topic, value.key, headers)
        return session_key(key, value.window.start, value.window.end)

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> Windowed[Any] | None:
        """Read key, end and start."""
        if not data:
            return None
        key, start, end = split_session_key(data)
        return Windowed(self.inner.deserialize(topic, key, headers), SessionWindow(start, end))
