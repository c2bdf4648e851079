"""Settings of topics, brokers, groups and client metrics (ConfigurationControlManager; KIP-339, KIP-966)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.broker.controller.config_schema import CORDONED_LOG_DIRS, MIN_IN_SYNC_REPLICAS
from barnabas.broker.controller.controller_result import DONE, ControllerResult, Outcome, Records, check_size
from barnabas.broker.metadata.metadata_records import ApiMessageAndVersion
from barnabas.protocol.kinds import ConfigResourceType, OpType
from barnabas.protocol.messages.clear_elr_record import ClearElrRecord
from barnabas.protocol.messages.config_record import ConfigRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from barnabas.broker.controller.config_schema import ConfigSchema
    from barnabas.broker.controller.controller_state import ControllerState
    from barnabas.broker.metadata.metadata_image import Resource

    #: Raises KafkaError unless a resource may have these settings.
    Validator = Callable[[Resource, Mapping[str, str]], None]

_LONGEST_VALUE = 32_767


class Alteration(NamedTuple):
    """What is to happen to one setting (an `OpType`)."""

    operation: int
    value: str | None


Outcomes = dict["Resource", Outcome]


class ConfigurationControlManager:
    """Plans changes of settings; `validate` knows what they may be, `is_controller` the nodes that are voters."""

    def __init__(
        self,
        state: ControllerState,
        schema: ConfigSchema,
        validate: Validator,
        controllers: Container[int] = (),
    ) -> None:
        self._state = state
        self.schema = schema
        self._validate = validate
        self._controllers = controllers

    # -- requests ----------------------------------------------------------------------------------------------------

    def incremental_alter_configs(
        self, changes: Mapping[Resource, Mapping[str, Alteration]], *, is_forwarded: bool = False
    ) -> ControllerResult[Outcomes]:
        """Change single settings; each resource as a whole or not at all."""
        records: Records = []
        outcomes: Outcomes = {}
        for resource, alterations in changes.items():
            try:
                records += self.altered(resource, alterations, is_new=False, is_forwarded=is_forwarded)
                outcomes[resource] = DONE
            except errors.KafkaError as problem:
                outcomes[resource] = Outcome.of(problem)
        return self._result(records, outcomes)

    def legacy_alter_configs(
        self, wanted: Mapping[Resource, Mapping[str, str]], *, is_forwarded: bool = False
    ) -> ControllerResult[Outcomes]:
        """Give resources these settings and no others (AlterConfigs)."""
        records: Records = []
        outcomes: Outcomes = {}
        for resource, configs in wanted.items():
            present = self._state.image.configs.get(resource, {})
            changes: dict[str, str | None] = {
                name: value for name, value in configs.items() if self._must_be_told(resource, present.get(name), value)
            }
            changes |= dict.fromkeys(name for name in present if name not in configs)
            try:
                self._check(resource, changes, is_new=False, is_forwarded=is_forwarded)
                records += [_record(resource, name, value) for name, value in changes.items()]
                outcomes[resource] = DONE
            except errors.KafkaError as problem:
                outcomes[resource] = Outcome.of(problem)
        return self._result(records, outcomes)

    def altered(
        self, resource: Resource, alterations: Mapping[str, Alteration], *, is_new: bool, is_forwarded: bool
    ) -> Records:
        """Return the records of one resource's change. Raises KafkaError; `is_new`: it is being made."""
        present = self._state.image.configs.get(resource, {})
        changes: dict[str, str | None] = {}
        for name, alteration in alterations.items():
            value = self._altered(resource, name, present.get(name), alteration)
            if self._must_be_told(resource, present.get(name), value):
                changes[name] = value
        self._check(resource, changes, is_new=is_new, is_forwarded=is_forwarded)
        return [_record(resource, name, value) for name, value in changes.items()]

    def with_clear_elr(self, records: Records) -> Records:
        """Return records, and for each that sets min.insync.replicas one that empties the ELRs.

        Who was eligible by another minimum need not have all that is committed.
        """
        if not self._state.is_elr_enabled:
            return records
        cleared = [
            ApiMessageAndVersion(
                ClearElrRecord(
                    topic_name=record.resource_name if record.resource_type == ConfigResourceType.TOPIC else ""
                )
            )
            for record, _ in records
            if isinstance(record, ConfigRecord) and record.name == MIN_IN_SYNC_REPLICAS
        ]
        return [*records, *cleared]

    def elr_safety_records(self) -> Records:
        """Return what ELR needs before it begins: one min.insync.replicas for all brokers, and none of single ones."""
        records: Records = []
        for_all: Resource = (ConfigResourceType.BROKER, "")
        if MIN_IN_SYNC_REPLICAS not in self.schema.cluster_configs():
            value = str(self.schema.static_min_insync_replicas())
            records.append(_record(for_all, MIN_IN_SYNC_REPLICAS, value))
        for resource, configs in self._state.image.configs.items():
            is_broker = resource[0] == ConfigResourceType.BROKER and resource != for_all
            if is_broker and MIN_IN_SYNC_REPLICAS in configs:
                records.append(_record(resource, MIN_IN_SYNC_REPLICAS, None))
        return records

    def _result(self, records: Records, outcomes: Outcomes) -> ControllerResult[Outcomes]:
        records = self.with_clear_elr(records)
        check_size(records)
        return ControllerResult(records, outcomes, True)

    # -- one setting -------------------------------------------------------------------------------------------------

    @staticmethod
    def _must_be_told(resource: Resource, present: str | None, value: str | None) -> bool:
        # A broker reads files again when it is told the same value once more (KAFKA-14136).
        return present != value or resource[0] == ConfigResourceType.BROKER

    def _altered(self, resource: Resource, name: str, present: str | None, alteration: Alteration) -> str | None:
        operation, value = alteration
        if operation == OpType.SET:
            return value
        if operation == OpType.DELETE:
            return None
        verb = "APPEND" if operation == OpType.APPEND else "SUBTRACT"
        default = self.schema.list_default(resource[0], name)
        if default is None:
            raise errors.InvalidConfigurationError(f"Can't {verb} to key {name} because its type is not LIST.")
        items = default if present is None else [item for item in present.split(",") if item]
        for item in (value or "").split(","):
            if operation == OpType.APPEND and item not in items:
                items.append(item)
            elif operation == OpType.SUBTRACT and item in items:
                items.remove(item)
        return ",".join(items)

    # -- checks ------------------------------------------------------------------------------------------------------

    def _check(
        self, resource: Resource, changes: Mapping[str, str | None], *, is_new: bool, is_forwarded: bool
    ) -> None:
        present = self._state.image.configs.get(resource, {})
        merged: dict[str, str] = dict(present)
        for name, value in changes.items():
            self._check_min_insync_replicas(resource, name, value)
            self._check_cordoned(resource, name, value, present.get(name), is_forwarded)
            if value is None:
                merged.pop(name, None)
            elif len(value) > _LONGEST_VALUE:
                raise errors.InvalidConfigurationError(
                    "The configuration value cannot be added because it exceeds the maximum value size of "
                    f"{_LONGEST_VALUE} bytes."
                )
            else:
                merged[name] = value
        self._validate(resource, merged)
        if not is_new:
            self._check_exists(resource)

    def _check_min_insync_replicas(self, resource: Resource, name: str, value: str | None) -> None:
        kind, whose = resource
        if name != MIN_IN_SYNC_REPLICAS or kind != ConfigResourceType.BROKER or not self._state.is_elr_enabled:
            return
        if whose:
            raise errors.InvalidConfigurationError(f"Broker-level {name} cannot be altered while ELR is enabled.")
        if value is None:
            raise errors.InvalidConfigurationError(f"Cluster-level {name} cannot be removed while ELR is enabled.")

    def _check_cordoned(
        self, resource: Resource, name: str, value: str | None, present: str | None, is_forwarded: bool
    ) -> None:
        if name != CORDONED_LOG_DIRS or resource[0] != ConfigResourceType.BROKER:
            return
        if not self._state.metadata_version.is_cordoned_log_dirs_supported:
            raise errors.InvalidConfigurationError(
                f"The {name} configuration value cannot be set because it requires metadata.version >= 4.3-IV0"
            )
        wanted, known = _parts(value), _parts(present)
        if not is_forwarded and not set(wanted) <= set(known):
            # Only the broker itself knows which directories it has.
            raise errors.InvalidConfigurationError(
                f"When updating {name} via controllers, the new value must be a subset of the current configuration "
                "value."
            )

    def _check_exists(self, resource: Resource) -> None:
        kind, name = resource
        image = self._state.image
        if kind == ConfigResourceType.BROKER and name:
            node = int(name)
            if not (node in image.brokers or node in self._controllers or node in image.controllers):
                raise errors.BrokerIdNotRegisteredError(f"No node with id {node} found.")
        elif kind == ConfigResourceType.TOPIC and name not in image.topic_ids:
            raise errors.UnknownTopicOrPartitionError(f"The topic '{name}' does not exist.")


def _parts(value: str | None) -> Sequence[str]:
    return [part.strip() for part in (value or "").split(",") if part.strip()]


def _record(resource: Resource, name: str, value: str | None) -> ApiMessageAndVersion:
    return ApiMessageAndVersion(
        ConfigRecord(resource_type=resource[0], resource_name=resource[1], name=name, value=value)
    )
