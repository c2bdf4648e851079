"""The broker's settings that groups go by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.errors import ConfigError

if TYPE_CHECKING:
    from barnabas.config.config import Config

#: How long a member that has no id yet may wait in JoinGroup before its answer tells it to try again.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000


#: Values of group.consumer.migration.policy → whether living groups may go from classic to consumer, and back.
_MIGRATION = {
    "disabled": (False, False),
    "upgrade": (True, False),
    "downgrade": (False, True),
    "bidirectional": (True, True),
}


#: The server-side assignors there are, as group.consumer.assignors may list them.
ASSIGNORS = ("uniform", "range")
_PREFIX = "group.consumer."
#: Settings with bounds of their own, such as `group.consumer.min.NAME` and `group.consumer.max.NAME`.
_BOUNDED = ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms")
_SHARE_PREFIX = "group.share."
_STREAMS_PREFIX = "group.streams."
_BOUNDED_OF_SHARES = (*_BOUNDED, "delivery.count.limit", "partition.max.record.locks", "record.lock.duration.ms")


def check_group_settings(config: Config) -> None:
    """Raise ConfigError for settings of consumer groups that do not go together, as Apache Kafka does at its start."""
    _check_bounds(config, _PREFIX, _BOUNDED)
    _check_bounds(config, _SHARE_PREFIX, _BOUNDED_OF_SHARES)
    _check_bounds(config, _STREAMS_PREFIX, _BOUNDED)
    replicas = config.get_int("group.streams.num.standby.replicas")
    most = config.get_int("group.streams.max.standby.replicas")
    if replicas > most:
        raise ConfigError(
            f"group.streams.num.standby.replicas={replicas} must not be more than "
            f"group.streams.max.standby.replicas={most}"
        )
    if config.get_int("group.share.max.share.sessions") < config.get_int("group.share.max.size"):
        raise ConfigError("group.share.max.share.sessions must not be less than group.share.max.size")
    names = assignor_names(config)
    unknown = [name for name in names if name not in ASSIGNORS]
    if unknown or not names:
        raise ConfigError(
            f"{_PREFIX}assignors={','.join(names)} must list one or more of {', '.join(ASSIGNORS)}; "
            "assignors of one's own are Java classes, which barnabas cannot load"
        )
    protocols = config.get_list("group.coordinator.rebalance.protocols")
    if "classic" not in protocols:
        raise ConfigError("group.coordinator.rebalance.protocols must list classic, which cannot be switched off")


def _check_bounds(config: Config, prefix: str, names: Sequence[str]) -> None:
    for name in names:
        value = config.get_int(prefix + name)
        low, high = config.get_int(f"{prefix}min.{name}"), config.get_int(f"{prefix}max.{name}")
        if not low <= value <= high:
            raise ConfigError(
                f"{prefix}{name}={value} must lie between {prefix}min.{name}={low} and {prefix}max.{name}={high}"
            )
    heartbeat, session = config.get_int(prefix + names[0]), config.get_int(prefix + names[1])
    if heartbeat >= session:
        raise ConfigError(f"{prefix}{names[0]}={heartbeat} must be less than {prefix}{names[1]}={session}")


def assignor_names(config: Config) -> list[str]:
    """Return the assignors offered to members, each once, the default first."""
    return list(dict.fromkeys(str(name).strip() for name in config.get_list("group.consumer.assignors")))


def no_group_configs(group_id: str) -> Mapping[str, str]:
    """For groups without settings of their own."""
    return {}


class GroupSettings:
    """The settings of groups and committed offsets, read once. All times are milliseconds."""

    __slots__ = (
        "_config",
        "_group_configs",
        "consumer_assignors",
        "consumer_max_size",
        "downgrade_enabled",
        "initial_rebalance_delay_ms",
        "max_session_timeout_ms",
        "max_size",
        "min_session_timeout_ms",
        "offset_metadata_max_bytes",
        "offsets_retention_check_interval_ms",
        "offsets_retention_ms",
        "rebalance_protocols",
        "share_max_size",
        "streams_max_size",
        "upgrade_enabled",
    )

    def __init__(self, config: Config, group_configs: Callable[[str], Mapping[str, str]] = no_group_configs):
        self._config = config
        self._group_configs = group_configs
        self.min_session_timeout_ms = config.get_int("group.min.session.timeout.ms")
        self.max_session_timeout_ms = config.get_int("group.max.session.timeout.ms")
        self.max_size = config.get_int("group.max.size")
        self.initial_rebalance_delay_ms = config.get_int("group.initial.rebalance.delay.ms")
        self.offset_metadata_max_bytes = config.get_int("offset.metadata.max.bytes")
        self.offsets_retention_ms = config.get_int("offsets.retention.minutes") * 60_000
        self.offsets_retention_check_interval_ms = config.get_int("offsets.retention.check.interval.ms")
        self.rebalance_protocols = frozenset(
            str(name).strip() for name in config.get_list("group.coordinator.rebalance.protocols")
        )
        self.consumer_max_size = config.get_int("group.consumer.max.size")
        self.share_max_size = config.get_int("group.share.max.size")
        self.streams_max_size = config.get_int("group.streams.max.size")
        #: The first one is the default.
        self.consumer_assignors = assignor_names(config)
        policy = config.get_str("group.consumer.migration.policy").lower()
        self.upgrade_enabled, self.downgrade_enabled = _MIGRATION[policy]

    def consumer_session_timeout_ms(self, group_id: str) -> int:
        """How long a member of the consumer protocol may be silent."""
        return self._of_group(group_id, "consumer.session.timeout.ms")

    def consumer_heartbeat_interval_ms(self, group_id: str) -> int:
        """How often it shall be heard of."""
        return self._of_group(group_id, "consumer.heartbeat.interval.ms")

    def consumer_assignment_interval_ms(self, group_id: str) -> int:
        """How long at least a target assignment stays as it is."""
        return self._of_group(group_id, "consumer.assignment.interval.ms")

    def share_session_timeout_ms(self, group_id: str) -> int:
        """How long a member of a share group may be silent."""
        return self._of_group(group_id, "share.session.timeout.ms")

    def share_heartbeat_interval_ms(self, group_id: str) -> int:
        """How often it shall be heard of."""
        return self._of_group(group_id, "share.heartbeat.interval.ms")

    def share_assignment_interval_ms(self, group_id: str) -> int:
        """How long at least a target assignment of a share group stays as it is."""
        return self._of_group(group_id, "share.assignment.interval.ms")

    def streams_session_timeout_ms(self, group_id: str) -> int:
        """How long a member of a streams group may be silent."""
        return self._of_group(group_id, "streams.session.timeout.ms")

    def streams_heartbeat_interval_ms(self, group_id: str) -> int:
        """How often it shall be heard of."""
        return self._of_group(group_id, "streams.heartbeat.interval.ms")

    def streams_assignment_interval_ms(self, group_id: str) -> int:
        """How long at least a target assignment of a streams group stays as it is."""
        return self._of_group(group_id, "streams.assignment.interval.ms")

    def streams_initial_rebalance_delay_ms(self, group_id: str) -> int:
        """How long the first members of a streams group wait for others."""
        return self._of_group(group_id, "streams.initial.rebalance.delay.ms")

    def streams_num_standby_replicas(self, group_id: str) -> int:
        """How many copies of each task with a state are kept up to date."""
        return self._of_group(group_id, "streams.num.standby.replicas")

    def _of_group(self, group_id: str, name: str) -> int:
        # Read each time: both the group's settings and the broker's may change while groups live.
        own = self._group_configs(group_id).get(name)
        return self._config.get_int(f"group.{name}") if own is None else int(own)
