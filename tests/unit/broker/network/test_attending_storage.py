"""Work for the disk that is done before the broker's sockets are there is taken up all the same."""

from __future__ import annotations

import asyncio
import threading

from barnabas.broker.network.socket_server import SocketServer
from barnabas.broker.storage_threads import StorageThreads
from tests.support.core_broker import CoreBroker


def test_what_was_done_before_the_server_attends_is_delivered() -> None:
    storage, taken = StorageThreads(), []
    is_done = threading.Event()
    storage.on_done = is_done.set
    storage.submit(lambda: None, lambda: taken.append("the log of a role"))
    assert is_done.wait(10)

    async def attend() -> None:
        server = SocketServer(CoreBroker().node.core)
        server.attend(storage)
        await asyncio.sleep(0)
        await server.close()

    try:
        asyncio.run(attend())
        assert taken == ["the log of a role"]
    finally:
        storage.close()
