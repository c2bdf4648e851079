"""The settings of a consumer, checked against each other."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from itertools import count
from typing import Any, ClassVar, Final

from barnabas.client.consumer.assignors.consumer_partition_assignor import ConsumerPartitionAssignor
from barnabas.client.consumer.assignors.cooperative_sticky_assignor import CooperativeStickyAssignor
from barnabas.client.consumer.assignors.range_assignor import RangeAssignor
from barnabas.client.consumer.assignors.round_robin_assignor import RoundRobinAssignor
from barnabas.client.consumer.assignors.sticky_assignor import StickyAssignor
from barnabas.client.serializers import StringDeserializer, resolve_serializer
from barnabas.config.client_config import ClientConfig
from barnabas.config.support import ONLY_OF_SHARE_CONSUMERS
from barnabas.errors import ConfigError

_numbers = count(1)

_ASSIGNORS: Final[dict[str, type[ConsumerPartitionAssignor]]] = {
    assignor.name: assignor
    for assignor in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
}
_ASSIGNORS_BY_CLASS: Final = {assignor.__name__: assignor for assignor in _ASSIGNORS.values()}


_CLASSIC_ONLY: Final = {
    "partition.assignment.strategy": "the group's coordinator assigns the partitions; see group.remote.assignor",
    "heartbeat.interval.ms": "the broker decides, by group.consumer.heartbeat.interval.ms",
    "session.timeout.ms": "the broker decides, by group.consumer.session.timeout.ms",
}
_CONSUMER_ONLY: Final = {
    "group.remote.assignor": "the members assign the partitions; see partition.assignment.strategy"
}


class ConsumerConfig(ClientConfig):
    """Kafka's ConsumerConfig: the settings, and what follows from them.

    A client id that is not set is made here: `consumer-<group.id>-<n>`, with `group.instance.id` in place of the
    number for a static member, and `consumer-null-<n>` without a group (KIP-412).
    """

    __slots__ = ("assignors", "client_id", "enable_auto_commit", "key_deserializer", "value_deserializer")

    #: Settings that this kind of consumer does not have, with the reasons, and what it is called there.
    REFUSED: ClassVar[Mapping[str, str]] = ONLY_OF_SHARE_CONSUMERS
    REFUSED_BY = "a consumer"

    def __init__(self, properties: Mapping[str, Any] | None = None, keywords: Mapping[str, Any] | None = None) -> None:
        super().__init__("consumer", _listed(properties), _listed(keywords))
        self._refuse_what_others_have()
        self.client_id = self["client.id"] or self._new_client_id()
        self.key_deserializer = _deserializer(self["key.deserializer"], "key.deserializer")
        self.value_deserializer = _deserializer(self["value.deserializer"], "value.deserializer")
        self.assignors = [_assignor(choice) for choice in self.get_list("partition.assignment.strategy")]
        self.enable_auto_commit = self._enable_auto_commit()
        self._check_timeouts()
        self._check_protocol()

    @property
    def is_consumer_protocol(self) -> bool:
        """Whether `group.protocol` is `consumer` (KIP-848), not `classic`."""
        return self.get_str("group.protocol").lower() == "consumer"

    @property
    def group_id(self) -> str | None:
        """`group.id`, None when there is none."""
        value = self["group.id"]
        return None if value is None else str(value)

    @property
    def group_instance_id(self) -> str | None:
        """`group.instance.id`, None for a dynamic member."""
        value = self["group.instance.id"]
        return None if value is None else str(value)

    def _new_client_id(self) -> str:
        if self.group_instance_id is not None:
            return f"consumer-{self.group_id or 'null'}-{self.group_instance_id}"
        return f"consumer-{'null' if self.group_id is None else self.group_id}-{next(_numbers)}"

    def _enable_auto_commit(self) -> bool:
        if self.group_id is not None:
            return self.get_bool("enable.auto.commit")
        if self.is_given("enable.auto.commit") and self.get_bool("enable.auto.commit"):
            raise ConfigError("enable.auto.commit=true needs a group.id: offsets are committed for a group")
        return False

    def _refuse_what_others_have(self) -> None:
        given = [f"{name} ({reason})" for name, reason in self.REFUSED.items() if self.is_given(name)]
        if given:
            raise ConfigError(f"{', '.join(given)} cannot be set for {self.REFUSED_BY}")

    def _check_protocol(self) -> None:
        """Refuse the settings that the other protocol alone has, as Kafka does."""
        other = _CLASSIC_ONLY if self.is_consumer_protocol else _CONSUMER_ONLY
        for name, reason in other.items():
            if self.is_given(name):
                raise ConfigError(
                    f"{name} cannot be set with group.protocol={self.get_str('group.protocol')}: {reason}"
                )

    def _check_timeouts(self) -> None:
        interval, session = self.get_int("heartbeat.interval.ms"), self.get_int("session.timeout.ms")
        if interval >= session:
            raise ConfigError(
                f"heartbeat.interval.ms ({interval}) must be lower than session.timeout.ms ({session}), best a "
                "third of it: a member that is late with one heartbeat must not lose its partitions"
            )


def _deserializer(setting: Any, name: str) -> Any:
    """As `resolve_serializer`; `str` means UTF-8, and other built-in types such as `int` are called with the bytes."""
    if setting is str:
        return StringDeserializer()
    if isinstance(setting, type) and setting.__module__ == "builtins" and setting not in (bytes, bytearray):
        return setting
    return resolve_serializer(setting, name)


def _listed(settings: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return an assignor on its own counts as a list of one."""
    if settings is None:
        return None
    return {
        name: [value] if name.replace("_", ".") == "partition.assignment.strategy" and _is_assignor(value) else value
        for name, value in settings.items()
    }


def _is_assignor(value: Any) -> bool:
    return isinstance(value, ConsumerPartitionAssignor) or (
        isinstance(value, type) and issubclass(value, ConsumerPartitionAssignor)
    )


def _assignor(choice: Any) -> ConsumerPartitionAssignor:
    """Return the assignor of a setting: a name, Kafka's class name, `module:name`, a class or an instance."""
    if isinstance(choice, str):
        choice = _by_name(choice)
    if isinstance(choice, type) and _is_assignor(choice):
        choice = choice()
    if not isinstance(choice, ConsumerPartitionAssignor):
        raise ConfigError(
            f"partition.assignment.strategy has {choice!r}; it takes {', '.join(_ASSIGNORS)}, or a subclass of "
            "ConsumerPartitionAssignor"
        )
    if not choice.name:
        raise ConfigError(f"{type(choice).__name__} in partition.assignment.strategy has no name to agree on")
    return choice


def _by_name(choice: str) -> Any:
    known = _ASSIGNORS.get(choice) or _ASSIGNORS_BY_CLASS.get(choice.rpartition(".")[2])
    if known is not None:
        return known
    module, colon, name = choice.partition(":")
    if not colon:
        return choice
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"partition.assignment.strategy={choice!r} cannot be loaded: {error}") from error
