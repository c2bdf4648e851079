"""Apache Kafka and barnabas compact the same log to the same bytes, and each reads what the other has compacted."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from random import Random

import pytest

from barnabas.broker.log.log_manager import LogManager
from barnabas.broker.log.unified_log import UnifiedLog
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import read_batches
from tests.peers import apache_kafka

TOPIC = "compacted"
NAME = TopicPartition(TOPIC, 0)
DELETE_RETENTION_MS = 3_600_000
ONE_HOUR_MS = 3_600_000
SETTINGS = {
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.min.compaction.lag.ms": str(ONE_HOUR_MS),
    "transaction.state.log.num.partitions": "1",
}
TOPIC_SETTINGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": str(DELETE_RETENTION_MS),
}


def fill(bootstrap_servers: str) -> None:
    """Records of every kind: all codecs, tombstones, no producer id, idempotent, committed and aborted."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, 1, 1, config=TOPIC_SETTINGS)])[TOPIC].result(30)
    random = Random(1)

    def send(producer: Producer, count: int) -> None:
        for _ in range(count):
            value = None if random.random() < 0.2 else random.randbytes(random.randrange(40))
            key = b"key-%d" % random.randrange(60)
            producer.produce(TOPIC, value, key, partition=0, headers=[("h", b"v")] if random.random() < 0.3 else None)

    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        for idempotent in (False, True):
            common = {"bootstrap.servers": bootstrap_servers, "linger.ms": 5, "compression.type": codec}
            producer = Producer({**common, "enable.idempotence": idempotent, "batch.num.messages": 10})
            for _ in range(3):
                send(producer, 12)
                producer.flush(30)
    for at in range(4):
        producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": f"tx-{at % 2}"})
        producer.init_transactions(30)
        for number in range(3):
            producer.begin_transaction()
            send(producer, 7)
            producer.flush(30)
            producer.commit_transaction(30) if (at + number) % 2 else producer.abort_transaction(30)


def roll_and_clean(kafka: apache_kafka.ApacheKafka, folder: Path) -> None:
    """Let Apache Kafka clean all but the last record."""
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    lag = ConfigEntry("min.compaction.lag.ms", "0", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC, incremental_configs=[lag])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30)
    checkpoint = folder.parent / "cleaner-offset-checkpoint"
    deadline = time.monotonic() + 30
    while not checkpoint.exists() or TOPIC not in checkpoint.read_text():
        assert time.monotonic() < deadline, "Apache Kafka did not clean the log"
        time.sleep(0.1)
    time.sleep(0.5)


def roll(bootstrap_servers: str) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    soon = ConfigEntry("segment.ms", "100", incremental_operation=AlterConfigOpType.SET)
    for done in admin.incremental_alter_configs(
        [ConfigResource(ConfigResource.Type.TOPIC, TOPIC, incremental_configs=[soon])]
    ).values():
        done.result(30)
    time.sleep(0.3)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce(TOPIC, b"active", b"active", partition=0)
    producer.flush(30)


def first_horizon(segment: Path) -> int:
    batches = read_batches(segment.read_bytes())
    return next(batch.delete_horizon_ms for batch in batches if batch.delete_horizon_ms is not None)


def latest(log: UnifiedLog) -> dict[bytes | None, tuple[int, bytes | None]]:
    """Offset and value of the latest record of each key, as a reader of committed records sees it."""
    from barnabas.records.decoder import RecordsDecoder

    found: dict[bytes | None, tuple[int, bytes | None]] = {}
    offset = log.log_start_offset
    while (info := log.read(offset, 1 << 20, isolation=1)).records:
        aborted = [(one.producer_id, one.first_offset) for one in info.aborted_transactions or []]
        decoder = RecordsDecoder(info.records, TOPIC, 0, offset, aborted_transactions=aborted)
        for record in decoder.take(1 << 20):
            found[record.key] = (record.offset, record.value)
        offset = list(read_batches(info.records))[-1].next_offset
    return found


def opened(directory: Path, now_ms: int) -> LogManager:
    manager = LogManager(str(directory), config={**TOPIC_SETTINGS, "log.cleaner.backoff.ms": 0})
    manager.start(now_ms=now_ms)
    return manager


@pytest.mark.slow
def test_apache_kafka_and_barnabas_compact_to_the_same_bytes(tmp_path: Path) -> None:
    missing = apache_kafka.why_not()
    if missing:
        pytest.skip(missing)
    before, after = tmp_path / "before", tmp_path / "after"
    with apache_kafka.ApacheKafka(SETTINGS) as kafka:
        fill(kafka.bootstrap_servers)
        roll(kafka.bootstrap_servers)
        folder = next(path.parent for path in kafka.folder.rglob(f"{TOPIC}-0"))
        kafka.stop()
        shutil.copytree(folder, before)
        kafka.start()
        roll_and_clean(kafka, folder / f"{TOPIC}-0")
        kafka.stop()
        shutil.copytree(folder, after)
    theirs = after / f"{TOPIC}-0"
    segment = theirs / f"{0:020d}.log"
    # At the time at which Apache Kafka did it, so that even the delete horizons are the same.
    now_ms = first_horizon(segment) - DELETE_RETENTION_MS

    manager = opened(before, now_ms)
    log = manager.logs[NAME]
    uncompacted = latest(log)
    deadline = time.monotonic() + 30
    while not manager.cleaner.cleanings and time.monotonic() < deadline:
        manager.step(64, now_ms)
    compacted = latest(log)
    manager.close()
    again = opened(after, now_ms)
    by_kafka = latest(again.logs[NAME])
    again.close()

    assert compacted == uncompacted == by_kafka
    stats = manager.cleaner.last_stats
    assert stats is not None
    assert stats.bytes_after < stats.bytes_before / 2
    ours = before / f"{TOPIC}-0"
    for batch, other in zip(
        read_batches((ours / segment.name).read_bytes()), read_batches(segment.read_bytes()), strict=True
    ):
        assert batch.header._replace(crc=0, size_in_bytes=0, position=0) == other.header._replace(
            crc=0, size_in_bytes=0, position=0
        )
        assert list(batch) == list(other)
        if batch.compression == "none":
            assert batch.header._replace(position=0) == other.header._replace(position=0)
    kinds = {(batch.is_control, batch.record_count > 0) for batch in read_batches(segment.read_bytes())}
    assert {(False, True), (False, False), (True, True)} <= kinds
    index = f"{0:020d}.txnindex"
    assert (ours / index).exists() == (theirs / index).exists()
    if (theirs / index).exists():
        assert (ours / index).read_bytes() == (theirs / index).read_bytes()
