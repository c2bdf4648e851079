"""The way to other nodes: a node that was asked and says nothing is left as soon as another one is to be asked."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from barnabas.broker.instant import Instant
from barnabas.broker.network.node_channel import NodeChannel, home_here
from barnabas.network.node import Node
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.framing import decode_request, encode_response
from barnabas.protocol.message import Message
from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest
from barnabas.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from barnabas.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from barnabas.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse

VERSIONS = [ApiVersion(ApiKey.API_VERSIONS, 0, 4), ApiVersion(ApiKey.BROKER_HEARTBEAT, 0, 1)]


class Asks:
    """Asks one node, again and again, until it is answered."""

    def __init__(self) -> None:
        self.node: Node | None = None
        self.answers: list[Message] = []
        self.losses = 0

    def next_request(self, now: float) -> tuple[Node, Message] | None:
        return None if self.node is None or self.answers else (self.node, BrokerHeartbeatRequest(broker_id=1))

    def receive(self, response: Message, now: Instant) -> None:
        self.answers.append(response)

    def disconnected(self, now: float) -> None:
        self.losses += 1

    def next_deadline(self) -> float:
        return float("inf")


class Server:
    """A node that answers so many requests, on all its connections together, and then says nothing."""

    def __init__(self, answers: float) -> None:
        self._left = answers
        self.asked = asyncio.Event()

    async def start(self, number: int) -> Node:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return Node(number, *self._server.sockets[0].getsockname()[:2])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                header, message = decode_request(frame)
                if self._left <= 0:
                    self.asked.set()
                    continue
                self._left -= 1
                is_first = isinstance(message, ApiVersionsRequest)
                response = ApiVersionsResponse(api_keys=VERSIONS) if is_first else BrokerHeartbeatResponse()
                writer.write(b"".join(encode_response(response, header.request_api_version, header.correlation_id)))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()

    def close(self) -> None:
        self._server.close()


async def with_channel(test: Callable[[Asks, NodeChannel], Awaitable[None]]) -> None:
    asks = Asks()
    channel = NodeChannel(asks, "asks", home_here(random.Random(1)), request_timeout=30.0, on_answer=lambda: None)
    channel.start()
    try:
        async with asyncio.timeout(20):
            await test(asks, channel)
    finally:
        channel.close()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("answers", [0, 1], ids=["before it told its versions", "with a request in flight"])
def test_a_node_that_says_nothing_is_left_for_another_one(answers: int) -> None:
    async def test(asks: Asks, channel: NodeChannel) -> None:
        silent, other = Server(answers), Server(float("inf"))
        asks.node = await silent.start(1)
        channel.wake()
        await silent.asked.wait()
        asks.node = await other.start(2)
        channel.leave_others(asks.node)
        while not asks.answers:
            await asyncio.sleep(0.01)
        assert asks.losses == 1
        silent.close()
        other.close()

    asyncio.run(with_channel(test))


def test_what_the_node_itself_was_asked_goes_on() -> None:
    async def test(asks: Asks, channel: NodeChannel) -> None:
        silent = Server(1)
        asks.node = await silent.start(1)
        channel.wake()
        await silent.asked.wait()
        # Known by another number: a bootstrap server that turned out to lead.
        channel.leave_others(Node(-2, asks.node.host, asks.node.port))
        await asyncio.sleep(0.1)
        assert asks.losses == 0
        silent.close()

    asyncio.run(with_channel(test))


class AsksOn(Asks):
    """Asks the same node once more after each answer, so many times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self._times = times

    def next_request(self, now: float) -> tuple[Node, Message] | None:
        if self.node is None or len(self.answers) == self._times:
            return None
        return self.node, BrokerHeartbeatRequest(broker_id=1)


def test_what_follows_upon_an_answer_leaves_in_the_same_turn() -> None:
    """The next Fetch of a follower acknowledges what the last one brought: clients wait for it (acks=all)."""
    asks, turns = AsksOn(100), 0

    async def test() -> None:
        nonlocal turns
        channel = NodeChannel(asks, "asks", home_here(random.Random(1)), request_timeout=30.0, on_answer=lambda: None)
        turn = channel._driver._turn

        def counted(now: float) -> object:
            nonlocal turns
            turns += 1
            return turn(now)

        channel._driver._turn = counted
        node = Server(float("inf"))
        asks.node = await node.start(1)
        channel.start()
        async with asyncio.timeout(20):
            while len(asks.answers) < 100:
                await asyncio.sleep(0.01)
        channel.close()
        node.close()

    asyncio.run(test())
    # One for each answer, and those that make the connection.
    assert turns < 110


def test_who_wakes_it_during_a_turn_is_heard() -> None:
    asks = AsksOn(2)

    async def test() -> None:
        node, channel = Server(float("inf")), None
        first = await node.start(1)

        def on_answer() -> None:
            assert channel is not None
            asks.node = first
            channel.wake()

        channel = NodeChannel(asks, "asks", home_here(random.Random(1)), request_timeout=30.0, on_answer=on_answer)
        receive = asks.receive

        def receive_and_rest(response: Message, now: Instant) -> None:
            receive(response, now)
            asks.node = None

        asks.receive = receive_and_rest  # type: ignore[method-assign]
        asks.node = first
        channel.start()
        async with asyncio.timeout(5):
            while len(asks.answers) < 2:
                await asyncio.sleep(0.01)
        channel.close()
        node.close()

    asyncio.run(test())
