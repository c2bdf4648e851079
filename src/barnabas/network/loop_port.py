"""Between a client's core, which polls and waits, and an event loop, which must never be held up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.network.selectable import Authentication, Buffer, Disconnection, Selectable

if TYPE_CHECKING:
    from barnabas.network.bound_loop import BoundLoop


class LoopPort:
    """A `Selectable` whose `poll` returns at once and notes how long it would have waited; the loop waits instead.

    The core's driver sets `on_ready`, called when the network has something to do while `watch` is on, and
    `on_wakeup`, called after `wakeup`; both in the loop. `on_news` is called inside of a `poll` that brought something.
    `sends_are_news`: a core that sends the next request when the last one is out is driven again then; one that waits
    for the answer is not.
    """

    def __init__(self, loop: BoundLoop, selector: Selectable, *, sends_are_news: bool = True) -> None:
        self._home = loop
        self._selector = selector
        self._sends_are_news = sends_are_news
        self._unwatch: Callable[[], None] | None = None
        self._is_woken = False
        self._has_news = False
        self._asked = 0.0
        self.on_ready: Callable[[], object] | None = None
        self.on_wakeup: Callable[[], object] | None = None
        self.on_news: Callable[[], object] | None = None

    # The waiting.

    def poll(self, timeout: float, now: float) -> float:
        """See `Selectable.poll`, but for the waiting."""
        selector = self._selector
        self._is_woken = False
        selector.poll(0.0, now)
        self._asked = timeout
        if (
            selector.completed_receives
            or selector.connected
            or selector.disconnected
            or (selector.completed_sends and self._sends_are_news)
            or selector.authentications
        ):
            self._has_news = True
            if self.on_news is not None:
                self.on_news()
        elif getattr(selector, "has_unread", False):
            self._has_news = True
        return self._home.clock()

    def seconds_to_wait(self) -> float:
        """How long the loop may wait before the core is to be driven again; asked once after each turn of it."""
        seconds = 0.0 if self._has_news or self._is_woken else self._asked
        self._has_news = False
        self._asked = 0.0
        return seconds

    def take_news(self) -> bool:
        """Whether a poll brought something since this or `seconds_to_wait` was asked last, for who polls once more."""
        found, self._has_news = self._has_news, False
        return found

    def watch(self) -> None:
        """Call `on_ready` whenever the network has something to do."""
        if self._unwatch is None:
            self._unwatch = self._home.watch(self._selector, self._ready)

    def unwatch(self) -> None:
        """Leave the network alone."""
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None

    def _ready(self) -> None:
        if self.on_ready is not None:
            self.on_ready()

    def _woken(self) -> None:
        if self.on_wakeup is not None:
            self.on_wakeup()

    def wakeup(self) -> None:
        """See `Selectable.wakeup`; in the loop's own thread it costs no system call."""
        if self._is_woken:
            return
        self._is_woken = True
        loop = self._home.loop
        if loop is None or self.on_wakeup is None:
            return
        if asyncio._get_running_loop() is loop:
            self.on_wakeup()
            return
        try:
            loop.call_soon_threadsafe(self._woken)
        except RuntimeError:
            # The loop is closed: no call waits in it any more.
            return

    # The rest is the selector's.

    @property
    def connected(self) -> Sequence[int]:
        """See `Selectable.connected`."""
        return self._selector.connected

    @property
    def authentications(self) -> Sequence[Authentication]:
        """See `Selectable.authentications`."""
        return self._selector.authentications

    @property
    def disconnected(self) -> Mapping[int, Disconnection]:
        """See `Selectable.disconnected`."""
        return self._selector.disconnected

    @property
    def completed_sends(self) -> Sequence[int]:
        """See `Selectable.completed_sends`."""
        return self._selector.completed_sends

    @property
    def completed_receives(self) -> Sequence[tuple[int, Buffer]]:
        """See `Selectable.completed_receives`."""
        return self._selector.completed_receives

    def connect(self, node_id: int, host: str, port: int, attempt: int) -> None:
        """See `Selectable.connect`."""
        self._selector.connect(node_id, host, port, attempt)

    def is_channel_ready(self, node_id: int) -> bool:
        """See `Selectable.is_channel_ready`."""
        return self._selector.is_channel_ready(node_id)

    def is_send_in_progress(self, node_id: int) -> bool:
        """See `Selectable.is_send_in_progress`."""
        return self._selector.is_send_in_progress(node_id)

    def send(self, node_id: int, buffers: Sequence[Buffer], *, expect_response: bool = True) -> None:
        """See `Selectable.send`."""
        self._selector.send(node_id, buffers, expect_response=expect_response)

    def local_port(self, node_id: int) -> int:
        """See `Selectable.local_port`."""
        return self._selector.local_port(node_id)

    def set_max_receive_size(self, node_id: int, size: int) -> None:
        """See `Selectable.set_max_receive_size`."""
        self._selector.set_max_receive_size(node_id, size)

    def close(self, node_id: int) -> None:
        """See `Selectable.close`."""
        self._selector.close(node_id)

    def close_all(self) -> None:
        """See `Selectable.close_all`."""
        self.unwatch()
        self.on_ready = self.on_wakeup = self.on_news = None
        self._selector.close_all()
