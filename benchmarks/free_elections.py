"""Controllers: how many elections does one of ours win that one of Apache Kafka's might as well win.

Three controllers in one quorum, with the same settings and equal logs. The active one is killed or paused; where one of
each software is left, nothing but their own haste decides: a coin would give each a half. No broker runs, and the
quorum writes nothing by itself, so that no voter is behind.
Run: ./run bench free_elections [--rounds N] [--fetch-timeout-ms N] [--election-timeout-ms N]
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from barnabas import AdminClient
from barnabas.admin import QuorumInfo
from barnabas.errors import KafkaError
from benchmarks._options import quorum_options
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.mixed_cluster import BarnabasBroker, MixedCluster

Controller = ApacheKafka | BarnabasBroker
#: An election that one software cannot win, for both who are left are of the other, only makes room for the next.
_ATTEMPTS = 4


class Won(NamedTuple):
    """One free election: whether ours won, in how many epochs, and when that was known, in seconds."""

    by_ours: bool
    epochs: int
    seconds: float


class Quorum:
    """The controllers, and an admin client that asks them itself."""

    def __init__(self, cluster: MixedCluster, admin: AdminClient) -> None:
        self._cluster = cluster
        self._admin = admin

    def leadership(self) -> tuple[int, int]:
        """Return who leads in which epoch, once that can be asked."""
        found = self._described()
        return found.leader_id, found.leader_epoch

    def _described(self) -> QuorumInfo:
        # A controller of Apache Kafka that has just started refuses, for it does not know its level yet.
        deadline = time.monotonic() + 60
        while True:
            try:
                return self._admin.describe_metadata_quorum(timeout=5)
            except KafkaError:
                if time.monotonic() > deadline:
                    raise

    def wait_until_equal(self) -> None:
        """Wait until all voters have what the leader has. Raises `TimeoutError`."""
        deadline = time.monotonic() + 60
        while True:
            ends = {voter.log_end_offset for voter in self._described().voters}
            if len(ends) == 1:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"the voters' logs end at {sorted(ends)}")
            time.sleep(0.1)

    def elect(self, end: Callable[[Controller], Callable[[], object]]) -> Won | None:
        """Put the active controller out, and see who follows; None where both who were left are of one software."""
        self.wait_until_equal()
        leader, epoch = self.leadership()
        others = [node for number, node in self._cluster.controllers.items() if number != leader]
        began = time.perf_counter()
        bring_back = end(self._cluster.controllers[leader])
        while (found := self.leadership())[0] == leader:
            time.sleep(0.01)
        seconds = time.perf_counter() - began
        bring_back()
        if len({type(node) for node in others}) == 1:
            return None
        return Won(isinstance(self._cluster.controllers[found[0]], BarnabasBroker), found[1] - epoch, seconds)


def killed(node: Controller) -> Callable[[], object]:
    """End a process by SIGKILL; what starts it again."""
    node.stop(kill=True)
    return node.start


def paused(node: Controller) -> Callable[[], object]:
    """Stop a process in the middle of what it does; what lets it go on."""
    os.kill(node.pid, signal.SIGSTOP)
    return partial(os.kill, node.pid, signal.SIGCONT)


def measure(
    theirs: int, ours: int, end: Callable[[Controller], Callable[[], object]], rounds: int, settings: dict[str, str]
) -> list[Won]:
    """Return so many free elections, or as many as a limited number of elections gave."""
    cluster = MixedCluster(theirs=0, ours=0, controllers=theirs, our_controllers=ours, settings=settings)
    servers = ",".join(f"127.0.0.1:{node.port}" for node in cluster.controllers.values())
    # A paused controller answers nothing: another one is asked after a second.
    client = {"bootstrap.controllers": servers, "retry.backoff.max.ms": 100, "request.timeout.ms": 1000}
    with cluster, AdminClient(client) as admin:
        quorum, found = Quorum(cluster, admin), list[Won]()
        for _ in range(_ATTEMPTS * rounds):
            won = quorum.elect(end)
            found += [won] if won is not None else []
            if len(found) == rounds:
                break
    return found


def told(found: list[Won]) -> str:
    """Return who won how often, and how soon."""
    parts = [f"barnabas won {sum(one.by_ours for one in found)} of {len(found)}"]
    for name, by_ours in (("barnabas", True), ("Apache Kafka", False)):
        if times := [one.seconds for one in found if one.by_ours is by_ours]:
            parts.append(f"{name} after {statistics.median(times):.2f} s")
    parts.append(f"{sum(one.epochs == 1 for one in found)} in the first epoch")
    return ", ".join(parts)


def main() -> None:
    """Print one line for each mixture and each way to put the active controller out."""
    rounds, settings = quorum_options(__doc__, 10)
    settings["metadata.max.idle.interval.ms"] = "0"
    for end in (killed, paused):
        for theirs, ours in ((2, 1), (1, 2)):
            found = measure(theirs, ours, end, rounds, settings)
            print(f"{theirs} of Apache Kafka and {ours} of ours, active one {end.__name__}: {told(found)}", flush=True)


if __name__ == "__main__":
    main()
