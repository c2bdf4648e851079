"""Settings as CreateTopics and DescribeConfigs show them: value, where it comes from, what it would be otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.broker.topic_admin import text_of
from barnabas.config.definitions import ConfigKey, definitions
from barnabas.config.topic_defaults import TOPIC_SYNONYMS

if TYPE_CHECKING:
    from barnabas.broker.config import BrokerConfig
    from barnabas.broker.metadata.cluster_metadata import TopicMetadata


class ConfigSource:
    """Where a value comes from (DescribeConfigsResponse.ConfigSource)."""

    TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT_BROKER, STATIC_BROKER, DEFAULT = range(1, 6)


_TYPES = {
    "boolean": 1, "string": 2, "int": 3, "short": 4, "long": 5, "double": 6, "list": 7, "class": 8, "password": 9
}  # fmt: skip


class Synonym(NamedTuple):
    """A setting that could have given the value, with the value it has."""

    name: str
    value: str | None
    source: int


class ConfigEntry(NamedTuple):
    """One setting; `type` is Kafka's code of its type; the first synonym is the one that holds."""

    name: str
    value: str | None
    source: int
    type: int
    sensitive: bool
    read_only: bool
    synonyms: tuple[Synonym, ...]


def topic_entries(config: BrokerConfig, topic: TopicMetadata) -> list[ConfigEntry]:
    """All settings of a topic, by name."""
    defaults = config.topic_defaults
    keys = definitions("topic").keys
    return [_topic_entry(config, topic, keys[name], defaults[name]) for name in sorted(keys)]


def broker_entries(config: BrokerConfig) -> list[ConfigEntry]:
    """All settings of a broker, by name."""
    keys = definitions("broker").keys
    entries = []
    for name in sorted(keys):
        key = keys[name]
        synonyms = _broker_synonyms(config, key)
        entries.append(
            ConfigEntry(name, synonyms[0].value, synonyms[0].source, _TYPES[key.type], key.is_secret, True, synonyms)
        )
    return entries


def _topic_entry(config: BrokerConfig, topic: TopicMetadata, key: ConfigKey, default: Any) -> ConfigEntry:
    synonyms: list[Synonym] = []
    value, source = text_of(default), ConfigSource.DEFAULT
    if key.name in topic.configs:
        value, source = topic.configs[key.name], ConfigSource.TOPIC
        synonyms.append(Synonym(key.name, value, source))
    broker_keys = definitions("broker").keys
    for name, _ in TOPIC_SYNONYMS.get(key.name, ()):
        for synonym in _broker_synonyms(config, broker_keys[name]):
            if synonym.value is not None:
                synonyms.append(synonym)
    if source == ConfigSource.DEFAULT and synonyms:
        source = synonyms[0].source
    return ConfigEntry(key.name, value, source, _TYPES[key.type], key.is_secret, False, tuple(synonyms))


def _broker_synonyms(config: BrokerConfig, key: ConfigKey) -> tuple[Synonym, ...]:
    found = []
    if config.is_given(key.name):
        shown = None if key.is_secret else text_of(config[key.name])
        found.append(Synonym(key.name, shown, ConfigSource.STATIC_BROKER))
    found.append(Synonym(key.name, None if key.is_secret else text_of(key.default), ConfigSource.DEFAULT))
    return tuple(found)
