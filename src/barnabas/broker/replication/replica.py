"""What a leader knows of one follower (Replica, ReplicaState)."""

from __future__ import annotations

from typing import NamedTuple, Protocol

UNKNOWN_OFFSET = -1
#: In the place of a broker epoch: the follower does not tell one, and it is not checked (ZooKeeper mode).
NO_BROKER_EPOCH = -1


class FollowerFetch(NamedTuple):
    """What a follower's Fetch tells of it: where its log begins and ends, and in which life of its broker."""

    log_end_offset: int
    log_start_offset: int
    broker_epoch: int


class LastFetch(Protocol):
    """The fetch session of a follower that asks for a partition without naming it (`QuietPartitions`)."""

    last_fetch_ms: int


class Replica:
    """How far one follower has come, in offsets and milliseconds.

    `last_caught_up_ms` is the largest time at which it had all that the leader had then. `broker_epoch` is that of its
    last Fetch; None when there was none.
    """

    __slots__ = (
        "_quiet",
        "broker_epoch",
        "broker_id",
        "last_caught_up_ms",
        "last_fetch_leader_log_end_offset",
        "last_fetch_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.broker_epoch: int | None = None
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.last_fetch_leader_log_end_offset = 0
        self.last_fetch_ms = 0
        self.last_caught_up_ms = 0
        self._quiet: LastFetch | None = None

    def begin_quiet(self, session: LastFetch) -> None:
        """Count each Fetch of a session as one that has found nothing new, although it does not come here."""
        self._quiet = session

    def end_quiet(self, session: LastFetch) -> None:
        """Take over when the last of them came; those that follow are told again."""
        if self._quiet is session:
            self.last_fetch_ms = max(self.last_fetch_ms, session.last_fetch_ms)
            self.last_caught_up_ms = max(self.last_caught_up_ms, session.last_fetch_ms)
            self._quiet = None

    def __repr__(self) -> str:
        return (
            f"Replica({self.broker_id}, up to {self.log_end_offset}, caught up at {self.last_caught_up_ms}, "
            f"broker epoch {self.broker_epoch})"
        )

    def update_fetch_state(self, fetch: FollowerFetch, leader_end_offset: int, now_ms: int) -> None:
        """Take note of a Fetch that found the leader's log ending at `leader_end_offset`.

        Who asks for what comes next has all there is now; who asks for what came since its last Fetch had all there
        was at that time, so a follower is caught up although there is always something new.
        """
        if fetch.log_end_offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif fetch.log_end_offset >= self.last_fetch_leader_log_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = fetch.log_end_offset
        self.log_start_offset = fetch.log_start_offset
        self.last_fetch_leader_log_end_offset = max(leader_end_offset, self.last_fetch_leader_log_end_offset)
        self.last_fetch_ms = now_ms
        self.broker_epoch = fetch.broker_epoch

    def reset(self, leader_end_offset: int, now_ms: int, *, is_new_leader: bool, in_sync: bool) -> None:
        """Begin a leader epoch: who is in sync has its time from now on, who is not holds nothing back."""
        self._quiet = None
        self.last_caught_up_ms = now_ms if in_sync else 0
        self.last_fetch_ms = now_ms if in_sync and not is_new_leader else 0
        if is_new_leader:
            self.log_end_offset = self.log_start_offset = self.last_fetch_leader_log_end_offset = UNKNOWN_OFFSET
            self.broker_epoch = None
        else:
            self.last_fetch_leader_log_end_offset = leader_end_offset

    def is_caught_up(self, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        """Whether the follower has everything, or had everything not longer ago than `replica.lag.time.max.ms`."""
        caught_up_ms = self.last_caught_up_ms
        if self._quiet is not None:
            caught_up_ms = max(caught_up_ms, self._quiet.last_fetch_ms)
        return self.log_end_offset == leader_end_offset or now_ms - caught_up_ms <= max_lag_ms
