"""A broker's settings as one listener sees them, or one SASL mechanism of it: what stands under a prefix goes first.

`listener.name.{listener}.{setting}` goes before `{setting}`, `listener.name.{listener}.{mechanism}.{setting}` before
both; the names of listeners and mechanisms are in lower case there (KIP-103, KIP-85).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from barnabas.config.config import Config
from barnabas.config.values import Resolved
from barnabas.errors import ConfigError

PREFIX = "listener.name."
#: What can be said for one mechanism of a listener.
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
_MECHANISM_OF = {name.lower(): name for name in MECHANISMS}


class Override(NamedTuple):
    """A setting of one listener, or of one of its mechanisms (else None), as it was written."""

    listener: str
    mechanism: str | None
    setting: str
    value: Any


def taken_out(properties: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings without those under the prefix of a listener, and these."""
    prefixed = {name: value for name, value in properties.items() if str(name).startswith(PREFIX)}
    return {name: value for name, value in properties.items() if name not in prefixed}, prefixed


def parse_overrides(prefixed: Mapping[str, Any], listeners: Iterable[str]) -> tuple[list[Override], list[str]]:
    """Return the overrides of the listeners, in upper case, and the names that belong to none of them."""
    by_length = sorted(listeners, key=len, reverse=True)
    found, others = [], []
    for name, value in prefixed.items():
        rest = name[len(PREFIX) :]
        listener = next((each for each in by_length if rest.startswith(each.lower() + ".")), None)
        if listener is None:
            others.append(name)
            continue
        setting = rest[len(listener) + 1 :]
        first, _, second = setting.partition(".")
        mechanism = _MECHANISM_OF.get(first)
        found.append(Override(listener, mechanism, second if mechanism else setting, value))
    return found, others


class ListenerConfig(Config):
    """The settings that hold for a listener, and for one of its mechanisms where that is named.

    `base` are the broker's own. Raises `ConfigError`, which names the setting with its prefix, for what `Config`
    refuses.
    """

    __slots__ = ("_own",)

    def __init__(
        self, base: Mapping[str, Any], overrides: Iterable[Override], listener: str, mechanism: str | None = None
    ) -> None:
        super().__init__("broker")
        # Those of the mechanism last: they go before the listener's.
        wanted = [one for one in overrides if one.listener == listener and one.mechanism in (None, mechanism)]
        for one in sorted(wanted, key=lambda one: one.mechanism is not None):
            self._override(one)
        self._own = frozenset(one.setting for one in wanted if one.mechanism == mechanism)
        self._given = {**base, **self._given}
        self._values = dict(self._given)

    def _override(self, one: Override) -> None:
        self._given.pop(one.setting, None)
        try:
            self._accept(one.setting, one.value, [])
        except ConfigError as problem:
            parts = filter(None, (one.listener, one.mechanism))
            prefix = PREFIX + ".".join(part.lower() for part in parts) + "."
            error = ConfigError(f"{prefix}{one.setting} cannot be used: {problem}")
            if isinstance(one.value, Resolved):
                error = ConfigError(f"{prefix}{one.setting} cannot be used once its variables are replaced")
            raise error from None

    def is_own(self, name: str) -> bool:
        """Whether the setting stands under the prefix of the listener, or of the mechanism where that is named."""
        return name in self._own
