"""The decision log on a running broker."""

from __future__ import annotations

import contextlib
import time

import pytest

from barnabas.errors import KafkaTimeoutError
from barnabas.spark.exactly_once import decision_log
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


def test_decisions_that_cannot_be_read_are_an_error_and_no_wait_for_ever(
    servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = {"bootstrap.servers": servers}
    monkeypatch.setattr(decision_log, "STABLE_TIMEOUT", 0.5)
    with (
        contextlib.closing(DecisionReader(client, "decisions-unread")) as reader,
        contextlib.closing(DecisionWriter(client, "decisions-unread", "unread-driver")) as writer,
    ):
        writer.write("q", Decision(1, "r"))
        # As when the topic vanishes, or its leader stays away, once its end is known.
        monkeypatch.setattr(reader._consumer, "poll", lambda timeout: [])

        with pytest.raises(KafkaTimeoutError, match="could not be read from offset 0 to 2 within"):
            reader.read("q", past=2)
