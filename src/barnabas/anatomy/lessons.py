"""Lessons: for each scene five stops in a film, each an event that shows what the scene is about.

A stop is found after the one before it, wherever that lies in the film; one that the film has not is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from barnabas.anatomy.events import Event

STOPS = 5


class Stop(NamedTuple):
    """The next event of this name; `fields` are so, and those in `same` as at the stops before that have them."""

    event: str
    fields: Mapping[str, str | int] = {}
    same: tuple[str, ...] = ()


LESSONS: dict[str, tuple[Stop, ...]] = {
    "producer": (
        Stop("BatchOpened"),
        Stop("BatchDrained", same=("batch",)),
        Stop("RequestInFlight", {"api": "PRODUCE"}, same=("node",)),
        Stop("RequestAnswered", {"api": "PRODUCE"}, same=("correlation",)),
        Stop("BatchEnded"),
    ),
    "consumer": (
        Stop("PollEntered"),
        Stop("RequestUnsent", {"api": "FETCH"}),
        Stop("RequestInFlight", {"api": "FETCH"}, same=("correlation", "core")),
        Stop("FetchCompleted"),
        Stop("PositionMoved", same=("topic", "partition")),
    ),
    "exchange": (
        Stop("RequestInFlight", {"api": "FETCH"}),
        Stop("RequestReceived", same=("port", "correlation")),
        Stop("RequestParked", same=("port", "correlation")),
        Stop("ResponseSent", same=("port", "correlation")),
        Stop("RequestAnswered", same=("core", "correlation")),
    ),
    "group": (
        Stop("GroupMemberJoined"),
        Stop("GroupState"),
        Stop("MemberAssigned"),
        Stop("MemberState"),
        Stop("GroupMemberLeft"),
    ),
    "log": (
        Stop("LogMoved"),
        Stop("SegmentRolled"),
        Stop("MarkerWritten"),
        Stop("SegmentsDeleted"),
        Stop("LogCleaned"),
    ),
    "cluster": (
        Stop("ReplicaRole", {"role": "leader"}),
        Stop("ReplicaRole", {"role": "follower"}, same=("partition",)),
        Stop("ReplicaMoved", same=("partition",)),
        Stop("IsrChanged"),
        Stop("ReplicaRole", {"role": "leader"}),
    ),
    "transactions": (
        Stop("TransactionState", {"state": "Ongoing"}),
        Stop("TransactionState", {"state": "PrepareCommit"}),
        Stop("MarkerWritten", {"outcome": "commit"}),
        Stop("TransactionState", {"state": "CompleteCommit"}),
        Stop("TransactionState", {"state": "PrepareAbort"}),
    ),
    "query": (
        Stop("MicroBatchPlanned"),
        Stop("RangeBegun"),
        Stop("RowsDecoded", same=("topic", "partition")),
        Stop("MicroBatchEnded"),
        Stop("MicroBatchPlanned"),
    ),
    "spark": (
        Stop("RangeBegun"),
        Stop("HandoverMoved", {"case": "produced"}),
        Stop("HandoverMoved", {"case": "taken"}),
        Stop("RowsDecoded"),
        Stop("HandoverMoved", {"case": "closed"}),
    ),
    "handover": (
        Stop("HandoverMoved", {"case": "poll_waits"}),
        Stop("HandoverMoved", {"case": "produce_waits"}),
        Stop("HandoverMoved", {"case": "closed"}),
        Stop("HandoverMoved", {"case": "woken"}),
        Stop("HandoverMoved", {"case": "failed"}),
    ),
    "streams": (
        Stop("StreamsTaskStep", {"step": "read_decision"}),
        Stop("StreamsTaskStep", {"step": "restore"}),
        Stop("StreamsTaskStep", {"step": "compute"}),
        Stop("StreamsTaskCounted", {"way": "consumed"}),
        Stop("StreamsTaskStep", {"step": "computed"}),
    ),
}


def stops_of(scene: str, steps: Sequence[tuple[float, Event]]) -> list[int | None]:
    """Return the number of the step for each stop of a scene's lesson, None for one that is not in the film."""
    found: list[int | None] = []
    known: dict[str, object] = {}
    begin = 0
    for stop in LESSONS[scene]:
        number = next((n for n in range(begin, len(steps)) if _is_at(stop, steps[n][1], known)), None)
        found.append(number)
        if number is not None:
            known |= steps[number][1]._asdict()
            begin = number + 1
    return found


def _is_at(stop: Stop, event: Event, known: Mapping[str, object]) -> bool:
    if type(event).__name__ != stop.event:
        return False
    has = event._asdict()
    return all(has[name] == value for name, value in stop.fields.items()) and all(
        has[name] == known[name] for name in stop.same if name in known
    )
