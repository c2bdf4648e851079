"""The settings by which a broker is controller."""

from __future__ import annotations

from typing import Any

from barnabas.broker.config import BrokerConfig
from barnabas.broker.metadata.metadata_delta import MetadataDelta
from barnabas.broker.metadata.metadata_image import MetadataImage
from barnabas.broker.silent_machines import Silence
from barnabas.broker.zookeeper.controller.controller_environment import ControllerSettings
from barnabas.broker.zookeeper.controller_role import controller_settings
from barnabas.protocol.kinds import ConfigResourceType
from barnabas.protocol.messages.config_record import ConfigRecord
from tests.support.controller_world import ControllerWorld
from tests.support.zookeeper_member import SETTINGS

UNCLEAN = "unclean.leader.election.enable"


def settings(image: MetadataImage | None = None, **given: Any) -> ControllerSettings:
    config = BrokerConfig({**SETTINGS, **{name.replace("_", "."): value for name, value in given.items()}})
    return controller_settings(config, lambda: image or MetadataImage())


def with_setting(broker: str, value: str) -> MetadataImage:
    delta = MetadataDelta(MetadataImage())
    delta.replay(ConfigRecord(resource_type=ConfigResourceType.BROKER, resource_name=broker, name=UNCLEAN, value=value))
    return delta.apply(1, 1)


def test_elections_of_who_is_out_of_sync_are_allowed_by_the_file_or_while_it_runs() -> None:
    assert not settings().allows_unclean_by_default()
    assert settings(unclean_leader_election_enable="true").allows_unclean_by_default()
    assert settings(with_setting("", "true")).allows_unclean_by_default()
    assert settings(with_setting(str(SETTINGS["broker.id"]), "true")).allows_unclean_by_default()
    by_file = {"unclean_leader_election_enable": "true"}
    assert not settings(with_setting("", "false"), **by_file).allows_unclean_by_default()


def test_topics_and_leaderships_are_as_the_file_says() -> None:
    expected = ControllerSettings(3, "PLAINTEXT", bool, silence=Silence(longest=4.5, patience=1.0))
    assert settings()._replace(allows_unclean_by_default=bool) == expected
    found = settings(
        delete_topic_enable="false",
        auto_leader_rebalance_enable="false",
        leader_imbalance_check_interval_seconds="7",
    )
    assert (found.deletes_topics, found.rebalances, found.imbalance_interval) == (False, False, 7)


def test_silence_is_a_quarter_of_the_session_or_what_the_file_says() -> None:
    assert settings(zookeeper_session_timeout_ms="6000").silence == Silence(longest=1.5, patience=0.375)
    assert settings(broker_silence_timeout_ms="800").silence == Silence(longest=0.8, patience=0.2)
    assert settings(broker_silence_timeout_ms="0").silence is None


def test_leaderships_go_back_when_too_many_are_elsewhere() -> None:
    leaders = {}
    for percentage in (10, 60):
        world = ControllerWorld(rebalances=True)
        world.imbalance_percentage = settings(leader_imbalance_per_broker_percentage=percentage).imbalance_percentage
        world.start()
        world.create("flights", [3, 2], [3])
        world.settle()
        world.kill(3)
        world.start(3)
        world.join_isrs()
        world.settle()
        for _ in range(10):
            world.now += 1
            world.tick()
            world.settle()
        leaders[percentage] = world.state("flights").leader
    assert leaders == {10: 3, 60: 2}
