"""Which id says what about a member, who sets its times, and what a restart costs its group."""

from __future__ import annotations

import pytest

from barnabas import errors
from barnabas.broker.config import BrokerConfig
from barnabas.client.consumer.consumer_config import ConsumerConfig
from barnabas.errors import ConfigError
from tests.unit.broker.groups.consumer.consumer_group_harness import Consumer, ConsumerHarness
from tests.unit.broker.groups.harness import Harness, Member, code

REBALANCE_IN_PROGRESS = code(errors.RebalanceInProgressError)


def consumer_config(**settings: object) -> ConsumerConfig:
    return ConsumerConfig({"bootstrap.servers": "localhost:9092"}, settings)


@pytest.mark.shows("S1.1", breaks="barnabas.broker.groups.group_admin:_described")
def test_four_ids_are_kept_apart() -> None:
    harness = Harness()
    member_id = harness.join(group="flights", instance="red", client_id="board").response.member_id

    group = harness.coordinator.describe_group("flights", 6)

    member = group.members[0]
    ids = (group.group_id, member.client_id, member.group_instance_id, member.member_id)
    assert ids[:3] == ("flights", "board", "red")
    assert ids[3] == member_id
    assert len(set(ids)) == 4


@pytest.mark.shows("S1.15", breaks="barnabas.config.config_def:ConfigDef._explain_unknown")
@pytest.mark.shows("S1.33", breaks="barnabas.client.consumer.consumer_config:ConsumerConfig.group_instance_id")
def test_three_of_the_ids_are_settings_and_the_member_id_is_not() -> None:
    config = consumer_config(client_id="board", group_id="flights", group_instance_id="red")

    assert (config.client_id, config.group_id, config.group_instance_id) == ("board", "flights", "red")
    with pytest.raises(ConfigError, match=r"'member.id' is not a setting of the consumer"):
        consumer_config(member_id="m")
    with pytest.raises(ConfigError, match=r"'member.id' is not a setting of the broker"):
        BrokerConfig({"member.id": "m"})


@pytest.mark.shows("S1.19", breaks="barnabas.config.config_def:ConfigDef._explain_unknown")
def test_the_group_id_is_a_setting_of_consumers_not_of_brokers() -> None:
    assert consumer_config(group_id="flights").group_id == "flights"
    with pytest.raises(ConfigError, match=r"'group.id' is not a setting of the broker, it belongs to: consumer"):
        BrokerConfig({"group.id": "flights"})


@pytest.mark.shows("S1.21", breaks="barnabas.client.consumer.consumer_config:ConsumerConfig.group_instance_id")
def test_an_instance_id_is_the_users_to_set_and_not_empty() -> None:
    assert consumer_config(group_id="g").group_instance_id is None
    assert consumer_config(group_id="g", group_instance_id="red").group_instance_id == "red"
    with pytest.raises(ConfigError, match=r"group.instance.id='' is not valid: it must not be empty"):
        consumer_config(group_id="g", group_instance_id="")


def restart(harness: Harness, member: Member) -> None:
    """An intended restart: a dynamic member says goodbye, a static one (KIP-345) is silent; both join anew."""
    if member.instance is None:
        assert harness.leave(member.id) == [0]
        harness.join_dynamic()
    else:
        harness.join(instance=member.instance)


@pytest.mark.shows("S1.27", breaks="barnabas.broker.groups.classic.joining:JoinGroup._return_of_static")
def test_an_intended_restart_costs_dynamic_members_a_rebalance_and_static_ones_none() -> None:
    dynamic, static = Harness(), Harness()
    stays, restarts = dynamic.stable(None, None)
    restart(dynamic, restarts)
    assert dynamic.heartbeat(stays.id, stays.generation) == REBALANCE_IN_PROGRESS

    stays, restarts = static.stable("red", "green")
    restart(static, restarts)
    assert static.heartbeat(stays.id, stays.generation, instance="red") == 0
    assert static.join(instance="green").response.generation_id == restarts.generation


@pytest.mark.shows("S1.27", breaks="barnabas.broker.groups.classic.sessions:Sessions._expire")
@pytest.mark.parametrize("instances", [(None, None), ("red", "green")], ids=["dynamic", "static"])
def test_after_a_crash_a_rebalance_must_give_the_partitions_to_the_others(instances: tuple[str | None, ...]) -> None:
    harness = Harness()
    stays, crashed = harness.stable(*instances, session_timeout_ms=10_000)
    harness.advance(6.0)
    assert harness.heartbeat(stays.id, stays.generation, instance=stays.instance) == 0

    harness.advance(6.0)

    assert harness.heartbeat(stays.id, stays.generation, instance=stays.instance) == REBALANCE_IN_PROGRESS
    joined = harness.join(stays.id, instance=stays.instance).response
    assert [member.member_id for member in joined.members] == [stays.id]
    assert crashed.id not in harness.member_ids()


@pytest.mark.shows("S2.33", breaks="barnabas.broker.groups.consumer.heartbeat:ConsumerMembership.renew_session")
def test_with_the_consumer_protocol_the_broker_sets_heartbeats_and_sessions() -> None:
    harness = ConsumerHarness()
    a = Consumer(harness, "a")

    assert a.join().heartbeat_interval_ms == 5000
    harness.advance(44.9)
    assert a.heartbeat().error_code == 0
    harness.advance(44.9)
    assert [member.member_id for member in harness.described().members] == ["a"]
    harness.advance(0.2)

    assert harness.described().members == []
    with pytest.raises(ConfigError, match=r"session\.timeout\.ms cannot be set with group\.protocol="):
        consumer_config(group_id="g", group_protocol="consumer", session_timeout_ms=45_000)
    assert consumer_config(group_id="g", group_protocol="consumer").is_consumer_protocol
