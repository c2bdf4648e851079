"""What a throttle sets on topics and brokers, and that all of it is removed."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from barnabas import TopicPartition
from barnabas.admin import AlterConfigOp, ConfigResource
from barnabas.cli.reassignment_throttle import remove_throttle, throttle, throttle_directories
from barnabas.protocol.kinds import ConfigSource, OpType

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
DIRECTORIES_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


def test_sources_and_new_replicas_are_throttled_and_brokers_of_other_partitions_are_not() -> None:
    admin = Mock()
    throttle(admin, {T0: [1, 2], T1: [5]}, {T0: [2, 3], T1: [5]}, 1000)
    (changes,) = admin.incremental_alter_configs.call_args.args
    rates = [AlterConfigOp(name, 1000) for name in RATES]
    assert changes == {
        ConfigResource.topic("t"): [
            AlterConfigOp(REPLICAS[0], "0:1,0:2", OpType.APPEND),
            AlterConfigOp(REPLICAS[1], "0:3", OpType.APPEND),
        ],
        **{ConfigResource.broker(number): rates for number in (1, 2, 3)},
    }


def test_the_brokers_of_moving_logs_are_throttled() -> None:
    admin = Mock()
    throttle_directories(admin, {2, 1}, 1000)
    (changes,) = admin.incremental_alter_configs.call_args.args
    assert changes == {ConfigResource.broker(number): {DIRECTORIES_RATE: 1000} for number in (1, 2)}


def test_without_moving_logs_no_broker_is_throttled() -> None:
    admin = Mock()
    throttle_directories(admin, (), 1000)
    admin.incremental_alter_configs.assert_not_called()


def _admin(topics: ConfigSource, brokers: ConfigSource = ConfigSource.DEFAULT_CONFIG) -> Any:
    admin = Mock()
    admin.describe_cluster.return_value.nodes = [Mock(id=1), Mock(id=2)]
    admin.describe_configs.return_value = {
        ConfigResource.topic("t"): {name: Mock(source=topics) for name in REPLICAS},
        ConfigResource.broker(1): {DIRECTORIES_RATE: Mock(source=brokers)},
    }
    return admin


ALL_RATES = dict.fromkeys((*RATES, DIRECTORIES_RATE))
ON_ALL_BROKERS = {ConfigResource.broker(number): ALL_RATES for number in (1, 2)}


def test_what_was_throttled_is_so_no_more_on_any_broker() -> None:
    admin = _admin(ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert remove_throttle(admin, ["t"], [])
    (changes,) = admin.incremental_alter_configs.call_args.args
    assert changes == {ConfigResource.topic("t"): dict.fromkeys(REPLICAS), **ON_ALL_BROKERS}


def test_a_throttle_between_directories_is_removed_where_no_topic_has_one() -> None:
    admin = _admin(ConfigSource.DEFAULT_CONFIG, ConfigSource.DYNAMIC_BROKER_CONFIG)
    assert remove_throttle(admin, ["t"], [1])
    (changes,) = admin.incremental_alter_configs.call_args.args
    assert changes == ON_ALL_BROKERS


@pytest.mark.parametrize("source", [ConfigSource.DEFAULT_CONFIG, ConfigSource.STATIC_BROKER_CONFIG])
def test_without_a_throttle_nothing_is_changed(source: ConfigSource) -> None:
    admin = _admin(ConfigSource.DEFAULT_CONFIG, source)
    assert not remove_throttle(admin, ["t"], [1])
    admin.incremental_alter_configs.assert_not_called()
