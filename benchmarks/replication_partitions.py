"""Replication: what does one Fetch of a follower cost, by the number of partitions it follows? No peer.

Both brokers are in this process, without sockets, so what is counted is theirs alone: the follower's part (making the
request, taking the response) and the leader's (a response that finds nothing, and one with a record of one partition).
The leader's share of the background work of logs, once a second, is in the idle one.
Run: ./run bench replication_partitions [--largest N]
"""

from __future__ import annotations

import time

from benchmarks._options import options
from tests.support.replicated_pair import ReplicatedPair

ROUNDS = 200
_FIRST_ROUNDS = 130


class Measured:
    """A pair; `spent` has the CPU seconds of leader and follower."""

    def __init__(self, partitions: int) -> None:
        self.pair = ReplicatedPair(partitions)
        self.pair.settle()

    def cost(self, rounds: int, *, record: bool) -> tuple[float, float]:
        """Microseconds of leader and follower for one Fetch."""
        pair, leader, follower = self.pair, 0.0, 0.0
        for _ in range(rounds):
            begun = time.process_time()
            pair.fetcher.next_deadline()
            request = pair.fetcher.next_request(pair.follower.broker.now)
            asked = time.process_time()
            assert request is not None
            pair.client.request(request, 18)
            # The append itself costs the same with any number of partitions.
            pair.produce() if record else pair.leader.broker.advance(0.5)
            answered = time.process_time()
            pair.answer()
            follower += asked - begun + time.process_time() - answered
            leader += answered - asked
        return leader / rounds * 1e6, follower / rounds * 1e6


def main() -> None:
    """Print one line for each number of partitions."""
    found = options(__doc__, largest=2000, rounds=ROUNDS)
    print("partitions   idle Fetch: leader, follower (us)   with one record: leader, follower (us)   shrink_isrs (us)")
    for partitions in (10, 100, 500, 2000):
        if partitions > found.largest:
            break
        measured = Measured(partitions)
        # The first minute of a broker looks at every log once.
        measured.cost(_FIRST_ROUNDS, record=False)
        idle, busy = measured.cost(found.rounds, record=False), measured.cost(found.rounds, record=True)
        leader = measured.pair.leader
        begun = time.process_time()
        for _ in range(20):
            leader.manager.shrink_isrs(leader.broker.now_ms)
        shrinking = (time.process_time() - begun) / 20 * 1e6
        print(
            f"{partitions:10}   {idle[0]:18.0f} {idle[1]:14.0f}   {busy[0]:23.0f} {busy[1]:14.0f}   {shrinking:16.0f}"
        )


if __name__ == "__main__":
    main()
