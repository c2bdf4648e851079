"""The consumer: both cores' requests from unsent to completed, completed fetches, positions, polls and commits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.anatomy import events
from barnabas.anatomy.picture import Box, Facts, Picture, lane, picture
from barnabas.anatomy.scenes.requests import Requests

if TYPE_CHECKING:
    from barnabas.anatomy.events import Event

_OWN = (
    events.PollEntered
    | events.PollLeft
    | events.FetchCompleted
    | events.FetchDrained
    | events.PositionMoved
    | events.OffsetCommitted
    | events.MemberState
    | events.MemberAssigned
)


class ConsumerScene:
    """One consumer, by its client id."""

    def __init__(self, subject: str) -> None:
        self._client = subject
        self._requests = Requests(subject, is_consumer=True)
        self._member = Box("member", "not joined", "waiting", {})
        self._poll = Box("poll", "not polled", "waiting", {})
        self._fetches: dict[tuple[str, int], Box] = {}
        self._assigned: tuple[str, ...] = ()
        self._positions: dict[str, int] = {}
        self._committed: dict[str, int] = {}

    @staticmethod
    def subject_of(event: Event) -> str | None:
        """Return the consumer's client id."""
        return event.client if isinstance(event, events.PollEntered | events.MemberState) else None

    def apply(self, event: Event) -> bool:
        """See `Scene`."""
        if not isinstance(event, _OWN):
            return self._requests.apply(event)
        if event.client != self._client:
            return False
        if isinstance(event, events.MemberState):
            kind = "good" if event.state == "stable" else "moving"
            facts: Facts = {"group": event.group, "epoch": event.epoch, "member": event.member}
            self._member = Box("member", event.state, kind, facts)
        elif isinstance(event, events.MemberAssigned):
            self._assigned = tuple(filter(None, event.partitions.split(",")))
        elif isinstance(event, events.PollEntered):
            self._poll = Box("poll", "poll()", "moving", {})
        elif isinstance(event, events.PollLeft):
            self._poll = Box("poll", "poll()", "done", {"records": event.records})
        else:
            self._apply_to_partition(event)
        return True

    def _apply_to_partition(
        self, event: events.FetchCompleted | events.FetchDrained | events.PositionMoved | events.OffsetCommitted
    ) -> None:
        name = f"{event.topic}-{event.partition}"
        if isinstance(event, events.FetchCompleted):
            facts: Facts = {"node": event.node, "offset": event.offset, "size": event.size}
            self._fetches[name, event.offset] = Box(f"fetch {name}@{event.offset}", name, "done", facts)
        elif isinstance(event, events.FetchDrained):
            self._fetches.pop((name, event.offset), None)
            self._positions[name] = event.position
        elif isinstance(event, events.PositionMoved):
            self._positions[name] = event.position
        else:
            self._committed[name] = event.offset

    def picture(self) -> Picture:
        """See `Scene`."""
        return picture(
            (
                lane("application", (self._poll, self._member)),
                *self._requests.lanes(),
                lane("completed_fetches", self._fetches.values()),
                lane("positions", self._partitions()),
            )
        )

    def _partitions(self) -> Iterator[Box]:
        known = {*self._assigned, *self._positions, *self._committed}
        for name in sorted(known):
            facts: Facts = {}
            if name in self._positions:
                facts["position"] = self._positions[name]
            if name in self._committed:
                facts["committed"] = self._committed[name]
            is_owned = not self._assigned or name in self._assigned
            yield Box(f"partition {name}", name, "good" if is_owned else "split", facts)
