"""A voter of ours in a quorum of other software: sockets, a disk, and nothing but the quorum's own requests."""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from typing import TYPE_CHECKING, Self

from barnabas.broker.log.os_filesystem import OsFileSystem
from barnabas.broker.network.node_channel import NodeChannel, home_here
from barnabas.broker.network.socket_server import read_clocks
from barnabas.broker.raft.kafka_metadata_log import FileQuorumStateStore, KafkaMetadataLog
from barnabas.broker.raft.kafka_raft_client import KafkaRaftClient
from barnabas.broker.raft.raft_config import RaftConfig
from barnabas.broker.raft.raft_driver import RaftDriver
from barnabas.broker.raft.voter_set import Endpoint, VoterSet
from barnabas.broker.storage_threads import StorageThreads
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.framing import decode_request, encode_response
from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest
from barnabas.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse, SupportedFeatureKey

if TYPE_CHECKING:
    from types import TracebackType

    from barnabas.broker.raft.raft_driver import Destination

_SERVED = {
    ApiKey.FETCH: (12, 18),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.VOTE: (0, 2),
    ApiKey.BEGIN_QUORUM_EPOCH: (0, 1),
    ApiKey.END_QUORUM_EPOCH: (0, 1),
    ApiKey.DESCRIBE_QUORUM: (0, 2),
    ApiKey.FETCH_SNAPSHOT: (0, 1),
}


class RaftVoter:
    """Runs in a thread of its own; a context manager. `voters` are ids and ports on 127.0.0.1."""

    def __init__(
        self, node_id: int, voters: dict[int, int], cluster_id: str, directory: str, **timeouts: float
    ) -> None:
        self._port = voters[node_id]
        self._directory = directory
        self._config = RaftConfig(
            node_id=node_id,
            directory_id=os.urandom(16),
            cluster_id=cluster_id,
            listeners=(Endpoint("CONTROLLER", "127.0.0.1", self._port),),
            static_voters=VoterSet.from_addresses(
                "CONTROLLER", {voter: ("127.0.0.1", port) for voter, port in voters.items()}
            ),
            **timeouts,
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=f"voter-{node_id}")
        self._writers: list[asyncio.StreamWriter] = []
        self.driver: RaftDriver | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End it as a kill would."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)

    @property
    def client(self) -> KafkaRaftClient:
        """The state machine; to be looked at only."""
        assert self.driver is not None
        return self.driver.raft

    def wait_for(self, condition: object, seconds: float = 30.0) -> None:
        """Wait until something is so. Raises `TimeoutError`."""
        end = time.monotonic() + seconds
        while not (self.driver is not None and condition(self.client)):  # type: ignore[operator]
            if time.monotonic() > end:
                state = None if self.driver is None else self.client.replica.quorum.leader_and_epoch
                raise TimeoutError(f"not within {seconds} s; {state}, {self.driver and self.driver.problem!r}")
            time.sleep(0.02)

    def call(self, action: object) -> object:
        """Do something on its loop, and return what it gives."""

        async def run() -> object:
            assert self.driver is not None
            found = action(self.client)  # type: ignore[operator]
            self.driver.turn()
            return found

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(30)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(self._start())
        try:
            self._loop.run_forever()
        finally:
            assert self.driver is not None
            self.driver.close()
            server.close()
            for writer in self._writers:
                writer.transport.abort()
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.run_until_complete(asyncio.sleep(0.05))
            self._threads.close()
            self._loop.close()

    async def _start(self) -> asyncio.Server:
        filesystem = OsFileSystem()
        log = KafkaMetadataLog(filesystem, self._directory, {}, 0)
        raft = KafkaRaftClient(
            self._config, log, FileQuorumStateStore(filesystem, self._directory), random.Random(self._config.node_id)
        )

        def open_channel(destination: Destination) -> NodeChannel:
            name = f"raft-client-{self._config.node_id}"
            return NodeChannel(
                destination, name, home_here(random.Random(1)), request_timeout=2.0, on_answer=lambda: None
            )

        threads = StorageThreads()
        threads.on_done = lambda: self._loop.call_soon_threadsafe(threads.deliver)
        self._threads = threads
        self.driver = RaftDriver(raft, open_channel, self._loop.call_at, read_clocks, lambda problem: None, threads)
        server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self.driver.start()
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self.driver is not None
        self._writers.append(writer)
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                header, message = decode_request(frame)
                answer = self._loop.create_future()
                if isinstance(message, ApiVersionsRequest):
                    answer.set_result(_versions())
                else:
                    self.driver.handle_request(message, "CONTROLLER", answer.set_result)
                response = await answer
                writer.write(b"".join(encode_response(response, header.request_api_version, header.correlation_id)))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()


def _versions() -> ApiVersionsResponse:
    return ApiVersionsResponse(
        api_keys=[ApiVersion(key, low, high) for key, (low, high) in _SERVED.items()],
        supported_features=[SupportedFeatureKey("kraft.version", 0, 1)],
    )
