"""A member of a classic group."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.protocol.messages.sync_group_response import SyncGroupResponse

if TYPE_CHECKING:
    from barnabas.broker.purgatory import DelayedOperation


class ClassicGroupMember:
    """What the coordinator knows of one member.

    `protocols` maps the names of the member's protocols (assignors), in its order of preference, to the metadata (the
    subscription) it sent for each. `awaiting_join` and `awaiting_sync` are its parked requests.
    """

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: dict[str, bytes],
        assignment: bytes = b"",
    ):
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.assignment = assignment
        self.awaiting_join: DelayedOperation | None = None
        self.awaiting_sync: DelayedOperation | None = None
        #: Joined in this rebalance: it cannot send heartbeats yet.
        self.is_new = False

    def __repr__(self) -> str:
        static = f" instance={self.group_instance_id}" if self.group_instance_id is not None else ""
        return f"<ClassicGroupMember {self.member_id}{static}>"

    @property
    def is_static(self) -> bool:
        """Whether the member has a group.instance.id (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def session_goes_on(self) -> bool:
        """Whether the member is kept although no heartbeat came: it waits for an answer and cannot send one."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def park_sync(self, operation: DelayedOperation) -> None:
        """Keep the member's SyncGroup until `answer_sync`; one that it sent before is told to join again."""
        self.answer_sync(SyncGroupResponse(error_code=errors.RebalanceInProgressError.code))
        self.awaiting_sync = operation

    def answer_sync(self, response: SyncGroupResponse) -> bool:
        """Answer the member's parked SyncGroup; False if there is none."""
        operation = self.awaiting_sync
        if operation is None:
            return False
        self.awaiting_sync = None
        operation.complete(response)
        return True

    def metadata(self, protocol_name: str) -> bytes:
        """Return what the member sent for `protocol_name`."""
        return self.protocols[protocol_name]

    def matches(self, protocols: dict[str, bytes]) -> bool:
        """Whether `protocols` says the same as before, order included."""
        return list(protocols.items()) == list(self.protocols.items())

    def vote(self, candidates: Container[str]) -> str:
        """Return the candidate that the member likes best. Raises LookupError if it supports none."""
        for name in self.protocols:
            if name in candidates:
                return name
        raise LookupError(f"{self!r} supports none of the protocols {candidates!r}")
