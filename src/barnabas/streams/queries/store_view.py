"""`StoreView`: a read-only copy of a state store. Source: Kafka's CompositeReadOnlyKeyValueStore and its siblings."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any

from barnabas.client.admin.admin_client import AdminClient
from barnabas.config.config_def import known_to
from barnabas.errors import UnknownTopicOrPartitionError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.streams.config import StreamsConfig
from barnabas.streams.errors import StateStoreNotAvailableError, UnknownStateStoreError
from barnabas.streams.serdes.record_context import RecordContext
from barnabas.streams.state.memory import MemoryBackend
from barnabas.streams.state.read_only import ReadOnlyPlainStore, ReadOnlyStore
from barnabas.streams.state.store import StateStore
from barnabas.streams.state.store_factory import make_store
from barnabas.streams.store_changelog_reader import ChangelogReader
from barnabas.streams.topology.processor_topology import changelog_topic
from barnabas.streams.topology.stores import StoreBuilder, StoreKind
from barnabas.streams.topology.topology import Topology

_WITH_TIMESTAMPS = {StoreKind.TIMESTAMPED_KEY_VALUE, StoreKind.TIMESTAMPED_WINDOW}
_KEY_VALUE = frozenset({"get", "range", "reverse_range", "all", "reverse_all", "prefix_scan"})
_WINDOW = frozenset({"fetch", "backward_fetch", "fetch_all", "backward_fetch_all", "all", "backward_all"})
_SESSION = frozenset({"fetch", "backward_fetch", "fetch_session", "find_sessions", "backward_find_sessions"})

#: What each kind of store can be asked.
_METHODS: dict[StoreKind, frozenset[str]] = {
    StoreKind.KEY_VALUE: _KEY_VALUE,
    StoreKind.TIMESTAMPED_KEY_VALUE: _KEY_VALUE,
    StoreKind.VERSIONED_KEY_VALUE: frozenset({"get"}),
    StoreKind.WINDOW: _WINDOW,
    StoreKind.TIMESTAMPED_WINDOW: _WINDOW,
    StoreKind.SESSION: _SESSION,
}


class ViewContext:
    """What a store takes from the engine, where there is no engine."""

    def __init__(self, config: StreamsConfig, topic: str) -> None:
        self.key_serde = config.default_key_serde
        self.value_serde = config.default_value_serde
        self.record_context: RecordContext | None = RecordContext(0, -1, -1, None, [])
        self._topic = topic

    def changelog_topic(self, store: str) -> str:
        """Return the topic that serdes are told."""
        return self._topic

    def record_dropped(self) -> None:
        """Do nothing: what came too late was counted by the task."""


class StoreView:
    """A copy of a store for queries; methods are those of the store that read, as Kafka's: `get`, `range`, `fetch`, ...

    Each call first takes up what is committed by then, unless that was done within `max_staleness` seconds. A store of
    values with timestamps answers with the values; `timestamped=True` keeps the timestamps. `open` makes one. May be
    used by several threads.
    """

    def __init__(
        self,
        builder: StoreBuilder,
        reader: ChangelogReader,
        partitions: list[TopicPartition],
        config: StreamsConfig,
        *,
        timestamped: bool = False,
        max_staleness: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = builder.name
        self._methods = _METHODS[builder.kind]
        self._reader = reader
        self._stores: dict[TopicPartition, StateStore] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._faces: list[ReadOnlyStore] = []
        self._lock = threading.RLock()
        self._max_staleness, self._clock = max_staleness, clock
        self._fresh_at = float("-inf")
        plain = builder.kind in _WITH_TIMESTAMPS and not timestamped
        for partition in partitions:
            store = make_store(replace(builder, get=None), MemoryBackend())
            store.logged = False
            store.init(ViewContext(config, partition.topic))
            self._stores[partition] = store
            refusal = f"the view of store {builder.name} is read only"
            self._faces.append((ReadOnlyPlainStore if plain else ReadOnlyStore)(store, refusal))

    @classmethod
    def open(
        cls,
        topology: Topology,
        config: StreamsConfig,
        name: str,
        client: Mapping[str, str],
        *,
        timestamped: bool = False,
        max_staleness: float = 0.0,
    ) -> StoreView:
        """Return a view of a store by its name; `client` are settings of a consumer.

        Raises UnknownStateStoreError for a name that the topology does not have, StateStoreNotAvailableError for a
        store without a changelog topic, or whose topic does not exist yet.
        """
        found = topology.builder
        found.rewrite_topology(config.values)
        builder = found.stores.get(name) or found.global_stores.get(name)
        if builder is None:
            known = ", ".join(sorted((*found.stores, *found.global_stores))) or "none"
            raise UnknownStateStoreError(f"there is no store {name} in the topology; there are: {known}")
        if builder.kind not in _METHODS:
            raise UnknownStateStoreError(f"store {name} is a {builder.kind.value} store of the DSL's own")
        topic = changelog_topic(found, builder)
        if topic is None:
            raise StateStoreNotAvailableError(f"store {name} has no changelog topic (logging is off) to be read from")
        partitions = _partitions(topic, client, name)
        reader = ChangelogReader(client)
        return cls(builder, reader, partitions, config, timestamped=timestamped, max_staleness=max_staleness)

    def refresh(self) -> None:
        """Take up what is committed by now. Raises KafkaTimeoutError when the brokers do not answer."""
        with self._lock:
            for partition, end in self._reader.stable_ends(self._stores).items():
                start = self._positions.get(partition)
                if end <= (start or 0):
                    continue
                self._reader.restore(self._stores[partition], partition, end, start)
                self._positions[partition] = end
            self._fresh_at = self._clock()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_") or name not in self._methods:
            allowed = ", ".join(sorted(self.__dict__.get("_methods", ())))
            raise AttributeError(f"a view of such a store has no {name!r}; it has {allowed}")

        def ask(*arguments: Any) -> Any:
            with self._lock:
                if self._clock() - self._fresh_at >= self._max_staleness:
                    self.refresh()
                answers = [getattr(face, name)(*arguments) for face in self._faces]
                if all(answer is None or not isinstance(answer, Iterator) for answer in answers):
                    return next((answer for answer in answers if answer is not None), None)
                return iter(list(itertools.chain.from_iterable(answers)))

        return ask

    def approximate_num_entries(self) -> int:
        """Return how many entries there are in all partitions."""
        with self._lock:
            if self._clock() - self._fresh_at >= self._max_staleness:
                self.refresh()
            return sum(store.approximate_num_entries() for store in self._stores.values())  # type: ignore[attr-defined]

    def close(self) -> None:
        """Let go of the connections."""
        self._reader.close()

    def __enter__(self) -> StoreView:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


def _partitions(topic: str, client: Mapping[str, str], store: str) -> list[TopicPartition]:
    with AdminClient(known_to("admin", client)) as admin:
        found = admin.describe_topics([topic], raise_errors=False)
    for error in found.errors.values():
        if isinstance(error, UnknownTopicOrPartitionError):
            raise StateStoreNotAvailableError(
                f"store {store} cannot be queried: its topic {topic} does not exist; has the application been started?"
            )
        raise error
    return [TopicPartition(topic, info.partition) for each in found.values() for info in each.partitions]
