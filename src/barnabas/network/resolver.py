"""Looks up host names without blocking the caller."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any, Protocol

Address = tuple[int, tuple[Any, ...]]
"""A socket family and what `socket.connect` takes."""

Done = Callable[[list[Address] | OSError], None]


class Resolver(Protocol):
    """Turns a host name into addresses."""

    def resolve(self, host: str, port: int, done: Done) -> None:
        """Call `done` with the addresses in order of preference or with the error, at once or from another thread."""


class ThreadedResolver:
    """Asks the system in a daemon thread, since it offers no call that does not block; addresses need no thread.

    A name that is being looked up is not looked up a second time: both askers get the one answer. So a name server
    that hangs costs one thread a name, however often the client tries again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, int], list[Done]] = {}

    def resolve(self, host: str, port: int, done: Done) -> None:
        """See `Resolver.resolve`."""
        try:
            done(_look_up(host, port, socket.AI_NUMERICHOST))
            return
        except (OSError, UnicodeError):
            # Not an address: a name.
            pass
        with self._lock:
            waiting = self._waiting.get((host, port))
            if waiting is not None:
                waiting.append(done)
                return
            self._waiting[host, port] = [done]
        thread = threading.Thread(target=self._look_up_name, args=(host, port), name="barnabas-resolver", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            self._tell(host, port, OSError(f"{host!r} could not be looked up: {error}"))

    def _look_up_name(self, host: str, port: int) -> None:
        result: list[Address] | OSError
        try:
            result = _look_up(host, port, 0)
        except OSError as error:
            result = error
        except UnicodeError as error:
            result = OSError(f"{host!r} is not a host name: {error}")
        except Exception as error:  # noqa: BLE001 - those who wait must hear of it
            result = OSError(f"{host!r} could not be looked up: {error!r}")
        self._tell(host, port, result)

    def _tell(self, host: str, port: int, result: list[Address] | OSError) -> None:
        with self._lock:
            waiting = self._waiting.pop((host, port))
        for done in waiting:
            done(result)


def canonical_names(
    host: str,
    look_up: Callable[[str], list[Address]] = lambda host: _look_up(host, 0, 0),
    name_of: Callable[[tuple[Any, ...]], str] = lambda sockaddr: socket.getnameinfo(sockaddr, socket.NI_NAMEREQD)[0],
) -> list[str]:
    """Return the full name of each address of a host, each name once; waits for the name server.

    As in Java's getCanonicalHostName, an address that has no name, or whose name does not lead back to it, is given as
    it is: else the DNS server of the address could send a client to a name of its choice.

    Raises `OSError` when the host is not known.

    """
    try:
        addresses = [sockaddr for _, sockaddr in look_up(host)]
    except UnicodeError as error:
        raise OSError(f"{host!r} is not a host name: {error}") from None
    names: dict[str, None] = {}
    for sockaddr in addresses:
        try:
            name = name_of(sockaddr)
            is_its_own = any(found[0] == sockaddr[0] for _, found in look_up(name))
        except (OSError, UnicodeError):
            is_its_own = False
        names[name if is_its_own else str(sockaddr[0])] = None
    return list(names)


def _look_up(host: str, port: int, flags: int) -> list[Address]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, sockaddr) for family, _, _, _, sockaddr in found]
