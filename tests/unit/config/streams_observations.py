"""What a broker does with streams groups that a setting changes; see `observations`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.core_broker import CoreBroker, create
from tests.support.streams_member import StreamsMember, subtopology

_TOPOLOGY = (subtopology("0", "lines"),)
_STATEFUL = (subtopology("0", "lines", changelogs=("app-store",)),)


def streams_member(broker: CoreBroker, member_id: str = "m", topology: Any = _TOPOLOGY) -> StreamsMember:
    client = broker.connect()
    if broker.state.metadata.topic("lines") is None:
        client.request(create("lines", 2), 7)
    return StreamsMember(lambda request: client.request(request, 0), member_id, topology)


def heartbeat_interval(broker: CoreBroker) -> Any:
    return streams_member(broker).heartbeat().heartbeat_interval_ms


def delayed(broker: CoreBroker) -> Any:
    """Whether tasks come with the first answer."""
    return streams_member(broker).heartbeat().active_tasks


def epochs(broker: CoreBroker) -> Any:
    """Whether the next member's assignment follows at once, in a new group."""
    found = []
    group = f"g{len(broker.state.group_coordinator.list_groups([], []))}"
    for name in ("a", "b"):
        member = streams_member(broker, name)
        member.group = group
        found.append(member.heartbeat().member_epoch)
    return found


def members(broker: CoreBroker) -> Any:
    return [streams_member(broker, name).heartbeat().error_code for name in ("a", "b")]


def session(broker: CoreBroker) -> Any:
    member = streams_member(broker)
    member.heartbeat()
    broker.advance(48)
    return member.heartbeat().error_code


def copies(broker: CoreBroker) -> Any:
    a, b = (streams_member(broker, name, _STATEFUL) for name in ("a", "b"))
    for _ in range(8):
        a.heartbeat()
        b.heartbeat()
        broker.advance(2)
    return a.standby


def most_copies(alter: Callable[[CoreBroker, int, str, str, str], Any]) -> Callable[[CoreBroker], Any]:
    """Whether a group may have three copies of each task."""

    def look(broker: CoreBroker) -> Any:
        return alter(broker, 32, "g", "streams.num.standby.replicas", "3").error_code

    return look
