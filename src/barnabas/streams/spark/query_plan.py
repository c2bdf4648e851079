"""From a topology to one streaming query: which topics it reads, as which tasks, with which options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from barnabas.config.config_def import definitions
from barnabas.spark.client_settings import ClientSettings
from barnabas.spark.co_partitions import CoPartitions, Group
from barnabas.spark.exactly_once.driver_steps import SinkPlace
from barnabas.spark.options import SinkOptions, SourceOptions
from barnabas.streams.config import SETTINGS, WITHOUT_EFFECT, StreamsConfig
from barnabas.streams.engine.global_task import GlobalTask
from barnabas.streams.engine.task import Task, TaskSettings
from barnabas.streams.errors import MissingSourceTopicError, TopologyError
from barnabas.streams.spark import rows
from barnabas.streams.spark.application import Application
from barnabas.streams.spark.internal_topics import TopicCounts
from barnabas.streams.spark.repartition_levels import Levels, levels_of
from barnabas.streams.topology.nodes import ProcessorNode, ProcessorTopology, SourceNode
from barnabas.streams.topology.processor_api import TaskId
from barnabas.streams.topology.processor_topology import (
    TopicsInfo,
    build_global_state_topology,
    build_subtopology,
    topics_by_subtopology,
)
from barnabas.streams.topology.topology import Topology

#: What all transactional ids of an application begin with; then come its query and its processes.
TRANSACTIONAL_ID_PREFIX = "barnabas-streams"


class TopicLister(Protocol):
    """What is asked of the brokers: a method of AdminClient's."""

    def list_topics(self) -> Iterable[str]:
        """Return the topics of the cluster by name, without Kafka's own."""


class Plan(NamedTuple):
    """A topology that is fitted to an application."""

    config: StreamsConfig
    infos: dict[int, TopicsInfo]
    copartitioned: list[set[str]]
    subtopologies: dict[int, ProcessorTopology]
    global_topology: ProcessorTopology | None

    @property
    def sources(self) -> set[str]:
        """All topics that tasks read, repartition topics among them."""
        return {topic for info in self.infos.values() for topic in info.source_topics}

    @property
    def patterns(self) -> dict[str, SourceNode]:
        """The sources that read what a pattern matches, by name."""
        nodes = [(name, each.nodes[name]) for each in self.subtopologies.values() for name in each.pattern_sources]
        return {name: node for name, node in nodes if isinstance(node, SourceNode)}

    @property
    def repartition_topics(self) -> frozenset[str]:
        """The topics between sub-topologies, of which this application alone reads."""
        return frozenset(topic for info in self.infos.values() for topic in info.repartition_source_topics)

    @property
    def sinks(self) -> set[str]:
        """All topics that the topology names for its output."""
        return {topic for info in self.infos.values() for topic in info.sink_topics}

    @property
    def changelogs(self) -> set[str]:
        """The changelog topics of all stores."""
        return {topic for info in self.infos.values() for topic in info.state_changelog_topics}

    @property
    def global_topics(self) -> set[str]:
        """The topics of global stores."""
        return set() if self.global_topology is None else set(self.global_topology.source_by_topic)


def planned(topology: Topology, config: StreamsConfig, existing: Iterable[str] = ()) -> Plan:
    """Cut a topology into what tasks run; sources by pattern read those of the `existing` topics that match.

    Raises TopologyError for a topology that reads nothing, and when two patterns match the same topic.
    """
    builder = topology.builder
    builder.rewrite_topology(config.values)
    builder.match_topics(existing)
    infos = topics_by_subtopology(builder, config.values["windowstore.changelog.additional.retention.ms"])
    subtopologies = {number: build_subtopology(builder, number) for number in infos}
    if not infos:
        raise TopologyError("Topology has no stream threads and no global threads, must subscribe to a source topic")
    return Plan(config, infos, builder.copartitioning.groups(), subtopologies, build_global_state_topology(builder))


def planned_on(admin: TopicLister, topology: Topology, config: StreamsConfig) -> Plan:
    """Cut a topology into what tasks run on a cluster; the application's own internal topics match no pattern.

    Raises MissingSourceTopicError for a pattern that no topic matches, TopologyError as `planned` does.
    """
    plan = planned(topology, config)
    patterns = plan.patterns
    if not patterns:
        return plan
    plan = planned(topology, config, set(admin.list_topics()) - plan.changelogs - plan.repartition_topics)
    if missing := sorted(name for name, node in patterns.items() if not node.matched):
        raise MissingSourceTopicError(f"No topic matches the patterns of {', '.join(missing)}; create one first")
    return plan


def clients_of(config: Mapping[str, Any], kind: str) -> dict[str, str]:
    """Return the settings of a kind of client: general ones, and over them those with its prefix, as Kafka has them."""
    known = definitions(kind).keys
    prefixes = [f"{kind}."] if kind != "consumer" else ["consumer.", "main.consumer."]
    found = {name: value for name, value in config.items() if name in known and name not in _NOT_OF_CLIENTS}
    for prefix in prefixes:
        own = {name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)}
        found |= {name: value for name, value in own.items() if name not in _NOT_OF_CLIENTS}
    return {name: _text(value) for name, value in found.items() if value is not None}


_NOT_OF_CLIENTS = {
    "application.id", "enable.auto.commit", "auto.offset.reset", "group.id", "client.id", "isolation.level",
    *(name for name in SETTINGS if name != "bootstrap.servers"),
}  # fmt: skip


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, list | tuple) else str(value)


def application(
    plan: Plan, counts: TopicCounts, sink_counts: Mapping[str, int], max_records: int | None = None
) -> Application:
    """Return what travels to the tasks; a batch has at most `max_records`."""
    values = plan.config.values
    sink = SinkOptions(sink_options(values))
    levels = levels_of(plan.infos, counts.tasks, counts.partitions)
    is_within = values["repartition.within.batch"]
    must_wait = {number for number, found in plan.subtopologies.items() if _has_own_times(found)}
    return Application(
        plan.config.application_id,
        # Those without effect would be told of again in each task.
        {name: value for name, value in values.items() if value is not None and name not in WITHOUT_EFFECT},
        plan.subtopologies,
        plan.global_topology,
        {**sink_counts, **counts.partitions},
        frozenset(must_wait),
        SinkPlace(tuple(sorted(sink.client.items())), sink.decision_topic, sink.transactional_id_prefix),
        ClientSettings(clients_of(values, "consumer")),
        SourceOptions(source_options(plan, max_records, levels if is_within else None), streaming=True),
        levels,
        is_within,
    )


def _has_own_times(topology: ProcessorTopology) -> bool:
    if len(topology.source_by_topic) < 2:
        return False
    sources = [node for node in topology.nodes.values() if isinstance(node, SourceNode)]
    return any(node.timestamp_extractor is not None for node in sources)


def co_partitions(plan: Plan, within: Levels | None = None) -> CoPartitions:
    """Return the tasks for the source: on ties of time the topic that sorts first is first, as in the engine.

    `within` names the topics that are read within a batch, of which the source knows nothing.
    """
    groups = {}
    for number, info in plan.infos.items():
        inner = within.inner_of(number) if within is not None else ()
        tasks = within.tasks[number] if within is not None and inner else None
        groups[str(number)] = Group(tuple(sorted(info.source_topics - {*inner})), _clock_ms(plan, number), tasks)
    return CoPartitions(groups, tuple(sorted(plan.global_topics)))


def _clock_ms(plan: Plan, number: int) -> int | None:
    """Return how often tasks must run for punctuators by the wall clock, in milliseconds; None: there are none.

    Only a user's processor can ask for one, and says so in `init`: a task is made to hear it.
    """
    topology = plan.subtopologies[number]
    processors = [node for node in topology.nodes.values() if isinstance(node, ProcessorNode)]
    if all(_is_of_the_dsl(node.supplier) for node in processors):
        return None
    settings = TaskSettings(plan.config)
    if plan.global_topology is not None:
        settings = settings._replace(global_store=GlobalTask(plan.global_topology, settings).store)
    task = Task(topology, TaskId(number, 0), settings)
    intervals = task.wall_clock_intervals()
    task.close()
    return min(intervals, default=None)


def _is_of_the_dsl(supplier: Any) -> bool:
    return str(getattr(supplier, "__module__", None) or type(supplier).__module__).startswith("barnabas.streams.")


def source_options(plan: Plan, max_records: int | None = None, within: Levels | None = None) -> dict[str, str]:
    """Return the options of the source that plans the batches and of the tasks that read them.

    `within` names the topics that are read within a batch.
    """
    values = plan.config.values
    planned_topics = plan.sources - (frozenset() if within is None else within.inner)
    options = {f"kafka.{name}": value for name, value in clients_of(values, "consumer").items()}
    options |= {
        "kafka.group.id": plan.config.application_id,
        "kafka.isolation.level": "read_committed",
        "subscribe": ",".join(sorted(planned_topics | plan.global_topics)),
        "startingOffsets": "group",
        "includeHeaders": "true",
        "columns": ",".join(rows.INPUT_COLUMNS),
        "coPartitions": co_partitions(plan, within).to_json(),
    }
    if max_records is not None:
        options["maxOffsetsPerTrigger"] = str(max_records)
    return options


def sink_options(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of the sink through which the tasks write."""
    refused = {"acks", "enable.idempotence", "transactional.id", "key.serializer", "value.serializer"}
    client = {name: value for name, value in clients_of(values, "producer").items() if name not in refused}
    return {
        **{f"kafka.{name}": value for name, value in client.items()},
        "guarantee": "exactly-once",
        "transactionalIdPrefix": TRANSACTIONAL_ID_PREFIX,
    }
