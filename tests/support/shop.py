"""A shop whose cluster is worth looking at: what the pictures of the console show, and what is looked at by eye.

Orders, payments, stock and deliveries; groups that read along, one that is behind, one without members; transactions,
of which one is open; a query of Spark by its checkpoint, a streams topology, schemas, users, ACLs and quotas.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from barnabas import AdminClient, Broker, Consumer, NewTopic, Producer
from barnabas.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ClientQuotaEntity,
    PatternType,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests.support.schema_registry import SchemaRegistry

CITIES = ("Seoul", "Busan", "Incheon", "Daegu", "Gwangju", "Daejeon")
STATES = ("placed", "paid", "packed", "sent", "returned")
PRODUCTS = ("tea", "rice", "book", "lamp", "bicycle", "umbrella")
BROKER = {
    "authorizer.class.name": "standard",
    "super.users": "User:ANONYMOUS",
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
}
TOPICS = {"orders": 6, "payments": 3, "stock": 3, "deliveries": 4, "orders.dead-letters": 1, "clicks": 2, "audit": 1}
TOPOLOGY = """
from barnabas.streams import StreamsBuilder

def topology():
    builder = StreamsBuilder()
    orders = builder.stream("orders")
    paid = orders.filter(lambda key, value: b'"paid"' in value)
    paid.group_by(lambda key, value: key[:3]).count().to_stream().to("revenue-by-city")
    orders.join(builder.table("stock"), lambda order, stock: order).to("deliveries")
    return builder.build()
"""
SCHEMAS = (
    {
        "type": "record", "name": "Order",
        "fields": [{"name": "number", "type": "long"}, {"name": "city", "type": "string"}],
    },
    {
        "type": "record", "name": "Order",
        "fields": [
            {"name": "number", "type": "long"}, {"name": "city", "type": "string"},
            {"name": "total", "type": "double", "default": 0.0},
        ],
    },
)  # fmt: skip


class Shop(NamedTuple):
    """A running shop: its broker, and the options with which a console in its folder shows all of it."""

    bootstrap_servers: str
    options: tuple[str, ...]
    folder: Path


def order(source: Random, number: int) -> bytes:
    document: dict[str, Any] = {
        "number": number,
        "customer": {"id": source.randrange(400), "city": source.choice(CITIES)},
        "state": source.choice(STATES),
        "items": [
            {"product": source.choice(PRODUCTS), "count": source.randrange(1, 4)} for _ in range(source.randrange(1, 3))
        ],
        "total": source.randrange(500, 90000) / 100,
    }
    return json.dumps(document).encode()


@contextmanager
def shop(folder: Path, records: int = 3000) -> Iterator[Shop]:
    """Open the shop; its members work until it closes."""
    source = Random(2013)
    with ExitStack() as closing:
        broker = closing.enter_context(Broker(config=BROKER))
        servers = broker.bootstrap_servers
        with AdminClient(bootstrap_servers=servers) as admin:
            _furnish(admin)
        with Producer(bootstrap_servers=servers, compression_type="lz4") as producer:
            for number in range(records):
                city = source.choice(CITIES).encode()
                headers = [("source", source.choice([b"web", b"app"])), ("trace-id", b"%016x" % source.getrandbits(64))]
                producer.send("orders", order(source, number), city, headers=headers)
                producer.send("clicks", b"%d /product/%d" % (number, source.randrange(99)), b"%d" % (number % 77))
                if number % 3 == 0:
                    producer.send("payments", b'{"order": %d, "cents": %d}' % (number, source.randrange(50000)), city)
        registry = closing.enter_context(SchemaRegistry())
        for schema in SCHEMAS:
            registry.answer("POST", ["subjects", "orders-value", "versions"], {"schema": json.dumps(schema)})
        registry.answer("POST", ["subjects", "payments-value", "versions"], {"schema": '"string"'})
        _left_behind(servers)
        closing.enter_context(_at_work(servers))
        checkpoint(folder / "checkpoints" / "revenue", _half_of(servers, "orders"))
        (folder / "shop_topology.py").write_text(TOPOLOGY)
        options = [
            "--schema-registry", registry.url, "--checkpoint", "checkpoints",
            "--topology", "deliveries=shop_topology:topology",
        ]  # fmt: skip
        yield Shop(servers, tuple(options), folder)


def _furnish(admin: AdminClient) -> None:
    admin.create_topics([NewTopic(name, partitions) for name, partitions in TOPICS.items()])
    compacted = {"cleanup.policy": "compact", "min.compaction.lag.ms": "60000"}
    admin.create_topics([NewTopic("customers", 3, configs=compacted), NewTopic("revenue-by-city", 1)])
    admin.create_acls([
        AclBinding(ResourceType.TOPIC, "orders", "User:alice", AclOperation.READ),
        AclBinding(ResourceType.TOPIC, "orders", "User:shop", AclOperation.WRITE),
        AclBinding(ResourceType.GROUP, "shop-", "User:alice", AclOperation.READ, pattern_type=PatternType.PREFIXED),
        AclBinding(ResourceType.TOPIC, "payments", "User:guest", AclOperation.ALL, AclPermissionType.DENY),
    ])  # fmt: skip
    for user, mechanism in (("alice", ScramMechanism.SCRAM_SHA_512), ("shop", ScramMechanism.SCRAM_SHA_256)):
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, "correct horse", mechanism)])
    quota = ClientQuotaEntity.of_types({"user": "alice"})
    admin.alter_client_quotas({quota: {"consumer_byte_rate": 1048576.0}})


def _left_behind(servers: str) -> None:
    """A group that nobody is a member of, far behind."""
    with Consumer(group_id="nightly-export", bootstrap_servers=servers) as consumer:
        consumer.assign([("orders", number) for number in range(6)])
        ends = consumer.end_offsets(consumer.assignment())
        consumer.commit({partition: end // 5 for partition, end in ends.items()})


def _half_of(servers: str, topic: str) -> dict[int, int]:
    """The offsets in the middle of each partition."""
    with Consumer(bootstrap_servers=servers) as consumer:
        ends = consumer.end_offsets([(topic, number) for number in range(TOPICS[topic])])
    return {partition.partition: end // 2 for partition, end in ends.items()}


def checkpoint(folder: Path, read: dict[int, int]) -> None:
    """What Spark keeps of a query that has read orders."""
    for name, text in (("offsets", json.dumps({"orders": read})), ("commits", "")):
        (folder / name).mkdir(parents=True)
        lines = ["v1", json.dumps({"batchWatermarkMs": 0}), text] if text else ["v1", '{"nextBatchWatermarkMs":0}']
        (folder / name / "0").write_text("\n".join(lines))


@contextmanager
def _at_work(servers: str) -> Iterator[None]:
    """Two members of a group, one that writes on, and a transaction that stays open."""
    is_over = threading.Event()

    def write() -> None:
        source = Random(7)
        with Producer(bootstrap_servers=servers, client_id="web-shop") as producer:
            number = 0
            while not is_over.wait(0.05):
                for _ in range(source.randrange(1, 9)):
                    number += 1
                    producer.send("orders", order(source, 100_000 + number), source.choice(CITIES).encode())

    def read(name: str) -> None:
        with Consumer(
            group_id="shop-packing", bootstrap_servers=servers, client_id=name, auto_offset_reset="earliest",
            auto_commit_interval_ms=500, max_poll_records=200,
        ) as consumer:  # fmt: skip
            consumer.subscribe(["orders", "payments"])
            while not is_over.is_set():
                consumer.poll(0.2)

    def transact() -> None:
        with Producer(bootstrap_servers=servers, transactional_id="billing-1", client_id="billing") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("payments", b'{"order": 1, "cents": 990}', b"Seoul").result()
            producer.send("audit", b'{"order": 1}').result()
            is_over.wait()
            producer.abort_transaction()

    threads = [threading.Thread(target=write), threading.Thread(target=transact)]
    threads += [threading.Thread(target=read, args=(name,)) for name in ("packer-1", "packer-2")]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
