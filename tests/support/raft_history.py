"""One history of a quorum from a seed: load, faults of the network and of nodes, voters that change, then peace."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

from barnabas.errors import InvalidUpdateVersionError
from tests.support.raft_cluster import BrokenPromiseError, RaftCluster, StateMachine

if TYPE_CHECKING:
    from tests.support.raft_cluster import Member

#: A fault lasts at most so long, in seconds.
_LONGEST = 6.0


class History:
    """Plays a quorum of three to five voters for some seconds of virtual time, and holds it to Raft's promises."""

    def __init__(self, seed: int, *, seconds: float = 40.0, on_files: bool = False) -> None:
        self.random = Random(seed)
        self._seconds = seconds
        has_directories = self.random.random() < 0.6
        voters = self.random.choice([3, 3, 3, 5])
        self._bootstrap = voters
        extra = 2 if has_directories else 1
        self.cluster = RaftCluster(
            seed,
            voters=voters,
            nodes=voters + extra,
            directories=has_directories,
            auto_join=has_directories and self.random.random() < 0.2,
            on_files=on_files,
        )
        cluster = self.cluster
        cluster.loss = self.random.choice([0.0, 0.02, 0.2])
        cluster.duplication = self.random.choice([0.0, 0.1])
        cluster.lateness = self.random.choice([0.0, 0.02])
        cluster.disk_delay = self.random.choice([0.0, 0.004, 0.04, 0.2])
        self._written = 0

    def run(self) -> None:
        """Play it. Raises `BrokenPromiseError`."""
        cluster = self.cluster
        while cluster.now < self._seconds:
            cluster.run(self.random.expovariate(8))
            self._step()
        cluster.check_logs()
        self._make_peace()

    def _step(self) -> None:
        draw = self.random.random()
        if draw < 0.6:
            self._write()
        elif draw < 0.66:
            self.cluster.snapshot(self.random.choice(self.cluster.members), delete=self.random.random() < 0.7)
        elif draw < 0.70:
            self._change_voters()
        elif draw < 0.72:
            leader = self.cluster.leader
            if leader is not None and leader.client is not None and leader.leader_state is not None:
                leader.client.resign(leader.leader_state.epoch)
        elif draw < 0.86:
            self._fault()
        if self.random.random() < 0.05:
            self.cluster.check_logs()

    def _write(self) -> None:
        """Write through any node that believes to lead."""
        member = self.random.choice(self.cluster.members)
        for _ in range(self.random.randint(1, 3)):
            self._written += 1
            if not self.cluster.append([b"%d" % self._written], member):
                self.cluster.append([b"%d" % self._written])

    def _change_voters(self) -> None:
        leader = self.cluster.leader
        if leader is None or leader.client is None:
            return
        if not leader.client.replica.partition_state.is_reconfig_supported:
            if leader.leader_state is not None:
                with suppress(InvalidUpdateVersionError):  # a voter has not told its directory
                    leader.client.upgrade_kraft_version(leader.leader_state.epoch, 1, validate_only=False)
                    leader.turn()
            return
        voters = leader.client.replica.partition_state.last_voter_set
        node_id = self.random.randrange(len(self.cluster.members))
        is_voter = voters.get(node_id) is not None
        # Who asks for the leader asks the bootstrap servers: one of them has to be a voter.
        is_found = any(other < self._bootstrap and other != node_id for other in voters.ids)
        if not is_voter or (len(voters) > 2 and is_found):
            self.cluster.change_voters(node_id, add=not is_voter)

    def _fault(self) -> None:
        cluster, random = self.cluster, self.random
        leader = cluster.leader
        member = leader if leader is not None and random.random() < 0.4 else random.choice(cluster.members)
        until = cluster.now + (random.uniform(0.0, _LONGEST) if random.random() < 0.6 else random.uniform(0.0, 0.1))
        kind = random.random()
        if kind < 0.45:
            self._kill(member, until, power_loss=random.random() < 0.7, silent=random.random() < 0.5)
        elif kind < 0.6:
            member.paused_until = until
            cluster.at(until, member.turn)
        elif kind < 0.64:
            self._stall(member, until)
        elif kind < 0.68:
            for every in cluster.members:
                self._kill(every, until, power_loss=True)
        else:
            others = [other for other in cluster.members if other is not member]
            cut_off = random.sample(others, random.randint(1, len(others)))
            pairs = {(member.id, other.id) for other in cut_off}
            links = cluster.cut if random.random() < 0.7 else cluster.refused
            if links is cluster.refused and random.random() < 0.5:
                pairs = {(other, this) for this, other in pairs}
            elif random.random() < 0.7:
                pairs |= {(other, this) for this, other in pairs}
            links |= pairs
            cluster.at(until, lambda: links.difference_update(pairs))

    def _stall(self, member: Member, until: float) -> None:
        """Let a disk stand still, perhaps until the power is lost, and with it all that waited."""
        member.disk_stalls_until = until
        if self.random.random() < 0.6:
            restart_at = until + self.random.uniform(0.0, 1.0)
            self.cluster.at(until, lambda: self._kill(member, restart_at, power_loss=True))

    def _kill(self, member: Member, until: float, *, power_loss: bool, silent: bool = False) -> None:
        if member.client is None:
            return
        member.stop(power_loss=power_loss, silent=silent)

        def restart() -> None:
            if member.client is None:
                member.start()

        self.cluster.at(until, restart)

    def _make_peace(self) -> None:
        cluster = self.cluster
        cluster.heal()
        cluster.run_until(self._has_leader, 30.0)
        end = cluster.committed_end
        cluster.run_until(lambda: cluster.append([b"the last"]), 10.0)
        cluster.run_until(lambda: cluster.committed_end > end and self._are_equal(), 30.0)
        cluster.check_logs()

    def _has_leader(self) -> bool:
        leader = self.cluster.leader
        return leader is not None and leader.leader_state is not None and leader.leader_state.high_watermark is not None

    def _are_equal(self) -> bool:
        ends = {member.machine.next_offset for member in self.cluster.members}
        return ends == {self.cluster.committed_end}


class PowerLoss:
    """Three voters, some with disks that stand still while records are written, some of which then lose the power."""

    def __init__(self, seed: int, *, on_files: bool = False) -> None:
        self.random = Random(seed)
        self.cluster = RaftCluster(seed, voters=3, on_files=on_files)
        self.cluster.disk_delay = 0.002

    def run(self) -> None:
        """Play it. Raises `BrokenPromiseError`."""
        cluster = self.cluster
        for _ in range(3):
            cluster.run_until(self._commits, 30.0)
            self._lose()
            cluster.run(self.random.uniform(2.0, 4.0))
            cluster.heal()
        cluster.run_until(self._commits, 30.0)
        cluster.run(5.0)
        cluster.check_logs()

    def _commits(self) -> bool:
        leader = self.cluster.leader
        state = None if leader is None else leader.leader_state
        return state is not None and state.high_watermark is not None

    def _lose(self) -> None:
        cluster, random = self.cluster, self.random
        leader, members = cluster.leader, cluster.members
        for member in random.sample(members, random.randint(1, 2)):
            member.disk_stalls_until = cluster.now + 10.0
        apart = random.choice(members)
        if apart is not leader and random.random() < 0.7:
            cluster.cut = {(apart.id, other.id) for other in members} | {(other.id, apart.id) for other in members}
        cluster.append([b"a"], leader)
        cluster.run(random.uniform(0.0, 0.15))
        for member in random.sample(members, random.randint(1, 2)):
            if member.client is not None:
                member.stop(power_loss=True)
                member.disk_stalls_until = 0.0
                cluster.at(cluster.now + 0.01, lambda member=member: member.client or member.start())
        cluster.cut.clear()
        if random.random() < 0.6:
            away = random.choice(members)
            cluster.cut = {(away.id, other.id) for other in members} | {(other.id, away.id) for other in members}


def play_power_loss(seed: int, *, on_files: bool = False) -> None:
    """Play one short history of power that is lost; what is raised names the seed."""
    try:
        PowerLoss(seed, on_files=on_files).run()
    except Exception as error:
        raise BrokenPromiseError(f"seed {seed}: {error!r}") from error


def play(seed: int, seconds: float = 40.0, *, on_files: bool = False) -> None:
    """Play one history; what is raised names the seed."""
    try:
        History(seed, seconds=seconds, on_files=on_files).run()
    except BrokenPromiseError as error:
        raise BrokenPromiseError(f"seed {seed}: {error}") from error
    except Exception as error:
        raise BrokenPromiseError(f"seed {seed}: {error!r}") from error


__all__ = ["History", "StateMachine", "play", "play_power_loss"]
