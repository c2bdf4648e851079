"""ConsumerConfig: names, checks, assignors."""

from __future__ import annotations

import re

import pytest

from barnabas import Consumer
from barnabas.client.consumer.assignors.consumer_partition_assignor import PartitionCountAssignor
from barnabas.client.consumer.consumer_config import ConsumerConfig
from barnabas.errors import ConfigError, IllegalTypeError, InvalidGroupIdError


def config(**settings: object) -> ConsumerConfig:
    return ConsumerConfig({"bootstrap.servers": "localhost:9092"}, settings)


@pytest.mark.shows("S1.6", breaks="barnabas.client.consumer.consumer_config:ConsumerConfig._new_client_id")
@pytest.mark.shows("S1.7", breaks="barnabas.client.consumer.consumer_config:ConsumerConfig._new_client_id")
def test_a_client_id_that_is_not_set_names_the_group() -> None:
    assert re.fullmatch(r"consumer-g-\d+", config(group_id="g").client_id)
    assert config(group_id="g", group_instance_id="red").client_id == "consumer-g-red"
    assert re.fullmatch(r"consumer-null-\d+", config().client_id)
    assert config(group_id="g", client_id="mine").client_id == "mine"
    assert config(group_id="g").client_id != config(group_id="g").client_id


@pytest.mark.shows("S2.29", breaks="barnabas.client.consumer.consumer_config:ConsumerConfig._check_timeouts")
@pytest.mark.parametrize("interval", [6_000, 7_000])
def test_heartbeats_must_come_more_often_than_the_session_times_out(interval: int) -> None:
    with pytest.raises(ConfigError, match=r"heartbeat.interval.ms .* lower than session.timeout.ms"):
        config(heartbeat_interval_ms=interval, session_timeout_ms=6_000)


def test_heartbeats_just_in_time_are_allowed() -> None:
    assert config(heartbeat_interval_ms=5_999, session_timeout_ms=6_000)["heartbeat.interval.ms"] == 5_999


def test_an_empty_instance_id_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"group.instance.id"):
        config(group_id="g", group_instance_id="")


def test_without_a_group_nothing_is_committed_automatically() -> None:
    assert not config().enable_auto_commit
    assert config(group_id="g").enable_auto_commit
    with pytest.raises(ConfigError, match=r"group.id"):
        config(enable_auto_commit=True)


@pytest.mark.parametrize(
    ("protocol", "setting"),
    [
        ("consumer", {"partition_assignment_strategy": "range"}),
        ("consumer", {"heartbeat_interval_ms": 1000}),
        ("CONSUMER", {"session_timeout_ms": 10_000}),
        ("classic", {"group_remote_assignor": "uniform"}),
    ],
)
def test_settings_of_the_other_group_protocol_are_refused(protocol: str, setting: dict[str, object]) -> None:
    (name,) = setting
    with pytest.raises(ConfigError, match=rf"{name.replace('_', '.')} cannot be set with group.protocol"):
        config(group_id="g", group_protocol=protocol, **setting)


class Mine(PartitionCountAssignor):
    name = "mine"


class Nameless(PartitionCountAssignor):
    pass


@pytest.mark.parametrize(
    ("setting", "names"),
    [
        (None, ["range", "cooperative-sticky"]),
        ("roundrobin,sticky", ["roundrobin", "sticky"]),
        ("org.apache.kafka.clients.consumer.RangeAssignor", ["range"]),
        (Mine, ["mine"]),
        (Mine(), ["mine"]),
        ([Mine, "range"], ["mine", "range"]),
        ("barnabas.client.consumer.assignors.sticky_assignor:StickyAssignor", ["sticky"]),
    ],
)
def test_assignors_come_by_name_class_or_instance(setting: object, names: list[str]) -> None:
    assert [assignor.name for assignor in config(partition_assignment_strategy=setting).assignors] == names


@pytest.mark.parametrize("setting", ["best", "no.such:Thing", [Nameless], [dict]])
def test_other_assignors_are_refused(setting: object) -> None:
    with pytest.raises(ConfigError, match=r"partition.assignment.strategy|name"):
        config(partition_assignment_strategy=setting)


@pytest.mark.parametrize(
    ("setting", "data", "value"),
    [(str, b"x", "x"), (int, b"12", 12), (lambda data: len(data), b"abc", 3), ("JSONDeserializer", b"[1]", [1])],
)
def test_deserializers_are_functions_classes_or_names(setting: object, data: bytes, value: object) -> None:
    assert config(value_deserializer=setting).value_deserializer(data) == value


def test_bytes_stay_bytes() -> None:
    assert config(key_deserializer=bytes).key_deserializer is None


@pytest.mark.shows("S1.17", breaks="barnabas.client.consumer.consumer_polling:ConsumerPolling.coordinator")
def test_subscribing_and_committing_need_a_group_and_assigning_does_not() -> None:
    with Consumer(bootstrap_servers="localhost:9092") as consumer:
        with pytest.raises(InvalidGroupIdError, match="group_id"):
            consumer.subscribe(["t"])
        with pytest.raises(InvalidGroupIdError):
            consumer.commit()
        consumer.assign([("t", 0)])


def test_topics_and_a_dict_of_settings_may_be_given() -> None:
    with Consumer({"bootstrap.servers": "localhost:9092", "group.id": "g"}, "a", "b") as consumer:
        assert consumer.subscription() == {"a", "b"}
    with pytest.raises(IllegalTypeError, match="topic names"):
        Consumer(5, bootstrap_servers="localhost:9092")
