"""The end of a controller on a real event loop and a real disk."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path

import pytest

from barnabas.broker.config import BrokerConfig
from barnabas.broker.kraft.controller_server import ControllerServer, open_storage
from barnabas.broker.runner import BrokerRunner, listening_socket
from barnabas.broker.storage_threads import StorageThreads

_SETTINGS = {
    "process.roles": "controller",
    "node.id": 1,
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CONTROLLER://127.0.0.1:0",
}


def test_the_directory_is_let_go_when_all_is_written_that_was_begun(tmp_path: Path) -> None:
    """Else the next process could read what it has promised, and then have it overwritten by this one."""
    config = BrokerConfig({**_SETTINGS, "log.dirs": str(tmp_path)}).of_controller()
    was_locked: list[bool] = []

    async def play() -> None:
        threads = StorageThreads()
        storage = open_storage(config, str(tmp_path), None, dict)
        server = ControllerServer(config, storage, threads, lambda text: None, lambda problem: None)
        await server.start([(listener, listening_socket(listener)) for listener in config.listeners])

        def write() -> None:
            time.sleep(0.3)
            was_locked.append(storage._directory.is_locked)

        server.node.storage.submit(write, lambda: None)
        await server.leave()
        await server.close()
        assert not storage._directory.is_locked
        threads.close()

    asyncio.run(play())
    assert was_locked == [True]


def test_beside_a_broker_it_is_let_go_when_the_controller_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    was_locked: list[bool] = []
    leave = ControllerServer.leave

    async def looking(self: ControllerServer) -> None:
        await leave(self)
        was_locked.append(self.storage._directory.is_locked)

    monkeypatch.setattr(ControllerServer, "leave", looking)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}",
        "log.dirs": str(tmp_path),
    }
    config = BrokerConfig(settings)
    config.is_formatted = True
    runner = BrokerRunner(config, str(tmp_path), lambda bound: runner.stop(), signals=False)
    runner.run()
    assert was_locked == [True]
