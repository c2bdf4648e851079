"""`ClientConfig`: what the settings of producer, consumer and admin client have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.config.config import Config
from barnabas.errors import ConfigError


class ClientConfig(Config):
    """A `Config` that must name the servers to start from, and whose values may hold variables of config providers.

    Raises:
        ConfigError: as `Config`; also when `bootstrap.servers` is missing or empty, or `config.providers` is wrong.
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
        if not self["bootstrap.servers"]:
            raise ConfigError(
                f"the {section} needs bootstrap_servers: one or more host:port to start from, "
                'such as bootstrap_servers="localhost:9092"'
            )


def _is_about_providers(name: object) -> bool:
    return isinstance(name, str) and name.startswith(("config.providers", "config_providers"))
