"""Logs of a partition's replicas through random leaders, then lost disks and new lives while their ends are told.

The promise: whichever replica is elected before the time is over has all that was acknowledged, if fewer than
min.insync.replicas of the replicas lost anything.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.broker.controller import unclean_recovery
from barnabas.broker.controller.broker_heartbeat_manager import BrokerIdAndEpoch
from barnabas.broker.controller.partition_indexes import TopicIdPartition
from barnabas.broker.controller.unclean_recovery import UncleanRecovery
from barnabas.broker.metadata.partition_registration import NO_LEADER, PartitionRegistration
from barnabas.broker.metadata.replica_log_end import ReplicaLogEnd

_WHOSE = TopicIdPartition(b"t" * 16, 0)
_TIMEOUT = 1000.0


class History:
    """One partition: `logs` has the leader epoch and the number of each record."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = self.random.randint(2, 5)
        self.minimum = self.random.randint(1, self.count)
        self.ids = list(range(1, self.count + 1))
        self.logs: dict[int, list[tuple[int, int]]] = {id: [] for id in self.ids}
        self.committed: list[tuple[int, int]] = []
        self.written = 0
        self.leader = 1
        self.epoch = 0
        self.broker_epochs = {id: id for id in self.ids}
        self.next_epoch = 100

    def replicate(self) -> None:
        """Play some leaders, each of whom has all that is committed."""
        for _ in range(self.random.randint(1, 5)):
            size = len(self.committed)
            able = [id for id in self.ids if self.logs[id][:size] == self.committed]
            self.leader, self.epoch = self.random.choice(able), self.epoch + 1
            for _ in range(self.random.randint(0, 4)):
                self.written += 1
                self.logs[self.leader].append((self.epoch, self.written))
            self.follow()
        self.epoch += 1

    def follow(self) -> None:
        log = self.logs[self.leader]
        in_sync = [self.leader]
        for follower in self.random.sample(self.ids, self.random.randint(0, self.count)):
            if follower != self.leader:
                same = _common(log, self.logs[follower])
                self.logs[follower] = log[: self.random.randint(same, len(log))]
                in_sync.append(follower)
        if len(in_sync) >= self.minimum:
            end = min(len(self.logs[id]) for id in in_sync)
            # What a leader that wrote nothing has committed is not told from less by epochs (cluster.md, "Decisions").
            if end > len(self.committed) and log[end - 1][0] == self.epoch:
                self.committed = log[:end]

    def lose(self, replica: int) -> None:
        """Begin another life of a broker that lost a part of its log, or all."""
        self.logs[replica] = self.logs[replica][: self.random.randint(0, len(self.logs[replica]))]
        self.live_anew(replica)

    def live_anew(self, replica: int) -> None:
        self.next_epoch += 1
        self.broker_epochs[replica] = self.next_epoch

    def recover(self) -> int | None:
        """Tell the ends in any order, late and twice, beside new lives; return who was elected."""
        losing = self.random.sample(self.ids, self.random.randint(0, self.minimum - 1))
        recovery = UncleanRecovery(_TIMEOUT, self.broker_epochs.get)
        registration = PartitionRegistration(tuple(self.ids), (), NO_LEADER, self.epoch, 1)
        late: list[tuple[int, int, ReplicaLogEnd]] = []
        for now in range(200):
            replica = self.random.choice(self.ids)
            chance = self.random.random()
            if losing and chance < 0.3:
                self.lose(losing.pop())
            elif chance < 0.35:
                self.live_anew(replica)
            else:
                late.append((replica, self.broker_epochs[replica], self.end(replica)))
            if late and self.random.random() < 0.7:
                told, epoch, end = self.random.choice(late[-8:])
                recovery.take_in(BrokerIdAndEpoch(told, epoch), [end], now)
            fenced = {id for id in self.ids if self.random.random() < 0.1}
            accepts = set(self.ids).difference(fenced).__contains__
            found = recovery.leader(_WHOSE, registration, self.leader, self.minimum, accepts)
            if found is not None:
                return found
        return None

    def end(self, replica: int) -> ReplicaLogEnd:
        log = self.logs[replica]
        return ReplicaLogEnd(*_WHOSE, self.epoch, log[-1][0] if log else -1, len(log))

    def is_kept(self) -> bool | None:
        """Whether all that is committed is with the elected one; None where none was elected."""
        self.replicate()
        elected = self.recover()
        return None if elected is None else self.logs[elected][: len(self.committed)] == self.committed


def _common(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def test_whoever_is_elected_has_all_that_was_acknowledged() -> None:
    outcomes = [History(seed).is_kept() for seed in range(3000)]
    assert False not in outcomes, f"seed {outcomes.index(False)} loses records"
    assert outcomes.count(True) > 2000, "most come to an end"


# -- planted faults --------------------------------------------------------------------------------------------------


def _any_life(self: UncleanRecovery, replica: int) -> Any:
    return self._reports.get(replica)


def _take_any_life(self: UncleanRecovery, whose: BrokerIdAndEpoch, ends: Any, now: float) -> bool:
    return _TAKE_IN(self, BrokerIdAndEpoch(whose.id, self._broker_epoch(whose.id) or 0), ends, now)


def _by_length(told: dict[int, ReplicaLogEnd], replicas: Any, last: int) -> list[int]:
    return sorted((id for id in replicas if id in told), key=lambda id: told[id].end_offset, reverse=True)


def _shortest_first(told: dict[int, ReplicaLogEnd], replicas: Any, last: int) -> list[int]:
    return _LONGEST_FIRST(told, replicas, last)[::-1]


def _at_once(self: UncleanRecovery, whose: TopicIdPartition, leader_epoch: int) -> bool:
    return True


_TAKE_IN = UncleanRecovery.take_in
_LONGEST_FIRST = UncleanRecovery._longest_first

FAULTS: dict[str, tuple[str, Callable[..., Any]]] = {
    "goes by what an earlier life told": ("_report", _any_life),
    "takes what comes late for the present life's": ("take_in", _take_any_life),
    "takes a longer log of an earlier epoch": ("_longest_first", staticmethod(_by_length)),
    "takes the shortest log": ("_longest_first", staticmethod(_shortest_first)),
    "waits for none of those that were not heard": ("_is_overdue", _at_once),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, instead = FAULTS[fault]
    monkeypatch.setattr(unclean_recovery.UncleanRecovery, name, instead)
    assert any(History(seed).is_kept() is False for seed in range(3000)), f"nothing finds a controller that {fault}"
