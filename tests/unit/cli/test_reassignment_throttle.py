"""What a throttle sets on topics and brokers, and that all of it is removed."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from barnabas import TopicPartition
from barnabas.admin import AlterConfigOp, ConfigResource
from barnabas.cli.reassignment_throttle import remove_throttle, throttle
from barnabas.protocol.kinds import ConfigSource, OpType

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
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


def _admin(source: ConfigSource) -> Any:
    admin = Mock()
    admin.describe_cluster.return_value.nodes = [Mock(id=1), Mock(id=2)]
    admin.describe_configs.return_value = {ConfigResource.topic("t"): {name: Mock(source=source) for name in REPLICAS}}
    return admin


def test_what_was_throttled_is_so_no_more_on_any_broker() -> None:
    admin = _admin(ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert remove_throttle(admin, ["t"])
    (changes,) = admin.incremental_alter_configs.call_args.args
    brokers = {ConfigResource.broker(number): dict.fromkeys(RATES) for number in (1, 2)}
    assert changes == {ConfigResource.topic("t"): dict.fromkeys(REPLICAS), **brokers}


def test_without_a_throttle_nothing_is_changed() -> None:
    admin = _admin(ConfigSource.DEFAULT_CONFIG)
    assert not remove_throttle(admin, ["t"])
    admin.incremental_alter_configs.assert_not_called()
