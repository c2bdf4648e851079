"""What of a topology its state depends on: stores with what lies in their changelogs, topics, sub-topologies.

An application remembers it (`topology_memory`), and compares it with the next topology (`topology_changes`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.streams.serdes.serde import Serde
from barnabas.streams.topology.nodes import Node, ProcessorNode, ProcessorTopology, SourceNode
from barnabas.streams.topology.stores import StoreBuilder, StoreKind

if TYPE_CHECKING:
    from barnabas.streams.config import StreamsConfig
    from barnabas.streams.spark.query_plan import Plan

_FORMAT = 1

#: What Kafka puts into names that it generates: a number, in its order among the operators.
_GENERATED = re.compile(r"-\d{10}\b")

#: Kinds whose changelogs hold the same bytes: a record's own timestamp is that of the value.
_SAME_BYTES = {StoreKind.TIMESTAMPED_KEY_VALUE: StoreKind.KEY_VALUE, StoreKind.TIMESTAMPED_WINDOW: StoreKind.WINDOW}


class StoreShape(NamedTuple):
    """A store: its changelog (None without one), what lies there, and from where.

    `key` and `value` name the serdes. `operator` is the class of the operator that made it, `sources` the topics and
    patterns of others that its records come from, through repartition topics if need be.
    """

    changelog: str | None
    kind: str
    key: str
    value: str
    window_size_ms: int | None
    retains_duplicates: bool
    operator: str
    sources: tuple[str, ...]


class TopologyShape(NamedTuple):
    """A topology: topics of others that it reads, repartition topics with their serdes, stores, sub-topologies.

    `subtopologies` has for each number what it reads and the changelogs of its stores.
    """

    sources: tuple[str, ...]
    repartition: dict[str, str]
    stores: dict[str, StoreShape]
    subtopologies: dict[str, tuple[str, ...]]

    def encode(self) -> bytes:
        """Return JSON in UTF-8."""
        stores = {name: store._asdict() for name, store in self.stores.items()}
        content = {"format": _FORMAT, **self._asdict(), "stores": stores}
        return json.dumps(content, separators=(",", ":"), sort_keys=True).encode()

    @classmethod
    def decode(cls, data: bytes) -> TopologyShape | None:
        """Return what `encode` made; None for what another version made."""
        content = json.loads(data)
        if content.pop("format") != _FORMAT:
            return None
        stores = {
            name: StoreShape(**{**store, "sources": tuple(store["sources"])})
            for name, store in content["stores"].items()
        }
        subtopologies = {number: tuple(topics) for number, topics in content["subtopologies"].items()}
        return cls(tuple(content["sources"]), content["repartition"], stores, subtopologies)


def is_generated(name: str) -> bool:
    """Whether Kafka's counter of operators is in a name."""
    return _GENERATED.search(name) is not None


def shape_of(plan: Plan) -> TopologyShape:
    """Return the shape of a topology that is fitted to an application."""
    graph = _Graph(plan)
    stores = {
        name: _store_shape(plan.config, graph, topology, store)
        for topology in plan.subtopologies.values()
        for name, store in topology.state_stores.items()
    }
    repartition = {
        topic: _serdes_of_source(plan.config, topology, topic)
        for topology in plan.subtopologies.values()
        for topic in topology.source_by_topic
        if topic in plan.repartition_topics
    }
    subtopologies = {
        str(number): tuple(sorted(info.source_topics | {*info.state_changelog_topics}))
        for number, info in plan.infos.items()
    }
    return TopologyShape(tuple(sorted(plan.sources - plan.repartition_topics)), repartition, stores, subtopologies)


def fingerprint(topology: ProcessorTopology) -> str:
    """Return a text that two sub-topologies share if times that the one has noted mean the same for the other."""
    content = [sorted(topology.source_by_topic), sorted(topology.state_stores), sorted(topology.nodes)]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def _store_shape(config: StreamsConfig, graph: _Graph, topology: ProcessorTopology, store: StoreBuilder) -> StoreShape:
    maker = topology.nodes[store.connected_processors[0]] if store.connected_processors else None
    value = serde_name(store.value_serde, config.default_value_serde)
    if store.other_value_serde is not None:
        value += f", {serde_name(store.other_value_serde, config.default_value_serde)}"
    return StoreShape(
        topology.store_to_changelog_topic.get(store.name),
        _SAME_BYTES.get(store.kind, store.kind).value,
        serde_name(store.key_serde, config.default_key_serde),
        value,
        store.window_size_ms,
        store.retain_duplicates,
        _class_name(maker.supplier) if isinstance(maker, ProcessorNode) else "",
        () if maker is None else tuple(sorted(graph.outer_sources(maker.name))),
    )


class _Graph:
    """All nodes of a topology, with the topics between its sub-topologies as edges."""

    def __init__(self, plan: Plan) -> None:
        self._repartition = plan.repartition_topics
        self._nodes: dict[str, Node] = {}
        self._reads: dict[str, list[str]] = {}
        self._writers: dict[str, list[str]] = {}
        for topology in plan.subtopologies.values():
            self._nodes |= topology.nodes
            for topic, source in topology.source_by_topic.items():
                self._reads.setdefault(source, []).append(topic)
            for topic, sink in topology.sink_topics.items():
                self._writers.setdefault(topic, []).append(sink)

    def outer_sources(self, name: str) -> set[str]:
        """Return the topics and patterns of others from which records reach a node."""
        found: set[str] = set()
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            node = self._nodes[waiting.pop()]
            if node.name in seen:
                continue
            seen.add(node.name)
            waiting += node.predecessors
            if isinstance(node, SourceNode) and node.pattern is not None:
                found.add(node.pattern.pattern)
                continue
            for topic in self._reads.get(node.name, []):
                waiting += self._writers.get(topic, []) if topic in self._repartition else []
                found |= set() if topic in self._repartition else {topic}
        return found


def _serdes_of_source(config: StreamsConfig, topology: ProcessorTopology, topic: str) -> str:
    source = topology.nodes[topology.source_by_topic[topic]]
    assert isinstance(source, SourceNode)
    key = serde_name(source.key_deserializer, config.default_key_serde)
    return f"{key}, {serde_name(source.value_deserializer, config.default_value_serde)}"


def serde_name(serde: Any, default: Any = None) -> str:
    """Return a text for a serde, the same in each process; `default` is what None stands for."""
    if serde is None:
        return "bytes" if default is None else serde_name(default)
    if not isinstance(serde, Serde):
        return _class_name(serde)
    parts = [
        serde_name(value, default) if isinstance(value, Serde) or value is None else _plain_name(value)
        for _, value in sorted(vars(serde).items())
    ]
    inside = ", ".join(part for part in parts if part)
    return f"{_class_name(serde)}({inside})" if inside else _class_name(serde)


def _plain_name(value: Any) -> str:
    return repr(value) if isinstance(value, bool | int | str) else _class_name(value)


def _class_name(value: Any) -> str:
    if isinstance(value, str):
        return value
    named = value if hasattr(value, "__qualname__") else type(value)
    return str(named.__qualname__).replace("<locals>.", "")


def tasks_renumbered(before: TopologyShape, after: TopologyShape) -> dict[str, str]:
    """Return which sub-topologies of before are others now: by what they have of changelogs and topics in common."""
    found = {}
    for number, topics in before.subtopologies.items():
        if number in after.subtopologies and _overlap(topics, after.subtopologies[number]):
            continue
        others = [other for other, given in after.subtopologies.items() if _overlap(topics, given)]
        if others:
            found[number] = others[0]
    return found


def _overlap(one: Iterable[str], other: Iterable[str]) -> bool:
    return not set(one).isdisjoint(other)
