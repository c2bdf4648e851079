"""`SessionClients`: with what a principal looks at the cluster, and all that is remembered of what the cluster told it.

One for the principal of the client settings; with logins one for each session, so that what a broker told one person is
never shown to another.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.aio import AdminClient, Producer
from barnabas.clock import wall_clock_ms
from barnabas.console.live import Hub
from barnabas.console.records import Scans
from barnabas.console.sampler import Point, Sample, Sampler

if TYPE_CHECKING:
    from barnabas.console.commands import Commands
    from barnabas.console.decoders import Decoders
    from barnabas.console.scan_threads import ScanThreads

#: So many clusters are sampled at the same time, however many people look.
SAMPLES_AT_ONCE = 4


Views = Mapping[str, Callable[[Sample, "deque[Point]"], object]]


class Shared:
    """What all sessions share, nothing of it the cluster's: threads, turns, decoders, commands, views of samples."""

    def __init__(self, threads: ScanThreads, decoders: Decoders, commands: Commands, views: Views) -> None:
        self.threads = threads
        self.decoders = decoders
        self.commands = commands
        self.views = views
        self.turns = asyncio.Semaphore(SAMPLES_AT_ONCE)


class SessionClients:
    """Clients by section of `settings`, made in a running event loop; `start` begins to look, `close` ends it all."""

    def __init__(self, settings: Mapping[str, Mapping[str, Any]], shared: Shared) -> None:
        self._settings = settings
        self.admin = AdminClient(settings["admin"])
        self.hub = Hub({*shared.views, "trouble"})
        clocks = (wall_clock_ms, time.monotonic)
        self.sampler = Sampler(self.admin, self.hub, clocks, shared.views, shared.turns)
        self.scans = Scans(settings["consumer"], shared.decoders, shared.threads)
        self._producer: Producer[bytes, bytes] | None = None
        self._sampling: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def is_watched(self) -> bool:
        """Whether a page is open that shows something as it comes."""
        return self.hub.is_watched or self.scans.are_running

    def start(self) -> None:
        """Look at the cluster from now on, while a stream is open."""
        self._sampling = asyncio.create_task(self.sampler.run())

    def producer(self) -> Producer[bytes, bytes]:
        """Return the one producer, made when it is first needed."""
        if self._producer is None:
            self._producer = Producer(self._settings["producer"])
        return self._producer

    def end_streams(self) -> None:
        """End what is open, so that its connections can end."""
        self.hub.close()
        self.scans.cancel_all()

    async def close(self) -> None:
        """End streams, and close the clients."""
        if self._is_closed:
            return
        self._is_closed = True
        self.end_streams()
        if self._sampling is not None:
            self._sampling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sampling
        try:
            if self._producer is not None:
                await self._producer.close()
        finally:
            await self.admin.close()
