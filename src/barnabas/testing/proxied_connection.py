"""One connection through a `FaultProxy`: two sockets, and what is on its way between them."""

from __future__ import annotations

import selectors
import socket
import struct
from collections import deque
from enum import Enum
from typing import Any

_CHUNK = 65536
_MOST_HELD = 4 << 20
_FOREVER = 3600.0


class Side(Enum):
    """A direction, by where it leads."""

    TO_CLIENT = "to_client"
    TO_BROKER = "to_broker"


class Faults:
    """What is wrong at present."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Nothing is wrong any more."""
        self.frozen = False
        self.delay = 0.0
        self.bandwidth: float | None = None
        self.garbage: tuple[Side, bytes] | None = None
        self.cut_after: tuple[Side, int] | None = None

    def __repr__(self) -> str:
        wrong = ", ".join(f"{name}={value!r}" for name, value in vars(self).items() if value)
        return f"faults: {wrong or 'none'}"


class _Pipe:
    """One direction: bytes that were read, each with the time from which they may be delivered."""

    def __init__(self, side: Side, source: socket.socket, sink: socket.socket) -> None:
        self.side = side
        self.source = source
        self.sink = sink
        self.held: deque[tuple[float, bytes]] = deque()
        self.held_bytes = 0
        self.is_at_end = False
        self.is_garbled = False
        self.delivered = 0
        self._sends_again_at = 0.0

    def read(self, now: float, faults: Faults) -> None:
        """Take what has arrived; raises OSError when the connection broke."""
        data = self.source.recv(_CHUNK)
        if not data:
            self.is_at_end = True
            return
        if faults.garbage is None:
            self.is_garbled = False
        elif faults.garbage[0] is self.side:
            data, self.is_garbled = (b"" if self.is_garbled else faults.garbage[1]), True
        if data:
            self.held.append((now + faults.delay, data))
            self.held_bytes += len(data)

    def write(self, now: float, faults: Faults) -> bool:
        """Deliver what is due; return whether this is where the connection is to be cut. Raises OSError."""
        limit = faults.cut_after[1] if faults.cut_after is not None and faults.cut_after[0] is self.side else None
        while self.held and self.seconds_to_wait(now, faults) <= 0:
            due, data = self.held.popleft()
            room = len(data) if limit is None else min(len(data), limit - self.delivered)
            if faults.bandwidth is not None:
                room = min(room, max(int(faults.bandwidth / 20), 1))
            try:
                sent = self.sink.send(data[:room]) if room else 0
            except BlockingIOError:
                self.held.appendleft((due, data))
                return False
            self.held_bytes -= sent
            self.delivered += sent
            if sent < len(data):
                self.held.appendleft((due, data[sent:]))
            if faults.bandwidth is not None:
                self._sends_again_at = now + sent / faults.bandwidth
            if limit is not None and self.delivered >= limit and self.held:
                return True
        return False

    def seconds_to_wait(self, now: float, faults: Faults) -> float:
        """When the next bytes are due."""
        if not self.held or faults.frozen:
            return _FOREVER
        return max(self.held[0][0], self._sends_again_at if faults.bandwidth is not None else 0.0) - now

    @property
    def has_room(self) -> bool:
        """Whether more may be read."""
        return not self.is_at_end and self.held_bytes < _MOST_HELD


class ProxiedConnection:
    """A client's connection and the one to the broker that belongs to it. Owned by the proxy's thread."""

    def __init__(self, client: socket.socket, broker: socket.socket) -> None:
        for end in (client, broker):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.is_over = False
        self._ends = (client, broker)
        self._pipes = (_Pipe(Side.TO_BROKER, client, broker), _Pipe(Side.TO_CLIENT, broker, client))
        self._interests: dict[socket.socket, int] = {}

    def count_from_here(self) -> None:
        """Count the delivered bytes anew."""
        for pipe in self._pipes:
            pipe.delivered = 0

    def end(self, *, reset: bool) -> None:
        """End it with the next turn."""
        self.is_over = True
        if reset:
            for end in self._ends:
                # An RST instead of a FIN goes out when a socket that lingers for no time is closed.
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def ready(self, end: Any, mask: int, now: float, faults: Faults) -> None:
        """One of the sockets can be read."""
        try:
            for pipe in self._pipes:
                if pipe.source is end and mask & selectors.EVENT_READ and pipe.has_room:
                    pipe.read(now, faults)
        except BlockingIOError:
            pass
        except OSError:
            self.is_over = True

    def turn(self, now: float, faults: Faults, selector: selectors.BaseSelector) -> float:
        """Deliver what is due and says what to wait for; return the seconds until more is due."""
        wait = _FOREVER
        try:
            for pipe in self._pipes:
                if pipe.write(now, faults):
                    faults.cut_after = None
                    self.end(reset=False)
                if pipe.is_at_end and not pipe.held:
                    self.is_over = True
                delay = pipe.seconds_to_wait(now, faults)
                if delay > 0:  # what is due and is still held waits for its socket, of which the selector tells
                    wait = min(wait, delay)
        except OSError:
            self.is_over = True
        if not self.is_over:
            self._watch(now, faults, selector)
        return wait

    def _watch(self, now: float, faults: Faults, selector: selectors.BaseSelector) -> None:
        for end in self._ends:
            wanted = 0
            for pipe in self._pipes:
                if pipe.source is end and pipe.has_room:
                    wanted |= selectors.EVENT_READ
                if pipe.sink is end and pipe.held and pipe.seconds_to_wait(now, faults) <= 0:
                    wanted |= selectors.EVENT_WRITE
            current = self._interests.get(end, 0)
            if wanted == current:
                continue
            if not wanted:
                selector.unregister(end)
            elif not current:
                selector.register(end, wanted, self)
            else:
                selector.modify(end, wanted, self)
            self._interests[end] = wanted

    def close(self, selector: selectors.BaseSelector) -> None:
        """Close both sockets."""
        for end in self._ends:
            if self._interests.get(end):
                selector.unregister(end)
            end.close()
        self._interests.clear()
