"""What a broker under ZooKeeper tells of being controller, under the names of Kafka 3.9's KafkaController."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.zookeeper.controller.controller_context import NO_LEADER, ControllerContext, ReplicaState
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.broker.zookeeper.controller.controller_stats import ControllerState

_PREFIX = "controller_kafkacontroller_"


def controller_numbers(context: ControllerContext | None, state: ControllerState) -> Iterator[tuple[str, str, float]]:
    """Return name, meaning and value of each; one that is no controller knows of nothing, as Kafka's."""
    yield f"{_PREFIX}activecontrollercount", "Whether this node is the active controller", context is not None
    yield (
        f"{_PREFIX}controllerstate",
        "What the controller is doing, by Kafka's ControllerState; 0: nothing",
        state.value,
    )
    yield f"{_PREFIX}zkmigrationstate", "4: the metadata lie in ZooKeeper", 4
    context = ControllerContext(-1) if context is None else context
    offline, not_preferred, total = _count_partitions(context)
    deleted, ineligible = context.topics_to_be_deleted, context.topics_ineligible_for_deletion
    replicas = [state for replica, state in context.replica_states.items() if replica.partition.topic in deleted]
    yield f"{_PREFIX}activebrokercount", "Brokers that are registered", len(context.brokers)
    yield f"{_PREFIX}fencedbrokercount", "Brokers that are fenced: none is under ZooKeeper", 0
    yield f"{_PREFIX}globaltopiccount", "Topics of the cluster", len(context.topic_ids)
    yield f"{_PREFIX}globalpartitioncount", "Partitions of the cluster", total
    yield f"{_PREFIX}offlinepartitionscount", "Partitions without a leader", offline
    yield f"{_PREFIX}preferredreplicaimbalancecount", "Partitions that another replica leads", not_preferred
    yield f"{_PREFIX}topicstodeletecount", "Topics that are being deleted", len(deleted)
    yield f"{_PREFIX}replicastodeletecount", "Replicas of topics that are being deleted", len(replicas)
    yield f"{_PREFIX}topicsineligibletodeletecount", "Topics whose deletion waits for a broker", len(ineligible)
    yield (
        f"{_PREFIX}replicasineligibletodeletecount",
        "Replicas that could not be deleted",
        sum(state is ReplicaState.DELETION_INELIGIBLE for state in replicas),
    )


def _count_partitions(context: ControllerContext) -> tuple[int, int, int]:
    """Return how many partitions have no leader, have another than the preferred one, and how many there are."""
    offline = not_preferred = total = 0
    for topic, partitions in context.assignments.items():
        if topic in context.topics_to_be_deleted:
            continue
        for index, assignment in partitions.items():
            total += 1
            known = context.leadership.get(TopicPartition(topic, index))
            leader = NO_LEADER if known is None else known.leader
            offline += leader not in context.brokers
            not_preferred += bool(assignment.replicas) and leader != assignment.replicas[0]
    return offline, not_preferred, total
