"""`kraft.version` from 0 to 1 while the quorum runs: from then on its voters may change (KIP-853, KIP-1022).

At level 0 the voters are those of `controller.quorum.voters`, without directories. So each follower tells its leader
once an epoch what it is (UpdateRaftVoter), and the leader keeps that in memory; the upgrade writes it, in one control
batch with the level (LeaderState.maybeAppendUpgradedKRaftVersion).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import InvalidUpdateVersionError
from barnabas.protocol.message import ZERO_UUID
from barnabas.protocol.messages.k_raft_version_record import KRaftVersionRecord

if TYPE_CHECKING:
    from barnabas.broker.raft.control_record_state_machine import PartitionState
    from barnabas.broker.raft.leader_state import LeaderState
    from barnabas.broker.raft.voter_set import VoterSet


def upgrade_kraft_version(
    state: LeaderState, partition: PartitionState, level: int, now: float, *, validate_only: bool
) -> None:
    """Append the records of a level; nothing where it is in force, or on its way.

    Raises `InvalidUpdateVersionError`.
    """
    voters = state.voters_in_memory
    current = 1 if voters is None else partition.kraft_version
    if level == current:
        return
    if voters is None or level < current:
        raise InvalidUpdateVersionError(f"kraft.version cannot go from {current} to {level}: it only grows, up to 1.")
    _check_voters(voters, level)
    if not validate_only:
        state.voters_in_memory = None
        state.accumulator.append_control([KRaftVersionRecord(0, level), voters.to_record()], now)


def _check_voters(voters: VoterSet, level: int) -> None:
    silent = [node.key.id for node in voters if node.key.directory_id == ZERO_UUID]
    if silent:
        names = ", ".join(map(str, silent))
        raise InvalidUpdateVersionError(
            f"kraft.version cannot be {level} yet: controllers {names} have not told this leader of their directories. "
            "Controllers do so some seconds after an election; look whether these run, and in a release that can."
        )
    if not voters.supports(level):
        lacking = ", ".join(str(node.key.id) for node in voters if not node.min_version <= level <= node.max_version)
        raise InvalidUpdateVersionError(f"kraft.version cannot be {level}: controllers {lacking} do not support it.")
