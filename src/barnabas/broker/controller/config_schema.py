"""A topic's setting by where it is given: topic, this controller, all brokers, its file (KafkaConfigSchema)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.topic_admin import text_of
from barnabas.config.config_def import definitions
from barnabas.config.topic_defaults import TOPIC_SYNONYMS
from barnabas.protocol.kinds import ConfigResourceType, ConfigSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from barnabas.broker.controller.controller_state import ControllerState
    from barnabas.config.config import Config

MIN_IN_SYNC_REPLICAS = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"
CORDONED_LOG_DIRS = "cordoned.log.dirs"


class EffectiveConfig(NamedTuple):
    """A setting's value, and what gave it."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool = False


class ConfigSchema:
    """The settings of topics as this controller sees them; `static` is its own file."""

    def __init__(self, state: ControllerState, node_id: int, static: Config) -> None:
        self._state = state
        self._node_id = node_id
        self._static = static
        self._given = {name: text_of(value) or "" for name, value in static.given.items()}

    def cluster_configs(self) -> Mapping[str, str]:
        """Return what is set for all brokers."""
        return self._state.image.configs.get((ConfigResourceType.BROKER, ""), {})

    def min_insync_replicas(self, topic: str) -> int:
        """Return min.insync.replicas of a topic; 1 where what is in the log is no number."""
        value = (self.topic_config(MIN_IN_SYNC_REPLICAS, self._of_topic(topic)).value or "").strip()
        return int(value) if value.isascii() and value.isdecimal() else 1

    def static_min_insync_replicas(self) -> int:
        """Return what this controller's file says of min.insync.replicas."""
        return self._static.get_int(MIN_IN_SYNC_REPLICAS)

    def allows_unclean_election(self, topic: str) -> bool:
        """Whether a topic goes on with a leader that may lack records rather than without one."""
        value = self.topic_config(UNCLEAN_LEADER_ELECTION, self._of_topic(topic)).value
        return (value or "").strip().lower() == "true"

    def _of_topic(self, topic: str) -> Mapping[str, str]:
        return self._state.image.configs.get((ConfigResourceType.TOPIC, topic), {})

    def topic_configs(self, own: Mapping[str, str]) -> Iterator[EffectiveConfig]:
        """Give all settings, by name, of a topic that sets those of `own` itself."""
        return (self.topic_config(name, own) for name in sorted(definitions("topic").keys))

    def topic_config(self, name: str, own: Mapping[str, str]) -> EffectiveConfig:
        """Return one setting of a topic that sets those of `own` itself."""
        key = definitions("topic").keys[name]
        if name in own:
            return EffectiveConfig(name, own[name], ConfigSource.DYNAMIC_TOPIC_CONFIG, key.is_secret)
        configs = self._state.image.configs
        of_node = configs.get((ConfigResourceType.BROKER, str(self._node_id)), {})
        for values, source in (
            (of_node, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (self.cluster_configs(), ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (self._given, ConfigSource.STATIC_BROKER_CONFIG),
        ):
            for synonym, factor in TOPIC_SYNONYMS.get(name, ()):
                if synonym in values:
                    return EffectiveConfig(name, _scaled(values[synonym], factor), source, key.is_secret)
        return EffectiveConfig(name, text_of(key.default), ConfigSource.DEFAULT_CONFIG, key.is_secret)

    def list_default(self, kind: int, name: str) -> list[str] | None:
        """Return the default of a setting that is a list, by the type of its resource; None for any other setting."""
        section = {ConfigResourceType.TOPIC: "topic", ConfigResourceType.BROKER: "broker"}.get(ConfigResourceType(kind))
        if section is None or name not in definitions(section).keys:
            return None
        key = definitions(section).keys[name]
        if key.type != "list":
            return None
        return [part for part in (text_of(key.default) or "").split(",") if part]


def _scaled(text: str, factor: int) -> str:
    if factor == 1:
        return text
    return str(int(text) * factor) if int(text) >= 0 else text
