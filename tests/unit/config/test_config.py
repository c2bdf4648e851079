"""Settings as users write them."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from barnabas.config import config as config_module
from barnabas.config.client_config import ClientConfig
from barnabas.config.config import Config
from barnabas.config.config_def import OUR_SETTINGS, SECTIONS, definitions
from barnabas.config.support import IGNORED, SUPPORTED
from barnabas.config.topic_defaults import TOPIC_SYNONYMS, topic_defaults
from barnabas.config.values import Password
from barnabas.errors import ConfigError, KafkaError


def test_a_setting_that_is_not_given_has_kafkas_default() -> None:
    config = Config("producer")
    assert config["linger.ms"] == 5
    assert config["acks"] == "all"
    assert config["enable.idempotence"] is True
    assert config["transactional.id"] is None
    assert config["sasl.login.refresh.window.factor"] == 0.8
    assert not config.is_given("linger.ms")


def test_names_are_written_with_dots_in_a_dict_and_underscores_as_keywords() -> None:
    config = Config("producer", {"linger.ms": 7, "batch_size": "100"}, {"buffer_memory": 9})
    assert (config["linger.ms"], config["batch.size"], config["buffer.memory"]) == (7, 100, 9)
    assert config["linger_ms"] == 7
    assert config.given == {"linger.ms": 7, "batch.size": 100, "buffer.memory": 9}
    assert config.is_given("linger_ms")


@pytest.mark.parametrize(
    ("section", "name", "hint"),
    [
        ("producer", "lingerms", "did you mean 'linger.ms'?"),
        ("producer", "linger_m", "did you mean 'linger.ms'?"),
        ("consumer", "auto.ofset.reset", "did you mean 'auto.offset.reset'?"),
        ("producer", "group.id", "it belongs to: consumer"),
        ("producer", "idempotence", "the nearest known one is 'enable.idempotence'"),
        ("topic", "zzz", "'zzz' is not a setting of the topic"),
    ],
)
def test_an_unknown_name_is_an_error_that_names_the_nearest(section: str, name: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=f"is not a setting of the {section}") as caught:
        Config(section, {name: 1})
    assert hint in str(caught.value)


def test_a_config_error_is_a_value_error_and_a_kafka_error() -> None:
    with pytest.raises(ValueError, match="linger") as caught:
        Config("producer", {"linger.ms": "soon"})
    assert isinstance(caught.value, KafkaError)


@pytest.mark.parametrize(
    ("section", "name", "value", "why"),
    [
        ("producer", "acks", "2", "must be one of all, -1, 0, 1"),
        ("producer", "batch.size", -1, "must be at least 0"),
        ("producer", "batch.size", "16k", "must be a whole number"),
        ("producer", "batch.size", 1.5, "must be a whole number"),
        ("producer", "batch.size", True, "must be a whole number"),
        ("producer", "batch.size", 2**31, "must fit a int"),
        ("producer", "compression.gzip.level", 0, "must lie in 1 to 9, or be -1"),
        ("producer", "compression.type", "brotli", "must be one of none, gzip, snappy, lz4, zstd"),
        ("producer", "enable.idempotence", "yes", "must be true or false"),
        ("producer", "enable.idempotence", 1, "must be true or false"),
        ("consumer", "group.instance.id", "", "must not be empty"),
        ("consumer", "auto.offset.reset", "newest", "must be one of latest, earliest, none"),
        ("consumer", "auto.offset.reset", "by_duration:1h", "ISO-8601"),
        ("consumer", "isolation.level", "READ_COMMITTED", "must be one of read_committed"),
        ("producer", "metadata.recovery.strategy", "maybe", "must be one of REBOOTSTRAP, NONE"),
        ("topic", "min.cleanable.dirty.ratio", 1.1, "must lie in 0 to 1"),
        ("topic", "min.cleanable.dirty.ratio", "half", "must be a number"),
        ("topic", "min.cleanable.dirty.ratio", "nan", "must lie in 0 to 1"),
        ("topic", "cleanup.policy", "compact,shrink", "must be one of compact, delete"),
        ("topic", "leader.replication.throttled.replicas", "1-2", "must be \\*"),
        ("consumer", "bootstrap.servers", 9092, "must be a list"),
        ("consumer", "group.id", ["g"], "must be a string"),
    ],
)
def test_a_bad_value_is_an_error_that_says_what_is_allowed(section: str, name: str, value: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        Config(section, {name: value})
    assert f"{name}=" in str(caught.value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(
    ("section", "name", "value", "parsed"),
    [
        ("producer", "acks", 1, "1"),
        ("producer", "acks", -1, "-1"),
        ("producer", "linger.ms", " 12 ", 12),
        ("producer", "compression.gzip.level", "-1", -1),
        ("producer", "enable.idempotence", "TRUE", True),
        ("producer", "metadata.recovery.strategy", "None", "NONE"),
        ("producer", "bootstrap.servers", "a:1, b:2", ["a:1", "b:2"]),
        ("producer", "bootstrap.servers", ("a:1", " b:2 "), ["a:1", "b:2"]),
        ("consumer", "auto.offset.reset", "by_duration:P1DT2H3.5S", "by_duration:P1DT2H3.5S"),
        ("topic", "cleanup.policy", "compact,delete", ["compact", "delete"]),
        ("topic", "min.cleanable.dirty.ratio", 1, 1.0),
        ("topic", "follower.replication.throttled.replicas", "0:1,1:2", ["0:1", "1:2"]),
        ("topic", "follower.replication.throttled.replicas", "*", ["*"]),
    ],
)
def test_values_are_parsed_by_type(section: str, name: str, value: Any, parsed: Any) -> None:
    found = Config(section, {name: value})[name]
    assert found == parsed
    assert type(found) is type(parsed)


def test_a_class_may_be_given_as_itself() -> None:
    class Mine:
        pass

    assert Config("producer", {"key.serializer": Mine})["key.serializer"] is Mine


def test_none_means_not_given_but_the_name_must_be_right() -> None:
    config = Config("producer", None, {"linger_ms": None, "transactional_id": None})
    assert config["linger.ms"] == 5
    assert config.given == {}
    with pytest.raises(ConfigError, match="did you mean"):
        Config("producer", {"lingerms": None})


def test_a_name_given_twice_is_an_error() -> None:
    with pytest.raises(ConfigError, match="is given twice"):
        Config("producer", {"linger.ms": 1}, {"linger_ms": 1})


def test_a_name_that_is_no_string_is_an_error() -> None:
    with pytest.raises(ConfigError, match="must be a string"):
        Config("producer", {5: 1})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("section", "name", "value", "subject"),
    [
        ("producer", "security.providers", "x.Y", "TLS and SASL"),
        ("consumer", "ssl.engine.factory.class", "x.Y", "ssl.context"),
        ("broker", "sasl.client.callback.handler.class", "x.Y", "SASL"),
        ("broker", "ssl.engine.factory.class", "x.Y", "Java class"),
        ("topic", "remote.storage.enable", True, "tiered storage"),
        ("broker", "listener.name.internal.ssl.keystore.location", "/x", "TLS"),
    ],
)
def test_what_changes_the_meaning_and_is_not_built_is_an_error(
    section: str, name: str, value: Any, subject: str
) -> None:
    with pytest.raises(ConfigError, match="is not supported yet") as caught:
        Config(section, {name: value})
    assert name in str(caught.value)
    assert subject in str(caught.value)


def test_what_is_not_built_may_be_given_with_its_default() -> None:
    assert Config("producer", {"security.protocol": "plaintext"})["security.protocol"] == "PLAINTEXT"


def test_what_only_tunes_another_implementation_warns_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_module, "_warned", set())
    with caplog.at_level(logging.WARNING, logger="barnabas.config"):
        assert Config("broker", {"num.network.threads": 8})["num.network.threads"] == 8
        Config("broker", {"num.network.threads": 9})
        Config("broker", {"num.io.threads": 9})
    assert [record.getMessage().split()[0] for record in caplog.records] == ["num.network.threads", "num.io.threads"]


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    password = Password("hunter2")
    assert "hunter2" not in f"{password} {password!r}"
    assert password.value == "hunter2"
    monkeypatch.setitem(config_module.SUPPORTED, "broker", frozenset())
    with pytest.raises(ConfigError) as caught:
        Config("broker", {"sasl.oauthbearer.client.credentials.client.secret": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_the_settings_cannot_be_changed_through_what_is_handed_out() -> None:
    config = Config("producer", {"bootstrap.servers": "a:1"})
    config["bootstrap.servers"].append("b:2")
    config.given["linger.ms"] = 99
    assert config["bootstrap.servers"] == ["a:1"]
    assert config["linger.ms"] == 5


def test_typed_getters_give_the_type_or_say_what_is_wrong() -> None:
    config = Config("consumer", {"bootstrap.servers": "a:1"})
    assert config.get_int("fetch.min.bytes") == 1
    assert config.get_bool("check.crcs") is True
    assert config.get_str("auto.offset.reset") == "latest"
    assert config.get_list("bootstrap.servers") == ["a:1"]
    assert config.get_float("sasl.kerberos.ticket.renew.jitter") == 0.05
    assert config.get_seconds("fetch.max.wait.ms") == 0.5
    with pytest.raises(ConfigError, match="is None where a string is needed"):
        config.get_str("group.id")


def test_a_config_reads_like_a_mapping() -> None:
    config = Config("topic", {"retention.ms": 5})
    assert dict(config)["retention.ms"] == 5
    assert len(config) == len(dict(config)) == 33
    assert "retention.ms" in config
    assert "linger.ms" not in config
    assert repr(config) == "Config(topic, {'retention.ms': 5})"
    with pytest.raises(ConfigError, match="is not a setting of the topic"):
        config["linger.ms"]


@pytest.mark.parametrize("section", ["producer", "consumer", "admin"])
def test_a_client_needs_servers_to_start_from(section: str) -> None:
    with pytest.raises(ConfigError, match="needs bootstrap_servers"):
        ClientConfig(section)
    with pytest.raises(ConfigError, match="needs bootstrap_servers"):
        ClientConfig(section, {"bootstrap.servers": ""})
    assert ClientConfig(section, {"bootstrap.servers": "a:1"})["bootstrap.servers"] == ["a:1"]


@pytest.mark.parametrize("section", SECTIONS)
def test_every_default_is_valid_and_every_name_in_the_tables_is_a_setting(section: str) -> None:
    keys = definitions(section).keys
    for key in keys.values():
        if key.default is not None:
            assert key.parse(key.default) == key.default
    assert SUPPORTED[section] <= keys.keys()
    assert IGNORED[section] <= keys.keys()
    assert not SUPPORTED[section] & IGNORED[section]


def test_kafka_has_this_many_settings() -> None:
    assert {section: len(definitions(section).keys) - len(OUR_SETTINGS[section]) for section in SECTIONS} == {
        "producer": 113,
        "consumer": 115,
        "admin": 91,
        "topic": 33,
        "broker": 340,
    }


def test_a_topic_takes_what_it_does_not_set_from_the_broker() -> None:
    assert topic_defaults(Config("broker"))["retention.ms"] == 604_800_000
    broker = Config("broker", {"log.retention.hours": 2, "log.segment.bytes": 1_048_576, "log.roll.jitter.hours": 1})
    defaults = topic_defaults(broker)
    assert defaults["retention.ms"] == 7_200_000
    assert defaults["segment.bytes"] == 1_048_576
    assert defaults["segment.jitter.ms"] == 3_600_000


def test_of_several_broker_settings_for_a_topic_the_finest_unit_holds() -> None:
    broker = Config("broker", {"log.retention.hours": 2, "log.retention.minutes": 3})
    assert topic_defaults(broker)["retention.ms"] == 180_000
    broker = Config("broker", {"log.retention.hours": 2, "log.retention.minutes": 3, "log.retention.ms": 4})
    assert topic_defaults(broker)["retention.ms"] == 4


def test_keeping_records_for_ever_is_minus_one_in_every_unit() -> None:
    assert topic_defaults(Config("broker", {"log.retention.hours": -1}))["retention.ms"] == -1


def test_the_synonyms_name_real_settings() -> None:
    topic, broker = definitions("topic").keys, definitions("broker").keys
    assert TOPIC_SYNONYMS.keys() <= topic.keys()
    assert {name for synonyms in TOPIC_SYNONYMS.values() for name, _ in synonyms} <= broker.keys()
    assert topic_defaults(Config("broker")).keys() == topic.keys()
