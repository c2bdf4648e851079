"""`Config`: the checked settings of one producer, consumer, admin client, topic or broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from barnabas.config.config_def import ConfigDef, canonical_name, definitions
from barnabas.config.support import IGNORED, SUPPORTED, WHOLE_PREFIXES, gone_since_kafka_4, subject_of
from barnabas.config.values import Resolved, shown
from barnabas.errors import ConfigError

_warned: set[str] = set()


class Config:
    """The settings of a section: those given, checked, over Kafka's defaults. Immutable.

    `config["linger.ms"]` is the parsed value. Names are Kafka's, in `properties` with dots or underscores, in
    `keywords` with underscores. A value of None means "not given".

    Raises `ConfigError` for an unknown name (the nearest known one is named), a value that does not parse or is out of
    range, a name given twice, or a setting that is not supported with another value than its default.
    """

    __slots__ = ("_definitions", "_given", "_resolved", "_values", "section")

    def __init__(
        self,
        section: str,
        properties: Mapping[str, Any] | None = None,
        keywords: Mapping[str, Any] | None = None,
    ) -> None:
        self.section = section
        self._definitions: ConfigDef = definitions(section)
        self._given: dict[str, Any] = {}
        self._resolved: dict[str, Resolved] = {}
        self._values: dict[str, Any] = {}
        without_effect: list[str] = []
        for source in (properties, keywords):
            for name, value in (source or {}).items():
                self._accept(name, value, without_effect)
        _warn_once(without_effect)

    def _accept(self, name: str, value: Any, without_effect: list[str]) -> None:
        if not isinstance(name, str):
            raise ConfigError(f"the name of a {self.section} setting must be a string, not {name!r}")
        if value is None:
            self._definitions.key(name)
            return
        if name not in self._definitions.keys and gone_since_kafka_4(self.section, canonical_name(name), value):
            without_effect.append(canonical_name(name))
            return
        if canonical_name(name).startswith(WHOLE_PREFIXES) and canonical_name(name) not in self._definitions.keys:
            raise ConfigError(f"{name} is not supported yet ({subject_of(canonical_name(name))}); remove it")
        key = self._definitions.key(name)
        if key.name in self._given:
            raise ConfigError(f"{key.name!r} is given twice; give it once")
        parsed = key.parse(value)
        if key.name in IGNORED[self.section]:
            without_effect.append(key.name)
        elif key.name not in SUPPORTED[self.section] and parsed != key.default:
            text = "[hidden]" if key.is_secret else shown(value)
            raise ConfigError(
                f"{key.name}={text} is not supported yet ({subject_of(key.name)}); "
                + ("remove it" if key.default in (None, "", []) else f"only its default is: {key.default!r}")
            )
        self._given[key.name] = self._values[key.name] = parsed
        if isinstance(value, Resolved) and not key.is_secret:
            self._resolved[key.name] = value

    def __getitem__(self, name: str) -> Any:
        """Return the value of a setting, parsed; its default when it was not given.

        Raises `ConfigError` when this section has no such setting.
        """
        values = self._values
        if name not in values:
            key = self._definitions.key(name)
            values[name] = self._given.get(key.name, key.default)
        value = values[name]
        return list(value) if type(value) is list else value

    def get_int(self, name: str) -> int:
        """Return a setting of type int, long or short."""
        value = self[name]
        return value if isinstance(value, int) else self._complain(name, "a whole number")

    def get_float(self, name: str) -> float:
        """Return a setting of type double."""
        value = self[name]
        return value if isinstance(value, float) else self._complain(name, "a number")

    def get_bool(self, name: str) -> bool:
        """Return a setting of type boolean."""
        value = self[name]
        return value if isinstance(value, bool) else self._complain(name, "true or false")

    def get_str(self, name: str) -> str:
        """Return a setting of type string that has a value."""
        value = self[name]
        return value if isinstance(value, str) else self._complain(name, "a string")

    def get_list(self, name: str) -> list[Any]:
        """Return a setting of type list, as a new list."""
        value = self[name]
        return value if isinstance(value, list) else self._complain(name, "a list")

    def get_seconds(self, name: str) -> float:
        """Return a setting in milliseconds (its name ends in `.ms`) as seconds."""
        return self.get_int(name) / 1000

    def _complain(self, name: str, wanted: str) -> NoReturn:
        raise ConfigError(f"{name} is {self.shown(name)} where {wanted} is needed")

    def shown(self, name: str) -> str:
        """Return a setting's value for messages: without secrets, with variables in place of what they stand for."""
        return shown(self._resolved.get(self._definitions.key(name).name, self[name]))

    def raise_without_resolved(self, error: ConfigError) -> NoReturn:
        """Raise the error; or, if its text holds what a config provider gave, one that names the setting instead."""
        message = str(error).casefold()
        for name, resolved in self._resolved.items():
            values = resolved.value if isinstance(resolved.value, list) else resolved.value.split(",")
            # A value that is so short stands in many a text by chance.
            found = any(len(str(value).strip()) > 3 and str(value).strip().casefold() in message for value in values)
            if found or f"{name}=" in message or f"{name}:" in message:
                raise ConfigError(
                    f"{name}={resolved!r} cannot be used, or not with other settings, once its variables are replaced; "
                    "what they stand for is not shown"
                ) from None
        raise error

    def is_given(self, name: str) -> bool:
        """Whether the user set this one."""
        return self._definitions.key(name).name in self._given

    @property
    def given(self) -> dict[str, Any]:
        """The settings that the user gave, parsed, as a new dict."""
        return dict(self._given)

    def __iter__(self) -> Iterator[str]:
        return iter(self._definitions.keys)

    def __len__(self) -> int:
        return len(self._definitions.keys)

    def __contains__(self, name: object) -> bool:
        return name in self._definitions.keys

    def keys(self) -> Iterator[str]:
        """Return the names of all settings of the section, so that `dict(config)` works."""
        return iter(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.section}, {shown({**self._given, **self._resolved})})"


def _warn_once(names: list[str]) -> None:
    unsaid = [name for name in names if name not in _warned]
    if not unsaid:
        return
    _warned.update(unsaid)
    import logging

    verb, pronoun = ("is", "it tunes") if len(unsaid) == 1 else ("are", "they tune")
    logging.getLogger("barnabas.config").warning(
        "%s %s ignored: %s another implementation of Kafka, without effect on barnabas",
        ", ".join(unsaid), verb, pronoun,
    )  # fmt: skip
