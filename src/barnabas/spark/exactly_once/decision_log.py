"""The decision log: a compacted topic of one partition, one record for each query."""

from __future__ import annotations

import time
from collections.abc import Mapping

from barnabas.client.admin.admin_client import AdminClient
from barnabas.client.admin.configs import ConfigResource
from barnabas.client.admin.new_topic import NewTopic
from barnabas.client.admin.partition_offsets import OffsetSpec
from barnabas.client.consumer.consumer import Consumer
from barnabas.client.producer.producer import Producer
from barnabas.client.producer.transactions.detached import initialize
from barnabas.config.config_def import known_to
from barnabas.errors import KafkaError, KafkaTimeoutError, TopicExistsError, UnknownTopicOrPartitionError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.exactly_once.decision import Decision, DecisionError

#: Small segments, so that what a new reader has to read stays small.
_TOPIC_CONFIGS = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20)}

#: Seconds to wait for records that other queries have not committed yet; their drivers' transactions time out before.
STABLE_TIMEOUT = 60.0

#: How long a driver's own transaction, of one record, may take. A driver that dies in it holds up readers so long.
DRIVER_TRANSACTION_TIMEOUT_MS = "10000"

_POLL = 0.1
#: Seconds in which all brokers know of a topic that was created.
_KNOWN_WITHIN = 30.0

#: A consumer has the next fetch in flight when it hands records out. A broker that held it would leave the next
#: question on that connection, where the log ends, unanswered for so long.
_READER_SETTINGS = {"isolation.level": "read_committed", "fetch.max.wait.ms": "0"}


def settings_of(section: str, client: Mapping[str, str]) -> dict[str, str]:
    """Those of a producer's settings that another kind of client has too, but for its name."""
    return {name: value for name, value in known_to(section, client).items() if name != "client.id"}


def ensure_topic(admin: AdminClient, topic: str) -> None:
    """Create the log's topic if it is missing. Raises DecisionError for one that would forget decisions.

    Raises what the cluster says of its creation, where that does not succeed for half a minute.
    """
    policy = _cleanup_policy(admin, topic)
    if policy != "compact":
        raise DecisionError(
            f"topic {topic!r} has cleanup.policy={policy}, so decisions about transactions would be forgotten; set it "
            "to compact, or name another topic in the option decisionTopic"
        )


def _cleanup_policy(admin: AdminClient, topic: str) -> str | None:
    """Return the topic's policy, once it is there.

    Brokers hear from their controller of a new topic some time after it was made, and a topic cannot be made as long as
    fewer brokers are alive than it is to have replicas.
    """
    deadline = time.monotonic() + _KNOWN_WITHIN
    resource = ConfigResource.topic(topic)
    problem = _created(admin, topic)
    while True:
        try:
            return admin.describe_configs([resource])[resource]["cleanup.policy"].value
        except UnknownTopicOrPartitionError as missing:
            if time.monotonic() > deadline:
                raise missing if problem is None else problem from missing
            time.sleep(_POLL)
            if problem is not None:
                problem = _created(admin, topic)


def _created(admin: AdminClient, topic: str) -> KafkaError | None:
    """Make the topic; returns why there is none, as far as that is known."""
    new = NewTopic(topic, num_partitions=1, configs=_TOPIC_CONFIGS)
    problem = admin.create_topics([new], raise_errors=False).errors.get(topic)
    return None if isinstance(problem, TopicExistsError) else problem


class DecisionReader:
    """Follows the log in one process: each read goes on where the last one ended."""

    def __init__(self, client: Mapping[str, str], topic: str, *, create: bool = True) -> None:
        """`client` are a producer's settings. Raises DecisionError for a topic that is missing, unless `create`."""
        self._partition = TopicPartition(topic, 0)
        with AdminClient(settings_of("admin", client)) as admin:
            if create:
                ensure_topic(admin, topic)
            elif topic not in admin.list_topics():
                raise DecisionError(f"there is no topic {topic!r} for decisions on this cluster")
        self._consumer: Consumer = Consumer(settings_of("consumer", client) | _READER_SETTINGS)
        self._consumer.assign([self._partition])
        self._consumer.seek_to_beginning(self._partition)
        self._latest: dict[bytes, bytes | None] = {}

    def read(self, query: str, past: int = 0) -> Decision | None:
        """Return the query's last committed decision.

        With `past` it waits until everything before that offset is committed or aborted. Raises KafkaTimeoutError when
        that, or reading what is committed, takes longer than a minute.
        """
        value = self.value(query.encode(), past)
        return None if value is None else Decision.decode(value)

    def value(self, key: bytes, past: int = 0) -> bytes | None:
        """Return the last committed record of a key; see `read`. Queries are not the only ones that keep something."""
        deadline = time.monotonic() + STABLE_TIMEOUT
        while (end := self._consumer.end_offsets([self._partition])[self._partition]) < past:
            if time.monotonic() > deadline:
                raise KafkaTimeoutError(f"transactions in {self._partition} have been open for {STABLE_TIMEOUT} s")
            time.sleep(_POLL)
        while (position := self._consumer.position(self._partition)) < end:
            if time.monotonic() > deadline:
                raise KafkaTimeoutError(
                    f"the decisions in {self._partition} could not be read from offset {position} to {end} within "
                    f"{STABLE_TIMEOUT:.0f} s: does the topic still exist, and has it a leader?"
                )
            for record in self._consumer.poll(timeout=_POLL):
                self._latest[record.key or b""] = record.value
        return self._latest.get(key)

    def close(self) -> None:
        """Let go of the connection."""
        self._consumer.close()


class DecisionWriter:
    """Writes a query's decisions; making one fences the writer before it."""

    def __init__(self, client: Mapping[str, str], topic: str, transactional_id: str) -> None:
        """`client` are a producer's settings. Raises UnsupportedVersionError without transaction version 2."""
        self._topic = topic
        self._producer: Producer[bytes, bytes] = Producer({
            **client,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": DRIVER_TRANSACTION_TIMEOUT_MS,
            "transaction.two.phase.commit.enable": "false",
            "compression.type": "gzip",
            "linger.ms": "0",
        })  # fmt: skip
        try:
            initialize(self._producer, transactional_id)
        except BaseException:
            self._producer.close(0)
            raise

    def write(self, query: str, decision: Decision) -> None:
        """Put a decision into the log; it holds once this returns. After an error it is unknown whether it does."""
        with self._producer.transaction():
            stored = self._producer.send(self._topic, key=query.encode(), value=decision.encode(), partition=0)
        stored.result()

    def close(self) -> None:
        """End, without waiting."""
        self._producer.close(0)


def log_end(admin: AdminClient, topic: str) -> int:
    """Return the offset after the last record of the log, committed or not."""
    partition = TopicPartition(topic, 0)
    return admin.list_offsets({partition: int(OffsetSpec.LATEST)})[partition].offset
