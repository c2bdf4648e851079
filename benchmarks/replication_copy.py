"""Replication: what does a record cost the follower, beside what it costs the leader? No peer.

Both brokers are in this process, in memory and without sockets. Records of 100 bytes come in batches of so many; each
Fetch brings what five Produce requests wrote. Counted are the leader's appends and answers, and the follower's requests
and appends. The follower is to cost at most what the leader does.
Run: ./run bench replication_copy [--rounds N]
"""

from __future__ import annotations

import time

from benchmarks._options import options
from tests.support.core_broker import batch, produce
from tests.support.replicated_pair import FETCH_VERSION, PRODUCE_VERSION, TOPIC, ReplicatedPair

PRODUCED = 5


def cost(records: int, rounds: int) -> tuple[float, float, float]:
    """Nanoseconds a record for the leader's appends and its answers, and for the follower."""
    pair = ReplicatedPair(1)
    pair.settle()
    data, broker = batch(*[bytes(100)] * records), pair.leader.broker
    spent = [0.0, 0.0, 0.0]
    for _ in range(rounds):
        begun = time.process_time()
        for _ in range(PRODUCED):
            pair.producer.send(produce(TOPIC, data, 0, acks=1), PRODUCE_VERSION)
        broker.node.core.settle(broker.instant)
        appended = time.process_time()
        request = pair.fetcher.next_request(broker.now)
        asked = time.process_time()
        assert request is not None
        pair.client.request(request, FETCH_VERSION)
        answered = time.process_time()
        pair.answer()
        spent[0] += appended - begun
        spent[1] += answered - asked
        spent[2] += asked - appended + time.process_time() - answered
        pair.producer.responses.clear()
    appends, answers, follower = (seconds / (rounds * PRODUCED * records) * 1e9 for seconds in spent)
    return appends, answers, follower


def main() -> None:
    """Print one line for each size of batch."""
    found = options(__doc__, rounds=300)
    print("records a batch   leader: append, answer (ns/record)   follower (ns/record)   follower : leader")
    for records in (1, 10, 100, 1000):
        appends, answers, follower = cost(records, found.rounds)
        ratio = follower / (appends + answers)
        print(f"{records:15}   {appends:14.0f} {answers:12.0f}   {follower:28.0f}   {ratio:17.2f}")


if __name__ == "__main__":
    main()
