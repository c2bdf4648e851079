"""What a registration says of a broker's last life: that it has ended, and that its disk is gone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from barnabas import errors
from barnabas.broker.metadata.partition_registration import RECOVERING, PartitionRegistration
from barnabas.broker.metadata.replica_log_end import ReplicaLogEnd
from barnabas.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from tests.support.controllers import LEVELS, WITH_ELR, Controllers, directory

_NEW = directory(1, 9)


def ready(levels: dict[str, int] = WITH_ELR) -> Controllers:
    """Return three brokers that sent their heartbeats on connections 1 to 3, and a partition of all of them."""
    controllers = Controllers(levels=levels, config={"min.insync.replicas": 2})
    controllers.elect()
    for broker_id in (1, 2, 3):
        controllers.register(broker_id)
        controllers.heartbeat(broker_id, connection=broker_id)
    controllers.create("flights", [[1, 2, 3]])
    return controllers


# -- it has ended ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [LEVELS, WITH_ELR], ids=["without ELR", "with ELR"])
def test_the_address_of_the_last_life_proves_its_end(levels: dict[str, int]) -> None:
    controllers = ready(levels)
    controllers.register(1, life=1, connection=4, directories=[_NEW])
    partition = controllers.partition("flights")
    assert (partition.leader, partition.isr) == (2, (2, 3)), "nothing waits for the end of its session"


def test_another_address_proves_nothing() -> None:
    controllers = ready()
    with pytest.raises(errors.DuplicateBrokerRegistrationError):
        controllers.register(1, life=1, connection=4, host="elsewhere")
    assert controllers.partition("flights").leader == 1


@pytest.mark.parametrize("connection", [1, 4])
def test_a_registration_of_an_earlier_life_that_comes_late_does_not_end_the_present_one(connection: int) -> None:
    controllers = ready()
    controllers.heartbeat(1, connection=4)
    with pytest.raises(errors.DuplicateBrokerRegistrationError):
        controllers.register(1, life=1, connection=connection)
    controllers.heartbeat(1, connection=4)


def test_a_heartbeat_that_comes_late_on_an_earlier_connection_does_not_change_that() -> None:
    controllers = ready()
    controllers.heartbeat(1, connection=6)
    controllers.heartbeat(1, connection=1)
    with pytest.raises(errors.DuplicateBrokerRegistrationError):
        controllers.register(1, life=1, connection=5)


def test_the_life_that_has_ended_has_no_say_any_more() -> None:
    controllers = ready()
    epoch = controllers.active.state.image.brokers[1].epoch
    controllers.register(1, life=1, connection=4)
    with pytest.raises(errors.StaleBrokerEpochError):
        controllers.heartbeat(1, broker_epoch=epoch, connection=1)
    controllers.heartbeat(1, connection=4)
    controllers.tick(5.0)
    controllers.heartbeat(1, connection=4)
    controllers.tick(5.0)
    assert not controllers.active.state.image.brokers[1].fenced, "the end of the former session is not its own"


# -- its disk is gone ------------------------------------------------------------------------------------------------


def _fence(controllers: Controllers, *brokers: int) -> None:
    for broker_id in brokers:
        controllers.heartbeat(broker_id, want_fence=True)


def _back(
    controllers: Controllers, broker_id: int, *directories: bytes, ends: Sequence[ReplicaLogEnd] | None = None
) -> None:
    """Register a broker of which nothing tells how it ended, and unfence it."""
    controllers.register(
        broker_id, life=7, connection=10 + broker_id, directories=directories or [directory(broker_id)]
    )
    controllers.heartbeat(broker_id, connection=10 + broker_id, ends=ends)


def _begin_anew(controllers: Controllers) -> PartitionRegistration:
    """Have broker 1 tell that its replica lies in the new directory; return the partition."""
    epoch = controllers.active.state.image.brokers[1].epoch
    topics = [TopicData(controllers.topic_id("flights"), [PartitionData(0)])]
    request = AssignReplicasToDirsRequest(1, epoch, [DirectoryData(_NEW, topics)])
    manager = controllers.active.managers.alter_partition
    response = controllers.done(lambda: manager.assign_replicas_to_dirs(request))
    assert response.directories[0].topics[0].partitions[0].error_code == 0
    assert controllers.partition("flights").directory(1) == _NEW
    return controllers.partition("flights")


def _leads_last(controllers: Controllers) -> None:
    """Have broker 1 die silently, while the others are killed and taken for dead first."""
    _fence(controllers, 2, 3)
    partition = controllers.partition("flights")
    assert (partition.leader, partition.isr) == (1, (1,))


def test_who_led_last_does_not_lead_with_an_empty_disk_where_another_is_there() -> None:
    controllers = ready()
    _leads_last(controllers)
    _back(controllers, 1, _NEW)
    _back(controllers, 3)
    partition = controllers.partition("flights")
    assert (partition.leader, partition.elr, partition.last_known_elr) == (-1, (), (1,)), "its disk may come back"
    partition = _begin_anew(controllers)
    assert (partition.leader, partition.isr, partition.last_known_elr) == (3, (3,), ())
    assert partition.leader_recovery_state == RECOVERING, "it may lack records"


def test_who_was_eligible_takes_the_place_of_who_led_last() -> None:
    controllers = ready()
    _leads_last(controllers)
    _back(controllers, 1, _NEW)
    partition = _begin_anew(controllers)
    assert (partition.leader, partition.elr, partition.last_known_elr) == (-1, (3,), (3,))
    _back(controllers, 2)
    assert controllers.partition("flights").leader == -1, "it left the ISR before 3 did"
    _back(controllers, 3)
    assert controllers.partition("flights").leader == 3


def test_the_others_that_were_back_before_are_as_good() -> None:
    controllers = ready()
    _leads_last(controllers)
    _fence(controllers, 1)
    _back(controllers, 3)
    _back(controllers, 1, _NEW)
    assert _begin_anew(controllers).leader == 3


@pytest.mark.parametrize("is_there", [False, True], ids=["that may come back", "that is there"])
def test_who_does_not_tell_where_its_logs_end_stands_behind_another_one(*, is_there: bool) -> None:
    controllers = ready()
    _leads_last(controllers)
    _back(controllers, 2)
    _back(controllers, 3, ends=[])
    if not is_there:
        controllers.heartbeat(3, connection=13, ends=[], want_fence=True)
    _back(controllers, 1, _NEW, ends=[])
    partition = _begin_anew(controllers)
    assert (partition.leader, partition.last_known_elr) == (-1, (3,)), "2 tells nothing, and would lead at once"
    for broker_id, last_epoch, end in ((1, -1, 0), (3, 0, 9)):
        told = ReplicaLogEnd(controllers.topic_id("flights"), 0, partition.leader_epoch, last_epoch, end)
        controllers.heartbeat(broker_id, connection=10 + broker_id, ends=[told])
    assert controllers.partition("flights").leader == 3


def test_without_elr_another_one_takes_the_place_in_the_isr() -> None:
    controllers = ready(LEVELS)
    _leads_last(controllers)
    _back(controllers, 1, _NEW)
    assert (controllers.partition("flights").leader, controllers.partition("flights").isr) == (-1, (1,))
    partition = _begin_anew(controllers)
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (-1, (2,), RECOVERING)
    _back(controllers, 2)
    assert controllers.partition("flights").leader == 2


@pytest.mark.parametrize("levels", [LEVELS, WITH_ELR], ids=["without ELR", "with ELR"])
def test_a_partition_of_one_replica_begins_anew(levels: dict[str, int]) -> None:
    controllers = ready(levels)
    controllers.create("alone", [[1]])
    _back(controllers, 1, _NEW)
    assert controllers.partition("alone").leader == -1
    epoch = controllers.active.state.image.brokers[1].epoch
    topics = [TopicData(controllers.topic_id("alone"), [PartitionData(0)])]
    request = AssignReplicasToDirsRequest(1, epoch, [DirectoryData(_NEW, topics)])
    controllers.done(lambda: controllers.active.managers.alter_partition.assign_replicas_to_dirs(request))
    controllers.heartbeat(1, want_fence=True, connection=11)
    controllers.heartbeat(1, connection=11)
    assert controllers.partition("alone").leader == 1


def test_a_replica_that_moves_between_two_directories_in_service_has_all_it_had() -> None:
    controllers = ready()
    _leads_last(controllers)
    _back(controllers, 1, directory(1), _NEW)
    partition = _begin_anew(controllers)
    assert (partition.elr, partition.last_known_elr) == ((3,), (1,))


def test_a_replica_that_comes_new_takes_nobodys_place() -> None:
    controllers = ready()
    _start(controllers, 4)
    _leads_last(controllers)
    _fence(controllers, 1)
    for broker_id in (2, 3):
        controllers.register(broker_id, life=7, connection=10 + broker_id)
    _reassign(controllers, [4, 1, 2, 3])
    _back(controllers, 1, _NEW)
    partition = _begin_anew(controllers)
    assert (partition.leader, partition.last_known_elr) == (-1, (2,)), "4 is alive, and has nothing"


# -- it was reassigned away ------------------------------------------------------------------------------------------


def _start(controllers: Controllers, broker_id: int) -> None:
    controllers.register(broker_id)
    controllers.heartbeat(broker_id, connection=broker_id)


def _reassign(controllers: Controllers, replicas: list[int]) -> None:
    asked = ReassignablePartition(0, replicas)
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic("flights", [asked])])
    manager = controllers.active.managers.reassignments
    response = controllers.done(lambda: manager.alter(request))
    assert response.responses[0].partitions[0].error_code == 0


def _away_and_eligible() -> Controllers:
    """Give 1's replica to 4, which leads last; 1 stays in the ELR, as in Apache Kafka, and is the only one there."""
    controllers = ready()
    _start(controllers, 4)
    _leads_last(controllers)
    _reassign(controllers, [4, 2, 3])
    controllers.alter_partition("flights", [1, 4])
    _fence(controllers, 4)
    for broker_id in (2, 3, 4):
        controllers.register(broker_id, life=7, connection=10 + broker_id)
    partition = controllers.partition("flights")
    assert (partition.replicas, partition.leader, partition.elr) == ((4, 2, 3), -1, (1,))
    assert partition.last_known_elr == (4,)
    return controllers


def test_who_is_eligible_and_no_replica_any_more_is_not_waited_for() -> None:
    controllers = _away_and_eligible()
    controllers.heartbeat(4, connection=14)
    assert controllers.partition("flights").leader == 4


def test_who_is_added_again_does_not_lead_by_what_it_had() -> None:
    controllers = _away_and_eligible()
    _reassign(controllers, [1, 4, 2, 3])
    partition = controllers.partition("flights")
    assert (partition.leader, partition.elr, partition.adding_replicas) == (-1, (), (1,))
    controllers.heartbeat(4, connection=14)
    assert controllers.partition("flights").leader == 4
