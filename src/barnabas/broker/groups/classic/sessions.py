"""session.timeout.ms: a member of a classic group that is not heard of in time is removed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from barnabas.broker.coordinator.timers import TimerQueue
from barnabas.broker.groups.classic_group import ClassicGroup
from barnabas.broker.groups.classic_group_member import ClassicGroupMember
from barnabas.broker.groups.group_store import GroupStore
from barnabas.broker.instant import Instant


class Sessions:
    """One timer for each member, and for each member id that was given out (KIP-394).

    `ended(group, member_id, at)` is called when a session ends.
    """

    __slots__ = ("_ended", "_store", "_timers")

    def __init__(self, store: GroupStore, timers: TimerQueue, ended: Callable[[ClassicGroup, str, Instant], None]):
        self._store = store
        self._timers = timers
        self._ended = ended

    def start(self, group: ClassicGroup, member_id: str, timeout_ms: int, at: Instant) -> None:
        """End the session unless the member is heard of within `timeout_ms`."""
        self._timers.schedule(
            ("session", group.group_id, member_id),
            at.now + timeout_ms / 1000,
            partial(self._expire, group.group_id, member_id),
        )

    def renew(self, group: ClassicGroup, member: ClassicGroupMember, at: Instant) -> None:
        """Begin the session timeout of a member that was heard of anew."""
        self.start(group, member.member_id, member.session_timeout_ms, at)

    def end(self, group: ClassicGroup, member_id: str) -> None:
        """Forget the session: the member is gone, or goes by another id now."""
        self._timers.cancel(("session", group.group_id, member_id))

    def _expire(self, group_id: str, member_id: str, at: Instant) -> None:
        group = self._store.classic(group_id)
        if group is None:
            return
        member = group.members.get(member_id)
        if member_id in group.pending_members or (member is not None and not member.session_goes_on):
            self._ended(group, member_id, at)
