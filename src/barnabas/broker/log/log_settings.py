"""What the logs of a data directory are set to: the broker's defaults, and over them what each topic sets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from barnabas.broker.log.log_config import LogConfig
from barnabas.broker.log.producer_state_manager import PRODUCER_ID_EXPIRATION_MS
from barnabas.errors import ConfigError

if TYPE_CHECKING:
    from barnabas.broker.log.unified_log import UnifiedLog

Settings = Mapping[str, object]


class LogSettings:
    """`defaults` are those of topics (`segment.bytes`) and the broker's intervals (`log.retention.check.interval.ms`).

    `topic_settings(topic)` gives what a topic sets beside the defaults.
    """

    __slots__ = ("defaults", "topic_settings")

    def __init__(self, defaults: Settings | None) -> None:
        self.defaults = dict(defaults or {})
        self.topic_settings: Callable[[str], Settings] = lambda _topic: {}

    @property
    def producer_expiration_ms(self) -> int:
        """How long a producer that writes nothing is remembered."""
        return int(str(self.defaults.get("producer.id.expiration.ms", PRODUCER_ID_EXPIRATION_MS)))

    def config(self, settings: Settings) -> LogConfig:
        """Return the defaults with a topic's settings over them. Raises `ConfigError`."""
        return LogConfig({**self.defaults, **settings})

    def config_of(self, topic: str) -> LogConfig:
        """Return what a topic's logs are set to at present."""
        return self.config(self.topic_settings(topic))

    def update_topic(self, topic: str, settings: Settings, logs: Collection[UnifiedLog]) -> None:
        """Use other settings for a topic from now on. Raises `ConfigError` for a value that is not allowed."""
        config = self.config(settings)
        for log in logs:
            if log.topic_partition.topic == topic:
                log.update_config(config)

    def update_defaults(
        self, defaults: Settings, topic_settings: Callable[[str], Settings], logs: Collection[UnifiedLog]
    ) -> None:
        """Use other settings for what topics do not set themselves from now on.

        Raises `ConfigError` for a value that is not allowed; nothing has changed then.
        """
        before = self.defaults.copy()
        self.defaults.update(defaults)
        configs: dict[str, LogConfig] = {}
        try:
            for topic in {log.topic_partition.topic for log in logs}:
                configs[topic] = self.config(topic_settings(topic))
        except ConfigError:
            self.defaults.clear()
            self.defaults.update(before)
            raise
        for log in logs:
            log.update_config(configs[log.topic_partition.topic])
            log.producer_state.expiration_ms = self.producer_expiration_ms
