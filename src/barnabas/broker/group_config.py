"""Settings of single groups (KIP-848, KIP-932, KIP-1071): names, types, bounds, and the broker settings behind them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas import errors
from barnabas.config.config_def import definitions
from barnabas.config.durations import parse_duration
from barnabas.config.values import PARSERS

if TYPE_CHECKING:
    from barnabas.broker.config import BrokerConfig


class GroupSetting(NamedTuple):
    """One setting of a group; `low` and `high` name the broker settings that bound it."""

    type: str
    broker_name: str | None
    default: str | None = None
    low: str | None = None
    high: str | None = None

    @property
    def documentation(self) -> str:
        """A line on it."""
        other = f"the broker's {self.broker_name}" if self.broker_name else repr(self.default)
        return f"{self.type}, default: {other}; a setting of single groups."


def _bounded(kind: str, name: str, type: str = "int") -> GroupSetting:
    prefix = f"group.{kind}."
    return GroupSetting(type, prefix + name, low=f"{prefix}min.{name}", high=f"{prefix}max.{name}")


GROUP_SETTINGS: dict[str, GroupSetting] = {
    "consumer.assignment.interval.ms": _bounded("consumer", "assignment.interval.ms"),
    "consumer.heartbeat.interval.ms": _bounded("consumer", "heartbeat.interval.ms"),
    "consumer.session.timeout.ms": _bounded("consumer", "session.timeout.ms"),
    "share.assignment.interval.ms": _bounded("share", "assignment.interval.ms"),
    "share.auto.offset.reset": GroupSetting("string", None, "latest"),
    "share.delivery.count.limit": _bounded("share", "delivery.count.limit"),
    "share.heartbeat.interval.ms": _bounded("share", "heartbeat.interval.ms"),
    "share.isolation.level": GroupSetting("string", None, "read_uncommitted"),
    "share.partition.max.record.locks": _bounded("share", "partition.max.record.locks"),
    "share.record.lock.duration.ms": _bounded("share", "record.lock.duration.ms"),
    "share.renew.acknowledge.enable": GroupSetting("boolean", None, "true"),
    "share.session.timeout.ms": _bounded("share", "session.timeout.ms"),
    "streams.assignment.interval.ms": _bounded("streams", "assignment.interval.ms"),
    "streams.heartbeat.interval.ms": _bounded("streams", "heartbeat.interval.ms"),
    "streams.initial.rebalance.delay.ms": GroupSetting("int", "group.streams.initial.rebalance.delay.ms"),
    "streams.num.standby.replicas": GroupSetting(
        "int", "group.streams.num.standby.replicas", high="group.streams.max.standby.replicas"
    ),
    "streams.session.timeout.ms": _bounded("streams", "session.timeout.ms"),
}


_NOT_NEGATIVE = ("streams.initial.rebalance.delay.ms", "streams.num.standby.replicas")


def check_group_configs(config: BrokerConfig, configs: Mapping[str, str]) -> None:
    """Whether a group may have these settings. Raises InvalidConfigurationError."""
    values: dict[str, Any] = {}
    for name, text in configs.items():
        setting = GROUP_SETTINGS.get(name)
        if setting is None:
            raise errors.InvalidConfigurationError(f"Unknown group config name: {name}")
        values[name] = _parsed(name, setting, text)
        _check_bounds(config, name, setting, values[name])
        _check_choice(name, text)
    for kind in ("consumer", "share", "streams"):
        _check_session(config, kind, values)


def _check_session(config: BrokerConfig, kind: str, values: Mapping[str, Any]) -> None:
    names = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
    session, heartbeat = (values.get(name, config[f"group.{name}"]) for name in names)
    if session <= heartbeat:
        raise errors.InvalidConfigurationError(f"{names[0]} must be greater than {names[1]}")


def _check_choice(name: str, text: str) -> None:
    if name in _NOT_NEGATIVE and text.strip().startswith("-"):
        raise errors.InvalidConfigurationError(f"{name} must be at least 0, and is {text}")
    if name == "share.isolation.level" and text not in ("read_committed", "read_uncommitted"):
        raise errors.InvalidConfigurationError(f"{name}={text!r} must be read_committed or read_uncommitted")
    if name == "share.auto.offset.reset" and text not in ("earliest", "latest"):
        kind, _, duration = text.partition(":")
        try:
            if kind != "by_duration":
                raise errors.ConfigError(f"{text!r} is none of earliest, latest, by_duration:PnDTnHnMn.nS")
            parse_duration(duration)
        except errors.ConfigError as problem:
            raise errors.InvalidConfigurationError(f"{name} is not valid: {problem}") from problem


def _parsed(name: str, setting: GroupSetting, text: str) -> Any:
    try:
        return PARSERS[setting.type](text)
    except ValueError as problem:
        raise errors.InvalidConfigurationError(f"{name}={text!r} is not valid: it {problem}") from problem


def _check_bounds(config: BrokerConfig, name: str, setting: GroupSetting, value: Any) -> None:
    known = definitions("broker").keys
    if setting.low is not None and setting.low in known and value < config[setting.low]:
        raise errors.InvalidConfigurationError(f"{name} must be greater than or equal to {setting.low}")
    if setting.high is not None and setting.high in known and value > config[setting.high]:
        raise errors.InvalidConfigurationError(f"{name} must be less than or equal to {setting.high}")
