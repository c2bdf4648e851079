"""A controller of Apache Kafka, alone: asked by requests as brokers send them, and the records that it writes."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from barnabas.protocol.framing import decode_response, encode_request
from barnabas.protocol.message import Message
from barnabas.records import read_batches
from tests.peers.apache_kafka import ApacheKafka
from tests.support.node_folders import remove_folder

NODE_ID = 100
#: Nothing happens there by the clock but the end of sessions.
_SETTINGS = {
    "process.roles": "controller",
    "node.id": str(NODE_ID),
    "broker.session.timeout.ms": "3000",
    "metadata.max.idle.interval.ms": "0",
    "auto.leader.rebalance.enable": "false",
    "unclean.leader.election.interval.ms": "86400000",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


class JavaController:
    """The process, one connection to it, and its metadata log; a context manager."""

    def __init__(self, levels: Mapping[str, int], settings: Mapping[str, str] | None = None) -> None:
        """`levels` are the features' levels of the new cluster."""
        features = [part for name, level in sorted(levels.items()) for part in ("--feature", f"{name}={level}")]
        self._kafka = ApacheKafka(heap="192m", format_options=features)
        self._kafka.port = self._kafka.controller_port
        voters = f"{NODE_ID}@127.0.0.1:{self._kafka.port}"
        listeners = f"CONTROLLER://127.0.0.1:{self._kafka.port}"
        own = {"controller.quorum.voters": voters, "listeners": listeners}
        self._kafka.settings.update({**_SETTINGS, **own, **(settings or {})})
        self._read = 0
        self._correlation = 0

    def __enter__(self) -> Self:
        self._kafka.start()
        self._socket = socket.create_connection(("127.0.0.1", self._kafka.port), 20)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
        self._kafka.stop(kill=True)
        remove_folder(self._kafka.folder, failed=kind is not None)

    def ask(self, request: Message, version: int) -> Any:
        """Send a request, and return its response."""
        self._correlation += 1
        self._socket.sendall(encode_request(request, version, self._correlation, "oracle"))
        size = int.from_bytes(self._receive(4), "big")
        return decode_response(request.API_KEY, version, self._receive(size))[1]

    def _receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            if not more:
                raise RuntimeError("the controller has closed the connection")
            data += more
        return data

    def new_batches(self) -> Sequence[tuple[int, list[bytes]]]:
        """Return what was written since the last call: base offset and the values of each batch, none for control."""
        path = next(self._kafka.folder.glob("data/__cluster_metadata-0/*.log"))
        data = path.read_bytes()[self._read :]
        # The file is longer than what was written to it; a batch begins with its offset and its size.
        end = 0
        while end + 12 <= len(data) and (size := int.from_bytes(data[end + 8 : end + 12], "big")):
            if end + 12 + size > len(data):
                break
            end += 12 + size
        self._read += end
        found = []
        for batch in read_batches(data[:end]):
            values = [] if batch.is_control else [bytes(record.value or b"") for record in batch]
            found.append((batch.base_offset, values))
        return found
