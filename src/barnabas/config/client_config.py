"""`ClientConfig`: what the settings of producer, consumer and admin client have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.config.config import Config
from barnabas.errors import ConfigError


class ClientConfig(Config):
    """A `Config` that must name the servers to start from.

    Raises:
        ConfigError: as `Config`; also when `bootstrap.servers` is missing or empty.
    """

    __slots__ = ()

    def __init__(
        self,
        section: str,
        properties: Mapping[str, Any] | None = None,
        keywords: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(section, properties, keywords)
        if not self["bootstrap.servers"]:
            raise ConfigError(
                f"the {section} needs bootstrap_servers: one or more host:port to start from, "
                'such as bootstrap_servers="localhost:9092"'
            )
