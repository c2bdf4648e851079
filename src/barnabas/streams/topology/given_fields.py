"""What users give as fields of options, suppliers and builders of stores: of the right kind, or an error that names it.

A field of the wrong kind is an error where it is given; it would else be one of a task, on another machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from barnabas.client.consumer.auto_offset_reset_strategy import AutoOffsetResetStrategy
from barnabas.client.serializers import resolve_serializer
from barnabas.errors import ConfigError

_LONGEST: Final = 2**63 - 1
#: The least and the most of numbers. Others may be negative, as in Kafka, and fit its `long`.
_BOUNDS: Final = {
    "number_of_partitions": (0, 2**31 - 1),
    **dict.fromkeys(("max_records", "max_bytes", "max_entries", "retention_ms", "window_size_ms"), (0, _LONGEST)),
}


def _serde(name: str, value: Any) -> None:
    if isinstance(value, type) or not all(
        callable(getattr(value, step, None)) for step in ("serialize", "deserialize")
    ):
        raise TypeError(f"{name} is a Serde, such as Serdes.string() makes, not {value!r}")


def _function(name: str, value: Any) -> None:
    if not callable(value):
        raise TypeError(f"{name} is a function, not {value!r}")


def check_text(name: str, value: Any) -> None:
    """Raise TypeError for what is no str."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is a str, not {value!r}")


def _switch(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name} is True or False, not {value!r}")


def _number(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is an int, not {value!r}")
    least, most = _BOUNDS.get(name, (-_LONGEST, _LONGEST))
    if not least <= value <= most:
        raise ValueError(f"{name} is from {least} to {most}, not {value}")


def _log_config(name: str, value: Any) -> None:
    if not isinstance(value, Mapping) or not all(_is_setting(*item) for item in value.items()):
        raise TypeError(f"{name} is a mapping from settings of a topic to their values, not {value!r}")


def _is_setting(key: Any, value: Any) -> bool:
    return isinstance(key, str) and isinstance(value, str | int | float)


def _reset(name: str, value: Any) -> None:
    if isinstance(value, str):
        AutoOffsetResetStrategy.parse(value)
    elif not isinstance(value, AutoOffsetResetStrategy | timedelta):
        raise TypeError(f"{name} is earliest, latest, none, or a timedelta back from now, not {value!r}")
    elif isinstance(value, timedelta) and value < timedelta(0):
        raise ConfigError(f"{name} goes {value} back: it must not be negative")


_CHECKS: Final[Mapping[str, Callable[[str, Any], None]]] = {
    **dict.fromkeys(("key_serde", "value_serde", "other_value_serde"), _serde),
    **dict.fromkeys(
        ("partitioner", "other_partitioner", "timestamp_extractor", "chain_function", "chain_consumer", "mapper",
         "get"), _function,
    ),
    **dict.fromkeys(("name", "store_name", "label", "path"), check_text),
    **dict.fromkeys(
        ("logging_enabled", "caching_enabled", "is_logging_enabled", "persistent", "headers", "retain_duplicates"),
        _switch,
    ),
    **dict.fromkeys(
        ("number_of_partitions", "grace_period_ms", "max_records", "max_bytes", "time_to_wait_ms", "retention_ms",
         "window_size_ms", "segment_interval_ms", "history_retention_ms", "max_entries"), _number,
    ),
    "log_config": _log_config,
    "auto_offset_reset": _reset,
}  # fmt: skip


def check_fields(given: Any, **kinds: type) -> None:
    """Check the fields of an option that are not None: those of `kinds` by their class, the others as they are named.

    Raises TypeError, ValueError or ConfigError, naming the field.
    """
    for name, value in vars(given).items():
        if value is None:
            continue
        kind = kinds.get(name)
        if kind is not None and not isinstance(value, kind):
            raise TypeError(f"{name} is a {kind.__name__}, not {value!r}")
        if kind is None and name in _CHECKS:
            _CHECKS[name](name, value)


def check_field(name: str, value: Any) -> None:
    """Check one value as a field of that name is; None is left alone."""
    if value is not None:
        _CHECKS[name](name, value)


def check_serializers(method: str, **given: Any) -> None:
    """Raise ConfigError, naming the argument, for what is neither a serde nor what `barnabas.serializers` takes.

    `method` is the one that is called of a serde, serialize or deserialize; None means the default.
    """
    for name, value in given.items():
        if value is not None and not hasattr(value, method):
            resolve_serializer(value, name)


def log_config_of(config: Any) -> dict[str, str]:
    """Return settings of a changelog topic as a dict. Raises TypeError for what is no mapping."""
    _log_config("config", config)
    return dict(config)
