"""What must hold of a node of the quorum that waits: for a time that comes, or for a disk that is at work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.raft.leader_state import LeaderState

if TYPE_CHECKING:
    from barnabas.broker.raft.kafka_raft_client import KafkaRaftClient

#: More than rounding makes of the sum of two times.
_ROUNDING = 1e-6


def endless_wait(client: KafkaRaftClient, wake: float, now: float, *, is_disk_at_work: bool) -> str | None:
    """Say for what a node waits that will not come, None if all is well.

    `wake` is what its last `poll` gave. Who waits for the disk has given it something to do; every other that does not
    lead looks again within the longest of its own timeouts, whatever becomes of the requests it has sent.
    """
    replica, config = client.replica, client.replica.config
    if replica.disk.is_busy or replica.disk.is_flushing:
        return None if is_disk_at_work else "waits for a disk that has nothing to do"
    if isinstance(replica.quorum.state, LeaderState):
        return None
    longest = max(config.fetch_timeout, 2 * config.election_timeout, config.election_backoff_max)
    if not replica.quorum.is_voter:
        longest = max(longest, config.request_timeout)
    if wake > now + longest + _ROUNDING:
        return f"looks again only in {wake - now:.3f} s as {replica.quorum.state.name}"
    return None
