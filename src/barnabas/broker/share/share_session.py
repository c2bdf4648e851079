"""Share sessions: what a member fetches is remembered, so that it sends only what changes (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas import errors
from barnabas.protocol.epochs import FINAL_EPOCH, INITIAL_EPOCH

#: A topic's id and the number of a partition.
TopicIdPartition = tuple[bytes, int]


class ShareSession:
    """One member's partitions, in the order in which they are read; `epoch` is what its next request must carry."""

    __slots__ = ("connection_id", "epoch", "group_id", "member_id", "partitions")

    def __init__(self, group_id: str, member_id: str, connection_id: int) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.connection_id = connection_id
        self.epoch = 1
        self.partitions: dict[TopicIdPartition, None] = {}

    def advance(self) -> None:
        """Note that a request of the current epoch was taken up."""
        self.epoch = 1 if self.epoch == 2**31 - 1 else self.epoch + 1

    def rotate(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Let these be read last next time, so that full partitions do not starve the others."""
        for partition in partitions:
            if partition in self.partitions:
                del self.partitions[partition]
                self.partitions[partition] = None


class ShareSessionCache:
    """The sessions of all members; there may be `limit()` of them. A session ends with its connection."""

    __slots__ = ("_by_connection", "_limit", "_sessions")

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._by_connection: dict[int, list[ShareSession]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """The partitions of all sessions together."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def get(self, group_id: str, member_id: str) -> ShareSession:
        """Return a member's session. Raises ShareSessionNotFoundError."""
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise errors.ShareSessionNotFoundError(f"Member {member_id} of group {group_id} has no share session.")
        return session

    def use(self, group_id: str, member_id: str, epoch: int) -> ShareSession:
        """Return the session that a request goes on with, or ends. Raises the KafkaError that has it begin anew."""
        if epoch == INITIAL_EPOCH:
            raise errors.InvalidShareSessionEpochError("Records are acknowledged in a session that there is.")
        session = self.get(group_id, member_id)
        if epoch != FINAL_EPOCH:
            if session.epoch != epoch:
                raise errors.InvalidShareSessionEpochError(
                    f"The share session of member {member_id} expects epoch {session.epoch}, the request has {epoch}."
                )
            session.advance()
        return session

    def create(self, group_id: str, member_id: str, connection_id: int) -> ShareSession:
        """Begin a session in place of what the member had. Raises ShareSessionLimitReachedError."""
        self.remove(group_id, member_id)
        if len(self._sessions) >= self._limit():
            raise errors.ShareSessionLimitReachedError(
                f"There are {len(self._sessions)} share sessions already (group.share.max.share.sessions)."
            )
        session = self._sessions[group_id, member_id] = ShareSession(group_id, member_id, connection_id)
        self._by_connection.setdefault(connection_id, []).append(session)
        return session

    def remove(self, group_id: str, member_id: str) -> ShareSession | None:
        """Forget a session; gives it."""
        session = self._sessions.pop((group_id, member_id), None)
        if session is not None:
            sessions = self._by_connection[session.connection_id]
            sessions.remove(session)
            if not sessions:
                del self._by_connection[session.connection_id]
        return session

    def of_connection(self, connection_id: int) -> list[ShareSession]:
        """Return the sessions that a connection has begun."""
        return list(self._by_connection.get(connection_id, ()))

    def has_group(self, group_id: str) -> bool:
        """Whether a member of the group has a session."""
        return any(group == group_id for group, _ in self._sessions)
