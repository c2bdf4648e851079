"""The group: its state at the coordinator, its members there, and what each member's own side does."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.anatomy import events
from barnabas.anatomy.picture import Box, Facts, Picture, lane, picture
from barnabas.anatomy.scenes.scene import LAST

if TYPE_CHECKING:
    from barnabas.anatomy.events import Event

_SETTLED = ("Stable", "stable")
_OUT = ("unjoined", "unsubscribed")
#: What members ask the coordinator, from finding it to leaving.
_APIS = (
    "FIND_COORDINATOR", "JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT", "LEAVE_GROUP", "CONSUMER_GROUP_HEARTBEAT",
    "OFFSET_FETCH", "OFFSET_COMMIT",
)  # fmt: skip
_OF_REQUESTS = events.RequestUnsent | events.RequestInFlight | events.RequestAnswered
_OF_COORDINATOR = events.GroupState | events.GroupMemberJoined | events.GroupMemberLeft


class GroupScene:
    """One group, by its id."""

    def __init__(self, subject: str) -> None:
        self._group = subject
        self._state = "not seen"
        self._facts: Facts = {}
        self._before: deque[tuple[str, int]] = deque(maxlen=LAST)
        # Member id → client id and group.instance.id, as the coordinator has it.
        self._members: dict[str, tuple[str, str]] = {}
        self._leader = ""
        # Client id, NetworkClient and correlation id → what is asked, the newest last.
        self._requests: dict[tuple[str, int, int], Box] = {}
        # Client id → its side: state, member id, epoch.
        self._sides: dict[str, tuple[str, str, int]] = {}
        self._assigned: dict[str, str] = {}
        self._changes = 0

    @staticmethod
    def subject_of(event: Event) -> str | None:
        """Return the group's id."""
        return event.group if isinstance(event, events.GroupState | events.MemberState) else None

    def apply(self, event: Event) -> bool:
        """See `Scene`."""
        if isinstance(event, events.MemberAssigned):
            if event.client not in self._sides:
                return False
            self._assigned[event.client] = event.partitions
            return True
        if isinstance(event, _OF_REQUESTS):
            return event.api in _APIS and event.client in self._sides and self._asked(event)
        if not isinstance(event, _OF_COORDINATOR | events.MemberState) or event.group != self._group:
            return False
        if isinstance(event, events.GroupState):
            if event.state != self._state:
                self._changes += 1
                self._before.append((self._state, self._changes))
            self._state = event.state
            self._facts = {"epoch": event.epoch, "members": event.members}
            self._leader = event.leader
        elif isinstance(event, events.GroupMemberJoined):
            self._members[event.member] = event.client, event.instance
        elif isinstance(event, events.GroupMemberLeft):
            self._members.pop(event.member, None)
            gone = [client for client, (_, member, _) in self._sides.items() if member == event.member]
            for client in gone:
                del self._sides[client]
                self._assigned.pop(client, None)
        else:
            self._sides[event.client] = event.state, event.member, event.epoch
            if event.state in _OUT:
                self._assigned.pop(event.client, None)
        return True

    def _asked(self, event: events.RequestUnsent | events.RequestInFlight | events.RequestAnswered) -> bool:
        key = event.client, event.core, event.correlation
        facts: Facts = {"client": event.client, "node": event.node}
        kind = "moving"
        if isinstance(event, events.RequestUnsent):
            kind = "waiting"
        elif isinstance(event, events.RequestAnswered):
            kind = "bad" if event.error else "done"
            if event.error:
                facts["error"] = event.error
        self._requests.pop(key, None)
        self._requests[key] = Box(f"request {event.client} {event.core}/{event.correlation}", event.api, kind, facts)
        while len(self._requests) > LAST:
            del self._requests[next(iter(self._requests))]
        return True

    def picture(self) -> Picture:
        """See `Scene`."""
        kind = "good" if self._state in _SETTLED else "moving"
        before = [Box(f"state {number}", state, "split", {}) for state, number in self._before]
        return picture(
            (
                lane("group_state", (*before, Box("state", self._state, kind, self._facts)), group=self._group),
                lane("group_members", self._of_coordinator()),
                lane("group_requests", reversed(self._requests.values())),
                lane("member_sides", self._of_members()),
                lane("owners", self._owners()),
            )
        )

    def _of_coordinator(self) -> Iterator[Box]:
        for member, (client, instance) in self._members.items():
            facts: Facts = {"member": member}
            if instance:
                facts["instance"] = instance
            if member == self._leader:
                facts["leads"] = "the group"
            yield Box(f"member {member}", client, "good", facts)

    def _of_members(self) -> Iterator[Box]:
        for client, (state, member, epoch) in sorted(self._sides.items()):
            kind = "good" if state in _SETTLED else "moving"
            yield Box(f"side {client}", f"{client}: {state}", kind, {"member": member, "epoch": epoch})

    def _owners(self) -> Iterator[Box]:
        owners: dict[str, list[str]] = {}
        for client, partitions in sorted(self._assigned.items()):
            for partition in filter(None, partitions.split(",")):
                owners.setdefault(partition, []).append(client)
        for partition, clients in sorted(owners.items()):
            # Two at a time is what a group must not have; while members take over it is seen for a moment.
            kind = "good" if len(clients) == 1 else "bad"
            yield Box(f"owner {partition}", partition, kind, {"client": ", ".join(clients)})
