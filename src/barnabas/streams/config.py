"""The settings of a stream application, under Kafka's names. Source: Kafka's StreamsConfig."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from barnabas.config.loading import load_attribute
from barnabas.errors import ConfigError
from barnabas.streams.engine.exception_handlers import (
    DefaultProductionExceptionHandler,
    LogAndContinueExceptionHandler,
    LogAndContinueProcessingExceptionHandler,
    LogAndFailExceptionHandler,
    LogAndFailProcessingExceptionHandler,
)
from barnabas.streams.engine.timestamp_extractors import (
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    UsePartitionTimeOnInvalidTimestamp,
    WallclockTimestampExtractor,
)
from barnabas.streams.serdes.serdes import Serdes
from barnabas.streams.topology.dsl_store_suppliers import BuiltInDslStoreSuppliers, suppliers_of
from barnabas.streams.topology.sensors import RecordingLevel
from barnabas.streams.topology.topology import PROCESS_FIX, WHY_NO_FIX

log = logging.getLogger("barnabas.streams")

Check = Callable[[Any], str | None]
_told: set[str] = set()


class Setting(NamedTuple):
    """A setting: its type (`int`, `long`, `bool`, `str`, `any`), default, and a check that returns what is wrong."""

    type: str
    default: Any
    check: Check | None = None


def _at_least(least: int) -> Check:
    return lambda value: None if value >= least else f"Value must be at least {least}"


def _one_of(*choices: str, ignore_case: bool = False) -> Check:
    known = [choice.lower() for choice in choices] if ignore_case else list(choices)
    hint = "String must be one of (case insensitive): " if ignore_case else "String must be one of: "

    def check(value: str) -> str | None:
        given = value.lower() if ignore_case else value
        return None if given in known else hint + ", ".join(choices)

    return check


@dataclass(frozen=True)
class Refused:
    """A check that no value passes but one: to pass over what would change what a topology does is worse."""

    why: str
    but: Any = None

    def __call__(self, value: Any) -> str | None:
        """Return why not."""
        return None if value is not None and value == self.but else self.why


_OPTIMIZATIONS = ("all", "none", "reuse.ktable.source.topics", "merge.repartition.topics", "single.store.self.join")


def _optimization(value: str) -> str | None:
    given = [part.strip() for part in value.split(",")]
    if any(part not in _OPTIMIZATIONS for part in given):
        return f"Unrecognized config. {value} is not one of {', '.join(_OPTIMIZATIONS)}"
    if len(given) > 1 and ("all" in given or "none" in given):
        return f'"{value}" is not a valid optimization config. "all" and "none" stand alone'
    return None


IN_MEMORY_STORES = "dsl.store.suppliers.class=BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers"

#: All that this implementation knows: it acts on each, or says in `WITHOUT_EFFECT` why it does not. Others are kept as
#: they are given, those with prefixes for clients among them.
SETTINGS: dict[str, Setting] = {
    PROCESS_FIX: Setting("any", None, Refused(WHY_NO_FIX)),
    "accepted.topology.changes": Setting("any", None),
    "acceptable.recovery.lag": Setting("long", 10_000, _at_least(0)),
    "application.id": Setting("str", None),
    "bootstrap.servers": Setting("any", None),
    "commit.interval.ms": Setting("long", None, _at_least(0)),
    "default.key.serde": Setting("any", None),
    "default.value.serde": Setting("any", None),
    "default.timestamp.extractor": Setting("any", "FailOnInvalidTimestamp"),
    "deserialization.exception.handler": Setting("any", "LogAndFailExceptionHandler"),
    "processing.exception.handler": Setting("any", "LogAndFailProcessingExceptionHandler"),
    "production.exception.handler": Setting("any", "DefaultProductionExceptionHandler"),
    "errors.dead.letter.queue.topic.name": Setting("str", None),
    "dsl.store.format": Setting("str", "DEFAULT", _one_of("HEADERS", "DEFAULT", ignore_case=True)),
    "default.dsl.store": Setting("str", "rocksDB", Refused(f"deprecated in Kafka: set {IN_MEMORY_STORES}", "rocksDB")),
    "dsl.store.suppliers.class": Setting("any", None),
    "ensure.explicit.internal.resource.naming": Setting("bool", False),
    "internal.topic.prefix": Setting("str", None),
    "max.task.idle.ms": Setting("long", 0),
    "metrics.num.samples": Setting("int", 2, _at_least(1)),
    "metrics.recording.level": Setting("str", "INFO", _one_of("INFO", "DEBUG", "TRACE")),
    "metrics.sample.window.ms": Setting("long", 30_000, _at_least(0)),
    "num.stream.threads": Setting("int", 1, _at_least(1)),
    "num.standby.replicas": Setting("int", 0, _at_least(0)),
    "poll.ms": Setting("long", 100, _at_least(0)),
    "processing.guarantee": Setting("str", "at_least_once", _one_of("at_least_once", "exactly_once_v2")),
    "repartition.purge.interval.ms": Setting("long", 30_000, _at_least(0)),
    "repartition.within.batch": Setting("bool", True),
    "processor.wrapper.class": Setting("any", None),
    "replication.factor": Setting("int", -1),
    "state.cleanup.delay.ms": Setting("long", 600_000, _at_least(0)),
    "state.dir": Setting("str", None),
    "statestore.cache.max.bytes": Setting("long", 10 * 1024 * 1024, _at_least(0)),
    "task.timeout.ms": Setting("long", 300_000, _at_least(0)),
    "topology.optimization": Setting("str", "none", _optimization),
    "windowstore.changelog.additional.retention.ms": Setting("long", 24 * 60 * 60 * 1000),
}

#: Settings of Kafka's that are taken, and what takes their place here. One that is given is told of, once.
WITHOUT_EFFECT = {
    "max.task.idle.ms": "a batch has all that waits, so no task waits for one of its topics",
    "num.standby.replicas": "a task that moves restores its stores from the changelogs",
    "num.stream.threads": "Spark decides how many tasks run at a time",
    "poll.ms": "Spark decides when the next batch begins",
}

_BOUNDS = {"int": 31, "long": 63}

_EXTRACTORS = {
    found.__name__: found
    for found in (
        FailOnInvalidTimestamp,
        LogAndSkipOnInvalidTimestamp,
        UsePartitionTimeOnInvalidTimestamp,
        WallclockTimestampExtractor,
    )
}
_DESERIALIZATION = {
    "log_and_continue": LogAndContinueExceptionHandler,
    "log_and_fail": LogAndFailExceptionHandler,
    "LogAndContinueExceptionHandler": LogAndContinueExceptionHandler,
    "LogAndFailExceptionHandler": LogAndFailExceptionHandler,
}
_PROCESSING = {
    "log_and_continue": LogAndContinueProcessingExceptionHandler,
    "log_and_fail": LogAndFailProcessingExceptionHandler,
    "LogAndContinueProcessingExceptionHandler": LogAndContinueProcessingExceptionHandler,
    "LogAndFailProcessingExceptionHandler": LogAndFailProcessingExceptionHandler,
}
_PRODUCTION = {"DefaultProductionExceptionHandler": DefaultProductionExceptionHandler}
_SERDES = {
    "string": Serdes.string,
    "long": Serdes.long,
    "integer": Serdes.integer,
    "short": Serdes.short,
    "double": Serdes.double,
    "float": Serdes.float,
    "boolean": Serdes.boolean,
    "bytes": Serdes.bytes,
    "bytearray": Serdes.bytes,
    "uuid": Serdes.uuid,
    "json": Serdes.json,
    "void": Serdes.void,
}


class StreamsConfig:
    """Settings, checked. `values` has all of them, also those that were not given.

    Raises `ConfigError` for a missing application.id, for values that cannot be, and for settings that are not built.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        for name in WITHOUT_EFFECT.keys() & given.keys():
            if name not in _told:
                _told.add(name)
                log.info("%s has no effect here: %s", name, WITHOUT_EFFECT[name])
        values = {name: setting.default for name, setting in SETTINGS.items()}
        values |= {name: _checked(name, value) for name, value in given.items()}
        if not values["application.id"]:
            raise ConfigError('Missing required configuration "application.id" which has no default value.')
        if "cache.max.bytes.buffering" in given and "statestore.cache.max.bytes" not in given:
            values["statestore.cache.max.bytes"] = _parsed(
                "cache.max.bytes.buffering", given["cache.max.bytes.buffering"], "long"
            )
        if values["commit.interval.ms"] is None:
            exactly_once = values["processing.guarantee"] == "exactly_once_v2"
            values["commit.interval.ms"] = 100 if exactly_once else 30_000
        self.values: dict[str, Any] = values
        self.default_key_serde = self._serde("default.key.serde")
        self.default_value_serde = self._serde("default.value.serde")
        self.default_timestamp_extractor = self._made("default.timestamp.extractor", _EXTRACTORS)
        self.deserialization_exception_handler = self._made("deserialization.exception.handler", _DESERIALIZATION)
        self.processing_exception_handler = self._made("processing.exception.handler", _PROCESSING)
        self.dsl_store_suppliers = suppliers_of(values) or BuiltInDslStoreSuppliers.ROCKS_DB
        self.production_exception_handler = self._made("production.exception.handler", _PRODUCTION)

    @property
    def application_id(self) -> str:
        """The setting application.id."""
        return str(self.values["application.id"])

    @property
    def stores_headers(self) -> bool:
        """Whether stores of the DSL keep headers: the setting dsl.store.format."""
        return str(self.values["dsl.store.format"]).lower() == "headers"

    @property
    def recording_level(self) -> RecordingLevel:
        """The setting metrics.recording.level."""
        return RecordingLevel[str(self.values["metrics.recording.level"])]

    @property
    def cache_max_bytes(self) -> int:
        """The setting statestore.cache.max.bytes."""
        return int(self.values["statestore.cache.max.bytes"])

    def _serde(self, name: str) -> Any:
        given = self.values[name]
        if not isinstance(given, str):
            return given() if isinstance(given, type) else given
        short = given.rpartition("$")[2].rpartition(".")[2]
        known = _SERDES.get(short.removesuffix("Serde").lower())
        return load_attribute(given, name)() if known is None and ":" in given else _known(known, name, given)()

    def _made(self, name: str, classes: Mapping[str, Callable[[], Any]]) -> Any:
        given = self.values[name]
        if isinstance(given, str):
            found = classes.get(given) or classes.get(given.rpartition(".")[2])
            given = load_attribute(given, name) if found is None and ":" in given else _known(found, name, given)
        made = given() if isinstance(given, type) else given
        configure = getattr(made, "configure", None)
        if configure is not None:
            configure(self.values)
        return made


def _known(found: Any, name: str, given: str) -> Any:
    if found is None:
        raise ConfigError(
            f"Invalid value {given} for configuration {name}: no such class; 'module:name' names one of yours"
        )
    return found


def _checked(name: str, value: Any) -> Any:
    setting = SETTINGS.get(name)
    if setting is None or value is None:
        return value
    parsed = _parsed(name, value, setting.type)
    problem = None if setting.check is None else setting.check(parsed)
    if problem is not None:
        raise ConfigError(f"Invalid value {value} for configuration {name}: {problem}")
    return parsed


def _parsed(name: str, value: Any, kind: str) -> Any:
    if kind == "any":
        return value
    if kind == "str":
        return str(value)
    if kind == "bool":
        return _bool(name, value)
    limit = 1 << _BOUNDS[kind]
    try:
        number = int(value) if isinstance(value, str) else value
    except ValueError:
        number = None
    if isinstance(number, bool) or not isinstance(number, int) or not -limit <= number < limit:
        raise ConfigError(f"Invalid value {value} for configuration {name}: Not a number of type {kind.upper()}")
    return number


def _bool(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).strip().lower() in ("true", "false"):
        return str(value).strip().lower() == "true"
    raise ConfigError(f"Invalid value {value} for configuration {name}: Expected value to be either true or false")
