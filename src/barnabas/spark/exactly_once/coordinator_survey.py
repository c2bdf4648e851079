"""Which transactions are open in the whole cluster, as state machine: what shows that no coordinator was left out.

A generator of steps as those of `commit_protocol`. A broker lists what it coordinates, and what that is moves with the
leaders of the partitions of `__transaction_state`. Each broker hears of it in its own time: who is to coordinate next
lists nothing until it has heard and loaded, and one that was cut off goes on listing. So a list counts for a partition
only if three things are known of who gave it:

1. It said itself that it leads the partition in this epoch, and answered for an id of the partition after that: by then
   it had loaded it. This holds as long as the epoch does, so it is asked once (`Proven`).
2. It listed after that.
3. After the list it still said that it leads the partition in that epoch, and no other broker knew of a later one.

Until that is so for every partition everything is asked anew, of the brokers that are in the cluster by then. So a
broker that has died for good is waited for as long as something is its to coordinate, and no longer.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, NamedTuple

from barnabas.protocol.coordinator_partition import partition_for


class Leader(NamedTuple):
    """Who leads a partition of `__transaction_state`, -1 for none, and in which epoch."""

    broker: int
    epoch: int


class Listed(NamedTuple):
    """What brokers answered: open transactions with their producer ids; who is loading; why the others are silent."""

    answers: Mapping[int, Mapping[str, int]]
    loading: frozenset[int]
    silent: dict[int, str]


class ListOpenAtAll(NamedTuple):
    """Have all brokers of the cluster list open transactions; gives Listed."""


class AskLeaders(NamedTuple):
    """Ask each of these brokers itself who leads which partition.

    Gives {broker: {partition: Leader}} of those that answered, None if the user is not allowed to know.
    """

    brokers: tuple[int, ...]


class Probe(NamedTuple):
    """Ask leaders for an id of their partition; gives those partitions for which they answered as coordinators."""

    leaders: tuple[tuple[int, Leader], ...]


class Wait(NamedTuple):
    """Wait a moment, for this reason; raises KafkaTimeoutError when that has been too long."""

    why: str


_LOADING = "is loading"

#: By partition, the leaders that were seen to have loaded it.
Proven = dict[int, Leader]
Steps = Generator[Any, Any, dict[str, int]]


def survey(proven: Proven) -> Steps:
    """Return the open transactions with their producer ids; `proven` is kept from one survey of a cluster to the next.

    All that were open before it began and still are. Where the user may not describe `__transaction_state`, all that
    the brokers of the cluster told: what moves meanwhile may be left out.
    """
    while True:
        listed: Listed = yield ListOpenAtAll()
        views: Mapping[int, Mapping[int, Leader]] | None = yield AskLeaders((*listed.answers, *listed.loading))
        leaders = _newest(views or {})
        if views is None or not leaders:
            unseen = listed.silent | dict.fromkeys(listed.loading, _LOADING)
            unproven = {}
        else:
            unseen = _unseen(leaders, listed, views)
            unproven = {at: leader for at, leader in leaders.items() if at not in unseen and proven.get(at) != leader}
        if unproven:
            served: set[int] = yield Probe(tuple(sorted(unproven.items())))
            proven.update((partition, unproven[partition]) for partition in served)
            unseen |= {at: f"broker {unproven[at].broker} {_LOADING}" for at in unproven.keys() - served}
        elif not unseen:
            return _told_by_leaders(listed, leaders)
        if unseen:
            yield Wait(_described(unseen, "__transaction_state " if leaders else "broker "))


def _unseen(
    leaders: Mapping[int, Leader], listed: Listed, views: Mapping[int, Mapping[int, Leader]]
) -> dict[int, str]:  # fmt: skip
    """Return the partitions of which no leader has listed, each with the reason."""
    return {
        partition: _why(leader, listed, views)
        for partition, leader in leaders.items()
        if leader.broker not in listed.answers or views.get(leader.broker, {}).get(partition) != leader
    }


def _newest(views: Mapping[int, Mapping[int, Leader]]) -> dict[int, Leader]:
    """Return the leader of each partition in the latest epoch that any broker knows."""
    found: dict[int, Leader] = {}
    for view in views.values():
        for partition, leader in view.items():
            if partition not in found or leader.epoch > found[partition].epoch:
                found[partition] = leader
    return found


def _why(leader: Leader, listed: Listed, views: Mapping[int, Any]) -> str:
    if leader.broker < 0:
        return "it has no leader"
    if leader.broker in listed.loading:
        why = _LOADING
    elif leader.broker in views:
        why = "has not heard yet that it leads"
    else:
        why = listed.silent.get(leader.broker, "does not answer")
    return f"broker {leader.broker} {why}"


def _told_by_leaders(listed: Listed, leaders: Mapping[int, Leader]) -> dict[str, int]:
    """Return what the leaders listed, as far as they are known.

    A broker that was cut off may still list what others have ended.
    """
    return {
        name: producer
        for broker, found in listed.answers.items()
        for name, producer in found.items()
        if not leaders or leaders[partition_for(name, len(leaders))].broker == broker
    }


def _described(unseen: Mapping[int, str], what: str) -> str:
    """Return what is waited for, each reason with its partitions."""
    by_reason: dict[str, list[str]] = {}
    for partition, reason in sorted(unseen.items()):
        by_reason.setdefault(reason, []).append(str(partition))
    return "; ".join(f"{what}{', '.join(numbers)}: {reason}" for reason, numbers in by_reason.items())
