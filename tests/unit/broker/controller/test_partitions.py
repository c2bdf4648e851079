"""Who leads and who is in sync: ISRs, ELRs, elections, reassignments."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.metadata.partition_registration import RECOVERED, RECOVERING
from barnabas.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.alter_partition_request import BrokerState
from barnabas.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from tests.support.controllers import LEVELS, WITH_ELR, Controllers

UNCLEAN = {"unclean.leader.election.enable": "true"}


def ready(*brokers: int, **given: Any) -> Controllers:
    controllers = Controllers(**given)
    controllers.elect()
    controllers.start(*(brokers or (1, 2, 3, 4)))
    return controllers


def code_of(problem: type[errors.KafkaError]) -> int:
    return problem.code


def elect(controllers: Controllers, kind: int, *names: str) -> list[int]:
    wanted = [TopicPartitions(name, [0]) for name in names] or None
    replication = controllers.active.managers.replication
    response = controllers.done(lambda: replication.elect_leaders(ElectLeadersRequest(kind, wanted)))
    return [found.error_code for topic in response.replica_election_results for found in topic.partition_result]


def reassign(controllers: Controllers, name: str, replicas: Sequence[int] | None, *, may_change: bool = True) -> int:
    asked = [ReassignableTopic(name, [ReassignablePartition(0, None if replicas is None else list(replicas))])]
    request = AlterPartitionReassignmentsRequest(topics=asked, allow_replication_factor_change=may_change)
    manager = controllers.active.managers.reassignments
    response = controllers.done(lambda: manager.alter(request))
    code: int = response.responses[0].partitions[0].error_code
    return code


def fence(controllers: Controllers, *brokers: int) -> None:
    for broker in brokers:
        controllers.heartbeat(broker, want_fence=True)


# -- AlterPartition --------------------------------------------------------------------------------------------------


def test_a_leader_shrinks_and_grows_its_isr() -> None:
    controllers = ready()
    controllers.create("flights", [[1, 2, 3]])
    result = controllers.alter_partition("flights", [1, 2])
    assert (result.error_code, result.isr, result.partition_epoch, result.leader_epoch) == (0, [1, 2], 1, 0)
    result = controllers.alter_partition("flights", [1, 2, 3])
    assert (result.error_code, result.isr, result.partition_epoch) == (0, [1, 2, 3], 2)


def test_the_same_isr_changes_nothing() -> None:
    controllers = ready()
    controllers.create("flights", [[1, 2, 3]])
    before = len(controllers.quorum.records())
    assert controllers.alter_partition("flights", [1, 2, 3]).partition_epoch == 0
    assert len(controllers.quorum.records()) == before


@pytest.mark.parametrize(
    ("given", "isr", "problem"),
    [
        ({"leader_epoch": 1}, [1], errors.NotControllerError),
        ({"partition_epoch": 9}, [1], errors.NotControllerError),
        ({"leader_epoch": -1}, [1], errors.FencedLeaderEpochError),
        ({"partition_epoch": -1}, [1], errors.InvalidUpdateVersionError),
        ({"broker_id": 2}, [2], errors.InvalidRequestError),
        ({}, [2, 3], errors.InvalidRequestError),
        ({}, [1, 4], errors.InvalidRequestError),
        ({}, [1, 1], errors.InvalidRequestError),
        ({"leader_recovery_state": RECOVERING}, [1], errors.InvalidRequestError),
        ({"leader_recovery_state": 7}, [1], errors.InvalidRequestError),
    ],
    ids=[
        "knows a later leader epoch",
        "knows a later partition epoch",
        "old leader epoch",
        "old partition epoch",
        "does not lead",
        "leaves itself out",
        "no replica",
        "twice",
        "back to recovering",
        "no such state",
    ],
)
def test_what_an_isr_may_not_be(given: dict[str, Any], isr: list[int], problem: type[errors.KafkaError]) -> None:
    controllers = ready()
    controllers.create("flights", [[1, 2, 3]])
    assert controllers.alter_partition("flights", isr, **given).error_code == code_of(problem)
    assert controllers.partition("flights").partition_epoch == 0


def test_a_fenced_replica_does_not_join_the_isr() -> None:
    controllers = ready()
    controllers.create("flights", [[1, 2, 3]])
    fence(controllers, 3)
    result = controllers.alter_partition("flights", [1, 2, 3])
    assert result.error_code == errors.IneligibleReplicaError.code


def test_a_replica_of_an_earlier_life_does_not_join_the_isr() -> None:
    controllers = ready()
    controllers.create("flights", [[1, 2, 3]])
    controllers.alter_partition("flights", [1, 2])
    epoch = controllers.active.state.image.brokers[3].epoch
    stale = [BrokerState(1, -1), BrokerState(2, -1), BrokerState(3, epoch - 1)]
    result = controllers.alter_partition("flights", [], members=stale)
    assert result.error_code == errors.IneligibleReplicaError.code


def test_a_smaller_isr_begins_a_leader_epoch_for_old_brokers_only() -> None:
    for level, expected in ((11, 1), (12, 0)):
        controllers = ready(levels={"metadata.version": level})
        controllers.create("flights", [[1, 2, 3]])
        assert controllers.alter_partition("flights", [1, 2]).leader_epoch == expected


# -- elections -------------------------------------------------------------------------------------------------------


def test_nobody_out_of_sync_leads_unless_the_topic_allows_it() -> None:
    controllers = ready()
    controllers.create("safe", [[1, 2]])
    controllers.create("bold", [[1, 2]], configs=UNCLEAN)
    for name in ("safe", "bold"):
        controllers.alter_partition(name, [1])
    fence(controllers, 1)
    assert controllers.partition("safe").leader == -1
    assert controllers.partition("safe").isr == (1,)
    bold = controllers.partition("bold")
    assert (bold.leader, bold.isr, bold.leader_recovery_state) == (2, (2,), RECOVERING)


def test_a_leader_that_has_recovered_says_so() -> None:
    controllers = ready()
    controllers.create("bold", [[1, 2]], configs=UNCLEAN)
    controllers.alter_partition("bold", [1])
    fence(controllers, 1)
    controllers.alter_partition("bold", [2], leader_recovery_state=RECOVERED)
    assert controllers.partition("bold").leader_recovery_state == RECOVERED


def test_a_preferred_election_gives_a_partition_back() -> None:
    controllers = ready()
    controllers.create("flights", [[1, 2]])
    fence(controllers, 1)
    controllers.heartbeat(1)
    assert elect(controllers, 0, "flights") == [errors.PreferredLeaderNotAvailableError.code]
    controllers.alter_partition("flights", [2, 1])
    assert elect(controllers, 0, "flights") == [0]
    assert controllers.partition("flights").leader == 1
    assert elect(controllers, 0, "flights") == [errors.ElectionNotNeededError.code]


def test_an_election_for_all_tells_only_of_those_that_changed() -> None:
    controllers = ready()
    controllers.create("a", [[1, 2]])
    controllers.create("b", [[2, 1]])
    fence(controllers, 1)
    controllers.heartbeat(1)
    controllers.alter_partition("a", [2, 1])
    assert elect(controllers, 0) == [0]


def test_an_unclean_election_that_is_asked_for() -> None:
    controllers = ready()
    controllers.create("flights", [[1, 2]])
    controllers.alter_partition("flights", [1])
    assert elect(controllers, 1, "flights") == [errors.ElectionNotNeededError.code]
    fence(controllers, 1)
    assert elect(controllers, 1, "flights") == [0]
    assert controllers.partition("flights").leader == 2
    fence(controllers, 2)
    assert elect(controllers, 1, "flights") == [errors.EligibleLeadersNotAvailableError.code]


def test_elections_of_what_is_not_there() -> None:
    controllers = ready()
    assert elect(controllers, 0, "nowhere") == [errors.UnknownTopicOrPartitionError.code]
    with pytest.raises(errors.InvalidRequestError):
        elect(controllers, 7, "nowhere")


def test_leaders_are_balanced_in_time() -> None:
    controllers = ready(settings={"leader_imbalance_check_interval": 5.0, "session_timeout": 1000.0})
    controllers.create("flights", [[1, 2]])
    fence(controllers, 1)
    controllers.heartbeat(1)
    controllers.alter_partition("flights", [2, 1])
    controllers.tick(6.0)
    assert controllers.partition("flights").leader == 1


def test_unclean_leaders_are_elected_in_time_when_the_topic_comes_to_allow_it() -> None:
    controllers = ready(settings={"unclean_election_check_interval": 5.0, "session_timeout": 1000.0})
    controllers.create("flights", [[1, 2]])
    controllers.alter_partition("flights", [1])
    fence(controllers, 1)
    from barnabas.broker.controller.configuration_control_manager import Alteration

    configs = controllers.active.managers.configs
    change = {(2, "flights"): {name: Alteration(0, value) for name, value in UNCLEAN.items()}}
    controllers.done(lambda: configs.incremental_alter_configs(change))
    assert controllers.partition("flights").leader == -1
    controllers.tick(6.0)
    assert controllers.partition("flights").leader == 2


# -- eligible leader replicas ----------------------------------------------------------------------------------------


def with_elr() -> Controllers:
    return ready(levels=WITH_ELR, config={"min.insync.replicas": 2})


def test_who_leaves_an_isr_that_is_too_small_stays_eligible() -> None:
    controllers = with_elr()
    controllers.create("flights", [[1, 2, 3]])
    controllers.alter_partition("flights", [1, 2])
    assert controllers.partition("flights").elr == (), "two are enough"
    controllers.alter_partition("flights", [1])
    assert controllers.partition("flights").elr == (2,)
    controllers.alter_partition("flights", [1, 3])
    assert controllers.partition("flights").elr == ()


def test_the_last_one_leaves_the_isr_empty_and_an_eligible_one_leads() -> None:
    controllers = with_elr()
    controllers.create("flights", [[1, 2, 3]])
    controllers.alter_partition("flights", [1])
    assert controllers.partition("flights").elr == (2, 3)
    fence(controllers, 1)
    partition = controllers.partition("flights")
    assert (partition.leader, partition.isr, partition.elr) == (2, (2,), (1, 3))
    assert partition.leader_recovery_state == RECOVERED, "it has all that is committed"


def test_the_last_known_leader_leads_when_nobody_is_eligible() -> None:
    controllers = with_elr()
    controllers.create("flights", [[1, 2]])
    controllers.alter_partition("flights", [1])
    fence(controllers, 2)
    controllers.now += 10
    controllers.register(2, life=1)
    controllers.heartbeat(1)
    assert controllers.partition("flights").elr == ()
    fence(controllers, 1)
    partition = controllers.partition("flights")
    assert (partition.leader, partition.isr, partition.elr, partition.last_known_elr) == (-1, (), (1,), (1,))
    controllers.now += 10
    controllers.register(1, life=1)
    assert controllers.partition("flights").elr == ()
    controllers.heartbeat(2)
    assert controllers.partition("flights").leader == -1, "2 has not led last"
    controllers.heartbeat(1)
    partition = controllers.partition("flights")
    assert (partition.leader, partition.isr, partition.last_known_elr) == (1, (1,), ())
    assert partition.leader_recovery_state == RECOVERING


def test_another_minimum_empties_the_elrs() -> None:
    controllers = with_elr()
    controllers.create("flights", [[1, 2, 3]])
    controllers.alter_partition("flights", [1])
    from barnabas.broker.controller.configuration_control_manager import Alteration

    configs = controllers.active.managers.configs
    change = {(2, "flights"): {"min.insync.replicas": Alteration(0, "3")}}
    controllers.done(lambda: configs.incremental_alter_configs(change))
    assert controllers.partition("flights").elr == ()
    assert controllers.active.state.indexes.with_broker_in_elr(2) == []


# -- reassignments ---------------------------------------------------------------------------------------------------


def test_a_reassignment_ends_when_the_new_replicas_are_in_sync() -> None:
    controllers = ready()
    controllers.create("flights", [[1, 2]])
    assert reassign(controllers, "flights", [3, 4]) == 0
    partition = controllers.partition("flights")
    assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == (
        (3, 4, 1, 2),
        (3, 4),
        (1, 2),
    )
    assert (partition.leader, partition.isr) == (1, (1, 2))
    controllers.alter_partition("flights", [1, 2, 3])
    assert controllers.partition("flights").is_reassigning
    result = controllers.alter_partition("flights", [1, 2, 3, 4])
    assert result.error_code == errors.NewLeaderElectedError.code, "the leader is to go"
    partition = controllers.partition("flights")
    assert (partition.replicas, partition.isr, partition.leader) == ((3, 4), (3, 4), 3)
    assert partition.adding_replicas == partition.removing_replicas == ()


def test_a_reassignment_to_fewer_replicas_waits_for_those_that_stay() -> None:
    controllers = ready()
    controllers.create("flights", [[1, 2, 3]])
    controllers.alter_partition("flights", [1])
    assert reassign(controllers, "flights", [1, 2]) == 0
    assert controllers.partition("flights").is_reassigning
    controllers.alter_partition("flights", [1, 2])
    assert controllers.partition("flights").replicas == (1, 2)


def test_a_cancelled_reassignment_goes_back() -> None:
    controllers = ready()
    controllers.create("flights", [[1, 2]])
    reassign(controllers, "flights", [3, 4])
    controllers.alter_partition("flights", [1, 2, 3])
    assert reassign(controllers, "flights", None) == 0
    partition = controllers.partition("flights")
    assert (partition.replicas, partition.isr, partition.is_reassigning) == ((1, 2), (1, 2), False)
    assert reassign(controllers, "flights", None) == errors.NoReassignmentInProgressError.code


def test_a_reassignment_whose_old_replicas_are_gone_is_not_cancelled_without_permission() -> None:
    controllers = ready()
    for name, configs in (("safe", None), ("bold", UNCLEAN)):
        controllers.create(name, [[1]], configs=configs)
        reassign(controllers, name, [2, 3])
        controllers.alter_partition(name, [1, 2])
    fence(controllers, 1)
    assert reassign(controllers, "safe", None) == errors.InvalidReplicaAssignmentError.code
    assert reassign(controllers, "bold", None) == 0
    assert controllers.partition("bold").replicas == (1,)


def test_a_reassignment_replaced_by_another_one() -> None:
    controllers = ready()
    controllers.create("flights", [[1, 2]])
    reassign(controllers, "flights", [1, 3])
    reassign(controllers, "flights", [1, 4])
    partition = controllers.partition("flights")
    assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == ((1, 4, 2), (4,), (2,))


def test_a_replica_that_was_added_in_vain_leads_until_one_that_stays_is_in_sync() -> None:
    controllers = ready()
    controllers.create("flights", [[1, 2]])
    reassign(controllers, "flights", [3, 4])
    controllers.alter_partition("flights", [1, 2, 3])
    fence(controllers, 1, 2)
    reassign(controllers, "flights", [1, 4])
    partition = controllers.partition("flights")
    assert (partition.leader, partition.isr) == (3, (3,))
    assert (set(partition.replicas), partition.adding_replicas) == ({1, 2, 3, 4}, (4,))


@pytest.mark.parametrize("second", [[1, 2], [2, 1], [1, 3], [1, 4], [3, 4], [1, 2, 3], [1]])
@pytest.mark.parametrize("first", [[1, 3], [2, 3], [3, 4], [1, 2, 3], [2]])
def test_a_reassignment_ends_at_the_target_that_was_given_last(first: list[int], second: list[int]) -> None:
    """Apache Kafka's controller never ends it where the second adds nothing: what the first one added stays added.

    Found by `./run sim --cluster quorum --seed 160`.
    """
    controllers = ready()
    controllers.create("flights", [[1, 2]])
    reassign(controllers, "flights", first, may_change=True)
    assert reassign(controllers, "flights", second, may_change=True) == 0
    partition = controllers.partition("flights")
    assert not set(partition.adding_replicas) & set(partition.removing_replicas)
    if partition.is_reassigning:
        controllers.alter_partition("flights", list(partition.replicas))
    partition = controllers.partition("flights")
    assert (list(partition.replicas), partition.is_reassigning) == (second, False)


@pytest.mark.parametrize("targets", list(itertools.permutations([[1, 3], [3, 4], [2, 4], [1, 2, 3], [4]], 3)))
@pytest.mark.parametrize("joins", [True, False], ids=["in sync", "not in sync"])
def test_a_reassignment_that_is_cancelled_ends_with_what_was_before_the_first(
    targets: tuple[list[int], ...], joins: bool
) -> None:
    """Apache Kafka's controller leaves what was added in vain among the replicas: there were four of three then.

    Found by `./run sim --cluster quorum --seed 235`.
    """
    controllers = ready()
    controllers.create("flights", [[1, 2]])
    before = {1, 2}
    for target in targets:
        reassign(controllers, "flights", target)
        partition = controllers.partition("flights")
        if joins and partition.is_reassigning:
            # All but one of those that are added: it would end else.
            controllers.alter_partition("flights", sorted({*before, *partition.adding_replicas[:-1]}))
            partition = controllers.partition("flights")
        before = before if partition.is_reassigning else set(partition.replicas)
    if partition.is_reassigning:
        assert reassign(controllers, "flights", None) == 0
    assert set(controllers.partition("flights").replicas) == before


@pytest.mark.parametrize(
    ("replicas", "may_change", "problem"),
    [
        ([], True, errors.InvalidReplicaAssignmentError),
        ([1, 1], True, errors.InvalidReplicaAssignmentError),
        ([1, 9], True, errors.InvalidReplicaAssignmentError),
        ([1], False, errors.InvalidReplicationFactorError),
    ],
    ids=["none", "twice", "unknown", "another number"],
)
def test_replicas_that_cannot_be(replicas: list[int], may_change: bool, problem: type[errors.KafkaError]) -> None:
    controllers = ready()
    controllers.create("flights", [[1, 2]])
    assert reassign(controllers, "flights", replicas, may_change=may_change) == code_of(problem)


def test_reassignments_are_listed_as_they_are_committed() -> None:
    from barnabas.broker.controller.reassignment_control_manager import list_reassignments

    controllers = ready()
    controllers.create("flights", [[1, 2]])
    reassign(controllers, "flights", [3, 2])
    image = controllers.active.committed_image
    found = list_reassignments(image, None)
    assert [(topic.name, topic.partitions[0].adding_replicas) for topic in found.topics] == [("flights", [3])]


def test_a_level_without_directories_writes_none() -> None:
    controllers = ready(levels={**LEVELS, "metadata.version": 16})
    controllers.create("flights", [[1, 2]])
    controllers.alter_partition("flights", [1])
    assert controllers.partition("flights").directories == ()
