"""Changing settings of topics, brokers, groups and loggers while the broker runs (KIP-226, KIP-339, KIP-412)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from barnabas import errors
from barnabas.broker.config_helper import CLIENT_METRICS_SETTINGS
from barnabas.broker.dynamic_broker_config import DynamicBrokerConfig
from barnabas.broker.group_config import GROUP_SETTINGS, check_group_configs
from barnabas.broker.loggers import Loggers
from barnabas.broker.metadata.cluster_metadata import BROKERS, CLIENT_METRICS, GROUPS, TopicMetadata
from barnabas.broker.piecewise import ArrayField, Pieces, Steps, in_pieces, outcome_of, pieces_of, turn_of
from barnabas.broker.topic_admin import check_topic_configs, check_topic_name, text_of
from barnabas.config.config_def import definitions
from barnabas.protocol.kinds import ConfigResourceType, OpType

if TYPE_CHECKING:
    from barnabas.broker.config import BrokerConfig
    from barnabas.broker.metadata.cluster_metadata import ClusterMetadata, Done
    from barnabas.protocol.messages import alter_configs_request, incremental_alter_configs_request

#: So many resources are changed in one turn of the loop and one commit: some milliseconds.
_AT_ONCE = 50

R = TypeVar("R", "alter_configs_request.AlterConfigsResource", "incremental_alter_configs_request.AlterConfigsResource")


class Change(NamedTuple):
    """What is to happen to one setting."""

    name: str
    operation: int
    value: str | None


class ConfigsChange(NamedTuple):
    """All settings that a resource other than a topic is to have; `kind` and `name` as in the metadata."""

    kind: str
    name: str
    configs: dict[str, str]


Planned: TypeAlias = TopicMetadata | ConfigsChange
#: Stores settings, all that each resource is to have, in a home that the metadata do not write to.
WriteSettings: TypeAlias = "Callable[[Sequence[ConfigsChange], Done], None]"
#: The kind of topics in a `ConfigsChange`.
TOPICS = "topics"


class ConfigAdmin:
    """Checks what is asked for and plans it; written to the metadata (`commit`), it comes into force from there."""

    def __init__(
        self,
        config: BrokerConfig,
        metadata: ClusterMetadata,
        dynamic: DynamicBrokerConfig,
        loggers: Loggers,
        write: WriteSettings | None = None,
    ):
        """With `write`, what was planned is stored elsewhere than in the metadata's own store."""
        self._write = write
        self._config = config
        self._metadata = metadata
        self._dynamic = dynamic
        self._loggers = loggers

    def commit(self, planned: Sequence[Planned], done: Done) -> None:
        """Store what was planned for different resources, in one commit."""
        topics = [found for found in planned if isinstance(found, TopicMetadata)]
        others = [found for found in planned if isinstance(found, ConfigsChange)]
        if self._write is not None:
            self._write([*(ConfigsChange(TOPICS, one.name, one.configs) for one in topics), *others], done)
        else:
            self._metadata.put_settings(topics, others, done)

    def alter(self, kind: int, name: str, changes: Sequence[Change], *, validate_only: bool) -> Planned | None:
        """Plan other settings for one resource; None where there is nothing to commit. Raises KafkaError.

        The levels of loggers are not stored: they change at once.
        """
        _check_changes(changes)
        if kind == ConfigResourceType.BROKER_LOGGER:
            self._alter_loggers(name, changes, validate_only)
            return None
        configs = dict(self._stored(kind, name))
        for change in changes:
            self._apply(kind, configs, change)
        return self._plan(kind, name, configs, validate_only)

    def replace(self, kind: int, name: str, configs: Mapping[str, str], *, validate_only: bool) -> Planned | None:
        """Plan these settings and no others for one resource (AlterConfigs). Raises KafkaError."""
        self._stored(kind, name)
        return self._plan(kind, name, dict(configs), validate_only)

    def alter_all(
        self,
        resources: Sequence[R],
        plan: Callable[[R], Planned | None],
        array: ArrayField,
        new_response: Callable[..., Any],
    ) -> Pieces:
        """Make the response to a request that changes resources; each has its own result, in `array`.

        One that is named twice is not changed at all, like in Apache Kafka. `_AT_ONCE` of them are one commit.
        """
        message: type[Any] = array.message
        times = Counter((resource.resource_type, resource.resource_name) for resource in resources)
        responses: list[Any] = []
        for some in in_pieces(resources, _AT_ONCE):
            if responses:
                yield None
            yield from turn_of(self._metadata)
            planned: list[tuple[Any, Planned]] = []
            for resource in some:
                kind, name = resource.resource_type, resource.resource_name
                response = new_response(resource_type=kind, resource_name=name, error_message=None)
                try:
                    if times[kind, name] > 1:
                        raise errors.InvalidRequestError("Each resource must appear at most once.")
                    found = plan(resource)
                    if found is not None:
                        planned.append((response, found))
                except errors.KafkaError as problem:
                    response.error_code, response.error_message = problem.code, str(problem)
                responses.append(response)
            yield from self._commit_all(planned)
        return (yield from pieces_of(array, responses, lambda one: (one, 1), lambda all: message(responses=all)))

    def _commit_all(self, planned: Sequence[tuple[Any, Planned]]) -> Steps[None]:
        def begin(tell: Callable[[errors.KafkaError | None], None]) -> None:
            self.commit([change for _, change in planned], tell)

        problem = (yield from outcome_of(begin)) if planned else None
        if problem is not None:
            for response, _ in planned:
                response.error_code, response.error_message = problem.code, str(problem)

    def _stored(self, kind: int, name: str) -> Mapping[str, str]:
        if kind == ConfigResourceType.TOPIC:
            return self._topic(name).configs
        if kind == ConfigResourceType.BROKER:
            if name:
                check_broker_id(name, self._config.node_id)
            return self._metadata.configs(BROKERS, str(int(name))) if name else self._dynamic.for_all
        if kind == ConfigResourceType.GROUP:
            if not name:
                raise errors.InvalidRequestError("Default group resources are not allowed.")
            return self._metadata.configs(GROUPS, name)
        if kind == ConfigResourceType.CLIENT_METRICS:
            if not name:
                raise errors.InvalidRequestError("Subscription name can't be empty")
            return self._metadata.configs(CLIENT_METRICS, name)
        raise errors.InvalidRequestError(f"Unknown resource type {kind}")

    def _topic(self, name: str) -> TopicMetadata:
        if not name:
            raise errors.InvalidRequestError("Default topic resources are not allowed.")
        check_topic_name(name)
        topic = self._metadata.topic(name)
        if topic is None:
            raise errors.UnknownTopicOrPartitionError(f"The topic '{name}' does not exist.")
        return topic

    def _plan(self, kind: int, name: str, configs: dict[str, str], validate_only: bool) -> Planned | None:
        if kind == ConfigResourceType.TOPIC:
            topic = self._topic(name)
            checked = check_topic_configs(configs, self._config.topic_defaults)
            if not validate_only and checked != topic.configs:
                return TopicMetadata(topic.name, topic.id, topic.partitions, checked, topic.created_ms)
            return None
        stored_kind, stored_name = GROUPS, name
        if kind == ConfigResourceType.BROKER:
            stored_kind, stored_name = BROKERS, str(int(name)) if name else ""
            self._dynamic.check_min_insync_replicas(configs, per_broker=bool(name))
            self._dynamic.validate(configs, per_broker=bool(name))
        elif kind == ConfigResourceType.GROUP:
            check_group_configs(self._config, configs)
        else:
            stored_kind = CLIENT_METRICS
            check_client_metrics_configs(configs)
        if not validate_only and configs != self._metadata.configs(stored_kind, stored_name):
            return ConfigsChange(stored_kind, stored_name, configs)
        return None

    def _apply(self, kind: int, configs: dict[str, str], change: Change) -> None:
        name, operation, value = change
        if operation == OpType.DELETE:
            configs.pop(name, None)
            return
        assert value is not None  # `_check_changes` has seen to it
        if operation == OpType.SET:
            configs[name] = value
            return
        type, default = self._list_of(kind, name)
        if type != "list":
            verb = "APPEND" if operation == OpType.APPEND else "SUBTRACT"
            raise errors.InvalidConfigurationError(f"Can't {verb} to key {name} because its type is not LIST.")
        current = [item for item in configs.get(name, default).split(",") if item]
        items = [item.strip() for item in value.split(",")]
        if operation == OpType.APPEND:
            current += [item for item in items if item not in current]
        else:
            current = [item for item in current if item not in items]
        configs[name] = ",".join(current)

    def _list_of(self, kind: int, name: str) -> tuple[str, str]:
        if kind in (ConfigResourceType.TOPIC, ConfigResourceType.BROKER):
            key = definitions("topic" if kind == ConfigResourceType.TOPIC else "broker").keys.get(name)
            if key is not None:
                return key.type, text_of(key.default) or ""
        elif kind == ConfigResourceType.GROUP and name in GROUP_SETTINGS:
            return GROUP_SETTINGS[name].type, ""
        elif kind == ConfigResourceType.CLIENT_METRICS and name in CLIENT_METRICS_SETTINGS:
            return CLIENT_METRICS_SETTINGS[name]
        raise errors.InvalidConfigurationError(f"Unknown config name: {name}")

    def _alter_loggers(self, name: str, changes: Sequence[Change], validate_only: bool) -> None:
        check_broker_id(name, self._config.node_id)
        for change in changes:
            if change.operation not in (OpType.SET, OpType.DELETE):
                verb = "APPEND" if change.operation == OpType.APPEND else "SUBTRACT"
                raise errors.InvalidRequestError(f"{verb} operation is not allowed for the BROKER_LOGGER resource")
            self._loggers.check(change.name, None if change.operation == OpType.DELETE else change.value)
        if validate_only:
            return
        for change in changes:
            self._loggers.set(change.name, None if change.operation == OpType.DELETE else change.value)


def check_broker_id(name: str, node_id: int) -> None:
    """Raise InvalidRequestError unless `name` is this broker's id."""
    if not name.lstrip("+-").isdigit() or not name.isascii():
        raise errors.InvalidRequestError(f"Node id must be an integer, but it is: {name}")
    if int(name) != node_id:
        raise errors.InvalidRequestError(f"Unexpected broker id, expected {node_id}, but received {name}")


def _check_changes(changes: Sequence[Change]) -> None:
    twice = [name for name, count in Counter(change.name for change in changes).items() if count > 1]
    if twice:
        raise errors.InvalidRequestError(f"Error due to duplicate config keys: {', '.join(twice)}")
    without = [change.name for change in changes if change.operation != OpType.DELETE and change.value is None]
    if without:
        raise errors.InvalidRequestError(f"Null value not supported for : {', '.join(without)}")
    for change in changes:
        if not OpType.SET <= change.operation <= OpType.SUBTRACT:
            raise errors.InvalidRequestError(f"Unknown operations type {change.operation}")


def check_client_metrics_configs(configs: Mapping[str, str]) -> None:
    """Raise KafkaError unless a subscription of client metrics may have these settings (ClientMetricsConfigs)."""
    for name, text in configs.items():
        if name not in CLIENT_METRICS_SETTINGS:
            raise errors.InvalidRequestError(f"Unknown client metrics configuration: {name}")
        if name == "interval.ms" and not (text.strip().isdecimal() and 100 <= int(text) <= 3_600_000):
            raise errors.InvalidRequestError(
                f"Invalid value {text} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
            )
        if name == "match":
            _check_patterns(text)


def _check_patterns(text: str) -> None:
    from barnabas.broker.client_metrics.client_metrics_manager import TelemetryClient
    from barnabas.broker.regex.matching import check
    from barnabas.broker.regex.parser import RegexSyntaxError

    for pattern in filter(None, (part.strip() for part in text.split(","))):
        name, equals, expression = pattern.partition("=")
        if not equals or name.strip() not in TelemetryClient._fields:
            raise errors.InvalidConfigurationError(f"Illegal client matching pattern: {pattern}")
        try:
            check(expression.strip())
        except RegexSyntaxError as problem:
            raise errors.InvalidConfigurationError(f"Illegal client matching pattern: {pattern}: {problem}") from None
