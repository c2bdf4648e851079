"""Settings as CreateTopics and DescribeConfigs show them: value, where it comes from, what it would be otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.broker.dynamic_broker_config import DYNAMIC, QUOTAS
from barnabas.broker.group_config import GROUP_SETTINGS
from barnabas.broker.topic_admin import text_of
from barnabas.config.config_def import OUR_SETTINGS, ConfigKey, definitions
from barnabas.config.meanings import meaning
from barnabas.config.topic_defaults import TOPIC_SYNONYMS
from barnabas.protocol.kinds import ConfigSource, ConfigType

if TYPE_CHECKING:
    from barnabas.broker.config import BrokerConfig
    from barnabas.broker.metadata.cluster_metadata import TopicMetadata


_TYPES = {kind.name.lower(): kind for kind in ConfigType}

#: Broker settings that stand for one another, in the order in which they are asked.
_FAMILIES: tuple[tuple[str, ...], ...] = (
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
)
_FAMILY_OF = {name: family for family in _FAMILIES for name in family}
#: A flush interval has a second name, but that one has not the first.
_FAMILY_OF["log.flush.scheduler.interval.ms"] = ("log.flush.scheduler.interval.ms",)

#: Client metrics setting → (its type, its default), KIP-714.
CLIENT_METRICS_SETTINGS = {"interval.ms": ("int", "300000"), "match": ("list", ""), "metrics": ("list", "")}


class Synonym(NamedTuple):
    """A setting that could have given the value, with the value it has."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigInfo(NamedTuple):
    """One setting; `type` is Kafka's code of its type; the first synonym, if any, is the one that holds."""

    name: str
    value: str | None
    source: ConfigSource
    type: int
    sensitive: bool
    read_only: bool
    synonyms: Sequence[Synonym]
    documentation: str | None = None


def topic_entries(config: BrokerConfig, topic: TopicMetadata) -> list[ConfigInfo]:
    """All settings of a topic, by name."""
    defaults = config.topic_defaults
    keys = definitions("topic").keys
    return [_topic_entry(config, topic, keys[name], defaults[name]) for name in sorted(keys)]


def topic_entry(config: BrokerConfig, topic: TopicMetadata, name: str) -> ConfigInfo:
    """One setting of a topic."""
    return _topic_entry(config, topic, definitions("topic").keys[name], config.topic_defaults[name])


def broker_entries(config: BrokerConfig) -> list[ConfigInfo]:
    """All settings of a broker, by name."""
    own, stored = {setting["name"] for setting in OUR_SETTINGS["broker"]}, (*config.dynamic, *config.dynamic_default)
    return [_broker_entry(config, name) for name in sorted({*definitions("broker").keys, *stored} - own)]


def broker_default_entries(config: BrokerConfig, stored: Mapping[str, str]) -> list[ConfigInfo]:
    """Return what is stored for all brokers."""
    entries = []
    for name in sorted(stored):
        entry = _broker_entry(config, name)
        value = None if entry.sensitive else stored[name]
        synonym = Synonym(name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
        entries.append(entry._replace(value=value, source=synonym.source, synonyms=(synonym,)))
    return entries


def group_entries(config: BrokerConfig, stored: Mapping[str, str]) -> list[ConfigInfo]:
    """All settings of a group, by name."""
    entries = []
    for name, setting in sorted(GROUP_SETTINGS.items()):
        synonyms: list[Synonym] = []
        if setting.broker_name is not None:
            synonyms += broker_synonyms(config, setting.broker_name)
        else:
            synonyms.append(Synonym(name, setting.default, ConfigSource.DEFAULT_CONFIG))
        if name in stored:
            synonyms.insert(0, Synonym(name, stored[name], ConfigSource.DYNAMIC_GROUP_CONFIG))
        first = synonyms[0]
        documentation = setting.documentation
        entries.append(
            ConfigInfo(
                name,
                first.value,
                first.source,
                _TYPES[setting.type],
                False,
                False,
                tuple(synonyms),
                documentation,
            )
        )
    return entries


def client_metrics_entries(stored: Mapping[str, str]) -> list[ConfigInfo]:
    """All settings of a client metrics subscription, by name."""
    entries = []
    for name, (type, default) in sorted(CLIENT_METRICS_SETTINGS.items()):
        own = [Synonym(name, stored[name], ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG)] if name in stored else []
        source = ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG if own else ConfigSource.DEFAULT_CONFIG
        documentation = f"{type}, default {default!r}; a setting of client metrics subscriptions (KIP-714)."
        entries.append(
            ConfigInfo(name, stored.get(name, default), source, _TYPES[type], False, False, own, documentation)
        )
    return entries


def logger_entries(levels: Mapping[str, str]) -> list[ConfigInfo]:
    """Return the levels of a broker's loggers, by name."""
    source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    return [ConfigInfo(name, levels[name], source, ConfigType.UNKNOWN, False, False, ()) for name in sorted(levels)]


def broker_synonyms(config: BrokerConfig, name: str) -> list[Synonym]:
    """Return what could give a broker setting its value, the one that does first."""
    keys = definitions("broker").keys
    family = [keys[member] for member in _FAMILY_OF.get(name, (name,)) if member in keys]
    found: list[Synonym] = []
    for key in family:
        if key.name in config.dynamic:
            found.append(_shown(key, config.dynamic[key.name], ConfigSource.DYNAMIC_BROKER_CONFIG))
    for key in family:
        if key.name in config.dynamic_default:
            found.append(_shown(key, config.dynamic_default[key.name], ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG))
    for key in family:
        if config.is_given(key.name):
            found.append(_shown(key, text_of(config.given[key.name]), ConfigSource.STATIC_BROKER_CONFIG))
    for key in family:
        if key.default is not None:
            found.append(_shown(key, text_of(key.default), ConfigSource.DEFAULT_CONFIG))
    # Kafka leaves out the other members of a family that come before the first one of this name.
    while found and found[0].name != name:
        found.pop(0)
    return found


def documentation_of(key: ConfigKey, section: str) -> str:
    """Return a few words on a setting, for those who ask DescribeConfigs for documentation."""
    said = meaning(section.removesuffix("config"), key.name)
    default = "none" if key.default is None else repr(text_of(key.default))
    allowed = f", allowed {key.valid}" if key.valid else ""
    form = f"{key.type}, default {default}{allowed}. https://kafka.apache.org/documentation/#{section}s_{key.name}"
    return form if said is None else f"{said[:1].upper()}{said[1:]}. {form[:1].upper()}{form[1:]}"


def _shown(key: ConfigKey, value: str | None, source: ConfigSource) -> Synonym:
    return Synonym(key.name, None if key.is_secret else value, source)


def _topic_entry(config: BrokerConfig, topic: TopicMetadata, key: ConfigKey, default: Any) -> ConfigInfo:
    synonyms = [
        synonym
        for name, _ in TOPIC_SYNONYMS.get(key.name, ())[:1]
        for synonym in broker_synonyms(config, name)
        if synonym.value is not None
    ]
    value, source = text_of(default), synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    if key.name in topic.configs:
        value, source = topic.configs[key.name], ConfigSource.DYNAMIC_TOPIC_CONFIG
        synonyms.insert(0, Synonym(key.name, value, source))
    documentation = documentation_of(key, "topicconfig")
    return ConfigInfo(key.name, value, source, _TYPES[key.type], key.is_secret, False, tuple(synonyms), documentation)


def _broker_entry(config: BrokerConfig, name: str) -> ConfigInfo:
    key = definitions("broker").keys.get(name)
    if name in QUOTAS:
        return _quota_entry(config, name)
    if key is None:
        # Kafka keeps settings that it does not know, for plugins that might, and shows none of their values.
        source = (
            ConfigSource.DYNAMIC_BROKER_CONFIG if name in config.dynamic else ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        )
        return ConfigInfo(name, None, source, ConfigType.UNKNOWN, True, True, (Synonym(name, None, source),))
    synonyms = broker_synonyms(config, name)
    value = None if key.is_secret else text_of(config[name])
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    read_only = name not in DYNAMIC
    documentation = documentation_of(key, "brokerconfig")
    return ConfigInfo(name, value, source, _TYPES[key.type], key.is_secret, read_only, tuple(synonyms), documentation)


def _quota_entry(config: BrokerConfig, name: str) -> ConfigInfo:
    """Return a setting that cannot stand in a file; Kafka calls it read-only, and lets it change."""
    stored = (
        (config.dynamic, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (config.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
    )
    synonyms = tuple(Synonym(name, values[name], source) for values, source in stored if name in values)
    value, source = (synonyms[0].value, synonyms[0].source) if synonyms else (None, ConfigSource.DEFAULT_CONFIG)
    return ConfigInfo(name, value, source, _TYPES[QUOTAS[name].type], False, True, synonyms)
