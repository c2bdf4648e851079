"""Who leads a partition next (Election, PartitionLeaderElectionAlgorithms)."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.zookeeper.controller.controller_context import RECOVERING

if TYPE_CHECKING:
    from barnabas.broker.zookeeper.controller.controller_context import ControllerContext, LeaderAndIsr
    from barnabas.protocol.topic_partition import TopicPartition


class ElectionStrategy(Enum):
    """Why a leader is elected."""

    OFFLINE = "OfflinePartition"
    #: Of what is out of sync as well, where nothing that is in sync is alive.
    UNCLEAN = "UncleanOfflinePartition"
    REASSIGN = "ReassignPartition"
    PREFERRED = "PreferredReplica"
    CONTROLLED_SHUTDOWN = "ControlledShutdown"


class ElectionResult(NamedTuple):
    """The next state, None where no replica can lead, and the brokers that are to be told."""

    state: LeaderAndIsr | None
    recipients: tuple[int, ...]


def elect(
    strategy: ElectionStrategy, context: ControllerContext, name: TopicPartition, state: LeaderAndIsr
) -> ElectionResult:
    """Elect a leader of a partition that has a state."""
    return _ELECT[strategy](context, name, state)


def _offline(context: ControllerContext, name: TopicPartition, state: LeaderAndIsr) -> ElectionResult:
    live = _live(context, name)
    leader = next((replica for replica in live if replica in state.isr), None)
    if leader is None:
        return ElectionResult(None, live)
    isr = [replica for replica in state.isr if context.is_online(replica, name)]
    return ElectionResult(state.elected(leader, isr), live)


def _unclean(context: ControllerContext, name: TopicPartition, state: LeaderAndIsr) -> ElectionResult:
    clean = _offline(context, name, state)
    if clean.state is not None or not clean.recipients:
        return clean
    leader = clean.recipients[0]
    return ElectionResult(state.elected(leader, [leader], RECOVERING), clean.recipients)


def _reassign(context: ControllerContext, name: TopicPartition, state: LeaderAndIsr) -> ElectionResult:
    target = context.assignment(name).target
    leader = next((one for one in target if one in state.isr and context.is_online(one, name)), None)
    return ElectionResult(None if leader is None else state.elected(leader, state.isr), target)


def _preferred(context: ControllerContext, name: TopicPartition, state: LeaderAndIsr) -> ElectionResult:
    replicas = context.assignment(name).replicas
    leader = next(iter(replicas), None)
    if leader is None or leader not in state.isr or not context.is_online(leader, name):
        return ElectionResult(None, replicas)
    return ElectionResult(state.elected(leader, state.isr), replicas)


def _controlled_shutdown(context: ControllerContext, name: TopicPartition, state: LeaderAndIsr) -> ElectionResult:
    replicas = context.assignment(name).replicas
    live = tuple(one for one in replicas if context.is_online(one, name, even_shutting_down=True))
    isr = [replica for replica in state.isr if replica not in context.shutting_down]
    leader = next((replica for replica in live if replica in isr), None)
    return ElectionResult(None if leader is None else state.elected(leader, isr), live)


def _live(context: ControllerContext, name: TopicPartition) -> tuple[int, ...]:
    return tuple(replica for replica in context.assignment(name).replicas if context.is_online(replica, name))


_ELECT: dict[ElectionStrategy, Callable[[ControllerContext, TopicPartition, LeaderAndIsr], ElectionResult]] = {
    ElectionStrategy.OFFLINE: _offline,
    ElectionStrategy.UNCLEAN: _unclean,
    ElectionStrategy.REASSIGN: _reassign,
    ElectionStrategy.PREFERRED: _preferred,
    ElectionStrategy.CONTROLLED_SHUTDOWN: _controlled_shutdown,
}
