"""The decision log on a running broker."""

from __future__ import annotations

import contextlib
import time

from barnabas.spark.exactly_once.decision import Decision
from barnabas.spark.exactly_once.decision_log import DecisionReader, DecisionWriter

#: Half of the time for which brokers hold a fetch that finds nothing (fetch.max.wait.ms).
MUCH_LESS_THAN_A_HELD_FETCH = 0.25


def test_to_read_again_does_not_wait_for_a_fetch_that_the_broker_holds(servers: str) -> None:
    client = {"bootstrap.servers": servers}
    waited = []
    with (
        contextlib.closing(DecisionReader(client, "decisions-read-again")) as reader,
        contextlib.closing(DecisionWriter(client, "decisions-read-again", "read-again-driver")) as writer,
    ):
        for batch in range(5):
            writer.write("q", Decision(batch, "r"))
            while reader.read("q") != Decision(batch, "r"):
                pass  # Apache Kafka answers before it has written the marker
            started = time.monotonic()
            assert reader.read("q") == Decision(batch, "r")
            waited.append(time.monotonic() - started)

    assert min(waited) < MUCH_LESS_THAN_A_HELD_FETCH
