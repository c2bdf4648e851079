"""Brokers as the controller sees them: registration, fencing, controlled shutdown, directories."""

from __future__ import annotations

import pytest

from barnabas import errors
from barnabas.broker.metadata.partition_registration import LOST_DIRECTORY
from barnabas.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from tests.support.controllers import BROKER_FEATURES, LEVELS, WITH_ELR, Controllers, directory


def ready(*brokers: int, **given: object) -> Controllers:
    controllers = Controllers(**given)  # type: ignore[arg-type]
    controllers.elect()
    controllers.start(*brokers)
    return controllers


# -- registration ----------------------------------------------------------------------------------------------------


def test_a_broker_is_fenced_until_it_has_read_its_own_registration() -> None:
    controllers = ready()
    epoch = controllers.register(1)
    reply = controllers.heartbeat(1, current_metadata_offset=epoch - 1)
    assert reply == (False, True, False, False)
    reply = controllers.heartbeat(1, current_metadata_offset=epoch)
    assert reply == (True, False, False, False)
    assert controllers.active.state.is_active(1)


def test_a_broker_that_wants_to_stay_fenced_stays_fenced() -> None:
    controllers = ready()
    controllers.register(1)
    assert controllers.heartbeat(1, want_fence=True).is_fenced


def test_another_process_with_the_same_id_is_refused_while_the_first_one_is_heard_of() -> None:
    controllers = ready(1)
    with pytest.raises(errors.DuplicateBrokerRegistrationError):
        controllers.register(1, life=1)
    controllers.tick(10.0)
    controllers.register(1, life=1)


def test_the_same_process_that_registers_again_keeps_its_epoch_and_its_standing() -> None:
    controllers = ready(1)
    epoch = controllers.active.state.image.brokers[1].epoch
    assert controllers.register(1) == epoch
    assert controllers.active.state.is_active(1)


def test_a_broker_of_another_cluster_is_refused() -> None:
    with pytest.raises(errors.InconsistentClusterIdError):
        ready().register(1, cluster_id="another")


@pytest.mark.parametrize(
    "features",
    [
        {**BROKER_FEATURES, "metadata.version": (7, 29)},
        {name: found for name, found in BROKER_FEATURES.items() if name != "group.version"},
        {**BROKER_FEATURES, "kraft.version": (0, 0)},
    ],
    ids=["too old", "missing", "kraft"],
)
def test_a_broker_without_a_finalized_level_is_refused(features: dict[str, tuple[int, int]]) -> None:
    with pytest.raises(errors.UnsupportedVersionError):
        ready().register(1, features=features)


def test_a_broker_must_name_metadata_version() -> None:
    features = {name: found for name, found in BROKER_FEATURES.items() if name != "metadata.version"}
    with pytest.raises(errors.InvalidRegistrationError):
        ready().register(1, features=features)


@pytest.mark.parametrize(
    "directories",
    [[], [LOST_DIRECTORY], [directory(1), directory(1)], [directory(2)]],
    ids=["none", "reserved", "twice", "another broker's"],
)
def test_directories_that_cannot_be_are_refused(directories: list[bytes]) -> None:
    controllers = ready(2)
    with pytest.raises(errors.InvalidRegistrationError):
        controllers.register(1, directories=directories)


def test_below_directories_in_the_metadata_they_are_not_asked_for() -> None:
    controllers = Controllers(levels={"metadata.version": 16})
    controllers.elect()
    controllers.register(1, directories=[])
    assert controllers.active.state.image.brokers[1].directories == ()


def test_a_new_life_of_a_broker_ends_what_the_old_one_led() -> None:
    controllers = ready(1, 2)
    controllers.create("flights", [[1, 2]])
    controllers.now += 10
    controllers.heartbeat(2)
    controllers.register(1, life=1)
    partition = controllers.partition("flights")
    assert (partition.leader, partition.isr) == (2, (2,))


# -- heartbeats ------------------------------------------------------------------------------------------------------


def test_a_heartbeat_of_another_epoch_is_refused() -> None:
    controllers = ready(1)
    with pytest.raises(errors.StaleBrokerEpochError):
        controllers.heartbeat(1, broker_epoch=1)


def test_a_heartbeat_before_the_registration_is_refused() -> None:
    controllers = ready()
    request = BrokerHeartbeatRequest(broker_id=7, broker_epoch=1)
    assert isinstance(
        controllers.active.process_heartbeat(controllers.context(), request).problem, errors.StaleBrokerEpochError
    )


def test_a_broker_that_is_not_heard_of_is_fenced_when_its_session_ends() -> None:
    controllers = ready(1, 2)
    controllers.create("flights", [[1, 2]])
    for _ in range(10):
        controllers.tick(1.0)
        controllers.heartbeat(2)
    assert not controllers.active.state.is_active(1)
    assert controllers.active.state.is_active(2)
    partition = controllers.partition("flights")
    assert (partition.leader, partition.leader_epoch, partition.isr) == (2, 1, (2,))


def test_a_new_controller_gives_every_broker_a_whole_session() -> None:
    controllers = Controllers(2)
    controllers.elect()
    controllers.start(1)
    controllers.now += 8
    controllers.elect(101)
    controllers.tick(8.0)
    assert controllers.active.state.is_active(1)
    controllers.tick(3.0)
    assert not controllers.active.state.is_active(1)


def test_brokers_that_come_back_lead_what_nobody_leads() -> None:
    controllers = ready(1)
    controllers.create("flights", [[1]])
    controllers.tick(12.0)
    assert controllers.partition("flights").leader == -1
    assert controllers.partition("flights").isr == (1,), "the last one in sync stays there"
    controllers.heartbeat(1)
    assert controllers.partition("flights").leader == 1


# -- controlled shutdown ---------------------------------------------------------------------------------------------


def test_a_broker_that_leads_nothing_may_leave_at_once() -> None:
    controllers = ready(1, 2)
    reply = controllers.heartbeat(1, want_shut_down=True)
    assert reply.should_shut_down
    assert controllers.active.state.image.brokers[1].fenced


def test_a_broker_leaves_when_all_others_know_that_it_leads_nothing() -> None:
    controllers = ready(1, 2)
    controllers.create("flights", [[1, 2]])
    controllers.heartbeat(2)
    behind = controllers.active.state.image.offset
    reply = controllers.heartbeat(1, want_shut_down=True)
    assert (reply.in_controlled_shutdown, reply.should_shut_down) == (True, False)
    assert controllers.partition("flights").leader == 2
    controllers.heartbeat(2, current_metadata_offset=behind)
    assert not controllers.heartbeat(1, want_shut_down=True).should_shut_down, "2 may still think that 1 leads"
    controllers.heartbeat(2)
    assert controllers.heartbeat(1, want_shut_down=True).should_shut_down


def test_a_broker_that_leaves_gets_no_replicas() -> None:
    controllers = ready(1, 2, 3)
    controllers.create("flights", [[1, 2]])
    controllers.heartbeat(1, want_shut_down=True)
    response = controllers.create("more", partitions=4, factor=3)
    assert response.topics[0].error_code == errors.InvalidReplicationFactorError.code
    controllers.create("fewer", partitions=4, factor=2)
    assert all(1 not in found.replicas for found in controllers.active.state.image.topic("fewer").partitions.values())  # type: ignore[union-attr]


def test_a_broker_that_leaves_and_leads_alone_leads_on() -> None:
    controllers = ready(1, 2)
    controllers.create("flights", [[1]])
    reply = controllers.heartbeat(1, want_shut_down=True)
    assert reply.in_controlled_shutdown
    assert controllers.partition("flights").leader == -1, "nobody else can, and it is no longer to"


def test_unregistering_forgets_a_broker() -> None:
    controllers = ready(1, 2, levels=WITH_ELR)
    controllers.create("flights", [[1, 2]])
    replication = controllers.active.managers.replication
    controllers.done(lambda: replication.unregister(1))
    assert 1 not in controllers.active.state.image.brokers
    assert controllers.partition("flights").isr == (2,)
    with pytest.raises(errors.BrokerIdNotRegisteredError):
        controllers.done(lambda: replication.unregister(1))


# -- directories -----------------------------------------------------------------------------------------------------


def test_partitions_in_a_lost_directory_get_another_leader() -> None:
    controllers = Controllers()
    controllers.elect()
    one, other = directory(1, 1), directory(1, 2)
    controllers.start(1, directories=[one, other])
    controllers.start(2)
    controllers.create("here", [[1, 2]])
    controllers.create("there", [[1, 2]])
    for name, where in (("here", one), ("there", other)):
        _assign(controllers, 1, where, name)
    controllers.heartbeat(1, offline_log_dirs=[other])
    assert controllers.partition("there").isr == (2,)
    assert controllers.partition("here").leader == 1
    assert controllers.active.state.image.brokers[1].directories == (one,)


def test_a_replica_assigned_to_a_lost_directory_leaves_its_isr() -> None:
    controllers = ready(1, 2)
    controllers.create("flights", [[1, 2]])
    _assign(controllers, 1, directory(1, 5), "flights")
    assert controllers.partition("flights").isr == (2,)


def test_a_broker_with_all_directories_cordoned_gets_no_replicas() -> None:
    controllers = ready(1, 2)
    controllers.heartbeat(1, cordoned_log_dirs=[directory(1)])
    controllers.create("flights", partitions=3, factor=1)
    found = controllers.active.state.image.topic("flights")
    assert found is not None
    assert {partition.replicas for partition in found.partitions.values()} == {(2,)}
    before = len(controllers.quorum.records())
    controllers.heartbeat(1, cordoned_log_dirs=[directory(1)])
    assert len(controllers.quorum.records()) == before, "nothing new is not written"


def _assign(controllers: Controllers, broker_id: int, where: bytes, topic: str) -> None:
    from barnabas.protocol.messages.assign_replicas_to_dirs_request import (
        AssignReplicasToDirsRequest,
        DirectoryData,
        PartitionData,
        TopicData,
    )

    broker = controllers.active.state.image.brokers[broker_id]
    topics = [TopicData(controllers.topic_id(topic), [PartitionData(0)])]
    request = AssignReplicasToDirsRequest(broker_id, broker.epoch, [DirectoryData(where, topics)])
    manager = controllers.active.managers.alter_partition
    response = controllers.done(lambda: manager.assign_replicas_to_dirs(request))
    assert response.directories[0].topics[0].partitions[0].error_code == 0


# -- eligible leader replicas ----------------------------------------------------------------------------------------


def test_an_unclean_end_takes_a_broker_out_of_isr_and_elr() -> None:
    controllers = ready(1, 2, levels=WITH_ELR, config={"min.insync.replicas": 2})
    controllers.create("flights", [[1, 2]])
    controllers.alter_partition("flights", [1])
    assert controllers.partition("flights").elr == (2,)
    controllers.now += 10
    controllers.register(2, life=1)
    assert controllers.partition("flights").elr == ()


def test_a_clean_end_keeps_a_broker_eligible() -> None:
    controllers = ready(1, 2, levels=WITH_ELR, config={"min.insync.replicas": 2})
    controllers.create("flights", [[1, 2]])
    controllers.alter_partition("flights", [1])
    previous = controllers.active.state.image.brokers[2].epoch
    controllers.now += 10
    controllers.register(2, life=1, previous_broker_epoch=previous)
    assert controllers.partition("flights").elr == (2,)


def test_before_version_3_no_end_counts_as_clean() -> None:
    controllers = ready(1, 2, levels=WITH_ELR, config={"min.insync.replicas": 2})
    controllers.create("flights", [[1, 2]])
    controllers.alter_partition("flights", [1])
    previous = controllers.active.state.image.brokers[2].epoch
    controllers.now += 10
    controllers.register(2, life=1, previous_broker_epoch=previous, version=2)
    assert controllers.partition("flights").elr == ()


def test_controllers_register_with_their_features() -> None:
    from barnabas.protocol.messages.controller_registration_request import ControllerRegistrationRequest, Feature

    controllers = ready()
    request = ControllerRegistrationRequest(100, bytes(16), False, [], [Feature("metadata.version", 7, 30)])
    controllers.done(lambda: controllers.active.managers.cluster.register_controller(request))
    assert controllers.active.state.image.controllers[100].features == {"metadata.version": (7, 30)}


def test_controllers_do_not_register_below_their_version() -> None:
    from barnabas.protocol.messages.controller_registration_request import ControllerRegistrationRequest

    controllers = Controllers(levels={**LEVELS, "metadata.version": 14})
    controllers.elect()
    with pytest.raises(errors.UnsupportedVersionError):
        controllers.done(
            lambda: controllers.active.managers.cluster.register_controller(ControllerRegistrationRequest(100))
        )
