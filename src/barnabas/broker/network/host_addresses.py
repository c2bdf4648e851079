"""The addresses of a host, looked up for who runs on an event loop."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from barnabas.network.resolver import ThreadedResolver

if TYPE_CHECKING:
    from barnabas.network.resolver import Address, Resolver

_RESOLVER = ThreadedResolver()


async def addresses_of(host: str, port: int, resolver: Resolver = _RESOLVER) -> list[Address]:
    """Return them in order of preference. Raises `OSError` for a host that is not known.

    The loop's own `getaddrinfo` would not do: uvloop tells of an unhandled exception when a loop is closed before a
    name server has answered, as when a broker ends.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Future[list[Address]] = loop.create_future()

    def take(result: list[Address] | OSError) -> None:
        if found.done():
            return
        if isinstance(result, OSError):
            found.set_exception(result)
        else:
            found.set_result(result)

    def done(result: list[Address] | OSError) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(take, result)

    resolver.resolve(host, port, done)
    return await found
