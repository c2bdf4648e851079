"""The settings of the clients behind a source or a sink, as they travel to the tasks; secrets are never shown."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.config.config_def import definitions
from barnabas.config.values import shown

_HIDDEN = "[hidden]"


class ClientSettings(dict[str, str]):
    """A client's settings under Kafka's names; only those that are known, and no secrets, are shown."""

    def over(self, defaults: Mapping[str, str]) -> ClientSettings:
        """Return these settings, and the defaults where nothing else is given."""
        return ClientSettings({**defaults, **self})

    def __repr__(self) -> str:
        return shown({name: value if _may_be_shown(name) else _HIDDEN for name, value in self.items()})

    __str__ = __repr__


def _may_be_shown(name: str) -> bool:
    keys = [definitions(section).keys.get(name) for section in ("producer", "consumer", "admin")]
    known = [key for key in keys if key is not None]
    return bool(known) and not any(key.is_secret for key in known)
