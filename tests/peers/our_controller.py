"""One controller of ours on a real port, with its log in memory, for brokers of Apache Kafka to be under."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from itertools import count
from random import Random
from typing import Any, Self

from barnabas import errors
from barnabas.broker.config import BrokerConfig
from barnabas.broker.controller.bootstrap_metadata import BootstrapMetadata
from barnabas.broker.controller.controller_apis import ControllerApis, ControllerIdentity
from barnabas.broker.controller.controller_managers import ControllerSettings
from barnabas.broker.controller.controller_result import ControllerRequestContext
from barnabas.broker.controller.envelopes import handle_envelope
from barnabas.broker.controller.feature_control_manager import CONTROLLER_FEATURES
from barnabas.broker.controller.quorum_controller import ControllerEnvironment, QuorumController
from barnabas.broker.instant import Instant
from barnabas.broker.raft.kafka_raft_client import KafkaRaftClient
from barnabas.broker.raft.raft_config import RaftConfig
from barnabas.broker.raft.replica import InboundRequest, OutboundResponse
from barnabas.broker.raft.replica_key import ReplicaKey
from barnabas.broker.raft.voter_set import Endpoint, VoterNode, VoterSet
from barnabas.network.node import Node
from barnabas.protocol.api import stable_versions
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.framing import decode_request, encode_response
from barnabas.protocol.message import Message
from barnabas.protocol.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from barnabas.protocol.messages.envelope_request import EnvelopeRequest
from tests.peers.apache_kafka import free_port
from tests.support.raft_log import MemoryLog, MemoryStore

NODE_ID = 100
_OF_RAFT = (ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT, ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.DESCRIBE_QUORUM)


class OurController:
    """Runs in a thread of its own; a context manager."""

    def __init__(self, cluster_id: str, levels: dict[str, int], settings: dict[str, str]) -> None:
        self.port = free_port()
        self._ids = count(1)
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.reports: list[str] = []
        endpoint = Endpoint("CONTROLLER", "127.0.0.1", self.port)
        voters = VoterSet([VoterNode(ReplicaKey(NODE_ID), (endpoint,), 0, 1)])
        config = RaftConfig(
            node_id=NODE_ID,
            directory_id=bytes([7] * 16),
            cluster_id=cluster_id,
            listeners=(endpoint,),
            static_voters=voters,
            bootstrap=(Node(-2, "127.0.0.1", self.port),),
        )
        random = Random(1)
        self.raft = KafkaRaftClient(config, MemoryLog(), MemoryStore(), random)
        broker_config = BrokerConfig({"node.id": "1", **settings})
        self.controller = QuorumController(
            self.raft,
            ControllerSettings(NODE_ID, cluster_id, (NODE_ID,), session_timeout=3.0),
            broker_config,
            BootstrapMetadata.of_levels(levels),
            ControllerEnvironment(_now, random, self.reports.append, lambda: 0),
        )
        self.apis = ControllerApis(self.controller, ControllerIdentity(cluster_id, "CONTROLLER"))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="our controller", daemon=True)
        self._is_open = threading.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._is_open.wait(10)
        return self

    def __exit__(self, *problem: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._open())
        self._loop.run_forever()
        self._loop.run_until_complete(self._close())

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.raft.initialize(_now())
        self._turn()
        self._is_open.set()

    async def _close(self) -> None:
        self._server.close()
        if self._timer is not None:
            self._timer.cancel()
        for writer in self._writers:
            writer.close()
        for writer in list(self._writers):
            with suppress(OSError):
                await writer.wait_closed()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _turn(self) -> None:
        """Do what is due, answer what can be, and come back in time."""
        wake = self.raft.poll(_now())
        self.controller.tick(_now())
        wake = min(wake, self.raft.poll(_now()), self.controller.next_deadline())
        for one in self.raft.take_outbound():
            if isinstance(one, OutboundResponse) and one.request_id in self._waiting:
                self._waiting.pop(one.request_id).set_result(one.message)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(min(1.0, max(0.001, wake - time.monotonic())), self._turn)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                header, request = decode_request(await reader.readexactly(size))
                version = header.request_api_version
                response = await self._answer(request, version)
                writer.writelines(encode_response(response, version, header.correlation_id))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, request: Message, version: int) -> Message:
        future: asyncio.Future[Message] = self._loop.create_future()
        context = ControllerRequestContext(_now(), version)
        if request.API_KEY == ApiKey.API_VERSIONS:
            return self._versions()
        if request.API_KEY in _OF_RAFT:
            request_id = next(self._ids)
            self._waiting[request_id] = future
            self.raft.handle_request(InboundRequest(request_id, request, "CONTROLLER"), _now())
        else:
            deferred: Any
            if isinstance(request, EnvelopeRequest):
                deferred = handle_envelope(self.apis, context, request)
            elif ControllerApis.serves(request.API_KEY):
                deferred = self.apis.handle(context, request)
            else:
                raise errors.UnsupportedVersionError(f"{request.NAME} is not served here")
            deferred.then(lambda value, problem: future.set_result(value))
        self._turn()
        return await future

    def _versions(self) -> ApiVersionsResponse:
        image = self.controller.committed_image
        keys = [key for key in ApiKey if ControllerApis.serves(key)]
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(int(key), *stable_versions(key))
                for key in sorted([*keys, *_OF_RAFT, ApiKey.API_VERSIONS, ApiKey.ENVELOPE])
            ],
            supported_features=[SupportedFeatureKey(name, *found) for name, found in CONTROLLER_FEATURES.items()],
            finalized_features_epoch=image.offset,
            finalized_features=[FinalizedFeatureKey(name, level, level) for name, level in image.features.items()],
        )


def _now() -> Instant:
    return Instant(time.monotonic(), int(time.time() * 1000))
