"""The operations on the settings of topics and brokers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.admin.admin_api_handler import Outcome, Scope, StaticLookup, Target
from barnabas.client.admin.requests import KeyedRequest, one_request
from barnabas.errors import IllegalArgumentError
from barnabas.network.client_request import RequestBuilder
from barnabas.protocol.api import ApiKey, stable_versions
from barnabas.protocol.kinds import ConfigResourceType, ConfigSource, ConfigType, OpType
from barnabas.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from barnabas.protocol.thresholds import LIST_CONFIG_RESOURCES_TYPES_FROM

if TYPE_CHECKING:
    from barnabas.protocol.messages.create_topics_response import CreatableTopicConfigs
    from barnabas.protocol.messages.describe_configs_response import (
        DescribeConfigsResourceResult,
        DescribeConfigsResponse,
    )
    from barnabas.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
    from barnabas.protocol.messages.list_config_resources_response import ListConfigResourcesResponse


class ConfigResource(NamedTuple):
    """Something that has settings. A broker's name is its id; an empty one is the default of all brokers."""

    type: ConfigResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.type.name.lower()} {self.name}"

    @property
    def is_default(self) -> bool:
        """Whether it stands for all of its type."""
        return not self.name

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        """Return the settings of a topic."""
        return cls(ConfigResourceType.TOPIC, name)

    @classmethod
    def broker(cls, node_id: int | None) -> ConfigResource:
        """Return the settings of a broker; None for the default of all brokers."""
        return cls(ConfigResourceType.BROKER, "" if node_id is None else str(node_id))

    @classmethod
    def group(cls, group_id: str) -> ConfigResource:
        """Return the settings of a group (KIP-848, KIP-932)."""
        return cls(ConfigResourceType.GROUP, group_id)

    @classmethod
    def client_metrics(cls, name: str) -> ConfigResource:
        """Return a subscription to metrics of clients (KIP-714)."""
        return cls(ConfigResourceType.CLIENT_METRICS, name)


class ConfigSynonym(NamedTuple):
    """A setting that stands in when the one in question is not set."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """A setting as the broker has it; `value` is None when it is secret or not set."""

    name: str
    value: str | None
    source: ConfigSource = ConfigSource.UNKNOWN
    is_sensitive: bool = False
    is_read_only: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None
    type: ConfigType = ConfigType.UNKNOWN

    @property
    def is_default(self) -> bool:
        """Whether it is not set anywhere."""
        return self.source == ConfigSource.DEFAULT_CONFIG

    @classmethod
    def from_created(cls, entry: CreatableTopicConfigs) -> ConfigEntry:
        """Return a setting in a CreateTopics response."""
        return cls(entry.name, entry.value, ConfigSource(entry.config_source), entry.is_sensitive, entry.read_only)

    @classmethod
    def from_described(cls, entry: DescribeConfigsResourceResult) -> ConfigEntry:
        """Return a setting in a DescribeConfigs response."""
        synonyms = tuple(ConfigSynonym(s.name, s.value, ConfigSource(s.source)) for s in entry.synonyms)
        return cls(
            entry.name,
            entry.value,
            ConfigSource(entry.config_source),
            entry.is_sensitive,
            entry.read_only,
            synonyms,
            entry.documentation,
            ConfigType(entry.config_type),
        )


class AlterConfigOp(NamedTuple):
    """One change: `APPEND` and `SUBTRACT` are for settings that are lists."""

    name: str
    value: object = None
    op: OpType = OpType.SET


Changes = Mapping[str, object] | Iterable[AlterConfigOp]
"""Settings by name, where None deletes; or the changes one by one."""


def as_operations(changes: Changes) -> list[AlterConfigOp]:
    """Return the changes one by one."""
    if isinstance(changes, Mapping):
        return [
            AlterConfigOp(name, value, OpType.DELETE if value is None else OpType.SET)
            for name, value in changes.items()
        ]
    operations = list(changes)
    for operation in operations:
        if not isinstance(operation, AlterConfigOp):
            raise IllegalArgumentError(f"{operation!r} is not an AlterConfigOp")
    return operations


def _broker_of(key: ConfigResource) -> Target:
    """Return who is asked: a broker for what is its own, for everything else any broker."""
    if key.type in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER) and key.name:
        try:
            return int(key.name)
        except ValueError:
            raise IllegalArgumentError(f"{key}: the name of a broker is its id, a number") from None
    return Scope.ANY


def _controller_of(key: ConfigResource) -> Target:
    """Among controllers each has loggers of its own, and the active one changes all else."""
    return _broker_of(key) if key.type == ConfigResourceType.BROKER_LOGGER else Scope.CONTROLLER


class DescribeConfigsHandler:
    """DescribeConfigs."""

    name = "describe_configs"

    def __init__(self, *, include_synonyms: bool, include_documentation: bool) -> None:
        self.lookup = StaticLookup(_broker_of)
        self._include_synonyms = include_synonyms
        self._include_documentation = include_documentation

    def build_request(self, keys: list[ConfigResource], timeout_ms: int) -> DescribeConfigsRequest:
        """See `AdminApiHandler`."""
        return DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=key.type, resource_name=key.name, configuration_keys=None)
                for key in keys
            ],
            include_synonyms=self._include_synonyms,
            include_documentation=self._include_documentation,
        )

    def handle_response(
        self,
        keys: list[ConfigResource],
        response: DescribeConfigsResponse,
        outcome: Outcome[ConfigResource, dict[str, ConfigEntry]],
    ) -> None:
        """See `AdminApiHandler`."""
        for result in response.results:
            key = ConfigResource(ConfigResourceType(result.resource_type), result.resource_name)
            if outcome.is_success(key, result.error_code, result.error_message):
                outcome.complete(key, {entry.name: ConfigEntry.from_described(entry) for entry in result.configs})


class IncrementalAlterConfigsHandler:
    """IncrementalAlterConfigs."""

    name = "incremental_alter_configs"

    def __init__(
        self, changes: Mapping[ConfigResource, list[AlterConfigOp]], *, validate_only: bool, at_controllers: bool
    ) -> None:
        self.lookup = StaticLookup(_controller_of if at_controllers else _broker_of)
        self._changes = changes
        self._validate_only = validate_only

    def build_request(self, keys: list[ConfigResource], timeout_ms: int) -> IncrementalAlterConfigsRequest:
        """See `AdminApiHandler`."""
        return IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=key.type,
                    resource_name=key.name,
                    configs=[
                        AlterableConfig(name=change.name, config_operation=change.op, value=config_text(change.value))
                        for change in self._changes[key]
                    ],
                )
                for key in keys
            ],
            validate_only=self._validate_only,
        )

    def handle_response(
        self,
        keys: list[ConfigResource],
        response: IncrementalAlterConfigsResponse,
        outcome: Outcome[ConfigResource, None],
    ) -> None:
        """See `AdminApiHandler`."""
        for result in response.responses:
            key = ConfigResource(ConfigResourceType(result.resource_type), result.resource_name)
            if outcome.is_success(key, result.error_code, result.error_message):
                outcome.complete(key, None)


def list_config_resources(types: Collection[ConfigResourceType]) -> KeyedRequest[str, list[ConfigResource]]:
    """ListConfigResources, at any broker (KIP-1142); version 0 knows only client metrics."""
    message = ListConfigResourcesRequest(resource_types=list(types))
    bare = ListConfigResourcesRequest()
    low, high = stable_versions(ApiKey.LIST_CONFIG_RESOURCES)
    if set(types) != {ConfigResourceType.CLIENT_METRICS}:
        low = LIST_CONFIG_RESOURCES_TYPES_FROM

    def build(timeout_ms: int) -> RequestBuilder:
        return RequestBuilder(
            ApiKey.LIST_CONFIG_RESOURCES,
            lambda version: message if version >= LIST_CONFIG_RESOURCES_TYPES_FROM else bare,
            low,
            high,
        )

    def read(response: ListConfigResourcesResponse) -> list[ConfigResource]:
        return [
            ConfigResource(ConfigResourceType(found.resource_type), found.resource_name)
            for found in response.config_resources
        ]

    return one_request("list_config_resources", build, read)


def config_text(value: object) -> str | None:
    """Return a setting's value as the protocol has it: text."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)
