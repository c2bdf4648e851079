"""Addresses of hosts for who runs on an event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest

from barnabas.broker.network.host_addresses import addresses_of
from barnabas.broker.runner import new_event_loop
from barnabas.network.resolver import Address, Done

FOUND: list[Address] = [(socket.AF_INET, ("10.0.0.1", 9092))]


class Waiting:
    """A name server that answers when a test says so."""

    def __init__(self) -> None:
        self.asked: list[Done] = []

    def resolve(self, host: str, port: int, done: Done) -> None:
        """See `Resolver`."""
        self.asked.append(done)


def test_an_address_is_its_own() -> None:
    assert asyncio.run(addresses_of("127.0.0.1", 9092)) == [(socket.AF_INET, ("127.0.0.1", 9092))]


def test_a_host_that_is_not_known_is_an_error() -> None:
    resolver = Waiting()

    async def ask() -> list[Address]:
        asyncio.get_running_loop().call_soon(lambda: resolver.asked[0](OSError("not known")))
        return await addresses_of("nowhere", 1, resolver)

    with pytest.raises(OSError, match="not known"):
        asyncio.run(ask())


@pytest.mark.parametrize("make_loop", [new_event_loop, asyncio.new_event_loop])
def test_an_answer_that_comes_when_the_loop_is_closed_is_told_to_no_one(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    resolver, loop, faults = Waiting(), make_loop(), list[object]()
    loop.set_exception_handler(lambda _, context: faults.append(context))
    task = loop.create_task(addresses_of("late", 1, resolver))
    loop.run_until_complete(asyncio.sleep(0))
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()
    resolver.asked[0](FOUND)
    assert faults == []


def test_one_that_has_given_up_does_not_hear_of_a_late_answer() -> None:
    resolver = Waiting()

    async def ask() -> None:
        task = asyncio.ensure_future(addresses_of("late", 1, resolver))
        await asyncio.sleep(0)
        task.cancel()
        resolver.asked[0](FOUND)
        await asyncio.sleep(0)
        assert task.cancelled()

    asyncio.run(ask())
