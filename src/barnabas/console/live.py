"""`Hub`: streams of events to browsers. Each event is a whole state, so a slow reader loses only what is outdated."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection
from typing import Any

from barnabas.errors import IllegalArgumentError, IllegalStateError

MOST_STREAMS = 64
KEEP_ALIVE_SECONDS = 15.0


class Stream:
    """What one browser has not read yet: at most one event of each kind."""

    def __init__(self, kinds: Collection[str]) -> None:
        self.kinds = frozenset(kinds)
        self._waiting: dict[str, Any] = {}
        self._arrived = asyncio.Event()

    def put(self, kind: str, state: Any) -> None:
        """Replace what waits of this kind."""
        if kind in self.kinds:
            self._waiting[kind] = state
            self._arrived.set()

    async def take(self) -> dict[str, Any]:
        """Wait for events; return them by kind."""
        await self._arrived.wait()
        self._arrived.clear()
        taken, self._waiting = self._waiting, {}
        return taken


class Hub:
    """The open streams, and the last state of each kind, which a new one begins with."""

    def __init__(self, kinds: Collection[str]) -> None:
        self._kinds = frozenset(kinds)
        self._streams: set[Stream] = set()
        self._last: dict[str, Any] = {}
        self._is_watched = asyncio.Event()
        self._is_closed = asyncio.Event()

    @property
    def is_watched(self) -> bool:
        """Whether any stream is open."""
        return self._is_watched.is_set()

    async def watched(self) -> None:
        """Wait until a stream is open."""
        await self._is_watched.wait()

    def publish(self, kind: str, state: Any) -> None:
        """Give a state to every stream that asked for its kind."""
        self._last[kind] = state
        for stream in self._streams:
            stream.put(kind, state)

    def close(self) -> None:
        """End all streams, so that their connections can end."""
        self._is_closed.set()

    def check(self, kinds: Collection[str]) -> None:
        """Raise `IllegalArgumentError` for a kind that there is not, `IllegalStateError` when no more may be open."""
        unknown = sorted(set(kinds) - self._kinds)
        if unknown or not kinds:
            raise IllegalArgumentError(f"kinds must be some of {', '.join(sorted(self._kinds))}, not {unknown}")
        if len(self._streams) >= MOST_STREAMS:
            raise IllegalStateError(f"{MOST_STREAMS} streams are open already; close a tab")

    async def events(self, kinds: Collection[str]) -> AsyncIterator[bytes]:
        """Yield events of these kinds as server-sent events, until the hub closes or the reader goes."""
        stream = Stream(kinds)
        for kind, state in self._last.items():
            stream.put(kind, state)
        self._streams.add(stream)
        self._is_watched.set()
        closed = asyncio.ensure_future(self._is_closed.wait())
        try:
            yield b": open\n\n"
            while not self._is_closed.is_set():
                taking = asyncio.ensure_future(stream.take())
                try:
                    await asyncio.wait({taking, closed}, timeout=KEEP_ALIVE_SECONDS, return_when="FIRST_COMPLETED")
                    if not taking.done():
                        yield b": still here\n\n"
                        continue
                    for kind, state in taking.result().items():
                        yield encoded(kind, state)
                finally:
                    taking.cancel()
        finally:
            closed.cancel()
            self._streams.discard(stream)
            if not self._streams:
                self._is_watched.clear()


def encoded(kind: str, state: Any) -> bytes:
    """Return an event in its form on the wire."""
    return f"event: {kind}\ndata: {json.dumps(state, ensure_ascii=False)}\n\n".encode("utf-8", "replace")
