"""A scripted broker that keeps the records it is sent, and producers that are connected to it."""

from __future__ import annotations

import threading
from typing import Any

from barnabas.client.producer.producer import Producer
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.init_producer_id_response import InitProducerIdResponse
from barnabas.records import read_batches
from tests.support.network_fakes import ScriptedBroker, metadata_response
from tests.unit.client.producer.harness import produce_response

TOPICS = {"test": 3, "one": 1}


class StoringBroker(ScriptedBroker):
    """Answers every request of a producer; keeps the records. `gate` holds Produce answers back while it is cleared."""

    def __init__(self) -> None:
        self.records: list[tuple[int, Any]] = []
        self.requests: list[list[tuple[int, int]]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.topics = dict(TOPICS)
        super().__init__(
            {
                ApiKey.METADATA: lambda _: metadata_response([(1, self.host, self.port)], self.topics),
                ApiKey.INIT_PRODUCER_ID: lambda _: InitProducerIdResponse(producer_id=1, producer_epoch=0),
                ApiKey.PRODUCE: self._produce,
            }
        )

    def _produce(self, request: Any) -> Any:
        self.gate.wait(20)
        seen = []
        for topic in request.topic_data:
            for data in topic.partition_data:
                for batch in read_batches(data.records):
                    seen.append((data.index, batch.record_count))
                    self.records += [(data.index, record) for record in batch]
        self.requests.append(seen)
        return produce_response(request) if request.acks else None

    @property
    def values(self) -> list[bytes]:
        return [record.value for _, record in self.records]


def connect(broker: StoringBroker, **settings: Any) -> Producer[Any, Any]:
    return Producer(bootstrap_servers=f"{broker.host}:{broker.port}", **settings)
