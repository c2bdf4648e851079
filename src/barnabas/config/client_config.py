"""`ClientConfig`: what the settings of producer, consumer and admin client have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.config.config import Config
from barnabas.errors import ConfigError

_SERVERS, _CONTROLLERS = "bootstrap.servers", "bootstrap.controllers"


class ClientConfig(Config):
    """A `Config` that must name the servers to start from, and whose values may hold variables of config providers.

    Raises `ConfigError` as `Config` does, and when `bootstrap.servers` (or, for an admin client,
    `bootstrap.controllers`) is missing or empty, or both are given, or `config.providers` is wrong.
    """

    __slots__ = ()

    def __init__(
        self,
        section: str,
        properties: Mapping[str, Any] | None = None,
        keywords: Mapping[str, Any] | None = None,
    ) -> None:
        if any(_is_about_providers(name) for source in (properties, keywords) for name in source or ()):
            from barnabas.config.config_transformer import resolve_variables

            properties, keywords = resolve_variables(properties, keywords)
        super().__init__(section, properties, keywords)
        given = self.given
        if given.get(_SERVERS) and given.get(_CONTROLLERS):
            raise ConfigError(
                "bootstrap.servers and bootstrap.controllers are both given; an admin client talks either to brokers "
                "or to controllers: remove one of them"
            )
        if not given.get(self.bootstrap_setting):
            raise ConfigError(
                f"the {section} needs bootstrap_servers: one or more host:port to start from, "
                'such as bootstrap_servers="localhost:9092"'
            )

    @property
    def bootstrap_setting(self) -> str:
        """The setting that says where to start: `bootstrap.servers`, or `bootstrap.controllers` (KIP-919)."""
        return _CONTROLLERS if self.given.get(_CONTROLLERS) else _SERVERS


def _is_about_providers(name: object) -> bool:
    return isinstance(name, str) and name.startswith(("config.providers", "config_providers"))
