"""The cluster's metadata as the broker uses it: topics by name and id, the cluster's id, producer-id blocks."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.faults import run_all
from barnabas.broker.metadata.metadata_store import Changes, MetadataStore, Operation, Value
from barnabas.broker.storage_threads import InlineStorage, Storage
from barnabas.errors import KafkaError, KafkaStorageError
from barnabas.protocol.kafka_uuid import random_uuid, to_text

if TYPE_CHECKING:
    import random

#: Producer ids are handed to brokers in blocks of this size (Kafka's ProducerIdsBlock).
PRODUCER_ID_BLOCK_SIZE = 1000

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC})

_CLUSTER = "cluster"
_PRODUCER_IDS = "producer_ids"
_TOPICS = "topics/"
_DELETED_TOPICS = "deleted_topics/"
_CONFIGS = "configs/"
_CLIENT_QUOTAS = "client_quotas/"
_FEATURES = "features"

#: Kinds of resources whose settings are stored here; those of topics stand in the topics' own records.
BROKERS, GROUPS, CLIENT_METRICS = "brokers", "groups", "client-metrics"

#: Called with the outcome of a change: None, or why it was not made.
Done = Callable[[KafkaError | None], None]

#: Entity type → name, None for the default of that type: `{"user": "alice", "client-id": None}`.
QuotaEntity = frozenset[tuple[str, str | None]]


class TopicMetadata:
    """One topic: its name, its id (16 bytes), how many partitions it has and the settings it was given."""

    __slots__ = ("configs", "created_ms", "id", "internal", "name", "partitions", "version")

    def __init__(
        self, name: str, id: bytes, partitions: int, configs: dict[str, str], created_ms: int, version: int = 0
    ):
        self.name = name
        self.id = id
        self.partitions = partitions
        self.configs = configs
        self.created_ms = created_ms
        self.internal = name in INTERNAL_TOPICS
        #: The store's version that last changed the topic.
        self.version = version

    def to_value(self) -> Value:
        """Return the topic as a record of the store."""
        return {
            "id": self.id.hex(),
            "partitions": self.partitions,
            "configs": self.configs,
            "created_ms": self.created_ms,
        }

    @classmethod
    def from_value(cls, name: str, value: Value, version: int) -> TopicMetadata:
        """Return the topic that a record of the store describes."""
        return cls(
            name, bytes.fromhex(value["id"]), value["partitions"], value["configs"], value["created_ms"], version
        )


class ClusterMetadata:
    """An image of the store, kept current by its subscription, and the changes that a broker makes.

    `on_topics_changed(deleted)` is called after topics appeared, changed or went, with those that went (or whose name
    now belongs to another id), `on_topic_configured(topic)` after the settings of a topic changed,
    `on_configs_changed(kind, name)` after those of another resource, `on_quotas_changed()` after any client quota.
    A change that the store cannot write raises KafkaStorageError, and nothing has changed then. Where a change takes
    `done`, that is called instead, once: with None when the change is durable and in the image, else with the error.
    Such a change goes through `storage`, so that other requests do not wait for it; the image stays as it is meanwhile.
    `on_write_failed(problem)` is called for the first change that fails, `on_written_again()` for the next that does
    not.
    """

    def __init__(self, store: MetadataStore, storage: Storage | None = None):
        self._store = store
        self._storage: Storage = storage or InlineStorage()
        self._is_committing = False
        self._queue: deque[Callable[[], None]] = deque()
        self.on_write_failed: Callable[[KafkaStorageError], None] = lambda problem: None
        self.on_written_again: Callable[[], None] = lambda: None
        self._is_failing = False
        self._topics: dict[str, TopicMetadata] = {}
        self._partition_count: int | None = None
        self._topics_by_id: dict[bytes, TopicMetadata] = {}
        self._folded_names: dict[str, str] = {}
        self._versions: dict[str, int] = {}
        self._values: dict[str, Value] = {}
        self.version = 0
        self._client_quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.on_topics_changed: Callable[[list[TopicMetadata]], None] = lambda deleted: None
        self.on_topic_configured: Callable[[TopicMetadata], None] = lambda topic: None
        self.on_configs_changed: Callable[[str, str], None] = lambda kind, name: None
        self.on_quotas_changed: Callable[[], None] = lambda: None
        #: Each is called with the keys of all records that have changed.
        self.on_values_changed: list[Callable[[list[str]], None]] = []
        self._apply_changes(store.read())
        self._unsubscribe = store.subscribe(self._apply_changes)

    @property
    def cluster_id(self) -> str:
        """The cluster's id; `ensure_cluster_id` has made it."""
        found: str = self._values[_CLUSTER]["id"]
        return found

    def ensure_cluster_id(self, random: random.Random, known: str | None = None) -> str:
        """Give the cluster an id if it has none: the one that its data directory names, or a new one."""
        if _CLUSTER not in self._values:
            self._put(_CLUSTER, {"id": known or to_text(random_uuid(random))})
        return self.cluster_id

    def topic(self, name: str) -> TopicMetadata | None:
        """Return the topic of that name."""
        return self._topics.get(name)

    def committed_topic(self, name: str) -> TopicMetadata | None:
        """Return the topic of that name, for who creates it if it is missing.

        A change that is in flight may bring it: that is waited for, which holds up the loop.
        """
        if name not in self._topics and self._is_committing:
            self._storage.drain()
        return self._topics.get(name)

    def topic_by_id(self, id: bytes) -> TopicMetadata | None:
        """Return the topic of that id."""
        return self._topics_by_id.get(id)

    def colliding_topic(self, name: str) -> str | None:
        """Return the topic whose name is the same but for '.' and '_', which names in metrics confuse."""
        return self._folded_names.get(folded(name))

    @property
    def partition_count(self) -> int:
        """How many partitions all topics have together."""
        if self._partition_count is None:
            self._partition_count = sum(topic.partitions for topic in self._topics.values())
        return self._partition_count

    def topics(self) -> Iterator[TopicMetadata]:
        """All topics, by name."""
        return iter([self._topics[name] for name in sorted(self._topics)])

    def configs(self, kind: str, name: str) -> dict[str, str]:
        """Return the settings of a resource of `BROKERS` ("" holds for all), `GROUPS` or `CLIENT_METRICS`."""
        return dict(self._values.get(f"{_CONFIGS}{kind}/{name}", {}))

    def group_configs(self, group: str) -> dict[str, str]:
        """Return what is set for one group (KIP-848), such as `consumer.session.timeout.ms`; mostly empty."""
        return self.configs(GROUPS, group)

    def configured(self, kind: str) -> list[str]:
        """Return the resources of a kind that have settings."""
        prefix = f"{_CONFIGS}{kind}/"
        return sorted(key[len(prefix) :] for key in self._values if key.startswith(prefix))

    def put_configs(self, kind: str, name: str, configs: dict[str, str]) -> None:
        """Store all settings of a resource; none at all deletes its record."""
        self.put_settings([], [(kind, name, configs)])

    def put_settings(
        self,
        topics: Iterable[TopicMetadata],
        configs: Iterable[tuple[str, str, dict[str, str]]],
        done: Done | None = None,
    ) -> None:
        """Store changed topics and all settings of other resources (kind, name, settings), in one commit."""
        operations = [Operation(_TOPICS + topic.name, topic.to_value()) for topic in topics]
        operations += [Operation(f"{_CONFIGS}{kind}/{name}", values or None) for kind, name, values in configs]
        self._commit(operations, {found.key: self._versions.get(found.key, 0) for found in operations}, done=done)

    @property
    def client_quotas(self) -> Mapping[QuotaEntity, Mapping[str, float]]:
        """The quotas of every entity that has any; not to be changed."""
        return self._client_quotas

    def put_client_quotas(self, quotas: Mapping[QuotaEntity, Mapping[str, float]], done: Done | None = None) -> None:
        """Store all quotas of some entities, in one commit; an entity without any loses its record."""
        operations = []
        for entity, values in quotas.items():
            named = sorted(entity)
            value = {"entity": named, "quotas": dict(values)} if values else None
            operations.append(Operation(_CLIENT_QUOTAS + json.dumps(named), value))
        self._commit(operations, done=done)

    @property
    def features(self) -> dict[str, int]:
        """The finalized level of every feature that was ever set; the others are at their default."""
        return dict(self._values.get(_FEATURES, {}))

    def put_features(self, levels: dict[str, int], done: Done | None = None) -> None:
        """Store the finalized levels."""
        self._put(_FEATURES, levels, done)

    def put_topics(self, topics: Iterable[TopicMetadata], done: Done | None = None) -> None:
        """Store topics, new or changed. Raises VersionConflictError if another writer was faster."""
        self.put_settings(topics, [], done)

    def delete_topics(self, names: Iterable[str], done: Done | None = None) -> None:
        """Delete topics from the metadata, and note whose logs have to go, should the broker stop before they have.

        Raises VersionConflictError if another writer was faster.
        """
        operations = []
        expected = {}
        for name in names:
            expected[_TOPICS + name] = self._versions[_TOPICS + name]
            operations.append(Operation(_TOPICS + name, None))
            operations.append(Operation(_DELETED_TOPICS + self._topics[name].id.hex(), {"name": name}))
        self._commit(operations, expected, makes_room=True, done=done)

    def deleted_topic_ids(self) -> set[bytes]:
        """Return the ids of topics whose logs may still be there."""
        return {bytes.fromhex(key[len(_DELETED_TOPICS) :]) for key in self._values if key.startswith(_DELETED_TOPICS)}

    def forget_deleted_topics(self) -> None:
        """Note that the logs of all deleted topics are gone; what cannot be noted now is noted by a later broker."""
        if self._is_committing:
            self.when_committed(self.forget_deleted_topics)
            return
        keys = [key for key in self._values if key.startswith(_DELETED_TOPICS)]
        if keys:
            self._commit([Operation(key, None) for key in keys], done=lambda problem: None)

    def allocate_producer_ids(self, done: Callable[[range, KafkaError | None], None]) -> None:
        """Reserve the next block of producer ids, which is never given again; only while no commit is in flight."""
        start = self._values.get(_PRODUCER_IDS, {}).get("next", 0)
        block = range(start, start + PRODUCER_ID_BLOCK_SIZE)
        self._put(_PRODUCER_IDS, {"next": block.stop}, lambda problem: done(block, problem))

    def value(self, key: str) -> Value | None:
        """Return a record of the store that is neither a topic nor quotas; not to be changed."""
        return self._values.get(key)

    def values(self, prefix: str) -> dict[str, Value]:
        """Return such records by the rest of their keys, which all begin so."""
        return {key[len(prefix) :]: value for key, value in self._values.items() if key.startswith(prefix)}

    def put_values(self, values: Mapping[str, Value | None], done: Done | None = None) -> None:
        """Store such records, in one commit; None deletes one."""
        self._commit([Operation(key, value) for key, value in values.items()], done=done)

    def close(self) -> None:
        """Stop following the store; the store stays open."""
        self._unsubscribe()

    def _put(self, key: str, value: Value | None, done: Done | None = None) -> None:
        self._commit([Operation(key, value)], {key: self._versions.get(key, 0)}, done=done)

    @property
    def is_committing(self) -> bool:
        """Whether a change is on its way to the disk, so that the image is about to change."""
        return self._is_committing

    def when_committed(self, work: Callable[[], None]) -> None:
        """Call `work` when the change that is in flight is over, and those that were lined up before."""
        self._queue.append(work)

    def _commit(
        self,
        operations: list[Operation],
        expected: Mapping[str, int] | None = None,
        *,
        makes_room: bool = False,
        done: Done | None = None,
    ) -> None:
        if self._is_committing:
            # Two at a time would have the same version. A caller that does not wait its turn lets the loop wait.
            self._storage.drain()
        if done is not None:
            self._commit_beside(lambda: self._store.write(operations, expected, makes_room=makes_room), done)
            return
        try:
            self._store.apply(operations, expected, makes_room=makes_room)
        except KafkaStorageError as problem:
            self._note_outcome(problem)
            raise
        self._note_outcome(None)

    def _commit_beside(self, write: Callable[[], Changes], done: Done) -> None:
        """Commit beside the loop; only `done` waits for it."""
        written: list[Changes] = []
        problems: list[KafkaStorageError] = []

        def work() -> None:
            try:
                written.append(write())
            except KafkaStorageError as problem:
                problems.append(problem)
            except Exception as problem:  # noqa: BLE001 - the request that waits has to be answered
                problems.append(KafkaStorageError(f"the metadata cannot be changed: {problem!r}"))

        def finish() -> None:
            self._is_committing = False
            problem = problems[0] if problems else None
            run_all(
                (
                    *(partial(self._store.publish, changes) for changes in written),
                    partial(self._note_outcome, problem),
                    partial(done, problem),
                    self._begin_next,
                )
            )

        self._is_committing = True
        self._storage.submit(work, finish)

    def _begin_next(self) -> None:
        """Begin the changes that have waited, one at a time; one that cannot be begun does not hold the others up."""

        def waiting() -> Iterator[Callable[[], None]]:
            while self._queue and not self._is_committing:
                yield self._queue.popleft()

        run_all(waiting())

    def _note_outcome(self, problem: KafkaStorageError | None) -> None:
        was_failing, self._is_failing = self._is_failing, problem is not None
        if problem is not None and not was_failing:
            self.on_write_failed(problem)
        elif problem is None and was_failing:
            self.on_written_again()

    def _apply_changes(self, changes: Changes) -> None:
        gone: list[TopicMetadata] = []
        configured: list[TopicMetadata] = []
        topics_changed = False
        for key, value, version in changes.changes:
            if value is None:
                self._versions.pop(key, None)
                self._values.pop(key, None)
            else:
                self._versions[key] = version
            if key.startswith(_TOPICS):
                topics_changed = True
                self._apply_topic(key[len(_TOPICS) :], value, version, gone, configured)
            elif value is not None:
                self._values[key] = value
            if key.startswith(_CLIENT_QUOTAS):
                self._apply_quotas(key, value)
        self.version = changes.version
        if topics_changed:
            self.on_topics_changed(gone)
        for topic in configured:
            self.on_topic_configured(topic)
        self._tell_others(changes)

    def _tell_others(self, changes: Changes) -> None:
        keys = [key for key, _, _ in changes.changes]
        for listener in self.on_values_changed:
            listener(keys)
        for key, _, _ in changes.changes:
            if key.startswith(_CONFIGS):
                kind, _, name = key[len(_CONFIGS) :].partition("/")
                self.on_configs_changed(kind, name)
            elif key == _FEATURES:
                # What holds for all brokers depends on them (`min.insync.replicas`).
                self.on_configs_changed(BROKERS, "")
        if any(key.startswith(_CLIENT_QUOTAS) for key, _, _ in changes.changes):
            self.on_quotas_changed()

    def _apply_quotas(self, key: str, value: Value | None) -> None:
        entity = frozenset((kind, name) for kind, name in json.loads(key[len(_CLIENT_QUOTAS) :]))
        if value is None:
            self._client_quotas.pop(entity, None)
        else:
            self._client_quotas[entity] = value["quotas"]

    def _apply_topic(
        self,
        name: str,
        value: Value | None,
        version: int,
        gone: list[TopicMetadata],
        configured: list[TopicMetadata],
    ) -> None:
        self._partition_count = None
        old = self._topics.pop(name, None)
        if old is not None:
            del self._topics_by_id[old.id], self._folded_names[folded(name)]
        topic = None
        if value is not None:
            topic = TopicMetadata.from_value(name, value, version)
            self._topics[name] = topic
            self._folded_names[folded(name)] = name
            self._topics_by_id[topic.id] = topic
        if old is None:
            return
        if topic is None or topic.id != old.id:
            gone.append(old)
        elif topic.configs != old.configs:
            configured.append(topic)


def folded(name: str) -> str:
    """Return a topic's name as metrics have it; two topics may not share one."""
    return name.replace(".", "_")
