"""What a RaftClient refuses with (org.apache.kafka.raft.errors)."""

from __future__ import annotations


class RaftError(Exception):
    """The quorum's log could not do what was asked."""


class NotLeaderError(RaftError):
    """This node does not lead the quorum, or not in the epoch that was given. Nothing was appended.

    What the caller had prepared for that epoch is void: it waits for `Listener.handle_leader_change`.
    """


class BufferAllocationError(RaftError):
    """So much waits to be written that nothing more is taken. Nothing was appended; try again later."""
