"""Apache Kafka's DumpLogSegments reads our log files without complaint, and we read the directory of a real broker."""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path

import pytest

from barnabas import AdminClient, Broker, Consumer, NewTopic, Producer, ShareConsumer, TopicPartition
from barnabas.broker.log.append_origin import COORDINATOR
from barnabas.broker.log.log_manager import LogManager
from barnabas.broker.log.unified_log import UnifiedLog
from barnabas.broker.metadata.metadata_records import decode_record
from barnabas.protocol.kinds import ControlRecordType
from barnabas.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from barnabas.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.protocol.messages.partition_record import PartitionRecord
from barnabas.records import RecordBatchBuilder, read_batches
from barnabas.records.control_record import EndTxnMarker, build_end_txn_marker
from tests.peers import apache_kafka
from tests.support.controllers import registration
from tests.support.core_controller import DATA, CoreController, ask
from tests.support.sole_replica import append

# The first test of a fresh machine fetches Apache Kafka.
pytestmark = [
    pytest.mark.skipif(apache_kafka.why_not() is not None, reason=str(apache_kafka.why_not())),
    pytest.mark.timeout(300),
]

ABORT, COMMIT = ControlRecordType

NOW = 1_700_000_000_000


def dump(files: list[Path], *options: str) -> str:
    names = ",".join(str(file) for file in files)
    done = apache_kafka.run_tool("org.apache.kafka.tools.DumpLogSegments", *options, "--files", names, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


def send(log: UnifiedLog, sequence: int, count: int, codec: str = "none", *, transaction_of: int | None = None) -> None:
    builder = RecordBatchBuilder(1 << 20, codec)
    for at in range(count):
        builder.try_append(NOW + (sequence + at) * 7 % 1000, b"key", f"{sequence + at}".encode() * 9, [("h", b"x")])
    producer = 5 if transaction_of is None else transaction_of
    builder.set_producer_state(producer, 0, sequence, transactional=transaction_of is not None)
    append(log, builder.close(), now_ms=NOW)


def test_apache_kafka_reads_our_files_without_complaint(tmp_path: Path) -> None:
    manager = LogManager(str(tmp_path), config={"segment.bytes": 20_000, "index.interval.bytes": 500})
    manager.start()
    log = manager.create_log(TopicPartition("t", 0), bytes(range(16)))
    codecs = ("none", "gzip", "lz4", "snappy", "zstd")
    for at in range(200):
        send(log, at * 5, 5, codecs[at % 5])
    for at, control_type in enumerate((ABORT, COMMIT, ABORT)):
        send(log, at * 3, 3, transaction_of=6)
        marker = build_end_txn_marker(EndTxnMarker(control_type, 1), producer_id=6, producer_epoch=0, timestamp_ms=NOW)
        append(log, marker, now_ms=NOW, origin=COORDINATOR)
    end = log.log_end_offset
    manager.close()

    files = sorted(path for path in (tmp_path / "t-0").iterdir() if path.name[0] == "0" and path.suffix != ".partition")
    assert {path.suffix for path in files} == {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
    assert len([path for path in files if path.suffix == ".log"]) > 1
    printed = dump(files, "--deep-iteration", "--print-data-log")

    for complaint in (
        "mismatch",
        "Mismatch",
        "not found",
        "corrupt",
        "out of order",
        "Found ",
        "is invalid",
        "Exception",
    ):
        assert complaint not in printed
    assert "isvalid: false" not in printed
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+)", printed, re.MULTILINE)]
    assert sorted(offsets) == list(range(end))
    assert len(re.findall(r"endTxnMarker: (?:ABORT|COMMIT)", printed)) == 3
    aborted = re.findall(r"producerId: 6 firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", printed)
    assert [tuple(map(int, found)) for found in aborted] == [(1000, 1003, 1004), (1008, 1011, 1012)]
    assert "producerId: 5 producerEpoch: 0" in printed
    sane = dump([path for path in files if path.suffix == ".index"], "--index-sanity-check")
    assert sane.count("passed sanity check") == len([path for path in files if path.suffix == ".index"])


def _written_by_a_controller(folder: Path) -> list[bytes]:
    """Put the metadata log of a controller of ours into a folder, with a snapshot; its records as it wrote them."""
    controller = CoreController({"metadata.log.max.record.bytes.between.snapshots": "2000"})
    client = controller.connect()
    for broker_id in (1, 2):
        request = registration(broker_id)
        request.cluster_id = controller.node.cluster_id
        epoch = ask(controller, client, request, 4).broker_epoch
        ask(controller, client, BrokerHeartbeatRequest(broker_id, epoch, epoch), 1)
    for name in ("flights", "trains"):
        topic = CreatableTopic(name, 30, 2, [], [CreatableTopicConfig("retention.ms", "1000")])
        assert ask(controller, client, CreateTopicsRequest([topic], 1000), 7).topics[0].error_code == 0
    controller.advance(1)
    directory = f"{DATA}/__cluster_metadata-0"
    for entry in controller.filesystem.list_directory(directory):
        if entry.name.endswith((".log", ".checkpoint")):
            (folder / entry.name).write_bytes(controller.filesystem.read(f"{directory}/{entry.name}"))
    log = controller.node.raft.replica.log
    batches = read_batches(log.read(log.start_offset, 1 << 20))
    return [bytes(record.value or b"") for batch in batches if not batch.is_control for record in batch]


def test_apache_kafka_decodes_every_record_of_our_metadata_log(tmp_path: Path) -> None:
    """As `kafka-dump-log --cluster-metadata-decoder` does, with Kafka's MetadataRecordSerde."""
    written = [decode_record(value) for value in _written_by_a_controller(tmp_path)]

    (log,) = tmp_path.glob("*.log")
    printed = dump([log], "--cluster-metadata-decoder")

    found = [json.loads(line) for line in re.findall(r"payload: (\{.*\})", printed)]
    kinds = [re.sub("(?<=[a-z])(?=[A-Z])", "_", type(record).NAME).upper() for record in written]
    assert [one["type"] for one in found if "version" in one and one["type"] in kinds] == kinds
    partitions = [one["data"] for one in found if one["type"] == "PARTITION_RECORD"]
    ours = [record for record in written if isinstance(record, PartitionRecord)]
    assert len(ours) == 60
    assert [(one["partitionId"], one["replicas"], one["isr"], one["leader"]) for one in partitions] == [
        (record.partition_id, record.replicas, record.isr, record.leader) for record in ours
    ]
    assert [one["data"]["name"] for one in found if one["type"] == "TOPIC_RECORD"] == ["flights", "trains"]
    for complaint in ("Could not decode", "skipping", "Found ", "corrupt", "isvalid: false", "Exception"):
        assert complaint not in printed


def test_apache_kafka_decodes_our_snapshots(tmp_path: Path) -> None:
    _written_by_a_controller(tmp_path)
    snapshots = [path for path in sorted(tmp_path.glob("*.checkpoint")) if not path.name.startswith("0" * 20)]
    assert snapshots
    printed = dump(snapshots[-1:], "--cluster-metadata-decoder")
    assert "SnapshotHeader" in printed
    assert "SnapshotFooter" in printed
    kinds = re.findall(r'"type":"(\w+)"', printed)
    assert {"FEATURE_LEVEL_RECORD", "REGISTER_BROKER_RECORD", "TOPIC_RECORD", "PARTITION_RECORD"} <= set(kinds)
    for complaint in ("Could not decode", "skipping", "corrupt", "isvalid: false", "Exception"):
        assert complaint not in printed


#: An internal topic, and the option of kafka-dump-log that decodes what its coordinator has written.
DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__share_group_state": "--share-group-state-decoder",
}


def test_apache_kafka_decodes_what_our_coordinators_have_written(tmp_path: Path) -> None:
    with Broker(data_dir=str(tmp_path), in_process=True) as broker:
        _use_every_coordinator(broker.bootstrap_servers)

    printed = {}
    for topic, option in DECODERS.items():
        logs = [log for log in sorted(tmp_path.glob(f"{topic}-*/*.log")) if log.stat().st_size]
        assert logs, topic
        printed[topic] = dump(logs, option)
        for complaint in ("Failed to decode", "Could not decode", "corrupt", "isvalid: false", "Exception"):
            assert complaint not in printed[topic], topic

    said = printed["__consumer_offsets"]
    assert all(f'"group":"{kind}-group"' in said.replace(" ", "") for kind in ("classic", "consumer"))
    assert '"transactionalId":"tx"' in printed["__transaction_state"].replace(" ", "")
    assert '"groupId":"queue"' in printed["__share_group_state"].replace(" ", "")


def _use_every_coordinator(servers: str) -> None:
    """Groups of both protocols, a transaction with offsets, a share group: each has something to write down."""
    with AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("t", 1)])
    with Producer(bootstrap_servers=servers, transactional_id="tx") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"value")
        producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "classic-group")
        producer.commit_transaction()
    for protocol in ("classic", "consumer"):
        with Consumer(
            "t", bootstrap_servers=servers, group_id=f"{protocol}-group", group_protocol=protocol,
            auto_offset_reset="earliest",
        ) as consumer:  # fmt: skip
            while not consumer.assignment():
                consumer.poll(0.1)
            consumer.commit({TopicPartition("t", 0): 1})
    with ShareConsumer("t", bootstrap_servers=servers, group_id="queue") as queue:
        while not queue.poll(0.1):
            with Producer(bootstrap_servers=servers) as producer:
                producer.send("t", b"more").result(30)
        queue.commit_sync()


def test_apache_kafka_reads_what_we_have_compacted(tmp_path: Path) -> None:
    settings = {
        "cleanup.policy": "compact",
        "segment.bytes": 20_000,
        "index.interval.bytes": 500,
        "min.cleanable.dirty.ratio": 0,
        "log.cleaner.backoff.ms": 0,
    }
    manager = LogManager(str(tmp_path), config=settings)
    manager.start()
    log = manager.create_log(TopicPartition("t", 0), bytes(range(16)))
    for at in range(600):
        builder = RecordBatchBuilder(1 << 20, ("none", "gzip", "lz4", "snappy", "zstd")[at % 5])
        for number in range(5):
            key = b"key-%d" % ((at * 7 + number * 31) % 400)
            builder.try_append(NOW + at, key, None if (at + number) % 9 == 0 else bytes(40))
        builder.set_producer_state(at % 3, 0, at // 3 * 5)
        append(log, builder.close(), now_ms=NOW)
    send(log, 0, 3, transaction_of=6)
    marker = build_end_txn_marker(EndTxnMarker(ABORT, 1), producer_id=6, producer_epoch=0, timestamp_ms=NOW)
    append(log, marker, now_ms=NOW, origin=COORDINATOR)
    log.roll()
    deadline = time.monotonic() + 30
    while not manager.cleaner.cleanings and time.monotonic() < deadline:
        manager.step(64, NOW)
    kept = []
    offset = 0
    while data := log.read(offset, 1 << 24).records:
        batches = list(read_batches(data))
        kept += [record.offset for batch in batches for record in batch]
        offset = batches[-1].next_offset
    manager.close()

    files = sorted(path for path in (tmp_path / "t-0").iterdir() if path.name[0] == "0" and path.suffix != ".partition")
    files = [path for path in files if path.suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot")]
    printed = dump(files, "--deep-iteration", "--print-data-log")
    for complaint in ("mismatch", "Mismatch", "not found", "corrupt", "out of order", "is invalid", "Exception"):
        assert complaint not in printed
    assert "isvalid: false" not in printed
    assert "deleteHorizonMs: OptionalLong[" in printed
    assert 400 <= len(kept) < 500
    assert sorted(map(int, re.findall(r"^\| offset: (\d+)", printed, re.MULTILINE))) == kept


@pytest.mark.slow
def test_a_directory_of_apache_kafka_is_opened(tmp_path: Path) -> None:
    with apache_kafka.ApacheKafka({"log.index.interval.bytes": "100"}) as kafka:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 0, "enable.idempotence": True})
        for at in range(500):
            producer.produce("imported", str(at).encode(), key=b"k", partition=0, timestamp=NOW + at)
            producer.flush()
        folder = next(path.parent for path in kafka.folder.rglob("imported-0"))
        del producer
        kafka.stop()
        shutil.copytree(folder, tmp_path / "closed")
        kafka.start()
        kafka.stop(kill=True)
        shutil.copytree(folder, tmp_path / "crashed")

    theirs = {path.name: path.read_bytes() for path in (tmp_path / "closed" / "imported-0").glob("0*")}
    for state in ("crashed", "closed"):
        manager = LogManager(str(tmp_path / state), config={"index.interval.bytes": 100})
        manager.start()
        assert manager.had_clean_shutdown == (state == "closed")
        log = manager.get_log(TopicPartition("imported", 0))
        assert log is not None
        assert log.topic_id is not None
        values = []
        while records := log.read(len(values), 1 << 20).records:
            values += [record.value for batch in read_batches(records) for record in batch]
        assert values == [str(at).encode() for at in range(500)]
        assert log.offset_for_timestamp(NOW + 250)[:2] == (NOW + 250, 250)
        (state_of_producer,) = log.producer_state.producers.values()
        assert state_of_producer.last_sequence == 499
        manager.close()

    # What we made of the bare batches, on recovery, is to the byte what Apache Kafka wrote as they came.
    ours = {path.name: path.read_bytes() for path in (tmp_path / "crashed" / "imported-0").glob("0*")}
    assert len(theirs[f"{0:020d}.index"]) > 1000
    assert ours == theirs
