"""A broker without sockets on virtual time, and clients that speak to it in bytes; and a client for a real socket."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Sequence
from typing import Any

from barnabas.broker.config import BrokerConfig
from barnabas.broker.instant import Instant
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.metadata.memory_store import MemoryStore
from barnabas.broker.metadata.metadata_store import MetadataStore
from barnabas.broker.network.transport import Buffers
from barnabas.broker.node import BrokerNode, Disk
from barnabas.broker.storage_threads import Storage
from barnabas.protocol.framing import FrameReader, decode_response, encode_request
from barnabas.protocol.message import Message
from barnabas.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.records import RecordBatchBuilder

DATA = "/data"
START_MS = 1_700_000_000_000
#: So often a tick may be due again at once, for what is done in pieces.
_MOST_TICKS = 1000


class CoreBroker:
    """A broker in memory; `advance` moves its clocks. A crash keeps its files and its metadata: `crashed()` goes on."""

    def __init__(
        self,
        settings: dict[str, Any] | None = None,
        filesystem: MemoryFileSystem | None = None,
        store: MetadataStore | None = None,
        seed: int = 1,
        storage: Storage | None = None,
        directories: Sequence[str] = (DATA,),
    ):
        self.warnings: list[str] = []
        self.now = 100.0
        self.settings = {"group.initial.rebalance.delay.ms": 0, **(settings or {})}
        self.filesystem = filesystem or MemoryFileSystem(random.Random(seed))
        self.store = store or MemoryStore()
        self.node = BrokerNode(
            BrokerConfig(self.settings),
            Disk(directories, self.filesystem, storage),
            self.store,
            random.Random(seed),
            self.warnings.append,
        )
        self.node.start(self.instant)
        self.node.state.advertised["PLAINTEXT"] = ("127.0.0.1", 9092)
        self.advance(0)

    @property
    def now_ms(self) -> int:
        return START_MS + int((self.now - 100) * 1000)

    @property
    def instant(self) -> Instant:
        return Instant(self.now, self.now_ms)

    @property
    def state(self) -> Any:
        return self.node.state

    def advance(self, seconds: float) -> None:
        """Let time pass, with a tick at every deadline on the way; one that is always due again is a fault."""
        end, ticks = self.now + seconds, 0
        for _ in range(10_000):
            deadline = self.node.core.next_deadline()
            if deadline > end:
                break
            ticks = 0 if deadline > self.now else ticks + 1
            if ticks > _MOST_TICKS:
                raise AssertionError(f"{ticks} ticks at one time: something turns and turns")
            self.now = max(self.now, deadline)
            self.node.core.tick(self.instant)
        self.now = end

    def connect(self, listener: str = "PLAINTEXT", host: str = "10.0.0.1") -> CoreClient:
        return CoreClient(self, listener, host)

    def stop(self) -> None:
        self.node.close(self.now_ms)

    def filesystem_after_crash(self) -> MemoryFileSystem:
        """The files as they are when this broker has been killed."""
        self.filesystem.crash()
        return self.filesystem

    def crashed(self) -> CoreBroker:
        """A new broker on what the old one had written when it was killed."""
        self.node.metadata.close()  # the dead learn nothing any more
        return CoreBroker(self.settings, self.filesystem_after_crash(), self.store, seed=2)


class CallingTransport:
    """In the place of a socket: what a connection sends goes to `write`, and its end to `close`."""

    def __init__(self, write: Callable[[Buffers], None], close: Callable[[], None]):
        self.write = write
        self.close = self.abort = close

    def resume_reading(self) -> None:
        """Nothing to do: whoever has bytes for the connection hands them over."""


class CoreClient:
    """One connection to a CoreBroker. `request` gives the response, or None while it is parked."""

    def __init__(self, broker: CoreBroker, listener: str = "PLAINTEXT", host: str = "10.0.0.1"):
        self.broker = broker
        self.responses: list[Message] = []
        self.closed = False
        self._expected: list[tuple[int, int, int]] = []
        self._reader = FrameReader(1 << 30)
        self._correlation_id = 0
        self.transport = CallingTransport(self._take, self._on_close)
        self.connection = broker.node.core.channel.connect(self.transport, host, listener, broker.now)

    def request(self, message: Message, version: int, client_id: str | None = "test") -> Any:
        """Send a request, settle, and give its response if it has come; large ones come a piece at a time."""
        before = len(self.responses)
        self.send(message, version, client_id)
        node = self.broker.node
        node.core.settle(self.broker.instant)
        while len(self.responses) == before and node.state.large_responses.next_deadline() <= self.broker.now:
            node.state.large_responses.tick(self.broker.instant)
        return self.responses[-1] if len(self.responses) > before else None

    def send(self, message: Message, version: int, client_id: str | None = "test", response_version: int = -1) -> None:
        self._correlation_id += 1
        answered_in = version if response_version < 0 else response_version
        self._expected.append((message.API_KEY, answered_in, self._correlation_id))
        self.send_bytes(encode_request(message, version, self._correlation_id, client_id))

    def send_together(self, messages: Sequence[Message], version: int, client_id: str | None = "test") -> None:
        """Send requests whose bytes reach the broker at once."""
        data = b""
        for message in messages:
            self._correlation_id += 1
            self._expected.append((message.API_KEY, version, self._correlation_id))
            data += encode_request(message, version, self._correlation_id, client_id)
        self.send_bytes(data)

    def send_bytes(self, data: bytes) -> None:
        self.connection.receive(data, self.broker.instant)

    def lose(self) -> None:
        """The socket is gone."""
        self.broker.node.core.channel.disconnected(self.connection)

    def _take(self, buffers: Buffers) -> None:
        for buffer in buffers:
            self._reader.feed(buffer)
        while (frame := self._reader.next_frame()) is not None:
            key, version, correlation_id = self._expected.pop(0)
            found, message = decode_response(key, version, frame)
            assert found == correlation_id, "responses must come in the order of the requests"
            self.responses.append(message)

    def _on_close(self) -> None:
        self.closed = True


class SocketClient:
    """One blocking connection to a broker, in raw protocol."""

    def __init__(self, bootstrap_servers: str, timeout: float = 10.0):
        host, _, port = bootstrap_servers.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout)
        self._correlation_id = 0

    def __enter__(self) -> SocketClient:
        return self

    def __exit__(self, *exception: object) -> None:
        self.socket.close()

    def request(self, message: Message, version: int, client_id: str = "test") -> Any:
        self.send(message, version, client_id)
        return self.receive(message.API_KEY, version)

    def send(self, message: Message, version: int, client_id: str = "test") -> None:
        self._correlation_id += 1
        self.socket.sendall(encode_request(message, version, self._correlation_id, client_id))

    def receive(self, api_key: int, version: int) -> Any:
        size = int.from_bytes(self._read(4), "big")
        return decode_response(api_key, version, self._read(size))[1]

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise ConnectionError("the broker closed the connection")
            data += more
        return data


def batch(
    *values: bytes | None, producer: tuple[int, int, int] | None = None, compression: str = "none", now_ms: int = 0
) -> bytes:
    """A record batch of these values; `producer` is (id, epoch, base sequence)."""
    builder = RecordBatchBuilder(1 << 20, compression=compression)
    for value in values:
        builder.try_append(now_ms or START_MS, b"key", value, [])
    if producer is not None:
        builder.set_producer_state(*producer)
    return bytes(builder.close())


def create(topic: str, partitions: int = 1, **configs: str) -> CreateTopicsRequest:
    """A request that creates a topic (version 2 to 7)."""
    given = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, configs=given)]
    )


def produce(
    topic: str, records: bytes, partition: int = 0, acks: int = -1, topic_id: bytes = bytes(16)
) -> ProduceRequest:
    """A request that appends a batch; by id from version 13 on."""
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, topic_id=topic_id, partition_data=[data])],
    )


def fetch(
    topic: str,
    offset: int = 0,
    partition: int = 0,
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    partition_max_bytes: int = 1 << 20,
    topic_id: bytes = bytes(16),
    **fields: Any,
) -> FetchRequest:
    """A request that reads one partition; by id from version 13 on."""
    asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=partition_max_bytes)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=[asked])],
        **fields,
    )
