"""Which faults are planted in simulated clusters: the tests beside them demand that each is found."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.property.broker.controller.test_controller_histories import FAULTS as CONTROLLER
from tests.property.broker.kraft.test_broker_ends import test_a_planted_fault_is_found as ends_are_found
from tests.property.broker.replication import test_replicated_cluster, test_richer_cluster, test_stormy_cluster
from tests.property.broker.zookeeper.test_controller_histories import test_planted_faults_are_found as zookeepers
from tests.support.raft_faults import FAULTS as RAFT


def parameters(test: Any) -> list[str]:
    """The names of what a test is run with."""
    (mark,) = [mark for mark in test.pytestmark if mark.name == "parametrize"]
    rows: Iterable[Any] = mark.args[1]
    first = [row[0] if isinstance(row, tuple) else row for row in rows]
    return [one if isinstance(one, str) else one.__name__ for one in first]


DATA_PLANE = [
    *(plant.__name__ for plant in (*test_replicated_cluster.PLANTED, *test_richer_cluster.PLANTED)),
    *(name for name in dir(test_stormy_cluster) if name.startswith("test_") and name.endswith("_is_found")),
]
PLANTED = {
    "data plane": DATA_PLANE,
    "quorum": [*RAFT],
    "controller of the quorum": [*CONTROLLER],
    "brokers that end": parameters(ends_are_found),
    "controller on ZooKeeper": parameters(zookeepers),
}
#: What goes wrong in replicated logs by experience, and the fault that stands for it.
FEARED = {
    "truncation by high watermark in place of epochs": ("data plane", "truncate_to_the_high_watermark"),
    "truncation in one round (KIP-279)": ("data plane", "truncate_to_what_the_leader_says_alone"),
    "ISR expanded too early": ("data plane", "expand_the_isr_too_early"),
    "a pending ISR does not count": ("data plane", "forget_a_pending_expansion"),
    "read past the high watermark": ("data plane", "read_past_the_high_watermark"),
    "marker sent to an old leader": ("data plane", "answer_for_a_marker_that_is_not_committed"),
    "acknowledged by a leader that was another's follower": ("data plane", "acknowledge_in_another_leadership"),
    "stale controller goes on": ("controller on ZooKeeper", "go_on_in_another_session"),
    "zkVersion not checked": ("controller on ZooKeeper", "write_without_a_fence"),
    "an election among all replicas": ("controller of the quorum", "elects anybody"),
    "a replica whose end was not clean stays eligible (KIP-966)": (
        "controller of the quorum",
        "keeps who ended uncleanly",
    ),
    "a vote is not on the disk": ("quorum", "the vote is not on the disk"),
}


def test_at_least_thirty_faults_are_planted_in_the_data_plane_alone() -> None:
    assert len(set(DATA_PLANE)) == len(DATA_PLANE)
    assert len(DATA_PLANE) >= 30
    assert sum(map(len, PLANTED.values())) >= 84


@pytest.mark.parametrize("what", sorted(FEARED))
def test_what_is_feared_is_planted(what: str) -> None:
    world, fault = FEARED[what]
    assert fault in PLANTED[world]
