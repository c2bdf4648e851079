"""What a broker does that a setting changes: each function looks at one broker, and may look at it again later."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from unittest import mock
from zlib import crc32

from barnabas.broker.config import BrokerConfig
from barnabas.broker.network.connection_quotas import ConnectionQuotas
from barnabas.config.quota_config import PRODUCE
from barnabas.protocol.kafka_uuid import to_text
from barnabas.protocol.message import Message
from barnabas.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from barnabas.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from barnabas.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from barnabas.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from barnabas.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.protocol.messages.initialize_share_group_state_request import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
    PartitionData,
)
from barnabas.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.metadata_request import MetadataRequest
from barnabas.records import RecordBatchBuilder, read_batches
from tests.support.core_broker import START_MS, CoreBroker, batch, create, fetch, produce
from tests.support.share_member import ShareMember
from tests.unit.config import streams_observations as streams

BROKER, GROUP = 4, 32
_NO_DELAY = {"group.streams.initial.rebalance.delay.ms": 0}


class Observed(NamedTuple):
    """Another value than the default, what changes with it, and what has to be set besides."""

    value: str
    look: Callable[[CoreBroker], Any]
    others: Mapping[str, Any] = {}


class TopicObserved(NamedTuple):
    """The same for a topic's setting; `look` is given the broker and the settings of the topic to look at."""

    value: str
    look: Callable[[CoreBroker, dict[str, str]], Any]
    others: Mapping[str, str] = {}


def ask(broker: CoreBroker, message: Message, version: int) -> Any:
    """The answer to a request, that of a parked one too."""
    client = broker.connect()
    response = client.request(message, version)
    if response is None:
        broker.advance(3)
        response = client.responses[-1]
    return response


def alter(broker: CoreBroker, resource_type: int, resource: str, name: str, value: str) -> Any:
    """Change one setting of a running broker; the result."""
    config = AlterableConfig(name=name, config_operation=0, value=value)
    asked = AlterConfigsResource(resource_type=resource_type, resource_name=resource, configs=[config])
    return ask(broker, IncrementalAlterConfigsRequest(resources=[asked]), 1).responses[0]


def new_topic(broker: CoreBroker, **configs: str) -> str:
    """Make a topic that was not there."""
    name = f"t{len([*broker.state.metadata.topics()])}"
    assert ask(broker, create(name, **configs), 7).topics[0].error_code == 0
    return name


def send(broker: CoreBroker, topic: str, records: bytes) -> Any:
    response = ask(broker, produce(topic, records), 9)
    return response, response.responses[0].partition_responses[0]


# -- brokers -----------------------------------------------------------------------------------------------------------


def rack(broker: CoreBroker) -> Any:
    return ask(broker, MetadataRequest(topics=[]), 12).brokers[0].rack


def creation(broker: CoreBroker) -> Any:
    request = create("new")
    request.topics[0].replication_factor = -1
    return ask(broker, request, 7).topics[0].error_code


def fetched(broker: CoreBroker) -> Any:
    topic = new_topic(broker)
    for _ in range(4):
        send(broker, topic, batch(bytes(1000)))
    return len(ask(broker, fetch(topic), 12).responses[0].partitions[0].records)


def clients_listeners(broker: CoreBroker) -> Any:
    return [listener.name for listener in BrokerConfig(broker.settings).listeners]


def checkpoints(broker: CoreBroker) -> Any:
    """Whether the recovery points are in their file some seconds after a record was flushed."""
    topic = new_topic(broker, flush_messages="1")
    send(broker, topic, batch(b"1"))
    broker.advance(5)
    path = "/data/recovery-point-offset-checkpoint"
    return broker.filesystem.exists(path) and f"{topic} 0 1" in broker.filesystem.read(path).decode()


def throttled(broker: CoreBroker) -> Any:
    """How long a client waits that sends four times in a second and a half what it may send in one."""
    entry = EntryData(
        entity=[EntityData(entity_type="client-id", entity_name="test")], ops=[OpData(key=PRODUCE, value=10_000.0)]
    )
    assert ask(broker, AlterClientQuotasRequest(entries=[entry]), 1).entries[0].error_code == 0
    topic = new_topic(broker)
    waits = []
    for _ in range(4):
        waits.append(send(broker, topic, batch(bytes(30_000)))[0].throttle_time_ms)
        broker.advance(0.5)
    return waits


def connections(broker: CoreBroker) -> Any:
    """How many connections of each of two addresses are taken."""
    quotas = broker.__dict__.setdefault("quotas", ConnectionQuotas(broker.node.config, broker.state.client_quotas))
    taken = []
    for address in ("10.0.0.1", "10.0.0.2"):
        admitted = [quotas.admit(address, "PLAINTEXT", broker.now) is None for _ in range(6)].count(True)
        taken.append(admitted)
    for address, count in zip(("10.0.0.1", "10.0.0.2"), taken, strict=True):
        for _ in range(count):
            quotas.release(address, "PLAINTEXT")
    return taken


def waiting_connections(broker: CoreBroker) -> Any:
    """How many of sixty that come at once have to wait."""
    quotas = broker.__dict__.setdefault("paused", ConnectionQuotas(broker.node.config, broker.state.client_quotas))
    return [quotas.pause("PLAINTEXT", broker.now) == 0 for _ in range(60)].count(False)


# -- compaction --------------------------------------------------------------------------------------------------------


def looks(broker: CoreBroker) -> Any:
    """How many seconds lie between two looks of the cleaner for something to do."""
    broker.advance(40)
    manager = broker.node.logs.cleaner.manager
    with mock.patch.object(type(manager), "grab_filthiest_compacted_log", return_value=None) as looked:
        broker.advance(60)
    return round(60 / looked.call_count)


def compaction(broker: CoreBroker) -> Any:
    """In how many steps a log is cleaned, whether it is slowed down, of how many keys at once, with how much memory."""
    logs, now_ms = broker.node.logs, broker.now_ms + 1_000_000
    topic = new_topic(broker, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", segment_bytes="1048576")
    for start in range(0, 100, 10):
        builder = RecordBatchBuilder(1 << 20)
        for number in range(start, start + 10):
            builder.try_append(START_MS, b"%d" % number, b"", [])
        send(broker, topic, bytes(builder.close()))
    for _ in range(3):
        send(broker, topic, batch(bytes(700_000)))
    before, began, steps = logs.cleaner.cleanings, now_ms, 0
    while logs.cleaner.cleanings == before:
        worked = logs.step(64, now_ms)
        steps += worked
        now_ms += 0 if worked else 1000
    stats = logs.cleaner.last_stats
    assert stats is not None
    return steps, now_ms > began, stats.keys, stats.map_memory


# -- groups ------------------------------------------------------------------------------------------------------------


def group_setting(name: str, value: str, kind: str = "consumer") -> Callable[[CoreBroker], Any]:
    """Whether a group may have a setting."""

    def look(broker: CoreBroker) -> Any:
        return alter(broker, GROUP, "g", f"{kind}.{name}", value).error_code

    return look


def heartbeat(broker: CoreBroker, group: str, member: str) -> Any:
    ask(broker, FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4)
    joins = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t0"],
        topic_partitions=[],
    )
    return ask(broker, joins, 1)


def heartbeat_interval(broker: CoreBroker) -> Any:
    return heartbeat(broker, "g", "m").heartbeat_interval_ms


def assignor(broker: CoreBroker) -> Any:
    heartbeat(broker, "g", "m")
    return ask(broker, ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups[0].assignor_name


def lag_of_assignment(broker: CoreBroker) -> Any:
    """By how many epochs the target assignment is behind when the second member has just joined."""
    group = new_topic(broker)
    heartbeat(broker, group, "a")
    heartbeat(broker, group, "b")
    found = ask(broker, ConsumerGroupDescribeRequest(group_ids=[group]), 1).groups[0]
    return found.group_epoch - found.assignment_epoch


def joining(session_timeout_ms: int) -> Callable[[CoreBroker], Any]:
    """Whether a member of the classic protocol may have this session timeout."""

    def look(broker: CoreBroker) -> Any:
        ask(broker, FindCoordinatorRequest(key_type=0, coordinator_keys=["classic"]), 4)
        request = JoinGroupRequest(
            group_id="classic",
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=1000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        return ask(broker, request, 3).error_code

    return look


def internal_topic(key_type: int) -> Callable[[CoreBroker], Any]:
    def look(broker: CoreBroker) -> Any:
        ask(broker, FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"]), 4)
        (topic,) = broker.state.metadata.topics()
        return topic.partitions, topic.configs["segment.bytes"]

    return look


def share_member(broker: CoreBroker, member_id: str = "m") -> ShareMember:
    if broker.state.metadata.topic("shared") is None:
        ask(broker, create("shared"), 7)
        alter(broker, GROUP, "g", "share.auto.offset.reset", "earliest")
    return ShareMember(broker, member_id, "shared")


def share_heartbeat(broker: CoreBroker) -> Any:
    return share_member(broker).heartbeat().heartbeat_interval_ms


def share_epochs(broker: CoreBroker) -> Any:
    group = f"g{len(broker.state.group_coordinator.list_groups([], []))}"
    epochs = []
    for name in ("a", "b"):
        member = share_member(broker, name)
        member.group = group
        epochs.append(member.heartbeat().member_epoch)
    return epochs


def share_session(broker: CoreBroker) -> Any:
    member = share_member(broker)
    member.heartbeat()
    broker.advance(48)
    return member.heartbeat().error_code


def share_members(broker: CoreBroker) -> Any:
    return [share_member(broker, name).heartbeat().error_code for name in ("a", "b")]


def share_sessions(broker: CoreBroker) -> Any:
    codes = []
    for name in ("a", "b"):
        member = share_member(broker, name)
        found = member.send_fetch()
        broker.advance(1)
        codes.append((found or member.client.responses[-1]).error_code)
    return codes


def share_locks(broker: CoreBroker) -> Any:
    member = share_member(broker)
    member.heartbeat()
    for _ in range(15):
        ask(broker, produce("shared", batch(*[b"x"] * 10)), 12)
    return member.fetch(max_records=1000)


def share_deliveries(broker: CoreBroker) -> Any:
    member = share_member(broker)
    member.heartbeat()
    ask(broker, produce("shared", batch(b"x")), 12)
    found = [member.fetch()]
    while found[-1]:
        found.append(member.fetch((0, 0, [2])))
    return len(found)


def share_lock_ms(broker: CoreBroker) -> Any:
    return share_member(broker).send_fetch().acquisition_lock_timeout_ms


def share_state_topic(broker: CoreBroker) -> Any:
    key = f"g:{to_text(bytes(16))}:0"
    ask(broker, FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 6)
    (topic,) = broker.state.metadata.topics()
    return topic.partitions, topic.configs["segment.bytes"]


def codec_of_share_states(broker: CoreBroker) -> Any:
    ask(broker, create("t"), 7)
    topic = broker.state.metadata.topic("t")
    partitions = [PartitionData(partition=0, state_epoch=1, start_offset=0)]
    topics = [InitializeStateData(topic_id=topic.id, partitions=partitions)]
    ask(broker, InitializeShareGroupStateRequest(group_id="g", topics=topics), 0)
    records = ask(broker, fetch("__share_group_state"), 12).responses[0].partitions[0].records
    return [found.header.attributes & 7 for found in read_batches(records)]


def codec_of_offsets(broker: CoreBroker) -> Any:
    heartbeat(broker, "g", "m")
    records = ask(broker, fetch("__consumer_offsets"), 12).responses[0].partitions[0].records
    return [found.header.attributes & 7 for found in read_batches(records)]


# -- transactions ------------------------------------------------------------------------------------------------------


def longest_transaction(broker: CoreBroker) -> Any:
    return ask(broker, InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 4).error_code


def begin(broker: CoreBroker, topic: str, id: str = "x", timeout_ms: int = 1000) -> tuple[int, int]:
    """Begin a transaction with a partition of a topic."""
    ask(broker, FindCoordinatorRequest(key_type=1, coordinator_keys=[id]), 4)
    given = ask(broker, InitProducerIdRequest(transactional_id=id, transaction_timeout_ms=timeout_ms), 4)
    assert given.error_code == 0
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=id,
        v3_and_below_producer_id=given.producer_id,
        v3_and_below_producer_epoch=given.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
    )
    ask(broker, request, 3)
    return given.producer_id, given.producer_epoch


def transaction(seconds: float, *, begins: bool) -> Callable[[CoreBroker], Any]:
    """What there is of a transactional id after so many seconds."""

    def look(broker: CoreBroker) -> Any:
        topic = new_topic(broker)
        if begins:
            begin(broker, topic)
        else:
            ask(broker, FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 4)
            ask(broker, InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000), 4)
        broker.advance(seconds)
        found = ask(broker, DescribeTransactionsRequest(transactional_ids=["x"]), 0).transaction_states[0]
        return found.error_code, found.transaction_state

    return look


def unverified(broker: CoreBroker) -> Any:
    """What is answered to transactional records for a partition that is not in the transaction."""
    other, topic = new_topic(broker), new_topic(broker)
    id = f"writes to {other}"
    identity = begin(broker, other, id, 60_000)
    builder = RecordBatchBuilder(1 << 20)
    builder.try_append(START_MS, None, b"1", [])
    builder.set_producer_state(*identity, 0, transactional=True)
    request = produce(topic, bytes(builder.close()))
    request.transactional_id = id
    return ask(broker, request, 11).responses[0].partition_responses[0].error_code


def producers(broker: CoreBroker) -> Any:
    """How many producers a partition remembers that wrote a quarter of an hour ago."""
    topic = new_topic(broker)
    send(broker, topic, batch(b"1", producer=(5, 0, 0)))
    broker.advance(900)
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0])])
    return len(ask(broker, request, 0).topics[0].partitions[0].active_producers)


ONE_PARTITION = {"offsets.topic.num.partitions": 1}
OBSERVED: dict[str, Observed] = {
    "broker.rack": Observed("r1", rack),
    "controller.listener.names": Observed(
        "MINE,CONTROLLER",
        clients_listeners,
        {
            "listeners": "PLAINTEXT://:9092,MINE://:9093",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,MINE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        },
    ),
    "default.replication.factor": Observed("2", creation),
    "fetch.max.bytes": Observed("1024", fetched),
    "group.consumer.assignment.interval.ms": Observed("0", lag_of_assignment),
    "group.consumer.assignors": Observed("range", assignor),
    "group.consumer.heartbeat.interval.ms": Observed("6000", heartbeat_interval),
    "group.consumer.max.assignment.interval.ms": Observed("2000", group_setting("assignment.interval.ms", "3000")),
    "group.consumer.max.heartbeat.interval.ms": Observed("7000", group_setting("heartbeat.interval.ms", "10000")),
    "group.consumer.max.session.timeout.ms": Observed("50000", group_setting("session.timeout.ms", "55000")),
    "group.consumer.min.assignment.interval.ms": Observed("500", group_setting("assignment.interval.ms", "100")),
    "group.consumer.min.heartbeat.interval.ms": Observed("1000", group_setting("heartbeat.interval.ms", "2000")),
    "group.consumer.min.session.timeout.ms": Observed("30000", group_setting("session.timeout.ms", "40000")),
    "group.max.session.timeout.ms": Observed("10000", joining(20_000)),
    "group.min.session.timeout.ms": Observed("1000", joining(2_000)),
    "log.cleaner.backoff.ms": Observed("2000", looks),
    "log.cleaner.dedupe.buffer.size": Observed("400", compaction),
    "log.cleaner.io.buffer.load.factor": Observed("0.2", compaction, {"log.cleaner.dedupe.buffer.size": 1600}),
    "log.cleaner.io.buffer.size": Observed("1000", compaction),
    "log.cleaner.io.max.bytes.per.second": Observed("200000", compaction),
    "log.flush.offset.checkpoint.interval.ms": Observed("2000", checkpoints),
    "log.flush.start.offset.checkpoint.interval.ms": Observed("2000", checkpoints),
    "max.connection.creation.rate": Observed("3", waiting_connections),
    "max.connections": Observed("3", connections),
    "max.connections.per.ip": Observed("3", connections),
    "max.connections.per.ip.overrides": Observed("10.0.0.2:3", connections),
    "offsets.topic.compression.codec": Observed("1", codec_of_offsets, ONE_PARTITION),
    "offsets.topic.segment.bytes": Observed("1048576", internal_topic(0)),
    "producer.id.expiration.ms": Observed("1000", producers),
    "quota.window.num": Observed("3", throttled),
    "quota.window.size.seconds": Observed("3", throttled),
    "group.share.assignment.interval.ms": Observed("0", share_epochs),
    "group.share.delivery.count.limit": Observed("3", share_deliveries),
    "group.share.heartbeat.interval.ms": Observed("6000", share_heartbeat),
    "group.share.max.assignment.interval.ms": Observed(
        "2000", group_setting("assignment.interval.ms", "3000", "share")
    ),
    "group.share.max.delivery.count.limit": Observed("7", group_setting("delivery.count.limit", "8", "share")),
    "group.share.max.heartbeat.interval.ms": Observed("7000", group_setting("heartbeat.interval.ms", "10000", "share")),
    "group.share.max.partition.max.record.locks": Observed(
        "3000", group_setting("partition.max.record.locks", "3500", "share")
    ),
    "group.share.max.record.lock.duration.ms": Observed(
        "50000", group_setting("record.lock.duration.ms", "55000", "share")
    ),
    "group.share.max.session.timeout.ms": Observed("50000", group_setting("session.timeout.ms", "55000", "share")),
    "group.share.max.share.sessions": Observed("1", share_sessions, {"group.share.max.size": 1}),
    "group.share.max.size": Observed("1", share_members),
    "group.share.min.assignment.interval.ms": Observed("500", group_setting("assignment.interval.ms", "100", "share")),
    "group.share.min.delivery.count.limit": Observed("3", group_setting("delivery.count.limit", "2", "share")),
    "group.share.min.heartbeat.interval.ms": Observed("1000", group_setting("heartbeat.interval.ms", "2000", "share")),
    "group.share.min.partition.max.record.locks": Observed(
        "200", group_setting("partition.max.record.locks", "150", "share")
    ),
    "group.share.min.record.lock.duration.ms": Observed(
        "10000", group_setting("record.lock.duration.ms", "12000", "share")
    ),
    "group.share.min.session.timeout.ms": Observed("30000", group_setting("session.timeout.ms", "40000", "share")),
    "group.share.partition.max.record.locks": Observed("100", share_locks),
    "group.share.record.lock.duration.ms": Observed("40000", share_lock_ms),
    "group.share.session.timeout.ms": Observed("50000", share_session),
    "group.streams.assignment.interval.ms": Observed("0", streams.epochs, _NO_DELAY),
    "group.streams.heartbeat.interval.ms": Observed("6000", streams.heartbeat_interval),
    "group.streams.initial.rebalance.delay.ms": Observed("0", streams.delayed),
    "group.streams.max.assignment.interval.ms": Observed(
        "2000", group_setting("assignment.interval.ms", "3000", "streams")
    ),
    "group.streams.max.heartbeat.interval.ms": Observed(
        "7000", group_setting("heartbeat.interval.ms", "10000", "streams")
    ),
    "group.streams.max.session.timeout.ms": Observed("50000", group_setting("session.timeout.ms", "55000", "streams")),
    "group.streams.max.size": Observed("1", streams.members),
    "group.streams.max.standby.replicas": Observed("3", streams.most_copies(alter)),
    "group.streams.min.assignment.interval.ms": Observed(
        "500", group_setting("assignment.interval.ms", "100", "streams")
    ),
    "group.streams.min.heartbeat.interval.ms": Observed(
        "1000", group_setting("heartbeat.interval.ms", "2000", "streams")
    ),
    "group.streams.min.session.timeout.ms": Observed("30000", group_setting("session.timeout.ms", "40000", "streams")),
    "group.streams.num.standby.replicas": Observed("1", streams.copies),
    "group.streams.session.timeout.ms": Observed("50000", streams.session),
    "share.coordinator.state.topic.compression.codec": Observed(
        "1", codec_of_share_states, {"share.coordinator.state.topic.num.partitions": 1}
    ),
    "share.coordinator.state.topic.num.partitions": Observed("3", share_state_topic),
    "share.coordinator.state.topic.segment.bytes": Observed("1048576", share_state_topic),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": Observed("1000", transaction(4, begins=True)),
    "transaction.max.timeout.ms": Observed("1000", longest_transaction),
    "transaction.partition.verification.enable": Observed("false", unverified),
    "transaction.remove.expired.transaction.cleanup.interval.ms": Observed(
        "1000", transaction(9, begins=False), {"transactional.id.expiration.ms": 2000}
    ),
    "transaction.state.log.num.partitions": Observed("3", internal_topic(1)),
    "transaction.state.log.segment.bytes": Observed("1048576", internal_topic(1)),
}


# -- topics ------------------------------------------------------------------------------------------------------------


def recompressed(broker: CoreBroker, configs: dict[str, str]) -> Any:
    """How large a batch is that the broker compresses."""
    topic = new_topic(broker, **configs)
    numbers = (crc32(b"%d" % number) % 1000 for number in range(40_000))
    assert send(broker, topic, batch(b"".join(b"%d," % number for number in numbers)))[1].error_code == 0
    return broker.state.replica_manager.partition(topic, 0).log.size


def from_the_future(broker: CoreBroker, configs: dict[str, str]) -> Any:
    """Whether a record is taken that is half an hour ahead."""
    topic = new_topic(broker, **configs)
    return send(broker, topic, batch(b"1", now_ms=broker.now_ms + 1_800_000))[1].error_code


def segments(broker: CoreBroker, configs: dict[str, str]) -> Any:
    """How many segments there are after twenty seconds with a record in each."""
    topic = new_topic(broker, **configs)
    for _ in range(20):
        send(broker, topic, batch(b"1", now_ms=broker.now_ms))
        broker.advance(1)
    return broker.state.replica_manager.partition(topic, 0).log.number_of_segments


OBSERVED_OF_TOPICS: dict[str, TopicObserved] = {
    "compression.gzip.level": TopicObserved("1", recompressed, {"compression.type": "gzip"}),
    "compression.lz4.level": TopicObserved("1", recompressed, {"compression.type": "lz4"}),
    "compression.zstd.level": TopicObserved("19", recompressed, {"compression.type": "zstd"}),
    "message.timestamp.after.max.ms": TopicObserved("1000", from_the_future),
    "segment.jitter.ms": TopicObserved("9999", segments, {"segment.ms": "10000"}),
}
