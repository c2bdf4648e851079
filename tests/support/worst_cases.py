"""Requests that are made to cost the most, derived from the schema: each array filled many times; and what they cost.

The strings name what costs the most to tell of: the largest topic and the largest group that a test has made.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from typing import Any

from barnabas.protocol.api import request_class
from barnabas.protocol.codec import Field, Plan
from barnabas.protocol.framing import encode_request
from barnabas.protocol.kinds import ConfigResourceType
from barnabas.protocol.plan import plan_of
from tests.support.core_broker import CoreClient, batch

BIG_TOPIC, PARTITIONS = "big", 5000
GROUP = "g"
FEW, MANY = 2, 1000
#: Bytes of the response for each byte that the request is longer: an error with its message for a name of one letter.
BYTES_PER_BYTE = 64
#: Seconds of one turn of the loop, on a machine that has other things to do.
LONGEST_TURN = 0.5

#: What the strings of requests name: what costs the most to tell of. Every field of this kind has to be here.
STRINGS: dict[str, str | None] = {
    "mechanism": "PLAIN", "owner_principal_type": "User", "owner_principal_name": "alice",
    "rack": "r", "host_name": "h",
    "listener": "PLAINTEXT", "principal_type": "User", "principal_name": "alice", "principal": "User:alice",
    "host": "*",
    "resource_name_filter": None,
    "principal_filter": None, "host_filter": None,
    "client_software_name": "x", "client_software_version": "1", "cluster_id": None, "committed_metadata": "",
    "configuration_keys": "retention.ms", "coordinator_keys": GROUP, "entity_name": "x", "entity_type": "client-id",
    "feature": "group.version", "group_id": GROUP, "group_ids": GROUP, "group_instance_id": None, "groups": GROUP,
    "groups_names": GROUP, "instance_id": None, "key": "producer_byte_rate", "match": None, "member_id": "",
    "name": BIG_TOPIC, "path": "/data", "protocol_name": "range", "protocol_type": "consumer", "rack_id": "",
    "reason": None,
    "resource_name": "1", "server_assignor": None, "state_filters": "Ongoing", "states_filter": "Stable",
    "subscribed_topic_names": BIG_TOPIC, "subscribed_topic_regex": None, "topic": BIG_TOPIC, "topic_name": BIG_TOPIC,
    "transactional_id": "tx", "transactional_id_pattern": None, "transactional_ids": "tx", "types_filter": "classic",
    "value": "1", "topic_names": BIG_TOPIC, "v3_and_below_transactional_id": "tx",
    "subtopology_id": "0", "process_id": "p", "source_topics": BIG_TOPIC, "source_topic_regex": "big.*",
    "repartition_sink_topics": BIG_TOPIC,
}  # fmt: skip
NUMBERS = {
    "acks": 1, "count": PARTITIONS + 1, "endpoint_type": 1, "fetch_offset": 0, "isolation_level": 0,
    "max_bytes": 1 << 20, "num_partitions": 1, "partition_max_bytes": 1 << 20, "replica_id": -1,
    "replication_factor": -1, "resource_type": int(ConfigResourceType.BROKER), "resource_types": 2,
    "response_partition_limit": 1 << 30, "session_epoch": -1, "timestamp": 0, "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000, "leader_epoch": 0, "upgrade_type": 1, "max_version_level": 1,
}  # fmt: skip
FLAGS = {"include_documentation": True, "include_synonyms": True, "include_topic_authorized_operations": True}


class Generator:
    """Makes requests of one API in one version; the array at `path` has `count` elements, every other one."""

    def __init__(self, key: int, version: int, topic_id: bytes, path: str = "", count: int = 1, same: bool = True):
        self._cls, self._plan = request_class(key), plan_of(request_class(key), version)
        self._topic_id = topic_id
        self._path = path
        self._count = count
        self._same = same

    def paths(self, plan: Plan | None = None, above: str = "") -> Iterator[str]:
        """The names of all arrays, with those they are in."""
        for field in (plan or self._plan).present:
            here = f"{above}/{field.name}"
            if field.element is not None:
                yield here
            if field.plan is not None:
                yield from self.paths(field.plan, here)

    def request(self) -> Any:
        return self._struct(self._plan, "", 0)

    def _struct(self, plan: Plan, path: str, number: int) -> Any:
        return plan.cls(**{field.name: self._value(field, f"{path}/{field.name}", number) for field in plan.present})

    def _value(self, field: Field, path: str, number: int) -> Any:
        if field.element is not None:
            count = self._count if path == self._path else 1
            return [self._one(field.element, path, 0 if self._same else n) for n in range(count)]
        return self._one(field, path, number)

    def _one(self, field: Field, path: str, number: int) -> Any:
        if field.plan is not None:
            is_asked = self._path.startswith(f"{path}/")
            return None if field.nullable and not is_asked else self._struct(field.plan, path, number)
        if field.type == "string":
            text = STRINGS[field.name]
            text = "" if text is None and not field.nullable else text
            return text if text is None or not number else f"{text}{number}"
        if field.type == "bool":
            return FLAGS.get(field.name, False)
        if field.type == "uuid":
            return self._topic_id if field.name == "topic_id" and path.count("/") > 1 else bytes(16)
        if field.type in ("bytes", "records"):
            return batch(b"v") if field.type == "records" else b""
        if field.type == "float64":
            return 1.0
        return NUMBERS.get(field.name, number if field.name.startswith(("partition", "index")) else 0)


def everything(key: int, version: int) -> Any:
    """Return the request that asks for all that there is: null where that means it, else nothing."""
    request = request_class(key)()
    for field in plan_of(type(request), version).present:
        if field.element is not None:
            setattr(request, field.name, None if field.nullable else [])
        elif field.plan is None and field.type == "string":
            setattr(request, field.name, STRINGS[field.name] or (None if field.nullable else ""))
    return request


class Cost:
    """What a request costs: bytes asked, bytes answered, the longest turn in seconds of this process."""

    def __init__(self, client: CoreClient, request: Any, version: int):
        self.asked = len(encode_request(request, version, 1, "test"))
        self.turns: list[float] = []
        written: list[int] = []
        client.transport.write = lambda buffers: written.extend(len(buffer) for buffer in buffers)
        self._turn(lambda: client.send(request, version))
        self._turn(lambda: client.broker.node.core.settle(client.broker.instant))
        self._rest(client)
        self.answered = sum(written)

    def _rest(self, client: CoreClient) -> None:
        """Let happen what follows, in turns."""
        large = client.broker.node.state.large_responses
        while large.next_deadline() <= client.broker.now:
            self._turn(lambda: large.tick(client.broker.instant))

    def _turn(self, work: Any) -> None:
        # What the collector takes is that of the whole test process.
        gc.disable()
        began = time.process_time()
        work()
        self.turns.append(time.process_time() - began)
        gc.enable()
